"""TLS on the listener: who an agent is by its certificate, and who gets no further."""

import contextlib
import select
import signal
import socket
import ssl
import subprocess
import time

import pytest
from support import rawhttp
from support.callers import SecureConnection, context_of
from support.certificates import FUTURE, PAST, Maker
from support.double import ServedPort
from support.policies import standard
from support.recourse import MEASURABLE, WAIT_MAX, NotReady, Recourse
from support.waiting import wait_until


class Lab:
    def __init__(self, directory, double):
        self.maker = Maker(directory / "ca")
        self.server = self.maker.issue("server")
        self.strangers = Maker(directory / "strangers", "another CA")
        self.recourse = Recourse(
            directory / "recourse",
            standard(double),
            ["--tls-cert", self.server.cert, "--tls-key", self.server.key,
             "--tls-client-ca", self.maker.cert],
        )  # fmt: skip

    def context(self, client=None):
        return context_of(self.maker, client)

    def call(self, client, method, path, headers=(), body=b""):
        with SecureConnection(self.recourse.port, self.context(client)) as connection:
            connection.send(rawhttp.render(method, path, "shop.test", headers, body))
            return connection.response(method)

    def refused(self, context, data=b"GET /read/x HTTP/1.1\r\nHost: shop.test\r\n\r\n"):
        """Whether a client with this context gets no answer."""
        try:
            with SecureConnection(self.recourse.port, context) as connection:
                connection.send(data)
                return not connection.fill()
        except (ssl.SSLError, ConnectionError):
            return True

    def await_log(self, text):
        wait_until(
            lambda: text in self.recourse.stderr(), lambda: (text, self.recourse.stderr()[-2000:])
        )

    def refused_and_logged(self, text, attempt):
        """Repeats the attempt: only one line a second tells of those that failed."""

        def is_logged():
            is_there = text in self.recourse.stderr()
            assert is_there or attempt()
            return is_there

        wait_until(is_logged, lambda: (text, self.recourse.stderr()[-2000:]))


@pytest.fixture(scope="module")
def lab(double, tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("identity"), double)
    with made.recourse:
        yield made
        assert made.recourse.stop() == 0, made.recourse.stderr()[-4000:]


BODY = b'{"client_ref": "c1"}'


def test_two_callers_never_see_each_others_answers(lab, double, token):
    """K05 and M28: the same key on the same path is another call when another agent makes it."""
    path = f"/plain/{token}"
    fields = [("Idempotency-Key", "k-1"), ("Content-Type", "application/json")]
    ada = lab.maker.issue("ada", san="URI:spiffe://shop.test/ns/a/sa/ada")
    bob = lab.maker.issue("bob", san="URI:spiffe://shop.test/ns/a/sa/bob")
    first = {who: lab.call(who, "POST", path, fields, BODY) for who in (ada, bob)}
    again = {who: lab.call(who, "POST", path, fields, BODY) for who in (ada, bob)}
    assert len(double.effects(path)) == 2
    assert first[ada].body != first[bob].body
    for who in (ada, bob):
        assert not first[who].replayed and again[who].replayed
        assert again[who].body == first[who].body
    callers = {event["caller"] for event in lab.recourse.events_for(path)}
    assert callers == {"spiffe://shop.test/ns/a/sa/ada", "spiffe://shop.test/ns/a/sa/bob"}
    wait_until(
        lambda: callers <= {line.get("caller") for line in lab.recourse.access_log()},
        "the access log names the callers",
    )


@pytest.mark.parametrize(
    ("san", "caller"),
    [
        ("URI:https://x.test/,URI:spiffe://a.test/one,DNS:one.test", "spiffe://a.test/one"),
        ("DNS:one.test,DNS:two.test", "dns:one.test"),
        (None, "cn:Agent One"),
        # What stands in another field never passes for the field itself.
        ("DNS:spiffe.test", "dns:spiffe.test"),
    ],
)
def test_the_caller_is_the_spiffe_id_else_the_first_dns_name_else_the_common_name(
    lab, tmp_path, token, san, caller
):
    client = lab.maker.issue(tmp_path.name, san=san, subject="Agent One")
    path = f"/plain/{token}"
    assert lab.call(client, "POST", path, body=BODY).status == 201
    assert lab.recourse.events_for(path)[-1]["caller"] == caller


