"""The write lane: repeats, races, conflicts, windows, refusals."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.history import Write
from support.policies import standard
from support.recourse import Recourse, kept_whole
from support.waiting import made_in_time, wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER_TRACE = "0af7651916cd43dd8448eb211c80319c"
WINDOW = 5  # seconds
RULES = """\
  windowed.create:
    match: POST shop /windowed/{token}
    effect: write
    scope: caller
    dedupe_window: 5s
    undo: none
    reason: rows of tests
  named.create:
    match: POST shop /named/{token}
    effect: write
    identity: [ body#/order ]
    undo: none
    reason: rows of tests
  anyway.create:
    match: POST shop /anyway/{token}
    effect: write
    ignore: [ /sent_at ]
    undo: none
    reason: rows of tests
  never.create:
    match: POST shop /never/{token}
    effect: write
    across_traces: never
    undo: none
    reason: rows of tests
  patient.create:
    match: POST shop /patient/{token}
    effect: write
    hold: 10m
    undo: none
    reason: rows of tests
  brief.create:
    match: POST shop /brief/{token}
    effect: write
    hold: 200ms
    undo: none
    reason: rows of tests
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = standard(double, extra_tools=RULES)
    with kept_whole(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running


def post(proxy, path, body, trace=TRACE, **headers):
    fields = rawhttp.traced(trace) if trace else {}
    fields.update({name.replace("_", "-"): value for name, value in headers.items()})
    return rawhttp.call(proxy.port, "POST", path, headers=fields, body=body)


def same_answer(first, second):
    """Status, body and every end-to-end field but Date and the replay mark."""
    def kept(answer):
        return sorted(
            (n.lower(), v) for n, v in answer.headers
            if n.lower() not in ("date", "idempotent-replayed", "connection", "set-cookie")
        )  # fmt: skip

    return (first.status, first.body, kept(first)) == (second.status, second.body, kept(second))


def test_a_repeated_request_with_the_same_key_creates_no_duplicate(proxy, double, token):
    path, body = f"/plain/{token}", {"client_ref": token, "amount": 100}
    key = f"order-{token}"
    first = post(proxy, path, body, Idempotency_Key=key)
    assert first.status == 201 and not first.replayed
    assert first.outcome == "executed" and first.header("Recourse-Event")
    for _ in range(5):
        again = post(proxy, path, body, Idempotency_Key=key)
        assert again.replayed
        assert same_answer(first, again)
    assert len(double.effects(path)) == 1
    assert len(double.requests(path)) == 1


def test_the_log_holds_the_full_trace_of_a_trace_id(proxy, double, token):
    trace = f"{int(time.time_ns()):032x}"
    steps = [f"/plain/{token}-{step}" for step in ("order", "charge", "ship")]
    for path in steps:
        assert post(proxy, path, {"client_ref": path}, trace).status == 201
    refused = f"/plain/{token}-refused"
    refusal = "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n"
    double.script("POST", refused, ["read", {"send": refusal}])
    assert post(proxy, refused, {"client_ref": refused}, trace).status == 422
    post(proxy, f"/plain/{token}-elsewhere", {"client_ref": "x"}, OTHER_TRACE)

    events = proxy.events(trace=trace)
    assert [(e["path"], e["status"]) for e in events] == [
        *[(path, status) for path in steps for status in ("PENDING", "SUCCESS")],
        (refused, "PENDING"),
        (refused, "FAILED"),
    ]
    for event in events:
        assert event["trace_id"] == trace
        assert event["event_id"] and event["idempotency_key"] and event["args_hash"]
        assert event["tool"] == "plain.create" and event["caller"] and event["time"]
    done = [e for e in events if e["status"] == "SUCCESS"]
    assert [e["external_ref"] for e in done] == [double.effects(path)[0]["id"] for path in steps]

    listed = proxy.cli("events", "list", "--trace", trace, "--json")
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout) == events


def test_repeats_survive_a_kill(double, tmp_path, token):
    path, body = f"/plain/{token}", {"client_ref": token}
    with Recourse(tmp_path, standard(double)) as running:
        first = post(running, path, body)
        running.kill()
        running.start()
        again = post(running, path, body)
    assert first.status == 201 and again.replayed and same_answer(first, again)
    assert len(double.effects(path)) == 1


def test_200_concurrent_repeats_have_one_effect_and_equal_answers(proxy, double, token):
    path, body = f"/patient/{token}", {"client_ref": token}
    double.script("POST", path, ["read", "execute", {"gate": token}, "answer"], 1)
    with ThreadPoolExecutor(200) as pool:
        futures = [pool.submit(post, proxy, path, body) for _ in range(200)]
        double.await_requests("POST", path)
        double.open_gate(token)
        answers = [future.result() for future in futures]
    assert len(double.effects(path)) == 1 and len(double.requests(path)) == 1
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert len({answer.header("Recourse-Event") for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1


def test_a_repeat_of_a_running_call_waits_and_then_is_told_to_come_back(proxy, double, token):
    path, body = f"/brief/{token}", {"client_ref": token}
    double.script("POST", path, ["read", "execute", {"gate": token}, "answer"], 1)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, proxy, path, body)
        double.await_requests("POST", path)
        early = post(proxy, path, body)
        assert early.status == 409 and early.json()["outcome"] == "pending"
        assert early.json()["retryable"] is True and int(early.header("Retry-After")) >= 1
        double.open_gate(token)
        assert first.result().status == 201
    assert post(proxy, path, body).replayed
    assert len(double.effects(path)) == 1


ENDED_BY_CLOSING = {
    "no form": ("HTTP/1.1 200 OK\r\n\r\ndid transfer", b"did transfer"),
    "http 1.0": ("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>done", b"<p>done"),
    "empty": ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b""),
    "whole json": ('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"yes"', b'"yes"'),
}


@pytest.mark.parametrize("name", ENDED_BY_CLOSING)
def test_an_answer_ended_by_closing_is_whole(proxy, double, token, name):
    """RFC 9112 6.3; what says itself that more was to come is cut (b12 of test_faults.py)."""
    path, (text, body) = f"/plain/{token}", ENDED_BY_CLOSING[name]
    double.script("POST", path, ["read", "execute", {"send": text}, "fin"], 1)
    first, again = post(proxy, path, {}), post(proxy, path, {})
    assert first.status == again.status == 200 and first.body == again.body == body
    assert again.replayed and len(double.effects(path)) == 1
    assert proxy.await_phase(path, "SUCCEEDED")


def test_an_answer_ended_by_a_reset_is_lost(proxy, double, token):
    path, text = f"/plain/{token}", "HTTP/1.1 200 OK\r\n\r\ndid"
    double.script("POST", path, ["read", "execute", {"send": text}, "rst"], 1)
    assert post(proxy, path, {}).status == 502 and post(proxy, path, {}).status == 502
    assert len(double.effects(path)) == 1


def leave_while_it_runs(proxy, double, token, path, body):
    """A client that is gone before its write ends, which it then does."""
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    data = json.dumps(body).encode()
    fields = {**rawhttp.traced(TRACE), "Content-Type": "application/json"}
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("POST", path, "shop.test", fields, data))
        double.await_requests("POST", path)
        connection.reset()
    double.open_gate(token)
    proxy.await_phase(path, "SUCCEEDED")


