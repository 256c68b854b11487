"""Steps of unknown outcome on a backend that de-duplicates by key, without a probe: when their flow
breaks their stored request is sent again, and what it turns out to have done is undone, once."""

import json
import signal

import pytest

from support import rawhttp
from support.flows import Shop, answer_with, policy
from support.recourse import CRASH_POINTS, Recourse
from support.waiting import wait_until

TOOL = """\
  loans.take:
    match: POST bank /v1/loans/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo: {{ request: "POST /v1/refunds/{{external_ref}}", repeatable: by_key{words} }}
"""
SECRET = "Bearer of-the-agent"
NOTE = "between agent and bank"
LOST = ["read", "execute", "rst"]


class Loan:
    """An agent that takes an order and a loan, and what became of the loan."""

    def __init__(self, recourse, double, token):
        self.recourse, self.double = recourse, double
        self.agent = Shop(recourse, double).agent(token)
        self.path = f"/v1/loans/{token}"

    def take(self):
        fields = {
            "traceparent": f"00-{self.agent.trace}-b7ad6b7169203331-01",
            "Content-Type": "application/json",
            "Authorization": SECRET,
        }
        body = json.dumps({"client_ref": self.agent.token, "note": NOTE}).encode()
        return rawhttp.call(
            self.recourse.port, "POST", self.path, host="bank.test", headers=fields, body=body
        )

    def cancel(self):
        done = self.recourse.cli("flows", "cancel", self.agent.flow, "--reason", "given up")
        assert done.returncode == 0, done

    def phases(self):
        return [e["phase"] for e in self.agent.events() if e["path"] == self.path]

    def keys(self):
        """Of every request for the loan that reached the backend."""
        return [r["key"] for r in self.double.requests(self.path, "POST")]


def header(request, name):
    return next((v for n, v in request["headers"] if n.lower() == name.lower()), None)


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
def test_a_step_that_a_kill_left_unknown_is_settled_by_its_key_and_undone_once(
    double, token, tmp_path
):
    running = Recourse(tmp_path, policy(double, tools=TOOL.format(words="")))
    running.start({"RECOURSE_CRASH_POINT": "k07:2"})
    loan = Loan(running, double, token)
    try:
        loan.agent.does("orders")
        with pytest.raises((OSError, rawhttp.Cut)):
            loan.take()
        assert running.wait() == -signal.SIGKILL
        wait_until(lambda: double.effects(loan.path), what="the effect of what was sent")
        running.start()
        assert loan.phases() == ["DISPATCHING", "UNCERTAIN"]
        loan.cancel()
        loan.agent.await_undone()
        assert len(loan.keys()) == 2 and len(set(loan.keys())) == 1 and None not in loan.keys()
        (effect,) = double.effects(loan.path)
        assert len(double.effects(f"/v1/refunds/{effect['id']}")) == 1
        assert loan.phases() == [
            "DISPATCHING", "UNCERTAIN", "DISPATCHING", "SUCCEEDED", "COMPENSATED",
        ]  # fmt: skip
        again = double.requests(loan.path, "POST")[1]
        assert header(again, "Authorization") is None, "the policy keeps no credential"
    finally:
        running.kill()
    kept = b"".join(file.read_bytes() for file in running.data.rglob("*") if file.is_file())
    assert SECRET.encode() not in kept and NOTE.encode() not in kept


def test_a_lost_answer_is_asked_for_with_the_agents_credentials_where_the_policy_keeps_them(
    double, token, tmp_path
):
    words = ", credentials: from_call"
    with Recourse(tmp_path, policy(double, tools=TOOL.format(words=words))) as running:
        loan = Loan(running, double, token)
        double.script("POST", loan.path, LOST, times=1)
        assert loan.take().status == 502
        loan.cancel()
        loan.agent.await_undone()
        first, again = double.requests(loan.path, "POST")
        assert header(again, "Authorization") == header(first, "Authorization") == SECRET
        assert len(double.effects(loan.path)) == 1
    kept = b"".join(file.read_bytes() for file in running.data.rglob("*") if file.is_file())
    assert SECRET.encode() not in kept and NOTE.encode() not in kept


def test_a_backend_that_wants_credentials_parks_the_flow_and_says_what_to_configure(
    double, token, tmp_path
):
    with Recourse(tmp_path, policy(double, tools=TOOL.format(words=""))) as running:
        loan = Loan(running, double, token)
        double.script("POST", loan.path, LOST, times=1)
        assert loan.take().status == 502
        double.script("POST", loan.path, answer_with("401 Unauthorized"), times=1)
        loan.cancel()
        reason = loan.agent.await_parked()
        assert "answered 401" in reason and "undo the credentials" in reason, reason
        assert loan.phases()[-1] == "UNCERTAIN"
