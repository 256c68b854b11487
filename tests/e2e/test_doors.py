"""Two doors of one service: a REST API and its MCP server. A call through one is a repeat of the
same call through the other (`same_as`), whose answer, which has another form, is not shown
there."""

import concurrent.futures
import dataclasses
import json

import pytest
from doubles.base import Case
from test_packs import World, Write

from support import rawhttp
from support.recourse import run_cli
from support.waiting import wait_until

ACME = "/repos/acme/shop"
OURS = {"owner": "acme", "repo": "shop"}
REST = Case("github.issue.create", f"POST {ACME}/issues", {"title": "$token", "body": "Rest"})
MCP = Case("github.mcp.issue", "tools/call issue_write",
           {**OURS, "method": "create", "title": "$token", "body": "Mcp"})  # fmt: skip
BOTH = pytest.mark.parametrize("first, second", [(REST, MCP), (MCP, REST)], ids=["rest", "mcp"])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World("github", tmp_path_factory.mktemp("doors")) as running:
        yield running


def through(write, case):
    """The same call through another door."""
    other = Write.__new__(Write)
    other.__dict__ = {**write.__dict__, "case": case}
    return other


@BOTH
def test_what_one_door_has_done_the_other_does_not_do_again(world, first, second):
    write = Write(world, first)
    made = write.succeed()
    told = through(write, second).send()
    assert write.had() == 1, world.double.effects[write.effects :]
    assert told.outcome == "executed" and not told.replayed, told
    assert f"the same was done by {first.tool}" in str(told.body), told
    again = write.send()
    assert again.replayed and again.body == made.body
    assert write.had() == 1


@BOTH
def test_a_precondition_at_one_door_makes_no_other_call_of_it(world, first, second):
    asks = dataclasses.replace(REST, headers={"If-None-Match": "*"})
    first, second = (asks if case is REST else case for case in (first, second))
    write = Write(world, first)
    write.succeed()
    told = through(write, second).send()
    assert write.had() == 1, world.double.effects[write.effects :]
    assert told.outcome == "executed", told


@BOTH
def test_both_at_once_make_one(world, first, second):
    write = Write(world, first)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [through(write, case) for case in (first, second) * 4]
        list(pool.map(lambda call: call.send(), calls))
    assert write.had() == 1, world.double.effects[write.effects :]


@BOTH
def test_what_one_door_left_unknown_the_other_does_not_send(world, first, second):
    write = Write(world, first)
    world.double.lose_answers = 1
    write.send()
    told = through(write, second).send()
    assert told.outcome == "unknown" and told.status == 409, told
    assert write.had() == 1


@BOTH
def test_a_kill_between_the_doors_makes_no_second(tmp_path, first, second):
    with World("github", tmp_path) as world:
        write = Write(world, first)
        world.double.is_silent = True
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(write.send)
            wait_until(lambda: write.had() == 1)
            world.recourse.kill()
            with pytest.raises((OSError, rawhttp.Cut)):
                call.result()
        world.double.is_silent = False
        world.double.released.set()
        world.recourse.start()
        told = through(write, second).send()
        assert told.outcome == "unknown", told
        assert write.had() == 1
        assert world.recourse.verify()["ok"]


@BOTH
def test_what_one_door_has_refused_the_other_may_do(world, first, second):
    write = Write(world, first)
    world.double.throttled = 1
    assert write.send().status in (403, 409)
    made = through(write, second).send()
    assert made.status in (200, 201) and write.had() == 1, made
    assert write.send().outcome == "executed" and write.had() == 1
    # What is undone is what has happened, as its door says.
    write.undo("UNDONE" if second is REST else "NEEDS_HUMAN")
    assert write.had() == (2 if second is REST else 1)


@BOTH
def test_what_was_undone_is_told_at_both(world, first, second):
    write = Write(world, first)
    write.succeed()
    write.undo("UNDONE" if first is REST else "NEEDS_HUMAN")
    told = through(write, second).send()
    assert told.status == 409, told
    assert write.had() == (2 if first is REST else 1)


def test_a_merge_through_one_door_is_found_out_through_the_other(world):
    rest = Case("github.pull.merge", f"PUT {ACME}/pulls/$id/merge", {"sha": "a1"},
                given=lambda double: a_pull(double))  # fmt: skip
    mcp = Case("github.mcp.pull.merge", "tools/call merge_pull_request",
               {**OURS, "pullNumber": "$id#"})  # fmt: skip
    write = Write(world, rest)
    world.double.lose_answers = 1
    write.send()
    told = through(write, mcp).send()
    assert told.outcome == "executed" and write.had() == 1, told


def an_issue(double):
    number = str(double.number())
    double.make(f"issue {number}", id=1, number=int(number), state="open", title="T")
    return number


COMMENTS = (
    Case("github.issue.comment", f"POST {ACME}/issues/$id/comments", {"body": "$token"},
         given=an_issue),
    Case("github.mcp.comment", "tools/call add_issue_comment",
         {**OURS, "issue_number": "$id#", "body": "$token"}, given=an_issue),
)  # fmt: skip
REMOVAL = Case("github.issue.comment", f"DELETE {ACME}/issues/comments/$made", {})


@pytest.mark.parametrize("first, second", [COMMENTS, COMMENTS[::-1]], ids=["rest", "mcp"])
def test_what_was_deleted_through_one_door_is_made_anew(world, first, second):
    write = Write(world, first)
    write.succeed()
    (made,) = {row["external_ref"] for row in world.recourse.events(trace=write.trace)} - {""}
    write.names["made"] = made
    assert through(write, REMOVAL).send().status == 204
    again = write.send()
    assert again.status in (200, 201) and not again.replayed, again
    assert write.had() == 3
    assert through(write, second).send().outcome == "executed" and write.had() == 3


def a_pull(double):
    number = str(double.number())
    double.make(f"pull {number}", id=1, number=int(number), state="open", merged_at=None)
    return number


def test_other_values_are_other_calls(world):
    write = Write(world, REST)
    write.succeed()
    for change in ({"repo": "other"}, {"title": "$token too"}):
        other = dataclasses.replace(MCP, body={**MCP.body, **change})
        assert through(write, other).send().status == 200
    assert write.had() == 3


def test_a_door_is_explained(world):
    told = run_cli("policy", "explain", world.recourse.policy_path,
                   "tools/call github_mcp issue_write", "--body",
                   json.dumps({**OURS, "method": "create", "title": "T"}))  # fmt: skip
    assert "It is a door to github.issue.create" in told.stdout, told
