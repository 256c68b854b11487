"""What calls may hold: a process in a cell of 512 MiB lives through floods, and serves others."""

import contextlib
import json
import threading

import pytest

from support import rawhttp
from support.cgroup import MemoryCell
from support.double import ServedPort
from support.policies import standard
from support.recourse import MEASURABLE, WAIT_MAX, Recourse
from support.waiting import wait_until

MIB = 1 << 20
CELL = 512 * MIB
BODY_MAX = 8 * MIB
ANSWER_MAX = 8 * MIB
CALL = 16 << 10  # that each holds, whatever its size
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
OTHER = "127.0.0.2"  # an address whose calls have a part of their own
HELD = """\
  held.create:
    match: POST shop /held/{token}
    effect: write
    hold: 10m
    undo: none
    reason: a row of a test is never undone
"""
UNDONE = """\
version: 1
backends: {{ shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 10m }} }}
tools:
  rows.add: {{ match: "POST shop /rows/{{token}}", effect: write,
              undo: {{ request: "DELETE /rows/{{path.token}}" }} }}
"""
LARGE = """\
  large: {{ url: "{url}", hosts: [ large.test ], timeout: 10m }}
"""


def answer_at_length(port, sock):
    """As much as is passed on, to whoever asks."""
    if port.head(sock) is not None:
        size = ANSWER_MAX - 1024
        sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + b"a" * size)


@pytest.fixture
def large():
    with ServedPort(answer_at_length) as port:
        yield port


