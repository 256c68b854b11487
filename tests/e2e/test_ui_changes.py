"""What an operator is shown in the browser of an undo that was held back because somebody else has
changed what it would put back: before, what the call left, and now; and what to do about it."""

import json

import pytest
from test_time_machine import FIELDS, machine, tracker

from support.desk import Desk
from support.waiting import wait_until

ROWS = """[...document.querySelectorAll("table")].filter((one) =>
  one.textContent.includes("Somebody has changed")).flatMap((one) =>
  [...one.querySelectorAll("tr")].map((row) =>
    [...row.children].map((cell) => cell.textContent)))"""
HEAD = ["Somebody has changed", "before", "this call left", "now"]
__all__ = ["machine", "tracker"]
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def desk(browser, machine):
    running = Desk(browser, machine.recourse)
    yield running
    running.is_clean()


def parked(machine, tracker, desk, **theirs):
    """An issue, its trace, and the open step of its parked flow."""
    name = machine.issue()
    trace = machine.update(name)
    tracker.foreign("issues", name, **theirs)
    flow = machine.park(trace)
    desk.log_in(f"#/flow/{flow['number']}", height=1600)
    step = f"#step-{flow['steps'][0]['step']}"
    desk.browser.wait(f"{step} summary")
    desk.browser.eval(f"document.querySelector('{step}').open = true")
    desk.browser.wait(f'{step} table:has-text("Somebody has changed")')
    return name, trace


def text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_the_three_states_stand_side_by_side(machine, tracker, desk, browser, walk):
    name, trace = parked(machine, tracker, desk, title=HOSTILE, labels=["theirs"])
    rows = browser.eval(ROWS)
    assert rows[0] == HEAD, rows
    told = {row[0]: row[1:] for row in rows[1:]}
    assert set(told) == {"/title", "/labels"}, told
    assert json.loads(told["/title"][0]) == FIELDS["title"]
    assert told["/title"][1] == '"New"' and "<img src=x" in told["/title"][2], told
    assert "\u202e" not in told["/title"][2], "what would turn the line round is shown as a sign"
    assert json.loads(told["/labels"][0]) == FIELDS["labels"], told
    assert told["/labels"][1:] == ["[]", '["theirs"]']
    # Its picture: nothing was refused, as nothing was sent.
    assert browser.count(".t-lane .t-mark-failed") == 0
    assert browser.count('.t-mark-held:has-text("undo not sent: changed since")') == 1
    assert "undo held back" in browser.eval(
        "document.querySelector('.t-lane').getAttribute('aria-label')")
    # What is shown is what the API and the command tell.
    (step,) = machine.flow(trace)["steps"]
    assert {one["place"]: one["now"] for one in step["changed_since"]} == {
        "/title": text(HOSTILE), "/labels": '["theirs"]'
    }  # fmt: skip
    assert tracker.state("issues", name)["title"] == HOSTILE
    walk.look("three states")
    walk.dialogs(["Retry", "Undone by hand", "It may stay"])


def test_what_was_deleted_meanwhile_is_told(machine, tracker, desk, browser, walk):
    name = machine.issue()
    trace = machine.update(name)
    with tracker.lock:
        del tracker.things["issues", name]
    flow = machine.park(trace)
    desk.log_in(f"#/flow/{flow['number']}", height=1600)
    step = f"#step-{flow['steps'][0]['step']}"
    browser.wait(f"{step} summary")
    browser.eval(f"document.querySelector('{step}').open = true")
    browser.wait(f'{step} table:has-text("Somebody has changed")')
    rows = browser.eval(ROWS)
    assert rows[0] == HEAD and {row[3] for row in rows[1:]} == {"not there"}, rows
    assert tracker.state("issues", name) is None
    walk.look("deleted meanwhile")


def test_to_restore_overwrites_what_was_shown_and_nothing_later(
        machine, tracker, desk, browser, walk):
    name, trace = parked(machine, tracker, desk, title="Theirs")
    tracker.foreign("issues", name, title="Later")
    browser.click('button:has-text("Retry")')
    browser.click("dialog footer button[type=submit]")
    browser.until(f"{ROWS}.some((row) => row[3] === '\"Later\"')")
    assert tracker.state("issues", name)["title"] == "Later"
    walk.look("changed again")
    browser.click('button:has-text("Retry")')
    browser.click("dialog footer button[type=submit]")
    machine.await_flow(trace, "UNDONE")
    assert tracker.state("issues", name) == {"id": name, "body": "untouched", **FIELDS}


def test_to_keep_what_is_there_sends_nothing(machine, tracker, desk, browser):
    name, trace = parked(machine, tracker, desk, title="Theirs")
    browser.click('button:has-text("It may stay")')
    browser.fill("dialog textarea", "theirs is right")
    browser.click("dialog footer button[type=submit]")
    machine.await_flow(trace, "UNDONE")
    assert tracker.state("issues", name)["title"] == "Theirs"
    assert tracker.effects == [f"PATCH issues/{name}"]


def test_merged_by_hand_it_is_done(machine, tracker, desk, browser, walk):
    name, trace = parked(machine, tracker, desk, title="Theirs")
    tracker.foreign("issues", name, **{**FIELDS, "title": "Theirs and ours"})
    browser.click('button:has-text("Undone by hand")')
    browser.fill("dialog textarea", "merged both titles")
    browser.click("dialog footer button[type=submit]")
    machine.await_flow(trace, "UNDONE")
    wait_until(lambda: machine.flow(trace)["steps"][0]["undo"] in ("nothing", "skip", "send"))
    assert tracker.state("issues", name)["title"] == "Theirs and ours"
    browser.wait('.badge:has-text("Undone")')
    walk.look("merged by hand")
    assert tracker.effects == [f"PATCH issues/{name}"]
