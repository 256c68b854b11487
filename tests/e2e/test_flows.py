"""Flows end to end: a broken multi-step flow is undone in reverse, or parked; never forgotten."""

import threading

import pytest

from support.flows import Shop, answer_with, policy
from support.recourse import Recourse

TOOLS = """\
  parcels.book:
    match: POST shop /parcels/{token}
    timeout: 6s
    effect: write
    breaks_flow: on_unknown
    external_ref: answer.body#/id
    settle: { request: "GET /parcels/{path.token}?client_ref={body#/client_ref}",
              happened: answer.body#/items/0/id, absent_after: 3s }
    undo: { request: "DELETE /parcels/{external_ref}", repeatable: true }
  blind.book:
    match: POST shop /blind/{token}
    effect: write
    breaks_flow: on_unknown
    external_ref: answer.body#/id
    undo: { request: "DELETE /blind/{external_ref}" }
  twice.create:
    match: POST shop /twice/{token}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /twice/{external_ref}", repeatable: true, attempts: 2 }
  once.create:
    match: POST shop /once/{token}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /once/{external_ref}" }
  rooms.book:
    match: POST shop /rooms/{token}
    effect: write
    breaks_flow: on_unknown
    external_ref: answer.body#/id
    settle: { request: "GET /rooms/{path.token}?client_ref={body#/client_ref}",
              happened: answer.body#/items/0/id, absent_after: 3s }
    undo: { request: "DELETE /rooms/{path.token}/{external_ref}" }
  notes.add:
    match: POST shop /notes/{token}
    effect: write
    undo: none
    reason: a note may stay
  letters.send:
    match: POST shop /letters/{token}
    effect: write
    undo: none
    reason: a letter cannot be called back
    pivot: true
"""
LABELS = """\
  labels.create:
    match: POST post /labels/{token}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /labels/{external_ref}", repeatable: true }
"""
POST = """\
  post: {{ url: "{url}", hosts: [ post.test ], connect_timeout: 30s }}
tools:
"""
FLOWS = """\
  parcels: { tools: [ parcels.book, blind.book ] }
"""
LOST = ["read", "execute", "rst"]


@pytest.fixture(scope="module")
def shop(double, tmp_path_factory):
    text = policy(double, tools=TOOLS, flows=FLOWS)
    with Recourse(tmp_path_factory.mktemp("recourse"), text) as running:
        yield Shop(running, double)
        report = running.verify()
        assert report["ok"], report
        assert running.stop() == 0, running.stderr()[-4000:]


# How a flow breaks, and what is undone.
def test_a_failure_half_way_fires_the_compensations(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "payments")
    agent.breaks()
    agent.await_undone()
    assert agent.undone() == ["payments", "orders"]
    assert agent.phases("orders") == ["DISPATCHING", "SUCCEEDED", "COMPENSATED"]
    assert agent.phases("payments") == ["DISPATCHING", "SUCCEEDED", "COMPENSATED"]
    assert agent.phases("shipping") == ["DISPATCHING", "REJECTED"]


