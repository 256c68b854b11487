"""The independent checker of flows: was every broken flow undone, in reverse, or parked?

Inputs as of checker.py, at rest. A request that undoes an effect carries the effect's name as the
last segment of its path, so the backend's record alone tells what was undone, and when. It shares
no code with the product.

    I8  every flow is complete, or each of its effects that has an undo was undone by exactly one
        effective request, in reverse order of success, or it is parked and a fault says why
    I9  no undo without its effect before it; no effect after its undo, and no write of a flow
        once its undoing has begun
    I10 no undo is tried more often, or sooner again, than it may be
    I13 at rest nothing of a flow runs, is unknown, or waits to be undone, unless it is parked
"""

from collections import defaultdict

from support.checker import EXECUTED, MILLISECOND, event_time_ns

ATTEMPTS_MAX = 10  # by one process; a start begins to count anew
PAUSE_MIN = 450 * MILLISECOND
UNDONE = ("refunds",)  # kinds of paths that only undo
RESTING = ("SUCCEEDED", "ANSWER_LOST", "REJECTED", "PROVEN_ABSENT", "NOT_SENT", "COMPENSATED",
           "DENIED", "EXPIRED")


class Step:
    def __init__(self, rows):
        self.rows = rows
        self.first, self.last = rows[0], rows[-1]
        self.operation = rows[0]["operation"]
        proofs = [row for row in rows if row["phase"] in ("SUCCEEDED", "ANSWER_LOST")]
        self.proof = proofs[0] if proofs else None
        self.has_undo = any(row["undo"] for row in proofs)
        undone = [row for row in rows if row["phase"] == "COMPENSATED"]
        self.undone = undone[0] if undone else None
        self.reference = self.last["external_ref"]
        self.undos = []  # operations that undo it: lists of rows

    def has_effect(self):
        return self.last["phase"] in EXECUTED


class Record:
    """What the backend saw of effects and of requests to undo them, by the effect's name."""

    def __init__(self, lines):
        self.effects = {line["id"]: line for line in lines if line["t"] == "effect"}
        self.faults = {line["path"] for line in lines if line["t"] == "fault"}
        self.undo_requests = defaultdict(list)
        self.undo_effects = defaultdict(list)
        for line in lines:
            if line["t"] not in ("request", "effect"):
                continue
            name = undone_by(line)
            if name is None:
                continue
            into = self.undo_requests if line["t"] == "request" else self.undo_effects
            into[name].append(line)


def undone_by(line):
    """The name of the effect that a line of the record is about undoing; None: it is no undo."""
    kind, _, name = line["path"].rpartition("/")
    is_undo = line.get("method") == "DELETE" or kind.endswith(UNDONE)
    return name if is_undo else None


def gather(events):
    """{(caller, flow): [Step]}, oldest first."""
    rows = defaultdict(list)
    for event in events:
        rows[event["operation"]].append(event)
    flows, steps = defaultdict(list), {}
    for operation, own in sorted(rows.items()):
        if not own[0]["undoes"]:
            steps[operation] = Step(own)
            flows[own[0]["caller"], own[0]["flow"]].append(steps[operation])
    for _, own in sorted(rows.items()):
        if own[0]["undoes"] in steps:
            steps[own[0]["undoes"]].undos.append(own)
    return flows


def check_story(flow, steps):
    """The log tells of an undo where it tells of its step."""
    for step in steps:
        for own in step.undos:
            for name in ("flow", "trace_id", "caller", "tool"):
                if own[0][name] != step.first[name]:
                    yield f"I8 {flow}: the undo of {step.first['path']} has another {name}"
        if len(step.undos) > 1:
            yield f"I8 {flow}: {step.first['path']} has {len(step.undos)} undo operations"
        done = any(own[-1]["phase"] == "SUCCEEDED" for own in step.undos)
        if done != (step.undone is not None):
            yield f"I8 {flow}: {step.first['path']} is {step.last['phase']}, its undo says else"


def check_ends(flow, steps, parked, wanted, record):
    """Complete, undone, or parked."""
    undone = [s for s in steps if s.undone]
    standing = [s for s in steps if s.has_effect() and s.has_undo and not s.undone]
    if flow in parked:
        own = {s.first["path"] for s in steps}
        refs = {s.reference for s in steps}
        if not any(path in own or path.rpartition("/")[2] in refs for path in record.faults):
            yield f"I8 {flow}: parked without a fault: {parked[flow]}"
    elif undone and standing:
        yield f"I8 {flow}: half undone, {standing[0].first['path']} stands"
    elif wanted == "undone" and standing:
        yield f"I8 {flow}: broken, but {standing[0].first['path']} stands"
    if wanted == "complete" and undone:
        yield f"I8 {flow}: complete, but {undone[0].first['path']} was undone"


