"""A read whose body the backend does not take whole: what it answers counts, and its connection
carries nothing else. The next request on it would be read as the rest of that body."""

import contextlib
import json
import socket
import threading
import time

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import PATIENCE, WAIT_MAX, Recourse
from support.waiting import lasts

PATIENT_FOR = 3 * PATIENCE  # of the proxy, while a body is not taken
ATTEMPTS = 20  # a busy machine may need more than one
PIECE = 60_000  # bytes of a body that arrive in one segment of the loopback device
MARGIN = 25_000  # bytes; how far what the kernel keeps may be from one time to the next
POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], connect_timeout: 30s }}
  tools: {{ url: "http://localhost:{port}/mcp", hosts: [ tools.test ], protocol: mcp,
           connect_timeout: 30s }}
tools:
  search: {{ match: tools/call tools search, effect: read, timeout: {patience}ms }}
  find: {{ match: tools/call tools find, effect: read }}
  upload: {{ match: POST shop /upload, effect: read, timeout: {patience}ms }}
"""
ACCEPT = {"Accept": "application/json, text/event-stream"}
FOUND = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}).encode()
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nKeep-Alive: timeout=70\r\n"
    b"Content-Length: %d\r\n\r\n"
)


class StalledPort(ServedPort):
    """Answers the head of every request with `answer` and takes nothing of its body until `go_on`
    is set; `taken` is what has come on each connection, `sent` how much of all answers has gone
    out."""

    def __init__(self, answer):
        self.answer = ANSWER % len(answer) + answer
        self.taken = []
        self.sent = 0
        self.go_on = threading.Event()
        super().__init__(StalledPort.session, receive_buffer=1)
        # What the kernel keeps of a sender goes by the size of its segments.
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)

    def session(self, sock):
        mine = bytearray()
        self.taken.append(mine)
        while b"\r\n\r\n" not in mine:
            if not (data := sock.recv(1)):
                return
            mine += data
        with contextlib.suppress(OSError):
            left = memoryview(self.answer)
            while left:
                count = sock.send(left[: 1 << 14])
                self.sent += count
                left = left[count:]
            self.go_on.wait(5 * WAIT_MAX)
            while data := sock.recv(1 << 16):
                mine += data

    def await_stall(self):
        """Returns when nothing more comes or is taken, as far as that can be seen."""
        seen = None
        while (now := (self.sent, sum(map(len, self.taken)))) != seen:
            seen = now
            lasts(1)  # that nothing more comes is seen in the course of time only


def kept_back():
    """How many bytes the kernel takes from a sender while a StalledPort takes none. By its settings
    and by what it knows of the route that is 40 KB or many times that."""
    with StalledPort(b"") as port, socket.create_connection(("127.0.0.1", port.port)) as sender:
        sender.sendall(b"POST / HTTP/1.1\r\n\r\n")
        port.await_stall()
        sender.setblocking(False)
        kept = 0
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                kept += sender.send(bytes(PIECE))
            except BlockingIOError:
                lasts(0.01)  # what it takes in a second, however often it says no
        return kept


def two_pieces(first, last):
    """The first is sent whole, and of the last only a part."""
    return first * max(1, kept_back() - MARGIN), last * PIECE


def policy_of(port):
    return POLICY.format(url=port.url, port=port.port, patience=int(1000 * PATIENT_FOR))


def assert_carried_nothing_else(port, again, size):
    """The next read goes elsewhere; of the first one's body less than the whole has come."""
    port.go_on.set()
    assert again().status == 200
    assert len(port.taken) == 2
    assert len(port.taken[0]) < size and b"again" not in port.taken[0]


def call_tool(process, name, text):
    params = {"name": name, "arguments": {"text": text}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return rawhttp.call(process.port, "POST", "/mcp", "tools.test", ACCEPT, body)


def has_kept_to_itself(directory):
    """A body that was here whole; false: the machine was too busy for the backend to answer."""
    with StalledPort(FOUND) as port, Recourse(directory, policy_of(port)) as running:
        answer = call_tool(running, "search", "x" * 4_000_000)
        if answer.body != FOUND:
            return False
        assert_carried_nothing_else(port, lambda: call_tool(running, "find", "again"), 4_000_000)
        return True


def has_kept_its_upload_to_itself(directory):
    """The client is slow to take the answer, which began before the last piece came; false as
    above, or all of the body was sent."""
    pieces = two_pieces(b"y", b"z")
    size = 1 + sum(map(len, pieces))
    head = rawhttp.render("POST", "/upload", "shop.test", [("Content-Length", size)], length=False)
    content = bytes(8_000_000)
    flags = ["--send-timeout", "600s", "--stream-timeout", f"{int(1000 * PATIENT_FOR)}ms"]
    with (
        StalledPort(content) as port,
        Recourse(directory, policy_of(port), flags) as running,
        rawhttp.Connection(running.port, receive_buffer=65536) as client,
    ):
        client.send(head + b"x")
        if client.head()[0] != 200:
            return False
        port.await_stall()
        for piece in pieces:
            client.send(piece)
        # Its patience passes. A machine that is busier than that only hides what this would find.
        lasts(2 * PATIENT_FOR)
        try:
            client.exactly(len(content))
        except rawhttp.Cut:
            return False
        port.go_on.set()
        port.await_stall()
        if port.taken[0].endswith(pieces[-1]):
            return False
        assert_carried_nothing_else(
            port, lambda: rawhttp.call(running.port, "GET", "/again"), size
        )
        return True


class SilentPort(StalledPort):
    """Reads the head of every request, and of its body nothing until `go_on` is set; is silent."""

    def __init__(self):
        self.has_ended = threading.Event()
        super().__init__(b"")
        self.serve = SilentPort.session

    def session(self, sock):
        mine = bytearray()
        self.taken.append(mine)
        while b"\r\n\r\n" not in mine and (data := sock.recv(1)):
            mine += data
        self.go_on.wait(5 * WAIT_MAX)
        with contextlib.suppress(OSError):
            while data := sock.recv(1 << 16):
                mine += data
        self.has_ended.set()


def has_sent_nothing_behind(directory):
    """What follows a piece would stand where the backend waits for the rest of that piece; false:
    all of the piece was sent."""
    with (
        SilentPort() as port,
        Recourse(directory, policy_of(port)) as running,
        rawhttp.Connection(running.port) as client,
    ):
        pieces = two_pieces(b"y", b"z")
        fields = [("Transfer-Encoding", "chunked")]
        client.send(rawhttp.render("POST", "/upload", "shop.test", fields, length=False))
        # Each of its own segment; a machine that is busier than these times only hides what this
        # finds.
        for piece in pieces:
            client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            lasts(0.2 * PATIENT_FOR)
        client.send(b"5\r\nagain\r\n0\r\n\r\n")
        lasts(1.3 * PATIENT_FOR)  # its patience passes
        port.go_on.set()
        assert client.head()[0] == 504
        assert port.has_ended.wait(WAIT_MAX)
        if port.taken[0].count(b"z") >= PIECE:
            return False
        assert b"again" not in port.taken[0]
        return True


@pytest.mark.parametrize(
    "attempt", [has_kept_to_itself, has_kept_its_upload_to_itself, has_sent_nothing_behind]
)
def test_a_body_that_was_not_sent_whole_ends_its_connection(tmp_path, attempt):
    assert any(attempt(tmp_path / str(number)) for number in range(ATTEMPTS))
