"""Keys where APIs take them, in bodies and queries; undo requests with keys, fields and words of
their own."""

import json
import re
import secrets

import pytest

from support import rawhttp
from support.keyed_apis import Calendar, Payouts, PayPal, Square
from support.recourse import Recourse
from support.waiting import wait_until

TOKEN = {"Authorization": "Bearer of-the-agent"}
SQUARE = """\
version: 1
backends:
  api: {{ url: "{url}", hosts: [ api.test ], key_at: body#/idempotency_key, key_form: "alnum:45",
         key_scope: account{backend} }}
tools:
  pay:
    match: POST api /v2/payments
    effect: write
    identity: body#/reference_id
    external_ref: answer.body#/payment/id
{tool}    undo:
      request: "POST /v2/refunds"
      json: {{ payment_id: "{{external_ref}}" }}
      key_at: body#/idempotency_key
      key_form: "alnum:45"
      repeatable: by_key
      credentials: from_call
"""
BODY = (
    '{ "source_id":"cnon:card",  "amount_money": {"amount": 1.00, "currency":"EUR"},\n'
    ' "reference_id":"%s"}'
)


def problem(answer):
    return answer.json()["type"].rsplit("/", 1)[1]


class World:
    def __init__(self, recourse, api):
        self.recourse, self.api = recourse, api

    def post(self, path, body, trace=None, host="api.test", **fields):
        self.trace = trace or secrets.token_hex(16)
        headers = {**rawhttp.traced(self.trace), **TOKEN, "Content-Type": "application/json"}
        headers.update({name.replace("_", "-"): value for name, value in fields.items()})
        return rawhttp.call(self.recourse.port, "POST", path, host=host, headers=headers,
                            body=body.encode())  # fmt: skip

    def flow(self):
        return self.recourse.admin("GET", f"/flows/{self.trace}")

    def undo(self, phase="UNDONE"):
        done = self.recourse.cli("flows", "cancel", self.trace, "--reason", "a test")
        assert done.returncode == 0, done
        wait_until(lambda: self.flow()["phase"] == phase, lambda: json.dumps(self.flow()))

    def pay(self, reference, trace=None, **fields):
        return self.post("/v2/payments", BODY % reference, trace, **fields)

    def keys(self, kind="payments"):
        bodies = [body for path, body in self.api.bodies if path == kind]
        return [json.loads(body)["idempotency_key"] for body in bodies]


@pytest.fixture
def square():
    api = Square()
    yield api
    api.stop()


def before(tmp_path, api, policy=SQUARE, **words):
    words = {"backend": "", "tool": "", **words}
    return Recourse(tmp_path, policy.format(url=api.url, **words))


def test_a_key_is_written_into_the_body_and_nothing_else_changes(square, tmp_path):
    square.lose_answers = 1
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.pay("r1").outcome == "unknown"
        again = world.pay("r1", world.trace)
        assert (again.status, again.outcome) == (200, "executed"), again
        assert world.pay("r1", world.trace).replayed
        assert square.effects == ["payment"]
        first, second = world.keys()
        assert first == second and re.fullmatch("[0-9a-z]{45}", first)
        for _, body in square.bodies:
            assert body.replace(b'"idempotency_key":"%s",' % first.encode(), b"", 1) == (
                BODY % "r1"
            ).encode()
        assert world.pay("r2").status == 200
        assert len(set(world.keys())) == 2


def test_what_the_agent_wrote_there_is_its_key(square, tmp_path):
    with before(tmp_path, square, tool="    agent_key: wins\n") as running:
        world = World(running, square)
        mine = (BODY % "r1").replace("{ ", '{ "idempotency_key" : "mine-1", ', 1)
        assert world.post("/v2/payments", mine).status == 200
        assert square.bodies == [("payments", mine.encode())]
        assert world.post("/v2/payments", mine).replayed
        other = world.post("/v2/payments", mine, Idempotency_Key="theirs")
        assert (other.status, problem(other)) == (400, "invalid-key"), other
        for bad in ('7', 'null', '""', '["a"]'):
            refused = world.post("/v2/payments", mine.replace('"mine-1"', bad))
            assert (refused.status, problem(refused)) == (400, "invalid-key"), refused
        # A key that does not fit names the intent, and the backend gets one that does.
        sdk = "stainless-python-retry-6f1c1b52-3f5e-4d68-a9a3-6f2f0c1f7d11"
        assert world.pay("r2", Idempotency_Key=sdk).status == 200
        assert world.pay("r2", Idempotency_Key=sdk).replayed
        assert re.fullmatch("[0-9a-z]{45}", world.keys()[-1])
        assert square.effects == ["payment", "payment"]


@pytest.mark.parametrize("body", ["[]", '"text"', ""])
def test_without_a_place_for_the_key_nothing_is_sent(square, tmp_path, body):
    with before(tmp_path, square) as running:
        answer = World(running, square).post("/v2/payments", body)
        assert answer.status in (400, 415), answer
        assert square.requests == []


