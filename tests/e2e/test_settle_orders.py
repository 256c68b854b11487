"""`recourse operations settle`: a human says what became of an operation of unknown outcome,
whatever its flow is at."""

import json
import signal

import pytest

from support import flows
from support.recourse import CRASH_POINTS, Recourse
from support.waiting import wait_until

LOST, NEVER = ["read", "execute", "rst"], ["read", "rst"]
# Without `settle` and without a key: nothing but a human can find out.
TOOLS = """\
  notes.create:
    match: POST shop /notes/{token}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /notes/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
  once.create:
    match: POST shop /once/{token}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /once/{external_ref}" }
"""
STOPS = "  note: { tools: [ once.create ], deadline: 300ms, on_deadline: ask }\n"


class Desk(flows.Shop):
    """The shop, and the human who settles."""

    def order(self, *arguments, code=0):
        done = self.recourse.cli("operations", *arguments)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr

    def settle(self, operation, word, *more, code=0):
        return self.order("settle", operation, "--as", word, "--reason", "looked it up", *more,
                          code=code)  # fmt: skip

    def flow(self, agent):
        return self.recourse.admin("GET", f"/flows/{agent.flow}")

    def await_flow(self, agent, phase):
        return wait_until(lambda: (f := self.flow(agent))["phase"] == phase and f)


class Unsure:
    """An agent whose note's outcome is unknown: its operation, and what the backend made of it."""

    def __init__(self, desk, token, script=None, kind="notes"):
        self.agent = desk.agent(token)
        self.agent.does("orders")
        self.agent.script(kind, script or LOST)
        answer = self.agent.call(kind)
        assert answer.header("Recourse-Outcome") == "unknown", answer
        self.kind = kind
        self.path = self.agent.path(kind)
        self.operation = desk.recourse.events_for(self.path)[-1]["operation"]
        self.effects = desk.double.effects(self.path)

    @property
    def ref(self):
        return self.effects[0]["id"]


@pytest.fixture(scope="module")
def desk(double, tmp_path_factory):
    text = flows.policy(double, tools=TOOLS, flows=STOPS)
    with Recourse(tmp_path_factory.mktemp("settled"), text) as running:
        yield Desk(running, double)
        assert running.verify()["ok"]
        assert running.stop() == 0, running.stderr()[-4000:]


def test_what_happened_is_answered_to_repeats_and_undone_with_its_reference(desk, double, token):
    unsure = Unsure(desk, token)
    listed = desk.order("list", "--phase", "UNCERTAIN")
    assert any(line.split()[0] == str(unsure.operation) for line in listed.splitlines()[1:])
    told = desk.settle(unsure.operation, "happened", "--external-ref", unsure.ref,
                       "--as-user", "ada")  # fmt: skip
    assert told == f"operation {unsure.operation} is SUCCEEDED, external ref {unsure.ref}\n"
    last = desk.recourse.events_for(unsure.path)[-1]
    assert (last["cause"], last["detail"]) == ("human", "admin (ada): looked it up")
    repeat = unsure.agent.call("notes")
    assert repeat.status == 200 and repeat.header("Idempotent-Replayed") == "true"
    assert repeat.json() == {"outcome": "executed", "external_ref": unsure.ref,
                             "settled_by": "human"}  # fmt: skip
    assert desk.flow(unsure.agent)["phase"] == "OPEN"
    desk.recourse.cli("flows", "cancel", unsure.agent.flow, "--reason", "no more")
    flow = desk.await_flow(unsure.agent, "UNDONE")
    assert flow["undone_count"] == 2
    assert len(double.effects(f"/notes/{unsure.ref}")) == 1
    assert len(double.effects(unsure.path)) == 1


