"""What is done with the database of a shared ledger beside calls: it is checked, exported, and
found to have been put back."""

import json
import pathlib

import pytest

from support import plans, rawhttp
from support.postgres import Postgres
from support.recourse import run_cli
from test_audit import verifier_in
from support.waiting import wait_until
from test_fleet import Pods, write
from test_flow_commands import trace_of

# Statements of a check that look at each row of a table once.
WHOLE_TABLES = ("SELECT e.stream FROM (SELECT DISTINCT", "SELECT r.stream, r.what FROM (",
                "SELECT n.stream FROM (SELECT 1", "SELECT o.op_stream, o.op_number, o.last_stream",
                "WITH kept AS (", "SELECT i.stream, i.number FROM intent i",
                "SELECT f.flow_stream, f.flow_number", "SELECT w.stream, w.number, w.kind")
TABLES = ("ledger", "stream", "operation", "intent", "flow", "event", "work")


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture
def fresh(postgres):
    return postgres.ledger()


def ledger(command, url, *arguments, code=0):
    done = run_cli("ledger", command, "--ledger", url, *arguments)
    assert done.returncode == code, done
    return done.stdout


def test_a_check_of_all_rows_takes_time_by_their_number(double, tmp_path, token):
    """But for one look at each table, whatever is asked for each page of rows is found by an
    index."""
    with Postgres(settings=plans.SETTINGS) as server:
        url = server.ledger()
        with Pods(tmp_path, double, url) as pods:
            for number in range(3):
                write(pods.a, f"/notes/{token}-{number}", f"{token}{number}")
            write(pods.b, f"/mail/{token}", f"mail{token}", status=202)
        keys = pods.secrets[2:]
        before = len(pathlib.Path(server.log).read_text(errors="replace"))
        ledger("verify", url, *keys)
        ledger("export", url, "--format", "ndjson", *keys)
        log = pathlib.Path(server.log).read_text(errors="replace")[before:]
        found = plans.plans_in(log)
        assert len(found) > 10
        assert plans.large_scans(server, url, found, WHOLE_TABLES) == []
    assert plans.scans(found, WHOLE_TABLES) == []


def test_auditors_check_and_export_all_streams(double, postgres, fresh, tmp_path, token):
    with Pods(tmp_path, double, fresh) as pods:
        written = [write(pod, f"/notes/{token}-{i}", f"{token}{i}")
                   for i, pod in enumerate((pods.a, pods.b))]
    keys = pods.secrets[2:]
    verdict = ledger("verify", fresh, *keys)
    assert verdict.count("ok: stream ") == 2 and "ok: 2 streams, " in verdict, verdict
    export = ledger("export", fresh, "--format", "ndjson", *keys)
    rows = [json.loads(line) for line in export.splitlines()]
    assert [row["kind"] for row in rows].count("export") == 2
    told = {row["number"]: row["event"]["path"] for row in rows if "event" in row}
    for i, answer in enumerate(written):
        assert told[answer.header("Recourse-Event")] == f"/notes/{token}-{i}"
    check = verifier_in(tmp_path)
    lines = export.encode().splitlines(keepends=True)
    good, said = check(lines)
    assert good and said.count("ok: ") == 2, said
    assert not check(lines[:1] + lines[2:])[0] and not check(lines[:-1])[0]
    second = next(at for at, row in enumerate(rows) if at and row["kind"] == "export")
    for left in (lines[second:], lines[:second] + lines[-1:]):
        sound, said = check(left)
        assert not sound and " is missing" in said, said
    assert not check(lines[:second])[0] and not check(lines + lines[:second])[0]
    assert not check([line for line in lines if b'"kind":"end"' not in line])[0]
    assert run_cli("ledger", "export", "--ledger", fresh).returncode == 2
    event = written[0].header("Recourse-Event")
    stream, number = event.split(".")
    postgres.sql(fresh, "CREATE TABLE was AS SELECT * FROM operation; DELETE FROM operation")
    said = ledger("verify", fresh, *keys, code=78)
    assert "BROKEN: operation " in said and "the table `operation` does not have it" in said
    assert "not have it" in json.loads(ledger("verify", fresh, "--json", code=78))["problem"]
    postgres.sql(fresh, "INSERT INTO operation SELECT * FROM was; DROP TABLE was;"
                        " CREATE TABLE was AS SELECT * FROM intent; DELETE FROM intent")
    assert "the table `intent` does not have what it says" in ledger("verify", fresh, code=78)
    postgres.sql(fresh, "INSERT INTO intent SELECT * FROM was")
    ledger("verify", fresh, *keys)
    postgres.sql(fresh, f"UPDATE event SET bytes = set_byte(bytes, 80, 7)"
                        f" WHERE stream = {stream} AND number = {number}")
    assert f"BROKEN: stream {stream} " in (said := ledger("verify", fresh, code=78))
    assert f"row {event}: checksum does not match" in said
    assert not json.loads(ledger("verify", fresh, "--json", code=78))["ok"]


