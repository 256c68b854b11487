"""Probes that search for what a write made, errors that mean that it happened, and undo requests
that are chosen by state."""

import json
import secrets

import pytest

from support import rawhttp
from support.recourse import Recourse
from support.searched_apis import GitRefs, PaymentIntents, SquareOrders
from support.waiting import wait_until

AUTH = '{{ Authorization: "{{header.Authorization}}" }}'
ORDERS = """\
version: 1
backends: {{ api: {{ url: "{url}", hosts: [ api.test ] }} }}
tools:
  order:
    match: POST api /v2/orders
    effect: write
    identity: body#/order/reference_id
    external_ref: answer.body#/order/id
    settle:
      request: "POST /v2/orders/search"
      safe: true
      json: {{ location_ids: [ l1 ] }}
      headers: {auth}
      mark: body#/order/metadata/recourse_key
      happened: {{ in: answer.body#/orders, where: "metadata/recourse_key == {{key}}",
                  pages: {pages}, next: answer.body#/cursor, cursor: body#/cursor }}
      absent_after: 1s
    undo:
      request: "PUT /v2/orders/{{external_ref}}"
      json: {{ order: {{ state: CANCELED }} }}
      credentials: from_call
"""
REFS = """\
version: 1
backends: {{ api: {{ url: "{url}", hosts: [ api.test ], key_header: X-Key, key_scope: account }} }}
tools:
  ref:
    match: POST api /repos/a/b/git/refs
    effect: write
    identity: body#/ref
    external_ref: body#/ref
    settle:
      request: "GET /repos/a/b/git/ref/heads/{{body#/name}}"
      headers: {auth}
      happened: {{ in: answer.body#/refs, where: "object/sha == {{body#/sha}}", take: ref }}
      absent_after: 1s
    happened_if: answer.body#/message == "Reference already exists"
    undo: {{ request: "DELETE /repos/a/b/git/refs/heads/{{body#/name}}", credentials: from_call,
            done: [ 2xx, 'answer.body#/message == "Reference does not exist"' ] }}
"""
INTENTS = """\
version: 1
backends: {{ api: {{ url: "{url}", hosts: [ api.test ] }} }}
tools:
  intent:
    match: POST api /v1/payment_intents
    effect: write
    identity: body#/order
{settle}    undo:
      - when: answer.body#/status == "requires_capture"
        request: "POST /v1/payment_intents/{{external_ref}}/cancel"
        credentials: from_call
      - when: answer.body#/status == "succeeded"
        request: "POST /v1/refunds"
        form: {{ payment_intent: "{{external_ref}}" }}
"""

FOUND = """\
    settle:
      request: "GET /v1/payment_intents"
      headers: { Authorization: "{header.Authorization}" }
      happened: { in: answer.body#/data, where: "metadata/order == {body#/order}" }
"""


class World:
    def __init__(self, recourse):
        self.recourse = recourse

    def post(self, path, body, trace=None, media="application/json"):
        self.trace = trace or secrets.token_hex(16)
        headers = {**rawhttp.traced(self.trace), "Authorization": "Bearer t", "Content-Type": media}
        return rawhttp.call(self.recourse.port, "POST", path, host="api.test", headers=headers,
                            body=body.encode())  # fmt: skip

    def order(self, name, more="", trace=None):
        return self.post("/v2/orders", '{"order":{"reference_id":"%s"%s}}' % (name, more), trace)

    def phases(self):
        return [event["phase"] for event in self.recourse.events(trace=self.trace)]

    def await_phase(self, phase):
        wait_until(lambda: phase in self.phases(), self.phases)

    def undo(self, phase="UNDONE"):
        done = self.recourse.cli("flows", "cancel", self.trace, "--reason", "a test")
        assert done.returncode == 0, done
        wait_until(lambda: self.flow()["phase"] == phase, lambda: json.dumps(self.flow()))
        return self.flow()

    def flow(self):
        return self.recourse.admin("GET", f"/flows/{self.trace}")


def before(tmp_path, api, policy, **words):
    return Recourse(tmp_path, policy.format(url=api.url, auth=AUTH.format(), **words))


@pytest.fixture
def orders():
    api = SquareOrders()
    yield api
    api.stop()


def searches(api):
    return sum(path.endswith("/search") for _, path, _ in api.requests)


def marks(api):
    return [json.loads(body)["order"]["metadata"]["recourse_key"] for body in api.bodies]


def test_a_write_is_found_by_its_mark_on_a_later_page(orders, tmp_path):
    with before(tmp_path, orders, ORDERS, pages=5) as running:
        world = World(running)
        for number in range(4):
            assert world.order(f"r{number}").status == 200
        orders.lose_answers = 1
        assert world.order("r4", ',"metadata":{"shop": "x"}').outcome == "unknown"
        world.await_phase("SUCCEEDED")
        mine = list(orders.things.values())[-1]
        assert mine["metadata"]["shop"] == "x" and len(set(marks(orders))) == 5
        sent = orders.bodies[-1]
        assert sent.replace(b'"recourse_key":"%s",' % marks(orders)[-1].encode(), b"") == (
            b'{"order":{"reference_id":"r4","metadata":{"shop": "x"}}}'
        )
        world.undo()
        assert orders.effects[-1] == "cancel r4"


