"""MCP calls that wait for a human: what clients of both eras are told, and that a tool runs
once."""

import re
import threading

import pytest

from support.approvals import Staffed
from support.mcp_fixtures import client, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.mcp_wire import Legacy, Modern, rpc

TOOLS = """\
  mail.send:
    match: tools/call tools send_mail
    effect: write
    scope: caller
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 100ms }
  orders.create:
    match: tools/call tools create_order
    effect: write
    scope: caller
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 100ms }
  patient:
    match: tools/call tools slow_write
    effect: write
    scope: caller
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 10m }
  asks:
    match: tools/call tools ask_client
    effect: write
    scope: caller
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 100ms }
  brief:
    match: tools/call tools status_tool
    effect: write
    scope: caller
    undo: none
    approval: { by: [ finance ], expires: 300ms, hold: 10m }
"""


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    directory = tmp_path_factory.mktemp("mcp")
    with serving(Staffed(directory, calls_policy(running, tools=TOOLS))) as recourse:
        yield recourse


def mail(token):
    return {"to": f"{token}@example.com", "subject": "s", "body": "b"}


def state_of(answer):
    result = answer.final()["result"]
    assert result["resultType"] == "input_required" and "content" not in result, result
    return result["requestState"]


def test_a_legacy_client_is_told_in_words_and_repeats_until_it_is_done(
    url, fixture, proxy, token
):
    client = Legacy(url)
    client.send(rpc("tools/list"))
    asked = client.call("send_mail", mail(token))
    assert asked.status == 200 and asked.final()["result"]["isError"] is False
    assert "repeat exactly the same call" in asked.text(), asked.text()
    assert asked.final()["result"]["_meta"]["dev.recourse/outcome"] == "pending"
    assert client.call("send_mail", mail(token), number=2).final()["id"] == 2
    (waiting,) = proxy.waiting()
    assert proxy.approve(waiting["operation"])[0] == 200
    fixture.wait_for("executions", "send_mail")
    done = client.call("send_mail", mail(token), number=3)
    assert done.text() == f"mail 1 to {token}@example.com is sent"
    assert fixture.executions("send_mail") == [mail(token)]


def test_a_tool_with_a_schema_is_no_success_while_it_waits(url, fixture, proxy, token):
    client = Legacy(url)
    client.send(rpc("tools/list"))
    asked = client.call("create_order", {"item": token})
    assert asked.final()["result"]["isError"] is True
    assert proxy.reject(proxy.waiting()[0]["operation"])[0] == 200


def test_a_modern_client_comes_back_by_itself(url, fixture, proxy, token):
    client = Modern(url)
    first = client.call("send_mail", mail(token))
    second = client.call("send_mail", mail(token), number=2, requestState=state_of(first))
    assert state_of(second) != state_of(first)
    (waiting,) = proxy.waiting()
    assert proxy.approve(waiting["operation"])[0] == 200
    fixture.wait_for("executions", "send_mail")
    state = state_of(second)
    done = client.call("send_mail", mail(token), number=3, requestState=state)
    assert done.text() == f"mail 1 to {token}@example.com is sent"
    assert fixture.executions("send_mail") == [mail(token)]
    # What the server got is the first leg, as a human has seen it.
    (sent,) = fixture.requests("tools/call")
    assert "requestState" not in sent["body"]


def test_every_leg_is_the_same_call_whatever_its_trace(url, fixture, proxy, token):
    client = Modern(url)
    state, trace = None, 1
    for number in range(3):
        fields = {"traceparent": f"00-{trace + number:032x}-00f067aa0ba902b7-01"}
        more = {} if state is None else {"requestState": state}
        state = state_of(client.call("send_mail", mail(token), number, fields, **more))
    (waiting,) = proxy.waiting()
    assert proxy.reject(waiting["operation"])[0] == 200
    last = client.call("send_mail", mail(token), 4, requestState=state)
    assert last.text().startswith("Rejected by a human."), last.text()
    assert fixture.executions("send_mail") == []


