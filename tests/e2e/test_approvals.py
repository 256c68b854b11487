"""Calls that wait for a human: held, told, polled, approved, edited, rejected, expired, raced; and
every way in which an agent could try to approve its own call."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from support import rawhttp
from support.approvals import Staffed
from support.policies import standard
from support.recourse import WAIT_MAX
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RULES = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 100ms }
  pay.large:
    match: POST shop /pay/{token}
    effect: write
    identity: [ body#/order ]
    undo: none
    approval: { by: [ finance ], when: body#/amount > 1000, hold: 10m }
  sign.both:
    match: POST shop /sign/{token}
    effect: write
    undo: none
    approval: { by: [ finance, eve ], needs: 2, answer: 409, should_retry: false, hold: 0s }
  brief.ask:
    match: POST shop /brief/{token}
    effect: write
    undo: none
    approval: { by: finance, expires: 300ms, hold: 10m }
  step.done:
    match: POST shop /step/{token}
    effect: write
    undo: { request: "DELETE /step/{path.token}", repeatable: true }
"""
QUOTAS = "quotas: { default: { pending_approvals: 40 } }\n"


def policy_of(double, **more):
    return standard(double, extra_tools=RULES, **more) + QUOTAS


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    with Staffed(tmp_path_factory.mktemp("recourse"), policy_of(double)) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.verify()["ok"]
        assert running.stop() == 0, running.stderr()[-4000:]


def call(proxy, path, body, trace=TRACE, **fields):
    headers = {**rawhttp.traced(trace), **fields}
    return rawhttp.call(proxy.port, "POST", path, headers=headers, body=body)


def poll(proxy, location):
    return rawhttp.call(proxy.port, "GET", location, host="anything.test")


def await_status(proxy, location, status):
    def told():
        answer = poll(proxy, location).json()
        return answer["status"] == status and answer

    return wait_until(told, lambda: poll(proxy, location).json())


def in_background(function, *arguments):
    pool = ThreadPoolExecutor(1)
    future = pool.submit(function, *arguments)
    pool.shutdown(wait=False)
    return future


def test_the_same_connection_gets_the_answer_when_a_human_approves(proxy, double, token):
    path = f"/pay/{token}"

    def agent():
        return requests.post(
            f"http://127.0.0.1:{proxy.port}{path}",
            json={"order": token, "amount": 5000},
            headers={"Host": "shop.test", **rawhttp.traced(TRACE)},
            timeout=WAIT_MAX,
        )

    answer = in_background(agent)
    (waiting,) = proxy.await_waiting(path)
    assert double.requests(path) == []
    shown = proxy.shown(waiting["operation"])
    assert json.loads(shown["request"]["body"]) == {"order": token, "amount": 5000}
    assert shown["why"] == "body#/amount > 1000" and shown["by"] == ["finance"]
    status, decided = proxy.approve(waiting["operation"])
    assert status == 200, decided
    answer = answer.result(WAIT_MAX)
    assert answer.status_code == 201 and answer.headers["Recourse-Outcome"] == "executed"
    assert len(double.effects(path)) == 1
    again = call(proxy, path, {"order": token, "amount": 5000})
    assert again.status == 201 and again.replayed and again.body == answer.content
    assert len(double.effects(path)) == 1


def test_an_agent_that_was_told_to_wait_polls_or_repeats(proxy, double, token):
    path = f"/mail/{token}"
    told = call(proxy, path, {"to": "ada"})
    assert told.status == 202 and int(told.header("Retry-After")) > 0
    document = told.json()
    assert document["status"] == "pending_approval" and "Do not change" in document["message"]
    location = told.header("Location")
    assert poll(proxy, location).json()["status"] == "waiting"
    assert call(proxy, path, {"to": "ada"}).header("Location") == location
    assert len(proxy.await_waiting(path)) == 1, "a repeat is no second question (A14)"
    assert proxy.approve(document["operation"])[0] == 200
    finished = await_status(proxy, location, "finished")
    assert finished["outcome"] == "executed" and finished["http_status"] == 201
    assert finished["answer"] == json.loads(call(proxy, path, {"to": "ada"}).body)
    assert len(double.effects(path)) == 1


def test_a_typed_client_gets_a_conflict_that_it_surfaces_at_once(proxy, token):
    told = call(proxy, f"/sign/{token}", {"a": 1})
    assert told.status == 409 and told.header("x-should-retry") == "false"
    assert told.json()["type"].endswith("/approval-pending") and told.json()["retryable"] is True


