"""The time machine: an update, a replacement and a deletion are undone from what was read before
they were sent, and what somebody else has changed since is never overwritten."""

import itertools
import json
import secrets

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.mcp_wire import Modern
from support.recourse import CRASH_POINTS, Recourse, run_cli
from support.tracker import MCP_POLICY, Tracker, policy
from support.waiting import wait_until

FIELDS = {
    "title": 'Old "title" \u00e9\u4e16 \\ / \t',
    "labels": [{"name": "bug", "color": None}, {"name": "p1", "weights": [1, 2.5, -3]}],
    "assignee": None,
    "points": 3,
}
PATCH = {"title": "New", "labels": [], "assignee": "ada", "points": 8}
TOKEN = {"Authorization": "Bearer of-the-agent"}
numbers = itertools.count(1)


class Machine:
    """One Recourse before one tracker, and flows of one write each."""

    def __init__(self, recourse, tracker):
        self.recourse = recourse
        self.tracker = tracker

    def issue(self, **fields):
        name = f"i{next(numbers)}"
        self.tracker.make("issues", name, **{**FIELDS, "body": "untouched", **fields})
        return name

    def call(self, method, path, body=None, trace=None, **fields):
        self.trace = trace or secrets.token_hex(16)
        headers = {**rawhttp.traced(self.trace), **TOKEN, **fields}
        return rawhttp.call(self.recourse.port, method, path, host="tracker.test",
                            headers=headers, body=b"" if body is None else body)  # fmt: skip

    def update(self, name, body=None):
        """Updates an issue; gives the trace."""
        answer = self.call("PATCH", f"/issues/{name}", PATCH if body is None else body)
        assert answer.status == 200, answer
        return self.trace

    def flow(self, trace):
        return self.recourse.admin("GET", f"/flows/{trace}")

    def flows(self, *arguments):
        done = self.recourse.cli("flows", *arguments)
        assert done.returncode == 0, done
        return done.stdout

    def cancel(self, trace):
        self.flows("cancel", trace, "--reason", "the agent went astray")

    def await_flow(self, trace, phase):
        return wait_until(
            lambda: (flow := self.flow(trace))["phase"] == phase and flow,
            lambda: json.dumps(self.flow(trace)),
        )

    def undo(self, trace):
        self.cancel(trace)
        return self.await_flow(trace, "UNDONE")

    def park(self, trace):
        self.cancel(trace)
        return self.await_flow(trace, "NEEDS_HUMAN")


@pytest.fixture
def tracker():
    api = Tracker()
    yield api
    api.stop()


@pytest.fixture
def machine(tracker, tmp_path):
    with Recourse(tmp_path, policy(tracker.url)) as running:
        yield Machine(running, tracker)
        report = running.verify()
        assert report["ok"], report


# What is put back.
@pytest.mark.parametrize("has_tags", [True, False], ids=["tags", "no tags"])
@pytest.mark.parametrize("tells", [True, False], ids=["told", "not told"])
def test_an_update_is_undone_byte_for_byte(machine, tracker, has_tags, tells):
    tracker.has_tags, tracker.tells = has_tags, tells
    name = machine.issue()
    before = json.dumps(tracker.state("issues", name))
    flow = machine.undo(machine.update(name))
    assert json.dumps(tracker.state("issues", name)) == before
    assert tracker.effects == [f"PATCH issues/{name}"] * 2
    assert flow["undone_count"] == 1
    reads = tracker.asked("GET", f"/issues/{name}")
    assert [one.get("Authorization") for one in reads] == [TOKEN["Authorization"]] * 2
    assert all(one.get("Cache-Control") == "no-cache" for one in reads)
    sent = tracker.asked("PATCH", f"/issues/{name}")[-1]
    assert sent.get("If-Match") == ('"v2"' if has_tags else None)


def test_a_replacement_is_undone_whole(machine, tracker):
    tracker.make("pages", "p1", text="first", tree={"b": 1, "a": [True, None, ""]})
    before = json.dumps(tracker.state("pages", "p1"))
    assert machine.call("PUT", "/pages/p1", {"text": "second"}).status == 200
    machine.undo(machine.trace)
    assert json.dumps(tracker.state("pages", "p1")) == before


