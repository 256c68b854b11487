"""The checker itself: a clean run passes, and each broken promise is found by its number, in
histories made by hand and behind hops that break it on real calls."""

import copy
import json
import os
import re

import pytest

from support import rawhttp
from support.bounds import DESCRIPTORS_MAX, FILE_AHEAD, RESIDENT_MAX_KIB, Bounds
from support.checker import check
from support.double import ServedPort
from support.history import History, Read, Write
from support.policies import standard
from support.recourse import MEASURABLE, Recourse

SECOND = 1_000_000_000
BASE = 1_790_000_000 * SECOND
PATH = "/probed/a"


def at(ms):
    return BASE + ms * 1_000_000


def row(number, phase, status, ms, **fields):
    moment = f"2026-09-21T14:13:{20 + ms // 1000:02d}.{ms % 1000:03d}Z"
    return {
        "event_id": number, "operation": 1, "idempotency_key": "aa", "tool": "t", "args_hash": "bb",
        "status": status, "phase": phase, "attempt": 1, "external_ref": "", "trace_id": "cc",
        "caller": "local", "policy_version": "p", "epoch": 1, "time": moment, "cause": "answer",
        "method": "POST", "path": PATH, **fields,
    }  # fmt: skip


def request(number, ms, **fields):
    return {
        "t": "request", "number": number, "received_ns": at(ms), "method": "POST", "path": PATH,
        "body_sha256": "dd", "complete": True, **fields,
    }  # fmt: skip


def effect(name, number, ms):
    return {"t": "effect", "request": number, "id": name, "path": PATH, "time_ns": at(ms)}


def invoke(number, ms, method="POST", path=PATH):
    return {
        "t": "invoke", "call": number, "method": method, "path": path, "body_sha256": "dd",
        "time_ns": at(ms),
    }  # fmt: skip


def ended(kind, number, ms, **fields):
    return {"t": kind, "call": number, "method": "POST", "path": PATH, "time_ns": at(ms), **fields}


def down(begin, end):
    return [{"t": "down", "time_ns": at(begin)}, {"t": "up", "time_ns": at(end)}]


def read(number, begin, end, of=None, status=200):
    """A read and its answer, which is the one to call `of`."""
    path = f"/read/{number}"
    echo = {"target": f"/read/{of or number}", "headers": [["X-Call", str(of or number)]]}
    answer = {
        "t": "return", "call": number, "method": "GET", "path": path, "status": status,
        "headers": {}, "body": json.dumps(echo) if status == 200 else "", "time_ns": at(end),
    }  # fmt: skip
    return [invoke(number, begin, "GET", path), answer]


def told(number, ms, status=201, body="ok", outcome="executed", slug="x", **headers):
    kind = "application/json"
    if status >= 400:
        kind = "application/problem+json"
        body = json.dumps({"outcome": outcome, "type": f"https://example/{slug}"})
    headers = {"content-type": kind, "idempotency-key": "aa", **headers}
    return {
        "t": "return", "call": number, "path": PATH, "status": status, "headers": headers,
        "body": body, "time_ns": at(ms),
    }  # fmt: skip


def clean():
    return {
        "backend": [request(1, 20), effect("e1", 1, 21)],
        "history": [invoke(1, 0), told(1, 40), invoke(2, 50), told(2, 60)],
        "events": [
            row(1, "DISPATCHING", "PENDING", 10, cause="first_call"),
            row(2, "SUCCEEDED", "SUCCESS", 30, external_ref="e1"),
        ],
    }


def another_operation(run, phase, status):
    """The call is made again under another trace after the first ended so, and succeeds."""
    again = {"operation": 3, "idempotency_key": "ab"}
    run["events"][1] = row(2, phase, status, 15)
    run["events"] += [
        row(3, "DISPATCHING", "PENDING", 18, cause="first_call", **again),
        row(4, "SUCCEEDED", "SUCCESS", 30, external_ref="e1", **again),
    ]
    for line in run["history"]:
        if line["t"] == "return":
            line["headers"]["idempotency-key"] = "ab"


