"""Every bound that clients can reach: what is turned away then, and what still works."""

import contextlib
import os
import socket
import ssl
import threading
import time

import pytest

from support import rawhttp
from support.certificates import Maker
from support.double import ServedPort
from support.policies import standard
from support.recourse import MEASURABLE, WAIT_MAX, Recourse, run_cli
from support.waiting import lasts, wait_until

# For tests that hold connections in the middle of a head, however long a busy machine takes.
PATIENT = ["--head-timeout", "10m"]
MINIMAL = (
    'version: 1\nbackends:\n  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 10m,'
    " connect_timeout: 30s }}\n"
)


def served(connection, target="/read/x"):
    connection.send(rawhttp.render("GET", target, "shop.test"))
    return connection.response()


def assert_turned_away(connection):
    """Told so without having been asked anything, and closed."""
    answer = connection.response()
    assert answer.status == 503 and answer.header("Retry-After") == "1"
    assert answer.json()["outcome"] == "not_executed" and answer.json()["retryable"] is True
    assert connection.at_end()


def await_served(port):
    """A connection that closed gives its place back a moment later."""

    def is_served():
        with rawhttp.Connection(port) as connection, contextlib.suppress(OSError, rawhttp.Cut):
            return served(connection).status == 200

    wait_until(is_served, "the place never came back")


def rejections(running, reason):
    mark = f'recourse_overload_rejections_total{{reason="{reason}"}} '
    lines = running.probe("/metrics")[1].splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(mark)), 0)


REQUEST = rawhttp.render("GET", "/read/x", "shop.test")


def busy(stack, port, count, source=None):
    """Connections on which a request has begun, so that they are at work and not idle."""
    made = []
    for _ in range(count):
        made.append(stack.enter_context(rawhttp.Connection(port, source=source)))
        made[-1].send(REQUEST[:20])
    return made


def finished(connection):
    """What the begun request is answered."""
    connection.send(REQUEST[20:])
    return connection.response().status


def test_d04_connections_are_bounded(double, tmp_path):
    with (
        Recourse(tmp_path, standard(double), [*PATIENT, "--connections-max", "8"]) as running,
        contextlib.ExitStack() as stack,
    ):
        kept = busy(stack, running.port, 8)
        for _ in range(20):
            with rawhttp.Connection(running.port) as late:
                assert_turned_away(late)
        assert [finished(connection) for connection in kept] == [200] * 8
        assert rejections(running, "connections") == 20
        kept.pop().close()
        await_served(running.port)


@pytest.mark.parametrize("others", ["127.0.0.3"])
def test_d01_connections_of_one_peer_are_bounded(double, tmp_path, others):
    """One address can take its share and no more: the others still find a place."""
    arguments = [*PATIENT, "--connections-per-peer-max", "4", "--connections-max", "6"]
    with (
        Recourse(tmp_path, standard(double), arguments) as running,
        contextlib.ExitStack() as stack,
    ):
        busy(stack, running.port, 4, source="127.0.0.2")
        with rawhttp.Connection(running.port, source="127.0.0.2") as late:
            assert_turned_away(late)
        assert rejections(running, "connections_of_peer") == 1
        with rawhttp.Connection(running.port, source=others) as other:
            assert served(other).status == 200
        await_served(running.port)


