"""TLS to backends: who is trusted, what a broken handshake leads to, where an answer ends (b31)."""

import contextlib
import signal
import ssl
import threading

import pytest
from support import rawhttp
from support.certificates import FUTURE, PAST, Maker
from support.recourse import Recourse, run_cli
from support.secure import SecureBackend, server_context
from support.waiting import wait_until

POLICY = """\
version: 1
backends:
  secure:
    url: "{secure}"
    hosts: [ secure.test ]
    connect_timeout: 4s
    timeout: 60s
    tls: {{ ca_file: "{ca}" }}
  named:
    url: "{named}"
    hosts: [ named.test ]
    connect_timeout: 30s
    tls: {{ ca_file: "{ca}", client_cert: "{cert}", client_key: "{key}" }}
  renamed:
    url: "{renamed}"
    hosts: [ renamed.test ]
    connect_timeout: 30s
    tls: {{ ca_file: "{ca}", server_name: other.example }}
tools:
  secure.create:
    match: POST secure /w/{{token}}
    effect: write
    scope: caller
    settle: {{ request: "GET /w/{{path.token}}", happened: "answer.body#/items/0/id" }}
    undo: none
    reason: a row of a test is never undone
  secure.live: {{ match: GET secure /live, effect: read, upgrade: [ websocket ] }}
  named.create:
    match: POST named /w/{{token}}
    effect: write
    scope: caller
    undo: none
    reason: a row of a test is never undone
"""


class Lab:
    """Certificates, a TLS backend on two ports, and Recourse in front of it."""

    def __init__(self, directory):
        self.maker = Maker(directory / "ca")
        self.good = self.maker.issue("good")
        self.client = self.maker.issue("agent-side", san="DNS:sidecar.example")
        self.other = self.maker.issue("other", san="DNS:other.example")
        self.context = server_context(self.good)
        self.backend = SecureBackend(self.context)
        self.renamed = SecureBackend(server_context(self.other))
        policy = POLICY.format(
            secure=self.backend.url_as("localhost"),
            named=self.backend.url_as("127.0.0.1"),
            renamed=self.renamed.url_as("127.0.0.1"),
            ca=self.maker.cert,
            cert=self.client.cert,
            key=self.client.key,
        )
        self.recourse = Recourse(directory / "recourse", policy)

    def call(self, method, path, host="secure.test"):
        body = {"a": 1} if method == "POST" else b""
        return rawhttp.call(self.recourse.port, method, path, host=host, body=body)

    def last_event(self, path):
        return self.recourse.events_for(path)[-1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("tls"))
    with made.backend, made.renamed, made.recourse:
        yield made
        assert made.recourse.stop() == 0, made.recourse.stderr()[-4000:]


@pytest.fixture(autouse=True)
def calm(lab):
    yield
    lab.backend.calm(lab.context)


def broken_certificate(**how):
    def apply(lab, tmp):
        lab.backend.context = server_context(lab.maker.issue(tmp.name, **how))

    return apply


def other_ca(lab, tmp):
    lab.backend.context = server_context(Maker(tmp / "ca", "another CA").issue("good"))


def self_signed(lab, tmp):
    maker = Maker(tmp / "ca", "localhost")
    maker.key = maker.key.rename(maker.key.with_suffix(".k"))
    lab.backend.context = server_context(type("Own", (), {"cert": maker.cert, "key": maker.key}))


def only_tls11(lab, _):
    lab.backend.context = server_context(lab.good, most=ssl.TLSVersion.TLSv1_1)


def wants_client(version):
    def apply(lab, _):
        lab.backend.context = server_context(lab.good, client_ca=lab.maker.cert, most=version)

    return apply


def closes_in_handshake(lab, _):
    lab.backend.before = lambda sock: sock.recv(100)


def says_nothing(lab, _):
    def swallow(sock):
        while sock.recv(65536):
            pass

    lab.backend.before = swallow


def garbage(lab, _):
    lab.backend.before = lambda sock: (
        sock.recv(4096),
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    )


