"""What operators do to flows: `recourse flows ...` and the same in the admin API."""

import json
import time

import pytest

from support import rawhttp
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: guard }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test, 127.0.0.1 ], timeout: 60s,
          connect_timeout: 30s }}
tools:
  orders.create:
    match: POST shop /orders/{{token}}
    effect: write
    undo:
      request: "DELETE /orders/{{path.token}}/{{external_ref}}"
      done: [ 2xx, 404 ]
      repeatable: true
  payments.charge:
    match: POST shop /payments/{{token}}
    effect: write
    undo: {{ request: "POST /refunds/{{path.token}}", json: {{ charge: "{{external_ref}}" }} }}
  shipping.book:
    match: POST shop /shipping/{{token}}
    effect: write
    undo: {{ request: "DELETE /shipping/{{path.token}}/{{external_ref}}" }}
  mails.send:
    match: POST shop /mails/{{token}}
    effect: write
    undo: none
    reason: who has read a mail has read it
    pivot: true
  notes.create:
    match: POST shop /notes/{{token}}
    effect: write
    undo: {{ request: "DELETE /notes/{{path.token}}/{{external_ref}}" }}
  seats.hold:
    match: POST shop /seats/{{token}}
    effect: write
    undo: {{ request: "DELETE /seats/{{path.token}}/{{external_ref}}", window: 1ms }}
  refunds.create:
    match: POST shop /refunds/{{token}}
    effect: write
    undo: none
    reason: it is itself an undo
flows:
  checkout: {{ tools: [ orders.create, payments.charge, shipping.book, mails.send ],
              ends_with: shipping.book, deadline: 1h, on_deadline: undo }}
  note: {{ tools: [ notes.create ], ends_with: notes.create, deadline: 100ms, on_deadline: ask }}
"""

REFUSAL = {"send": "HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 0\r\n\r\n"}


class Shop:
    """One Recourse before the double, and one flow after the other."""

    def __init__(self, recourse, double):
        self.recourse = recourse
        self.double = double

    def call(self, kind, token, trace):
        return rawhttp.call(
            self.recourse.port, "POST", f"/{kind}/{token}",
            headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01",
                     "Content-Type": "application/json"},
            body=json.dumps({"client_ref": token}).encode(),
        )  # fmt: skip

    def effects(self, token):
        return [
            f"{line['method']} {line['path'].split('/')[1]}"
            for line in self.double.record()
            if line["t"] == "effect" and f"/{token}" in line["path"]
        ]

    def buy(self, token, *kinds):
        """Runs these steps; gives the flow's trace."""
        trace = trace_of(token)
        for kind in kinds:
            assert self.call(kind, token, trace).status == 201
        return trace

    def flow(self, trace):
        return self.recourse.admin("GET", f"/flows/{trace}")

    def await_flow(self, trace, phase):
        return wait_until(lambda: (f := self.flow(trace))["phase"] == phase and f)

    def park(self, token):
        """A flow whose payment cannot be taken back: the backend refuses to."""
        trace = self.buy(token, "orders", "payments")
        self.double.script("POST", f"/refunds/{token}", ["read", REFUSAL], times=1)
        self.flows("cancel", trace, "--reason", "the agent went astray")
        return self.await_flow(trace, "NEEDS_HUMAN")

    def flows(self, *arguments, code=0):
        done = self.recourse.cli("flows", *arguments)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr

    def post(self, path, body):
        status, text = self.recourse.http(
            "admin", "POST", path, body=body if isinstance(body, str) else json.dumps(body),
            headers={"Authorization": f"Bearer {self.recourse.token}"})  # fmt: skip
        return status, json.loads(text)


def trace_of(token):
    return format(abs(hash(token)) % (1 << 120) + 1, "032x")


@pytest.fixture(scope="module")
def shop(double, tmp_path_factory):
    policy = POLICY.format(url=double.url)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield Shop(running, double)
        assert running.verify()["ok"]
        assert running.stop() == 0, running.stderr()[-4000:]


