"""The checker of flows itself: what is allowed passes, and each broken promise is found by its
number, in histories made by hand."""

import copy

import pytest

from support.flow_checker import check

BASE = 1_790_000_000_000_000_000
FLOW = "f1"
ORDER, PAYMENT, SHIPPING = "/orders/a", "/v1/payments/a", "/shipping/a"
UNDO_ORDER, UNDO_PAYMENT = "/orders/e1", "/v1/refunds/e2"
STATUS = {
    "DISPATCHING": "PENDING", "UNCERTAIN": "PENDING", "SUCCEEDED": "SUCCESS",
    "REJECTED": "FAILED", "PROVEN_ABSENT": "FAILED", "COMPENSATED": "COMPENSATED",
}  # fmt: skip


def at(ms):
    return BASE + ms * 1_000_000


def row(number, operation, phase, ms, path, **fields):
    moment = f"2026-09-21T14:13:{20 + ms // 1000:02d}.{ms % 1000:03d}Z"
    return {
        "event_id": number, "operation": operation, "phase": phase, "status": STATUS[phase],
        "time": moment, "path": path, "method": "POST", "flow": FLOW, "trace_id": FLOW,
        "caller": "local", "tool": path.split("/")[-2], "attempt": 1, "epoch": 1, "cause": "answer",
        "external_ref": "", "undo": False, "undoes": 0, **fields,
    }  # fmt: skip


def request(number, ms, path, method="POST"):
    return {
        "t": "request", "number": number, "path": path, "method": method, "received_ns": at(ms),
    }  # fmt: skip


def effect(name, number, ms, path, method="POST"):
    return {
        "t": "effect", "id": name, "request": number, "path": path, "method": method,
        "time_ns": at(ms),
    }  # fmt: skip


def undone():
    """An order and a payment that were undone after the shipment had failed."""
    order, payment = {"external_ref": "e1"}, {"external_ref": "e2"}
    return {
        "events": [
            row(1, 1, "DISPATCHING", 10, ORDER),
            row(2, 1, "SUCCEEDED", 20, ORDER, undo=True, **order),
            row(3, 3, "DISPATCHING", 30, PAYMENT),
            row(4, 3, "SUCCEEDED", 40, PAYMENT, undo=True, **payment),
            row(5, 5, "DISPATCHING", 50, SHIPPING),
            row(6, 5, "REJECTED", 60, SHIPPING),
            row(7, 7, "DISPATCHING", 100, UNDO_PAYMENT, undoes=3, tool="payments"),
            row(8, 7, "SUCCEEDED", 120, UNDO_PAYMENT, undoes=3, tool="payments"),
            row(9, 3, "COMPENSATED", 120, PAYMENT, **payment),
            row(10, 10, "DISPATCHING", 200, UNDO_ORDER, undoes=1, tool="orders", method="DELETE"),
            row(11, 10, "SUCCEEDED", 220, UNDO_ORDER, undoes=1, tool="orders", method="DELETE"),
            row(12, 1, "COMPENSATED", 220, ORDER, **order),
        ],
        "backend": [
            request(1, 12, ORDER), effect("e1", 1, 13, ORDER),
            request(2, 32, PAYMENT), effect("e2", 2, 33, PAYMENT),
            request(3, 52, SHIPPING),
            request(4, 110, UNDO_PAYMENT), effect("e3", 4, 111, UNDO_PAYMENT),
            request(5, 210, UNDO_ORDER, "DELETE"), effect("e4", 5, 211, UNDO_ORDER, "DELETE"),
        ],
        "parked": {},
        "wanted": {FLOW: "undone"},
        "phases": {FLOW: "UNDONE"},
    }  # fmt: skip


def judge(change):
    run = copy.deepcopy(undone())
    change(run)
    return check(**run)


def complete(run):
    del run["events"][6:], run["backend"][5:]
    run["events"][5] = row(6, 5, "SUCCEEDED", 60, SHIPPING, undo=True, external_ref="e9")
    run["backend"].append(effect("e9", 3, 53, SHIPPING))
    run["wanted"], run["phases"] = {FLOW: "complete"}, {FLOW: "COMMITTED"}


def parked_with_its_fault(run):
    del run["events"][7:], run["backend"][6:]
    run["events"].append(row(8, 7, "REJECTED", 120, UNDO_PAYMENT, undoes=3, tool="payments"))
    run["parked"] = {FLOW: "step 3: refused"}
    run["backend"].append({"t": "fault", "name": "refused", "path": UNDO_PAYMENT, "request": 4})


