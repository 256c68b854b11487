#!/usr/bin/env python3
"""User instructions, mallocs and system calls per request of a fixed workload.

No clock takes part, so a busy machine counts what an idle one does, to about one per cent. The
counts that are held in the tree (instructions.json, one set per preset) are what a run is compared
with; `--record` replaces them.
"""

import argparse
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from servers import Servers, find_program  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "instructions.json")
CONNECTIONS = 64
WARM_UP = 640
FEW = 4 * CONNECTIONS
ATTACH_SECONDS_MAX = 30
LOAD_SECONDS_MAX = 300
LEDGER_MAX = "512MiB"  # valgrind maps no 64 GiB
MALLOCS = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign"}
MCP_CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
    "name": "find_order", "arguments": {"order": "order-1", "with": ["lines", "customer"]}}})
# As long as the durable write's body; loadgen makes the order's number a fresh one.
MCP_WRITE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
    "name": "create_order", "arguments": {"order_id": 16 * "0", "text": 860 * "x"}}})
WRITE = ["--path", "/orders", "--method", "POST", "--body", "1024"]

# name: (requests that are counted, arguments of the load generator)
WORKLOADS = {
    "GET 1 KiB": (1_280, ["--path", "/1k"]),
    "POST 1 KiB read": (1_280, ["--path", "/1k", "--method", "POST", "--body", "1024"]),
    "GET 64 KiB": (640, ["--path", "/64k"]),
    "durable write": (640, [*WRITE, "--fresh-keys", "SEED"]),
    "replay": (640, WRITE),
    "MCP write": (640, ["--path", "/mcp", "--host", "desk", "--method", "POST", "--text", MCP_WRITE,
                        "--fresh-keys", "SEED"]),
    "MCP read call": (640, ["--path", "/mcp", "--host", "desk", "--method", "POST",
                            "--text", MCP_CALL]),
}


class Load:
    """Sends a fixed number of requests; no two runs share a key."""

    def __init__(self, options, port):
        self.program = os.path.join(options.build, "bench", "loadgen")
        self.port, self.seed = port, int(time.time()) & 0xFFFFFF

    def run(self, arguments, requests):
        self.seed += 1
        arguments = [str(self.seed) if word == "SEED" else word for word in arguments]
        command = [self.program, "--port", str(self.port), "--connections", str(CONNECTIONS),
                   "--requests", str(requests), *arguments]
        run = subprocess.run(command, stdout=subprocess.PIPE, timeout=LOAD_SECONDS_MAX, check=True)
        sample = json.loads(run.stdout)
        if sample["failed"] or sample["requests"] != requests:
            raise SystemExit(f"{sample['failed']} of {sample['requests']} requests failed, the "
                             f"last with status {sample['last_bad_status']}: {' '.join(command)}")


def count(options):
    """{workload: {instructions, mallocs, syscalls}}, each per request."""
    counts = {name: {} for name in WORKLOADS}
    all_cpus = os.sched_getaffinity(0)
    for measure, makes_program in ((count_instructions, callgrind), (count_syscalls, plain)):
        with Servers(options.build, options.folder) as servers:
            backend = servers.start_tool("backend", all_cpus)
            server = servers.start_recourse(all_cpus, backend.port, "instructions.yaml",
                                            makes_program(options),
                                            ["--ledger-max", LEDGER_MAX])
            load = Load(options, server.port)
            for name, (requests, arguments) in WORKLOADS.items():
                load.run(arguments, WARM_UP)
                # Few and many over as many connections: what opening them costs cancels out.
                few = measure(options, server, load, arguments, FEW)
                many = measure(options, server, load, arguments, FEW + requests)
                counts[name].update({what: each(many[what], few[what], requests)
                                     for what in many})
    return counts


def each(many, few, requests):
    if many is None or few is None:
        return None
    value = max(0, many - few) / requests
    return round(value) if value >= 1000 else round(value, 2)


def callgrind(options):
    """Without the debug information, whose version Debian's valgrind cannot read."""
    program = os.path.join(options.folder, "recourse")
    subprocess.run(["llvm-strip-19", "--strip-debug", "-o", program,
                    os.path.join(options.build, "recourse")], check=True)
    return [find_program("valgrind"), "--quiet", "--tool=callgrind",
            f"--callgrind-out-file={options.folder}/callgrind", program]


def plain(options):
    return [os.path.join(options.build, "recourse")]


