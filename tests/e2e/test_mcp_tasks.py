"""Calls that an MCP server makes tasks of: what becomes of the operation when somebody asks about
the task, when nobody does, and when the task is gone."""

import json

import pytest

from support.mcp import Everything
from support.mcp_client import McpClient
from support.mcp_fixtures import ERAS, client, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.mcp_wire import Legacy, Modern, rpc
from support.recourse import Recourse
from support.waiting import wait_until

TOOLS = """\
  task:
    match: tools/call tools task_write
    effect: write
    scope: caller
    hold: 600s
    undo: { call: cancel_order, arguments: { id: "{external_ref}", mark: "{body#/mark}" } }
  orders.cancel: { match: tools/call tools cancel_order, effect: write,
                   scope: caller, reason: it undoes }
"""
SURE = TOOLS.replace("hold: 600s", "hold: 600s\n    on_error: not_executed")
FLOWS = "flow_rules: { agents_may: [ cancel ] }\n"
# Nobody but the agent asks in the time of a test.
QUIET = {"task_poll": 300_000}


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    policy = calls_policy(running, tools=TOOLS, more=FLOWS)
    with serving(Recourse(tmp_path_factory.mktemp("mcp"), policy)) as recourse:
        yield recourse


def start(client, arguments, number=1, headers=None):
    """The call as a client of its era makes it that takes a task for an answer."""
    task = {"task": {}} if isinstance(client, Legacy) else {}
    return client.call("task_write", arguments, number, headers, **task)


def task_of(answer):
    result = answer.final()["result"]
    return result.get("task", result)


def ask(client, method, task, headers=None):
    fields = {"Mcp-Name": task} if isinstance(client, Modern) else {}
    return client.send(rpc(method, {"taskId": task}, 50), {**fields, **(headers or {})})


def phases(proxy, token):
    """Of the operations of the test's trace."""
    return [event["phase"] for event in proxy.events(trace=trace_id(token))]


def trace_id(token):
    return f"{int(token[1:]):032x}"


def traced(token):
    return {"traceparent": f"00-{trace_id(token)}-00f067aa0ba902b7-01"}


def settled(proxy, token, phase="SUCCEEDED"):
    wait_until(lambda: phases(proxy, token)[-1:] == [phase], f"{phase} of {token}")


def asked_by_us(fixture, method="tasks/get"):
    return [each for each in fixture.requests(method) if '"recourse-' in each["body"]]


# Who asks.
def test_what_an_agent_hears_of_its_task_settles_the_call(client, fixture, proxy, token):
    fixture.set(**QUIET)
    arguments = {"mark": token, "gate": token}
    first = start(client, arguments, headers=traced(token))
    assert first.headers["recourse-outcome"] == "pending"
    task = task_of(first)["taskId"]
    assert ask(client, "tasks/get", task).final()["result"]["status"] == "working"
    assert phases(proxy, token)[-1] == "UNCERTAIN"
    fixture.open(token)
    if isinstance(client, Legacy):
        told = ask(client, "tasks/result", task).final()["result"]
    else:
        fixture.wait_for("passed", token)
        told = ask(client, "tasks/get", task).final()["result"]["result"]
    assert told["structuredContent"]["mark"] == token
    settled(proxy, token)
    event = proxy.events(trace=trace_id(token))[-1]
    assert (event["external_ref"], event["cause"]) == ("task-1", "answer")
    assert asked_by_us(fixture) == []
    assert fixture.executions("task_write") == [arguments]


