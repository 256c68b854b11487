"""Wall clocks that lie (c01): nothing expires early, and order never comes from the time of day.

libfaketime (Debian package faketime) moves the wall clock while the process runs; the monotonic
clock keeps its pace, as in a virtual machine whose time of day is set.
"""

import itertools
import time

import pytest

from support import rawhttp
from support.faked_time import HOUR, YEAR, FakedTime
from support.policies import standard
from support.recourse import MEASURABLE, Recourse

JUMPS = {"an_hour_back": -HOUR, "a_day_and_an_hour_on": 25 * HOUR,
         "ten_years_back": -10 * YEAR, "ten_years_on": 10 * YEAR}  # fmt: skip

pytestmark = pytest.mark.skipif(
    not MEASURABLE, reason="libfaketime and a sanitizer exclude each other"
)


WIDE = """\
  wide.create:
    match: POST shop /wide/{token}
    effect: write
    scope: caller
    undo: none
    reason: a row of a test is never undone
"""


class FakedClock(FakedTime):
    """Recourse whose wall clock is off by what `set` says."""

    def __init__(self, double, directory):
        super().__init__(directory)
        self.recourse = Recourse(directory, standard(double, extra_tools=WIDE), env=self.env)


@pytest.fixture
def clock(double, tmp_path):
    faked = FakedClock(double, tmp_path)
    with faked.recourse:
        yield faked
        assert faked.recourse.running(), faked.recourse.stderr()[-4000:]


def order(recourse, path, trace=None):
    headers = {"Content-Type": "application/json"}
    if trace:
        headers["traceparent"] = f"00-{trace}-00f067aa0ba902b7-01"
    body = b'{"client_ref":"%s","amount":100}' % path.rsplit("/", 1)[1].encode()
    return rawhttp.call(recourse.port, "POST", path, headers=headers, body=body, host="shop.test")


def test_the_wall_clock_can_be_moved_here(clock, token):
    """Without this, the other tests of this file would prove nothing."""
    order(clock.recourse, f"/plain/{token}")
    before = clock.recourse.events_for(f"/plain/{token}")[-1]["time"]
    clock.set(-10 * YEAR)
    order(clock.recourse, f"/plain/{token}-later")
    after = clock.recourse.events_for(f"/plain/{token}-later")[-1]["time"]
    assert int(before[:4]) - int(after[:4]) in (9, 10, 11)


@pytest.mark.parametrize("trace", [None, "4bf92f3577b34da6a3ce929d0e0e4736"])
@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_jumps_ends_no_key_early(clock, double, token, jump, trace):
    """With a trace the key holds for the retention, with the caller's scope for the dedupe window:
    both are time that has passed, not what a clock says."""
    path = f"/plain/{token}" if trace else f"/wide/{token}"
    first = order(clock.recourse, path, trace)
    clock.set(JUMPS[jump])
    second = order(clock.recourse, path, trace)
    assert second.body == first.body and second.replayed
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_restart_under_another_time_of_day_ends_no_traced_key(clock, double, token, jump):
    path, trace = f"/plain/{token}", "4bf92f3577b34da6a3ce929d0e0e4736"
    first = order(clock.recourse, path, trace)
    clock.recourse.kill()
    clock.set(JUMPS[jump])
    clock.recourse.start()
    second = order(clock.recourse, path, trace)
    assert second.body == first.body and second.replayed
    assert len(double.effects(path)) == 1


def test_a_clock_that_steps_back_and_forth_leaves_the_order_of_events_alone(clock, double, token):
    steps = itertools.cycle([-HOUR, HOUR, -10 * YEAR, 0])
    deadline = time.monotonic() + 1.5
    made = 0
    while time.monotonic() < deadline:
        clock.set(next(steps))
        path = f"/probed/{token}-{made}"
        first, second = (order(clock.recourse, path, f"{made + 1:032x}") for _ in range(2))
        assert first.status == 201 and second.replayed and first.body == second.body
        made += 1
    events = clock.recourse.events()
    ids = [event["event_id"] for event in events]
    assert ids == sorted(ids) and clock.recourse.verify()["ok"]
    for number in range(made):
        assert len(double.effects(f"/probed/{token}-{number}")) == 1


def test_an_unknown_outcome_is_not_called_absent_because_the_clock_jumped(clock, double, token):
    """absent_after counts time that has passed since the call was sent."""
    path = f"/late/{token}"
    clock.recourse.kill()
    policy = clock.recourse.policy_path
    patient = standard(double, timeout="6s", absent_after="1h")
    policy.write_text(patient.replace("/probed/", "/late/"))
    clock.recourse.start()
    double.script("POST", path, ["read", {"gate": token}, "execute"], 1)
    double.script("POST", path, ["read", "rst"], 1)
    answer = order(clock.recourse, path)
    assert answer.status in (502, 504), answer
    clock.set(25 * HOUR)
    for _ in range(3):
        repeat = order(clock.recourse, path)
        assert repeat.status == 409 and repeat.json()["outcome"] == "unknown"
    phases = [event["phase"] for event in clock.recourse.events_for(path)]
    assert "PROVEN_ABSENT" not in phases
