"""Answers of writes that stream: each piece reaches the client while the backend still holds the
next one back, and the end only when the outcome is durable."""

import contextlib
import queue
import threading

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import CRASH_POINTS, MEASURABLE, WAIT_MAX, Recourse
from support.shim import Shim, needs_shim
from support.waiting import wait_until

POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: {timeout}, connect_timeout: 30s }}
tools:
  ask: {{ match: "POST shop /ask/*", effect: write, reason: tests, hold: 600s }}
  make: {{ match: "POST shop /make/*", effect: write, reason: tests, answer: stream,
          failed_when: 'answer.body#/state == "failed"', external_ref: answer.body#/id }}
  whole: {{ match: "POST shop /whole/*", effect: write, reason: tests, answer: whole }}
""".replace("/*", "/{{token}}")
TRACE = rawhttp.traced("7" * 32)
EVENTS = "Content-Type: text/event-stream\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
ONE, TWO, DONE = b"data: 1\n\n", b"data: 2\n\n", b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


def head(fields, status="200 OK"):
    return f"HTTP/1.1 {status}\r\n{fields}X-Own: yes\r\n\r\n".encode()


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Told(ServedPort):
    """A backend that answers with what a test tells it to say next: bytes, "fin" or "rst"."""

    def __init__(self):
        super().__init__(Told.answer)
        self.words = queue.Queue()
        self.asked = threading.Semaphore(0)

    def answer(self, sock):
        left = self.head(sock)
        while not left:
            left = sock.recv(1)
        self.asked.release()
        while (word := self.words.get(timeout=5 * WAIT_MAX)) not in ("fin", "rst"):
            sock.sendall(word)
        if word == "rst":
            self.reset(sock)

    def say(self, *words):
        for word in words:
            self.words.put(word)

    def await_call(self):
        assert self.asked.acquire(timeout=WAIT_MAX), "nothing came"


@pytest.fixture
def backend():
    with Told() as port:
        yield port


@contextlib.contextmanager
def serving(backend, directory, timeout="600s", arguments=(), env=None):
    policy = POLICY.format(url=backend.url, timeout=timeout)
    with Recourse(directory, policy, arguments, env) as running:
        yield running


@pytest.fixture
def proxy(backend, tmp_path):
    with serving(backend, tmp_path) as running:
        yield running
        assert running.running() and running.verify()["ok"]


def request(path, version="1.1"):
    plain = rawhttp.render("POST", path, "shop.test", TRACE, b"x")
    return plain.replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1)


def fields_of(answer_head):
    return {name.lower(): value for name, value in answer_head[3]}


def begin(proxy, backend, path, fields=EVENTS + CHUNKED, first=chunk(ONE), said=ONE, version="1.1"):
    """A connection on which the first piece of an answer has come."""
    connection = rawhttp.Connection(proxy.port)
    connection.send(request(path, version))
    backend.await_call()
    backend.say(head(fields))
    connection.told = connection.head()  # before any piece of the body
    assert connection.told[0] == 200
    backend.say(first)
    if "chunked" in fields_of(connection.told).get("transfer-encoding", ""):
        connection.pieces = connection.chunks()
        assert next(connection.pieces) == said
    else:
        assert connection.exactly(len(said)) == said
    return connection


FORMS = {
    "events": ("/ask", EVENTS + CHUNKED, chunk, END),
    "events of a known length": ("/ask", f"{EVENTS}Content-Length: 27\r\n", bytes, b""),
    "named by the policy": ("/make", CHUNKED, chunk, END),
    "a known length": ("/make", "Content-Length: 27\r\n", bytes, b""),
}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("name", FORMS)
def test_each_piece_comes_before_the_next_is_made(proxy, backend, token, name, version):
    kind, fields, frame, end = FORMS[name]
    path = f"{kind}/{token}"
    with begin(proxy, backend, path, fields, frame(ONE), version=version) as connection:
        told = fields_of(connection.told)
        assert told["x-own"] == "yes" and told["recourse-outcome"] == "pending"
        assert told["recourse-event"].isdigit()
        is_chunked = "transfer-encoding" in told
        assert is_chunked == (version == "1.1" and CHUNKED in fields)
        backend.say(frame(TWO))
        assert (next(connection.pieces) if is_chunked else connection.exactly(9)) == TWO
        assert proxy.events_for(path)[-1]["phase"] == "DISPATCHING"
        backend.say(frame(ONE) + end)
        if is_chunked:
            assert list(connection.pieces) == [ONE]
        else:
            assert connection.exactly(9) == ONE
        # The end is a promise.
        assert proxy.events_for(path)[-1]["phase"] == "SUCCEEDED"
        if version == "1.0":
            assert connection.at_end()
        else:
            connection.send(request(path))
            again = connection.response("POST")
            assert again.replayed and again.body == ONE + TWO + ONE
            assert again.outcome == "executed" and again.header("X-Own") is None
    assert len(backend.heads) == 1


def test_an_answer_that_comes_at_once_is_told_with_its_outcome(proxy, backend, token):
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(request(f"/ask/{token}"))
        backend.await_call()
        backend.say(head(f"{EVENTS}Content-Length: 9\r\n") + ONE)
        answer = connection.response("POST")
    assert answer.body == ONE and answer.outcome == "executed"


NOT_STREAMED = {
    "as the policy says": ("/whole", EVENTS + CHUNKED, "200 OK", "executed"),
    "without events": ("/ask", f"Content-Type: text/plain\r\n{CHUNKED}", "200 OK", "executed"),
    "a refusal": ("/make", EVENTS + CHUNKED, "422 No", "rejected"),
}


@pytest.mark.parametrize("name", NOT_STREAMED)
def test_other_answers_come_whole(proxy, backend, token, name):
    kind, fields, status, outcome = NOT_STREAMED[name]
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(request(f"{kind}/{token}"))
        backend.await_call()
        backend.say(head(fields, status), chunk(ONE), chunk(TWO), END)
        answer = connection.response("POST")
    assert answer.body == ONE + TWO and answer.outcome == outcome
    assert answer.header("Content-Length") == "18"


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("fields", ["", CHUNKED], ids=["until close", "chunked"])
def test_a_stream_that_the_backend_cuts_is_cut_and_unknown(
    proxy, backend, token, fields, version, how
):
    path, first = f"/ask/{token}", chunk(ONE) if fields else ONE
    with begin(proxy, backend, path, EVENTS + fields, first, version=version) as connection:
        backend.say(how)
        if version == "1.1":
            with pytest.raises((rawhttp.Cut, ConnectionResetError)):
                list(connection.pieces)
        else:
            with pytest.raises(ConnectionResetError):
                connection.fill()
    event = proxy.await_phase(path, "UNCERTAIN")
    assert event["cause"] == "connection_lost" and event["http_status"] == 200, event
    again = rawhttp.call(proxy.port, "POST", path, headers=TRACE, body=b"x")
    assert again.status == 409 and again.outcome == "unknown" and len(backend.heads) == 1


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_stream_that_says_itself_that_it_has_ended_needs_no_framing(
    proxy, backend, token, version
):
    path = f"/ask/{token}"
    with begin(proxy, backend, path, EVENTS, ONE, version=version) as connection:
        backend.say(TWO, DONE, "fin")
        if version == "1.1":
            assert b"".join(connection.pieces) == TWO + DONE
        else:
            assert connection.exactly(len(TWO + DONE)) == TWO + DONE and connection.at_end()
    assert proxy.await_phase(path, "SUCCEEDED")


def test_a_stream_without_an_end_is_cut_by_the_timeout(backend, tmp_path, token):
    path = f"/ask/{token}"
    with serving(backend, tmp_path, timeout="5s") as proxy:
        with rawhttp.Connection(proxy.port) as connection:
            connection.send(request(path))
            backend.await_call()
            backend.say(head(EVENTS + CHUNKED), chunk(ONE))
            connection.head()
            with pytest.raises(rawhttp.Cut):
                list(connection.chunks())
        assert proxy.await_phase(path, "UNCERTAIN")["cause"] == "timeout"
        backend.say("fin")


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_client_that_leaves_in_the_middle_ends_nothing(proxy, backend, token, how):
    path = f"/ask/{token}"
    with begin(proxy, backend, path) as connection:
        getattr(connection, how)()
    for _ in range(3):
        backend.say(chunk(TWO))
    backend.say(END)
    proxy.await_phase(path, "SUCCEEDED")
    # Another trace: the first client never had its answer.
    again = rawhttp.call(proxy.port, "POST", path, body=b"x")
    assert again.replayed and again.body == ONE + 3 * TWO and len(backend.heads) == 1


def test_repeats_while_it_streams_wait_and_get_all_of_it(proxy, backend, token):
    path = f"/ask/{token}"
    with begin(proxy, backend, path) as connection, rawhttp.Connection(proxy.port) as repeat:
        before = proxy.held_bytes()
        repeat.send(request(path))
        wait_until(lambda: proxy.held_bytes() > before, "the repeat has come")
        backend.say(chunk(TWO), END)
        assert list(connection.pieces) == [TWO]
        told = repeat.response("POST")
    assert told.replayed and told.body == ONE + TWO and len(backend.heads) == 1


def test_what_an_answer_proves_is_judged_at_its_end(proxy, backend, token):
    path, first, last = f"/make/{token}", b'{"state": ', b'"failed"}'
    fields = f"Content-Type: application/json\r\n{CHUNKED}"
    with begin(proxy, backend, path, fields, chunk(first), first) as connection:
        backend.say(chunk(last), END, "fin")
        assert list(connection.pieces) == [last]
    assert proxy.await_phase(path, "REJECTED")
    path = f"/make/{token}b"
    with begin(proxy, backend, path, fields, chunk(b'{"id": '), b'{"id": ') as connection:
        backend.say(chunk(b'"o-1"}'), END)
        assert list(connection.pieces) == [b'"o-1"}']
    assert proxy.await_phase(path, "SUCCEEDED")["external_ref"] == "o-1"


SIZES = {"more than is kept": 2 << 20, "more than is read of others": 9 << 20}


@pytest.mark.parametrize("name", SIZES)
def test_a_large_stream_passes_and_is_not_kept(proxy, backend, token, name):
    path, size = f"/ask/{token}", SIZES[name]
    with begin(proxy, backend, path) as connection:
        for _ in range(size >> 16):
            backend.say(chunk(b"x" * (1 << 16)))
        backend.say(END)
        assert sum(map(len, connection.pieces)) == size
    again = rawhttp.call(proxy.port, "POST", path, headers=TRACE, body=b"x")
    assert again.status == 409 and again.outcome == "executed" and len(backend.heads) == 1
    assert again.json()["type"].endswith("answer-not-kept")


@pytest.mark.skipif(not MEASURABLE, reason="sanitizers keep freed memory")
def test_a_slow_client_of_an_endless_stream_costs_no_memory(proxy, backend, token):
    path, pieces = f"/ask/{token}", 1024
    with begin(proxy, backend, path) as connection:
        for _ in range(pieces):
            backend.say(chunk(b"x" * (1 << 16)))
        backend.say(END)
        before = proxy.memory_kib()[0]
        got = 0
        for piece in connection.pieces:
            got += len(piece)
        assert got == pieces << 16
        assert proxy.memory_kib()[1] < before + 40 * 1024
    assert proxy.await_phase(path, "SUCCEEDED")


def test_a_client_that_does_not_read_holds_up_nothing_for_long(backend, tmp_path, token):
    path = f"/ask/{token}"
    with serving(backend, tmp_path, arguments=["--send-timeout", "1s"]) as proxy:
        with begin(proxy, backend, path):
            for _ in range(16 << 4):  # far more than sockets and queue hold
                backend.say(chunk(b"x" * (1 << 16)))
            backend.say(END)
            assert proxy.await_phase(path, "SUCCEEDED")


def test_a_kill_in_the_middle_of_a_stream_leaves_it_unknown(backend, tmp_path, token):
    path = f"/ask/{token}"
    with serving(backend, tmp_path) as proxy:
        with begin(proxy, backend, path) as connection:
            proxy.kill()
            with pytest.raises((rawhttp.Cut, ConnectionResetError)):
                list(connection.pieces)
        backend.say("fin")
        proxy.start()
        again = rawhttp.call(proxy.port, "POST", path, headers=TRACE, body=b"x")
        assert again.status == 409 and again.outcome == "unknown" and len(backend.heads) == 1


LAST = {"with the end": [chunk(TWO) + END], "by its own word": [chunk(DONE), END]}


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("name", LAST)
def test_the_end_waits_until_the_outcome_is_durable(backend, tmp_path, token, name):
    """The process dies between the backend's end and the commit: nobody was told it is whole."""
    path = f"/ask/{token}"
    with serving(backend, tmp_path, env={"RECOURSE_CRASH_POINT": "k10:1"}) as proxy:
        with begin(proxy, backend, path) as connection:
            backend.say(*LAST[name])
            got = []
            with pytest.raises((rawhttp.Cut, ConnectionResetError)):
                got += connection.pieces
        assert got == [] and not connection.buffer
        proxy.wait()
        proxy.env = {}
        proxy.start()
        assert proxy.await_phase(path, "UNCERTAIN")


@needs_shim
def test_an_outcome_that_cannot_be_written_has_no_end(backend, tmp_path, token):
    shim = Shim(tmp_path, tmp_path / "data", "journal:1:EIO")
    arguments = ["--latched-for", "1h"]
    with serving(backend, tmp_path, arguments=arguments, env=shim.env) as proxy:
        with begin(proxy, backend, f"/ask/{token}") as connection:
            shim.arm()
            backend.say(chunk(TWO), END)
            with pytest.raises(rawhttp.Cut):
                list(connection.pieces)
        assert shim.hits() == 1