@pytest.mark.parametrize("kept", ["alive", "forgotten"])
def test_a_task_that_nobody_asks_about_is_asked_about(client, fixture, proxy, token, kept):
    arguments = {"mark": token, "gate": token}
    task = task_of(start(client, arguments, headers=traced(token)))["taskId"]
    fixture.wait_for("requests", "tasks/get", 2)
    fixture.open(token)
    settled(proxy, token)
    asked = asked_by_us(fixture)
    assert all(json.loads(each["body"])["params"]["taskId"] == task for each in asked)
    era = "modern" if isinstance(client, Modern) else "legacy"
    assert {each["era"] for each in asked} == {era}
    if kept == "forgotten":
        fixture.forget_tasks()
    again = start(client, arguments, 2, traced(token))
    assert again.headers["recourse-outcome"] == "executed"
    assert again.headers["idempotent-replayed"] == "true"
    if era == "legacy":  # takes nothing else for an answer
        assert task_of(again)["taskId"] == task
        plain = client.call("task_write", arguments, 3, traced(token))
        assert plain.final()["result"]["structuredContent"]["mark"] == token
    else:
        assert again.final()["result"]["structuredContent"]["mark"] == token
    assert fixture.executions("task_write") == [arguments]


def test_a_repeat_gets_the_same_task_while_it_runs(client, fixture, proxy, token):
    fixture.set(**QUIET)
    arguments = {"mark": token, "gate": token}
    first = start(client, arguments, headers=traced(token))
    again = start(client, arguments, 2, traced(token))
    assert again.final()["id"] == 2
    assert again.final()["result"] == first.final()["result"]
    assert again.headers["recourse-outcome"] == "pending"
    fixture.open(token)
    assert fixture.executions("task_write") == [arguments]


def test_a_task_is_settled_after_a_kill(fixture, tmp_path, token):
    arguments = {"mark": token, "gate": token}
    for era, client_of in ERAS.items():
        fixture.reset()
        fixture.set(**QUIET)
        with Recourse(tmp_path / era, calls_policy(fixture, tools=TOOLS)) as recourse:
            client = client_of(f"http://127.0.0.1:{recourse.port}/mcp")
            start(client, arguments, headers=traced(token))
            recourse.kill()
            fixture.open(token)
            recourse.start()
            client.url = f"http://127.0.0.1:{recourse.port}/mcp"
            again = start(client, arguments, 2, traced(token))
            assert again.headers["recourse-outcome"] == "executed", again.body
            assert recourse.events(trace=trace_id(token))[-1]["external_ref"] == "task-1"
        assert fixture.executions("task_write") == [arguments]


def test_the_credential_of_the_call_asks_about_its_task(client, fixture, tmp_path, token):
    secret = {"Authorization": "Bearer of-the-agent"}
    fixture.set(task_auth=secret["Authorization"])
    arguments = {"mark": token, "gate": token}
    tools = TOOLS.replace("{body#/mark}\" }", "{body#/mark}\" }, credentials: from_call")
    with Recourse(tmp_path, calls_policy(fixture, tools=tools)) as recourse:
        client.url = f"http://127.0.0.1:{recourse.port}/mcp"
        start(client, arguments, headers={**traced(token), **secret})
        fixture.open(token)
        settled(recourse, token)
        number = recourse.events(trace=trace_id(token))[0]["event_id"]
        assert "of-the-agent" not in recourse.cli("events", "show", str(number)).stdout


# How it ends.
@pytest.mark.parametrize("ends", ["tool_error", "failed", "cancelled"])
def test_a_failure_that_proves_nothing_leaves_the_outcome_unknown(
    client, fixture, proxy, token, ends
):
    arguments = {"mark": token, "gate": token, "ends": ends}
    start(client, arguments, headers=traced(token))
    fixture.open(token)
    fixture.wait_for("passed", token)
    for number in (2, 3):
        told = start(client, arguments, number, traced(token)).final()
        words = json.dumps(told)
        assert "Outcome unknown." in words and "without telling" in words, told
        # To who waits for a task, a result is unreadable.
        assert ("error" in told) == isinstance(client, Legacy)
    assert phases(proxy, token)[-1] == "UNCERTAIN"
    assert fixture.executions("task_write") == [arguments]


