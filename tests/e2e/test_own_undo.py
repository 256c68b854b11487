"""An undo request that says in its body what it undoes, and that the agent makes by itself."""

import secrets

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import Recourse
from support.waiting import wait_until

EXCUSE = "undo: none, reason: a row of a test is never undone"
TOOLS = f"""\
  charges.make:
    match: POST shop /charges/{{token}}
    effect: write
    undo:
      request: "POST /refunds/{{path.token}}"
      json: {{ charge: "{{answer.body#/id}}", why: "taken back", shop: "{{path.token}}" }}
  refunds.make: {{ match: "POST shop /refunds/{{token}}", effect: write, {EXCUSE} }}
  bills.make:
    match: POST shop /bills/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo: {{ request: "POST /credits/{{path.token}}", form: {{ bill: "{{external_ref}}" }} }}
  credits.make: {{ match: "POST shop /credits/{{token}}", effect: write, {EXCUSE} }}
  points.add:
    match: POST shop /points/{{token}}
    effect: write
    undo: {{ request: "POST /spent/{{path.token}}", json: {{ points: "{{body#/points}}" }} }}
  points.spend: {{ match: "POST shop /spent/{{token}}", effect: write, {EXCUSE} }}
  seats.take:
    match: POST shop /seats/{{token}}
    effect: write
    undo: {{ request: "POST /unlisted/{{path.token}}", json: {{ seat: "{{answer.body#/id}}" }} }}
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    directory = tmp_path_factory.mktemp("recourse")
    with Recourse(directory, standard(double, extra_tools=TOOLS)) as running:
        yield running


@pytest.fixture
def trace():
    return secrets.token_hex(16)


def post(proxy, path, body, trace, **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return rawhttp.call(
        proxy.port, "POST", path, headers={**headers, **rawhttp.traced(trace)}, body=body
    )


def refused(answer):
    problem = answer.json()["type"].rsplit("/", 1)[1]
    assert (answer.status, problem, answer.outcome) == (409, "superseded", "executed")


def made_anew(first, again):
    assert again.status == 201 and not again.replayed and again.body != first.body


def undo_of(made, token):
    return {"shop": token, "charge": made.json()["id"], "why": "taken back"}


def cancel(proxy, trace):
    assert proxy.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
    wait_until(lambda: proxy.admin("GET", f"/flows/{trace}")["phase"] in ("UNDONE", "PARKED"))


def test_it_ends_the_answer_and_is_not_made_again(proxy, double, token, trace):
    path, refunds = f"/charges/{token}", f"/refunds/{token}"
    made = post(proxy, path, {"a": 1}, trace)
    assert post(proxy, refunds, undo_of(made, token), trace).status == 201
    again = post(proxy, path, {"a": 1}, trace)
    made_anew(made, again)
    assert post(proxy, path, {"a": 1}, trace).body == again.body
    cancel(proxy, trace)
    double.await_recorded()
    assert len(double.requests(refunds, "POST")) == 2


def test_a_cancelled_flow_undoes_nothing_a_second_time(proxy, double, token, trace):
    made = post(proxy, f"/charges/{token}", {"a": 1}, trace)
    assert post(proxy, f"/refunds/{token}", undo_of(made, token), trace).status == 201
    cancel(proxy, trace)
    double.await_recorded()
    assert len(double.requests(f"/refunds/{token}", "POST")) == 1


def test_a_form_is_compared_too(proxy, double, token, trace):
    path, credits = f"/bills/{token}", f"/credits/{token}"
    made = post(proxy, path, {"a": 1}, trace)
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert post(proxy, credits, f"bill={made.json()['id']}".encode(), trace, **form).status == 201
    again = post(proxy, path, {"a": 1}, trace)
    made_anew(made, again)
    more = f"amount=3&bill={again.json()['id']}".encode()
    assert post(proxy, credits, more, trace, **form).status == 201
    refused(post(proxy, path, {"a": 1}, trace))


@pytest.mark.parametrize("change", [{"why": "half of it"}, {"amount": 3}, {"shop": None}])
def test_another_undo_of_it_leaves_a_doubt(proxy, double, token, trace, change):
    path, refunds = f"/charges/{token}", f"/refunds/{token}"
    made = post(proxy, path, {"a": 1}, trace)
    body = {**undo_of(made, token), **change}
    body = {name: value for name, value in body.items() if value is not None}
    assert post(proxy, refunds, body, trace).status == 201
    refused(post(proxy, path, {"a": 1}, trace))
    cancel(proxy, trace)
    double.await_recorded()
    assert len(double.requests(refunds, "POST")) == 2  # a human may have wanted only a part back
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("fields", [{"Authorization": "Bearer b"}, {"X_Dry_Run": "1"}])
def test_what_need_not_have_undone_it_leaves_a_doubt(proxy, double, token, trace, fields):
    path = f"/charges/{token}"
    own = {"Authorization": "Bearer a"}
    made = post(proxy, path, {"a": 1}, trace, **own)
    body = undo_of(made, token)
    assert post(proxy, f"/refunds/{token}", body, trace, **{**own, **fields}).status == 201
    refused(post(proxy, path, {"a": 1}, trace, **own))


@pytest.mark.parametrize("steps", [["read", "execute", "rst"], ["read", "rst"]])
def test_an_unknown_outcome_leaves_a_doubt_until_it_is_known(proxy, double, token, trace, steps):
    path, refunds = f"/charges/{token}", f"/refunds/{token}"
    made = post(proxy, path, {"a": 1}, trace)
    double.script("POST", refunds, steps, 1)
    assert post(proxy, refunds, undo_of(made, token), trace).outcome == "unknown"
    refused(post(proxy, path, {"a": 1}, trace))
    word = "happened" if "execute" in steps else "absent"
    operation = str(proxy.events_for(refunds)[-1]["operation"])
    settled = proxy.cli("operations", "settle", operation, "--as", word, "--reason", "seen")
    assert settled.returncode == 0, settled
    again = post(proxy, path, {"a": 1}, trace)
    assert again.replayed == (word == "absent")


@pytest.mark.parametrize("other", ["another", "refused", "tenant"])
def test_what_undid_something_else_changes_nothing(proxy, double, token, trace, other):
    path, refunds = f"/charges/{token}", f"/refunds/{token}"
    made = post(proxy, path, {"a": 1}, trace)
    body, fields = undo_of(made, token), {}
    if other == "another":
        body["charge"] = "ch_other"
    if other == "refused":
        refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
        double.script("POST", refunds, ["read", {"send": refusal}], 1)
    if other == "tenant":
        fields = {"X_Tenant": "b"}
    post(proxy, refunds, body, trace, **fields)
    assert post(proxy, path, {"a": 1}, trace).body == made.body
    assert len(double.effects(path)) == 1


def test_one_that_names_nothing_made_may_be_another_ones(proxy, double, token, trace):
    path, spent = f"/points/{token}", f"/spent/{token}"
    made = post(proxy, path, {"points": 5}, trace)
    assert post(proxy, spent, {"points": 3}, trace).status == 201
    assert post(proxy, path, {"points": 5}, trace).body == made.body
    assert post(proxy, spent, {"points": 5}, trace).status == 201
    refused(post(proxy, path, {"points": 5}, trace))
    cancel(proxy, trace)
    double.await_recorded()
    assert len(double.requests(spent, "POST")) == 3


def test_a_write_that_no_tool_lists_counts_too(proxy, double, token, trace):
    path = f"/seats/{token}"
    made = post(proxy, path, {"a": 1}, trace)
    assert post(proxy, f"/unlisted/{token}", {"seat": made.json()["id"]}, trace).status == 201
    made_anew(made, post(proxy, path, {"a": 1}, trace))


def test_it_is_known_after_a_kill(double, token, trace, tmp_path):
    path = f"/charges/{token}"
    with Recourse(tmp_path, standard(double, extra_tools=TOOLS)) as running:
        made = post(running, path, {"a": 1}, trace)
        assert post(running, f"/refunds/{token}", undo_of(made, token), trace).status == 201
        running.kill()
        running.start()
        assert not post(running, path, {"a": 1}, trace).replayed
