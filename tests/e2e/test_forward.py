"""Forward mode: what agents get that have Recourse as their HTTP proxy, on the wire."""

import os
import ssl
import threading

import pytest

from support import rawhttp
from support.certificates import Maker
from support.double import RefusedPort, ServedPort
from support.forward import (
    TRACE, await_metric, connect, hello, metric, policy, post, refusal, split,
)  # fmt: skip
from support.recourse import Recourse
from support.secure import server_context


def echo(port, sock):
    while data := sock.recv(1 << 16):
        sock.sendall(data)


def greet(port, sock):
    """Speaks first, as a mail server does."""
    sock.sendall(b"220 ready\r\n")
    echo(port, sock)


@pytest.fixture(scope="module")
def ends():
    """(echo, greeter, a port that refuses)"""
    refused = RefusedPort()
    with ServedPort(echo) as echoing, ServedPort(greet) as greeting:
        yield echoing, greeting, refused
    refused.stop()


@pytest.fixture(scope="module")
def proxy(double, ends, tmp_path_factory):
    ports = [end.port for end in ends]
    patient = ["--head-timeout", "10m"]
    with Recourse(tmp_path_factory.mktemp("recourse"), policy(double, *ports), patient) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.stop() == 0, running.stderr()[-4000:]


# Requests in a tunnel to a backend.


def test_requests_in_a_tunnel_are_served_as_in_reverse_mode(proxy, double, token):
    with rawhttp.Connection(proxy.port) as connection:
        status, fields = connect(connection, "shop.test:80")
        assert status == 200
        assert "content-length" not in fields and "transfer-encoding" not in fields
        for attempt in range(3):
            connection.send(post(token))
            answer = connection.response("POST")
            assert (answer.status, answer.replayed) == (201, attempt > 0)
        connection.send(rawhttp.render("GET", f"/read/{token}", "shop.test:80"))
        assert connection.response().status == 200
    assert len(double.requests(f"/plain/{token}")) == 1
    (line,) = proxy.await_log(
        lambda line: line["method"] == "CONNECT" and line.get("decision") == "served"
        and line["status"] == 200, 1)[-1:]  # fmt: skip
    assert line["authority"] == "shop.test:80"


def test_identity_is_the_same_in_every_mode(proxy, double, token):
    keys = set()
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, "shop.test:80")[0] == 200
        connection.send(post(token))
        keys.add(connection.response("POST").header("Idempotency-Key"))
    for target in (f"/plain/{token}", f"http://shop.test/plain/{token}"):
        answer = rawhttp.call(
            proxy.port, "POST", target, body={"n": 1}, headers=rawhttp.traced(TRACE)
        )
        assert answer.replayed
        keys.add(answer.header("Idempotency-Key"))
    # The backend's own address is one of its names.
    with rawhttp.Connection(proxy.port) as connection:
        address = double.url.removeprefix("http://")
        assert connect(connection, address)[0] == 200
        connection.send(post(token, host=address))
        assert connection.response("POST").replayed
    assert len(keys) == 1 and len(double.requests(f"/plain/{token}")) == 1


def test_bytes_behind_the_connect_are_the_first_of_the_tunnel(proxy, double, token):
    with rawhttp.Connection(proxy.port) as connection:
        both = post(token) + rawhttp.render("GET", f"/read/{token}", "shop.test")
        assert connect(connection, "shop.test:80", more=both)[0] == 200
        assert connection.response("POST").status == 201
        assert connection.response().status == 200


def test_requests_may_come_byte_by_byte(proxy, token):
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, "shop.test:80", version="1.0")[0] == 200
        for byte in b"\r\n" + post(token):
            connection.send(bytes([byte]))
        assert connection.response("POST").status == 201


def test_a_repeat_joins_the_running_call_across_modes(proxy, double, token):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", {"gate": token}, "answer"], times=1)
    with rawhttp.Connection(proxy.port) as one, rawhttp.Connection(proxy.port) as two:
        assert connect(one, "shop.test:80")[0] == 200
        one.send(post(token))
        double.await_requests("POST", path)
        two.send(post(token))
        double.open_gate(token)
        answers = [one.response("POST"), two.response("POST")]
    assert {answer.status for answer in answers} == {201}
    assert answers[0].body == answers[1].body and len(double.requests(path)) == 1


