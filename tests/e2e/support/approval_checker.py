"""The independent checker of approvals: was everything gated sent by a human's word, and once for
each word? It shares no code with the product.

    I11 each dispatch of a gated call has an approval of its own before it, by somebody other than
        its caller, within the time for it, and what the backend received is what was approved;
        what was rejected, or nobody decided, was never sent
"""

from collections import defaultdict
from datetime import datetime


def instant(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def check_rows(path, rows):
    """One word, one dispatch, in this order."""
    is_approved, phase = False, None
    for row in rows:
        if row["phase"] == "DISPATCHING":
            if not is_approved:
                yield f"I11 {path}: sent from {phase} without an approval of its own"
            is_approved = False
        elif row["phase"] == "APPROVED":
            if is_approved:
                yield f"I11 {path}: approved twice"
            is_approved = True
        elif row["phase"] != phase:
            is_approved = False
        phase = row["phase"]


def check_record(path, rows, requests, shown):
    dispatches = [row for row in rows if row["phase"] == "DISPATCHING"]
    if len(requests) > len(dispatches):
        yield f"I11 {path}: {len(requests)} requests, {len(dispatches)} of them approved"
    for request in requests:
        if request["complete"] and request["body_sha256"] != shown["request"]["body_sha256"]:
            yield f"I11 {path}: what was sent is not what was approved"


def check_decisions(path, rows, shown):
    for one in shown["decisions"]:
        if one["who"] == rows[0]["caller"]:
            yield f"I11 {path}: decided by its caller"
        in_time = instant(shown["asked"]) <= instant(one["time"]) <= instant(shown["expires"])
        if one["counts"] and not in_time:
            yield (f"I11 {path}: decided at {one['time']}, not from {shown['asked']} to "
                   f"{shown['expires']}")  # fmt: skip


def check(backend, events, shown):
    """Violations, as lines. `shown`: what the admin port says of each gated operation."""
    rows = defaultdict(list)
    for event in events:
        if event["operation"] in shown:
            rows[event["operation"]].append(event)
    found = []
    for operation, own in sorted(rows.items()):
        path, method = own[0]["path"], own[0]["method"]
        requests = [
            line for line in backend
            if line["t"] == "request" and (line["method"], line["path"]) == (method, path)
        ]  # fmt: skip
        found += check_rows(path, own)
        found += check_record(path, own, requests, shown[operation])
        found += check_decisions(path, own, shown[operation])
    return found
