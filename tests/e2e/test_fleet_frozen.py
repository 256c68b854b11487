"""A shared ledger whose database takes connections and answers nothing: what needs none goes on,
and nobody waits for it longer than they must."""

import threading
import types

import pytest

from support import rawhttp
from support.desk import Desk
from support.postgres import Postgres
from support.waiting import wait_until
from test_fleet import Pods, write
from test_fleet_away import AWAY
from test_flow_commands import REFUSAL, Shop, trace_of


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture(scope="module")
def pod(double, postgres, tmp_path_factory):
    policy = Pods.policy(double, "{ group: shop/checkout }").replace("timeout: 60s", "timeout: 20s")
    assert "timeout: 20s" in policy
    policy += "flow_rules: { agents_may: [ cancel ] }\n"
    folder = tmp_path_factory.mktemp("pods")
    with Pods(folder, double, postgres.ledger(), ["pod"], policy=policy) as pods:
        yield pods.pod


class Calls:
    """Calls that wait, each on a thread of its own."""

    def __init__(self, pod):
        self.pod, self.threads, self.answers = pod, {}, {}

    def start(self, name, call):
        def run():
            self.answers[name] = call()

        self.threads[name] = threading.Thread(target=run)
        self.threads[name].start()

    def end(self, name):
        self.threads[name].join()
        return self.answers[name]


@pytest.fixture(scope="module")
def frozen(double, postgres, pod):
    """Its database was frozen while calls of every kind were under way."""
    shop, calls = Shop(pod, double), Calls(pod)
    trace = shop.buy("failing", "orders")
    write(pod, "/mail/asked", "asked", status=202)
    write(pod, "/notes/done", "done")
    approval = pod.await_waiting("/mail/asked")[0]["operation"]
    paths = {"slow": "/notes/slow", "lost": "/placed/lost", "failing": "/payments/failing"}
    steps = {"slow": ["execute", "answer"], "lost": ["execute", "rst"],
             "failing": [REFUSAL]}  # fmt: skip
    for name, path in paths.items():
        double.script("POST", path, ["read", {"gate": "frozen"}, *steps[name]], 1)
    calls.start("slow", lambda: write(pod, "/notes/slow", "slow", status=503))
    calls.start("lost", lambda: write(pod, "/placed/lost", "lost", status=503))
    calls.start("failing", lambda: shop.call("payments", "failing", trace))
    for path in paths.values():
        double.await_requests("POST", path)
    kept = types.SimpleNamespace(calls=calls, shop=shop, trace=trace, approval=approval,
                                 shown=pod.shown(approval))  # fmt: skip
    with postgres.frozen():
        double.open_gate("frozen")
        yield kept
    # Whatever was told meanwhile holds.
    wait_until(lambda: pod.cli("ledger", "verify").returncode == 0)
    for name in ("slow", "done"):
        repeat = write(pod, f"/notes/{name}", name)
        assert repeat.header("Idempotent-Replayed") == "true", repeat
        assert repeat.json()["client_ref"] == name, repeat
    shop.flows("cancel", trace, "--reason", "r")
    shop.await_flow(trace, "UNDONE")
    wait_until(lambda: shop.call("placed", "lost", trace_of("lost")).status == 200)
    for path in ("/notes/slow", "/placed/lost", "/orders/failing"):
        assert len(double.effects(path)) == 1, path


def test_probes_and_reads_go_on(frozen, pod):
    assert pod.probe("/live")[0] == 200
    assert pod.probe("/ready")[0] == 200
    wait_until(lambda: "recourse_ledger_up 0" in pod.probe("/metrics")[1])
    assert rawhttp.call(pod.port, "GET", "/notes/anything").status == 200


def test_what_begins_is_refused(frozen, pod):
    for path, key in (("/notes/new", "new"), ("/notes/done", "done")):
        refused = write(pod, path, key, status=503).json()
        assert refused["type"].endswith("/log-unavailable"), refused
        assert refused["detail"] == AWAY and refused["outcome"] == "not_executed", refused
        assert "Nothing was sent for this request" in refused["advice"], refused


@pytest.mark.parametrize("name", ["slow", "lost", "failing"])
def test_whoever_waits_for_an_outcome_is_told_at_the_end_of_its_time(frozen, name):
    told = frozen.calls.end(name)
    assert told.status == 503 and told.json()["outcome"] == "unknown", told


@pytest.mark.parametrize("command", [
    ["ledger", "verify"], ["ledger", "export"], ["ledger", "accept", "--reason", "r"], ["report"],
    ["events", "list"], ["events", "show", "1.2"], ["flows", "list"], ["operations", "list"],
    ["approvals", "list"]])  # fmt: skip
def test_operators_are_told(frozen, pod, command):
    told = pod.cli(*command)
    assert told.returncode == 1 and told.stdout == "", told
    assert AWAY in told.stderr, told


def test_whoever_decides_is_told(frozen, pod):
    told = pod.cli("flows", "cancel", frozen.trace, "--reason", "r")
    assert told.returncode == 1 and AWAY in told.stderr, told
    order = {"digest": frozen.shown["digest"], "reason": "seen"}
    status, told = pod.ask("POST", f"/approvals/{frozen.approval}/approve", "ann", order)
    assert status >= 500 and AWAY in told["detail"], told


def test_an_agents_word_about_its_flow_may_have_been_heard(frozen, pod):
    fields = {**rawhttp.traced(frozen.trace), "Recourse-Flow": "cancel"}
    told = rawhttp.call(pod.port, "POST", "/any", headers=fields, body={})
    assert told.status == 503 and told.json()["outcome"] == "unknown", told
    assert AWAY in told.json()["detail"] and "Say it again" in told.json()["advice"], told


def test_the_page_tells_that_its_counts_are_old(frozen, pod, browser):
    Desk(browser, pod).log_in("#/policy")
    browser.wait('[role=status]:has-text("does not answer. Counts are as of")')


def test_its_status_is_that_of_when_the_database_answered(frozen, pod):
    wait_until(lambda: AWAY in pod.cli("status").stdout)
