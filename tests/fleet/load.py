"""What the agents of a fleet do: writes and their repeats, flows, calls that wait for a human, and
reads; each call at any pod."""

import contextlib
import http.client
import itertools
import threading
import time

from support import approval_checker, checker, rawhttp
from support.campaign import Campaign
from support.flow_campaign import REST_MAX, FlowCampaign
from support.waiting import wait_until

ROUTES = (("/probed", "shop.test", ""), ("/probed", "shop.test", "?slow=1"),
          ("/plain", "shop.test", "?slow=1"), ("/keyed", "bank.test", ""))  # fmt: skip
FLOW_SECONDS_MAX = 8.0  # the deadline of a flow
AGAIN = 0.35  # calls that repeat one that was not answered, or not for good
LOST = (OSError, rawhttp.Cut, http.client.HTTPException, AssertionError, ValueError)


class Numbered:
    """The ledger's events, with numbers in the order of the log for their ids, as the checkers
    want them, and by which id they were told."""

    def __init__(self, events):
        self.numbers = {str(event["event_id"]): number for number, event in enumerate(events, 1)}
        self.events = [{**event, "event_id": number} for number, event in enumerate(events, 1)]

    def told(self, history):
        """The lines of the history with those numbers, and the ids that stand for no row."""
        lines, missing = [], []
        for line in history:
            name = line.get("headers", {}).get("recourse-event")
            if name is not None:
                if name not in self.numbers:
                    missing.append(f"I1 {line['path']}: row {name} was told, and is not there")
                    continue
                number = str(self.numbers[name])
                line = {**line, "headers": {**line["headers"], "recourse-event": number}}
            lines.append(line)
        return lines, missing

    def by_stream(self):
        """The same, with the stream that wrote it for the process."""
        streams = {number: int(name.partition(".")[0]) for name, number in self.numbers.items()}
        return [{**event, "epoch": streams[event["event_id"]]} for event in self.events]


class Writes(Campaign):
    """Single calls and their repeats."""

    def agent(self, pause):
        over = self.recourse.is_over
        while not over.wait(pause):
            self.call(self.to_repeat() or self.next_write(None))

    def to_repeat(self):
        with self.lock:
            if self.unanswered and self.random.random() < AGAIN:
                return self.random.choice(list(self.unanswered.values()))
        return None

    def settle(self):
        for write in list(self.unanswered.values()):
            self.call_until_final(write)

    def judge(self, record, numbered):
        history, missing = numbered.told(self.history.lines())
        mine = f"/{self.name}-"
        return missing + checker.check(
            [line for line in record if mine in line["path"]], history,
            [event for event in numbered.events if mine in event["path"]],
            settled=("/probed/", "/keyed/"),
        )  # fmt: skip


class Flows(FlowCampaign):
    """Checkouts of three steps, which may be broken. While the database is away their deadline may
    pass, which is found out as soon as it is back: perhaps before their last step has ended."""

    def begin(self):
        flow = super().begin()
        flow.begun = time.monotonic()
        return flow

    def advance(self, flow):
        is_told = super().advance(flow)
        flow.took = time.monotonic() - flow.begun
        return is_told

    @staticmethod
    def wanted(flow):
        is_late = getattr(flow, "took", 0.0) >= FLOW_SECONDS_MAX
        return None if is_late and flow.wanted() == "complete" else flow.wanted()

    def agent(self, pause):
        over = self.recourse.is_over
        while not over.wait(pause):
            try:
                flow = self.open.popleft()
            except IndexError:
                flow = self.begin()
            self.advance(flow)
            if flow.next() is not None:
                self.open.append(flow)

    def flows(self):
        """What any pod says of its newest flows, and of all that are not over."""
        found, after = self.page("all=true")["flows"], 0
        while after is not None:
            page = self.page(f"after={after}")
            found += page["flows"]
            after = page["next"]
        return found

    def page(self, words):
        return self.recourse.admin("GET", f"/flows?limit=1000&{words}")

    def settle(self):
        self.finish()

    def judge(self, record, numbered):
        own = {write.path for flow in self.all for write in flow.writes.values()}
        history, missing = numbered.told(self.history.lines())
        events = [event for event in numbered.by_stream() if event["trace_id"] in
                  {flow.trace for flow in self.all}]  # fmt: skip
        found = self.judge_flows(self.own_record(own), events)
        return found + missing + checker.check(
            [line for line in record if line["path"] in own], history,
            [e for e in numbered.events if e["path"] in own and not e["undoes"]], keyed=("/v1/",),
            faulty={path for path in own if not path.startswith("/v1/")},
            settled=("/orders/", "/v1/"),
        )  # fmt: skip