def step_of(flow, tool):
    return next(step for step in flow["steps"] if step["tool"] == tool)


def test_a_parked_flow_is_listed_and_shown_with_its_reason_and_what_is_left_to_undo(shop, token):
    flow = shop.park(token)
    number = str(flow["number"])
    table = shop.flows("list", "--parked").splitlines()
    assert table[0].split()[:3] == ["FLOW", "CHANGED", "PHASE"]
    (row,) = [line for line in table if trace_of(token) in line]
    assert row.split()[0] == number and "NEEDS_HUMAN" in row and "422" in row
    assert all("NEEDS_HUMAN" in line for line in table[1:])
    shown = shop.flows("show", number)
    assert "orders.create" in shown and "payments.charge" in shown and "422" in shown
    assert f"DELETE {shop.double.url}/orders/{token}" in shown
    payment = step_of(flow, "payments.charge")
    assert payment["undo_phase"] == "REJECTED" and payment["undo_attempts"] == 1
    listed = json.loads(shop.flows("list", "--parked", "--json"))
    assert number in [str(line["number"]) for line in listed]
    assert json.loads(shop.flows("show", number, "--json")) == shop.flow(number)


def test_retry_lets_a_parked_flow_go_on_and_the_log_tells_its_whole_story(shop, token):
    flow = shop.park(token)
    assert "it is being undone" in shop.flows("retry", flow["flow"], "--as-user", "ada")
    shop.await_flow(str(flow["number"]), "UNDONE")
    assert shop.effects(token) == ["POST orders", "POST payments", "POST refunds", "DELETE orders"]
    story = shop.recourse.cli("events", "list", "--trace", flow["flow"]).stdout
    for tool in ("orders.create", "payments.charge"):
        step = step_of(flow, tool)["step"]
        assert f"  undo of {step} ({tool})  " in story
    assert story.count("undone\n") == 2
    moves = [line.split(maxsplit=8) for line in story.splitlines() if "  flow  " in line]
    stuck = f"step {step_of(flow, 'payments.charge')['step']} (payments.charge): "
    retried = "admin (ada): retried by an operator"
    assert [move[3] for move in moves] == ["BREAKING", "UNDOING", "NEEDS_HUMAN", "BREAKING",
                                           "UNDOING", "UNDONE"]  # fmt: skip
    assert moves[2][8].startswith(stuck) and [move[8] for move in moves[3:]] == [retried] * 3
    events = shop.recourse.events(flow=flow["flow"])
    assert step_of(flow, "orders.create")["step"] in [event["undoes"] for event in events]
    assert {e["flow_name"] for e in events if not e["undoes"]} == {"checkout"}


def test_each_row_of_a_flow_can_be_shown(shop, token):
    flow = shop.park(token)
    listed = shop.recourse.cli("events", "list", "--trace", flow["flow"], "--json")
    moves = [row for row in json.loads(listed.stdout) if row.get("kind") == "flow"]
    assert [move["phase"] for move in moves] == ["BREAKING", "UNDOING", "NEEDS_HUMAN"]
    for move in moves:
        assert shop.recourse.admin("GET", f"/events/{move['event_id']}") == move
    shown = shop.recourse.cli("events", "show", str(moves[2]["event_id"]))
    assert shown.returncode == 0 and "NEEDS_HUMAN" in shown.stdout and "422" in shown.stdout
    assert f"recourse flows show {flow['number']}" in shown.stdout
    missing = shop.recourse.cli("events", "show", "99999999")
    assert missing.returncode == 1 and "no event has this id" in missing.stderr


