"""Connections to backends and clients over time: none outlives what it was allowed under, none is
held for somebody who has left, and none that was never used leaves a doubt."""

import contextlib
import subprocess
import threading

import pytest

from support import rawhttp
from support.certificates import Maker
from support.double import ServedPort
from support.recourse import WAIT_MAX, Recourse
from support.shim import Shim, needs_shim
from support.waiting import lasts, wait_until

POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], connect_timeout: 30s{more} }}
"""
KEPT = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=60\r\nContent-Length: 2\r\n\r\nok"


class KeptPort(ServedPort):
    """Keeps every connection; `ended` is released for each that Recourse closes."""

    def __init__(self):
        self.ended = threading.Semaphore(0)
        super().__init__(KeptPort.session)

    def session(self, sock):
        with contextlib.suppress(OSError):
            while self.head(sock) is not None:
                sock.sendall(KEPT)
        self.ended.release()


def reload(process, text):
    process.policy_path.write_text(text)
    status, body = process.http(
        "admin", "POST", "/policy/reload", headers={"Authorization": f"Bearer {process.token}"}
    )
    assert status == 200, body


def test_a_kept_connection_does_not_outlive_the_policy_that_it_was_opened_under(tmp_path):
    """The next one may allow other addresses, or another certificate."""
    with KeptPort() as port:
        text = POLICY.format(url=port.url, more="")
        with Recourse(tmp_path, text) as running:
            for _ in range(3):
                assert rawhttp.call(running.port, "GET", "/a").status == 200
            assert not port.ended.acquire(timeout=0.1)
            reload(running, text + "# changed\n")
            assert port.ended.acquire(timeout=WAIT_MAX), "it is still kept"
            assert rawhttp.call(running.port, "GET", "/a").status == 200


class TwicePort(ServedPort):
    """Answers each request twice, the second time unasked, together with the end of the first
    answer's body; `served` counts the requests of each connection."""

    def __init__(self):
        self.served = []
        super().__init__(TwicePort.session)

    def session(self, sock):
        self.served.append(0)
        mine = len(self.served) - 1
        while self.head(sock) is not None:
            self.served[mine] += 1
            head = KEPT.removesuffix(b"ok").replace(b"Length: 2", b"Length: 70000")
            sock.sendall(head + b"o" * 60_000)
            sock.sendall(b"o" * 10_000 + KEPT.replace(b"ok", b"NO"))


def test_a_connection_that_brought_more_than_its_answer_is_not_used_again(tmp_path):
    """F16: what came unasked is nobody's answer."""
    with TwicePort() as port, Recourse(tmp_path, POLICY.format(url=port.url, more="")) as running:
        for _ in range(20):
            answer = rawhttp.call(running.port, "GET", "/a")
            assert answer.status == 200 and answer.body == b"o" * 70_000
        assert port.served == [1] * 20


class LateWordPort(ServedPort):
    """Answers, and a moment later says more; `spoke` is released then."""

    def __init__(self):
        self.served = []
        self.spoke = threading.Semaphore(0)
        super().__init__(LateWordPort.session)

    def session(self, sock):
        self.served.append(0)
        mine = len(self.served) - 1
        while self.head(sock) is not None:
            self.served[mine] += 1
            sock.sendall(KEPT)
            lasts(0.001)  # a moment is what this is about: the next client may be there by then
            with contextlib.suppress(OSError):
                sock.sendall(KEPT.replace(b"ok", b"NO"))
            self.spoke.release()


def test_what_comes_behind_an_answer_is_no_answer_to_the_next_client(tmp_path):
    """However soon the next one asks."""
    with LateWordPort() as port, Recourse(tmp_path, POLICY.format(url=port.url, more="")) as run:
        for _ in range(40):
            assert rawhttp.call(run.port, "GET", "/a").body == b"ok"
            assert port.spoke.acquire(timeout=WAIT_MAX)
        assert port.served == [1] * 40


GIVEN_UP = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlate"
READS = {
    "get": ("GET", "/a", b"", b"ok"),
    "post": ("POST", "/search", {"q": 1}, b"ok"),
    "mcp": ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
            b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'),
}  # fmt: skip


class LimitedPort(ServedPort):
    """Answers the first request of a connection with `ok` (of the `once` first connections only),
    and any other one with `then`, after which it closes; `served` counts the requests of each
    connection."""

    def __init__(self, then, ok=b"ok", once=100):
        self.then = then
        self.once = once
        self.kept = KEPT.removesuffix(b"2\r\n\r\nok")
        self.kept += b"%d\r\nContent-Type: application/json\r\n\r\n%s" % (len(ok), ok)
        self.served = []
        super().__init__(LimitedPort.session)

    def session(self, sock):
        self.served.append(0)
        mine = len(self.served) - 1
        left = b""
        while (left := self.head(sock, left)) is not None:
            fields = self.heads[-1].lower().partition(b"content-length: ")[2]
            size = int(fields.partition(b"\r\n")[0] or 0)
            while len(left) < size:
                left += sock.recv(size - len(left))
            left = left[size:]
            self.served[mine] += 1
            if self.served[mine] > 1 or mine >= self.once:
                sock.sendall(self.then)
                return
            sock.sendall(self.kept)


