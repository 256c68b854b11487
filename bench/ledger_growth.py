"""A ledger that grows: what it costs to write to, to start with, and to recover after a kill."""

import os
import time

from reads import numbers_of
from rounds import Bench
from servers import Servers
from writes import FRESH, WRITE

CLIENTS = ["--connections", "64"]
FILLERS = ["--connections", "256"]  # many, so that a commit carries many records
HUGE = 20_000_000
# (from so many operations on, calls per second over those with an empty ledger at least: W4)
LIMITS = ((HUGE, 0.80), (0, 0.90))
START_LIMIT_SECONDS = 2
GIB_PER_MILLION_MAX = 6  # an operation takes about 4 KiB: two records, request and answer of 1 KiB


def run(options, report):
    cpus = os.sched_getaffinity(0)
    bench = Bench(options, cpus)
    count = options.ledger
    room = ["--ledger-max", f"{max(64, count * GIB_PER_MILLION_MAX // 1_000_000)}GiB"]
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", cpus)
        grown = servers.start_recourse(cpus, backend.port, name="grown", extra=room)
        fill(bench, grown, count)
        servers.stop(grown, is_killed=True)
        begin = time.monotonic()
        grown = servers.start_recourse(cpus, backend.port, name="grown", extra=room)
        found = {"operations": count, "seconds_after_kill": time.monotonic() - begin,
                 "memory_after_start": grown.memory_without_files(),
                 "bytes_on_disk": os.path.getsize(f"{servers.data_of('grown')}/data.mdb")}
        recourse = servers.start_recourse(cpus, backend.port)
        bench.rounds({"durable writes, 64 clients": [*WRITE, *FRESH, *CLIENTS]}, [recourse, grown])
        found["memory_of_the_other"] = recourse.memory_without_files()
        found["memory_after_writes"] = grown.memory_without_files()
    print_growth(bench, found)
    limit = next(limit for operations, limit in LIMITS if count >= operations)
    report.goal("W4", f"writes/s at 64 clients, {count:,} operations / none",
                bench.ratio("durable writes, 64 clients", "grown", "recourse", "per_second"), limit,
                at_least=True)
    report.goal("G1", f"start after kill -9, {count:,} operations", found["seconds_after_kill"],
                START_LIMIT_SECONDS, "s")
    report.data["ledger"] = {**found, **bench.data()}


def fill(bench, server, count):
    """So many finished operations, made the way that all operations are made."""
    arguments = [*WRITE, *FRESH, *FILLERS, "--requests", str(count)]
    begin = time.monotonic()
    sample = bench.load(server, arguments, 3600)
    if sample["failed"]:
        raise SystemExit(f"{sample['failed']} of {count} writes failed, the last with status "
                         f"{sample['last_bad_status']}")
    print(f"  {count:,} operations in {time.monotonic() - begin:.0f} s", flush=True)


def print_growth(bench, found):
    print(f"\nA ledger of {found['operations']:,} operations: "
          f"{found['bytes_on_disk'] / 1e6:,.0f} MB on disk; after kill -9 ready in "
          f"{found['seconds_after_kill']:.2f} s.\nMemory, besides the ledger's pages: "
          f"{found['memory_after_start'] / 1e6:,.0f} MB after the start, "
          f"{found['memory_after_writes'] / 1e6:,.0f} MB after the writes below "
          f"({found['memory_of_the_other'] / 1e6:,.0f} MB with nothing before them)")
    print(f"{'':38}{'calls/s':>12}{'CPU us':>10}{'p50 us':>10}{'p99 us':>10}")
    for workload, server in bench.samples:
        name = "none before" if server == "recourse" else server
        print(f"{workload:27}{name:11}" + numbers_of(bench, workload, server))
