"""Requests that backends serve every day, byte for byte: in both modes they pass as they came, and
what enforce refuses for their two readings observe mode foretells with the same words."""

import json

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

POLICY = """\
version: 1
mode: {mode}
unlisted: {{ reads: pass, writes: guard }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], key_header: Shop-Key }}
  based: {{ url: "{other_name}/base", hosts: [ based.test ], connect_timeout: 30s }}
tools:
  orders.read: {{ match: "GET shop /orders/**", effect: read }}
  orders.delete: {{ match: "POST|GET shop /orders/delete", effect: write, undo: none, reason: r }}
  issues.open:
    match: [ "POST shop /projects/{{id}}/issues", "POST shop /projects/{{group}}/{{id}}/issues" ]
    effect: write
    undo: none
    reason: r
  purge: {{ match: "GET shop /purge", effect: write, undo: none, reason: r }}
  refs:
    match: POST shop /refs
    effect: write
    identity: header.X-Ref-Id
    undo: none
    reason: r
"""


def policy(mode, url):
    return POLICY.format(mode=mode, url=url, other_name=url.replace("127.0.0.1", "localhost"))


def body_length(head):
    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
    return int(fields.get(b"content-length", 0))


def echo(port, sock):
    """Answers each request with the bytes that it was, heads and bodies."""
    left = b""
    while (left := port.head(sock, left)) is not None:
        head = port.heads[-1]
        while len(left) < body_length(head):
            left += sock.recv(65536)
        body, left = left[: body_length(head)], left[body_length(head) :]
        said = head + b"\r\n\r\n" + body
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said))
        sock.sendall(said)


@pytest.fixture(scope="module")
def backend():
    with ServedPort(echo) as running:
        yield running