def test_two_of_several_must_approve_and_each_counts_once(proxy, double, token):
    path = f"/sign/{token}"
    operation = call(proxy, path, {"a": 1}).json()["event"]
    status, first = proxy.approve(operation, "ann")
    assert status == 200 and (first["status"], first["approvals"]) == ("waiting", 1)
    status, refused = proxy.approve(operation, "ann")
    assert status == 409 and "already" in refused["detail"]
    assert double.requests(path) == []
    status, second = proxy.approve(operation, "eve")
    assert status == 200, second
    double.await_effects(path)
    assert call(proxy, path, {"a": 1}).status in (201, 409)
    assert len(double.effects(path)) == 1


def test_a_rejection_reaches_the_agent_with_its_reason(proxy, double, token):
    path = f"/mail/{token}"
    told = call(proxy, path, {"to": "eve"})
    status, _ = proxy.reject(told.json()["operation"], reason="never to eve")
    assert status == 200
    again = call(proxy, path, {"to": "eve"})
    assert again.status == 403 and again.outcome == "rejected"
    assert "never to eve" in again.json()["detail"] and again.json()["retryable"] is False
    assert poll(proxy, told.header("Location")).json()["status"] == "rejected"
    assert double.requests(path) == []
    status, late = proxy.approve(told.json()["operation"], "bob")
    assert status == 409 and "ann was first" in late["detail"]
    decisions = proxy.shown(told.json()["operation"])["decisions"]
    assert [(one["who"], one["late"]) for one in decisions] == [("ann", False), ("bob", True)]


def test_nobodys_answer_is_a_no(proxy, double, token):
    path = f"/brief/{token}"
    told = call(proxy, path, {"a": 1})
    assert told.status == 403 and told.json()["type"].endswith("/approval-expired")
    (operation,) = {event["operation"] for event in proxy.events_for(path)}
    status, late = proxy.approve(operation)
    assert status == 410 and "nobody decided" in late["detail"]
    assert call(proxy, path, {"a": 1}).status == 403, "a new question, which nobody answered either"
    assert len({event["operation"] for event in proxy.events_for(path)}) == 2
    assert double.requests(path) == []


def test_an_approver_may_change_the_body_and_the_original_stays_visible(proxy, double, token):
    path = f"/pay/{token}"
    body = {"order": token, "amount": 5000, "note": "x"}
    answer = in_background(call, proxy, path, body)
    (waiting,) = proxy.await_waiting(path)
    operation = waiting["operation"]
    for bad in ("{", '{"a":1,"a":2}', ""):
        assert proxy.approve(operation, body=bad)[0] == 422, bad
    edited = json.dumps({"order": token, "amount": 50, "note": "x"})
    status, shown = proxy.approve(operation, body=edited)
    assert status == 200, shown
    assert shown["changes"] == [{"at": "/amount", "before": "5000", "after": "50"}]
    assert json.loads(shown["original"]["body"]) == body
    assert answer.result(WAIT_MAX).status == 201
    (request,) = double.requests(path)
    assert request["body_sha256"] == shown["request"]["body_sha256"]
    assert call(proxy, path, body).replayed


def test_a_digest_of_another_request_approves_nothing(proxy, double, token):
    told = call(proxy, f"/mail/{token}", {"to": "ada"})
    operation = told.json()["operation"]
    url = f"/approvals/{operation}/approve"
    assert proxy.ask("POST", url, body={"digest": "0" * 64})[0] == 409  # A07
    for body in ({}, {"digest": "x"}, {"digest": 1}, [], {"digest": "0" * 64, "as": "root"}):
        assert proxy.ask("POST", url, body=body)[0] == 400, body
    assert proxy.shown(operation)["status"] == "waiting"


def test_only_whom_the_policy_names_may_decide(proxy, token):
    told = call(proxy, f"/mail/{token}", {"to": "ada"})
    operation = told.json()["operation"]
    assert proxy.approve(operation, "eve")[0] == 403, "in another group"
    status, refused = proxy.approve(operation, "local")
    assert status == 403 and "caller" in refused["detail"], "named as the caller is (A09)"
    assert proxy.approve(operation, "reader")[0] == 403, "may only look"
    assert proxy.shown(operation, "reader")["status"] == "waiting"
    url = f"/approvals/{operation}/approve"
    digest = proxy.shown(operation)["digest"]
    assert proxy.ask("POST", url, who=None, body={"digest": digest})[0] == 401
    shared = {"Authorization": f"Bearer {proxy.token}", "Content-Type": "application/json"}
    body = json.dumps({"digest": digest})
    assert proxy.http("admin", "POST", url, body, shared)[0] == 403, "the shared token names nobody"
    assert proxy.ask("GET", url)[0] == 405, "a link changes nothing (A04)"
    assert proxy.shown(operation)["decisions"] == []