def check_order(flow, steps, record):
    done = sorted((s for s in steps if s.undone), key=lambda s: s.undone["event_id"])
    proofs = [s.proof["event_id"] for s in done]
    if proofs != sorted(proofs, reverse=True):
        yield f"I8 {flow}: undone in the order {[s.first['path'] for s in done]}"
    for earlier, later in zip(done, done[1:]):
        for request in record.undo_requests[later.reference]:
            if request["received_ns"] + MILLISECOND < event_time_ns(earlier.undone):
                yield f"I8 {flow}: {later.first['path']} was being undone before its turn"


def check_effects(flow, steps, record, keyed):
    for step in steps:
        path, name = step.first["path"], step.reference
        undos = record.undo_effects[name] if name else []
        dispatched = [r for own in step.undos for r in own if r["phase"] == "DISPATCHING"]
        requests = record.undo_requests[name] if name else []
        if len(requests) > len(dispatched):
            yield f"I9 {flow}: {len(requests)} undo requests for {path}, {len(dispatched)} rows"
        if step.undone and not undos and not record.faults & {r["path"] for r in requests}:
            yield f"I8 {flow}: {path} is COMPENSATED, its effect was not undone"
        resends = [r for r in dispatched if r["cause"] == "resend"]
        if len(undos) > 1 + (0 if path.startswith(keyed) else len(resends)):
            yield f"I8 {flow}: {path} was undone {len(undos)} times"
        if undos and step.last["phase"] in ("REJECTED", "PROVEN_ABSENT", "NOT_SENT"):
            yield f"I9 {flow}: {path} had no effect and was undone"
        for request in requests:
            if name not in record.effects:
                yield f"I9 {flow}: an undo of {name}, which never was"
            elif request["received_ns"] < record.effects[name]["time_ns"]:
                yield f"I9 {flow}: {path} was undone before it had happened"
        if undos:
            late = [
                e for e in record.effects.values()
                if e["path"] == path and e["time_ns"] > undos[0]["time_ns"]
            ]  # fmt: skip
            if late:
                yield f"I9 {flow}: {path} had an effect after its undo"


def check_fence(flow, steps):
    undos = [own[0]["event_id"] for step in steps for own in step.undos]
    if not undos:
        return
    for step in steps:
        for row in step.rows:
            if row["phase"] == "DISPATCHING" and row["event_id"] > min(undos):
                yield f"I9 {flow}: {row['path']} was sent while the flow was being undone"


def check_attempts(flow, steps):
    for step in steps:
        for own in step.undos:
            by_epoch = defaultdict(list)
            for row in own:
                if row["phase"] == "DISPATCHING":
                    by_epoch[row["epoch"]].append(event_time_ns(row))
            for times in by_epoch.values():
                if len(times) > ATTEMPTS_MAX:
                    yield f"I10 {flow}: the undo of {step.first['path']}: {len(times)} tries"
                if any(b - a < PAUSE_MIN for a, b in zip(times, times[1:])):
                    yield f"I10 {flow}: the undo of {step.first['path']} was tried again at once"


def check_rest(flow, steps, parked):
    for step in steps:
        if step.last["phase"] not in RESTING and flow not in parked:
            yield f"I13 {flow}: {step.first['path']} is {step.last['phase']} at rest"
        for own in step.undos:
            if own[-1]["phase"] != "SUCCEEDED" and flow not in parked:
                yield f"I13 {flow}: the undo of {step.first['path']} is {own[-1]['phase']} at rest"


def check_phases(phases, wanted):
    """What the process says of its flows, against what their agents know."""
    ends = {"complete": ("COMMITTED",), "undone": ("UNDONE", "NEEDS_HUMAN")}
    for flow, phase in sorted(phases.items()):
        if phase in ("BREAKING", "UNDOING"):
            yield f"I13 {flow}: {phase} at rest"
        elif phase not in ends.get(wanted.get(flow), (phase,)):
            yield f"I8 {flow}: {phase}, its agent knows that it is {wanted[flow]}"


def check(backend, events, parked=None, wanted=None, keyed=("/v1/",), phases=None):
    """Violations, as lines. `parked`: the reason of each flow that waits for a human; `wanted`:
    "complete" or "undone" by flow, where the agent knows; `keyed`: path prefixes where the backend
    de-duplicates undo requests by their key; `phases`: what the process says of each flow."""
    parked, wanted, keyed = parked or {}, wanted or {}, tuple(keyed)
    record = Record(backend)
    found, names = list(check_phases(phases or {}, wanted)), set()
    for (_, flow), steps in sorted(gather(events).items()):
        names.update(step.reference for step in steps)
        found += check_story(flow, steps)
        found += check_ends(flow, steps, parked, wanted.get(flow), record)
        found += check_order(flow, steps, record)
        found += check_effects(flow, steps, record, keyed)
        found += check_fence(flow, steps)
        found += check_attempts(flow, steps)
        found += check_rest(flow, steps, parked)
    for name in set(record.undo_requests) - names:
        found.append(f"I9 an undo of {name}, which no step of the log made")
    return found
