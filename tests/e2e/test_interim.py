"""Interim answers, expectations, early answers, and what a request asks of the proxy itself."""

import threading

import pytest

from support import rawhttp
from support.double import ServedPort
from support.policies import standard
from support.recourse import Recourse
from support.waiting import lasts

OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HINTS = (
    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n"
    "Connection: X-Hop\r\nX-Hop: 1\r\n\r\n"
)
PROCESSING = "HTTP/1.1 102 Processing\r\n\r\n"
CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"


def interim_heads(connection):
    """The (status, headers) of every head up to the final one."""
    heads = []
    while not heads or heads[-1][0] < 200:
        status, _, _, headers = connection.head()
        heads.append((status, headers))
    return heads


def test_interim_answers_pass_before_the_answer_to_a_read(proxy, double, token):
    """Each one when it comes; 100 is the answer to what we asked ourselves, and stays here."""
    path = f"/read/{token}"
    steps = ["read", {"send": CONTINUE + HINTS}, {"gate": token}, {"send": PROCESSING + OK}]
    double.script("GET", path, steps, 1)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        status, _, _, headers = connection.head()
        assert (status, headers) == (103, [("Link", "</a.css>; rel=preload")])
        double.open_gate(token)
        assert connection.head()[0] == 102
        assert connection.response().body == b"ok"
        connection.send(rawhttp.render("GET", path, "shop.test"))
        assert connection.response().status == 200


def test_an_http_1_0_client_gets_no_interim_answer(proxy, double, token):
    path = f"/read/{token}"
    double.script("GET", path, ["read", {"send": HINTS + PROCESSING + OK}], 1)
    data = rawhttp.exchange(proxy.port, f"GET {path} HTTP/1.0\r\nHost: shop.test\r\n\r\n".encode())
    assert rawhttp.statuses(data) == [200]


def test_interim_answers_come_while_the_body_is_still_sent(proxy, double):
    """The body's own deadline and the interim answer do not disturb each other."""
    double.script("POST", "/read/upload", [{"send": HINTS}, "read", {"send": OK}], 1)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(
            rawhttp.render("POST", "/read/upload", "shop.test", {"Content-Length": 6}, length=False)
        )
        connection.send(b"abc")
        assert connection.head()[0] == 103
        connection.send(b"def")
        assert connection.response("POST").body == b"ok"