DAMAGES = [
    ("DELETE FROM flow WHERE phase IN (3, 6)", "the table `flow` does not know of it"),
    ("UPDATE flow SET phase = 4 WHERE phase IN (3, 6)", "the table `flow` does not know of it"),
    ("UPDATE flow SET flow_number = flow_number + 900 WHERE phase = 1", "is not there, or is none"),
    ("DELETE FROM work WHERE kind = 1", "the table `work` does not know of it"),
    ("DELETE FROM work WHERE kind = 2", "the table `work` does not know of it"),
    ("DELETE FROM work WHERE kind = 3", "waits, and the table `work` does not have it"),
    ("UPDATE work SET kind = 2 WHERE kind = 1", "has it, and it does not wait"),
    ("UPDATE intent SET (stream, number) = (SELECT stream, number FROM event WHERE phase = 7"
     " ORDER BY place LIMIT 1) WHERE place = (SELECT max(place) FROM intent)", "is not what the"),
    ("UPDATE intent i SET (stream, number) = (SELECT stream, number FROM event WHERE phase = 7"
     " ORDER BY place LIMIT 1) WHERE place = 0", "is not what the table `intent` names it for"),
]


@pytest.fixture(scope="module")
def damaged(double, postgres, tmp_path_factory):
    """A ledger in which something waits of every kind, and its keys."""
    url, token = postgres.ledger(), "damaged"
    with Pods(tmp_path_factory.mktemp("pods"), double, url) as pods:
        write(pods.a, f"/notes/{token}", token)
        write(pods.a, f"/orders/{token}", f"{token}order")
        write(pods.a, f"/mail/{token}", f"{token}mail", status=202)
        double.script("POST", f"/notes/{token}-lost", ["read", "execute", "rst"], 1)
        lost = f"{token}lost"
        write(pods.b, f"/notes/{token}-lost", lost, status=502)
        pods.b.cli("flows", "cancel", trace_of(lost), "--reason", "astray")
        broken = "SELECT count(*) FROM flow WHERE phase IN (3, 6)"
        wait_until(lambda: postgres.sql(url, broken) == "1\n")
        for pod in (pods.a, pods.b):
            pod.kill()
    ledger("verify", url, *pods.secrets[2:])
    return url


@pytest.mark.parametrize("damage, said", DAMAGES)
def test_what_the_tables_beside_the_log_lack_is_named(postgres, damaged, damage, said):
    for table in TABLES:
        postgres.sql(damaged, f"CREATE TABLE was_{table} AS SELECT * FROM {table}")
    postgres.sql(damaged, damage)
    told = run_cli("ledger", "verify", "--ledger", damaged)
    for table in TABLES:
        if table != "event":
            postgres.sql(damaged, f"DELETE FROM {table}; INSERT INTO {table} TABLE was_{table}")
        postgres.sql(damaged, f"DROP TABLE was_{table}")
    assert told.returncode == 78 and said in told.stdout, told
    ledger("verify", damaged)


def test_after_a_restore_nobody_begins_anything_until_it_is_accepted(
    double, postgres, fresh, tmp_path, token
):
    def each(statement):
        postgres.sql(fresh, "; ".join(statement.format(table) for table in TABLES))

    with Pods(tmp_path, double, fresh) as pods:
        write(pods.a, f"/notes/{token}-kept", f"{token}a")
        each("CREATE TABLE was_{0} AS SELECT * FROM {0}")
        write(pods.a, f"/notes/{token}-lost", f"{token}b")
        each("DELETE FROM {0}; INSERT INTO {0} SELECT * FROM was_{0}")
        refused = write(pods.a, f"/notes/{token}-c", f"{token}c", status=503)
        assert refused.outcome == "not_executed"
        for pod in (pods.a, pods.b):
            refused = write(pod, f"/notes/{token}-c", f"{token}c", status=503)
            assert refused.json()["type"].endswith("log-restored"), refused
            said = pod.cli("status").stdout
            assert "refused: restored from a backup" in said and said.count("\nstream ") >= 2
            assert "at most" not in said, "a database has its own limit"
            read = rawhttp.call(pod.port, "GET", f"/notes/{token}-kept")
            assert read.status < 500, read
        assert json.loads(ledger("status", fresh))["restored"]
        assert "ok: new writes" in ledger(
            "accept", fresh, "--all-groups", "--reason", "looked at the shop"
        )
        assert "nothing to accept" in ledger(
            "accept", fresh, "--all-groups", "--reason", "once more"
        )
        for pod in (pods.a, pods.b):
            write(pod, f"/notes/{token}-{pod.port}", f"{token}d")
        assert not json.loads(ledger("status", fresh))["restored"]
        assert postgres.sql(fresh, "SELECT accepted_why FROM ledger") == "looked at the shop\n"
        ledger("verify", fresh)