def test_a_client_that_leaves_does_not_stop_its_write(proxy, double, token):
    path, body = f"/plain/{token}", {"client_ref": token}
    leave_while_it_runs(proxy, double, token, path, body)
    again = post(proxy, path, body)
    assert again.status == 201 and again.replayed
    assert len(double.effects(path)) == 1


def test_an_explicit_key_with_other_arguments_is_a_conflict(proxy, double, token):
    path = f"/plain/{token}"
    assert post(proxy, path, {"amount": 1}, Idempotency_Key=token).status == 201
    other = post(proxy, path, {"amount": 2}, Idempotency_Key=token)
    assert other.status == 422 and other.json()["outcome"] == "not_executed"
    assert other.json()["advice"]
    assert len(double.effects(path)) == 1
    assert post(proxy, path, {"amount": 1}, Idempotency_Key=token).replayed


def test_an_explicit_key_holds_across_traces(proxy, double, token):
    path, body = f"/plain/{token}", {"amount": 1}
    first = post(proxy, path, body, TRACE, Idempotency_Key=token)
    second = post(proxy, path, body, OTHER_TRACE, Idempotency_Key=token)
    assert first.status == 201 and second.replayed
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("key", ["a" * 256, "a\tb", '"unclosed', ""])
def test_a_bad_key_is_refused(proxy, double, token, key):
    path = f"/plain/{token}"
    assert post(proxy, path, {"a": 1}, Idempotency_Key=key).status == 400
    assert double.requests(path) == []


