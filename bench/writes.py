"""Durable writes, nothing pinned: the ledger's thread and the proxy's may run side by side."""

import os
import statistics
import subprocess
import time

from reads import numbers_of
from rounds import Bench, figure
from servers import Servers

WRITE = ["--path", "/orders", "--method", "POST", "--body", "1024", "--fresh-keys", "SEED"]
CLIENTS = (1, 16, 64, 256)
READS_BESIDE = ["--path", "/1k", "--connections", "16", "--rate", "1000"]
WRITES_BESIDE = [*WRITE, "--connections", "64", "--rate", "3000"]


def run(options, report):
    all_cpus = os.sched_getaffinity(0)
    bench = Bench(options, all_cpus)
    with Servers(options.build, options.folder) as servers:
        flush_us = measure_flush(options.folder)
        backend = servers.start_tool("backend", all_cpus)
        recourse = servers.start_recourse(all_cpus, backend.port)
        bench.rounds({clients: [*WRITE, "--connections", str(clients)] for clients in CLIENTS},
                     [backend, recourse])
        beside = measure_reads_beside_writes(bench, recourse)
    print_writes(bench, flush_us)
    added = figure(ours["p50_us"] / 1e3 - alone["p50_us"] / 1e3 for ours, alone in
                   zip(bench.samples[1, "recourse"], bench.samples[1, "backend"]))
    report.goal("W3", "one writer's p50 over the backend's", added, 0.75, "ms")
    report.goal("W5", "p99 of 1,000 reads/s beside 3,000 writes/s / alone",
                figure(together / alone for alone, together in beside), 1.3)
    report.data["writes"] = {"flush_us": flush_us, **bench.data(),
                             "read_p99_us_alone_and_beside_writes": beside}


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


def measure_reads_beside_writes(bench, server):
    """[(p99 of 1,000 reads/s alone, beside 3,000 durable writes/s)] of each round, in us."""
    seconds, rounds = bench.options.seconds, []
    for _ in range(bench.options.rounds):
        alone = bench.load(server, READS_BESIDE, seconds)["p99_us"]
        command = bench.command(server.port, WRITES_BESIDE, seconds + 1)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as writer:
            time.sleep(0.5)  # the writes are under way before the reads begin
            rounds.append((alone, bench.load(server, READS_BESIDE, seconds)["p99_us"]))
            writer.wait(seconds + 30)
    return rounds


def print_writes(bench, flush_us):
    print("\nDurable writes: two records per write, each on disk before the next step "
          f"(medians of {bench.options.rounds} rounds).\nOne flush of this disk takes "
          f"{flush_us:.0f} us; one writer alone cannot write more than "
          f"{1e6 / flush_us:,.0f} times a second.")
    print(f"{'clients':>10}{'writes/s':>12}{'CPU us':>10}{'p50 us':>10}{'p99 us':>10}"
          f"{'p50 in flushes':>18}{'backend alone p50 us':>24}")
    for clients in CLIENTS:
        added = (bench.median(clients, "recourse", "p50_us")
                 - bench.median(clients, "backend", "p50_us"))
        print(f"{clients:10}" + numbers_of(bench, clients, "recourse") + f"{added / flush_us:18.1f}"
              + f"{bench.median(clients, 'backend', 'p50_us'):24.0f}")
