"""Denial of service (4-D): what is shed, and what still works meanwhile."""

import contextlib
import json
import threading
import time

import pytest

from support import rawhttp
from support.double import ServedPort
from support.policies import standard
from support.recourse import MEASURABLE, WAIT_MAX, Recourse
from support.waiting import lasts, wait_until

MIB = 1 << 20
# Short enough for a test, longer than a busy machine stands still; `run` documents the real ones.
LIMIT = 4
ARGUMENTS = ["--head-timeout", f"{LIMIT}s", "--body-timeout", f"{LIMIT}s", "--idle-timeout", "1m",
             "--send-timeout", f"{LIMIT}s", "--stream-timeout", "1m"]  # fmt: skip


@pytest.fixture
def hasty(double, tmp_path):
    with Recourse(tmp_path, standard(double), ARGUMENTS) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@contextlib.contextmanager
def others_are_served(process, token):
    """While the block runs, a write and reads of other clients are answered all the time."""
    stop, answers = threading.Event(), []

    def live():
        while not stop.is_set():
            answers.append(rawhttp.call(process.port, "GET", f"/read/{token}/other").status)
            path = f"/plain/{token}-other"
            answers.append(rawhttp.call(process.port, "POST", path, body=b"x").status)
            stop.wait(0.02)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
        # The block may be over before a busy machine has let this thread run.
        wait_until(lambda: len(answers) > 2, lambda: f"others were told {answers}")
    finally:
        stop.set()
        thread.join()
    assert len(answers) > 2 and set(answers) <= {200, 201}, answers


def drip(connections, data, pause, until):
    """One more byte of `data` on every connection, then a pause; until that, or the data's end."""
    for byte in data:
        if until():
            return
        for connection in connections:
            connection.send_as_far_as_taken(bytes([byte]))
        lasts(pause)  # it is slow on purpose


def statuses_of(connections):
    """What each was told before it was closed."""
    told = []
    for connection in connections:
        try:
            told.append(connection.response("POST").status)
            assert connection.at_end()
        except (ConnectionResetError, rawhttp.Cut) as error:
            told.append(repr(error))
        connection.close()
    return told


def test_d01_heads_that_trickle_in_are_ended(hasty, token):
    """A byte now and then buys no time: the head has one deadline."""
    with others_are_served(hasty, token):
        slow = [rawhttp.Connection(hasty.port) for _ in range(200)]
        head = rawhttp.render("GET", "/read/slow", "shop.test", {"X-Slow": "x" * 200})
        began = time.monotonic()
        drip(slow, head, 0.1, lambda: time.monotonic() > began + LIMIT + 1)
        assert statuses_of(slow) == [408] * len(slow)


def test_d01_two_thousand_slow_heads_cost_little_and_delay_nobody(double, tmp_path, token):
    """Each is in the middle of its head, and gets a byte more now and then."""
    count = 2000
    arguments = ["--head-timeout", "10m"]  # all are to be held at once, however long that takes
    with (
        Recourse(tmp_path, standard(double), arguments) as running,
        contextlib.ExitStack() as stack,
    ):
        assert rawhttp.call(running.port, "GET", f"/read/{token}").status == 200
        before, _ = running.memory_kib()
        slow = []
        with others_are_served(running, token):
            for _ in range(count):
                slow.append(stack.enter_context(rawhttp.Connection(running.port)))
                slow[-1].send(b"GET /read/slow HTTP/1.1\r\nX-Slow: ")
            for _ in range(3):
                for connection in slow:
                    connection.send(b"x")
        now, _ = running.memory_kib()
        assert not MEASURABLE or (now - before) / count < 24, f"{(now - before) / count} KiB each"
        # All were held at once: the last ones still are, and are served when they ask.
        slow[-1].send(b"\r\nHost: shop.test\r\n\r\n")
        assert slow[-1].response().status == 200


@pytest.mark.parametrize("lane", ["read", "write"])
def test_d03_a_reader_that_is_too_slow_is_cut_and_the_others_go_on(hasty, double, token, lane):
    """A sip now and then buys no time; the answer of a write is whole for whoever repeats it."""
    size = MIB - 100
    if lane == "read":
        path, headers = f"/read/bytes-{token}", {}
        request = rawhttp.render("GET", f"{path}?n={100 * MIB}", "shop.test")
    else:
        path, headers = f"/plain/{token}", rawhttp.traced("5" * 32)
        answer = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n" + "y" * size
        double.script("POST", path, ["read", "execute", {"send": answer}], 1)
        request = rawhttp.render("POST", path, "shop.test", headers, b"x")
        assert rawhttp.call(hasty.port, "POST", path, headers=headers, body=b"x").status == 200
        # More than the sockets hold, so that the answer depends on the reader.
        request *= 8
    with (
        others_are_served(hasty, token),
        rawhttp.Connection(hasty.port, receive_buffer=4096) as slow,
    ):
        slow.send(request)
        began = time.monotonic()
        # What the kernel has taken already is still there to read.
        while not any(line["client_gone"] for line in hasty.access_log()):
            assert time.monotonic() < began + WAIT_MAX, "it is still served"
            assert slow.socket.recv(1024)
            lasts(0.1)  # it is slow on purpose
    if lane == "write":
        repeat = rawhttp.call(hasty.port, "POST", path, headers=headers, body=b"x")
        assert repeat.replayed and len(repeat.body) == size
        assert len(double.effects(path)) == 1


