"""Many writes, each followed by somebody else's change, then by the end of its flow, with kill -9
in the middle of both: no change of anybody is ever overwritten.

RECOURSE_CHANGES (400) says how many; a failed run prints its seed."""

import concurrent.futures
import http.client
import json
import os
import random
import secrets
import threading

import pytest
from test_time_machine import FIELDS, PATCH, TOKEN, Machine, machine, tracker

from support import rawhttp
from support.recourse import CRASH_POINTS, Recourse
from support.tracker import policy
from support.waiting import wait_until

CHANGES = int(os.environ.get("RECOURSE_CHANGES", "400"))
SEED = os.environ.get("RECOURSE_E2E_SEED", secrets.token_hex(4))
ROUND = 200  # writes between two kills of each kind
UNTOUCHED = 20  # of them nobody changes one in so many, and that one is undone
HANDS = 16
RULES = """\
flow_rules: { agents_may: [ cancel ], undos_per_second: 1000 }
quotas: { default: { writes_in_flight: 256, operations_per_hour: 1000000 } }
"""
ENDS = ("UNDONE", "NEEDS_HUMAN")
__all__ = ["machine", "tracker"]


class Campaign:
    def __init__(self, run, tracker, dice):
        self.run, self.tracker, self.dice = run, tracker, dice
        self.changes = self.kills = self.undone = self.raced = self.early = 0
        self.count = 0
        self.first = set()  # names that somebody changes before the write comes

    def write(self, name, trace):
        """Whether the agent got the answer."""
        headers = {**rawhttp.traced(trace), **TOKEN}
        body = {"title": "New"} if name in self.first else PATCH
        try:
            return rawhttp.call(self.run.port, "PATCH", f"/issues/{name}", host="tracker.test",
                                headers=headers, body=body).status == 200  # fmt: skip
        except (OSError, rawhttp.Cut):
            return False

    def end(self, trace):
        def asked():
            headers = {**rawhttp.traced(trace), **TOKEN, "Recourse-Flow": "cancel"}
            try:
                answer = rawhttp.call(self.run.port, "POST", "/cancel", host="tracker.test",
                                      headers=headers)  # fmt: skip
            except (OSError, rawhttp.Cut):
                return False
            return answer.status < 500

        wait_until(asked)

    def kill_during(self, work, reaches):
        """Runs `work` on threads, and kills the process once the tracker got that many requests."""
        killed = threading.Event()

        def killer():
            wait_until(lambda: len(self.tracker.requests) >= reaches or killed.is_set())
            if not killed.is_set():
                self.run.kill()
                self.run.start()
                self.kills += 1

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            return work()
        finally:
            killed.set()
            thread.join()

    def change(self, name):
        """Somebody else's: of what the policy keeps, of what it does not, or a deletion."""
        fields = self.dice.choice([{"title": f"Theirs of {name}"}, {"labels": [name]},
                                   {"body": f"Theirs of {name}"},
                                   {"points": 5, "body": name}])  # fmt: skip
        if self.dice.random() < 0.05:
            with self.tracker.lock:
                del self.tracker.things["issues", name]
        else:
            self.tracker.foreign("issues", name, **fields)
        self.changes += 1
        return self.tracker.state("issues", name)

    def race(self, waiting, expected):
        """The change comes just after Recourse has looked."""

        def meanwhile(kind, name):
            if name in waiting:
                waiting.discard(name)
                thing = {**self.tracker.state(kind, name), "title": f"Theirs of {name}"}
                self.tracker.set(kind, name, thing)
                expected[name] = thing
                self.changes += 1
                self.raced += 1

        self.tracker.after_read = meanwhile

    def come_before(self, names):
        """The change comes between what Recourse reads and what it then sends."""

        def meanwhile(kind, name):
            if name in names:
                names.discard(name)
                thing = {**self.tracker.state(kind, name), "labels": [f"Theirs of {name}"]}
                self.tracker.set(kind, name, thing)
                self.changes += 1
                self.early += 1

        self.tracker.after_read = meanwhile

    def play(self, pool):
        names = [f"i{self.count + number}" for number in range(ROUND)]
        self.count += ROUND
        traces = {name: secrets.token_hex(16) for name in names}
        for name in names:
            self.tracker.make("issues", name, **FIELDS, body="untouched")
        first = [name for number, name in enumerate(names) if number % UNTOUCHED == 2]
        self.first = set(first)
        self.tracker.untagged = set(first[::2])
        self.come_before(set(first))
        at = len(self.tracker.requests) + self.dice.randrange(2 * ROUND)
        written = lambda: list(pool.map(self.write, names, traces.values()))  # noqa: E731
        told = dict(zip(names, self.kill_during(written, at), strict=True))
        expected, waiting = {}, set()
        for number, name in enumerate(names):
            if number % UNTOUCHED == 0 or name in self.first:
                continue
            if number % UNTOUCHED == 1 and told[name]:
                waiting.add(name)
            else:
                expected[name] = self.change(name)
        self.race(waiting, expected)

        def end():
            list(pool.map(self.end, traces.values()))
            for name, trace in traces.items():
                self.judge(name, trace, told[name], expected)

        self.kill_during(end, len(self.tracker.requests) + self.dice.randrange(ROUND))
        self.tracker.after_read = None

    def judge(self, name, trace, was_told, expected):
        def ended():
            fields = {"Authorization": f"Bearer {self.run.token}"}
            try:
                status, body = self.run.http("admin", "GET", f"/flows/{trace}", headers=fields)
            except (OSError, http.client.HTTPException):
                return False
            if status == 404 and not was_told:
                return {"phase": "it never began"}
            flow = json.loads(body)
            return flow.get("phase") in ENDS and flow

        flow = wait_until(ended)
        now = self.tracker.state("issues", name)
        if name in self.first:
            assert now["labels"] in ([f"Theirs of {name}"], FIELDS["labels"]), (SEED, name, flow)
            is_theirs = now["labels"] != FIELDS["labels"]
            assert is_theirs or not was_told, (SEED, name, flow)
            if was_told and name not in self.tracker.untagged:
                assert now["title"] == FIELDS["title"], (SEED, name, flow)
        elif name in expected:
            assert now == expected[name], (SEED, name, flow)
        elif was_told:
            assert flow["phase"] == "UNDONE", (SEED, name, flow)
            assert now == {"id": name, "body": "untouched", **FIELDS}, (SEED, name)
            self.undone += 1


