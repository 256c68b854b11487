"""The one way to wait: for something that can be seen, with one generous deadline."""

import os
import time

# Multiplies every bound, for sanitizer builds and loaded machines.
PATIENCE = float(os.environ.get("RECOURSE_E2E_PATIENCE", "1"))
# How long what must come is waited for. It says nothing of how fast the program is: on a busy
# machine everything may take a hundred times as long, so no wait of a test is shorter.
WAIT_MAX = 120.0 * PATIENCE
PAUSE_MIN, PAUSE_MAX = 0.002, 0.05  # between two looks
TURNS = 20


class InVain(AssertionError):
    """What was waited for did not come."""


def wait_until(condition, what="it did not come", seconds=WAIT_MAX):
    """Asks `condition()` until it gives something true, and gives that. `what` tells of the
    failure: a text, or a function that gives one then. What `condition` raises ends the wait."""
    __tracebackhide__ = True  # pytest shows the line of the test
    begun = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begun
        if waited >= seconds:
            raise InVain(f"waited {waited:.0f} s in vain: {what() if callable(what) else what}")
        time.sleep(min(max(waited / 10, PAUSE_MIN), PAUSE_MAX))
    return value


def lasts(seconds):
    """Lets time pass, where time itself is the subject and there is nothing to look at: a comment
    at each call says why."""
    time.sleep(seconds)


def made_in_time(attempt, what="this machine stood still every time"):
    """For what must be there before a deadline: `attempt(turn)` makes it, under names of its own
    in each turn, until it gives something true, and that is given. False: it came too late."""
    __tracebackhide__ = True
    for turn in range(TURNS):
        if made := attempt(turn):
            return made
    raise InVain(what)