def test_d15_connections_that_ask_nothing_are_closed(double, tmp_path, token):
    arguments = ["--idle-timeout", "5s"]
    with (
        Recourse(tmp_path, standard(double), arguments) as running,
        others_are_served(running, token),
    ):
        fresh = rawhttp.Connection(running.port)
        used = rawhttp.Connection(running.port)
        used.send(rawhttp.render("GET", f"/read/{token}", "shop.test"))
        assert used.response().status == 200
        assert fresh.at_end() and used.at_end()


SLOW_BODIES = {
    "length": ({"Content-Length": 5000}, b"a" * 5000),
    "chunked": ({"Transfer-Encoding": "chunked"}, b"1388\r\n" + b"a" * 5000 + b"\r\n0\r\n\r\n"),
    "one_byte_chunks": ({"Transfer-Encoding": "chunked"}, b"1\r\na\r\n" * 1000 + b"0\r\n\r\n"),
}


@pytest.mark.parametrize("name", SLOW_BODIES)
@pytest.mark.parametrize("lane", ["read", "write"])
def test_d02_bodies_that_trickle_in_are_ended(hasty, double, token, lane, name):
    """Twenty bytes a second: there is always progress, and never enough of it."""
    path = "/read/upload" if lane == "read" else f"/plain/{token}"
    fields, body = SLOW_BODIES[name]
    before = len(double.effects(path))
    with others_are_served(hasty, token):
        slow = [rawhttp.Connection(hasty.port) for _ in range(10)]
        for connection in slow:
            connection.send(rawhttp.render("POST", path, "shop.test", fields, length=False))
        began = time.monotonic()
        drip(slow, body, 0.05, lambda: time.monotonic() > began + LIMIT + 1)
        assert statuses_of(slow) == [408] * len(slow)
    assert len(double.effects(path)) == before
    if lane == "write":
        assert double.requests(path) == [] and hasty.events_for(path) == []


@pytest.mark.parametrize("lane", ["read", "write"])
def test_a_body_that_is_slow_but_steady_arrives(hasty, token, lane):
    """Longer than the timeout, at a little more than the least rate."""
    path = "/read/upload" if lane == "read" else f"/plain/{token}"
    with rawhttp.Connection(hasty.port) as connection:
        size = {"Content-Length": 70 * 120}
        connection.send(rawhttp.render("POST", path, "shop.test", size, length=False))
        for _ in range(70):
            lasts(0.08)  # it is slow on purpose
            connection.send(b"a" * 120)
        assert connection.response("POST").status in (200, 201)


def test_d03_answers_that_nobody_reads_are_given_up(hasty, double, token):
    """What they cost meanwhile is one buffer each, and the backend gets its connection back."""
    path = f"/read/bytes-{token}"
    before, _ = hasty.memory_kib()
    with others_are_served(hasty, token):
        greedy = []
        for _ in range(20):
            connection = rawhttp.Connection(hasty.port, receive_buffer=4096)
            connection.send(rawhttp.render("GET", f"{path}?n={100 * MIB}", "shop.test"))
            greedy.append(connection)
        lines = hasty.await_log(lambda line: line["bytes_out"] > MIB, len(greedy))
        now, _ = hasty.memory_kib()
        assert not MEASURABLE or now - before < 20 * 400, f"{before} KiB before, {now} KiB now"
        assert all(line["client_gone"] and line["bytes_out"] < 50 * MIB for line in lines)
        for connection in greedy:
            connection.close()


def test_d03_a_slow_reader_delays_nobody(hasty, double, token):
    """It takes its answer in small sips, which is its right, on the same thread as the others."""
    path = f"/read/bytes-{token}"
    with (
        others_are_served(hasty, token),
        rawhttp.Connection(hasty.port, receive_buffer=4096) as slow,
    ):
        slow.send(rawhttp.render("GET", f"{path}?n={100 * MIB}", "shop.test"))
        assert slow.head()[0] == 200
        began = time.monotonic()
        while time.monotonic() < began + LIMIT + 1:
            assert slow.socket.recv(1 << 14)
            lasts(0.1)  # it is slow on purpose


