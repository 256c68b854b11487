"""The programs of a measurement: how each starts, where it listens, and the CPU time it took.

Everything listens on 127.0.0.1 and is ended by its process id when the `Servers` block is left.
"""

import glob
import json
import os
import shutil
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS_MAX = 60  # some run inside valgrind
STOP_SECONDS_MAX = 30


class Server:
    """One running program: its name, its port and its process."""

    def __init__(self, name, port, process):
        self.name, self.port, self.process = name, port, process

    def cpu_ns(self):
        """CPU time of the program and its children so far, in nanoseconds."""
        total = 0
        for pid in [self.process.pid, *children_of(self.process.pid)]:
            for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
                with open(path, encoding="ascii") as file:
                    total += int(file.read().split()[0])
        return total


class Servers:
    """Starts programs inside a `with` block and ends all of them with it."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.running = []
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self.running):
            server.process.terminate()
        for server in reversed(self.running):
            try:
                server.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()

    def start_tool(self, name, cpus, *arguments):
        """Starts one of our own programs; it prints its port."""
        program = os.path.join(self.build, "bench", name)
        process = subprocess.Popen([program, "0", *map(str, arguments)], stdout=subprocess.PIPE,
                                   text=True, preexec_fn=pinned(cpus))
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{program} did not start")
        return self.add(Server(name, int(line), process))

    def start_nginx(self, cpus, backend, has_log):
        port = free_port()
        log = f"{self.folder}/nginx-access.log line buffer=64k flush=1s" if has_log else "off"
        config = self.render("nginx.conf", PORT=port, BACKEND=backend, NGINX_LOG=log)
        command = [find_program("nginx"), "-c", config, "-p", self.folder,
                   "-e", f"{self.folder}/nginx-error.log"]
        return self.start_peer("nginx", command, port, cpus)

    def start_haproxy(self, cpus, backend, has_log):
        port = free_port()
        log = "log stdout format raw local0 info" if has_log else "# no log"
        config = self.render("haproxy.cfg", PORT=port, BACKEND=backend, HAPROXY_LOG=log)
        command = [find_program("haproxy"), "-db", "-f", config]
        return self.start_peer("haproxy", command, port, cpus)

    def start_recourse(self, cpus, backend, policy="recourse.yaml", program=(), extra=()):
        """Starts the proxy of the build or another `program` of several words, with `extra`."""
        policy = self.render(policy, BACKEND=backend)
        ports_file = os.path.join(self.folder, "ports.json")
        program = program or [os.path.join(self.build, "recourse")]
        command = [*program, "run", "--policy", policy,
                   "--data", os.path.join(self.folder, "data"), "--unsafe-fs",
                   "--listen", "127.0.0.1:0",
                   "--admin", "127.0.0.1:0", "--probes", "127.0.0.1:0", "--ports-file", ports_file,
                   "--access-log", os.path.join(self.folder, "access.log"), *extra]
        with open(os.path.join(self.folder, "recourse.log"), "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       env=own_environment(), preexec_fn=pinned(cpus))
        server = self.add(Server("recourse", 0, process))
        self.wait_until(server, lambda: os.path.exists(ports_file))
        with open(ports_file, encoding="utf-8") as file:
            ports = json.load(file)
        server.port, server.probes = ports["listen"], ports["probes"]
        return server

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
            time.sleep(0.02)

    def render(self, name, **values):
        with open(os.path.join(HERE, "conf", name), encoding="utf-8") as file:
            text = file.read()
        for key, value in {"DIR": self.folder, **values}.items():
            text = text.replace(f"@{key}@", str(value))
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
