"""What stays on a connection after an answer, and what a client's closing means to a stream."""

import threading

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import PATIENCE, WAIT_MAX, Recourse

LARGE = b"x" * 200_000
REPEATS = 40
PATIENT_FOR = int(3 * PATIENCE)  # until an answer begins
ATTEMPTS = 20  # a busy machine may need more than one
POLICY = 'version: 1\nbackends:\n  shop: {{ url: "{url}", hosts: [ shop.test ] }}\n'
SMALL = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


def answer_too_much(port, sock):
    """/more gets a large answer and, in the same write, a second one that nobody asked for."""
    left = b""
    while (left := port.head(sock, left)) is not None:
        if port.heads[-1].startswith(b"GET /more"):
            sock.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE) + LARGE
                + f"{SMALL}evil".encode()
            )  # fmt: skip
        else:
            sock.sendall(f"{SMALL}good".encode())


@pytest.mark.parametrize("clients", ["one_pipelining", "one_after_another"])
def test_bytes_after_a_large_answer_are_never_the_next_answer(tmp_path, clients):
    """They come while the answer is still being passed on, so the connection is never idle."""
    more, good = (rawhttp.render("GET", path, "shop.test") for path in ("/more", "/good"))
    with (
        ServedPort(answer_too_much) as port,
        Recourse(tmp_path, POLICY.format(url=port.url)) as running,
    ):
        for number in range(REPEATS):
            with rawhttp.Connection(running.port) as connection:
                connection.send(more + good if clients == "one_pipelining" else more)
                assert connection.response().body == LARGE
                if clients == "one_pipelining":
                    second = connection.response()
                else:
                    second = rawhttp.call(running.port, "GET", "/good")
                assert (second.status, second.body) == (200, b"good"), number


