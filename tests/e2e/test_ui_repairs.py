"""What operators find and mend in the browser: searching, unknown outcomes, parked flows by the
group, what an undo sent and got; and what the shell and empty pages say."""

import itertools
import re

import pytest

from support import flows
from support.desk import LIST, LOADED, Desk, parked_checkout
from support.recourse import Recourse

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    tools = flows.NOTES.replace("    redact: ", "    keep_headers: [ X-Batch ]\n    redact: ", 1)
    policy = flows.policy(double, tools=tools)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@pytest.fixture
def agent(recourse, double):
    return flows.Shop(recourse, double).agent(f"mend{next(numbers)}")


@pytest.fixture
def desk(browser, recourse):
    running = Desk(browser, recourse)
    yield running
    running.is_clean()


def find(browser, text):
    browser.fill('input[aria-label^="Reference"]', text)
    browser.press("Enter")
    browser.wait(f'{LIST}')


def test_a_call_is_found_by_its_reference_a_kept_value_and_numbers(desk, browser, agent, double):
    kept = f"batch-{agent.token}"
    answer = f'HTTP/1.1 201 Created\r\nX-Batch: {kept}\r\nSet-Cookie: c{kept}\r\n' \
        'Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{"id":"n-77"}'
    agent.script("notes", ["read", {"send": answer.replace("12", str(len('{"id":"n-77"}')), 1)}])
    assert agent.call("notes").status == 201
    agent.does("orders")
    events = agent.shop.recourse.events_for(agent.path("notes"))
    desk.log_in()
    browser.wait(LIST)
    path = agent.path("notes")
    for text in ("n-77", kept):
        assert len(agent.shop.recourse.admin("GET", f"/operations?value={text}")["operations"]) == 1
        find(browser, text)
        browser.wait(f'.rows .row:has-text("{path}")')
        browser.until("document.querySelectorAll('.rows .row').length === 1")
    find(browser, f"c{kept}")
    browser.wait('.list-empty:has-text("Nothing matches")')
    for event in events:
        find(browser, str(event["event_id"]))
        browser.wait(f'a[href="#/operation/{event["operation"]}"]')


def test_unknown_outcomes_without_a_probe_have_an_inbox(desk, browser, agent):
    agent.script("notes", ["read", "execute", "rst"])
    agent.call("notes")
    path, recourse = agent.path("notes"), agent.shop.recourse
    recourse.await_phase(path, "UNCERTAIN")
    desk.log_in("#/unknown")
    browser.wait(f'section:has-text("Nothing but you") li:has-text("{path}")')
    browser.wait('[data-count="unknown"]:not([hidden])')
    browser.click(f'li:has-text("{path}") button:has-text("It did not happen")')
    browser.fill("dialog textarea", "looked, nothing there")
    browser.click("dialog footer button[type=submit]")
    browser.wait(f'li:has-text("{path}")', "detached")
    assert recourse.events_for(path)[-1]["phase"] == "PROVEN_ABSENT"


def test_what_observe_mode_saw_is_nobodys_to_settle_when_it_is_enforced(browser, double, tmp_path):
    enforced = flows.policy(double, tools=flows.NOTES)
    observed = enforced.replace("version: 1", "version: 1\nmode: observe", 1)
    with Recourse(tmp_path, observed) as recourse:
        agent = flows.Shop(recourse, double).agent("seen")
        agent.script("notes", ["read", "execute", "rst"])
        agent.call("notes")
        number = recourse.await_phase(agent.path("notes"), "UNCERTAIN")["operation"]
        assert recourse.stop() == 0
        recourse.policy_path.write_text(enforced)
        recourse.start()
        desk = Desk(browser, recourse).log_in("#/unknown")
        browser.wait('.state:has-text("Every outcome is known")')
        desk.go(f"#/operation/{number}", f'{LOADED} .badge:has-text("Unknown")')
        assert browser.count('button:has-text("It happened")') == 0
        desk.is_clean()


def test_parked_flows_of_one_cause_are_closed_together(desk, browser, agent, double):
    shop = agent.shop
    parked = [parked_checkout(shop.agent(f"{agent.token}-{n}")) for n in range(3)]
    desk.log_in("#/parked")
    browser.wait('.group:has-text("3 flows of checkout")')
    browser.click('.group button:has-text("Close all 3")')
    browser.fill("dialog textarea", "the bank was down")
    browser.click("dialog footer button[type=submit]")
    browser.wait('.state:has-text("Nothing is parked")')
    for flow in parked:
        after = shop.recourse.admin("GET", f"/flows/{flow['number']}")
        assert (after["phase"], after["reason"]) == ("COMMITTED", "admin: the bank was down")


