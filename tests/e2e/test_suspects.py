"""Calls that may be repeats, where the policy has a human judge that: what the same intent under
another trace, and other arguments under the same key, come to."""

import secrets

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.policies import standard
from support.recourse import Recourse
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
THIRD = "e" * 32
RULES = """\
  pay.out:
    match: POST shop /pay/{token}
    effect: write
    identity: [ path.token, body#/order ]
    across_traces: ask
    on_mismatch: ask
    undo: none
    reason: a row of a test is never undone
    approval: { by: [ finance ], when: suspected, expires: 1h, hold: 100ms }
  pay.keyed:
    match: POST keyed /keyed/{token}/pay
    effect: write
    on_mismatch: ask
    undo: none
    reason: a row of a test is never undone
    approval: { by: [ finance ], when: suspected, hold: 100ms, answer: 409 }
  pay.brief:
    match: POST shop /brief/{token}
    effect: write
    identity: [ path.token ]
    on_mismatch: ask
    undo: none
    reason: a row of a test is never undone
    approval: { by: [ finance ], when: suspected, expires: 300ms, hold: 10m }
  pay.unasked:
    match: POST shop /unasked/{token}
    effect: write
    across_traces: ask
    undo: none
    reason: a row of a test is never undone
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = standard(double, extra_tools=RULES)
    with Staffed(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.verify()["ok"]
        assert running.stop() == 0, running.stderr()[-4000:]


def call(proxy, path, body, headers, host="shop.test"):
    return rawhttp.call(
        proxy.port, "POST", path, host=host, headers=headers, body=body
    )


def send(proxy, path, amount, trace=TRACE, host="shop.test", **fields):
    body = {"order": path, "amount": amount}
    return call(proxy, path, body, {**rawhttp.traced(trace), **fields}, host)


def executed(proxy, path, amount, *more, **fields):
    """The answer once there is one: what a person approved may still be on its way."""
    return wait_until(
        lambda: (told := send(proxy, path, amount, *more, **fields)).status == 201 and told
    )


def under_another_trace(proxy, path, amount):
    """(trace, answer) of the same call under a trace of its own. Ever new ones: until the ledger
    knows that the first answer has arrived, a call under another trace is a retry of it."""

    def no_retry():
        trace = secrets.token_hex(16)
        answer = send(proxy, path, amount, trace)
        assert answer.status != 201 or answer.replayed, answer
        return answer.status != 201 and (trace, answer)

    return wait_until(no_retry, "every call is a retry")


def test_the_same_payment_under_another_trace_waits_for_a_human(proxy, double, token):
    path = f"/pay/{token}"
    first = send(proxy, path, 5)
    assert first.status == 201
    other, told = under_another_trace(proxy, path, 5)
    assert told.status == 202, told
    document = told.json()
    assert "looks like a repeat of an earlier call, event" in document["message"]
    (waiting,) = proxy.await_waiting(path)
    shown = proxy.shown(waiting["operation"])
    original = proxy.events_for(path)[0]["operation"]
    assert f"suspected duplicate: operation {original}, which is SUCCEEDED" in shown["why"]
    assert "under another trace" in proxy.by_hand("ann", "show", str(waiting["operation"])).stdout
    # No second question: neither its own repeat, nor the same under a third trace.
    for trace in (other, THIRD):
        assert send(proxy, path, 5, trace).json()["operation"] == waiting["operation"]
    assert len(double.effects(path)) == 1
    assert proxy.approve(waiting["operation"])[0] == 200
    double.await_effects(path, 2)
    again = executed(proxy, path, 5, other)
    assert again.json()["id"] == double.effects(path)[1]["id"]
    kept = send(proxy, path, 5)
    assert kept.replayed and kept.body == first.body
    assert len(double.requests(path)) == 2


def test_a_no_keeps_it_from_running_twice_also_under_the_next_trace(proxy, double, token):
    path = f"/pay/{token}"
    assert send(proxy, path, 5).status == 201
    other, told = under_another_trace(proxy, path, 5)
    assert proxy.reject(told.json()["operation"], reason="paid already")[0] == 200
    refused = send(proxy, path, 5, other)
    assert refused.status == 403 and "paid already" in refused.json()["detail"]
    third = send(proxy, path, 5, THIRD)
    assert third.status == 403
    assert third.header("Recourse-Event") == refused.header("Recourse-Event")
    assert len(double.requests(path)) == 1


def test_other_arguments_under_the_same_key_run_as_a_call_of_their_own(proxy, double, token):
    path = f"/pay/{token}"
    first = send(proxy, path, 5)
    told = send(proxy, path, 7)
    assert told.status == 202, told
    (waiting,) = proxy.await_waiting(path)
    shown = proxy.shown(waiting["operation"])
    assert "has the same key and other arguments" in shown["why"]
    assert '"amount": 7' in shown["request"]["body"]
    assert proxy.approve(waiting["operation"])[0] == 200
    double.await_effects(path, 2)
    other = executed(proxy, path, 7)
    assert other.json()["id"] != first.json()["id"]
    assert send(proxy, path, 5).body == first.body
    assert send(proxy, path, 9).status == 202, "each has a question of its own"
    assert len(double.requests(path)) == 2


def test_a_backend_that_may_read_the_agents_key_is_not_told_it_for_two_calls(proxy, double, token):
    """The policy does not say that it reads the key; it might."""
    path, key = f"/pay/{token}", {"Idempotency-Key": f"order-{token}"}
    assert send(proxy, path, 5, **key).status == 201
    told = send(proxy, path, 7, **key)
    assert told.status == 202, told
    (waiting,) = proxy.await_waiting(path)
    assert proxy.approve(waiting["operation"])[0] == 200
    double.await_effects(path, 2)
    assert [line["key"] for line in double.requests(path)] == [f"order-{token}", None]


def test_the_agents_own_key_is_not_sent_for_two_calls(proxy, double, token):
    """The backend de-duplicates by key: under the first one's it would not run the second."""
    path, key = f"/keyed/{token}/pay", {"Idempotency-Key": f"order-{token}"}
    assert send(proxy, path, 5, host="keyed.test", **key).status == 201
    told = send(proxy, path, 7, host="keyed.test", **key)
    assert told.status == 409 and told.json()["type"].endswith("/approval-pending"), told
    (waiting,) = proxy.await_waiting(path)
    assert proxy.approve(waiting["operation"])[0] == 200
    double.await_effects(path, 2)
    first, second = [line["key"] for line in double.requests(path)]
    assert first == f"order-{token}" and second != first
    assert executed(proxy, path, 7, host="keyed.test", **key)
    assert len(double.requests(path)) == 2


