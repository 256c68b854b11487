"""GET /openapi.json, held to what the running process answers: every operation, every kind of
answer, every parameter, and no member that the document does not know."""

import contextlib
import http.client
import json
import re

import jsonschema
import pytest

from support import flows, rawhttp
from support.openapi import Described, schemas_in
from support.operators import CSRF, Guarded, tokens
from support.policies import observed
from support.recourse import WAIT_MAX, run_cli
from support.waiting import wait_until

DORA, BOB, RITA, ALF = (name + "-token-of-thirty-two-bytes-and-more" for name in "dbra")
PEOPLE = tokens(
    ("dora", DORA, "read, approve, repair"),
    ("bob", BOB, "read, approve, repair"),
    ("rita", RITA, "read"),
    ("alf", ALF, "approve"),
)
RULES = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ dora ], expires: 10m, hold: 0s }
  brief.ask:
    match: POST shop /brief/{token}
    effect: write
    undo: none
    approval: { by: [ dora ], expires: 300ms, hold: 0s }
"""
# Answers that nothing here can bring about, and why.
NOT_SEEN = {
    ("POST", "/flows/close", 409): "observe mode alone refuses it",
    ("POST", "/ledger/backup", 409): "another copy would have to run at that very moment",
}
# Members of answers that nothing here brings about, and why; a place alone: the whole object.
SHARED, OBSERVE, TEXT = "of a shared ledger", "of observe mode", "every body here is text"
NOT_WRITTEN = {
    **{f"{of} {name}": SHARED for of in ("ApprovalFacts", "EventFacts", "FlowFacts", "FlowMove")
       for name in ("pod", "stream")},
    **{f"ProcessStatus {name}": SHARED for name in ("retention", "streams")},
    **{f"ProcessStatus.{name}": SHARED for name in ("retention", "retention.behind", "streams")},
    **{f"EventFacts {name}": OBSERVE for name in ("related", "verdict")},
    **{f"Report.{name}": OBSERVE for name in
       ("differences", "duplicates", "duplicates.examples", "duplicates.seconds", "held", "keys",
        "refused")},
    **{f"{of} body_base64": TEXT for of in
       ("Approval.original", "ApprovalRequest", "KeptMessage", "UndoRequest")},
    "ApprovalLine sealed": "every key is there",
    "EventLine request_left_out": "every request here is kept",
    "EventLine task_request": "no backend here has tasks",
    "FlowStep changed_since": "no undo here is held back",
    "Ledger counted": SHARED,
    "Ledger not_opened": "the ledger can be opened",
    "Ledger refused": "nothing is refused by a database",
    "PlaceDrift": "no undo here is held back",
    "Policy.orphaned": "every policy here is kept",
    "PolicyTools.flows canceled_by": "no flow of the policy has it",
    "PolicyTools.flows deadline_ms": "no flow of the policy has it",
    "Report.unlisted": "every call here is of a tool",
    "Verified bad_row": "the chain is whole",
    "Verified check": "the chain is whole",
    "Verified stream": SHARED,
}  # fmt: skip
# Of most operations, and brought about once for all.
COMMON = {400, 401, 403, 421, 429, 503}


@pytest.fixture(scope="module")
def guarded(double, tmp_path_factory):
    policy = flows.policy(double, tools=RULES)
    with Guarded(tmp_path_factory.mktemp("described"), policy, PEOPLE) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@pytest.fixture
def api(guarded):
    return Described(guarded, DORA)


def test_the_document_is_sound_and_leaves_no_object_open(api, tmp_path):
    document = api.document
    assert document["openapi"] == "3.1.0"
    ids = [operation["operationId"] for _, _, operation in api.operations()]
    assert len(set(ids)) == len(ids)
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    text = json.dumps(document)
    for kind, name in re.findall(r'"#/components/([a-z]+)/([A-Za-z]+)"', text, re.IGNORECASE):
        assert name in document["components"][kind], name
    for kind in ("schemas", "responses"):
        for name in document["components"][kind]:
            assert f"#/components/{kind}/{name}\"" in text, f"{name} is used nowhere"
    for _, path, operation in api.operations():
        named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert named == set(re.findall(r"\{([a-z]+)\}", path)), path
    bases = {name for name in schemas if name.endswith("Facts")}
    for name in set(schemas) - bases:
        for schema in schemas_in(schemas[name]):
            closed = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
            assert closed is False, (name, schema)
    # Other readers of OpenAPI take it too: ours.
    path = tmp_path / "openapi.json"
    path.write_text(text)
    made = run_cli("policy", "import", "openapi", path)
    assert made.returncode == 0 and "/flows/{id}/undo" in made.stdout, made.stderr


def test_each_operation_takes_the_parameters_and_the_members_that_are_described(api):
    known = re.compile(r"^'nonsense' is not (?:one of )?(.*)$")

    def accepted(method, target, body=None):
        detail = api.ask(method, target, 400, body)["detail"]
        found = known.match(detail)
        assert found, detail
        return set(found[1].split(", "))

    for method, path, operation in api.operations():
        queries = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
        if queries and "{" not in path:
            assert accepted(method, path + "?nonsense=1") == queries, path
    orders = {"/approvals/9/approve": "ApproveOrder", "/approvals/9/reject": "RejectOrder",
              "/policy/explain": "ExplainOrder"}  # fmt: skip
    schemas = api.document["components"]["schemas"]
    for path, name in orders.items():
        members = set(schemas[name]["properties"])
        assert accepted("POST", path, {"nonsense": "1"}) == members, path


def told(api, path, body=None):
    """A call that a human has to approve: the number of its operation."""
    answer = rawhttp.call(
        api.guarded.port, "POST", path, host="shop.test", headers=rawhttp.traced("a" * 31 + "1"),
        body=body or {"to": "ada"},
    )  # fmt: skip
    assert answer.status in (202, 403), answer
    return answer.json().get("operation")


def see_the_files(api):
    for path in ("/", "/ui/app.js", "/openapi.json"):
        api.ask("GET", path, 200, token=None)
        _, fields, _ = api.guarded.ask("GET", path)
        api.ask("GET", path, 304, headers={"If-None-Match": fields["ETag"]}, token=None)
        api.ask("GET", path, 421, headers={"Host": "evil.example"}, token=None)
    assert api.ask("GET", "/.recourse/port", 200, token=None) == {"recourse": "admin"}
    api.ask("GET", "/ui/none.js", 404, token=None)
    api.ask("GET", "/ui/openapi.json", 404, token=None)


def see_the_door(api):
    for method, path, operation in api.operations():
        if not operation["security"]:
            continue
        target = re.sub(r"\{[a-z]+\}", "1", path)
        api.ask(method, target, 401, token=None)
        api.ask(method, target, 421, headers={"Host": "evil.example"})
        for role in operation["security"][0]["bearer"]:
            api.ask(method, target, 403, token=ALF if role == "read" else RITA)
    while api.guarded.ask("GET", "/ledger", "short")[0] == 401:
        pass
    api.ask("GET", "/ledger", 429, token="short")


def see_sessions(api):
    api.ask("GET", "/session", 200)
    api.ask("DELETE", "/session", 400)
    api.ask("POST", "/session", 200)
    cookie, csrf = api.guarded.login(DORA)
    own = {"Cookie": cookie, "Origin": f"http://localhost:{api.guarded.ports['admin']}"}
    assert "csrf" in api.ask("GET", "/session", 200, headers=own, token=None)
    api.ask("DELETE", "/session", 403, headers=own, token=None)
    api.ask("DELETE", "/session", 204, headers={**own, CSRF: csrf}, token=None)


def see_approvals(api, token):
    first, second, third = (told(api, f"/mail/{token}{n}") for n in range(3))
    (line,) = [one for one in api.ask("GET", "/approvals", 200)["approvals"]
               if one["operation"] == first]  # fmt: skip
    page = api.ask("GET", "/approvals?limit=1&tool=mail.send", 200)
    assert page["next"] is not None
    assert "original" not in api.ask("GET", f"/approvals/{first}", 200)
    target, good = f"/approvals/{first}/approve", {"digest": line["digest"], "reason": "seen"}
    api.ask("POST", target, 400, {"digest": "x"})
    api.ask("POST", target, 403, good, token=BOB)
    api.ask("POST", target, 409, {"digest": "0" * 64})
    api.ask("POST", target, 422, {**good, "body": "not JSON"})
    edited = api.ask("POST", target, 200, {**good, "body": json.dumps({"to": "eve"})})
    assert edited["changes"] and edited["decisions"][0]["decision"] == "edited"
    api.ask("POST", f"/approvals/{second}/reject", 400, {})
    api.ask("POST", f"/approvals/{second}/reject", 200, {"reason": "no"})
    api.ask("POST", f"/approvals/{second}/reject", 409, {"reason": "no"})
    wait_until(lambda: api.ask("GET", f"/approvals/{first}", 200)["status"] == "finished")
    assert api.ask("GET", f"/approvals/{third}", 200)["earlier"]
    told(api, f"/brief/{token}")
    over = api.guarded.await_phase(f"/brief/{token}", "EXPIRED")
    name = f"/approvals/{over['operation']}"
    api.ask("POST", f"{name}/approve", 410, {"digest": "0" * 64})
    api.ask("POST", f"{name}/reject", 410, {"reason": "no"})
    for verb, body in (("approve", {"digest": "0" * 64}), ("reject", {"reason": "no"})):
        api.ask("POST", f"/approvals/999999/{verb}", 404, body)
    api.ask("GET", "/approvals/999999", 404)
    api.ask("GET", "/approvals/none", 400)


def see_flows(api, shop, token):
    done, parked, closed, again = (shop.agent(f"{token}{name}") for name in "dpca")
    done.does("orders", "payments")
    done.call("shipping")  # which ends it
    parked.does("orders", "payments")
    parked.script_undo("payments", flows.answer_with("403 Forbidden"))
    parked.breaks()
    parked.await_parked()
    for target in ("/flows", "/flows?all=true", "/flows?phase=NEEDS_HUMAN", "/flows?limit=1"):
        assert api.ask("GET", target, 200)["flows"]
    number = api.ask("GET", f"/flows/{done.flow}", 200)["number"]
    assert api.ask("GET", f"/flows/{number}/preview", 200)["plan"][0]["undo_request"]
    api.ask("POST", f"/flows/{number}/undo?preview=true", 200)
    step = api.ask("GET", f"/flows/{parked.flow}", 200)["steps"][0]["step"]
    api.ask("POST", f"/flows/{parked.flow}/resolve", 400, {"step": step, "as": "nonsense"})
    api.ask("POST", f"/flows/{parked.flow}/retry", 200, {"reason": "once more"})
    closed.does("orders")
    api.ask("POST", f"/flows/{closed.flow}/close", 400, {})
    api.ask("POST", f"/flows/{closed.flow}/close", 200, {"reason": "enough"})
    again.does("orders")
    api.ask("POST", f"/flows/{again.flow}/cancel", 200, {"reason": "no more"})
    again.await_undone()
    api.ask("POST", f"/flows/{number}/undo", 200, {"reason": "all of it"})
    done.await_undone()
    assert api.ask("GET", f"/flows/{number}", 200)["steps"][0]["undo_sent"]
    for verb in ("cancel", "close", "retry", "undo"):
        api.ask("POST", f"/flows/{number}/{verb}", 409, {"reason": "once more"})
        api.ask("POST", f"/flows/none/{verb}", 404, {"reason": "once more"})
    order = {"step": step, "as": "done", "reason": "by hand"}
    api.ask("POST", f"/flows/{number}/resolve", 409, order)
    api.ask("POST", "/flows/none/resolve", 404, order)
    for target in ("/flows/none", "/flows/none/preview"):
        api.ask("GET", target, 404)


def see_a_step_resolved(api, shop, token):
    """And two flows of one name: the second begins when the first is over."""
    stuck = shop.agent(f"{token}s")
    stuck.does("orders")
    stuck.script_undo("orders", flows.answer_with("403 Forbidden"))
    stuck.breaks()
    stuck.await_parked()
    (step, *_) = api.ask("GET", f"/flows/{stuck.flow}", 200)["steps"]
    order = {"step": step["step"], "as": "done", "reason": "by hand"}
    api.ask("POST", f"/flows/{stuck.flow}/resolve", 200, order)
    api.ask("POST", "/flows/close", 400, {})
    assert api.ask("POST", "/flows/close?name=none", 200, {"reason": "enough"})["flows"] == []
    unsure = shop.agent(f"{token}n")
    unsure.script("refunds", ["read", "rst"])
    unsure.call("refunds", Host="bank.test")
    (event,) = api.guarded.events(phase="UNCERTAIN")[-1:]
    target, word = f"/operations/{event['operation']}/settle", {"as": "absent", "reason": "gone"}
    api.ask("POST", target, 400, {"as": "perhaps", "reason": "x"})
    assert api.ask("POST", target, 200, word)["phase"] == "PROVEN_ABSENT"
    api.ask("POST", target, 409, {"as": "happened", "reason": "x"})
    api.ask("POST", "/operations/999999/settle", 404, word)
    for name in ("t", "u"):
        twin = shop.agent(f"{token}{name}", name=f"twin-{token}")
        twin.does("orders")
        number = api.ask("GET", "/flows", 200)["flows"][-1]["number"]
        api.ask("POST", f"/flows/{number}/close", 200, {"reason": "enough"})
    for target in (f"/flows/{twin.name}", f"/flows/{twin.name}/preview"):
        api.ask("GET", target, 409)


def see_events(api):
    page = api.ask("GET", "/events?flows=true&limit=1000", 200)
    assert {one.get("kind") for one in page["events"]} == {None, "flow"}
    lines = api.ask("GET", "/events?lines=true&answers=true&flows=true", 200)
    for member in ("answer", "request", "undo_request"):
        assert any(member in line for line in lines), member
    api.ask("GET", "/events?lines=true", 200)
    (start,) = api.ask("GET", "/events?lines=true&follow=now", 200)
    assert set(start) == {"next", "more", "gap"}
    assert "older" in api.ask("GET", "/events?lines=true&back=1", 200)[-1]
    assert api.ask("GET", "/events?back=1", 200)["older"] is not None
    assert api.ask("GET", "/events?limit=1", 200)["next"] is not None
    api.ask("GET", "/events?phase=nonsense", 400)
    for kind in (None, "flow"):
        (row, *_) = [one for one in page["events"] if one.get("kind") == kind]
        assert api.ask("GET", f"/events/{row['event_id']}", 200) == row
    api.ask("GET", "/events/999999", 404)
    assert api.ask("GET", "/operations?limit=1", 200)["older"] is not None
    api.ask("GET", "/operations?limit=0", 400)
    assert "gap" in api.watch("/stream?after=0", 5)[0]
    with contextlib.ExitStack() as watchers:
        port = api.guarded.ports["admin"]
        status = 200
        while status == 200:
            connection = http.client.HTTPConnection("localhost", port, timeout=WAIT_MAX)
            watchers.callback(connection.close)
            connection.request("GET", "/stream", headers={"Authorization": f"Bearer {DORA}"})
            answer = connection.getresponse()
            status = answer.status
        template, operation = api.find("GET", "/stream")
        api.judge(operation, status, answer.headers, answer.read().decode())
        api.seen.add(("GET", template, status))


def see_the_ledger_and_the_policy(api):
    api.ask("GET", "/ledger", 200)
    api.ask("POST", "/ledger/verify", 200)
    api.ask("POST", "/ledger/accept", 200, {"reason": "looked at it"})
    for body in (None, {}, {"reason": " "}, {"why": "looked at it"}):
        api.ask("POST", "/ledger/accept", 400, body)
    api.ask("POST", "/ledger/backup", 200)
    api.ask("GET", "/ledger/rows?after=0&limit=1000", 200)
    for target in ("/report", "/report?since=24h"):
        assert api.ask("GET", target, 200)["calls"] > 0
    api.ask("GET", "/report?since=soon", 400)
    assert api.ask("GET", "/policy/tools", 200)["tools"]
    api.ask("GET", "/policy/explain?call=POST+shop+/orders/1", 200)
    api.ask("GET", "/policy/explain?call=nonsense", 400)
    fields = [["Content-Type", "text/plain"]]
    order = {"call": "POST shop /orders/1", "headers": fields, "body": "x"}
    api.ask("POST", "/policy/explain", 200, order)
    api.ask("GET", "/version", 200)
    assert api.ask("GET", "/status", 200)["state"] == "ready"
    api.ask("PUT", "/log-level", 400, {"level": "loud"})
    api.ask("PUT", "/log-level", 200, api.ask("GET", "/log-level", 200))
    whole = api.guarded.policy_path.read_text()
    api.guarded.policy_path.write_text(whole + "nonsense: 1\n")
    api.ask("POST", "/policy/reload", 422)
    assert api.ask("GET", "/policy", 200)["last_reload"]["problems"]
    api.guarded.policy_path.write_text(whole)
    api.ask("POST", "/policy/reload", 200)


def test_every_answer_is_one_that_the_document_describes(api, double, token):
    shop = flows.Shop(api.guarded, double)
    see_the_files(api)
    see_the_door(api)
    see_sessions(api)
    see_approvals(api, token)
    see_flows(api, shop, token)
    see_a_step_resolved(api, shop, token)
    see_events(api)
    see_the_ledger_and_the_policy(api)
    assert api.ask("POST", "/drain", 200)["state"] == "draining"
    described = {
        (method, path, int(status))
        for method, path, operation in api.operations()
        for status in operation["responses"]
    }
    missing = {one for one in described - api.seen if one[2] not in COMMON}
    assert missing == set(NOT_SEEN)
    assert COMMON <= {status for _, _, status in api.seen}
    assert api.not_written() == set(NOT_WRITTEN)


def test_what_observe_mode_writes_down_is_described_too(double, tmp_path):
    with Guarded(tmp_path, observed(double.url), PEOPLE) as running:
        api = Described(running, DORA)
        for _ in range(2):
            rawhttp.call(running.port, "POST", "/orders/o1", body={"cart": 1})
        running.await_log(lambda line: line["status"] == 201, count=2)
        events = wait_until(lambda: api.ask("GET", "/events", 200)["events"])
        assert all("verdict" in event for event in events)
        assert api.ask("GET", "/report", 200)["mode"] == "observe"
        api.ask("POST", "/flows/1/close", 404, {"reason": "enough"})
