"""A ledger in PostgreSQL (S1 to S4): its lane alone beside plain libpq, the whole proxy beside
Restate, a repeat at another pod, and what idle pods cost.

One server of PostgreSQL serves all that need one, in turn. Plain libpq makes a transaction of each
INSERT and each UPDATE, over a connection for each caller.
"""

import os
import subprocess
import time

import peers
from reads import head_of, numbers_of
from rounds import Bench, figure
from servers import Recourse, Servers
from writes import FRESH, WRITE

CALLERS = (1, 16, 64, 256)
# Writes per second, over plain libpq's and over Restate's, at so many callers.
LANE_GOALS = {1: 0.9, 16: 2.5, 64: 4, 256: 5}
PROXY_GOALS = {1: 3.5, 16: 5, 64: 5}
IDLE_PODS, IDLE_SECONDS, IDLE_GOAL_PODS = 64, 30, 1_000
REPEATS = "repeats at another pod, 1 client"


class Pod(Recourse):
    """A pod and its database, whose CPU counts as its own."""

    def __init__(self, server, database):
        super().__init__(server.name, server.port, server.process)
        self.probes, self.database = server.probes, database

    def cpu_ns(self):
        return self.cpu_alone_ns() + self.database.cpu_alone_ns()


def run(options, report):
    cpus = os.sched_getaffinity(0)
    bench = Bench(options, cpus)
    with Servers(options.build, options.folder) as servers:
        database, sockets = peers.start_database(servers)
        urls = [made_ledger(servers, sockets, name) for name in ("lane", "pods")]
        lane = peers.client_of(servers, database, "lane", "lane_load", urls[0], "1")
        plain = start_plain(servers, database, sockets, "libpq", 0)
        bench.rounds({name_of(callers): words(callers) for callers in CALLERS}, [lane, plain],
                     settles=True)
        round_trips(bench, lane, report)
        backend = servers.start_tool("backend", cpus)
        pods = [start_pod(servers, lane, cpus, backend.port, urls[1], name)
                for name in ("pod", "other-pod")]
        engines = [pods[0], start_plain(servers, database, sockets, "postgres", backend.port),
                   peers.start_restate(servers, backend.port)]
        bench.rounds({f"writes, {clients} clients": [*WRITE, *FRESH, "--connections", str(clients)]
                      for clients in PROXY_GOALS}, [backend, *filter(None, engines)], settles=True)
        bench.measure("the call", pods[0], [*WRITE, "--connections", "1"], 0.5)
        bench.rounds({REPEATS: [*WRITE, "--connections", "1"],
                      "reads, 1 client": ["--path", "/1k", "--connections", "1"]}, [pods[1]])
        report.data["fleet idle"] = measure_idle(servers, database, urls[0], lane)
    print_all(bench)
    judge(bench, report)
    report.data["fleet"] = bench.data()


def made_ledger(servers, sockets, name):
    """The address of a database with the tables of a ledger."""
    account = ["-h", sockets, "-U", peers.POSTGRES_USER]
    subprocess.run([f"{peers.postgres_programs()}/createdb", *account, name], check=True)
    url = f"postgres://{peers.POSTGRES_USER}@{sockets.replace('/', '%2F')}/{name}"
    subprocess.run([os.path.join(servers.build, "recourse"), "ledger", "migrate", "--ledger", url],
                   check=True, stdout=subprocess.DEVNULL)
    return url


def start_plain(servers, database, sockets, name, backend):
    account = f"host={sockets} user={peers.POSTGRES_USER} dbname=postgres"
    return peers.client_of(servers, database, name, "pg_peer", account, str(backend), "128")


def start_pod(servers, lane, cpus, backend, url, name):
    secrets = {"install-secret": "5e" * 32 + "\n", "ledger-key": new_key(servers)}
    arguments = ["--ledger", url]
    for flag, text in secrets.items():
        path = os.path.join(servers.folder, flag)
        if not os.path.exists(path):
            file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(file, text.encode())
            os.close(file)
        arguments += [f"--{flag}-file", path]
    server = servers.start_recourse(cpus, backend, name=name, extra=arguments,
                                    more_policy="ledger: { group: bench/pods }\n")
    return Pod(server, lane)


def new_key(servers):
    command = [os.path.join(servers.build, "recourse"), "ledger", "new-key"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def name_of(callers):
    return f"begin and outcome, {callers} callers"


def words(callers):
    return ["--connections", str(callers), "--body", "1024"]


def round_trips(bench, lane, report):
    """One after the other, on a connection of its own: microseconds each."""
    found = [lane.load(bench, words(0), 0.5)["p50_us"] for _ in range(bench.options.rounds)]
    report.data["fleet round trip us"] = found


def measure_idle(servers, database, url, lane):
    """Microseconds of the database's CPU a second, with idle pods and without."""
    found = {}
    for pods in (0, IDLE_PODS):
        client = peers.client_of(servers, database, "idle", "lane_load", url, str(pods or 1))
        time.sleep(2)  # they have begun
        begun, since = lane.cpu_alone_ns(), time.monotonic()
        time.sleep(IDLE_SECONDS)  # how much that costs is the subject
        found[pods] = (lane.cpu_alone_ns() - begun) / 1e3 / (time.monotonic() - since)
        client.helpers[0].stdin.close()
        client.helpers[0].wait()
    return found


def judge(bench, report):
    def ratio(workload, ours, theirs, field="per_second"):
        return bench.ratio(workload, ours, theirs, field)

    measured = {server for _, server in bench.samples}
    for callers, limit in LANE_GOALS.items():
        report.goal("S1", f"lane, {callers} callers / plain libpq",
                    ratio(name_of(callers), "lane", "libpq"), limit, at_least=True)
    report.goal("S1", "lane's CPU per write at 64 callers / plain libpq",
                ratio(name_of(64), "lane", "libpq", "cpu_us"), 0.15)
    if "restate" in measured:
        for clients, limit in PROXY_GOALS.items():
            report.goal("S2", f"pod's writes/s at {clients} clients / restate",
                        ratio(f"writes, {clients} clients", "pod", "restate"), limit,
                        at_least=True)
    report.goal("S2", "pod's and database's CPU per write at 64 clients / PostgreSQL alone",
                ratio("writes, 64 clients", "pod", "postgres", "cpu_us"), 0.15)
    report.goal("S3", "one writer's p50 / PostgreSQL alone",
                ratio("writes, 1 clients", "pod", "postgres", "p50_us"), 1.25)
    trip = figure(report.data["fleet round trip us"]).median
    added = figure((repeat["p50_us"] - read["p50_us"]) / trip for repeat, read in
                   zip(bench.samples[REPEATS, "other-pod"],
                       bench.samples["reads, 1 client", "other-pod"]))
    report.goal("S3", "a repeat at another pod over a read, in round trips", added, 1.2)
    idle = report.data["fleet idle"]
    share = (idle[IDLE_PODS] - idle[0]) / 1e6 / IDLE_PODS * IDLE_GOAL_PODS
    report.goal("S4", f"{IDLE_GOAL_PODS:,} idle pods: share of a core of the database, from "
                f"{IDLE_PODS}", max(share, 0.0), 0.01, "")


def print_all(bench):
    print(f"\n{'':32}{'':10}{head_of('calls/s')}")
    for workload, server in bench.samples:
        print(f"{workload:32}{server:10}{numbers_of(bench, workload, server)}")
