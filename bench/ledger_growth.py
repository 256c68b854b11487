"""A ledger that grows: what it costs to write to, to start with, and to recover after a kill."""

import os
import shutil
import subprocess
import time
from collections import namedtuple

from reads import head_of, numbers_of
from rounds import Bench, figure
from servers import Servers
from writes import FRESH, WRITE

WORKLOAD = "durable writes, 64 clients"
LOAD = [*WRITE, *FRESH, "--connections", "64"]
# What a ledger is filled with: bytes that it keeps of each request and of its answer, and what the
# two take in its files. A backend that knows no keys has no requests kept.
Kind = namedtuple("Kind", "body answer on_disk")
USUAL, SMALL = Kind(1024, 1024, 4_300), Kind(0, 64, 1_300)
HUGE = 20_000_000  # of SMALL: of the usual ones they are 83 GB
GOAL_OPERATIONS = 1_000_000
# (from so many operations on, calls per second over those with an empty ledger at least: W4)
LIMITS = ((HUGE, 0.80), (0, 0.90))
START_LIMIT_SECONDS = 2
FREE_BYTES_MIN = 12 << 30  # left for others when the ledger is full
FILL_SECONDS_MAX = 4 * 3600


def run(options, report):
    cpus, count = os.sched_getaffinity(0), options.ledger
    kind = SMALL if count >= HUGE else USUAL
    map_gib = max(64, 2 * count * kind.on_disk >> 30)
    bench = Bench(options, cpus)
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", cpus)
        fill(servers, count, kind, map_gib)

        def start():
            """(the server, seconds until it was ready)"""
            begin = time.monotonic()
            server = servers.start_recourse(cpus, backend.port, name="grown",
                                            extra=["--ledger-max", f"{map_gib}GiB"])
            return server, time.monotonic() - begin

        grown, took = start()
        found = {"operations": count, **kind._asdict(), "seconds_after_kill": [took],
                 "bytes_on_disk": size_of(servers.data_of("grown")),
                 "memory_after_start": grown.memory_without_files()}
        found["resident_after_start"], found["resident_at_most"] = grown.resident()
        recourse = servers.start_recourse(cpus, backend.port)
        bench.rounds({WORKLOAD: LOAD}, [recourse, grown], settles=True)
        found["memory_of_the_other"] = recourse.memory_without_files()
        found["memory_after_writes"] = grown.memory_without_files()
        for _ in range(1, options.rounds):  # each with rows that the one before has not seen
            bench.load(grown, LOAD, options.seconds)
            servers.stop(grown, is_killed=True)
            grown, took = start()
            found["seconds_after_kill"].append(took)
        servers.stop(grown, is_killed=True)
        forget(servers.data_of("grown"))
        grown, found["seconds_after_kill_cold"] = start()
        servers.stop(grown)
        found["seconds_after_stop"] = start()[1]
    print_growth(bench, found)
    judge(bench, found, report)
    report.data["ledger"] = {**found, **bench.data()}


def fill(servers, count, kind, map_gib):
    """So many finished operations, in the ledger of the server that is called `grown`."""
    need = count * kind.on_disk + FREE_BYTES_MIN
    free = shutil.disk_usage(servers.folder).free
    if free < need:
        raise SystemExit(f"a ledger of {count:,} operations needs {need >> 30} GiB of disk with "
                         f"what is left for others, and {servers.folder} has {free >> 30}")
    begin = time.monotonic()
    program = os.path.join(servers.build, "bench", "ledger_fill")
    subprocess.run([program, servers.data_of("grown"), *map(str, (count, *kind[:2], map_gib))],
                   check=True, timeout=FILL_SECONDS_MAX)
    os.sync()  # else the disk is busy with the fill while the writes are measured
    print(f"  {count:,} operations in {time.monotonic() - begin:.0f} s", flush=True)


def forget(folder):
    """Puts its files out of the cache of the kernel."""
    os.sync()
    for where, _, names in os.walk(folder):
        for name in names:
            file = os.open(os.path.join(where, name), os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def size_of(folder):
    """Bytes of the files of a folder, without what is taken ahead of its use."""
    return sum(os.lstat(os.path.join(where, name)).st_size
               for where, _, names in os.walk(folder) for name in names)


def judge(bench, found, report):
    count = found["operations"]
    limit = next(limit for operations, limit in LIMITS if count >= operations)
    unless = "" if count >= GOAL_OPERATIONS else f"the goal is about {GOAL_OPERATIONS:,}"
    report.goal("W4", f"writes/s at 64 clients, {count:,} operations / none",
                bench.ratio(WORKLOAD, "grown", "recourse", "per_second"), limit, at_least=True,
                unless=unless)
    report.goal("G1", f"start after kill -9, {count:,} operations",
                figure(found["seconds_after_kill"]), START_LIMIT_SECONDS, "s",
                unless=unless if count <= GOAL_OPERATIONS else
                f"the goal is about {GOAL_OPERATIONS:,}")


def print_growth(bench, found):
    after_kill = figure(found["seconds_after_kill"])
    print(f"\nA ledger of {found['operations']:,} operations of {found['body']:,} bytes and "
          f"answers of {found['answer']:,}: {found['bytes_on_disk'] / 1e6:,.0f} MB on disk.\nReady "
          f"{after_kill.median:.2f} s after kill -9 (from {after_kill.low:.2f} to "
          f"{after_kill.high:.2f}), {found['seconds_after_kill_cold']:.2f} s with its files in no "
          f"cache, {found['seconds_after_stop']:.2f} s after a stop.\n"
          f"Memory: {found['memory_after_start'] / 1e6:,.0f} MB after the first start besides "
          f"pages of files, {found['resident_after_start'] / 1e6:,.0f} MB with them "
          f"({found['resident_at_most'] / 1e6:,.0f} at most); "
          f"{found['memory_after_writes'] / 1e6:,.0f} MB besides files after the writes below "
          f"({found['memory_of_the_other'] / 1e6:,.0f} MB with nothing before them)")
    print(f"{'':38}{head_of('calls/s')}")
    for workload, server in bench.samples:
        name = "none before" if server == "recourse" else server
        print(f"{workload:27}{name:11}" + numbers_of(bench, workload, server))
