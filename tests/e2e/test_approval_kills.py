"""The process is killed with SIGKILL around a human's decision: nothing is sent without one,
nothing twice, and what was approved is sent after the restart without anybody's help."""

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.policies import standard
from support.recourse import CRASH_POINTS
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RULES = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], hold: 50ms }
"""
# k11 lies in every commit that holds no DISPATCHING: of the question, the decision, the outcome.
# Only here is k15 met, but for two stories.
POINTS = [*["k15:1"] * 4, "k16:1", "k04:1", "k05:1", "k06:1", "k10:1", "k11:1", "k11:2", "k11:3",
          "k12:1"]  # fmt: skip


def agent(running, path):
    """One try of the agent's call; None: the process was killed under it."""
    try:
        return rawhttp.call(
            running.port, "POST", path, headers=rawhttp.traced(TRACE), body={"to": "ada"}
        )
    except (OSError, rawhttp.Cut):
        return None


def until_gone(running):
    wait_until(lambda: not running.running(), lambda: running.stderr()[-2000:])


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_this_point_sends_nothing_twice_and_nothing_unapproved(
    double, tmp_path, token, point
):
    path = f"/mail/{token}"
    with Staffed(tmp_path, standard(double, extra_tools=RULES)) as running:
        running.kill()
        running.start(env={"RECOURSE_CRASH_POINT": point})
        told = agent(running, path)
        if told is not None and running.running():
            try:
                running.approve(told.json()["operation"])
            except OSError:
                pass  # the process was killed before it could answer
        until_gone(running)
        before = len(double.effects(path))
        assert before <= 1
        running.start()
        events = running.events_for(path)
        was_approved = any(event["phase"] == "APPROVED" for event in events)
        assert was_approved or before == 0, events
        if point == "k16:1":
            assert was_approved and before == 0
            double.await_effects(path)  # nobody has asked for it
        if point == "k15:1":
            assert not was_approved
        told = agent(running, path)
        if told.status == 202 and running.waiting():
            assert running.approve(told.json()["operation"])[0] == 200
            double.await_effects(path)
        told = wait_until(
            lambda: (answer := agent(running, path)).status != 202 and answer,
            lambda: running.events_for(path),
        )
        last = running.events_for(path)[-1]
        effects = double.effects(path)
        assert len(effects) <= 1, events
        if last["phase"] == "SUCCEEDED":
            assert told.status == 201 and len(effects) == 1
        else:  # it was being sent when it was killed: nobody knows, and it is never sent again
            assert last["phase"] == "UNCERTAIN" and told.status == 409, (last, told)
            assert point in ("k04:1", "k05:1", "k06:1", "k10:1", "k11:3"), last
        decisions = running.shown(last["operation"])["decisions"]
        assert [one["decision"] for one in decisions if one["counts"]] == ["approved"]
        assert running.verify()["ok"]