def test_a_client_that_cannot_be_identified_gets_no_further(lab, double, tmp_path):
    before = double.connections()
    lab.refused_and_logged("showed no certificate", lambda: lab.refused(lab.context()))
    cases = {
        "certificate has expired": lab.maker.issue("late", valid=PAST),
        "unable to get local issuer certificate": lab.strangers.issue("stranger"),
        "unsuitable certificate purpose": lab.maker.issue("for-servers", usage="serverAuth"),
        "no identity that can be used": lab.maker.issue(
            "twice", san="URI:spiffe://a.test/one,URI:spiffe://a.test/two"),
    }  # fmt: skip
    for problem, client in cases.items():
        context = lab.context(client)
        lab.refused_and_logged(problem, lambda context=context: lab.refused(context))
    assert double.connections() == before


def test_plain_http_on_the_tls_port_is_closed_and_logged(lab, double):
    before = double.connections()
    request = rawhttp.render("GET", "/read/x", "shop.test")
    lab.refused_and_logged(
        "speaks no TLS, but this port does",
        lambda: b"HTTP" not in rawhttp.exchange(lab.recourse.port, request),
    )
    assert double.connections() == before


def test_only_http_1_1_is_agreed_on(lab):
    client = lab.maker.issue("alpn")
    context = lab.context(client)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with SecureConnection(lab.recourse.port, context) as connection:
        assert connection.socket.selected_alpn_protocol() == "http/1.1"
    context.set_alpn_protocols(["h2"])
    assert lab.refused(context)


def test_a_cut_answer_ends_without_a_goodbye_and_a_whole_one_with_it(lab, double, token):
    client = lab.maker.issue("old")
    request = b"GET /cut/%s HTTP/1.0\r\nHost: shop.test\r\n\r\n" % token.encode()
    head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
    chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for answer, whole in ((head + "half", False), (head + "0123456789", True),
                          (chunked + "4\r\nhalf\r\n", False),
                          (chunked + "4\r\nhalf\r\n0\r\n\r\n", True)):  # fmt: skip
        double.script("GET", f"/cut/{token}", ["read", {"send": answer}, "fin"], 1)
        with SecureConnection(lab.recourse.port, lab.context(client)) as connection:
            connection.send(request)
            with contextlib.nullcontext() if whole else pytest.raises((ssl.SSLError, OSError)):
                while connection.fill():
                    pass


def both_ways_at_once(sock, sent):
    """Sends and receives as the connection allows until as many bytes came back. One thread: two
    that use one TLS connection of Python 3.11 at a time break its records."""
    received, left = b"", memoryview(sent)
    deadline = time.monotonic() + WAIT_MAX
    sock.setblocking(False)
    while len(received) < len(sent):
        assert time.monotonic() < deadline, f"{len(left)} to send, {len(received)} received"
        select.select([sock], [sock] if left else [], [], 0 if sock.pending() else 1)
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            left = left[sock.send(left[: 1 << 16]) :] if left else left
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            received += sock.recv(1 << 16)
            assert received[-1:], "the tunnel ended early"
    sock.settimeout(WAIT_MAX)
    return received


