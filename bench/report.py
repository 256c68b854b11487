"""What a run found: tables on the way, the goals at the end, and everything as JSON."""

import json
import os
import platform
import subprocess

from rounds import Figure
from servers import find_program

# What each goal of the project is about; a run prints a line for each, measured or not.
GOALS = {
    "F1": "GET 1 KiB", "F2": "POST 1 KiB, read", "F3": "GET 64 KiB",
    "F4": "over a relay that parses nothing", "F5": "one connection", "F6": "free of noise",
    "W1": "durable writes beside Restate", "W2": "CPU per durable write", "W3": "one writer waits",
    "W4": "a ledger that grows", "W5": "reads beside writes", "G1": "cost as work grows",
    "S1": "a shared ledger's lane", "S2": "writes of a shared ledger", "S3": "one waits for it",
    "S4": "one that grows", "S5": "idle pods of it", "S6": "a pod that is lost",
}


class Report:
    """Filled by the parts of a run, in turn."""

    def __init__(self):
        self.data = {}   # by part: whatever JSON can hold
        self.rows = []   # of the table of goals

    def goal(self, goal, what, found, limit, unit="x", at_least=False, unless=""):
        """Judges one figure (a number, or one with its lowest and highest) by a limit.

        `unless`: why the figure is not what the goal asks about; it is told and not judged then.
        """
        if not isinstance(found, Figure):
            found = Figure(found, found, found)
        is_met = found.median >= limit if at_least else found.median <= limit
        self.rows.append({"goal": goal, "what": what, **found._asdict(), "limit": limit,
                          "unit": unit, "at_least": at_least, "unless": unless,
                          "is_met": is_met and not unless})

    def print_goals(self):
        print("\nGoals: medians, with the lowest and highest round\n"
              f"{'':4}{'':52}{'figure':>10}{'from':>10}{'to':>10}{'goal':>12}")
        for goal, about in GOALS.items():
            rows = [row for row in self.rows if row["goal"] == goal]
            for row in rows:
                sign = ">=" if row["at_least"] else "<="
                print(f"{goal:4}{row['what']:52}{number(row['median'], row['limit']):>10}"
                      f"{number(row['low']):>10}{number(row['high']):>10}"
                      f"{sign + number(row['limit']):>12} {row['unit']:4}"
                      f"{verdict(row)}")
            if not rows:
                print(f"{goal:4}{about:52}{'not measured':>42}")

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"goals": self.rows, **self.data}, file, indent=1)
        print(f"\nevery sample: {os.path.relpath(path)}; bench/tables.py writes the tables of "
              "bench/README.md from it")


def verdict(row):
    """What is said of a goal's figure."""
    return f"NOT JUDGED: {row['unless']}" if row["unless"] else (
        "met" if row["is_met"] else "NOT MET")


def number(value, limit=None):
    """With as many digits as say something, also about the limit."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if limit is None or abs(value - limit) >= 0.01 else f"{value:.3f}"


def describe_machine():
    """The lines that a table of results has to stand under."""
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, "
             f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}"]
    for command in (["nginx", "-v"], ["haproxy", "-v"]):
        run = subprocess.run([find_program(command[0]), *command[1:]], text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines.append(run.stdout.splitlines()[0])
    return lines