def test_a_kill_between_tunnelled_repeats_runs_nothing_twice(double, token, tmp_path):
    path = f"/plain/{token}"
    with Recourse(tmp_path, policy(double)) as running:
        with rawhttp.Connection(running.port) as connection:
            assert connect(connection, "shop.test:80")[0] == 200
            connection.send(post(token))
            first = connection.response("POST")
        running.kill()
        running.start()
        with rawhttp.Connection(running.port) as connection:
            assert connect(connection, "shop.test:80")[0] == 200
            connection.send(post(token))
            again = connection.response("POST")
        assert (first.status, again.status, again.replayed) == (201, 201, True)
        assert first.body == again.body and len(double.requests(path)) == 1


def test_a_kill_in_the_middle_of_a_tunnelled_call_runs_nothing_twice(double, token, tmp_path):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", {"gate": token}, "answer"])
    with Recourse(tmp_path, policy(double)) as running:
        with rawhttp.Connection(running.port) as connection:
            assert connect(connection, "shop.test:80")[0] == 200
            connection.send(post(token))
            double.await_effects(path)
            running.kill()
            assert connection.at_end()
        double.open_gate(token)
        running.start()
        answer = rawhttp.call(
            running.port, "POST", path, body={"n": 1}, headers=rawhttp.traced(TRACE)
        )
        assert (answer.status, answer.outcome) == (409, "unknown")
    assert len(double.requests(path)) == len(double.effects(path)) == 1


@pytest.mark.parametrize(
    "target, host",
    [
        ("{path}", "pay.test"),
        ("{path}", "shop.test:81"),
        ("http://pay.test{path}", "shop.test"),
        ("https://shop.test{path}", "shop.test"),
    ],
)
def test_a_request_for_another_host_than_its_tunnel_is_refused(proxy, double, token, target, host):
    path = f"/plain/{token}"
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, "shop.test:80")[0] == 200
        connection.send(rawhttp.render("POST", target.format(path=path), host, body=b"{}"))
        answer = connection.response("POST")
        assert answer.status == 421 and answer.json()["type"].endswith("misdirected")
    assert double.requests(path) == []


def test_a_tunnel_inside_a_tunnel_is_refused(proxy):
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, "shop.test:80")[0] == 200
        assert connect(connection, "shop.test:80")[0] == 405


@pytest.mark.parametrize("garbage", [b"SSH-2.0-x\r\n\r\n", b"\x00\x01\x02\x03", b"*1\r\n$4\r\n"])
def test_what_is_neither_http_nor_tls_is_told_so(proxy, garbage):
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, "shop.test:80", more=garbage)[0] == 200
        assert connection.response().status == 400
        assert connection.at_end()


@pytest.mark.parametrize("pieces", ["whole", "split", "bytes"])
def test_tls_to_a_backend_is_refused_in_its_own_words(proxy, pieces):
    data = split(hello("shop.test"), 30) if pieces == "split" else hello("shop.test")
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, "shop.test:80")[0] == 200
        if pieces == "bytes":
            for byte in data:
                connection.send(bytes([byte]))
        else:
            connection.send(data)
        assert connection.exactly(7) == b"\x15\x03\x01\x00\x02\x02\x31"
        assert connection.at_end()
    proxy.await_log(
        lambda line: line.get("sni") == "shop.test" and line.get("decision") == "refused"
        and line.get("error") == "tunnel-refused"
    )  # fmt: skip


# Absolute form, which needs no tunnel.


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_absolute_url_goes_to_the_backend_of_its_host(proxy, double, token, scheme):
    """The policy's url says how the backend is spoken to, whatever scheme the agent uses."""
    answer = rawhttp.call(proxy.port, "GET", f"{scheme}://shop.test/read/{token}", "shop.test")
    assert answer.status == 200 and len(double.requests(f"/read/{token}")) == 1
    answer = rawhttp.call(proxy.port, "GET", f"{scheme}://elsewhere.test/", "elsewhere.test")
    assert answer.status == 403 and answer.json()["type"].endswith("unknown-backend")


# What is refused at once.


