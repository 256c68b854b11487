"""The dashboard over a real Prometheus that scrapes real processes with traffic: each query of each
panel is answered, and the picture on the users' pages is drawn from such answers, by its own JSON.

    RECOURSE_SCREENSHOTS=proxy/admin/ui/screenshots    writes it there, after three minutes
"""

import copy
import itertools
import json
import os
import pathlib
import re
import time
import urllib.parse

import pytest

from support import flows, npm, rawhttp
from support.approvals import Staffed
from support.double import RefusedPort
from support.png import packed
from support.policies import observed
from support.prometheus import Prometheus
from support.recourse import ROOT, Recourse
from support.waiting import wait_until
from test_alerts import DASHBOARD, names_in
from test_metrics import table
from test_webhook import Hook

TOOLS = """\
  stock.get:
    match: GET shop /stock/{token}
    effect: read
  rates.get:
    match: GET rates /rates
    effect: read
  payouts.create:
    match: POST shop /payouts/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 15m, hold: 50ms }
"""
BOARD = json.loads(DASHBOARD.read_text())
SECONDS_OF_PICTURE = 180
JSON = {"Content-Type": "application/json"}


class Work:
    """What agents and operators do, in rounds."""

    def __init__(self, enforcing, observing, double):
        self.enforcing, self.observing = enforcing, observing
        self.shop = flows.Shop(enforcing, double)
        self.numbers = itertools.count(1)

    def call(self, method, path, host="shop.test", to=None, **headers):
        body = b'{"amount": 1}' if method == "POST" else b""
        fields = {**headers, **(JSON if body else {})}
        return rawhttp.call((to or self.enforcing).port, method, path, host, fields, body)

    def round(self):
        n = next(self.numbers)
        for i in range(1 + n % 7):
            self.call("GET", f"/stock/item-{i}")
        self.call("GET", "/rates", "rates.test")
        agent = self.shop.agent(f"cart-{n}")
        agent.does("orders", "payments")
        agent.call("orders")
        if n % 5 == 1:
            agent.breaks()
            agent.await_undone()
        else:
            agent.does("shipping")
        if n % 6 == 1:
            waiting = self.call("POST", f"/payouts/cart-{n}").json()["operation"]
            self.enforcing.approve(waiting, "bob")
        for _ in range(2):
            self.call("POST", "/orders/seen", to=self.observing)


@pytest.fixture(scope="module")
def at_work(double, tmp_path_factory):
    """(work, Prometheus)."""
    directory = tmp_path_factory.mktemp("dashboard")
    hook, closed = Hook(), RefusedPort()
    secret = directory / "secret"
    secret.write_text("of the webhook\n")
    secret.chmod(0o600)
    policy = flows.policy(double, tools=TOOLS) + (
        f'flow_rules: {{ webhook: {{ url: "{hook.url}", secret_file: "{secret}" }} }}\n'
    )
    gone = f'  rates: {{ url: "http://127.0.0.1:{closed.port}", hosts: [ rates.test ] }}\n'
    policy = policy.replace("tools:\n", gone + "tools:\n", 1)
    with (
        Staffed(directory / "enforcing", policy) as enforcing,
        Recourse(directory / "observing", observed(double.url)) as observing,
        Prometheus(directory, {"orders-0": enforcing, "search-0": observing}) as prometheus,
    ):
        yield Work(enforcing, observing, double), prometheus
    hook.close()
    closed.stop()


def series_of(prometheus, target, since):
    """What the panel draws of one of its queries: [{legend, points}]."""
    # Four scrapes, as Grafana takes it.
    query = target["expr"].replace("$__rate_interval", "4s").replace("$instance", ".*")
    asked = urllib.parse.urlencode({"query": query, "start": since, "end": time.time(), "step": 1})
    found = []
    for line in prometheus.get(f"query_range?{asked}")["result"]:
        def label(match, labels=line["metric"]):
            return labels.get(match[1], "")

        legend = re.sub(r"\{\{(\w+)\}\}", label, target["legendFormat"])
        points = [[at, float(v)] for at, v in line["values"] if v not in ("NaN", "+Inf")]
        if points:
            found.append({"legend": legend, "points": points})
    return found


def answers_of(prometheus, board, since):
    """Of each panel, and what is missing: queries without an answer."""
    answers, missing = {}, []
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            series = series_of(prometheus, target, since)
            answers.setdefault(panel["id"], []).extend(series)
            if not series:
                missing.append((panel["title"], target["expr"]))
    return answers, missing


