"""Traces of calls that a human approved: what is sent later, perhaps after a kill, is an attempt
under the span of the call that asked."""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.collector import Collector
from support.double import RefusedPort
from support.policies import standard
from support.prometheus import Scrape
from support.recourse import CRASH_POINTS
from support.waiting import wait_until

SERVER, CLIENT = 2, 3
PARENT = "b7ad6b7169203331"
RULES = """\
  mail.told:
    match: POST shop /told/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 1h, hold: 50ms }
  mail.held:
    match: POST shop /held/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 1h, hold: 1h }
  room.book:
    match: POST shop /rooms/{token}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /rooms/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
    approval: { by: [ finance ], expires: 1h, hold: 50ms }
"""


class Mail:
    """One traced call that needs a human."""

    def __init__(self, running, double, collector, path):
        self.running = running
        self.double = double
        self.collector = collector
        self.path = path
        self.trace = secrets.token_hex(16)

    def is_sent(self, flags="01"):
        header = {"traceparent": f"00-{self.trace}-{PARENT}-{flags}"}
        return rawhttp.call(
            self.running.port, "POST", self.path, headers=header, body={"to": "ada"}
        )

    def waits(self):
        return self.running.await_waiting(self.path)[0]["operation"]

    def spans(self, kind, count=1):
        return self.collector.await_spans(
            lambda span: (span["traceId"], span["kind"]) == (self.trace, kind), count
        )

    def traceparent(self):
        """Of the one request that reached the backend."""
        (request,) = self.double.requests(self.path, "POST")
        return dict((name.lower(), value) for name, value in request["headers"])["traceparent"]

    def is_one_attempt_under(self, call, operation):
        (attempt,) = self.spans(CLIENT)
        assert attempt["parentSpanId"] == call["spanId"] and "links" not in attempt
        assert int(call["startTimeUnixNano"]) < int(attempt["startTimeUnixNano"])
        told = attempt["attributes"]
        assert attempt["name"] == f"POST /{self.path.split('/')[1]}/{{token}}"
        (row,) = [event for event in self.running.events_for(self.path)
                  if str(event["event_id"]) == told["recourse.event"]]  # fmt: skip
        assert (row["operation"], row["phase"]) == (operation, "SUCCEEDED")
        assert told["http.response.status_code"] == 201 and "error.type" not in told
        assert (told["recourse.effect"], told["recourse.outcome"]) == ("write", "executed")
        assert told["network.peer.address"] == "127.0.0.1"
        assert "http.request.resend_count" not in told
        assert self.traceparent() == f"00-{self.trace}-{attempt['spanId']}-01"
        return attempt


@pytest.fixture
def collector(exports):
    with Collector() as running:
        yield running
    exports += running.bodies()


@pytest.fixture
def staffed(double, collector, tmp_path):
    policy = standard(double, extra_tools=RULES)
    with Staffed(tmp_path, policy, ["--otlp-endpoint", collector.url]) as running:
        yield running


@pytest.fixture
def mail(staffed, double, collector, token):
    return lambda kind: Mail(staffed, double, collector, f"/{kind}/{token}")


def test_what_is_sent_after_an_approval_is_an_attempt_of_the_call_that_asked(mail, staffed):
    call = mail("told")
    assert call.is_sent().status == 202
    (asked,) = call.spans(SERVER)
    assert asked["parentSpanId"] == PARENT
    assert asked["attributes"]["recourse.outcome"] == "pending"
    operation = call.waits()
    assert staffed.approve(operation)[0] == 200
    call.is_one_attempt_under(asked, operation)
    repeat = call.is_sent()
    assert repeat.status == 201 and repeat.replayed
    call.spans(SERVER, 2)
    assert len(call.spans(CLIENT)) == 1, "a replay is no attempt"
    ok = Scrape(staffed).sum("recourse_upstream_attempts_total", "shop", "ok")
    assert ok == 1, "and it is counted like every other"


