"""A storm: agents of every manner, backends with every fault, and a process that is killed,
suspended, starved and restarted meanwhile; then the checker's verdict over all of it.

What is done follows from the seed (storm_plan.py); which of it meets which is up to the machine.
"""

import collections
import contextlib
import itertools
import json
import os
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from support import checker
from support.bounds import BODIES_RESIDENT_MAX_KIB, Bounds
from support.campaign import outcome_of
from support.clients import Client
from support.history import History
from support.recourse import CRASH_POINTS, MEASURABLE, WAIT_MAX, NotReady, Recourse
from support.storm_plan import DISRUPTIONS, READS, SETTLED, WRITE_FAULTS, Plan
from support.waiting import InVain, lasts, wait_until

CALL_MAX = 2 * WAIT_MAX
POINT_MAX = 2.0
# Seconds in which calls may still fail: nothing shows when the last that was held up is over.
AFTERMATH = 0.1
INTENTS_PER_SECOND = 25  # further time goes into repeats
LONGER_MAX = 3 * WAIT_MAX  # how long the end may wait for faults that were not met yet
SETTLE_MAX = 2 * WAIT_MAX
POINTS = [f"k{number:02d}" for number in range(1, 15)] + ["k22", "k25", "k26", "k27"]
TRACE_BITS = 128
FINAL = ("executed", "rejected")  # repeating the call changes nothing any more


def said(answer):
    """The outcome that an answer tells, in its document or its header."""
    return None if answer is None else outcome_of(answer) or answer.outcome


class Progress:
    """What the agents know of one intent. `told`: an answer came, or may have been written to a
    connection that nobody read, so that under another trace it would be another call."""

    def __init__(self, intent):
        self.intent = intent
        self.calling = 0
        self.told = False
        self.is_open = True