def test_no_foreign_change_is_overwritten_whatever_is_killed(tracker, tmp_path):
    once = "      only_if: unchanged\n"
    text = policy(tracker.url).replace(once, once + "      repeatable: true\n", 1)
    with Recourse(tmp_path, text + RULES) as run:
        campaign = Campaign(run, tracker, random.Random(SEED))
        with concurrent.futures.ThreadPoolExecutor(HANDS) as pool:
            while campaign.changes < CHANGES:
                campaign.play(pool)
        assert run.verify()["ok"]
        print(f"seed {SEED}: {campaign.changes} foreign changes ({campaign.raced} just before "
              f"the undo, {campaign.early} just before the write), 0 overwritten; "
              f"{campaign.undone} undone, {campaign.kills} kills")
        assert campaign.undone > 0 and campaign.raced > 0 and campaign.kills > 0
        assert campaign.early > 0


@pytest.mark.parametrize("has_tags", [True, False], ids=["tags", "no tags"])
def test_a_change_between_the_look_and_the_write_is_not_overwritten(machine, tracker, has_tags):
    tracker.has_tags = has_tags
    name = machine.issue()

    def meanwhile(kind, which):
        tracker.after_read = None
        tracker.set(kind, which, {**tracker.state(kind, which), "labels": ["theirs"]})

    tracker.after_read = meanwhile
    trace = machine.update(name, {"title": "New"})
    # The tag has told of it, so that its undo puts back what they have left.
    title = FIELDS["title"] if has_tags else "New"
    flow = machine.undo(trace) if has_tags else machine.park(trace)
    assert has_tags or "/labels" in flow["reason"], flow
    left = {"id": name, "body": "untouched", **FIELDS, "labels": ["theirs"], "title": title}
    assert tracker.state("issues", name) == left


@pytest.mark.parametrize("theirs", [{"a": 1, "b": None}, {"a": 1}, {"a": 1, "b": 9}])
@pytest.mark.parametrize("tells", [True, False], ids=["told", "not told"])
def test_what_was_emptied_beside_what_a_call_names_in_an_object_stays(
    machine, tracker, theirs, tells
):
    tracker.has_tags, tracker.merges, tracker.tells = False, True, tells
    name = machine.issue(labels={"a": 1, "b": 2})

    def meanwhile(kind, which):
        tracker.after_read = None
        tracker.set(kind, which, {**tracker.state(kind, which), "labels": theirs})

    tracker.after_read = meanwhile
    flow = machine.park(machine.update(name, {"labels": {"a": 3}}))
    assert "/labels" in flow["reason"], flow
    assert tracker.state("issues", name)["labels"] == {**theirs, "a": 3}


