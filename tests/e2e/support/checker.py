"""The independent checker: does the record of a run keep the promise?

Inputs, each written by a process that was never killed or read after everything came to rest:
    B  the backend's record (backend.py): requests received, effects executed
    C  the agents' history (history.py): calls made, answers seen, answers lost
    L  the ledger's events, as JSON objects, oldest first

It knows an intent by its path alone: agents use one path per intent. It shares no code with the
product; the phase table below is written down from the specification a second time on purpose.

`check` gives one line per violation, each starting with the invariant's number:
    I1  at most one effect per intent, and no dispatch without permission
    I2  every request the backend saw was remembered before, with the agent's own bytes
    I3  every success told to an agent is a SUCCESS in L and exactly one effect in B, its own
    I4  all successes told for one intent are byte-identical, and once one was told nothing else is
    I5  what was told to be not executed had no effect, by that call or before it
    I6  SUCCESS in L has an effect, FAILED has none, attempt by attempt
    I7  only intents whose fault window was hit are unknown; settled ones do not stay unknown
    I12 rows are whole, in order, and every transition is legal (that none is missing is shown by
        the ledger's own hash chain: rows between them that are no events have numbers too)
    I13 no answer is lost while the process runs; at rest everybody is told what L says
    I14 an answer to a read is the one to that call
    I17 reads without a fault are answered while the process runs

A history may hold "down" and "up" lines around everything that was done to the process; with them
I7, I13 and I17 excuse only what lies within such a time.
"""

import datetime
import json
from collections import defaultdict

MILLISECOND = 1_000_000
STATUS_OF = {
    "CLAIMED": "PENDING",
    "APPROVED": "PENDING",
    "DENIED": "FAILED",
    "EXPIRED": "FAILED",
    "DISPATCHING": "PENDING",
    "UNCERTAIN": "PENDING",
    "SUCCEEDED": "SUCCESS",
    "ANSWER_LOST": "SUCCESS",
    "NOT_SENT": "FAILED",
    "REJECTED": "FAILED",
    "PROVEN_ABSENT": "FAILED",
    "COMPENSATED": "COMPENSATED",
}
LEGAL = {
    None: {"CLAIMED", "DISPATCHING"},
    "CLAIMED": {"APPROVED", "DENIED", "EXPIRED"},
    "APPROVED": {"DISPATCHING", "EXPIRED"},
    "DISPATCHING": {"SUCCEEDED", "ANSWER_LOST", "NOT_SENT", "REJECTED", "UNCERTAIN"},
    # To DISPATCHING only where the backend itself de-duplicates; checked apart.
    "UNCERTAIN": {"SUCCEEDED", "ANSWER_LOST", "REJECTED", "PROVEN_ABSENT", "DISPATCHING"},
    "ANSWER_LOST": {"SUCCEEDED", "COMPENSATED"},
    "SUCCEEDED": {"COMPENSATED"},
    "NOT_SENT": {"DISPATCHING"},
    "REJECTED": {"DISPATCHING"},
    # To the others where a later look finds it all the same.
    "PROVEN_ABSENT": {"DISPATCHING", "SUCCEEDED", "ANSWER_LOST"},
    "DENIED": set(),
    "EXPIRED": set(),
    "COMPENSATED": set(),
}
FIELDS = (
    "event_id operation idempotency_key tool args_hash status phase attempt external_ref trace_id "
    "caller policy_version epoch time cause method path"
).split()


def event_time_ns(event):
    """RFC 3339 UTC with milliseconds, as nanoseconds of wall time."""
    moment = datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00"))
    return int(moment.timestamp() * 1000 + 0.5) * MILLISECOND


# Refusals that come before the ledger is asked, so they say nothing of an earlier call.
EARLY_REFUSALS = ("draining", "overloaded", "log-unavailable", "log-full", "quota-exceeded")
EXECUTED = ("SUCCEEDED", "ANSWER_LOST", "COMPENSATED")


class Downtimes:
    """The times in which something was being done to the process; None when nobody noted them."""

    def __init__(self, history):
        self.spans = []
        for line in history:
            if line["t"] == "down":
                self.spans.append([line["time_ns"], float("inf")])
            elif line["t"] == "up":
                self.spans[-1][1] = line["time_ns"]
        self.noted = bool(self.spans)

    def touch(self, begin, end):
        return any(begin <= span[1] and span[0] <= end for span in self.spans)