def made_room(running):
    lines = running.probe("/metrics")[1].splitlines()
    name = "recourse_idle_connections_closed_total "
    return next(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_an_idle_connection_makes_room_for_a_new_client(double, tmp_path):
    """Who never asked goes first, then who asked longest ago; who is at work stays."""
    with (
        Recourse(tmp_path, standard(double), [*PATIENT, "--connections-max", "5"]) as running,
        contextlib.ExitStack() as stack,
    ):
        (at_work,) = busy(stack, running.port, 1)
        idle = [stack.enter_context(rawhttp.Connection(running.port)) for _ in range(2)]
        assert [served(connection).status for connection in idle] == [200, 200]
        silent = [stack.enter_context(rawhttp.Connection(running.port)) for _ in range(2)]
        for gone in (*silent, *idle):
            assert served(stack.enter_context(rawhttp.Connection(running.port))).status == 200
            assert gone.at_end()
        assert finished(at_work) == 200
        assert made_room(running) == 4 and rejections(running, "connections") == 0


def test_a_peer_makes_room_for_itself_only(double, tmp_path):
    arguments = ["--connections-per-peer-max", "2", "--connections-max", "4"]
    with (
        Recourse(tmp_path, standard(double), arguments) as running,
        contextlib.ExitStack() as stack,
    ):

        def connect(source):
            connection = stack.enter_context(rawhttp.Connection(running.port, source=source))
            assert served(connection).status == 200
            return connection

        other = connect("127.0.0.3")
        greedy = [connect("127.0.0.2") for _ in range(5)]
        assert all(connection.at_end() for connection in greedy[:3])
        for connection in (*greedy[3:], other):
            assert served(connection).status == 200


def test_an_idle_connection_makes_room_on_a_tls_listener_too(double, tmp_path):
    maker = Maker(tmp_path / "ca")
    own = maker.issue("listener")
    arguments = ["--tls-cert", own.cert, "--tls-key", own.key, "--connections-max", "2"]
    with Recourse(tmp_path, standard(double), arguments) as running:
        context = ssl.create_default_context(cafile=maker.cert)

        def connect():
            raw = socket.create_connection(("127.0.0.1", running.port), timeout=WAIT_MAX)
            return context.wrap_socket(raw, server_hostname="localhost")

        with connect() as first, connect() as second, connect() as third:
            assert first.recv(1) == b"", "closed with a goodbye"
            for sock in (second, third):
                sock.sendall(REQUEST)
                assert sock.recv(12) == b"HTTP/1.1 200"


def connections_used(running, count):
    """Sends that many reads and gives how many each connection served, and the last fields."""
    served_by, last = [], []
    while sum(served_by) < count:
        with rawhttp.Connection(running.port) as connection:
            served_by.append(0)
            while sum(served_by) < count:
                answer = served(connection)
                assert answer.status == 200
                served_by[-1] += 1
                last.append(answer.header("Connection"))
                if answer.header("Connection") == "close":
                    assert connection.at_end()
                    break
    return served_by, last


def test_the_last_answer_of_a_connection_says_so(double, tmp_path, token):
    """Nothing is lost: not its bytes, and not what was sent behind it, which was not looked at."""
    arguments = ["--requests-per-connection-max", "3"]
    with Recourse(tmp_path, standard(double), arguments) as running:
        assert connections_used(running, 7) == ([3, 3, 1], [None, None, "close"] * 2 + [None])
        paths = [f"/plain/{token}-{number}" for number in range(6)]
        with rawhttp.Connection(running.port) as connection:
            # Pipelined: a reset for those behind the third would eat its answer. What came a second
            # after that would be answered by one.
            asked = (rawhttp.render("POST", path, "shop.test", body=b"x" * 100) for path in paths)
            connection.send(b"".join(asked))
            double.await_effects(paths[2])
            answers = [connection.response("POST") for _ in range(3)]
            assert [answer.status for answer in answers] == [201] * 3
            assert answers[-1].header("Connection") == "close"
            assert not connection.fill(), "an end, and no reset"
        assert [len(double.effects(path)) for path in paths] == [1, 1, 1, 0, 0, 0]


def test_writes_at_once_are_bounded(double, tmp_path, token):
    """The fifth is refused before it is remembered or sent; reads go on."""
    with Recourse(tmp_path, standard(double), ["--writes-max", "4"]) as running:
        answers = {}

        def write(path):
            answers[path] = rawhttp.call(running.port, "POST", path).status

        paths = [f"/plain/{token}-{n}" for n in range(4)]
        threads = [threading.Thread(target=write, args=(path,)) for path in paths]
        for path in paths:
            double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
        for thread in threads:
            thread.start()
        for path in paths:
            double.await_requests("POST", path)
        late = f"/plain/{token}-late"
        answer = rawhttp.call(running.port, "POST", late)
        assert answer.status == 503 and answer.json()["outcome"] == "not_executed"
        assert answer.header("Retry-After") is not None
        assert running.events_for(late) == [] and double.requests(late) == []
        assert rawhttp.call(running.port, "GET", f"/read/{token}").status == 200
        assert rejections(running, "writes") == 1
        double.open_gate(token)
        for thread in threads:
            thread.join()
        assert set(answers.values()) == {201}
        assert rawhttp.call(running.port, "POST", late).status == 201


def test_a_connection_serves_on_after_a_write_without_a_body_was_refused(double, tmp_path, token):
    """Nothing of the next request is taken for a part of the one that was refused."""
    path = f"/plain/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    with Recourse(tmp_path, standard(double), ["--writes-max", "1"]) as running:
        holder = threading.Thread(target=rawhttp.call, args=(running.port, "POST", path))
        holder.start()
        double.await_requests("POST", path)
        with rawhttp.Connection(running.port) as connection:
            for method, target, status in (("DELETE", path, 503), ("GET", f"/read/{token}", 200)):
                connection.send(rawhttp.render(method, target, "shop.test"))
                assert connection.response(method).status == status
        double.open_gate(token)
        holder.join()


CROWD = 300  # this process has a file for each end of them


def test_what_a_crowd_opened_to_a_backend_serves_its_next_turn(tmp_path):
    """All ask at once, twice; nobody's second request waits for a new connection."""
    arrived = threading.Semaphore(0)
    turns = [threading.Event(), threading.Event()]
    opened = []

    def serve(port, sock):
        opened.append(sock)
        for go in turns:
            if port.head(sock) is None:
                return
            arrived.release()
            go.wait(5 * WAIT_MAX)
            sock.sendall(
                b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=50\r\nContent-Length: 2\r\n\r\nok"
            )

    with (
        ServedPort(serve) as port,
        Recourse(tmp_path, MINIMAL.format(url=port.url)) as running,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(rawhttp.Connection(running.port)) for _ in range(CROWD)]
        for go in turns:
            for client in clients:
                client.send(rawhttp.render("GET", "/a", "shop.test"))
            for _ in range(CROWD):
                assert arrived.acquire(timeout=WAIT_MAX)
            go.set()
            assert all(client.response().body == b"ok" for client in clients)
        assert len(opened) == CROWD


class FewFiles(Recourse):
    def command(self):
        return ["prlimit", "--nofile=128:128", *super().command()]


def test_d04_a_low_limit_of_files_is_a_limit_of_connections(double, tmp_path):
    """Who comes too late is told so; nobody waits in a queue that is never served."""
    with FewFiles(tmp_path, standard(double), PATIENT) as running, contextlib.ExitStack() as stack:
        wait_until(lambda: "raise the limit of open files" in running.stderr())
        kept = busy(stack, running.port, 80)
        for _ in range(30):
            with rawhttp.Connection(running.port) as late:
                assert_turned_away(late)
        assert finished(kept[0]) == finished(kept[-1]) == 200
        for connection in kept:
            connection.close()
        await_served(running.port)


IDLE, CLIENTS, FILES = 80, 190, 256


class SomeFiles(Recourse):
    """Room for 192 clients, and not for as many and those idle connections."""

    def command(self):
        return ["prlimit", f"--nofile={FILES}:{FILES}", *super().command()]


KEPT_ANSWER = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=600\r\nContent-Length: 2\r\n\r\nok"


def ask_together(running, stack):
    """Clients whose backend answers none of them before all have come."""
    clients = [stack.enter_context(rawhttp.Connection(running.port)) for _ in range(IDLE)]
    for client in clients:
        client.send(rawhttp.render("GET", "/together", "shop.test"))
    return clients


def test_idle_connections_to_backends_leave_their_files_to_clients_and_probes(tmp_path):
    """Clients that find a connection for their reads open none, so nothing but their coming can
    tell that files are short."""
    all_there = threading.Barrier(IDLE)

    def serve(port, sock):
        while port.head(sock) is not None:
            if port.heads[-1].startswith(b"GET /together"):
                all_there.wait(WAIT_MAX)
            sock.sendall(KEPT_ANSWER)

    with (
        ServedPort(serve) as port,
        SomeFiles(tmp_path, MINIMAL.format(url=port.url), ["--idle-timeout", "600s"]) as running,
        contextlib.ExitStack() as stack,
    ):
        clients = ask_together(running, stack)
        assert all(client.response().status == 200 for client in clients)
        for _ in range(CLIENTS - IDLE):
            client = stack.enter_context(rawhttp.Connection(running.port))
            client.send(rawhttp.render("GET", "/a", "shop.test"))
            assert client.response().status == 200
        assert running.probe("/live")[0] == 200
        assert "cannot accept" not in running.stderr()


def open_files(running):
    """Without those that are open for a moment only, such as a policy that is looked at."""
    counts = []
    while len(counts) < 5:
        counts.append(len(os.listdir(f"/proc/{running.pid}/fd")))
        lasts(0.005)  # a moment, of which nothing tells
    return min(counts)


KEPT_FOR = 60  # seconds, of an idle connection to a backend that allows that


def is_served_without_a_file_left(directory, listener, status):
    """What is at work has all files but those of idle connections to a backend. False: only when
    these had been idle for too long."""
    all_there = threading.Barrier(IDLE)
    arrived = threading.Semaphore(0)

    def serve(port, sock):
        while port.head(sock) is not None:
            if port.heads[-1].startswith(b"GET /together"):
                all_there.wait(WAIT_MAX)
            if port.heads[-1].startswith(b"POST"):
                arrived.release()
                port.stopped.wait()
            sock.sendall(KEPT_ANSWER)

    with (
        ServedPort(serve) as port,
        SomeFiles(directory, MINIMAL.format(url=port.url), ["--idle-timeout", "600s"]) as running,
        contextlib.ExitStack() as stack,
    ):
        clients = ask_together(running, stack)
        began = time.monotonic()
        assert all(client.response().status == 200 for client in clients)
        writers = []
        while FILES - open_files(running) > len(writers):
            writers.append(stack.enter_context(rawhttp.Connection(running.port)))
            assert served(writers[-1]).status == 200
        while open_files(running) < FILES:
            writers.pop().send(rawhttp.render("POST", f"/{len(writers)}", "shop.test"))
            assert arrived.acquire(timeout=WAIT_MAX)
        assert running.http(listener, "GET", "/live")[0] == status
        return time.monotonic() < began + KEPT_FOR


# Their server is Asio's, whose types UBSan looks up by way of a pipe.
@pytest.mark.skipif(not MEASURABLE, reason="a sanitizer needs file descriptors for its own checks")
@pytest.mark.parametrize("listener, status", [("probes", 200), ("admin", 401)])
def test_idle_connections_to_backends_make_room_for_our_own_ports(tmp_path, listener, status):
    assert any(
        is_served_without_a_file_left(tmp_path / str(number), listener, status)
        for number in range(3)
    )


TWO = """\
version: 1
backends:
  a: { url: %s, hosts: [ a.test ] }
  b: { url: %s, hosts: [ b.test ] }
"""


def test_kept_connections_make_room_when_files_are_short(tmp_path):
    """A crowd turns to another backend; what it left with the first one is not in its way."""
    count = 40
    arrived, go = threading.Semaphore(0), threading.Event()

    def serve(port, sock):
        while port.head(sock) is not None:
            arrived.release()
            go.wait(5 * WAIT_MAX)
            sock.sendall(
                b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=50\r\nContent-Length: 2\r\n\r\nok"
            )

    with (
        ServedPort(serve) as a,
        ServedPort(serve) as b,
        FewFiles(tmp_path, TWO % (a.url, b.url)) as running,
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(rawhttp.Connection(running.port)) for _ in range(count)]
        for host in ("a.test", "b.test"):
            for client in clients:
                client.send(rawhttp.render("GET", "/a", host))
            for _ in range(count):
                assert arrived.acquire(timeout=WAIT_MAX)
            go.set()
            assert all(client.response().status == 200 for client in clients)
            go.clear()


@pytest.mark.parametrize("value", ["0s", "50ms", "25h", "10", "soon", ""])
def test_a_patience_that_makes_no_sense_is_refused(tmp_path, value):
    done = run_cli("run", "--policy", tmp_path, "--data", tmp_path, f"--head-timeout={value}")
    assert done.returncode == 2 and "--head-timeout" in done.stderr
    assert "10s or 2m" in done.stderr or value == ""


@pytest.mark.parametrize(
    "flag",
    ["connections-max", "connections-per-peer-max", "writes-max", "requests-per-connection-max"],
)
def test_a_bound_that_makes_no_sense_is_refused(tmp_path, flag):
    for value in ("0", "-1", "1000001", "many"):
        done = run_cli("run", "--policy", tmp_path, "--data", tmp_path, f"--{flag}={value}")
        assert done.returncode == 2 and f"--{flag}" in done.stderr


def test_every_bound_has_a_variable(double, tmp_path):
    env = {"RECOURSE_CONNECTIONS_MAX": "1", "RECOURSE_IDLE_TIMEOUT": "5s"}
    with Recourse(tmp_path, standard(double), env=env) as running:
        with rawhttp.Connection(running.port) as only, rawhttp.Connection(running.port) as late:
            assert served(late).status == 200
            assert only.at_end() and late.at_end()
