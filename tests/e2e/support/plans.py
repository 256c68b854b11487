"""How a PostgreSQL of the tests found what it was asked for: its log of plans, read again.

Settings of the product's connections leave no choice by size: what is found by an index in small
tables is so in large ones.
"""

import re

# Every plan goes to the server's log.
SETTINGS = ("session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0",
            "auto_explain.log_nested_statements=on", "log_line_prefix=%a|")  # fmt: skip
# They grow with what is remembered.
GROWING = ("operation", "intent", "flow", r"event\w*", "work")
SCAN = re.compile(rf"Seq Scan on ({'|'.join(GROWING)})\b|Hash Join|Merge Join|Bitmap Heap Scan")
# Without its first column an index is read from end to end, whatever the condition says. (That of
# `work`, which has but what waits, may be.)
BY_KEY = re.compile(r"Index (?:Only )?Scan using (operation|intent|flow|event)\w*_pkey on")
FIRST = {"operation": "grp", "intent": "grp", "flow": "grp", "event": "stream"}
INDEX = re.compile(rf"Index (?:Only )?Scan .*on ({'|'.join(GROWING)})\b")


def plans_in(log):
    """(statement, lines of its plan) of the product's own, each once."""
    found = {}
    for entry in re.split(r"^(?=[^\t\n]*\|LOG:  duration: )", log, flags=re.M):
        head, _, rest = entry.partition("\n")
        if not head.startswith("recourse|LOG:  duration:") or not head.endswith("plan:"):
            continue
        lines = []
        for line in rest.split("\n"):
            if not line.startswith("\t"):
                break
            lines.append(line[1:])
        text = lines[0].removeprefix("Query Text: ") if lines else ""
        found.setdefault(text, lines[1:])
    return found


def judge(lines):
    """What reads more than it is asked for; None: nothing."""
    has_limit = any("Limit" in line for line in lines)
    for number, line in enumerate(lines):
        if SCAN.search(line):
            return line.strip()
        depth = len(line) - len(line.lstrip())
        by_key = BY_KEY.search(line)
        condition = next((one for one in lines[number + 1:number + 4] if "Index Cond" in one), "")
        first = by_key and FIRST[by_key[1]]
        if condition and first and not re.search(rf"\b{first}\b", condition):
            return f"{line.strip()} by another column than its first: {condition.strip()}"
        if INDEX.search(line) and not has_limit:
            own = []
            for below in lines[number + 1:]:  # fmt: skip
                if len(below) - len(below.lstrip()) <= depth or "->" in below:
                    break
                own.append(below)
            if not any("Index Cond" in one for one in own):
                return f"{line.strip()} without a condition"
    return None


def scans(log, allowed=()):
    """A line for each statement whose plan reads what it was not asked for; `allowed`: beginnings
    of those that may."""
    return [f"{found}: {text}" for text, lines in plans_in(log).items()
            if (found := judge(lines)) and not text.startswith(tuple(allowed) or ("\0",))]
