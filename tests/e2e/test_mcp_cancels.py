"""A client of an MCP server that gives a call up says so by `notifications/cancelled`, and most
repeat the call: it is gone then, and its write goes on for the repeat."""

import concurrent.futures
import secrets
import time

import pytest

from support.mcp_client import connected
from support.mcp_fixtures import client, fixture, running, serving, url  # noqa: F401
from support.mcp_policies import calls_policy
from support.mcp_wire import Legacy, call
from support.postgres import Postgres
from support.recourse import Recourse, run_cli
from support.waiting import WAIT_MAX, made_in_time, wait_until
from test_fleet import Pods

# Calls of two traces are the same only if the first one's client has gone without an answer.
TOOLS = """\
  slow: { match: tools/call tools slow_write, effect: write, reason: tests, hold: 600s }
  search: { match: tools/call tools search, effect: read }
  looks: { match: tools/call tools stream_report, effect: read }
"""
POOL = concurrent.futures.ThreadPoolExecutor(8)
# Seconds: so much sooner may a repeat come, and so much later than an answer a cancellation.
OVERTAKES, CROSSES = 0.1, 2
SDKS = ["sdk v1", "sdk v2 legacy", "sdk v2 modern"]


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):  # noqa: F811
    policy = calls_policy(running, TOOLS)
    with serving(Recourse(tmp_path_factory.mktemp("mcp"), policy, ["--threads", "2"])) as recourse:
        yield recourse


def a_trace():
    return f"00-{secrets.token_hex(16)}-b7ad6b7169203331-01"


def canceled(number):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


def write(client, gate, number=5, **headers):  # noqa: F811
    """A slow write, in a trace of its own; on a thread."""
    fields = {"traceparent": a_trace(), **headers}
    return POOL.submit(client.call, "slow_write", {"gate": gate}, number, fields)


@pytest.mark.parametrize("kind", SDKS)
def test_an_sdk_that_gives_up_and_repeats_has_one_effect(url, fixture, token, kind):  # noqa: F811
    with connected(kind, url, timeout=3000) as client:
        slow = {"tool": "slow_write", "arguments": {"gate": token}}
        given_up = client.tell("call", **slow, meta={"traceparent": a_trace()})
        assert "timed out" in repr(given_up)
        repeat = client.start("call", **slow, meta={"traceparent": a_trace()},
                              patience={"timeout": int(1000 * WAIT_MAX)})  # fmt: skip
        assert fixture.counts()["cancelled"] == []
        fixture.open(token, 2)
        assert "slow-1" in client.outcome(repeat)["value"]["text"]
    assert len(fixture.executions("slow_write")) == 1


def test_the_repeat_of_a_canceled_call_waits_for_its_answer(
        client, proxy, fixture, token):  # noqa: F811
    first = write(client, token)
    fixture.wait_for("waiting", token)
    assert client.send(canceled(5)).status == 202
    repeat = write(client, token, 6)
    done, _ = concurrent.futures.wait([first, repeat], timeout=0.5)
    assert not done
    fixture.open(token, 2)
    assert "slow-1" in first.result().text() and "slow-1" in repeat.result().text()
    assert len(fixture.executions("slow_write")) == 1
    assert not fixture.requests("notifications/cancelled")
    assert proxy.await_log(lambda line: line.get("client_gone") and line["rpc"] == "tools/call")


def executions(fixture, gate):  # noqa: F811
    return [one for one in fixture.executions("slow_write") if one["gate"] == gate]


def test_a_repeat_sent_with_the_cancellation_is_one_too(client, fixture, token):  # noqa: F811
    def attempt(turn):
        gate = f"{token}-{turn}"
        first = write(client, gate)
        fixture.wait_for("waiting", gate)
        begun = time.monotonic()
        repeat = write(client, gate, 6)
        client.send(canceled(5))
        is_in_time = time.monotonic() - begun < OVERTAKES
        fixture.open(gate, 2)
        told = {first.result().text(), repeat.result().text()}
        assert not is_in_time or len(told) == len(executions(fixture, gate)) == 1, told
        return is_in_time

    made_in_time(attempt)