def test_nobodys_answer_is_a_no(proxy, double, token):
    path = f"/brief/{token}"
    assert send(proxy, path, 5).status == 201
    told = send(proxy, path, 7)
    assert told.status == 403 and told.json()["type"].endswith("/approval-expired"), told
    assert send(proxy, path, 7).status == 403
    assert len(double.requests(path)) == 1


def test_a_question_outlives_a_kill(double, tmp_path, token):
    path = f"/pay/{token}"
    with Staffed(tmp_path, standard(double, extra_tools=RULES)) as running:
        assert send(running, path, 5).status == 201
        told = send(running, path, 7)
        running.kill()
        running.start()
        assert send(running, path, 7).json()["operation"] == told.json()["operation"]
        assert running.approve(told.json()["operation"])[0] == 200
        double.await_effects(path, 2)
        assert executed(running, path, 7)
        assert len(double.requests(path)) == 2


def test_where_nobody_is_named_a_probable_repeat_is_refused(proxy, double, token):
    path = f"/unasked/{token}"
    assert send(proxy, path, 5).status == 201
    _, refused = under_another_trace(proxy, path, 5)
    assert refused.status == 409 and refused.json()["type"].endswith("/suspected-duplicate")
    assert proxy.waiting() == [one for one in proxy.waiting() if one["path"] != path]
    assert len(double.requests(path)) == 1


def test_observe_mode_says_that_it_would_ask(double, tmp_path, token):
    path = f"/pay/{token}"
    policy = standard(double, extra_tools=RULES).replace("version: 1", "version: 1\nmode: observe")
    with Recourse(tmp_path, policy) as running:
        assert send(running, path, 5).status == 201
        running.await_phase(path, "SUCCEEDED")
        assert send(running, path, 7).status == 201
        wait_until(
            lambda: [e["phase"] for e in running.events_for(path)].count("SUCCEEDED") >= 2,
            lambda: running.events_for(path),
        )
        verdicts = {event["operation"]: event["verdict"] for event in running.events_for(path)}
        assert list(verdicts.values()) == ["fresh", "would_ask"]
        said = running.cli("report")
        assert "would_ask 1" in said.stdout, said
        assert len(double.requests(path)) == 2
