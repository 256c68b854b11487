"""How a PostgreSQL of the tests found what it was asked for: its log of plans, read again.

Settings of the product's connections leave little choice by size: what is found by an index in
small tables is so in large ones. Which index it is shows there alone.
"""

import re

from .postgres import name_of

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
# Lists are those of one group in the order of their places.
BY_PLACE = re.compile(r"Index (?:Only )?Scan (?:Backward )?using event\w*_(?:of_group|grp_place)")
# All rows of a group have its name: by that alone an index is read from end to end, too.
WHOLE_GROUP = re.compile(r"Index Cond: \(\(?(?:\w+\.)?grp = [^()]*\)$")
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
        if by_key and WHOLE_GROUP.search(condition):
            return f"{line.strip()} by its group alone"
        if BY_PLACE.search(line) and not re.search(r"\bgrp = .*\bplace\b", condition):
            return f"{line.strip()} in other groups too, or its whole group: {condition.strip()}"
        if INDEX.search(line) and not has_limit:
            own = []
            for below in lines[number + 1:]:  # fmt: skip
                if len(below) - len(below.lstrip()) <= depth or "->" in below:
                    break
                own.append(below)
            if not any("Index Cond" in one for one in own):
                return f"{line.strip()} without a condition"
    return None


def scans(plans, allowed=()):
    """A line for each statement whose plan reads what it was not asked for; `allowed`: beginnings
    of those that may."""
    allowed = [*allowed, "SELECT place FROM event WHERE grp = $1::text ORDER BY place DESC LIMIT 1"]
    return [f"{found}: {text}" for text, lines in plans.items()
            if (found := judge(lines))
            and not text.startswith(tuple(allowed))]  # fmt: skip


# The product's connections have these settings.
PLANNER = ("plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_hashjoin = off",
           "enable_mergejoin = off", "enable_bitmapscan = off")  # fmt: skip
ROWS = 30_000
# Of one group, and each row of another key; a hundredth waits for something.
FILL = f"""
ALTER TABLE event_rest SET (autovacuum_enabled = off);
ALTER TABLE operation SET (autovacuum_enabled = off);
ALTER TABLE intent SET (autovacuum_enabled = off);
ALTER TABLE flow SET (autovacuum_enabled = off);
ALTER TABLE work SET (autovacuum_enabled = off);
CREATE TEMP TABLE filling AS SELECT n, gen_random_uuid() AS key,
  (SELECT coalesce(max(grp), 'g') FROM stream) AS g FROM generate_series(1, {ROWS}) AS n;
INSERT INTO operation (grp, key, flow, op_stream, op_number, last_stream, last_number)
  SELECT g, key, key, 99, n, 99, n FROM filling;
INSERT INTO intent (grp, intent, stream, number) SELECT g, key, 99, n FROM filling;
INSERT INTO flow (grp, flow, flow_stream, flow_number, phase) SELECT g, key, 99, n, 5 FROM filling;
INSERT INTO event (stream, number, day, place, won, kind, grp, at, key, op_stream, op_number, bytes)
  SELECT 99, n, 1, n, true, 1, g, now(), key, 99, n, '' FROM filling;
INSERT INTO work (kind, stream, number, grp) SELECT 1, 99, n, g FROM filling WHERE n % 100 = 0;
"""


def large_scans(server, url, statements, allowed=()):
    """The same in a copy of the database with many more rows, once before its server has counted
    them, as after pg_upgrade or pg_restore, and once after."""
    name = f"{name_of(url)}_grown"
    server.sql("postgres", f"CREATE DATABASE {name} TEMPLATE {name_of(url)}")
    server.sql(name, FILL)
    found = {}
    statements = [text for text in statements if text]  # those that make the tables have many lines
    for when in ("uncounted", "counted"):
        asked = [f"SET {one};" for one in PLANNER]
        for text in statements:
            count = max(map(int, re.findall(r"\$(\d+)", text)), default=0)
            values = f"({', '.join(['NULL'] * count)})" if count else ""
            asked.append(f"\\echo ## {when}\nPREPARE one AS {text};\nEXPLAIN EXECUTE one{values};\n"
                         "DEALLOCATE one;")
        said = server.script(name, "\n".join(asked)).split(f"## {when}\n")[1:]
        for text, lines in zip(statements, said, strict=True):
            found[f"{text} ({when})"] = lines.rstrip("\n").split("\n")
        server.sql(name, "ANALYZE")
    server.sql("postgres", f"DROP DATABASE {name}")
    return scans(found, allowed)
