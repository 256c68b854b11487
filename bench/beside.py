"""Reads beside durable writes (W5): how much later the slowest hundredth of the answers comes.

The same reads are made in three ways, so that it shows what of it is the machine's: through the
Recourse that writes, through another one, and of a backend without any proxy between. Nothing is
pinned, no peer runs, and each way has a backend of its own.
"""

import json
import os
import statistics
import subprocess
import time

from rounds import Bench, figure
from servers import Servers
from writes import FRESH, WRITE

READS = ["--path", "/1k", "--connections", "16", "--rate", "1000"]
WRITES_RATE = 3_000
WRITES = [*WRITE, *FRESH, "--connections", "64", "--rate", str(WRITES_RATE)]
# Fewer writes than this beside the reads are another question than the goal's.
WRITES_RATE_MIN = 2_850
SAME, OTHER, DIRECT = "the Recourse that writes", "another Recourse", "no proxy"


def run(options, report):
    cpus = os.sched_getaffinity(0)
    bench, rounds = Bench(options, cpus), {SAME: [], OTHER: [], DIRECT: []}
    with Servers(options.build, options.folder) as servers:
        writer = servers.start_recourse(cpus, servers.start_tool("backend", cpus).port)
        backend = servers.start_tool("backend", cpus)
        readers = {SAME: writer, DIRECT: backend,
                   OTHER: servers.start_recourse(cpus, backend.port, name="other")}
        for number in range(options.rounds):
            for way in list(rounds)[::-1 if number % 2 else 1]:
                rounds[way].append(measure(bench, readers[way], writer))
    print(f"Reads, 1,000/s, alone and beside {WRITES_RATE:,} durable writes/s (medians of "
          f"{options.rounds} rounds).")
    for way, found in rounds.items():
        alone, beside = (statistics.median(sample[name]["p99_us"] for sample in found)
                         for name in ("alone", "beside"))
        ratio = ratio_of(found)
        print(f"through {way:26} p99 {alone:7,.0f} us alone, {beside:7,.0f} us beside, "
              f"{ratio.median:.2f} x ({ratio.low:.2f} to {ratio.high:.2f})")
    rate = statistics.median(sample["writes_per_second"] for sample in rounds[SAME])
    report.goal("W5", f"p99 of 1,000 reads/s beside {WRITES_RATE:,} writes/s / alone",
                ratio_of(rounds[SAME]), 1.3, unless=(
                    "" if rate >= WRITES_RATE_MIN else f"only {rate:,.0f} writes/s were reached"))
    report.data["beside"] = rounds


def ratio_of(samples):
    return figure(sample["beside"]["p99_us"] / sample["alone"]["p99_us"] for sample in samples)


def measure(bench, reader, writer):
    """One sample: {p50_us and p99_us of reads alone, and beside writes; writes per second}."""
    seconds = 2 * bench.options.seconds  # a p99 needs more samples than a median

    def times():
        with reader.warmed_up(bench, READS, seconds) as measured:
            sample = measured()
        return {name: sample[name] for name in ("p50_us", "p99_us")}

    alone = times()
    command = bench.command(writer.port, WRITES, 1.5 * seconds + 1)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writes:
        time.sleep(0.5)  # they are under way before the reads begin
        beside = times()
        written = json.loads(writes.communicate(timeout=seconds + 60)[0])
    return {"alone": alone, "beside": beside,
            "writes_per_second": written["requests"] / written["seconds"]}