def count_instructions(options, server, load, arguments, requests):
    control = [find_program("callgrind_control"), str(server.process.pid)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
    subprocess.run([*control, "--zero"], **quiet)
    load.run(arguments, requests)
    subprocess.run([*control, "--dump"], **quiet)
    dumps = glob.glob(f"{options.folder}/callgrind.*")
    with open(max(dumps, key=lambda path: int(path.rsplit(".", 1)[1])), encoding="utf-8") as file:
        instructions, mallocs = read_dump(file)
    return {"instructions": instructions, "mallocs": mallocs}


def read_dump(lines):
    """(instructions, calls of malloc and its like) of one dump of callgrind."""
    instructions = mallocs = 0
    names, called = {}, ""
    for line in lines:
        if line.startswith("cfn=") or line.startswith("fn="):
            number, name = re.fullmatch(r"c?fn=(\(\d+\))(?: (.*))?\n", line).groups()
            names.setdefault(number, name)
            if line[0] == "c":
                called = names[number]
        elif line.startswith("calls=") and called in MALLOCS:
            mallocs += int(line[len("calls="):].split()[0])
        elif line.startswith("totals:"):
            instructions = int(line.split()[1])
    return instructions, mallocs


def count_syscalls(options, server, load, arguments, requests):
    summary = os.path.join(options.folder, "strace")
    command = [find_program("strace"), "-f", "-c", "-o", summary, "-p", str(server.process.pid)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
        is_traced = wait_for_tracer(server.process.pid, tracer)
        if is_traced:
            load.run(arguments, requests)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(ATTACH_SECONDS_MAX)
    if not is_traced:
        return {"syscalls": None}
    with open(summary, encoding="utf-8") as file:
        total = [line.split() for line in file if line.rstrip().endswith("total")]
    return {"syscalls": int(total[0][3])}


def wait_for_tracer(pid, tracer):
    """True when every thread is traced; False where the system does not allow that."""
    deadline = time.monotonic() + ATTACH_SECONDS_MAX
    while tracer.poll() is None and time.monotonic() < deadline:
        statuses = []
        for path in glob.glob(f"/proc/{pid}/task/*/status"):
            with open(path, encoding="utf-8") as file:
                statuses.append("TracerPid:\t0\n" not in file.read())
        if all(statuses):
            return True
        time.sleep(0.02)
    return False


def run(options, report):
    """The part of a whole run: `GET 1 KiB` is what goal F6 is about."""
    counts = count(options)
    print_counts(options, counts)
    for what, limit in (("instructions", 10_000), ("mallocs", 0), ("syscalls", 4.3)):
        if counts["GET 1 KiB"][what] is not None:
            report.goal("F6", f"GET 1 KiB, 64 connections: {what} per request",
                        counts["GET 1 KiB"][what], limit, "")
    report.data["instructions"] = counts


def print_counts(options, counts):
    """Prints what was counted beside what is recorded."""
    with open(RECORD, encoding="utf-8") as file:
        record = json.load(file)
    preset = os.path.basename(options.build)
    known = record.get(preset, {})
    print(f"\nPer request, preset {preset}, {CONNECTIONS} connections "
          "(user instructions; change against bench/instructions.json)")
    print(f"{'':20}{'instructions':>14}{'change':>9}{'mallocs':>10}{'recorded':>10}"
          f"{'system calls':>14}{'recorded':>10}")
    for name, now in counts.items():
        then = known.get(name, {})
        print(f"{name:20}{now['instructions']:14,}{change(now, then):>9}"
              f"{show(now['mallocs']):>10}{show(then.get('mallocs')):>10}"
              f"{show(now['syscalls']):>14}{show(then.get('syscalls')):>10}")


def record_counts(options, counts):
    with open(RECORD, encoding="utf-8") as file:
        record = json.load(file)
    record[os.path.basename(options.build)] = counts
    with open(RECORD, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


def change(now, then):
    if "instructions" not in then:
        return "new"
    return f"{100 * (now['instructions'] / then['instructions'] - 1):+.1f} %"


def show(value):
    return "-" if value is None else f"{value:.2f}"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="build folder of the preset")
    parser.add_argument("--record", action="store_true",
                        help="what is counted goes into instructions.json")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.folder = os.path.join(options.build, "count")
    return options


def main():
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    counts = count(options)
    print_counts(options, counts)
    if options.record:
        record_counts(options, counts)


if __name__ == "__main__":
    main()
