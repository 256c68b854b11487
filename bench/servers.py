"""The programs of a measurement: how each starts, where it listens, and the CPU time it took.

Everything listens on 127.0.0.1 and is ended by its process id when the `Servers` block is left.
"""

import contextlib
import glob
import http.client
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../tests/e2e"))

from support.ports import free_ports  # noqa: E402

START_SECONDS_MAX = 60  # some run inside valgrind
STOP_SECONDS_MAX = 30


def files_max():
    """Open files that each program may have: 65,536 where that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (65_536, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, hard)))
            return limit
        except (OSError, ValueError):
            continue
    return soft


# A proxy needs two files for each of them, and some of its own.
CONNECTIONS_MAX = min(12_000, (files_max() - 200) // 2)


class Server:
    """One running program: its name, its port, its process, and what has to run beside it."""

    ARGUMENTS = []  # of the load generator, whatever the workload is

    def __init__(self, name, port, process, helpers=()):
        self.name, self.port, self.process, self.helpers = name, port, process, list(helpers)

    @contextlib.contextmanager
    def warmed_up(self, bench, arguments, seconds):
        """Gives what measures for so long and returns what it found, while the load is on."""
        command = bench.command(self.port, [*arguments, *self.ARGUMENTS, "--warm-up",
                                            str(seconds / 5)], seconds)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=pinned(bench.cpus)) as load:
            def measured():
                load.stdin.write("\n")
                load.stdin.flush()
                return json.loads(load.stdout.readline() or self.fail_load(command))

            if load.stdout.readline() != "ready\n":
                self.fail_load(command)
            yield measured

    def fail_load(self, command):
        raise SystemExit(f"{self.name}: the load generator failed: {' '.join(command)}")

    def cpu_ns(self):
        """CPU time so far of the program, its children and its helpers, in nanoseconds."""
        return self.cpu_alone_ns() + sum(cpu_ns_of(helper.pid) for helper in self.helpers)

    def cpu_alone_ns(self):
        """The same without the helpers."""
        return sum(map(cpu_ns_of, [self.process.pid, *children_of(self.process.pid)]))

    def kernel_ns(self):
        """How much of cpu_ns() the kernel took, to the tick of its clock (10 ms)."""
        return sum(map(kernel_ns_of, self.pids()))

    def pids(self):
        """Of the program, its children and its helpers."""
        return [self.process.pid, *children_of(self.process.pid), *(h.pid for h in self.helpers)]

    def memory(self):
        """Resident bytes of the program, its children and its helpers."""
        return self.sum_of_memory({"Pss"})

    def memory_without_files(self):
        """The same without the pages of files, which the kernel takes back when it needs them."""
        return self.sum_of_memory({"Pss_Anon", "Pss_Shmem"})

    def resident(self):
        """(bytes now, at the most so far) of the process alone, pages of files included."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            words = dict(line.split(":", 1) for line in file)
        return tuple(int(words[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))

    def sum_of_memory(self, kinds):
        return sum(memory_of(pid, kinds) for pid in self.pids())

    def counters(self):
        """What the program itself counts, for a sample to show by how much it grew."""
        return {}


class Recourse(Server):
    """One Recourse, which also has a port for probes."""

    probes = 0

    def is_ready(self):
        try:
            return self.get("/ready")[0] == 200
        except OSError:
            return False

    def counters(self):
        metrics = self.metrics()
        return {"rows": metrics["recourse_store_rows_total"],
                "commits": metrics["recourse_store_commit_duration_seconds_count"],
                "commit_ms": 1e3 * metrics["recourse_store_commit_duration_seconds_sum"]}

    def metrics(self):
        """{name with its labels: value}"""
        lines = (line.rpartition(" ") for line in self.get("/metrics")[1].splitlines())
        return {name: float(value) for name, _, value in lines if not name.startswith("#")}

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.probes, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


class Servers:
    """Starts programs inside a `with` block and ends all of them with it."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.running, self.endings = [], []
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self.running):
            server.process.terminate()
        for server in reversed(self.running):
            wait_for_end(server.process)
        for ending in self.endings:
            ending()

    def stop(self, server, is_killed=False):
        """Ends one program before the others."""
        if is_killed:
            server.process.kill()
        else:
            server.process.terminate()
        wait_for_end(server.process)
        self.running.remove(server)

    def at_end(self, ending):
        """Something to be called when all programs have ended."""
        self.endings.append(ending)

    def start_tool(self, name, cpus, *arguments):
        """Starts one of our own programs; it prints its port."""
        program = os.path.join(self.build, "bench", name)
        process = subprocess.Popen([program, "0", *map(str, arguments)], stdout=subprocess.PIPE,
                                   text=True, preexec_fn=pinned(cpus))
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{program} did not start")
        return self.add(Server(name, int(line), process))

    def start_nginx(self, cpus, backend, has_log=True, threads=1):
        port = free_ports()
        name = f"nginx-{threads}" if threads > 1 else "nginx"
        log = f"{self.folder}/{name}-access.log line buffer=64k flush=1s" if has_log else "off"
        config = self.render("nginx.conf", f"{name}.conf", PORT=port, BACKEND=backend, NAME=name,
                             WORKERS=threads, NGINX_LOG=log,
                             CONNECTIONS=2 * CONNECTIONS_MAX)
        command = [find_program("nginx"), "-c", config, "-p", self.folder,
                   "-e", f"{self.folder}/{name}-error.log"]
        return self.start_peer(name, command, port, cpus)

    def start_haproxy(self, cpus, backend, has_log=True, threads=1, more="# as it comes"):
        port = free_ports()
        name = f"haproxy-{threads}" if threads > 1 else "haproxy"
        log = "log stdout format raw local0 info" if has_log else "# no log"
        config = self.render("haproxy.cfg", f"{name}.cfg", PORT=port, BACKEND=backend,
                             THREADS=threads, HAPROXY_LOG=log, CONNECTIONS=CONNECTIONS_MAX,
                             MORE=more)
        command = [find_program("haproxy"), "-db", "-f", config]
        return self.start_peer(name, command, port, cpus)

    def start_recourse(self, cpus, backend, policy="recourse.yaml", program=(), extra=(),
                       name="recourse", more_policy=""):
        """Starts the proxy of the build or another `program` of several words, with `extra`.

        Its files are named after it, so a second start under one name finds the same ledger.
        """
        policy = self.render(policy, f"{name}.yaml", BACKEND=backend)
        with open(policy, "a", encoding="utf-8") as file:
            file.write(more_policy)
        ports_file = os.path.join(self.folder, f"{name}-ports.json")
        program = program or [os.path.join(self.build, "recourse")]
        if os.path.exists(ports_file):
            os.remove(ports_file)
        command = [*program, "run", "--policy", policy,
                   "--data", self.data_of(name), "--unsafe-fs",
                   "--listen", "127.0.0.1:0", "--drain-timeout", "1s",
                   "--admin", "127.0.0.1:0", "--probes", "127.0.0.1:0", "--ports-file", ports_file,
                   "--access-log", os.path.join(self.folder, f"{name}-access.log"), *extra]
        with open(os.path.join(self.folder, f"{name}.log"), "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       env=own_environment(), preexec_fn=pinned(cpus))
        server = self.add(Recourse(name, 0, process))
        self.wait_until(server, lambda: os.path.exists(ports_file))
        with open(ports_file, encoding="utf-8") as file:
            ports = json.load(file)
        server.port, server.probes = ports["listen"], ports["probes"]
        self.wait_until(server, server.is_ready)
        return server

    def data_of(self, name):
        """Where a Recourse of that name has its ledger."""
        return os.path.join(self.folder, f"{name}-data")

    def start_peer(self, name, command, port, cpus):
        with open(os.path.join(self.folder, f"{name}.log"), "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       preexec_fn=pinned(cpus))
        server = self.add(Server(name, port, process))
        self.wait_until(server, lambda: can_connect(port))
        return server

    def add(self, server):
        self.running.append(server)
        return server

    def wait_until(self, server, is_true):
        deadline = time.monotonic() + START_SECONDS_MAX
        while not is_true():
            if server.process.poll() is not None or time.monotonic() > deadline:
                with open(os.path.join(self.folder, f"{server.name}.log"), encoding="utf-8",
                          errors="replace") as file:
                    raise SystemExit(f"{server.name} did not start:\n{file.read()[-2000:]}")
            time.sleep(0.002)

    def render(self, name, to=None, **values):
        """Fills in the template and returns the path of the result."""
        with open(os.path.join(HERE, "conf", name), encoding="utf-8") as file:
            text = file.read()
        for key, value in {"DIR": self.folder, **values}.items():
            text = text.replace(f"@{key}@", str(value))
        path = os.path.join(self.folder, to or name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def wait_for_end(process):
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_ns_of(pid):
    """The CPU clock of a process, threads that have ended included; 0 when it is gone."""
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)  # what clock_getcpuclockid(3) returns
    except OSError:
        return 0


def kernel_ns_of(pid):
    """CPU time of a process in the kernel; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[12])
        return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0


def memory_of(pid, kinds):
    """Resident bytes, with what is shared counted in part; 0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = (line.split() for line in file)
            return sum(int(words[1]) * 1024 for words in lines if words[0].rstrip(":") in kinds)
    except OSError:
        return 0


def pinned(cpus):
    """What a child runs first: stay on these cores."""
    return lambda: os.sched_setaffinity(0, cpus)


def own_environment():
    """The caller's RECOURSE_* settings must not change what is measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RECOURSE_")}


def find_program(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if path is None:
        raise SystemExit(f"{name} is not installed; ./dev bench installs it")
    return path


def can_connect(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def children_of(pid):
    children = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                after_name = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended in between
        if int(after_name[1]) == pid:
            children.append(int(path.split("/")[2]))
    return children