def test_what_is_on_no_page_is_absent_and_made_again(orders, tmp_path):
    with before(tmp_path, orders, ORDERS, pages=5) as running:
        world = World(running)
        for number in range(3):
            assert world.order(f"r{number}").status == 200
        orders.lose_requests = 1
        assert world.order("r9").outcome == "unknown"
        world.await_phase("PROVEN_ABSENT")
        again = world.order("r9", trace=world.trace)
        assert (again.status, again.outcome) == (200, "executed"), again


def test_a_list_that_is_not_read_to_its_end_proves_nothing(orders, tmp_path):
    with before(tmp_path, orders, ORDERS, pages=2) as running:
        world = World(running)
        for number in range(5):
            assert world.order(f"r{number}").status == 200
        orders.lose_answers = 1
        assert world.order("r9").outcome == "unknown"
        wait_until(lambda: searches(orders) >= 8, lambda: searches(orders))
        assert world.phases()[-1] == "UNCERTAIN"
        assert orders.effects.count("order r9") == 1


def test_a_mark_is_never_written_over_what_the_agent_sent(orders, tmp_path):
    with before(tmp_path, orders, ORDERS, pages=5) as running:
        for taken in ('{"recourse_key":"mine"}', '"text"', "null"):
            answer = World(running).order("r1", f',"metadata":{taken}')
            assert (answer.status, orders.effects) == (400, []), answer


@pytest.fixture
def refs():
    api = GitRefs()
    yield api
    api.stop()


def ref(name, sha):
    return json.dumps({"ref": f"refs/heads/{name}", "name": name, "sha": sha})


PATH = "/repos/a/b/git/refs"


def test_an_error_that_means_that_it_happened_is_followed_by_the_read(refs, tmp_path):
    refs.lose_answers = 1
    with before(tmp_path, refs, REFS) as running:
        world = World(running)
        assert world.post(PATH, ref("x", "s1")).outcome == "unknown"
        again = world.post(PATH, ref("x", "s1"), world.trace)
        assert again.status in (200, 409, 422), again
        world.await_phase("SUCCEEDED")
        assert refs.effects == ["create refs/heads/x"]


def test_a_strangers_twin_is_never_taken_for_ours(refs, tmp_path):
    refs.things["refs/heads/x"] = "s1"
    with before(tmp_path, refs, REFS) as running:
        world = World(running)
        first = world.post(PATH, ref("x", "s1"))
        assert (first.status, first.outcome) == (422, "rejected"), first
        assert "SUCCEEDED" not in world.phases()
        world.undo()
        assert refs.effects == []


@pytest.fixture
def intents():
    api = PaymentIntents()
    yield api
    api.stop()


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize("method, undo", [("manual", "cancel"), ("automatic", "refund")])
def test_the_undo_is_chosen_by_state(intents, tmp_path, method, undo):
    with before(tmp_path, intents, INTENTS, settle="") as running:
        world = World(running)
        body = f"order=1&capture_method={method}"
        assert world.post("/v1/payment_intents", body, media=FORM).status == 200
        world.undo()
        assert intents.effects == ["intent", undo]


def test_where_no_state_is_told_none_is_guessed(intents, tmp_path):
    with before(tmp_path, intents, INTENTS, settle="") as running:
        world = World(running)
        body = "order=1&capture_method=odd"
        assert world.post("/v1/payment_intents", body, media=FORM).status == 200
        flow = world.undo("NEEDS_HUMAN")
        assert intents.effects == ["intent"], flow


@pytest.mark.parametrize("method, undo", [("manual", "cancel"), ("automatic", "refund")])
def test_of_a_lost_answer_the_undo_is_chosen_by_what_the_probe_shows(
    intents, tmp_path, method, undo
):
    intents.lose_answers = 1
    with before(tmp_path, intents, INTENTS, settle=FOUND) as running:
        world = World(running)
        body = f"order=1&capture_method={method}"
        assert world.post("/v1/payment_intents", body, media=FORM).outcome == "unknown"
        world.await_phase("SUCCEEDED")
        _, told = running.http(
            "admin", "GET", "/events?lines=true&answers=true",
            headers={"Authorization": f"Bearer {running.token}"},
        )  # fmt: skip
        shown = [line["settle_request"] for line in map(json.loads, told.splitlines())
                 if "settle_request" in line]
        assert shown and '":where' not in json.dumps(shown), shown
        world.undo()
        assert intents.effects == ["intent", undo]


def test_of_a_lost_answer_none_is_chosen_where_the_probe_shows_no_state(intents, tmp_path):
    intents.lose_answers = 1
    with before(tmp_path, intents, INTENTS, settle=FOUND) as running:
        world = World(running)
        world.post("/v1/payment_intents", "order=1&capture_method=odd", media=FORM)
        world.await_phase("SUCCEEDED")
        world.undo("NEEDS_HUMAN")
        assert intents.effects == ["intent"]


def test_observe_mode_knows_errors_that_mean_that_it_happened(refs, tmp_path):
    refs.lose_answers = 1
    policy = REFS.replace("version: 1", "version: 1\nmode: observe")
    with before(tmp_path, refs, policy) as running:
        world = World(running)
        assert world.post(PATH, ref("x", "s1")).outcome == "unknown"
        assert world.post(PATH, ref("x", "s1"), world.trace).status == 422
        wait_until(lambda: len(world.phases()) == 4, world.phases)
        last = running.events(trace=world.trace)[-1]
        assert (last["phase"], last["verdict"]) == ("UNCERTAIN", "would_resend"), last
        assert "happened_if" in last["detail"]