def test_the_key_outlives_a_kill_and_its_flow_asks_by_it(square, tmp_path):
    square.lose_answers = 1
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.pay("r1").outcome == "unknown"
        running.kill()
        running.start()
        # Nobody knows whether it was paid: the flow sends it again under its key, and undoes it.
        square.lose_answers = 0
        world.undo()
        assert square.effects == ["payment", "refund"]
        first, second = world.keys()
        assert first == second
        (refund,) = world.keys("refunds")
        assert re.fullmatch("[0-9a-z]{45}", refund) and refund != first


def test_an_undo_that_comes_again_has_the_same_key(square, tmp_path):
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.pay("r1").status == 200
        square.lose_answers = 1
        world.undo()
        assert square.effects == ["payment", "refund"]
        first, second = world.keys("refunds")
        assert first == second


def test_what_failed_for_sure_has_a_new_key(square, tmp_path):
    square.declines = 1
    with before(tmp_path, square, backend=", key_after_failure: new") as running:
        world = World(running, square)
        assert world.pay("r1").status == 402
        assert world.pay("r1", world.trace).status == 200
        assert world.pay("r1", world.trace).replayed
        first, second = world.keys()
        assert first != second and square.effects == ["payment"]


def test_otherwise_it_has_the_same_one(square, tmp_path):
    square.declines = 1
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.pay("r1").status == 402
        assert world.pay("r1", world.trace).status == 402
        first, second = world.keys()
        assert first == second and square.effects == []


CANCEL = SQUARE[: SQUARE.index("{tool}")] + """\
    settle:
      request: "GET /v2/payments/by/{{key}}"
      headers: {{ Authorization: "{{header.Authorization}}" }}
      happened: answer.body#/payment/id
      absent: answer.body#/payment/status == "CANCELED"
    undo:
      request: "POST /v2/payments/cancel"
      json: {{ idempotency_key: "{{key}}" }}
      then_probe: true
      attempts: 2
      repeatable: true
      credentials: from_call
"""


def test_an_undo_by_key_proves_nothing_until_its_probe_does(square, tmp_path):
    with before(tmp_path, square, CANCEL) as running:
        world = World(running, square)
        assert world.pay("r1").status == 200
        world.undo()
        assert square.effects == ["payment", "cancel"]
        square.cancels = False
        assert world.pay("r2").status == 200
        world.undo("NEEDS_HUMAN")
        assert "settle request does not show" in world.flow()["reason"]


CALENDAR = """\
version: 1
backends:
  api: {{ url: "{url}", hosts: [ api.test ], key_at: body#/id, key_form: "base32hex:64",
         key_scope: account, key_hit: answer.status == 409 }}
tools:
  insert:
    match: POST api /calendar/v3/calendars/primary/events
    effect: write
    identity: body#/summary
    undo:
      request: "DELETE /calendar/v3/calendars/primary/events/{{key}}"
      done: [ 2xx, 'answer.body#/error/code == 410' ]
      credentials: from_call
"""
EVENTS = "/calendar/v3/calendars/primary/events"


@pytest.fixture
def calendar():
    api = Calendar()
    yield api
    api.stop()


def test_a_twin_that_is_refused_proves_that_the_first_one_happened(calendar, tmp_path):
    calendar.lose_answers = 1
    with before(tmp_path, calendar, CALENDAR) as running:
        world = World(running, calendar)
        assert world.post(EVENTS, '{"summary":"standup"}').outcome == "unknown"
        again = world.post(EVENTS, '{"summary":"standup"}', world.trace)
        assert problem(again) == "answer-lost", again
        assert calendar.effects == ["event"]
        world.undo()
        assert calendar.effects == ["event", "delete"]


def test_somebody_elses_twin_proves_nothing(calendar, tmp_path):
    calendar.things["standup1"] = "confirmed"
    with before(tmp_path, calendar, CALENDAR) as running:
        world = World(running, calendar)
        mine = '{"summary":"standup","id":"standup1"}'
        first = world.post(EVENTS, mine)
        assert (first.status, first.outcome) == (409, "unknown")
        again = world.post(EVENTS, mine, world.trace)
        assert again.outcome == "unknown", again
        assert calendar.effects == []


def test_what_is_deleted_already_is_undone(calendar, tmp_path):
    with before(tmp_path, calendar, CALENDAR) as running:
        world = World(running, calendar)
        assert world.post(EVENTS, '{"summary":"standup"}').status == 200
        (name,) = calendar.things
        calendar.things[name] = "cancelled"
        world.undo()
        assert calendar.effects == ["event"]


