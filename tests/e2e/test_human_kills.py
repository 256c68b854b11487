"""The process is killed with SIGKILL around what people say: a word that was taken stays taken,
nothing is sent twice, and what waits among many keys is neither lost nor sent unapproved.

The budget is ten kills and less than half a minute; RECOURSE_E2E_SEED repeats a run.
"""

import itertools
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.policies import standard
from support.recourse import CRASH_POINTS, Recourse
from support.waiting import lasts, wait_until

SEED = os.environ.get("RECOURSE_E2E_SEED") or str(random.SystemRandom().getrandbits(32))
LOST, NEVER = ["read", "execute", "rst"], ["read", "rst"]
RULES = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], hold: 0s }
"""
# None: at a moment of no meaning. The others lie before, within and after the commit of the word.
MOMENTS = [None, None, None, "k10:1", "k11:1", "k12:1"]
HELD, STRIKES, WRITERS = 4, 4, 4
KEYS = 400  # at least


def write(running, path, number):
    """One try of an agent's call; None: the process was killed under it."""
    fields = rawhttp.traced(f"{number:032x}")
    try:
        return rawhttp.call(running.port, "POST", path, headers=fields, body={"number": number})
    except (OSError, rawhttp.Cut):
        return None


def settle(running, path, word):
    operation = running.events_for(path)[-1]["operation"]
    return running.cli("operations", "settle", operation, "--as", word, "--reason", "looked it up")


@pytest.mark.parametrize("number, moment", enumerate(MOMENTS))
def test_a_kill_while_somebody_settles_loses_no_word_that_was_taken(
    double, tmp_path, token, number, moment
):
    if moment and not CRASH_POINTS:
        pytest.skip("this binary has no crash points")
    print(f"seed {SEED}")
    dice = random.Random(f"{SEED}-{number}")
    with Recourse(tmp_path, standard(double)) as running, ThreadPoolExecutor(1) as human:
        for word, phase in (("happened", "SUCCEEDED"), ("absent", "PROVEN_ABSENT")):
            path = f"/plain/{token}-{word}"
            double.script("POST", path, LOST if word == "happened" else NEVER, times=1)
            assert write(running, path, 1).header("Recourse-Outcome") == "unknown"
            running.kill()
            running.start({"RECOURSE_CRASH_POINT": moment} if moment else {})
            told = human.submit(settle, running, path, word)
            if moment:
                wait_until(lambda: not running.running() or told.done())
            else:
                lasts(dice.uniform(0.0, 0.3))  # a moment that nothing marks is what this is about
            running.kill()
            running.start()
            told = told.exception() is None and told.result().returncode == 0
            last = running.events_for(path)[-1]["phase"]
            assert last == phase or (last == "UNCERTAIN" and not told), (last, told)
            assert settle(running, path, word).returncode == 0
            repeat = write(running, path, 1)
            assert (repeat.status, repeat.replayed) == (
                (200, True) if word == "happened" else (201, False)
            )
            assert len(double.effects(path)) == 1
        assert running.verify()["ok"]


class Crowd:
    """Agents that make a call of its own each time, for as long as the process lives."""

    def __init__(self, running, token):
        self.running = running
        self.token = token
        self.numbers = itertools.count(100)
        self.answered = {}  # path -> number

    def works(self, until_dead):
        threads = [threading.Thread(target=self.agent) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        until_dead()
        for thread in threads:
            thread.join()

    def agent(self):
        while self.running.running():
            number = next(self.numbers)
            path = f"/plain/{self.token}-{number}"
            answer = write(self.running, path, number)
            if answer is not None and answer.status == 201:
                self.answered[path] = number


def test_calls_that_wait_among_many_keys_are_neither_lost_nor_sent_unapproved(
    double, tmp_path, token
):
    print(f"seed {SEED}")
    dice = random.Random(f"{SEED}-crowd")
    paths = [f"/mail/{token}-{number}" for number in range(HELD)]
    with Staffed(tmp_path, standard(double, extra_tools=RULES)) as running:
        asked = [write(running, path, 1 + number) for number, path in enumerate(paths)]
        operations = [answer.json()["operation"] for answer in asked]
        crowd, taken = Crowd(running, token), set()

        def strike(number):
            """Somebody approves one, and the process dies some time around that."""
            wait_until(lambda: len(crowd.answered) >= KEYS * (number + 1) // STRIKES)
            with ThreadPoolExecutor(1) as human:
                told = human.submit(running.approve, operations[number])
                lasts(dice.uniform(0.0, 0.05))  # as above
                running.kill()
            if told.exception() is None and told.result()[0] == 200:
                taken.add(operations[number])

        for number in range(STRIKES):
            crowd.works(lambda: strike(number))
            running.start()
            waiting = {one["operation"] for one in running.waiting() if one["phase"] == "CLAIMED"}
            assert waiting >= set(operations[number + 1 :]), "those that nobody has approved"
            assert not waiting & taken, "those that somebody has"
        for operation, path in zip(operations, paths):
            if operation in {one["operation"] for one in running.waiting()}:
                running.approve(operation)
        for number, path in enumerate(paths):
            wait_until(lambda: write(running, path, 1 + number).status != 202)
            assert len(double.effects(path)) <= 1
            phases = [event["phase"] for event in running.events_for(path)]
            assert "APPROVED" in phases and phases[-1] in ("SUCCEEDED", "UNCERTAIN"), phases
            assert phases[-1] != "SUCCEEDED" or len(double.effects(path)) == 1
        for path, number in crowd.answered.items():
            assert write(running, path, number).replayed
            assert len(double.effects(path)) == 1
        assert running.verify()["ok"]
