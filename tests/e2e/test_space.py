"""A ledger without room: new writes are refused, what had begun gets its outcome, reads go on."""

import contextlib
import itertools
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from support import rawhttp
from support.disks import small_disk
from support.history import Write
from support.policies import standard
from support.recourse import Recourse
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
LONG = "?note=" + "x" * 2000  # the log holds it, so that fewer writes fill it


def send(process, write):
    with rawhttp.Connection(process.port) as connection:
        connection.send(write.data)
        return connection.response("POST")


def fill(process, token, workers=4, most=20_000):
    """New writes from many agents until one is refused; gives what was answered."""
    answers, refused = {}, threading.Event()

    def work(worker):
        number = 0
        while not refused.is_set() and number < most // workers:
            write = Write(f"/plain/{token}-{worker}-{number}", TRACE, query=LONG)
            answers[write.path] = (write, send(process, write))
            if answers[write.path][1].status != 201:
                refused.set()
            number += 1

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    assert refused.is_set(), "it never filled"
    # Room that was reserved for calls in flight is free again when they have ended.
    for number in range(most):
        write = Write(f"/plain/{token}-last-{number}", TRACE, query=LONG)
        answers[write.path] = (write, send(process, write))
        if answers[write.path][1].status != 201:
            return answers
    raise AssertionError("it never filled")


def check_full(process, double, token):
    answers = fill(process, token)
    for write, answer in answers.values():
        effects = double.effects(write.path)
        if answer.status == 201:
            assert len(effects) == 1
        else:
            assert answer.status == 503 and effects == [], (write.path, answer)
            document = answer.json()
            assert document["type"].endswith("/log-full"), document
            assert document["outcome"] == "not_executed" and document["retryable"] is True
            assert answer.header("Retry-After")
    status = process.admin("GET", "/ledger")
    assert status["full"] and not status["latched"]
    assert status["running"] == status["uncertain"] == 0, "an outcome was not recorded"
    assert rawhttp.call(process.port, "GET", f"/read/{token}").status == 200
    done = next(write for write, answer in answers.values() if answer.status == 201)
    assert send(process, done).replayed
    assert process.probe("/ready")[0] == 200
    assert "recourse_store_full 1" in process.probe("/metrics")[1]
    assert "the ledger fills up" in process.stderr()
    assert process.verify()["ok"]


def test_a_full_ledger_refuses_what_is_new_and_a_larger_limit_lets_it_go_on(
    double, tmp_path, token
):
    with Recourse(tmp_path, standard(double), ["--ledger-max", "8MiB"]) as process:
        check_full(process, double, token)
        told = process.cli("ledger", "status")
        assert told.returncode == 0 and "refused: there is no room" in told.stdout
        assert process.stop() == 0
        process.arguments = ["--ledger-max", "16MiB"]
        process.start()
        assert send(process, Write(f"/plain/{token}-again", TRACE)).status == 201


def test_retention_makes_room_without_a_restart(double, tmp_path, token):
    with Recourse(tmp_path, standard(double), ["--ledger-max", "2MiB"]) as process:
        fill(process, token)
        # Only now: however slowly it fills, nothing leaves meanwhile.
        shorter = standard(double, ledger="retention: 1s, tombstones: 2s")
        process.policy_path.write_text(shorter)
        assert process.cli("policy", "reload").returncode == 0
        more = (Write(f"/plain/{token}-more-{number}", TRACE) for number in itertools.count())
        wait_until(lambda: send(process, next(more)).status == 201, "no room was made")
        assert process.running() and not process.admin("GET", "/ledger")["latched"]


def test_a_full_disk_refuses_what_is_new_and_room_on_it_lets_it_go_on(double, tmp_path, token):
    with small_disk(tmp_path / "disk", "6m") as disk:
        process = Recourse(tmp_path / "run", standard(double))
        process.data = disk / "data"
        with process:
            check_full(process, double, token)
            subprocess.run(["mount", "-o", "remount,size=12m", str(disk)], check=True)
            again = Write(f"/plain/{token}-again", TRACE)
            wait_until(lambda: send(process, again).status == 201, "it does not go on")
            assert process.stop() == 0


def test_somebody_else_who_fills_the_disk_costs_no_outcome(double, tmp_path, token):
    with small_disk(tmp_path / "disk", "16m") as disk:
        process = Recourse(tmp_path / "run", standard(double))
        process.data = disk / "data"
        with process:
            write = Write(f"/plain/{token}-open", TRACE)
            double.script("POST", write.path, ["read", "execute", {"gate": token}, "answer"], 1)
            with ThreadPoolExecutor(1) as pool:
                first = pool.submit(send, process, write)
                double.await_requests("POST", write.path)
                with open(disk / "other", "wb") as other:
                    with contextlib.suppress(OSError):
                        while True:
                            os.write(other.fileno(), bytes(65536))
                double.open_gate(token)
                assert first.result().status == 201
            assert send(process, write).replayed
            assert not process.admin("GET", "/ledger")["latched"]


def test_a_caller_over_its_quota_is_told_so_and_its_repeats_are_answered(double, tmp_path, token):
    policy = standard(double) + (
        "quotas: { default: { writes_in_flight: 2, operations_per_hour: 5 } }\n"
    )
    with Recourse(tmp_path, policy) as process:
        slow = [Write(f"/plain/{token}-slow{i}", TRACE) for i in range(2)]
        for write in slow:
            double.script("POST", write.path, ["read", "execute", {"gate": token}, "answer"], 1)
        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(send, process, write) for write in slow]
            for write in slow:
                double.await_requests("POST", write.path)
            third = send(process, Write(f"/plain/{token}-third", TRACE))
            assert third.status == 429 and third.header("Retry-After")
            document = third.json()
            assert document["type"].endswith("/quota-exceeded")
            assert document["outcome"] == "not_executed"
            assert "writes_in_flight" in document["detail"]
            double.open_gate(token)
            assert [answer.result().status for answer in running] == [201, 201]
        for number in range(3):
            assert send(process, Write(f"/plain/{token}-{number}", TRACE)).status == 201
        over = send(process, Write(f"/plain/{token}-over", TRACE))
        assert over.status == 429 and "operations_per_hour" in over.json()["detail"]
        assert send(process, slow[0]).replayed
        assert double.requests(f"/plain/{token}-over") == []
        assert rawhttp.call(process.port, "GET", f"/read/{token}").status == 200
        metrics = process.probe("/metrics")[1]
        assert 'recourse_quota_refusals_total{quota="writes_in_flight"} 1' in metrics
        assert 'recourse_quota_refusals_total{quota="operations_per_hour"} 1' in metrics
