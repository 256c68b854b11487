"""Reads in other shapes: large answers, streams of events, crowds, threads, long policies."""

import os

from reads import PEERS, head_of, numbers_of
from rounds import Bench, split_cpus
from servers import CONNECTIONS_MAX, Servers

CROWD = min(10_000, CONNECTIONS_MAX - 20)
ACTIVE = CROWD * 9 // 10  # nginx closes connections when fewer than one in 16 is free
# One worker each, pinned, like the reads that the goals are about.
LARGE = {"GET 10 MiB, 8 connections": ["--path", "/10m", "--connections", "8"]}
EVENTS = {
    "events, 1,000 streams": ["--path", "/events", "--mode", "events", "--connections", "1000"],
}
# Without it HAProxy keeps an event back until the next one comes.
HAPROXY_FOR_EVENTS = "option http-no-delay"
CROWDED = {
    "GET 1 KiB, 1,000 connections": ["--path", "/1k", "--connections", "1000"],
    f"GET 1 KiB, {ACTIVE:,} connections": ["--path", "/1k", "--connections", str(ACTIVE)],
    f"GET 1 KiB, 5,000/s on {CROWD:,}": ["--path", "/1k", "--connections", str(CROWD),
                                         "--rate", "5000"],
}
CROWDED_SECONDS_MIN = 3  # each connection of the crowd asks once and a half
THREADS = "GET 1 KiB, 64 connections, unpinned"
ROUTES = "GET of a tool, 64 connections"
ROUTES_FEW, ROUTES_MANY = 10, 10_000
ROUTES_PATH = "/area5/order-17/tool5"  # of both; of many it has 99 neighbours in its own area
# A long policy may cost this much more per request: what a ratio of two equals varies by.
ROUTES_LIMIT = 1.05


def run(options, report):
    pinned = measure_pinned(options)
    print_numbers(pinned, f"One worker each, pinned (medians of {options.rounds} rounds); an event "
                          "counts as a request, and its time is that from the backend to here")
    threads = measure_threads(options)
    print_numbers(threads, "One and two I/O threads, nothing pinned: they share the cores with the "
                           "load and the backend")
    routes = measure_routes(options)
    print_numbers(routes, "A long policy")
    report.goal("G1", f"{ROUTES_MANY:,} routes: CPU / {ROUTES_FEW} routes",
                routes.ratio(ROUTES, f"{ROUTES_MANY} routes", f"{ROUTES_FEW} routes", "cpu_us"),
                ROUTES_LIMIT)
    report.data["shapes"] = {"pinned": pinned.data(), "threads": threads.data(),
                             "routes": routes.data()}


def measure_pinned(options):
    proxy_cpus, other_cpus = split_cpus()
    bench = Bench(options, other_cpus)
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", other_cpus)
        haproxy = servers.start_haproxy(proxy_cpus, backend.port)
        others = [servers.start_nginx(proxy_cpus, backend.port),
                  servers.start_tool("relay", proxy_cpus, backend.port),
                  servers.start_recourse(proxy_cpus, backend.port)]
        bench.rounds(LARGE, [haproxy, *others])
        bench.rounds(CROWDED, [haproxy, *others],
                     max(options.seconds, 0 if options.quick else CROWDED_SECONDS_MIN))
        servers.stop(haproxy)
        haproxy = servers.start_haproxy(proxy_cpus, backend.port, more=HAPROXY_FOR_EVENTS)
        bench.rounds(EVENTS, [haproxy, *others])
    return bench


def measure_threads(options):
    cpus = os.sched_getaffinity(0)
    bench = Bench(options, cpus)
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", cpus)
        proxies = []
        for count in (1, 2):
            proxies += [servers.start_nginx(cpus, backend.port, threads=count),
                        servers.start_haproxy(cpus, backend.port, threads=count),
                        servers.start_recourse(cpus, backend.port, extra=["--threads", str(count)],
                                               name="recourse" if count == 1 else "recourse-2")]
        bench.rounds({THREADS: ["--path", "/1k"]}, proxies)
    return bench


def measure_routes(options):
    proxy_cpus, other_cpus = split_cpus()
    bench = Bench(options, other_cpus)
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", other_cpus)
        proxies = [servers.start_recourse(proxy_cpus, backend.port, name=f"{count} routes",
                                          more_policy=more_routes(count))
                   for count in (ROUTES_FEW, ROUTES_MANY)]
        bench.rounds({ROUTES: ["--path", ROUTES_PATH]}, proxies)
    return bench


def more_routes(count):
    """So many tools with paths of three segments, one of which is a value."""
    return "".join(
        f"  many.tool{number}: {{ match: 'GET bench /area{number % 100}/{{id}}/tool{number}', "
        "effect: read }\n" for number in range(count))


def print_numbers(bench, title):
    print(f"\n{title}\n{'':48}{head_of('requests/s')}"
          + "".join(f"{'CPU x ' + peer:>14}" for peer in PEERS
                    if any(server == peer for _, server in bench.samples)))
    for workload, server in bench.samples:
        line = f"{workload:36}{server:12}" + numbers_of(bench, workload, server)
        if server == "recourse":
            line += "".join(f"{bench.ratio(workload, server, peer, 'cpu_us').median:14.2f}"
                            for peer in PEERS if (workload, peer) in bench.samples)
        print(line)