def test_a_new_operation_after_one_without_effect_is_clean():
    assert broken(lambda run: another_operation(run, "NOT_SENT", "FAILED")) == []


def second_operation(run):
    another_operation(run, "UNCERTAIN", "PENDING")


def broken(change):
    run = copy.deepcopy(clean())
    change(run)
    return check(**run, settled=["/probed/"], rested=True)


def test_a_clean_run_has_no_violation():
    assert check(**clean(), settled=["/probed/"], rested=True) == []


def crash_within_a_downtime(run):
    run["events"][1:] = [
        row(2, "UNCERTAIN", "PENDING", 25, cause="crash", epoch=2),
        row(3, "SUCCEEDED", "SUCCESS", 30, external_ref="e1", epoch=2),
    ]
    run["history"] = [
        invoke(1, 0), *down(22, 26), ended("lost", 1, 23, error="reset"), invoke(2, 50), told(2, 60)
    ]  # fmt: skip


def reads_that_a_downtime_excuses(run):
    run["history"] += [*down(100, 120), *read(5, 90, 95), *read(6, 110, 115, status=502)]


def a_refusal_before_the_ledger_was_asked(run):
    run["history"] += [
        invoke(3, 65), told(3, 66, 503, outcome="not_executed", slug="draining"),
        invoke(4, 70), told(4, 80),
    ]  # fmt: skip


def a_call_that_was_cut_and_not_dispatched(run):
    run["history"] += [invoke(3, 5), ended("left", 3, 6, cut=True), invoke(4, 70), told(4, 80)]


@pytest.mark.parametrize(
    "change",
    [
        crash_within_a_downtime,
        reads_that_a_downtime_excuses,
        a_refusal_before_the_ledger_was_asked,
        a_call_that_was_cut_and_not_dispatched,
    ],
)
def test_what_the_promise_allows_is_no_violation(change):
    assert broken(change) == []


def second_effect(run):
    run["backend"] += [request(2, 35), effect("e2", 2, 36)]


def not_remembered(run):
    run["backend"][0]["received_ns"] = at(5)


def foreign_bytes(run):
    run["backend"][0]["body_sha256"] = "ee"


def success_without_row(run):
    run["events"] = run["events"][:1]


def other_reference(run):
    run["events"][1]["external_ref"] = "e9"


def other_answer(run):
    run["history"][3]["body"] = "other"


def told_not_executed(run):
    run["history"] = [invoke(1, 0), told(1, 40, 503, outcome="not_executed")]


def told_not_executed_by_event(run):
    run["history"][3] = told(
        2, 60, 503, outcome="not_executed", **{"recourse-event": "1"}
    )


def success_without_effect(run):
    run["backend"] = run["backend"][:1]
    run["history"] = []


def failed_with_effect(run):
    run["events"][1] = row(2, "REJECTED", "FAILED", 30)
    run["history"] = []


def needless_uncertainty(run):
    run["events"].insert(1, row(2, "UNCERTAIN", "PENDING", 25, cause="timeout"))
    run["events"][2]["event_id"] = 3


def never_settled(run):
    run["events"][1] = row(2, "UNCERTAIN", "PENDING", 30, cause="crash")
    run["history"] = [invoke(1, 0), {"t": "lost", "call": 1, "path": PATH, "time_ns": at(9)}]


def twice(run):
    run["events"][1]["event_id"] = 1


def illegal(run):
    run["events"].append(row(3, "DISPATCHING", "PENDING", 70, attempt=2))


def wrong_status(run):
    run["events"][0]["status"] = "SUCCESS"


def answer_of_another_epoch(run):
    run["events"][1]["epoch"] = 2


def key_of_another_trace(run):
    run["events"][1]["idempotency_key"] = "ff"


def dispatched_before_it_was_whole(run):
    run["backend"][0]["headers"] = [["X-Call", "7"]]
    run["history"] += [invoke(7, 5), ended("left", 7, 6, cut=True)]


def anothers_answer(run):
    for line in run["history"]:
        if line["t"] == "return":
            line["body"] = json.dumps({"id": "e7"})


