"""The web UI in a real Chromium: what operators see and do, and what nobody can make it do."""

import contextlib
import itertools
import json
import re
import secrets
import threading

import pytest

from support import flows, rawhttp
from support.desk import LIST, LOADED, Desk, admin, parked_checkout, undone_checkout
from support.recourse import WAIT_MAX, Recourse
from support.waiting import InVain, wait_until

PHONE = {"width": 360, "height": 740}
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    policy = flows.policy(double, tools=flows.NOTES, flows=flows.NOTE_FLOW)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@pytest.fixture
def shop(recourse, double):
    return flows.Shop(recourse, double)


@pytest.fixture
def agent(shop):
    return shop.agent(f"ui{next(numbers)}")


@pytest.fixture
def desk(browser, recourse):
    running = Desk(browser, recourse)
    yield running
    running.is_clean()


def check_rows(browser):
    """No value that is missing is shown as a word of the language."""
    shown = browser.text(".rows")
    assert shown and not re.search(r"\b(null|undefined|NaN)\b", shown), shown


# --- logging in --------------------------------------------------------------------------------


def test_a_wrong_token_is_told_and_the_right_one_opens_the_page(desk, browser, recourse):
    browser.open(desk.url)
    browser.wait("#token")
    browser.press("Enter")
    assert "Enter your token" in browser.text('[role="alert"]')
    browser.fill("#token", secrets.token_hex(20))
    browser.press("Enter")
    browser.wait('[role="alert"]:has-text("not known")')
    browser.fill("#token", recourse.token)
    browser.press("Enter")
    browser.wait(LIST)
    cookie = [one for one in browser.ask("cookies") if one["name"] == "recourse_session"][0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    kept = browser.eval(
        "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href])"
    )
    assert recourse.token not in kept and cookie["value"] not in kept


def test_a_session_outlives_a_reload_and_ends_with_logging_out(desk, browser):
    desk.log_in()
    browser.ask("reload")
    browser.wait(LIST)
    browser.click('button[aria-label="Log out"]')
    browser.wait("#token")
    browser.ask("reload")
    browser.wait("#token")


def test_a_page_that_nobody_uses_asks_nothing_by_itself(desk, browser):
    """Else its session would never end."""
    desk.log_in()
    is_present = "import('/ui/keys.js').then((page) => page.isPresent())"
    assert browser.eval(is_present) is True
    browser.eval("window.timeOf = Date.now; Date.now = () => window.timeOf() + 60_500; 0")
    assert browser.eval(is_present) is False
    browser.press("Shift")
    assert browser.eval(is_present) is True


def test_without_an_answer_the_page_says_so(browser, double, tmp_path):
    with Recourse(tmp_path, flows.policy(double)) as recourse:
        desk = Desk(browser, recourse).log_in()
        browser.wait('.live[data-state="live"]')
        recourse.kill()
        browser.eval("location.hash = '#/policy'")
        browser.wait('.state.bad:has-text("did not answer")')
        browser.wait('.live:not([data-state="live"])')
        browser.eval("location.hash = '#/activity'")
        browser.wait('main .bad:has-text("did not answer")')
        assert "Nothing happened yet" not in browser.text("main"), "nobody knows whether it did"
    assert browser.seen()["errors"] == [] and desk


# --- what happens, as it happens ---------------------------------------------------------------


def test_an_operation_appears_while_it_runs_and_changes_when_it_ends(desk, browser, agent, double):
    desk.log_in()
    browser.wait(LIST)
    browser.wait('.live[data-state="live"]')
    agent.script("orders", ["read", {"gate": "ui-live"}, "execute", "answer"])
    caller = threading.Thread(target=agent.call, args=("orders",))
    caller.start()
    row = f'.row:has-text("/orders/{agent.token}")'
    browser.wait(f'{row}:has-text("Pending")')
    double.open_gate("ui-live")
    browser.wait(f'{row}:has-text("Success")')
    caller.join(WAIT_MAX)
    check_rows(browser)


def test_a_flow_that_moves_shows_no_missing_value(desk, browser, agent):
    desk.log_in("#/activity?show=flows")
    browser.wait(LIST)
    row = f'.row:has-text("{agent.flow}")'
    for kind, steps in (("orders", "1 step"), ("payments", "2 steps")):
        agent.does(kind)
        browser.wait(f'{row}:has-text("{steps}")')
        check_rows(browser)
    agent.breaks()
    agent.await_undone()
    browser.until(f"!document.querySelector('.rows').textContent.includes('{agent.flow}')")


def test_the_list_is_filtered_by_tool_state_and_trace(desk, browser, agent):
    agent.does("orders", "payments")
    desk.log_in(f"#/activity?trace={agent.trace}")
    browser.wait(LIST)
    browser.until("document.querySelectorAll('.rows .row').length === 2")
    browser.fill('input[aria-label="Tool"]', "payments.charge")
    browser.press("Enter")
    browser.until("document.querySelectorAll('.rows .row').length === 1")
    desk.go("#/activity?tool=never.called", LIST)
    browser.wait('.list-empty:has-text("Nothing matches")')


def test_the_picture_of_an_undone_flow_shows_its_steps_and_undos(desk, browser, agent):
    flow = undone_checkout(agent)
    desk.log_in(f"#/flow/{flow['number']}")
    browser.wait("svg.timeline[role=group]")
    assert browser.count(".t-lane") == 3
    assert browser.count(".t-lane .t-undo") == 2
    assert browser.count(".t-arrow") == 1
    assert browser.count(".t-lane .t-mark-compensated") == 2
    assert browser.count(".t-lane .t-mark-failed") == 1
    # Later steps are undone first: the picture runs from left to right.
    begins = browser.eval(
        "[...document.querySelectorAll('.t-lane')].map(lane => "
        "Number(lane.querySelector('.t-undo')?.getAttribute('x')))"
    )
    assert begins[1] < begins[0]
    browser.click(".t-lane >> nth=0")
    step = f"#step-{flow['steps'][0]['step']}"
    browser.wait(f"{step}[open]")
    text = browser.text(step)
    for word in ("orders.create", "COMPENSATED", "DISPATCHING", agent.path("orders")):
        assert word in text, word


def test_the_flow_that_is_looked_at_changes_while_it_is_undone(desk, browser, agent, double):
    agent.does("orders", "payments")
    method, path = agent.undo_of("payments")
    double.script(method, path, ["read", {"gate": "ui-undo"}, "execute", "answer"], 1)
    desk.log_in(f"#/flow/{agent.flow}")
    browser.wait('.badge:has-text("Open")')
    agent.breaks()
    browser.wait('.badge:has-text("Undoing")')
    double.open_gate("ui-undo")
    browser.wait('.badge:has-text("Undone")')


# --- repairing ---------------------------------------------------------------------------------


def test_a_parked_flow_is_repaired_by_clicking(desk, browser, agent):
    flow = parked_checkout(agent)
    desk.log_in("#/parked")
    card = f'section[aria-label="Flow {flow["number"]}"]'
    browser.wait(f'{card}:has-text("403")')
    stuck = f'{card} li:has-text("payments.charge")'
    browser.click(f'{stuck} button:has-text("Undone by hand")')
    browser.click("dialog footer button[type=submit]")
    browser.wait('dialog .error:has-text("Say why")')
    browser.fill("dialog textarea", "refunded by hand, ticket 812")
    browser.click("dialog footer button[type=submit]")
    browser.wait(card, "detached")
    agent.await_undone()
    after = agent.shop.recourse.admin("GET", f"/flows/{flow['number']}")
    assert "ticket 812" in json.dumps(agent.shop.recourse.events(flow=agent.flow, flows="true"))
    assert after["phase"] == "UNDONE" and agent.undone() == ["orders"]


def test_an_unknown_outcome_is_settled_by_clicking(desk, browser, agent, double):
    agent.script("notes", ["read", "execute", "rst"])
    agent.call("notes")
    recourse, path = agent.shop.recourse, agent.path("notes")
    number = recourse.await_phase(path, "UNCERTAIN")["operation"]
    ref = double.effects(path)[0]["id"]
    desk.log_in(f"#/operation/{number}")
    browser.click('button:has-text("It happened")')
    browser.fill('dialog textarea[name="external_ref"]', ref)
    browser.fill('dialog textarea[name="reason"]', "seen in the console")
    browser.click("dialog footer button[type=submit]")
    browser.wait('button:has-text("It happened")', "detached")
    last = recourse.events_for(path)[-1]
    assert (last["phase"], last["external_ref"]) == ("SUCCEEDED", ref)
    assert last["detail"] == "admin: seen in the console"


def test_flows_that_stopped_are_closed_at_once(desk, browser, agent):
    agent.does("notes")
    recourse = agent.shop.recourse
    target = f"/flows/{agent.flow}"
    stopped = wait_until(lambda: (f := recourse.admin("GET", target))["stopped"] and f)
    desk.log_in("#/stopped?name=note")
    browser.wait(f'td:has-text("{stopped["number"]}")')
    browser.click('button:has-text("Close")')
    browser.fill("dialog textarea", "kept")
    browser.click("dialog footer button[type=submit]")
    browser.wait('.state:has-text("Nothing has stopped")')
    after = recourse.admin("GET", f"/flows/{stopped['number']}")
    assert (after["phase"], after["reason"]) == ("COMMITTED", "admin: kept")


def test_an_undo_shows_its_requests_before_it_sends_them(desk, browser, agent, double):
    agent.does("orders", "payments", "shipping")
    number = agent.shop.recourse.admin("GET", f"/flows/{agent.flow}")["number"]
    desk.log_in(f"#/flow/{number}")
    browser.click('button:has-text("Undo…")')
    browser.wait("dialog .plan li >> nth=2")
    plan = browser.text("dialog .plan")
    for kind in ("orders", "payments", "shipping"):
        method, path = agent.undo_of(kind)
        assert f"{method} " in plan and path in plan
        assert not agent.undo_requests(kind)
    browser.press("Escape")
    browser.wait("dialog", "detached")
    assert not agent.undone()
    browser.click('button:has-text("Undo…")')
    browser.fill("dialog textarea", "the customer changed her mind")
    browser.click('dialog button:has-text("Send 3 undo requests")')
    browser.wait('.badge:has-text("Undone")')
    assert agent.undone() == ["shipping", "payments", "orders"]


# --- what others wrote is text -----------------------------------------------------------------

ATTACKS = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=2>",
    "javascript:window.hit=3",
    "\"><svg onload=window.hit=4>",
    "\u202egnp.exe",
    "\x1b[2J\x1b]0;title\x07",
    "{{constructor.constructor('window.hit=5')()}}",
]