class Storm:
    def __init__(self, double, directory, policy, seed, agents):
        self.double = double
        self.plan = Plan(seed, "storm")
        self.agents = agents
        self.threads = self.plan.dice("threads").choice((1, 3))
        self.recourse = Recourse(directory, policy, ["--threads", self.threads])
        self.history = History(os.path.join(directory, "history.jsonl"))
        self.lock = threading.Lock()
        self.open = collections.deque()
        self.all = []
        self.numbers = itertools.count()
        self.reads = itertools.count()
        self.over = threading.Event()
        self.failures = []
        self.disruptions = collections.Counter()
        self.moved = 0  # retries under another trace
        self.points = collections.Counter()
        self.intents_max = 0
        self.bounds = Bounds(BODIES_RESIDENT_MAX_KIB)

    # The agents.
    def blow(self, seconds):
        """Lets agents and disruptions work this long, and until all of them have been met."""
        self.recourse.start()
        self.intents_max = int(seconds * INTENTS_PER_SECOND)
        threads = [
            threading.Thread(target=self.guard, args=(self.agent, number))
            for number in range(self.agents)
        ]
        threads.append(threading.Thread(target=self.guard, args=(self.disrupt,)))
        for thread in threads:
            thread.start()
        watch = self.bounds.watch(self.recourse, self.over)
        try:
            self.wait(seconds)
        finally:
            self.over.set()
            for thread in [*threads, watch]:
                thread.join()
        assert not self.failures, self.failures[0]

    def wait(self, seconds):
        end = time.monotonic() + seconds
        with contextlib.suppress(InVain):  # what was missed is told at the reckoning
            wait_until(
                lambda: self.failures or (time.monotonic() >= end and not self.missed()),
                seconds=seconds + LONGER_MAX,
            )

    def guard(self, work, *arguments):
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001: raised again by blow()
            self.failures.append(error)
            raise

    def agent(self, number):
        client = Client(self.recourse, self.history, f"{self.plan.seed}-{number}", CALL_MAX)
        while not self.over.is_set() and not self.failures:
            if client.random.random() < 0.4:
                self.read(client)
            with self.lock:
                full = len(self.all) >= self.intents_max
                again = full or client.random.random() < 0.45
                progress = self.open.popleft() if again and self.open else None
            if progress is not None:
                self.call(progress, client, client.any_manner())
            elif full:
                progress = client.random.choice(self.all)
                self.race(progress, client)
                continue
            else:
                progress = self.begin()
                self.race(progress, client)
            if progress.is_open and not progress.intent.hopeless:
                self.open.append(progress)
        client.drop_kept()

    def begin(self):
        intent = self.plan.intent(next(self.numbers))
        path, name = intent.write.path, intent.fault
        if intent.steps:
            self.double.script("POST", path, intent.steps, intent.times, name)
        if intent.probe:
            self.double.script("GET", path, intent.probe, 1, name)
        progress = Progress(intent)
        with self.lock:
            self.all.append(progress)
        return progress

    def race(self, progress, client):
        others = [
            Client(self.recourse, self.history, client.random.random(), CALL_MAX)
            for _ in range(progress.intent.racers - 1)
        ]
        threads = [
            threading.Thread(target=self.guard, args=(self.call, progress, one, one.any_manner()))
            for one in others
        ]
        for thread in threads:
            thread.start()
        self.call(progress, client, client.any_manner())
        for thread in threads:
            thread.join()
        for one in others:
            one.drop_kept()

    def call(self, progress, client, manner):
        write = progress.intent.write
        with self.lock:
            self.change_trace(progress, client)
            progress.calling += 1
            # Whether what it leaves unread counts as an answer is up to the moment.
            progress.told |= manner in ("gone", "reset")
        begun = time.monotonic()
        answer = client.call(write, manner)
        timed_out = answer is None and time.monotonic() - begun >= CALL_MAX
        with self.lock:
            progress.calling -= 1
            progress.told |= timed_out or (answer is not None and outcome_of(answer) is None)
            progress.is_open = said(answer) not in FINAL
        if answer is None:
            lasts(0.005)  # a process that dies slowly refuses thousands of calls meanwhile

    def change_trace(self, progress, client):
        """SDKs begin a new trace for every second retry. That is the same call while none was
        answered, or when the agent names it."""
        write = progress.intent.write
        if progress.calling or (progress.told and not write.key) or client.random.random() < 0.5:
            return
        if "traceparent" in write.data.decode("latin-1") and progress.is_open:
            write.enter(f"{client.random.getrandbits(TRACE_BITS) | 1:032x}")
            self.moved += 1

    def read(self, client):
        read, name, steps = self.plan.read(next(self.reads))
        if name:
            self.double.script("GET", read.path, steps, 2, name)
        client.call(read, client.any_manner())

    # What befalls the process.
    def disrupt(self):
        for number in itertools.count():
            what, dice = self.plan.disruption(number)
            if self.over.wait(dice.uniform(0.3, 1.6)):
                return
            if what != "reload":
                self.history.add({"t": "down", "what": what})
            getattr(self, what)(dice)
            if what != "reload":
                self.history.add({"t": "up"})
            self.disruptions[what] += 1

    def kill(self, _):
        self.recourse.kill()
        self.recourse.start()

    def kill_twice(self, dice):
        """The second time most likely within the recovery."""
        self.recourse.kill()
        self.recourse.spawn()
        lasts(dice.uniform(0.0, 0.08))  # a moment that nothing marks is what this is about
        self.recourse.kill()
        self.recourse.start()

    def crash_point(self, dice):
        """Dies at a named place; some are passed at a start or a reload only."""
        if not CRASH_POINTS:
            return self.kill(dice)
        point = dice.choice(POINTS)
        passes = 1 if point in ("k22", "k25", "k26", "k27") else dice.randint(1, 30)
        self.recourse.kill()
        try:
            self.recourse.start({"RECOURSE_CRASH_POINT": f"{point}:{passes}"})
            if point == "k25":
                self.reload(dice)
            wait_until(lambda: not self.recourse.running(), seconds=POINT_MAX)
        except (NotReady, InVain):
            pass
        self.points[point] += not self.recourse.running()
        self.recourse.kill()
        self.recourse.start()
        return None

    def terminate(self, _):
        code = self.recourse.stop()
        assert code == 0, f"exit code {code} after SIGTERM: {self.recourse.stderr()[-2000:]}"
        self.recourse.start()

    def suspend(self, dice):
        """Past the deadline of hasty calls, or not."""
        self.recourse.process.send_signal(signal.SIGSTOP)
        lasts(dice.uniform(0.1, 1.6))  # how long it stands still is what this is about
        self.recourse.process.send_signal(signal.SIGCONT)
        lasts(AFTERMATH)

    def no_descriptors(self, dice):
        if not MEASURABLE:
            return  # a sanitizer needs descriptors for its own checks
        used = len(os.listdir(f"/proc/{self.recourse.pid}/fd"))
        hard = resource.prlimit(self.recourse.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(self.recourse.pid, resource.RLIMIT_NOFILE, (used + 2, hard))
        lasts(dice.uniform(0.1, 0.6))  # how long it lacks them is what this is about
        resource.prlimit(self.recourse.pid, resource.RLIMIT_NOFILE, (hard, hard))
        lasts(AFTERMATH)

    def reload(self, dice):
        path = self.recourse.policy_path
        new = path.with_suffix(".new")
        text = path.read_text().partition("# storm")[0]
        new.write_text(f"{text}# storm {dice.random()}\n")
        new.rename(path)
        self.recourse.process.send_signal(signal.SIGHUP)

    # The end.
    def missed(self):
        """Names of faults and disruptions that nothing has met so far."""
        met = {line["name"] for line in self.double.record() if line["t"] == "fault"}
        met |= {p.intent.fault for p in list(self.all) if p.intent.hopeless or not p.intent.steps}
        return sorted({*WRITE_FAULTS, *READS, *DISRUPTIONS} - met - set(self.disruptions))

    def reckon(self):
        """After one more start everybody asks until the answer is final; the violations."""
        self.recourse.kill()
        self.recourse.start()
        with ThreadPoolExecutor(8) as pool:
            endless = [line for line in pool.map(self.ask_for_the_last_word, self.all) if line]
        export = self.export()
        events = self.recourse.events()
        report = self.recourse.verify()
        bounds = self.bounds.violations(self.recourse, report)
        code = self.recourse.stop()
        history = self.history.lines()
        faulty = {p.intent.write.path for p in self.all if p.intent.fault}
        faulty |= {line["path"] for line in history if "/hasty/" in line.get("path", "")}
        record = self.double.record()
        found = checker.check(
            record,
            history,
            export,
            faulty=faulty,
            settled=SETTLED,
            rested=True,
        )
        found += endless + bounds
        if export != events:
            found.append(f"I12 the export holds {len(export)} events, the API {len(events)}")
        if not report["ok"]:
            found.append(f"I12 verify says {report}")
        if code != 0:
            found.append(f"exit code {code} after SIGTERM: {self.recourse.stderr()[-2000:]}")
        reached = {line["path"] for line in record if line["t"] == "request"}
        for progress in self.all:
            if progress.intent.hopeless and progress.intent.write.path in reached:
                found.append(f"I1 {progress.intent.write.path} reached a backend")
        found += [f"I19 {name} was never met" for name in self.missed()]
        return found

    def ask_for_the_last_word(self, progress):
        """A violation, or None."""
        client = Client(self.recourse, self.history, "last word", CALL_MAX)
        write = progress.intent.write
        answer = None

        def has_ended():
            nonlocal answer
            answer = client.call(write, "fresh")
            outcome = said(answer)
            if outcome == "not_executed":
                return progress.intent.hopeless
            if outcome == "unknown":
                return not write.path.startswith(SETTLED)
            return outcome in FINAL

        try:
            wait_until(has_ended, seconds=SETTLE_MAX)
        except InVain:
            return f"I13 {write.path} has no final answer: {answer}"
        return None

    def export(self):
        run = self.recourse.cli("ledger", "export")
        assert run.returncode == 0, run.stderr
        return [json.loads(line) for line in run.stdout.splitlines()][1:-1]

    def end(self):
        if self.recourse.running():
            self.recourse.process.send_signal(signal.SIGCONT)
        self.recourse.kill()
        self.history.close()
