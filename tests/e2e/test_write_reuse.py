"""Which connection to its backend a write goes on: a fresh one, or one that just carried another.

The backend is driven by the test itself, one step at a time, so that it knows what stands where.
"""

import json
import select
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.recourse import WAIT_MAX, kept_whole
from support.waiting import wait_until

# A kept connection may be idle for a second only: a busy machine takes a few attempts.
ATTEMPTS = 60
ESTABLISHED, CLOSE_WAIT = "01", "08"
POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: guard }}
backends:
  keyed: {{ url: "http://127.0.0.1:{port}", hosts: [ keyed.test ], key_header: Idempotency-Key }}
  plain: {{ url: "http://127.0.0.2:{port}", hosts: [ plain.test ] }}
  asked: {{ url: "http://127.0.0.3:{port}", hosts: [ asked.test ], write_reuse: true }}
  never: {{ url: "http://127.0.0.4:{port}", hosts: [ never.test ], key_header: Idempotency-Key,
           write_reuse: false }}
  tools: {{ url: "http://127.0.0.5:{port}/mcp", hosts: [ tools.test ], protocol: mcp,
           write_reuse: true }}
  quiet: {{ url: "http://127.0.0.6:{port}/mcp", hosts: [ quiet.test ], protocol: mcp }}
tools:
  keyed.gone: {{ match: "POST keyed /late/{{token}}", effect: write, not_executed: [ 408 ],
                undo: none, reason: rows of tests }}
"""
CREATED = b"HTTP/1.1 201 Created\r\n%sContent-Length: 2\r\n\r\n{}"
SAID = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s"
LATE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
MCP_HOSTS = ("tools.test", "quiet.test")


def call_of(path):
    """One call of an MCP tool; the row that it writes is its own."""
    params = {"name": "write_row", "arguments": {"row": path}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def answer_to(body, more=b"", kind=b"application/json"):
    """What a backend says that has done what `body` asks for."""
    asked = json.loads(body)
    if "jsonrpc" not in asked:
        return CREATED % more
    said = {"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}}
    text = json.dumps(said).encode()
    if kind == b"text/event-stream":
        text = b"data: %s\n\n" % text
    return SAID % (kind, more, len(text), text)


class Wire:
    """One connection of the proxy, read by the test."""

    def __init__(self, sock):
        self.socket = sock
        self.port = sock.getpeername()[1]
        self.stream = sock.makefile("rb")
        self.answered = None  # what the agent got
        self.asked = b"{}"  # the body of the last request

    def request(self):
        """The head and the body of the next request."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.stream.readline()
            assert line, "the proxy closed the connection"
            head += line
        fields = dict(
            line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line
        )
        self.asked = self.stream.read(int(fields[b"content-length"]))
        return head, self.asked

    def answer(self, more=b"", **form):
        self.socket.sendall(answer_to(self.asked, more, **form))

    def close(self):
        self.stream.close()
        self.socket.close()

    def await_proxy_side(self, condition):
        """Waits until the proxy's end is such, by its state and the number of unread bytes (to the
        kernel an end of stream is one, too), or is gone."""
        wait_until(lambda: not (side := self.proxy_side()) or condition(*side), self.proxy_side)

    def proxy_side(self):
        with open("/proc/net/tcp", encoding="ascii") as table:
            for line in table.readlines()[1:]:
                _, local, _, state, queues, *_ = line.split()
                if int(local.split(":")[1], 16) == self.port and state in (ESTABLISHED, CLOSE_WAIT):
                    return state, int(queues.split(":")[1], 16)
        return None


class Backend:
    def __init__(self):
        self.listener = socket.create_server(("", 0))  # one server by four addresses
        self.listener.settimeout(WAIT_MAX)
        self.port = self.listener.getsockname()[1]
        self.wires = []

    def accept(self):
        sock, _ = self.listener.accept()
        sock.settimeout(WAIT_MAX)
        self.wires.append(Wire(sock))
        return self.wires[-1]

    def next_on(self, kept):
        """The connection on which the next request comes: `kept` or a new one."""
        ready, _, _ = select.select([kept.socket, self.listener], [], [], WAIT_MAX)
        assert ready, "no request came"
        if self.listener in ready:
            return self.accept()
        return kept

    def stop(self):
        for wire in self.wires:
            wire.close()
        self.listener.close()


@pytest.fixture
def backend():
    running = Backend()
    yield running
    running.stop()


@pytest.fixture
def proxy(backend, tmp_path):
    with kept_whole(tmp_path / "recourse", POLICY.format(port=backend.port)) as running:
        yield running


@pytest.fixture
def agent(proxy):
    """Sends a write of its own in the background; gives the future of its answer."""
    with ThreadPoolExecutor(4) as pool:

        def send(host, path):
            fields, body = {}, {"row": path}
            if host in MCP_HOSTS:
                fields = {"Accept": "application/json, text/event-stream"}
                body, path = call_of(path), "/mcp"
            return pool.submit(rawhttp.call, proxy.port, "POST", path, host, fields, body, WAIT_MAX)

        yield send


def first_write(backend, agent, host, path, more=b""):
    """One write that is answered; gives the connection that it went on, and its head."""
    sending = agent(host, path)
    wire = backend.accept()
    head, _ = wire.request()
    wire.answer(more)
    wire.answered = sending.result(WAIT_MAX)
    assert wire.answered.outcome == "executed"
    return wire, head