def test_ignored_and_free_text_fields_do_not_make_another_call(proxy, double, token):
    path = f"/anyway/{token}"
    assert post(proxy, path, {"order": 1, "sent_at": "10:00"}).status == 201
    assert post(proxy, path, {"order": 1, "sent_at": "10:01"}).replayed
    assert len(double.effects(path)) == 1


def test_the_identity_alone_makes_the_key_and_the_rest_must_match(proxy, double, token):
    path = f"/named/{token}"
    assert post(proxy, path, {"order": 1, "note": "please"}).status == 201
    assert post(proxy, path, {"order": 1, "note": "please"}).replayed
    assert post(proxy, path, {"order": 1, "note": "kindly"}).status == 422
    assert post(proxy, path, {"order": 2, "note": "kindly"}).status == 201
    assert len(double.effects(path)) == 2


def test_the_same_call_in_another_trace_is_a_new_call_once_answered(proxy, double, token):
    path, body = f"/plain/{token}", {"a": 1}
    assert post(proxy, path, body, TRACE).status == 201
    # The answer's arrival becomes known to the ledger soon, not at once.
    wait_until(
        lambda: not post(proxy, path, body, f"{time.time_ns():032x}").replayed,
        "an answered call is replayed to every other trace",
    )
    assert len(double.effects(path)) == 2
    assert post(proxy, path, body, TRACE).replayed


def test_an_unanswered_call_repeated_in_another_trace_is_a_repeat(proxy, double, token):
    path, body = f"/plain/{token}", {"client_ref": token}
    leave_while_it_runs(proxy, double, token, path, body)
    again = post(proxy, path, body, OTHER_TRACE)
    assert again.status == 201 and again.replayed
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("first, again", [(TRACE, None), (None, TRACE), (TRACE, OTHER_TRACE)])
def test_whichever_of_two_calls_has_a_trace_a_repeat_is_a_repeat(
    proxy, double, token, first, again
):
    path, body = f"/plain/{token}", {"client_ref": token}
    double.script("POST", path, ["read", "execute", "rst"], 1)
    assert post(proxy, path, body, first).outcome == "unknown"
    for trace in (again, again, first):
        assert post(proxy, path, body, trace).outcome == "unknown"
    assert len(double.effects(path)) == 1 == len(double.requests(path))


def test_without_a_trace_the_call_is_a_new_one_once_that_of_a_trace_was_answered(
    proxy, double, token
):
    path, body = f"/plain/{token}", {"a": 1}
    assert post(proxy, path, body).status == 201
    # Its answer's arrival becomes known soon; a repeat before that would be replayed, and bound.
    marked = f"/plain/{token}-mark"
    assert post(proxy, marked, body).status == 201
    wait_until(
        lambda: not post(proxy, marked, body, f"{time.time_ns():032x}").replayed,
        "an answered call is replayed to every other trace",
    )
    assert not post(proxy, path, body, trace=None).replayed
    assert len(double.effects(path)) == 2


