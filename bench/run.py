#!/usr/bin/env python3
"""Measures Recourse beside nginx, HAProxy and a relay that parses nothing. Ratios first.

All programs run at the same time and are measured in turn, in rounds whose order is reversed each
time, so that a slow moment of the machine meets all of them. See bench/README.md.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from servers import Servers, find_program, pinned  # noqa: E402
from undos import measure_undos  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ("nginx", "haproxy", "relay")

# name: (arguments of the load generator, goal per peer: CPU per request, ours over theirs)
READS = {
    "GET 1 KiB, 64 connections":
        (["--path", "/1k"], {"nginx": 0.75, "haproxy": 0.80, "relay": 1.20}),
    "POST 1 KiB read, 64 connections":
        (["--path", "/1k", "--method", "POST", "--body", "1024"],
         {"nginx": 0.70, "haproxy": 0.80, "relay": 1.20}),
    "GET 64 KiB, 64 connections":
        (["--path", "/64k"], {"nginx": 0.80, "haproxy": 0.72}),
    "GET 1 KiB, 1 connection":
        (["--path", "/1k", "--connections", "1"], {"nginx": 0.90}),
}
WRITE = ["--path", "/orders", "--method", "POST", "--body", "1024"]
WRITE_CLIENTS = (1, 16, 64, 256)


class Bench:
    """Runs the load generator against one server at a time and keeps every sample."""

    def __init__(self, options, cpus):
        self.options, self.cpus = options, cpus
        self.seed = int(time.time()) & 0xFFFFFF  # fresh keys over runs on one ledger, too
        self.samples = {}
        self.flush_us = 0  # of the disk, where writes are measured

    def load(self, port, arguments, seconds):
        """One run of the load generator; returns what it printed."""
        if "--fresh-keys" in arguments:
            self.seed += 1
            arguments = [str(self.seed) if a == "SEED" else a for a in arguments]
        command = [os.path.join(self.options.build, "bench", "loadgen"), "--port", str(port),
                   "--seconds", str(seconds), *arguments]
        run = subprocess.run(command, stdout=subprocess.PIPE, timeout=seconds + 30, check=False,
                             preexec_fn=pinned(self.cpus))
        if run.returncode != 0:
            raise SystemExit(f"the load generator failed: {' '.join(command)}")
        return json.loads(run.stdout)

    def measure(self, workload, server, arguments):
        """Warms up, measures once, and files the sample under (workload, server)."""
        seconds = self.options.seconds
        self.load(server.port, arguments, seconds / 5)
        before = server.cpu_ns()
        sample = self.load(server.port, arguments, seconds)
        cpu_ns = server.cpu_ns() - before
        if sample["failed"] or not sample["requests"]:
            raise SystemExit(f"{server.name}, {workload}: {sample['failed']} of "
                             f"{sample['requests']} requests failed, the last with status "
                             f"{sample['last_bad_status']}; see the logs in {self.options.folder}")
        sample["cpu_us"] = cpu_ns / 1e3 / sample["requests"]
        sample["per_second"] = sample["requests"] / sample["seconds"]
        self.samples.setdefault((workload, server.name), []).append(sample)

    def rounds(self, workloads, servers):
        for number in range(self.options.rounds):
            order = servers if number % 2 == 0 else servers[::-1]
            for workload, arguments in workloads.items():
                for server in order:
                    self.measure(workload, server, arguments)
            print(f"  round {number + 1} of {self.options.rounds}", file=sys.stderr, flush=True)

    def median(self, workload, server, field):
        return statistics.median(s[field] for s in self.samples[workload, server])

    def ratio(self, workload, server, peer, field):
        """The median of the ratios within each round: what both suffered cancels out."""
        pairs = zip(self.samples[workload, server], self.samples[workload, peer])
        return statistics.median(ours[field] / theirs[field] for ours, theirs in pairs)


def split_cpus():
    """(cores of the proxy, cores of load and backend): apart if there is more than one core."""
    cpus = sorted(os.sched_getaffinity(0))
    return {cpus[0]}, set(cpus[1:] or cpus)


def measure_reads(options):
    proxy_cpus, other_cpus = split_cpus()
    bench = Bench(options, other_cpus)
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", other_cpus)
        has_log = options.peer_logs == "on"
        proxies = [
            servers.start_nginx(proxy_cpus, backend.port, has_log),
            servers.start_haproxy(proxy_cpus, backend.port, has_log),
            servers.start_tool("relay", proxy_cpus, backend.port),
            servers.start_recourse(proxy_cpus, backend.port),
        ]
        bench.rounds({name: arguments for name, (arguments, _) in READS.items()}, proxies)
    return bench


def measure_writes(options):
    """Durable writes, nothing pinned: the ledger's thread and the proxy's may run side by side."""
    all_cpus = os.sched_getaffinity(0)
    bench = Bench(options, all_cpus)
    with Servers(options.build, options.folder) as servers:
        bench.flush_us = measure_flush(options.folder)
        backend = servers.start_tool("backend", all_cpus)
        recourse = servers.start_recourse(all_cpus, backend.port)
        fresh = [*WRITE, "--fresh-keys", "SEED"]
        bench.rounds({clients: [*fresh, "--connections", str(clients)]
                      for clients in WRITE_CLIENTS}, [backend, recourse])
        beside = measure_reads_beside_writes(bench, recourse)
    return bench, beside


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
    """p99 of 1,000 reads/s, alone and beside 3,000 durable writes/s; medians over the rounds."""
    seconds = bench.options.seconds
    read = ["--path", "/1k", "--connections", "16", "--rate", "1000"]
    write = [*WRITE, "--connections", "64", "--rate", "3000", "--fresh-keys"]
    alone, beside = [], []
    for number in range(bench.options.rounds):
        alone.append(bench.load(server.port, read, seconds)["p99_us"])
        command = [os.path.join(bench.options.build, "bench", "loadgen"), "--port",
                   str(server.port), "--seconds", str(seconds + 1), *write,
                   str(bench.seed + 1000 + number)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as writer:
            time.sleep(0.5)  # the writes are under way before the reads begin
            beside.append(bench.load(server.port, read, seconds)["p99_us"])
            writer.wait(seconds + 30)
    return statistics.median(alone), statistics.median(beside)


def print_reads(bench):
    print(f"\nCPU per request, Recourse over each peer (medians of {bench.options.rounds} rounds; "
          "under 1 Recourse is cheaper)")
    print(f"{'':34}" + "".join(f"{'x ' + peer:>12}{'goal':>8}" for peer in PEERS))
    for workload, (_, goals) in READS.items():
        row = f"{workload:34}"
        for peer in PEERS:
            goal = f"<={goals[peer]:.2f}" if peer in goals else ""
            row += f"{bench.ratio(workload, 'recourse', peer, 'cpu_us'):12.2f}{goal:>8}"
        print(row)
    print(f"\n{'':34}{'':10}{'requests/s':>12}{'CPU us':>10}{'p50 us':>10}{'p99 us':>10}")
    for workload in READS:
        for server in (*PEERS, "recourse"):
            print(f"{workload:34}{server:10}" + numbers_of(bench, workload, server))


def numbers_of(bench, workload, server):
    return (f"{bench.median(workload, server, 'per_second'):12,.0f}"
            f"{bench.median(workload, server, 'cpu_us'):10.1f}"
            f"{bench.median(workload, server, 'p50_us'):10.0f}"
            f"{bench.median(workload, server, 'p99_us'):10.0f}")


def print_writes(bench, beside):
    print("\nDurable writes: two records per write, each on disk before the next step "
          f"(medians of {bench.options.rounds} rounds).\nOne flush of this disk takes "
          f"{bench.flush_us:.0f} us; one writer alone cannot write more than "
          f"{1e6 / bench.flush_us:,.0f} times a second.")
    print(f"{'clients':>10}{'writes/s':>12}{'CPU us':>10}{'p50 us':>10}{'p99 us':>10}"
          f"{'p50 in flushes':>18}{'backend alone p50 us':>24}")
    for clients in WRITE_CLIENTS:
        added = (bench.median(clients, "recourse", "p50_us")
                 - bench.median(clients, "backend", "p50_us"))
        print(f"{clients:10}" + numbers_of(bench, clients, "recourse")
              + f"{added / bench.flush_us:18.1f}"
              + f"{bench.median(clients, 'backend', 'p50_us'):24.0f}")
    alone, together = beside
    print(f"\np99 of 1,000 reads/s: {alone:.0f} us alone, {together:.0f} us beside 3,000 durable "
          f"writes/s: x {together / alone:.2f} (goal <=1.30)")


def print_undos(undos):
    print("\nUndos of broken flows, each two commits and a request over a connection of its own")
    for shape, rates in undos.items():
        print(f"{shape:34}{statistics.median(rates):12,.0f} undos/s "
              f"(from {min(rates):,.0f} to {max(rates):,.0f})")


def print_machine():
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    print(f"{model}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}")
    for command in (["nginx", "-v"], ["haproxy", "-v"]):
        run = subprocess.run([find_program(command[0]), *command[1:]], text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(run.stdout.splitlines()[0])


def run_micro(options):
    program = os.path.join(options.build, "bench", "micro_bench")
    if os.path.exists(program):
        print("\nParts of a request, in the process", flush=True)
        subprocess.run([program, "--benchmark_color=false", "--benchmark_min_time=0.2"],
                       timeout=300, check=False, stderr=subprocess.DEVNULL)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/bench", help="build folder of the bench preset")
    parser.add_argument("--quick", action="store_true", help="3 rounds of half a second")
    parser.add_argument("--rounds", type=int, help="default 7; 3 with --quick")
    parser.add_argument("--seconds", type=float, help="per sample; default 1.5; 0.5 with --quick")
    parser.add_argument("--only", choices=["reads", "writes", "undos", "micro"])
    parser.add_argument("--peer-logs", choices=["on", "off"], default="on",
                        help="access logs of nginx and HAProxy (ours is always on)")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.seconds = options.seconds or (0.5 if options.quick else 1.5)
    options.build = os.path.abspath(options.build)
    # Under build/, so that the ledger lies on a real disk and not on a memory file system.
    options.folder = os.path.join(options.build, "run")
    return options


def main():
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print_machine()
    results = {}
    if options.only in (None, "reads"):
        reads = measure_reads(options)
        print_reads(reads)
        results["reads"] = {f"{w} / {s}": v for (w, s), v in reads.samples.items()}
    if options.only in (None, "writes"):
        writes, beside = measure_writes(options)
        print_writes(writes, beside)
        results["flush_us"] = writes.flush_us
        results["writes"] = {f"{w} / {s}": v for (w, s), v in writes.samples.items()}
        results["read_p99_us_alone_and_beside_writes"] = beside
    if options.only in (None, "undos"):
        results["undos_per_second"] = measure_undos(options)
        print_undos(results["undos_per_second"])
    if options.only in (None, "micro"):
        run_micro(options)
    path = os.path.join(options.build, "results.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    print(f"\nevery sample: {os.path.relpath(path)}")


if __name__ == "__main__":
    main()
