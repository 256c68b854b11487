"""A binary of the version before and this one over the tables of one shared ledger, as while a
Deployment is rolled: `RECOURSE_PREVIOUS_BIN` names the other one."""

import os
import subprocess
import threading

import pytest

from support import rawhttp
from support.postgres import Postgres
from support.recourse import BINARY, NotReady
from support.waiting import wait_until
from test_fleet import Pods, cut_off, stream_of, write
from test_flow_commands import Shop, trace_of

PREVIOUS = os.environ.get("RECOURSE_PREVIOUS_BIN", "")
pytestmark = pytest.mark.skipif(
    not PREVIOUS, reason="RECOURSE_PREVIOUS_BIN names no binary of the version before")
OLD_AND_NEW = [("old", "new"), ("new", "old")]


def run(binary, *arguments):
    return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip


def migrate(binary, url):
    return run(binary, "ledger", "migrate", "--ledger", url)


def both(directory, double, url):
    pods = Pods(directory, double, url, ["old", "new"])
    pods.old.binary = PREVIOUS
    return pods


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture(scope="module")
def url(postgres):
    """Tables that the version before has made, and this one has expanded."""
    url = postgres.database()
    for binary in (PREVIOUS, BINARY):
        made = migrate(binary, url)
        assert made.returncode == 0, made
    return url


@pytest.fixture(scope="module")
def pods(double, url, tmp_path_factory):
    with both(tmp_path_factory.mktemp("pods"), double, url) as running:
        yield running
        for pod in running.all.values():
            assert pod.running(), pod.stderr()[-4000:]
            assert pod.verify()["ok"]
    for binary in (PREVIOUS, BINARY):
        checked = run(binary, "ledger", "verify", "--ledger", url)
        assert checked.returncode == 0, checked


def pair(pods, order):
    return [pods.all[name] for name in order]


@pytest.mark.parametrize("keyed", [False, True], ids=["by arguments", "by the agent's key"])
@pytest.mark.parametrize("order", OLD_AND_NEW)
def test_a_repeat_at_the_other_version_has_one_effect_and_one_answer(pods, token, order, keyed):
    first, second = pair(pods, order)
    fields = {"Idempotency-Key": f"key-{token}"} if keyed else {}
    path = f"/notes/{token}"
    one = write(first, path, token, **fields)
    two = write(second, path, token, **fields)
    assert two.replayed and two.body == one.body
    assert stream_of(two) == stream_of(one)
    assert len(pods.double.effects(path)) == 1
    if keyed:
        other = rawhttp.call(second.port, "POST", path, headers=fields, body={"client_ref": "no"})
        assert other.status == 422


@pytest.mark.parametrize("order", OLD_AND_NEW)
def test_a_repeat_joins_a_call_that_runs_at_the_other_version(pods, token, order):
    first, second = pair(pods, order)
    path = f"/notes/{token}"
    pods.double.script("POST", path, ["read", "execute", {"gate": token}, "answer"], 1)
    answers = {}

    def call(name, pod):
        answers[name] = write(pod, path, token)

    callers = [threading.Thread(target=call, args=("first", first))]
    callers[0].start()
    pods.double.await_effects(path)
    callers.append(threading.Thread(target=call, args=("second", second)))
    callers[1].start()
    pods.double.open_gate(token)
    for caller in callers:
        caller.join()
    assert answers["first"].body == answers["second"].body and answers["second"].replayed
    assert len(pods.double.effects(path)) == 1


@pytest.mark.parametrize("order", OLD_AND_NEW)
def test_a_flow_over_both_versions_is_undone_by_either(pods, token, order):
    first, second = pair(pods, order)
    write(first, f"/orders/{token}", token)
    write(second, f"/payments/{token}", token)
    shop = Shop(second, pods.double)
    shop.flows("cancel", trace_of(token), "--reason", "the agent went astray")
    shop.await_flow(trace_of(token), "UNDONE")
    assert shop.effects(token) == ["POST orders", "POST payments", "POST refunds", "DELETE orders"]