class Intent:
    def __init__(self, path):
        self.path = path
        self.requests = []
        self.effects = []
        self.invokes = []
        self.invoked = {}
        self.returns = []
        self.lost = []
        self.left = []
        self.events = []

    def invoked_at(self, line):
        """When the call of that line was made."""
        if len(self.invoked) < len(self.invokes):
            self.invoked = {i["call"]: i["time_ns"] for i in self.invokes}
        return self.invoked[line["call"]]

    def attempts(self):
        """[(DISPATCHING row, last row of that attempt, requests, effects)], oldest first."""
        rows = [e for e in self.events if e["phase"] == "DISPATCHING"]
        found = []
        for row in rows:
            same = [
                e
                for e in self.events
                if (e["operation"], e["attempt"]) == (row["operation"], row["attempt"])
            ]
            found.append((row, same[-1], [], []))
        for request in self.requests:
            # Times of rows are whole milliseconds, so a row may seem up to one later than it was.
            before = [
                a for a in found if event_time_ns(a[0]) <= request["received_ns"] + MILLISECOND
            ]
            if before:
                before[-1][2].append(request)
                before[-1][3].extend(
                    e for e in self.effects if e["request"] == request["number"]
                )
        return found


def gather(backend, history, events):
    intents = {}

    def intent(path):
        return intents.setdefault(path, Intent(path))

    for line in backend:
        if line["t"] == "request" and line["method"] not in ("GET", "HEAD", "OPTIONS"):
            intent(line["path"]).requests.append(line)
        elif line["t"] == "effect":
            intent(line["path"]).effects.append(line)
    for line in history:
        if "path" not in line or line.get("method") == "GET":
            continue
        target = intent(line["path"])
        {
            "invoke": target.invokes,
            "return": target.returns,
            "lost": target.lost,
            "left": target.left,
        }[line["t"]].append(line)
    for event in events:
        intent(event["path"]).events.append(event)
    for one in intents.values():
        one.requests.sort(key=lambda line: line["received_ns"])
    return intents


def problem_of(line):
    """The problem document of an answer made by the proxy, else {}."""
    if "problem+json" not in line["headers"].get("content-type", ""):
        return {}
    return json.loads(line["body"])


def outcome_told(line):
    return problem_of(line).get("outcome", line["headers"].get("recourse-outcome"))


def is_early_refusal(line):
    return problem_of(line).get("type", "").rpartition("/")[2] in EARLY_REFUSALS


def is_success(line):
    return 200 <= line["status"] < 300 and outcome_told(line) != "unknown"


def caller_of(request):
    """The number of the call that a request at the backend was made for; None when unsaid."""
    for name, value in request.get("headers", ()):
        if name.lower() == "x-call":
            return int(value)
    return None


def check_effects(one, keyed):
    if len(one.effects) > 1:
        yield f"I1 {one.path}: {len(one.effects)} effects {[e['id'] for e in one.effects]}"
    for before, after in zip(one.events, one.events[1:]):
        # Under another trace, a call is a new one when the earlier one provably had no effect.
        if after["operation"] != before["operation"] and before["status"] != "FAILED":
            yield f"I1 {one.path}: one intent became two operations after {before['phase']}"
    dispatched = sum(e["phase"] == "DISPATCHING" for e in one.events)
    if len(one.requests) > dispatched:
        yield f"I1 {one.path}: {len(one.requests)} requests for {dispatched} DISPATCHING rows"
    if not keyed:
        for before, after in zip(one.events, one.events[1:]):
            if after["phase"] == "DISPATCHING" and before["status"] != "FAILED":
                yield f"I1 {one.path}: dispatched again after {before['phase']}"


def check_remembered(one):
    rows = [e for e in one.events if e["phase"] == "DISPATCHING"]
    for index, request in enumerate(one.requests):
        if index >= len(rows) or event_time_ns(rows[index]) > request["received_ns"] + MILLISECOND:
            yield f"I2 {one.path}: request {request['number']} was not remembered before"
        if not request["complete"]:
            continue
        bodies = {line["body_sha256"] for line in one.invokes}
        if bodies and request["body_sha256"] not in bodies:
            yield f"I2 {one.path}: request {request['number']} has bytes that no agent sent"
    cut = {line["call"] for line in one.left if line["cut"]}
    for request in one.requests:
        if caller_of(request) in cut:
            yield f"I2 {one.path}: call {caller_of(request)} was dispatched before it was whole"


def check_successes(one):
    told = [line for line in one.returns if is_success(line)]
    last = one.events[-1] if one.events else None
    for line in told:
        if last is None or last["status"] not in ("SUCCESS", "COMPENSATED"):
            said = last and last["phase"]
            yield f"I3 {one.path}: {line['status']} was told, the ledger says {said}"
            continue
        # A tool that the policy does not list has no external_ref.
        reference = last["external_ref"]
        if last["tool"].startswith("unlisted.") and len(one.effects) == 1:
            reference = reference or one.effects[0]["id"]
        if [e["id"] for e in one.effects] != [reference]:
            yield (
                f"I3 {one.path}: external_ref {last['external_ref']!r}, "
                f"effects {[e['id'] for e in one.effects]}"
            )
        said = reference_in(line)
        if said is not None and said not in [e["id"] for e in one.effects]:
            yield f"I3 {one.path}: told of {said!r}, which is another's effect"
    answers = {
        (line["status"], line["headers"].get("content-type"), line["body"]) for line in told
    }
    if len(answers) > 1:
        yield f"I4 {one.path}: different successes {sorted(answers, key=str)}"
    keys = {line["headers"].get("idempotency-key") for line in told}
    if told and last is not None and keys != {last["idempotency_key"]}:
        yield f"I4 {one.path}: answers carry keys {keys}, the ledger has another"


