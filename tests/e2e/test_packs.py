"""The policy packs, each against a double of its API: a write, its retry, the undo of its flow."""

import pathlib
import secrets
import urllib.parse

import pytest

from support import apis, rawhttp
from support.recourse import ROOT, Recourse, run_cli
from support.waiting import wait_until

PACKS = sorted((ROOT / "policy/packs").glob("*.yaml"))
FORM = "application/x-www-form-urlencoded"
TOKEN = "Bearer canary-of-the-agent"
# Pack: the double, the url in the pack, and the name in it that agents use.
BACKENDS = {
    "stripe": (apis.Stripe, "https://api.stripe.com"),
    "github": (apis.GitHub, "https://api.github.com"),
    "slack": (apis.Slack, "https://slack.com"),
    "jira": (apis.Jira, "https://example.atlassian.net"),
    "google-calendar": (apis.Calendar, "https://www.googleapis.com"),
    "sendgrid": (apis.SendGrid, "https://api.sendgrid.com"),
}


class Packs:
    def __init__(self, recourse, doubles):
        self.recourse, self.doubles = recourse, doubles

    def call(self, pack, method, path, trace, body, **headers):
        host = urllib.parse.urlsplit(BACKENDS[pack][1]).netloc
        fields = {**rawhttp.traced(trace), "Authorization": TOKEN, "User-Agent": "agent", **headers}
        if isinstance(body, str):
            fields["Content-Type"], body = FORM, body.encode()
        return rawhttp.call(self.recourse.port, method, path, host=host, headers=fields, body=body)

    def twice(self, pack, path, trace, body):
        """A write and its retry, of which only the first reaches the API."""
        effects = len(self.doubles[pack].effects)
        first = self.call(pack, "POST", path, trace, body)
        assert first.status in (200, 201), first
        again = self.call(pack, "POST", path, trace, body)
        assert (again.status, again.body, again.replayed) == (first.status, first.body, True)
        assert len(self.doubles[pack].effects) == effects + 1
        return first.json()

    def cancel(self, pack, trace):
        answer = self.call(pack, "POST", "/cancel", trace, b"", **{"Recourse-Flow": "cancel"})
        assert answer.status == 202, answer

    def await_undone(self, trace, steps):
        wait_until(lambda: self.statuses(trace).count("COMPENSATED") == steps)

    def statuses(self, trace):
        return [event["status"] for event in self.recourse.events(trace=trace)]


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    doubles = {pack: make() for pack, (make, _) in BACKENDS.items()}
    directory = tmp_path_factory.mktemp("packs")
    recourse = Recourse(directory / "run", "", ["--log-level", "debug"])
    recourse.policy_path = directory / "policy"
    recourse.policy_path.mkdir()
    for pack, (_, url) in BACKENDS.items():
        text = (ROOT / f"policy/packs/{pack}.yaml").read_text()
        assert url in text
        (recourse.policy_path / f"{pack}.yaml").write_text(text.replace(url, doubles[pack].url))
    # So that the tests need not wait for the rate at which undo requests leave.
    (recourse.policy_path / "main.yaml").write_text(
        "version: 1\nflow_rules: { agents_may: [ cancel ], undos_per_second: 1000 }\n"
    )
    with recourse:
        yield Packs(recourse, doubles)
        assert recourse.stop() == 0, recourse.stderr()[-4000:]
    for double in doubles.values():
        double.stop()


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.stem)
def test_a_pack_is_a_policy_whose_tests_pass(pack):
    checked = run_cli("policy", "check", pack)
    assert checked.returncode == 0 and "error" not in checked.stdout, checked.stdout
    tested = run_cli("policy", "test", pack)
    assert tested.returncode == 0 and "0 tests" not in tested.stdout, tested.stdout
    assert pack.stem in BACKENDS


def test_all_packs_are_one_policy():
    checked = run_cli("policy", "check", ROOT / "policy/packs")
    assert checked.returncode == 0, checked.stdout


def test_stripe_charges_are_refunded_and_customers_deleted_in_reverse(packs, token):
    trace, stripe = secrets.token_hex(16), packs.doubles["stripe"]
    packs.twice("stripe", "/v1/customers", trace, f"email={token}%40example.com")
    packs.twice("stripe", "/v1/charges", trace, "amount=2000&currency=eur&metadata[order_id]=7")
    packs.cancel("stripe", trace)
    packs.await_undone(trace, 2)
    assert stripe.effects == ["customer", "charge", "refund", "delete customer"]


def test_a_charge_that_somebody_refunded_already_counts_as_undone(packs, token):
    trace, stripe = secrets.token_hex(16), packs.doubles["stripe"]
    charge = packs.twice("stripe", "/v1/charges", trace, "amount=5&currency=eur")
    refund = rawhttp.call(
        int(stripe.url.rsplit(":", 1)[1]), "POST", "/v1/refunds",
        headers={"Authorization": TOKEN, "Content-Type": FORM},
        body=f"charge={charge['id']}".encode(),
    )  # fmt: skip
    assert refund.status == 200
    effects = list(stripe.effects)
    packs.cancel("stripe", trace)
    packs.await_undone(trace, 1)
    assert stripe.effects == effects