def test_an_undone_step_shows_what_was_sent_and_came_back_and_why_the_flow_moved(
        desk, browser, agent):
    method, path = None, None
    agent.does("orders", "payments")
    method, path = agent.undo_of("payments")
    agent.breaks()
    agent.await_undone()
    flow = agent.shop.recourse.admin("GET", f"/flows/{agent.flow}")
    payments = flow["steps"][1]
    assert payments["undo_sent"]["method"] == method
    desk.log_in(f"#/flow/{flow['number']}", height=1600)
    browser.wait(".t-lane")
    step = f"#step-{payments['step']}"
    browser.click(f"{step} summary")
    text = browser.text(step)
    assert "Its undo was sent" in text and f"{method} " in text and path in text
    assert re.search(r"Its undo was answered: 20[01]", text)
    browser.click('summary:has-text("Why it moved")')
    moved = browser.text(".moves")
    assert "shipping.book: status 422" in moved or re.search(r"shipping.book: status 4\d\d", moved)
    assert "It was answered: 4" in moved
    assert re.search(r"\d+ [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d\.\d{3} UTC", moved)


def test_a_preview_numbers_its_steps_alone(desk, browser, agent):
    agent.does("orders", "payments")
    number = agent.shop.recourse.admin("GET", f"/flows/{agent.flow}")["number"]
    desk.log_in(f"#/flow/{number}")
    browser.click('button:has-text("Cancel…")')
    browser.wait("dialog .plan .fields li")
    counted = browser.eval("""[...document.querySelectorAll("dialog .plan li")].filter((one) =>
      getComputedStyle(one, "::before").content !== "none").length""")
    assert counted == browser.count("dialog .plan ol > li") == 2


DATED = re.compile(r"\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d(\.\d{3})? UTC")


def test_each_time_has_its_date_and_zone_or_a_list_that_tells_it(desk, browser, agent):
    flow = parked_checkout(agent)
    agent.shop.agent(f"{agent.token}-more").does("notes")
    desk.log_in()
    for shown in ("operations", "flows"):
        desk.go(f"#/activity?show={shown}", f"{LIST} .row time")
        assert browser.text(".list-note").endswith(", times in UTC")
    for place in ("#/parked", "#/policy", "#/duplicates", f"#/flow/{flow['number']}",
                  f"#/operation/{flow['steps'][0]['step']}"):
        desk.go(place, f"{LOADED} time")
        told = browser.eval("[...document.querySelectorAll('main time')].map((t) => t.textContent)")
        assert told and all(map(DATED.fullmatch, told)), (place, told)
    lasted = "import('/ui/format.js').then((page) => page.lastedText({0}, {0}))"
    assert browser.eval(lasted.format("'2026-11-27T10:00:00.000Z'")) == "", "no 0 ms"


@pytest.mark.parametrize("width", [1280, 360])
def test_the_shell_says_which_process_mode_and_policy_this_is(desk, browser, recourse, width):
    desk.log_in(width=width, height=740)
    status = recourse.admin("GET", "/status")
    browser.wait('.process .mode:has-text("enforce")')
    said = browser.text(".process")
    assert status["policy"]["version"][:8] in said and status["version"] in said
    assert str(recourse.ports["admin"]) in said
    assert status["agents_port"] == recourse.port


def test_an_empty_page_says_what_to_paste_and_that_is_a_call(browser, double, tmp_path):
    with Recourse(tmp_path, flows.policy(double)) as recourse:
        desk = Desk(browser, recourse).log_in()
        browser.wait(".list-empty .paste")
        line = browser.text(".list-empty .paste pre")
        assert line.startswith("curl -X POST 127.0.0.1:")
        assert f":{recourse.port}/orders/1 -H 'Host: shop.test'" in line
        flows.Shop(recourse, double).agent("lasted").does("orders")
        desk.go("#/activity?show=flows", f"{LIST} .row")
        assert "0 ms" not in browser.text(f"{LIST} .row")
        desk.is_clean()