def reference_in(line):
    """The effect's name that a success carries, if it is one of ours."""
    try:
        body = json.loads(line["body"])
    except ValueError:
        return None
    return body.get("id", body.get("external_ref")) if isinstance(body, dict) else None


def is_undone(one, line):
    """Whether it tells of an effect that its flow's end took back."""
    return outcome_told(line) == "compensated" and one.events[-1]["phase"] == "COMPENSATED"


def check_constancy(one):
    """What was told to be executed stays so, for every call made after that."""
    told = [line for line in one.returns if is_success(line)]
    known = told + [line for line in one.returns if problem_of(line).get("outcome") == "executed"]
    for words, first_told, may in (
        ("a success", told, is_success),
        ("executed", known, lambda line: is_success(line) or line in known),
    ):
        if not first_told:
            continue
        since = min(line["time_ns"] for line in first_told)
        for line in one.returns:
            is_later = one.invoked_at(line) > since and not is_early_refusal(line)
            if is_later and not may(line) and not is_undone(one, line):
                yield (
                    f"I4 {one.path}: after {words} was told, call {line['call']} was told "
                    f"{line['status']} {outcome_told(line)}"
                )


def check_refusals(one):
    events = {str(e["event_id"]): e for e in one.events}
    callers = {request["number"]: caller_of(request) for request in one.requests}
    for line in one.returns:
        outcome = outcome_told(line)
        if outcome not in ("not_executed", "rejected"):
            continue
        for effect in one.effects:
            if callers.get(effect["request"]) == line["call"]:
                yield f"I5 {one.path}: told {outcome}, but this call made {effect['id']}"
            if effect["time_ns"] < one.invoked_at(line) and not is_early_refusal(line):
                yield f"I5 {one.path}: told {outcome} after {effect['id']} had happened"
        row = events.get(line["headers"].get("recourse-event", ""))
        if row is not None:
            for dispatched, _, _, effects in one.attempts():
                same = dispatched["operation"] == row["operation"]
                if same and dispatched["attempt"] == row["attempt"] and effects:
                    yield f"I5 {one.path}: told {outcome} at attempt {row['attempt']}, executed"
        started = [i for i in one.invokes if i["time_ns"] < line["time_ns"]]
        early = [e for e in one.effects if e["time_ns"] < line["time_ns"]]
        if early and len(started) == 1:
            yield f"I5 {one.path}: told {outcome}, but {early[0]['id']} had happened"


def check_outcomes(one, keyed):
    last = one.events[-1] if one.events else None
    if last is None:
        return
    if last["status"] == "SUCCESS" and not one.effects:
        yield f"I6 {one.path}: {last['phase']} without an effect"
    if last["status"] == "FAILED" and one.effects:
        yield f"I6 {one.path}: {last['phase']} with effect {one.effects[0]['id']}"
    for row, end, _, effects in one.attempts():
        if end["status"] == "FAILED" and effects:
            yield f"I6 {one.path}: attempt {row['attempt']} is {end['phase']} but had an effect"
        if end["status"] == "SUCCESS" and not effects and not keyed:
            yield f"I6 {one.path}: attempt {row['attempt']} is {end['phase']} without an effect"


def check_unknown(one, faulty, settled, downtimes):
    if not one.events:
        return
    for event in one.events:
        if event["phase"] != "UNCERTAIN" or one.path in faulty:
            continue
        begun = [
            event_time_ns(e)
            for e in one.events
            if e["phase"] == "DISPATCHING" and e["event_id"] < event["event_id"]
        ]
        end = event_time_ns(event) + MILLISECOND
        if downtimes.noted:
            excused = downtimes.touch(max(begun, default=end) - MILLISECOND, end)
        else:
            excused = bool(one.lost)
        if not excused:
            yield f"I7 {one.path}: unknown ({event['cause']}) without a fault"
            break
    if one.events[-1]["phase"] == "UNCERTAIN" and one.path.startswith(settled):
        yield f"I7 {one.path}: stayed unknown although its probe works"
    if one.events[-1]["phase"] == "DISPATCHING":
        yield f"I7 {one.path}: still DISPATCHING at rest"


