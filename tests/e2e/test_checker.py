"""The checker itself: a clean run passes, and each broken promise is found by its number."""

import copy
import json

import pytest

from support.checker import check

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


def invoke(number, ms):
    return {"t": "invoke", "call": number, "path": PATH, "body_sha256": "dd", "time_ns": at(ms)}


def told(number, ms, status=201, body="ok", outcome="executed", **headers):
    kind = "application/json"
    if status >= 400:
        kind, body = "application/problem+json", json.dumps({"outcome": outcome})
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
    return check(**run, settled=["/probed/"])


def test_a_clean_run_has_no_violation():
    assert check(**clean(), settled=["/probed/"]) == []


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


@pytest.mark.parametrize(
    "change, number",
    [
        (second_effect, "I1"),
        (second_operation, "I1"),
        (not_remembered, "I2"),
        (foreign_bytes, "I2"),
        (success_without_row, "I3"),
        (other_reference, "I3"),
        (other_answer, "I4"),
        (told_not_executed, "I5"),
        (told_not_executed_by_event, "I5"),
        (success_without_effect, "I6"),
        (failed_with_effect, "I6"),
        (needless_uncertainty, "I7"),
        (never_settled, "I7"),
        (twice, "I12"),
        (illegal, "I12"),
        (wrong_status, "I12"),
        (answer_of_another_epoch, "I12"),
        (key_of_another_trace, "I12"),
    ],
)
def test_a_broken_promise_is_found(change, number):
    found = broken(change)
    assert any(line.split()[0] == number for line in found), found