def test_a_deletion_is_made_again_under_another_name(machine, tracker):
    name = machine.issue()
    assert machine.call("DELETE", f"/issues/{name}").status == 204
    machine.undo(machine.trace)
    (again,) = [thing for thing, _ in tracker.things.values()]
    assert again["id"] != name
    assert {key: again[key] for key in ("title", "labels")} == {
        key: FIELDS[key] for key in ("title", "labels")
    }
    undo = next(e for e in machine.recourse.events(trace=machine.trace) if e["phase"] == "SUCCEEDED"
                and e["undoes"])  # fmt: skip
    assert "made again, under another id" in undo["detail"]


# What is not put back whole.
@pytest.mark.parametrize("body", [{**PATCH, "body": "mine"}, {"reporter": "eve"}])
def test_what_the_undo_would_not_put_back_has_the_flow_parked(machine, tracker, body):
    name = machine.issue()
    trace = machine.update(name, body)
    flow = machine.park(trace)
    assert f"would not put back body#/{[*body][-1]}" in flow["reason"], flow
    assert tracker.effects == [f"PATCH issues/{name}"]
    assert "would not put back" in machine.flows("show", trace)


def test_what_is_sent_as_it_stood_needs_no_way_back(machine, tracker):
    name = machine.issue()
    trace = machine.update(name, {"title": "New", "points": FIELDS["points"]})
    machine.undo(trace)
    assert tracker.state("issues", name)["title"] == FIELDS["title"]


def test_a_conflict_parks_the_undo_with_what_was_answered(machine, tracker):
    name = machine.issue()
    trace = machine.update(name)
    tracker.conflicts = 9
    flow = machine.park(trace)
    assert "the backend answered 409" in flow["reason"], flow
    assert "somebody moved it" in json.dumps(flow["steps"]), flow
    assert tracker.conflicts == 8
    tracker.conflicts = 0
    machine.flows("retry", trace)
    machine.await_flow(trace, "UNDONE")


# When it is read.
def test_only_what_is_sent_is_read_before(machine, tracker):
    name = machine.issue()
    trace = machine.update(name)
    for _ in range(3):
        assert machine.call("PATCH", f"/issues/{name}", PATCH, trace=trace).replayed
    assert len(tracker.asked("GET", f"/issues/{name}")) == 1
    assert len(tracker.asked("PATCH", f"/issues/{name}")) == 1


def test_a_further_attempt_reads_what_is_there_by_then(machine, tracker):
    name = machine.issue()
    tracker.lose_answers = 0
    trace = secrets.token_hex(16)
    refused = machine.call("PATCH", "/issues/missing", PATCH, trace=trace)
    assert refused.status == 403 and "answered 404" in refused.json()["detail"], refused
    tracker.make("issues", "missing", **FIELDS)
    assert machine.call("PATCH", "/issues/missing", PATCH, trace=trace).status == 200
    machine.undo(trace)
    assert tracker.state("issues", "missing") == {"id": "missing", **FIELDS}
    assert tracker.state("issues", name)["title"] == FIELDS["title"]


# What somebody else has changed.
@pytest.mark.parametrize("has_tags", [True, False], ids=["tags", "no tags"])
def test_what_somebody_else_has_changed_is_not_overwritten_and_shown(machine, tracker, has_tags):
    tracker.has_tags = has_tags
    name = machine.issue()
    trace = machine.update(name)
    tracker.foreign("issues", name, title="Theirs")
    flow = machine.park(trace)
    assert tracker.state("issues", name)["title"] == "Theirs"
    assert tracker.effects == [f"PATCH issues/{name}"]
    assert "/title" in flow["reason"] and "Theirs" not in flow["reason"]
    (step,) = flow["steps"]
    assert step["changed_since"] == [
        {"place": "/title", "before": json.dumps(FIELDS["title"], ensure_ascii=False),
         "ours": '"New"', "now": '"Theirs"'}
    ]  # fmt: skip
    shown = machine.flows("show", trace)
    assert '"Theirs"' in shown and '"New"' in shown and "before" in shown
    assert "undo not sent: changed since" in shown and "REJECTED" not in shown
    assert "`--as not-needed`" in flow["reason"]