def test_a_tunnel_carries_both_ways_at_once_on_a_tls_listener(tmp_path):
    def echo(port, sock):
        left = port.head(sock)
        sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            + left
        )
        while data := sock.recv(65536):
            sock.sendall(data)

    maker = Maker(tmp_path / "ca")
    own = maker.issue("listener")
    arguments = ["--tls-cert", own.cert, "--tls-key", own.key]
    policy = (
        'version: 1\nbackends:\n  shop: {{ url: "{url}", hosts: [ shop.test ] }}\n'
        "tools:\n  live: {{ match: GET shop /live, effect: read, upgrade: [ websocket ] }}\n"
    )
    fields = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    sent = bytes(range(256)) * 4096
    context = ssl.create_default_context(cafile=maker.cert)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    with (
        ServedPort(echo) as port,
        Recourse(tmp_path / "recourse", policy.format(url=port.url), arguments) as running,
        SecureConnection(running.port, context) as connection,
    ):
        connection.send(rawhttp.render("GET", "/live", "shop.test", fields) + b"early")
        assert connection.head()[0] == 101 and connection.exactly(5) == b"early"
        assert both_ways_at_once(connection.socket, sent) == sent
        running.terminate()
        assert connection.at_end(), "a quiet tunnel ends with a goodbye when the process does"
        connection.close()
        assert running.wait() == 0