FAULTS = {
    "expired": (broken_certificate(valid=PAST), "tls-certificate", "has expired"),
    "not_yet_valid": (broken_certificate(valid=FUTURE), "tls-certificate", "not valid yet"),
    "wrong_name": (broken_certificate(san="DNS:elsewhere"), "tls-certificate", "another name"),
    "name_in_subject_only": (
        broken_certificate(san=None, subject="localhost"), "tls-certificate", "another name"),
    "partial_wildcard": (
        broken_certificate(san="DNS:l*host"), "tls-certificate", "another name"),
    "for_clients": (
        broken_certificate(usage="clientAuth"), "tls-certificate", "not meant for a server"),
    "other_ca": (other_ca, "tls-certificate", "CA that is not trusted"),
    "self_signed": (self_signed, "tls-certificate", "self-signed"),
    "tls_1_1_only": (only_tls11, "tls-refused", "no TLS 1.2"),
    "client_certificate_missing": (wants_client(None), "tls-refused", "client certificate"),
    "client_certificate_missing_1_2": (
        wants_client(ssl.TLSVersion.TLSv1_2), "tls-refused", "client certificate"),
    "closes_in_handshake": (closes_in_handshake, "tls-protocol", "closed during"),
    "says_nothing": (says_nothing, "not-sent", "longer than"),
    "garbage": (garbage, "tls-protocol", "does not speak TLS"),
}  # fmt: skip
TOKENS = {
    "tls-certificate": "tls_certificate_error",
    "tls-refused": "tls_alert_received",
    "tls-protocol": "tls_protocol_error",
    "not-sent": "destination_unavailable",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_trusted_handshake_nothing_is_sent(lab, tmp_path, token, method, fault):
    apply, slug, detail = FAULTS[fault]
    path = f"/w/{token}"
    apply(lab, tmp_path)
    answer = lab.call(method, path)
    document = answer.json()
    assert document["type"].endswith("/" + slug), document
    assert document["outcome"] == "not_executed" and detail in document["detail"], document
    assert f"error={TOKENS[slug]}" in answer.header("Proxy-Status")
    assert answer.status == (503 if slug == "not-sent" else 502)
    if method == "POST":
        event = lab.last_event(path)
        assert (event["phase"], event["status"]) == ("NOT_SENT", "FAILED")
        assert detail in event["detail"], event
    assert lab.backend.count(path) == 0
    assert not [seen for seen in lab.backend.seen if seen["path"] == path]

    lab.backend.calm(lab.context)
    assert lab.call(method, path).status == 200
    assert lab.backend.count(path) == (1 if method == "POST" else 0)


def test_a_backend_is_asked_by_name_with_http_1_1_and_its_certificate_is_checked(lab, token):
    lab.context.set_alpn_protocols(["h2", "http/1.1"])
    assert lab.call("GET", f"/r/{token}").status == 200
    seen = lab.backend.seen[-1]
    assert seen["sni"] == "localhost" and seen["alpn"] == "http/1.1"
    assert seen["host"] == f"localhost:{lab.backend.port}"
    # No SNI for an address; the certificate's IP entry is what counts then.
    assert lab.call("GET", f"/r/{token}", host="named.test").status == 200
    assert lab.backend.seen[-1]["sni"] is None
    assert lab.call("GET", f"/r/{token}", host="renamed.test").status == 200
    assert lab.renamed.seen[-1]["sni"] == "other.example"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_certificate_is_shown_where_the_policy_names_one(lab, token, version):
    most = ssl.TLSVersion.TLSv1_2 if version == "TLSv1.2" else None
    lab.backend.context = server_context(lab.good, client_ca=lab.maker.cert, most=most)
    for method in ("GET", "POST"):
        assert lab.call(method, f"/w/{token}", host="named.test").status == 200
        assert lab.backend.seen[-1]["client"] == "agent-side"
        assert lab.backend.seen[-1]["protocol"] == version


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_further_connections_resume_a_session(lab, token, version):
    most = ssl.TLSVersion.TLSv1_2 if version == "TLSv1.2" else None
    lab.backend.context = server_context(lab.good, most=most)
    for n in range(4):
        assert lab.call("POST", f"/w/{token}-{n}").status == 200
    # The first one may still offer a session of another server key, which is turned down.
    assert [seen["reused"] for seen in lab.backend.seen[-3:]] == [True] * 3
    assert lab.backend.seen[-1]["protocol"] == version


def test_reads_keep_their_tls_connection(lab, token):
    lab.backend.keep = True
    lab.call("GET", f"/r/{token}")
    before = lab.backend.connections
    for _ in range(5):
        assert lab.call("GET", f"/r/{token}").status == 200
    assert lab.backend.connections == before


BODY = b'{"id": "e7"}'


def until_close(goodbye, head=b"", body=BODY):
    def answer(sock, _):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head + b"\r\n")
        sock.sendall(body)
        if goodbye:
            with contextlib.suppress(OSError):
                sock.unwrap()

    return answer


