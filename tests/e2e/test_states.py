"""Writes that bring about a state: asked what became of them, the state of now is held against the
one before, also by a process that was killed in between. What others may have done is never claimed
falsely, and never undone."""

import concurrent.futures

import pytest
from test_packs import CASES, World, Write

from support.waiting import wait_until

LOOKS = 3  # so many more questions are answered before it counts that nothing was concluded


def soon(text):
    return text.replace("absent_after: 2m", "absent_after: 1s")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    running = {}

    def world(pack):
        if pack not in running:
            running[pack] = World(pack, tmp_path_factory.mktemp(pack), change=soon).__enter__()
        return running[pack]

    yield world
    for one in running.values():
        assert one.recourse.verify()["ok"]
        one.__exit__()


def write_of(world, tool):
    return Write(world, next(case for _, case in CASES if case.tool == tool))


def restart(world):
    world.recourse.kill()
    world.recourse.start()


def never_comes(world, write):
    """The call is lost on its way: nothing was done, and nothing will be."""
    world.double.is_late = True
    lost = write.send()
    assert lost.outcome == "unknown", lost
    world.double.pending.clear()
    world.double.is_late = False


def stays_unknown(world, write):
    asked = len(world.double.requests)
    wait_until(lambda: len(world.double.requests) >= asked + LOOKS)
    answer = write.send()
    assert (answer.status, answer.outcome) == (409, "unknown"), answer


def phases(world, write):
    return [event["phase"] for event in world.recourse.events(trace=write.trace)]


DONE = [("paypal", "paypal.authorization.void"), ("linear", "linear.issue.archive"),
        ("slack", "slack.channel.topic"), ("zendesk", "zendesk.ticket.delete")]  # fmt: skip


@pytest.mark.parametrize("pack, tool", DONE, ids=[tool for _, tool in DONE])
def test_what_was_done_before_a_kill_is_found_by_its_state(worlds, pack, tool):
    world = worlds(pack)
    write = write_of(world, tool)
    world.double.released.clear()
    world.double.is_silent = True
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(write.send)
        wait_until(lambda: write.had() == 1)
        world.recourse.kill()
        assert call.exception() is not None
    world.double.is_silent = False
    world.double.released.set()
    world.recourse.start()
    wait_until(lambda: "SUCCEEDED" in phases(world, write), lambda: phases(world, write))
    assert write.send().status // 100 == 2
    assert write.had() == 1


def test_what_was_never_done_is_sent_again_exactly_once(worlds):
    world = worlds("paypal")
    write = write_of(world, "paypal.authorization.void")
    never_comes(world, write)
    restart(world)
    wait_until(lambda: "PROVEN_ABSENT" in phases(world, write), lambda: phases(world, write))
    assert write.had() == 0
    assert write.send().status // 100 == 2
    again = write.send()
    assert again.status // 100 == 2 and again.replayed
    assert write.had() == 1


def test_a_version_that_stayed_proves_that_nothing_was_written(worlds):
    world = worlds("square")
    write = write_of(world, "square.customer.update")
    never_comes(world, write)
    restart(world)
    wait_until(lambda: "PROVEN_ABSENT" in phases(world, write), lambda: phases(world, write))
    write.succeed()


def test_what_somebody_had_done_before_is_not_claimed(worlds):
    world = worlds("paypal")
    write = write_of(world, "paypal.authorization.void")
    world.double.change(f"authorization {write.names['id']}", status="VOIDED")
    never_comes(world, write)
    stays_unknown(world, write)
    restart(world)
    stays_unknown(world, write)
    assert write.had() == 0


def test_what_somebody_has_made_of_it_meanwhile_proves_nothing(worlds):
    world = worlds("paypal")
    write = write_of(world, "paypal.authorization.void")
    never_comes(world, write)
    world.double.change(f"authorization {write.names['id']}", status="CAPTURED")
    stays_unknown(world, write)
    assert write.had() == 0


def test_what_somebody_has_taken_back_meanwhile_is_not_sent_again(worlds):
    world = worlds("square")
    write = write_of(world, "square.customer.update")
    world.double.lose_answers = 1
    name = f"customer {write.names['id']}"
    before = dict(world.double.things[name])
    takes_back = world.double.happened

    def happened(what):
        takes_back(what)
        world.double.things[name].update(before, version=before["version"] + 2)

    world.double.happened = happened
    try:
        assert write.send().outcome == "unknown"
    finally:
        del world.double.happened
    stays_unknown(world, write)
    assert write.had() == 1


@pytest.mark.parametrize("pack, tool, members", [
    ("linear", "linear.issue.archive", {"archivedAt": "2026-08-02"}),
    ("slack", "slack.channel.archive", {"is_archived": True}),
])  # fmt: skip
def test_what_somebody_else_brought_about_is_not_undone(worlds, pack, tool, members):
    """The call never came, and another did the same: it is as was asked for, and stays so."""
    world = worlds(pack)
    write = write_of(world, tool)
    never_comes(world, write)
    kind = {"linear": "issue", "slack": "channel"}[pack]
    world.double.change(f"{kind} {write.names['id']}", **members)
    wait_until(lambda: write.send().status // 100 == 2)
    state = world.double.state()
    write.undo("NEEDS_HUMAN")
    flow = world.recourse.admin("GET", f"/flows/{write.trace}")
    assert "who has brought that about" in flow["reason"], flow
    assert write.had() == 0 and world.double.state() == state