def test_a_step_that_was_undone_by_hand_is_told_so_and_the_rest_is_undone(shop, token):
    flow = shop.park(token)
    step = step_of(flow, "payments.charge")["step"]
    shop.flows("resolve", flow["number"], "--step", step, "--as", "done",
               "--reason", "refunded in the console", "--as-user", "ada")  # fmt: skip
    done = shop.await_flow(str(flow["number"]), "UNDONE")
    assert done["undone_count"] == 2
    assert shop.effects(token) == ["POST orders", "POST payments", "DELETE orders"]
    shown = shop.flows("show", flow["number"]).splitlines()
    (by_hand,) = [line for line in shown if "payments.charge" in line]
    (by_itself,) = [line for line in shown if "orders.create" in line]
    assert by_hand.endswith("  undone by hand") and by_itself.endswith("  undone")
    told = [e for e in shop.recourse.events(operation=step) if e["phase"] == "COMPENSATED"]
    assert told[0]["cause"] == "human"
    assert told[0]["detail"] == "admin (ada): refunded in the console"
    story = shop.recourse.cli("events", "list", "--trace", flow["flow"]).stdout
    said = [line for line in story.splitlines()
            if line.endswith("  admin (ada): refunded in the console")]  # fmt: skip
    assert len([line for line in said if "COMPENSATED" in line and "payments.charge" in line]) == 1
    assert len([line for line in said if "  flow  " in line and "BREAKING" in line]) == 1


def test_a_step_that_is_not_stuck_was_not_undone_by_hand(shop, token):
    flow = shop.park(token)
    stuck, other = step_of(flow, "payments.charge")["step"], step_of(flow, "orders.create")["step"]
    refused = shop.flows("resolve", flow["number"], "--step", other, "--as", "done",
                         "--reason", "a slip", code=1)  # fmt: skip
    assert f"step {stuck} is stuck; step {other} will be undone by itself" in refused
    assert shop.flow(str(flow["number"]))["phase"] == "NEEDS_HUMAN"
    assert step_of(shop.flow(str(flow["number"])), "orders.create")["phase"] == "SUCCEEDED"


def test_a_step_whose_effect_may_stay_is_left_and_the_rest_is_undone(shop, token):
    flow = shop.park(token)
    step = step_of(flow, "payments.charge")["step"]
    shop.flows("resolve", flow["number"], "--step", step, "--as", "not-needed", "--reason", "gift")
    done = shop.await_flow(str(flow["number"]), "UNDONE")
    assert step_of(done, "payments.charge")["not_needed"] and done["undone_count"] == 1
    assert shop.effects(token) == ["POST orders", "POST payments", "DELETE orders"]


def test_closing_a_parked_flow_keeps_what_was_done(shop, token):
    flow = shop.park(token)
    told = shop.flows("close", flow["number"], "--reason", "kept", "--as-user", "ada")
    assert told == f"flow {flow['number']} is COMMITTED; what was done stays\n"
    closed = shop.flow(str(flow["number"]))
    assert (closed["cause"], closed["reason"]) == ("human", "admin (ada): kept")
    assert shop.effects(token) == ["POST orders", "POST payments"]


@pytest.mark.parametrize("word, ends", [("happened", "NEEDS_HUMAN"), ("absent", "UNDONE")])
def test_an_unknown_outcome_is_settled_by_the_word_of_a_human(shop, double, token, word, ends):
    trace = trace_of(token)
    double.script("POST", f"/notes/{token}", ["read", "fin"])
    assert shop.call("notes", token, trace).status == 502
    flow = shop.await_flow(trace, "NEEDS_HUMAN")
    (step,) = flow["steps"]
    assert step["phase"] == "UNCERTAIN" and step["undo"] == "settle"
    early = shop.flows("resolve", trace, "--step", step["step"], "--as", "done", "--reason", "x",
                       code=1)  # fmt: skip
    assert "say first whether it happened" in early
    shop.flows("resolve", trace, "--step", step["step"], "--as", word, "--reason", "looked it up")
    number = str(flow["number"])
    ended = wait_until(
        lambda: (f := shop.flow(number))["steps"][0]["phase"] != "UNCERTAIN"
        and f["phase"] == ends
        and f
    )
    phases = {"happened": "SUCCEEDED", "absent": "PROVEN_ABSENT"}
    assert ended["steps"][0]["phase"] == phases[word]