def test_what_an_agent_or_a_backend_writes_is_shown_and_never_run(desk, browser, agent, double):
    evil = "".join(ATTACKS).encode()
    head = f"HTTP/1.1 201 Created\r\nContent-Type: text/html\r\nContent-Length: {len(evil)}\r\n\r\n"
    agent.script("orders", ["read", {"send": head + evil.decode("latin-1")}])
    for path in (agent.path("orders"), "/evil/%3Cscript%3Ewindow.hit=6%3C/script%3E"):
        rawhttp.call(agent.shop.recourse.port, "POST", path, body=b"{}", headers={
            "Content-Type": "application/json",
            "traceparent": f"00-{agent.trace}-b7ad6b7169203331-01"})
    flow = agent.shop.recourse.admin("GET", f"/flows/{agent.flow}")
    reason = "<img src=x onerror=window.hit=7>"
    status, _, _ = admin(agent.shop.recourse, "POST", f"/flows/{flow['number']}/cancel",
                         {"Authorization": f"Bearer {agent.shop.recourse.token}"},
                         json.dumps({"reason": reason}).encode())
    assert status == 200
    desk.log_in(f"#/activity?trace={agent.trace}")
    browser.wait(f'{LIST} .row:has-text("orders.create")')
    desk.go(f"#/operation/{flow['steps'][0]['step']}")
    browser.click("details.more summary")
    browser.wait("details.more pre")
    shown = browser.text("details.more pre")
    assert "<script>window.hit=1</script>" in shown and "javascript:window.hit=3" in shown
    assert "\u202e" not in shown and "\x1b" not in shown
    marks = browser.eval("[...document.querySelectorAll('.mark')].map((one) => one.textContent)")
    assert {"RLO", "ESC", "BEL"} <= set(marks)
    assert "hidden characters marked" in browser.text("details.more figcaption")
    desk.go("#/parked")
    browser.wait('.card:has-text("cannot be undone"), .card:has-text("value is missing")')
    desk.go(f"#/flow/{flow['number']}", ".t-lane")
    browser.click('summary:has-text("Why it moved")')
    assert reason in browser.text(".moves")
    assert browser.eval("window.hit") is None
    assert browser.count('a[href^="javascript"], #main img') == 0


