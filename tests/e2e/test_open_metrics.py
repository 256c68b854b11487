"""OpenMetrics for scrapers that ask for it: its grammar, its exemplars, and a real Prometheus that
takes both."""

import re
import secrets
import urllib.request

import pytest

from support import flows, rawhttp
from support.collector import Collector
from support.prometheus import Prometheus, Scrape, check_metrics
from support.recourse import WAIT_MAX, Recourse
from support.waiting import wait_until

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# What Prometheus 2.42 and 3 send.
ASKS = [
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
]
ASKS_NOT = ["text/plain", "*/*", "application/openmetrics-text;q=0, text/plain;q=0.5",
            "text/plain;version=0.0.4, application/openmetrics-text;q=0.5"]  # fmt: skip
LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
LABELS = rf"\{{{LABEL}(?:,{LABEL})*\}}"
SAMPLE = re.compile(rf"([a-z_]+)({LABELS})? (\S+)( # ({LABELS}) (\S+))?")
SUFFIXES = {"counter": ["_total"], "gauge": [""], "unknown": [""],
            "histogram": ["_bucket", "_count", "_sum"]}  # fmt: skip


@pytest.fixture(scope="module")
def traced(double, tmp_path_factory):
    """A process with traces, and the ids of those that its calls belong to."""
    with Collector() as collector:
        arguments = ["--otlp-endpoint", collector.url]
        policy = flows.policy(double)
        with Recourse(tmp_path_factory.mktemp("open"), policy, arguments) as running:
            agent = flows.Shop(running, double).agent("om1")
            agent.does("orders", "payments")
            agent.breaks()
            agent.await_undone()
            rawhttp.call(running.port, "GET", "/untraced", host="shop.test", headers={
                "traceparent": f"00-{secrets.token_hex(16)}-b7ad6b7169203331-00"})  # fmt: skip
            yield running, agent


def scrape(running, accept):
    port = running.ports["probes"]
    url = f"http://127.0.0.1:{port}/metrics"
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=WAIT_MAX) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@pytest.mark.parametrize("accept", ASKS)
def test_who_asks_for_it_gets_what_the_grammar_allows(traced, accept):
    kind, text = scrape(traced[0], accept)
    assert kind == TYPE and text.endswith("\n# EOF\n")
    families, current = {}, None
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, of = line.split(" ")
            assert name not in families, f"{name} is told twice"
            current = families[name] = (name, of)
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == current[0]
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            allowed = [current[0] + suffix for suffix in SUFFIXES[current[1]]]
            assert sample[1] in allowed, (line, current)
            assert sample[4] is None or sample[1].endswith(("_bucket", "_total")), line
            if 'le="' in line:
                assert re.search(r'le="(\+Inf|\d+\.\d+|\d+e-\d+)"', line), line
    assert families["recourse_http_requests"][1] == "counter"
    assert families["recourse_flows"][1] == "gauge" and "recourse_flows_total" in families


@pytest.mark.parametrize("accept", ASKS_NOT)
def test_who_does_not_gets_the_text_of_before(traced, accept):
    kind, text = scrape(traced[0], accept)
    assert kind == "text/plain; version=0.0.4; charset=utf-8" and "# EOF" not in text
    check_metrics(text)


def test_a_bucket_has_a_call_whose_trace_was_told_and_that_is_within_it(traced):
    running, agent = traced
    _, text = scrape(running, ASKS[0])
    found = re.findall(r'_bucket\{.*tool="orders.create",le="(\S+)"\} \d+ # \{trace_id="(\w+)",'
                       r'span_id="(\w+)"\} (\S+)', text)  # fmt: skip
    assert found
    bounds = sorted({float(le) for le in re.findall(r'le="([^"]+)"', text)})
    for bound, trace, span, value in found:
        assert trace == agent.trace and re.fullmatch("[0-9a-f]{16}", span)
        below = [one for one in bounds if one < float(bound)]
        assert (below[-1] if below else 0) < float(value) <= float(bound)
    assert not re.search(r'tool="unlisted".* # ', text), "nobody can look that trace up"


def test_both_formats_tell_the_same(traced):
    plain = Scrape(traced[0])
    _, text = scrape(traced[0], ASKS[0])
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"}
    told = {name + suffix for name, family in plain.families.items()
            for suffix, _, _ in family.samples}  # fmt: skip
    assert names == told
    requests = [line for line in text.splitlines()
                if re.match("recourse_http_requests_total.*orders.create", line)]  # fmt: skip
    assert sum(float(line.rsplit(" ", 1)[1]) for line in requests) == \
        plain.sum("recourse_http_requests_total", "orders.create")


def test_a_real_prometheus_takes_it_and_finds_the_trace_of_a_slow_bucket(traced, tmp_path):
    running, agent = traced
    with Prometheus(tmp_path, {"recourse": running}) as prometheus:
        def exemplars():
            query = "query_exemplars?query=recourse_http_request_duration_seconds_bucket"
            return prometheus.get(f"{query}&start=0&end=9999999999")

        series = wait_until(exemplars, prometheus.log.read_text)
        (target,) = prometheus.get("targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        traces = {one["labels"]["trace_id"] for line in series for one in line["exemplars"]}
        assert agent.trace in traces
        (built,) = prometheus.get("query?query=recourse_build_info")["result"]
        assert built["value"][1] == "1"
        kind = prometheus.get("metadata?metric=recourse_http_requests_total")
        assert not kind or kind["recourse_http_requests_total"][0]["type"] == "counter"
