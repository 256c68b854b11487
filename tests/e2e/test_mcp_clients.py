"""Unchanged MCP clients against real servers, direct and through Recourse: they work, and what
policy does not intervene in is the same on both ways, byte for byte."""

import json
import signal

import pytest

from support.mcp import Everything, mcp_policy
from support.mcp_fixtures import fixture, running  # noqa: F401
from support.mcp_client import CLIENT_KINDS, McpClient, connected
from support.mcp_relay import Relay, normalised, transcript
from support.mcp_wire import Legacy, Modern, call, rpc, sse_events
from support.recourse import WAIT_MAX, Recourse

SDKS = [kind for kind in CLIENT_KINDS if kind.startswith("sdk")]
FRAMEWORKS = [kind for kind in CLIENT_KINDS if kind not in SDKS]
LEGACY_ONLY = ("sdk v1", "sdk v2 legacy", "langgraph")


@pytest.fixture(scope="module")
def passing(running, tmp_path_factory):
    """Recourse in front of the fixture server."""
    with Recourse(tmp_path_factory.mktemp("recourse"), mcp_policy(running.url)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def everything(packages):
    with Everything() as server:
        yield server


# --- the clients work ----------------------------------------------------------------------------
@pytest.mark.parametrize("kind", CLIENT_KINDS)
def test_a_client_calls_the_fixture(fixture, kind):
    with connected(kind, fixture.endpoint) as client:
        order = client.call("create_order", {"item": "tea"})
        mail = client.call("send_mail", {"to": "ada"})
        failed = client.call("fail_tool")
        error = client.tell("call", tool="error_tool", arguments={"code": -32603})
        assert client.end() == 0
    assert "order-1" in order["text"] and mail["text"] == "mail 1 to ada is sent"
    assert "the tool failed" in failed["text"] and ("error" in error) == (kind in SDKS)
    assert fixture.counts()["tools"] == {
        "create_order": 1, "send_mail": 1, "fail_tool": 1, "error_tool": 1}  # fmt: skip
    eras = {each["era"] for each in fixture.requests("tools/call")}
    assert eras == {"legacy" if kind in LEGACY_ONLY else "modern"}


@pytest.mark.parametrize("kind", CLIENT_KINDS)
def test_a_client_calls_the_official_server(everything, kind):
    if kind == "sdk v2 modern":
        client = McpClient("modern", everything.endpoint, mode="auto")
        assert client.ask("connect") == "2025-11-25"
    else:
        client = connected(kind, everything.endpoint)
    with client:
        assert client.call("echo", {"message": "tea"})["text"] == "Echo: tea"


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_an_error_of_the_protocol_as_a_model_sees_it(fixture, kind):
    """The agents of one framework are told nothing but to try again."""
    with connected(kind, fixture.endpoint) as client:
        text = client.call("error_tool", {"code": -32603, "message": "never again"})["text"]
    assert ("never again" in text) == (kind != "openai agents")
    assert kind != "openai agents" or "Please try again" in text


@pytest.mark.parametrize("kind", SDKS)
def test_a_client_is_asked_and_told_of_progress(fixture, kind):
    with connected(kind, fixture.endpoint, answers=True) as client:
        for what, word in (("elicitation", "red"), ("sampling", "word"), ("roots", "/home")):
            assert word in client.call("ask_client", {"what": what})["text"]
        fixture.open("stream_report", count=3)
        report = client.call("stream_report", progress=True)
        assert report["progress"] == [1, 2, 3] and len(client.ask("asked")) == 3
    assert len(fixture.executions("ask_client")) == 3


@pytest.mark.parametrize("kind", [kind for kind in CLIENT_KINDS if kind not in LEGACY_ONLY])
def test_a_modern_client_calls_again_with_the_state_it_was_given(fixture, kind):
    with connected(kind, fixture.endpoint) as client:
        state = client.call("ask_client", {"what": "state", "rounds": 3})
    assert state["text"] == '{"rounds":3}' and len(fixture.requests("tools/call")) == 4
    assert len(fixture.executions("ask_client")) == 1


def test_a_legacy_client_fetches_what_was_cut_after_an_event_id(fixture):
    with connected("sdk v1", fixture.endpoint) as client:
        assert "cut-1" in client.call("cut_write", {"event_id": True})["text"]
    assert fixture.counts()["tools"] == {"cut_write": 1}


@pytest.mark.parametrize("kind", [kind for kind in CLIENT_KINDS if kind != "openai agents"])
def test_a_client_never_learns_of_an_answer_that_was_cut(fixture, kind):
    """It waits until its own patience ends, although the answer has ended long before."""
    with connected(kind, fixture.endpoint, timeout=2000) as client:
        outcome = client.tell("call", tool="cut_write", arguments={"how": "end"})
    assert "time" in repr(outcome) and "cut-1" not in repr(outcome)
    # A machine that stands still may use up the client's patience before it has asked.
    assert len(fixture.executions("cut_write")) <= 1


# --- LangGraph repeats ---------------------------------------------------------------------------
def test_a_node_that_is_retried_calls_again(fixture):
    with connected("langgraph", fixture.endpoint) as graph:
        mail = {"tool": "send_mail", "arguments": {"to": "ada"}}
        ended = graph.ask("node", thread="t", repeat="retry", failures=2, **mail)
    assert ended["runs"] == len(fixture.executions("send_mail")) == 3


def test_a_node_that_was_interrupted_calls_again(fixture):
    with connected("langgraph", fixture.endpoint) as graph:
        mail = {"tool": "send_mail", "arguments": {"to": "ada"}}
        assert graph.ask("node", thread="t", repeat="interrupt", **mail)["interrupted"]
        assert graph.ask("resume", thread="t", value="yes")["text"] == "mail 2 to ada is sent"
    assert len(fixture.executions("send_mail")) == 2


def test_a_node_that_crashed_calls_again(fixture, tmp_path):
    kept = {"checkpoints": str(tmp_path / "checkpoints.json")}
    with connected("langgraph", fixture.endpoint, **kept) as graph:
        graph.start("node", thread="t", repeat="crash", tool="send_mail", arguments={"to": "ada"})
        assert graph.process.wait(WAIT_MAX) == -signal.SIGKILL
    with connected("langgraph", fixture.endpoint, resumed=True, **kept) as graph:
        assert graph.ask("resume", thread="t")["text"] == "mail 2 to ada is sent"
    assert len(fixture.executions("send_mail")) == 2


# --- the same on both ways -----------------------------------------------------------------------
STEPS = [
    ("search", {"query": "tea"}),
    ("create_order", {"item": "tea", "note": "é"}),
    ("cancel_order", {"id": "order-1"}),
    ("send_mail", {"to": "ada"}),
    ("fail_tool", {}),
    ("error_tool", {"code": -32603}),
    ("status_tool", {"status": 404}),
    ("status_tool", {"status": 500}),
]


def played(kind, port, steps, **options):
    """What a client saw, and what went over its wire, with everything that varies named away."""
    with Relay(port) as relay, connected(kind, relay.endpoint, **options) as client:
        names = {}
        seen = [
            normalised(repr(client.tell("call", tool=tool, arguments=arguments)), names)
            for tool, arguments in steps
        ]
        assert client.end() == 0
        return seen, transcript(relay.recorded())


WAYS = [*((kind, "sse") for kind in CLIENT_KINDS), *((kind, "json") for kind in SDKS)]


@pytest.mark.parametrize(("kind", "answer"), WAYS)
def test_a_client_sees_the_same_direct_and_through_recourse(fixture, passing, kind, answer):
    ways = []
    for port in (fixture.port, passing.port):
        fixture.reset()
        fixture.set(answer=answer)
        ways.append(played(kind, port, STEPS))
    (seen, direct), (seen_through, through) = ways
    assert len(direct) > len(STEPS)
    assert seen == seen_through
    assert direct == through


@pytest.mark.parametrize("kind", SDKS)
def test_questions_of_the_server_pass_both_ways(fixture, passing, kind):
    steps = [("ask_client", {"what": what}) for what in ("elicitation", "sampling", "roots")]
    if kind != "sdk v2 modern":
        steps += [("ask_client", {"stream": "get"}), ("cut_write", {"event_id": True})]
    ways = []
    for port in (fixture.port, passing.port):
        fixture.reset()
        ways.append(played(kind, port, steps, answers=True))
    assert ways[0] == ways[1]


@pytest.mark.parametrize("kind", CLIENT_KINDS)
def test_the_official_server_is_the_same_through_recourse(everything, tmp_path, kind):
    kind = "sdk v2 legacy" if kind == "sdk v2 modern" else kind
    steps = [("echo", {"message": text}) for text in ("one", "é")]
    with Recourse(tmp_path, mcp_policy(everything.url)) as proxy:
        direct, through = (played(kind, port, steps) for port in (everything.port, proxy.port))
    assert direct == through


# What a hop owns, and what tells two hops apart. Recourse reads the answers, so it asks for none
# that is compressed.
OF_A_HOP = {"connection", "keep-alive", "transfer-encoding", "via", "host", "accept-encoding"}


def arrived(fixture):
    """The requests as the server saw them, without what is of a hop or of a session."""
    names = {}
    return [
        (each["method"], each["target"], each["body"], sorted(
            (name.lower(), normalised(value, names)) for name, value in each["headers"]
            if name.lower() not in OF_A_HOP
        ))
        for each in fixture.requests() if each["method"] != "GET"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", SDKS)
def test_the_server_is_asked_the_same_direct_and_through_recourse(fixture, passing, kind):
    ways = []
    for port in (fixture.port, passing.port):
        fixture.reset()
        with connected(kind, f"http://127.0.0.1:{port}/mcp") as client:
            client.ask("list")
            client.call("create_order", {"item": "tea", "region": "é u"})
        ways.append(arrived(fixture))
    assert ways[0] == ways[1]


# --- what no client would send, and answers that break -----------------------------------------
def told(answer):
    fields = {k: v for k, v in answer.headers.items() if k not in {"date", "via", "connection",
              "keep-alive", "transfer-encoding", "content-length"}}  # fmt: skip
    return answer.status, normalised(repr(sorted(fields.items())), {}), answer.body, answer.cut


ODD = {
    "unknown tool": call("no_such"),
    "string id": call("search", {"query": "a"}, number="one"),
    "notification": {"jsonrpc": "2.0", "method": "notifications/cancelled",
                     "params": {"requestId": 99}},
    "cut after an event id": call("cut_write", {"how": "fin", "event_id": True}),
}  # fmt: skip


# A modern client has nothing to take a cut answer up again with: it gets an error, see below.
CASES = [(era, name) for era in (Legacy, Modern) for name in ODD
         if era is Legacy or not name.startswith("cut")]  # fmt: skip


@pytest.mark.parametrize(("era", "name"), CASES)
def test_odd_messages_and_broken_answers_pass_as_they_are(fixture, passing, era, name):
    ways = []
    for port in (fixture.port, passing.port):
        fixture.reset()
        ways.append(told(era(f"http://127.0.0.1:{port}/mcp").send(ODD[name])))
    assert ways[0] == ways[1]


@pytest.mark.parametrize("era", [Legacy, Modern])
def test_a_method_that_nobody_knows_is_logged_as_a_write_and_answered_the_same(
    fixture, passing, era
):
    direct, through = (era(f"http://127.0.0.1:{port}/mcp").send(rpc("no/such"))
                       for port in (fixture.port, passing.port))  # fmt: skip
    assert direct.status == through.status and direct.final() == through.final()
    assert "recourse-event" in through.headers


# What is no message, and what holds calls of which some could be writes.
REFUSED = {
    "no JSON-RPC": {"hello": "there"},
    "array": [call("search", {"query": "a"}, number=1), call("search", {"query": "b"}, number=2)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused(fixture, passing, name):
    refused = Legacy(f"http://127.0.0.1:{passing.port}/mcp").send(REFUSED[name])
    assert refused.status == 400 and refused.final()["error"]["code"] == -32600, refused.body
    assert fixture.counts()["tools"] == {}


CUTS = [{"how": "end"}, {"how": "fin", "half": True}]
ENDED = [(era, cut) for era in (Legacy, Modern) for cut in CUTS]
ENDED.append((Modern, {"how": "fin", "event_id": True}))


@pytest.mark.parametrize(("era", "cut"), ENDED)
def test_an_answer_that_was_cut_is_ended_with_an_error(fixture, passing, era, cut):
    direct, through = (era(f"http://127.0.0.1:{port}/mcp").call("cut_write", cut, number="one")
                       for port in (fixture.port, passing.port))  # fmt: skip
    assert through.body.startswith(direct.body) and not through.cut
    error = json.loads(sse_events(through.body)[-1].data)
    assert error["id"] == "one" and "ended before it was complete" in error["error"]["message"]
    assert len(fixture.executions("cut_write")) == 2


@pytest.mark.parametrize("era", [Legacy, Modern])
def test_chunks_pass_one_at_a_time(fixture, passing, era):
    client = era(f"http://127.0.0.1:{passing.port}/mcp")
    report = call("stream_report", {"chunks": 3}, _meta={"progressToken": "p"})
    with client.open(report) as stream:
        for chunk in (1, 2, 3):
            fixture.wait_for("waiting", "stream_report")
            fixture.open("stream_report")
            assert stream.message()["params"]["progress"] == chunk
        assert stream.message()["result"]["content"][0]["text"] == "3 chunks"


def test_a_cut_answer_is_resumed_by_its_event_id(fixture, passing):
    ways = []
    for port in (fixture.port, passing.port):
        fixture.reset()
        client = Legacy(f"http://127.0.0.1:{port}/mcp")
        answer = client.call("cut_write", {"event_id": True})
        (event,) = sse_events(answer.body)
        with client.listen(last_event_id=event.id) as stream:
            late = stream.next()
            ways.append((told(answer), stream.status, late.id, late.event, late.data))
    assert ways[0] == ways[1] and "cut-1" in late.data


def test_a_change_of_the_tools_is_heard_on_the_get_stream(fixture, passing):
    client = Legacy(f"http://127.0.0.1:{passing.port}/mcp")
    with client.listen() as stream:
        fixture.wait_for("streams")
        fixture.define("search", description="other")
        assert stream.message()["method"] == "notifications/tools/list_changed"
