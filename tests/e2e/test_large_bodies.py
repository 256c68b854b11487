"""Bodies that fill every buffer on the way: what is told when they break off, what they cost."""

import socket
import threading
from pathlib import Path

import pytest

from support import rawhttp
from support.double import ServedPort
from support.policies import standard
from support.recourse import MEASURABLE, WAIT_MAX, Recourse
from support.waiting import lasts, wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MIB = 1024 * 1024
WRITE_BODY_MAX = 8 * MIB
HELD_MAX = 256 * MIB
AT_ONCE = 60
# What the process needs beside the bodies, with what the allocator keeps of freed memory.
MEMORY_MAX_KIB = (HELD_MAX + 96 * MIB) // 1024
STINGY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 5s }}
tools:
  plain.create:
    match: POST shop /plain/{{token}}
    effect: write
    undo: none
    reason: a row of a test is never undone
  search:
    match: POST shop /search
    effect: read
    timeout: 60s
"""


def turns_of_judges(process):
    """How often the threads that judge large bodies were given a processor."""
    turns = 0
    for task in (Path("/proc") / str(process.pid) / "task").iterdir():
        if (task / "comm").read_text().startswith("recourse-body-"):
            turns += int((task / "schedstat").read_text().split()[2])
    assert turns > 0
    return turns


# Content type, and a body that is as large as its middle.
BODIES = {
    "a form": ("application/x-www-form-urlencoded", b"a=%s"),
    "JSON": ("application/json", b'{"a":"%s"}'),
    "text": ("text/plain", b"%s"),
}


@pytest.mark.parametrize("mode", ["enforce", "observe"])
@pytest.mark.parametrize("name", BODIES)
def test_a_large_body_is_judged_by_another_thread_than_the_one_that_serves(
    double, tmp_path, token, name, mode
):
    kind, body = BODIES[name]
    fields = {"Content-Type": kind, **rawhttp.traced(TRACE)}
    text = standard(double).replace("version: 1", f"version: 1\nmode: {mode}", 1)
    with Recourse(tmp_path, text) as running:

        def send(middle):
            path = f"/plain/{token}-{middle[:1].decode()}"
            answer = rawhttp.call(running.port, "POST", path, headers=fields, body=body % middle)
            assert answer.status == 201, answer

        send(b"a")
        before = turns_of_judges(running)
        send(b"b")
        assert turns_of_judges(running) == before
        send(b"c" * 200_000)
        wait_until(lambda: turns_of_judges(running) > before, "somebody else has judged it")


OBSERVED = """\
version: 1
mode: observe
unlisted: {{ reads: pass, writes: pass }}
backends:
  shop: {{ url: "{url}/plain/{token}", hosts: [ shop.test ], protocol: {protocol} }}
tools:
  listed: {{ match: "{match}", effect: {effect}{more} }}
