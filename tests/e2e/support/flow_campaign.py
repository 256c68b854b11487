"""A campaign of checkouts: agents go through flows of three steps while the process dies again and
again; in the end every flow is complete, undone, or parked."""

import collections
import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from support import checker, flow_checker
from support.campaign import STRIKE_MAX, Campaign, is_final, outcome_of
from support.flows import answer_with, policy
from support.history import Write
from support.recourse import WAIT_MAX, NotReady
from support.waiting import InVain, lasts, wait_until

REST_MAX = 2 * WAIT_MAX
# As in test_kill.py: what was sent may be executed late.
ABSENT_AFTER = "6s"
KINDS = ("orders", "payments", "shipping")
BREAKS_EVERY = 0.05  # seconds: undo requests are paced
# What becomes of a flow, and how often.
FATES = {"ends": 30, "fails": 45, "lost": 8, "absent": 7, "dies": 10}
# What befalls an undo request: nothing, an answer that says nothing, an answer that is lost.
UNDO_FAULTS = {"none": 70, "unavailable": 10, "lost": 12, "refused": 12}
# What befalls the order.
ORDER_FAULTS = {"none": 70, "lost": 8, "absent": 8, "slow": 14}
LOST, ABSENT = ["read", "execute", "rst"], ["read", "rst"]
SLOW = ["read", "execute", {"sleep": 0.3}, "answer"]
ORDER_STEPS = {"lost": LOST, "absent": ABSENT, "slow": SLOW}
UNDO_STEPS = {
    "unavailable": answer_with("503 Unavailable"),
    "lost": LOST,
    "refused": answer_with("403 Forbidden"),
}


def flow_policy(double, deadline, **more):
    # Each kill costs the undo that it met an attempt, and one undo may meet all of them.
    text = policy(
        double, deadline=f"deadline: {deadline}, on_deadline: undo",
        absent_after=ABSENT_AFTER, undo="attempts: 100", **more,
    )  # fmt: skip
    return text + "flow_rules: { undos_per_second: 50 }\n"


class Checkout:
    """One flow: what its agent will do, how far it is, and what it was told."""

    def __init__(self, name, trace, dice):
        self.trace = trace
        self.fate = dice.choices(list(FATES), FATES.values())[0]
        self.undo_fault = dice.choices(list(UNDO_FAULTS), UNDO_FAULTS.values())[0]
        self.faulty = dice.choice(KINDS[:2])
        self.order_fault = dice.choices(list(ORDER_FAULTS), ORDER_FAULTS.values())[0]
        self.done = 0
        self.last = None  # the last answer
        self.told = {}  # kind -> status of its last word
        self.writes = {
            kind: Write(
                f"{'/v1' if kind == 'payments' else ''}/{kind}/{name}", trace,
                "bank.test" if kind == "payments" else "shop.test",
            )
            for kind in KINDS
        }  # fmt: skip

    def next(self):
        """The write that comes next; None: its agent is through, or gone."""
        if self.done == len(KINDS) or (self.fate == "dies" and self.done == 2):
            return None
        return self.writes[KINDS[self.done]]

    def wanted(self):
        """How the flow must end, where the agent knows."""
        if self.told.get("shipping") == 201:
            return "complete"
        if self.fate in ("fails", "absent", "dies"):
            return "undone"
        return None


