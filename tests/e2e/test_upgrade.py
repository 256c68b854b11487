"""WebSocket tunnels: only where the policy says so, only after the backend agreed, bounded."""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import threading
import time

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import MEASURABLE, WAIT_MAX, Recourse
from support.waiting import lasts, wait_until

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ] }}
tools:
  live: {{ match: GET shop /live, effect: read, upgrade: [ websocket ] }}
  plain: {{ match: GET shop /plain, effect: read }}
"""
ASK = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "WebSocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
AGREE = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
# In pieces of 64 KiB: more than the kernel's buffers of three connections ever take. A receiver's
# grow up to the third number of net.ipv4.tcp_rmem, often 32 MiB, when the machine is busy.
PIECES_TOO_MANY = 4000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def fields_of(head):
    lines = head.decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def echo(port, sock):
    """Agrees to every upgrade, and sends back what it gets; answers everything else."""
    left = b""
    while (left := port.head(sock, left)) is not None:
        if "upgrade" not in fields_of(port.heads[-1]):
            sock.sendall(OK)
            continue
        sock.sendall(AGREE)
        if left:
            sock.sendall(left)
        while data := sock.recv(1 << 16):
            sock.sendall(data)
        return


@pytest.fixture
def tunnels(tmp_path):
    """(backend, Recourse)"""
    with (
        ServedPort(echo) as port,
        Recourse(tmp_path, POLICY.format(url=port.url)) as running,
    ):
        yield port, running


@pytest.fixture
def hasty(tmp_path):
    """Recourse whose tunnels may be silent for five seconds."""
    with (
        ServedPort(echo) as port,
        Recourse(tmp_path, POLICY.format(url=port.url), ["--stream-timeout", "5s"]) as running,
    ):
        yield running


def ask(connection, target="/live", headers=None, more=b""):
    connection.send(rawhttp.render("GET", target, "shop.test", headers or ASK) + more)
    return connection.head()


def gauge(running):
    text = running.probe("/metrics")[1]
    lines = [line for line in text.splitlines() if line.startswith("recourse_tunnels ")]
    return float(lines[0].split()[-1])


def decided(running, decision):
    text = running.probe("/metrics")[1]
    series = f'recourse_tunnels_total{{by="upgrade",decision="{decision}"}}'
    return float(re.search(rf"{re.escape(series)} (\S+)", text)[1])


def await_gauge(running, value):
    wait_until(lambda: gauge(running) == value, lambda: gauge(running))


def test_bytes_pass_both_ways_after_the_backend_agreed(tunnels):
    port, running = tunnels
    with rawhttp.Connection(running.port) as connection:
        status, _, _, headers = ask(connection)
        fields = {name.lower(): value for name, value in headers}
        assert status == 101 and fields["upgrade"] == "websocket"
        assert fields["connection"] == "Upgrade" and "sec-websocket-accept" in fields
        # Opaque: what looks like HTTP is not read, and every byte value passes.
        data = bytes(range(256)) + rawhttp.render("DELETE", "/plain", "shop.test")
        for _ in range(3):
            connection.send(data)
            assert connection.exactly(len(data)) == data
        assert gauge(running) == 1
        connection.finish_sending()
        assert connection.at_end()
    await_gauge(running, 0)
    (head,) = port.heads
    seen = fields_of(head)
    assert (seen["connection"], seen["upgrade"]) == ("Upgrade", "websocket")
    assert seen["sec-websocket-key"] == ASK["Sec-WebSocket-Key"]
    (line,) = running.await_log(lambda line: line["status"] == 101)
    assert min(line["bytes_in"], line["bytes_out"]) >= 3 * len(data)


def test_h67_bytes_sent_before_the_agreement_wait_for_it(tunnels):
    """They go into the tunnel when there is one, and are the next request when there is none."""
    port, running = tunnels
    with rawhttp.Connection(running.port) as connection:
        assert ask(connection, more=b"early")[0] == 101
        assert connection.exactly(5) == b"early"
    with rawhttp.Connection(running.port) as connection:
        head = rawhttp.render("GET", "/plain", "shop.test", ASK)
        connection.send(head + b"\x81\x05early")
        assert connection.response().body == b"ok"
        assert connection.response().status == 400  # frames are no request
        assert connection.at_end()


def without(name, **changed):
    return {k: v for k, v in {**ASK, **changed}.items() if k != name}


NOT_ASKED = {
    "another_route": ("/plain", ASK),
    "an_unlisted_route": ("/other", ASK),
    "no_connection_token": ("/live", without("Connection")),
    "no_key": ("/live", without("Sec-WebSocket-Key")),
    "a_short_key": ("/live", {**ASK, "Sec-WebSocket-Key": "abc"}),
    "h2c": ("/live", {**ASK, "Upgrade": "h2c"}),
    "a_list": ("/live", {**ASK, "Upgrade": "websocket, h2c"}),
    "a_body": ("/live", {**ASK, "Content-Length": "0"}),
}


@pytest.mark.parametrize("name", NOT_ASKED)
def test_elsewhere_the_request_goes_on_without_its_upgrade(tunnels, name):
    port, running = tunnels
    target, headers = NOT_ASKED[name]
    with rawhttp.Connection(running.port) as connection:
        for _ in range(2):
            connection.send(rawhttp.render("GET", target, "shop.test", headers))
            assert connection.response().body == b"ok"
    assert not {"upgrade", "connection"} & set(fields_of(port.heads[0]))


@pytest.mark.parametrize("method", ["POST", "HEAD"])
def test_only_a_get_can_ask(tunnels, method):
    port, running = tunnels
    rawhttp.call(running.port, method, "/live", headers=ASK)
    assert "upgrade" not in fields_of(port.heads[0])


DISAGREE = {
    "declined": (b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno", 426),
    "ignored": (OK, 200),
    "another_protocol": (AGREE.replace(b"websocket", b"chat"), 502),
    "no_protocol": (AGREE.replace(b"Upgrade: websocket\r\n", b""), 502),
    "not_of_this_hop": (AGREE.replace(b"Connection: Upgrade\r\n", b""), 502),
}


@pytest.mark.parametrize("name", DISAGREE)
def test_without_an_agreement_there_is_no_tunnel_and_no_reuse(tmp_path, name):
    """What the client then sends is read as requests; the backend connection is used once."""
    text, status = DISAGREE[name]
    connections = []

    def serve(port, sock):
        connections.append(sock)
        left = b""
        while (left := port.head(sock, left)) is not None:
            asked = "upgrade" in fields_of(port.heads[-1])
            sock.sendall(text if asked else OK)

    with (
        ServedPort(serve) as port,
        Recourse(tmp_path, POLICY.format(url=port.url)) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        connection.send(rawhttp.render("GET", "/live", "shop.test", ASK))
        connection.send(rawhttp.render("GET", "/plain", "shop.test"))
        assert connection.response().status == status
        assert connection.response().body == b"ok"
        assert len(connections) == 2 and len(port.heads) == 2
        assert (decided(running, "opened"), decided(running, "refused")) == (0, 1)


def test_an_upgrade_never_takes_a_kept_connection(tunnels):
    port, running = tunnels
    with rawhttp.Connection(running.port) as connection:
        connection.send(rawhttp.render("GET", "/plain", "shop.test"))
        assert connection.response().body == b"ok"
        assert ask(connection)[0] == 101
        connection.send(b"x")
        assert connection.exactly(1) == b"x"
    (line,) = running.await_log(lambda line: line["status"] == 101)
    assert not line["conn_reused"]


def say(talking):
    talking.send(b"x")
    assert talking.exactly(1) == b"x"


def has_ended(silent):
    return bool(select.select([silent.socket], [], [], 0.1)[0])


def test_a_tunnel_that_is_silent_ends_and_one_that_talks_does_not(hasty):
    with rawhttp.Connection(hasty.port) as silent, rawhttp.Connection(hasty.port) as talking:
        assert ask(silent)[0] == ask(talking)[0] == 101
        late = time.monotonic() + WAIT_MAX
        while not has_ended(silent) or gauge(hasty) != 1:
            assert time.monotonic() < late, gauge(hasty)
            say(talking)
        assert silent.at_end()
        say(talking)


@pytest.mark.parametrize("who", ["client", "backend"])
def test_a_reset_on_one_side_ends_the_other(tmp_path, who):
    def serve(port, sock):
        port.head(sock)
        sock.sendall(AGREE)
        if sock.recv(1) and who == "backend":
            port.reset(sock)
        elif not sock.recv(1):
            port.heads.append(b"ended")

    with (
        ServedPort(serve) as port,
        Recourse(tmp_path, POLICY.format(url=port.url)) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        assert ask(connection)[0] == 101
        connection.send(b"x")
        if who == "client":
            connection.reset()
        else:
            assert connection.at_end()
        await_gauge(running, 0)
        assert running.running()


def test_a_shutdown_lets_a_talk_finish_and_does_not_wait_for_silence(tmp_path):
    """A talk is over after a second of silence, and this machine may stand still for as long: then
    it was this test that was silent, and it begins anew."""
    for turn in range(10):
        if talk_through_a_shutdown(tmp_path / str(turn)):
            return
    raise AssertionError("this machine stood still all the time")


def talk_through_a_shutdown(directory):
    """False: the talker itself was silent for too long."""
    with (
        ServedPort(echo) as port,
        # Only the talk's end may end the process, not that of the drain.
        Recourse(directory, POLICY.format(url=port.url), ["--drain-timeout", "1h"]) as running,
        rawhttp.Connection(running.port) as silent,
        rawhttp.Connection(running.port) as talking,
    ):
        assert ask(silent)[0] == ask(talking)[0] == 101
        running.terminate()
        began = said = time.monotonic()
        pause = 0.0
        while time.monotonic() < began + 1.6 or not has_ended(silent):
            assert time.monotonic() < began + WAIT_MAX, "the silent one does not end"
            try:
                say(talking)
            except (OSError, rawhttp.Cut):
                pause = max(pause, time.monotonic() - said)
                assert pause > 0.7, f"it ended while it was talked in, after {pause} s"
                return False
            now = time.monotonic()
            pause, said = max(pause, now - said), now
        assert silent.at_end()
        talking.close()
        assert running.wait() == 0
        return True


def test_one_that_never_reads_holds_no_memory_and_delays_nobody(tmp_path):
    """Back-pressure: what it does not take stays with the other side."""
    # The kernel's buffers take bytes long after the tunnel stands still; that must not end it here.
    flags = ["--stream-timeout", "1h"]
    with (
        ServedPort(echo) as port,
        Recourse(tmp_path, POLICY.format(url=port.url), flags) as running,
    ):
        before, _ = running.memory_kib()
        with rawhttp.Connection(running.port, receive_buffer=4096) as stuck:
            assert ask(stuck)[0] == 101
            stuck.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                for _ in range(PIECES_TOO_MANY):
                    stuck.send(b"x" * (1 << 16))
            for _ in range(20):
                assert rawhttp.call(running.port, "GET", "/plain").body == b"ok"
            now, _ = running.memory_kib()
            assert not MEASURABLE or now - before < 4096, f"{before} KiB before, {now} KiB now"
        await_gauge(running, 0)


def test_one_that_never_reads_is_given_up_when_nothing_moves_any_more(hasty):
    with rawhttp.Connection(hasty.port, receive_buffer=4096) as stuck:
        assert ask(stuck)[0] == 101
        stuck.socket.settimeout(0.3)
        with pytest.raises((TimeoutError, ConnectionError)):
            for _ in range(PIECES_TOO_MANY):
                stuck.send(b"x" * (1 << 16))
        await_gauge(hasty, 0)


def test_silent_tunnels_hold_no_buffers(tmp_path):
    count = 300
    with ServedPort(echo) as port, Recourse(tmp_path, POLICY.format(url=port.url)) as running:
        before, _ = running.memory_kib()
        connections = []
        for _ in range(count):
            connection = rawhttp.Connection(running.port)
            connections.append(connection)
            assert ask(connection)[0] == 101
        now, _ = running.memory_kib()
        # Two relay buffers each would be 256 KiB.
        assert not MEASURABLE or (now - before) / count < 40, (before, now)
        for connection in connections:
            connection.close()
        await_gauge(running, 0)


def test_a_real_client_talks_to_a_real_server(tmp_path):
    """npm's ws on both sides: text, one MiB, ping, subprotocol, clean close."""
    if not (CLIENTS / "node_modules" / "ws").exists():
        subprocess.run(["npm", "ci"], cwd=CLIENTS, check=True, timeout=300, capture_output=True)
    server = subprocess.Popen(
        ["node", str(CLIENTS / "echo.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        with Recourse(tmp_path, POLICY.format(url=url)) as running:
            done = subprocess.run(
                ["node", str(CLIENTS / "talk.mjs"), f"ws://127.0.0.1:{running.port}/live"],
                capture_output=True, text=True, timeout=2 * WAIT_MAX, check=True,
            )  # fmt: skip
            assert json.loads(done.stdout) == {
                "protocol": "chat", "text": "hello", "large": True, "pong": True, "code": 1000,
            }  # fmt: skip
            refused = subprocess.run(
                ["node", str(CLIENTS / "talk.mjs"), f"ws://127.0.0.1:{running.port}/plain"],
                capture_output=True, text=True, timeout=2 * WAIT_MAX, check=True,
            )  # fmt: skip
            assert "426" in json.loads(refused.stdout)["error"]
    finally:
        server.stdin.close()
        server.wait(WAIT_MAX)
        server.stdout.close()


def test_a_client_may_leave_in_the_moment_in_which_its_upgrade_is_agreed_to(tmp_path):
    """Somebody looks out for that while it waits, and must be gone before its session is."""
    asked, go, agreed = threading.Event(), threading.Event(), threading.Event()

    def serve(port, sock):
        while port.head(sock) is not None:
            if "upgrade" not in fields_of(port.heads[-1]):
                sock.sendall(OK)
                continue
            asked.set()
            go.wait(WAIT_MAX)
            sock.sendall(AGREE)
            agreed.set()
            with contextlib.suppress(OSError):
                sock.recv(1)
            return

    with ServedPort(serve) as port, Recourse(tmp_path, POLICY.format(url=port.url)) as running:
        connection = rawhttp.Connection(running.port)
        connection.send(rawhttp.render("GET", "/live", "shop.test", ASK))
        assert asked.wait(WAIT_MAX)
        # It is looked at after a second, which nothing outside shows. Where that comes later,
        # nothing is tested; nothing fails.
        lasts(1.5)
        os.kill(running.pid, signal.SIGSTOP)
        try:
            go.set()
            assert agreed.wait(WAIT_MAX)
            connection.reset()
        finally:
            os.kill(running.pid, signal.SIGCONT)
        assert rawhttp.call(running.port, "GET", "/plain").status == 200