@pytest.mark.parametrize("order", OLD_AND_NEW)
def test_what_one_version_asks_is_approved_at_the_other(pods, token, order):
    first, second = pair(pods, order)
    operation = write(first, f"/mail/{token}", token, status=202).json()["operation"]
    done = second.by_hand("ann", "approve", operation, "--digest",
                          second.shown(operation)["digest"])
    assert done.returncode == 0, done
    wait_until(lambda: len(pods.double.effects(f"/mail/{token}")) == 1)
    assert write(first, f"/mail/{token}", token).replayed


@pytest.mark.parametrize("order", OLD_AND_NEW)
def test_the_other_version_takes_over_what_a_killed_pod_has_open(
        double, url, tmp_path, token, order):
    path = f"/placed/{token}"
    with both(tmp_path, double, url) as pods:
        dies, lives = pair(pods, order)
        double.script("POST", path, ["read", "execute", {"gate": token}], 1)
        fields = rawhttp.traced(trace_of(token))
        caller = threading.Thread(target=cut_off, args=(dies, path, fields, token))
        caller.start()
        double.await_effects(path)
        asked = write(dies, f"/mail/{token}", f"mail{token}", status=202).json()["operation"]
        dies.kill()
        caller.join()
        settled = lives.await_phase(path, ("SUCCEEDED", "ANSWER_LOST"))
        causes = [event["cause"] for event in lives.events_for(path)]
        assert settled["external_ref"] and causes[:2] == ["first_call", "owner_lost"]
        assert lives.approve(asked)[0] == 200
        wait_until(lambda: len(double.effects(f"/mail/{token}")) == 1)
        told = rawhttp.call(lives.port, "POST", path, headers=fields, body={"client_ref": token})
        assert told.outcome == "executed" and len(double.effects(path)) == 1
        double.open_gate(token)
        # It comes back, as the version before in a rollback, and knows it too.
        dies.start()
        told = rawhttp.call(dies.port, "POST", path, headers=fields, body={"client_ref": token})
        assert told.outcome == "executed" and len(double.effects(path)) == 1


def test_tables_are_expanded_while_pods_of_the_version_before_run(
        double, postgres, tmp_path, token):
    url = postgres.database()
    assert migrate(PREVIOUS, url).returncode == 0
    pods = both(tmp_path, double, url)
    try:
        pods.old.start()
        write(pods.old, f"/notes/{token}-1", f"{token}1")
        made = migrate(BINARY, url)
        assert made.returncode == 0, made
        again = migrate(PREVIOUS, url)
        assert again.returncode == 0 or "which a later recourse has made" in again.stderr
        write(pods.old, f"/notes/{token}-2", f"{token}2")
        pods.new.start()
        for number in (1, 2):
            assert write(pods.new, f"/notes/{token}-{number}", f"{token}{number}").replayed
        # One that starts after it, too.
        assert pods.old.stop() == 0
        pods.old.start()
        assert write(pods.old, f"/notes/{token}-1", f"{token}1").replayed
        live = [one for one in pods.new.admin("GET", "/status")["streams"]
                if one["state"] == "live"]
        assert len(live) == 2
    finally:
        pods.__exit__()


def test_tables_that_a_version_may_not_write_are_refused_with_words(
        double, postgres, tmp_path):
    url = postgres.database()
    assert migrate(BINARY, url).returncode == 0
    pods = both(tmp_path, double, url)
    for facts, why in (("schema_version = 1", "run recourse ledger migrate"),
                       ("schema_version = 99, min_writer = 99", "a later version of recourse")):
        postgres.sql(url, f"UPDATE ledger SET {facts}")
        for pod in pods.all.values():
            with pytest.raises(NotReady, match="exit 78: "):
                pod.start()
            assert why in pod.stderr()


def test_tables_of_the_version_before_serve_this_one_or_are_refused_with_words(
        double, postgres, tmp_path, token):
    url = postgres.database()
    assert migrate(PREVIOUS, url).returncode == 0
    pods = both(tmp_path, double, url)
    try:
        pods.new.start()
    except NotReady:
        assert "run recourse ledger migrate" in pods.new.stderr()
        return
    try:
        write(pods.new, f"/notes/{token}", token)
        accepted = run(BINARY, "ledger", "accept", "--ledger", url, "--group", "shop/checkout",
                       "--reason", "a test")
        assert accepted.returncode == 0, accepted
    finally:
        pods.__exit__()