def test_what_is_absent_lets_the_repeat_be_executed_and_is_not_undone(desk, double, token):
    unsure = Unsure(desk, token, NEVER)
    assert "PROVEN_ABSENT" in desk.settle(unsure.operation, "absent")
    repeat = unsure.agent.call("notes")
    assert repeat.status == 201 and len(double.effects(unsure.path)) == 1
    assert desk.flow(unsure.agent)["phase"] == "OPEN"
    desk.recourse.cli("flows", "cancel", unsure.agent.flow, "--reason", "no more")
    assert desk.await_flow(unsure.agent, "UNDONE")["undone_count"] == 2
    assert len(double.effects(f"/notes/{repeat.json()['id']}")) == 1


def test_the_same_word_once_more_changes_nothing_and_another_is_refused(desk, token):
    unsure = Unsure(desk, token)
    event = desk.recourse.events_for(unsure.path)[-1]["event_id"]
    first = desk.settle(event, "happened", "--external-ref", unsure.ref)  # by an event's number
    rows = desk.recourse.admin("GET", "/ledger")["last_id"]
    assert desk.settle(unsure.operation, "happened", "--external-ref", unsure.ref) == first
    assert desk.settle(unsure.operation, "happened") == first
    for word, more in (("absent", ()), ("happened", ("--external-ref", "other"))):
        told = desk.settle(unsure.operation, word, *more, code=1)
        assert "the outcome of operation" in told and "SUCCEEDED" in told
    assert desk.recourse.admin("GET", "/ledger")["last_id"] == rows


def test_a_settle_order_that_cannot_be_meant_is_refused_with_words(desk, token):
    unsure = Unsure(desk, token)
    number = unsure.operation
    assert "no operation" in desk.settle(99_999_999, "absent", code=1)
    assert "named by its number" in desk.settle("none", "absent", code=1)
    told = desk.settle(number, "happened", "--external-ref", "../orders/1", code=1)
    assert "cannot be its external_ref" in told and "path" in told
    assert "for what happened" in desk.settle(number, "absent", "--external-ref", "x", code=1)
    desk.order("settle", number, "--as", "happened", code=2)  # no reason
    desk.order("settle", number, "--as", "perhaps", "--reason", "x", code=2)
    known = desk.recourse.events_for(unsure.agent.path("orders"))[-1]["operation"]
    assert "is known: it is SUCCEEDED" in desk.settle(known, "absent", code=1)
    assert desk.recourse.events_for(unsure.path)[-1]["phase"] == "UNCERTAIN"


def test_a_flow_that_waits_for_the_outcome_goes_on(desk, double, token):
    unsure = Unsure(desk, token)
    unsure.agent.breaks()
    parked = desk.await_flow(unsure.agent, "NEEDS_HUMAN")
    assert "notes.create" in parked["reason"]
    desk.settle(unsure.operation, "happened", "--external-ref", unsure.ref)
    flow = desk.await_flow(unsure.agent, "UNDONE")
    assert flow["undone_count"] == 2 and flow["reason"] == "admin: looked it up"
    assert len(double.effects(f"/notes/{unsure.ref}")) == 1


def test_a_step_is_resolved_with_its_reference(desk, double, token):
    unsure = Unsure(desk, token)
    unsure.agent.breaks()
    desk.await_flow(unsure.agent, "NEEDS_HUMAN")
    done = desk.recourse.cli(
        "flows", "resolve", unsure.agent.flow, "--step", unsure.operation, "--as", "happened",
        "--external-ref", unsure.ref, "--reason", "looked it up")  # fmt: skip
    assert done.returncode == 0, done
    assert desk.await_flow(unsure.agent, "UNDONE")["undone_count"] == 2
    assert len(double.effects(f"/notes/{unsure.ref}")) == 1


@pytest.mark.parametrize("word, undone", [("happened", 1), ("absent", 2)])
def test_an_undo_of_unknown_outcome_is_settled_too(desk, double, token, word, undone):
    agent = desk.agent(token)
    agent.does("once")
    agent.script_undo("once", LOST if word == "happened" else NEVER)
    agent.breaks()
    parked = desk.await_flow(agent, "NEEDS_HUMAN")
    (step,) = [one for one in parked["steps"] if one["tool"] == "once.create"]
    assert step["undo_phase"] == "UNCERTAIN"
    desk.settle(step["undo_operation"], word)
    desk.await_flow(agent, "UNDONE")
    assert len(agent.undo_requests("once")) == undone
    assert agent.undone() == ["once"]