def test_a_connect_that_has_passed_here_is_a_loop(proxy, double, token):
    assert rawhttp.call(proxy.port, "GET", f"/read/{token}").status == 200
    (seen,) = double.requests(f"/read/{token}")
    (via,) = [value for name, value in seen["headers"] if name == "Via"]
    status, problem = refusal(proxy, "shop.test:80", fields=f"Via: 1.1 other, {via}\r\n")
    assert status == 508 and problem["type"].endswith("loop")


def test_tls_to_an_https_backend_is_refused_with_the_way_out(proxy):
    status, problem = refusal(proxy, "pay.test:443")
    assert status == 403 and "call http://pay.test through the proxy" in problem["detail"]


def test_an_unlisted_host_is_refused_and_the_policy_word_named(proxy):
    before = metric(proxy, "recourse_tunnels_total", by="connect", decision="refused")
    status, problem = refusal(proxy, "elsewhere.test:443")
    assert status == 403 and 'add "elsewhere.test:443" to `tunnels`' in problem["detail"]
    assert problem["type"].endswith("tunnel-refused")
    await_metric(
        proxy, before + 1, "recourse_tunnels_total", by="connect", decision="refused"
    )
    proxy.await_log(lambda line: line.get("authority") == "elsewhere.test:443"
                    and line["method"] == "CONNECT" and line["decision"] == "refused")  # fmt: skip


@pytest.mark.parametrize("port", ["listen", "admin", "probes"])
def test_our_own_listeners_are_no_end_of_a_tunnel(double, tmp_path, port):
    """Not even when the policy lists them."""
    with Recourse(tmp_path, policy(double)) as running:
        own = running.ports[port]
        assert refusal(running, f"127.0.0.1:{own}")[0] == 403
        running.policy_path.write_text(policy(double, own))
        assert running.cli("policy", "reload").returncode == 0
        status, problem = refusal(running, f"127.0.0.1:{own}")
        assert status == 508, problem


@pytest.mark.parametrize(
    "target", ["shop.test", "shop.test:", "shop.test:0", "shop.test:65536", "2130706433:80",
               "0x7f.1:80", "user@shop.test:80", "http://shop.test:80", "/", "[::1]", "a b:80"],
)  # fmt: skip
def test_a_connect_needs_a_host_and_a_port(proxy, target):
    data = f"CONNECT {target} HTTP/1.1\r\nHost: shop.test\r\n\r\n".encode()
    assert rawhttp.statuses(rawhttp.exchange(proxy.port, data)) == [400]


@pytest.mark.parametrize("fields, body", [
    ("Content-Length: 2\r\n", b"{}"), ("Transfer-Encoding: chunked\r\n", b"0\r\n\r\n")])
def test_a_connect_has_no_body(proxy, fields, body):
    status, _ = refusal(proxy, "shop.test:80", fields=fields, more=body)
    assert status == 400


def test_what_follows_a_refused_connect_is_not_read_as_requests(proxy, double, token):
    data = b"CONNECT elsewhere.test:80 HTTP/1.1\r\nHost: elsewhere.test:80\r\n\r\n" + post(token)
    assert rawhttp.statuses(rawhttp.exchange(proxy.port, data)) == [403]
    assert double.requests(f"/plain/{token}") == []


def test_an_end_that_cannot_be_reached_is_told(proxy, ends):
    status, problem = refusal(proxy, f"127.0.0.1:{ends[2].port}")
    assert status == 503 and problem["type"].endswith("not-sent")


# Blind tunnels.


def test_a_listed_host_gets_a_tunnel_for_any_bytes(proxy, ends):
    port = ends[0].port
    before = metric(proxy, "recourse_tunnel_bytes_total", to="backend")
    with rawhttp.Connection(proxy.port) as connection:
        first = b"\x00\xff POST / HTTP/1.1\r\n\r\n"
        status, fields = connect(connection, f"127.0.0.1:{port}", more=first)
        assert status == 200
        assert connection.exactly(len(first)) == first
        assert metric(proxy, "recourse_tunnels") >= 1
        data = os.urandom(3 << 20)
        sender = threading.Thread(target=connection.send, args=(data,))
        sender.start()
        assert connection.exactly(len(data)) == data
        sender.join()
        connection.finish_sending()
        assert connection.at_end()
    (line,) = proxy.await_log(
        lambda line: line.get("authority") == f"127.0.0.1:{port}" and line["bytes_in"] > 3 << 20
    )
    assert line["decision"] == "opened" and line["bytes_out"] == len(first) + len(data)
    await_metric(
        proxy, before + len(first) + len(data), "recourse_tunnel_bytes_total", to="backend"
    )


