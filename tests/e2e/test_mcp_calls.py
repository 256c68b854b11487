"""Calls of MCP tools through Recourse, byte for byte: what is a write, and what becomes of its
repeats. Raw JSON-RPC against a server that counts what it executes."""

import http.server
import json
import threading

import pytest

from support import rawhttp
from support.mcp import Fixture, mcp_policy
from support.mcp_fixtures import ERAS, client, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.mcp_wire import ACCEPT, Legacy, Modern, call, exchange, rpc
from support.recourse import CRASH_POINTS, Recourse

LOOSE = {"Host": "loose.test"}
FLOWS = "flow_rules: { agents_may: [ cancel ] }\n"


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    policy = calls_policy(running, more=FLOWS)
    with serving(Recourse(tmp_path_factory.mktemp("mcp"), policy)) as recourse:
        yield recourse


def traced(number):
    return {"traceparent": f"00-{number:032x}-00f067aa0ba902b7-01"}


def meta_of(answer):
    return answer.final()["result"]["_meta"]


# What a call is.
def test_a_write_runs_once_and_its_repeat_gets_the_same_answer_under_its_own_id(
    client, fixture, token
):
    first = client.call("create_order", {"item": token}, number=7)
    again = client.call("create_order", {"item": token}, number="x-8")
    assert first.final()["id"] == 7 and again.final()["id"] == "x-8"
    assert first.final()["result"] == again.final()["result"]
    assert first.final()["result"]["structuredContent"]["item"] == token
    assert fixture.executions("create_order") == [{"item": token}]
    assert first.headers["recourse-outcome"] == again.headers["recourse-outcome"] == "executed"
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_the_answer_comes_in_the_form_that_the_client_takes(client, fixture, token, accept):
    fixture.set(answer="json")
    headers = {"Accept": ACCEPT}
    client.call("create_order", {"item": token}, headers=headers)
    again = client.call("create_order", {"item": token}, headers={"Accept": accept})
    assert again.headers["content-type"] == accept
    assert again.final()["result"]["structuredContent"]["item"] == token


def test_a_read_runs_as_often_as_it_is_asked_for(client, fixture, proxy, token):
    for _ in range(2):
        assert token in client.call("search", {"query": token}).text()
    assert len(fixture.executions("search")) == 2
    lines = proxy.await_log(lambda line: line.get("tool") == "search")
    assert (lines[-1]["effect"], lines[-1]["rpc"]) == ("read", "tools/call")
    assert lines[-1]["mcp_tool"] == "search"


def test_a_tool_that_the_policy_does_not_list_is_told_by_its_name(client, proxy, token):
    client.call("no such_at_all", {"item": token})
    (line, *_) = proxy.await_log(lambda line: line.get("mcp_tool") == "no?such_at_all")
    assert line["rpc"] == "tools/call" and "tool" not in line
    assert {row["method"] for row in proxy.events_for("no?such_at_all")} == {"tools/call"}
    told = json.loads(proxy.cli("report", "--json").stdout)["unlisted"]
    assert ("tools/call", "no?such_at_all") in {(row["method"], row["path"]) for row in told}, told


def test_the_body_decides_whatever_the_header_says(url, fixture, token):
    lie = {"Mcp-Name": "search", "Mcp-Method": "tools/list"}
    modern = Modern(url).call("create_order", {"item": token}, headers=lie)
    assert modern.status == 400 and modern.final()["error"]["code"] == -32020
    assert fixture.counts()["tools"] == {}
    legacy = Legacy(url)
    for _ in range(2):
        answer = legacy.call("create_order", {"item": token}, headers=lie)
        assert answer.final()["result"]["structuredContent"]["item"] == token
    assert fixture.executions("create_order") == [{"item": token}]


@pytest.mark.parametrize(
    "body",
    [
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search",'
        '"name":"create_order","arguments":{}}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{}}',
        '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"create_order"}}',
        json.dumps([rpc("tools/list"), call("create_order", {"item": "b"}, 2)]),
        "[]",
        "{",
    ],
    ids=["two names", "two methods", "no id", "batch", "empty batch", "no json"],
)
def test_what_has_two_readings_goes_nowhere(url, fixture, body):
    client = Legacy(url)
    answer = exchange(url, "POST", body, client.fields(None))
    assert answer.status == 400 and answer.final()["error"]["code"] in (-32600, -32700), answer.body
    assert fixture.counts()["tools"] == {}
    assert fixture.requests("tools/call") == []


