"""A fixed, short share of ./dev fleet: pods under load, faults, and its verdict over what became of
all calls."""

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