def test_a_tool_may_keep_traces_apart(proxy, double, token):
    path, body = f"/never/{token}", {"client_ref": token}
    double.script("POST", path, ["read", "execute", {"gate": token}, "answer"], 1)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, proxy, path, body, TRACE)
        double.await_requests("POST", path)
        second = post(proxy, path, body, OTHER_TRACE)
        double.open_gate(token)
        assert first.result().status == 201
    assert second.status == 201 and not second.replayed
    assert len(double.effects(path)) == 2


def test_without_a_trace_a_repeat_counts_inside_the_window_only(proxy, double, token):
    body = {"a": 1}

    def repeated(turn):
        path, begun = f"/windowed/{token}-{turn}", time.monotonic()
        first, again = (post(proxy, path, body, None) for _ in range(2))
        is_in_time = time.monotonic() - begun < WINDOW
        assert first.status == 201 and (again.replayed or not is_in_time)
        return is_in_time and path

    path = made_in_time(repeated)
    wait_until(lambda: not post(proxy, path, body, None).replayed, "the window never ended")
    assert len(double.effects(path)) == 2


def test_a_definite_refusal_is_passed_on_and_its_repeat_is_made(proxy, double, token):
    path = f"/plain/{token}"
    refusal = '{"error":"no such customer"}'
    head = "HTTP/1.1 422 No\r\nContent-Type: application/json\r\n"
    answer = f"{head}Content-Length: {len(refusal)}\r\n\r\n{refusal}"
    double.script("POST", path, ["read", {"send": answer}], None)
    first, second = (post(proxy, path, {"a": 1}) for _ in range(2))
    assert first.status == second.status == 422
    assert first.body == second.body == refusal.encode()
    assert not second.replayed and not first.replayed
    assert len(double.requests(path)) == 2


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
def test_writes_that_no_tool_matches_are_guarded(proxy, double, token, method):
    path = f"/unlisted/{token}"
    body = b"" if method == "DELETE" else {"a": 1}
    first, second = (
        rawhttp.call(proxy.port, method, path, headers=rawhttp.traced(TRACE), body=body)
        for _ in range(2)
    )
    assert first.status == 201 and second.replayed
    assert len(double.effects(path)) == 1
    assert {event["tool"] for event in proxy.events_for(path)} == {"unlisted.shop"}


@pytest.mark.parametrize("writes, status, effects", [("deny", 403, 0), ("pass", 201, 2)])
def test_the_policy_says_what_happens_to_unlisted_writes(
    double, tmp_path, token, writes, status, effects
):
    policy = standard(double).replace("writes: guard", f"writes: {writes}")
    path = f"/unlisted/{token}"
    with Recourse(tmp_path, policy) as running:
        answers = [post(running, path, {"a": 1}) for _ in range(2)]
    assert [answer.status for answer in answers] == [status] * 2
    assert len(double.effects(path)) == effects


def test_unlisted_reads_can_be_denied(double, tmp_path, token):
    policy = standard(double).replace("reads: pass", "reads: deny")
    with Recourse(tmp_path, policy) as running:
        assert rawhttp.call(running.port, "GET", f"/read/{token}").status == 403
    assert double.requests(f"/read/{token}") == []


def test_an_unknown_host_is_refused(proxy, token):
    answer = rawhttp.call(proxy.port, "POST", f"/plain/{token}", host="elsewhere.test", body={})
    assert answer.status == 403
    document = answer.json()
    assert document["type"] == "https://recourse.dev/problems/unknown-backend"
    assert document["outcome"] == "not_executed" and document["retryable"] is False
    assert answer.header("Proxy-Status").startswith("recourse; error=")


def test_a_backend_that_knows_keys_gets_a_stable_one(proxy, double, token):
    """The answer is lost after the execution; the repeat carries the same key and settles it."""
    path, body = f"/keyed/{token}", {"client_ref": token}
    double.script("POST", path, ["read", "execute", "rst"], 1)
    fields = rawhttp.traced(TRACE)
    first = rawhttp.call(proxy.port, "POST", path, "keyed.test", fields, body)
    assert first.status in (201, 502)
    second = rawhttp.call(proxy.port, "POST", path, "keyed.test", fields, body)
    assert second.status == 201 and second.outcome == "executed"
    keys = {request["key"] for request in double.requests(path)}
    assert len(keys) == 1 and None not in keys
    assert len(double.effects(path)) == 1


