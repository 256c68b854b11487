"""Words that were on their way to a slow database when whoever had said them was told that nobody
knows: once they hold, they are acted upon as any other."""

import threading

import pytest

from support import rawhttp
from support.postgres import Postgres
from support.waiting import wait_until
from test_fleet import Pods, write
from test_fleet_away import AWAY
from test_flow_commands import Shop, trace_of


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture(scope="module")
def pods(double, postgres, tmp_path_factory):
    with Pods(tmp_path_factory.mktemp("pods"), double, postgres.ledger()) as running:
        yield running
        for pod in running.all.values():
            assert pod.running(), pod.stderr()[-4000:]
        wait_until(lambda: running.a.verify()["ok"])


def held(postgres, url, rows):
    """Rows that nobody else can change meanwhile."""
    return postgres.holding(url, f"SELECT FROM {rows} FOR UPDATE")


def row_of(operation):
    stream, _, number = operation.partition(".")
    return f"operation WHERE op_stream = {stream} AND op_number = {number}"


@pytest.mark.parametrize("name", ["asked", "other"])
def test_what_was_approved_is_sent(pods, double, postgres, name):
    path, pod = f"/mail/{name}", pods.a if name == "asked" else pods.b
    operation = write(pods.a, path, name, status=202).json()["operation"]
    order = {"digest": pod.shown(operation)["digest"], "reason": "seen"}
    with held(postgres, pods.url, row_of(operation)):
        status, told = pod.ask("POST", f"/approvals/{operation}/approve", "ann", order)
    assert status >= 500 and AWAY in told["detail"], told
    pod.await_phase(path, "SUCCEEDED")
    assert len(double.effects(path)) == 1


def test_what_cannot_be_read_is_not_said_to_be_gone(pods, postgres):
    first, second = (write(pods.a, f"/mail/{name}", name, status=202).json()["operation"]
                     for name in ("first", "second"))  # fmt: skip
    order = {"digest": pods.a.shown(first)["digest"], "reason": "seen"}
    deciding = threading.Thread(
        target=lambda: pods.a.ask("POST", f"/approvals/{first}/approve", "ann", order))
    with held(postgres, pods.url, row_of(first)):
        deciding.start()
        waits = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
        wait_until(lambda: postgres.sql(pods.url, waits) == "t\n")
        status, told = pods.a.ask("GET", f"/approvals/{second}", "ann")
    deciding.join()
    assert status == 503 and AWAY in told["detail"], told
    assert pods.a.shown(second)["status"] == "waiting"


def test_what_was_canceled_is_undone(pods, double, postgres):
    shop = Shop(pods.a, double)
    trace = shop.buy("canceled", "orders", "payments")
    stream, _, number = shop.flow(trace)["number"].partition(".")
    flow = f"flow WHERE flow_stream = {stream} AND flow_number = {number}"
    with held(postgres, pods.url, flow):
        assert AWAY in shop.flows("cancel", trace, "--reason", "r", code=1)
    shop.await_flow(trace, "UNDONE")
    assert shop.effects("canceled") == [
        "POST orders", "POST payments", "POST refunds", "DELETE orders"]


def test_what_begins_for_nobody_is_not_sent_and_has_its_deadline(pods, double, postgres):
    """A step that was told to be unsent brought its flow a deadline."""
    shop, trace = Shop(pods.a, double), trace_of("late")
    write(pods.a, "/placed/late", "late")
    stream, _, number = shop.flow(trace)["number"].partition(".")
    flow = f"flow WHERE flow_stream = {stream} AND flow_number = {number}"
    with held(postgres, pods.url, flow):
        told = rawhttp.call(pods.a.port, "POST", "/notes/late", headers=rawhttp.traced(trace),
                            body={"client_ref": "late"})
    assert told.status == 503 and told.outcome == "not_executed", told
    pods.a.await_phase("/notes/late", "NOT_SENT")
    assert double.effects("/notes/late") == []
    shop.await_flow(trace, "NEEDS_HUMAN")


def test_what_asks_for_nobody_is_asked_anew(pods, double, postgres):
    shop, trace = Shop(pods.a, double), trace_of("asks")
    write(pods.a, "/placed/asks", "asks")
    stream, _, number = shop.flow(trace)["number"].partition(".")
    flow = f"flow WHERE flow_stream = {stream} AND flow_number = {number}"

    def ask():
        return rawhttp.call(pods.a.port, "POST", "/mail/asks", headers=rawhttp.traced(trace),
                            body={"client_ref": "asks"})

    with held(postgres, pods.url, flow):
        told = ask()
    assert told.status == 503 and told.outcome == "not_executed", told
    wait_until(lambda: ask().status == 202)
    (waiting,) = pods.b.await_waiting("/mail/asks")
    assert pods.b.approve(waiting["operation"])[0] == 200
    wait_until(lambda: len(double.effects("/mail/asks")) == 1)