def test_a_human_restores_over_what_he_was_shown_and_over_nothing_else(machine, tracker):
    name = machine.issue()
    trace = machine.update(name)
    tracker.foreign("issues", name, title="Theirs")
    machine.park(trace)
    tracker.foreign("issues", name, title="Theirs again")
    machine.flows("retry", trace)
    wait_until(lambda: "Theirs again" in json.dumps(machine.flow(trace)["steps"]))
    machine.await_flow(trace, "NEEDS_HUMAN")
    assert tracker.state("issues", name)["title"] == "Theirs again"
    machine.flows("retry", trace)
    machine.await_flow(trace, "UNDONE")
    assert tracker.state("issues", name) == {"id": name, "body": "untouched", **FIELDS}


def test_a_human_keeps_what_is_there(machine, tracker):
    name = machine.issue()
    trace = machine.update(name)
    tracker.foreign("issues", name, title="Theirs")
    (step,) = machine.park(trace)["steps"]
    machine.flows("resolve", trace, "--step", step["step"], "--as", "not-needed",
                  "--reason", "theirs is right")  # fmt: skip
    machine.await_flow(trace, "UNDONE")
    assert tracker.state("issues", name)["title"] == "Theirs"


def test_a_change_between_the_look_and_the_undo_is_not_overwritten(machine, tracker):
    name = machine.issue()
    trace = machine.update(name)

    def meanwhile(kind, which):
        tracker.after_read = None
        tracker.set(kind, which, {**tracker.state(kind, which), "title": "Theirs"})

    tracker.after_read = meanwhile
    machine.park(trace)
    assert tracker.state("issues", name)["title"] == "Theirs"


def test_what_was_put_back_already_is_undone_without_a_request(machine, tracker):
    name = machine.issue()
    trace = machine.update(name)
    tracker.foreign("issues", name, **FIELDS)
    machine.undo(trace)
    assert tracker.effects == [f"PATCH issues/{name}"]


def test_a_deletion_that_somebody_took_back_is_undone_without_a_request(machine, tracker):
    name = machine.issue()
    assert machine.call("DELETE", f"/issues/{name}").status == 204
    tracker.make("issues", name, **FIELDS)
    machine.undo(machine.trace)
    assert tracker.effects == [f"DELETE issues/{name}"]


def test_of_many_changes_none_is_overwritten(machine, tracker):
    traces = {}
    for number in range(60):
        name = machine.issue()
        traces[name] = machine.update(name)
        if number % 3 == 0:
            tracker.foreign("issues", name, labels=[number])
        if number % 3 == 1:
            tracker.foreign("issues", name, body="theirs")  # which only the tag tells
    for trace in traces.values():
        machine.cancel(trace)
    for number, (name, trace) in enumerate(traces.items()):
        machine.await_flow(trace, "UNDONE" if number % 3 == 2 else "NEEDS_HUMAN")
        thing = tracker.state("issues", name)
        assert thing["title"] == (FIELDS["title"] if number % 3 == 2 else "New")
        if number % 3 == 0:
            assert thing["labels"] == [number]


def test_a_state_that_cannot_be_read_is_asked_for_again(machine, tracker):
    name = machine.issue()
    trace = machine.update(name)
    tracker.read_fails = 2
    machine.undo(trace)
    assert tracker.state("issues", name)["title"] == FIELDS["title"]


# Outcomes that were unknown.
SETTLED = """\
  notes.update:
    match: PATCH tracker /pages/{id}
    effect: write
    before: { request: "GET /pages/{path.id}", keep: body#/text, version: header.ETag }
    settle: { request: "GET /pages/{path.id}", happened: answer.body#/ref, absent_after: 0s,
              absent: 'answer.body#/text == "first"',
              headers: { Authorization: "{header.Authorization}" } }
    undo: { request: "PATCH /pages/{path.id}", json: { text: "{before.body#/text}" },
            only_if: unchanged, credentials: from_call, leaves: body#/ref }
"""