def test_after_nine_rounds_a_model_has_to_know(url, fixture, proxy, token):
    client = Modern(url)
    state = state_of(client.call("send_mail", mail(token)))
    for number in range(2, 10):
        state = state_of(client.call("send_mail", mail(token), number, requestState=state))
    told = client.call("send_mail", mail(token), 10, requestState=state)
    assert told.final()["result"]["resultType"] == "complete"
    assert "repeat exactly the same call" in told.text()
    assert proxy.reject(proxy.waiting()[0]["operation"])[0] == 200


@pytest.mark.parametrize("what", ["arguments", "tool", "bytes"])
def test_a_state_of_another_call_is_refused(url, fixture, proxy, token, what):
    client = Modern(url)
    state = state_of(client.call("send_mail", mail(token)))
    tool, arguments = "send_mail", mail(token)
    if what == "arguments":
        arguments = mail("other")
    elif what == "tool":
        tool = "create_order"
    else:
        state = re.sub(r"\.1\.", ".2.", state, count=1)
    refused = client.call(tool, arguments, 2, requestState=state)
    assert refused.final()["result"]["isError"] is True
    assert "is not of this call" in refused.text(), refused.text()
    (waiting,) = proxy.waiting()
    assert proxy.reject(waiting["operation"])[0] == 200


def test_who_is_held_long_enough_gets_the_answer_itself(client, fixture, proxy, token):
    answers = []
    arguments = {"gate": token}
    agent = threading.Thread(target=lambda: answers.append(client.call("slow_write", arguments)))
    agent.start()
    (waiting,) = proxy.await_waiting("slow_write")
    fixture.open(token)
    assert proxy.approve(waiting["operation"])[0] == 200
    agent.join()
    assert answers[0].final()["result"]["structuredContent"]["status"] == "done"
    assert len(fixture.executions("slow_write")) == 1


def test_a_rejection_is_told_with_its_reason(client, fixture, proxy, token):
    client.call("send_mail", mail(token))
    (waiting,) = proxy.waiting()
    assert proxy.reject(waiting["operation"], reason="wrong person")[0] == 200
    told = client.call("send_mail", mail(token), number=2)
    assert told.final()["result"]["isError"] is True
    assert "wrong person" in told.text() and "Do not repeat it" in told.text(), told.text()
    assert fixture.executions("send_mail") == []


def test_a_human_may_change_the_arguments_and_nothing_else(client, fixture, proxy, token):
    client.call("send_mail", mail(token))
    (waiting,) = proxy.waiting()
    body = proxy.shown(waiting["operation"])["request"]["body"]
    status, refusal = proxy.approve(waiting["operation"], body=body.replace("send_mail", "search"))
    assert status == 422, refusal
    edited = body.replace(mail(token)["to"], "boss@example.com")
    assert proxy.approve(waiting["operation"], body=edited)[0] == 200
    fixture.wait_for("executions", "send_mail")
    again = client.call("send_mail", mail(token), number=2)
    assert again.final()["id"] == 2 and again.text() == "mail 1 to boss@example.com is sent"
    assert fixture.executions("send_mail") == [{**mail(token), "to": "boss@example.com"}]


def test_silence_means_no(client, fixture, proxy):
    told = client.call("status_tool", {"status": 200})
    assert told.text().startswith("Not approved and sent in time."), told.text()
    assert told.final()["result"]["_meta"]["dev.recourse/outcome"] == "rejected"
    assert fixture.executions("status_tool") == []


def test_what_was_approved_is_sent_after_a_restart(fixture, tmp_path, token):
    with Staffed(tmp_path, calls_policy(fixture, tools=TOOLS)) as recourse:
        client = Modern(f"http://127.0.0.1:{recourse.port}/mcp")
        state = state_of(client.call("send_mail", mail(token)))
        recourse.kill()
        recourse.start()
        (waiting,) = recourse.waiting()
        assert recourse.approve(waiting["operation"])[0] == 200
        fixture.wait_for("executions", "send_mail")
        client.url = f"http://127.0.0.1:{recourse.port}/mcp"
        done = client.call("send_mail", mail(token), number=2, requestState=state)
        assert done.text() == f"mail 1 to {token}@example.com is sent"
    assert fixture.executions("send_mail") == [mail(token)]