@pytest.fixture(scope="module")
def proxies(backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp
    with (
        Recourse(folder("enforce"), policy("enforce", backend.url)) as enforce,
        Recourse(folder("observe"), policy("observe", backend.url)) as observe,
    ):
        yield {"enforce": enforce, "observe": observe}
        for running in (enforce, observe):
            assert running.stop() == 0, running.stderr()[-4000:]


def ask(proxy, method, target, headers=(), body=b"", host="shop.test"):
    """The answer, and the request as the backend got it: its first line, fields and body."""
    answer = rawhttp.call(proxy.port, method, target, host, headers, body)
    head, _, got = answer.body.partition(b"\r\n\r\n")
    first, *fields = head.decode("latin-1").split("\r\n")
    return answer, first, [tuple(line.split(": ", 1)) for line in fields], got


ORDINARY = [
    "/projects/group%2fname",
    "/@scope%2Fpackage",
    "/api/queues/%2F/q",
    "/bucket/a%3Bb%23c%3Fd",
    "/bucket/a;v=1/b",
    "/bucket/100%25",
    "/bucket/a%252Fb",
    "/bucket//a",
    "//bucket",
    "/bucket/./a",
    "/caf%c3%a9/%7euser",
    "/orders/7//items",
    "/orders/a%2Fb;c",
]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
@pytest.mark.parametrize("target", ORDINARY)
def test_a_path_whose_readings_are_treated_alike_passes_as_it_came(proxies, mode, target):
    for method in ("GET", "POST", "DELETE"):
        answer, first, _, _ = ask(proxies[mode], method, target + "?q=%2f;")
        assert answer.status == 200, answer
        assert first == f"{method} {target}?q=%2f; HTTP/1.1"
    answer, first, _, _ = ask(proxies[mode], "GET", target, host="based.test")
    assert answer.status == 200 and first == f"GET /base{target} HTTP/1.1"


def test_a_write_whose_readings_are_one_tool_is_that_tool(proxies):
    trace = rawhttp.traced("1" * 32)
    target = "/projects/g%2Fn/issues"
    answer, first, _, _ = ask(proxies["enforce"], "POST", target, trace, b"x")
    assert (answer.status, answer.replayed) == (200, False)
    assert first == f"POST {target} HTTP/1.1"
    again, _, _, _ = ask(proxies["enforce"], "POST", target, trace, b"x")
    assert again.replayed
    assert [e["tool"] for e in proxies["enforce"].events_for(target)][:1] == ["issues.open"]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_get_with_a_body_passes(proxies, mode):
    query = b'{"query":{"match_all":{}}}'
    for method in ("GET", "OPTIONS"):
        answer, first, fields, body = ask(proxies[mode], method, "/index/_search", body=query)
        assert answer.status == 200 and body == query, answer
        assert first == f"{method} /index/_search HTTP/1.1"
        # Who looks for no body must not read it as the next request.
        assert ("Connection", "close") in fields


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_no_server_takes_the_body_of_a_get_for_a_request(tmp_path, mode):
    def no_bodies(port, sock):
        left = b""
        while (left := port.head(sock, left)) is not None:
            is_last = b"connection: close" in port.heads[-1].lower()  # the next call adds its own
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            if is_last:
                return

    with ServedPort(no_bodies) as backend:
        with Recourse(tmp_path, policy(mode, backend.url)) as proxy:
            hidden = rawhttp.render("DELETE", "/hidden", "shop.test")
            for target in ("/a", "/purge", "/b"):
                assert rawhttp.call(proxy.port, "GET", target, body=hidden).status == 200
            assert rawhttp.call(proxy.port, "GET", "/c").status == 200
            assert [head.split(b"\r\n")[0] for head in backend.heads] == [
                b"GET %b HTTP/1.1" % target for target in (b"/a", b"/purge", b"/b", b"/c")
            ]


def test_the_body_of_a_get_that_is_a_write_is_among_its_arguments(proxies):
    trace = rawhttp.traced("2" * 32)
    said = [ask(proxies["enforce"], "GET", "/purge", trace, body) for body in (b"a", b"b", b"a")]
    assert [(answer.status, answer.replayed) for answer, *_ in said] == [
        (200, False), (200, False), (200, True),
    ]  # fmt: skip
    assert [body for *_, body in said] == [b"a", b"b", b"a"]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_field_with_an_underscore_that_nobody_reads_passes_as_it_came(proxies, mode):
    mine = [("X_Request_Source", "agent"), ("My_Field", "1"), ("_a", "b"), ("Odd-Mark-2_", "k")]
    for method in ("GET", "POST"):
        answer, _, fields, _ = ask(proxies[mode], method, "/anything", mine, b"x")
        assert answer.status == 200, answer
        assert [field for field in fields if "_" in field[0]] == mine


# Each is refused by enforce; observe mode passes it on and tells why it would be.
TWINS = ["X_Api_Key", "Idempotency_Key", "Shop_Key", "x_ref_id", "X_HTTP_Method_Override",
         "Recourse_Flow", "Content_Type", "X_Forwarded_For", "Mcp_Session_Id"]  # fmt: skip


def why_twin(name):
    twin = name.lower().replace("_", "-")
    return f"in its name, such as '_' or '.', where {twin} is read"


REFUSED = [
    *[("GET", "/twins", [(name, "1")], why_twin(name)) for name in TWINS],
    ("GET", "/orders%2Fdelete", [], "as it is written it is an unlisted read, and to a server that "
     "reads it otherwise tool orders.delete"),
    ("GET", "/orders/..;x/orders/delete", [], "tool orders.delete"),
    ("POST", "/projects/a%2Fb%2Fissues", [], "tool issues.open"),
    ("GET", "/orders/delete.json", [], "the stricter tool orders.delete"),
    ("GET", "/x/../orders/7", [], "tool orders.read"),
    ("GET", "/%2e%2e/x", [], "a dot segment that leads above its root"),
    ("GET", "/a%00b", [], "an escaped control character"),
    ("POST", "/orders/1?_method=DELETE", [], "a call may not override its method or path"),
    ("GET", "/orders/1?_method=DELETE", [], "a call may not override its method or path"),
    ("GET", "/twins", [("X.Api.Key", "1")], "where x-api-key is read"),
    ("GET", "/twins", [("SCRIPT_NAME", "/orders")], "where script-name is read"),
    ("post", "/orders/delete", [], "some servers take post for POST, which is tool orders.delete"),
    ("HEAD", "/orders/delete", [], "this path is a write, which HEAD cannot ask for"),
]  # fmt: skip


LINES_SHOWN = 20


def foretold(proxy, method, reason):
    def found():
        lines = json.loads(proxy.cli("report", "--json").stdout)["refused"]
        return [line for line in lines if line["method"] == method and reason in line["reason"]]

    return wait_until(found, lambda: proxy.cli("report", "--json").stdout)


def count_of(proxy, slug, effect):
    name = f'recourse_refusals_to_come_total{{effect="{effect}",reason="{slug}"}} '
    lines = [l for l in proxy.probe("/metrics")[1].splitlines() if l.startswith(name)]
    return int(float(lines[0].split(" ")[-1])) if lines else 0


@pytest.mark.parametrize(
    "method, target, headers, reason", REFUSED, ids=[f"{m}_{t}_{h}" for m, t, h, _ in REFUSED]
)
def test_observe_mode_foretells_what_enforce_refuses(
    proxies, backend, method, target, headers, reason
):
    refused = rawhttp.call(proxies["enforce"].port, method, target, headers=headers)
    assert refused.status in (400, 405), refused
    if method != "HEAD":
        assert reason in refused.json()["detail"]
    observe = proxies["observe"]
    passed = rawhttp.call(observe.port, method, target, headers=headers)
    assert passed.status == 200, passed
    head = backend.heads[-1].decode("latin-1").split("\r\n")
    assert head[0] == f"{method} {target} HTTP/1.1"
    assert all(f"{name}: {value}" in head for name, value in headers)
    line = foretold(observe, method, reason)[0]
    assert line["backend"] == "shop" and line["calls"] >= 1
    slug = line["reason"].split(":")[0]
    wait_until(lambda: count_of(observe, slug, line["effect"]) >= 1,
               lambda: observe.probe("/metrics")[1])  # fmt: skip
    observe.await_log(
        lambda entry: entry.get("verdict") == "would_refuse" and reason in entry.get("reason", "")
    )
    # The text has the first of them, and says how many more the JSON has.
    listed = json.loads(observe.cli("report", "--json").stdout)["refused"]
    text = observe.cli("report").stdout
    if any(reason in one["reason"] for one in listed[:LINES_SHOWN]):
        assert reason in text
    else:
        assert f"and {len(listed) - LINES_SHOWN} more; --json has them" in text


def test_explain_says_which_refusal_a_request_meets(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(policy("enforce", "http://127.0.0.1:1"))
    for method, target, headers, reason in REFUSED:
        fields = [word for name, value in headers for word in ("--header", f"{name}: {value}")]
        call = f"{method} http://shop.test{target}"
        done = run_cli("policy", "explain", path, call, *fields)
        assert reason in " ".join(done.stdout.split()), (method, target, done.stdout, done.stderr)
    for target in ORDINARY:
        done = run_cli("policy", "explain", path, f"GET http://shop.test{target}")
        assert "refused" not in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["Content_Length", "Transfer_Encoding", "CONTENT_LENGTH"])
def test_a_twin_of_the_framing_passes_in_no_mode(proxies, name):
    for proxy in proxies.values():
        answer = rawhttp.call(proxy.port, "POST", "/x", headers=[(name, "3")], body=b"abc")
        assert answer.status == 400 and "framing" in answer.json()["detail"]


FORGE = """\
version: 1
backends:
  forge: {{ url: "{url}", hosts: [ shop.test ], escaped_slash: kept }}
tools:
  projects.add:
    match: PUT forge /projects/{{id}}
    effect: write
    undo: {{ request: "DELETE /projects/{{path.id}}" }}
"""


def test_an_escaped_slash_in_a_capture_comes_back_escaped_in_the_undo(tmp_path, backend):
    with Recourse(tmp_path, FORGE.format(url=backend.url)) as proxy:
        trace = "5" * 32
        target = "/projects/group%2Fname"
        answer, first, _, _ = ask(proxy, "PUT", target, rawhttp.traced(trace))
        assert answer.status == 200 and first == f"PUT {target} HTTP/1.1"
        cancelled = proxy.cli("flows", "cancel", trace, "--reason", "test")
        assert cancelled.returncode == 0, cancelled.stderr
        proxy.await_phase(target, "COMPENSATED")
        assert backend.heads[-1].startswith(b"DELETE /projects/group%2Fname HTTP/1.1\r\n")
        seen = len(backend.heads)
        for other in ("..%2Fname", "group%2F..", "a%2F..%2Fb", "a%2F%2E%2E", "a%2F..;x", "%2Fa"):
            refused = rawhttp.call(proxy.port, "PUT", f"/projects/{other}")
            assert refused.status == 400, (other, refused)
            assert refused.json()["outcome"] == "not_executed"
        assert len(backend.heads) == seen