# Decoded as UTF-7, the query ends there and the tool has another name: Express would call that.
SHIFTED = "x+ACIAfQAsACIAbgBhAG0AZQAiADoAIgBjAHIAZQBhAHQAZQBfAG8AcgBkAGUAcg-"


@pytest.mark.parametrize(
    "fields",
    [{"Content-Type": "application/json; charset=utf-7"}, {"Content-Encoding": "br"}],
    ids=["charset", "coding"],
)
def test_no_field_gives_the_body_another_reading(url, fixture, fields):
    client = Legacy(url)
    body = json.dumps(call("search", {"query": SHIFTED}))
    plain = exchange(url, "POST", body, client.fields(None))
    assert plain.status == 200, plain.body
    answer = exchange(url, "POST", body, {**client.fields(None), **fields})
    assert answer.status == 400 and answer.final()["error"]["code"] == -32600, answer.body
    assert len(fixture.requests("tools/call")) == 1


def test_other_doors_to_the_same_server_are_shut(url, proxy, fixture):
    base = f"http://127.0.0.1:{proxy.port}"
    body = json.dumps(call("create_order", {"item": "tea"}))
    for path, status in (("/mcp/", 400), ("/MCP", 400), ("/%6dcp", 400), ("/messages", 403)):
        answer = exchange(base + path, "POST", body, Legacy(url).fields(None))
        assert answer.status == status, (path, answer.body)
    assert b"or use the endpoint /mcp" in answer.body
    assert fixture.counts()["tools"] == {}
    assert exchange(base + "/counts", "GET").status == 200


def test_unknown_tools_are_writes_and_trusted_hints_make_reads(url, fixture, proxy, token):
    client = Legacy(url, headers=LOOSE)
    for number in range(2):
        client.call("search", {"query": token}, number=number)
    assert len(fixture.executions("search")) == 1
    assert len(client.send(rpc("tools/list")).final()["result"]["tools"]) > 5
    for number in range(2):
        client.call("search", {"query": token + "b"}, number=number)
    assert len(fixture.executions("search")) == 3
    fixture.define("search", description="Searches, and deletes what it finds")
    client.send(rpc("tools/list"))
    for number in range(2):
        client.call("search", {"query": token + "c"}, number=number)
    assert len(fixture.executions("search")) == 4
    assert 'recourse_mcp_tool_changes_total{backend="loose"} 1' in proxy.probe("/metrics")[1]
    assert "describes a tool in another way" in proxy.stderr()


def searches(server, client, query, number=1):
    """How often two calls of it are executed."""
    for each in range(2):
        client.call("search", {"query": query}, number=number + each)
    return len([each for each in server.executions("search") if each["query"] == query])


def test_hints_that_changed_are_not_believed(fixture, tmp_path, token):
    with Recourse(tmp_path, calls_policy(fixture)) as recourse:
        client = Legacy(f"http://127.0.0.1:{recourse.port}/mcp", headers=LOOSE)
        client.send(rpc("tools/list"))
        assert searches(fixture, client, token) == 2
        fixture.define("search", annotations={"readOnlyHint": False})
        client.send(rpc("tools/list"))
        assert searches(fixture, client, token + "b") == 1
        fixture.define("search", annotations={"readOnlyHint": True})
        client.send(rpc("tools/list"))
        assert searches(fixture, client, token + "c") == 1


def test_what_a_server_said_is_not_believed_of_another_one(fixture, tmp_path, token):
    with Recourse(tmp_path, calls_policy(fixture)) as recourse, Fixture() as other:
        client = Legacy(f"http://127.0.0.1:{recourse.port}/mcp", headers=LOOSE)
        client.send(rpc("tools/list"))
        assert searches(fixture, client, token) == 2
        here, elsewhere = f"localhost:{fixture.port}", f"localhost:{other.port}"
        recourse.policy_path.write_text(calls_policy(fixture).replace(here, elsewhere))
        assert recourse.cli("policy", "reload").returncode == 0
        there = Legacy(f"http://127.0.0.1:{recourse.port}/mcp", headers=LOOSE)
        assert searches(other, there, token + "b") == 1
        there.send(rpc("tools/list"))
        assert searches(other, there, token + "c", 5) == 2


