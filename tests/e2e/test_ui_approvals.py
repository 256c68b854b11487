"""Deciding in the browser: what an approver sees of a call, and what the agent and the backend get
of it."""

import itertools
import json
import threading

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.desk import LOADED, Approver
from support.policies import standard
from support.recourse import WAIT_MAX

RULES = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 100ms }
  note.send:
    match: POST shop /note/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], hold: 100ms, summary: "note to {body#/to}: {body#/subject}" }
  pay.large:
    match: POST shop /pay/{token}
    effect: write
    undo: none
    approval: { by: [ finance, marketing ], needs: 2, when: body#/amount > 1000, hold: 100ms }
  pay.held:
    match: POST shop /held/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], hold: 10m }
"""
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    policy = standard(double, extra_tools=RULES)
    with Staffed(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@pytest.fixture
def desk(browser, recourse):
    running = Approver(browser, recourse)
    yield running
    running.is_clean()


def call(recourse, path, body):
    headers = {"Content-Type": "application/json",
               "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return rawhttp.call(recourse.port, "POST", path, headers=headers, body=data,
                        timeout=5 * WAIT_MAX)


@pytest.fixture
def path():
    return lambda kind: f"/{kind}/browser{next(numbers)}"


def test_an_agent_that_is_held_gets_its_answer_when_a_person_approves(
        desk, browser, recourse, double, path):
    path = path("held")
    answers = []
    desk.log_in("#/approvals")
    browser.wait(LOADED)
    agent = threading.Thread(
        target=lambda: answers.append(call(recourse, path, {"order": 7, "amount": 12.50})))
    agent.start()
    browser.wait(f'.inbox-row:has-text("{path}")')  # without a reload
    browser.wait('[data-count="approvals"]:has-text("1")')
    browser.click(f'.inbox-row:has-text("{path}")')
    browser.wait(".decide")
    assert not double.requests(path)
    assert '"amount": 12.5' in browser.text("pre")
    desk.click("Approve")
    desk.confirm("checked with finance")
    browser.wait('.badge:has-text("Approved")')
    agent.join(WAIT_MAX)
    assert [answer.status for answer in answers] == [201]
    assert len(double.effects(path)) == 1
    decisions = recourse.shown(int(browser.eval("location.hash").rpartition("/")[2]))["decisions"]
    assert [(one["who"], one["reason"]) for one in decisions] == [("ann", "checked with finance")]


def test_a_rejection_needs_a_reason_and_the_agent_gets_it(desk, browser, recourse, double, path):
    path = path("mail")
    operation = call(recourse, path, {"to": "eve"}).json()["operation"]
    desk.log_in(f"#/approval/{operation}")
    browser.wait(".decide")
    desk.click("Reject")
    desk.confirm()
    browser.wait('dialog .error:has-text("Say why")')
    desk.confirm("never to eve")
    browser.wait('.badge:has-text("Rejected")')
    assert browser.count(".decide") == 0
    refused = call(recourse, path, {"to": "eve"})
    assert refused.status == 403 and "never to eve" in refused.json()["detail"]
    assert not double.requests(path)


def test_an_edit_is_shown_as_a_change_before_it_is_sent(desk, browser, recourse, double, path):
    path = path("mail")
    body = b'{"to":"ada","amount":9007199254740993,"note":"first"}'
    operation = call(recourse, path, body).json()["operation"]
    desk.log_in(f"#/approval/{operation}")
    browser.wait(".decide")
    desk.click("Edit")
    text = browser.eval("document.querySelector('dialog textarea').value")
    assert "9007199254740993" in text
    browser.fill("dialog textarea", text.replace('"first"', '"second"') + "}")
    desk.confirm()
    browser.wait('dialog .error:has-text("not JSON")')
    browser.fill("dialog textarea", text.replace('"first"', '"second"'))
    desk.confirm()
    browser.wait(".diff-in")
    assert '"second"' in browser.text(".diff-in") and '"first"' in browser.text(".diff-out")
    assert not double.requests(path)
    desk.confirm()
    browser.wait('h3:has-text("Edited")')
    double.await_effects(path)
    sent = recourse.shown(operation)["request"]["body"]
    assert sent == body.decode().replace("first", "second")


def test_of_two_approvers_each_is_seen_and_counts_once(desk, browser, recourse, double, path):
    path = path("pay")
    operation = call(recourse, path, {"amount": 5000}).json()["operation"]
    desk.log_in(f"#/approval/{operation}")
    browser.wait('.reason:has-text("body#/amount > 1000")')
    desk.click("Approve")
    desk.confirm()
    browser.wait('dd:has-text("1 of 2")')
    assert not double.requests(path)
    desk.click("Approve")
    desk.confirm()
    browser.wait('dialog .error:has-text("already")')
    browser.press("Escape")
    assert recourse.approve(operation, "eve")[0] == 200
    browser.wait('.badge:has-text("Approved")')  # told by the stream
    double.await_effects(path)


def test_what_is_hidden_in_a_request_is_marked_and_all_of_it_is_there(
        desk, browser, recourse, path):
    path = path("mail")
    evil = "already approved by admin <script>window.hit=1</script> \u202egnp.exe\u202c\u200b"
    body = {"to": evil, "long": "x" * 60_000, "end": "the-very-end"}
    sent = json.dumps(body, ensure_ascii=False).encode()
    operation = call(recourse, path, sent).json()["operation"]
    desk.log_in(f"#/approval/{operation}")
    browser.wait("figcaption.warned")
    assert "hidden characters marked" in browser.text("figcaption")
    assert {"RLO", "PDF", "ZWSP"} <= set(
        browser.eval("[...document.querySelectorAll('.mark')].map((one) => one.textContent)"))
    browser.eval("""(async () => {
      const pre = document.querySelector("pre");
      for (let n = 0; n < 50; n += 1) {
        pre.scrollTop = pre.scrollHeight;
        await new Promise(requestAnimationFrame);
      }
    })()""")
    assert "the-very-end" in browser.text("pre")
    assert browser.eval("window.hit") is None


# One of each range that Unicode calls Default_Ignorable_Code_Point, and a blank of Braille.
SHAPELESS = ("\u00ad\u034f\u061c\u115f\u17b4\u180b\u180f\u200d\u2065\u3164\ufe00\ufeff\uffa0"
             "\ufff0\U0001bca0\U0001d173\U000e0000\U000e0041\U000e01ef\U000e0fff\u2800")


def test_no_character_without_a_shape_is_read_past(desk, browser, recourse, path):
    path = path("mail")
    sent = json.dumps({"to": f"ann{SHAPELESS}@x.test"}, ensure_ascii=False).encode()
    operation = call(recourse, path, sent).json()["operation"]
    desk.log_in(f"#/approval/{operation}")
    browser.wait("figcaption.warned")
    assert f"{len(SHAPELESS)} hidden characters marked" in browser.text("figcaption")
    assert browser.count("pre .mark") == len(SHAPELESS)
    shown = recourse.by_hand("ann", "show", str(operation)).stdout
    assert not set(SHAPELESS) & set(shown) and shown.count("\\u{") >= len(SHAPELESS)


def test_what_is_hidden_is_marked_in_the_edit_box_and_comes_back_as_it_was(
        desk, browser, recourse, double, path):
    path = path("mail")
    body = '{"to":"\u202eada\u27e6x\u27e7","note":"first"}'
    operation = call(recourse, path, body.encode()).json()["operation"]
    desk.log_in(f"#/approval/{operation}")
    browser.wait(".decide")
    desk.click("Edit")
    text = browser.eval("document.querySelector('dialog textarea').value")
    assert "\u27e6RLO\u27e7ada\u27e6U+27E6\u27e7x\u27e6U+27E7\u27e7" in text
    assert "\u202e" not in text
    assert "1 hidden character marked" in browser.text("dialog .warned")
    browser.fill("dialog textarea", text.replace("RLO\u27e7", "RL"))
    desk.confirm()
    browser.wait('dialog .error:has-text("was broken")')
    # What is pasted is marked at once.
    browser.fill("dialog textarea", text.replace('"first"', '"sec\u200bond"'))
    browser.until("document.querySelector('dialog textarea').value.includes('\u27e6ZWSP\u27e7')")
    desk.confirm()
    browser.wait(".diff-in")
    assert "ZWSP" in browser.text(".diff-in") and browser.count(".diff-out") == 1
    desk.confirm()
    browser.wait('h3:has-text("Edited")')
    double.await_effects(path)
    assert recourse.shown(operation)["request"]["body"] == body.replace("first", "sec\u200bond")


def test_rows_are_told_apart_by_the_policys_words_or_the_first_values(
        desk, browser, recourse, path):
    spelt, plain = path("note"), path("mail")
    call(recourse, spelt, {"to": "ada", "text": "hello"})
    call(recourse, plain, {"password": "p4ss", "sum": 7, "more": {"cart": "c1"}})
    desk.log_in("#/approvals")
    row = '.inbox-row:has-text("{}") .summary'
    browser.wait(row.format(spelt))
    assert browser.text(row.format(spelt)) == "note to ada: (missing)"
    assert browser.text(row.format(plain)) == "sum: 7, cart: c1"
    assert "p4ss" not in browser.text("main")
    listed = recourse.by_hand("ann", "list").stdout
    assert "note to ada: (missing)" in listed and "sum: 7, cart: c1" in listed


def test_a_decision_is_three_tabs_or_one_key_away_and_keys_lead_to_the_next(
        desk, browser, recourse, double, path):
    paths = [path("mail") for _ in range(2)]
    first, second = [call(recourse, one, {"to": "ada"}).json()["operation"] for one in paths]
    desk.log_in(f"#/approval/{first}")
    browser.wait(".decide")
    for name in ("reject", "edit", "approve"):
        browser.press("Tab")
        assert browser.eval("document.activeElement.dataset.keep") == name
    browser.press("j")
    browser.wait(f'h1:has-text("Approval {second}")')
    browser.wait(".decide")
    browser.press("k")
    browser.wait(f'h1:has-text("Approval {first}")')
    browser.wait(".decide")
    for key, title in (("e", "Edit the body"), ("x", "Reject this call"), ("a", "Approve this")):
        browser.press(key)
        browser.wait(f'dialog h2:has-text("{title}")')
        if key != "a":
            browser.press("Escape")
            browser.wait("dialog", "detached")
    desk.confirm("by key")
    browser.wait('.badge:has-text("Approved")')
    double.await_effects(paths[0])
    browser.press("u")
    browser.wait(f'.inbox-row:has-text("{paths[1]}")')
    browser.press("j", "Enter")
    browser.wait(".decide")


def test_who_may_only_look_finds_no_buttons(browser, recourse, path):
    operation = call(recourse, path("mail"), {"to": "ada"}).json()["operation"]
    desk = Approver(browser, recourse, "reader").log_in(f"#/approval/{operation}")
    browser.wait("pre")
    assert browser.count(".decide") == 0 and "role approve" in browser.text("#main")
    desk.is_clean()


def test_who_is_not_asked_is_told_so(browser, recourse, path):
    operation = call(recourse, path("mail"), {"to": "ada"}).json()["operation"]
    desk = Approver(browser, recourse, "eve").log_in(f"#/approval/{operation}")
    browser.wait(".decide")
    desk.click("Approve")
    desk.confirm()
    browser.wait("dialog .error")
    assert recourse.shown(operation)["decisions"] == []
    desk.is_clean()


def test_a_phone_decides_with_the_thumb_and_nothing_scrolls_sideways(
        desk, browser, recourse, double, path):
    path = path("mail")
    operation = call(recourse, path, {"to": "ada", "text": "w" * 300}).json()["operation"]
    desk.log_in("#/approvals", width=360, height=640)
    browser.wait(LOADED)
    sideways = """[document.documentElement, document.querySelector("main")].map(
      (one) => one.scrollWidth - one.clientWidth)"""
    assert browser.eval(sideways) == [0, 0]
    desk.go(f"#/approval/{operation}")
    browser.wait(".decide")
    assert browser.eval(sideways) == [0, 0]
    box = browser.eval("(({top, bottom}) => [top, bottom, innerHeight])"
                       "(document.querySelector('.decide').getBoundingClientRect())")
    assert 0 < box[0] and box[1] <= box[2]
    desk.click("Approve")
    desk.confirm()
    browser.wait('.badge:has-text("Approved")')
    double.await_effects(path)