def test_a_backend_that_knows_no_keys_gets_none_of_ours(proxy, double, token):
    path = f"/plain/{token}"
    assert post(proxy, path, {"a": 1}).status == 201
    assert double.requests(path)[0]["key"] is None


def test_a_body_over_the_cap_of_writes_is_refused_before_it_is_read(proxy, double, token):
    path = f"/plain/{token}"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(
            rawhttp.render("POST", path, "shop.test", {"Content-Length": 10**10}, length=False)
        )
        assert connection.response("POST").status == 413
    assert double.requests(path) == []


def test_a_large_answer_is_passed_on_and_replayed(proxy, double, token):
    path = f"/plain/{token}"
    body = "x" * 500_000
    double.script("POST", path, ["read", "execute", {"send": "HTTP/1.1 200 OK\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n{body}"}], 1)  # fmt: skip
    first, second = (post(proxy, path, {"a": 1}) for _ in range(2))
    assert first.body == second.body == body.encode() and second.replayed




@pytest.mark.parametrize(
    "fields",
    [
        [("Content-Type", "application/json; charset=utf-16")],
        [("Content-Type", "application/json"), ("Content-Type", "text/plain")],
        [("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
    ],
)
def test_fields_with_two_readings_are_refused(proxy, double, token, fields):
    path = f"/plain/{token}"
    answer = rawhttp.call(proxy.port, "POST", path, headers=fields, body=b'{"a":1}')
    assert answer.status in (400, 415) and answer.json()["outcome"] == "not_executed"
    assert double.requests(path) == []


@pytest.mark.parametrize(
    "answer, status, body",
    [
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        ("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, b""),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: y\r\n\r\n",
            200,
            b"abc",
        ),
    ],
    ids=["204", "empty", "chunked"],
)
def test_every_framing_of_an_answer_is_replayed(proxy, double, token, answer, status, body):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", {"send": answer}], 1)
    first, second = (post(proxy, path, {"a": 1}) for _ in range(2))
    assert (first.status, first.body) == (second.status, second.body) == (status, body)
    assert second.replayed and first.trailers == second.trailers == []


def test_an_answer_too_large_to_keep_is_never_a_reason_to_run_again(proxy, double, token):
    path = f"/plain/{token}"
    size = 2_000_000
    double.script("POST", path, ["read", "execute", {"send": "HTTP/1.1 200 OK\r\n"
                  f"Content-Length: {size}\r\n\r\n{'x' * size}"}], None)  # fmt: skip
    assert len(post(proxy, path, {"a": 1}).body) == size
    again = post(proxy, path, {"a": 1})
    assert again.status == 409 and again.outcome == "executed"
    assert again.json()["type"].endswith("/answer-not-kept")
    assert len(double.effects(path)) == 1


def test_absolute_form_names_the_backend(proxy, double, token):
    path = f"/plain/{token}"
    assert post(proxy, f"http://shop.test{path}", {"a": 1}).status == 201
    assert double.requests(path)[0]["target"] == path
    assert post(proxy, f"http://elsewhere.test{path}", {"a": 1}).status == 403
    assert post(proxy, path, {"a": 1}).replayed


def test_writes_of_many_agents_each_have_one_effect(proxy, double, token):
    def agent(name):
        for number in range(10):
            write = Write(f"/plain/{token}-{name}-{number}", TRACE)
            for _ in range(2):
                with rawhttp.Connection(proxy.port) as connection:
                    connection.send(write.data)
                    assert connection.response("POST").status == 201

    threads = [threading.Thread(target=agent, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paths = [f"/plain/{token}-{name}-{number}" for name in range(16) for number in range(10)]
    executed = [line["path"] for line in double.record() if line["t"] == "effect"]
    assert [executed.count(path) for path in paths] == [1] * 160
