"""A ledger in PostgreSQL (S1 to S6): its lane alone beside plain libpq, also once it has grown, the
whole proxy beside Restate, a repeat at another pod, what idle pods cost, and take-over.

One server of PostgreSQL serves all that need one, in turn. Plain libpq writes the same rows, by a
statement and a transaction for each begin and each outcome, over a connection for each caller.
"""

import contextlib
import os
import subprocess
import time

import peers
from growth import BODY, HELD_POLICY, Crowd
from reads import head_of, numbers_of
from rounds import Bench, figure
from servers import Recourse, Servers
from writes import FRESH, WRITE

CALLERS = (1, 16, 64, 256)
# Writes per second, over plain libpq's and over Restate's, at so many callers.
LANE_GOALS = {1: 0.9, 16: 2.5, 64: 4, 256: 5}
PROXY_GOALS = {1: 3.5, 16: 5, 64: 5}
IDLE_PODS, IDLE_SECONDS, IDLE_GOAL_PODS = 64, 30, 1_000
REPEATS, GROWN = "repeats at another pod, 1 client", "begin and outcome, grown, 64 callers"
GROWTH_GOAL_OPERATIONS, FILL_CALLERS, FILL_SECONDS = 10_000_000, 256, 5
OPEN_CALLS, TAKE_OVER_SECONDS_MAX = 16, 60
# Seconds until what a dead pod was sending is known to be unknown.
TAKE_OVER_GOALS = {"kill -9 of a pod": 9, "kill -9 and a start in its place": 1}


class Pod(Recourse):
    """A pod and its database, whose CPU counts as its own."""

    def __init__(self, server, database):
        super().__init__(server.name, server.port, server.process)
        self.probes, self.database = server.probes, database

    def cpu_ns(self):
        return self.cpu_alone_ns() + self.database.cpu_alone_ns()


class Database:
    """The server, and what it knows."""

    def __init__(self, servers):
        self.servers = servers
        self.process, self.sockets = peers.start_database(servers)
        self.account = ["-h", self.sockets, "-U", peers.POSTGRES_USER]

    def ledger(self, name):
        """The address of a new database with the tables of a ledger."""
        subprocess.run([f"{peers.postgres_programs()}/createdb", *self.account, name], check=True)
        url = f"postgres://{peers.POSTGRES_USER}@{self.sockets.replace('/', '%2F')}/{name}"
        subprocess.run([os.path.join(self.servers.build, "recourse"), "ledger", "migrate",
                        "--ledger", url], check=True, stdout=subprocess.DEVNULL)
        return url

    def number(self, name, statement):
        asked = subprocess.run([f"{peers.postgres_programs()}/psql", *self.account, "-d", name,
                                "-XAtqc", statement], check=True, stdout=subprocess.PIPE)
        return int(asked.stdout)

    def lane(self, name, url, pods=1):
        return peers.client_of(self.servers, self.process, name, "lane_load", url, str(pods))

    def plain(self, name, backend, clients):
        account = f"host={self.sockets} user={peers.POSTGRES_USER} dbname=postgres"
        return peers.client_of(self.servers, self.process, name, "pg_peer", account, str(backend),
                               str(clients))


def run(options, report):
    cpus = os.sched_getaffinity(0)
    bench = Bench(options, cpus)
    with Servers(options.build, options.folder) as servers:
        database = Database(servers)
        lane = database.lane("lane", database.ledger("lane"))
        plain = database.plain("libpq", 0, max(CALLERS))
        bench.rounds({name_of(callers): words(callers) for callers in CALLERS}, [lane, plain],
                     settles=True)
        report.data["fleet round trip us"] = round_trips(bench, lane)
        end(servers, plain)
        report.data["fleet grown"] = measure_growth(bench, database, lane)
        report.data["fleet idle"] = measure_idle(servers, database, lane)
        backend = servers.start_tool("backend", cpus)
        url = database.ledger("pods")
        pods = [start_pod(servers, lane, backend.port, url, name) for name in ("pod", "other-pod")]
        engines = [pods[0], database.plain("postgres", backend.port, max(PROXY_GOALS)),
                   peers.start_restate(servers, backend.port)]
        bench.rounds({f"writes, {clients} clients": [*WRITE, *FRESH, "--connections", str(clients)]
                      for clients in PROXY_GOALS}, [backend, *filter(None, engines)], settles=True)
        bench.load(pods[0], [*WRITE, "--connections", "1"], 0.5)
        bench.rounds({REPEATS: [*WRITE, "--connections", "1"],
                      "reads, 1 client": ["--path", "/1k", "--connections", "1"]}, [pods[1]])
        report.data["fleet take-over"] = measure_take_overs(bench, servers, database, lane, backend)
    print_all(bench, report.data)
    judge(bench, report)
    report.data["fleet"] = bench.data()


def end(servers, client):
    """A load generator of ours, and its connections."""
    client.helpers[0].stdin.close()
    client.helpers[0].wait()
    servers.running[:] = [one for one in servers.running if one.process is not client.helpers[0]]


def start_pod(servers, lane, backend, url, name):
    secrets = {"install-secret": "5e" * 32 + "\n", "ledger-key": new_key(servers)}
    arguments = ["--ledger", url]
    for flag, text in secrets.items():
        path = os.path.join(servers.folder, flag)
        if not os.path.exists(path):
            file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(file, text.encode())
            os.close(file)
        arguments += [f"--{flag}-file", path]
    server = servers.start_recourse(os.sched_getaffinity(0), backend, name=name, extra=arguments,
                                    more_policy=HELD_POLICY + "ledger: { group: bench/pods }\n")
    return Pod(server, lane)


