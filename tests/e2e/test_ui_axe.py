"""Every page of the web UI in every state that it has, before axe: nothing is found, in light and
in dark, at a desk and on a phone."""

import json
import secrets

import pytest

from support import flows, rawhttp
from support.approvals import Staffed
from support.desk import LIST, LOADED, Approver, Desk, parked_checkout, undone_checkout
from support.policies import observed
from support.recourse import Recourse
from support.waiting import wait_until

RULES = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], needs: 2, expires: 10m, hold: 100ms, summary: "to {body#/to}" }
"""
EMPTY = [("#/activity", ".list-empty:not([hidden]) .paste"),
         ("#/activity?show=flows", ".list-empty:not([hidden])"),
         ("#/activity?tool=never", ".list-empty:not([hidden])"),
         ("#/approvals", ".paste"), ("#/parked", ".state"), ("#/stopped", ".state"),
         ("#/unknown", ".state"), ("#/duplicates", ".state"), ("#/policy", LOADED),
         ("#/flow/999", ".state.bad"), ("#/operation/999", ".state"),
         ("#/approval/999", ".state.bad")]  # fmt: skip


def test_axe_finds_nothing_on_a_page_that_is_empty_or_alone(browser, walk, double, tmp_path):
    with Recourse(tmp_path, flows.policy(double, tools=RULES)) as recourse:
        desk = Desk(browser, recourse)
        browser.open(desk.url)
        browser.wait("#token")
        walk.look("login")
        browser.fill("#token", secrets.token_hex(20))
        browser.press("Enter")
        browser.wait('[role="alert"]:has-text("not known")')
        walk.look("login refused")
        desk.log_in()
        for place, ready in EMPTY:
            walk.at(desk, place, ready)
        browser.press("?")
        browser.wait("dialog")
        walk.look("shortcuts")
        browser.press("Escape")
        browser.wait("dialog", "detached")
        recourse.kill()
        desk.go("#/policy", ".state.bad")
        walk.look("no answer")
        desk.go("#/activity", '.state.bad:has-text("did not answer")')
        assert browser.count(".list-empty:not([hidden])") == 0, "nobody knows what happened"
        walk.look("no answer to a list")


@pytest.fixture
def busy(double, tmp_path):
    """A process in which everything has happened, and the agents in it."""
    policy = flows.policy(double, tools=flows.NOTES + RULES, flows=flows.NOTE_FLOW)
    with Staffed(tmp_path, policy) as running:
        yield flows.Shop(running, double)


def happen(shop):
    """A number of each thing that has a page of its own."""
    undone = undone_checkout(shop.agent("axe-undone"))
    parked = [parked_checkout(shop.agent(f"axe-parked{n}")) for n in range(2)]
    unknown, probed, stops = (shop.agent(f"axe-{name}") for name in ("unknown", "probed", "stops"))
    stops.does("notes")
    wait_until(lambda: shop.recourse.admin("GET", f"/flows/{stops.flow}")["stopped"])
    unknown.script("notes", ["read", "execute", "rst"])
    unknown.call("notes")
    shop.double.script("GET", probed.path("orders"), flows.answer_with("500 No"))
    probed.script("orders", ["read", "execute", "rst"])
    probed.call("orders")
    lost = shop.recourse.await_phase(unknown.path("notes"), "UNCERTAIN")["operation"]
    shop.recourse.await_phase(probed.path("orders"), "UNCERTAIN")
    asked = []
    for number in range(2):
        body = json.dumps({"to": f"ada{number} \u202eevil\u202c", "more": ["x" * 90]},
                          ensure_ascii=False).encode()  # fmt: skip
        answer = rawhttp.call(shop.recourse.port, "POST", f"/mail/axe{number}", host="shop.test",
                              headers={"Content-Type": "application/json"}, body=body)  # fmt: skip
        asked.append(answer.json()["operation"])
    shop.recourse.approve(asked[0], "bob")
    return undone, parked, lost, asked


def test_axe_finds_nothing_where_everything_has_happened(browser, walk, busy):
    undone, parked, lost, asked = happen(busy)
    desk = Desk(browser, busy.recourse).log_in()
    walk.at(desk, "#/activity", f"{LIST} .row")
    browser.press("j")
    browser.wait(".row.selected")
    walk.look("a row is chosen")
    walk.at(desk, f"#/activity?value={lost}", "main p a")
    walk.at(desk, "#/activity?show=flows&all=true", f"{LIST} .row")
    walk.at(desk, f"#/approval/{asked[0]}", "pre")
    walk.at(desk, "#/parked", ".group")
    walk.dialogs(["Retry all", "Close all", "Undone by hand", "It may stay"])
    walk.at(desk, f"#/flow/{undone['number']}", ".t-lane")
    browser.click('summary:has-text("Why it moved")')
    browser.click(".t-lane >> nth=0")
    browser.wait("details.step[open]")
    walk.look("an undone step is open")
    walk.at(desk, f"#/flow/{parked[0]['number']}", ".t-lane")
    walk.dialogs(["Show what is left", "Retry"], "dialog .plan")
    walk.at(desk, f"#/operation/{parked[0]['steps'][0]['step']}", "details.more")
    browser.click("details.more summary")
    browser.wait("details.more .request")
    walk.look("what was kept is shown")
    walk.at(desk, "#/unknown", ".left-steps li >> nth=1")
    walk.dialogs(["It happened", "It did not happen"])
    walk.at(desk, "#/stopped", "tbody tr")
    walk.dialogs(["Close"])
    walk.at(desk, "#/duplicates")
    walk.at(desk, "#/policy")
    browser.fill("#explain-call", "POST shop /orders/7")
    browser.press("Enter")
    browser.wait(".verdict")
    browser.click("details.step >> nth=0")
    walk.look("a tool is explained")


def test_axe_finds_nothing_where_somebody_decides(browser, walk, busy):
    _, _, _, asked = happen(busy)
    desk = Approver(browser, busy.recourse).log_in()
    walk.at(desk, "#/approvals", ".inbox-row .summary")
    walk.at(desk, f"#/approval/{asked[0]}", ".decide")
    walk.dialogs(["Reject", "Edit", "Approve"])
    walk.at(desk, "#/parked", ".group")
    assert busy.recourse.approve(asked[1], "bob", body='{"to":"eve"}')[0] == 200
    walk.at(desk, f"#/approval/{asked[1]}", 'h3:has-text("Edited")')
    assert busy.recourse.reject(asked[0])[0] == 200
    walk.at(desk, f"#/approval/{asked[0]}", '.badge:has-text("Rejected")')


def test_axe_finds_nothing_in_observe_mode_and_where_a_policy_was_not_taken(
        browser, walk, double, tmp_path):
    with Recourse(tmp_path, observed(double.url)) as recourse:
        for _ in range(2):
            rawhttp.call(recourse.port, "POST", "/orders/axe", "shop.test", body={"amount": 1})
        recourse.policy_path.write_text("version: 1\nmodes: enforce\n")
        assert recourse.cli("policy", "reload").returncode == 3
        desk = Desk(browser, recourse).log_in()
        browser.wait(".mode.observe")
        walk.at(desk, "#/duplicates", "table")
        walk.at(desk, "#/policy", ".problems li")


def test_axe_finds_what_is_wrong(browser, double, tmp_path):
    with Recourse(tmp_path, flows.policy(double)) as recourse:
        Desk(browser, recourse).log_in()
        browser.eval("document.querySelector('main').append(document.createElement('button'))")
        assert any(one.startswith("button-name (critical)") for one in browser.axe())