@pytest.mark.parametrize("crosses", [True, False])
def test_a_cancellation_that_crosses_the_answer_takes_its_mark_back(
        client, proxy, fixture, token, crosses):  # noqa: F811
    # Without it the first call was answered, and another trace means another one.
    expected = 1 if crosses else 2

    def attempt(turn):
        gate, trace, begun = f"{token}-{turn}", a_trace(), time.monotonic()
        fixture.open(gate, 3)
        first = write(client, gate, traceparent=trace).result().text()
        if crosses:
            client.send(canceled(5))
            if time.monotonic() - begun >= CROSSES:
                return False
        else:  # its mark comes after the answer
            assert proxy.await_log(lambda line: line.get("trace_id") == trace.split("-")[1])
        told = {first, write(client, gate, 6).result().text()}
        assert len(told) == len(executions(fixture, gate)) == expected, told
        return True

    made_in_time(attempt)


@pytest.mark.parametrize("what", ["unknown id", "text for number", "no id", "another session",
                                  "another principal"])
def test_what_names_no_call_of_the_client_gives_none_up(url, fixture, token, what):  # noqa: F811
    client = Legacy(url)
    first = write(client, token)
    fixture.wait_for("waiting", token)
    sender = Legacy(url) if what == "another session" else client
    number = {"unknown id": 7, "text for number": "5", "no id": None}.get(what, 5)
    user = {"Authorization": "Bearer another"} if what == "another principal" else {}
    for _ in range(3):
        assert sender.send(canceled(number), user).status == 202
    second = write(client, token, 6)
    fixture.wait_for("executions", "slow_write", 2)
    fixture.open(token, 2)
    assert {"slow-1" in each.result().text() for each in (first, second)} == {True, False}
    assert not fixture.requests("notifications/cancelled")


def test_of_a_read_alone_the_server_hears(url, fixture, token):  # noqa: F811
    client = Legacy(url)
    with client.open(call("stream_report", {"chunks": 1, "gate": token}, 9)):
        fixture.wait_for("waiting", token)
        assert client.send(canceled("9")).status == 202
        assert client.send(canceled(9)).status == 202
        fixture.wait_for("requests", "notifications/cancelled")
    assert len(fixture.requests("notifications/cancelled")) == 1


def test_a_write_of_another_process_is_not_stopped(
        proxy, running, fixture, token, tmp_path):  # noqa: F811
    client = Legacy(f"http://127.0.0.1:{proxy.port}/mcp")
    first = write(client, token)
    fixture.wait_for("waiting", token)
    with serving(Recourse(tmp_path, calls_policy(running, TOOLS))) as other:
        client.url = f"http://127.0.0.1:{other.port}/mcp"
        assert client.send(canceled(5)).status == 202
    fixture.open(token)
    assert "slow-1" in first.result().text()
    assert not fixture.requests("notifications/cancelled")


def test_a_cancellation_may_come_to_another_process_of_the_group(
        running, fixture, token, tmp_path):  # noqa: F811
    with Postgres() as postgres:
        url = postgres.database()
        assert run_cli("ledger", "migrate", "--ledger", url).returncode == 0
        policy = calls_policy(running, TOOLS) + "ledger: { group: shop/checkout }\n"
        with Pods(tmp_path, None, url, policy=policy) as pods:
            here, other = (f"http://127.0.0.1:{pod.port}/mcp" for pod in (pods.a, pods.b))
            client = Legacy(here)
            first = write(client, token)
            fixture.wait_for("waiting", token)
            client.url = other
            assert client.send(canceled(5)).status == 202
            client.url = here
            repeat = write(client, token, 6)
            done, _ = concurrent.futures.wait([first, repeat], timeout=5)
            assert not done
            fixture.open(token, 3)
            assert "slow-1" in first.result().text() and "slow-1" in repeat.result().text()
            assert "slow-1" in write(client, token, 7).result().text()
    assert len(fixture.executions("slow_write")) == 1
    assert not fixture.requests("notifications/cancelled")


def test_a_flood_of_cancellations_holds_nothing_up(client, proxy, fixture, token):  # noqa: F811
    first = write(client, token)
    fixture.wait_for("waiting", token)
    before = proxy.held_bytes()
    floods = [POOL.submit(client.send, canceled(5 + number % 3)) for number in range(600)]
    assert {each.result().status for each in floods} == {202}
    wait_until(lambda: proxy.held_bytes() <= before)
    fixture.open(token, 2)
    assert "slow-1" in first.result().text()
    assert "slow-1" in write(client, token, 6).result().text()