@pytest.fixture
def cell(double, large, tmp_path, token):
    """A process that may use as much memory as the chart's limit gives it. Where the kernel does
    not say so, it is told, and the highest size that it had is looked at in the end."""
    group = MemoryCell(f"{tmp_path.name}-{token}", CELL)
    policy = standard(
        double, timeout="10m", extra_tools=HELD, backends=LARGE.format(url=large.url)
    )
    # Nobody is slow here, also on a busy machine.
    arguments = ["--send-timeout", "10m", "--body-timeout", "10m"]
    if not group.is_made:
        arguments += ["--call-memory", str(CELL // 8 * 3)]
    running = Recourse(tmp_path, policy, arguments)
    running.wrapper = group.wrapper
    try:
        running.start()
        yield running
        assert running.running(), running.stderr()[-4000:]
        now, highest = running.memory_kib()
        assert group.kills() == 0
        assert not MEASURABLE or highest < CELL // 1024, f"{now} KiB, at most {highest} KiB"
    finally:
        running.kill()
        group.remove()


@contextlib.contextmanager
def others_are_served(process, token):
    """While the block runs, writes of another address are served all the time."""
    stop, answers = threading.Event(), []

    def live():
        while not stop.is_set():
            path = f"/plain/{token}-other-{len(answers)}"
            with rawhttp.Connection(process.port, source=OTHER) as connection:
                connection.send(rawhttp.render("POST", path, "shop.test", body=b"x" * 100_000))
                answers.append(connection.response("POST").status)
            stop.wait(0.02)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
        seen = len(answers)
        wait_until(lambda: len(answers) > seen + 2, lambda: f"others were told {answers}")
    finally:
        stop.set()
        thread.join()
    assert set(answers) == {201}, answers


def assert_overloaded(answer):
    document = answer.json()
    assert answer.status == 503 and document["type"].endswith("/overloaded"), answer
    assert document["outcome"] == "not_executed" and document["retryable"] is True
    assert int(answer.header("Retry-After")) > 0


@pytest.mark.parametrize("pair", [b"a&", b"=&", b"abcdefg&", b"a=%61&"])
def test_a_form_of_millions_of_pairs_is_refused_before_it_is_taken_apart(
    cell, double, token, pair
):
    path = f"/plain/{token}"
    body = pair * (BODY_MAX // len(pair))
    answer = rawhttp.call(cell.port, "POST", path, headers=FORM, body=body)
    assert answer.status == 413 and "10,000 pairs" in answer.json()["detail"], answer
    assert answer.json()["outcome"] == "not_executed"
    assert double.requests(path) == [] and cell.events_for(path) == []
    now, highest = cell.memory_kib()
    assert not MEASURABLE or highest < 96 * 1024, f"{now} KiB, at most {highest} KiB"


def test_a_form_at_the_bound_is_served(cell, double, token):
    path = f"/plain/{token}"
    pairs = b"&".join(b"n%d=%d" % (n, n) for n in range(10_000))
    assert rawhttp.call(cell.port, "POST", path, headers=FORM, body=pairs).status == 201
    assert len(double.effects(path)) == 1
    late = rawhttp.call(cell.port, "POST", path, headers=FORM, body=pairs + b"&one=more")
    assert late.status == 413


def test_the_budget_is_a_part_of_the_memory_that_the_process_may_use(cell):
    assert cell.metric("recourse_buffered_bytes_max") == CELL // 8 * 3


def test_a_flag_says_what_calls_may_hold(double, tmp_path):
    with Recourse(tmp_path, standard(double), ["--call-memory", "100MiB"]) as running:
        assert running.metric("recourse_buffered_bytes_max") == 100 * MIB


def test_bodies_count_as_they_arrive_and_large_ones_leave_room_for_others(cell, double, token):
    """Sixty bodies of the largest size, of which only the last byte is missing."""
    begun = []
    with others_are_served(cell, token):
        for number in range(60):
            connection = rawhttp.Connection(cell.port)
            length = {"Content-Length": BODY_MAX}
            path = f"/plain/{token}-{number}"
            connection.send(rawhttp.render("POST", path, "shop.test", length, length=False))
            connection.send_as_far_as_taken(b"a" * (BODY_MAX - 1))
            begun.append((connection, path))
        small = rawhttp.call(cell.port, "POST", f"/plain/{token}-small", body=b"x" * 10_000)
        assert small.status == 201, "also of those who send them"
        served = 0
        for connection, path in begun:
            connection.send_as_far_as_taken(b"a")
            answer = connection.response("POST")
            served += answer.status == 201
            if answer.status != 201:
                assert_overloaded(answer)
                assert double.requests(path) == []
            connection.close()
        assert served >= 10, served
    assert cell.metric('recourse_overload_rejections_total{reason="memory"}') == 60 - served
    wait_until(lambda: cell.held_bytes() == 0, "all is given back")


def test_uploads_that_drip_hold_what_has_come_of_them(cell, double, token):
    slow = []
    with others_are_served(cell, token):
        for number in range(200):
            connection = rawhttp.Connection(cell.port)
            coding = {"Transfer-Encoding": "chunked"}
            path = f"/plain/{token}-{number}"
            connection.send(rawhttp.render("POST", path, "shop.test", coding, length=False))
            connection.send(b"2\r\nxx\r\n")
            slow.append(connection)
        wait_until(lambda: cell.held_bytes() >= 200 * 1024, "all have begun to arrive")
        assert cell.held_bytes() < 8 * MIB
        assert cell.metric("recourse_writes_in_flight") <= 1, "the one of the others, at most"
        whole = rawhttp.call(cell.port, "POST", f"/plain/{token}-whole", body=b"x" * BODY_MAX)
        assert whole.status == 201, "of the same address"
    for connection in slow:
        connection.close()
    wait_until(lambda: cell.held_bytes() == 0, "what they held is given back")


def test_answers_that_nobody_reads_are_held_within_the_budget(cell, large, token):
    """Refused before they are sent, told whole, or told that they were executed: never unknown."""
    clients = []
    with others_are_served(cell, token):
        for number in range(120):
            connection = rawhttp.Connection(cell.port, receive_buffer=1 << 16)
            connection.send(rawhttp.render("POST", f"/{token}/{number}", "large.test"))
            clients.append(connection)
        wait_until(lambda: cell.metric("recourse_writes_in_flight") >= 100, "all are at work")
        told = {"whole": 0, "not kept": 0, "refused": 0}
        for connection in clients:
            answer = connection.response("POST")
            if answer.status == 200:
                told["whole"] += 1
                assert len(answer.body) == ANSWER_MAX - 1024
            elif answer.json()["outcome"] == "executed":
                told["not kept"] += 1
            else:
                told["refused"] += 1
                assert_overloaded(answer)
            connection.close()
    assert told["whole"] >= 10 and len(large.heads) == 120 - told["refused"], told
    wait_until(lambda: cell.held_bytes() == 0, "all is given back")


def test_the_answer_to_an_undo_request_is_a_part_of_the_budget(tmp_path, token):
    """Nobody waits for it, and it takes memory all the same."""
    last_byte = threading.Event()

    def answer(port, sock):
        if port.head(sock) is None:
            return
        if port.heads[-1].startswith(b"POST"):
            sock.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
            return
        size = ANSWER_MAX - 1024
        sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        sock.sendall(b"a" * (size - 1))
        last_byte.wait()
        sock.sendall(b"a")

    with ServedPort(answer) as port, Recourse(tmp_path, UNDONE.format(url=port.url)) as running:
        path, trace = f"/rows/{token}", "8" * 32
        flow = rawhttp.traced(trace)
        assert rawhttp.call(running.port, "POST", path, headers=flow).status == 201
        cancelled = running.cli("flows", "cancel", trace, "--reason", "test")
        assert cancelled.returncode == 0, cancelled.stderr
        wait_until(lambda: running.held_bytes() > ANSWER_MAX - MIB, lambda: running.held_bytes())
        last_byte.set()
        running.await_phase(path, "COMPENSATED")
        wait_until(lambda: running.held_bytes() == 0, "all is given back")


def test_repeats_that_wait_stop_no_other_call_and_leave_with_their_clients(
    double, tmp_path, token
):
    """Far more than may be at work at once."""
    policy = standard(double, timeout="10m", extra_tools=HELD)
    path, trace = f"/held/{token}", rawhttp.traced("6" * 32)
    request = rawhttp.render("POST", path, "shop.test", trace, body=b"same")
    with (
        Recourse(tmp_path, policy, ["--writes-max", "4"]) as running,
        contextlib.ExitStack() as stack,
    ):
        double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
        first = stack.enter_context(rawhttp.Connection(running.port))
        first.send(request)
        double.await_requests("POST", path)
        repeats = []
        for number in range(20):
            repeats.append(stack.enter_context(rawhttp.Connection(running.port)))
            repeats[-1].send(request)
            all_held = (3 + number) * CALL  # the first one has room for an answer as well
            wait_until(lambda bytes_=all_held: running.held_bytes() >= bytes_, "it has come")
            wait_until(lambda: running.metric("recourse_writes_in_flight") == 1, "it waits")
        assert rawhttp.call(running.port, "POST", f"/plain/{token}", body=b"x").status == 201
        # Those that stay get the answer; those whose clients leave hold nothing any more.
        left = running.held_bytes() - 15 * CALL
        for connection in repeats[5:]:
            connection.reset()  # one that only closes may be reading still
        wait_until(lambda: running.held_bytes() <= left, lambda: f"{running.held_bytes()} held")
        double.open_gate(token)
        assert first.response("POST").status == 201
        for connection in repeats[:5]:
            assert connection.response("POST").replayed
        assert len(double.effects(path)) == 1


def test_what_waits_is_a_part_of_the_budget(cell, double, token):
    """Repeats with large bodies of one address: some are refused, and others go on."""
    path, trace = f"/held/{token}", rawhttp.traced("7" * 32)
    request = rawhttp.render("POST", path, "shop.test", trace, body=b"s" * MIB)
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    with others_are_served(cell, token), contextlib.ExitStack() as stack:
        clients = []
        for number in range(300):
            clients.append(stack.enter_context(rawhttp.Connection(cell.port)))
            clients[-1].send_as_far_as_taken(request)
            if number == 0:
                double.await_requests("POST", path)
        refused = 'recourse_overload_rejections_total{reason="memory"}'
        wait_until(lambda: cell.metric(refused) > 100, "some do not fit")
        double.open_gate(token)
        told = [connection.response("POST") for connection in clients]
        assert {answer.status for answer in told} == {201, 503}
        for answer in told:
            assert answer.status == 201 or json.loads(answer.body)["outcome"] == "not_executed"
        assert len(double.effects(path)) == 1
    wait_until(lambda: cell.held_bytes() == 0, "all is given back", WAIT_MAX)