def test_a_flow_that_its_deadline_stopped_waits_on(desk, token):
    agent = desk.agent(token)
    agent.script("once", LOST)
    agent.call("once")
    stopped = desk.await_flow(agent, "NEEDS_HUMAN")
    assert stopped["cause"] == "deadline"
    desk.settle(stopped["steps"][0]["step"], "happened")
    flow = desk.flow(agent)
    assert (flow["phase"], flow["cause"]) == ("NEEDS_HUMAN", "deadline")
    assert flow["steps"][0]["phase"] == "SUCCEEDED"


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("word", ["happened", "absent"])
@pytest.mark.parametrize("is_parked", [False, True], ids=["open", "parked"])
@pytest.mark.parametrize("point", ["k28:1", "k11:1", "k29:1"])
def test_a_kill_around_the_order_loses_nothing(double, tmp_path, token, point, word, is_parked):
    running = Recourse(tmp_path, flows.policy(double, tools=TOOLS))
    running.start()
    try:
        desk = Desk(running, double)
        unsure = Unsure(desk, token, LOST if word == "happened" else NEVER)
        if is_parked:
            unsure.agent.breaks()
            desk.await_flow(unsure.agent, "NEEDS_HUMAN")
        assert running.stop() == 0
        running.start({"RECOURSE_CRASH_POINT": point})
        more = ("--external-ref", unsure.ref) if word == "happened" else ()
        desk.settle(unsure.operation, word, *more, code=1)
        assert running.wait() == -signal.SIGKILL
        running.start()
        phase = running.events_for(unsure.path)[-1]["phase"]
        settled = "SUCCEEDED" if word == "happened" else "PROVEN_ABSENT"
        if point == "k28:1":
            assert phase == "UNCERTAIN"  # nothing has happened that is not in the log
        if point == "k29:1":
            assert phase in (settled, "COMPENSATED")
        if phase == "UNCERTAIN":
            desk.settle(unsure.operation, word, *more)
        if not is_parked:
            repeat = unsure.agent.call("notes")
            assert repeat.status == (200 if word == "happened" else 201)
            assert len(double.effects(unsure.path)) == 1
            running.cli("flows", "cancel", unsure.agent.flow, "--reason", "no more")
        flow = desk.await_flow(unsure.agent, "UNDONE")
        assert flow["undone_count"] == (1 if is_parked and word == "absent" else 2)
        ref = (unsure.effects or double.effects(unsure.path) or [{"id": "none"}])[0]["id"]
        undone = 0 if is_parked and word == "absent" else 1
        assert len(double.effects(f"/notes/{ref}")) == undone
        assert running.verify()["ok"]
    finally:
        running.kill()


def test_the_api_takes_the_order_and_gives_the_last_event(desk, token):
    unsure = Unsure(desk, token)

    def post(body):
        status, text = desk.recourse.http(
            "admin", "POST", f"/operations/{unsure.operation}/settle", body=json.dumps(body),
            headers={"Authorization": f"Bearer {desk.recourse.token}"})  # fmt: skip
        return status, json.loads(text)

    for body, told in (
        ({"reason": "x"}, "accepted: happened, absent"),
        ({"as": "absent"}, "say why"),
        ({"as": "absent", "reason": "x", "step": 1}, "steps of flows"),
        ({"as": "happened", "reason": "x", "external_ref": "a\nb"}, "one line"),
        ({"as": "happened", "reason": "x", "external_ref": "a" * 1025}, "1024 bytes"),
    ):
        status, problem = post(body)
        assert status == 400 and told in problem["detail"], problem
    status, event = post({"as": "happened", "reason": "x", "external_ref": unsure.ref})
    assert status == 200 and event == desk.recourse.events_for(unsure.path)[-1]