def test_a_lost_answer_is_settled_and_undone(tracker, tmp_path):
    with Recourse(tmp_path, policy(tracker.url, tools=SETTLED)) as run:
        machine = Machine(run, tracker)
        tracker.make("pages", "p", text="first")
        tracker.lose_answers = 1
        machine.call("PATCH", "/pages/p", {"text": "second", "ref": "r1"})
        trace = machine.trace
        run.await_phase("/pages/p", "SUCCEEDED")
        machine.undo(trace)
        assert tracker.state("pages", "p")["text"] == "first"
        assert run.verify()["ok"]


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", ["k02", "k03", "k05", "k10", "k11", "k12"])
def test_a_kill_of_the_write_leaves_it_undoable(tracker, tmp_path, point):
    run = Recourse(tmp_path, policy(tracker.url, tools=SETTLED))
    run.start({"RECOURSE_CRASH_POINT": f"{point}:1"})
    machine = Machine(run, tracker)
    tracker.make("pages", "p", text="first")
    with pytest.raises((OSError, rawhttp.Cut, AssertionError)):
        machine.call("PATCH", "/pages/p", {"text": "second", "ref": "r1"})
    trace = machine.trace
    run.wait()
    with run:
        wait_until(lambda: all(e["phase"] != "UNCERTAIN" for e in run.events_for("/pages/p")[-1:]))
        if run.events(trace=trace):
            machine.undo(trace)
        assert tracker.state("pages", "p")["text"] == "first"
        assert run.verify()["ok"]


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", ["k05", "k10", "k11", "k12"])
def test_a_kill_of_the_write_does_not_forget_what_it_set(tracker, tmp_path, point):
    run = Recourse(tmp_path, policy(tracker.url, tools=SETTLED))
    run.start({"RECOURSE_CRASH_POINT": f"{point}:1"})
    machine = Machine(run, tracker)
    tracker.make("pages", "p", text="first")
    with pytest.raises((OSError, rawhttp.Cut, AssertionError)):
        machine.call("PATCH", "/pages/p", {"text": "second", "ref": "r1", "more": 1})
    trace = machine.trace
    run.wait()
    with run:
        wait_until(lambda: all(e["phase"] != "UNCERTAIN" for e in run.events_for("/pages/p")[-1:]))
        if tracker.effects:
            assert "would not put back body#/more" in machine.park(trace)["reason"]
        assert run.verify()["ok"]


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize(
    "point, is_changed",
    # Where somebody else has changed it nothing is sent, and k20 lies behind that.
    [(point, False) for point in ("k17", "k18", "k20", "k21")]
    + [(point, True) for point in ("k17", "k18", "k21")],
)
def test_a_kill_of_the_undo_never_overwrites(tracker, tmp_path, point, is_changed):
    run = Recourse(tmp_path, policy(tracker.url))
    run.start({"RECOURSE_CRASH_POINT": f"{point}:1"})
    machine = Machine(run, tracker)
    name = machine.issue()
    trace = machine.update(name)
    if is_changed:
        tracker.foreign("issues", name, title="Theirs")
    run.cli("flows", "cancel", trace, "--reason", "r")
    run.wait()
    with run:
        flow = wait_until(lambda: (f := machine.flow(trace))["phase"] in ("UNDONE", "NEEDS_HUMAN")
                          and f)  # fmt: skip
        title = tracker.state("issues", name)["title"]
        if is_changed:
            assert flow["phase"] == "NEEDS_HUMAN" and title == "Theirs", flow
        elif point == "k18":
            # The policy does not let it be repeated, and nobody knows that nothing was sent.
            assert flow["phase"] == "NEEDS_HUMAN" and title == "New", flow
        else:
            assert flow["phase"] == "UNDONE" and title == FIELDS["title"], flow
        assert len(tracker.effects) <= 2
        assert run.verify()["ok"]


# What cannot be read.
@pytest.mark.parametrize("missing", ["missing: refuse", ""])
def test_a_write_whose_state_cannot_be_read_is_not_sent(tracker, tmp_path, missing):
    with Recourse(tmp_path, policy(tracker.url, missing)) as run:
        machine = Machine(run, tracker)
        name = machine.issue()
        tracker.read_fails = 1
        answer = machine.call("PATCH", f"/issues/{name}", PATCH)
        problem = answer.json()
        assert answer.status == 503 and problem["outcome"] == "not_executed", answer
        assert "503" in problem["detail"] and "GET /issues" in problem["detail"]
        assert tracker.effects == [] and run.events(trace=machine.trace) == []
        again = machine.call("PATCH", f"/issues/{name}", PATCH, trace=machine.trace)
        assert again.status == 200, again


def test_a_place_that_is_absent_is_told_by_its_name(machine, tracker):
    name = machine.issue()
    del tracker.things["issues", name][0]["labels"]
    answer = machine.call("PATCH", f"/issues/{name}", PATCH)
    assert answer.status == 403 and "nothing at body#/labels" in answer.json()["detail"], answer
    assert tracker.effects == []