# A call that was approved, and whose server then asks for something.
def asked(proxy, fixture, client, arguments, **fields):
    """What the server asks for, once its call has been approved."""
    first = client.call("ask_client", arguments, 1, **fields)
    (waiting,) = proxy.waiting()
    assert proxy.approve(waiting["operation"])[0] == 200
    fixture.wait_for("requests", "tools/call")
    proxy.await_phase("ask_client", "NOT_SENT")
    told = client.call("ask_client", arguments, 2, requestState=state_of(first), **fields)
    return told.final()["result"]


def test_what_an_approved_call_is_asked_for_goes_on_under_its_approval(url, fixture, proxy, token):
    client = Modern(url)
    arguments = {"what": "elicitation", "mark": token}
    capable = {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}}
    question = asked(proxy, fixture, client, arguments, **capable)
    assert question["resultType"] == "input_required"
    assert question["inputRequests"]["asked"]["method"] == "elicitation/create"
    red = {"asked": {"action": "accept", "content": {"colour": "red"}}}
    reply = {"requestState": question["requestState"], "inputResponses": red, **capable}
    done = client.call("ask_client", arguments, 3, **reply)
    assert '"colour":"red"' in done.text(), done.body
    assert done.headers["recourse-outcome"] == "executed"
    for number in (4, 5):
        again = client.call("ask_client", arguments, number, **reply)
        assert again.final()["result"] == done.final()["result"]
    assert proxy.waiting() == []
    assert fixture.executions("ask_client") == [arguments]


def test_it_goes_on_under_another_trace_too(url, fixture, proxy, token):
    client = Modern(url)
    arguments = {"what": "state", "rounds": 2, "mark": token}
    traced = [{"traceparent": f"00-{int(token[1:]) * 10 + n:032x}-00f067aa0ba902b7-01"}
              for n in range(1, 5)]  # fmt: skip
    question = asked(proxy, fixture, client, arguments, headers=traced[0])
    for number in (3, 4):
        assert question["resultType"] == "input_required", question
        answer = client.call("ask_client", arguments, number, traced[number - 1],
                             requestState=question["requestState"])  # fmt: skip
        question = answer.final()["result"]
    assert answer.text() == '{"rounds":2}'
    assert proxy.waiting() == []
    assert fixture.counts()["tools"] == {"ask_client": 1}


def test_places_that_are_not_compared_are_asked_about_anew(fixture, tmp_path, token):
    ask = "match: tools/call tools ask_client"
    policy = calls_policy(fixture, tools=TOOLS.replace(ask, ask + '\n    ignore: [ "/note" ]'))
    with Staffed(tmp_path, policy) as proxy:
        client = Modern(f"http://127.0.0.1:{proxy.port}/mcp")
        arguments = {"what": "state", "rounds": 1, "mark": token, "note": "approved"}
        question = asked(proxy, fixture, client, arguments)
        other = arguments | {"note": "smuggled"}
        assert question["resultType"] == "input_required"
        assert state_of(client.call("ask_client", other, 3)) != question["requestState"]
        assert len(proxy.waiting()) == 1
        assert fixture.counts()["tools"] == {}


def test_other_arguments_are_another_question(url, fixture, proxy, token):
    client = Modern(url)
    question = asked(proxy, fixture, client, {"what": "state", "rounds": 1, "mark": token})
    other = {"what": "state", "rounds": 1, "mark": token + "b"}
    told = client.call("ask_client", other, 3, requestState=question["requestState"])
    assert state_of(told) != question["requestState"]
    (waiting,) = proxy.waiting()
    assert proxy.reject(waiting["operation"])[0] == 200
    assert fixture.counts()["tools"] == {}
