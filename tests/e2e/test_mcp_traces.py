"""Traces of MCP calls by the names that OpenTelemetry has for them."""

import secrets

import pytest

from support.collector import Collector
from support.mcp_fixtures import client, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.recourse import Recourse

SERVER, CLIENT = 2, 3


@pytest.fixture(scope="module")
def collector(exports):
    with Collector() as taking:
        yield taking
    exports += taking.bodies()


@pytest.fixture(scope="module")
def proxy(running, collector, tmp_path_factory):  # noqa: F811
    policy = calls_policy(running)
    arguments = ["--otlp-endpoint", collector.url]
    with serving(Recourse(tmp_path_factory.mktemp("mcp"), policy, arguments)) as recourse:
        yield recourse


def spans_of(client, collector, tool, arguments):  # noqa: F811
    """Of the call and its attempt."""
    trace = secrets.token_hex(16)
    client.call(tool, arguments, headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    call, attempt = collector.await_trace(trace, 2)
    assert (call["kind"], attempt["kind"]) == (SERVER, CLIENT)
    return call, attempt


def test_a_tool_call_is_told_as_one_with_its_operation(client, collector, token):  # noqa: F811
    for span in spans_of(client, collector, "create_order", {"item": token}):
        told = span["attributes"]
        assert span["name"] == "tools/call create_order"
        assert told["mcp.method.name"] == "tools/call"
        assert told["gen_ai.operation.name"] == "execute_tool"
        assert told["gen_ai.tool.name"] == "create_order"
        assert told["recourse.tool"] == "orders.create" and int(told["recourse.operation"])
        assert told["recourse.flow"] and "error.type" not in told and span["status"] == {}


def test_a_tool_that_says_it_failed_is_an_error_of_that_type(
        client, collector, token):  # noqa: F811
    for span in spans_of(client, collector, "fail_tool", {"item": token}):
        told = span["attributes"]
        assert told["error.type"] == "tool_error" and span["status"] == {"code": 2}
        assert told["http.response.status_code"] == 200


def test_a_read_is_one_too_and_a_name_that_only_a_pattern_matches_is_not_told(
        client, collector, token):  # noqa: F811
    for span in spans_of(client, collector, "search", {"query": token}):
        assert span["name"] == "tools/call search"
        assert span["attributes"]["gen_ai.tool.name"] == "search"
    canary = f"cut_{token}"
    call = spans_of(client, collector, canary, {})[0]
    assert call["name"] == "tools/call" and "gen_ai.tool.name" not in call["attributes"]
    assert not any(canary.encode() in body for _, _, body, _ in collector.requests)