@pytest.fixture(scope="module")
def answered(at_work):
    """(Prometheus, since when, its answers), once all queries have one."""
    work, prometheus = at_work
    since = time.time()
    until = since + (SECONDS_OF_PICTURE if "RECOURSE_SCREENSHOTS" in os.environ else 0)
    missing = []

    def all_are():
        work.round()
        missing[:] = answers_of(prometheus, BOARD, since)[1]
        return not missing and time.time() >= until

    wait_until(all_are, lambda: missing, seconds=max(60, SECONDS_OF_PICTURE * 2))
    return prometheus, since, answers_of(prometheus, BOARD, since)[0]


def test_each_query_of_each_panel_is_answered(answered):
    prometheus, _, answers = answered
    assert len(answers) == len([one for one in BOARD["panels"] if one["type"] != "row"])
    told = set(prometheus.get("label/__name__/values"))
    told = {re.sub(r"_(bucket|sum|count)$", "", name) for name in told}
    for panel in BOARD["panels"]:
        for target in panel.get("targets", []):
            assert names_in(target["expr"]) <= told, panel["title"]


def test_the_charts_page_tells_how_many_pods_have_which_policy(at_work, answered):
    work, prometheus = at_work
    page = (ROOT / "helm/README.md").read_text()
    query = re.search(r"`(count by \(hash\) [^`]+)`", page)[1]
    told = prometheus.get(f"query?{urllib.parse.urlencode({'query': query})}")["result"]
    assert {one["metric"]["hash"]: one["value"][1] for one in told} == {
        process.admin("GET", "/policy")["version"]: "1"
        for process in (work.enforcing, work.observing)
    }  # fmt: skip


def test_all_that_is_told_of_a_shared_ledger_is_drawn():
    drawn = set().union(*(names_in(target["expr"]) for panel in BOARD["panels"]
                          for target in panel.get("targets", [])))  # fmt: skip
    assert {name for name in table() if name.startswith("recourse_ledger_")} <= drawn


def test_a_query_for_what_there_is_not_is_found(answered):
    prometheus, since, _ = answered
    board = copy.deepcopy(BOARD)
    panel = next(one for one in board["panels"] if one["type"] == "timeseries")
    panel["targets"][0]["expr"] = panel["targets"][0]["expr"].replace("_http_", "_htpp_")
    _, missing = answers_of(prometheus, board, since)
    assert missing == [(panel["title"], panel["targets"][0]["expr"])]


def page_of(answers):
    script = (npm.MODULES / "uplot/dist/uPlot.iife.min.js").read_text()
    style = (npm.MODULES / "uplot/dist/uPlot.min.css").read_text()
    ours, look = ((npm.CLIENTS / f"dashboard.{kind}").read_text() for kind in ("js", "css"))
    data = f"const board = {json.dumps(BOARD)}, answers = {json.dumps(answers)};"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{BOARD["title"]}</title>'
        f"<style>{style}{look}</style><h1>{BOARD['title']}</h1><main></main>"
        f"<script>{script}</script><script>{data}\n{ours}</script></html>"
    )


def test_it_is_drawn(answered, packages, browser, tmp_path):
    page = tmp_path / "dashboard.html"
    page.write_text(page_of(answered[2]))
    target = os.environ.get("RECOURSE_SCREENSHOTS")
    for scheme in ("light", "dark") if target else ("dark",):
        browser.open(page.as_uri(), width=1200, height=900, dark=scheme == "dark")
        browser.until("window.drawn || document.readyState === 'complete'")
        seen = browser.seen()
        assert not seen["errors"] and not seen["foreign"], seen
        drawn = browser.eval("window.drawn")
        panels = [one for one in BOARD["panels"] if one["type"] != "row"]
        assert drawn == {one["title"]: len(answered[2][one["id"]]) for one in panels}
        plots = [one for one in panels if one["type"] == "timeseries"]
        assert browser.count("canvas") == len(plots)
        if target:
            picture = tmp_path / "picture.png"
            browser.screenshot(picture, full=True)
            path = pathlib.Path(target) / f"dashboard-{scheme}.png"
            path.write_bytes(packed(picture.read_bytes()))


def test_the_pictures_on_the_pages_are_there():
    for scheme in ("light", "dark"):
        assert (ROOT / f"proxy/admin/ui/screenshots/dashboard-{scheme}.png").is_file()
