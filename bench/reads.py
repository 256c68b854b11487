"""Reads beside nginx, HAProxy and a relay that parses nothing: one worker each, pinned."""

from rounds import Bench, figure, split_cpus
from servers import Servers

PEERS = ("nginx", "haproxy", "relay")
# name: (arguments of the load generator, {peer: (goal, CPU per request, ours over theirs)})
WORKLOADS = {
    "GET 1 KiB, 64 connections":
        (["--path", "/1k"],
         {"nginx": ("F1", 0.75), "haproxy": ("F1", 0.80), "relay": ("F4", 1.20)}),
    "POST 1 KiB read, 64 connections":
        (["--path", "/1k", "--method", "POST", "--body", "1024"],
         {"nginx": ("F2", 0.70), "haproxy": ("F2", 0.80), "relay": ("F4", 1.20)}),
    "GET 64 KiB, 64 connections":
        (["--path", "/64k"], {"nginx": ("F3", 0.80), "haproxy": ("F3", 0.72)}),
}
ALONE = "GET 1 KiB, 1 connection"


def run(options, report):
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
        bench.rounds({name: arguments for name, (arguments, _) in WORKLOADS.items()}, proxies)
        bench.rounds({ALONE: ["--path", "/1k", "--connections", "1"]}, [backend, *proxies])
    print_ratios(bench)
    print_numbers(bench)
    for workload, (_, goals) in WORKLOADS.items():
        for peer, (goal, limit) in goals.items():
            report.goal(goal, f"{workload}: CPU / {peer}",
                        bench.ratio(workload, "recourse", peer, "cpu_us"), limit)
    report.goal("F5", f"{ALONE}: CPU / nginx", bench.ratio(ALONE, "recourse", "nginx", "cpu_us"),
                0.90)
    for peer in ("nginx", "haproxy"):
        report.goal("F5", f"{ALONE}: p50 over {peer}'s", latency_over(bench, peer), 0, "us")
    report.data["reads"] = bench.data()


def latency_over(bench, peer):
    """By how much our p50 is more than the peer's; what both add to the backend's cancels out."""
    pairs = zip(bench.samples[ALONE, "recourse"], bench.samples[ALONE, peer])
    return figure(ours["p50_us"] - theirs["p50_us"] for ours, theirs in pairs)


def print_ratios(bench):
    print(f"\nCPU per request, Recourse over each peer (medians of {bench.options.rounds} rounds; "
          "under 1 Recourse is cheaper)")
    print(f"{'':34}" + "".join(f"{'x ' + peer:>12}" for peer in PEERS))
    for workload in (*WORKLOADS, ALONE):
        print(f"{workload:34}" + "".join(
            f"{bench.ratio(workload, 'recourse', peer, 'cpu_us').median:12.2f}" for peer in PEERS))
    direct = bench.median(ALONE, "backend", "p50_us")
    print(f"one connection, added p50 over {direct:.0f} us of the backend alone: " + ", ".join(
        f"{server} {bench.median(ALONE, server, 'p50_us') - direct:.0f} us"
        for server in (*PEERS, "recourse")))


def print_numbers(bench):
    print(f"\n{'':44}{head_of('requests/s')}")
    for workload, server in bench.samples:
        print(f"{workload:34}{server:10}" + numbers_of(bench, workload, server))


def head_of(rate):
    """What stands over numbers_of()."""
    return f"{rate:>12}{'CPU us':>10}{'kernel us':>11}{'p50 us':>10}{'p99 us':>10}"


def numbers_of(bench, workload, server):
    return (f"{bench.median(workload, server, 'per_second'):12,.0f}"
            f"{bench.median(workload, server, 'cpu_us'):10.1f}"
            f"{bench.median(workload, server, 'kernel_us'):11.1f}"
            f"{bench.median(workload, server, 'p50_us'):10.0f}"
            f"{bench.median(workload, server, 'p99_us'):10.0f}")
