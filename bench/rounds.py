"""Rounds of a measurement: programs measured in turn, every sample kept, medians and ratios."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections import namedtuple

from servers import pinned

# The median of the rounds, with the lowest and the highest of them.
Figure = namedtuple("Figure", "median low high")
SETTLE_SECONDS_MAX, SETTLE_STEP_SECONDS = 2, 0.2
QUIET_SHARE = 0.05  # of a core: what engines that wait for work take together


def figure(values):
    values = list(values)
    return Figure(statistics.median(values), min(values), max(values))


def flushes_of_disk(folder):
    """Flushes that the disk under the folder has completed, whoever asked; None: not counted."""
    device = os.stat(folder).st_dev
    disk = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if os.path.exists(f"{disk}/partition"):
        disk = os.path.dirname(os.path.realpath(disk))  # a partition does not count them
    try:
        with open(f"{disk}/stat", encoding="ascii") as file:
            return int(file.read().split()[15])
    except (OSError, IndexError):
        return None


def settle(servers):
    """Until what was written is on the disk, and the servers do next to nothing; bounded."""
    os.sync()
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while time.monotonic() < deadline:
        before = sum(server.cpu_ns() for server in servers)
        time.sleep(SETTLE_STEP_SECONDS)
        took = sum(server.cpu_ns() for server in servers) - before
        if took < QUIET_SHARE * SETTLE_STEP_SECONDS * 1e9:
            break


def split_cpus():
    """(cores of the proxy, cores of load and backend): apart if there is more than one core."""
    cpus = sorted(os.sched_getaffinity(0))
    return {cpus[0]}, set(cpus[1:] or cpus)


class Samples:
    """What was measured, by (workload, server), a sample per round; and what is told of it."""

    def __init__(self, data=()):
        """`data`: what data() gave."""
        self.samples = {tuple(name.rsplit(" / ", 1)): found for name, found in dict(data).items()}

    def figure(self, workload, server, field):
        return figure(s[field] for s in self.samples[workload, server])

    def median(self, workload, server, field):
        return self.figure(workload, server, field).median

    def ratio(self, workload, server, peer, field):
        """Of the ratios within each round: what both suffered cancels out."""
        pairs = zip(self.samples[workload, server], self.samples[workload, peer])
        return figure(ours[field] / theirs[field] for ours, theirs in pairs)

    def in_all(self, workload, server, field, per):
        """So many of one thing for each of another, over all rounds; None: not counted."""
        samples = self.samples[workload, server]
        if not all(field in sample and per in sample for sample in samples):
            return None
        total = sum(sample[per] for sample in samples)
        return sum(sample[field] for sample in samples) / total if total else None

    def data(self):
        """Every sample, with names that JSON can hold."""
        return {f"{workload} / {server}": samples
                for (workload, server), samples in self.samples.items()}


class Bench(Samples):
    """Measures one server at a time and keeps every sample."""

    def __init__(self, options, cpus):
        super().__init__()
        self.options, self.cpus = options, cpus
        self.seed = int(time.time()) & 0xFFFFFF  # fresh keys over runs on one ledger, too

    def command(self, port, arguments, seconds):
        """The command line of the load generator; SEED stands for a number not used before."""
        if "SEED" in arguments:
            self.seed += 1
            arguments = [str(self.seed) if a == "SEED" else a for a in arguments]
        return [os.path.join(self.options.build, "bench", "loadgen"), "--port", str(port),
                "--seconds", str(seconds), *arguments]

    def load(self, server, arguments, seconds):
        """One run of the load generator against the server; returns what it printed."""
        command = self.command(server.port, [*arguments, *server.ARGUMENTS], seconds)
        run = subprocess.run(command, stdout=subprocess.PIPE, timeout=seconds + 60, check=False,
                             preexec_fn=pinned(self.cpus))
        if run.returncode != 0:
            server.fail_load(command)
        return json.loads(run.stdout)

    def measure(self, workload, server, arguments, seconds):
        """Warms up, measures once, and files the sample; opening connections is no part of it."""
        with server.warmed_up(self, arguments, seconds) as measured:
            counted, flushed = server.counters(), flushes_of_disk(self.options.folder)
            before, before_alone = server.cpu_ns(), server.cpu_alone_ns()
            before_kernel = server.kernel_ns()
            sample = measured()
            cpu_ns, alone_ns = server.cpu_ns() - before, server.cpu_alone_ns() - before_alone
            kernel_ns = server.kernel_ns() - before_kernel
            if flushed is not None:
                sample["flushes"] = flushes_of_disk(self.options.folder) - flushed
        if sample["failed"] or not sample["requests"]:
            raise SystemExit(f"{server.name}, {workload}: {sample['failed']} of "
                             f"{sample['requests']} requests failed, the last with status "
                             f"{sample['last_bad_status']}; see the logs in {self.options.folder}")
        sample.update({name: value - counted.get(name, 0)
                       for name, value in server.counters().items()})
        sample["cpu_us"] = cpu_ns / 1e3 / sample["requests"]
        sample["kernel_us"] = kernel_ns / 1e3 / sample["requests"]
        sample["cpu_alone_us"] = alone_ns / 1e3 / sample["requests"]
        sample["per_second"] = sample["requests"] / sample["seconds"]
        self.samples.setdefault((workload, server.name), []).append(sample)

    def rounds(self, workloads, servers, seconds=None, settles=False):
        """{workload: arguments} times servers, in rounds of which every other one is reversed.

        `settles`: what the server before has left to do is waited for, on the disk and beside it.
        """
        seconds = seconds or self.options.seconds
        for number in range(self.options.rounds):
            order = servers if number % 2 == 0 else servers[::-1]
            for workload, arguments in workloads.items():
                for server in order:
                    if settles:
                        settle(servers)
                    self.measure(workload, server, arguments, seconds)
            print(f"  round {number + 1} of {self.options.rounds}", file=sys.stderr, flush=True)
