"""Keys in bodies under attack: agents with keys of their own, twins of the place, other readers,
kills at every point, policies that change meanwhile. One intent has one effect all the same."""

import gzip
import signal

import pytest

from doubles.stripe import Stripe
from support import rawhttp
from support.keyed_apis import Square
from support.recourse import CRASH_POINTS, Recourse
from support.waiting import wait_until
from test_key_places import BODY, SQUARE, TOKEN, World, before, problem
from test_reload import put_in_force

PAY = "/v2/payments"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def square():
    api = Square()
    yield api
    api.stop()


def keyed(reference, key):
    return (BODY % reference).replace("{ ", '{ "idempotency_key":"%s", ' % key, 1)


def test_a_key_that_is_new_with_every_try_makes_no_second_call(square, tmp_path):
    """Models and SDKs make one up whenever they try again; the policy says what the call is."""
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.post(PAY, keyed("r1", "random-1")).status == 200
        again = world.post(PAY, keyed("r1", "random-2"), world.trace)
        assert (again.status, again.replayed) == (200, True), again
        assert world.pay("r1", world.trace).replayed
        assert square.effects == ["payment"]


@pytest.mark.parametrize("first", ["random-1", None])
@pytest.mark.parametrize("second", ["random-2", None])
def test_a_lost_answer_is_never_asked_for_under_another_key(square, tmp_path, first, second):
    square.lose_answers = 1
    bodies = [keyed("r1", key) if key else BODY % "r1" for key in (first, second)]
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.post(PAY, bodies[0]).outcome == "unknown"
        again = world.post(PAY, bodies[1], world.trace)
        assert (again.status, again.outcome) == (200, "executed"), again
        assert square.effects == ["payment"] and len(set(world.keys())) == 1
        assert world.post(PAY, bodies[0], world.trace).replayed
        assert world.post(PAY, bodies[1], world.trace).replayed


def test_a_refused_call_may_come_again_with_another_key(square, tmp_path):
    square.declines = 1
    with before(tmp_path, square, backend=", key_after_failure: new") as running:
        world = World(running, square)
        assert world.pay("r1").status == 402
        assert world.post(PAY, keyed("r1", "random-2"), world.trace).status == 200
        assert square.effects == ["payment"]


HEADER = """\
version: 1
backends:
  api: {{ url: "{url}", hosts: [ api.test ], key_header: Idempotency-Key, key_scope: account }}
tools:
  pay:
    match: POST api /v1/charges
    effect: write
    identity: body#/order
    undo: none
    reason: a test
"""


@pytest.mark.parametrize("first", ["random-1", "f" * 64, None])
@pytest.mark.parametrize("second", ["random-2", "e" * 64, None])
def test_nor_in_a_field(tmp_path, first, second):
    api = Stripe()
    api.lose_answers = 1
    try:
        with Recourse(tmp_path, HEADER.format(url=api.url)) as running:
            for key, status in ((first, 502), (second, 200)):
                fields = {**rawhttp.traced("a" * 32), **TOKEN, "Content-Type": FORM}
                answer = rawhttp.call(
                    running.port, "POST", "/v1/charges", host="api.test",
                    headers={**fields, **({"Idempotency-Key": key} if key else {})},
                    body=b"order=1&amount=5&currency=eur",
                )  # fmt: skip
                assert answer.status == status, answer
            sent = {headers.get("Idempotency-Key") for _, _, headers in api.requests}
            assert api.effects == ["charge"] and len(sent) == 1
    finally:
        api.stop()


TWINS = (
    ('"Idempotency_Key":"x"', ""),
    ('"idempotency_key":"x","idempotency_key":"y"', ""),
    (r'"idempotency_\u006bey":"x","idempotency_key":"y"', ""),
    ('"__proto__":{"idempotency_key":"x"}', ""),
    ("", "?idempotency_key=x"),
    ("", "?idempotency_key%5B%5D=x"),
)


@pytest.mark.parametrize("member, query", TWINS)
def test_no_twin_stands_beside_the_key(square, tmp_path, member, query):
    body = (BODY % "r1").replace("{ ", "{ " + member + "," if member else "{ ", 1)
    with before(tmp_path, square) as running:
        answer = World(running, square).post(PAY + query, body)
        assert (answer.status, square.requests) == (400, []), answer


def test_an_escaped_name_is_the_same_place(square, tmp_path):
    body = keyed("r1", "mine-1").replace("idempotency_key", r"idempotency_\u006bey")
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.post(PAY, body).status == 200
        assert square.bodies == [("payments", body.encode())]



@pytest.mark.parametrize(
    "fields, body",
    [
        ({"Content-Type": FORM}, (BODY % "r1").encode()),
        ({"Content-Type": "text/plain"}, (BODY % "r1").encode()),
        ({}, (BODY % "r1").encode()),
        ({"Content-Type": "application/json"}, b"reference_id=r1"),
        ({"Content-Type": "application/json; charset=utf-16"}, (BODY % "r1").encode("utf-16")),
        ({"Content-Type": "application/json"}, b"\xef\xbb\xbf" + (BODY % "r1").encode()),
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            gzip.compress((BODY % "r1").encode()),
        ),
        (
            {"Content-Type": "multipart/form-data; boundary=x"},
            b'--x\r\nContent-Disposition: form-data; name="reference_id"\r\n\r\nr1\r\n--x--\r\n',
        ),
    ],
    ids=["form", "text", "no type", "form as JSON", "UTF-16", "byte order mark", "gzip", "parts"],
)
def test_a_body_that_others_read_otherwise_is_not_sent(square, tmp_path, fields, body):
    with before(tmp_path, square) as running:
        answer = rawhttp.call(running.port, "POST", PAY, host="api.test",
                              headers={**TOKEN, **fields}, body=body)  # fmt: skip
        assert answer.status in (400, 415) and square.requests == [], answer


