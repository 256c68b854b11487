"""What Recourse itself asks of an MCP server: the rest of a stream that was cut, whether a call
took effect, the undo of a step. Sessions of the agent may be gone by then."""

import itertools

import pytest

from support.mcp_fixtures import ERAS, client, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.mcp_wire import Legacy, Modern, rpc
from support.recourse import Recourse
from support.waiting import wait_until

MORE = """\
  orders.get: { match: tools/call tools get_order, effect: read }
  report: { match: tools/call tools stream_report, effect: write, scope: caller, reason: tests,
            superseded_by: others }
flow_rules: { agents_may: [ cancel ] }
"""
TOOLS = """\
  orders.create:
    match: tools/call tools create_order
    effect: write
    scope: caller
    hold: 600s
    external_ref: answer.body#/id
    settle: { call: get_order, arguments: { item: "{body#/item}" }, happened: answer.body#/id,
              absent: answer.body#/found == false, absent_after: 1s }
    undo: { call: cancel_order, arguments: { id: "{external_ref}" }, repeatable: true }
  mail:
    match: tools/call tools send_mail
    effect: write
    scope: caller
    reason: tests
    hold: 600s
    settle: { call: get_order, arguments: { item: "{body#/to}" }, happened: answer.body#/id }
  orders.cancel: { match: tools/call tools cancel_order, effect: write,
                   scope: caller, reason: it undoes }
"""


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    policy = calls_policy(running, tools=TOOLS, more=MORE)
    with serving(Recourse(tmp_path_factory.mktemp("mcp"), policy)) as recourse:
        yield recourse


def fields_of(request):
    return {name.lower(): value for name, value in request["headers"]}


def test_a_stream_that_was_cut_is_taken_up_again(url, fixture, token):
    client = Legacy(url)
    fixture.arm("create_order", kind="cut", event_id=True)
    answer = client.call("create_order", {"item": token})
    assert answer.final()["result"]["structuredContent"]["item"] == token, answer.body
    assert fixture.executions("create_order") == [{"item": token}]
    (get,) = [each for each in fixture.requests() if each["method"] == "GET"]
    assert fields_of(get)["last-event-id"].startswith("event-")
    assert fields_of(get)["mcp-session-id"] == client.session
    again = client.call("create_order", {"item": token}, number=2)
    assert again.final()["result"] == answer.final()["result"]


def test_the_agents_own_undo_ends_the_answer_and_part_of_it_leaves_a_doubt(url, fixture, token):
    client = Modern(url)
    numbers = itertools.count(1)
    call = lambda name, arguments: client.call(name, arguments, number=next(numbers))
    create = lambda: call("create_order", {"item": token})
    order = lambda answer: answer.final()["result"]["structuredContent"]["id"]
    first = order(create())
    assert order(create()) == first
    call("cancel_order", {"id": first})
    second = order(create())
    assert second != first and order(create()) == second
    call("cancel_order", {"id": second, "reason": "a part of it"})
    told = create()
    assert told.text().startswith("Executed, and changed since."), told.text()
    assert meta_of(told)["dev.recourse/outcome"] == "executed"
    assert len(fixture.executions("create_order")) == 2


def test_what_a_later_call_has_set_is_set_again(client, fixture, token):
    def change(value):
        setting = {"chunks": 0, "gate": f"{token} {value}"}
        return client.call("stream_report", setting, number=value)

    for value in (1, 2, 1):
        assert "idempotent-replayed" not in change(value).headers
    assert change(1).headers["idempotent-replayed"] == "true"
    assert len(fixture.executions("stream_report")) == 3


def meta_of(answer):
    return answer.final()["result"]["_meta"]


def assert_lost(client, answer, is_error):
    told = answer.final()["result"]
    sentence = "It was executed; its reference is order-1. Its own answer was lost."
    assert answer.text() == sentence + " Do not repeat it.", answer.body
    assert told["isError"] is is_error
    assert told["_meta"] == {
        "dev.recourse/outcome": "executed",
        "dev.recourse/event": int(answer.headers["recourse-event"]),
        "dev.recourse/retryable": False,
    }
    assert told.get("resultType") == ("complete" if isinstance(client, Modern) else None)


def test_a_tool_without_a_schema_is_not_said_to_have_failed(client, fixture, token):
    assert client.send(rpc("tools/list")).status == 200  # says which tools have a schema
    client.call("create_order", {"item": token})
    mail = {"to": token}
    fixture.arm("send_mail", kind="drop", execute=True)
    assert client.call("send_mail", mail).text().startswith("Outcome unknown.")
    assert_lost(client, client.call("send_mail", mail, number=2), is_error=False)
    assert fixture.executions("send_mail") == [mail]


@pytest.mark.parametrize("took_effect", [True, False], ids=["executed", "lost"])
def test_an_unknown_outcome_is_settled_by_a_call(client, fixture, token, took_effect):
    fixture.arm("create_order", kind="drop", execute=took_effect)
    first = client.call("create_order", {"item": token})
    assert first.text().startswith("Outcome unknown."), first.text()
    again = client.call("create_order", {"item": token}, number=2)
    told = again.final()["result"]
    if took_effect:  # what the answer was nobody knows
        assert_lost(client, again, is_error=True)
    else:
        assert told["structuredContent"]["item"] == token, again.body
    assert fixture.executions("create_order") == [{"item": token}]
    asked = fixture.requests("tools/call")
    probe = next(each for each in asked if each["tool"] == "get_order")
    assert probe["era"] == ("modern" if isinstance(client, Modern) else "legacy")


@pytest.mark.parametrize("session", ["alive", "forgotten", "ended"])
@pytest.mark.parametrize("era", ERAS)
def test_a_step_is_undone_whatever_became_of_the_session(proxy, url, fixture, token, era, session):
    client = ERAS[era](url)
    flow = {"traceparent": f"00-{int(token[1:]):032x}-00f067aa0ba902b7-01"}
    answer = client.call("create_order", {"item": token}, headers=flow)
    order = answer.final()["result"]["structuredContent"]["id"]
    if session == "forgotten":
        fixture.forget_sessions()
    elif session == "ended" and era == "legacy":
        assert client.end().status == 200
    client.send(rpc("ping"), headers={**flow, "Recourse-Flow": "cancel"})
    trace = flow["traceparent"].split("-")[1]
    wait_until(
        lambda: "COMPENSATED" in [each["phase"] for each in proxy.events(trace=trace)],
        "the undo",
    )
    assert fixture.executions("cancel_order") == [{"id": order}]
    undone = [each for each in fixture.requests("tools/call") if each["tool"] == "cancel_order"]
    assert undone[-1]["era"] == era
    own = [each for each in fixture.requests("initialize")][1:]
    assert len(own) == (1 if era == "legacy" and session != "alive" else 0)
    assert len(undone) == 1 + len(own)
    # A session of our own does not stay open.
    assert len(fixture.counts()["sessions"]) == (1 if (era, session) == ("legacy", "alive") else 0)
