"""The durable engines that writes are measured beside: Restate, and PostgreSQL under a client.

Each is one `Server`, whose CPU is that of all its parts; `cpu_alone_ns` leaves out the part that an
application brings along (the worker of Restate, the client of PostgreSQL).
"""

import contextlib
import glob
import http.client
import json
import os
import platform
import pwd
import shutil
import subprocess
import tempfile

from servers import HERE, Server, free_ports

MODULES = os.path.join(HERE, "node_modules")
ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "unknown")
RESTATE = f"{MODULES}/@restatedev/restate-server-linux-{ARCH}/bin/restate-server"
NODE = f"{MODULES}/node-linux-{ARCH}/bin/node"
POSTGRES_USER = "postgres"
POSTGRES_CLIENTS_MAX = 256


class Restate(Server):
    """The engine and a worker of its SDK; clients call the ingress with an idempotency key."""

    ARGUMENTS = ["--path", "/orders/create", "--key-header", "idempotency-key"]


class Postgres(Server):
    """The database and `pg_peer`, which is load generator and application in one."""

    @contextlib.contextmanager
    def warmed_up(self, bench, arguments, seconds):
        self.load(bench, arguments, seconds / 5)
        yield lambda: self.load(bench, arguments, seconds)

    def load(self, bench, arguments, seconds):
        words = dict(zip(arguments[::2], arguments[1::2]))
        bench.seed += 1
        client = self.helpers[0]
        client.stdin.write(f"{words['--connections']} {seconds} {words['--body']} {bench.seed}\n")
        client.stdin.flush()
        line = client.stdout.readline()
        if not line:
            raise SystemExit(f"the client of {self.name} ended; its message is above")
        return json.loads(line)


def start_restate(servers, backend):
    """None when it is not installed."""
    if not os.path.exists(RESTATE) or not os.path.exists(NODE):
        return None
    ingress = free_ports(3)
    admin, fabric = ingress + 1, ingress + 2
    config = servers.render("restate.toml", INGRESS=ingress, ADMIN=admin, FABRIC=fabric,
                            PARTITIONS=max(1, os.cpu_count() // 2))
    worker = subprocess.Popen([NODE, os.path.join(HERE, "restate_worker.mjs"), str(backend)],
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    servers.add(Server("restate's worker", 0, worker))
    worker_port = worker.stdout.readline().strip()
    with open(os.path.join(servers.folder, "restate.log"), "wb") as log:
        engine = subprocess.Popen([RESTATE, "--no-logo", "--config-file", config], stdout=log,
                                  stderr=log, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "DO_NOT_TRACK": "1"})
    server = servers.add(Restate("restate", ingress, engine, [worker]))
    servers.wait_until(server, lambda: answers(admin, "GET", "/health"))
    deployment = json.dumps({"uri": f"http://127.0.0.1:{worker_port}"})
    servers.wait_until(server, lambda: answers(admin, "POST", "/deployments", deployment))
    servers.wait_until(server, lambda: answers(ingress, "POST", "/orders/create", "{}"))
    return server


def start_postgres(servers, backend):
    """None when it is not installed."""
    if not postgres_programs() or not os.path.exists(f"{servers.build}/bench/pg_peer"):
        return None
    database, sockets = start_database(servers)
    return client_of(servers, database, "postgres", "pg_peer",
                     f"host={sockets} user={POSTGRES_USER} dbname=postgres", str(backend),
                     str(POSTGRES_CLIENTS_MAX))


def start_database(servers):
    """A server of PostgreSQL, and the folder of its sockets."""
    programs = postgres_programs()
    data, sockets = os.path.join(servers.folder, "postgres"), tempfile.mkdtemp()
    servers.at_end(lambda: shutil.rmtree(sockets, ignore_errors=True))
    config = servers.render("postgresql.conf", SOCKETS=sockets)
    user = postgres_user(servers.folder)
    os.mkdir(data)
    if user:
        for folder in (data, sockets):
            os.chown(folder, user.pw_uid, user.pw_gid)
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    subprocess.run([f"{programs}/initdb", "--auth=trust", "--no-locale", "--encoding=UTF8",
                    f"--username={POSTGRES_USER}", "-D", data], check=True, timeout=120, cwd="/",
                   stdout=subprocess.DEVNULL, **identity)
    with open(os.path.join(servers.folder, "postgres.log"), "wb") as log:
        process = subprocess.Popen(
            [f"{programs}/postgres", "-D", data, "-c", f"config_file={config}"], stdout=log,
            stderr=log, stdin=subprocess.DEVNULL, cwd="/", **identity)
    server = servers.add(Server("postgres", 0, process))
    is_ready = [f"{programs}/pg_isready", "-q", "-h", sockets, "-U", POSTGRES_USER]
    servers.wait_until(server, lambda: subprocess.run(is_ready, check=False).returncode == 0)
    return process, sockets


def client_of(servers, database, name, program, *arguments):
    """A load generator of ours at that server, as one with it."""
    client = subprocess.Popen([os.path.join(servers.build, "bench", program), *arguments],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    servers.add(Server(f"{program} of {name}", 0, client))
    if client.stdout.readline() != "ready\n":
        raise SystemExit(f"{program} did not start; its message is above")
    return Postgres(name, 0, database, [client])


def postgres_user(folder):
    """PostgreSQL refuses root. Everybody else runs it as themselves (None)."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam(POSTGRES_USER)
    while folder != "/":
        if not os.stat(folder).st_mode & 0o001:
            raise SystemExit(f"PostgreSQL does not run as root, and its user {POSTGRES_USER} "
                             f"cannot enter {folder}: allow it with chmod o+x, or build elsewhere")
        folder = os.path.dirname(folder)
    return user


def versions():
    """A line for each of them, or what is missing."""
    found = []
    for name, command in (("Restate", [RESTATE, "--version"]), ("Node", [NODE, "--version"]),
                          ("PostgreSQL", [f"{postgres_programs()}/postgres", "--version"])):
        if os.path.exists(command[0]):
            run = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE)
            line = run.stdout.splitlines()[0]
            found.append(line if name.lower() in line.lower() else f"{name} {line}")
        else:
            found.append(f"{name} is not installed: it is left out")
    return found


def postgres_programs():
    """The folder of the newest version that Debian has installed."""
    folders = glob.glob("/usr/lib/postgresql/*/bin")
    return max(folders, key=lambda path: int(path.split("/")[-2]), default="")


def answers(port, method, path, body=None):
    """Whether a request is answered with success."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status < 300
    except OSError:
        return False
    finally:
        connection.close()
