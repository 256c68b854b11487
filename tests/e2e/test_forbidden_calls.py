"""Calls that `deny` and `allow` of their tool forbid: the agent is told why, nobody else hears of
them, no approver can lift it, and observe mode says what would be refused."""

import json

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.forward import metric
from support.keyed_apis import Square
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

POLICY = """\
version: 1
mode: {mode}
backends: {{ api: {{ url: "{url}", hosts: [ api.test ] }} }}
tools:
  pay:
    match: POST api /v2/payments
    effect: write
    identity: body#/idempotency_key
    deny: [ body#/amount > 10000, header.X-Live == false ]
    allow: 'body#/currency == "EUR"'
    undo: none
    {more}
"""
REASON = "reason: a test"
APPROVAL = "approval: { by: [ finance ], hold: 0s }"


@pytest.fixture
def square():
    api = Square()
    yield api
    api.stop()


def policy(api, mode="enforce", more=REASON):
    return POLICY.format(url=api.url, mode=mode, more=more)


def pay(process, body, **fields):
    headers = {**rawhttp.traced("a" * 32), "Authorization": "Bearer t", **fields}
    body = {"idempotency_key": "k1", "currency": "EUR", **body}
    return rawhttp.call(process.port, "POST", "/v2/payments", host="api.test",
                        headers=headers, body=body)  # fmt: skip


@pytest.mark.parametrize(
    "body, fields, why",
    [
        ({"amount": 10000.01}, {}, "denies body#/amount > 10000 for pay"),
        ({"amount": 1e9}, {}, "denies body#/amount > 10000 for pay"),
        ({"amount": "99999"}, {}, "denies body#/amount > 10000 for pay, which cannot be evaluated"),
        ({"amount": None}, {}, "denies body#/amount > 10000 for pay, which cannot be evaluated"),
        ({"amount": 1}, {"X-Live": "false"}, "denies header.X-Live == false for pay"),
        ({"amount": 1, "currency": "USD"}, {}, 'allows only body#/currency == "EUR" for pay'),
        ({"amount": 1, "currency": ["EUR"]}, {}, "which cannot be evaluated on this call"),
    ],
)
def test_a_forbidden_call_is_refused_with_the_reason_and_remembered_nowhere(
    square, tmp_path, body, fields, why
):
    with Recourse(tmp_path, policy(square)) as running:
        answer = pay(running, body, **fields)
        told = answer.json()
        assert (answer.status, answer.outcome) == (403, "rejected"), answer
        assert told["type"].endswith("/denied") and why in told["detail"], told
        assert running.events() == [] and square.requests == []
        line = running.await_log(lambda line: line["status"] == 403)[0]
        assert line["tool"] == "pay"
        assert metric(running, "recourse_idempotency_total", tool="pay", result="forbidden") == 1
        # What is mended is another try of the same call.
        assert pay(running, {"amount": 10000}).status == 200
        assert pay(running, {}).status == 422, "the same key with other arguments"
        assert square.effects == ["payment"]


@pytest.mark.parametrize("twin", ['"Amount":20000', '"amount":5,"amount":20000'])
def test_no_other_spelling_gets_around_it(square, tmp_path, twin):
    body = '{"idempotency_key":"k1","currency":"EUR","amount":1,%s}' % twin
    with Recourse(tmp_path, policy(square)) as running:
        answer = rawhttp.call(
            running.port, "POST", "/v2/payments", host="api.test", body=body.encode(),
            headers={"Authorization": "Bearer t", "Content-Type": "application/json"},
        )  # fmt: skip
        assert (answer.status, square.requests) == (400, []), answer


def test_no_human_is_asked_about_it_and_none_can_edit_it_in(square, tmp_path):
    with Staffed(tmp_path, policy(square, more=APPROVAL)) as running:
        assert pay(running, {"amount": 20000}).status == 403
        assert running.waiting() == []
        assert pay(running, {"amount": 20}).status == 202
        (waiting,) = running.waiting()
        edited = {"idempotency_key": "k1", "currency": "EUR", "amount": 20000}
        status, told = running.approve(waiting["operation"], body=json.dumps(edited))
        assert status == 422 and "denies body#/amount > 10000" in told["detail"], told
        assert square.requests == []
        status, _ = running.approve(waiting["operation"], body=json.dumps({**edited, "amount": 2}))
        assert status == 200
        wait_until(lambda: square.effects == ["payment"], lambda: square.effects)


def test_observe_mode_says_what_would_be_refused(square, tmp_path):
    with Recourse(tmp_path, policy(square, mode="observe")) as running:
        assert pay(running, {"amount": 20000}).status == 200
        wait_until(running.events, "an event")
        event = running.events()[-1]
        assert event["verdict"] == "would_refuse"
        assert event["detail"].startswith("denied: the policy denies body#/amount > 10000"), event
        name = 'recourse_refusals_to_come_total{effect="write",reason="denied"}'
        wait_until(lambda: name in running.probe("/metrics")[1])


def test_the_commands_know_it(square, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(policy(square) + """\
tests:
  - { call: "POST api /v2/payments", body: { amount: 20000, currency: EUR },
      expect: { refused: denied } }
  - { call: "POST api /v2/payments", body: { amount: 2, currency: EUR }, expect: { tool: pay } }
""")  # fmt: skip
    assert run_cli("policy", "test", path).returncode == 0
    said = run_cli("policy", "explain", path, "POST http://api.test/v2/payments",
                   "--body", '{"amount": 20000, "currency": "EUR"}').stdout  # fmt: skip
    assert "denies body#/amount > 10000" in said, said
    path.write_text(policy(square).replace("body#/amount > 10000", "answer.body#/amount > 1"))
    said = run_cli("policy", "check", path).stdout
    assert "tools.pay.deny" in said and "only the request is known here" in said, said
