"""What the policy says about flows, over the wire: nested traces, agents' orders, credentials."""

import secrets

import pytest

from support import rawhttp
from support.recourse import Recourse
from support.waiting import lasts, wait_until

POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 60s,
          connect_timeout: 30s }}
tools:
  orders.create:
    match: POST shop /orders/{{token}}
    effect: write
    settle: {{ request: "GET /orders/{{path.token}}?client_ref={{body#/client_ref}}",
              happened: answer.body#/items/0/id, absent_after: 3s }}
    undo:
      request: "DELETE /orders/{{path.token}}/{{external_ref}}"
      credentials: {{ Authorization: {{ file: {secret}, prefix: "Bearer " }} }}
      repeatable: true
  notes.create:
    match: POST shop /notes/{{token}}
    effect: write
    undo: {{ request: "DELETE /notes/{{path.token}}/{{external_ref}}", window: 1ms }}
  rooms.book:
    match: POST shop /rooms/{{token}}
    effect: write
    dedupe_window: 1s
    undo: {{ request: "DELETE /rooms/{{path.token}}/{{external_ref}}", repeatable: true }}
  orders.cancel:
    match: POST shop /cancels/{{token}}
    effect: write
    undo: none
    reason: it only says that the flow is off
flows:
  checkout: {{ tools: [ orders.create, orders.cancel ], canceled_by: orders.cancel }}
flow_rules:
  parent: [ "header:X-Parent-Trace", "body#/run" ]
  agents_may: [ {orders} ]
"""


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    file = tmp_path_factory.mktemp("secrets") / "undo"
    file.write_text("canary-first\n")
    return file


@pytest.fixture(scope="module")
def shop(double, secret, tmp_path_factory):
    policy = POLICY.format(url=double.url, secret=secret, orders="cancel")
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.stop() == 0, running.stderr()[-4000:]


def post(proxy, path, trace, body=None, **headers):
    fields = {**rawhttp.traced(trace), **headers}
    return rawhttp.call(proxy.port, "POST", path, headers=fields, body=body or {"n": 1})


def undone(double, token):
    return [r["path"] for r in double.requests() if r["method"] == "DELETE" and token in r["path"]]


def test_nested_traces_share_the_flow_of_their_parent_and_are_undone_with_it(shop, double, token):
    parent = secrets.token_hex(16)
    assert post(shop, f"/orders/{token}-a", parent, {"run": parent}).status == 201
    child = {"X-Parent-Trace": parent}
    assert post(shop, f"/orders/{token}-b", secrets.token_hex(16), **child).status == 201
    assert post(shop, f"/orders/{token}-c", secrets.token_hex(16)).status == 201
    canceled = post(shop, "/any", parent, **{"Recourse-Flow": "cancel"})
    assert canceled.status == 202 and canceled.json()["steps"] == 2, canceled
    wait_until(lambda: len(undone(double, token)) == 2)
    assert [path.split("/")[2] for path in undone(double, token)] == [f"{token}-b", f"{token}-a"]


def test_a_parents_name_that_cannot_be_one_is_passed_over(shop, token):
    trace = secrets.token_hex(16)
    assert post(shop, f"/orders/{token}", trace, {"run": "a\nb"}).status == 201
    assert post(shop, f"/orders/{token}-x", trace, {"run": "x" * 129}).status == 201
    canceled = post(shop, "/any", trace, **{"Recourse-Flow": "cancel"})
    assert canceled.status == 202 and canceled.json()["steps"] == 2, canceled


def test_an_agent_may_order_only_what_the_policy_lets_it(shop, token):
    refused = post(shop, "/any", secrets.token_hex(16), **{"Recourse-Flow": "close"})
    assert refused.status == 403 and "agents_may" in refused.json()["detail"], refused


def test_the_success_of_the_canceling_tool_has_the_flow_undone(shop, double, token):
    trace = secrets.token_hex(16)
    assert post(shop, f"/orders/{token}", trace).status == 201
    assert undone(double, token) == []
    assert post(shop, f"/cancels/{token}", trace).status == 201
    wait_until(lambda: len(undone(double, token)) == 1)


def test_a_secret_is_read_when_the_undo_is_sent_and_stays_out_of_the_log(
    shop, double, secret, token
):
    trace = secrets.token_hex(16)
    assert post(shop, f"/orders/{token}", trace).status == 201
    secret.write_text("canary-rotated\n")
    post(shop, "/any", trace, **{"Recourse-Flow": "cancel"})
    wait_until(lambda: len(undone(double, token)) == 1)
    undo = next(r for r in double.requests(undone(double, token)[0]) if r["method"] == "DELETE")
    assert dict(undo["headers"])["Authorization"] == "Bearer canary-rotated"
    exported = shop.cli("ledger", "export", "--with-answers").stdout
    assert "canary-" not in exported + shop.stdout() + shop.stderr()
    for file in shop.data.rglob("*"):
        assert not file.is_file() or b"canary-" not in file.read_bytes(), file


def test_an_undo_of_a_step_whose_answer_was_lost_has_all_of_the_call_and_the_reference(
    shop, double, token
):
    trace = secrets.token_hex(16)
    double.script("POST", f"/orders/{token}", ["read", "execute", "rst"])
    post(shop, f"/orders/{token}", trace, {"client_ref": token})
    post(shop, "/any", trace, **{"Recourse-Flow": "cancel"})
    wait_until(lambda: len(undone(double, token)) == 1)
    made = next(e for e in double.record() if e["t"] == "effect" and token in e["path"])
    assert undone(double, token) == [f"/orders/{token}/{made['id']}"]


def test_a_finished_flow_is_not_undone_after_the_window_of_a_step(shop, double, token):
    trace = secrets.token_hex(16)
    assert post(shop, f"/notes/{token}", trace).status == 201
    closed = shop.cli("flows", "close", trace, "--reason", "done")
    assert closed.returncode == 0, closed
    wait_until(lambda: shop.cli("flows", "show", trace).stdout.count("COMMITTED"))
    late = shop.cli("flows", "undo", trace, "--yes", "--reason", "too late")
    assert late.returncode != 0 and "is too old: notes.create took effect" in late.stderr
    assert undone(double, token) == []


def test_a_step_is_undone_also_where_its_call_means_another_operation_by_now(shop, double, token):
    """Without a trace the same call, once its window is over, repeats what a trace began since."""
    path, flow = f"/rooms/{token}", secrets.token_hex(16)

    def book(**fields):
        return rawhttp.call(shop.port, "POST", path, headers=fields, body={"n": 1})

    assert book(**{"Recourse-Flow": flow}).status == 201
    (booked,) = double.effects(path)
    lasts(1.3)  # its window passes: who looked whether it has would be one repeat more
    double.script("POST", path, ["read", "execute", "rst"], times=1)
    assert post(shop, path, secrets.token_hex(16)).outcome == "unknown"
    assert book().outcome == "unknown"
    assert len(double.requests(path, "POST")) == 2
    post(shop, "/any", flow, **{"Recourse-Flow": "cancel"})
    wait_until(lambda: undone(double, token) == [f"{path}/{booked['id']}"])
