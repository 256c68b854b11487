"""The benchmark runs from end to end and judges what it measured; how fast is not asked here."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from support.recourse import BINARY, PATIENCE, ROOT

BUILD = pathlib.Path(BINARY).resolve().parent
PROGRAMS = [BUILD / "bench" / name for name in ("backend", "loadgen", "relay")]
RUN_SECONDS_MAX = 600 * PATIENCE

pytestmark = pytest.mark.skipif(not all(os.access(program, os.X_OK) for program in PROGRAMS),
                                reason="this preset builds no benchmarks")


def bench(work, *arguments):
    command = [sys.executable, ROOT / "bench/run.py", "--build", BUILD, "--work", work,
               "--rounds", 1, "--seconds", 0.05, *arguments]
    run = subprocess.run(list(map(str, command)), text=True, timeout=RUN_SECONDS_MAX, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert run.returncode == 0, run.stdout[-4000:]
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
