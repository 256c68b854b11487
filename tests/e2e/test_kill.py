"""The process is killed with SIGKILL at every named point and at random moments; nothing is lost.

RECOURSE_KILLS sets the kills per point (default 5; ./dev soak has 25), RECOURSE_E2E_SEED repeats
a run.
"""

import os
import random
import time

import pytest

from support.campaign import ROUTES, Campaign
from support.certificates import Maker, show
from support.double import Double
from support.policies import standard
from support.recourse import CRASH_POINTS, WAIT_MAX

KILLS = int(os.environ.get("RECOURSE_KILLS", "5"))
SEED = os.environ.get("RECOURSE_E2E_SEED") or str(random.SystemRandom().getrandbits(32))
# A busy machine may execute late what a kill left in a socket; the policy must not say otherwise.
ABSENT_AFTER = "6s"
POINTS = [f"k{number:02d}" for number in range(1, 15)] + ["k26", "k27"]
# Two calls in seven go over TLS.
SECURE = (("/secure", "secure.test", ""), ("/secure", "secure.test", "?slow=1"))
BACKEND = """\
  secure:
    url: "https://localhost:{port}"
    hosts: [ secure.test ]
    timeout: 60s
    connect_timeout: 30s
    tls: {{ ca_file: "{ca}" }}
"""
TOOL = """\
  secure.create:
    match: POST secure /secure/{token}
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /secure/{path.token}?client_ref={body#/client_ref}"
      happened: answer.body#/items/0/id
      absent_after: {absent_after}
    undo: none
    reason: a row of a test is never undone
"""


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A double with a TLS port, and the policy over it."""
    directory = tmp_path_factory.mktemp("secure")
    maker = Maker(directory / "ca")
    double = Double(str(directory), show(directory, good=maker.issue("good")))
    backend = BACKEND.format(port=double.tls["good"], ca=maker.cert)
    yield double, standard(
        double, absent_after=ABSENT_AFTER, backends=backend,
        extra_tools=TOOL.replace("{absent_after}", ABSENT_AFTER),
    )  # fmt: skip
    double.stop()


@pytest.fixture
def campaign(secure, tmp_path):
    made = []

    def make(name, agents):
        double, policy = secure
        routes = ROUTES + SECURE
        made.append(Campaign(double, str(tmp_path), policy, name, agents, SEED, routes))
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


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_kills_within_the_recovery_from_a_kill_break_no_promise(campaign):
    """k22 lies after each operation that the recovery takes over, and after their commit."""
    run = campaign("recovery", agents=4)
    strikes = 0
    for _ in range(max(5, KILLS // 4)):
        run.strike_at("k05", run.random.randint(1, 6))  # leaves one that is DISPATCHING
        # What was not committed is there again for the next recovery.
        again = run.random.randint(0, 2)
        for passes in [1] * again + [run.random.randint(1, 2)]:
            run.strike_at("k22", passes)
            strikes += 1
    assert run.times_hit("k22") == strikes
    found = run.reckon()
    assert not found, "\n".join(found[:30])


def missing(run):
    """What the kills have not met yet and must, or they prove nothing."""
    paths = {line["path"] for line in run.double.record()}
    met = {
        "agents that worked": run.made > KILLS,
        "a retry under another trace": run.moved > 0,
        "TLS": any(path.startswith("/secure/random-") for path in paths),
    }
    return [what for what, is_met in met.items() if not is_met]


def test_kills_at_random_moments_under_load_break_no_promise(campaign):
    run = campaign("random", agents=8)
    strikes, late = 0, time.monotonic() + 2 * WAIT_MAX
    # A busy machine lets the agents do little in so short a time.
    while strikes < KILLS or (missing(run) and time.monotonic() < late):
        run.strike_after(run.random.uniform(0.0, 0.15 if strikes < KILLS else 1.5))
        for _ in range(run.random.randint(0, 2)):
            run.strike_at_start(run.random.uniform(0.0, 0.06))
        strikes += 1
    assert not missing(run)
    found = run.reckon()
    assert not found, "\n".join(found[:30])