class FlowCampaign(Campaign):
    """`is_storm`: orders fail, too, and calls race their own duplicates."""

    def __init__(self, double, directory, name, agents, seed, deadline="1s", is_storm=False,
                 recourse=None):  # fmt: skip
        text = flow_policy(double, deadline)
        super().__init__(double, directory, text, name, agents, seed, recourse=recourse)
        self.open = collections.deque()
        self.all = []
        self.next_break = 0.0
        self.is_storm = is_storm
        self.parked = {}  # the reason of each flow that waits for a human, at the reckoning

    @staticmethod
    def wanted(flow):
        return flow.wanted()

    def begin(self):
        with self.lock:
            self.made += 1
            flow = Checkout(f"{self.name}-{self.made}", self.new_trace(), self.random)
            if flow.fate != "ends":
                if time.monotonic() < self.next_break:
                    flow.fate = "ends"
                else:
                    self.next_break = time.monotonic() + BREAKS_EVERY
            self.all.append(flow)
        path = flow.writes["shipping"].path
        if flow.fate == "fails":
            self.double.script("POST", path, answer_with("422 Unprocessable"), None, "fails")
        elif flow.fate == "lost":
            self.double.script("POST", path, LOST, 1, "lost")
        elif flow.fate == "absent":
            self.double.script("POST", path, ABSENT, None, "absent")
        if self.is_storm and flow.order_fault != "none":
            path, steps = flow.writes["orders"].path, ORDER_STEPS[flow.order_fault]
            self.double.script("POST", path, steps, 1, flow.order_fault)
        return flow

    def advance(self, flow):
        """Makes the next call of the flow; False: its answer was lost."""
        write = flow.next()
        twin = None
        if self.is_storm and self.random.random() < 0.3:
            twin = threading.Thread(target=self.history.call, args=(self.recourse.port, write))
            twin.start()
        answer = self.history.call(self.recourse.port, write)
        if twin:
            twin.join()
        flow.last = answer
        if answer is None:
            return False
        kind = KINDS[flow.done]
        is_fenced = answer.status == 409 and outcome_of(answer) == "not_executed"
        if is_final(answer) or answer.outcome == "rejected" or is_fenced:
            flow.told[kind] = answer.status
            flow.done += 1
            if answer.status == 201 and flow.undo_fault != "none" and flow.faulty == kind:
                self.script_undo(flow, kind, json.loads(answer.body)["id"])
        return True

    def script_undo(self, flow, kind, name):
        if flow.fate == "ends":
            return
        method, path = ("POST", "/v1/refunds") if kind == "payments" else ("DELETE", f"/{kind}")
        times = None if flow.undo_fault == "refused" else 1
        self.double.script(
            method, f"{path}/{name}", UNDO_STEPS[flow.undo_fault], times, flow.undo_fault
        )

    def agent(self, old, deadline):
        while self.recourse.running() and time.monotonic() < deadline:
            try:
                flow = self.open.popleft()
            except IndexError:
                flow = self.begin()
            if not self.advance(flow):
                lasts(0.005)  # a process that dies slowly refuses thousands of calls meanwhile
            if flow.next() is not None:
                self.open.append(flow)
            lasts(0.01)  # the pace of an agent, which waits for nothing

    def idle_until(self, point, must_pass=True):
        """Starts with a crash point armed and no agent, until what goes on by itself passes it, or,
        where that is not certain, for a second."""
        try:
            self.recourse.start(
                {"RECOURSE_CRASH_POINT": f"{point}:1", "RECOURSE_CRASH_HITS": self.hits}
            )
        except NotReady:
            return
        if must_pass:
            self.await_death(point, 1, time.monotonic() + STRIKE_MAX)
            return
        with contextlib.suppress(InVain):
            wait_until(lambda: not self.recourse.running(), seconds=1.0)
        self.recourse.kill()

    def finish(self):
        """Lets every agent that lives come to the end of its flow."""
        deadline = time.monotonic() + REST_MAX
        for flow in self.open:
            self.go_to_the_end(flow, deadline - time.monotonic())

    def go_to_the_end(self, flow, seconds):
        def is_through():
            if flow.next() is not None:
                self.advance(flow)
            return flow.next() is None

        wait_until(is_through, lambda: (flow.fate, flow.told, flow.last), seconds)

    def go_through(self, count):
        """Lets the agents go through so many flows of one process, and waits until none of those
        that broke is left to be undone."""

        def one(_):
            self.go_to_the_end(self.begin(), REST_MAX)

        with ThreadPoolExecutor(self.agents) as pool:
            list(pool.map(one, range(count)))
        wait_until(lambda: not self.busy_flows(), lambda: self.busy_flows()[:3], REST_MAX)

    def busy_flows(self):
        """Those that are open and wait for no human."""
        flows = self.recourse.admin("GET", "/flows?limit=1000")["flows"]
        return [flow for flow in flows if flow["phase"] != "NEEDS_HUMAN"]

    def flows(self):
        """What the process says of its newest flows."""
        return self.recourse.admin("GET", "/flows?all=true&limit=1000")["flows"]

    def reckon(self, faulty=()):
        self.recourse.start()
        self.finish()
        own = {write.path for flow in self.all for write in flow.writes.values()}
        events = record = found = None

        def is_at_rest():
            nonlocal events, record, found
            events = self.recourse.events()
            record = self.own_record(own)
            found = self.judge_flows(record, events)
            return not found

        with contextlib.suppress(InVain):  # what was found last is given below
            wait_until(is_at_rest, seconds=REST_MAX)
        report = self.recourse.verify()
        if not report["ok"]:
            found.append(f"I12 verify says {report}")
        found += self.bounds.violations(self.recourse, report)
        code = self.recourse.stop()
        if code != 0:
            found.append(f"exit code {code} after SIGTERM")
        found += checker.check(
            [line for line in record if line["path"] in own], self.history.lines(),
            [e for e in events if not e["undoes"]], keyed=("/v1/",),
            faulty={p for p in own if not p.startswith("/v1/")}, settled=("/orders/", "/v1/"),
        )  # fmt: skip
        found += checker.check_rows(events)
        return found

    def judge_flows(self, record, events):
        wanted = {flow.trace: self.wanted(flow) for flow in self.all}
        flows = self.flows()
        self.parked = {f["flow"]: f["reason"] for f in flows if f["phase"] == "NEEDS_HUMAN"}
        phases = {f["flow"]: f["phase"] for f in flows}
        return flow_checker.check(record, events, self.parked, wanted, phases=phases)

    def own_record(self, own):
        lines = self.double.record()
        names = {l["id"] for l in lines if l["t"] == "effect" and l["path"] in own}
        return [l for l in lines if l["path"] in own or l["path"].rpartition("/")[2] in names]
