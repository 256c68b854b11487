"""Traces: spans of calls, attempts, probes and undo requests, sent to a collector by OTLP."""

import re
import secrets
import time

import pytest

from support import flows, rawhttp
from support.certificates import Maker
from support.collector import Collector, wrong_in
from support.double import RefusedPort
from support.prometheus import Scrape
from support.recourse import CRASH_POINTS, NotReady, Recourse
from support.waiting import made_in_time, wait_until

SERVER, CLIENT = 2, 3
FLUSH = 2  # seconds for what waits at the end of a process
PARENT = "b7ad6b7169203331"
TOOLS = """\
  stock.read:
    match: GET shop /stock/{token}
    effect: read
  loans.take:
    match: POST bank /v1/loans/{token}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "POST /v1/refunds/{external_ref}", repeatable: by_key }
"""


@pytest.fixture
def collector(exports):
    with Collector() as running:
        yield running
    exports += running.bodies()


def policy(double):
    return flows.policy(double, tools=TOOLS)


@pytest.fixture
def shop(double, collector, tmp_path):
    with Recourse(tmp_path / "recourse", policy(double),
                  ["--otlp-endpoint", collector.url]) as running:  # fmt: skip
        yield flows.Shop(running, double)


def sent_upstream(double, path):
    """Header fields of the last request to that path, by lower-case name."""
    return {name.lower(): value for name, value in double.requests(path)[-1]["headers"]}


def get(shop, path, trace=None, flags="01", **headers):
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if trace:
        fields["traceparent"] = f"00-{trace}-{PARENT}-{flags}"
    return rawhttp.call(shop.recourse.port, "GET", path, host="shop.test", headers=fields)


def counted(shop, result):
    return Scrape(shop.recourse).sum("recourse_trace_spans_total", result)


def well_formed(span):
    assert re.fullmatch(r"[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16)
    assert re.fullmatch(r"[0-9a-f]{16}", span["spanId"]) and int(span["spanId"], 16)
    began, ended = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    assert 0 <= ended - began and abs(time.time_ns() - ended) < 3600e9
    return began, ended


def within(inner, outer):
    began, ended = well_formed(inner)
    first, last = well_formed(outer)
    assert first <= began and ended <= last


def test_a_read_gives_a_span_of_the_call_and_one_of_its_attempt(shop, double, collector, token):
    trace = secrets.token_hex(16)
    assert get(shop, f"/stock/{token}?secret=1", trace, tracestate="vendor=1").status == 200
    call, attempt = collector.await_trace(trace, 2)
    assert (call["kind"], call["name"]) == (SERVER, "GET /stock/{token}")
    assert (attempt["kind"], attempt["name"]) == (CLIENT, "GET /stock/{token}")
    assert call["parentSpanId"] == PARENT and attempt["parentSpanId"] == call["spanId"]
    within(attempt, call)
    assert call["attributes"] == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "http.route": "/stock/{token}",
        "url.path": "/stock/{token}",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "server.address": "127.0.0.1",
        "server.port": double.port,
        "recourse.tool": "stock.read",
        "recourse.backend": "shop",
        "recourse.effect": "read",
        "recourse.replayed": False,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "stock.read",
    }
    told = attempt["attributes"]
    assert told["url.full"] == f"{double.url}/stock/{{token}}"
    assert told["network.peer.address"] == "127.0.0.1"
    assert "http.request.resend_count" not in told and "error.type" not in told
    assert not any(name.startswith("gen_ai.") for name in told), "it was executed once"
    fields = sent_upstream(double, f"/stock/{token}")
    assert fields["traceparent"] == f"00-{trace}-{attempt['spanId']}-01"
    assert fields["tracestate"] == "vendor=1"
    (line,) = shop.recourse.await_log(lambda line: line.get("trace_id") == trace)
    assert line["span_id"] == call["spanId"]


def test_an_export_is_judged_by_the_definitions_of_the_protocol(shop, collector, token):
    trace = secrets.token_hex(16)
    get(shop, f"/stock/{token}", trace)
    collector.await_trace(trace, 2)
    good = collector.bodies()[-1]
    flawed = [re.sub(*change, good, count=1) for change in (
        ('"kind":', '"sort":'), ('"startTimeUnixNano":"([0-9]+)"', r'"startTimeUnixNano":\1'),
        ('"stringValue":"[^"]*"', '"stringValue":7'), ('"resourceSpans":', '"spans":'),
        ('"traceId":"..', '"traceId":"'), ('"intValue":"', '"boolValue":true,"intValue":"'),
    )]  # fmt: skip
    assert good not in flawed and wrong_in([good]) == [None]
    assert all(wrong_in(flawed)), wrong_in(flawed)


