"""A ledger that can no longer be written: writes are refused, reads go on, nothing is forgotten.

RLIMIT_FSIZE of the running process is set to zero, so that every further write to a file fails the
way a full or broken disk fails.
"""

import json
import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.history import Write
from support.policies import standard
from support.recourse import Recourse

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def fresh(double, tmp_path):
    with Recourse(tmp_path, standard(double)) as running:
        yield running


def break_files(process):
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def send(process, write):
    with rawhttp.Connection(process.port) as connection:
        connection.send(write.data)
        return connection.response("POST")


def test_without_a_ledger_writes_are_refused_and_reads_go_on(fresh, double, token):
    old, new = Write(f"/plain/{token}-old", TRACE), Write(f"/plain/{token}-new", TRACE)
    first = send(fresh, old)
    assert first.status == 201
    break_files(fresh)
    for _ in range(3):
        refused = send(fresh, new)
        assert refused.status == 503, refused
        document = refused.json()
        assert document["type"].endswith("/log-unavailable")
        assert document["outcome"] == "not_executed" and document["retryable"] is True
    assert double.requests(new.path) == []
    assert rawhttp.call(fresh.port, "GET", f"/read/{token}").status == 200
    replay = send(fresh, old)
    assert replay.replayed and replay.body == first.body
    assert fresh.probe("/ready")[0] == 503 and fresh.probe("/live")[0] == 200


def test_it_stays_latched_until_a_restart(fresh, double, token):
    """After a failed commit nobody knows what the disk kept, so no later commit may be trusted."""
    write = Write(f"/plain/{token}", TRACE)
    break_files(fresh)
    assert send(fresh, write).status == 503
    resource.prlimit(fresh.pid, resource.RLIMIT_FSIZE,
                     (resource.RLIM_INFINITY, resource.RLIM_INFINITY))  # fmt: skip
    assert send(fresh, write).status == 503
    assert double.requests(write.path) == []
    fresh.stop()
    fresh.start()
    assert send(fresh, write).status == 201
    assert len(double.effects(write.path)) == 1 and fresh.verify()["ok"]


@pytest.mark.parametrize("kind", ["plain", "probed"])
def test_an_outcome_that_cannot_be_written_is_unknown(fresh, double, token, kind):
    """The effect happened and its answer arrived, but nobody may build on what is not durable."""
    write = Write(f"/{kind}/{token}", TRACE)
    double.script("POST", write.path, ["read", "execute", {"gate": token}, "answer"], 1)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(send, fresh, write)
        double.await_requests("POST", write.path)
        break_files(fresh)
        double.open_gate(token)
        answer = first.result()
    assert answer.status == 503 and answer.json()["outcome"] == "unknown", answer
    assert send(fresh, write).json()["outcome"] in ("unknown", "pending")
    fresh.kill()
    fresh.start()
    if kind == "plain":
        again = send(fresh, write)
        assert again.status == 409 and again.json()["outcome"] == "unknown"
    else:
        fresh.await_phase(write.path, "SUCCEEDED")
        again = send(fresh, write)
        assert again.status == 200 and again.outcome == "executed"
        assert double.effects(write.path)[0]["id"] in json.dumps(again.json())
    assert len(double.effects(write.path)) == 1 and len(double.requests(write.path, "POST")) == 1
