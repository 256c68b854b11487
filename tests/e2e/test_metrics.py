"""Metrics: every name, its type, its help text, its labels, and the values that can be known."""

import json
import re
import time

import pytest

from support import flows, rawhttp
from support.double import RefusedPort
from support.policies import observed
from support.prometheus import Scrape, check_metrics
from support.recourse import ROOT, Recourse
from support.waiting import wait_until

README = ROOT / "proxy/telemetry/README.md"
# A metric has a row of the table, and that row's name where it is made.
SOURCES = ("proxy/telemetry/metric_table.cpp", "proxy/telemetry/metrics.cpp",
           "proxy/telemetry/shared_ledger_metrics.cpp",
           "proxy/telemetry/unguarded_watch.cpp")  # fmt: skip
NAMED = re.compile(r'"((?:recourse|process)_[a-z_]+)"')

TOOLS = """\
  stock.read:
    match: GET shop /stock/{token}
    effect: read
  gone.create:
    match: POST gone /gone/{token}
    effect: write
    undo: none
    reason: nobody is there
  notes.add:
    match: POST shop /notes/{token}
    effect: write
    external_ref: answer.body#/no_such_member
    undo: none
    reason: notes may stay
"""


def table():
    """Name -> (type, labels, meaning) as the README says."""
    rows = {}
    row = re.compile(r"^\* `([a-z_]+)` ([a-z]+)((?: `[a-z_]+`)*): (.+)$", re.MULTILINE)
    chapter = README.read_text().split("## Metrics\n")[1].split("\n## ")[0]
    for name, kind, labels, meaning in row.findall(re.sub(r"\n {2}(?=\S)", " ", chapter)):
        assert name not in rows, f"{name} is told of twice"
        rows[name] = (kind, set(re.findall(r"`([a-z_]+)`", labels)), meaning)
    return rows


@pytest.fixture(scope="module")
def closed():
    port = RefusedPort()
    yield port
    port.stop()


@pytest.fixture(scope="module")
def busy(double, closed, tmp_path_factory):
    """A process that has met every kind of traffic; gives (recourse, scrape)."""
    policy = flows.policy(double, tools=TOOLS) + "ledger: { retention: 7d }\n"
    gone = f'  gone: {{ url: "http://127.0.0.1:{closed.port}", hosts: [ gone.test ] }}\n'
    policy = policy.replace("tools:\n", gone + "tools:\n", 1)
    with Recourse(tmp_path_factory.mktemp("busy"), policy, ["--watch-unguarded"]) as running:
        shop = flows.Shop(running, double)
        make_traffic(shop, double)
        break_flows(shop)
        reload_policies(running)
        held = ("recourse_buffered_bytes", "writes")
        wait_until(lambda: Scrape(running).sum(*held) == 0, "all that writes held is given back")
        yield running, Scrape(running)


def post(port, path, body, host="shop.test", key=None):
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    content = json.dumps(body).encode()
    return rawhttp.call(port, "POST", path, host=host, headers=headers, body=content)


def make_traffic(shop, double):
    port = shop.recourse.port
    for _ in range(3):
        assert rawhttp.call(port, "GET", "/stock/m1", host="shop.test").status == 200
    assert rawhttp.call(port, "GET", "/unlisted/m1", host="shop.test").status == 200
    assert post(port, "/orders/m1", {"client_ref": "m1"}, key="m1").status == 201
    assert post(port, "/orders/m1", {"client_ref": "m1"}, key="m1").status == 201
    assert post(port, "/orders/m1", {"client_ref": "other"}, key="m1").status == 422
    assert post(port, "/notes/m1", {"client_ref": "m1"}).status == 201
    assert post(port, "/gone/m1", {"a": 1}, host="gone.test").status == 503
    double.script("POST", "/orders/m2", ["read", "fin"], times=1)
    double.script("GET", "/orders/m2", flows.answer_with("500 No"))
    assert post(port, "/orders/m2", {"client_ref": "m2"}).status in (502, 504, 409)
    with rawhttp.Connection(port) as connection:
        connection.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert connection.response("GET").status == 400