def ended(sock):
    """Waits for the end of a connection, of whatever kind."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_silent_clients_take_neither_the_port_nor_each_other_with_them(lab):
    client = lab.maker.issue("patient")
    with SecureConnection(lab.recourse.port, lab.context(client)) as connection:
        connection.send(rawhttp.render("GET", "/read/x", "shop.test"))
        assert connection.response().status == 200
        with contextlib.ExitStack() as stack:

            def knock(source, said=b""):
                sock = socket.create_connection(
                    ("127.0.0.1", lab.recourse.port), WAIT_MAX, (source, 0)
                )
                stack.enter_context(sock)
                sock.sendall(said)
                return sock

            # Who says nothing takes no place; who begins and stops takes one of its address.
            silent = [knock("127.0.0.1") for _ in range(300)]
            begun = [knock("127.0.0.2", b"\x16\x03\x01\x02\x00") for _ in range(260)]
            assert ended(begun[-1]), "closed at once"
            assert lab.call(client, "GET", "/read/x").status == 200
            connection.send(rawhttp.render("GET", "/read/x", "shop.test"))
            assert connection.response().status == 200
            assert ended(silent[0]) and ended(begun[0]), "closed when their time was up"


def test_certificates_are_read_again_on_sighup_all_or_nothing(lab):
    client = lab.maker.issue("steady")

    def serial():
        with SecureConnection(lab.recourse.port, lab.context(client)) as connection:
            return connection.socket.getpeercert()["serialNumber"]

    with SecureConnection(lab.recourse.port, lab.context(client)) as kept:
        before = serial()
        fresh = lab.maker.issue("fresh")
        lab.server.cert.write_text("no certificate\n")
        lab.recourse.process.send_signal(signal.SIGHUP)
        lab.await_log("holds no readable certificate")
        assert serial() == before
        lab.server.cert.write_text(fresh.cert.read_text())
        lab.server.key.write_text(fresh.key.read_text())
        lab.recourse.process.send_signal(signal.SIGHUP)
        wait_until(lambda: serial() != before, lambda: lab.recourse.stderr()[-2000:])
        kept.send(rawhttp.render("GET", "/read/x", "shop.test"))
        assert kept.response().status == 200


def test_certificates_that_change_on_disk_are_taken_without_a_signal(lab):
    client = lab.maker.issue("patient")

    def serial():
        with SecureConnection(lab.recourse.port, lab.context(client)) as connection:
            return connection.socket.getpeercert()["serialNumber"]

    before = serial()
    fresh = lab.maker.issue("unsignalled")
    lab.server.cert.write_text(fresh.cert.read_text())
    lab.server.key.write_text(fresh.key.read_text())

    def is_taken():
        if serial() != before:
            return True
        # The files are looked at every few seconds, and after a change beside the policy.
        (lab.recourse.policy_path.parent / "touched").write_text("")
        return False

    wait_until(is_taken, lambda: lab.recourse.stderr()[-2000:])


@pytest.mark.parametrize(("valid", "said"), [(PAST, "has expired"), (FUTURE, "not valid yet")])
def test_a_certificate_of_another_time_is_told_at_the_start(double, tmp_path, valid, said):
    server = Maker(tmp_path / "ca").issue("server", valid=valid)
    arguments = ["--tls-cert", server.cert, "--tls-key", server.key]
    with Recourse(tmp_path / "r", standard(double), arguments) as running:
        assert said in running.stderr() and str(server.cert) in running.stderr()


def test_without_a_client_ca_everybody_is_one_caller(double, tmp_path, token):
    maker = Maker(tmp_path / "ca")
    server = maker.issue("server")
    arguments = ["--tls-cert", server.cert, "--tls-key", server.key]
    context = ssl.create_default_context(cafile=maker.cert)
    with Recourse(tmp_path / "r", standard(double), arguments) as running:
        with SecureConnection(running.port, context) as connection:
            connection.send(rawhttp.render("POST", f"/plain/{token}", "shop.test", body=BODY))
            assert connection.response().status == 201
        assert running.events_for(f"/plain/{token}")[-1]["caller"] == "local"


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--tls-cert", "{cert}"], 2, "--tls-key"),
        (["--tls-client-ca", "{cert}"], 2, "--tls-cert"),
        (["--tls-cert", "{cert}", "--tls-key", "{none}"], 2, "missing.key"),
        (["--tls-cert", "{cert}", "--tls-key", "{key}", "--tls-client-ca", "{none}"], 2,
         "missing.key"),
    ],
)  # fmt: skip
def test_flags_that_cannot_work_are_told_at_start(double, tmp_path, flags, code, said):
    server = Maker(tmp_path / "ca").issue("server")
    files = {"cert": server.cert, "key": server.key, "none": tmp_path / "missing.key"}
    recourse = Recourse(tmp_path / "r", standard(double), [f.format(**files) for f in flags])
    with pytest.raises(NotReady, match=rf"(?s)exit {code}.*{said}"):
        recourse.start()


@pytest.fixture(scope="module")
def plain_tls(tmp_path_factory, double):
    """A TLS listener that asks for no certificate."""
    directory = tmp_path_factory.mktemp("plain-tls")
    server = Maker(directory / "ca").issue("server")
    arguments = ["--tls-cert", server.cert, "--tls-key", server.key]
    with Recourse(directory / "run", standard(double), arguments) as running:
        yield running


def test_d16_a_client_may_not_renegotiate(plain_tls):
    """Each renegotiation would cost us a handshake, and the client a few bytes."""
    running = plain_tls
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{running.port}", "-tls1_2"],
        input=b"R\nGET /read/x HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n",
        capture_output=True, timeout=WAIT_MAX, check=False,
    )  # fmt: skip
    told = (done.stdout + done.stderr).decode(errors="replace")
    assert "RENEGOTIATING" in told, told[-2000:]
    assert "no renegotiation" in told or "handshake failure" in told, told[-2000:]
    assert "200 OK" not in told
    assert running.running()


@pytest.mark.parametrize("announced", [65_000, 0xFFFFFF])
def test_d16_a_huge_handshake_is_cut_and_costs_little(plain_tls, announced):
    """A ClientHello that announces so much, in whole records, as fast as it is taken."""
    running = plain_tls
    before, _ = running.memory_kib()
    sent = 0
    with socket.create_connection(("127.0.0.1", running.port), timeout=WAIT_MAX) as sock:
        record = b"\x16\x03\x01" + (16_384).to_bytes(2, "big")
        hello = b"\x01" + announced.to_bytes(3, "big") + bytes(16_380)
        with contextlib.suppress(OSError):
            for part in [hello] + [bytes(16_384)] * 255:
                sock.sendall(record + part)
                sent += len(part)
            assert sock.recv(1 << 16)[:1] in (b"", b"\x15"), "an alert or nothing"
    assert sent < 4 * 1024 * 1024, "all of it was taken"
    if MEASURABLE:
        assert running.memory_kib()[0] - before < 2_048
    assert running.running()