def test_a_server_may_speak_first(proxy, ends):
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, f"127.0.0.1:{ends[1].port}")[0] == 200
        assert connection.exactly(11) == b"220 ready\r\n"
        connection.send(b"EHLO a\r\n")
        assert connection.exactly(8) == b"EHLO a\r\n"


@pytest.mark.parametrize("pieces", ["whole", "split", "bytes"])
def test_tls_for_another_name_than_the_tunnels_is_cut_off(proxy, ends, pieces):
    """However its ClientHello comes, and however late: nothing of it reaches the other end."""
    port = ends[1].port
    data = split(hello("pay.test"), 40) if pieces == "split" else hello("pay.test")
    before = metric(proxy, "recourse_tunnels_total", by="connect", decision="refused")
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, f"127.0.0.1:{port}")[0] == 200
        assert connection.exactly(11) == b"220 ready\r\n"
        if pieces == "bytes":
            for byte in data:
                connection.send_as_far_as_taken(bytes([byte]))
        else:
            connection.send(data)
        assert connection.at_end()
    proxy.await_log(lambda line: line.get("sni") == "pay.test"
                    and line.get("error") == "tunnel-refused")  # fmt: skip
    await_metric(
        proxy, before + 1, "recourse_tunnels_total", by="connect", decision="refused"
    )


