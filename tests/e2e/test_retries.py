"""What a retry meets: an earlier call of another trace, and an outcome that was settled meanwhile.

SDKs start a new trace for every attempt, so a trace alone never makes a call a new one.
"""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import kept_whole
from support.waiting import wait_until

FIRST, SECOND, THIRD = (f"{number}af7651916cd43dd8448eb211c80319c" for number in (1, 2, 3))
RULES = """\
  brief.create:
    match: POST shop /brief/{token}
    effect: write
    external_ref: answer.body#/id
    hold: 100ms
    settle:
      request: "GET /brief/{path.token}?client_ref={body#/client_ref}"
      happened: answer.body#/items/0/id
      absent_after: 5s
    undo: none
    reason: rows of tests
  hasty.create:
    match: POST shop /hasty/{token}
    effect: write
    external_ref: answer.body#/id
    timeout: 6s
    hold: 10m
    settle:
      request: "GET /hasty/{path.token}?client_ref={body#/client_ref}"
      happened: answer.body#/items/0/id
      absent_after: 6s
    undo: none
    reason: rows of tests
  named.create:
    match: POST shop /named/{token}
    effect: write
    identity: [ body#/order ]
    undo: none
    reason: rows of tests
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = standard(double, extra_tools=RULES)
    with kept_whole(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running


def post(proxy, path, body, trace, host="shop.test"):
    return rawhttp.call(proxy.port, "POST", path, host, rawhttp.traced(trace), body)


def attempts(proxy, path):
    """The attempts of the one operation that the path may have."""
    rows = proxy.events_for(path)
    assert len({row["operation"] for row in rows}) == 1, rows
    assert len({row["idempotency_key"] for row in rows}) == 1, rows
    return [row["attempt"] for row in rows if row["phase"] == "DISPATCHING"]


def await_arrivals(proxy, mark):
    """Returns once the ledger knows that the answers so far have arrived: soon, in their order, and
    seen by what becomes of a call to `mark`, whose answer is the last of them."""
    assert post(proxy, mark, {"a": 1}, FIRST).status == 201
    wait_until(
        lambda: not post(proxy, mark, {"a": 1}, secrets.token_hex(16)).replayed,
        "an answered call is replayed to every other trace",
    )


def lose_then_prove_absent(proxy, double, path, body):
    """FIRST's call is lost before it was executed, SECOND joins it, and a probe finds nothing."""
    double.script("POST", path, ["read", "rst"], 1)
    assert post(proxy, path, body, FIRST).outcome == "unknown"
    assert post(proxy, path, body, SECOND).outcome == "unknown"
    proxy.await_phase(path, "PROVEN_ABSENT")


def test_what_a_retry_under_another_trace_did_is_replayed_to_both_traces(proxy, double, token):
    path, body = f"/brief/{token}", {"client_ref": token}
    lose_then_prove_absent(proxy, double, path, body)
    done = post(proxy, path, body, SECOND)
    assert done.status == 201 and not done.replayed
    for trace in (SECOND, FIRST, SECOND, FIRST):
        again = post(proxy, path, body, trace)
        assert again.replayed and again.body == done.body, (trace, again)
        assert again.header("Recourse-Event") == done.header("Recourse-Event")
        assert again.header("Idempotency-Key") == done.header("Idempotency-Key")
    assert len(double.effects(path)) == 1 and len(double.requests(path, "POST")) == 2
    assert attempts(proxy, path) == [1, 2]


def test_two_traces_that_retry_at_once_make_one_attempt(proxy, double, token):
    path, body = f"/brief/{token}", {"client_ref": token}
    lose_then_prove_absent(proxy, double, path, body)
    double.script("POST", path, ["read", "execute", {"gate": token}, "answer"], None)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(post, proxy, path, body, SECOND)
        double.await_requests("POST", path, count=2)
        early = post(proxy, path, body, FIRST)
        assert early.status == 409 and early.json()["outcome"] == "pending", early
        double.open_gate(token)
        done = second.result()
    assert done.status == 201, done
    for trace in (FIRST, SECOND):
        again = post(proxy, path, body, trace)
        assert again.replayed and again.body == done.body, again
    assert len(double.effects(path)) == 1 and len(double.requests(path, "POST")) == 2
    assert attempts(proxy, path) == [1, 2]