def break_flows(shop):
    undone = shop.agent("m3")
    undone.does("orders", "payments")
    undone.breaks()
    undone.await_undone()
    parked = shop.agent("m4")
    parked.does("orders")
    parked.script_undo("orders", flows.answer_with("403 Forbidden"))
    parked.breaks()
    parked.await_parked()


def reload_policies(running):
    token = {"Authorization": f"Bearer {running.token}"}
    whole = running.policy_path.read_text()
    for text, status in [(whole + "nonsense: 1\n", 422), (whole + "# changed\n", 200)]:
        running.policy_path.write_text(text)
        assert running.http("admin", "POST", "/policy/reload", headers=token)[0] == status


def test_the_table_in_the_readme_names_every_metric_of_the_code_and_no_other():
    code = {name for path in SOURCES for name in NAMED.findall((ROOT / path).read_text())}
    assert set(table()) == code
    for name, (kind, _, meaning) in table().items():
        assert kind in ("counter", "gauge", "histogram") and meaning, name


def test_every_metric_is_told_with_the_type_and_the_labels_of_the_table(busy, double, tmp_path):
    seen = dict(busy[1].families)
    with Recourse(tmp_path / "observe", observed(double.url)) as watching:
        for _ in range(2):
            rawhttp.call(watching.port, "POST", "/orders/m5", body=b'{"cart":1}',
                         headers={"Content-Type": "application/json"})  # fmt: skip
        rawhttp.call(watching.port, "GET", "/unlisted")  # which enforce would refuse
        watching.await_log(lambda line: line["status"] == 201, count=2)
        for name, family in Scrape(watching).families.items():
            seen.setdefault(name, family)
    rows = table()
    elsewhere = {"recourse_observed_dropped_total",
                 "recourse_mcp_tool_changes_total"}  # takes an MCP server: test_mcp_calls.py
    assert set(rows) - set(seen) <= elsewhere, set(rows) - set(seen)
    for name, family in seen.items():
        kind, labels, _ = rows[name]
        assert (family.kind, family.labels()) == (kind, labels), name
        assert family.help.endswith("."), f"{name}: {family.help}"
        if name.startswith("recourse_"):
            assert name.endswith("_total") == (kind == "counter"), name


def test_what_is_counted_is_what_happened(busy):
    running, scrape = busy
    # Its watch may have seen the wrong policy, too.
    refusals = running.stderr().count("the policy was not reloaded")
    assert refusals in (1, 2)
    for series, value in {
        ("recourse_http_requests_total", "stock.read", "GET", "200"): 3,
        ("recourse_http_requests_total", "unlisted", "GET", "200"): 1,
        ("recourse_http_requests_total", "notes.add", "POST", "201"): 1,
        ("recourse_http_requests_total", "unlisted", "other", "400"): 0,
        ("recourse_idempotency_total", "orders.create", "replayed"): 1,
        ("recourse_idempotency_total", "orders.create", "key-reused"): 1,
        ("recourse_refs_missing_total", "notes.add"): 1,
        ("recourse_events", "UNCERTAIN"): 1,
        ("recourse_flows_parked",): 1,
        ("recourse_flows_total", "undone"): 1,
        ("recourse_flows_total", "needs_human"): 1,
        ("recourse_undos_total", "payments.charge", "done"): 1,
        ("recourse_undos_total", "orders.create", "stuck"): 1,
        ("recourse_undos_total", "shipping.book", "done"): 0,
        ("recourse_policy_reloads_total", "reloaded"): 1,
        ("recourse_policy_reloads_total", "refused"): refusals,
        ("recourse_policy_info",): 1,
        ("recourse_build_info",): 1,
        ("recourse_webhooks_total", "failed"): 0,
        ("recourse_trace_spans_total", "dropped"): 0,
        ("recourse_store_latched",): 0,
        ("recourse_store_full",): 0,
        ("recourse_store_index_failing",): 0,
        ("recourse_store_index_rebuilt",): 0,
        ("recourse_parse_errors_total", "client"): 1,
        ("recourse_writes_in_flight",): 0,
        ("recourse_buffered_bytes", "writes"): 0,
        ("recourse_large_bodies",): 0,
    }.items():
        assert scrape.sum(*series) == value, series