# Repeats.
def test_a_repeat_joins_the_call_that_runs(client, fixture, url, token):
    gate = {"gate": token}
    answers = {}

    def ask(number):
        answers[number] = client.call("slow_write", gate, number=number)

    callers = [threading.Thread(target=ask, args=[1])]
    callers[0].start()
    fixture.wait_for("waiting", token)
    callers.append(threading.Thread(target=ask, args=[2]))
    callers[1].start()
    fixture.open(token, 2)
    for caller in callers:
        caller.join()
    assert answers[1].final()["result"] == answers[2].final()["result"]
    assert {number: answers[number].final()["id"] for number in answers} == {1: 1, 2: 2}
    assert fixture.executions("slow_write") == [gate]


def test_the_same_key_with_other_arguments_is_refused_in_words(client, fixture, token):
    key = {"Idempotency-Key": f'"{token}"'}
    client.call("create_order", {"item": token}, headers=key)
    other = client.call("create_order", {"item": "other"}, headers=key)
    assert other.status == 200 and other.final()["result"]["isError"] is True
    assert other.text().startswith("Key reused with other arguments.")
    assert meta_of(other)["dev.recourse/outcome"] == "not_executed"
    assert len(fixture.executions("create_order")) == 1


@pytest.mark.parametrize("how", ["fin", "rst", "end"])
def test_an_answer_that_was_cut_leaves_the_outcome_unknown(client, fixture, token, how):
    # Another argument makes it another call for every case.
    arguments = {"how": how, "half": how == "end", "mark": token}
    first = client.call("cut_write", arguments, number=1)
    again = client.call("cut_write", arguments, number=2)
    for answer, number in ((first, 1), (again, 2)):
        assert answer.status == 200 and answer.final()["id"] == number
        assert answer.final()["result"]["isError"] is True
        assert answer.text().startswith("Outcome unknown."), answer.text()
        assert meta_of(answer)["dev.recourse/outcome"] == "unknown"
    assert fixture.executions("cut_write") == [arguments]


def test_a_tools_own_failure_is_told_in_its_own_words_and_not_repeated(client, fixture, token):
    first = client.call("fail_tool", {"text": token})
    assert first.text() == token and first.final()["result"]["isError"] is True
    again = client.call("fail_tool", {"text": token})
    assert again.text().startswith("Outcome unknown."), again.text()
    assert len(fixture.executions("fail_tool")) == 1


def test_a_refusal_over_http_passes_and_the_call_may_be_made_again(client, fixture, token):
    headers = {"WWW-Authenticate": 'Bearer realm="x"'}
    fault = {"kind": "status", "status": 401, "execute": False, "headers": headers}
    fixture.arm("create_order", **fault, body="log in")
    refused = client.call("create_order", {"item": token})
    assert refused.status == 401 and refused.body == b"log in"
    assert refused.headers["www-authenticate"] == 'Bearer realm="x"'
    done = client.call("create_order", {"item": token})
    assert done.final()["result"]["structuredContent"]["item"] == token
    assert fixture.executions("create_order") == [{"item": token}]


@pytest.mark.parametrize("tool", ["create_order", "search"])
def test_a_user_who_is_sent_to_a_url_first_may_call_again(url, fixture, token, tool):
    client = Legacy(url)  # the newer protocol has input_required for that
    arguments = {"item": token, "query": token}
    fixture.arm(tool, kind="error", code=-32042, message="visit it", execute=False)
    told = client.call(tool, arguments, 1).final()
    assert told["id"] == 1 and told["error"]["code"] == -32042, told
    assert told["error"]["message"].endswith("visit it")
    assert fixture.executions(tool) == []
    done = client.call(tool, arguments, 2)
    assert token in json.dumps(done.final()["result"])
    assert fixture.executions(tool) == [arguments]


