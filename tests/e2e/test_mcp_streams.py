"""MCP through Recourse as it streams: chunk by chunk, both ways, cut, cancelled; and in observe
mode, where nothing changes."""

import http.client
import json
import socket

import pytest

from support.mcp import Fixture
from support.mcp_fixtures import ERAS, client, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.mcp_wire import Legacy, Modern, call, rpc, sse_events
from support.recourse import WAIT_MAX, Recourse
from support.waiting import wait_until

TRUSTED = {"Host": "loose.test"}


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    with serving(Recourse(tmp_path_factory.mktemp("mcp"), calls_policy(running))) as recourse:
        yield recourse


def report(gate, number=1):
    message = call("stream_report", {"chunks": 3, "gate": gate}, number)
    message["params"]["_meta"] = {"progressToken": "p"}
    return message


def expect_progress(stream, fixture, gate, number=1):
    """Every chunk is here before the server is let go on to the next."""
    for progress in (1, 2, 3):
        fixture.open(gate)
        message = stream.message()
        assert message["params"]["progress"] == progress, message
    final = stream.message()
    assert final["id"] == number and final["result"]["content"][0]["text"] == "3 chunks"
    assert stream.next() is None


@pytest.mark.parametrize("host", [{}, TRUSTED], ids=["write", "read"])
@pytest.mark.parametrize("era", ERAS)
def test_what_a_tool_says_on_its_way_comes_at_once(url, fixture, era, host, token):
    client = ERAS[era](url, headers=host)
    client.send(rpc("tools/list"))
    with client.open(report(token)) as stream:
        expect_progress(stream, fixture, token)
    assert len(fixture.executions("stream_report")) == 1


def test_a_repeat_of_what_was_streamed_gets_the_answer_alone(client, fixture, token):
    with client.open(report(token)) as stream:
        expect_progress(stream, fixture, token)
    again = client.send(report(token, number=9))
    assert [message["id"] for message in again.messages()] == [9]
    assert again.text() == "3 chunks" and len(fixture.executions("stream_report")) == 1


def test_a_client_that_leaves_a_write_ends_nothing(client, fixture, token):
    # It has no effect if it was cancelled before the gate opens.
    arguments = {"gate": token, "effect": "last"}
    with client.open(call("slow_write", arguments)):
        fixture.wait_for("waiting", token)
    fixture.open(token)
    fixture.wait_for("executions", "slow_write")
    again = client.call("slow_write", arguments, 2)
    assert again.final()["result"]["structuredContent"]["status"] == "done", again.body
    assert fixture.executions("slow_write") == [arguments]


def test_the_connection_serves_on_after_a_stream(client, fixture, token):
    fixture.open(token, 3)
    with client.open(report(token)) as stream:
        assert stream.answer.read().endswith(b"\n\n")
        wrapped = client.wrapped if isinstance(client, Modern) else lambda m: (m, client.fields({}))
        message, fields = wrapped(call("search", {"query": token}))
        stream.connection.request("POST", "/mcp", json.dumps(message), fields)
        assert token in stream.connection.getresponse().read().decode()


@pytest.mark.parametrize("where", ["post", "get"])
def test_a_server_asks_its_client_while_a_write_runs(url, fixture, where):
    client = Legacy(url, capabilities={"elicitation": {}})
    with client.listen() as listening:
        fixture.wait_for("streams")
        with client.open(call("ask_client", {"stream": where, "mark": where})) as stream:
            question = (listening if where == "get" else stream).message()
            assert question["method"] == "elicitation/create", question
            result = {"action": "accept", "content": {"colour": "red"}}
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            assert client.send(reply).status == 202
            # Nothing came on the call's own stream before: then its answer is JSON.
            answer = stream.message() if where == "post" else json.loads(stream.answer.read())
    assert '"colour":"red"' in answer["result"]["content"][0]["text"]
    assert len(fixture.executions("ask_client")) == 1


def test_a_modern_server_asks_by_its_answer_and_acts_once(url, fixture):
    client = Modern(url)
    arguments = {"what": "state", "rounds": 1}
    first = client.call("ask_client", arguments).final()["result"]
    assert (first["resultType"], first["requestState"]) == ("input_required", "1")
    for number in (2, 3):
        second = client.call("ask_client", arguments, number, requestState="1")
        assert second.text() == '{"rounds":1}', second.body
    assert fixture.counts()["tools"] == {"ask_client": 1}


def test_what_the_server_tells_unasked_is_heard(url, fixture):
    client = Legacy(url)
    with client.listen() as listening:
        fixture.wait_for("streams")
        fixture.define("search", description="another")
        assert listening.message()["method"] == "notifications/tools/list_changed"
    fixture.wait_for("requests", "initialize")


