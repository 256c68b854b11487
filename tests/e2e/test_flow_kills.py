"""Checkouts of three steps while the process is killed at every point of their life; afterwards
every effect is complete, undone in reverse, or parked with its reason, and the log tells the story.

RECOURSE_KILLS and RECOURSE_E2E_SEED as in test_kill.py;
RECOURSE_STORM_SECONDS as in test_campaign.py.
"""

import collections
import os
import random
import signal
import time

import pytest

from support.bounds import await_few_descriptors
from support.flow_campaign import FlowCampaign
from support.flows import Shop, policy
from support.recourse import CRASH_POINTS, MEASURABLE, WAIT_MAX, Recourse

SECONDS = float(os.environ.get("RECOURSE_STORM_SECONDS", "15"))
KILLS = int(os.environ.get("RECOURSE_KILLS", "5"))
SEED = os.environ.get("RECOURSE_E2E_SEED") or str(random.SystemRandom().getrandbits(32))
FORWARD = ["k04", "k05", "k11", "k12"]
UNDO = ["k17", "k18", "k20", "k21"]
# Of one process without kills.
FLOWS_FIRST, FLOWS_THEN = 60, 240
DESCRIPTORS_MORE = 8
KIB_MORE = 24 * 1024


@pytest.fixture
def campaign(double, tmp_path):
    made = []

    def make(name, agents=3, **how):
        made.append(FlowCampaign(double, str(tmp_path), name, agents, SEED, **how))
        return made[-1]

    print(f"seed {SEED}")
    yield make
    for one in made:
        one.end()


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", FORWARD + UNDO)
def test_a_kill_at_this_point_leaves_no_flow_half_done(campaign, point):
    run = campaign(point)
    most = 6 if point in FORWARD else 2
    for _ in range(KILLS):
        run.strike_at(point, run.random.randint(1, most))
    assert run.times_hit(point) == KILLS
    found = run.reckon()
    assert not found, "\n".join(found[:30])


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_a_kill_once_an_undo_request_is_sent_leaves_no_flow_half_done(campaign):
    """k19. It is k07 for requests of an agent; without one, only undo requests and probes go out,
    and of a flow whose steps are all known only the former."""
    run = campaign("k19")
    for _ in range(KILLS):
        run.strike_at("k17", 1)
        run.idle_until("k07")
    assert run.times_hit("k07") == KILLS
    found = run.reckon()
    assert not found, "\n".join(found[:30])


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", ["k18", "k20"])
def test_an_undo_that_must_not_be_repeated_is_parked_after_a_kill(double, token, tmp_path, point):
    tool = (
        "  once.create:\n    match: POST shop /once/{token}\n    effect: write\n"
        "    external_ref: answer.body#/id\n"
        "    undo: { request: \"DELETE /once/{external_ref}\" }\n"
    )
    running = Recourse(tmp_path, policy(double, tools=tool))
    running.start({"RECOURSE_CRASH_POINT": f"{point}:1"})
    try:
        agent = Shop(running, double).agent(token)
        agent.does("orders", "once")
        agent.breaks()
        assert running.wait() == -signal.SIGKILL
        running.start()
        reason = agent.await_parked()
        assert "once.create" in reason and "nobody knows whether its undo" in reason
        assert len(agent.undo_requests("once")) == (0 if point == "k18" else 1)
        assert agent.undo_requests("orders") == []
    finally:
        running.kill()


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_kills_twice_in_a_row_and_within_the_recovery_leave_no_flow_half_done(campaign):
    run = campaign("again")
    for _ in range(KILLS):
        run.strike_at(run.random.choice(["k18", "k20"]), 1)
        run.strike_at("k22", 1)  # the undo that was under way is taken over
        strikes = run.random.randint(0, 2)
        for _ in range(strikes):
            run.strike_at_start(run.random.uniform(0.0, 0.1))
        # Those may have lived long enough to end what was under way.
        run.idle_until(run.random.choice(["k18", "k20"]), must_pass=strikes == 0)
    found = run.reckon()
    assert not found, "\n".join(found[:30])


def test_kills_at_random_moments_leave_no_flow_half_done(campaign):
    run = campaign("random", agents=6)
    strikes, late = 0, time.monotonic() + 2 * WAIT_MAX
    while strikes < KILLS or (run.made <= KILLS and time.monotonic() < late):
        run.strike_after(run.random.uniform(0.05, 0.5 if strikes < KILLS else 2.0))
        for _ in range(run.random.randint(0, 2)):
            run.strike_at_start(run.random.uniform(0.0, 0.1))
        strikes += 1
    assert run.made > KILLS, "the agents hardly worked, so the kills proved nothing"
    found = run.reckon()
    assert not found, "\n".join(found[:30])


def test_flows_that_come_and_go_leave_nothing_behind(campaign):
    """One process, and hundreds of flows: of what it had after the first ones it keeps what its
    ledger must hold, no connection, and no memory but what is within noise."""
    run = campaign("bounds", agents=6)
    run.recourse.start()
    run.go_through(FLOWS_FIRST)
    before = await_few_descriptors(run.recourse), run.recourse.memory_kib()[0]
    run.go_through(FLOWS_THEN)
    after = await_few_descriptors(run.recourse, before[0]), run.recourse.memory_kib()[0]
    print(f"descriptors and KiB before {before}, after {after}")
    assert after[0] <= before[0] + DESCRIPTORS_MORE
    assert not MEASURABLE or after[1] <= before[1] + KIB_MORE
    found = run.bounds.violations(run.recourse, run.recourse.verify())
    assert run.recourse.stop() == 0
    found += run.reckon()
    assert not found, "\n".join(found[:30])


def is_calm(run):
    return sum(flow.fate in ("fails", "dies") for flow in run.all) <= 3


def test_a_storm_of_checkouts_leaves_no_flow_half_done(campaign):
    """Twelve agents whose calls race their duplicates, orders and undos that fail, and kills."""
    run = campaign("storm", agents=12, is_storm=True)
    end = time.monotonic() + SECONDS
    late = end + 2 * WAIT_MAX
    while time.monotonic() < end or (is_calm(run) and time.monotonic() < late):
        run.strike_after(run.random.uniform(0.3, 3.0))
        if CRASH_POINTS:
            run.strike_at(run.random.choice(FORWARD + UNDO), run.random.randint(1, 3))
        if run.random.random() < 0.4:
            run.strike_at_start(run.random.uniform(0.0, 0.2))
    found = run.reckon()
    fates = collections.Counter(flow.fate for flow in run.all)
    print(f"{len(run.all)} flows, {dict(fates)}, {len(run.parked)} parked")
    assert not is_calm(run), "the storm was too calm"
    assert not found, "\n".join(found[:30])
