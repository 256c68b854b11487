"""How far a key reaches: the scopes of the policy language, over the real wire."""

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import Recourse

TRACE, OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"

# scope in the policy -> what carries its value in a call: fields and members of the body
SCOPES = {
    "session": lambda value: ({"Recourse-Session": value}, {}),
    "header:X-Conversation-Id": lambda value: ({"X-Conversation-Id": value}, {}),
    "body#/run_id": lambda value: ({}, {"run_id": value}),
    "baggage:run": lambda value: ({"baggage": f"run={value},other=1"}, {}),
}


def tools():
    rows = [
        f"""\
  scoped.s{index}:
    match: POST shop /s{index}/{{token}}
    effect: write
    scope: "{scope}"
    identity: [ body#/order ]
    reason: a row of a test is never undone
"""
        for index, scope in enumerate([*SCOPES, "caller", "global"])
    ]
    return "".join(rows) + """\
  slow.read:
    match: GET shop /slow/{token}
    effect: read
    timeout: 4s
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    directory = tmp_path_factory.mktemp("recourse")
    with Recourse(directory, standard(double, extra_tools=tools())) as running:
        yield running


def post(proxy, path, body, trace, **fields):
    fields = {name.replace("_", "-"): value for name, value in fields.items()}
    fields.update(rawhttp.traced(trace))
    return rawhttp.call(proxy.port, "POST", path, headers=fields, body=body)


@pytest.mark.parametrize("index, scope", enumerate(SCOPES), ids=list(SCOPES))
def test_a_named_scope_holds_across_traces_and_ends_with_its_value(
    proxy, double, token, index, scope
):
    path = f"/s{index}/{token}"

    def send(value, trace):
        fields, members = SCOPES[scope](value)
        return post(proxy, path, {"order": token, **members}, trace, **fields)

    first, again, other = send("a", TRACE), send("a", OTHER_TRACE), send("b", TRACE)
    assert first.status == 201 and not first.replayed
    assert again.replayed and again.body == first.body
    assert other.status == 201 and not other.replayed
    assert len(double.effects(path)) == 2


@pytest.mark.parametrize("index, scope", enumerate(SCOPES), ids=list(SCOPES))
def test_a_call_without_its_named_scope_is_refused_with_what_it_needs(
    proxy, double, token, index, scope
):
    path = f"/s{index}/{token}"
    refused = post(proxy, path, {"order": token}, TRACE)
    assert refused.status == 428 and refused.json()["type"].endswith("/key-required")
    assert scope.split(":")[-1].split("#")[-1].lower() in refused.json()["detail"].lower()
    assert double.requests(path) == []


@pytest.mark.parametrize("index", [4, 5], ids=["caller", "global"])
def test_a_scope_wider_than_a_trace_replays_inside_its_window(proxy, double, token, index):
    path = f"/s{index}/{token}"
    first, again = (post(proxy, path, {"order": token}, trace) for trace in (TRACE, OTHER_TRACE))
    assert again.replayed and again.body == first.body
    assert len(double.effects(path)) == 1


def test_our_session_field_never_reaches_the_backend(proxy, double, token):
    path = f"/s0/{token}"
    assert post(proxy, path, {"order": token}, TRACE, Recourse_Session="x").status == 201
    names = {name.lower() for name, _ in double.requests(path)[0]["headers"]}
    assert not any(name.startswith("recourse-") for name in names)


def test_a_json_answer_framed_by_the_close_alone_is_whole(proxy, double, token):
    """An HTTP/1.0 backend has no other framing; what says of itself that it was cut is not."""
    path = f"/plain/{token}"

    def answer(kind, body):
        text = f"HTTP/1.0 201 Created\r\nContent-Type: {kind}\r\n\r\n{body}"
        double.script("POST", path, ["read", "execute", {"send": text}, "fin"], 1)

    answer("application/json", '{"id": "7"}')
    first, again = (post(proxy, path, {"a": 1}, TRACE) for _ in range(2))
    assert (first.status, first.json()) == (201, {"id": "7"})
    assert again.replayed and again.body == first.body
    answer("text/plain", "id 7")
    first, again = (post(proxy, path, {"a": 2}, TRACE) for _ in range(2))
    assert (first.status, first.body) == (201, b"id 7")
    assert again.replayed and again.body == first.body
    answer("application/json", '{"id": "7')
    assert post(proxy, path, {"a": 3}, TRACE).json()["type"].endswith("/answer-lost")


def test_a_read_tool_has_a_timeout_of_its_own(proxy, double, token):
    double.script("GET", f"/slow/{token}", ["read", "hang"], 1)
    answer = rawhttp.call(proxy.port, "GET", f"/slow/{token}")
    assert answer.status == 504 and answer.json()["type"].endswith("/backend-timeout")
    assert "http_response_timeout" in answer.header("Proxy-Status")