def test_an_answer_framed_by_the_close_alone_is_whole_only_after_a_goodbye(lab, token):
    lab.backend.answer = until_close(goodbye=True, body=b"plain text")
    assert lab.call("GET", f"/r/{token}").body == b"plain text"
    lab.backend.answer = until_close(goodbye=False, body=b"plain text")
    got = rawhttp.exchange(lab.recourse.port, rawhttp.render("GET", "/r/x", "secure.test"))
    assert b"plain text" in got and not got.endswith(b"0\r\n\r\n")
    # To a client of HTTP/1.0 only a reset can say so.
    request = b"GET /r/x HTTP/1.0\r\nHost: secure.test\r\n\r\n"
    with rawhttp.Connection(lab.recourse.port) as connection:
        connection.send(request)
        with pytest.raises(ConnectionResetError):
            while connection.fill():
                pass


def test_a_write_whose_answer_may_be_cut_was_executed_and_its_answer_is_lost(lab, token):
    path = f"/w/{token}"
    lab.backend.answer = until_close(goodbye=False)
    answer = lab.call("POST", path)
    assert answer.status == 502 and answer.json()["type"].endswith("/answer-lost")
    assert answer.json()["outcome"] == "executed"
    assert lab.last_event(path)["phase"] == "ANSWER_LOST"
    lab.backend.calm(lab.context)
    lab.call("POST", path)
    assert lab.backend.count(path) == 1


@pytest.mark.parametrize("goodbye", [True, False])
def test_an_answer_with_a_length_is_whole_with_or_without_a_goodbye(lab, token, goodbye):
    length = b"Content-Length: %d\r\n" % len(BODY)
    lab.backend.answer = until_close(goodbye, length)
    assert lab.call("GET", f"/r/{token}").body == BODY
    path = f"/w/{token}"
    assert lab.call("POST", path).body == BODY
    assert lab.last_event(path)["phase"] == "SUCCEEDED"
    lab.backend.calm(lab.context)
    assert lab.call("POST", path).body == BODY
    assert lab.backend.count(path) == 1


def test_a_json_answer_that_ends_with_a_goodbye_is_kept(lab, token):
    lab.backend.answer = until_close(goodbye=True)
    assert lab.call("POST", f"/w/{token}").body == BODY
    assert lab.last_event(f"/w/{token}")["phase"] == "SUCCEEDED"


def test_an_unknown_outcome_is_settled_over_tls(lab, token):
    path = f"/w/{token}"
    lab.backend.answer = lambda *_: None
    assert lab.call("POST", path).json()["outcome"] == "unknown"
    lab.backend.calm(lab.context)
    assert lab.recourse.await_phase(path, ("SUCCEEDED", "ANSWER_LOST"))["external_ref"] == "e1"
    assert lab.backend.count(path) == 1


