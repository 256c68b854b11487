"""Whose call it is: who is shown an answer, and which calls are one."""

import re
import socket
import threading

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.policies import standard
from support.prometheus import Scrape
from support.recourse import Recourse
from support.waiting import wait_until

TRACE, OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
TOOLS = """\
  switch.set:
    match: PUT shop /switch/{token}
    effect: write
    undo: none
    reason: a row of a test is never undone
  switch.drop:
    match: DELETE shop /switch/{token}
    effect: write
    undo: none
    reason: a row of a test is never undone
  awaited.create:
    match: POST shop /awaited/{token}
    effect: write
    hold: 10m
    external_ref: answer.body#/id
    settle:
      request: "GET /awaited/{path.token}?client_ref={body#/client_ref}"
      happened: answer.body#/items/0/id
    undo: none
    reason: a row of a test is never undone
  gated.send:
    match: POST shop /gated/{token}
    effect: write
    undo: none
    reason: a row of a test is never undone
    approval: { by: [ finance ], hold: 0s }
  named.create:
    match: POST shop /named/{token}
    effect: write
    identity: [ body#/order ]
    undo: none
    reason: a row of a test is never undone
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    directory = tmp_path_factory.mktemp("recourse")
    with Staffed(directory, standard(double, extra_tools=TOOLS)) as running:
        yield running


def send(proxy, path, trace=None, body=None, method="POST", **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    headers.update(rawhttp.traced(trace) if trace else {})
    return rawhttp.call(proxy.port, method, path, headers=headers, body=body or {"a": 1})


def problem(answer):
    return answer.json()["type"].rsplit("/", 1)[1]


@pytest.mark.parametrize(
    "field, ann, bob",
    [
        ("Authorization", "Bearer ann", "Bearer bob"),
        ("X-Api-Key", "ann", "bob"),
        ("X-User-Id", "ann", "bob"),
        ("X-Forwarded-User", "ann", "bob"),
        ("X-Forwarded-Email", "ann@shop", "bob@shop"),
        ("X-Forwarded-Preferred-Username", "ann", "bob"),
        ("X-Forwarded-Groups", "finance", "sales"),
        ("Cookie", "sid=ann", "sid=bob"),
    ],
)
def test_nobody_is_shown_an_answer_that_was_given_to_other_credentials(
    proxy, double, token, field, ann, bob
):
    """Of one trace: the second is not made, and sees nothing. Without one they are two calls."""
    path = f"/plain/{token}"
    fields = {field.replace("-", "_"): ann}, {field.replace("-", "_"): bob}
    first = send(proxy, path, TRACE, **fields[0])
    other = send(proxy, path, TRACE, **fields[1])
    again = send(proxy, path, TRACE, **fields[0])
    assert first.status == 201 and again.replayed and again.body == first.body
    assert other.status == 409 and problem(other) == "other-credentials"
    assert other.json()["outcome"] == other.outcome == "executed"
    effect = first.json()["id"].encode()
    assert effect not in other.body and not other.replayed
    assert path.encode() not in other.body
    assert len(double.effects(path)) == 1
    # Their call under traces of their own, or none, is theirs.
    assert send(proxy, path, OTHER_TRACE, **fields[1]).status == 201
    ids = [send(proxy, f"{path}", **each).json()["id"] for each in fields]
    assert len(set(ids)) == 2 and len(double.effects(path)) == 4


def test_what_a_gateway_says_of_the_caller_counts_where_the_policy_names_it(
    double, token, tmp_path
):
    """And is not passed on: no backend is to believe an agent in it."""
    tool = "effect: write, undo: none, reason: a row of a test is never undone"
    named = f"""
  as.identity: {{ match: "POST shop /identity/{{token}}", {tool},
    identity: [ body#/a, header.X-Forwarded-User ] }}
  as.scope: {{ match: "POST shop /scope/{{token}}", {tool},
    identity: body#/a, scope: "header:X-Forwarded-For" }}
  as.condition: {{ match: "POST shop /condition/{{token}}", {tool},
    identity: body#/a, deny: 'header.X-Real-IP == "bob"' }}
  as.known: {{ match: "PATCH shop /known/{{id}}", effect: write,
    before: {{ request: "GET /known/{{path.id}}", keep: body#/n }},
    undo: {{ request: "PATCH /known/{{path.id}}", json: {{ n: "{{before.body#/n}}" }} }} }}
"""
    policy = standard(double, extra_tools=named) + "principal: [ X-Forwarded-Acme ]\n"
    with Recourse(tmp_path, policy) as running:
        for kind, field, of_bob in (
            ("identity", "X_Forwarded_User", 201),
            ("scope", "X_Forwarded_For", 201),
            ("condition", "X_Real_IP", 403),
            ("plain", "X_Forwarded_Acme", 409),
        ):
            path = f"/{kind}/{token}"
            answers = [send(running, path, TRACE, **{field: who}) for who in ("ann", "bob", "ann")]
            assert [answer.status for answer in answers] == [201, of_bob, 201], answers[1].body
            assert answers[2].replayed and answers[2].body == answers[0].body
            sent = double.requests(path)
            assert len(sent) == (2 if of_bob == 201 else 1)
            names = {name.lower() for each in sent for name, _ in each["headers"]}
            assert not {name for name in names if name.startswith(("x-forwarded", "x-real"))}
        known = f"/known/{token}"
        there = 'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"n":1}'
        double.script("GET", known, ["read", {"send": there}])
        answer = send(running, known, TRACE, {"n": 2}, "PATCH", X_Forwarded_User="ann")
        assert answer.status == 201, answer.body
        read, sent = double.requests(known)
        assert (read["method"], sent["method"]) == ("GET", "PATCH")
        assert "x-forwarded" not in str([read, sent]).lower()


def test_ten_users_at_once_have_ten_effects(proxy, double, token):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"])
    answers = [None] * 10

    def call(user):
        trace = f"{user + 1:032x}"
        answers[user] = send(proxy, path, trace, Authorization=f"Bearer {user}")

    threads = [threading.Thread(target=call, args=(user,)) for user in range(10)]
    for thread in threads:
        thread.start()
    double.await_requests("POST", path, 10)
    double.open_gate(token)
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 10
    assert len(double.effects(path)) == 10


def test_two_tenants_of_one_trace_have_two_effects(proxy, double, token):
    path = f"/plain/{token}"
    answers = [send(proxy, path, TRACE, Stripe_Account=name) for name in ("a", "b", "a")]
    assert [answer.status for answer in answers] == [201] * 3
    assert answers[2].replayed and answers[2].body == answers[0].body != answers[1].body
    assert len(double.effects(path)) == 2


def test_a_refreshed_token_finds_its_call_and_never_makes_it_twice(proxy, double, token):
    path = f"/plain/{token}"
    lost = ["read", "execute", "rst"]
    double.script("POST", path, lost, 1)
    assert send(proxy, path, TRACE, Authorization="Bearer old").outcome == "unknown"
    told = send(proxy, path, TRACE, Authorization="Bearer new")
    assert problem(told) == "other-credentials" and told.outcome == "unknown"
    assert len(double.effects(path)) == 1


def sigv4(number, key="AKIDEXAMPLE"):
    """The fields of one attempt: an SDK signs each one anew."""
    return {
        "X_Amz_Date": f"20261126T1200{number:02}Z",
        "Authorization": f"AWS4-HMAC-SHA256 Credential={key}/20261126/eu-1/shop/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={number:064x}",
    }


@pytest.mark.parametrize("trace", [TRACE, None])
def test_attempts_with_a_signature_each_are_one_call(proxy, double, token, trace):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    assert send(proxy, path, trace, **sigv4(1)).outcome == "unknown"
    for number in (2, 3):
        told = send(proxy, path, trace, **sigv4(number))
        assert problem(told) == "other-credentials" and told.outcome == "unknown"
    assert len(double.effects(path)) == 1
    if trace is None:  # then the account is a part of which call it is
        assert send(proxy, path, trace, **sigv4(4, "AKIDOTHER")).status == 201


def test_a_cookie_that_rolls_is_other_credentials_and_one_that_is_none_is_not(proxy, double, token):
    path = f"/plain/{token}"
    first = send(proxy, path, TRACE, Cookie="sid=1; csrftoken=a; _ga=x")
    assert first.status == 201
    repeat = send(proxy, path, TRACE, Cookie="sid=1; csrftoken=b; _ga=y")
    assert repeat.replayed and repeat.body == first.body
    rolled = send(proxy, path, TRACE, Cookie="sid=2; csrftoken=b")
    assert problem(rolled) == "other-credentials" and rolled.outcome == "executed"
    assert len(double.effects(path)) == 1


def test_a_precondition_that_was_read_again_after_a_lost_answer_is_a_repeat(proxy, double, token):
    path = f"/switch/{token}"
    double.script("PUT", path, ["read", "execute", "rst"], 1)
    put = lambda tag: send(proxy, path, TRACE, {"state": "on"}, "PUT", If_Match=tag)
    assert put('"v1"').outcome == "unknown"
    again = put('"v2"')
    assert again.outcome == "unknown" and again.status == 409
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
def test_another_precondition_after_an_answer_is_another_call(proxy, double, token, method):
    path = f"/plain/{token}"
    call = lambda **fields: send(proxy, path, TRACE, {"state": "on"}, method, **fields)
    for number, fields in enumerate(({"If_Match": '"v1"'}, {"If_Match": '"v2"'},
                                     {"If_None_Match": "*"}, {})):  # fmt: skip
        made = call(**fields)
        assert made.status in (200, 201, 204) and not made.replayed, fields
        again = call(**fields)
        assert again.replayed and again.body == made.body, fields
        assert len(double.effects(path)) == number + 1
    named = call(Idempotency_Key=token, If_Match='"v1"')
    assert call(Idempotency_Key=token, If_Match='"v2"').replayed, "the agent names the call"
    assert named.outcome == "executed"


def test_what_was_refused_is_executed_with_the_refreshed_token(proxy, double, token):
    path = f"/plain/{token}"
    refusal = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    double.script("POST", path, ["read", {"send": refusal}], 1)
    assert send(proxy, path, TRACE, Authorization="Bearer old").status == 401
    made = send(proxy, path, TRACE, Authorization="Bearer new")
    assert made.status == 201 and not made.replayed
    assert send(proxy, path, TRACE, Authorization="Bearer new").replayed
    assert problem(send(proxy, path, TRACE, Authorization="Bearer old")) == "other-credentials"
    assert len(double.effects(path)) == 1


def test_a_call_that_is_mended_is_not_refused_for_its_mending(proxy, double, token):
    path = f"/plain/{token}"
    refusal = "HTTP/1.1 422 Unprocessable\r\nContent-Length: 0\r\n\r\n"
    double.script("POST", path, ["read", {"send": refusal}], 1)
    key = {"Idempotency_Key": token}
    assert send(proxy, path, TRACE, {"qty": 0}, **key).status == 422
    made = send(proxy, path, TRACE, {"qty": 1}, **key)
    assert made.status == 201 and not made.replayed
    assert problem(send(proxy, path, TRACE, {"qty": 2}, **key)) == "key-reused"
    assert len(double.effects(path)) == 1


def test_who_else_asks_about_a_call_that_waits_learns_its_state_alone(proxy, double, token):
    path = f"/gated/{token}"
    first = send(proxy, path, TRACE, Authorization="Bearer ann")
    other = send(proxy, path, TRACE, Authorization="Bearer bob")
    assert first.status == other.status == 202
    assert first.json()["operation"] == other.json()["operation"]
    operation = first.json()["operation"]
    assert proxy.approve(operation)[0] == 200
    poll = first.header("Location")

    def asks(name):
        fields = {"Authorization": f"Bearer {name}"}
        return rawhttp.call(proxy.port, "GET", poll, headers=fields).json()

    mine = wait_until(lambda: asks("ann").get("answer"), lambda: asks("ann"))
    theirs = asks("bob")
    assert (theirs["status"], theirs["outcome"]) == ("finished", "executed")
    assert mine["id"] not in str(theirs)
    told = send(proxy, path, TRACE, Authorization="Bearer bob")
    assert problem(told) == "other-credentials" and told.outcome == "executed"
    assert len(double.effects(path)) == 1


def test_on_off_on_leaves_it_on(proxy, double, token):
    path = f"/switch/{token}"
    put = lambda state: send(proxy, path, TRACE, {"state": state}, "PUT")
    assert [put(state).status for state in ("on", "off", "on")] == [201] * 3
    assert len(double.effects(path)) == 3
    assert put("on").replayed and len(double.effects(path)) == 3
    drop = lambda: send(proxy, path, TRACE, {}, "DELETE")
    assert not drop().replayed and drop().replayed
    assert not put("on").replayed and not drop().replayed
    assert len(double.effects(path)) == 6


def test_on_off_on_is_known_after_a_kill(double, token, tmp_path):
    path = f"/switch/{token}"
    with Recourse(tmp_path, standard(double, extra_tools=TOOLS)) as running:
        for state in ("on", "off"):
            assert send(running, path, TRACE, {"state": state}, "PUT").status == 201
        running.kill()
        running.start()
        assert send(running, path, TRACE, {"state": "off"}, "PUT").replayed
        assert not send(running, path, TRACE, {"state": "on"}, "PUT").replayed
    assert len(double.effects(path)) == 3


def test_an_equal_call_without_trace_is_another_one_once_the_first_was_answered(
    proxy, double, token
):
    path = f"/plain/{token}"
    first, second = send(proxy, path), send(proxy, path)
    assert first.status == second.status == 201 and not second.replayed
    assert len(double.effects(path)) == 2
    # What the policy says is the same is one call; so is what the agent named.
    for fields, where in (({}, f"/named/{token}"), ({"Idempotency_Key": token}, path)):
        answers = [send(proxy, where, None, {"order": token}, **fields) for _ in range(2)]
        assert answers[1].replayed and answers[0].body == answers[1].body


@pytest.mark.parametrize("traces", [(None, None), (TRACE, OTHER_TRACE)], ids=["none", "another"])
def test_a_retry_is_known_by_its_client_having_gone(proxy, double, token, traces):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"])
    body = b'{"a":1}'
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    head.append(f"Content-Length: {len(body)}")
    if traces[0]:
        head += [f"{name}: {value}" for name, value in rawhttp.traced(traces[0]).items()]
    gone = rawhttp.Connection(proxy.port)
    gone.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    double.await_requests("POST", path, 1)

    answers = {}

    def call(name):
        answers[name] = send(proxy, path, traces[1])

    # The first client is there: an equal call is another one.
    beside = threading.Thread(target=call, args=("beside",))
    beside.start()
    double.await_requests("POST", path, 2)
    gone.socket.shutdown(socket.SHUT_RDWR)
    gone.close()
    double.open_gate(token)
    beside.join()
    double.await_effects(path, 2)
    assert answers["beside"].status == 201
    # The first client left without its answer: this is its retry.
    call("retry")
    assert len(double.effects(path)) == 2


def test_an_identity_says_more_than_the_random_key_of_an_sdk(proxy, double, token):
    path = f"/named/{token}"
    keys = ({"Idempotency_Key": f"{token}-{n}"} for n in range(2))
    answers = [send(proxy, path, TRACE, {"order": token}, **key) for key in keys]
    assert answers[1].replayed and answers[0].body == answers[1].body
    sent = [line for line in double.requests(path)]
    assert len(double.effects(path)) == 1 and len(sent) == 1


def test_the_agents_value_in_the_backends_own_key_field_is_its_key(double, token, tmp_path):
    path = f"/plain/{token}"
    policy = standard(double).replace("hosts: [ shop.", "key_header: X-Request-Key, hosts: [ shop.")
    with Recourse(tmp_path, policy) as running:
        calls = [("k1", TRACE), ("k1", OTHER_TRACE), ("k2", TRACE), (None, TRACE)]
        answers = [
            rawhttp.call(
                running.port, "POST", path, body={"a": 1},
                headers={**rawhttp.traced(trace), **({"X-Request-Key": key} if key else {})},
            )  # fmt: skip
            for key, trace in calls
        ]
    assert [answer.replayed for answer in answers] == [False, True, False, False]
    sent = [dict(line["headers"]).get("X-Request-Key") for line in double.requests(path)]
    assert sent[:2] == ["k1", "k2"] and len(sent) == 3 and len(sent[2]) == 64


def test_the_third_replay_says_what_a_question_for_a_state_needs(proxy, double, token):
    path = f"/plain/{token}"
    name = "recourse_state_replays_total"
    counted = Scrape(proxy).sum(name, "plain.create")
    replays = [send(proxy, path, TRACE) for _ in range(5)][1:]
    assert all(answer.replayed for answer in replays)
    advice = [answer.header("Recourse-Advice") for answer in replays]
    assert advice[:2] == [None] * 2 and "effect: read" in advice[2] and advice[3] == advice[2]
    assert Scrape(proxy).sum(name, "plain.create") == counted + 2
    # Who names the call repeats it knowingly.
    named = [send(proxy, f"{path}n", TRACE, Idempotency_Key=token) for _ in range(5)]
    assert {answer.header("Recourse-Advice") for answer in named} == {None}
    assert len(double.effects(path)) == 1


TAILS = {
    "a line's end": b"\r\n",
    "a pipelined GET": b"GET /read/x HTTP/1.1\r\nHost: shop.test\r\n\r\n",
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_client_that_said_more_and_left_was_not_answered(proxy, double, token, tail):
    """What it sent lies unread before the end of its stream."""
    path, body = f"/plain/{token}", b'{"a": 1}'
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    fields = {"Content-Type": "application/json"}
    with rawhttp.Connection(proxy.port) as gone:
        gone.send(rawhttp.render("POST", path, "shop.test", fields, body))
        double.await_requests("POST", path)
        gone.send(TAILS[tail])
    double.open_gate(token)
    double.await_effects(path)
    wait_until(lambda: proxy.events_for(path)[-1]["phase"] == "SUCCEEDED")
    assert rawhttp.call(proxy.port, "POST", path, headers=fields, body=body).replayed
    assert len(double.effects(path)) == 1


SPELLINGS = [("?a=1&b=2", "?b=2&a=1"), ("", "?"), ("?x=a", "?x=%61"), ("?api_key=a", "?api_key=b")]


@pytest.mark.parametrize("one, other", SPELLINGS)
def test_a_resource_is_one_however_it_is_spelled(proxy, double, token, one, other):
    path = f"/switch/{token}"
    for query, state in ((one, "on"), (other, "off"), (one, "on")):
        answer = send(proxy, path + query, TRACE, {"state": state}, "PUT")
        assert answer.status == 201 and not answer.replayed
    assert len(double.effects(path)) == 3


def test_what_was_sent_later_counts_while_it_runs(proxy, double, token):
    path = f"/switch/{token}"
    put = lambda state: send(proxy, path, TRACE, {"state": state}, "PUT")
    assert put("on").status == 201
    double.script("PUT", path, ["read", "execute", {"gate": token}, "answer"], 1)
    running = threading.Thread(target=put, args=("off",))
    running.start()
    double.await_effects(path, 2)
    again = put("on")
    double.open_gate(token)
    running.join()
    assert again.status == 201 and not again.replayed
    assert len(double.effects(path)) == 3


def test_nobody_is_told_that_other_arguments_wait_or_were_refused(proxy, double, token):
    path, key = f"/gated/{token}", {"Idempotency_Key": token}
    ann = send(proxy, path, TRACE, {"amount": 1}, Authorization="Bearer ann", **key)
    bob = send(proxy, path, TRACE, {"amount": 999}, Authorization="Bearer bob", **key)
    assert ann.status == 202 and problem(bob) == "other-credentials"
    assert proxy.reject(ann.json()["operation"])[0] == 200
    bob = send(proxy, path, TRACE, {"amount": 999}, Authorization="Bearer bob", **key)
    assert bob.status == 202 and b"reject" not in bob.body, "another question"
    assert double.requests(path) == []


def test_the_policy_says_which_fields_more_prove_who_is_there(double, token, tmp_path):
    path = f"/plain/{token}"
    with Recourse(tmp_path, standard(double) + "principal: [ X-Acme ]\n") as running:
        answers = [send(running, path, TRACE, X_Acme=name) for name in ("ann", "bob", "ann")]
    assert [answer.status for answer in answers] == [201, 409, 201] and answers[2].replayed
    assert problem(answers[1]) == "other-credentials"


def test_a_retry_that_waited_for_a_call_of_unknown_outcome_is_still_its_retry(
    proxy, double, token
):
    """While it waits it is a client of the call itself, and no other one's."""
    path, fields = f"/awaited/{token}", {"Content-Type": "application/json"}
    body = f'{{"client_ref": "{token}"}}'.encode()
    double.script("POST", path, ["read", {"gate": token}, "execute", "rst"], 1)
    gone = rawhttp.Connection(proxy.port)
    gone.send(rawhttp.render("POST", path, "shop.test", fields, body))
    double.await_requests("POST", path)
    gone.close()
    with rawhttp.Connection(proxy.port) as retry:
        retry.send(rawhttp.render("POST", path, "shop.test", fields, body))
        wait_until(lambda: "recourse_writes_in_flight 1\n" in proxy.probe("/metrics")[1]
                   and joined(proxy) >= 2)  # fmt: skip
        double.open_gate(token)
        told = retry.response("POST")
    assert told.status == 200 and told.replayed and told.outcome == "executed", told
    assert len(double.effects(path)) == 1


def joined(proxy):
    """How many calls have memory held for them; each has 16 KiB at least."""
    metrics = proxy.probe("/metrics")[1]
    held = re.search(r'^recourse_buffered_bytes\{of="writes"\} (\S+)$', metrics, re.M)
    return float(held[1]) // (16 * 1024)