# --- many events, small screens, no mouse ------------------------------------------------------


def test_ten_thousand_operations_scroll_with_a_bounded_number_of_elements(
        desk, browser, recourse):
    desk.log_in()
    browser.wait(LIST)
    browser.wait('.live[data-state="live"]')
    # Events as the server tells them, without ten thousand calls.
    browser.eval("""(async () => {
      const { inject } = await import("/ui/stream.js");
      const make = (n) => ({ event_id: 1e6 + n, operation: 1e6 + n, tool: "orders.create",
        method: "POST", path: `/orders/${n}`, status: "SUCCESS", phase: "SUCCEEDED", attempt: 1,
        external_ref: `ord-${n}`, trace_id: "", flow: "", time: new Date().toISOString(),
        cause: "answer", undoes: 0 });
      for (let n = 0; n < 10000; n += 1) inject({ kind: "event", event: make(n) });
    })()""")
    browser.until("document.querySelector('[role=grid]').getAttribute('aria-rowcount') >= 10000")
    most, changes = browser.eval("""(async () => {
      const list = document.querySelector("[role=grid]");
      let most = 0, changes = 0;
      const watch = new MutationObserver((records) => { changes += records.length; });
      watch.observe(document.body, { subtree: true, childList: true, attributes: true,
        characterData: true });
      for (let at = 0; at <= 60; at += 1) {
        list.scrollTop = list.scrollHeight * at / 60;
        await new Promise(requestAnimationFrame);
        most = Math.max(most, document.querySelectorAll("*").length);
      }
      watch.disconnect();
      return [most, changes];
    })()""")
    assert most < 1500
    assert browser.text(".rows") and browser.count(".rows .row") < 60
    # What a step of scrolling costs: some changes for each row that is seen, not for each there is.
    assert 0 < changes < 61 * 300, changes