def test_a_finished_flow_is_undone_after_a_preview_of_the_exact_requests(shop, double, token):
    trace = shop.buy(token, "orders", "payments", "shipping")
    assert shop.await_flow(trace, "COMMITTED")["cause"] == "ends_with"
    refused = shop.flows("undo", trace, code=2)
    assert "--preview" in refused
    preview = json.loads(shop.flows("undo", trace, "--preview", "--json"))
    assert [step["tool"] for step in preview["plan"]] == [
        "shipping.book", "payments.charge", "orders.create"]  # fmt: skip
    status, posted = shop.post(f"/flows/{trace}/undo?preview=true", "")
    assert (status, posted) == (200, preview)
    text = shop.flows("undo", trace, "--preview")
    number = str(preview["number"])
    assert f"flows undo {number} --yes" in text
    assert "--reason" in shop.flows("undo", trace, "--yes", code=2)
    assert len(shop.effects(token)) == 3
    shop.flows("undo", trace, "--yes", "--reason", "the customer withdrew")
    done = shop.await_flow(number, "UNDONE")
    assert done["reason"] == "admin: the customer withdrew" and done["undone_count"] == 3
    assert shop.effects(token)[3:] == ["DELETE shipping", "POST refunds", "DELETE orders"]
    sent = [line for line in double.record()
            if line["t"] == "request" and line["path"].startswith((f"/refunds/{token}",
            f"/shipping/{token}/", f"/orders/{token}/"))]  # fmt: skip
    planned = [step["undo_request"] for step in preview["plan"]]
    assert [(r["method"], double.url + r["path"]) for r in sent] == [
        (r["method"], r["url"]) for r in planned]  # fmt: skip


def test_a_preview_says_what_cannot_be_undone_and_what_is_not_reached_then(shop, token):
    trace = shop.buy(token, "orders", "mails")
    preview = json.loads(shop.flows("undo", trace, "--preview", "--json"))
    assert [(s["tool"], s["undo"], s["reached"]) for s in preview["plan"]] == [
        ("mails.send", "stop", True), ("orders.create", "send", False)]  # fmt: skip
    text = shop.flows("undo", trace, "--preview")
    assert "need a human: mails.send is the flow's pivot" in text
    assert "flows cancel" in text


def test_a_step_that_is_older_than_its_undo_window_is_refused(shop, token):
    trace = shop.buy(token, "seats")
    shop.flows("close", trace, "--reason", "enough")
    preview = json.loads(shop.flows("undo", trace, "--preview", "--json"))
    assert preview["plan"][0]["undo"] == "too_old" and "too old" in preview["refused"]
    assert "it is refused" in shop.flows("undo", trace, "--preview")
    told = shop.flows("undo", trace, "--yes", "--reason", "x", code=1)
    assert "seats.hold took effect" in told and shop.effects(token) == ["POST seats"]
    assert shop.flow(str(preview["number"]))["phase"] == "COMMITTED"


def test_a_flow_that_is_over_is_found_in_the_list_of_all(shop, token):
    trace = shop.buy(token, "orders")
    shop.flows("close", trace, "--reason", "enough")
    open_now = json.loads(shop.flows("list", "--json"))
    assert trace not in [flow["flow"] for flow in open_now]
    newest = json.loads(shop.flows("list", "--all", "--phase", "COMMITTED", "--json"))
    assert trace in [flow["flow"] for flow in newest]
    assert len(json.loads(shop.flows("list", "--all", "--limit", "1", "--json"))) == 1


def test_two_flows_of_one_name_have_to_be_told_apart_by_number(shop, token):
    trace = shop.buy(token, "orders")
    shop.flows("close", trace, "--reason", "enough")
    shop.buy(token, "payments")
    shop.flows("close", trace, "--reason", "enough")
    told = shop.flows("show", trace, code=1)
    newest = json.loads(shop.flows("list", "--all", "--json"))
    numbers = [str(flow["number"]) for flow in newest if flow["flow"] == trace]
    assert len(numbers) == 2 and ", ".join(numbers) in told


