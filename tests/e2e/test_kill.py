"""The process is killed with SIGKILL at every named point and at random moments; nothing is lost.

RECOURSE_KILLS sets the kills per point (default 25), RECOURSE_E2E_SEED repeats a run.
"""

import os
import random

import pytest

from support.campaign import Campaign
from support.policies import standard
from support.recourse import CRASH_POINTS

KILLS = int(os.environ.get("RECOURSE_KILLS", "25"))
SEED = os.environ.get("RECOURSE_E2E_SEED") or str(random.SystemRandom().getrandbits(32))
POINTS = [f"k{number:02d}" for number in range(1, 15)]


@pytest.fixture
def campaign(double, tmp_path, request):
    made = []

    def make(name, agents):
        policy = standard(double, timeout="5s", absent_after="1s")
        made.append(Campaign(double, str(tmp_path), policy, name, agents, SEED))
        return made[-1]

    print(f"seed {SEED}")
    yield make
    for one in made:
        one.end()


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_this_point_breaks_no_promise(campaign, point):
    run = campaign(point, agents=4)
    for _ in range(KILLS):
        run.strike_at(point, run.random.randint(1, 6))
    assert run.times_hit(point) == KILLS
    found = run.reckon()
    assert not found, "\n".join(found[:30])


def test_kills_at_random_moments_under_load_break_no_promise(campaign):
    run = campaign("random", agents=8)
    for _ in range(KILLS):
        run.strike_after(run.random.uniform(0.0, 0.15))
        for _ in range(run.random.randint(0, 2)):
            run.strike_at_start(run.random.uniform(0.0, 0.06))
    assert run.made > KILLS, "the agents hardly worked, so the kills proved nothing"
    assert run.moved > 0, "no retry came under another trace"
    found = run.reckon()
    assert not found, "\n".join(found[:30])
