"""Both eras of MCP at one ledger: a stored result reaches each client in the form of its own era,
and a call that its server must refuse is not answered from the log."""

import json

import pytest

from support.mcp_client import CLIENT_KINDS, connected
from support.mcp_fixtures import ERAS, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.mcp_wire import ACCEPT, Modern, call, exchange, rpc
from support.recourse import Recourse

EVENTS = "text/event-stream"


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    with serving(Recourse(tmp_path_factory.mktemp("mcp"), calls_policy(running))) as recourse:
        yield recourse


def typed(result):
    """What it says of itself, and all else of it."""
    return result.get("resultType"), {k: v for k, v in result.items() if k != "resultType"}


@pytest.mark.parametrize("accept", [ACCEPT, "application/json", EVENTS])
@pytest.mark.parametrize("form", ["json", "sse"])
@pytest.mark.parametrize("era", ERAS)
def test_a_repeat_by_a_client_of_the_other_era_is_told_in_its_form(
    url, fixture, token, era, form, accept
):
    fixture.set(answer=form)
    (other,) = ERAS.keys() - {era}
    types = {"legacy": None, "modern": "complete"}
    first = ERAS[era](url).call("create_order", {"item": token}).final()["result"]
    again = ERAS[other](url).call("create_order", {"item": token}, 2, headers={"Accept": accept})
    assert again.is_sse() == (accept == EVENTS) and again.headers["idempotent-replayed"] == "true"
    assert typed(first)[0] == types[era] and typed(again.final()["result"])[0] == types[other]
    assert typed(first)[1] == typed(again.final()["result"])[1]
    assert first["structuredContent"]["item"] == token
    assert fixture.executions("create_order") == [{"item": token}]


@pytest.mark.parametrize("kind", CLIENT_KINDS)
@pytest.mark.parametrize("era", ERAS)
def test_every_client_takes_the_answer_to_a_call_of_either_era(url, fixture, token, era, kind):
    told = ERAS[era](url).call("create_order", {"item": token}).final()["result"]
    with connected(kind, url) as client:
        again = client.call("create_order", {"item": token})
    assert told["structuredContent"]["id"] in json.dumps(again), again
    assert fixture.executions("create_order") == [{"item": token}]


FAULTS = {
    "no version": {"MCP-Protocol-Version": None},
    "no method": {"Mcp-Method": None},
    "no name": {"Mcp-Name": None},
    "another method": {"Mcp-Method": "tools/list"},
    "another name": {"Mcp-Name": "search"},
    "a name that is no base64": {"Mcp-Name": "=?base64?Y3?="},
    "a parameter that is no base64": {"Mcp-Param-Item": "=?base64?Y3?="},
}


@pytest.mark.parametrize("said", [None, "us"], ids=["missing", "another value"])
def test_a_field_that_does_not_repeat_its_argument_is_not_answered_from_the_log(
    url, fixture, token, said
):
    """The schema of the tool, which passed in a list, says which arguments fields repeat."""
    client = Modern(url)
    assert client.send(rpc("tools/list")).status == 200
    arguments = {"item": token, "region": "eu"}
    client.call("create_order", arguments, headers={"Mcp-Param-Region": "eu"})
    wrapped, fields = client.wrapped(call("create_order", arguments, 2))
    fields |= {"Mcp-Param-Region": said} if said else {}
    refused = exchange(url, "POST", json.dumps(wrapped), fields)
    assert refused.status == 400 and refused.final()["error"]["code"] == -32020, refused.body
    assert "Mcp-Param-Region" in refused.final()["error"]["message"]
    encoded = {"Mcp-Param-Region": "=?base64?ZXU=?="}
    again = client.call("create_order", arguments, 3, headers=encoded)
    assert again.headers["idempotent-replayed"] == "true"
    assert fixture.executions("create_order") == [arguments]


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_server_must_refuse_is_not_answered_from_the_log(url, fixture, token, name):
    client = Modern(url)
    client.call("create_order", {"item": token})
    wrapped, fields = client.wrapped(call("create_order", {"item": token}, 2))
    fields = {k: v for k, v in {**fields, **FAULTS[name]}.items() if v is not None}
    refused = exchange(url, "POST", json.dumps(wrapped), fields)
    assert refused.status == 400 and refused.final()["error"]["code"] == -32020, refused.body
    assert refused.final()["id"] == 2 and "idempotent-replayed" not in refused.headers
    again = client.call("create_order", {"item": token}, 3)
    assert again.headers["idempotent-replayed"] == "true"
    assert fixture.executions("create_order") == [{"item": token}]