def test_flows_command_says_what_is_wrong_with_its_input(shop, token):
    unknown = shop.flows("show", "nothing-of-that-name", code=1)
    assert "no flow has" in unknown and "flows list --all" in unknown
    assert "is no value for phase" in shop.flows("list", "--phase", "BROKEN", code=1)
    assert "exclude each other" in shop.flows("list", "--parked", "--phase", "OPEN", code=2)
    trace = shop.buy(token, "orders")
    assert "--reason" in shop.flows("cancel", trace, code=2)
    assert "does not wait for a human" in shop.flows("retry", trace, code=1)
    shop.flows("undo", trace, "--yes", "--preview", code=2)
    shop.flows("resolve", trace, "--step", "1", "--as", "forgotten", "--reason", "x", code=2)
    shop.flows("close", trace, "--reason", "enough")
    assert "only an OPEN one" in shop.flows("cancel", trace, "--reason", "x", code=1)
    assert run_cli("flows").returncode == 2
    assert "accepted: list" in run_cli("flows", "lst").stderr


@pytest.mark.parametrize("path, body, status, told", [
    ("close", "", 400, "say why"),
    ("close", {"reason": "  "}, 400, "say why"),
    ("close", {"reason": 7}, 400, "must be a string"),
    ("close", {"reason": "a\nb"}, 400, "one line"),
    ("close", {"reason": "x" * 600}, 400, "510 bytes"),
    ("close", {"reason": "x", "step": 1}, 400, "for resolve"),
    ("close", {"why": "x"}, 400, "'why' is not one of"),
    ("close", "[]", 400, "JSON object"),
    ("close?preview=true", {"reason": "x"}, 400, "only undo"),
    ("resolve", {"reason": "x", "step": 1}, 400, "accepted: done"),
    ("resolve", {"reason": "x", "as": "done"}, 400, "name the step"),
    ("resolve", {"reason": "x", "as": "done", "step": -1}, 400, "number of a step"),
    ("end", {"reason": "x"}, 404, "the admin API has"),
    ("preview", "", 405, "use GET"),
])  # fmt: skip
def test_the_api_refuses_a_bad_order_and_leaves_the_flow_alone(
    shop, token, path, body, status, told
):
    trace = shop.buy(token, "orders")
    got, problem = shop.post(f"/flows/{trace}/{path}", body)
    assert (got, told in problem["detail"]) == (status, True), problem
    assert shop.flow(trace)["phase"] == "OPEN"


def test_the_api_asks_for_the_token(shop):
    for method, path in [("GET", "/flows"), ("GET", "/flows/1"), ("POST", "/flows/1/cancel")]:
        assert shop.recourse.http("admin", method, path)[0] == 401


def test_metrics_count_flows_undo_requests_and_what_waits_for_a_human(shop, token):
    before = metrics(shop.recourse)
    flow = shop.park(token)
    parked = metrics(shop.recourse)
    assert parked['recourse_flows{phase="NEEDS_HUMAN"}'] >= 1
    assert parked["recourse_flows_parked"] == parked['recourse_flows{phase="NEEDS_HUMAN"}']
    assert 0 < parked["recourse_flows_parked_oldest_timestamp_seconds"] <= time.time()
    shop.flows("retry", flow["number"])
    shop.await_flow(str(flow["number"]), "UNDONE")
    after = metrics(shop.recourse)
    assert after["recourse_flows_parked"] == parked["recourse_flows_parked"] - 1
    for series, more in [
        ('recourse_flows_total{result="needs_human"}', 1),
        ('recourse_flows_total{result="undone"}', 1),
        ('recourse_undos_total{result="stuck",tool="payments.charge"}', 1),
        ('recourse_undos_total{result="done",tool="payments.charge"}', 1),
        ('recourse_undos_total{result="done",tool="orders.create"}', 1),
    ]:
        assert after[series] - before.get(series, 0) == more, series


def metrics(recourse):
    status, text = recourse.probe("/metrics")
    assert status == 200
    series = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            head, brace, labels = name.partition("{")
            if brace:
                name = head + "{" + ",".join(sorted(labels.rstrip("}").split(","))) + "}"
            series[name] = float(value)
    return series