@pytest.mark.parametrize("merges, tells", [(True, True), (True, False), (False, True)])
def test_an_object_is_put_back_where_nobody_else_can_have_changed_it(
    machine, tracker, merges, tells
):
    tracker.has_tags, tracker.merges, tracker.tells = False, merges, tells
    name = machine.issue(labels={"a": 1, "b": 2})
    machine.undo(machine.update(name, {"labels": {"a": 3, "b": 4} if not merges else {"a": 3}}))
    assert tracker.state("issues", name)["labels"] == {"a": 1, "b": 2}


CODED = {
    "apache": lambda tag: tag[:-1] + '-gzip"',
    "nginx": lambda tag: "W/" + tag,
    "of its own": lambda tag: f'"{tag[::-1][1:-1]}g"',
}


@pytest.mark.parametrize("is_changed", [False, True], ids=["ours", "theirs"])
@pytest.mark.parametrize("reads", [False, True], ids=["writes", "all"])
@pytest.mark.parametrize("coded", CODED)
def test_a_tag_of_a_coded_answer_hides_no_change_and_makes_none(
    machine, tracker, coded, reads, is_changed
):
    tracker.coded_tag, tracker.codes_reads = CODED[coded], reads
    name = machine.issue()
    answer = machine.call("PATCH", f"/issues/{name}", PATCH)
    assert answer.status == 200 and answer.header("ETag") == CODED[coded]('"v2"'), answer
    trace = machine.trace
    if is_changed:
        tracker.foreign("issues", name, labels=["theirs"])
        machine.park(trace)
        assert tracker.state("issues", name)["labels"] == ["theirs"]
        return
    machine.undo(trace)
    assert tracker.state("issues", name) == {"id": name, "body": "untouched", **FIELDS}
    tag = CODED[coded]('"v2"') if reads else '"v2"'
    sent = tracker.asked("PATCH", f"/issues/{name}")[-1]["If-Match"]
    assert sent == (None if tag.startswith("W/") else tag)


def killed_within_three_undos(machine):
    """(issue, trace) of a flow of three updates that was canceled, at a crash point of its undo."""
    name = machine.issue()
    trace = machine.update(name, {"title": "one"})
    for title in ("two", "three"):
        machine.call("PATCH", f"/issues/{name}", {"title": title}, trace=trace)
    machine.recourse.cli("flows", "cancel", trace, "--reason", "r")
    machine.recourse.wait()
    return name, trace


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("at, theirs, counts",
                         [(1, None, True), (2, None, True), (3, None, True), (1, "theirs", True),
                          (2, "theirs", True), (1, None, False)])  # fmt: skip
@pytest.mark.parametrize("is_repeatable", [True, False], ids=["repeatable", "once"])
def test_older_updates_are_undone_though_the_answer_of_an_undo_was_lost_in_a_kill(
    tracker, tmp_path, at, theirs, counts, is_repeatable
):
    once = "      only_if: unchanged\n"
    again = once + "      repeatable: true\n" if is_repeatable else once
    run = Recourse(tmp_path, policy(tracker.url).replace(once, again, 1))
    run.start({"RECOURSE_CRASH_POINT": f"k20:{at}"})
    tracker.counts = counts
    alone = Machine(run, tracker)
    titles = ["three", "two", "one", FIELDS["title"]]
    name, trace = killed_within_three_undos(alone)
    assert tracker.state("issues", name)["title"] == titles[at]
    if theirs:
        tracker.foreign("issues", name, body=theirs)  # which only the tag tells
    with run:
        is_clear = counts and not theirs
        flow = alone.await_flow(trace, "UNDONE" if is_clear else "NEEDS_HUMAN")
        assert is_clear or "something else in it" in flow["reason"], flow
        thing = tracker.state("issues", name)
        assert thing["title"] == (titles[3] if is_clear else titles[at])
        assert thing["body"] == (theirs or "untouched")
        assert len(tracker.effects) == 3 + (3 if is_clear else at)
        assert run.verify()["ok"]


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_a_kill_between_two_undos_does_not_forget_what_the_first_one_left(tracker, tmp_path):
    run = Recourse(tmp_path, policy(tracker.url))
    run.start({"RECOURSE_CRASH_POINT": "k21:2"})
    alone = Machine(run, tracker)
    name, trace = killed_within_three_undos(alone)
    assert tracker.state("issues", name)["title"] == "two"
    with run:
        alone.await_flow(trace, "UNDONE")
        assert tracker.state("issues", name)["title"] == FIELDS["title"]
        assert run.verify()["ok"]
