"""Everything at once: mixed load of many agents, every fault of a backend that can be scripted, and
a process that is killed, suspended, starved, reloaded and restarted meanwhile. In the end the
checker holds the backend's record, the agents' history and the exported ledger against the promise.

RECOURSE_STORM_SECONDS sets how long it goes on at least (default 15), RECOURSE_E2E_SEED repeats its
plan.
"""

import os
import random

from support.certificates import PAST, Identity, Maker, show
from support.double import Double, FullPort, RefusedPort, ResettingPort
from support.storm import Storm
from support.storm_plan import policy

SECONDS = float(os.environ.get("RECOURSE_STORM_SECONDS", "15"))
SEED = os.environ.get("RECOURSE_E2E_SEED") or str(random.SystemRandom().getrandbits(32))


def identities(directory):
    """The CA's certificate, and a directory with what the TLS ports of the double show."""
    maker = Maker(directory / "ca")
    alone = Maker(directory / "alone", "localhost")
    return maker.cert, show(
        directory,
        good=maker.issue("good"),
        expired=maker.issue("expired", valid=PAST),
        misnamed=maker.issue("misnamed", san="DNS:elsewhere.example"),
        selfsigned=Identity(alone.cert, alone.key),
    )


def test_no_promise_breaks_when_everything_goes_wrong_at_once(tmp_path):
    print(f"seed {SEED}")
    ca, shown = identities(tmp_path)
    ports = {"down": RefusedPort(), "full": FullPort(), "reset": ResettingPort()}
    double = Double(str(tmp_path), shown)
    storm = Storm(double, str(tmp_path), policy(double, ports, ca), SEED, agents=10)
    try:
        storm.blow(SECONDS)
        found = storm.reckon()
        print(
            f"{storm.threads} threads, {len(storm.all)} intents, {storm.history.calls} calls, "
            f"{storm.moved} under another trace, {dict(storm.disruptions)}, {dict(storm.points)}"
        )
        assert not found, "\n".join(found[:30])
    finally:
        storm.end()
        double.stop()
        for port in ports.values():
            port.stop()