"""
QUESTIONS = {
    "mcp": (
        "tools/call shop look",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
        b'"params":{"name":"look","arguments":{"at":"%s"}}}',
    ),
    "graphql": ("mutation shop add", b'{"query":"{look}","variables":{"at":"%s"}}'),
}


@pytest.mark.parametrize("protocol", QUESTIONS)
def test_observe_mode_finds_out_on_another_thread_that_a_large_body_asks_for_a_read(
    double, tmp_path, token, protocol
):
    match, body = QUESTIONS[protocol]
    is_mcp = protocol == "mcp"
    policy = OBSERVED.format(
        url=double.url,
        token=token,
        protocol=protocol,
        match=match,
        effect="read" if is_mcp else "write",
        more="" if is_mcp else ', undo: none, reason: "kept"',
    )
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with Recourse(tmp_path, policy) as running:

        def send(middle):
            path = f"/plain/{token}"
            answer = rawhttp.call(running.port, "POST", path, headers=fields, body=body % middle)
            assert answer.status == 201, answer

        send(b"a")
        before = turns_of_judges(running)
        send(b"b")
        assert turns_of_judges(running) == before
        send(b"c" * 200_000)
        wait_until(lambda: turns_of_judges(running) > before, "somebody else has looked at it")
        assert not running.events()


def leave(port, sock):
    """Ends towards the proxy, but leaves what it sent unread: no reset, no answer."""
    sock.shutdown(socket.SHUT_WR)
    port.stopped.wait(10)


def answer_nonsense(port, sock):
    sock.sendall(b"garbage\r\n\r\n")
    port.stopped.wait(10)


def answer_half(port, sock):
    sock.sendall(b"HTTP/1.1 20")
    leave(port, sock)


ENDS = {
    "fin": leave,
    "garbage": answer_nonsense,
    "half_a_status_line": answer_half,
    "silence_until_the_timeout": lambda port, sock: port.stopped.wait(WAIT_MAX),
    "reset": lambda port, sock: port.reset(sock),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("size", [7_000_000, WRITE_BODY_MAX], ids=["7_MB", "the_cap"])
def test_a_write_that_broke_off_while_it_was_sent_is_unknown_and_sent_once(tmp_path, end, size):
    """Some of the body has left, and nothing says how much of it the backend has taken."""

    def serve(port, sock):
        if port.head(sock) is not None:
            port.stopped.wait(0.2)  # the proxy now waits for room to write
            ENDS[end](port, sock)

    body = b'{"x":"' + b"a" * (size - 8) + b'"}'
    fields = {
        "Content-Type": "application/json",
        "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
    }
    with (
        ServedPort(serve, receive_buffer=4096) as port,
        Recourse(tmp_path, STINGY.format(url=port.url)) as running,
    ):
        for attempt in ("first", "repeat"):
            answer = rawhttp.call(
                running.port, "POST", "/plain/x", headers=fields, body=body
            )
            assert answer.json()["outcome"] == "unknown", (attempt, answer)
            assert answer.status in ((502, 504) if attempt == "first" else (409,))
            assert len(port.heads) == 1, f"sent {len(port.heads)} times after the {attempt} call"
        rows = running.events_for("/plain/x")
        assert [row["phase"] for row in rows] == ["DISPATCHING", "UNCERTAIN"]


@pytest.fixture
def fresh(double, tmp_path):
    arguments = ["--body-timeout", "10m", "--call-memory", str(HELD_MAX)]
    with Recourse(tmp_path, standard(double, timeout="10m"), arguments) as running:
        yield running


def test_chunked_writes_whose_size_is_not_known_are_held_in_bounded_memory(fresh, double, token):
    chunk = b"%x\r\n" % MIB + b"a" * MIB + b"\r\n"
    connections = []
    for number in range(AT_ONCE):
        connection = rawhttp.Connection(fresh.port, timeout=WAIT_MAX)
        coding = {"Transfer-Encoding": "chunked"}
        connection.send(
            rawhttp.render("POST", f"/plain/{token}", "shop.test", coding, length=False)
        )
        for _ in range(7):
            connection.send_as_far_as_taken(chunk)
        connections.append(connection)
    assert rawhttp.call(fresh.port, "GET", f"/read/{token}").status == 200
    now, highest = fresh.memory_kib()
    assert not MEASURABLE or highest < MEMORY_MAX_KIB, f"{now} KiB, at most {highest} KiB"
    for connection in connections:
        connection.close()
    assert double.requests(f"/plain/{token}") == []


UPLOADED = 120_000  # where the backend answers, although ten million bytes were announced
ROUNDS = 20
CLIENTS = 12


def answer_early(port, sock):
    left = port.head(sock, most=1 << 16)
    if left is None:
        return
    taken = len(left)
    while taken < UPLOADED:
        data = sock.recv(1 << 16)
        if not data:
            return
        taken += len(data)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    port.stopped.wait(60)


def upload_until_answered(port, number, wrong):
    """The answer must come, and the end of the connection after it: the body is unfinished."""
    try:
        with rawhttp.Connection(port, timeout=WAIT_MAX) as connection:
            size = {"Content-Length": 10_000_000}
            connection.send(rawhttp.render("POST", "/search", "shop.test", size, length=False))
            connection.send(b"a" * 110_000)
            lasts(0.05)  # the second burst meets the answer on its way, which nobody sees
            for _ in range(1 + number % 6):
                connection.send_as_far_as_taken(b"b" * 15_000)
            if connection.response("POST").body != b"ok":
                wrong.append((number, "another answer"))
            if not connection.at_end():
                wrong.append((number, "more than one answer"))
    except (OSError, rawhttp.Cut) as error:
        wrong.append((number, repr(error)))


def test_an_answer_that_ends_an_upload_early_leaves_no_session_behind(tmp_path):
    wrong = []
    with (
        ServedPort(answer_early) as port,
        # The drain has no end of its own that could hide a session.
        Recourse(tmp_path, STINGY.format(url=port.url), ["--drain-timeout", "1h"]) as running,
    ):
        for turn in range(ROUNDS):
            threads = [
                threading.Thread(
                    target=upload_until_answered,
                    args=(running.port, turn * CLIENTS + client, wrong),
                )
                for client in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wrong == []
        running.terminate()
        assert running.wait() == 0