LARGE_HINT = "HTTP/1.1 103 Early Hints\r\n" + "".join(
    f"Link-{n}: {'x' * 1000}\r\n" for n in range(8)
)
FLOODS = {
    "many": (PROCESSING * 17, PROCESSING * 16),
    "of_100": (CONTINUE * 17, CONTINUE * 16),
    "large": ((LARGE_HINT + "\r\n") * 9, (LARGE_HINT + "\r\n") * 7),
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("lane", ["read", "write"])
def test_interim_answers_are_bounded_in_number_and_size(proxy, double, token, lane, name):
    flood, bearable = FLOODS[name]
    method, kind = ("GET", "read") if lane == "read" else ("POST", "plain")
    for which, text in (("flood", flood), ("bearable", bearable)):
        path = f"/{kind}/{token}-{which}"
        double.script(method, path, ["read", {"send": text + OK}], 1)
        answer = rawhttp.call(proxy.port, method, path)
        assert answer.status == (502 if which == "flood" else 200), (which, answer)
        if which == "flood" and lane == "write":
            assert answer.json()["outcome"] == "unknown"
        if lane == "write":
            assert answer.interim == []


@pytest.mark.parametrize("lane", ["read", "write"])
def test_a_switch_of_protocols_that_nobody_asked_for_ends_the_call(proxy, double, token, lane):
    method, kind = ("GET", "read") if lane == "read" else ("POST", "plain")
    path = f"/{kind}/{token}"
    switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
    double.script(method, path, ["read", {"send": switch}, "until_closed"], 1)
    answer = rawhttp.call(proxy.port, method, path)
    assert answer.status == 502
    assert answer.json()["outcome"] == ("not_executed" if lane == "read" else "unknown")
    if lane == "write":
        assert proxy.events_for(path)[-1]["phase"] == "UNCERTAIN"


EXPECT = ("Expect", "100-continue")


@pytest.mark.parametrize("lane", ["read", "write"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_that_has_begun_is_not_asked_for(proxy, double, token, lane, framing):
    path = "/read/upload" if lane == "read" else f"/plain/{token}"
    field = ("Content-Length", 6) if framing == "length" else ("Transfer-Encoding", "chunked")
    begun, rest = (b"abc", b"def") if framing == "length" else (b"6\r", b"\nabcdef\r\n0\r\n\r\n")
    with rawhttp.Connection(proxy.port) as connection:
        head = rawhttp.render("POST", path, "shop.test", [field, EXPECT], length=False)
        connection.send(head + begun)
        if lane == "write":
            lasts(0.05)  # late on purpose: that nobody asks for the rest is seen in time only
        connection.send(rest)
        answer = connection.response("POST")
        assert answer.status in (200, 201) and answer.interim == []


@pytest.mark.parametrize("lane", ["read", "write"])
def test_an_expectation_of_http_1_0_or_without_a_body_is_ignored(proxy, token, lane):
    path = "/read/upload" if lane == "read" else f"/plain/{token}"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("POST", path, "shop.test", [EXPECT]))
        answer = connection.response("POST")
        assert answer.status in (200, 201) and answer.interim == []
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(
            f"POST {path}0 HTTP/1.0\r\nHost: shop.test\r\nExpect: 100-continue\r\n"
            "Content-Length: 3\r\n\r\n".replace("upload0", "upload").encode()
        )
        connection.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.fill()
        connection.socket.settimeout(rawhttp.TIMEOUT)
        connection.send(b"abc")
        answer = connection.response("POST")
        assert answer.status in (200, 201) and answer.interim == []


def test_a_read_is_asked_for_its_body_too(proxy, double):
    with rawhttp.Connection(proxy.port) as connection:
        fields = [("Content-Length", 3), EXPECT]
        connection.send(
            rawhttp.render("POST", "/read/upload", "shop.test", fields, length=False)
        )
        assert connection.head()[0] == 100
        connection.send(b"abc")
        assert connection.response("POST").status == 200
    seen = double.requests("/read/upload")[-1]
    assert "expect" not in [name.lower() for name, _ in seen["headers"]]


REFUSED = [
    ("another_host", "POST", "/plain/x", "elsewhere.test", [("Content-Length", 3)], 403),
    ("too_large", "POST", "/plain/x", "shop.test", [("Content-Length", 10 << 30)], 413),
    ("two_readings", "POST", "/x/../plain/a", "shop.test", [("Content-Length", 3)], 400),
    ("method", "TRACE", "/plain/x", "shop.test", [("Content-Length", 3)], 405),
    ("coding", "POST", "/plain/x", "shop.test", [("Transfer-Encoding", "gzip")], 501),
]


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_a_refused_call_is_never_asked_for_its_body(proxy, row):
    """Also D05: ten declared GiB are refused before one byte is read."""
    _, method, target, host, fields, status = row
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render(method, target, host, [*fields, EXPECT], length=False))
        answer = connection.response(method)
        assert (answer.status, answer.interim) == (status, [])
        assert connection.at_end()


def test_a_refusal_reaches_a_client_that_sends_on(proxy):
    """It sends half as much again as may be sent, and reads only then."""
    with rawhttp.Connection(proxy.port) as connection:
        size = 12 << 20
        fields = {"Content-Length": size}
        connection.send(rawhttp.render("POST", "/plain/x", "shop.test", fields, length=False))
        connection.send_as_far_as_taken(b"a" * size)
        assert connection.response("POST").status == 413
        assert connection.at_end()


# What a backend does that answers before it has read the body, and what its caller is told.
EARLY = {
    "413": ("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", 413),
    "200": (OK, 200),
}


@pytest.mark.parametrize("name", EARLY)
@pytest.mark.parametrize("lane", ["read", "write"])
def test_c5_an_answer_before_the_body_is_the_answer(tmp_path, lane, name):
    """The backend reads nothing of the body and closes; its answer is not lost in the reset."""
    text, status = EARLY[name]
    served = []

    def serve(port, sock):
        if port.head(sock, most=1) is not None:
            served.append(1)
            sock.sendall(text.encode())
            port.stopped.wait(1)

    policy = (
        'version: 1\nbackends:\n  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 60s }}\n'
        "tools:\n  search: {{ match: POST shop /search, effect: read }}\n"
    )
    with (
        ServedPort(serve, receive_buffer=4096) as port,
        Recourse(tmp_path, policy.format(url=port.url)) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        path = "/search" if lane == "read" else "/plain"
        trace = rawhttp.traced("4bf92f3577b34da6a3ce929d0e0e4736")
        fields = {"Content-Length": 7 << 20, **trace}
        connection.send(rawhttp.render("POST", path, "shop.test", fields, length=False))
        connection.send_as_far_as_taken(b"a" * (7 << 20))
        answer = connection.response("POST")
        assert answer.status == status, answer
        assert len(served) == 1
        if lane == "write":
            repeat = rawhttp.call(
                running.port, "POST", path, headers=trace, body=b"a" * (7 << 20)
            )
            # A 413 proves that nothing happened, and is made anew.
            is_kept = status == 200
            assert (repeat.status, repeat.replayed) == (status, is_kept)
            assert len(served) == (1 if is_kept else 2)


def options(port, target="*", *lines, host="shop.test"):
    return rawhttp.call(port, "OPTIONS", target, host, [line.split(": ") for line in lines])


@pytest.mark.parametrize("target", ["*", "http://shop.test"])
def test_h58_options_of_the_server_is_answered_here(proxy, double, target):
    with rawhttp.Connection(proxy.port) as connection:
        for _ in range(2):
            connection.send(rawhttp.render("OPTIONS", target, "shop.test"))
            answer = connection.response("OPTIONS")
            assert answer.status == 204 and "GET" in answer.header("Allow")
    assert double.requests("*") == []


def test_max_forwards_counts_down_and_ends_here(proxy, double, token):
    path = f"/read/{token}"
    assert options(proxy.port, path, "Max-Forwards: 0").status == 204
    assert double.requests(path) == []
    for sent, passed in (("10", "9"), ("1", "0")):
        assert options(proxy.port, path, f"Max-Forwards: {sent}").status == 200
        headers = double.requests(path)[-1]["headers"]
        assert [v for n, v in headers if n == "Max-Forwards"] == [passed]
    for bad in ("-1", "x", "", "1, 1", "99999999999"):
        assert options(proxy.port, path, f"Max-Forwards: {bad}").status == 400
    assert options(proxy.port, path, "Max-Forwards: 3", "Max-Forwards: 3").status == 400
    # It means something for OPTIONS and TRACE alone.
    assert rawhttp.call(proxy.port, "GET", path, headers={"Max-Forwards": "0"}).status == 200


def test_max_forwards_ends_here_also_where_options_is_a_write(double, tmp_path, token):
    """It is we who are asked then, so nothing is remembered and nothing sent."""
    tool = (
        "  asked: { match: \"OPTIONS shop /asked/{t}\", effect: write, undo: none, reason: x }\n"
    )
    path = f"/asked/{token}"
    with Recourse(tmp_path, standard(double, extra_tools=tool)) as running:
        assert options(running.port, path, "Max-Forwards: 0").status == 204
        answer = rawhttp.call(running.port, "TRACE", path, headers={"Max-Forwards": "0"})
        assert answer.status == 405 and "TRACE" not in answer.header("Allow")
        assert double.requests(path) == [] and running.events_for(path) == []
        assert options(running.port, path, "Max-Forwards: 1").outcome == "executed"
        assert len(double.requests(path)) == 1


@pytest.mark.parametrize("method", ["TRACE", "TRACK", "DEBUG"])
def test_m26_what_is_refused_names_what_is_not(proxy, double, token, method):
    answer = rawhttp.call(proxy.port, method, f"/read/{token}")
    assert answer.status == 405 and "GET" in answer.header("Allow")
    assert double.requests(f"/read/{token}") == []


@pytest.mark.parametrize("lane", ["read", "write"])
def test_h3_the_authority_of_an_absolute_target_wins_over_host(proxy, double, token, lane):
    method, kind = ("GET", "read") if lane == "read" else ("POST", "plain")
    path = f"/{kind}/{token}"
    for target, host, status in (
        (f"http://elsewhere.test{path}", "shop.test", 403),
        (f"http://shop.test{path}", "elsewhere.test", 200 if lane == "read" else 201),
    ):
        answer = rawhttp.call(proxy.port, method, target, host)
        assert answer.status == status
    (seen,) = double.requests(path)
    assert seen["target"] == path
    assert [v for n, v in seen["headers"] if n == "Host"] == [f"127.0.0.1:{double.port}"]
    for wanted in (403, status):
        proxy.await_log(lambda line: line.get("host_differs") and line["status"] == wanted)


M25 = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ] }}
tools:
  legacy.delete: {{ match: GET shop /delete, effect: write, undo: none, reason: a test }}
  any: {{ match: "* shop /any", effect: write, undo: none, reason: a test }}
  create: {{ match: POST shop /create, effect: write, undo: none, reason: a test }}