def test_a_charge_whose_answer_was_lost_is_sent_again_under_the_same_key(packs, token):
    trace, stripe = secrets.token_hex(16), packs.doubles["stripe"]
    effects = len(stripe.effects)
    stripe.lose_answers = 1
    lost = packs.call("stripe", "POST", "/v1/charges", trace, "amount=7&currency=eur")
    assert lost.status == 502, lost
    again = packs.call("stripe", "POST", "/v1/charges", trace, "amount=7&currency=eur")
    assert again.status == 200 and again.json()["id"].startswith("ch_"), again
    assert stripe.effects[effects:] == ["charge"]


def test_github_comments_are_deleted_and_issues_closed_in_reverse(packs, token):
    trace, github = secrets.token_hex(16), packs.doubles["github"]
    issue = packs.twice("github", "/repos/acme/shop/issues", trace, {"title": token})
    number = issue["number"]
    packs.twice("github", f"/repos/acme/shop/issues/{number}/comments", trace, {"body": "again"})
    packs.cancel("github", trace)
    packs.await_undone(trace, 2)
    assert github.effects == ["issue", "comment", "delete comment", "closed as not_planned"]


def test_slack_messages_are_deleted_in_the_channel_that_the_answer_named(packs, token):
    trace, slack = secrets.token_hex(16), packs.doubles["slack"]
    for text in ("first", "second"):
        packs.twice(
            "slack", "/api/chat.postMessage", trace, {"channel": "#general", "text": text}
        )
    gone = next(key for key in slack.things if slack.things[key] == "second")
    del slack.things[gone]  # message_not_found, with a status of 200, is as good as done
    packs.cancel("slack", trace)
    packs.await_undone(trace, 2)
    assert slack.effects == ["message", "message", "delete message"]
    assert slack.things == {}


def test_a_slack_error_is_a_refusal_though_its_status_is_200(packs, token):
    trace = secrets.token_hex(16)
    answer = packs.call(
        "slack", "POST", "/api/chat.postMessage", trace, {"channel": "nowhere", "text": token}
    )
    assert answer.status == 200 and answer.json()["error"] == "channel_not_found", answer
    assert packs.recourse.events(trace=trace)[-1]["phase"] == "REJECTED"


def test_jira_comments_and_issues_are_deleted_in_reverse(packs, token):
    trace, jira = secrets.token_hex(16), packs.doubles["jira"]
    fields = {"project": {"key": "SHOP"}, "issuetype": {"name": "Bug"}, "summary": token}
    issue = packs.twice("jira", "/rest/api/3/issue", trace, {"fields": fields})
    comments = f"/rest/api/3/issue/{issue['key']}/comment"
    packs.twice("jira", comments, trace, {"body": {"type": "doc"}})
    packs.cancel("jira", trace)
    # The issue is deleted by its id, as the double knows it too.
    packs.await_undone(trace, 2)
    assert jira.effects == ["issue", "comment", "delete comment", "delete issue"]


def test_a_calendar_event_is_found_again_by_its_own_id_and_deleted(packs, token):
    trace, calendar = secrets.token_hex(16), packs.doubles["google-calendar"]
    path, event = "/calendar/v3/calendars/team%40example.com/events", {"id": "standup2026047"}
    calendar.lose_answers = 1
    first = packs.call("google-calendar", "POST", path, trace, event)
    found = first if first.status == 200 else None

    def answered():
        answer = packs.call("google-calendar", "POST", path, trace, event)
        return answer if answer.status == 200 else None

    found = found or wait_until(answered)
    assert event["id"] in found.body.decode(), found
    packs.cancel("google-calendar", trace)
    packs.await_undone(trace, 1)
    assert calendar.effects == ["event", "delete event"]
    assert any("sendUpdates=all" in path for method, path, _ in calendar.requests)


def test_mail_waits_for_a_human_and_is_not_sent(packs, token):
    mail = {"subject": token, "template_id": "t"}
    answer = packs.call("sendgrid", "POST", "/v3/mail/send", secrets.token_hex(16), mail)
    assert answer.status == 202 and answer.json()["status"] == "pending_approval", answer
    assert packs.doubles["sendgrid"].effects == []


def test_the_agents_token_is_on_every_undo_and_nowhere_else(packs):
    """Runs last: what the tests above left on disk, in logs and in exports."""
    undos = [
        headers
        for double in packs.doubles.values()
        for method, path, headers in double.requests
        if method in ("DELETE", "PATCH") or path in ("/v1/refunds", "/api/chat.delete")
    ]
    assert len(undos) >= 9
    assert {headers["Authorization"] for headers in undos} == {TOKEN}
    secret = TOKEN.split()[1]
    exported = packs.recourse.cli("ledger", "export", "--with-answers").stdout
    assert "[credential]" in exported and secret not in exported
    assert secret not in str(packs.recourse.events())
    assert secret not in packs.recourse.stdout() + packs.recourse.stderr()
    for file in pathlib.Path(packs.recourse.data).rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file
