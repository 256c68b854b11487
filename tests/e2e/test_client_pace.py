"""What a client has to keep up with while both directions of its connection are at work, and what
it sees of an answer that it did not."""

import contextlib
import socket
import time

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import PATIENCE, WAIT_MAX, Recourse
from support.waiting import lasts, made_in_time

LIMIT = 3 * PATIENCE  # seconds, of what is to run out
ATTEMPTS = 20  # a busy machine may need more than one
MARGIN = 25_000  # bytes; how far what the kernel keeps may be from one time to the next
POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 10m, connect_timeout: 30s }}
tools:
  search: {{ match: POST shop /search, effect: read }}
"""
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def flags(**limits):
    """Of the patience with a client: long, but for what is named."""
    names = ("body_timeout", "send_timeout", "stream_timeout")
    limits = {name: limits.get(name, 600) for name in names}
    return [
        word
        for name, seconds in limits.items()
        for word in ("--" + name.replace("_", "-"), f"{int(1000 * seconds)}ms")
    ]


def is_cut(connection):
    """Reads on until the connection ends; false: its answer has ended whole."""
    late = time.monotonic() + WAIT_MAX
    with contextlib.suppress(rawhttp.Cut, ConnectionResetError):
        for _ in connection.chunks():
            assert time.monotonic() < late, "it is still served"
        return False
    return True


def is_cut_while_it_is_answered(directory):
    """None: its time was over before the answer began."""

    def serve(port, sock):
        port.head(sock)
        sock.sendall(CHUNKED)
        while not port.stopped.wait(0.02):
            sock.sendall(b"1\r\nx\r\n")

    with (
        ServedPort(serve) as port,
        Recourse(directory, POLICY.format(url=port.url), flags(body_timeout=LIMIT)) as running,
        rawhttp.Connection(running.port) as client,
    ):
        size = {"Content-Length": 100}
        client.send(rawhttp.render("POST", "/search", "shop.test", size, length=False) + b"1")
        status = client.head()[0]
        if status == 408:
            return None
        assert status == 200 and is_cut(client)
        return True


def test_a_body_keeps_its_pace_while_the_answer_streams_already(tmp_path):
    """However lively the answer is."""
    made_in_time(lambda turn: is_cut_while_it_is_answered(tmp_path / str(turn)))


def test_a_body_that_goes_on_buys_no_time_for_the_answer(tmp_path):
    """A client that reads nothing, and sends as if it did."""

    def serve(port, sock):
        port.head(sock)
        sock.sendall(CHUNKED)
        while True:
            sock.sendall(b"4000\r\n" + b"y" * 0x4000 + b"\r\n")

    with (
        ServedPort(serve) as port,
        Recourse(tmp_path, POLICY.format(url=port.url), flags(send_timeout=LIMIT)) as running,
        rawhttp.Connection(running.port, receive_buffer=4096) as client,
    ):
        size = {"Content-Length": 1 << 30}
        client.send(rawhttp.render("POST", "/search", "shop.test", size, length=False))
        late = time.monotonic() + WAIT_MAX
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while time.monotonic() < late:
                client.send(b"x" * 100)
                lasts(0.02)  # it is steady on purpose
        (line,) = running.await_log(lambda line: line["bytes_out"] > 0)
        assert line["client_gone"]


NARROW = {"receive_buffer": 1, "segment": 88}
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 3900 + b"\r\n\r\n"
HINTS = 16 * HINT
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def kept_back():
    """How many bytes the kernel takes for a client that reads none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with rawhttp.Connection(listener.getsockname()[1], **NARROW):
            sender, _ = listener.accept()
            with sender:
                sender.setblocking(False)
                kept, until = 0, time.monotonic() + 1
                while time.monotonic() < until:
                    try:
                        kept += sender.send(bytes(60_000))
                    except BlockingIOError:
                        lasts(0.01)  # what it takes in a second, however often it says no
                return kept


def ends_in_its_interim_answers(directory):
    """False: all of them were taken, or not even the answer before them."""
    filling = bytes(max(1, kept_back() - MARGIN))

    def serve(port, sock):
        while port.head(sock) is not None:
            if port.heads[-1].startswith(b"GET /filling"):
                head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(filling)
                sock.sendall(head + filling)
            else:
                sock.sendall(HINTS + OK)

    with (
        ServedPort(serve) as port,
        Recourse(directory, POLICY.format(url=port.url), flags(send_timeout=LIMIT)) as running,
        rawhttp.Connection(running.port, **NARROW) as client,
    ):
        for path in ("/filling", "/hints"):
            client.send(rawhttp.render("GET", path, "shop.test"))
        # The limit passes. A machine that is busier than that only hides what this would find.
        lasts(1.5 * LIMIT)
        try:
            assert client.response().body == filling
        except rawhttp.Cut:
            return False
        with contextlib.suppress(ConnectionResetError):
            while client.fill():
                if client.buffer.endswith(OK):
                    break
        if len(client.buffer) >= len(HINTS):
            return False
        assert HINTS.startswith(client.buffer), "something stands behind a part of one"
        (line,) = running.await_log(lambda line: line["client_gone"])
        assert line["status"] == 103
        return True


def test_nothing_is_sent_behind_a_part_of_an_interim_answer(tmp_path):
    assert any(
        ends_in_its_interim_answers(tmp_path / str(number)) for number in range(ATTEMPTS)
    )
