"""What is old is forgotten in the promised order, and a kill in its middle changes nothing."""

import os
import random
import re
import shutil
import tarfile
import time

import pytest

from support import rawhttp
from support.history import Write
from support.policies import standard
from support.recourse import CRASH_POINTS, ROOT, WAIT_MAX, NotReady, Recourse
from support.shim import Shim, needs_shim
from support.waiting import made_in_time, wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
KILLS = int(os.environ.get("RECOURSE_KILLS", "5"))
SEED = os.environ.get("RECOURSE_E2E_SEED") or str(random.SystemRandom().getrandbits(32))
RETENTION = 5.0  # seconds; a busy machine repeats a call within them
FIXTURE = ROOT / "tests/ledger/fixtures/schema1.tar.gz"


def policy(double, tombstones="300s", **more):
    return standard(double, **more, ledger=f"retention: {RETENTION:.0f}s, tombstones: {tombstones}")


def send(process, write):
    with rawhttp.Connection(process.port) as connection:
        connection.send(write.data)
        return connection.response("POST")


def await_answer(process, write, status):
    answer = None

    def is_told():
        nonlocal answer
        answer = send(process, write)
        return answer.status == status

    wait_until(is_told, lambda: f"{write.path}: {answer}")
    return answer


def test_a_repeat_is_replayed_then_refused_and_only_then_a_new_call(double, tmp_path, token):
    with Recourse(tmp_path, policy(double, tombstones="8s")) as process:

        def repeated(turn):
            write, begun = Write(f"/plain/{token}-{turn}", TRACE), time.monotonic()
            first, again = send(process, write), send(process, write)
            assert first.status == 201
            if time.monotonic() - begun >= RETENTION:
                return None
            assert again.body == first.body
            return write, begun

        write, begun = made_in_time(repeated)
        expired = await_answer(process, write, 410)
        assert time.monotonic() - begun >= RETENTION
        document = expired.json()
        assert document["type"].endswith("/key-expired") and document["retryable"] is False
        assert "POST" in document["detail"] and len(double.effects(write.path)) == 1
        again = await_answer(process, write, 201)
        assert time.monotonic() - begun >= RETENTION + 8.0
        assert not again.replayed and len(double.effects(write.path)) == 2
        report = process.verify()
        assert report["ok"] and report["first_id"] > 1, report
        told = process.cli("ledger", "verify").stdout
        assert re.search(r"rows before \d+ were removed by retention; chain base \w{64}", told)


def test_an_unknown_outcome_outlives_the_retention(double, tmp_path, token):
    with Recourse(tmp_path, policy(double)) as process:
        write = Write(f"/plain/{token}", TRACE)
        double.script("POST", write.path, ["read", "execute", "rst"], 1)
        assert send(process, write).json()["outcome"] == "unknown"
        operation = process.events_for(write.path)[0]["operation"]
        first = process.verify()["first_id"]
        wait_until(
            lambda: process.verify()["first_id"] > max(first, operation + 1), process.verify
        )
        refused = send(process, write)
        assert refused.status == 409 and refused.json()["outcome"] == "unknown"
        event = process.admin("GET", f"/events/{operation}")
        assert event["phase"] == "UNCERTAIN" and event["cause"] == "carried"
        assert len(double.effects(write.path)) == 1


