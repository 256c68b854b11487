"""What costs though nothing happens: starts, waiting connections, held requests, sizes."""

import os
import statistics
import subprocess
import tempfile
import time

from rounds import split_cpus
from servers import CONNECTIONS_MAX, HERE, Servers, pinned

CROWD = min(10_000, CONNECTIONS_MAX - 20)
FEWER = (1, 64, 1_000)
HELD = 1_000
HELD_POLICY = """\
  held.write:
    match: POST bench /hang
    effect: write
    identity: [ body#/order_id ]
    undo: none
    reason: The backend of the benchmark never answers.
  held.approval:
    match: POST bench /asked
    effect: write
    identity: [ body#/order_id ]
    undo: none
    reason: Nobody approves.
    approval: { by: [ nobody ], hold: 10m }
quotas: { default: { pending_approvals: 1000 } }
"""
BODY = ["--method", "POST", "--body", "1024", "--fresh-keys", "1"]
# name: (arguments of the load generator, the gauge that says how many are held)
HOLDERS = {
    "read that the backend holds": (["--path", "/hang"], 'recourse_connections{side="backend"}'),
    "write that the backend holds": (["--path", "/hang", *BODY],
                                     'recourse_connections{side="backend"}'),
    "write that waits for a human": (["--path", "/asked", *BODY], "recourse_approvals_pending"),
}
IDLE_SECONDS = 10  # of a program, which does some things once in so long
SETTLE_SECONDS_MAX = BURST_SECONDS = 20


def run(options, report):
    found = {"sizes": sizes(options), "starts": starts(options), "idle": idle(options, report),
             "held": held(options)}
    print("\nSizes: " + ", ".join(f"{name} {size / 1e6:,.1f} MB"
                                  for name, size in found["sizes"].items()))
    print(f"Start with an empty ledger until ready: {figures(found['starts'])} ms")
    print(f"\nIdle{'':26}{'memory MB':>12}{'CPU us/s':>12}"
          + "".join(f"{f'with {count:,}':>12}" for count in FEWER) +
          f"{f'with {CROWD:,} MB':>18}{'KB each':>10}{'CPU us/s':>12}{'all at once, most':>20}"
          f"{f'after {BURST_SECONDS} s':>12}")
    for name, row in found["idle"].items():
        print(f"{name:30}{row['alone'] / 1e6:12.1f}{row['alone_cpu']:12.0f}"
              + "".join(f"{memory / 1e6:12.1f}" for memory in row["fewer"].values()) +
              f"{row['crowd'] / 1e6:18.1f}{row['each'] / 1e3:10.2f}{row['crowd_cpu']:12.0f}"
              f"{row['burst'] / 1e6:20.1f}{row['after burst'] / 1e6:12.1f}")
    for name, each in found["held"].items():
        print(f"{name:30}{each / 1e3:10.1f} KB each, of {HELD:,}")
    report.data["growth"] = found


def figures(values):
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def sizes(options):
    """Bytes of the program as it is shipped, and of all files of the image."""
    binary, found = os.path.join(options.build, "recourse"), {}
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(HERE, "..", "helm", "image_root.sh")
        root = os.path.join(folder, "root")
        image = subprocess.run([script, binary, root], check=False, text=True, timeout=300,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if image.returncode == 0:
            found["image"] = size_of_tree(root)
            found["program in it"] = os.path.getsize(os.path.join(root, "usr/bin/recourse"))
        else:
            print(f"the image was not made: {image.stdout.strip()}")
    found["program with debug information"] = os.path.getsize(binary)
    return found


def size_of_tree(root):
    return sum(os.lstat(os.path.join(folder, name)).st_size
               for folder, _, names in os.walk(root) for name in names)


def starts(options):
    """Milliseconds from the start of the process until it is ready; the ledger is empty."""
    took = []
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", os.sched_getaffinity(0))
        for _ in range(max(3, options.rounds)):
            begin = time.monotonic()
            server = servers.start_recourse(os.sched_getaffinity(0), backend.port)
            took.append((time.monotonic() - begin) * 1e3)
            servers.stop(server)
    return took


def idle(options, report):
    """{program: memory and CPU without a connection, and with a crowd that does nothing}"""
    proxy_cpus, other_cpus = split_cpus()
    found = {}
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", other_cpus)
        for server in (servers.start_nginx(proxy_cpus, backend.port),
                       servers.start_haproxy(proxy_cpus, backend.port),
                       servers.start_recourse(proxy_cpus, backend.port)):
            row = {"alone": server.memory(), "alone_cpu": cpu_when_idle(server)}
            row["fewer"] = {}
            for count in FEWER:
                with Crowd(options, other_cpus, server.port, count, "idle", ["--path", "/1k"]):
                    row["fewer"][count] = settled_memory(server)
            with Crowd(options, other_cpus, server.port, CROWD, "idle", ["--path", "/1k"]):
                row["crowd"] = settled_memory(server)
                row["crowd_cpu"] = cpu_when_idle(server)
            everybody = ["--path", "/1k", "--at-once", str(CROWD)]
            with Crowd(options, other_cpus, server.port, CROWD, "idle", everybody):
                row["burst"], row["after burst"] = memory_after_burst(server)
            row["each"] = (row["crowd"] - row["alone"]) / CROWD
            found[server.name] = row
    report.goal("G1", f"memory with {CROWD:,} idle connections", found["recourse"]["crowd"] / 1e6,
                100, "MB")
    return found


def held(options):
    """Bytes per request that is waited for, by what holds it."""
    cpus, found = os.sched_getaffinity(0), {}
    for name, (arguments, gauge) in HOLDERS.items():
        with Servers(options.build, options.folder) as servers:
            backend = servers.start_tool("backend", cpus)
            server = servers.start_recourse(cpus, backend.port, more_policy=HELD_POLICY)
            before = server.memory()
            with Crowd(options, cpus, server.port, HELD, "held", arguments):
                servers.wait_until(server, lambda: server.metrics()[gauge] == HELD)
                found[name] = (settled_memory(server) - before) / HELD
    return found


class Crowd:
    """Connections that are held open as long as the block lasts."""

    def __init__(self, options, cpus, port, count, mode, arguments):
        self.command = [os.path.join(options.build, "bench", "loadgen"), "--port", str(port),
                        "--connections", str(count), "--mode", mode, *arguments]
        self.cpus = cpus

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, preexec_fn=pinned(self.cpus))
        if not self.process.stdout.readline():
            raise SystemExit(f"the load generator failed: {' '.join(self.command)}")

    def __exit__(self, *_):
        self.process.communicate()  # the end of its input is the end of it


def settled_memory(server):
    """The memory once it does not change any more."""
    deadline, last = time.monotonic() + SETTLE_SECONDS_MAX, 0
    while time.monotonic() < deadline:
        now = server.memory()
        if abs(now - last) < 0.001 * now:
            break
        last = now
        time.sleep(0.5)
    return now


def memory_after_burst(server):
    """(the most that was seen, what is left after a while)"""
    seen = []
    for _ in range(BURST_SECONDS * 2):
        seen.append(server.memory())
        time.sleep(0.5)
    return max(seen), seen[-1]


def cpu_when_idle(server):
    """Microseconds of CPU time per second."""
    before = server.cpu_ns()
    time.sleep(IDLE_SECONDS)
    return (server.cpu_ns() - before) / 1e3 / IDLE_SECONDS
