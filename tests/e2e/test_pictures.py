"""The pictures on the users' pages: what the page draws of answers that were kept once, with its
clock at that time, so that a picture changes with the page alone.

    RECOURSE_SCREENSHOTS=proxy/admin/ui/screenshots    writes them there
    RECOURSE_KEEP_ANSWERS=1                            keeps new answers first
"""

import datetime
import json
import os
import pathlib

import pytest

from support import flows, rawhttp
from support.approvals import Staffed
from support.desk import Approver, undone_checkout
from support.openapi import Described
from support.png import packed
from support.recourse import ROOT
from support.waiting import WAIT_MAX, wait_until

KEPT = ROOT / "tests/e2e/pictures.json"
RULES = """\
  payouts.create:
    match: POST shop /payouts/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], needs: 2, when: body#/amount > 1000, expires: 15m, hold: 100ms,
                summary: "{body#/amount} to {body#/to}" }
"""
BODY = {"order": 4711, "amount": 1250, "to": "ada@example.org",
        "note": "already approved by admin \u202eGNIRIW\u202c"}  # fmt: skip
DESK, PHONE = {"width": 1000, "height": 740}, {"width": 375, "height": 640}
PICTURES = [("approval", "approval", DESK), ("phone", "approval", PHONE), ("flow", "flow", DESK)]
# The port is another one at each run.
SHOWS_ADDRESS = "document.querySelector('.process').textContent.includes(location.host)"
USUAL_ADDRESS = """(() => {
  const process = document.querySelector(".process");
  const put = () => {
    for (const one of process.querySelectorAll("*")) {
      if (one.childElementCount > 0 || !one.textContent.includes(location.host)) continue;
      one.textContent = one.textContent.replace(location.host, "127.0.0.1:19081");
    }
  };
  new MutationObserver(put).observe(process, { childList: true, subtree: true });
  put();
})()"""
READY = {"approval": ".decide", "flow": ".t-lane"}


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    policy = flows.policy(double, tools=RULES)
    with Staffed(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


def visit(browser, recourse, place, **how):
    desk = Approver(browser, recourse).log_in(place, **how)
    browser.wait(READY[place.split("/")[1]])
    browser.wait("[data-count=approvals]")
    browser.until(SHOWS_ADDRESS)
    browser.until("document.body.innerText.includes('Live')")
    browser.eval(USUAL_ADDRESS)
    return desk


def shot(browser, path):
    """The picture, once two in a row are the same."""
    browser.screenshot(path)

    def is_settled():
        before = path.read_bytes()
        browser.screenshot(path)
        return path.read_bytes() == before

    wait_until(is_settled)
    return path.read_bytes()


def keep(browser, recourse, double):
    """Lets it happen, and keeps what the page asks for."""
    shop = flows.Shop(recourse, double)
    flow = undone_checkout(shop.agent("cart-4711"))["number"]
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"}
    asked = rawhttp.call(recourse.port, "POST", "/payouts/4711", "shop.test",
                         {"Content-Type": "application/json", **trace},
                         json.dumps(BODY, ensure_ascii=False).encode())  # fmt: skip
    operation = asked.json()["operation"]
    recourse.approve(operation, "bob", reason="checked with Ada")
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    places = {"flow": f"#/flow/{flow}", "approval": f"#/approval/{operation}"}
    answers = {}
    for place in places.values():
        visit(browser, recourse, place)
        wait_until(lambda: "/status" in browser.ask("told"))
        answers |= browser.ask("told")
    answers = {path: json.loads(text) for path, text in answers.items() if path != "/session"}
    kept = {"now": now, "places": places, "answers": answers}
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


@pytest.fixture(scope="module")
def kept(browser, recourse, double):
    if "RECOURSE_KEEP_ANSWERS" in os.environ:
        keep(browser, recourse, double)
    return json.loads(KEPT.read_text())


class Asked:
    """A process as Described asks it."""

    def __init__(self, recourse):
        self.recourse = recourse

    def ask(self, method, target):
        status, value = self.recourse.ask(method, target)
        return status, {}, json.dumps(value)


def test_the_kept_answers_are_what_a_process_may_answer(recourse, kept):
    api = Described(Asked(recourse), None)
    for path, answer in kept["answers"].items():
        _, operation = api.find("GET", path)
        response = api.response(operation, 200)
        api.check(response["content"]["application/json"]["schema"], answer)


def is_in(seen, picture):
    seen.append(picture)
    return picture in seen[:-1]


def test_screenshots_change_with_the_page_alone(browser, recourse, kept, tmp_path):
    target = os.environ.get("RECOURSE_SCREENSHOTS")
    answers = {path: json.dumps(answer) for path, answer in kept["answers"].items()}
    for name, scene, shape in PICTURES:
        for scheme in ("light", "dark") if target else ("dark",):
            how = {**shape, "dark": scheme == "dark", "now": kept["now"], "answers": answers}
            place, file = kept["places"][scene], tmp_path / f"{name}.png"

            def taken(place=place, how=how, file=file):
                visit(browser, recourse, place, **how).is_clean()
                return shot(browser, file)

            if target:
                (pathlib.Path(target) / f"{name}-{scheme}.png").write_bytes(packed(taken()))
            elif shape is DESK:
                # On a busy machine the page may still be drawn in some of them.
                wait_until(lambda taken=taken, seen=[]: is_in(seen, taken()), seconds=3 * WAIT_MAX)
