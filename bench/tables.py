#!/usr/bin/env python3
"""Writes the tables of bench/README.md anew, from the results of a whole run.

usage: bench/tables.py [RESULTS [README]]; by default build/release/results.json and
bench/README.md.
They stand between the two comments that MARKS names; what stands around them stays as it is.
No line is longer than COLUMNS_MAX; what is left out stands in RESULTS and in what a run prints.
"""

import json
import os
import statistics
import sys
import textwrap

sys.dont_write_bytecode = True

from report import GOALS, number, verdict  # noqa: E402
from rounds import Samples  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MARKS = ("<!-- tables of a run: bench/tables.py writes them -->\n", "<!-- end of the tables -->\n")
COLUMNS_MAX = 120
PEERS = {"nginx": "nginx", "haproxy": "HAProxy", "relay": "relay"}
NAMES = {**PEERS, "recourse": "Recourse", "restate": "Restate", "postgres": "PostgreSQL",
         "grown": "Recourse, grown"}
FLEET = {**NAMES, "lane": "lane of a pod", "libpq": "plain libpq", "pod": "pod",
         "other-pod": "another pod", "new": "lane of a pod", "grown": "lane of a pod, grown"}


def table(head, rows):
    """Lines of one table, and an empty one; nothing where nothing was measured."""
    rows = list(rows)
    if not rows:
        return []
    lines = [" | ".join(head), "|".join(["---"] * len(head)), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" if "---" not in line else f"|{line}|" for line in lines] + [""]


def paragraph(text):
    """Lines of running text, and an empty one."""
    return [*textwrap.wrap(text, COLUMNS_MAX, break_long_words=False), ""]


def milliseconds(microseconds):
    return f"{microseconds / 1e3:.2f}" if microseconds < 1e5 else f"{microseconds / 1e3:.0f}"


def of_goals(results):
    rows = []
    for row in sorted(results["goals"], key=lambda row: list(GOALS).index(row["goal"])):
        sign = ">=" if row["at_least"] else "<="
        figure = number(row["median"], row["limit"])
        low, high = (number(row[name]) for name in ("low", "high"))
        spread = "" if low == high else f" ({low} to {high})"
        rows.append([f"{row['goal']} {row['what']}", f"{figure} {row['unit']}".strip() + spread,
                     f"{sign}{number(row['limit'])}: {verdict(row)}"])
    return table(["goal", "figure (rounds)", "limit"], rows)


def of_proxies(results):
    """One line per workload: what it cost each, and how long it took."""
    parts = map(Samples, (results.get("reads", {}), results.get("shapes", {}).get("pinned", {})))
    rows = []
    for found in parts:
        for workload in dict.fromkeys(workload for workload, _ in found.samples):
            rows.append([workload, *(number_of(found, workload, server, "cpu_us", ",.1f")
                                     for server in (*PEERS, "recourse")),
                         *(times(found, workload, server)
                           for server in ("nginx", "haproxy", "recourse"))])
    return table(["CPU us per request; p50/p99 ms", *PEERS.values(), "Recourse",
                  "nginx", "HAProxy", "Recourse"], rows)


def times(found, workload, server):
    return "/".join(milliseconds(found.median(workload, server, field))
                    for field in ("p50_us", "p99_us"))


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
        if server == "backend":
            continue

        def over_all(field, per):
            value = found.in_all(workload, server, field, per)
            return "" if value is None else f"{value:.2f}"
        rows.append([workload, NAMES[server],
                     *(number_of(found, workload, server, field, ",.0f")
                       for field in ("per_second", "cpu_us")),
                     times(found, workload, server),
                     over_all("flushes", "requests")])
    memory = ", ".join(f"{NAMES[name]} {size / 1e6:,.0f} MB"
                       for name, size in part["memory"].items())
    head = ["", "", "calls/s", "CPU us", "p50/p99 ms", "flushes per call"]
    return table(head, merged(rows)) + paragraph(
        f"One flush of 4 KiB takes {part['flush_us']:.0f} us. Memory after all that, besides pages "
        f"of files: {memory}.")


def of_fleet(results):
    part = results.get("fleet")
    if part is None:
        return []
    found = Samples(part)
    rows = [[workload, FLEET[server],
             *(number_of(found, workload, server, field, ",.0f")
               for field in ("per_second", "cpu_us")), times(found, workload, server)]
            for workload, server in found.samples if server != "backend"]
    idle = {int(pods): used for pods, used in results["fleet idle"].items()}
    took = "; ".join(f"{what} {statistics.median(all):.1f} s (at most {max(all):.1f})"
                     for what, all in results["fleet take-over"].items())
    trip = statistics.median(results["fleet round trip us"])
    return table(["", "", "calls/s", "CPU us", "p50/p99 ms"], merged(rows)) + paragraph(
        f"CPU is that of the database and of all that stands before it. A round trip that asks for "
        f"nothing takes {trip:.0f} us. The database's CPU: {idle[1]:,.0f} us a second with one "
        f"idle pod, {idle[max(idle)]:,.0f} with {max(idle)}. Until what a lost pod was sending is "
        f"known to be unknown: {took}.")


def of_reads_beside_writes(results):
    rows = []
    for way, found in results.get("beside", {}).items():
        cells = [f"{statistics.median(sample[when][name] for sample in found):,.0f}"
                 for when in ("alone", "beside") for name in ("p50_us", "p99_us")]
        rows.append([way, *cells])
    return table(["1,000 reads/s through", "p50 us alone", "p99", "p50 us beside writes", "p99"],
                 rows)


def of_ledger(results):
    part = results.get("ledger")
    if part is None:
        return []
    found = Samples({name: value for name, value in part.items() if " / " in name})
    started = part["seconds_after_kill"]
    writes = "; ".join(
        f"{workload}, {'empty before' if server == 'recourse' else 'this ledger'}: "
        f"{number_of(found, workload, server, 'per_second', ',.0f')} calls/s, "
        f"{number_of(found, workload, server, 'cpu_us', ',.0f')} us of CPU"
        for workload, server in found.samples)
    return paragraph(
        f"{part['operations']:,} operations of {part['body']:,} bytes, answers of "
        f"{part['answer']:,}: {part['bytes_on_disk'] / 1e6:,.0f} MB on disk. Ready "
        f"{statistics.median(started):.2f} s ({min(started):.2f} to {max(started):.2f}) after "
        f"kill -9, {part['seconds_after_kill_cold']:.2f} s with its files in no cache, "
        f"{part['seconds_after_stop']:.2f} s after a stop. Memory besides pages of files: "
        f"{part['memory_after_start'] / 1e6:,.0f} MB after recovery, "
        f"{part['memory_after_writes'] / 1e6:,.0f} MB after writes, "
        f"{part['memory_of_the_other'] / 1e6:,.0f} MB of a ledger that was empty; with them "
        f"{part['resident_at_most'] / 1e6:,.0f} MB at most. {writes[:1].upper()}{writes[1:]}.")


def of_growth(results):
    part = results.get("growth")
    if part is None:
        return []
    rows = [[NAMES[name], f"{row['alone'] / 1e6:.1f}", f"{row['alone_cpu']:,.0f}",
             f"{row['crowd'] / 1e6:.1f}", f"{row['each'] / 1e3:.1f}", f"{row['crowd_cpu']:,.0f}",
             f"{row['burst'] / 1e6:.1f}", f"{row['after burst'] / 1e6:.1f}"]
            for name, row in part["idle"].items()]
    held = ", ".join(f"a {name} {each / 1e3:,.0f} KB" for name, each in part["held"].items())
    sizes = ", ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in part["sizes"].items())
    starts = part["starts"]
    return table(["idle", "MB", "CPU us/s", "with the crowd", "KB each", "CPU us/s",
                  "all asked at once, most", "20 s later"], rows) + paragraph(
        f"Held: {held}. Start with an empty ledger: {statistics.median(starts):.0f} ms "
        f"({min(starts):.0f} to {max(starts):.0f}). Sizes: {sizes}.")


def of_protocols(results):
    rows = [[name, f"{statistics.median(values):,.0f} us "
                   f"({min(values):,.0f} to {max(values):,.0f})"]
            for name, values in results.get("interception", {}).items()]
    found = Samples(results.get("mcp", {}))
    for workload, server in found.samples:
        values = found.figure(workload, server, "cpu_us")
        rows.append([f"{workload}, 64 connections", f"{values.median:,.1f} us "
                     f"({values.low:,.1f} to {values.high:,.1f})"])
    for shape, rates in results.get("undos_per_second", {}).items():
        rows.append([f"undos of {shape}", f"{statistics.median(rates):,.0f}/s "
                     f"({min(rates):,.0f} to {max(rates):,.0f})"])
    return table(["CPU of Recourse per call; rate of undos", "(rounds)"], rows)


def of_turns(results):
    rows = [[name, f"{bound:g} ms"] for name, bound in results.get("longest_turns_ms", {}).items()]
    return table(["the longest turn of an I/O thread, for one call", "at most"], rows)


SECTIONS = (("Reads", of_proxies), ("Writes", of_writes, of_reads_beside_writes),
            ("A shared ledger", of_fleet), ("A ledger that grew", of_ledger),
            ("Idle, held, starts, sizes", of_growth), ("TLS, MCP, undos", of_protocols),
            ("Turns", of_turns))


def lines_of(results):
    about = results["run"]
    yield from paragraph(
        f"{about['date']}, commit {about['commit']}, {about['rounds']} rounds of "
        f"{about['seconds']} s: {'; '.join(results['machine'])}; at the end "
        f"{results['load at the end']:.1f}. It took "
        f"{sum(results['seconds of each part'].values()) / 60:.0f} minutes.")
    yield from of_goals(results)
    for heading, *tables in SECTIONS:
        lines = [line for of_part in tables for line in of_part(results)]
        yield from [f"### {heading}", "", *lines] if lines else []


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
