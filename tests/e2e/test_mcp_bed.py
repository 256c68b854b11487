"""The MCP fixture server is what the tests of MCP take it for: counters, both eras, faults."""

import pytest

from support.mcp import Everything, mcp_policy
from support.mcp_fixtures import ERAS, fixture, running  # noqa: F401
from support.mcp_wire import Legacy, Modern, call, rpc
from support.recourse import Recourse



@pytest.fixture(params=ERAS)
def client(fixture, request):
    return ERAS[request.param](fixture.endpoint)


@pytest.mark.parametrize("answer", ["sse", "json", "auto"])
@pytest.mark.parametrize("era", ERAS)
def test_every_call_is_counted_once_with_its_arguments(fixture, era, answer):
    fixture.set(answer=answer)
    client = ERAS[era](fixture.endpoint)
    first = client.call("create_order", {"item": "tea"})
    second = client.call("create_order", {"item": "tea"})
    assert [each.final()["result"]["structuredContent"]["id"] for each in (first, second)] == [
        "order-1", "order-2"]  # fmt: skip
    assert fixture.executions("create_order") == [{"item": "tea"}] * 2
    assert first.is_sse() == (answer == "sse" or (answer, era) == ("auto", "legacy"))
    assert [each["era"] for each in fixture.requests("tools/call")] == [era] * 2


def test_the_tools_are_listed_page_by_page(fixture, client):
    fixture.set(page_size=4)
    names, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        params = {} if cursor is None else {"cursor": cursor}
        result = client.send(rpc("tools/list", params)).final()["result"]
        names += [tool["name"] for tool in result["tools"]]
        cursor = result.get("nextCursor")
        pages += 1
    assert pages == 4 and len(set(names)) == len(names) == 13


def test_a_definition_changes(fixture, client):
    fixture.define("search", annotations={"readOnlyHint": False})
    tools = client.send(rpc("tools/list")).final()["result"]["tools"]
    (search,) = [tool for tool in tools if tool["name"] == "search"]
    assert search["annotations"] == {"readOnlyHint": False}


def test_errors_of_each_layer(fixture, client):
    assert client.call("fail_tool").final()["result"]["isError"] is True
    assert client.call("error_tool", {"code": -32603}).final()["error"]["code"] == -32603
    assert client.call("status_tool", {"status": 503}).status == 503
    assert client.call("nothing").final()["error"]["code"] == -32602
    tools = fixture.counts()["tools"]
    assert tools == {"fail_tool": 1, "error_tool": 1, "status_tool": 1}


@pytest.mark.parametrize("how", ["end", "fin", "rst"])
@pytest.mark.parametrize("half", [False, True])
def test_a_cut_answer_has_no_final_message(fixture, client, how, half):
    answer = client.call("cut_write", {"how": how, "half": half})
    assert answer.cut == (how != "end") and not answer.messages()
    assert fixture.counts()["tools"] == {"cut_write": 1}


def test_a_cut_json_answer_is_short(fixture, client):
    fixture.arm("create_order", kind="cut", how="fin", half=True, **{"as": "json"})
    assert client.call("create_order", {"item": "tea"}).cut
    assert not client.call("create_order", {"item": "tea"}).cut
    assert len(fixture.executions("create_order")) == 2


def test_a_connection_drops_with_or_without_the_effect(fixture, client):
    for execute in (False, True):
        fixture.arm("send_mail", kind="drop", execute=execute)
        with pytest.raises(ConnectionError):
            client.call("send_mail", {"to": "a"})
        assert len(fixture.executions("send_mail")) == int(execute)


def test_an_answer_that_was_cut_after_an_event_id_is_given_later(fixture):
    client = Legacy(fixture.endpoint)
    answer = client.call("cut_write", {"event_id": True}, number=7)
    assert not answer.messages() and answer.body.startswith(b"id: event-")
    last = answer.body.split(b"\n")[0].removeprefix(b"id: ").decode()
    with client.listen(last_event_id=last) as stream:
        message = stream.next().message()
    assert message["id"] == 7 and message["result"]["structuredContent"]["id"] == "cut-1"
    assert fixture.counts()["tools"] == {"cut_write": 1}


def test_a_gate_holds_a_write_and_reports_come_one_at_a_time(fixture, client):
    with client.open(call("slow_write")) as stream:
        fixture.wait_for("waiting", "slow_write")
        fixture.open("slow_write")
        assert stream.message()["result"]["structuredContent"]["id"] == "slow-1"
    with client.open(call("stream_report", {"chunks": 2}, _meta={"progressToken": 5})) as stream:
        for chunk in (1, 2):
            fixture.open("stream_report")
            assert stream.message()["params"]["progress"] == chunk


def test_a_caller_that_leaves_is_noticed_by_a_modern_server(fixture):
    with Modern(fixture.endpoint).open(call("slow_write", {"effect": "last"})):
        fixture.wait_for("waiting", "slow_write")
    fixture.wait_for("cancelled", "slow_write")
    fixture.open("slow_write")
    fixture.control("await", what="waiting", name="slow_write", count=0, seconds=0)
    assert fixture.executions("slow_write") == []


@pytest.mark.parametrize("where", ["post", "get"])
def test_a_legacy_server_asks_its_client(fixture, where):
    client = Legacy(fixture.endpoint, capabilities={"elicitation": {}})
    with client.listen() as listening:
        fixture.wait_for("streams")
        with client.open(call("ask_client", {"stream": where})) as stream:
            asked = listening if where == "get" else stream
            question = asked.message()
            assert question.get("method") == "elicitation/create", question
            result = {"action": "accept", "content": {"colour": "red"}}
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            assert client.send(reply).status == 202
            answer = stream.message()
    assert '"colour":"red"' in answer["result"]["content"][0]["text"]


def test_a_modern_server_asks_by_its_answer(fixture):
    client = Modern(fixture.endpoint)
    first = client.call("ask_client", {"what": "state", "rounds": 1}).final()["result"]
    assert first["resultType"] == "input_required" and first["requestState"] == "1"
    assert fixture.counts()["tools"] == {}
    second = client.call("ask_client", {"what": "state", "rounds": 1}, requestState="1")
    assert second.text() == '{"rounds":1}' and fixture.counts()["tools"] == {"ask_client": 1}


def test_sessions_end_and_are_forgotten(fixture):
    ended, forgotten = Legacy(fixture.endpoint), Legacy(fixture.endpoint)
    assert ended.end().status == 200 and ended.call("search", {"query": "a"}).status == 404
    assert forgotten.call("search", {"query": "a"}).status == 200
    fixture.forget_sessions()
    assert forgotten.call("search", {"query": "a"}).status == 404


def test_header_fields_that_differ_from_the_body_are_refused_by_a_modern_server(fixture):
    lie = {"Mcp-Name": "search"}
    answer = Modern(fixture.endpoint).call("create_order", {"item": "tea"}, headers=lie)
    assert answer.status == 400 and answer.final()["error"]["code"] == -32020
    assert fixture.counts()["tools"] == {}


def test_the_official_server_answers_through_recourse_under_the_policy_of_the_bed(
    packages, tmp_path
):
    with Everything() as server, Recourse(tmp_path, mcp_policy(server.url)) as proxy:
        client = Legacy(f"http://127.0.0.1:{proxy.port}/mcp")
        assert client.call("echo", {"message": "hello"}).text() == "Echo: hello"
        assert client.end().status == 200
