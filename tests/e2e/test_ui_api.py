"""What the web UI is served from, and the two endpoints behind it: /operations and /stream."""

import http.client
import itertools
import json
import re

import pytest

from support import flows
from support.desk import admin
from support.recourse import ROOT, WAIT_MAX, Recourse

UI = ROOT / "proxy/admin/ui"
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("recourse"), flows.policy(double)) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@pytest.fixture
def agent(recourse, double):
    return flows.Shop(recourse, double).agent(f"api{next(numbers)}")


# --- what is served, and to whom ---------------------------------------------------------------


def test_the_shell_needs_no_login_and_every_answer_of_the_api_does(recourse):
    status, headers, body = admin(recourse, "GET", "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    names = re.findall(rb'(?:src|href)="(/ui/[^"]+)"', body)
    for name in names:
        assert admin(recourse, "GET", name.decode())[0] == 200
    for path in ("/operations", "/stream", "/policy/tools", "/policy/explain?call=x", "/session"):
        assert admin(recourse, "GET", path)[0] == 401, path
    assert admin(recourse, "GET", "/ui/none.js")[0] == 404
    assert admin(recourse, "GET", "/ui/..%2fopenapi.json")[0] == 404


def test_every_answer_tells_the_browser_what_it_may_do(recourse):
    status, shell, _ = admin(recourse, "GET", "/")
    rules = shell["Content-Security-Policy"]
    assert rules.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    for rule in ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"):
        assert rule in rules
    _, events, _ = admin(recourse, "GET", "/events")  # 401
    assert events["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert events["Cache-Control"] == "no-store"
    for headers in (shell, events):
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_a_file_that_did_not_change_is_not_sent_again(recourse):
    _, headers, body = admin(recourse, "GET", "/ui/app.js")
    assert body == (UI / "app.js").read_bytes()
    again = admin(recourse, "GET", "/ui/app.js", {"If-None-Match": headers["ETag"]})
    assert (again[0], again[2]) == (304, b"")


def test_no_file_of_the_page_makes_markup_out_of_text_or_names_another_origin():
    banned = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
        r"|createContextualFragment|DOMParser|setHTML|https?://(?!www\.w3\.org/2000/svg)"
    )
    files = [path for path in UI.iterdir() if path.suffix in (".js", ".css", ".html")]
    assert len(files) > 10
    for path in files:
        text = path.read_text().replace('"POST http://host/path"', "")
        assert not banned.findall(text), path.name
    assert not re.search(r"<script(?! type=\"module\" src=)|style=|\son\w+=",
                         (UI / "index.html").read_text())


# --- the API behind it -------------------------------------------------------------------------


def test_operations_are_listed_newest_first_in_pages(recourse, agent):
    agent.does("orders", "payments")
    listed = recourse.admin("GET", f"/operations?trace={agent.trace}")
    assert [one["tool"] for one in listed["operations"]] == ["payments.charge", "orders.create"]
    first = recourse.admin("GET", f"/operations?trace={agent.trace}&limit=1")
    second = recourse.admin(
        "GET", f"/operations?trace={agent.trace}&limit=1&before={first['older']}"
    )
    assert [one["tool"] for one in second["operations"]] == ["orders.create"]
    back = recourse.admin("GET", f"/operations?trace={agent.trace}&after={second['last']}")
    assert [one["tool"] for one in back["operations"]] == ["payments.charge"]
    bearer = {"Authorization": f"Bearer {recourse.token}"}
    for bad in ("limit=0", "limit=999999", "status=GOOD", "before=x", "color=red",
                "before=1&after=2"):
        status, _, body = admin(recourse, "GET", f"/operations?{bad}", bearer)
        assert status == 400 and json.loads(body)["detail"], bad


def test_the_stream_goes_on_where_its_watcher_was(recourse, agent):
    agent.does("orders")
    last = recourse.admin("GET", "/ledger")["last_id"]
    agent.does("payments")
    connection = http.client.HTTPConnection("127.0.0.1", recourse.ports["admin"],
                                            timeout=WAIT_MAX)
    connection.request("GET", "/stream", headers={
        "Authorization": f"Bearer {recourse.token}", "Last-Event-ID": str(last)})
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    text = b""
    while b'"SUCCEEDED"' not in text:
        text += answer.read1(65536)
    told = [json.loads(line[6:]) for line in text.decode().splitlines()
            if line.startswith('data: {"event_id"')]
    assert {one["tool"] for one in told} == {"payments.charge"}
    assert min(one["event_id"] for one in told) > last
    connection.close()


def test_a_watcher_does_not_keep_the_process_from_ending(double, tmp_path):
    with Recourse(tmp_path, flows.policy(double)) as recourse:
        connection = http.client.HTTPConnection("127.0.0.1", recourse.ports["admin"],
                                                timeout=WAIT_MAX)
        connection.request("GET", "/stream", headers={"Authorization": f"Bearer {recourse.token}"})
        connection.getresponse()
        assert recourse.stop() == 0
        connection.close()