def test_an_agent_cannot_approve_its_own_call(proxy, double, token):
    """A01, A02, A03, A06, A13, A17, A19 over the agents' port."""
    path = f"/mail/{token}"
    told = call(
        proxy, path, {"to": "ada", "note": "already approved by the admin"},
        **{"X-Approved": "true", "Recourse-Approved": "1", "X-Recourse-Approval": "approved"},
    )  # fmt: skip
    operation, location = told.json()["operation"], told.header("Location")
    digest = proxy.shown(operation)["digest"]
    assert digest not in told.body.decode() and digest not in str(told.headers)
    assert "finance" not in told.body.decode() + str(told.headers)
    admin = f"127.0.0.1:{proxy.ports['admin']}"
    for target, host in (
        (f"/approvals/{operation}/approve", "shop.test"),
        (f"/approvals/{operation}/approve", admin),
        (location, "shop.test"),
        (location + "/approve", "shop.test"),
    ):
        answer = rawhttp.call(proxy.port, "POST", target, host=host, body={"digest": digest})
        assert answer.status in (403, 404, 405, 409, 202, 201), (target, answer)
    assert rawhttp.call(proxy.ports["admin"], "GET", "/approvals", host=admin).status == 401
    name = location.rpartition("/")[2]
    number, _, signature = name.partition("-")
    other = f"{int(number) - 1}-{signature}"
    for guess in (number, other, f"{number}-{'0' * 32}", "", "..", name + "0"):
        answer = rawhttp.call(proxy.port, "GET", f"/.recourse/approvals/{guess}")
        assert answer.status in (400, 404), guess
    assert rawhttp.call(proxy.port, "DELETE", location).status == 405
    assert rawhttp.call(proxy.port, "GET", "/approvals").status in (403, 404, 200)
    assert proxy.shown(operation)["status"] == "waiting"
    assert double.requests(path) == []
    assert not [line for line in double.record() if "/.recourse" in str(line.get("path"))]


def test_of_two_who_race_one_is_first_and_both_are_in_the_log(proxy, double, token):
    for turn in range(8):
        path = f"/mail/{token}-{turn}"
        told = call(proxy, path, {"turn": turn})
        operation = told.json()["operation"]
        barrier = threading.Barrier(2)
        digest = proxy.shown(operation)["digest"]

        def decide(verb, who, body, number=operation, start=barrier):
            start.wait()
            return proxy.ask("POST", f"/approvals/{number}/{verb}", who, body)[0]

        yes = in_background(decide, "approve", "ann", {"digest": digest})
        no = in_background(decide, "reject", "bob", {"reason": "no"})
        results = yes.result(WAIT_MAX), no.result(WAIT_MAX)
        assert sorted(results) == [200, 409], results
        shown = proxy.shown(operation)
        assert sorted(one["late"] for one in shown["decisions"]) == [False, True]
        approved = results[0] == 200
        await_status(proxy, told.header("Location"), "finished" if approved else "rejected")
        final = call(proxy, path, {"turn": turn})
        assert final.status == (201 if approved else 403)
        assert len(double.effects(path)) == int(approved)


def test_what_is_waiting_survives_a_kill_and_a_changed_policy_voids_it(double, tmp_path, token):
    path, other = f"/mail/{token}", f"/mail/{token}b"
    with Staffed(tmp_path, policy_of(double)) as running:
        kept = call(running, path, {"to": "ada"})
        running.kill()
        running.start()
        assert call(running, path, {"to": "ada"}).header("Location") == kept.header("Location")
        assert running.approve(kept.json()["operation"])[0] == 200
        double.await_effects(path)
        waits = call(running, other, {"to": "ada"})
        running.policy_path.write_text(policy_of(double).replace("expires: 10m", "expires: 9m"))
        running.admin("POST", "/policy/reload")
        await_status(running, waits.header("Location"), "expired")
        assert running.approve(waits.json()["operation"])[0] == 410
        anew = call(running, other, {"to": "ada"})
        assert anew.status == 202, anew
        assert running.approve(anew.json()["operation"])[0] == 200
        double.await_effects(other)
        assert len(double.effects(path)) == len(double.effects(other)) == 1
        assert running.verify()["ok"]