PAYPAL = """\
version: 1
backends: {{ api: {{ url: "{url}", hosts: [ api.test ] }} }}
tools:
  authorize:
    match: "POST api /v2/checkout/orders/{{order}}/authorize"
    effect: write
    identity: path.order
    settle:
      request: "GET /v2/payments/authorizations?order={{path.order}}"
      headers: {{ Prefer: "return=representation", Authorization: "{{header.Authorization}}",
                 PayPal-Client: "of {{header.X-Client}}" }}
      happened: answer.body#/authorizations/0/id
      absent_after: 1s
    undo:
      request: "POST /v2/payments/authorizations/{{external_ref}}/void"
      headers: {{ Prefer: "return=representation" }}
      done: [ 2xx, 'answer.body#/details/0/issue == "PREVIOUSLY_VOIDED"' ]
      done_when: answer.body#/status == "VOIDED"
      credentials: from_call
"""


@pytest.fixture
def paypal():
    api = PayPal()
    yield api
    api.stop()


def sent(api, method, end):
    return [fields for verb, path, fields in api.requests if verb == method and path.endswith(end)]


@pytest.mark.parametrize("state, phase", [("VOIDED", "UNDONE"), ("CAPTURED", "NEEDS_HUMAN")])
def test_the_backends_words_say_what_is_undone(paypal, tmp_path, state, phase):
    with before(tmp_path, paypal, PAYPAL) as running:
        world = World(running, paypal)
        assert world.post("/v2/checkout/orders/o1/authorize", "{}").status == 201
        (name,) = paypal.things
        paypal.things[name] = state
        world.undo(phase)
        assert paypal.effects == ["authorization"]


def test_requests_of_our_own_have_the_fields_that_the_policy_gives_them(paypal, tmp_path):
    paypal.lose_answers = 1
    with before(tmp_path, paypal, PAYPAL) as running:
        world = World(running, paypal)
        lost = world.post("/v2/checkout/orders/o1/authorize", "{}", X_Client="agent 7")
        assert lost.outcome == "unknown", lost
        world.undo()
        assert paypal.effects == ["authorization", "void"]
        (probe, *_), (void,) = sent(paypal, "GET", "?order=o1"), sent(paypal, "POST", "/void")
        assert probe["Prefer"] == void["Prefer"] == "return=representation"
        assert probe["PayPal-Client"] == "of agent 7"
        assert probe["Authorization"] == void["Authorization"] == TOKEN["Authorization"]


QUERY = """\
version: 1
backends:
  api: {{ url: "{url}", hosts: [ api.test ], key_at: query.requestId, key_form: uuid,
         key_scope: account }}
tools:
  authorize:
    match: "POST api /v2/checkout/orders/{{order}}/authorize"
    effect: write
    identity: path.order
    undo: none
    reason: a test
"""


def test_a_key_is_written_into_the_query(paypal, tmp_path):
    paypal.lose_answers = 1
    with before(tmp_path, paypal, QUERY) as running:
        world = World(running, paypal)
        path = "/v2/checkout/orders/o1/authorize"
        assert world.post(path + "?a=1", "{}").outcome == "unknown"
        assert world.post(path + "?a=1", "{}", world.trace).status == 201
        first, second = [target for _, target, _ in paypal.requests]
        assert first == second
        assert re.fullmatch(re.escape(path) + r"\?a=1&requestId=[0-9a-f-]{36}", first)
        assert world.post(path + "?requestId=mine", "{}").status == 201
        assert paypal.requests[-1][1] == path + "?requestId=mine"


# Answers that tell the newest state.
PAYOUTS = """\
version: 1
backends:
  api: {{ url: "{url}", hosts: [ api.test ], key_at: header:PayPal-Request-Id,
         key_answer: latest{backend} }}
tools:
  payouts.create:
    match: POST api /v1/payouts
    effect: write
    identity: body#/sender_batch_id
    external_ref: answer.body#/id
    settle: {{ request: "GET /v1/payouts", happened: answer.body#/batches/0/id }}
    undo: none
    reason: a test
{tool}"""


@pytest.fixture
def payouts():
    api = Payouts()
    yield api
    api.stop()


def test_what_was_only_taken_on_is_answered_by_its_end_and_by_that_alone_from_then_on(
    tmp_path, payouts
):
    with before(tmp_path, payouts, PAYOUTS) as running:
        world = World(running, payouts)
        first = world.post("/v1/payouts", '{"sender_batch_id":"s1"}')
        assert (first.status, first.json()["status"]) == (202, "PENDING")
        trace = world.trace
        payouts.is_done = True

        def again():
            return world.post("/v1/payouts", '{"sender_batch_id":"s1"}', trace)

        told = wait_until(lambda: (answer := again()).status < 300 and answer)
        assert told.json()["id"] == first.json()["id"]
        for _ in range(3):
            repeat = again()
            assert repeat.replayed and (repeat.status, repeat.body) == (told.status, told.body)
        assert payouts.effects == ["payout"]
