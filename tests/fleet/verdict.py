"""The verdict over a fleet's run: what the database holds, what the backends did, and what the
agents were told. It shares no code with the product."""

import datetime

INVARIANTS = {
    "I1": "what was acknowledged is there; at most one effect for each call",
    "I2": "a row of it was committed before a backend saw anything",
    "I3": "a success that was told is one effect",
    "I4": "one answer for each call, from every pod",
    "I5": "what was told to be not executed had no effect; nothing of a stream after its end",
    "I6": "what the ledger says happened did",
    "I7": "what is unknown had a fault, and is found out where that is possible",
    "I8": "a broken flow is undone once, in reverse, or parked",
    "I9": "no undo without its effect, none after it; an approval starts one dispatch",
    "I10": "streams have no gaps and their hashes chain; undos keep their pace",
    "I11": "what is gated is sent by a human's word; an owner that was lost proves nothing",
    "I12": "rows are whole and in a legal order",
    "I13": "at rest nothing is left open; what was said stands nowhere as plain text",
    "L1": "nothing waits for somebody who is gone",
    "L2": "reads are answered whatever the database does",
    "L3": "who lives is not taken for dead; who is silent is not while its lease lasts",
}
# How long a pod may send after its last batch (kLease), in seconds; it is silent for two more until
# it is dead. A take-over may be as late as the machine is busy, so that how late it was is only
# told; no machine is busy enough to make it early.
LEASE = 5.0
# How long after the last batch of a stream another one told of its end (a row of kind 8), by the
# clock of the database; and when streams began.
TAKEN = """
     SELECT d.stream, t.stream, extract(epoch FROM t.at - d.at), extract(epoch FROM t.at)
     FROM stream d JOIN event t ON t.stream = d.taken_by AND t.kind = 8
     AND position(convert_to('stream ' || d.stream || ' of ', 'UTF8') IN t.bytes) > 0"""
BEGUN = "SELECT stream, extract(epoch FROM at) FROM event WHERE kind = 3"
# What no pod may have written anywhere but sealed: it stands in each body.
MARKER = b'"client_ref"'
# Statements that find nothing, and of which invariant that would be a breach.
NOTHING = (
    ("I10", "a stream has gaps", """
     SELECT s.stream, s.head, s.base, count(e.number), max(e.number) FROM stream s
     JOIN event e ON e.stream = s.stream GROUP BY s.stream, s.head, s.base
     HAVING max(e.number) <> s.head OR count(*) <> s.head - s.base"""),
    ("I4", "an operation has no row, or another", """
     SELECT o.key, o.last_stream, o.last_number, o.phase, e.phase FROM operation o
     LEFT JOIN event e ON e.stream = o.last_stream AND e.number = o.last_number
     WHERE o.op_number > 0 AND o.flags & 14 = 0
     AND (e.key IS DISTINCT FROM o.key OR e.phase <> o.phase)"""),
    ("I4", "a call that was begun is not in its table", """
     SELECT e.stream, e.number FROM event e WHERE e.key IS NOT NULL AND e.op_stream = e.stream
     AND e.op_number = e.number AND NOT EXISTS (SELECT FROM operation o WHERE o.key = e.key)"""),
    # A row that leaves the phase as it is tells of a word that came too late.
    ("I5", "rows of a stream after another took over what it was sending", """
     SELECT t.stream, t.number, d.stream, l.number FROM event t
     JOIN event d ON d.stream = t.prev_stream AND d.number = t.prev_number
     JOIN LATERAL (SELECT number, place FROM event WHERE stream = d.stream
                   ORDER BY number DESC LIMIT 1) l ON l.place > t.place
     LEFT JOIN event b ON b.stream = d.prev_stream AND b.number = d.prev_number
     WHERE d.phase = 5 AND t.phase <> 5 AND b.phase IS DISTINCT FROM 5 AND t.stream <> d.stream"""),
    ("I13", "a call is still being sent", """
     SELECT op_stream, op_number FROM operation WHERE phase = 5"""),
    ("L1", "a stream that nobody has taken over", """
     SELECT stream, state, taken_by FROM stream WHERE state = 2"""),
    ("L1", "work whose owner is gone", """
     SELECT w.kind, w.stream, w.number, w.owner FROM work w LEFT JOIN stream s
     ON s.stream = w.owner WHERE w.owner IS NOT NULL AND s.state IS DISTINCT FROM 1"""),
)  # fmt: skip


def of_database(database, streams):
    """Breaches, as lines. `streams`: those that a fault may have ended."""
    found = []
    for invariant, what, statement in NOTHING:
        rows = database.sql(statement)
        found += [f"{invariant} {what}: {row}" for row in rows[:5]]
    for stream, by in database.sql("SELECT stream, taken_by FROM stream WHERE taken_by > 0"):
        if int(stream) not in streams:
            found.append(f"L3 stream {stream} was taken over by {by}, and its pod lived")
    return found


def of_leases(taken, begun, owners, drained):
    """Breaches: streams that were taken over by another pod before their leases had ended, though
    their own had neither handed them over nor come back. `taken` and `begun`: rows of those
    statements; `owners`: {stream: its pod}."""
    begun = {int(stream): float(at) for stream, at in begun}
    found = []
    for dead, taker, seconds, at in taken:
        dead, taker = int(dead), int(taker)
        pod, at = owners.get(dead), float(at)
        came_back = any(owner is pod and stream > dead and begun.get(stream, at) < at
                        for stream, owner in owners.items())  # fmt: skip
        is_handed_on = dead in drained or came_back or owners.get(taker) is pod
        if not is_handed_on and float(seconds) < LEASE:
            found.append(f"L3 stream {dead} was taken over by {taker} {seconds} s after its last"
                         " batch, while its lease lasted")  # fmt: skip
    return found


def of_owners(events):
    """A lost owner says nothing about what became of its call."""
    return [f"I11 {event['path']}: {event['phase']} because its owner was lost"
            for event in events
            if event["cause"] == "owner_lost" and event["phase"] != "UNCERTAIN"]  # fmt: skip


def of_files(paths):
    """Bodies stand in none of them."""
    found = []
    for path in paths:
        try:
            if path.is_file() and MARKER in path.read_bytes():
                found.append(f"I13 {path} holds what an agent sent")
        except OSError:
            continue  # the server has removed it
    return found


def take_overs(events, deaths):
    """How long after the death of a pod what it was sending was known to be unknown: seconds."""
    took = []
    for stream, when in deaths:
        of_it = [event for event in events if event["cause"] == "owner_lost"
                 and moment(event) > when - 0.01
                 and str(event["operation"]).partition(".")[0] == str(stream)]  # fmt: skip
        if of_it:
            took.append(max(moment(event) for event in of_it) - when)
    return took


def moment(event):
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def rows_of(violation, events):
    """The story of the call or flow that a violation names, a line for each row."""
    words = violation.replace(":", " ").split()
    return [f"        {event['event_id']} {event['time']} {event['path']} {event['phase']}"
            f" ({event['cause']}), attempt {event['attempt']} {event.get('detail') or ''}"
            for event in events
            if {event["path"], str(event["operation"]), event["flow"]} & set(words)]  # fmt: skip


def count_in_words(found, operations):
    return f"{len(found)} violations of {len(INVARIANTS)} invariants over {operations} operations"