def limited_policy(port):
    return POLICY.format(url=port.url, more="") + (
        f'  m: {{ url: "{port.url}/mcp", protocol: mcp, hosts: [ m.test ] }}\n'
        "tools:\n  search: { match: POST shop /search, effect: read }\n"
    )


@pytest.mark.parametrize("lane", READS)
def test_a_408_that_ends_a_kept_connection_is_no_answer_to_a_read(tmp_path, lane):
    """It is about the silence before (RFC 9110 15.5.9): the read goes on a fresh connection."""
    method, path, body, ok = READS[lane]
    host = "m.test" if lane == "mcp" else "shop.test"
    with LimitedPort(GIVEN_UP, ok) as port, Recourse(tmp_path, limited_policy(port)) as running:
        for _ in range(2):
            answer = rawhttp.call(running.port, method, path, host, body=body)
            assert answer.status == 200 and answer.body == ok
        assert port.served == [2, 1]
        (line,) = running.await_log(lambda found: found.get("attempts") == 2)
        assert line["status"] == 200 and not line["conn_reused"]


@pytest.mark.parametrize("end", [GIVEN_UP, b""], ids=["408", "closed"])
def test_a_second_attempt_has_as_much_time_as_the_first(tmp_path, end):
    """The client was looked at during the first one, which says nothing of this backend."""

    def serve(port, sock):
        port.head(sock)
        # It is slow on purpose: longer than until a client is looked at.
        if len(port.heads) != 2:
            lasts(2 if len(port.heads) == 3 else 0)
            sock.sendall(KEPT)
            port.head(sock)
        if len(port.heads) == 2:
            lasts(2)
            sock.sendall(end)

    with ServedPort(serve) as port:
        with Recourse(tmp_path, POLICY.format(url=port.url, more="")) as running:
            assert rawhttp.call(running.port, "GET", "/a").status == 200
            assert rawhttp.call(running.port, "GET", "/a").status == 200
            assert len(port.heads) == 3


@pytest.mark.parametrize(
    "answer",
    [
        GIVEN_UP.replace(b"Connection: close\r\n", b""),
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + GIVEN_UP,
        GIVEN_UP.replace(b"408", b"503"),
    ],
    ids=["kept", "after_another_word", "another_status"],
)
def test_an_answer_to_the_request_itself_is_passed_on_as_it_is(tmp_path, answer):
    """A backend that keeps the connection, or said something before, has read the request."""
    with LimitedPort(answer) as port, Recourse(tmp_path, limited_policy(port)) as running:
        assert rawhttp.call(running.port, "GET", "/a").status == 200
        told = rawhttp.call(running.port, "GET", "/a")
        assert told.status in (408, 503) and told.body == b"late"
        assert port.served == [2]


def test_a_408_on_a_fresh_connection_is_the_answer(tmp_path):
    """Also on the one that stands in for a kept one."""
    with LimitedPort(GIVEN_UP, once=1) as port, Recourse(tmp_path, limited_policy(port)) as running:
        assert rawhttp.call(running.port, "GET", "/a").status == 200
        for _ in range(2):
            told = rawhttp.call(running.port, "GET", "/a")
            assert told.status == 408 and told.body == b"late"
        assert port.served == [2, 1, 1]


def test_a_408_while_a_body_is_streamed_is_passed_on(tmp_path):
    """What has passed through cannot be sent again, and the client may be what was too slow."""
    with LimitedPort(GIVEN_UP) as port, Recourse(tmp_path, limited_policy(port)) as running:
        assert rawhttp.call(running.port, "GET", "/a", "shop.test").status == 200
        with rawhttp.Connection(running.port) as connection:
            size = {"Content-Length": 4}
            connection.send(rawhttp.render("POST", "/search", "shop.test", size, length=False))
            wait_until(lambda: len(port.heads) >= 2, "the backend was not asked")
            connection.send(b"body")
            assert connection.response().status == 408
        assert port.served == [2]