"""


def test_m25_a_question_about_a_write_never_runs_it(double, tmp_path):
    """HEAD of a GET that is a write, and a preflight of a tool for every method, stay here."""
    with Recourse(tmp_path, M25.format(url=double.url)) as running:
        answer = rawhttp.call(running.port, "HEAD", "/delete")
        assert answer.status == 405 and answer.header("Allow") == "GET"
        assert rawhttp.call(running.port, "HEAD", "/any").status == 405
        preflight = {"Origin": "http://a", "Access-Control-Request-Method": "POST"}
        answer = rawhttp.call(running.port, "OPTIONS", "/any", headers=preflight)
        assert answer.status == 204 and "POST" in answer.header("Allow")
        assert not double.requests("/delete") and not double.requests("/any")
        # Beside a POST, GET, HEAD and OPTIONS are reads as everywhere.
        assert rawhttp.call(running.port, "HEAD", "/create").status == 200
        assert rawhttp.call(running.port, "OPTIONS", "/create").status == 200
        assert rawhttp.call(running.port, "GET", "/delete").outcome == "executed"


def test_m26_a_method_that_nobody_listed_is_a_guarded_write(proxy, double, token):
    path = f"/dav/{token}"
    for _ in range(2):
        answer = rawhttp.call(proxy.port, "PROPFIND", path, headers=rawhttp.traced("ab" * 16))
        assert answer.outcome == "executed"
    assert len(double.requests(path)) == 1


def forward(target_port):
    """A relay that hides whose port it leads to."""

    def serve(port, sock):
        with rawhttp.Connection(target_port) as other:

            def back():
                while data := other.socket.recv(1 << 16):
                    sock.sendall(data)

            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            while data := sock.recv(1 << 16):
                other.send(data)
            other.finish_sending()
            thread.join(rawhttp.TIMEOUT)

    return serve


CHAIN = 'version: 1\nbackends:\n  shop: {{ url: "{url}", hosts: [ shop.test ] }}\n'


def test_two_in_a_row_work(double, tmp_path, token):
    named = CHAIN.replace("shop.test", "127.0.0.1")  # so the outer one calls it
    with Recourse(tmp_path / "inner", named.format(url=double.url)) as inner:
        inner_url = f"http://127.0.0.1:{inner.port}"
        with Recourse(tmp_path / "outer", CHAIN.format(url=inner_url)) as outer:
            read, write = f"/read/{token}", f"/plain/{token}"
            answer = rawhttp.call(outer.port, "GET", read, headers={"Via": "1.0 elsewhere"})
            assert answer.status == 200
            via = [v for n, v in answer.json()["headers"] if n == "Via"]
            assert len(via) == 3 and via[0] == "1.0 elsewhere" and via[1] != via[2]
            assert answer.header("Via") is None
            fields = rawhttp.traced("4bf92f3577b34da6a3ce929d0e0e4736")
            first = rawhttp.call(outer.port, "POST", write, headers=fields, body={"a": 1})
            again = rawhttp.call(outer.port, "POST", write, headers=fields, body={"a": 1})
            assert first.status == again.status == 201 and first.body == again.body
            assert len(double.effects(write)) == 1
            assert len(inner.events_for(write)) == 2


def test_h7_a_loop_under_another_name_ends(tmp_path):
    """A port that leads back here is not one of our listeners: Via shows it."""
    running = Recourse(tmp_path, "")
    with ServedPort(lambda port, sock: forward(running.port)(port, sock)) as port:
        policy = CHAIN.replace("[ shop.test ]", "[ shop.test, 127.0.0.1 ]")
        running.policy_path.write_text(policy.format(url=port.url))
        with running:
            answer = rawhttp.call(running.port, "GET", "/a")
            assert answer.status == 508
            assert "proxy_loop_detected" in answer.header("Proxy-Status")
            assert rawhttp.call(running.port, "POST", "/a", body=b"x").status in (502, 508)
            assert len(running.await_log(lambda line: True, 4)) == 4
