"""Unchanged MCP agents through Recourse, under a policy that guards their writes: whatever goes
wrong, a tool runs once at most, and the agent ends with an answer that tells it what to do."""

import re
import signal

import pytest

from support.approvals import Staffed
from support.mcp_fixtures import running, serving  # noqa: F401
from support.mcp_client import CLIENT_KINDS, connected
from support.mcp_policies import calls_policy
from support.recourse import WAIT_MAX
from support.waiting import wait_until

# A flow has its name in an argument: no agent here sends a trace.
TOOLS = """\
  orders.create:
    match: tools/call tools create_order
    effect: write
    scope: caller
    external_ref: answer.body#/id
    undo: { call: cancel_order, arguments: { id: "{external_ref}" }, repeatable: true }
  orders.cancel: { match: tools/call tools cancel_order, effect: write,
                   scope: caller, reason: it undoes }
  report: { match: tools/call tools stream_report, effect: write,
            scope: caller, reason: tests, hold: 600s }
  pack:
    match: tools/call tools fail_tool
    effect: write
    scope: caller
    reason: tests
    on_error: not_executed
    breaks_flow: on_failure
  mail.send:
    match: tools/call tools send_mail
    effect: write
    scope: caller
    undo: none
    approval: { by: [ finance ], expires: 1h, hold: 500ms }
  refund:
    match: tools/call tools slow_write
    effect: write
    scope: caller
    undo: none
    approval: { by: [ finance ], expires: 1h, hold: 500ms }
flow_rules: { parent: [ "body#/note", "body#/text" ] }
"""
PATIENT = {"timeout": int(2000 * WAIT_MAX)}
# They send a call again by themselves as long as they are told that it needs input.
RETURNING = ("sdk v2 modern", "ai", "openai agents")
COME_BACK = "repeat exactly the same call"
ROUNDS = 9
REPEATS_MAX = 100


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    directory = tmp_path_factory.mktemp("mcp")
    with serving(Staffed(directory, calls_policy(running, tools=TOOLS))) as recourse:
        yield recourse


@pytest.fixture(scope="module")
def endpoint(proxy):
    return f"http://127.0.0.1:{proxy.port}/mcp"


