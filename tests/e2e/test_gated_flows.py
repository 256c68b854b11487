"""A step that needs a human, in a flow: once approved it is undone like every other one; a flow
that breaks, also at its deadline, takes the question back. SIGKILL at every point of that life."""

import http.client

import pytest

from support import approval_checker, flow_checker, flows, rawhttp
from support.approvals import Staffed
from support.recourse import CRASH_POINTS
from support.waiting import WAIT_MAX, wait_until

TOOLS = """\
  wires.send:
    match: POST shop /wires/{token}
    effect: write
    external_ref: answer.body#/id
    settle: { request: "GET /wires/{path.token}?client_ref={body#/client_ref}",
              happened: answer.body#/items/0/id, absent_after: 300ms }
    undo: { request: "DELETE /wires/{external_ref}", repeatable: true }
    approval: { by: [ finance ], expires: 1h, hold: 50ms }
"""
OTHER_FLOW = "  {name}: {{ tools: [ notes.{name} ], deadline: {deadline}, on_deadline: {name} }}\n"
NOTE = """\
  notes.{name}:
    match: POST shop /{name}/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo: {{ request: "DELETE /{name}/{{external_ref}}", repeatable: true }}
"""
ENDS = ["undo", "ask"]
APPROVAL = ["k15", "k16"]
FORWARD = ["k04", "k05", "k06", "k07", "k10", "k11", "k12"]
UNDO = ["k17", "k18", "k20", "k21"]
END = 2 * WAIT_MAX


def policy(double, deadline="1s"):
    return flows.policy(
        double,
        tools=TOOLS + "".join(NOTE.format(name=name) for name in ENDS),
        flows="".join(OTHER_FLOW.format(name=name, deadline=deadline) for name in ENDS),
    )


class Trip:
    """An agent with an order and a wire, and the person who is asked about the wire. Both go on
    when the process was killed under them."""

    def __init__(self, running, double, token):
        self.running = running
        self.double = double
        self.agent = flows.Shop(running, double).agent(token)
        self.wire = self.agent.path("wires")
        self.deaths = 0

    def strike(self, point):
        """From here on the process has this crash point."""
        self.running.kill()
        self.running.start(env={"RECOURSE_CRASH_POINT": f"{point}:1"})

    def try_to(self, work, *arguments):
        """None: the process was killed meanwhile."""
        try:
            return work(*arguments)
        except (OSError, rawhttp.Cut, http.client.HTTPException):
            assert self.running.wait() < 0, self.running.stderr()[-2000:]
            self.deaths += 1
            self.running.start()
            return None

    def asks(self):
        """The number of the question."""
        told = self.agent.call("wires")
        assert told.status == 202, told
        return told.json()["operation"]

    def approve(self):
        for one in self.running.waiting():
            if (one["path"], one["status"]) == (self.wire, "waiting"):
                self.running.approve(one["operation"])

    def wires(self):
        """Until it is done, however often a human must be asked."""
        answer = None

        def is_done():
            nonlocal answer
            answer = self.try_to(self.agent.call, "wires")
            if answer is not None and answer.status == 201:
                return True
            if answer is not None and answer.status == 200 and answer.outcome == "executed":
                return True  # found out by asking the backend
            self.try_to(self.approve)
            return False

        wait_until(is_done, lambda: (answer, self.agent.story()), END)

    def breaks(self):
        """The call that breaks the flow, however often it must be made until it was heard."""
        self.agent.script("shipping", flows.answer_with("422 Unprocessable"), times=None)

        def over():
            phase = self.try_to(self.phase)
            if phase in (None, "OPEN"):
                self.try_to(self.agent.call, "shipping")
            return phase in ("UNDONE", "NEEDS_HUMAN") and phase

        phase = wait_until(over, lambda: (self.try_to(self.phase), self.agent.story()), END)
        assert phase == "UNDONE", self.agent.story()

    def phase(self):
        """Of the flow; None: it cannot be told."""
        found = self.running.admin("GET", "/flows?all=true&limit=1000")["flows"]
        return next((f["phase"] for f in found if f["flow"] == self.agent.flow), None)

    def undone(self):
        """Kinds of the effects that were undone, in the order of their first time."""
        kinds, undone = {}, []
        for line in self.double.record():
            kind, _, name = line["path"].rpartition("/")
            if line["t"] == "effect" and name == self.agent.token:
                kinds[line["id"]] = kind.rpartition("/")[2]
            elif line["t"] == "effect" and name in kinds and kinds[name] not in undone:
                undone.append(kinds[name])
        return undone

    def judge(self):
        events = self.agent.events()
        asked = {e["operation"] for e in events if e["path"] == self.wire and e["method"] == "POST"}
        shown = {operation: self.running.shown(operation) for operation in asked}
        ids = {e["external_ref"] for e in events}
        record = [
            line for line in self.double.record()
            if line["path"].rpartition("/")[2] in {self.agent.token, *ids}
        ]  # fmt: skip
        found = approval_checker.check(record, events, shown)
        found += flow_checker.check(record, events, wanted={self.agent.flow: "undone"})
        assert not found, "\n".join([*found, str(self.agent.story())])
        assert self.running.verify()["ok"]


