"""What operators and auditors are told while the database of a shared ledger does not answer: that,
and never that nothing is there, that nothing waits, or that something was changed."""

import json
import types

import pytest

from support import rawhttp
from support.postgres import Postgres
from support.recourse import run_cli
from support.waiting import wait_until
from test_fleet import Pods, write
from test_flow_commands import Shop

AWAY = "the ledger's database does not answer"
# Those that an alert looks at, and that would end it by falling to nothing.
KEPT = [
    "recourse_flows_parked",
    "recourse_flows_parked_oldest_timestamp_seconds",
    "recourse_approvals_pending",
    "recourse_flows_stopped",
    'recourse_events{phase="UNCERTAIN"}',
    "recourse_event_oldest_pending_timestamp_seconds",
    "recourse_ledger_orphaned_work",
]


def gauges(pod):
    lines = [line.rsplit(" ", 1) for line in pod.probe("/metrics")[1].splitlines()]
    return {name: float(value) for name, value in lines if name in KEPT}


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture(scope="module")
def away(double, postgres, tmp_path_factory):
    """A pod in whose ledger something waits of every kind; its database has gone."""
    url = postgres.ledger()
    with Pods(tmp_path_factory.mktemp("pods"), double, url, ["pod"]) as pods:
        pod = pods.pod
        Shop(pod, double).park("parked")
        write(pod, "/mail/asked", "asked", status=202)
        double.script("POST", "/notes/lost", ["read", "execute", "rst"], 1)
        write(pod, "/notes/lost", "lost", status=502)
        # The flow of what was lost has a deadline.
        wait_until(lambda: [gauges(pod)[name] for name in KEPT[:3:2]] == [2, 1])
        kept = types.SimpleNamespace(pod=pod, url=url, gauges=gauges(pod),
                                     told=pod.cli("status").stdout.splitlines())
        postgres.stop()
        yield kept
        postgres.start()
        wait_until(lambda: pod.cli("ledger", "verify").returncode == 0)


@pytest.mark.parametrize("command", [
    ["ledger", "verify"], ["ledger", "export"], ["ledger", "export", "--format", "ndjson"],
    ["ledger", "accept", "--reason", "r"], ["report"], ["events", "list"],
    ["events", "show", "1.2"], ["flows", "list"], ["operations", "list"]])  # fmt: skip
def test_a_pod_says_that_it_does_not_know(away, command):
    told = away.pod.cli(*command)
    assert told.returncode == 1 and told.stdout == "", told
    assert AWAY in told.stderr, told


@pytest.mark.parametrize("command", [["verify"], ["verify", "--json"],
                                     ["export", "--format", "ndjson"]])
def test_an_auditor_without_an_answer_has_found_nothing(away, command):
    told = run_cli("ledger", *command, "--ledger", away.url)
    assert told.returncode == 1 and told.stdout == "", told
    assert "the ledger's database cannot be reached" in told.stderr, told


def test_its_status_is_that_of_when_the_database_answered(away):
    lines = away.pod.cli("status").stdout.splitlines()
    said = {line.split()[0]: line for line in lines}
    assert f"refused: {AWAY}; what is told of all pods is as of 20" in said["writes"], lines
    for kind in ("flows", "approvals", "operations"):
        assert said[kind] in away.told, lines
    assert " 2 parked" in said["flows"] and said["approvals"].split()[1] == "1", lines
    known = away.pod.admin("GET", "/status")["ledger"]
    assert known["away"] and known["counted"] in said["writes"], known
    ledger = away.pod.cli("ledger", "status").stdout
    assert f"refused: {AWAY}; " in ledger and " 0 bytes" not in ledger, ledger


def test_what_alerts_look_at_stays_as_it_was(away):
    assert gauges(away.pod) == away.gauges
    assert away.gauges["recourse_flows_parked"] == 2
    assert "recourse_ledger_up 0" in away.pod.probe("/metrics")[1]