@pytest.mark.parametrize("ends", ["tool_error", "failed", "cancelled", "refused"])
def test_a_failure_counts_as_the_policy_says(client, fixture, tmp_path, token, ends):
    arguments = {"mark": token, "gate": token, "ends": ends}
    with Recourse(tmp_path, calls_policy(fixture, tools=SURE)) as recourse:
        client.url = f"http://127.0.0.1:{recourse.port}/mcp"
        if isinstance(client, Legacy):
            client = Legacy(client.url)
        start(client, arguments, headers=traced(token))
        fixture.open(token)
        # A task may have acted before it was cancelled, and an error of any kind proves nothing.
        if ends == "cancelled" or (ends == "failed" and isinstance(client, Modern)):
            fixture.wait_for("passed", token)
            told = start(client, arguments, 2, traced(token))
            assert "Outcome unknown." in json.dumps(told.final()), told.body
            return
        settled(recourse, token, "REJECTED")
        # What is proven to have had no effect is made anew.
        assert start(client, arguments, 2, traced(token)).headers["recourse-outcome"] == "pending"
    assert fixture.executions("task_write") == [arguments] * 2


def test_a_task_that_is_gone_leaves_the_outcome_unknown(client, fixture, proxy, token):
    fixture.set(**QUIET)
    arguments = {"mark": token, "gate": token}
    start(client, arguments, headers=traced(token))
    fixture.forget_tasks()
    again = start(client, arguments, 2, traced(token))
    assert "Outcome unknown." in json.dumps(again.final()), again.body
    assert phases(proxy, token)[-1] == "UNCERTAIN"
    assert fixture.executions("task_write") == [arguments]


# Flows.
def cancel(client, token):
    stopped = client.send(rpc("ping"), headers={**traced(token), "Recourse-Flow": "cancel"})
    assert stopped.status == 200, stopped.body


def test_a_broken_flow_awaits_its_task_and_undoes_it(client, fixture, proxy, token):
    arguments = {"mark": token, "gate": token}
    start(client, arguments, headers=traced(token))
    cancel(client, token)
    fixture.wait_for("requests", "tasks/get", 2)
    assert fixture.executions("cancel_order") == []
    fixture.open(token)
    wait_until(lambda: "COMPENSATED" in phases(proxy, token), "the undo")
    assert fixture.executions("cancel_order") == [{"id": "task-1", "mark": token}]


def test_a_flow_whose_task_is_gone_needs_a_human(client, fixture, proxy, token):
    fixture.set(**QUIET)
    start(client, {"mark": token, "gate": token}, headers=traced(token))
    fixture.forget_tasks()
    cancel(client, token)

    def parked():
        found = proxy.admin("GET", "/flows")["flows"]
        flows = [each for each in found if each["flow"] == trace_id(token)]
        return flows[0]["reason"] if flows and flows[0]["phase"] == "NEEDS_HUMAN" else ""

    wait_until(parked, "the flow's parking")
    assert "its task has ended without telling, or is forgotten" in parked()
    assert fixture.executions("cancel_order") == []


# With the official packages.
RESEARCH = """\
version: 1
backends:
  tools: { url: "URL", hosts: [ 127.0.0.1 ], protocol: mcp, timeout: 600s, connect_timeout: 30s }
tools:
  research: { match: tools/call tools simulate-research-query, effect: write,
              scope: caller, reason: tests }
"""


def test_the_official_client_gets_the_result_of_the_official_servers_task(packages, tmp_path):
    with Everything() as server:
        policy = RESEARCH.replace("URL", server.endpoint)
        with Recourse(tmp_path, policy) as recourse:
            endpoint = f"http://127.0.0.1:{recourse.port}/mcp"
            with McpClient("legacy", endpoint) as client:
                client.ask("connect")
                client.ask("list")
                call = {"tool": "simulate-research-query", "arguments": {"topic": "tea"}}
                first, again = client.ask("task", **call), client.ask("task", **call)
            assert "Research Report: tea" in first["text"] and first == again
            done = [each for each in recourse.events() if each["phase"] == "SUCCEEDED"]
            assert len(done) == 1