def test_what_a_call_brings_beside_its_arguments_makes_no_other_call(fixture, tmp_path, token):
    tools = """\
  ask: { match: tools/call tools ask_client, effect: write,
         scope: caller, reason: tests, identity: body#/mark }
"""
    arguments = {"what": "state", "rounds": 1, "mark": token}
    with Recourse(tmp_path, calls_policy(fixture, tools=tools)) as recourse:
        client = Modern(f"http://127.0.0.1:{recourse.port}/mcp")
        asked = client.call("ask_client", arguments, 1)
        assert asked.headers["recourse-outcome"] == "not_executed"
        state = asked.final()["result"]["requestState"]
        reply = {"requestState": state, "inputResponses": {"asked": {"action": "accept"}}}
        for number in (2, 3):
            done = client.call("ask_client", arguments, number, **reply)
            assert done.text() == '{"rounds":1}', done.body
        other = client.call("ask_client", {**arguments, "rounds": 2}, 4, **reply)
        assert other.text().startswith("Key reused with other arguments.")
        (operation,) = {row["operation"] for row in recourse.events_for("ask_client")}
        assert operation
    assert fixture.counts()["tools"] == {"ask_client": 1}


REDIRECTION = "the server redirects to /mcp/; put that url in the policy"


@pytest.mark.parametrize("tool", ["create_order", "search", "send_mail"])
@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_told_and_not_passed_on(client, fixture, token, tool, status):
    where = {"Location": "/mcp/?code=7"}
    fixture.arm(tool, kind="status", status=status, execute=False, headers=where)
    arguments = {"item": token, "query": token, "to": token}
    answer = client.call(tool, arguments)
    assert answer.status == 200 and "location" not in answer.headers, answer.headers
    assert answer.final()["result"]["isError"] is True
    assert REDIRECTION in answer.text() and "code=7" not in answer.text(), answer.text()
    assert meta_of(answer)["dev.recourse/outcome"] == "not_executed"
    assert meta_of(answer)["dev.recourse/retryable"] is False
    assert fixture.executions(tool) == []
    assert client.call(tool, arguments).status == 200
    assert len(fixture.executions(tool)) == 1


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_proves_nothing_leaves_the_outcome_unknown(client, fixture, token, status):
    where = {"Location": "/mcp/"}
    fixture.arm("create_order", kind="status", status=status, execute=True, headers=where)
    for number in (1, 2):
        answer = client.call("create_order", {"item": token}, number=number)
        assert answer.status == 200 and "location" not in answer.headers, answer.headers
        assert answer.text().startswith("Outcome unknown.") and REDIRECTION in answer.text()
    assert fixture.executions("create_order") == [{"item": token}]


@pytest.mark.parametrize(
    "name",
    ["Create_Order", "create-order", " create_order", "create_order\0", "functions.create_order"],
)
def test_a_name_that_a_server_may_take_for_a_gated_tools_is_refused(
    tmp_path, fixture, token, name
):
    gated = """\
  gated: { match: tools/call tools create_order, effect: write, approval: { by: [ ops ] } }
"""
    with Recourse(tmp_path, mcp_policy(fixture.url) + gated) as recourse:
        client = Legacy(f"http://127.0.0.1:{recourse.port}/mcp")
        refused = client.call(name, {"item": token})
        assert refused.status == 400
        error = refused.final()["error"]
        assert "'create_order', which falls under the stricter rule of gated" in error["message"]
    assert fixture.executions("create_order") == []