def test_attempts_are_counted_each_and_take_their_time(busy):
    scrape = busy[1]
    refused = scrape.sum("recourse_upstream_attempts_total", "gone")
    assert refused == 3, "what was never sent is tried three times"
    assert scrape.sum("recourse_upstream_attempts_total", "gone", "ok") == 0
    assert scrape.sum("recourse_retries_total", "write") == 2
    assert scrape.sum("recourse_upstream_request_duration_seconds_count", "gone") == 3
    reads = scrape.sum("recourse_http_requests_total", "read") + 1  # and the unlisted one
    assert scrape.sum("recourse_overhead_seconds_count", "read") == reads
    assert scrape.sum("recourse_overhead_seconds_sum", "write") > 0
    whole = scrape.sum("recourse_http_request_duration_seconds_count")
    assert whole == scrape.sum("recourse_http_requests_total")


def test_buckets_of_a_histogram_add_up_to_its_count(busy):
    scrape = busy[1]
    for name, family in scrape.families.items():
        if family.kind != "histogram":
            continue
        for labels, buckets in family.buckets().items():
            counts = [count for _, count in sorted(buckets)]
            assert counts == sorted(counts), name
            assert counts[-1] == family.value("_count", labels), name


def test_each_turn_of_an_io_thread_is_measured(busy):
    """One call that holds a thread for over 50 ms shows behind that bucket."""
    running, before = busy[0], Scrape(busy[0])
    bounds = {
        labels["le"] for _, labels, _ in before.families["recourse_io_turn_seconds"].samples
        if "le" in labels
    }  # fmt: skip
    assert {"0.05", "+Inf"} <= bounds, bounds
    for _ in range(20):
        assert rawhttp.call(running.port, "GET", "/stock/turns", host="shop.test").status == 200
    turns = "recourse_io_turn_seconds_count"
    assert Scrape(running).sum(turns) >= before.sum(turns) + 20


def test_connections_to_backends_are_counted_while_they_are_open(busy, double, token):
    running = busy[0]

    def backends():
        return Scrape(running).sum("recourse_connections", "backend")

    wait_until(lambda: backends() == 0, what="the end of kept connections")
    path = f"/stock/{token}"
    double.script("GET", path, ["read", {"gate": token}, *flows.answer_with("200 OK")[1:]], 1)
    with rawhttp.Connection(running.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        double.await_requests("GET", path)
        # A probe of the call without an outcome may have one of its own for a moment.
        wait_until(lambda: backends() == 1, what="the one connection that is in use")
        double.open_gate(token)
        assert connection.response("GET").status == 200
    wait_until(lambda: backends() == 0, what="the end of a kept connection")


def test_the_commit_that_was_built_is_told_wherever_the_version_is(busy):
    running, scrape = busy
    ((_, labels, _),) = scrape.families["recourse_build_info"].samples
    told = running.admin("GET", "/version")
    assert (labels["version"], labels["commit"]) == (told["version"], told["commit"])
    assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?|unknown", told["commit"])


def test_the_process_tells_what_it_uses(busy):
    running, scrape = busy
    assert 0 < scrape.sum("process_open_fds") < scrape.sum("process_max_fds")
    assert scrape.sum("process_resident_memory_bytes") > 1024 * 1024
    assert scrape.sum("process_cpu_seconds_total") > 0
    assert 0 < time.time() - scrape.sum("process_start_time_seconds") < 3600
    used = "process_cpu_seconds_total"
    assert Scrape(running).sum(used) >= scrape.sum(used)


def test_prometheus_own_linter_has_nothing_to_say(busy):
    check_metrics(busy[1].text)


def test_labels_come_from_the_policy_or_from_fixed_sets(busy):
    for token in ("m1", "m2", "m3", "m4", "shop.test", "127.0.0.1"):
        assert not re.search(rf'="[^"]*\b{re.escape(token)}\b', busy[1].text), token
