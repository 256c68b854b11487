"""`headers` of `before`, of a probe and of an undo: the fields that the policy gives them."""

from test_time_machine import Machine

from support.recourse import Recourse
from support.tracker import Tracker, policy

OWN_HEADERS = """\
  notes.update:
    match: PATCH tracker /pages/{id}
    effect: write
    before: { request: "GET /pages/{path.id}", keep: body#/title, headers: { Prefer: before } }
    settle: { request: "GET /pages/{path.id}?of=settle", happened: answer.body#/id,
              headers: { Prefer: "settle-{path.id}", Authorization: "{header.Authorization}" } }
    undo: { request: "PATCH /pages/{path.id}", json: { title: "{before.body#/title}" },
            headers: { Prefer: "undo-{path.id}" }, credentials: from_call, only_if: unchanged }
"""


def test_requests_of_our_own_carry_the_fields_that_the_policy_gives_them(tmp_path):
    tracker = Tracker()
    with Recourse(tmp_path, policy(tracker.url, tools=OWN_HEADERS)) as running:
        machine = Machine(running, tracker)
        tracker.make("pages", "p1", title="old")
        tracker.lose_answers = 1
        assert machine.call("PATCH", "/pages/p1", {"title": "new"}).outcome == "unknown"
        again = machine.call("PATCH", "/pages/p1", {"title": "new"}, trace=machine.trace)
        assert again.outcome == "executed", again
        machine.undo(machine.trace)
        assert tracker.state("pages", "p1")["title"] == "old"

    def preferred(method, path):
        return [one.get("Prefer") for one in tracker.asked(method, path)]

    assert set(preferred("GET", "/pages/p1")) == {"before"}
    assert set(preferred("GET", "/pages/p1?of=settle")) == {"settle-p1"}
    assert preferred("PATCH", "/pages/p1") == [None, "undo-p1"]
    tracker.stop()