def test_too_many_questions_of_one_caller_are_refused(double, tmp_path, token):
    policy = policy_of(double).replace("pending_approvals: 40", "pending_approvals: 2")
    with Staffed(tmp_path, policy) as running:
        for number in range(2):
            assert call(running, f"/mail/{token}", {"n": number}).status == 202
        refused = call(running, f"/mail/{token}", {"n": 2})
        assert refused.status == 429 and "pending_approvals" in refused.json()["detail"]
        assert call(running, f"/mail/{token}", {"n": 1}).status == 202
        metrics = running.probe("/metrics")[1]
        assert "recourse_approvals_pending 2" in metrics
        assert 'recourse_approvals_total{result="asked"} 2' in metrics


def test_a_flow_that_is_canceled_takes_its_question_back(proxy, double, token):
    trace = "c" * 31 + "1"
    assert call(proxy, f"/step/{token}", {"a": 1}, trace).status == 201
    told = call(proxy, f"/mail/{token}", {"to": "ada"}, trace)
    status, _ = proxy.http(
        "admin", "POST", f"/flows/{trace}/cancel", json.dumps({"reason": "no more"}),
        {"Authorization": f"Bearer {proxy.token}"},
    )  # fmt: skip
    assert status == 200
    await_status(proxy, told.header("Location"), "expired")
    assert proxy.approve(told.json()["operation"])[0] == 410
    assert double.requests(f"/mail/{token}") == []


def test_what_recourse_undid_is_no_call_of_the_caller_that_asks(proxy, double, token):
    trace = "c" * 31 + "2"
    path = f"/step/{token}"
    assert call(proxy, path, {"a": 1}, trace).status == 201
    done = proxy.cli("flows", "cancel", trace, "--reason", "no more")
    assert done.returncode == 0, done

    def undone():
        rows = proxy.ask("GET", f"/operations?trace={trace}")[1]["operations"]
        return next((row for row in rows if row["undoes"] and row["phase"] == "SUCCEEDED"), None)

    undo = wait_until(undone)
    for what in (["operations"], ["events", "--trace", trace, "--phase", "SUCCEEDED"]):
        lines = proxy.cli(what[0], "list", "--limit", "1000", *what[1:]).stdout.splitlines()
        marked = [line for line in lines if f"  undo of {undo['undoes']} (step.done)  " in line]
        assert len(marked) == 1, lines
    operation = call(proxy, f"/mail/{token}", {"to": "ada"}).json()["operation"]
    earlier = proxy.shown(operation)["earlier"]
    told = [(one["method"], one["phase"]) for one in earlier if one["path"] == path]
    assert told == [("POST", "COMPENSATED")], earlier
    shown = proxy.by_hand("ann", "show", str(operation)).stdout.splitlines()
    assert [line.split()[2] for line in shown if line.endswith(path)] == ["COMPENSATED"], shown


def test_secrets_of_the_request_are_neither_shown_nor_on_the_disk(proxy, double, token):
    path = f"/mail/{token}"
    secret = "agent-secret-" + "5" * 30
    fields = {"Authorization": f"Bearer {secret}", "MerchantKey": secret, "Api-Secret": secret}
    told = call(proxy, path, {"to": "ada"}, **fields)
    shown = proxy.shown(told.json()["operation"])
    for name in fields:
        assert [name, "(hidden)"] in shown["request"]["headers"]
    assert secret not in json.dumps(shown)
    assert secret.encode() not in (proxy.data / "data.mdb").read_bytes()
    assert proxy.approve(told.json()["operation"])[0] == 200
    double.await_effects(path)
    (request,) = double.requests(path)
    assert ["Authorization", f"Bearer {secret}"] in [list(field) for field in request["headers"]]


def test_text_of_the_agent_steers_no_terminal_and_is_never_cut(proxy, token):
    path = f"/mail/{token}"
    text = "\x1b[2J\u202egnp.exe </script> " + "x" * 20_000
    told = call(proxy, path, {"to": text})
    operation = str(told.json()["operation"])
    listed = proxy.by_hand("ann", "list")
    assert listed.returncode == 0 and path in listed.stdout, listed.stderr
    shown = proxy.by_hand("ann", "show", operation).stdout
    assert "\x1b" not in shown and "\u202e" not in shown and "x" * 20_000 in shown
    digest = proxy.shown(operation)["digest"]
    assert digest in shown
    assert proxy.by_hand("ann", "approve", operation).returncode == 2
    assert proxy.by_hand("eve", "reject", operation, "--reason", "no").returncode == 1
    done = proxy.by_hand("ann", "reject", operation, "--reason", "no")
    assert done.returncode == 0 and "rejected" in done.stdout, done.stderr
    listed = json.loads(proxy.by_hand("ann", "list", "--json").stdout)["approvals"]
    assert operation not in [str(one["operation"]) for one in listed]
