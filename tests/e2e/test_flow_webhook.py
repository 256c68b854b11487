"""A flow that needs a human is told to the policy's webhook: signed, until it is taken."""

import hashlib
import hmac
import http.server
import json
import re
import threading
import time

import pytest

from support.recourse import Recourse
from test_flow_commands import POLICY, Shop, metrics, wait_until

SECRET = "whsec-of-the-tests"


class Hook:
    """Takes every POST; the next ones are answered with `refusals` first."""

    def __init__(self):
        self.posts, self.refusals = [], []
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.posts.append((self.path, self.headers, body))
                self.send_response(hook.refusals.pop(0) if hook.refusals else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/recourse"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, flow):
        told = [(path, headers, body) for path, headers, body in self.posts]
        return [post for post in told if json.loads(post[2])["number"] == flow["number"]]


@pytest.fixture
def hook():
    server = Hook()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def shop(double, hook, tmp_path):
    secret = tmp_path / "hook-secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    policy = POLICY.format(url=double.url)
    policy += f'flow_rules: {{ webhook: {{ url: "{hook.url}", secret_file: "{secret}" }} }}\n'
    with Recourse(tmp_path / "recourse", policy) as running:
        yield Shop(running, double)


def test_a_parked_flow_is_told_with_a_signature_that_only_the_secret_can_make(shop, hook, token):
    flow = shop.park(token)
    ((path, headers, body),) = wait_until(lambda: hook.of(flow))
    assert path == "/hooks/recourse" and headers["Content-Type"] == "application/json"
    at, given = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["Recourse-Signature"]).groups()
    made = hmac.new(SECRET.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert given == made and abs(time.time() - int(at)) < 3600
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