def check_lost(one, downtimes):
    if not downtimes.noted:
        return
    for line in one.lost:
        if not downtimes.touch(one.invoked_at(line), line["time_ns"]):
            yield f"I13 {one.path}: the answer to call {line['call']} was lost: {line['error']}"


def check_last_word(one):
    """The last call was made at rest, so it was told what the ledger says."""
    if not one.returns or not one.events:
        return
    line = max(one.returns, key=one.invoked_at)
    outcome = "executed" if is_success(line) else outcome_told(line)
    phase = one.events[-1]["phase"]
    if phase in EXECUTED:
        agree = outcome == "executed"
    elif phase == "UNCERTAIN":
        agree = outcome == "unknown"
    else:
        agree = outcome in ("not_executed", "rejected")
    if not agree:
        yield f"I13 {one.path}: last told {line['status']} {outcome}, the ledger says {phase}"


def check_reads(history, faulty, downtimes):
    calls = {line["call"]: line for line in history if line["t"] == "invoke"}
    for line in history:
        if line.get("method") != "GET" or line["t"] not in ("return", "lost"):
            continue
        call = calls[line["call"]]
        if line["t"] == "return" and line["status"] == 200 and '"target"' in line["body"]:
            echo = json.loads(line["body"])
            numbers = [v for n, v in echo["headers"] if n.lower() == "x-call"]
            if (echo["target"], numbers) != (line["path"], [str(line["call"])]):
                yield f"I14 {line['path']}: call {line['call']} got the answer to {echo}"
            continue
        if line["path"] in faulty:
            if line["t"] == "return" and outcome_told(line) not in (None, "not_executed"):
                yield f"I17 {line['path']}: a read was told {outcome_told(line)}"
        elif not downtimes.touch(call["time_ns"], line["time_ns"]):
            said = line.get("status", line.get("error"))
            yield f"I17 {line['path']}: call {line['call']} was not answered: {said}"


def check_rows(events):
    last = 0
    for event in events:
        missing = [name for name in FIELDS if name not in event]
        if missing:
            yield f"I12 event {event.get('event_id')}: lacks {missing}"
            return
        if event["event_id"] <= last:
            yield f"I12 event {event['event_id']} comes after {last}"
            return
        last = event["event_id"]
    by_operation = defaultdict(list)
    for event in events:
        by_operation[event["operation"]].append(event)
    for operation, rows in by_operation.items():
        yield from check_operation(operation, rows)


def check_operation(operation, rows):
    phase, attempt, epoch, dispatched_in = None, 0, 0, None
    for row in rows:
        where = f"I12 event {row['event_id']} of operation {operation}"
        if row["phase"] not in LEGAL[phase]:
            yield f"{where}: {phase} -> {row['phase']} is not legal"
            return
        if STATUS_OF[row["phase"]] != row["status"]:
            yield f"{where}: {row['phase']} has status {row['status']}"
        if row["epoch"] < epoch:
            yield f"{where}: epoch {row['epoch']} after {epoch}"
        if row["phase"] == "DISPATCHING":
            attempt += 1
            dispatched_in = row["epoch"]
        elif phase == "DISPATCHING" and row["cause"] != "crash" and row["epoch"] != dispatched_in:
            yield f"{where}: an answer of epoch {dispatched_in} was recorded in {row['epoch']}"
        if row["attempt"] != attempt:
            yield f"{where}: attempt {row['attempt']}, expected {attempt}"
        for name in ("idempotency_key", "args_hash", "tool", "caller", "method", "path"):
            if row[name] != rows[0][name]:
                yield f"{where}: {name} changed"
        phase, epoch = row["phase"], row["epoch"]


def check(
    backend, history, events, faulty=(), settled=(), keyed=("/keyed/",), scope="", rested=False
):
    """Violations, as lines. `faulty`: paths that a fault was injected into on purpose; `settled`:
    path prefixes whose probe works, so that nothing may stay unknown; `keyed`: path prefixes where
    the backend de-duplicates; `scope`: only intents whose path starts so; `rested`: every intent
    was called once more after everything had come to rest."""
    found = list(check_rows(events))
    if found:
        return found
    settled, keyed, faulty = tuple(settled) or ("\0",), tuple(keyed) or ("\0",), set(faulty)
    downtimes = Downtimes(history)
    found += check_reads(history, faulty, downtimes)
    for path, one in sorted(gather(backend, history, events).items()):
        if not path.startswith(scope):
            continue
        by_key = path.startswith(keyed)
        found += check_effects(one, by_key)
        found += check_remembered(one)
        found += check_successes(one)
        found += check_constancy(one)
        found += check_refusals(one)
        found += check_outcomes(one, by_key)
        found += check_unknown(one, faulty, settled, downtimes)
        found += check_lost(one, downtimes)
        if rested:
            found += check_last_word(one)
    return found