@pytest.fixture(scope="module", params=CLIENT_KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def agent(endpoint, kind):
    with connected(kind, endpoint, **PATIENT) as client:
        yield client
        assert client.end() == 0


class Ran:
    """How often a tool ran with an argument that is of one test alone."""

    def __init__(self, server, token):
        self.server, self.token = server, token

    def __call__(self, tool):
        runs = self.server.executions(tool)
        return sum(self.token in arguments.values() for arguments in runs)


@pytest.fixture
def ran(running, token):
    return Ran(running, token)


def answered(agent, step):
    outcome = agent.outcome(step)
    assert "error" not in outcome, outcome
    return outcome["value"]


def told_to_wait(proxy):
    """Of each call that waited for a human its event, as often as an agent was told so."""
    lines = proxy.access_log()
    return [line["event_id"] for line in lines if line.get("error") == "approval-pending"]


def left_waiting(agent, kind, proxy, call):
    """(step, operation) of a call that waits for a human, once the hold of its first request has
    ended: from then on agents come back, by themselves or because they were told to."""
    known = set(told_to_wait(proxy))
    step = agent.start("call", **call)
    wait_until(lambda: set(told_to_wait(proxy)) - known)
    (operation,) = [each["operation"] for each in proxy.waiting()]
    if kind not in RETURNING:
        assert COME_BACK in answered(agent, step)["text"]
    return step, operation


# What LangGraph's ToolNode puts around the words of a tool that failed.
FRAME = re.compile(r"Error: MCP tool '\w+' on server 'tools' returned an error: (.*?)\s*"
                   r"Please fix your mistakes\.", re.DOTALL)  # fmt: skip


def unframed(text):
    framed = FRAME.fullmatch(text)
    return framed[1] if framed else text


def text_of(agent, tool, arguments):
    return unframed(agent.call(tool, arguments)["text"])


def persisted(agent, kind, proxy, step, call):
    """The text of a step's answer, of an agent that does what it is told: comes back. A client
    that comes back by itself has done so for all its rounds before it is told."""
    text = answered(agent, step)["text"]
    for _ in range(REPEATS_MAX):
        if COME_BACK not in text:
            break
        if kind in RETURNING:
            told = told_to_wait(proxy)
            assert told.count(told[-1]) >= ROUNDS, told
        text = agent.call(**call)["text"]
    return unframed(text)


# --- the cells -----------------------------------------------------------------------------------
def test_the_repeat_of_a_finished_write_gets_its_answer(agent, ran, token):
    first = agent.call("create_order", {"item": token})
    again = agent.call("create_order", {"item": token})
    assert token in first["text"] and again == first
    assert ran("create_order") == 1


def test_the_repeat_of_a_running_write_joins_it(
    agent, kind, endpoint, proxy, running, ran, token
):
    """From another process: OpenAI's agents cannot share a server for two runs at once."""
    report = {"chunks": 1, "gate": token}
    with connected(kind, endpoint, **PATIENT) as other:
        first = agent.start("call", tool="stream_report", arguments=report)
        running.wait_for("waiting", token)
        alone = proxy.held_bytes()
        second = other.start("call", tool="stream_report", arguments=report)
        wait_until(lambda: proxy.held_bytes() > alone, proxy.held_bytes)
        running.open(token)
        for client, step in ((agent, first), (other, second)):
            assert answered(client, step)["text"] == "1 chunks"
    assert ran("stream_report") == 1


def test_an_unknown_outcome_is_told_and_not_tried_again(agent, running, ran, token):
    running.arm("create_order", kind="drop")
    for _ in range(2):
        text = text_of(agent, "create_order", {"item": token})
        assert text.startswith("Outcome unknown."), text
    assert ran("create_order") == 1


@pytest.mark.parametrize("how", ["end", "fin", "rst"])
def test_a_cut_stream_has_an_end(agent, running, ran, token, how):
    running.arm("create_order", kind="cut", how=how)
    for _ in range(2):
        text = text_of(agent, "create_order", {"item": token})
        assert text.startswith("Outcome unknown."), text
    assert ran("create_order") == 1


def test_a_cut_stream_with_event_ids_is_taken_up_where_there_are_sessions(
    agent, kind, running, ran, token
):
    """2026-07-28 has no sessions: nothing can be asked for again."""
    running.arm("create_order", kind="cut", event_id=True)
    for _ in range(2):
        text = text_of(agent, "create_order", {"item": token})
        assert (token in text) == (kind not in RETURNING), text
        assert text.startswith("Outcome unknown.") == (kind in RETURNING), text
    assert ran("create_order") == 1


def test_what_a_human_approves_runs_once(agent, kind, proxy, running, ran, token):
    mail = {"to": token, "subject": "s", "body": "b"}
    call = {"tool": "send_mail", "arguments": mail}
    step, operation = left_waiting(agent, kind, proxy, call)
    assert ran("send_mail") == 0
    assert proxy.approve(operation)[0] == 200
    wait_until(lambda: ran("send_mail"))
    sent = persisted(agent, kind, proxy, step, call)
    assert re.fullmatch(rf"mail \d+ to {token} is sent", sent)
    assert text_of(agent, "send_mail", mail) == sent
    assert ran("send_mail") == 1


def test_what_a_human_rejects_never_runs(agent, kind, proxy, ran, token):
    refund = {"gate": token}
    call = {"tool": "slow_write", "arguments": refund}
    step, operation = left_waiting(agent, kind, proxy, call)
    assert proxy.reject(operation, reason="wrong person")[0] == 200
    text = persisted(agent, kind, proxy, step, call)
    assert text.startswith("Rejected by a human.") and "wrong person" in text, text
    assert "Do not repeat it" in text, text
    assert text_of(agent, "slow_write", refund).startswith("Rejected by a human.")
    assert ran("slow_write") == 0


def test_a_broken_flow_is_undone_once_and_takes_no_more(agent, running, ran, token):
    order = {"item": "tea", "note": token}
    made = re.search(r"order-\d+", text_of(agent, "create_order", order))[0]
    failed = text_of(agent, "fail_tool", {"text": token, "execute": False})
    assert failed.startswith(token), failed
    wait_until(lambda: {"id": made} in running.executions("cancel_order"))
    late = text_of(agent, "create_order", {"item": "milk", "note": token})
    assert late.startswith("Flow closed."), late
    text_of(agent, "create_order", order)
    assert ran("create_order") == 1
    assert running.executions("cancel_order").count({"id": made}) == 1


# --- LangGraph repeats ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def graph(endpoint):
    with connected("langgraph", endpoint, **PATIENT) as client:
        yield client


def test_a_node_that_is_retried_executes_once(graph, ran, token):
    order = {"tool": "create_order", "arguments": {"item": token}}
    ended = graph.ask("node", thread=token, repeat="retry", failures=2, **order)
    assert ended["runs"] == 3 and token in ended["text"]
    assert ran("create_order") == 1


def test_a_node_that_was_interrupted_executes_once(graph, ran, token):
    order = {"tool": "create_order", "arguments": {"item": token}}
    assert graph.ask("node", thread=token, repeat="interrupt", **order)["interrupted"]
    assert token in graph.ask("resume", thread=token, value="yes")["text"]
    assert ran("create_order") == 1


def test_a_node_that_crashed_executes_once(endpoint, ran, token, tmp_path):
    kept = {"checkpoints": str(tmp_path / "checkpoints.json"), **PATIENT}
    order = {"tool": "create_order", "arguments": {"item": token}}
    with connected("langgraph", endpoint, **kept) as graph:
        graph.start("node", thread=token, repeat="crash", **order)
        assert graph.process.wait(WAIT_MAX) == -signal.SIGKILL
    with connected("langgraph", endpoint, resumed=True, **kept) as graph:
        assert token in graph.ask("resume", thread=token)["text"]
    assert ran("create_order") == 1