def test_a_write_that_goes_on_is_sent_and_says_that_it_cannot_be_undone(tracker, tmp_path):
    with Recourse(tmp_path, policy(tracker.url, "missing: go_on")) as run:
        machine = Machine(run, tracker)
        name = machine.issue()
        tracker.read_fails = 1
        trace = machine.update(name)
        flow = machine.park(trace)
        assert "could not be made" in flow["reason"], flow
        events = run.events(trace=trace)
        assert "cannot be read" in events[0]["detail"], events
        assert "not known" in events[1]["detail"], events
        assert tracker.state("issues", name)["title"] == "New"


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_human_decides_about_a_write_whose_state_cannot_be_read(tracker, tmp_path, is_readable):
    asks = "    approval: { by: [ finance ], when: body#/points > 1000, hold: 0s }\n    undo:"
    text = policy(tracker.url, "missing: approve").replace("    undo:", asks)
    with Staffed(tmp_path, text) as run:
        machine = Machine(run, tracker)
        name = machine.issue()
        path = f"/issues/{name}"
        tracker.read_fails = 1 if is_readable else 2
        answer = machine.call("PATCH", path, PATCH)
        assert answer.status == 202, answer
        assert tracker.effects == []
        (claim,) = run.await_waiting(path)
        assert "cannot be read" in json.dumps(claim), claim
        assert run.approve(claim["operation"])[0] == 200
        wait_until(lambda: tracker.effects == [f"PATCH {path[1:]}"])


def test_a_call_that_waits_is_read_when_it_is_sent(tracker, tmp_path):
    asks = "    approval: { by: [ finance ], hold: 0s }\n    undo:"
    with Staffed(tmp_path, policy(tracker.url).replace("    undo:", asks)) as run:
        machine = Machine(run, tracker)
        name = machine.issue()
        path = f"/issues/{name}"
        assert machine.call("PATCH", path, PATCH).status == 202
        (claim,) = run.await_waiting(path)
        assert tracker.asked("GET", path) == []
        tracker.foreign("issues", name, title="Later")
        assert run.approve(claim["operation"])[0] == 200
        wait_until(lambda: tracker.effects)
        assert len(tracker.asked("GET", path)) == 1


# The other door.
@pytest.mark.parametrize("is_changed", [False, True], ids=["ours", "theirs"])
def test_a_call_of_an_mcp_tool_is_undone_from_a_read_of_its_server(tracker, tmp_path, is_changed):
    with Recourse(tmp_path, MCP_POLICY.format(url=tracker.url)) as run:
        machine = Machine(run, tracker)
        name = machine.issue()
        trace = secrets.token_hex(16)
        client = Modern(f"http://127.0.0.1:{run.port}/mcp")
        answer = client.call("edit_issue", {"id": name, "title": "New", "labels": []},
                             headers={**rawhttp.traced(trace), **TOKEN})  # fmt: skip
        assert answer.final()["result"]["structuredContent"]["title"] == "New", answer.body
        if is_changed:
            tracker.foreign("issues", name, title="Theirs")
            flow = machine.park(trace)
            assert [one["now"] for one in flow["steps"][0]["changed_since"]] == ['"Theirs"']
        else:
            machine.undo(trace)
        thing = tracker.state("issues", name)
        assert thing["title"] == ("Theirs" if is_changed else FIELDS["title"])
        assert thing["labels"] == ([] if is_changed else FIELDS["labels"])
        assert tracker.effects == [f"edit_issue {name}"] * (1 if is_changed else 2)
        assert run.verify()["ok"]


def test_what_becomes_of_its_effect_is_told_wherever_it_is_told_of(machine, tracker):
    name = machine.issue()
    (updated,) = {e["class"] for e in machine.recourse.events(trace=machine.update(name))}
    assert machine.call("DELETE", f"/issues/{name}").status == 204
    (deleted,) = {e["class"] for e in machine.recourse.events(trace=machine.trace)}
    assert (updated, deleted) == ("reversible", "externally reversible")
    tools = machine.recourse.admin("GET", "/policy/tools")["tools"]
    classes = {tool["name"]: tool["class"] for tool in tools}
    assert classes["issues.update"] == updated and classes["issues.delete"] == deleted
    explained = run_cli("policy", "explain", machine.recourse.policy_path,
                        f"DELETE http://tracker.test/issues/{name}")  # fmt: skip
    assert deleted in explained.stdout, explained.stdout