def test_a_write_and_its_replay_are_told_apart(shop, double, collector, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.does("orders")
    spans = collector.await_trace(agent.trace, 3)
    first, second = sorted((s for s in spans if s["kind"] == SERVER),
                           key=lambda s: int(s["startTimeUnixNano"]))  # fmt: skip
    (attempt,) = [span for span in spans if span["kind"] == CLIENT]
    assert attempt["parentSpanId"] == first["spanId"]
    assert [s["attributes"]["recourse.replayed"] for s in (first, second)] == [False, True]
    assert {s["attributes"]["recourse.outcome"] for s in (first, second)} == {"executed"}
    event = first["attributes"]["recourse.event"]
    assert int(event) and second["attributes"]["recourse.event"] == event
    operation = shop.recourse.events_for(f"/orders/{token}")[0]["operation"]
    for span in spans:
        assert span["attributes"]["recourse.operation"] == str(operation)
        assert span["attributes"]["recourse.flow"] == agent.flow
    sent = sent_upstream(double, f"/orders/{token}")["traceparent"]
    assert sent == f"00-{agent.trace}-{attempt['spanId']}-01"


def test_each_attempt_has_its_span_and_an_error_has_its_type(double, collector, tmp_path, token):
    closed = RefusedPort()
    text = policy(double).replace(double.url, f"http://127.0.0.1:{closed.port}")
    with Recourse(tmp_path / "r", text, ["--otlp-endpoint", collector.url]) as running:
        shop = flows.Shop(running, double)
        agent = shop.agent(token)
        assert agent.call("orders").status == 503
        call, *attempts = collector.await_trace(agent.trace, 4)
    closed.stop()
    assert [a["attributes"].get("http.request.resend_count") for a in attempts] == [None, 1, 2]
    assert len({a["spanId"] for a in attempts}) == 3
    slug = call["attributes"]["recourse.error"]
    assert call["attributes"]["error.type"] == slug and call["status"] == {"code": 2}
    for attempt in attempts:
        assert attempt["attributes"]["error.type"] and attempt["status"] == {"code": 2}
        assert "http.response.status_code" not in attempt["attributes"]


def test_an_undo_stands_under_the_attempt_it_undoes_and_links_to_it(shop, double, collector, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.breaks()
    agent.await_undone()
    forward = next(s for s in collector.await_trace(agent.trace, 4)
                   if s["kind"] == CLIENT and s["attributes"]["recourse.tool"] == "orders.create")
    (undo,) = collector.await_spans(lambda s: s["name"] == "undo DELETE")
    assert undo["links"] == [{"traceId": agent.trace, "spanId": forward["spanId"]}]
    assert undo["traceId"] == agent.trace and undo["parentSpanId"] == forward["spanId"]
    told = undo["attributes"]
    assert told["recourse.operation"] == forward["attributes"]["recourse.operation"]
    assert told["recourse.flow"] == forward["attributes"]["recourse.flow"] == agent.flow
    assert undo["attributes"]["recourse.tool"] == "orders.create"
    assert undo["attributes"]["url.full"] == double.url, "what the request names is not told"
    method, path = agent.undo_of("orders")
    (request,) = double.requests(path, method)
    sent = dict((name.lower(), value) for name, value in request["headers"])["traceparent"]
    assert sent == f"00-{undo['traceId']}-{undo['spanId']}-01"


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_an_undo_after_a_crash_still_links_to_its_step(shop, double, collector, token):
    agent = shop.agent(token)
    agent.does("orders")
    forward = collector.await_trace(agent.trace, 2)[1]
    shop.recourse.kill()
    shop.recourse.start(env={"RECOURSE_CRASH_POINT": "k18"})
    agent.breaks()
    shop.recourse.wait()
    shop.recourse.start()
    agent.await_undone()
    (undo,) = collector.await_spans(lambda s: s["name"] == "undo DELETE")
    assert undo["links"] == [{"traceId": agent.trace, "spanId": forward["spanId"]}]
    assert undo["attributes"]["http.request.resend_count"] == 1
    assert undo["traceId"] != agent.trace and "parentSpanId" not in undo, "it is long ago"
    assert undo["attributes"]["recourse.flow"] == agent.flow


def test_a_flow_that_is_named_by_a_session_is_told_as_a_hash(double, collector, tmp_path, token):
    named = policy(double) + "flow_rules: { parent: [ session, header:X-Run ] }\n"
    with Recourse(tmp_path / "r", named, ["--otlp-endpoint", collector.url]) as running:
        agent = flows.Shop(running, double).agent(token)
        assert agent.call("orders", **{"Recourse_Session": f"s{token}"}).status == 201
        told = {span["attributes"]["recourse.flow"]
                for span in collector.await_trace(agent.trace, 2)}  # fmt: skip
        agent = flows.Shop(running, double).agent(f"{token}-2")
        assert agent.call("orders").status == 201
        collector.await_trace(agent.trace, 2)
    (label,) = told
    assert re.fullmatch("sha256:[0-9a-f]{16}", label)
    assert not any(f"s{token}".encode() in body for _, _, body, _ in collector.requests)


def test_a_probe_is_a_span_that_links_to_the_attempt_it_asks_about(shop, collector, token):
    agent = shop.agent(token)
    agent.script("orders", ["read", "execute", "fin"])
    agent.call("orders")
    forward = collector.await_trace(agent.trace, 2)[1]
    probe = collector.await_spans(lambda s: s["name"] == "probe GET")[0]
    assert probe["links"] == [{"traceId": agent.trace, "spanId": forward["spanId"]}]
    for told in ("recourse.operation", "recourse.flow"):
        assert probe["attributes"][told] == forward["attributes"][told]
    assert Scrape(shop.recourse).sum("recourse_probes_total", "orders.create") >= 1


def test_a_resend_is_a_span_of_its_own_under_the_attempt_whose_outcome_it_asks_for(
    shop, double, collector, token
):
    agent = shop.agent(token)
    fields = {"traceparent": f"00-{agent.trace}-{PARENT}-01", "Idempotency-Key": f"k-{token}"}
    path = f"/v1/loans/{token}"
    double.script("POST", path, ["read", "execute", "rst"], times=1)
    answer = rawhttp.call(shop.recourse.port, "POST", path, host="bank.test", headers=fields,
                          body={"client_ref": token})  # fmt: skip
    assert answer.status == 502
    forward = next(s for s in collector.await_trace(agent.trace, 2) if s["kind"] == CLIENT)
    assert shop.recourse.cli("flows", "cancel", agent.flow, "--reason", "no").returncode == 0
    (resend,) = collector.await_spans(lambda s: s["name"] == "resend POST")
    assert resend["links"] == [{"traceId": agent.trace, "spanId": forward["spanId"]}]
    assert resend["traceId"] == agent.trace and resend["parentSpanId"] == forward["spanId"]
    for told in ("recourse.operation", "recourse.flow", "recourse.tool"):
        assert resend["attributes"][told] == forward["attributes"][told]
    assert resend["attributes"]["http.request.resend_count"] == 1
    first, again = double.requests(path, "POST")
    sent = dict((name.lower(), value) for name, value in again["headers"])["traceparent"]
    assert sent == f"00-{agent.trace}-{resend['spanId']}-01" and first["key"] == again["key"]


def test_what_the_client_does_not_want_traced_is_not(shop, double, collector, token):
    unsampled = secrets.token_hex(16)
    assert get(shop, f"/stock/{token}", unsampled, flags="00").status == 200
    fields = sent_upstream(double, f"/stock/{token}")
    assert fields["traceparent"] == f"00-{unsampled}-{PARENT}-00", "passed on as it came"
    agent = shop.agent(token, trace=secrets.token_hex(16))
    header = f"00-{agent.trace}-{PARENT}-00"
    assert agent.call("orders", traceparent=header).status == 201
    assert sent_upstream(double, f"/orders/{token}")["traceparent"].endswith("-00")
    sampled = secrets.token_hex(16)
    get(shop, f"/stock/{token}", sampled)
    collector.await_trace(sampled, 2)
    assert {span["traceId"] for span in collector.spans()} == {sampled}


@pytest.mark.parametrize("ratio,sampled", [("1", True), ("0", False)])
def test_a_trace_that_begins_here_is_sampled_by_ratio(double, collector, tmp_path, token, ratio,
                                                      sampled):  # fmt: skip
    arguments = ["--otlp-endpoint", collector.url, "--otlp-sample", ratio]
    with Recourse(tmp_path / "r", policy(double), arguments) as running:
        shop = flows.Shop(running, double)
        broken = {"tracestate": "stray=1", "traceparent": "00-broken"}
        assert get(shop, f"/stock/{token}", **broken).status == 200
        fields = sent_upstream(double, f"/stock/{token}")
        port = running.port
        headers = {"Content-Type": "application/json"}
        answer = rawhttp.call(port, "POST", f"/orders/{token}", host="shop.test", headers=headers,
                              body=b'{"client_ref":"%s"}' % token.encode())  # fmt: skip
        assert answer.status == 201
        flags = sent_upstream(double, f"/orders/{token}")["traceparent"][-2:]
        if not sampled:
            assert running.stop() == 0
            assert flags == "00" and collector.spans() == []
            return
        spans = collector.await_spans(lambda span: True, 4)
        assert flags == "01" and "tracestate" not in fields
        assert fields["traceparent"].split("-")[1] in {span["traceId"] for span in spans}
        assert all("parentSpanId" not in span for span in spans if span["kind"] == SERVER)


def test_nothing_of_a_request_but_its_route_reaches_the_collector(shop, collector, token):
    canary = f"canary{secrets.token_hex(4)}"
    trace = secrets.token_hex(16)
    secretive = {"Authorization": f"Bearer {canary}", "Cookie": canary, "X_Api_Key": canary,
                 "Idempotency_Key": canary, "baggage": f"user={canary}",
                 "User_Agent": canary}  # fmt: skip
    assert get(shop, f"/stock/{canary}?token={canary}", trace, **secretive).status == 200
    assert get(shop, f"/unlisted/{canary}?token={canary}", trace, **secretive).status == 200
    agent = shop.agent(canary, trace=trace)
    assert agent.call("orders", **secretive).status == 201
    agent.breaks()
    agent.await_undone()
    collector.await_spans(lambda s: s["name"].startswith("undo"))
    for _, headers, body, _ in collector.requests:
        assert canary.encode() not in body and canary not in str(headers)
    (unlisted,) = [s for s in collector.spans()
                   if s["kind"] == SERVER and "recourse.tool" not in s["attributes"]]  # fmt: skip
    assert unlisted["name"] == "GET"


def test_the_process_says_who_it_is_as_opentelemetry_asks(double, collector, tmp_path, token):
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/otel",
        "OTEL_SERVICE_NAME": "buyer",
        "OTEL_RESOURCE_ATTRIBUTES": "team=shop,note=a%2Cb,broken,service.name=other",
    }
    secret = tmp_path / "headers"
    secret.write_text("# for the collector\nX-Tenant: blue\nAuthorization: Bearer t0p\n")
    with Recourse(tmp_path / "r", policy(double), ["--otlp-headers-file", secret], env) as running:
        get(flows.Shop(running, double), f"/stock/{token}", secrets.token_hex(16))
        collector.await_spans(lambda span: True, 2)
        assert "t0p" not in running.stderr()
    path, headers, _, _ = collector.requests[-1]
    assert path == "/otel/v1/traces" and headers["Content-Type"] == "application/json"
    assert (headers["X-Tenant"], headers["Authorization"]) == ("blue", "Bearer t0p")
    told = collector.resource()
    assert (told["service.name"], told["team"], told["note"]) == ("buyer", "shop", "a,b")
    assert told["service.version"] and told["service.instance.id"]


def test_without_an_endpoint_nothing_is_traced_or_changed(proxy, double, token):
    trace = secrets.token_hex(16)
    header = f"00-{trace}-{PARENT}-01"
    rawhttp.call(proxy.port, "GET", f"/read/{token}", headers={"traceparent": header})
    assert sent_upstream(double, f"/read/{token}")["traceparent"] == header


def test_a_collector_in_trouble_is_asked_again_and_what_it_refuses_is_counted(
    shop, collector, token
):
    collector.answers = [(503, ""), (429, "")]
    trace = secrets.token_hex(16)
    get(shop, f"/stock/{token}", trace)
    collector.await_trace(trace, 2)
    statuses = [status for _, _, _, status in collector.requests]
    assert statuses[:3] == [503, 429, 200] and set(statuses[3:]) <= {200}
    collector.answers = [(400, "no"), (200, '{"partialSuccess":{"rejectedSpans":"1"}}')]
    get(shop, f"/stock/{token}", secrets.token_hex(16))
    wait_until(lambda: counted(shop, "refused") == 2)
    get(shop, f"/stock/{token}", secrets.token_hex(16))
    wait_until(lambda: counted(shop, "refused") == 3)
    assert counted(shop, "exported") == 3
    assert shop.recourse.stderr().count("the collector does not take the traces") == 2


def test_a_collector_that_hangs_costs_calls_nothing_and_drops_are_counted(shop, collector, token):
    collector.gate.clear()
    dropped = [0, 0, 0]
    with rawhttp.Connection(shop.recourse.port) as connection:
        for _ in range(100):  # two spans each; 4,096 may wait, and so many may be on their way
            for _ in range(100):
                header = {"traceparent": f"00-{secrets.token_hex(16)}-{PARENT}-01"}
                connection.send(rawhttp.render("GET", f"/stock/{token}", "shop.test", header))
            assert all(connection.response("GET").status == 200 for _ in range(100))
            # Twice in a row: what cannot be sent at all is dropped too, but once in ten seconds.
            dropped = [*dropped[1:], counted(shop, "dropped")]
            if dropped[0] < dropped[1] < dropped[2]:
                break
        else:
            pytest.fail("nothing was dropped")
    collector.gate.set()
    wait_until(lambda: counted(shop, "exported") > 4000)


def test_what_waits_is_sent_before_the_process_ends(shop, collector, token):
    def attempt(_):
        trace = secrets.token_hex(16)
        get(shop, f"/stock/{token}", trace)
        begun = time.monotonic()
        assert shop.recourse.stop() == 0
        if time.monotonic() - begun >= FLUSH:
            shop.recourse.start()
            return False
        assert len([span for span in collector.spans() if span["traceId"] == trace]) == 2
        return True

    made_in_time(attempt)


def test_a_collector_that_is_away_does_not_hold_up_the_end(double, tmp_path, token):
    with Collector() as gone:
        url = gone.url
    with Recourse(tmp_path / "r", policy(double), ["--otlp-endpoint", url]) as running:
        shop = flows.Shop(running, double)
        assert get(shop, f"/stock/{token}", secrets.token_hex(16)).status == 200
        assert running.stop() == 0


def test_an_https_collector_must_have_a_certificate_that_is_trusted(double, tmp_path, token):
    maker = Maker(tmp_path / "ca", "collector CA")
    identity = maker.issue("collector")
    with Collector((identity.cert, identity.key)) as collector:
        trusted = ["--otlp-endpoint", collector.url, "--otlp-ca-file", maker.cert]
        with Recourse(tmp_path / "a", policy(double), trusted) as running:
            get(flows.Shop(running, double), f"/stock/{token}", secrets.token_hex(16))
            collector.await_spans(lambda span: True, 2)
        count = len(collector.requests)
        with Recourse(tmp_path / "b", policy(double), trusted[:2]) as running:
            get(flows.Shop(running, double), f"/stock/{token}", secrets.token_hex(16))
            wait_until(lambda: "does not take the traces" in running.stderr())
        assert len(collector.requests) == count


@pytest.mark.parametrize("arguments,told", [
    (["--otlp-endpoint", "collector:4318"], "--otlp-endpoint"),
    (["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-headers-file", "BAD"], "line 1"),
    (["--otlp-endpoint", "https://127.0.0.1:1", "--otlp-ca-file", "/nonexistent"], "/nonexistent"),
])  # fmt: skip
def test_settings_that_cannot_work_are_told_at_the_start(double, tmp_path, arguments, told):
    bad = tmp_path / "bad"
    bad.write_text("secret without a colon\n")
    given = [str(bad) if argument == "BAD" else argument for argument in arguments]
    process = Recourse(tmp_path / "r", policy(double), given)
    with pytest.raises(NotReady):
        process.start()
    assert process.process.returncode == 2
    assert told in process.stderr() and "secret without" not in process.stderr()