CHUNKED = "HTTP/1.1 200 OK\r\nContent-Type: {type}\r\nTransfer-Encoding: chunked\r\n\r\n"
# name -> (what is sent at once, what is sent after the client has closed its side, the whole body)
STREAMS = {
    "chunked": (
        CHUNKED.format(type="text/plain") + "5\r\nhello\r\n",
        "5\r\nworld\r\n0\r\n\r\n",
        "helloworld",
    ),
    "events": (
        CHUNKED.format(type="text/event-stream") + "9\r\ndata: 1\n\n\r\n",
        "9\r\ndata: 2\n\n\r\n0\r\n\r\n",
        "data: 1\n\ndata: 2\n\n",
    ),
    "until_close": ("HTTP/1.1 200 OK\r\n\r\nhello", "world", "helloworld"),
    "with_length": ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "world", "helloworld"),
    "not_begun": ("", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nworld", "world"),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_a_client_that_closes_its_side_still_gets_the_answer_whole(proxy, double, token, name):
    """It has said all that it had to say; that is no reason to stop listening to the backend."""
    path = f"/read/{token}"
    first, second, body = STREAMS[name]
    steps = ["read", {"send": first}, {"gate": token}, {"sleep": 0.3}, {"send": second}, "fin"]
    double.script("GET", path, steps, 1)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        connection.finish_sending()
        double.await_requests("GET", path)
        double.open_gate(token)
        answer = connection.response()
        assert answer.status == 200 and answer.body == body.encode()
        assert connection.at_end()


def test_a_client_that_closes_its_side_still_gets_the_answer_of_its_write(proxy, double, token):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", {"sleep": 0.3}, "answer"], 1)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("POST", path, "shop.test", body=b"x"))
        connection.finish_sending()
        assert connection.response("POST").status == 201
        assert connection.at_end()
    assert len(double.effects(path)) == 1


EVENT = b"9\r\ndata: 1\n\n\r\n"
EVENTS = CHUNKED.format(type="text/event-stream").encode() + EVENT


@pytest.mark.parametrize("how", ["reset", "closed"])
def test_a_client_that_has_left_an_event_stream_frees_the_backend(tmp_path, how):
    """A reset shows at once; a close looks like a half-close until something is written."""
    left, freed = threading.Event(), threading.Event()

    def serve(port, sock):
        port.head(sock)
        sock.sendall(EVENTS)
        assert left.wait(WAIT_MAX)
        try:
            sock.settimeout(WAIT_MAX if how == "reset" else 0.1)
            while True:
                try:
                    if not sock.recv(1):
                        break
                except TimeoutError:
                    sock.sendall(EVENT)
        except ConnectionError:
            pass
        freed.set()

    with (
        ServedPort(serve) as port,
        Recourse(tmp_path, POLICY.format(url=port.url)) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        connection.send(rawhttp.render("GET", "/events", "shop.test"))
        connection.head()
        assert next(connection.chunks()) == b"data: 1\n\n"
        if how == "reset":
            connection.reset()
        else:
            connection.close()
        left.set()
        assert freed.wait(WAIT_MAX), "the backend still serves a client that has left"


def is_answered_whole(directory):
    """A backend that begins its answer before the upload has ended, and is then quiet for longer
    than it may be before it answers. False: the machine was too busy for its beginning."""

    def serve(port, sock):
        left = port.head(sock)
        sock.sendall(CHUNKED.format(type="text/plain").encode())
        while len(left) < 2:
            left += sock.recv(1)
        port.stopped.wait(2 * PATIENT_FOR)
        sock.sendall(b"4\r\nlate\r\n0\r\n\r\n")
        sock.recv(1)

    rule = f"match: POST shop /search, effect: read, timeout: {PATIENT_FOR}s"
    tool = f"tools:\n  search: {{ {rule} }}\n"
    with (
        ServedPort(serve) as port,
        Recourse(directory, POLICY.format(url=port.url) + tool) as running,
        rawhttp.Connection(running.port) as client,
    ):
        size = {"Content-Length": 2}
        client.send(rawhttp.render("POST", "/search", "shop.test", size, length=False) + b"1")
        if client.head()[0] != 200:
            return False
        client.send(b"2")
        assert list(client.chunks()) == [b"late"]
        return True


def test_an_answer_that_began_before_its_upload_ended_may_be_quiet_as_any_other(tmp_path):
    assert any(is_answered_whole(tmp_path / str(number)) for number in range(ATTEMPTS))


# What a client has of a stream -> whether it may end there.
QUIET = {
    "nothing": ("", True),
    "events": (": hello\n\ndata: 1\n\n", True),
    "returns": ("data: 1\r\n\r\n", True),
    "a_comment": ("data: 1\n\n: still here\n", True),
    "half_an_event": ("data: 1\n\ndata: 2\n", False),
    "half_a_line": ("data: 1\n\ndata", False),
    "encoded": ("data: 1\n\n", False),
}


def quiet_stream(said, more=""):
    head = CHUNKED.format(type=f"text/event-stream{more}")
    return head + (f"{len(said):x}\r\n{said}\r\n" if said else "")


@pytest.mark.parametrize("name", QUIET)
def test_a_stop_ends_a_quiet_stream_of_events_at_once(double, tmp_path, token, name):
    """Whole events are an end that their client understands, and anything else is none."""
    said, is_whole = QUIET[name]
    path = f"/read/{token}"
    more = "\r\nContent-Encoding: gzip" if name == "encoded" else ""
    double.script("GET", path, ["read", {"send": quiet_stream(said, more)}, {"gate": token}], 1)
    with (
        # Only the end of the stream may end the process, not that of the drain.
        Recourse(tmp_path, POLICY.format(url=double.url), ["--drain-timeout", "1h"]) as running,
        rawhttp.Connection(running.port) as listening,
    ):
        listening.send(rawhttp.render("GET", path, "shop.test"))
        assert listening.head()[0] == 200
        chunks, got = listening.chunks(), b""
        while len(got) < len(said):
            got += next(chunks)
        running.terminate()
        if is_whole:
            assert list(chunks) == []
        else:
            with pytest.raises(rawhttp.Cut):
                list(chunks)
        assert got == said.encode()
        assert running.wait() == 0
    double.open_gate(token)


def test_a_stop_waits_for_what_is_in_flight_beside_a_quiet_stream(double, tmp_path, token):
    """An answer that is on its way is no stream that anybody takes up again."""
    steps = ["read", {"send": quiet_stream("data: 1\n\n")}, {"gate": token}, {"send": "0\r\n\r\n"}]
    double.script("POST", f"/search/{token}", steps, 1)
    double.script("GET", f"/read/{token}", steps[:3], 1)
    policy = POLICY.format(url=double.url)
    policy += "tools:\n  search: { match: 'POST shop /search/{token}', effect: read }\n"
    with (
        Recourse(tmp_path, policy, ["--drain-timeout", "1h"]) as running,
        rawhttp.Connection(running.port) as asking,
        rawhttp.Connection(running.port) as listening,
    ):
        for connection, method, path in ((asking, "POST", "search"), (listening, "GET", "read")):
            connection.send(rawhttp.render(method, f"/{path}/{token}", "shop.test", body=b""))
            assert connection.head()[0] == 200
        running.terminate()
        assert list(listening.chunks()) == [b"data: 1\n\n"]
        assert running.running()
        double.open_gate(token)
        assert list(asking.chunks()) == [b"data: 1\n\n"]
        assert running.wait() == 0