def test_a_body_in_chunks_has_its_key(square, tmp_path):
    square.lose_answers = 1
    with before(tmp_path, square) as running:
        world = World(running, square)
        body = (BODY % "r1").encode()
        for status, outcome in ((502, "unknown"), (200, "executed")):
            fields = {**rawhttp.traced("a" * 32), **TOKEN, "Content-Type": "application/json",
                      "Transfer-Encoding": "chunked"}  # fmt: skip
            with rawhttp.Connection(running.port) as agent:
                agent.send(rawhttp.render("POST", PAY, "api.test", fields, length=False))
                for part in (body[:7], body[7:]):
                    agent.send(b"%x\r\n%s\r\n" % (len(part), part))
                agent.send(b"0\r\n\r\n")
                answer = agent.response("POST")
            assert (answer.status, answer.outcome) == (status, outcome), answer
        assert square.effects == ["payment"] and len(set(world.keys())) == 1


def test_a_large_body_has_its_key(square, tmp_path):
    square.lose_answers = 1
    with before(tmp_path, square) as running:
        world = World(running, square)
        body = (BODY % "r1").replace("cnon:card", "x" * 2_000_000)
        assert world.post(PAY, body).outcome == "unknown"
        assert world.post(PAY, body, world.trace).status == 200
        assert square.effects == ["payment"] and len(set(world.keys())) == 1


def test_anothers_credentials_get_nothing_under_the_same_key(square, tmp_path):
    with before(tmp_path, square, tool="    agent_key: wins\n") as running:
        world = World(running, square)
        assert world.post(PAY, keyed("r1", "mine-1")).status == 200
        other = world.post(PAY, keyed("r1", "mine-1"), Authorization="Bearer another")
        assert (other.status, problem(other)) == (409, "other-credentials"), other
        tenant = world.post(PAY, keyed("r1", "mine-1"), X_Tenant_Id="t2")
        assert tenant.status == 200 and not tenant.replayed, tenant
        assert len(square.bodies) == 2


POINTS = ["k02", "k03", "k05", "k06", "k07", "k08", "k10", "k11", "k12", "k13"]


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_one_payment_under_one_key(square, tmp_path, point):
    running = Recourse(tmp_path, SQUARE.format(url=square.url, backend="", tool=""))
    try:
        running.start({"RECOURSE_CRASH_POINT": point})
        world = World(running, square)
        with pytest.raises((OSError, rawhttp.Cut)):
            world.pay("r1")
        assert running.wait() == -signal.SIGKILL
        running.start()
        again = world.pay("r1", world.trace)
        assert again.outcome == "executed", again
        assert square.effects == ["payment"] and len(set(world.keys())) == 1
        world.undo()
        assert square.effects == ["payment", "refund"]
    finally:
        running.kill()


def changed(running, old, new):
    text = running.policy_path.read_text()
    assert old in text
    running.policy_path.write_text(text.replace(old, new))
    put_in_force(running)


@pytest.mark.parametrize(
    "old, new",
    [
        ('key_form: "alnum:45",\n', 'key_form: "alnum:40",\n'),
        ("key_at: body#/idempotency_key, key_form", "key_at: body#/note, key_form"),
        ("key_at: body#/idempotency_key, key_form", "key_at: header:Idempotency-Key, key_form"),
    ],
)
def test_under_other_words_an_unknown_call_is_not_sent_again(square, tmp_path, old, new):
    square.lose_answers = 1
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.pay("r1").outcome == "unknown"
        changed(running, old, new)
        again = world.pay("r1", world.trace)
        assert (again.status, again.outcome) == (409, "unknown"), again
        assert len(square.bodies) == 1


def test_an_undo_keeps_the_words_that_its_write_began_with(square, tmp_path):
    with before(tmp_path, square) as running:
        world = World(running, square)
        assert world.pay("r1").status == 200
        changed(running, "      key_at: body#/idempotency_key\n", "      key_at: body#/other\n")
        running.kill()
        running.start()
        world.undo()
        assert square.effects == ["payment", "refund"]


def test_of_a_failure_a_field_tells_only_that_the_key_was_known(square, tmp_path):
    """A declined payment is told again with the same field as one that was made."""
    hit = ", key_hit: answer.header.X-Replayed == true"
    square.declines = 1
    square.tells_replays = True
    with before(tmp_path, square, backend=hit) as running:
        world = World(running, square)
        square.lose_next = 1
        assert world.pay("r1").outcome == "unknown"
        again = world.pay("r1", world.trace)
        assert (again.status, again.outcome) == (402, "unknown"), again
        assert world.pay("r1", world.trace).outcome == "unknown"
        assert square.effects == []
        world.undo("NEEDS_HUMAN")
        assert square.effects == []