@pytest.fixture
def trip(double, tmp_path, token):
    with Staffed(tmp_path, policy(double)) as running:
        yield Trip(running, double, token)


def test_an_approved_step_is_undone_in_reverse_as_any_other(trip):
    trip.agent.does("orders")
    trip.wires()
    trip.agent.does("payments")
    trip.breaks()
    assert trip.undone() == ["payments", "wires", "orders"]
    trip.judge()


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", APPROVAL + FORWARD)
def test_a_kill_around_the_approval_leaves_a_step_that_is_undone(trip, point):
    trip.agent.does("orders")
    trip.strike(point)
    trip.wires()
    assert trip.deaths == 1
    trip.breaks()
    assert trip.undone() == ["wires", "orders"]
    trip.judge()


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", UNDO)
def test_a_kill_while_it_is_undone_leaves_nothing_half_done(trip, point):
    trip.agent.does("orders")
    trip.wires()
    trip.strike(point)
    trip.breaks()
    assert trip.deaths == 1
    assert trip.undone() == ["wires", "orders"]
    trip.judge()


@pytest.mark.parametrize("point", ["never", "k17", "k18"])
def test_a_flow_that_breaks_takes_its_question_back(trip, point):
    if point != "never" and not CRASH_POINTS:
        pytest.skip("this binary has no crash points")
    trip.agent.does("orders")
    operation = trip.asks()
    if point != "never":
        trip.strike(point)
    trip.breaks()
    shown = trip.running.shown(operation)
    assert shown["status"] == "expired" and "takes no further writes" in shown["detail"], shown
    assert trip.running.approve(operation)[0] == 410
    refused = trip.agent.call("wires")
    assert refused.status == 403 or refused.json()["type"].endswith("/flow-closed"), refused
    assert trip.double.requests(trip.wire, "POST") == []
    assert trip.undone() == ["orders"]
    trip.judge()


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_what_was_approved_before_a_kill_is_voided_by_a_flow_that_breaks_first(trip):
    """The word was durable, its call was not sent, and the restart finds the flow canceled."""
    trip.agent.does("orders")
    trip.strike("k16")
    operation = trip.asks()
    trip.try_to(trip.approve)
    trip.breaks()
    sent = len(trip.double.effects(trip.wire))
    assert trip.running.shown(operation)["status"] == ("compensated" if sent else "expired")
    assert trip.undone() == ["wires", "orders"][1 - sent :]
    trip.judge()


@pytest.mark.parametrize("end", ENDS)
def test_a_question_is_taken_back_at_the_deadline(double, tmp_path, token, end):
    with Staffed(tmp_path, policy(double)) as running:
        for turn in range(20):  # on a busy machine the deadline may come before the question
            trip = Trip(running, double, f"{token}-{turn}")
            assert trip.agent.call(end).status == 201
            told = trip.agent.call("wires")
            if told.status == 202:
                break
        operation = told.json()["operation"]
        wanted = {"undo": "UNDONE", "ask": "NEEDS_HUMAN"}[end]
        wait_until(lambda: trip.phase() == wanted, wanted)
        shown = running.shown(operation)
        assert shown["status"] == "expired", shown
        assert running.approve(operation)[0] == 410
        assert double.requests(trip.wire, "POST") == []
        assert trip.undone() == ([end] if end == "undo" else [])
        assert running.verify()["ok"]
