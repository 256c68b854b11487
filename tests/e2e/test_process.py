"""Faults of the process itself (c02-c05): suspended at a bad moment, asked to end, short of memory
or of file descriptors. None of them makes a second effect or loses an outcome."""

import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from support import checker, rawhttp
from support.history import History, Write
from support.policies import standard
from support.recourse import (
    BINARY,
    CRASH_POINTS,
    MEASURABLE,
    ROOT,
    WAIT_MAX,
    Recourse,
    environment,
)
from support.waiting import lasts, wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NOBODY = 61234  # no other process has this user, so its limits are its own
needs_descriptors = pytest.mark.skipif(
    not MEASURABLE, reason="a sanitizer needs file descriptors for its own checks"
)
SUSPEND_POINTS = [f"k{number:02d}" for number in range(5, 13)]


def is_suspended(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", SUSPEND_POINTS)
def test_c02_a_process_suspended_past_every_deadline_wakes_up_to_the_truth(
    double, tmp_path, point
):
    """While it sleeps, the backend's deadline and its client's patience both pass."""
    history = History(str(tmp_path / "history.jsonl"))
    recourse = Recourse(tmp_path, standard(double, timeout="3s", absent_after="4s"))
    recourse.start({"RECOURSE_CRASH_POINT": f"{point}:1:stop"})
    try:
        # The answer comes in pieces, for k09; a busy machine may still see them as one.
        for number in range(50):
            path = f"/probed/suspended-{point}-{number}"
            write = Write(path, TRACE, query="?slow=1")
            caller = threading.Thread(target=history.call, args=(recourse.port, write, 4.0))
            caller.start()
            wait_until(lambda done=caller: is_suspended(recourse.pid) or not done.is_alive())
            caller.join()
            if is_suspended(recourse.pid):
                break
        os.kill(recourse.pid, signal.SIGCONT)
        wait_until(lambda: (history.call(recourse.port, write) or write) is not write)
        recourse.await_phase(path, ("SUCCEEDED", "ANSWER_LOST", "PROVEN_ABSENT", "NOT_SENT"))
        answer = history.call(recourse.port, write)
        assert answer.status in (200, 201), answer
        assert len(double.effects(path)) == 1
        record = [line for line in double.record() if f"/suspended-{point}-" in line["path"]]
        # A busy machine may let three seconds pass in any of the calls.
        made = {line["path"] for line in history.lines()}
        assert not checker.check(record, history.lines(), recourse.events(), faulty=made)
        assert recourse.stop() == 0, recourse.stderr()[-4000:]
    finally:
        recourse.kill()
        history.close()


def begin_call(recourse, double, path):
    """A write that its backend has received and answers when the gate `path` opens."""
    double.script("POST", path, ["read", "execute", {"gate": path}, "answer"], 1)
    answers = []
    caller = threading.Thread(
        target=lambda: answers.append(call(recourse, path))
    )
    caller.start()
    double.await_requests("POST", path)
    return caller, answers


def call(recourse, path):
    with rawhttp.Connection(recourse.port) as connection:
        try:
            connection.send(Write(path, TRACE).data)
            return connection.response("POST")
        except (OSError, rawhttp.Cut):
            return None


def refuses(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_MAX).close()
    except OSError:
        return True
    return False


def test_c03_sigterm_lets_a_running_write_end_and_refuses_the_next(double, tmp_path, token):
    path = f"/probed/{token}"
    with Recourse(tmp_path, standard(double)) as recourse:
        caller, answers = begin_call(recourse, double, path)
        recourse.terminate()
        wait_until(lambda: recourse.probe("/ready")[0] == 503)
        wait_until(lambda: refuses(recourse.port))  # the listener closes soon after
        double.open_gate(path)
        caller.join()
        assert answers[0].status == 201
        assert recourse.wait() == 0
        recourse.start()
        repeat = call(recourse, path)
        assert repeat.replayed and repeat.body == answers[0].body
        assert len(double.effects(path)) == 1


def test_c03_a_second_sigterm_and_the_end_of_the_grace_leave_an_unknown_that_settles(
    double, tmp_path, token
):
    """The kubelet's SIGKILL at the end of the grace is the same for the ledger."""
    for number, end in enumerate((signal.SIGTERM, signal.SIGKILL)):
        path = f"/probed/{token}-{number}"
        with Recourse(tmp_path / str(number), standard(double)) as recourse:
            caller, _ = begin_call(recourse, double, path)
            recourse.terminate()
            wait_until(lambda recourse=recourse: recourse.probe("/ready")[0] == 503)
            recourse.process.send_signal(end)
            recourse.wait()
            double.open_gate(path)
            caller.join()
            recourse.start()
            recourse.await_phase(path, ("SUCCEEDED", "ANSWER_LOST"))
            repeat = call(recourse, path)
            assert repeat.status in (200, 201), repeat
            assert len(double.effects(path)) == 1
            causes = [event["cause"] for event in recourse.events_for(path)]
            assert "crash" in causes and "probe_present" in causes


@pytest.mark.skipif(not MEASURABLE, reason="sanitizers reserve address space of their own")
def test_c04_a_process_without_memory_ends_and_starts_again_whole(double, tmp_path, token):
    """Address space runs out under load: the process ends, as an OOM kill would end it."""
    history = History(str(tmp_path / "history.jsonl"))
    recourse = Recourse(
        tmp_path, standard(double), arguments=["--ledger-max", "64MiB", "--threads", "1"]
    ).start()
    try:
        with open(f"/proc/{recourse.pid}/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        limit = size + 6 * 1024 * 1024
        history.add({"t": "down", "what": "no memory"})
        resource.prlimit(recourse.pid, resource.RLIMIT_AS, (limit, limit))
        made = press(recourse, history, token)
        assert not recourse.running(), "the limit was never reached, so this proved nothing"
        assert recourse.process.returncode < 0, recourse.process.returncode
        recourse.start()
        history.add({"t": "up"})
        for write in made:
            wait_until(lambda write=write: is_settled(history.call(recourse.port, write)))
        record = [line for line in double.record() if f"/{token}-" in line["path"]]
        found = checker.check(record, history.lines(), recourse.events(), settled=("/probed/",))
        assert not found, "\n".join(found[:10])
    finally:
        recourse.kill()
        history.close()


def is_settled(answer):
    return answer is not None and answer.status in (200, 201)


def press(recourse, history, token):
    """Writes, while sixteen large bodies at a time are held half received."""
    made, held = [], []
    deadline = time.monotonic() + WAIT_MAX
    try:
        while recourse.running() and time.monotonic() < deadline:
            made.append(Write(f"/probed/{token}-{len(made)}", TRACE))
            history.call(recourse.port, made[-1])
            held.append(half_a_body(recourse.port))
    finally:
        for sock in held:
            if sock is not None:
                sock.close()
    return made


def half_a_body(port):
    try:
        sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_MAX)
        sock.sendall(
            b"POST /plain/never HTTP/1.1\r\nHost: shop.test\r\nContent-Type: text/plain\r\n"
            b"Content-Length: 4000000\r\n\r\n" + b"x" * 3_900_000
        )
        return sock
    except OSError:
        return None


@needs_descriptors
def test_c05_without_file_descriptors_nothing_is_lost_and_service_returns(
    double, tmp_path, token
):
    history = History(str(tmp_path / "history.jsonl"))
    with Recourse(tmp_path, standard(double)) as recourse:
        used = len(os.listdir(f"/proc/{recourse.pid}/fd"))
        limit = used + 8
        hard = resource.prlimit(recourse.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(recourse.pid, resource.RLIMIT_NOFILE, (limit, hard))
        crowd = [socket.create_connection(("127.0.0.1", recourse.port)) for _ in range(64)]
        starved = [Write(f"/probed/{token}-{number}", TRACE) for number in range(4)]
        for write in starved:
            history.call(recourse.port, write, timeout=0.3)
        before = cpu_seconds(recourse.pid)
        lasts(0.5)  # a rate is measured: it does not spin on accept
        assert cpu_seconds(recourse.pid) - before < 0.4, "it spins while it cannot accept"
        for sock in crowd:
            sock.close()
        resource.prlimit(recourse.pid, resource.RLIMIT_NOFILE, (hard, hard))
        for write in starved:
            wait_until(lambda write=write: is_settled(history.call(recourse.port, write)))
            assert len(double.effects(write.path)) == 1
        record = [line for line in double.record() if f"/{token}-" in line["path"]]
        assert not checker.check(record, history.lines(), recourse.events())
        assert recourse.stop() == 0
    history.close()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@needs_descriptors
def test_c05_a_backend_connection_that_cannot_be_made_was_not_sent(double, tmp_path, token):
    """The client is in, but there is no descriptor left for the backend's side."""
    path = f"/probed/{token}"
    with Recourse(tmp_path, standard(double)) as recourse:
        with rawhttp.Connection(recourse.port) as connection:
            connection.send(Write(f"/probed/{token}-first", TRACE).data)
            assert connection.response("POST").status == 201
            used = len(os.listdir(f"/proc/{recourse.pid}/fd"))
            hard = resource.prlimit(recourse.pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(recourse.pid, resource.RLIMIT_NOFILE, (used - 4, hard))
            connection.send(Write(path, TRACE).data)
            answer = connection.response("POST")
            assert answer.status == 503 and answer.json()["outcome"] == "not_executed", answer
            assert not double.effects(path)
            resource.prlimit(recourse.pid, resource.RLIMIT_NOFILE, (hard, hard))
            connection.send(Write(path, TRACE).data)
            assert connection.response("POST").status == 201
        assert len(double.effects(path)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a user without threads left")
def test_c05_a_start_without_threads_says_so(double):
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        recourse = Recourse(f"{directory}/poor", standard(double), token=False)
        binary = shutil.copy(BINARY, f"{directory}/recourse")  # the build may be for root alone
        for path in (recourse.directory, recourse.policy_path):
            os.chown(path, NOBODY, NOBODY)

        def become_poor():
            resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
            os.setgid(NOBODY)
            os.setuid(NOBODY)

        done = subprocess.run(
            [binary, *recourse.command()[1:]], env=environment(), preexec_fn=become_poor,
            capture_output=True, text=True, timeout=WAIT_MAX, check=False,
        )  # fmt: skip
    assert done.returncode == 1, (done.returncode, done.stderr[-500:])
    assert "thread" in done.stderr, done.stderr[-500:]


@pytest.mark.skipif(not MEASURABLE, reason="a sanitizer has threads of its own")
def test_each_thread_has_a_name_that_operators_are_told_of(double, tmp_path):
    """Of 15 bytes, which is what the kernel keeps; threads of one kind go by number."""
    told = set(re.findall(r"`(recourse(?:-[a-z0-9-]+)?)`", paragraph_of_threads()))
    policy = standard(double).replace("127.0.0.1", "localhost")
    with Recourse(tmp_path, policy, ["--threads", "2"]) as running:
        assert rawhttp.call(running.port, "GET", "/read/x").status in (200, 502)

        def names():
            tasks = pathlib.Path(f"/proc/{running.pid}/task")
            return sorted((task / "comm").read_text().strip() for task in tasks.iterdir())

        main = pathlib.Path(BINARY).name[:15]  # `recourse`, if nobody renamed it
        wait_until(lambda: names().count(main) == 1 and "recourse-names" in names())
        seen = [name for name in names() if name != main]
        many = ("recourse-io-", "recourse-body-")
        kinds = {name for name in seen if not name.startswith(many)}
        assert {prefix + n for prefix in many for n in "01"} == set(seen) - kinds
        assert {prefix + "0" for prefix in many} <= told
        assert kinds <= told and "recourse-writer" in kinds
        assert len(seen) == len(set(seen)), seen


def paragraph_of_threads():
    text = (ROOT / "proxy/RUNNING.md").read_text()
    return next(paragraph for paragraph in text.split("\n\n") if "`ps -T`" in paragraph)
