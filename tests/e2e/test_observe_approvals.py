"""Observe mode and approvals: ordinary agents are served at once, nobody is asked, and the report
says, as text, JSON, API and page, which calls would have waited for a human."""

import json
import subprocess
import sys

import pytest

from support.browser import CLIENTS, Browser
from support.desk import Desk
from support.policies import observed
from support.recourse import WAIT_MAX, Recourse
from support.waiting import wait_until

AGENTS = {
    "python": [sys.executable, CLIENTS / "mail_agent.py"],
    "node": ["node", CLIENTS / "mail_agent.mjs"],
}


@pytest.fixture
def proxy(double, tmp_path):
    with Recourse(tmp_path / "observe", observed(double.url)) as running:
        yield running
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture
def desk(proxy):
    browser = Browser()
    yield Desk(browser, proxy)
    browser.stop()


def sends(language, proxy, path, **more):
    """What an agent's script that knows nothing of Recourse says about its mail."""
    url = f"http://127.0.0.1:{proxy.port}{path}"
    command = [*AGENTS[language], url, json.dumps({"to": "ada@example.com", **more})]
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True,
                           timeout=3 * WAIT_MAX, check=True)  # fmt: skip
    return json.loads(ended.stdout)


def test_a_call_that_would_wait_for_a_human_goes_on_and_is_reported(proxy, double, desk, token):
    paths = {language: f"/mail/{token}-{language}" for language in AGENTS}
    for language, path in paths.items():
        said = sends(language, proxy, path)
        assert (said["status"], said["told"]) == (201, [201]), said
        (mail,) = double.effects(path)
        assert mail["id"] in json.dumps(said["result"])
    wait_until(lambda: all(one["status"] == "SUCCESS" for path in paths.values()
                           for one in proxy.events_for(path)[-1:]))  # fmt: skip
    first = proxy.events_for(paths["python"])[0]["operation"]
    assert proxy.admin("GET", "/approvals")["approvals"] == [], "nobody is asked"

    held = [{"tool": "mail.send", "verdict": "would_hold", "calls": 2, "example": first}]
    for report in (proxy.admin("GET", "/report"), json.loads(proxy.cli("report", "--json").stdout)):
        assert report["mode"] == "observe" and report["calls"] == 2
        assert report["held"] == held and report["verdicts"] == {"would_hold": 2}
    text = proxy.cli("report").stdout
    assert "Enforce would have said: would_hold 2\n" in text
    table = text.split("Calls that would have waited for a human\n")[1].split("\n")
    assert table[0].split() == ["TOOL", "CALLS", "VERDICT", "EXAMPLE"]
    assert table[1].split() == ["mail.send", "2", "would_hold", str(first)]

    desk.log_in("#/duplicates?since=")
    heading = 'section:has(h2:has-text("Would have waited for a human"))'
    desk.browser.wait(heading)
    assert desk.browser.text(f"{heading} tbody").split() == \
        ["mail.send", "2", "would", "hold", str(first)]  # fmt: skip
    desk.is_clean()


def test_only_what_the_conditions_of_an_approval_select_is_among_them(double, tmp_path, token):
    rule = "by: [ team-support ]"
    policy = observed(double.url).replace(rule, f"{rule}, when: body#/amount > 1000")
    assert "amount" in policy
    with Recourse(tmp_path / "observe", policy) as running:
        assert sends("python", running, f"/mail/{token}-small", amount=1000)["status"] == 201
        assert sends("python", running, f"/mail/{token}-large", amount=1000.01)["status"] == 201
        wait_until(lambda: running.admin("GET", "/report")["calls"] == 2)
        report = running.admin("GET", "/report")
        assert report["verdicts"] == {"fresh": 1, "would_hold": 1}
        (held,) = report["held"]
        (large,) = {one["operation"] for one in running.events_for(f"/mail/{token}-large")}
        assert (held["calls"], held["example"]) == (1, large)