def test_who_was_held_all_the_time_has_the_attempt_within_its_span(mail, staffed):
    call = mail("held")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call.is_sent)
        operation = call.waits()
        assert staffed.approve(operation, body='{"to":"bob"}')[0] == 200
        assert answer.result().status == 201
    (asked,) = call.spans(SERVER)
    attempt = call.is_one_attempt_under(asked, operation)
    assert int(attempt["endTimeUnixNano"]) <= int(asked["endTimeUnixNano"])
    for member in ("recourse.outcome", "recourse.event"):
        assert attempt["attributes"][member] == asked["attributes"][member]


def test_a_kill_before_the_approval_leaves_the_attempt_under_its_call(mail, staffed):
    call = mail("told")
    assert call.is_sent().status == 202
    (asked,) = call.spans(SERVER)
    staffed.kill()
    staffed.start()
    operation = call.waits()
    assert staffed.approve(operation)[0] == 200
    call.is_one_attempt_under(asked, operation)


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_a_kill_between_approval_and_sending_leaves_the_attempt_under_its_call(mail, staffed):
    call = mail("told")
    staffed.kill()
    staffed.start(env={"RECOURSE_CRASH_POINT": "k16"})
    assert call.is_sent().status == 202
    (asked,) = call.spans(SERVER)
    operation = call.waits()
    try:
        staffed.approve(operation)
    except OSError:
        pass  # killed before it could answer
    staffed.wait()
    staffed.start()
    call.is_one_attempt_under(asked, operation)


def test_an_undo_links_to_the_attempt_of_an_approved_call(mail, staffed, collector):
    call = mail("rooms")
    assert call.is_sent().status == 202
    (asked,) = call.spans(SERVER)
    operation = call.waits()
    assert staffed.approve(operation)[0] == 200
    attempt = call.is_one_attempt_under(asked, operation)
    run = staffed.cli("flows", "cancel", call.trace, "--reason", "the guest stays at home")
    assert run.returncode == 0, run.stderr
    (undo,) = collector.await_spans(lambda span: span["name"] == "undo DELETE")
    assert undo["links"] == [{"traceId": call.trace, "spanId": attempt["spanId"]}]


def test_each_try_of_an_approved_call_has_its_span(double, collector, tmp_path, token):
    closed = RefusedPort()
    policy = standard(double, extra_tools=RULES).replace(
        double.url, f"http://127.0.0.1:{closed.port}"
    )
    with Staffed(tmp_path, policy, ["--otlp-endpoint", collector.url]) as running:
        call = Mail(running, double, collector, f"/told/{token}")
        assert call.is_sent().status == 202
        (asked,) = call.spans(SERVER)
        assert running.approve(call.waits())[0] == 200
        tries = sorted(call.spans(CLIENT, 3), key=lambda span: int(span["startTimeUnixNano"]))
        failed = Scrape(running).sum("recourse_upstream_attempts_total", "shop")
    closed.stop()
    resent = [one["attributes"].get("http.request.resend_count") for one in tries]
    assert resent == [None, 1, 2] and failed == 3
    assert len({one["spanId"] for one in tries}) == 3
    for one in tries:
        assert one["parentSpanId"] == asked["spanId"] and one["status"] == {"code": 2}
        assert one["attributes"]["error.type"]
        assert one["attributes"]["recourse.outcome"] == "not_executed"


def test_an_approved_call_that_its_client_did_not_want_traced_is_not(mail, staffed, collector):
    unwanted = mail("told")
    assert unwanted.is_sent(flags="00").status == 202
    assert staffed.approve(unwanted.waits())[0] == 200
    wait_until(lambda: unwanted.double.requests(unwanted.path, "POST"))
    flow, parent, flags = unwanted.traceparent().split("-")[1:]
    assert (flow, flags) == (unwanted.trace, "00") and parent != PARENT
    staffed.await_phase(unwanted.path, "SUCCEEDED")
    assert staffed.stop() == 0, "what waits is sent at the end"
    assert not [one for one in collector.spans() if one["traceId"] == unwanted.trace]
