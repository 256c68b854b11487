"""The policies of the demo and of the benchmark load without a warning and pass their own tests."""

import os
import subprocess

import pytest

from support.recourse import BINARY, ROOT, WAIT_MAX

DEMO = ROOT / "tests/e2e/demo/policy.yaml"
BENCH = ROOT / "bench/conf/recourse.yaml"


def recourse(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], text=True, timeout=WAIT_MAX, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture(params=[DEMO, BENCH], ids=["demo", "bench"])
def policy(request, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(request.param.read_text().replace("@BACKEND@", "19083"))
    return path


def test_the_policy_is_valid_without_a_warning(policy):
    run = recourse("policy", "check", policy)
    assert run.returncode == 0, run.stdout
    assert "warning: " not in run.stdout


def test_the_policy_passes_its_own_tests():
    run = recourse("policy", "test", DEMO)
    assert run.returncode == 0, run.stdout


def test_the_demo_prints_its_commands():
    run = subprocess.run([ROOT / "tests/e2e/demo/demo.sh", "print"], text=True, timeout=WAIT_MAX,
                         check=True, stdout=subprocess.PIPE)
    assert "order cart-1 > build/demo/second" in run.stdout


def test_a_demo_on_other_ports_has_files_of_its_own():
    run = subprocess.run([ROOT / "tests/e2e/demo/demo.sh", "print"], text=True, timeout=WAIT_MAX,
                         env={**os.environ, "DEMO": "build/demo-29080"}, check=True,
                         stdout=subprocess.PIPE)
    assert "kill -9 $(cat build/demo-29080/recourse.pid)" in run.stdout
    assert "build/demo/" not in run.stdout


@pytest.mark.parametrize("argument, code", [("--help", 0), ("ports", 1)])
def test_the_demo_takes_no_arguments(argument, code):
    run = subprocess.run([ROOT / "dev", "run", argument], text=True, timeout=WAIT_MAX, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert run.returncode == code, run.stdout
    assert "usage: ./dev COMMAND" in run.stdout