def asked_again_after_a_pause(run):
    run["events"][10:] = [
        row(11, 10, "UNCERTAIN", 220, UNDO_ORDER, undoes=1, tool="orders"),
        row(12, 10, "DISPATCHING", 900, UNDO_ORDER, undoes=1, tool="orders", cause="resend"),
        row(13, 10, "SUCCEEDED", 920, UNDO_ORDER, undoes=1, tool="orders"),
        row(14, 1, "COMPENSATED", 920, ORDER, external_ref="e1"),
    ]
    run["backend"] += [
        request(6, 910, UNDO_ORDER, "DELETE"), effect("e5", 6, 911, UNDO_ORDER, "DELETE")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [lambda run: None, complete, parked_with_its_fault, asked_again_after_a_pause],
    ids=["undone", "complete", "parked_with_its_fault", "asked_again_after_a_pause"],
)
def test_what_flows_may_come_to_is_no_violation(change):
    assert judge(change) == []


def left_standing(run):
    del run["events"][9:], run["backend"][7:]


def not_undone_at_all(run):
    del run["events"][6:], run["backend"][5:]


def undone_although_complete(run):
    run["wanted"] = {FLOW: "complete"}


def parked_without_a_fault(run):
    parked_with_its_fault(run)
    run["backend"].pop()


def in_the_order_of_their_success(run):
    run["events"][3]["event_id"], run["events"][1]["event_id"] = 2, 4


def before_its_turn(run):
    run["backend"][7]["received_ns"] = at(105)


def undone_twice(run):
    run["backend"] += [effect("e5", 5, 212, UNDO_ORDER, "DELETE")]


def undone_by_word_alone(run):
    del run["backend"][8]


def another_flow(run):
    run["events"][6]["flow"] = "f2"


def two_undo_operations(run):
    for event in run["events"][6:8]:
        run["events"].append({**event, "event_id": event["event_id"] + 20, "operation": 27})


def more_requests_than_rows(run):
    run["backend"].append(request(6, 215, UNDO_ORDER, "DELETE"))


def without_an_effect(run):
    run["events"][1] = row(2, 1, "PROVEN_ABSENT", 20, ORDER, external_ref="e1")
    del run["events"][11]


def before_its_effect(run):
    run["backend"][1]["time_ns"] = at(215)


def an_effect_after_its_undo(run):
    run["backend"].append(effect("e6", 6, 300, ORDER))


def of_what_never_was(run):
    run["backend"].append(request(6, 215, "/orders/e77", "DELETE"))


def sent_behind_the_fence(run):
    run["events"].append(row(13, 13, "DISPATCHING", 230, SHIPPING))
    run["events"].append(row(14, 13, "REJECTED", 240, SHIPPING))


def tried_again_at_once(run):
    asked_again_after_a_pause(run)
    run["events"][11]["time"] = run["events"][10]["time"]


def tried_for_ever(run):
    tail = run["events"][10:]
    run["events"][10:] = [
        row(20 + n, 10, "DISPATCHING", 1000 * n, UNDO_ORDER, undoes=1, tool="orders")
        for n in range(1, 12)
    ]
    run["events"] += [{**event, "event_id": 50 + n} for n, event in enumerate(tail)]


def a_step_that_stays_unknown(run):
    run["events"][5] = row(6, 5, "UNCERTAIN", 60, SHIPPING)


def an_undo_that_never_ends(run):
    del run["events"][10:]


def said_to_be_open(run):
    run["phases"] = {FLOW: "OPEN"}


def still_being_undone(run):
    run["phases"] = {FLOW: "UNDOING"}


@pytest.mark.parametrize(
    "change, rule",
    [
        (left_standing, "I8"),
        (not_undone_at_all, "I8"),
        (undone_although_complete, "I8"),
        (parked_without_a_fault, "I8"),
        (in_the_order_of_their_success, "I8"),
        (before_its_turn, "I8"),
        (undone_twice, "I8"),
        (undone_by_word_alone, "I8"),
        (another_flow, "I8"),
        (two_undo_operations, "I8"),
        (said_to_be_open, "I8"),
        (more_requests_than_rows, "I9"),
        (without_an_effect, "I9"),
        (before_its_effect, "I9"),
        (an_effect_after_its_undo, "I9"),
        (of_what_never_was, "I9"),
        (sent_behind_the_fence, "I9"),
        (tried_again_at_once, "I10"),
        (tried_for_ever, "I10"),
        (a_step_that_stays_unknown, "I13"),
        (an_undo_that_never_ends, "I13"),
        (still_being_undone, "I13"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_promise_about_a_flow_is_found(change, rule):
    assert rule in {line.split(" ")[0] for line in judge(change)}
