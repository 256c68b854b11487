#!/usr/bin/env python3
"""Writes the tables of bench/README.md anew, from the results of a whole run.

usage: bench/tables.py [RESULTS [README]]; by default build/release/results.json and
bench/README.md.
They stand between the two comments that MARKS names; what stands around them stays as it is.
"""

import json
import os
import statistics
import sys

sys.dont_write_bytecode = True

import beside  # noqa: E402
from report import GOALS, number, verdict  # noqa: E402
from rounds import Samples  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MARKS = ("<!-- tables of a run: bench/tables.py writes them -->\n", "<!-- end of the tables -->\n")
PEERS = {"nginx": "nginx", "haproxy": "HAProxy", "relay": "relay"}
NAMES = {**PEERS, "recourse": "Recourse", "restate": "Restate", "postgres": "PostgreSQL",
         "backend": "the backend alone", "grown": "Recourse, grown"}


def table(head, rows):
    """Lines of one table, and an empty one; nothing where nothing was measured."""
    rows = list(rows)
    if not rows:
        return []
    lines = [" | ".join(head), "|".join(["---"] * len(head)), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" if "---" not in line else f"|{line}|" for line in lines] + [""]


def with_spread(figure):
    return f"{figure.median:.2f} ({figure.low:.2f} to {figure.high:.2f})"


def milliseconds(microseconds):
    return f"{microseconds / 1e3:.2f}" if microseconds < 1e5 else f"{microseconds / 1e3:.0f}"


def of_goals(results):
    rows = []
    for row in sorted(results["goals"], key=lambda row: list(GOALS).index(row["goal"])):
        sign = ">=" if row["at_least"] else "<="
        figure = number(row["median"], row["limit"])
        low, high = (number(row[name]) for name in ("low", "high"))
        spread = "" if low == high else f"{low} to {high}"
        rows.append([f"{row['goal']} {row['what']}", f"{figure} {row['unit']}".strip(), spread,
                     f"{sign} {number(row['limit'])}", verdict(row)])
    return table(["goal", "figure", "rounds", "is", ""], rows)


def of_proxies(results):
    """One line per workload: what it cost each, and what Recourse costs over them."""
    parts = map(Samples, (results.get("reads", {}), results.get("shapes", {}).get("pinned", {})))
    costs, times = [], []
    for found in parts:
        for workload in dict.fromkeys(workload for workload, _ in found.samples):
            servers = [*PEERS, "recourse"]
            costs.append([workload, *(f"{number_of(found, workload, server, 'cpu_us', '.1f')} "
                                      f"({number_of(found, workload, server, 'kernel_us', '.1f')})"
                                      for server in servers),
                          *(with_spread(found.ratio(workload, "recourse", peer, "cpu_us"))
                            for peer in PEERS)])
            times.append([workload, *(rate_and_times(found, workload, server)
                                      for server in servers)])
    names = [NAMES[server] for server in (*PEERS, "recourse")]
    ratios = [f"x {name}" for name in PEERS.values()]
    return table(["CPU us per request (in the kernel)", *names, *ratios], costs) + table(
        ["per second; p50 / p99 ms", *names], times)


def of_shapes(results):
    """Threads and long policies."""
    rows = []
    for part in ("threads", "routes"):
        found = Samples(results.get("shapes", {}).get(part, {}))
        rows += [[workload, server, number_of(found, workload, server, "cpu_us", ".1f"),
                  rate_and_times(found, workload, server)] for workload, server in found.samples]
    return table(["two threads are `-2`", "", "CPU us", "per second; p50 / p99 ms"], merged(rows))


def rate_and_times(found, workload, server):
    p50, p99 = (milliseconds(found.median(workload, server, field))
                for field in ("p50_us", "p99_us"))
    return f"{number_of(found, workload, server, 'per_second', ',.0f')}; {p50} / {p99}"


def number_of(found, workload, server, field, how):
    return format(found.median(workload, server, field), how)


def merged(rows):
    """The same without the first cell where it repeats the one above."""
    above = None
    for row in rows:
        yield [row[0] if row[0] != above else "", *row[1:]]
        above = row[0]


def of_writes(results):
    part = results.get("writes")
    if part is None:
        return []
    found = Samples({name: value for name, value in part.items() if " / " in name})
    rows = []
    for workload, server in found.samples:
        def over_all(field, per):
            value = found.in_all(workload, server, field, per)
            return "" if value is None else f"{value:.2f}"
        rows.append([workload, NAMES[server],
                     *(number_of(found, workload, server, field, how) for field, how in
                       (("per_second", ",.0f"), ("cpu_us", ",.0f"), ("kernel_us", ",.0f"),
                        ("cpu_alone_us", ",.0f"))),
                     milliseconds(found.median(workload, server, "p50_us")),
                     milliseconds(found.median(workload, server, "p99_us")),
                     over_all("flushes", "requests"), over_all("rows", "commits"),
                     over_all("rows", "flushes"), over_all("commit_ms", "commits")])
    memory = ", ".join(f"{NAMES[name]} {size / 1e6:,.0f} MB"
                       for name, size in part["memory"].items())
    head = ["", "", "calls/s", "CPU us", "in the kernel", "alone", "p50 ms", "p99 ms",
            "flushes per call", "records per commit", "records per flush", "ms per commit"]
    return table(head, merged(rows)) + [
        f"One flush of 4 KiB takes {part['flush_us']:.0f} us. Memory after all that, besides pages "
        f"of files: {memory}.", ""]


def of_reads_beside_writes(results):
    rows = []
    for way, found in results.get("beside", {}).items():
        cells = [f"{statistics.median(sample[when][name] for sample in found):,.0f}"
                 for when in ("alone", "beside") for name in ("p50_us", "p99_us")]
        rows.append([way, *cells, with_spread(beside.ratio_of(found))])
    return table(["1,000 reads/s through", "p50 us alone", "p99 us alone", "p50 us beside writes",
                  "p99 us beside writes", "p99 x"], rows)


def of_ledger(results):
    part = results.get("ledger")
    if part is None:
        return []
    found = Samples({name: value for name, value in part.items() if " / " in name})
    started = part["seconds_after_kill"]
    rows = [["on disk", f"{part['bytes_on_disk'] / 1e6:,.0f} MB, "
             f"{part['bytes_on_disk'] / part['operations']:,.0f} bytes per operation"],
            ["ready after kill -9", f"{statistics.median(started):.2f} s "
             f"({min(started):.2f} to {max(started):.2f})"],
            ["the same, its files in no cache", f"{part['seconds_after_kill_cold']:.2f} s"],
            ["ready after a stop", f"{part['seconds_after_stop']:.2f} s"],
            ["memory after recovery, besides pages of files",
             f"{part['memory_after_start'] / 1e6:,.0f} MB"],
            ["the same with them; at most until then",
             f"{part['resident_after_start'] / 1e6:,.0f} MB; "
             f"{part['resident_at_most'] / 1e6:,.0f} MB"],
            ["memory after the writes below; of a ledger that was empty",
             f"{part['memory_after_writes'] / 1e6:,.0f} MB; "
             f"{part['memory_of_the_other'] / 1e6:,.0f} MB"]]
    for (workload, server) in found.samples:
        rows.append([f"{workload}, {'empty before' if server == 'recourse' else 'this ledger'}",
                     f"{number_of(found, workload, server, 'per_second', ',.0f')} calls/s, "
                     f"{number_of(found, workload, server, 'cpu_us', ',.0f')} us of CPU"])
    head = f"{part['operations']:,} operations of {part['body']:,} bytes, answers of " \
           f"{part['answer']:,}"
    return table([head, ""], rows)


def of_growth(results):
    part = results.get("growth")
    if part is None:
        return []
    rows = [[NAMES[name], f"{row['alone'] / 1e6:.1f}", f"{row['alone_cpu']:,.0f}",
             *(f"{memory / 1e6:.1f}" for memory in row["fewer"].values()),
             f"{row['crowd'] / 1e6:.1f}", f"{row['each'] / 1e3:.1f}", f"{row['crowd_cpu']:,.0f}",
             f"{row['burst'] / 1e6:.1f}", f"{row['after burst'] / 1e6:.1f}"]
            for name, row in part["idle"].items()]
    held = ", ".join(f"a {name} {each / 1e3:,.0f} KB" for name, each in part["held"].items())
    sizes = ", ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in part["sizes"].items())
    starts = part["starts"]
    counts = next(iter(part["idle"].values()))["fewer"]
    return table(["idle", "MB", "CPU us/s", *(f"with {int(count):,}" for count in counts),
                  "with the crowd", "KB each", "CPU us/s", "all asked at once, most",
                  "20 s later"], rows) + [
        f"Held: {held}. Start with an empty ledger: {statistics.median(starts):.0f} ms "
        f"({min(starts):.0f} to {max(starts):.0f}). Sizes: {sizes}."]


def of_protocols(results):
    rows = [[name, f"{statistics.median(values):,.0f} us",
             f"{min(values):,.0f} to {max(values):,.0f}"]
            for name, values in results.get("interception", {}).items()]
    found = Samples(results.get("mcp", {}))
    for workload, server in found.samples:
        values = found.figure(workload, server, "cpu_us")
        rows.append([f"{workload}, 64 connections", f"{values.median:,.1f} us",
                     f"{values.low:,.1f} to {values.high:,.1f}"])
    for shape, rates in results.get("undos_per_second", {}).items():
        rows.append([f"undos of {shape}", f"{statistics.median(rates):,.0f}/s",
                     f"{min(rates):,.0f} to {max(rates):,.0f}"])
    return table(["CPU of Recourse per call; rate of undos", "", "rounds"], rows)


def of_parts(results):
    rows = [[name, f"{counts['instructions']:,}",
             *("-" if counts[what] is None else f"{counts[what]:.2f}"
               for what in ("mallocs", "syscalls"))]
            for name, counts in results.get("instructions", {}).items()]
    micro = ", ".join(f"{row['name'].removeprefix('BM_')} {time_of(row)}"
                      for row in results.get("micro", []))
    return table(["per request", "user instructions", "mallocs", "system calls"], rows) + \
        ([f"`micro_bench`: {micro}."] if micro else [])


def time_of(row):
    nanoseconds = row["cpu_time"] * {"ns": 1, "us": 1e3, "ms": 1e6}[row["time_unit"]]
    return f"{nanoseconds:,.0f} ns" if nanoseconds < 1e5 else f"{nanoseconds / 1e6:,.2f} ms"


SECTIONS = (("Reads", of_proxies, of_shapes), ("Writes", of_writes, of_reads_beside_writes),
            ("A ledger that grew", of_ledger), ("Idle, held, starts, sizes", of_growth),
            ("TLS, MCP, undos", of_protocols), ("Without a clock, and in parts", of_parts))


def lines_of(results):
    about = results["run"]
    yield from [f"{about['date']}, commit {about['commit']}, {about['rounds']} rounds of "
                f"{about['seconds']} s: {'; '.join(results['machine'])}; at the end "
                f"{results['load at the end']:.1f}. It took "
                f"{sum(results['seconds of each part'].values()) / 60:.0f} minutes.", ""]
    yield from of_goals(results)
    for heading, *tables in SECTIONS:
        lines = [line for of_part in tables for line in of_part(results)]
        yield from ["", f"### {heading}", "", *lines] if lines else []


def write_tables(results, readme):
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not end:
        raise SystemExit(f"{readme} has not both of these lines: {' '.join(MARKS)}")
    tables = "\n".join(lines_of(results)).strip()
    with open(readme, "w", encoding="utf-8") as file:
        file.write(f"{before}{MARKS[0]}\n{tables}\n\n{MARKS[1]}{after}")


def main():
    results = sys.argv[1] if len(sys.argv) > 1 else \
        os.path.join(HERE, "..", "build", "release", "results.json")
    readme = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "README.md")
    with open(results, encoding="utf-8") as file:
        write_tables(json.load(file), readme)


if __name__ == "__main__":
    main()