def new_key(servers):
    command = [os.path.join(servers.build, "recourse"), "ledger", "new-key"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def name_of(callers):
    return f"begin and outcome, {callers} callers"


def words(callers):
    return ["--connections", str(callers), "--body", "1024"]


def round_trips(bench, lane):
    """One after the other, on a connection of its own: microseconds each."""
    return [lane.load(bench, words(0), 0.5)["p50_us"] for _ in range(bench.options.rounds)]


def measure_growth(bench, database, lane):
    """How many operations there were; the same beside a ledger that has next to none."""
    url = database.ledger("grown")
    grown, there = database.lane("grown", url), 0
    while there < bench.options.ledger:
        there += grown.load(bench, words(FILL_CALLERS), FILL_SECONDS)["requests"]
    new = database.lane("new", database.ledger("new"))
    bench.rounds({GROWN: words(64)}, [new, grown], settles=True)
    end(database.servers, new)
    end(database.servers, grown)
    return there


def measure_idle(servers, database, lane):
    """Microseconds of the database's CPU a second, with one idle pod and with many."""
    found, url = {}, database.ledger("idle")
    for pods in (1, IDLE_PODS):
        client = database.lane("idle", url, pods)
        time.sleep(2)  # they have begun
        begun, since = lane.cpu_alone_ns(), time.monotonic()
        time.sleep(IDLE_SECONDS)  # how much that costs is the subject
        found[pods] = (lane.cpu_alone_ns() - begun) / 1e3 / (time.monotonic() - since)
        end(servers, client)
    return found


def measure_take_overs(bench, servers, database, lane, backend):
    """{how it was lost: seconds}, by what the database says of its calls."""
    url, found = database.ledger("lost"), {}
    start_pod(servers, lane, backend.port, url, "heir")
    for what in TAKE_OVER_GOALS:
        for _ in range(bench.options.rounds):
            bench.seed += 1
            found.setdefault(what, []).append(take_over(
                bench, servers, database, lambda: start_pod(servers, lane, backend.port, url,
                                                            "lost"), "start" in what))
    return found


def take_over(bench, servers, database, start, starts_again):
    def running():
        return database.number("lost", "SELECT count(*) FROM operation WHERE phase = 5")

    pod = start()
    calls = ["--path", "/hang", *BODY[:-1], str(bench.seed)]
    with Crowd(bench.options, bench.cpus, pod.port, OPEN_CALLS, "held", calls):
        servers.wait_until(pod, lambda: running() == OPEN_CALLS)
        lost = next(one for one in servers.running if one.process is pod.process)
        servers.stop(lost, is_killed=True)
        begun = time.monotonic()
        with contextlib.ExitStack() as at_end:
            if starts_again:
                again = start()
                at_end.callback(servers.stop, next(one for one in servers.running
                                                   if one.process is again.process))
            while running() > 0:
                if time.monotonic() - begun > TAKE_OVER_SECONDS_MAX:
                    raise SystemExit("nobody has taken the calls of a dead pod over")
            return time.monotonic() - begun


def judge(bench, report):
    def ratio(workload, ours, theirs, field="per_second"):
        return bench.ratio(workload, ours, theirs, field)

    measured, data = {server for _, server in bench.samples}, report.data
    for callers, limit in LANE_GOALS.items():
        report.goal("S1", f"lane, {callers} callers / plain libpq",
                    ratio(name_of(callers), "lane", "libpq"), limit, at_least=True)
    for callers in (64, 256):
        report.goal("S1", f"lane's CPU per write at {callers} callers / plain libpq",
                    ratio(name_of(callers), "lane", "libpq", "cpu_us"), 0.15)
    if "restate" in measured:
        for clients, limit in PROXY_GOALS.items():
            report.goal("S2", f"pod's writes/s at {clients} clients / restate",
                        ratio(f"writes, {clients} clients", "pod", "restate"), limit,
                        at_least=True)
        report.goal("S2", "pod's and database's CPU per write at 64 clients / restate",
                    ratio("writes, 64 clients", "pod", "restate", "cpu_us"), 0.15)
    report.goal("S3", "one writer's p50 / PostgreSQL alone",
                ratio("writes, 1 clients", "pod", "postgres", "p50_us"), 1.25)
    trip = figure(data["fleet round trip us"]).median
    added = figure((repeat["p50_us"] - read["p50_us"]) / trip for repeat, read in
                   zip(bench.samples[REPEATS, "other-pod"],
                       bench.samples["reads, 1 client", "other-pod"]))
    report.goal("S3", "a repeat at another pod over a read, in round trips", added, 1.2)
    there = data["fleet grown"]
    report.goal("S4", f"writes/s of a lane, {there:,} operations / none",
                ratio(GROWN, "grown", "new"), 0.85, at_least=True,
                unless="" if there >= GROWTH_GOAL_OPERATIONS
                else f"the goal is about {GROWTH_GOAL_OPERATIONS:,}")
    idle = data["fleet idle"]
    share = (idle[IDLE_PODS] - idle[1]) / 1e6 / (IDLE_PODS - 1) * IDLE_GOAL_PODS
    report.goal("S5", f"{IDLE_GOAL_PODS:,} idle pods: share of a core of the database, from "
                f"{IDLE_PODS}", max(share, 0.0), 0.01, "")
    for what, limit in TAKE_OVER_GOALS.items():
        report.goal("S6", f"take-over after {what}", figure(data["fleet take-over"][what]), limit,
                    "s")


def print_all(bench, data):
    print(f"\n{'':38}{'':10}{head_of('calls/s')}")
    for workload, server in bench.samples:
        print(f"{workload:38}{server:10}{numbers_of(bench, workload, server)}")
    print(f"round trip us: {data['fleet round trip us']}; us/s of idle pods: {data['fleet idle']}; "
          f"take-over s: {data['fleet take-over']}")