def test_a_backend_that_knows_keys_gets_the_same_one_from_every_trace(proxy, double, token):
    path, body = f"/keyed/{token}", {"client_ref": token}
    failure = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
    double.script("POST", path, ["read", {"send": failure}], None)
    for trace in (FIRST, SECOND, SECOND, FIRST, THIRD):
        answer = post(proxy, path, body, trace, "keyed.test")
        assert answer.outcome == "unknown", (trace, answer)
    # The backend works again: whoever asks first, both traces get the one answer.
    double.ask("clear")

    def answered():
        answer = post(proxy, path, body, SECOND, "keyed.test")
        assert answer.status == 201 or answer.outcome == "unknown", answer
        return answer.status == 201 and answer

    done = wait_until(answered, "the outcome stays unknown")
    again = post(proxy, path, body, FIRST, "keyed.test")
    assert again.replayed and again.body == done.body
    assert len({request["key"] for request in double.requests(path)}) == 1
    assert len(double.effects(path)) == 1
    made = attempts(proxy, path)
    assert made == list(range(1, len(made) + 1))


@pytest.mark.parametrize("status", [302, 408, 409, 418, 500])
def test_an_answer_that_proves_nothing_does_not_end_the_call(proxy, double, token, status):
    """It was passed on whole, but its call may have been executed: every trace is a retry of it."""
    path, body = f"/plain/{token}", {"client_ref": token}
    head = f"HTTP/1.1 {status} Hm\r\nLocation: http://shop.test/x\r\nContent-Length: 0\r\n\r\n"
    double.script("POST", path, ["read", {"send": head}], None)
    assert post(proxy, path, body, FIRST).outcome == "unknown"
    for number in range(4):
        await_arrivals(proxy, f"/plain/{token}-mark-{number}")
        answer = post(proxy, path, body, f"{number + 2}af7651916cd43dd8448eb211c80319c")
        assert answer.outcome == "unknown", answer
    assert len(double.requests(path)) == 1
    assert attempts(proxy, path) == [1]


@pytest.mark.parametrize("trace", [FIRST, SECOND], ids=["same_trace", "another_trace"])
def test_reworded_arguments_do_not_pass_an_unknown_outcome(proxy, double, token, trace):
    """The identity says that it is the same intent, so the words decide nothing."""
    path = f"/named/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    assert post(proxy, path, {"order": token, "note": "please"}, FIRST).outcome == "unknown"
    for _ in range(2):
        reworded = post(proxy, path, {"order": token, "note": "kindly"}, trace)
        assert reworded.status in (409, 422), reworded
        assert reworded.outcome != "executed"
    same = post(proxy, path, {"order": token, "note": "please"}, trace)
    assert same.outcome == "unknown", same
    assert len(double.requests(path, "POST")) == 1 and len(double.effects(path)) == 1


def test_an_attempt_after_a_wait_for_settling_has_its_full_time(proxy, double, token):
    """The tool's time counts from the new attempt, not from the call that waited for it."""
    for number in range(5):
        path, body = f"/hasty/{token}-{number}", {"client_ref": f"{token}-{number}"}
        double.script("POST", path, ["read", "rst"], 1)
        assert post(proxy, path, body, FIRST).outcome == "unknown"
        double.script("POST", path, ["read", "execute", {"sleep": 2}, "answer"], 1)
        began = time.monotonic()
        repeat = post(proxy, path, body, FIRST)
        # The wait alone was longer than the tool's time, unless we stood still before the call.
        if time.monotonic() - began > 6:
            break
    else:
        raise AssertionError("no repeat waited for settling")
    assert repeat.status == 201 and repeat.outcome == "executed", repeat
    assert [row["phase"] for row in proxy.events_for(path)] == [
        "DISPATCHING", "UNCERTAIN", "PROVEN_ABSENT", "DISPATCHING", "SUCCEEDED",
    ]  # fmt: skip
    assert len(double.effects(path)) == 1