def test_the_log_says_that_the_database_is_back(double, tmp_path):
    with Postgres() as server, Pods(tmp_path, double, server.ledger(), ["pod"]) as pods:
        def log():
            lines = [line for line in pods.pod.stderr().splitlines() if line.startswith("{")]
            return [json.loads(line) for line in lines]

        def told():
            return [line["msg"] for line in log() if "the ledger's database" in line["msg"]]

        gone = "the ledger's database is away; new writes are held back"
        back = "the ledger's database answers again"
        for times in (1, 2):
            before = told().count(gone)
            server.stop()
            wait_until(lambda before=before: told().count(gone) > before, told)
            server.start()
            wait_until(lambda: told().count(back) >= times, told)
            write(pods.pod, f"/notes/back-{times}", f"back-{times}")
        (first, *_), (second, *_) = [
            [line for line in log() if line["msg"] == one] for one in (gone, back)]
        assert told().count(back) == 2 and told()[-1] == back, told()
        assert (first["level"], second["level"]) == ("error", "info"), (first, second)


def test_a_pod_tells_of_which_stream_it_tells_and_what_to_back_up(double, tmp_path):
    with Postgres() as server, Pods(tmp_path, double, server.ledger()) as pods:
        for i, pod in enumerate((pods.a, pods.b)):
            write(pod, f"/notes/verified-{i}", f"v{i}")
        for pod in (pods.a, pods.b):
            stream = pod.verify()["stream"]
            told = pod.cli("ledger", "verify").stdout
            assert told.startswith(f"ok: stream {stream}: "), told
            assert "all of them: recourse ledger verify --ledger URL" in told
        assert pods.a.verify()["stream"] != pods.b.verify()["stream"]
        copied = pods.a.cli("ledger", "backup", tmp_path / "copy")
        assert copied.returncode == 1, copied
        assert "is in a database, which is what to back up" in copied.stderr
        status = pods.a.cli("ledger", "status").stdout
        assert "used " in status, status
        for of_a_file in ("--ledger-max", "free", "reserved", "overdue"):
            assert of_a_file not in status, status
        assert rawhttp.call(pods.a.port, "GET", "/notes/verified-0").status == 200


def test_a_database_that_refuses_to_write_is_no_open_ledger(double, tmp_path):
    with Postgres() as server:
        url = server.ledger()
        server.sql("postgres", "CREATE ROLE app LOGIN")
        granted = run_cli("ledger", "grant", "--ledger", url, "--role", "app", "--as", "pod",
                          "--group", "shop/checkout")
        assert granted.returncode == 0, granted
        with Pods(tmp_path, double, url.replace("//recourse@", "//app@"), ["pod"]) as pods:
            pod = pods.pod

            def said():
                lines = pod.cli("status").stdout.splitlines()
                return next(line for line in lines if line.startswith("writes"))

            def up():
                return "recourse_ledger_up 1" in pod.probe("/metrics")[1]

            write(pod, "/notes/before", "before")
            server.sql(url, "REVOKE INSERT ON event FROM app")
            refused = write(pod, "/notes/refused", "refused", status=503)
            assert refused.outcome == "not_executed", refused
            assert "refused by the ledger's database" in said(), said()
            assert "permission denied for table event" in said(), said()
            assert not up()
            server.sql(url, "GRANT INSERT ON event TO app")
            write(pod, "/notes/refused", "refused")
            assert said().split() == ["writes", "accepted"] and up()

            server.sql(url, "REVOKE UPDATE ON operation FROM app")
            write(pod, "/notes/first", "first", status=503)
            for i in range(3):
                later = write(pod, f"/notes/later-{i}", f"later-{i}", status=503)
                assert later.outcome == "not_executed", later
                assert not double.effects(f"/notes/later-{i}")
            assert "permission denied for table operation" in said(), said()
            told = [line for line in pod.stderr().splitlines() if "whose clients" in line]
            assert len(told) <= 1, told
            server.sql(url, "GRANT UPDATE ON operation TO app")
            wait_until(lambda: "accepted" in said(), said)
            write(pod, "/notes/after", "after")
            assert len(double.effects("/notes/after")) == 1
            wait_until(lambda: pod.cli("ledger", "verify").returncode == 0)
