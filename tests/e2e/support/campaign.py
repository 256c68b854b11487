"""A campaign: one ledger, many violent deaths of the process over it, and the final reckoning."""

import collections
import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from support import checker
from support.bounds import Bounds
from support.history import History, Write
from support.recourse import WAIT_MAX, NotReady, Recourse
from support.waiting import InVain, lasts, wait_until

STRIKE_MAX = SETTLE_MAX = 2 * WAIT_MAX
# One intent in three has its answer sent in pieces, so that a kill can fall between them.
ROUTES = (
    ("/probed", "shop.test", ""),
    ("/probed", "shop.test", "?slow=1"),
    ("/probed", "shop.test", ""),
    ("/plain", "shop.test", "?slow=1"),
    ("/keyed", "keyed.test", ""),
)


class Campaign:
    """Agents that call, repeat 30 % of their calls at once, and retry whatever was not answered,
    every second time under a new trace, as SDKs do.

    A retry under a new trace is the same intent only while no call of it was ever answered whole
    (across_traces: if_unanswered). So a trace is changed only then, when no other call of the
    intent is under way, and for good.
    """

    def __init__(self, double, directory, policy, name, agents, seed, routes=ROUTES,
                 recourse=None):  # fmt: skip
        self.double = double
        self.name = name
        self.agents = agents
        self.routes = routes
        self.random = random.Random(f"{seed}-{name}")
        self.recourse = recourse or Recourse(directory, policy)
        self.history = History(os.path.join(directory, "history.jsonl"))
        self.hits = os.path.join(directory, "hits")
        self.bounds = Bounds()
        self.lock = threading.Lock()
        self.unanswered = {}  # path -> Write; lost, or told to come back later
        self.repeats = collections.deque()
        self.calling = collections.Counter()  # path -> calls under way
        self.told = set()  # paths with an answer that is no problem document
        self.made = 0
        self.moved = 0  # retries under another trace

    def new_write(self):
        self.made += 1
        kind, host, query = self.random.choice(self.routes)
        return Write(f"{kind}/{self.name}-{self.made}", self.new_trace(), host, query)

    def new_trace(self):
        return f"{self.random.getrandbits(128) | 1:032x}"

    def next_write(self, old):
        with self.lock:
            if old:
                return old.popleft()
            if self.repeats:
                return self.repeats.popleft()
            write = self.new_write()
            if self.random.random() < 0.3:
                self.repeats.append(write)
            return write

    def call(self, write):
        with self.lock:
            self.change_trace(write)
            self.calling[write.path] += 1
        answer = self.history.call(self.recourse.port, write)
        with self.lock:
            self.calling[write.path] -= 1
            if answer is not None and outcome_of(answer) is None:
                self.told.add(write.path)
            if answer is None or not is_final(answer):
                self.unanswered[write.path] = write
            else:
                self.unanswered.pop(write.path, None)
        return answer

    def change_trace(self, write):
        path = write.path
        if path not in self.unanswered or path in self.told or self.calling[path]:
            return
        if self.random.random() < 0.5:
            write.enter(self.new_trace())
            self.moved += 1

    def agent(self, old, deadline):
        while self.recourse.running() and time.monotonic() < deadline:
            if self.call(self.next_write(old)) is None:
                lasts(0.005)  # a process that dies slowly refuses thousands of calls meanwhile

    def drive(self, until_dead):
        """Lets the agents work until the process dies; `until_dead` waits for that or causes it."""
        old = collections.deque(self.unanswered.values())
        deadline = time.monotonic() + STRIKE_MAX
        threads = [
            threading.Thread(target=self.agent, args=(old, deadline)) for _ in range(self.agents)
        ]
        for thread in threads:
            thread.start()
        over = threading.Event()
        watch = self.bounds.watch(self.recourse, over)
        try:
            until_dead(deadline)
        finally:
            over.set()
            for thread in [*threads, watch]:
                thread.join()

    def strike_at(self, point, passes):
        """Starts with a crash point armed and works until it kills the process."""
        try:
            self.recourse.start(
                {"RECOURSE_CRASH_POINT": f"{point}:{passes}", "RECOURSE_CRASH_HITS": self.hits}
            )
        except NotReady:
            assert self.recourse.process.returncode == -signal.SIGKILL, self.recourse.stderr()
            return
        self.drive(lambda deadline: self.await_death(point, passes, deadline))
        code = self.recourse.process.returncode
        assert code == -signal.SIGKILL, f"ended with {code}: {self.recourse.stderr()[-2000:]}"

    def await_death(self, point, passes, deadline):
        try:
            wait_until(
                lambda: not self.recourse.running(),
                f"{point} was not passed {passes} times",
                deadline - time.monotonic(),
            )
        except InVain:
            self.recourse.kill()
            raise

    def strike_at_start(self, seconds):
        """Kills the process this soon after its start, most likely during recovery."""
        self.recourse.spawn()
        lasts(seconds)  # a moment that nothing marks is what this is about
        self.recourse.kill()

    def strike_after(self, seconds):
        """Starts, works, and kills the process at a moment of no meaning."""
        self.recourse.start()

        def kill(_):
            lasts(seconds)  # as above
            self.recourse.kill()

        self.drive(kill)

    def times_hit(self, point):
        if not os.path.exists(self.hits):
            return 0
        with open(self.hits, encoding="utf-8") as file:
            return file.read().split().count(point)

    def strike_storage(self, shim, until_dead):
        """Starts under a storage shim and works; `until_dead` ends the process."""
        self.recourse.start(shim.env)
        self.drive(until_dead)

    def refused_by_log(self):
        """Paths of calls that were told that the ledger cannot be written."""
        return {
            line["path"]
            for line in self.history.lines()
            if line["t"] == "return" and "log-unavailable" in line["body"]
        }

    def reckon(self, faulty=()):
        """Starts once more, lets every agent get its answer, and gives the checker's violations."""
        self.recourse.start()
        with ThreadPoolExecutor(self.agents) as pool:
            list(pool.map(self.call_until_final, list(self.unanswered.values())))
        report = self.recourse.verify()
        events = self.recourse.events()
        found = self.bounds.violations(self.recourse, report)
        code = self.recourse.stop()
        found += checker.check(
            [l for l in self.double.record() if f"/{self.name}-" in l["path"]],
            self.history.lines(),
            events,
            faulty=faulty,
            settled=("/probed/", "/keyed/", "/secure/"),
        )
        rows = 1 + report["last_id"] - report["first_id"]
        if not report["ok"] or not len(events) <= report["rows"] == rows:
            found.append(f"I12 verify says {report} for {len(events)} events")
        if code != 0:
            found.append(f"exit code {code} after SIGTERM")
        return found

    def call_until_final(self, write):
        answer = None

        def has_ended():
            nonlocal answer
            answer = self.call(write)
            if answer is not None and is_final(answer):
                return True
            return write.path.startswith("/plain/") and outcome_of(answer) == "unknown"

        wait_until(has_ended, lambda: f"{write.path} has no final answer: {answer}", SETTLE_MAX)

    def end(self):
        self.recourse.kill()
        self.history.close()


def outcome_of(answer):
    if answer is None or "problem+json" not in answer.header("Content-Type", ""):
        return None
    return json.loads(answer.body)["outcome"]


def is_final(answer):
    """Whether repeating the call can still change what the agent is told."""
    if answer.status < 400:
        return True
    return outcome_of(answer) in ("executed", "compensated", "rejected")