def test_only_a_post_to_the_endpoint_may_have_a_body(url, fixture, token):
    call = json.dumps(rpc("tools/call", {"name": "create_order", "arguments": {"item": token}}))
    for method in ("DELETE", "GET"):
        answer = exchange(url, method, call, {"Content-Type": "application/json"})
        assert answer.status == 400, answer.body
        assert "only a POST may have a body" in answer.body.decode()
    assert fixture.executions("create_order") == []


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Sends everybody somewhere else."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(307)
        self.send_header("Location", "/mcp/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


def test_no_request_to_the_endpoint_is_redirected(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        policy = mcp_policy(f"http://127.0.0.1:{server.server_port}")
        with Recourse(tmp_path, policy) as recourse:
            url = f"http://127.0.0.1:{recourse.port}/mcp"
            fields = {"Content-Type": "application/json", "Accept": ACCEPT}
            for method in ("initialize", "tasks/cancel"):  # a read, and a write that passes
                answer = exchange(url, "POST", json.dumps(rpc(method, {})), fields)
                assert answer.status == 200, answer.body
                assert REDIRECTION in answer.final()["error"]["message"]
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            for method, body in (("GET", None), ("DELETE", None), ("POST", json.dumps(note))):
                answer = exchange(url, method, body, fields)
                assert answer.status == 502 and "location" not in answer.headers, answer.headers
                assert REDIRECTION in json.loads(answer.body)["detail"]
            # Metadata is no call of a tool.
            assert exchange(url + "/about", "GET").status == 307
        server.shutdown()


def test_a_session_that_the_server_forgot_is_opened_anew_by_the_client(url, fixture, token):
    client = Legacy(url)
    fixture.forget_sessions()
    assert client.call("create_order", {"item": token}).status == 404
    assert Legacy(url).call("create_order", {"item": token}).status == 200
    assert fixture.executions("create_order") == [{"item": token}]


def test_a_flow_that_was_stopped_takes_no_more_calls(client, fixture, token):
    trace = traced(int(token[1:]))
    client.call("create_order", {"item": token}, headers=trace)
    stopped = client.send(rpc("ping"), headers={**trace, "Recourse-Flow": "cancel"})
    assert stopped.status == 200, stopped.body
    late = client.call("create_order", {"item": token + "b"}, headers=trace)
    assert late.text().startswith("Flow closed."), late.text()
    assert meta_of(late)["dev.recourse/outcome"] == "not_executed"
    fixture.wait_for("executions", "cancel_order")
    assert fixture.executions("create_order") == [{"item": token}]


@pytest.mark.parametrize("era", ERAS)
def test_after_a_kill_nothing_runs_twice(fixture, tmp_path, token, era):
    with Recourse(tmp_path, calls_policy(fixture)) as recourse:
        client = ERAS[era](f"http://127.0.0.1:{recourse.port}/mcp")
        with client.open(call("slow_write", {"gate": token})):
            fixture.wait_for("waiting", token)
            recourse.kill()
        fixture.open(token, 5)
        recourse.start()
        client.url = f"http://127.0.0.1:{recourse.port}/mcp"
        again = client.call("slow_write", {"gate": token}, number=2)
        assert again.text().startswith("Outcome unknown."), again.text()
    assert fixture.executions("slow_write") == [{"gate": token}]


@pytest.mark.skipif(not CRASH_POINTS, reason="crash points are not built in")
@pytest.mark.parametrize("point", ["k05", "k07", "k08", "k10", "k12", "k13"])
def test_whatever_instruction_it_dies_at_the_tool_runs_once_at_most(
    fixture, tmp_path, token, point
):
    arguments = {"item": token}
    with Recourse(tmp_path, calls_policy(fixture), env={"RECOURSE_CRASH_POINT": point}) as recourse:
        fields = {"Content-Type": "application/json", "Accept": ACCEPT}
        wrapped, more = Modern("").wrapped(call("create_order", arguments))
        try:
            exchange(f"http://127.0.0.1:{recourse.port}/mcp", "POST", json.dumps(wrapped),
                     {**fields, **more})  # fmt: skip
        except OSError:
            pass
        recourse.wait()
        recourse.env = {}
        recourse.start()
        client = Modern(f"http://127.0.0.1:{recourse.port}/mcp")
        client.call("create_order", arguments, number=2)
        client.call("create_order", arguments, number=3)
    assert len(fixture.executions("create_order")) <= 1


def test_a_write_that_comes_during_a_drain_is_not_sent(running, fixture, tmp_path, token):
    message, fields = Modern("").wrapped(call("create_order", {"item": token}))
    body = json.dumps(message).encode()
    fields |= {"Expect": "100-continue", "Content-Length": len(body)}
    with (
        serving(Recourse(tmp_path, calls_policy(running))) as recourse,
        rawhttp.Connection(recourse.port) as late,
    ):
        host = f"127.0.0.1:{recourse.port}"
        late.send(rawhttp.render("POST", "/mcp", host, fields, length=False))
        assert late.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        assert recourse.cli("drain").returncode == 0
        late.send(body)
        answer = late.response("POST")
        assert answer.header("Connection") == "close" and late.at_end()
        result = answer.json()["result"]
        assert result["isError"] and "Shutting down" in result["content"][0]["text"]
        assert result["_meta"] == {"dev.recourse/outcome": "not_executed",
                                   "dev.recourse/retryable": True}  # fmt: skip
    assert fixture.executions("create_order") == []
