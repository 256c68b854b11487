"""Durable writes beside Restate and PostgreSQL, in rounds; nothing is pinned.

The ledger's thread and the proxy's may run side by side, and so may the parts of the peers.
"""

import json
import os
import statistics
import subprocess
import time

import peers
from reads import head_of, numbers_of
from rounds import Bench, figure
from servers import Servers

WRITE = ["--path", "/orders", "--method", "POST", "--body", "1024"]
FRESH = ["--fresh-keys", "SEED"]
CLIENTS = (1, 16, 64, 256)
REPLAYS, LARGE = "replays, 64 clients", "writes of 100 KiB, 16 clients"
# Calls per second, ours over Restate's, at so many clients (W1).
RATE_GOALS = {1: 4.5, 16: 8, 64: 12}


def run(options, report):
    all_cpus = os.sched_getaffinity(0)
    bench = Bench(options, all_cpus)
    with Servers(options.build, options.folder) as servers:
        flush_us = measure_flush(options.folder)
        backend = servers.start_tool("backend", all_cpus)
        recourse = servers.start_recourse(all_cpus, backend.port)
        restate = peers.start_restate(servers, backend.port)
        postgres = peers.start_postgres(servers, backend.port)
        engines = [server for server in (recourse, restate, postgres) if server]
        bench.rounds({f"writes, {clients} clients": [*WRITE, *FRESH, "--connections", str(clients)]
                      for clients in CLIENTS}, [backend, *engines], settles=True)
        bench.rounds({REPLAYS: [*WRITE, "--connections", "64"]},
                     [server for server in (recourse, restate) if server], settles=True)
        bench.rounds({LARGE: ["--path", "/orders", "--method", "POST", "--body", "102400", *FRESH,
                              "--connections", "16"]}, engines, settles=True)
        memory = {server.name: server.memory_without_files() for server in engines}
    print_writes(bench, flush_us)
    print("memory after that, besides pages of files: " + ", ".join(f"{name} {size / 1e6:,.0f} MB"
                                            for name, size in memory.items()))
    judge(bench, report)
    report.data["writes"] = {"flush_us": flush_us, "memory": memory, **bench.data()}


def judge(bench, report):
    measured = {server for _, server in bench.samples}
    for clients, limit in RATE_GOALS.items():
        if "restate" in measured:
            report.goal("W1", f"writes/s at {clients} clients / restate",
                        bench.ratio(f"writes, {clients} clients", "recourse", "restate",
                                    "per_second"), limit, at_least=True)
    for peer, limit in (("restate", 0.05), ("postgres", 0.25)):
        if peer in measured:
            report.goal("W2", f"CPU per write at 64 clients / {peer}",
                        bench.ratio("writes, 64 clients", "recourse", peer, "cpu_us"), limit)
    one = "writes, 1 clients"
    added = figure((ours["p50_us"] - alone["p50_us"]) / 1e3 for ours, alone in
                   zip(bench.samples[one, "recourse"], bench.samples[one, "backend"]))
    report.goal("W3", "one writer's p50 over the backend's", added, 0.75, "ms")


def measure_flush(folder):
    """What one durable write of 4 KiB costs on this disk: the median of 200, in microseconds."""
    path = os.path.join(folder, "flush")
    with open(path, "wb", buffering=0) as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
        took = []
        for number in range(200):
            begin = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 4096, number * 4096)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begin)
    os.remove(path)
    return statistics.median(took) * 1e6


def print_writes(bench, flush_us):
    print("\nDurable writes, each on disk before the call and again before the answer (medians of "
          f"{bench.options.rounds} rounds).\nOne flush of this disk takes {flush_us:.0f} us; they "
          "are counted by the disk. CPU alone: without the worker of Restate and the client of "
          "PostgreSQL.")
    print(f"{'':32}{'':10}{head_of('calls/s')}"
          f"{'CPU alone':>12}{'flushes/call':>14}{'rows/commit':>13}{'rows/flush':>12}"
          f"{'ms/commit':>11}")
    for workload, server in bench.samples:
        line = f"{workload:32}{server:10}" + numbers_of(bench, workload, server)
        line += f"{bench.median(workload, server, 'cpu_alone_us'):12.1f}"
        for width, *of in ((14, "flushes", "requests"), (13, "rows", "commits"),
                           (12, "rows", "flushes"), (11, "commit_ms", "commits")):
            found = bench.in_all(workload, server, *of)
            line += f"{'-' if found is None else format(found, '.2f'):>{width}}"
        print(line)