class Agent:
    """Calls and repeats, and judges every answer on the spot."""

    def __init__(self, process, token):
        self.process = process
        self.token = token
        self.random = random.Random(f"{SEED}-{token}")
        self.answers = {}  # path -> (answer, when it was asked for)
        self.writes = []
        self.expired = 0

    def step(self):
        if not self.writes or self.random.random() < 0.5:
            self.writes.append(Write(f"/plain/{self.token}-{len(self.writes)}", TRACE))
            self.call(self.writes[-1])
        else:
            self.call(self.random.choice(self.writes))

    def call(self, write):
        before = self.answers.get(write.path)
        began = time.monotonic()
        try:
            answer = send(self.process, write)
        except (OSError, rawhttp.Cut):
            return
        if answer.status == 410:
            # Older than promised, counted from the call that was answered.
            assert before is None or time.monotonic() - before[1] >= RETENTION, write.path
            self.expired += 1
        elif before is not None:
            assert answer.replayed and answer.body == before[0].body, (write.path, answer)
        elif answer.status == 201:
            self.answers[write.path] = (answer, began)


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_a_kill_while_forgetting_loses_nothing_young_and_executes_nothing_twice(
    double, tmp_path, token
):
    print(f"seed {SEED}")
    hits = tmp_path / "hits"
    process = Recourse(tmp_path, policy(double))
    agent = Agent(process, token)
    for _ in range(KILLS):
        passes = agent.random.randint(1, 6)
        armed = {"RECOURSE_CRASH_POINT": f"k23:{passes}", "RECOURSE_CRASH_HITS": str(hits)}
        deadline = time.monotonic() + WAIT_MAX
        try:
            process.start(armed)
            while process.running():
                assert time.monotonic() < deadline, "k23 was not passed"
                agent.step()
        except NotReady:
            pass
        assert process.wait() == -9
    assert hits.read_text().split() == ["k23"] * KILLS
    with process:
        for write in agent.writes:
            agent.call(write)
        assert process.verify()["ok"]
        for write in agent.writes:
            assert len(double.effects(write.path)) <= 1, write.path
        assert agent.answers and agent.expired
        assert process.stop() == 0


def old_ledger(double, directory):
    """The directory that an older version left behind after a kill (tests/ledger/fixtures)."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(directory)
    return Recourse(directory, standard(double))


def call(process, path, trace):
    fields = rawhttp.traced("%032x" % trace)
    return rawhttp.call(process.port, "POST", path, headers=fields, body={"path": path})


def test_a_ledger_of_schema_1_is_taken_over(double, tmp_path):
    """Its rows are in clear; they are read, and new ones are sealed. Nobody knows whose they were,
    so nobody is shown their answers."""
    with old_ledger(double, tmp_path) as process:
        told = call(process, "/plain/succeeded", 0xA0)
        assert told.status == 409 and told.outcome == "executed"
        unknown = call(process, "/plain/unknown", 0xA2)
        assert unknown.status == 409 and unknown.json()["outcome"] == "unknown"
        running = call(process, "/plain/running", 0xA5)
        assert running.status == 409 and running.json()["outcome"] == "unknown"
        assert call(process, "/plain/alias", 0xA4).outcome == "executed"
        assert call(process, "/plain/alias", 0xA3).outcome == "executed"
        assert call(process, "/plain/new", 0xA9).status == 201
        report = process.verify()
        assert report["ok"] and report["rows"] > 21 and report["first_id"] == 1
        assert double.requests("/plain/succeeded") == double.requests("/plain/unknown") == []
        process.kill()
    shutil.rmtree(process.data / "index")
    stored = (process.data / "data.mdb").read_bytes()
    assert b"/plain/succeeded" in stored and b"/plain/new" not in stored
    with process:
        assert call(process, "/plain/succeeded", 0xA0).outcome == "executed"
        assert call(process, "/plain/new", 0xA9).replayed


@needs_shim
@pytest.mark.parametrize("point", ["pwrite", "dpwrite", "fdatasync", "journal"])
def test_a_kill_while_an_old_ledger_is_taken_over_loses_nothing(double, tmp_path, point):
    """SIGKILL before every write and every sync of the first start; the next one finishes it."""
    kills = 0
    for nth in range(1, 100):
        directory = tmp_path / str(nth)
        directory.mkdir()
        process = old_ledger(double, directory)
        shim = Shim(directory, process.data, f"{point}:{nth}:kill")
        shim.arm()
        try:
            process.start(shim.env)
        except NotReady:
            kills += 1
            assert process.wait() == -9 and shim.hits() == 1
        else:
            process.kill()
        with process:
            assert call(process, "/plain/succeeded", 0xA0).outcome == "executed"
            for path, trace in (("/plain/unknown", 0xA2), ("/plain/running", 0xA5)):
                assert call(process, path, trace).json()["outcome"] == "unknown"
            assert call(process, "/plain/alias", 0xA4).outcome == "executed"
            assert process.verify()["ok"] and process.stop() == 0
        if not shim.hits():
            break
    assert kills >= 3 and double.requests("/plain/unknown") == []
