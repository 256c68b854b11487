#!/usr/bin/env python3
"""Measures Recourse beside its peers, and judges the goals.

All programs of a comparison run at the same time and are measured in turn, in rounds whose order is
reversed each time, so that a slow moment of the machine meets all of them. See bench/README.md.
"""

import argparse
import datetime
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import beside  # noqa: E402
import fleet  # noqa: E402
import growth  # noqa: E402
import instructions  # noqa: E402
import ledger_growth  # noqa: E402
import micro  # noqa: E402
import peers  # noqa: E402
import protocols  # noqa: E402
import reads  # noqa: E402
import shapes  # noqa: E402
import turns  # noqa: E402
import undos  # noqa: E402
import writes  # noqa: E402
from report import Report, describe_machine  # noqa: E402

# Each prints its tables and tells the report what it found.
PARTS = {
    "reads": reads.run,
    "shapes": shapes.run,
    "writes": writes.run,
    "beside": beside.run,
    "fleet": fleet.run,
    "ledger": ledger_growth.run,
    "growth": growth.run,
    "undos": undos.run,
    "turns": turns.run,
    "interception": protocols.run_interception,
    "mcp": protocols.run_mcp,
    "instructions": instructions.run,
    "micro": micro.run,
}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release",
                        help="build folder of the release preset")
    parser.add_argument("--work", metavar="DIR",
                        help="where results.json and the programs' files go, on a real disk; the "
                             "build folder by default")
    parser.add_argument("--quick", action="store_true", help="3 rounds of half a second")
    parser.add_argument("--rounds", type=int, help="default 7; 3 with --quick")
    parser.add_argument("--seconds", type=float, help="per sample; default 1.5; 0.5 with --quick")
    parser.add_argument("--only", choices=PARTS, action="append", metavar="PART",
                        help=f"one part, or several: {', '.join(PARTS)}")
    parser.add_argument("--peer-logs", choices=["on", "off"], default="on",
                        help="access logs of nginx and HAProxy (ours is always on)")
    parser.add_argument("--ledger", type=int, metavar="N",
                        help="operations of the ledger that has grown; default 1,000,000; 100,000 "
                             "with --quick")
    parser.add_argument("--huge", action="store_true",
                        help="20 million operations in that ledger, with small answers: 26 GB")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.seconds = options.seconds or (0.5 if options.quick else 1.5)
    if options.huge:
        options.ledger = ledger_growth.HUGE
    options.ledger = options.ledger or (100_000 if options.quick else 1_000_000)
    options.build = os.path.abspath(options.build)
    options.work = os.path.abspath(options.work or options.build)
    options.folder = os.path.join(options.work, "run")
    return options


def describe_run(options):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], check=False, text=True,
                            cwd=os.path.dirname(os.path.abspath(__file__)),
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return {"date": datetime.date.today().isoformat(), "commit": commit.stdout.strip() or "unknown",
            "rounds": options.rounds, "seconds": options.seconds}


def main():
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report()
    report.data["machine"] = describe_machine() + peers.versions()
    report.data["run"] = describe_run(options)
    print("\n".join(report.data["machine"]), flush=True)
    failed = []
    took = report.data["seconds of each part"] = {}
    try:
        for name, run in PARTS.items():
            if options.only is None or name in options.only:
                print(f"\n== {name}", flush=True)
                begin = time.monotonic()
                try:
                    run(options, report)
                except (Exception, SystemExit) as error:  # the others are measured
                    failed.append(name)
                    print(f"{name} FAILED: {error!r}", flush=True)
                took[name] = round(time.monotonic() - begin)
    finally:
        report.data["load at the end"] = os.getloadavg()[0]
        report.print_goals()
        report.save(os.path.join(options.work, "results.json"))
    if failed:
        sys.exit(f"these parts failed, see above: {', '.join(failed)}")


if __name__ == "__main__":
    main()
