"""Unchanged clients: curl, requests, fetch, axios, the Stripe SDK; and json-server as a backend."""

import json
import pathlib
import subprocess

import pytest
import requests

from support.recourse import WAIT_MAX, Recourse

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
POLICY = """\
version: 1
backends:
  rows: {{ url: "{url}", hosts: [ 127.0.0.1 ] }}
tools:
  rows.create: {{ match: POST rows /orders, effect: write,
                  scope: caller, external_ref: answer.body#/id,
                 undo: {{ request: "DELETE /orders/{{external_ref}}" }} }}
"""
STRIPE_POLICY = """\
version: 1
backends:
  stripe: {{ url: "{url}", hosts: [ 127.0.0.1 ], key_header: Idempotency-Key }}
tools:
  stripe.customer: {{ match: POST stripe /v1/customers, effect: write,
                     external_ref: answer.body#/id, undo: none, reason: customers stay }}
"""


class JsonServer:
    def __init__(self, directory):
        self.path = directory / "db.json"
        self.path.write_text('{"orders": []}')
        self.process = subprocess.Popen(
            ["node", str(CLIENTS / "json-server.mjs"), str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.port = int(self.process.stdout.readline())

    def rows(self):
        return json.loads(self.path.read_text())["orders"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(WAIT_MAX)
        self.process.stdout.close()


@pytest.fixture
def rows(packages, tmp_path):
    server = JsonServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def proxy(rows, tmp_path):
    policy = POLICY.format(url=f"http://127.0.0.1:{rows.port}")
    with Recourse(tmp_path / "recourse", policy) as running:
        yield running


def node(*arguments):
    ended = subprocess.run(
        ["node", str(CLIENTS / "call.mjs"), *arguments],
        capture_output=True, text=True, timeout=2 * WAIT_MAX, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    return answer["status"], answer["headers"], answer["body"]


def by_fetch(url, value):
    return node("fetch", url, json.dumps(value, separators=(",", ":")))


def by_axios(url, value):
    return node("axios", url, json.dumps(value))


def by_requests(url, value):
    answer = requests.post(url, json=value, timeout=WAIT_MAX)
    return answer.status_code, {k.lower(): v for k, v in answer.headers.items()}, answer.text


def by_curl(url, value):
    ended = subprocess.run(
        ["curl", "-sS", "-i", "-H", "Content-Type: application/json", "-d", json.dumps(value), url],
        capture_output=True, timeout=2 * WAIT_MAX, check=True,
    )  # fmt: skip
    head, _, body = ended.stdout.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split(" ")[1]), fields, body


CALLERS = {"curl": by_curl, "requests": by_requests, "fetch": by_fetch, "axios": by_axios}


@pytest.mark.parametrize("name", CALLERS)
def test_a_repeated_post_makes_one_row(proxy, rows, name):
    url = f"http://127.0.0.1:{proxy.port}/orders"
    value = {"customer": 7, "amount": 100, "note": "é"}
    first = CALLERS[name](url, value)
    again = CALLERS[name](url, value)
    assert first[0] == again[0] == 201
    assert first[2] == again[2] and json.loads(first[2])["note"] == "é"
    assert "idempotent-replayed" not in first[1] and again[1]["idempotent-replayed"] == "true"
    assert rows.rows() == [{**value, "id": 1}]


def test_other_clients_repeat_the_same_call(proxy, rows):
    """The same arguments in each library's own bytes and header fields are one call."""
    url = f"http://127.0.0.1:{proxy.port}/orders"
    answers = [call(url, {"amount": 1, "note": "é"}) for call in CALLERS.values()]
    assert len({body for _, _, body in answers}) == 1
    assert len(rows.rows()) == 1


def test_a_kill_between_two_posts_makes_one_row(proxy, rows):
    value = {"amount": 100}
    first = by_curl(f"http://127.0.0.1:{proxy.port}/orders", value)
    proxy.kill()
    proxy.start()
    again = by_curl(f"http://127.0.0.1:{proxy.port}/orders", value)
    assert first[2] == again[2] and again[1]["idempotent-replayed"] == "true"
    assert len(rows.rows()) == 1


def test_reads_see_the_backend(proxy, rows):
    url = f"http://127.0.0.1:{proxy.port}/orders"
    by_requests(url, {"amount": 1})
    with requests.Session() as session:
        for _ in range(3):
            assert session.get(url, timeout=WAIT_MAX).json() == [{"amount": 1, "id": 1}]
        assert session.get(url + "/9", timeout=WAIT_MAX).status_code == 404


def test_curl_sends_a_large_body_with_expect(proxy, rows, tmp_path):
    file = tmp_path / "large.json"
    file.write_text(json.dumps({"text": "x" * 1_500_000}))
    url = f"http://127.0.0.1:{proxy.port}/orders"
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H",
               "Content-Type: application/json", "--data-binary", f"@{file}", url]  # fmt: skip
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * WAIT_MAX, check=True
    )
    # json-server's own limit of request bodies answers 413, which must come through as it is.
    assert ended.stdout in ("201", "413")


def test_the_stripe_sdk_retries_a_lost_answer_into_one_effect(packages, double, tmp_path):
    """The backend executes and cuts the connection; the SDK repeats by itself, with its own key."""
    double.script("POST", "/v1/customers", ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, STRIPE_POLICY.format(url=double.url)) as proxy:
        status, _, body = node("stripe", f"http://127.0.0.1:{proxy.port}", "Ada")
        phases = [event["phase"] for event in proxy.events_for("/v1/customers")]
    (effect,) = double.effects("/v1/customers")
    assert status in (200, 201) and json.loads(body)["id"] == effect["id"]
    keys = {request["key"] for request in double.requests("/v1/customers")}
    assert len(keys) == 1 and None not in keys
    assert phases[0] == "DISPATCHING" and phases[-1] == "SUCCEEDED" and "UNCERTAIN" in phases


def test_two_calls_of_the_stripe_sdk_are_two_calls(packages, double, tmp_path):
    """The SDK makes a new key per call: the agent's own key says that these are two intents."""
    before = len(double.effects("/v1/customers"))
    with Recourse(tmp_path, STRIPE_POLICY.format(url=double.url)) as proxy:
        ids = set()
        for _ in range(2):
            _, _, body = node("stripe", f"http://127.0.0.1:{proxy.port}", "Grace")
            ids.add(json.loads(body)["id"])
    assert len(ids) == 2
    assert len(double.effects("/v1/customers")) - before == 2