def chord(browser, key, place):
    """`g` and then the key, until `place` is there: the page takes the two together only when they
    come soon after one another."""
    browser.press("g", key)

    def is_there():
        with contextlib.suppress(InVain):
            return wait_until(lambda: browser.count(place), seconds=0.5)
        browser.press("g", key)
        return False

    wait_until(is_there, f"g {key} does not lead to {place}")


def test_everything_is_reached_with_the_keyboard(desk, browser, agent):
    flow = undone_checkout(agent)
    desk.log_in()
    browser.wait(LIST)
    browser.press("?")
    browser.wait('dialog:has-text("Keyboard shortcuts")')
    browser.press("Tab", "Tab", "Tab")
    assert browser.eval("document.querySelector('dialog').contains(document.activeElement)"
                        " || document.activeElement === document.body")
    browser.press("Escape")
    chord(browser, "r", 'nav a[aria-current][data-page="parked"]')
    chord(browser, "a", f"{LIST} .row")
    browser.press("j", "j", "k", "Enter")
    browser.wait('h1:has-text("Operation")')
    desk.go(f"#/flow/{flow['number']}", ".t-lane")
    browser.eval("document.querySelector('.t-lane').focus()")
    browser.press("Enter")
    browser.wait("details.step[open] summary:focus")
    outline = browser.eval("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    browser.press("/")
    chord(browser, "a", LIST)
    browser.press("/")
    assert browser.eval("document.activeElement.getAttribute('aria-label')") == "Tool"


def test_every_control_has_a_name(desk, browser, agent):
    parked_checkout(agent)
    desk.log_in()
    for place in PLACES:
        desk.go(place, f"{LIST}, {LOADED}")
        nameless = browser.eval("""[...document.querySelectorAll(
          "button, a, input, select, textarea, [role=button]")].filter((one) => !(
            one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length)
          ).map((one) => one.outerHTML)""")
        assert nameless == [], place


PLACES = ["#/activity", "#/activity?show=flows", "#/approvals", "#/parked", "#/stopped",
          "#/unknown", "#/duplicates", "#/policy"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_every_page_without_scrolling_sideways(desk, browser, agent, dark):
    flow = parked_checkout(agent)
    desk.log_in(dark=dark, **PHONE)
    page = browser.eval("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", page)[:3])) < 60) == dark
    steps = flow["steps"][0]["step"]
    for place in [*PLACES, f"#/flow/{flow['number']}", f"#/operation/{steps}"]:
        desk.go(place, f"{LIST}, {LOADED}")
        wide = browser.eval("""[document.documentElement, document.querySelector("main")].map(
          (one) => one.scrollWidth - one.clientWidth)""")
        assert wide == [0, 0], place


def test_the_theme_can_be_chosen_and_is_kept(desk, browser):
    desk.log_in()
    color = "getComputedStyle(document.body).backgroundColor"
    light = browser.eval(color)
    browser.press("t")
    assert browser.eval(color) != light
    browser.ask("reload")
    browser.wait(LIST)
    assert browser.eval(color) != light


# --- duplicates and the policy -----------------------------------------------------------------


def test_the_policy_page_explains_a_request_as_the_command_line_does(desk, browser, recourse):
    desk.log_in("#/policy")
    browser.fill("#explain-call", "POST shop /orders/7")
    browser.press("Enter")
    browser.wait(".verdict")
    assert "orders.create" in browser.text(".verdict")
    said = browser.text(".lines")
    for word in ("unlisted", "key", "undo", "DELETE /orders/{external_ref}"):
        assert (word in said) == (word != "unlisted"), word
    browser.fill("#explain-call", "nonsense")
    browser.press("Enter")
    browser.wait('.state.bad:has-text("accepted")')


def test_the_duplicates_page_shows_the_report(desk, browser, agent):
    assert agent.call("orders", traceparent=None).status == 201
    desk.log_in("#/duplicates")
    browser.wait('.figure:has-text("took effect twice")')
    browser.wait('.reason:has-text("came without a trace: they are flows of one step")')
