"""The writes of all packs that somebody else changes before their flows end, with kill -9
meanwhile: no change is ever overwritten.

RECOURSE_PACK_CHANGES (60) says how many; a failed run prints its seed."""

import http.client
import itertools
import json
import os
import random
import secrets
import threading

import pytest
from test_packs import CASES, TOKEN, World, Write

from support import rawhttp
from support.waiting import wait_until

FOREIGN = {}
for name, one in CASES:
    if one.foreign:
        FOREIGN.setdefault(name, []).append(one)
CHANGES = int(os.environ.get("RECOURSE_PACK_CHANGES", "60"))
EACH = -(-CHANGES // len(FOREIGN))
ROUND = 100  # writes between two kills
SEED = os.environ.get("RECOURSE_E2E_SEED", secrets.token_hex(4))
QUOTAS = "quotas: { default: { operations_per_hour: 1000000 } }\n"


class Changed(Write):
    """A write, and somebody else's change of what it left."""

    def __init__(self, world, case):
        super().__init__(world, case)
        self.succeed()
        case.foreign(world.double, self.names)

    def cancel(self):
        fields = {**rawhttp.traced(self.trace), "Authorization": TOKEN, "Recourse-Flow": "cancel"}
        host = next(iter(self.world.policy["backends"].values()))["hosts"][0]

        def is_asked():
            try:
                answer = rawhttp.call(self.world.recourse.port, "POST", "/cancel", host=host,
                                      headers=fields)  # fmt: skip
            except (OSError, rawhttp.Cut):
                return False
            return answer.status < 500

        wait_until(is_asked)

    def is_parked(self):
        recourse = self.world.recourse
        fields = {"Authorization": f"Bearer {recourse.token}"}
        try:
            status, body = recourse.http("admin", "GET", f"/flows/{self.trace}", headers=fields)
        except (OSError, http.client.HTTPException):
            return False
        assert status == 200, (SEED, self.case.tool, body)
        return json.loads(body)["phase"] == "NEEDS_HUMAN"


def end(world, writes, dice):
    """Ends all flows, and kills the process somewhere meanwhile."""
    reaches, is_over = len(world.double.requests) + dice.randrange(len(writes)), threading.Event()

    def kill():
        wait_until(lambda: len(world.double.requests) >= reaches or is_over.is_set())
        world.recourse.kill()
        world.recourse.start()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for write in writes:
            write.cancel()
    finally:
        is_over.set()
        killer.join()
    for write in writes:
        wait_until(write.is_parked)


@pytest.mark.parametrize("pack", sorted(FOREIGN))
def test_no_change_of_anybody_is_overwritten_by_the_undo_of_a_pack(tmp_path, pack):
    dice = random.Random(f"{SEED} {pack}")
    cases = itertools.cycle(FOREIGN[pack])
    with World(pack, tmp_path, change=lambda text: text + QUOTAS) as world:
        for left in range(EACH, 0, -ROUND):
            writes = [Changed(world, next(cases)) for _ in range(min(left, ROUND))]
            state, effects = world.double.state(), len(world.double.effects)
            end(world, writes, dice)
            assert world.double.state() == state, (SEED, pack)
            assert world.double.effects[effects:] == [], (SEED, pack)
        assert world.recourse.verify()["ok"]
    print(f"seed {SEED}: {EACH} foreign changes of {pack}, 0 overwritten")