def logged(proxy, answer):
    """The line of the access log about that call."""
    event = answer.header("Recourse-Event")
    (line,) = proxy.await_log(lambda found: found.get("event_id") == event)
    return line


def reused(backend, agent, host, prefix):
    """Writes until one has come on the connection of the write before it: gives that connection,
    with its request read and not answered, the future of the answer, and the number of requests."""
    for attempt in range(ATTEMPTS):
        kept, _ = first_write(backend, agent, host, f"{prefix}/{attempt}a")
        sending = agent(host, f"{prefix}/{attempt}b")
        wire = backend.next_on(kept)
        wire.request()
        if wire is kept:
            return wire, sending, f"{prefix}/{attempt}b"
        wire.answer(b"Connection: close\r\n")
        assert sending.result(WAIT_MAX).outcome == "executed"
    raise AssertionError(f"no connection was reused in {ATTEMPTS} attempts")


@pytest.mark.parametrize("host", ["keyed.test", "asked.test", "tools.test"])
def test_a_write_goes_on_the_connection_of_the_one_before(backend, proxy, agent, host, token):
    wire, sending, _ = reused(backend, agent, host, f"/rows/{token}")
    wire.answer()
    answer = sending.result(WAIT_MAX)
    assert answer.outcome == "executed" and logged(proxy, answer)["conn_reused"]


@pytest.mark.parametrize("host", ["plain.test", "never.test", "quiet.test"])
def test_elsewhere_each_write_has_a_fresh_connection(backend, agent, host, token):
    for number in range(3):
        wire, head = first_write(backend, agent, host, f"/rows/{token}/{number}")
        assert b"\r\nConnection: close\r\n" in head
        assert wire.stream.read() == b""  # and the proxy closed it


@pytest.mark.parametrize("more", [b"Connection: close\r\n", b"Keep-Alive: timeout=1\r\n"])
def test_what_the_backend_wants_closed_is_not_kept(backend, agent, more, token):
    wire, head = first_write(backend, agent, "keyed.test", f"/rows/{token}/a", more)
    assert b"connection:" not in head.lower()
    assert wire.stream.read() == b""
    other, _ = first_write(backend, agent, "keyed.test", f"/rows/{token}/b")
    assert other is not wire


def test_a_connection_that_ended_meanwhile_is_replaced(backend, proxy, agent, token):
    wire, _ = first_write(backend, agent, "keyed.test", f"/rows/{token}/a")
    wire.socket.shutdown(socket.SHUT_WR)
    wire.await_proxy_side(lambda state, unread: state == CLOSE_WAIT)
    other, _ = first_write(backend, agent, "keyed.test", f"/rows/{token}/b")
    assert other is not wire
    assert wire.stream.read() == b""
    assert not logged(proxy, other.answered)["conn_reused"]


def test_a_connection_on_which_bytes_came_unasked_is_not_used(backend, agent, token):
    wire, _ = first_write(backend, agent, "keyed.test", f"/rows/{token}/a")
    wire.answer()  # to nothing
    wire.await_proxy_side(lambda state, unread: unread >= len(CREATED % b""))
    other, _ = first_write(backend, agent, "keyed.test", f"/rows/{token}/b")
    assert other is not wire


@pytest.mark.parametrize("host, statuses", [("asked.test", [502, 409]), ("tools.test", [200, 200])])
def test_one_that_breaks_after_the_request_is_unknown_and_never_sent_again(
    backend, agent, host, statuses, token
):
    wire, sending, path = reused(backend, agent, host, f"/rows/{token}")
    wire.close()
    answer = sending.result(WAIT_MAX)
    again = agent(host, path).result(WAIT_MAX)
    assert [answer.status, again.status] == statuses
    assert answer.outcome == again.outcome == "unknown"
    backend.listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        backend.listener.accept()


def test_a_408_on_a_kept_connection_proves_nothing(backend, agent, token):
    sending = agent("keyed.test", f"/late/{token}")
    wire = backend.accept()
    wire.request()
    wire.socket.sendall(LATE)
    answer = sending.result(WAIT_MAX)
    assert answer.status == 408 and answer.outcome == "not_executed"
    for host in ("keyed.test", "tools.test"):
        wire, sending, _ = reused(backend, agent, host, f"/late/{token}-kept")
        wire.socket.sendall(LATE)
        assert sending.result(WAIT_MAX).outcome == "unknown"


def test_an_answer_of_events_ends_its_connection(backend, agent, token):
    """Nobody waits for what an MCP server may say behind the message that was asked for."""
    for number in range(2):
        sending = agent("tools.test", f"/rows/{token}/{number}")
        wire = backend.accept()
        wire.request()
        wire.answer(kind=b"text/event-stream")
        assert sending.result(WAIT_MAX).outcome == "executed"
        assert wire.stream.read() == b""


def test_a_reload_ends_kept_connections(backend, proxy, agent, token):
    wire, _ = first_write(backend, agent, "keyed.test", f"/rows/{token}/a")
    proxy.policy_path.write_text(proxy.policy_path.read_text() + "\n# changed\n")
    proxy.cli("policy", "reload")
    assert wire.stream.read() == b""
    other, _ = first_write(backend, agent, "keyed.test", f"/rows/{token}/b")
    assert other is not wire