def test_a_flow_that_was_undone_takes_no_write_and_says_what_to_do(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.breaks()
    agent.await_undone()
    repeated = agent.call("orders")
    assert repeated.status == 409 and repeated.json()["type"].endswith("/compensated"), repeated
    late = agent.call("payments")
    problem = late.json()
    assert late.status == 409 and problem["type"].endswith("/flow-closed"), late
    assert problem["outcome"] == "not_executed" and problem["advice"], problem
    assert shop.double.requests(agent.path("payments")) == []


@pytest.mark.parametrize("executed", [True, False])
def test_an_unknown_step_is_settled_before_anything_is_undone(shop, token, executed):
    agent = shop.agent(token)
    agent.does("orders", "payments")
    agent.script("parcels", LOST if executed else ["read", "rst"])
    answer = agent.call("parcels")
    agent.await_undone()
    if executed:
        agent.effects["parcels"] = shop.double.effects(agent.path("parcels"))[0]["id"]
        assert agent.undone() == ["parcels", "payments", "orders"]
        assert agent.phases("parcels")[1:] == ["UNCERTAIN", "SUCCEEDED", "COMPENSATED"]
    else:
        assert agent.undone() == ["payments", "orders"]
        assert agent.phases("parcels")[1:] == ["UNCERTAIN", "PROVEN_ABSENT"]
    assert answer.status in (201, 409, 504, 502), answer


def test_a_hanging_forward_step_that_arrives_after_its_absence_was_proved_is_undone(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script_undo("orders", answer_with("503 Unavailable"), None)  # the flow waits for this
    agent.script("payments", LOST, None)
    empty = '{"items":[]}'
    absent = f"HTTP/1.1 200 OK\r\nContent-Length: {len(empty)}\r\n\r\n{empty}"
    shop.double.script("GET", agent.path("payments"), ["read", {"send": absent}])
    agent.call("payments")
    agent.breaks()
    shop.recourse.await_phase(agent.path("payments"), "PROVEN_ABSENT")
    shop.double.ask("clear")
    agent.await_undone()
    agent.effects["payments"] = shop.double.effects(agent.path("payments"))[0]["id"]
    assert agent.undone() == ["orders", "payments"]
    phases = agent.phases("payments")
    assert phases[-3:] == ["PROVEN_ABSENT", "SUCCEEDED", "COMPENSATED"], phases
    assert shop.told("a step took effect after its absence was proved; it is undone", agent.flow)


def test_the_undo_of_a_step_that_was_settled_is_made_of_its_path_and_what_the_probe_found(
    shop, token
):
    agent = shop.agent(token)
    agent.script("rooms", LOST)
    agent.call("rooms")
    agent.await_undone()
    (room,) = shop.double.effects(agent.path("rooms"))
    assert len(shop.double.requests(f"{agent.path('rooms')}/{room['id']}", "DELETE")) == 1


def test_a_step_that_times_out_breaks_a_flow_that_says_so(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script("parcels", ["read", "hang"])
    agent.call("parcels")
    agent.await_undone()
    assert agent.undone() == ["orders"]


def test_a_step_that_nothing_can_settle_parks_the_flow(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script("blind", LOST)
    assert agent.call("blind").json()["outcome"] == "unknown"
    reason = agent.await_parked()
    assert "blind.book" in reason and "nobody knows" in reason
    assert agent.undone() == []
    assert agent.call("payments").json()["type"].endswith("/flow-closed")
    assert agent.call("blind").json()["outcome"] == "unknown"


def test_a_step_in_flight_is_awaited_and_then_undone(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script("payments", ["read", {"gate": token}, "execute", "answer"])
    waiting = threading.Thread(target=agent.call, args=("payments",))
    waiting.start()
    shop.double.await_requests("POST", agent.path("payments"))
    agent.breaks()
    assert agent.call("notes").json()["type"].endswith("/flow-closed")
    assert agent.undone() == []
    shop.double.open_gate(token)
    waiting.join()
    agent.await_undone()
    assert agent.undone() == ["payments", "orders"]


def test_steps_that_ran_at_once_are_all_undone(shop, token):
    agent = shop.agent(token)
    threads = [
        threading.Thread(target=agent.call, args=("orders", f"{token}-{number}"))
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    agent.breaks()
    agent.await_undone()
    began = {e["external_ref"]: e["event_id"] for e in agent.events() if e["phase"] == "SUCCEEDED"}
    order = [began[agent.effects[kind]] for kind in agent.undone()]
    assert len(order) == 6 and order == sorted(order, reverse=True)


def test_a_flow_over_three_backends_with_a_token_each_is_undone_in_reverse(double, token, tmp_path):
    post = POST.format(url=double.url.replace("127.0.0.1", "localhost"))
    text = policy(double, tools=LABELS).replace("tools:\n", post, 1)
    with Recourse(tmp_path, text) as running:
        agent = Shop(running, double).agent(token)

        def does(kind, bearer, status, **more):
            answer = agent.call(kind, Authorization=f"Bearer {bearer}", **more)
            assert answer.status == status, answer

        does("orders", "shop-1", 201)
        agent.script("payments", answer_with("401 Unauthorized"))
        does("payments", "bank-1", 401)
        does("payments", "bank-2", 201)
        does("labels", "post-1", 201, Host="post.test")
        agent.script("shipping", answer_with("422 Unprocessable"))
        does("shipping", "shop-2", 422)
        agent.await_undone()
        assert agent.undone() == ["labels", "payments", "orders"]


def test_a_failed_call_alone_breaks_nothing(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script("payments", answer_with("422 Unprocessable"))
    assert agent.call("payments").status == 422
    agent.does("notes")
    assert agent.call("payments", f"{token}-again").status == 201
    assert agent.undone() == []


# What cannot be undone, or not at once.
def test_an_undo_is_tried_again_until_its_backend_is_back(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script_undo("orders", answer_with("503 Unavailable"), times=2)
    agent.breaks()
    agent.await_undone()
    times = [line["received_ns"] for line in agent.undo_requests("orders")]
    assert len(times) == 3 and agent.undone() == ["orders"]
    # It backs off: half a second at least, then a second at least.
    assert times[1] - times[0] >= 0.5e9 and times[2] - times[1] >= 1e9
    undo = [e for e in agent.events() if e["method"] == "DELETE"]
    assert [e["attempt"] for e in undo if e["phase"] == "DISPATCHING"] == [1, 2, 3]


def test_an_undo_that_was_tried_as_often_as_it_may_parks_the_flow(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "twice")
    agent.script_undo("twice", answer_with("503 Unavailable"), times=None)
    agent.breaks()
    reason = agent.await_parked()
    assert "twice.create" in reason and "tried 2 times" in reason
    assert len(agent.undo_requests("twice")) == 2 and agent.undone() == []


def test_an_undo_that_is_refused_parks_the_flow_with_its_reason(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "payments")
    agent.script_undo("payments", answer_with("403 Forbidden"), times=None)
    agent.breaks()
    reason = agent.await_parked()
    assert "payments.charge" in reason and "403" in reason
    assert agent.undone() == [] and len(agent.undo_requests("payments")) == 1
    assert agent.call("notes").json()["type"].endswith("/flow-closed")


def test_an_undo_that_is_refused_after_a_lost_answer_parks_the_flow_at_once(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script_undo("orders", ["read", "rst"])
    agent.script_undo("orders", answer_with("403 Forbidden"), times=None)
    agent.breaks()
    assert "refused after a try" in agent.await_parked()
    assert len(agent.undo_requests("orders")) == 2


def test_what_is_gone_already_counts_as_undone_where_the_policy_says_so(shop, token):
    agent = shop.agent(token)
    agent.does("payments", "orders")
    agent.script_undo("orders", answer_with("404 Not Found"))
    agent.breaks()
    agent.await_undone()
    assert agent.undone() == ["payments"] and len(agent.undo_requests("orders")) == 1


def test_a_lost_answer_to_an_undo_that_may_be_repeated_is_asked_for_again(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script_undo("orders", LOST)
    agent.breaks()
    agent.await_undone()
    assert len(agent.undo_requests("orders")) == 2


def test_a_lost_answer_to_an_undo_with_a_key_is_asked_for_under_the_same_key(shop, token):
    agent = shop.agent(token)
    agent.does("payments")
    agent.script_undo("payments", LOST)
    agent.breaks()
    agent.await_undone()
    requests = agent.undo_requests("payments")
    assert len(requests) == 2 and requests[0]["key"] == requests[1]["key"] is not None
    assert agent.undone() == ["payments"]


def test_a_lost_answer_to_an_undo_that_must_not_be_repeated_parks_the_flow(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "once")
    agent.script_undo("once", LOST)
    agent.breaks()
    reason = agent.await_parked()
    assert "once.create" in reason and "nobody knows whether its undo" in reason
    assert agent.undone() == ["once"] and len(agent.undo_requests("once")) == 1


def test_a_step_that_needs_no_undo_is_passed_over(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "notes", "payments")
    agent.breaks()
    agent.await_undone()
    assert agent.undone() == ["payments", "orders"]
    assert agent.phases("notes") == ["DISPATCHING", "SUCCEEDED"]


def test_what_came_before_a_pivot_is_not_undone(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "letters", "payments")
    agent.breaks()
    assert "pivot" in agent.await_parked()
    assert agent.undone() == ["payments"]


def test_a_write_that_no_tool_lists_cannot_be_undone(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "unlisted")
    agent.breaks()
    assert "cannot be undone" in agent.await_parked()
    assert agent.undone() == []


# Which writes make a flow.
def test_a_finished_flow_stays_and_the_next_write_begins_another(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "payments", "shipping")
    again = shop.agent(f"{token}-again", trace=agent.trace)
    again.does("orders")
    again.breaks()
    again.await_undone()
    assert again.undone() == ["orders"] and agent.undone() == []


def test_a_step_that_was_in_flight_when_its_flow_ended_is_no_part_of_the_next(shop, token):
    agent = shop.agent(token)
    agent.does("orders")
    agent.script("payments", ["read", {"gate": token}, "execute", "answer"])
    waiting = threading.Thread(target=agent.call, args=("payments",))
    waiting.start()
    shop.double.await_requests("POST", agent.path("payments"))
    agent.does("shipping")
    shop.double.open_gate(token)
    waiting.join()
    again = shop.agent(f"{token}-again", trace=agent.trace)
    again.does("orders")
    again.breaks()
    again.await_undone()
    assert again.undone() == ["orders"] and agent.undone() == []


def test_traces_that_name_one_flow_are_one(shop, token):
    first = shop.agent(token, name=f"cart-{token}")
    second = shop.agent(f"{token}-nested", name=f"cart-{token}")
    first.does("orders")
    second.does("payments")
    other = shop.agent(f"{token}-other", trace=first.trace)
    other.does("orders")
    second.breaks()
    second.await_undone()
    for line in shop.double.requests(first.path("orders")):
        assert "recourse-flow" not in [name.lower() for name, _ in line["headers"]]
    assert first.undone() == ["orders"] and second.undone() == ["payments"]
    assert other.undone() == []
    assert first.call("notes").json()["type"].endswith("/flow-closed")


@pytest.mark.parametrize("order", ["cancel", "close", "Cancel cart-1"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_an_order_that_agents_may_not_give_is_refused_and_never_forwarded(
    shop, token, order, method
):
    agent = shop.agent(token)
    agent.does("orders")
    answer = agent.call("notes", method=method, Recourse_Flow=order)
    assert answer.status == 403 and answer.json()["type"].endswith("/denied"), answer
    assert shop.double.requests(agent.path("notes")) == []
    agent.does("payments")


# The story.
def test_the_log_tells_the_whole_story_by_trace(shop, token):
    agent = shop.agent(token)
    agent.does("orders", "payments")
    agent.breaks()
    agent.await_undone()
    told = shop.recourse.cli("events", "list", "--trace", agent.trace)
    assert told.returncode == 0, told.stderr
    wanted = [("POST", agent.path("orders")), ("POST", agent.path("payments")),
              ("POST", agent.path("shipping")), agent.undo_of("payments"),
              agent.undo_of("orders")]  # fmt: skip
    seen = [(e["method"], e["path"]) for e in agent.events() if e["phase"] == "DISPATCHING"]
    assert seen == wanted
    lines = told.stdout.splitlines()
    assert len(lines) == 1 + len(agent.events()) + 3, told.stdout
    moves = [line.split(maxsplit=8) for line in lines if "  flow  " in line]
    assert [(move[3], move[7], move[8]) for move in moves] == [
        (phase, agent.trace, "shipping.book failed")
        for phase in ("BREAKING", "UNDOING", "UNDONE")
    ], told.stdout
    rows = shop.recourse.events(trace=agent.trace, flows="true")
    assert [row["event_id"] for row in rows] == sorted(row["event_id"] for row in rows)
    assert [row for row in rows if "kind" not in row] == agent.events()
    told_flows = [row for row in rows if row.get("kind") == "flow"]
    assert [row["undone"] for row in told_flows] == [0, 0, 2]
    assert told_flows[0]["cause"] == "step_failed" and told_flows[0]["steps"] == 3
    undone = {e["undoes"]: e["path"] for e in agent.events() if e["undoes"]}
    steps = {e["operation"]: e["external_ref"] for e in agent.events() if not e["undoes"]}
    assert [path.rpartition("/")[2] for path in undone.values()] == [steps[o] for o in undone]
