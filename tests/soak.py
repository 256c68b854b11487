"""Kills, faults, power cuts, simulated flows, foreign changes and bytes, until the time is over.

usage: tests/soak.py --hours HOURS

CI runs a fixed part of each of these; this runs all of it, round after round, each with a new seed.
It prints its figures after every round. What breaks a promise is counted, and the command that
repeats it is kept in build/soak/found.txt; the round goes on. A part that has begun is ended whole,
which for kills takes a quarter of an hour. Ends with 1 when anything was found.
"""

import argparse
import collections
import os
import pathlib
import re
import secrets
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/soak"
FOUND = WORK / "found.txt"
DEV = ROOT / "build/dev"
KILLED = ("test_kill.py", "test_flow_kills.py", "test_approval_kills.py", "test_gated_flows.py",
          "test_campaign.py", "test_faults.py", "test_storage_faults.py")  # fmt: skip
SIM_SEEDS = 20_000
IMAGES = 2_000
CHANGES = 10_000  # of somebody else before an undo, and so many of the packs
PACK_CHANGES = 2_000
FUZZ_SECONDS = (5, 60)  # least and most for each target
FUZZ_TARGETS = len(list((ROOT / "tests/fuzz/corpus").iterdir()))
PART_MAX_SECONDS = 3 * 3600  # of what may hang; each part has bounds of its own
FIGURES = ("kills", "images", "seeds", "changes", "inputs", "violations")
figures = collections.Counter()


def run(name, command, variables, log):
    """Gives whether it ended well, and its output, which the log keeps too."""
    shown = [*(f"{key}={value}" for key, value in variables.items()), *map(str, command)]
    print(f"    {name}: {' '.join(shown)}", flush=True)
    with open(log, "w+", encoding="utf-8", errors="replace") as file:
        try:
            code = subprocess.run(
                list(map(str, command)), cwd=ROOT, env={**os.environ, **variables}, stdout=file,
                stderr=subprocess.STDOUT, timeout=PART_MAX_SECONDS, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = "no end"
        file.seek(0)
        output = file.read()
    if code != 0:
        figures["violations"] += 1
        with open(FOUND, "a", encoding="utf-8") as found:
            found.write(f"{' '.join(shown)}   # ended with {code}; its output: {log}\n")
        print(output[-4000:], flush=True)
    return output


def numbers(pattern, output):
    return sum(int(found) for found in re.findall(pattern, output))


def kills(seed, log, _):
    variables = {
        "RECOURSE_BIN": str(DEV / "recourse"), "RECOURSE_E2E_SEED": seed, "RECOURSE_KILLS": "25",
        "RECOURSE_STORM_SECONDS": "120", "RECOURSE_IMAGES_E2E": str(IMAGES),
        "RECOURSE_FIGURES": str(WORK / "figures"), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    (WORK / "figures").unlink(missing_ok=True)
    files = [f"tests/e2e/{name}" for name in KILLED]
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "-n", "4", "--dist", "loadgroup",
               "-p", "no:cacheprovider", *files]  # fmt: skip
    run("kills and faults", command, variables, log)
    if (WORK / "figures").exists():
        for line in (WORK / "figures").read_text().splitlines():
            what, count = line.rsplit(" ", 1)
            figures[what] += int(count)


def power(seed, log, _):
    variables = {"RECOURSE_POWER_SEED": seed, "RECOURSE_IMAGES": str(IMAGES)}
    output = run("power cuts", [DEV / "tests/power_loss_test"], variables, log)
    figures["images"] += numbers(r"(\d+) (?:disks|more after)", output)


def simulation(seed, log, _):
    variables = {"RECOURSE_SIM_FIRST": seed, "RECOURSE_SIM_SEEDS": str(SIM_SEEDS)}
    output = run("simulated flows", [DEV / "tests/sim_test", "--gtest_brief=1"], variables, log)
    if "FAILED" not in output:
        figures["seeds"] += SIM_SEEDS


def changes(seed, log, _):
    variables = {
        "RECOURSE_BIN": str(DEV / "recourse"), "RECOURSE_E2E_SEED": seed,
        "RECOURSE_CHANGES": str(CHANGES), "RECOURSE_PACK_CHANGES": str(PACK_CHANGES),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    files = ["tests/e2e/test_foreign_changes.py", "tests/e2e/test_packs_changes.py"]
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *files]
    output = run("foreign changes", command, variables, log)
    figures["changes"] += numbers(r"(\d+) foreign changes", output)


def fuzz(_, log, seconds_left):
    least, most = FUZZ_SECONDS
    seconds = max(least, min(most, int(seconds_left / 2 / FUZZ_TARGETS)))
    output = run("fuzzing", ["./dev", "fuzz", seconds], {"RECOURSE_SKIP_INSTALL": "1"}, log)
    figures["inputs"] += numbers(r": (\d+) inputs", output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, required=True)
    end = time.monotonic() + parser.parse_args().hours * 3600
    WORK.mkdir(parents=True, exist_ok=True)
    for number in range(1, 100_000):
        # Not zero, which a simulation takes for none.
        seed = str(1 + secrets.randbelow(2**31))
        for part in (simulation, power, fuzz, changes, kills):
            seconds_left = end - time.monotonic()
            if seconds_left > 0:
                part(seed, WORK / f"{part.__name__}-{number}.log", seconds_left)
        told = ", ".join(f"{figures[what]} {what}" for what in FIGURES)
        print(f"round {number}, seed {seed}: {told}", flush=True)
        if time.monotonic() >= end:
            break
    if figures["violations"]:
        print(f"what was found can be repeated: {FOUND}")
    return 1 if figures["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