class Asked:
    """Calls that wait for a human, who decides at any pod."""

    def __init__(self, fleet, dice):
        self.fleet, self.dice = fleet, dice
        self.open, self.rejected, self.operations = [], set(), []
        self.numbers = itertools.count(1)

    def agent(self, pause):
        while not self.fleet.is_over.wait(pause):
            with contextlib.suppress(*LOST):
                self.ask()
            for one in self.open[:2]:
                with contextlib.suppress(*LOST):
                    self.decide(*one)

    def ask(self):
        number = next(self.numbers)
        path = f"/mail/asked-{number}"
        trace = f"00-{self.dice.getrandbits(128) | 1:032x}-00f067aa0ba902b7-01"
        answer = rawhttp.call(self.fleet.port, "POST", path, headers={"traceparent": trace},
                              body={"client_ref": f"asked-{number}"})  # fmt: skip
        if answer.status == 202:
            operation = answer.json()["operation"]
            self.operations.append(operation)
            self.open.append((path, operation, self.dice.random() < 0.25))

    def decide(self, path, operation, is_refused):
        """At two pods at once, now and then: one of them decides."""
        pods = [self.fleet.any() for _ in range(self.dice.choice((1, 1, 2)))]
        said = []

        def one(pod):
            with contextlib.suppress(*LOST):
                decide = pod.reject if is_refused else pod.approve
                said.append(decide(operation)[0])

        threads = [threading.Thread(target=one, args=(pod,)) for pod in pods]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if (200 in said or 409 in said) and (path, operation, is_refused) in self.open:
            self.open.remove((path, operation, is_refused))
            if is_refused and 200 in said:
                self.rejected.add(path)

    def settle(self):
        for one in list(self.open):
            wait_until(lambda one=one: self.decide(*one) or one not in self.open,
                       lambda one=one: f"{one} cannot be decided", REST_MAX)  # fmt: skip

    def judge(self, record, numbered):
        mail = [line for line in record if line["path"].startswith("/mail/asked-")]
        # A word that came too late is told, and changes nothing.
        events = [event for event in numbered.events if event["path"].startswith("/mail/asked-")
                  and event["cause"] != "too_late"]  # fmt: skip
        shown = {operation: self.fleet.any().shown(operation) for operation in self.operations}
        found = approval_checker.check(mail, events, shown)
        known = {event["operation"] for event in events}
        found += [f"I1 operation {one} waited for a human, and is not there"
                  for one in self.operations if one not in known]  # fmt: skip
        effects = {}
        for line in mail:
            if line["t"] == "effect":
                effects[line["path"]] = effects.get(line["path"], 0) + 1
        found += [f"I9 {path}: {count} effects" for path, count in effects.items() if count > 1]
        return found + [f"I9 {path}: rejected, and done" for path in self.rejected & set(effects)]


class Reads:
    """Reads at pods that no fault is upon; the database's faults are none to them."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.made, self.failed = 0, []
        self.took = {False: [], True: []}  # seconds, by whether the database was faulty
        self.database_is_faulty = False

    def agent(self, pause):
        while not self.fleet.is_over.wait(pause):
            pod = self.fleet.any()
            faulty, process = self.database_is_faulty, pod.process
            touched = pod.is_touched
            begun = time.monotonic()
            try:
                status = rawhttp.call(pod.port, "GET", f"/notes/read-{self.made}").status
            except (OSError, rawhttp.Cut) as error:
                status = repr(error)
            took = time.monotonic() - begun
            ended = process is not pod.process or process.poll() is not None
            if touched or pod.is_touched or ended:
                continue
            self.made += 1
            if faulty == self.database_is_faulty:
                self.took[faulty].append(took)
            if status != 200:
                self.failed.append(f"L2 a read was not answered: {status}")

    def p99(self, faulty):
        took = sorted(self.took[faulty])
        return 1e3 * took[len(took) * 99 // 100] if took else 0.0