def refused_after_a_success(run):
    run["history"][3] = told(2, 60, 409, outcome="unknown")


def refused_after_it_was_told_to_be_executed(run):
    run["history"] = [
        invoke(1, 0), told(1, 40, 502, outcome="executed"), invoke(2, 50),
        told(2, 60, 409, outcome="unknown"),
    ]  # fmt: skip


def not_executed_says_the_call_that_executed(run):
    run["backend"][0]["headers"] = [["X-Call", "1"]]
    run["history"] = [invoke(1, 0), invoke(2, 1), told(1, 40, 503, outcome="not_executed")]


def not_executed_says_a_later_call(run):
    run["history"] = [
        invoke(1, 0), invoke(3, 1), invoke(2, 30), told(2, 40, 503, outcome="not_executed")
    ]  # fmt: skip


def unknown_outside_of_every_downtime(run):
    crash_within_a_downtime(run)
    run["history"][1:3] = down(70, 90)
    run["history"].append(ended("lost", 1, 75, error="reset"))


def lost_outside_of_every_downtime(run):
    run["history"] += [*down(100, 120), invoke(3, 61), ended("lost", 3, 65, error="reset")]


def last_told_another_thing(run):
    run["history"] = [invoke(1, 0), told(1, 40, 409, outcome="unknown")]


def the_answer_to_another_read(run):
    run["history"] += read(5, 90, 95, of=6)


def a_read_without_an_answer(run):
    run["history"] += read(5, 90, 95, status=502)


@pytest.mark.parametrize(
    "change, number",
    [
        (second_effect, "I1"),
        (second_operation, "I1"),
        (not_remembered, "I2"),
        (foreign_bytes, "I2"),
        (dispatched_before_it_was_whole, "I2"),
        (success_without_row, "I3"),
        (other_reference, "I3"),
        (anothers_answer, "I3"),
        (other_answer, "I4"),
        (refused_after_a_success, "I4"),
        (refused_after_it_was_told_to_be_executed, "I4"),
        (told_not_executed, "I5"),
        (told_not_executed_by_event, "I5"),
        (not_executed_says_the_call_that_executed, "I5"),
        (not_executed_says_a_later_call, "I5"),
        (success_without_effect, "I6"),
        (failed_with_effect, "I6"),
        (needless_uncertainty, "I7"),
        (never_settled, "I7"),
        (unknown_outside_of_every_downtime, "I7"),
        (twice, "I12"),
        (illegal, "I12"),
        (wrong_status, "I12"),
        (answer_of_another_epoch, "I12"),
        (key_of_another_trace, "I12"),
        (lost_outside_of_every_downtime, "I13"),
        (last_told_another_thing, "I13"),
        (the_answer_to_another_read, "I14"),
        (a_read_without_an_answer, "I17"),
    ],
)
def test_a_broken_promise_is_found(change, number):
    found = broken(change)
    assert any(line.split()[0] == number for line in found), found


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Hop(ServedPort):
    """Passes requests on to `target`, `times` times each, and the last answer back as `change`
    makes it; None: the connection is closed instead."""

    def __init__(self, target, times=1, change=lambda answer: answer):
        self.target, self.times, self.change = target, times, change
        super().__init__(Hop.hand_over)

    def hand_over(self, sock):
        body = self.head(sock)
        if body is None:
            return
        head = self.heads[-1]
        length = re.search(rb"content-length: *(\d+)", head.lower())
        while length and len(body) < int(length[1]):
            body += sock.recv(65536)
        method = head.split(b" ")[0].decode()
        for _ in range(self.times):
            with rawhttp.Connection(self.target) as connection:
                connection.send(head + b"\r\n\r\n" + body)
                answer = connection.response(method)
        answer = self.change(answer)
        if answer is not None:
            fields = [f"{n}: {v}" for n, v in answer.headers if n.lower() != "content-length"]
            fields += [f"Content-Length: {len(answer.body)}", "Connection: close", "", ""]
            start = f"HTTP/1.1 {answer.status} {answer.reason}"
            sock.sendall("\r\n".join([start, *fields]).encode("latin-1") + answer.body)