@pytest.mark.parametrize("lane", ["whole", "uploaded"])
def test_a_client_that_left_before_its_answer_began_frees_the_backend(tmp_path, lane):
    """Also when the backend may think for minutes."""
    whole, freed = threading.Event(), threading.Event()

    def serve(port, sock):
        left = port.head(sock)
        while lane == "uploaded" and len(left) < 5:
            data = sock.recv(5)
            assert data, "the body is cut"
            left += data
        whole.set()
        with contextlib.suppress(ConnectionError):
            sock.recv(1)
        freed.set()

    tools = "tools:\n  search: { match: POST shop /search, effect: read }\n"
    with ServedPort(serve) as port:
        policy = POLICY.format(url=port.url, more=", timeout: 10m") + tools
        with Recourse(tmp_path, policy) as running:
            connection = rawhttp.Connection(running.port)
            if lane == "whole":
                connection.send(rawhttp.render("GET", "/a", "shop.test"))
            else:
                size = {"Content-Length": 5}
                connection.send(rawhttp.render("POST", "/search", "shop.test", size, length=False))
                connection.send(b"hel")
            wait_until(lambda: port.heads, "the backend was not asked")
            if lane == "uploaded":
                connection.send(b"lo")
                assert whole.wait(WAIT_MAX)
            connection.reset()
            assert freed.wait(WAIT_MAX), "the backend still works for nobody"
            (line,) = running.await_log(lambda line: line["client_gone"])
            assert "error" not in line or line["error"] is None


def test_a_backend_that_says_that_it_works_does_not_do_so_for_a_client_that_left(tmp_path):
    """Its word may come just when the client has been seen to leave, or before that was looked."""
    left, freed = threading.Event(), threading.Event()

    def serve(port, sock):
        port.head(sock)
        left.wait(WAIT_MAX)
        with contextlib.suppress(ConnectionError):
            for _ in range(10):
                sock.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
                lasts(0.005)  # around the moment in which that is seen, which nothing shows here
            while sock.recv(1):
                pass
        freed.set()

    with ServedPort(serve) as port, Recourse(
        tmp_path, POLICY.format(url=port.url, more=", timeout: 10m")
    ) as running:
        with rawhttp.Connection(running.port) as connection:
            connection.send(rawhttp.render("GET", "/a", "shop.test"))
            # By then somebody looks after the client, as a rule: nothing outside shows it.
            lasts(1.5)
            connection.reset()
        left.set()
        assert freed.wait(WAIT_MAX), "the backend still works for nobody"


def test_a_client_that_only_closed_its_side_is_waited_for(tmp_path):
    """Longer than the first look at it takes."""

    def serve(port, sock):
        port.head(sock)
        port.stopped.wait(2.5)
        sock.sendall(KEPT)

    with ServedPort(serve) as port, Recourse(
        tmp_path, POLICY.format(url=port.url, more="")
    ) as running, rawhttp.Connection(running.port) as connection:
        connection.send(rawhttp.render("GET", "/a", "shop.test"))
        connection.finish_sending()
        assert connection.response().body == b"ok"


BEFORE = {
    "closed": b"",
    "answered_already": b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
    "another_protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
}


@needs_shim
@pytest.mark.parametrize("name", BEFORE)
def test_a_backend_that_left_or_spoke_before_it_was_asked_was_sent_nothing(tmp_path, name):
    """As proxies do that find nobody behind them. While the disk is slow, that is seen in time."""
    seen = []

    def serve(_, sock):
        sock.sendall(BEFORE[name])
        if name == "closed":
            return
        while data := sock.recv(65536):
            seen.append(data)

    shim = Shim(tmp_path, tmp_path / "data", "journal:1:3000:sticky")
    with ServedPort(serve) as port, Recourse(
        tmp_path, POLICY.format(url=port.url, more=""), env=shim.env
    ) as running:
        shim.arm()
        answer = rawhttp.call(running.port, "POST", "/orders", body={"a": 1})
        assert answer.status == 503 and answer.json()["outcome"] == "not_executed"
        assert "before it was asked" in answer.json()["detail"]
        assert running.events_for("/orders")[-1]["phase"] == "NOT_SENT" and not seen


def test_a_server_that_refuses_after_it_has_read_leaves_the_outcome_unknown(tmp_path):
    """TLS 1.2 lets a server ask for a certificate when it has seen the request already."""
    maker = Maker(tmp_path / "ca")
    own = maker.issue("server")
    server = subprocess.Popen(
        ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", own.cert, "-key", own.key,
         "-tls1_2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        port = None
        while port is None:
            line = server.stdout.readline().decode()
            assert line, "s_server has ended"
            if line.startswith("ACCEPT") and ":" in line:
                port = int(line.rsplit(":", 1)[1])
        policy = POLICY.format(
            url=f"https://localhost:{port}",
            more=f', addresses: [ loopback ], timeout: 60s, tls: {{ ca_file: "{maker.cert}" }}',
        )

        def ask_for_a_certificate():
            while line := server.stdout.readline():
                if b'{"a": 1}' in line:
                    break
            server.stdin.write(b"R\n")
            server.stdin.flush()

        with Recourse(tmp_path / "recourse", policy) as running:
            asking = threading.Thread(target=ask_for_a_certificate)
            asking.start()
            answer = rawhttp.call(running.port, "POST", "/orders", body=b'{"a": 1}\n')
            asking.join()
            assert answer.json()["outcome"] == "unknown", answer
            assert running.events_for("/orders")[-1]["phase"] == "UNCERTAIN"
    finally:
        server.kill()
        server.wait(WAIT_MAX)
        server.stdin.close()
        server.stdout.close()
