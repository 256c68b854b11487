"""A fixed, short share of ./dev fleet: pods under load, faults, and its verdict over what became of
all calls."""

import importlib.util
import pathlib
import subprocess
import sys

from support.postgres import Postgres
from support.recourse import BINARY, environment

FLEET = pathlib.Path(__file__).resolve().parents[1] / "fleet"
SECONDS_MAX = 600


def run(*words):
    done = subprocess.run([sys.executable, str(FLEET), *words], text=True, capture_output=True,
                          env=environment({"RECOURSE_BIN": str(BINARY)}), timeout=SECONDS_MAX,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n0 violations of 16 invariants over " in done.stdout, done.stdout
    return done.stdout


def test_who_is_taken_over_while_its_lease_lasts_is_found():
    spec = importlib.util.spec_from_file_location("verdict", FLEET / "verdict.py")
    verdict = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(verdict)
    one, other = object(), object()
    owners, begun = {1: one, 2: other, 3: one}, [["1", "10.0"], ["2", "10.1"], ["3", "107.0"]]

    def found(seconds, taken_by="2", at="100.0", drained=()):
        return verdict.of_leases([["1", taken_by, seconds, at]], begun, owners, set(drained))

    assert found("4.9") == ["L3 stream 1 was taken over by 2 4.9 s after its last batch, while its"
                            " lease lasted"]  # fmt: skip
    assert not found("7.1")
    assert not found("0.3", drained={1}), "it was handed over"
    assert not found("0.3", taken_by="3"), "by its own pod, which had come back"
    assert not found("0.3", at="108.0"), "its own had come back before"


def test_no_promise_breaks_while_the_database_comes_and_goes():
    said = run("--minutes", "0.5", "--seed", "11", "--only", "database")
    assert ": all works again after " in said


def test_nor_while_pods_do_on_a_server_that_somebody_has():
    with Postgres() as server:
        url = server.database()
        said = run("--minutes", "0.5", "--seed", "12", "--url", url)
        assert ": all works again after " in said
        schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'fleet%'"
        assert server.sql(url, schemas) == "0\n", "it leaves what it has made"