def test_one_side_may_have_said_all(ends, double, tmp_path):
    """A half-closed tunnel still carries the answer."""

    def answer_at_the_end(port, sock):
        received = b""
        while data := sock.recv(1 << 16):
            received += data
        sock.sendall(b"got " + received)

    with (
        ServedPort(answer_at_the_end) as end,
        Recourse(tmp_path, policy(double, end.port)) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        assert connect(connection, f"127.0.0.1:{end.port}")[0] == 200
        connection.send(b"all of it")
        connection.finish_sending()
        assert connection.exactly(13) == b"got all of it"
        assert connection.at_end()


def test_a_silent_tunnel_ends(ends, double, tmp_path):
    arguments = ["--stream-timeout", "1s"]
    with Recourse(tmp_path, policy(double, ends[0].port), arguments) as running:
        with rawhttp.Connection(running.port) as connection:
            assert connect(connection, f"127.0.0.1:{ends[0].port}")[0] == 200
            assert connection.at_end()
        await_metric(running, 0, "recourse_tunnels")


def test_a_drain_ends_quiet_tunnels_and_opens_no_more(ends, double, tmp_path):
    with Recourse(tmp_path, policy(double, ends[0].port)) as running:
        with rawhttp.Connection(running.port) as connection, \
                rawhttp.Connection(running.port) as late:  # fmt: skip
            assert connect(connection, f"127.0.0.1:{ends[0].port}")[0] == 200
            connection.send(b"x")
            assert connection.exactly(1) == b"x"
            assert running.cli("drain").returncode == 0
            late.send(b"CONNECT shop.test:80 HTTP/1.1\r\nHost: shop.test:80\r\n\r\n")
            assert late.at_end() or rawhttp.statuses(late.buffer) == [503]
            running.terminate()
            assert connection.at_end()
        assert running.wait() == 0, running.stderr()


def test_observe_mode_tunnels_and_says_what_it_would_refuse(ends, double, token, tmp_path):
    """TLS to a backend goes through, and is reported."""
    maker = Maker(tmp_path / "ca")
    identity = maker.issue("tls")
    context = server_context(identity)

    def serve(port, sock):
        with context.wrap_socket(sock, server_side=True) as secure:
            secure.sendall(secure.recv(100))

    with ServedPort(serve) as end:
        text = f"""\
version: 1
mode: observe
backends:
  shop: {{ url: "http://127.0.0.1:{end.port}", connect_timeout: 30s }}
"""
        with (
            Recourse(tmp_path / "recourse", text) as running,
            rawhttp.Connection(running.port) as connection,
        ):
            target = f"127.0.0.1:{end.port}"
            assert connect(connection, target)[0] == 200
            client = ssl.create_default_context(cafile=str(maker.cert))
            with client.wrap_socket(connection.socket, server_hostname="localhost") as secure:
                secure.sendall(b"ping")
                assert secure.recv(4) == b"ping"
            running.await_log(lambda line: line.get("decision") == "would-refuse"
                              and line["authority"] == target)  # fmt: skip
            assert metric(
                running, "recourse_tunnels_total", by="connect", decision="would-refuse") == 1


def test_credentials_for_the_proxy_stop_here(proxy, double, token):
    fields = "Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\n"
    with rawhttp.Connection(proxy.port) as connection:
        assert connect(connection, "shop.test:80", fields=fields)[0] == 200
        own = {"Proxy-Authorization": "Basic c2VjcmV0", "Proxy-Connection": "keep-alive"}
        connection.send(rawhttp.render("GET", f"/read/{token}", "shop.test", own))
        assert connection.response().status == 200
    (seen,) = double.requests(f"/read/{token}")
    assert not [name for name, _ in seen["headers"] if name.lower().startswith("proxy-")]
    assert "c2VjcmV0" not in proxy.stdout() + proxy.stderr()


def test_a_policy_of_one_request_per_connection_counts_what_is_in_the_tunnel(
    double, token, tmp_path
):
    arguments = ["--requests-per-connection-max", "1"]
    with Recourse(tmp_path, policy(double), arguments) as running:
        with rawhttp.Connection(running.port) as connection:
            assert connect(connection, "shop.test:80")[0] == 200
            connection.send(post(token))
            answer = connection.response("POST")
            assert answer.status == 201 and answer.header("Connection") == "close"
            assert connection.at_end()


def test_a_reload_closes_the_way_for_new_tunnels_and_leaves_open_ones(ends, double, tmp_path):
    port = ends[0].port
    with Recourse(tmp_path, policy(double, port)) as running:
        with rawhttp.Connection(running.port) as connection:
            assert connect(connection, f"127.0.0.1:{port}")[0] == 200
            running.policy_path.write_text(policy(double))
            assert running.cli("policy", "reload").returncode == 0
            assert refusal(running, f"127.0.0.1:{port}")[0] == 403
            connection.send(b"still here")
            assert connection.exactly(10) == b"still here"


def test_agents_with_certificates_keep_their_identity_in_tunnels(double, token, tmp_path):
    maker = Maker(tmp_path / "ca")
    server = maker.issue("server")
    arguments = ["--tls-cert", server.cert, "--tls-key", server.key, "--tls-client-ca", maker.cert]
    with Recourse(tmp_path / "recourse", policy(double), arguments) as running:
        keys = set()
        for name in ("ann", "bob"):
            identity = maker.issue(name, san=f"DNS:{name}.test")
            context = ssl.create_default_context(cafile=str(maker.cert))
            context.load_cert_chain(identity.cert, identity.key)
            with rawhttp.Connection(running.port) as connection:
                connection.socket = context.wrap_socket(
                    connection.socket, server_hostname="localhost"
                )
                assert connect(connection, "shop.test:80")[0] == 200
                connection.send(post(token))
                answer = connection.response("POST")
                assert answer.status == 201 and not answer.replayed
                keys.add(answer.header("Idempotency-Key"))
        assert len(keys) == 2 and len(double.requests(f"/plain/{token}")) == 2
        callers = {event["caller"] for event in running.events_for(f"/plain/{token}")}
        assert callers == {"dns:ann.test", "dns:bob.test"}


@pytest.mark.parametrize("target", ["backend", "listed"])
def test_a_client_hello_that_stalls_is_not_waited_for_long(ends, double, tmp_path, target):
    port = ends[0].port
    arguments = ["--head-timeout", "1s"]
    with Recourse(tmp_path, policy(double, port), arguments) as running:
        with rawhttp.Connection(running.port) as connection:
            where = "shop.test:80" if target == "backend" else f"127.0.0.1:{port}"
            assert connect(connection, where, more=hello("shop.test")[:100])[0] == 200
            if target == "backend":
                assert connection.response().status == 408
            assert connection.at_end()
        await_metric(running, 0, "recourse_tunnels")
