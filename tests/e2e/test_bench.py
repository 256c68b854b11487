"""The benchmark runs from end to end and judges what it measured; how fast is not asked here."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from support.recourse import BINARY, PATIENCE, ROOT

BUILD = pathlib.Path(BINARY).resolve().parent
PROGRAMS = [BUILD / "bench" / name for name in ("backend", "loadgen", "relay", "ledger_fill")]
RUN_SECONDS_MAX = 600 * PATIENCE

pytestmark = pytest.mark.skipif(not all(os.access(program, os.X_OK) for program in PROGRAMS),
                                reason="this preset builds no benchmarks")


def bench(work, *arguments, code=0):
    command = [sys.executable, ROOT / "bench/run.py", "--build", BUILD, "--work", work,
               "--rounds", 1, "--seconds", 0.05, *arguments]
    run = subprocess.run(list(map(str, command)), text=True, timeout=RUN_SECONDS_MAX, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert run.returncode == code, run.stdout[-4000:]
    return run.stdout, json.loads((work / "results.json").read_text())


def test_reads_beside_the_peers_are_judged_by_their_goals(tmp_path):
    printed, results = bench(tmp_path, "--only", "reads")
    judged = {row["goal"] for row in results["goals"]}
    assert judged == {"F1", "F2", "F3", "F4", "F5"}
    assert all(sample["requests"] > 0 and sample["failed"] == 0
               for samples in results["reads"].values() for sample in samples)
    for peer in ("nginx", "haproxy", "relay", "recourse"):
        assert len(results["reads"][f"GET 1 KiB, 64 connections / {peer}"]) == 1
    assert "W1  durable writes beside Restate" in printed  # a goal that was not measured


def test_a_grown_ledger_is_started_again_and_written_to(tmp_path):
    _, results = bench(tmp_path, "--only", "ledger", "--ledger", 300)
    assert {row["goal"] for row in results["goals"]} == {"W4", "G1"}
    for name in ("recourse", "grown"):
        [sample] = results["ledger"][f"durable writes, 64 clients / {name}"]
        assert sample["requests"] > 0 and sample["failed"] == 0
        assert 0 < sample["commits"] <= sample["rows"]


def test_reads_beside_writes_are_made_in_three_ways(tmp_path):
    printed, results = bench(tmp_path, "--only", "beside")
    assert [row["goal"] for row in results["goals"]] == ["W5"]
    assert len(results["beside"]) == 3
    for way, [sample] in results["beside"].items():
        assert f"through {way} " in printed
        assert sample["writes_per_second"] > 0
        assert all(sample[when]["p99_us"] >= sample[when]["p50_us"] > 0
                   for when in ("alone", "beside"))


def test_a_part_that_fails_takes_nothing_of_the_others_away(tmp_path):
    printed, results = bench(tmp_path, "--only", "ledger", "--ledger", 10**12, "--only", "undos",
                             code=1)
    assert "ledger FAILED" in printed and "1,000,000,000,000 operations needs" in printed
    assert "ledger" not in results and results["seconds of each part"]["undos"] > 0


MARKS = ("<!-- tables of a run: bench/tables.py writes them -->\n", "<!-- end of the tables -->\n")


def tables(work, readme):
    command = [sys.executable, ROOT / "bench/tables.py", work / "results.json", readme]
    return subprocess.run(list(map(str, command)), text=True, timeout=RUN_SECONDS_MAX, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture
def open_folder():
    """One that PostgreSQL may enter, which runs as its own user where the test is root."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def test_writes_and_calls_of_mcp_stand_in_the_tables_of_the_readme(open_folder):
    _, results = bench(open_folder, "--only", "writes", "--only", "beside", "--only", "mcp")
    [sample] = results["writes"]["writes, 64 clients / recourse"]
    assert sample["rows"] == 2 * sample["requests"]  # what was begun has ended, and nothing else
    assert sample.get("flushes", 1) > 0  # where the disk counts them
    readme = open_folder / "README.md"
    readme.write_text("before\n" + "old\n".join(MARKS) + "after\n")
    for _ in range(2):  # the second time finds what the first one wrote
        written = tables(open_folder, readme)
        assert written.returncode == 0, written.stdout
        before, rest = readme.read_text().split(MARKS[0])
        between, after = rest.split(MARKS[1])
        assert (before, after) == ("before\n", "after\n") and "old" not in between
        assert f"| {sample['per_second']:,.0f} | {sample['cpu_us']:,.0f} |" in between
        assert "| MCP write, 64 connections |" in between and "| another Recourse |" in between
        assert between.count("| W3 one writer's p50 over the backend's |") == 1


def test_a_readme_without_a_place_for_tables_stays_as_it_is(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    readme = tmp_path / "README.md"
    readme.write_text("before\n" + MARKS[0] + "after\n")
    written = tables(tmp_path, readme)
    assert written.returncode != 0 and "has not both" in written.stdout
    assert readme.read_text() == "before\n" + MARKS[0] + "after\n"
