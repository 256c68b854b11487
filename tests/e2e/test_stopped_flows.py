"""Flows that their deadline stopped unfinished (`on_deadline: ask`): nothing of them broke. And
what a backend said when it refused a step or an undo."""

import contextlib
import json

import pytest

from support import flows
from support.recourse import Recourse
from support.waiting import wait_until


class Desk(flows.Shop):
    def flows(self, *arguments, code=0):
        done = self.recourse.cli("flows", *arguments)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr

    def numbers(self, *arguments):
        return [flow["number"] for flow in json.loads(self.flows("list", "--json", *arguments))]

    def flow(self, agent):
        return self.recourse.admin("GET", f"/flows/{agent.flow}")

    def await_flow(self, agent, phase):
        return wait_until(lambda: (f := self.flow(agent))["phase"] == phase and f)

    def stops(self, token):
        agent = self.agent(token)
        agent.does("notes")
        return agent, self.await_flow(agent, "NEEDS_HUMAN")

    def metric(self, name):
        lines = self.recourse.probe("/metrics")[1].splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))


@contextlib.contextmanager
def desk_with(double, tmp_path, flow):
    policy = flows.policy(double, tools=flows.NOTES, flows=flow)
    with Recourse(tmp_path, policy) as running:
        yield Desk(running, double)
        assert running.verify()["ok"]
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture
def desk(double, tmp_path):
    with desk_with(double, tmp_path, flows.NOTE_FLOW) as desk:
        yield desk


@pytest.fixture
def calm_desk(double, tmp_path):
    """Without the deadline: its agents have all the time they need."""
    with desk_with(double, tmp_path, "") as desk:
        yield desk


def refusal(status, body):
    text = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: "
    return ["read", {"send": f"{text}{len(body.encode())}\r\n\r\n{body}"}]


def test_a_flow_that_only_stopped_is_not_among_those_that_broke(desk, token):
    agent, stopped = desk.stops(token)
    assert stopped["stopped"] and stopped["cause"] == "deadline"
    broken = desk.agent(f"{token}b")
    broken.does("orders")
    broken.script_undo("orders", flows.answer_with("403 Forbidden"))
    broken.breaks()
    parked = desk.await_flow(broken, "NEEDS_HUMAN")
    assert not parked["stopped"]
    assert desk.numbers("--parked") == [parked["number"]]
    assert desk.numbers("--stopped") == [stopped["number"]]
    assert desk.numbers("--phase", "NEEDS_HUMAN") == [stopped["number"], parked["number"]]
    assert desk.metric("recourse_flows_parked") == desk.metric("recourse_flows_stopped") == 1
    assert desk.metric('recourse_flows{phase="NEEDS_HUMAN"}') == 2
    told = desk.recourse.admin("GET", "/status")["flows"]
    assert told == {"open": 0, "breaking": 0, "parked": 1, "stopped": 1}
    assert "1 stopped (recourse flows list --stopped)" in desk.recourse.cli("status").stdout
    lines = desk.told("a flow stopped unfinished", agent.flow)
    assert [line["level"] for line in lines] == ["info"]
    assert not desk.told("a flow needs a human", agent.flow)


def test_flows_are_selected_by_name_and_reason(desk, token):
    _, stopped = desk.stops(token)
    other = desk.agent(f"{token}o")
    other.does("orders")
    open_one = desk.flow(other)["number"]
    assert desk.numbers("--name", "note") == [stopped["number"]]
    assert desk.numbers("--name", "checkout") == [open_one]
    assert desk.numbers("--matching", "deadline passed") == [stopped["number"]]
    assert desk.numbers("--name", "note", "--matching", "no such text") == []
    assert desk.recourse.http("admin", "GET", "/flows?stopped=maybe", headers={
        "Authorization": f"Bearer {desk.recourse.token}"})[0] == 400  # fmt: skip
    assert "exclude each other" in desk.flows("list", "--parked", "--stopped", code=2)


def test_all_that_stopped_are_closed_at_once_and_what_they_did_stays(desk, double, token):
    agents = [desk.stops(f"{token}{i}")[0] for i in range(3)]
    broken = desk.agent(f"{token}b")
    broken.does("orders")
    broken.script_undo("orders", flows.answer_with("403 Forbidden"))
    broken.breaks()
    desk.await_flow(broken, "NEEDS_HUMAN")
    assert "--stopped" in desk.flows("close", "--name", "note", "--reason", "x", code=2)
    assert "--stopped" in desk.flows("close", "--reason", "x", code=2)
    assert "--reason" in desk.flows("close", "--stopped", code=2)
    assert desk.flows("close", "--stopped", "--name", "checkout", "--reason", "x") == ""
    closed = desk.flows("close", "--stopped", "--reason", "kept", "--as-user", "ada").splitlines()
    states = [desk.flow(agent) for agent in agents]
    assert closed == [f"flow {state['number']} is COMMITTED" for state in states]
    assert {(s["phase"], s["reason"]) for s in states} == {("COMMITTED", "admin (ada): kept")}
    assert desk.flow(broken)["phase"] == "NEEDS_HUMAN"
    assert desk.metric("recourse_flows_stopped") == 0
    for agent in agents:
        assert len(double.effects(agent.path("notes"))) == 1 and agent.undone() == []


def test_what_a_backend_said_when_it_refused_is_kept_redacted_and_shown(calm_desk, token):
    desk = calm_desk
    agent = desk.agent(token)
    agent.does("notes", "orders")
    said = json.dumps({"error": "locked by audit", "secret": "hunter2", "text": "x" * 2_000})
    agent.script_undo("notes", refusal("403 Forbidden", said))
    sold_out = json.dumps({"error": "no lorry today"})
    agent.script("shipping", refusal("422 Unprocessable", sold_out))
    assert agent.call("shipping").status == 422
    flow = desk.await_flow(agent, "NEEDS_HUMAN")
    step = {one["tool"]: one for one in flow["steps"]}
    assert step["shipping.book"]["said"]["status"] == 422
    assert step["shipping.book"]["said"]["body"] == sold_out
    undo = step["notes.create"]["undo_said"]
    assert undo["status"] == 403
    assert undo["body"].startswith('{"error": "locked by audit", "secret": "[redacted]"')
    assert len(undo["body"]) == 1024
    assert "said" not in step["notes.create"]
    assert step["orders.create"]["undo_said"]["status"] < 300
    shown = desk.flows("show", str(flow["number"]))
    assert 'it was refused: 422 {"error": "no lorry today"}' in shown
    assert 'its undo was answered: 403 {"error": "locked by audit"' in shown
    desk.recourse.stop()
    raw = b"".join(path.read_bytes() for path in desk.recourse.data.rglob("*") if path.is_file())
    assert b"no lorry today" not in raw and b"locked by audit" not in raw and b"hunter2" not in raw
    desk.recourse.start()
    assert {one["tool"]: one for one in desk.flow(agent)["steps"]} == step