def test_a_ca_that_changes_on_disk_is_taken_on_sighup_and_no_old_session_survives_it(
    lab, tmp_path, token
):
    def reload_until(status):
        lab.recourse.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: lab.call("GET", f"/r/{token}").status == status,
            lambda: lab.recourse.stderr()[-2000:],
        )

    before = lab.maker.cert.read_text()
    assert lab.call("GET", f"/r/{token}").status == 200
    try:
        lab.maker.cert.write_text(Maker(tmp_path / "ca", "another CA").cert.read_text())
        reload_until(502)
        lab.maker.cert.write_text("no certificate\n")
        lab.recourse.process.send_signal(signal.SIGHUP)
        # A file that is read only once it is mended would be read anew at the next signal, too.
        wait_until(
            lambda: "holds no readable CA certificate" in lab.recourse.stderr(),
            lambda: lab.recourse.stderr()[-2000:],
        )
        assert lab.call("GET", f"/r/{token}").status == 502
    finally:
        lab.maker.cert.write_text(before)
    reload_until(200)
    # The same policy, read again with another text, keeps what it has: its next connection goes on
    # with a session of before. A reload that met the CA half written takes it twice: none is left.
    text = lab.recourse.policy_path.read_text()

    def is_kept_by_reload(number):
        reloads = lab.recourse.stderr().count("policy reloaded")
        lab.recourse.policy_path.write_text(f"{text}# change {number}\n")
        lab.recourse.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: lab.recourse.stderr().count("policy reloaded") > reloads,
            lambda: lab.recourse.stderr()[-2000:],
        )
        assert lab.call("POST", f"/w/{token}-{number}").status == 200
        return lab.backend.seen[-1]["reused"]

    assert any(is_kept_by_reload(number) for number in range(5))


def test_a_ca_that_changes_on_disk_is_taken_without_a_signal(lab, tmp_path, token):
    def touch_until(status):
        def is_taken():
            if lab.call("GET", f"/r/{token}").status == status:
                return True
            # The files are looked at every few seconds, and after a change beside the policy.
            (lab.recourse.policy_path.parent / "touched").write_text("")
            return False

        wait_until(is_taken, lambda: lab.recourse.stderr()[-2000:])

    before = lab.maker.cert.read_text()
    touch_until(200)
    try:
        lab.maker.cert.write_text(Maker(tmp_path / "ca", "another CA").cert.read_text())
        touch_until(502)
    finally:
        lab.maker.cert.write_text(before)
    touch_until(200)


def test_large_bodies_pass_both_ways(lab, token):
    blob = b"\x5a" * (3 << 20)
    lab.backend.answer = until_close(True, b"Content-Length: %d\r\n" % len(blob), blob)
    assert lab.call("GET", f"/r/{token}").body == blob
    answer = rawhttp.call(
        lab.recourse.port, "POST", f"/w/{token}", host="secure.test", body=blob[: 2 << 20]
    )
    assert answer.body == blob


def test_a_tunnel_carries_both_ways_at_once_over_tls(lab):
    def echo(sock, _):
        sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        while data := sock.recv(65536):
            sock.sendall(data)

    lab.backend.answer = echo
    fields = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    sent = bytes(range(256)) * 4096
    with rawhttp.Connection(lab.recourse.port) as connection:
        connection.send(rawhttp.render("GET", "/live", "secure.test", fields))
        assert connection.head()[0] == 101
        sender = threading.Thread(target=connection.send, args=(sent,))
        sender.start()
        assert connection.exactly(len(sent)) == sent
        sender.join()
        # Our end of sending arrives there as a goodbye, and the answer to it as an end.
        connection.finish_sending()
        assert connection.at_end()


def test_files_that_cannot_be_used_are_named_by_check_and_at_start(tmp_path):
    maker = Maker(tmp_path / "ca")
    one, two = maker.issue("one"), maker.issue("two")
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate\n")
    missing = tmp_path / "missing.pem"
    cases = {
        f'ca_file: "{missing}"': (missing, "No such file"),
        f'ca_file: "{broken}"': (broken, "holds no"),
        f'client_cert: "{broken}", client_key: "{one.key}"': (broken, "holds no"),
        f'client_cert: "{one.cert}", client_key: "{missing}"': (missing, "No such file"),
        f'client_cert: "{one.cert}", client_key: "{two.key}"': (two.key, "another certificate"),
    }
    for words, (file, problem) in cases.items():
        policy = f'version: 1\nbackends:\n  b: {{ url: "https://b.test", tls: {{ {words} }} }}\n'
        path = tmp_path / "policy.yaml"
        path.write_text(policy)
        for arguments in (("policy", "check", path),
                          ("run", "--policy", path, "--data", tmp_path / "data")):  # fmt: skip
            done = run_cli(*arguments)
            said = done.stdout + done.stderr
            assert done.returncode == 3 and f"{path}:3:" in said, said
            assert str(file) in said and problem in said, said
        # What asks only how a call is judged needs no file.
        assert run_cli("policy", "explain", path, "GET https://b.test/x").returncode == 0