def test_who_listens_may_hear_nothing_for_longer_than_a_stream_may_be_silent(
    fixture, tmp_path, token
):
    fixture.set(events=False)
    policy = calls_policy(fixture)
    with Recourse(tmp_path, policy, ["--stream-timeout", "1s"]) as recourse:
        client = Legacy(f"http://127.0.0.1:{recourse.port}/mcp", headers=TRUSTED)
        client.send(rpc("tools/list"))
        with client.listen() as listening:
            fixture.wait_for("streams")
            # A read that began later is cut for its silence.
            with client.open(report(token, number=4)) as silent:
                error = silent.message()
                assert error["id"] == 4 and "ended before it was complete" in str(error["error"])
            fixture.define("search", description="another")
            assert listening.message()["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("how", ["fin", "rst", "end"])
@pytest.mark.parametrize("half", [False, True])
def test_the_stream_of_a_read_never_ends_without_an_answer(client, fixture, token, how, half):
    fixture.arm("search", kind="cut", how=how, half=half, event_id=False)
    answer = client.call("search", {"query": token}, number="q")
    assert not answer.cut and answer.status == 200
    events = [each for each in sse_events(answer.body) if each.data and each.event == "message"]
    if answer.is_sse():
        (error,) = [event.message() for event in events]
        assert error["id"] == "q" and "may be made again" in error["error"]["message"]
    else:
        # Nothing had come but the connection's end.
        assert answer.final()["id"] == "q"
    assert token in client.call("search", {"query": token}).text()


def test_a_stream_that_can_be_resumed_is_left_to_the_client(url, fixture, token):
    fixture.arm("search", kind="cut", how="end", event_id=True)
    client = Legacy(url)
    with client.open(call("search", {"query": token})) as stream:
        last = stream.next().id
        assert stream.next() is None
    with client.listen(last) as resumed:
        assert token in resumed.message()["result"]["content"][0]["text"]


def one_chunk(gate, number):
    message = call("stream_report", {"chunks": 1, "gate": gate}, number)
    message["params"]["_meta"] = {"progressToken": "p"}
    return message


def test_an_answer_that_the_agent_fetches_itself_settles_its_call(url, fixture, proxy, token):
    client = Legacy(url)
    fixture.set(resume=False)
    fixture.arm("stream_report", kind="cut", event_id=True)
    fixture.open(token, 2)
    with client.open(one_chunk(token, 7)) as stream:
        while (event := stream.next()).data is None or "progress" not in event.data:
            pass
        told = stream.message()
        assert told["id"] == 7 and "Outcome unknown." in told["result"]["content"][0]["text"]
    other = Legacy(url)
    other.send(one_chunk(token, 7))  # the same id, of another session: a repeat
    fixture.set(resume=True)
    with client.listen(event.id) as resumed:
        answer = resumed.message()
        assert answer["id"] == 7 and answer["result"]["content"][0]["text"] == "1 chunks"
    row = told["result"]["_meta"]["dev.recourse/event"]
    (mine,) = [each["operation"] for each in proxy.events() if each["event_id"] == row]
    wait_until(lambda: proxy.events(operation=mine)[-1]["phase"] == "SUCCEEDED", "the outcome")
    again = client.send(one_chunk(token, 8))
    assert again.final()["result"] == answer["result"]
    assert again.headers["idempotent-replayed"] == "true"
    assert len(fixture.executions("stream_report")) == 1


@pytest.mark.parametrize("when", ["after", "during"])
def test_an_answer_to_another_request_with_its_id_settles_no_call(
    url, fixture, proxy, token, when
):
    client = Legacy(url)
    fixture.set(resume=False)
    fixture.arm("stream_report", kind="cut", event_id=True)
    fixture.open(token, 2 if when == "after" else 1)
    with client.open(one_chunk(token, 7)) as stream:
        while (event := stream.next()).data is None or "progress" not in event.data:
            pass
        if when == "during":
            assert client.send(rpc("ping", None, 7)).final()["id"] == 7
            fixture.open(token)
        told = stream.message()
        assert "Outcome unknown." in told["result"]["content"][0]["text"]
    if when == "after":
        assert client.send(rpc("ping", None, 7)).final()["id"] == 7
    fixture.set(resume=True)
    with client.listen(event.id) as resumed:
        assert resumed.message()["id"] == 7
    row = told["result"]["_meta"]["dev.recourse/event"]
    (mine,) = [each["operation"] for each in proxy.events() if each["event_id"] == row]
    again = client.send(one_chunk(token, 8)).final()
    assert "Outcome unknown." in again["result"]["content"][0]["text"], again
    assert proxy.events(operation=mine)[-1]["phase"] == "UNCERTAIN"
    assert len(fixture.executions("stream_report")) == 1


def padded(gate, chunks, pad):
    message = call("stream_report", {"chunks": chunks, "gate": gate, "pad": pad})
    message["params"]["_meta"] = {"progressToken": "p"}
    return message


def test_a_client_of_http_1_0_gets_its_stream_until_the_close(client, fixture, token):
    message = padded(token, 2, 0)
    fields = client.fields(None) if isinstance(client, Legacy) else None
    if fields is None:
        message, fields = client.wrapped(message)
    body = json.dumps(message).encode()
    authority = client.url.removeprefix("http://").split("/")[0]
    host, port = authority.split(":")
    lines = [f"{name}: {value}" for name, value in {**fields, "Host": authority}.items()]
    head = "\r\n".join(["POST /mcp HTTP/1.0", *lines, f"Content-Length: {len(body)}", "", ""])
    with socket.create_connection((host, int(port)), WAIT_MAX) as plain:
        plain.sendall(head.encode() + body)
        answer = plain.makefile("rb")
        for number in (1, 2):
            fixture.open(token)
            while f"chunk {number}".encode() not in (line := answer.readline()):
                assert line, "the answer ended early"
        rest = answer.read().decode()
    assert "2 chunks" in rest and "\r\n0\r\n" not in rest
    assert len(fixture.executions("stream_report")) == 1


def test_a_client_that_does_not_read_holds_up_nothing(client, fixture, proxy, token):
    chunks, pad = 96, 256 * 1024  # far more than sockets and queue hold
    arguments = {"chunks": chunks, "gate": token, "pad": pad}
    message = padded(token, chunks, pad)
    before = len(proxy.events_for("stream_report"))
    with client.open(message):
        fixture.open(token, chunks)
        wait_until(
            lambda: "SUCCEEDED"
            in [row["phase"] for row in proxy.events_for("stream_report")[before:]],
            "the outcome",
        )
        again = client.call("stream_report", arguments, 2)
        assert again.text() == f"{chunks} chunks"
        assert again.headers["idempotent-replayed"] == "true"
    assert len(fixture.executions("stream_report")) == 1


def test_a_server_that_is_away_is_told_as_an_answer(tmp_path, packages, token):
    with Fixture() as server:
        policy = calls_policy(server)
    with Recourse(tmp_path, policy) as recourse:
        client = Modern(f"http://127.0.0.1:{recourse.port}/mcp")
        for tool in ("search", "create_order"):
            answer = client.call(tool, {"query": token, "item": token})
            assert answer.status == 200 and answer.final()["result"]["isError"] is True
            assert answer.text().startswith("Backend not reachable."), answer.text()


def test_a_write_that_runs_is_not_cancelled(url, fixture, token, proxy):
    client = Legacy(url)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    with client.open(call("slow_write", {"gate": token}, 5)) as stream:
        fixture.wait_for("waiting", token)
        assert client.send(cancel).status == 202
        assert client.send([cancel]).status == 202
        assert client.send({**cancel, "params": {"requestId": 5.0}}).status == 202
        arrived = [each["rpc"] for each in fixture.requests()]
        assert arrived == ["initialize", "notifications/initialized", "tools/call"]
        fixture.open(token)
        assert '"done"' in stream.answer.read().decode().replace("\\", "")
    assert client.send(cancel).status == 202
    assert fixture.requests("notifications/cancelled") == []
    assert fixture.counts()["cancelled"] == []
    assert proxy.await_log(lambda line: line.get("decision") == "held-back")


def test_observe_mode_changes_nothing_and_says_what_it_would_have_done(fixture, tmp_path, token):
    with Recourse(tmp_path, "mode: observe\n" + calls_policy(fixture)) as recourse:
        verdicts = []
        for era, client_of in ERAS.items():
            client = client_of(f"http://127.0.0.1:{recourse.port}/mcp")
            for number in (1, 2):
                answer = client.call("create_order", {"item": token + era}, number)
                assert "recourse-event" not in answer.headers
                # It is judged beside the call: the next one waits for that.
                count = len(verdicts) + 1
                lines = recourse.await_log(lambda line: line.get("tool") == "orders.create", count)
                verdicts.append(lines[-1]["verdict"])
            client.call("search", {"query": token})
            assert len(fixture.executions("create_order")) == 2
            fixture.reset()
        assert verdicts == ["fresh", "would_replay"] * 2
        reads = recourse.await_log(lambda line: line.get("tool") == "search", count=2)
        assert all(line["effect"] == "read" and "verdict" not in line for line in reads)


@pytest.mark.parametrize("form", ["json", "sse"])
def test_observe_mode_judges_failures_as_enforce_does(fixture, tmp_path, token, form):
    fixture.set(answer=form)
    calls = [("fail_tool", {"text": token}), ("error_tool", {"code": -32000, "message": token})]
    with Recourse(tmp_path, "mode: observe\n" + calls_policy(fixture)) as recourse:
        client = Legacy(f"http://127.0.0.1:{recourse.port}/mcp")
        for tool, arguments in calls:
            answer = client.call(tool, arguments)
            assert answer.is_sse() == (form == "sse")
        wait_until(lambda: len(ended(recourse)) == len(calls), "both outcomes")
        for event in ended(recourse):
            assert event["http_status"] == 200 and token in event["detail"], event
            assert event["cause"] == "server_error", event


def ended(recourse):
    return [event for event in recourse.events() if event["phase"] == "UNCERTAIN"]


def test_too_large_a_message_is_refused_as_json_rpc(url, fixture):
    connection = http.client.HTTPConnection(*url.removeprefix("http://").split("/")[0].split(":"))
    fields = {"Content-Type": "application/json", "Content-Length": str(9 << 20)}
    connection.request("POST", "/mcp", headers=fields)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert answer.status == 413 and body["id"] is None and body["error"]["code"] == 413
