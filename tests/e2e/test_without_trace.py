"""Writes that come without a traceparent: what makes flows of them, and who is told of the rest."""

import json

import pytest

from support import flows
from support.callers import check_that_callers_share_no_flow
from support.prometheus import Scrape
from support.recourse import Recourse
from support.waiting import wait_until

ALONE = "3 of 4 writes came without a trace: they are flows of one step"
WARNING = "a write that comes without a trace is a flow of one step"


def policy(double, rule=None, more=""):
    words = more if rule is None else f"without_trace: {rule}{more and ', '}{more}"
    return flows.policy(double) + (f"flow_rules: {{ {words} }}\n" if words else "")


def counts_of(running):
    return running.admin("GET", "/status")["flow_counts"]


class Untraced(flows.Agent):
    """An agent that knows nothing of traces; perhaps it sends a field of its own."""

    def __init__(self, shop, token, **fields):
        super().__init__(shop, token)
        self.fields = fields

    def call(self, kind, **how):
        answer = super().call(kind, traceparent=None, **self.fields, **how)
        self.flow = dict(answer.headers).get("Recourse-Flow", self.flow)
        return answer


RULES = [
    pytest.param("pod", {}, id="pod"),
    pytest.param("header:X-Run", {"X_Run": "run-7"}, id="header"),
    pytest.param("session", {"Recourse_Session": "s-7"}, id="session"),
    pytest.param("session", {"Mcp_Session_Id": "m-7"}, id="mcp-session"),
]


@pytest.mark.parametrize(("rule", "fields"), RULES)
def test_three_calls_are_one_flow_and_the_third_has_the_others_undone(
    double, token, tmp_path, rule, fields
):
    with Recourse(tmp_path, policy(double, rule)) as running:
        assert WARNING not in running.stderr()
        agent = Untraced(flows.Shop(running, double), token, **fields)
        agent.does("orders", "payments")
        agent.breaks()
        agent.await_undone()
        assert agent.undone() == ["payments", "orders"]
        if fields:
            assert agent.flow in fields.values()
        assert agent.call("orders", token=f"{token}-late").json()["type"].endswith("/flow-closed")
        assert counts_of(running) == {"writes": 4, "without_trace": 0}
        assert running.stop() == 0, running.stderr()[-4000:]


def test_without_the_word_they_stand_alone_and_everybody_who_looks_is_told(double, token, tmp_path):
    with Recourse(tmp_path, policy(double)) as running:
        assert WARNING in running.stderr()
        shop = flows.Shop(running, double)
        shop.agent(f"{token}-traced").does("orders")
        assert running.cli("status").stdout.count("without a trace") == 0
        agent = Untraced(shop, token)
        agent.does("orders", "payments")
        agent.breaks()
        agent.await_undone()  # of its one step, which had no effect
        assert agent.undone() == []
        counts = {"writes": 4, "without_trace": 3}
        assert json.loads(running.cli("status", "--json").stdout)["flow_counts"] == counts
        assert json.loads(running.cli("report", "--json").stdout)["flow_counts"] == counts
        assert ALONE in running.cli("status").stdout
        assert ALONE in running.cli("report").stdout
        scrape = Scrape(running)
        assert scrape.sum("recourse_flow_writes_total", "own") == 3
        assert scrape.sum("recourse_flow_writes_total", "named") == 1


def test_in_observe_mode_they_are_counted_too(double, token, tmp_path):
    with Recourse(tmp_path, "mode: observe\n" + policy(double)) as running:
        agent = Untraced(flows.Shop(running, double), token)
        agent.does("orders", "payments")
        counts = {"writes": 2, "without_trace": 2}
        wait_until(lambda: counts_of(running) == counts, running.stderr)


def test_a_call_that_carries_a_trace_or_lacks_the_field_is_in_no_such_flow(double, token, tmp_path):
    with Recourse(tmp_path, policy(double, "header:X-Run")) as running:
        shop = flows.Shop(running, double)
        agent = Untraced(shop, token, X_Run="run-8")
        agent.does("orders")
        traced, lone = shop.agent(f"{token}-traced"), Untraced(shop, f"{token}-lone")
        assert traced.call("orders", X_Run="run-8").status == 201
        lone.does("orders")
        agent.breaks()
        agent.await_undone()
        assert (agent.undone(), traced.undone(), lone.undone()) == (["orders"], [], [])
        traced.does("payments")
        assert counts_of(running) == {"writes": 5, "without_trace": 1}


@pytest.mark.parametrize(("rule", "fields"), RULES)
def test_two_callers_never_share_a_flow(double, token, tmp_path, rule, fields):
    def agents_of(shop):
        return [Untraced(shop, f"{token}-{name}", **fields) for name in ("one", "two")]

    check_that_callers_share_no_flow(tmp_path, double, policy(double, rule), agents_of)


@pytest.mark.parametrize(("rule", "fields"), RULES)
def test_a_kill_between_two_steps_keeps_the_flow(double, token, tmp_path, rule, fields):
    with Recourse(tmp_path, policy(double, rule)) as running:
        agent = Untraced(flows.Shop(running, double), token, **fields)
        agent.does("orders")
        running.kill()
        running.start()
        agent.does("payments")
        running.kill()
        running.start()
        agent.breaks()
        agent.await_undone()
        assert agent.undone() == ["payments", "orders"]


def test_another_pod_over_the_same_ledger_is_another_flow(double, token, tmp_path):
    with Recourse(tmp_path, policy(double, "pod"), env={"RECOURSE_POD_UID": "run-1"}) as running:
        shop = flows.Shop(running, double)
        first = Untraced(shop, f"{token}-first")
        first.does("orders", "payments")
        running.kill()
        running.start({"RECOURSE_POD_UID": "run-2"})
        second = Untraced(shop, f"{token}-second")
        second.does("orders")
        second.breaks()
        second.await_undone()
        assert second.flow != first.flow
        assert (second.undone(), first.undone()) == (["orders"], [])


def test_an_agent_cancels_its_flow_without_knowing_what_it_is_called(double, token, tmp_path):
    words = policy(double, "pod", "agents_may: [ cancel ]")
    with Recourse(tmp_path, words) as running:
        agent = Untraced(flows.Shop(running, double), token)
        agent.does("orders", "payments")
        canceled = agent.call("shipping", Recourse_Flow="cancel")
        assert canceled.status == 202 and canceled.json()["steps"] == 2, canceled
        agent.await_undone()
        assert agent.undone() == ["payments", "orders"]
