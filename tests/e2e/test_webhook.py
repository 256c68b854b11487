"""What needs a human is told to the policy's webhook: signed, until it is taken, and no call waits
for that."""

import hashlib
import hmac
import http.server
import json
import re
import threading
import time

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.certificates import Maker
from support.recourse import Recourse, run_cli
from support.secure import server_context
from support.waiting import wait_until
from test_flow_commands import POLICY, Shop, metrics

SECRET = "whsec-of-the-tests"
APPROVED = """\
version: 1
backends:
  bank: {{ url: "{url}", hosts: [ bank.test ], timeout: 60s, connect_timeout: 30s }}
tools:
  bank.pay:
    match: POST bank /pay/{{token}}
    effect: write
    undo: none
    approval: {{ by: [ finance ], expires: 10m, hold: 100ms }}
flow_rules: {{ webhook: {{ url: "{hook}", {words} }} }}
"""


class Hook:
    """Takes every POST; the next ones are answered with `refusals` first. Nobody is answered
    before `may_answer` is set."""

    def __init__(self, context=None):
        self.posts, self.refusals = [], []
        self.may_answer = threading.Event()
        self.may_answer.set()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.posts.append((self.path, self.headers, body))
                hook.may_answer.wait()
                self.send_response(hook.refusals.pop(0) if hook.refusals else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http" if context is None else "https"
        if context is not None:
            plain = self.server.socket
            self.server.socket = context.wrap_socket(plain, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}/hooks/recourse"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, flow):
        return self.about(flow["number"])

    def about(self, number):
        return [post for post in list(self.posts) if json.loads(post[2])["number"] == number]

    def close(self):
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook():
    server = Hook()
    yield server
    server.close()


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "hook-secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    return file


def check_signature(headers, body):
    at, given = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["Recourse-Signature"]).groups()
    made = hmac.new(SECRET.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert given == made


def ask(proxy, token):
    """A call that waits for approval: its operation, as the agent is told."""
    answer = rawhttp.call(proxy.port, "POST", f"/pay/{token}", host="bank.test", body={"sum": 7})
    assert answer.status == 202, answer
    return json.loads(answer.body)["operation"]


def of_approvals(double, hook, words):
    return APPROVED.format(url=double.url, hook=hook.url, words=words)


@pytest.fixture
def shop(double, hook, secret, tmp_path):
    policy = POLICY.format(url=double.url)
    policy += f'flow_rules: {{ webhook: {{ url: "{hook.url}", secret_file: "{secret}" }} }}\n'
    with Recourse(tmp_path / "recourse", policy) as running:
        yield Shop(running, double)


def test_a_parked_flow_is_told_with_a_signature_that_only_the_secret_can_make(shop, hook, token):
    flow = shop.park(token)
    ((path, headers, body),) = wait_until(lambda: hook.of(flow))
    assert path == "/hooks/recourse" and headers["Content-Type"] == "application/json"
    check_signature(headers, body)
    told = json.loads(body)
    assert told["type"] == "flow.needs_human" and told["phase"] == "NEEDS_HUMAN"
    assert (told["flow"], told["caller"]) == (flow["flow"], "local")
    assert "422" in told["reason"]
    assert [step["tool"] for step in told["steps"]] == ["orders.create", "payments.charge"]
    assert told["command"] == f"recourse flows show {flow['number']}"


def test_a_chat_is_told_in_its_own_form_and_nothing_in_it_is_markup(double, hook, tmp_path, token):
    policy = POLICY.format(url=double.url)
    policy += f'flow_rules: {{ webhook: {{ url: "{hook.url}", format: slack }} }}\n'
    with Recourse(tmp_path / "recourse", policy) as running:
        flow = Shop(running, double).park(token)
        ((_, headers, body),) = wait_until(lambda: list(hook.posts))
    assert "Recourse-Signature" not in headers
    told = json.loads(body)
    assert told["text"] == "Recourse: a flow needs a human" and told["mrkdwn"] is False
    (block,) = told["blocks"]
    assert block["type"] == "section" and block["text"]["type"] == "plain_text"
    lines = block["text"]["text"].splitlines()
    assert f"flow: {flow['flow']}" in lines and "caller: local" in lines
    assert lines[-1] == f"See: recourse flows show {flow['number']}"


def test_news_that_was_not_taken_is_told_again_until_it_is(shop, hook, token):
    hook.refusals = [500, 503]
    flow = shop.park(token)
    wait_until(lambda: len(hook.of(flow)) == 3)
    text = shop.recourse.probe("/metrics")[1]
    assert 'recourse_webhooks_total{result="failed"} 2' in text
    wait_until(lambda: 'result="taken"} 1' in shop.recourse.probe("/metrics")[1])


def test_flows_that_are_parked_are_told_again_after_a_restart(shop, hook, token):
    flow = shop.park(token)
    wait_until(lambda: len(hook.of(flow)) == 1)
    shop.recourse.kill()
    shop.recourse.start()
    wait_until(lambda: len(hook.of(flow)) == 2)
    since = "recourse_flows_parked_oldest_timestamp_seconds"
    assert 0 < metrics(shop.recourse)[since] <= time.time()
    shop.flows("close", flow["number"], "--reason", "seen")
    assert metrics(shop.recourse)[since] == 0
    other = shop.park(f"{token}-other")
    wait_until(lambda: len(hook.of(other)) == 1)
    shop.recourse.kill()
    shop.recourse.start()
    wait_until(lambda: len(hook.of(other)) >= 2)
    assert len(hook.of(flow)) == 2


def test_a_call_that_waits_for_approval_is_told_and_told_again_until_it_is_taken(
    double, hook, secret, token, tmp_path
):
    hook.refusals = [500]
    policy = of_approvals(double, hook, f'secret_file: "{secret}"')
    with Staffed(tmp_path / "recourse", policy) as proxy:
        operation = ask(proxy, token)
        wait_until(lambda: len(hook.about(operation)) >= 2)
        first, second = hook.about(operation)[:2]
        assert first[2] == second[2]
        for _, headers, body in (first, second):
            check_signature(headers, body)
        told = json.loads(second[2])
        shown = proxy.shown(operation)
        assert (told["type"], told["tool"]) == ("approval.needed", "bank.pay")
        assert (told["by"], told["needs"], told["digest"]) == (["finance"], 1, shown["digest"])
        assert told["expires"] > told["since"]
        assert told["command"] == f"recourse approvals show {operation}"
        assert token not in second[2].decode(), "the path stays sealed"


def test_an_approval_is_told_to_a_chat_in_its_own_form(double, hook, token, tmp_path):
    with Staffed(tmp_path / "recourse", of_approvals(double, hook, "format: slack")) as proxy:
        operation = ask(proxy, token)
        _, headers, body = wait_until(lambda: list(hook.posts))[0]
    assert "Recourse-Signature" not in headers
    told = json.loads(body)
    assert told["text"] == "Recourse: a call waits for approval"
    lines = told["blocks"][0]["text"]["text"].splitlines()
    assert "tool: bank.pay" in lines and "asked: finance" in lines
    assert lines[-1] == f"See: recourse approvals show {operation}"


def cloud_event(post):
    """Its `data`, once the envelope is what CloudEvents 1.0 asks of structured mode."""
    _, headers, body = post
    assert headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    check_signature(headers, body)
    event = json.loads(body)
    assert event["specversion"] == "1.0" and event["datacontenttype"] == "application/json"
    # Attribute names are lower-case letters and digits; these are all strings, and none is empty.
    for name, value in event.items():
        assert re.fullmatch(r"[a-z0-9]{1,20}", name)
        assert name == "data" or (isinstance(value, str) and value), name
    assert re.fullmatch(r"/recourse/ledgers/[0-9a-f]{64}", event["source"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])
    assert event["type"] == "recourse." + event["data"]["type"]
    return event


def test_news_are_told_as_cloud_events_whose_id_stays_when_they_are_told_again(
    double, hook, secret, token, tmp_path
):
    hook.refusals = [500]
    words = f'secret_file: "{secret}", format: cloudevents'
    with Staffed(tmp_path / "recourse", of_approvals(double, hook, words)) as proxy:
        operation = ask(proxy, token)
        posts = wait_until(lambda: len(hook.posts) >= 2 and list(hook.posts))
        ask(proxy, f"{token}-other")
        other = cloud_event(wait_until(lambda: len(hook.posts) >= 3 and hook.posts[2]))
    first, again = cloud_event(posts[0]), cloud_event(posts[1])
    assert first == again and first["type"] == "recourse.approval.needed"
    assert (first["subject"], first["data"]["number"]) == (str(operation), operation)
    assert first["data"]["tool"] == "bank.pay" and token not in posts[0][2].decode()
    assert other["id"] != first["id"] and other["source"] == first["source"]


def test_a_receiver_that_never_answers_holds_no_call_and_no_decision(
    double, hook, secret, token, tmp_path
):
    hook.may_answer.clear()
    policy = of_approvals(double, hook, f'secret_file: "{secret}"')
    with Staffed(tmp_path / "recourse", policy) as proxy:
        operation = ask(proxy, token)
        wait_until(lambda: hook.about(operation))
        other = ask(proxy, f"{token}-other")  # asked while the receiver has not answered
        for one in (operation, other):
            status, answer = proxy.approve(one)
            assert status == 200, answer
        proxy.await_phase(f"/pay/{token}", "SUCCEEDED")
        proxy.await_phase(f"/pay/{token}-other", "SUCCEEDED")


def test_a_webhook_over_tls_is_verified_against_its_own_ca(double, secret, token, tmp_path):
    maker, stranger = Maker(tmp_path / "ca"), Maker(tmp_path / "stranger")
    context = server_context(maker.issue("hook"))
    hook, untrusted = Hook(context), Hook(context)
    try:
        words = f'secret_file: "{secret}", ca_file: "{maker.cert}"'
        with Staffed(tmp_path / "recourse", of_approvals(double, hook, words)) as proxy:
            operation = ask(proxy, token)
            _, headers, body = wait_until(lambda: hook.about(operation))[0]
            check_signature(headers, body)
        words = f'secret_file: "{secret}", ca_file: "{stranger.cert}"'
        with Staffed(tmp_path / "other", of_approvals(double, untrusted, words)) as proxy:
            ask(proxy, f"{token}-other")
            refused = "the webhook did not take the news"
            wait_until(lambda: refused in proxy.stderr())
            (line, *_) = [one for one in proxy.stderr().splitlines() if refused in one]
            assert "certificate" in line and "approval" in line, line
        assert untrusted.posts == [], "nothing is told to whom it cannot trust"
    finally:
        hook.close()
        untrusted.close()


def test_a_ca_file_that_cannot_be_used_is_refused_before_it_is_needed(
    double, hook, secret, tmp_path
):
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        of_approvals(double, hook, f'secret_file: "{secret}", ca_file: "{secret}"').replace(
            "http://127.0.0.1", "https://127.0.0.1"
        )
    )
    run = run_cli("policy", "check", policy)
    assert run.returncode == 3 and "flow_rules.webhook.ca_file" in run.stdout + run.stderr
