"""Writes of packs, and undos, that an API only takes on: jobs of Zendesk and Shopify, finalizers
of Kubernetes, operations of Microsoft Graph. They run until the API says that they are done, also
over a kill."""

import json

import pytest
from test_packs import CASES, World, Write

from support.waiting import wait_until

LATER = [(pack, case) for pack, case in CASES if case.later]
SLOW = 3  # so many questions are asked in vain


def ids(kind):
    chosen = [(pack, case) for pack, case in LATER if case.later == kind]
    return pytest.mark.parametrize("pack, case", chosen, ids=[case.tool for _, case in chosen])


def test_each_api_that_does_things_later_has_a_case():
    assert {(pack, case.later) for pack, case in LATER} == {
        ("zendesk", "write"), ("shopify", "write"), ("kubernetes", "undo"),
        ("microsoft-graph", "write"),
    }  # fmt: skip


def undone(world, write, phase="UNDONE"):
    flow = lambda: world.recourse.admin("GET", f"/flows/{write.trace}")  # noqa: E731
    wait_until(lambda: flow()["phase"] == phase, lambda: json.dumps(flow()))


@ids("write")
def test_a_write_runs_until_its_api_has_done_it_and_is_undone_only_then(tmp_path, pack, case):
    with World(pack, tmp_path) as world:
        world.double.slow = 10**6
        write = Write(world, case)
        first = write.send()
        assert first.status in (200, 202) and first.outcome == "pending", first
        world.recourse.kill()
        world.recourse.start()
        again = write.send()
        assert again.outcome == "pending" and again.body == first.body, again
        world.cancel(write.trace)
        asked = len(world.double.requests)
        wait_until(lambda: len(world.double.requests) >= asked + SLOW)
        assert write.had() == 1, "nothing is undone before it is done"
        assert world.double.state() == write.state
        world.recourse.kill()
        world.double.slow = 0
        world.double.jobs = {name: [0, act] for name, (_, act) in world.double.jobs.items()}
        world.recourse.start()
        undone(world, write)
        write.is_undone()
        assert world.recourse.verify()["ok"]


@ids("write")
def test_a_job_that_never_ends_well_is_for_a_human(tmp_path, pack, case):
    def short(text):
        return text.replace("\n    settled_by:\n", "\n    settled_by:\n      deadline: 1ms\n")

    with World(pack, tmp_path, change=short) as world:
        world.double.slow = 10**6
        write = Write(world, case)
        assert write.send().status in (200, 202)
        write.undo("NEEDS_HUMAN")
        assert write.had() == 1


@ids("undo")
def test_an_undo_runs_until_what_it_deletes_is_gone(tmp_path, pack, case):
    with World(pack, tmp_path) as world:
        write = Write(world, case)
        write.succeed()
        world.double.slow = 10**6
        world.cancel(write.trace)
        wait_until(lambda: write.had() == 2)
        asked = len(world.double.requests)
        wait_until(lambda: len(world.double.requests) >= asked + SLOW)
        flow = world.recourse.admin("GET", f"/flows/{write.trace}")
        assert flow["phase"] == "UNDOING", flow
        world.recourse.kill()
        world.recourse.start()
        asked = len(world.double.requests)
        wait_until(lambda: len(world.double.requests) > asked)
        assert write.had() == 2, "it was deleted once"
        world.double.ending = dict.fromkeys(world.double.ending, 0)
        undone(world, write)
        write.is_undone()
        assert world.recourse.verify()["ok"]