def names_anothers_effect(answer):
    answer.body = re.sub(rb"e0\d+", b"e999999", answer.body)
    return answer


def tells_repeats_something_else(answer):
    if answer.replayed:
        answer.body = answer.body.replace(b"true", b"null")
    return answer


def calls_it_not_executed(answer):
    answer.status = 503
    answer.headers = [("Content-Type", "application/problem+json")]
    answer.body = b'{"type":"https://example/not-sent","outcome":"not_executed"}'
    return answer


def answers_with_the_first_read():
    first = []

    def change(answer):
        first.append(answer)
        return first[0]

    return change


@pytest.mark.parametrize(
    "change, number",
    [
        (lambda answer: answer, None),
        (names_anothers_effect, "I3"),
        (tells_repeats_something_else, "I4"),
        (calls_it_not_executed, "I5"),
        (lambda answer: None, "I13"),
        (answers_with_the_first_read(), "I14"),
    ],
)
def test_a_hop_that_lies_to_agents_is_found(proxy, double, tmp_path, token, change, number):
    history = History(str(tmp_path / "history.jsonl"))
    history.add({"t": "down"})
    history.add({"t": "up"})
    with Hop(proxy.port, change=change) as hop:
        if number != "I14":
            for _ in range(2):
                history.call(hop.port, Write(f"/plain/{token}", TRACE))
        if number in (None, "I14"):
            for n in range(2):
                history.call(hop.port, Read(f"/read/{token}-{n}"))
    path = f"/plain/{token}"
    record = [line for line in double.record() if line["path"] == path]
    events = proxy.events_for(path)
    found = {line.split()[0] for line in check(record, history.lines(), events)}
    assert number in found if number else not found, found
    history.close()


def test_a_hop_that_sends_everything_twice_is_found(double, tmp_path, token):
    history = History(str(tmp_path / "history.jsonl"))
    with Hop(double.port, times=2) as hop:
        policy = standard(double).replace(double.url, hop.url)
        with Recourse(tmp_path, policy) as behind:
            history.call(behind.port, Write(f"/plain/{token}", TRACE))
            record = [line for line in double.record() if line["path"] == f"/plain/{token}"]
            found = check(record, history.lines(), behind.events())
    assert any(line.startswith("I1 ") for line in found), found


def test_a_probe_that_lies_is_found(proxy, double, tmp_path, token):
    """It calls absent what has happened, so the retry makes the second effect."""
    path = f"/probed/{token}"
    history = History(str(tmp_path / "history.jsonl"))
    empty = '{"items":[]}'
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(empty)}\r\n\r\n{empty}"
    double.script("GET", path, ["read", {"send": answer}])
    double.script("POST", path, ["read", "execute", "rst"], 1)
    history.call(proxy.port, Write(path, TRACE))
    proxy.await_phase(path, "PROVEN_ABSENT")
    history.call(proxy.port, Write(path, TRACE))
    record = [line for line in double.record() if line["path"] == path]
    found = {
        line.split()[0]
        for line in check(record, history.lines(), proxy.events_for(path), faulty=[path])
    }
    assert {"I1", "I6"} <= found, found


class Hoarder:
    """This very process, as a campaign would look at it."""

    def __init__(self, directory):
        self.pid, self.data = os.getpid(), directory

    def memory_kib(self):
        return 1, RESIDENT_MAX_KIB + 1


def test_i18_what_grows_without_end_is_found(tmp_path):
    with open(tmp_path / "data.mdb", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, FILE_AHEAD + (1 << 20))
    report = {"last_id": 10}
    bounds, hoarder = Bounds(), Hoarder(tmp_path)
    with open(os.devnull, "rb") as null:
        kept = [os.dup(null.fileno()) for _ in range(DESCRIPTORS_MAX)]
    try:
        found = bounds.violations(hoarder, report, seconds=0)
    finally:
        for descriptor in kept:
            os.close(descriptor)
    assert len(found) == (4 if MEASURABLE else 3), found
    assert all(line.startswith("I18 ") for line in found)
