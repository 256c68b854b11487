"""Approved calls that are sent with a mounted secret in place of the agent's own credentials."""

import hashlib

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.browser import Browser
from support.desk import Approver
from support.policies import standard
from support.recourse import CRASH_POINTS, run_cli
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RULES = """\
  mail.send:
    match: POST shop /mail/{{token}}
    effect: write
    undo: none
    approval:
      by: [ finance ]
      hold: 50ms
      credentials: {{ Authorization: {{ file: {secret}, prefix: "Bearer " }} }}
"""


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "mail-token"
    file.write_text("canary-first\n")
    return file


def policy_of(double, secret):
    return standard(double, extra_tools=RULES.format(secret=secret))


@pytest.fixture
def proxy(double, secret, tmp_path):
    with Staffed(tmp_path / "recourse", policy_of(double, secret)) as running:
        yield running
        assert running.verify()["ok"]
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.stop()


def ask(proxy, path):
    """The operation of a call that now waits for a human."""
    fields = {**rawhttp.traced(TRACE), "Authorization": "Bearer canary-of-the-agent"}
    told = rawhttp.call(proxy.port, "POST", path, headers=fields, body={"to": "ada"})
    assert told.status == 202, told
    return told.json()["operation"]


def sent(double, path):
    """The Authorization of what the backend got, once it got something."""
    double.await_effects(path)
    (request,) = double.requests(path)
    return [value for name, value in request["headers"] if name.lower() == "authorization"]


def ended(proxy, operation):
    wait_until(lambda: proxy.shown(operation)["status"] == "finished")


def test_the_secret_is_read_when_the_call_is_sent_and_stands_nowhere_else(
    proxy, double, secret, token
):
    path = f"/mail/{token}"
    operation = ask(proxy, path)
    secret.write_text("canary-rotated\n")
    before = proxy.shown(operation)
    assert before["credentials"] == ["Authorization"]
    by_hand = proxy.by_hand("ann", "show", str(operation)).stdout
    assert "\n  Authorization: the policy's own, in place of the agent's\n" in by_hand
    assert proxy.approve(operation)[0] == 200
    assert sent(double, path) == ["Bearer canary-rotated"]
    ended(proxy, operation)
    shown = str([before, proxy.shown(operation), proxy.waiting()])
    shown += proxy.by_hand("ann", "show", str(operation)).stdout
    shown += proxy.cli("ledger", "export", "--with-answers").stdout
    shown += proxy.cli("events", "list").stdout + proxy.stdout() + proxy.stderr()
    assert "canary" not in shown
    for file in proxy.data.rglob("*"):
        assert not file.is_file() or b"canary-" not in file.read_bytes(), file


def test_whoever_decides_in_the_browser_sees_what_it_is_sent_with_and_why_it_is_not(
    proxy, double, secret, browser, token
):
    path = f"/mail/{token}"
    operation = ask(proxy, path)
    secret.unlink()
    person = Approver(browser, proxy).look_at(operation)
    browser.wait('.card:has-text("policy\'s own Authorization in place of the agent\'s")')
    person.click("Approve")
    person.confirm("seen")
    browser.wait('.badge:has-text("Approved")')
    wait_until(lambda: "not sent yet" in proxy.shown(operation)["detail"])
    person.log_in(f"#/approval/{operation}")
    browser.wait(f'.reason:has-text("cannot open {secret}")')
    person.is_clean()
    secret.write_text("canary-late\n")
    assert sent(double, path) == ["Bearer canary-late"]


def test_an_edited_call_is_sent_with_it_too(proxy, double, token):
    path = f"/mail/{token}"
    operation = ask(proxy, path)
    edited = '{"to": "eve"}'
    assert proxy.approve(operation, body=edited)[0] == 200
    assert sent(double, path) == ["Bearer canary-first"]
    assert double.requests(path)[0]["body_sha256"] == hashlib.sha256(edited.encode()).hexdigest()


def test_without_its_file_it_waits_says_why_and_is_sent_once_the_file_is_there(
    proxy, double, secret, token
):
    path = f"/mail/{token}"
    operation = ask(proxy, path)
    secret.rename(secret.with_suffix(".away"))
    assert proxy.approve(operation)[0] == 200
    why = f"not sent yet: its credential Authorization: cannot open {secret}"
    wait_until(lambda: why in proxy.shown(operation)["detail"])
    assert proxy.shown(operation)["status"] == "approved"
    assert why in proxy.waiting()[0]["detail"]
    assert why in proxy.by_hand("ann", "show", str(operation)).stdout
    assert str(secret) in proxy.stderr()
    assert double.requests(path) == []
    secret.write_text("canary-mounted-late\n")
    assert sent(double, path) == ["Bearer canary-mounted-late"]
    ended(proxy, operation)
    assert "not sent yet" not in proxy.shown(operation)["detail"]


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_killed_right_after_the_approval_it_is_sent_with_the_secret_of_then(
    double, secret, tmp_path, token
):
    path = f"/mail/{token}"
    with Staffed(tmp_path / "recourse", policy_of(double, secret)) as running:
        running.kill()
        running.start(env={"RECOURSE_CRASH_POINT": "k16:1"})
        operation = ask(running, path)
        try:
            running.approve(operation)
        except OSError:
            pass  # the process was killed before it could answer
        wait_until(lambda: not running.running())
        assert double.requests(path) == []
        secret.write_text("canary-after-the-kill\n")
        running.start()
        assert sent(double, path) == ["Bearer canary-after-the-kill"]
        ended(running, operation)
        assert running.verify()["ok"]


def test_policy_check_names_the_place_of_a_file_that_cannot_be_used(double, secret, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_of(double, secret))
    assert run_cli("policy", "check", policy).returncode == 0
    secret.write_text("")
    refused = run_cli("policy", "check", policy)
    assert refused.returncode == 3
    number, column = next(
        (number, 1 + line.index("file: "))
        for number, line in enumerate(policy.read_text().splitlines(), 1)
        if str(secret) in line
    )
    key = "tools.mail.send.approval.credentials.Authorization.file"
    assert f"{policy}:{number}:{column}: error: {key}: {secret} is empty" in refused.stdout