def test_d04_a_flood_of_connections_leaves_the_process_usable(double, tmp_path, token):
    arguments = [*ARGUMENTS, "--connections-max", "50"]
    with Recourse(tmp_path, standard(double), arguments) as running:
        with rawhttp.Connection(running.port) as kept, contextlib.ExitStack() as stack:
            for number in range(1000):
                flood = rawhttp.Connection(running.port)
                stack.callback(flood.reset)
                if number % 50 == 0:
                    kept.send(rawhttp.render("GET", f"/read/{token}", "shop.test"))
                    assert kept.response().status == 200

        def is_served():
            status = rawhttp.call(running.port, "GET", f"/read/{token}").status
            assert status in (200, 503)
            return status == 200

        wait_until(is_served, "the flood has not left the process usable")


def flood_extension(connection):
    connection.send_as_far_as_taken(b"3;")
    for _ in range(64):
        connection.send(b"x" * MIB)


def flood_trailers(connection):
    connection.send_as_far_as_taken(b"3\r\nabc\r\n0\r\n")
    for _ in range(64):
        connection.send((b"X-A: " + b"y" * 1000 + b"\r\n") * 1024)


def flood_tiny_chunks(connection):
    for _ in range(64):
        connection.send(b"1\r\na\r\n" * (MIB // 6))


FLOODS = {
    "H38_extension": (flood_extension, {400}),
    "H44_trailers": (flood_trailers, {400, 431}),
    "H40_tiny_chunks": (flood_tiny_chunks, {413}),
}


@pytest.fixture
def calm(double, tmp_path):
    """No limit of it is met by a client that only is slow."""
    with Recourse(tmp_path, standard(double)) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("lane", ["read", "write"])
def test_floods_of_framing_are_cut_early(calm, double, token, lane, name):
    """Sixty-four MiB of framing: a small part is taken, none is kept, the answer says why."""
    flood, statuses = FLOODS[name]
    path = "/read/upload" if lane == "read" else f"/plain/{token}"
    before, _ = calm.memory_kib()
    with rawhttp.Connection(calm.port) as connection:
        coding = {"Transfer-Encoding": "chunked"}
        connection.send(rawhttp.render("POST", path, "shop.test", coding, length=False))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            flood(connection)
        assert connection.response("POST").status in statuses
    now, _ = calm.memory_kib()
    assert not MEASURABLE or now - before < 4096, f"{before} KiB before, {now} KiB now"
    assert double.effects(path) == []
    if lane == "write":
        assert double.requests(path) == []


def test_thousands_of_idle_connections_cost_little(double, tmp_path, token):
    count = 2000
    with Recourse(tmp_path, standard(double)) as running, contextlib.ExitStack() as stack:
        assert rawhttp.call(running.port, "GET", f"/read/{token}").status == 200
        before, _ = running.memory_kib()
        for _ in range(count):
            connection = stack.enter_context(rawhttp.Connection(running.port))
            connection.send(rawhttp.render("OPTIONS", "*", "shop.test"))
            assert connection.response().status == 204
        now, _ = running.memory_kib()
        assert not MEASURABLE or (now - before) / count < 16, f"{(now - before) / count} KiB each"
        assert rawhttp.call(running.port, "GET", f"/read/{token}").status == 200


EVENTS = 200_000
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
POLICY = 'version: 1\nbackends:\n  shop: {{ url: "{url}", hosts: [ shop.test ] }}\n'


def test_a_stream_of_many_events_needs_no_memory(tmp_path):
    """As many as come in hours; each one arrives, whole and in order."""

    def serve(port, sock):
        port.head(sock)
        sock.sendall(STREAM)
        for first in range(0, EVENTS, 50):
            events = (b"data: %d\n\n" % number for number in range(first, first + 50))
            sock.sendall(b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in events))
        sock.sendall(b"0\r\n\r\n")

    with (
        ServedPort(serve) as port,
        Recourse(tmp_path, POLICY.format(url=port.url)) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        connection.send(rawhttp.render("GET", "/events", "shop.test"))
        assert connection.head()[0] == 200
        chunks = connection.chunks()
        first = next(chunks)
        before, _ = running.memory_kib()
        seen = first + b"".join(chunks)
        assert seen == b"".join(b"data: %d\n\n" % number for number in range(EVENTS))
        now, _ = running.memory_kib()
        assert not MEASURABLE or now - before < 2048, f"{before} KiB before, {now} KiB now"


@pytest.mark.parametrize("gap, whole", [(2, True), (300, False)], ids=["heartbeats", "silence"])
def test_a_stream_lives_as_long_as_its_heartbeats(tmp_path, gap, whole):
    """The bound is on silence, not on the length of the stream."""

    def serve(port, sock):
        port.head(sock)
        sock.sendall(STREAM)
        for _ in range(4):
            sock.sendall(b"3\r\n:\n\n\r\n")
            port.stopped.wait(gap)
        sock.sendall(b"0\r\n\r\n")

    with (
        ServedPort(serve) as port,
        Recourse(tmp_path, POLICY.format(url=port.url), ["--stream-timeout", "6s"]) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        connection.send(rawhttp.render("GET", "/events", "shop.test"))
        if whole:
            assert connection.response().body == b":\n\n" * 4
        else:
            with pytest.raises((rawhttp.Cut, ConnectionResetError)):
                connection.response()


def series(process):
    lines = process.probe("/metrics")[1].splitlines()
    return {line.rpartition(" ")[0] for line in lines if line and not line.startswith("#")}


def test_d13_no_label_of_a_metric_comes_from_a_client(double, tmp_path, token):
    def calls(process, name):
        for method in ("GET", "POST", "PROPFIND", f"M{name.upper()}", "TRACE"):
            rawhttp.call(process.port, method, f"/{name}/{name}?{name}=1", headers={name: name})
        rawhttp.call(process.port, "GET", "/x", host=f"{name}.test")
        rawhttp.exchange(process.port, f"GET /{name} HTTP/9.9\r\n{name}: 1\r\n\r\n".encode())

    with Recourse(tmp_path, standard(double)) as running:
        calls(running, f"{token}first")
        before = series(running)
        for number in range(20):
            calls(running, f"{token}n{number}")
        assert series(running) == before
        assert not [line for line in before if token in line.lower()]


EVIL = [
    "/plain/{t}%0d%0aX: 1", "/plain/{t}%1b[31mred", "/plain/{t}%c2%9b31m", "/plain/{t}\x1b[2J",
    "/plain/{t}\r\nX: 1", "/plain/{t}%22%7d%0a%7b", '/plain/{t}"}}', "/plain/{t}%e2%80%ae",
]  # fmt: skip


def test_d14_nothing_that_is_logged_can_pose_as_a_log_line(double, tmp_path, token):
    """Whatever stands in a path, a header or an answer: one JSON line each, without controls."""
    with Recourse(tmp_path, standard(double)) as running:
        for method in ("GET", "POST", "DELETE"):
            for target in EVIL:
                for line in ("X-A: \x1b[31m", 'X-A: "}}\\', "Host: a\x1b.test", "X-A: \x9b31m"):
                    target_bytes = target.format(t=token).encode("latin-1")
                    rawhttp.exchange(
                        running.port,
                        method.encode() + b" " + target_bytes + b" HTTP/1.1\r\nHost: shop.test\r\n"
                        + line.encode("latin-1") + b"\r\nConnection: close\r\n\r\n",
                        half_close=True,
                    )  # fmt: skip
        path = f"/plain/{token}"
        nasty = json.dumps({"id": "evil\u202e\u009b31m"})
        reply = f"HTTP/1.1 201 \x80ok\r\nContent-Length: {len(nasty)}\r\n\r\n{nasty}"
        double.script("POST", path, ["read", "execute", {"send": reply}], 1)
        rawhttp.call(running.port, "POST", path, headers={"X-Trace": "\x9b"})
        listed = running.cli("events", "list")
        assert listed.returncode == 0
        (event,) = [e for e in running.events_for(path) if e["phase"] == "SUCCEEDED"]
        shown = running.cli("events", "show", event["event_id"])
        assert running.stop() == 0
        for text in (running.stdout_path, running.stderr_path):
            for line in text.read_bytes().splitlines():
                assert all(byte >= 0x20 and byte != 0x7F for byte in line), line
                assert isinstance(json.loads(line), dict)
        # What an operator prints on a terminal does not steer it.
        for text in (listed.stdout, shown.stdout):
            assert "evil" in text
            assert not [c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) < 0xA0]
            assert "\u202e" not in text


@pytest.mark.parametrize("listener, path", [("probes", "/live"), ("admin", "/events?limit=1")])
def test_silence_on_our_own_ports_keeps_nobody_out(double, tmp_path, listener, path):
    """Whoever fills the 256 places there, with nothing or half a head, makes room for who asks."""
    with Recourse(tmp_path, standard(double)) as process, contextlib.ExitStack() as stack:
        for number in range(300):
            silent = rawhttp.Connection(process.ports[listener])
            stack.enter_context(silent)
            if number % 2:
                silent.send(b"GET /live HTTP/1.1\r\nHost: x\r\n")
        for _ in range(3):
            status, _ = process.http(listener, "GET", path)
            assert status == (200 if listener == "probes" else 401)
