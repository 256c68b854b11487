"""Backend faults b01-b29: where each leads, alone and with duplicates racing.

All scenarios run side by side when the module starts, since most of their time is waiting for
deadlines; each test then looks at the end of its own.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from support import checker, rawhttp
from support.double import FullPort, RefusedPort, ResettingPort
from support.faults import FAULTS
from support.history import History, Write
from support.recourse import PATIENCE, Recourse

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RACERS = 8
RUN_MAX = 300 * PATIENCE  # of all scenarios together
POLICY = """\
version: 1
backends:
  shop:  {{ url: "http://127.0.0.1:{shop}", hosts: [ shop.test ], timeout: 5s }}
  down:  {{ url: "http://127.0.0.1:{down}", hosts: [ down.test ] }}
  full:  {{ url: "http://127.0.0.1:{full}", hosts: [ full.test ], connect_timeout: 300ms }}
  reset: {{ url: "http://127.0.0.1:{reset}", hosts: [ reset.test ], timeout: 5s }}
tools:
  plain.create:  {{ match: "POST shop /plain/{{token}}", {write} }}
  judged.create:
    {{ match: "POST shop /judged/{{token}}", {write}, success_when: [ "answer.body#/ok == true" ] }}
  large.create:  {{ match: "POST shop /large/{{token}}", {write}, timeout: 10s }}
  listed.create: {{ match: "POST shop /listed/{{token}}", {write}, not_executed: [ 503 ] }}
  probed.create:
    match: POST shop /probed/{{token}}
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /probed/{{path.token}}?client_ref={{body#/client_ref}}"
      happened: answer.body#/items/0/id
      absent_after: 3s
    undo: none
    reason: rows of tests are never undone
  late.create:
    match: POST shop /late/{{token}}
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /late/{{path.token}}?client_ref={{body#/client_ref}}"
      happened: answer.body#/items/0/id
      absent_after: 1h
    undo: none
    reason: rows of tests are never undone
  down.create:  {{ match: "POST down /plain/{{token}}", {write} }}
  full.create:  {{ match: "POST full /plain/{{token}}", {write} }}
  reset.create: {{ match: "POST reset /plain/{{token}}", {write} }}
"""
WRITE = "effect: write, external_ref: answer.body#/id, undo: none, reason: rows of tests"
CASES = [
    (name, route, raced)
    for name, fault in FAULTS.items()
    for route in ([fault.kind] if fault.only_plain else [fault.kind, "probed"])
    for raced in ([False] if fault.alone else [False, True])
]


def path_of(name, route, raced):
    return f"/{route}/{name}{'-raced' if raced else ''}"


class Scenario:
    """What one fault led to."""

    def __init__(self, fixture, name, route, raced):
        self.fixture = fixture
        self.fault = FAULTS[name]
        self.path = path_of(name, route, raced)
        self.route = route
        padding = self.fault.body_bytes
        self.write = Write(self.path, TRACE, self.fault.host, padding=padding)
        fixture.double.script("POST", self.path, self.fault.steps, None if raced else 1)
        self.first = None
        if raced:
            with ThreadPoolExecutor(RACERS) as pool:
                self.answers = list(pool.map(lambda _: self.call(), range(RACERS)))
        else:
            self.answers = [self.call()]
        self.rest = self.come_to_rest()
        self.effects = fixture.double.effects(self.path)

    def call(self):
        return self.fixture.history.call(self.fixture.proxy.port, self.write)

    def come_to_rest(self):
        """The last event once it has settled, or at once where nothing can settle it."""
        wanted = self.fault.phases
        if self.route == "probed" and "UNCERTAIN" in wanted:
            wanted = ("SUCCEEDED", "ANSWER_LOST", "PROVEN_ABSENT", "NOT_SENT")
        return self.fixture.proxy.await_phase(self.path, wanted)


class Fixture:
    def __init__(self, double, proxy, history, pool):
        self.double = double
        self.proxy = proxy
        self.history = history
        self.futures = {case: pool.submit(Scenario, self, *case) for case in CASES}


@pytest.fixture(scope="module")
def faults(double, tmp_path_factory):
    ports = {"down": RefusedPort(), "full": FullPort(), "reset": ResettingPort()}
    policy = POLICY.format(
        shop=double.port, write=WRITE, **{name: p.port for name, p in ports.items()}
    )
    directory = tmp_path_factory.mktemp("faults")
    history = History(str(directory / "history.jsonl"))
    with Recourse(directory, policy) as proxy, ThreadPoolExecutor(8) as pool:
        yield Fixture(double, proxy, history, pool)
        assert proxy.running(), proxy.stderr()[-4000:]
    for port in ports.values():
        port.stop()


@pytest.mark.parametrize("name, route, raced", CASES)
def test_a_fault_leads_to_its_phase(faults, name, route, raced):
    seen = faults.futures[name, route, raced].result(timeout=RUN_MAX)
    fault = seen.fault
    assert len(seen.effects) == fault.effects
    if route == "probed" and "UNCERTAIN" in fault.phases:
        if fault.effects:
            assert seen.rest["status"] == "SUCCESS"
            assert seen.rest["external_ref"] in ("", None, seen.effects[0]["id"])
        else:
            assert seen.rest["phase"] in ("PROVEN_ABSENT", "NOT_SENT")
    else:
        assert seen.rest["phase"] in fault.phases
    if not raced:
        answer = seen.answers[0]
        assert answer is not None and answer.status in fault.first, answer
        if seen.rest["phase"] == "UNCERTAIN":
            assert answer.outcome == "unknown"
    assert all(answer is not None for answer in seen.answers), "an agent got no answer at all"


UNSETTLED = [c for c in CASES if not c[2] and FAULTS[c[0]].phases == ("UNCERTAIN",)]


@pytest.mark.parametrize("name, route, raced", UNSETTLED)
def test_a_repeat_after_the_fault_is_told_the_truth(faults, name, route, raced):
    seen = faults.futures[name, route, raced].result(timeout=RUN_MAX)
    answer = seen.call()
    if route != "probed":
        # A whole answer that proves nothing (a redirect) is told again with the same reservation.
        assert answer.outcome == "unknown", answer
        told = (answer.status, answer.header("Retry-After"), answer.header("x-should-retry"))
        assert answer.replayed or told == (409, None, "false"), answer
        assert len(faults.double.effects(seen.path)) == seen.fault.effects
    elif seen.fault.effects:
        assert answer.outcome == "executed", answer
        assert len(faults.double.effects(seen.path)) == 1
    else:
        # Proven absent: the repeat is a new attempt, and the only one that has an effect.
        assert answer.status == 201, answer
        assert len(faults.double.effects(seen.path)) == 1


@pytest.mark.parametrize("name, host", [("b01_refused", "down.test"), ("b02_full", "full.test")])
def test_what_cannot_be_reached_was_not_sent(faults, name, host):
    write = Write(f"/plain/{name}", TRACE, host)
    answers = [faults.history.call(faults.proxy.port, write) for _ in range(2)]
    for answer in answers:
        assert answer.status == 503 and answer.json()["outcome"] == "not_executed", answer
        assert answer.header("Retry-After")
    rows = faults.proxy.events_for(write.path)
    assert rows[-1]["phase"] == "NOT_SENT"
    assert rows[-1]["attempt"] >= 2, "a repeat of what was not sent is a new attempt"


def test_a_read_that_cannot_be_answered_says_that_nothing_was_changed(faults):
    faulty = (("down.test", "/read/x", (502, 503)), ("shop.test", "/read/b14", (504,)))
    for host, path, status in faulty:
        faults.double.script("GET", path, ["read", "hang"], None)
        answer = rawhttp.call(faults.proxy.port, "GET", path, host=host)
        assert answer.status in status and answer.json()["outcome"] == "not_executed", answer
        assert answer.json()["retryable"] is True


def test_b03_a_reset_at_once_is_unknown_or_provably_not_sent(faults):
    write = Write("/plain/b03", TRACE, "reset.test")
    answer = faults.history.call(faults.proxy.port, write)
    row = faults.proxy.await_phase(write.path, ("UNCERTAIN", "NOT_SENT"))
    assert answer.json()["outcome"] == ("unknown" if row["status"] == "PENDING" else "not_executed")


def test_b16_an_execution_after_absent_probes_is_still_found(faults):
    """However often a probe finds nothing, that proves nothing before the settle time is over."""
    path = "/late/b16"
    faults.double.script("POST", path, ["read", {"gate": "b16"}, "execute"], 1)
    write = Write(path, TRACE)
    answer = faults.history.call(faults.proxy.port, write)
    assert answer.status == 504 and answer.json()["outcome"] == "unknown"
    for _ in range(3):  # a repeat probes at once
        repeat = faults.history.call(faults.proxy.port, write)
        assert repeat.status == 409 and repeat.json()["outcome"] == "unknown"
    faults.double.await_requests("GET", path, count=3)
    faults.double.open_gate("b16")
    faults.double.await_effects(path)
    repeat = faults.history.call(faults.proxy.port, write)
    assert repeat.outcome == "executed", repeat
    row = faults.proxy.await_phase(path, ("SUCCEEDED", "ANSWER_LOST"))
    phases = [event["phase"] for event in faults.proxy.events_for(path)]
    assert phases.count("DISPATCHING") == 1 and "PROVEN_ABSENT" not in phases
    assert row["external_ref"] == faults.double.effects(path)[0]["id"]


@pytest.mark.parametrize("fault", ["500", "silent", "wrong_schema"])
def test_b34_a_broken_probe_leaves_the_outcome_unknown(faults, fault):
    path = f"/probed/b34-{fault}"
    answers = {
        "500": "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        "wrong_schema": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    }
    steps = ["read", {"send": answers[fault]}] if fault in answers else ["read", "hang"]
    faults.double.script("GET", path, steps, None)
    faults.double.script("POST", path, ["read", "execute", "rst"], 1)
    write = Write(path, TRACE)
    assert faults.history.call(faults.proxy.port, write).json()["outcome"] == "unknown"
    faults.double.await_requests("GET", path, count=2 if fault != "silent" else 1)
    repeat = faults.history.call(faults.proxy.port, write)
    assert repeat.status == 409 and repeat.json()["outcome"] == "unknown"
    assert faults.proxy.events_for(path)[-1]["phase"] == "UNCERTAIN"
    assert len(faults.double.effects(path)) == 1


def test_the_whole_run_breaks_no_promise(faults):
    for future in faults.futures.values():
        future.result(timeout=RUN_MAX)
    history = faults.history.lines()
    everything = {line["path"] for line in history}
    # The double has no effect to show for an unreachable backend, and broken probes settle nothing.
    found = checker.check(
        faults.double.record(), history, faults.proxy.events(), faulty=everything
    )
    assert found == []
    assert faults.proxy.verify()["ok"]
