"""The key that a backend sees is fixed by an operation's first attempt: however a repeat names the
same intent, it goes out under that key, in that spelling."""

import json
import socket
import threading
import time

import pytest

from support import rawhttp
from support.double import ServedPort
from support.policies import standard
from support.recourse import Recourse, kept_whole

LOST = ["read", "execute", "rst"]
TOLD = object()  # the key that the answer to the first call told
TOOLS = """\
  asked.create:
    match: POST keyed /keyed/asked/{token}
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /asked/{path.token}?by={key}"
      happened: answer.body#/items/0/id
      absent_after: 1s
    undo: none
    reason: a row of a test is never undone
"""
SPELLINGS = {
    "bare": lambda name: {"Idempotency-Key": name},
    "quoted": lambda name: {"Idempotency-Key": f'"{name}"'},
    "intent": lambda name: {"Recourse-Intent": name},
    "both": lambda name: {"Idempotency-Key": name, "Recourse-Intent": f'"{name}"'},
}
# What the first call says, and what its repeat says.
PAIRS = [
    ("intent", "bare"), ("bare", "intent"), ("quoted", "bare"), ("bare", "quoted"),
    ("quoted", "intent"), ("intent", "both"), ("both", "intent"),
]  # fmt: skip


def rules(double, key_header="Idempotency-Key"):
    text = standard(double, extra_tools=TOOLS)
    return text.replace("key_header: Idempotency-Key", f"key_header: {key_header}")


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    with kept_whole(tmp_path_factory.mktemp("recourse"), rules(double)) as running:
        yield running


@pytest.fixture(scope="module", params=["Idempotency-Key", "X-Key"])
def either(request, double, tmp_path_factory):
    """In front of a backend with one key field or another."""
    text = rules(double, request.param)
    with kept_whole(tmp_path_factory.mktemp("recourse"), text) as running:
        yield running


def post(running, path, spelling, token):
    fields = SPELLINGS[spelling](token)
    return rawhttp.call(running.port, "POST", path, "keyed.test", fields, {"client_ref": token})


def keys_seen(double, path):
    """Of every request: each field that may carry a key, as it stood on the wire."""
    names = ("idempotency-key", "x-key", "recourse-intent")
    return [
        tuple(sorted((n.lower(), v) for n, v in request["headers"] if n.lower() in names))
        for request in double.requests(path, "POST")
    ]


@pytest.mark.parametrize("first, again", PAIRS)
def test_a_repeat_goes_out_under_the_key_of_the_first_attempt(either, double, token, first, again):
    path = f"/keyed/{token}"
    double.script("POST", path, LOST, times=1)
    assert post(either, path, first, token).outcome == "unknown"
    repeated = post(either, path, again, token)
    assert (repeated.status, repeated.outcome) == (201, "executed"), repeated
    sent, resent = keys_seen(double, path)
    assert sent == resent and sent, (sent, resent)
    assert "recourse-intent" not in dict(sent)
    if "idempotency-key" in dict(sent):
        assert len(double.effects(path)) == 1
    assert post(either, path, first, token).replayed
    assert post(either, path, again, token).replayed
    assert len(keys_seen(double, path)) == 2


@pytest.mark.parametrize("first, again", [("intent", "bare"), ("quoted", "intent")])
def test_the_key_outlives_a_restart(double, token, tmp_path, first, again):
    path = f"/keyed/{token}"
    double.script("POST", path, LOST, times=1)
    with Recourse(tmp_path, rules(double)) as running:
        assert post(running, path, first, token).outcome == "unknown"
        running.kill()
        running.start()
        assert post(running, path, again, token).outcome == "executed"
    sent, resent = keys_seen(double, path)
    assert sent == resent and len(double.effects(path)) == 1


MCP = """\
version: 1
backends:
  tools: {{ url: "{url}/mcp", hosts: [ tools.test ], protocol: mcp, key_header: Idempotency-Key }}
tools:
  pay: {{ match: tools/call tools pay, effect: write, reason: tests }}
"""


def pay(running, intent=None, **fields):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": "pay", "arguments": {"amount": 1}}
    if intent is not None:
        message["params"]["_meta"] = {"dev.recourse/intent": intent}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
        **{name.replace("_", "-"): value for name, value in fields.items()},
    }
    return rawhttp.call(running.port, "POST", "/mcp", "tools.test", headers, message)


@pytest.mark.parametrize(
    "first, again",
    [
        ({"intent": "pay-1"}, {"Idempotency_Key": "pay-1"}),
        ({"Idempotency_Key": '"pay-1"'}, {"intent": "pay-1"}),
        ({"intent": "pay-1", "Idempotency_Key": "pay-1"}, {"Recourse_Intent": "pay-1"}),
        ({"Idempotency_Key": "pay-1"}, {"intent": TOLD}),
        ({"intent": "pay-1"}, {"Idempotency_Key": TOLD}),
        ({"Idempotency_Key": "pay-1"}, {"intent": TOLD, "Recourse_Intent": TOLD}),
        ({}, {"intent": TOLD, "Idempotency_Key": TOLD}),
    ],
    ids=[
        "meta-field", "field-meta", "both-intent",
        "field-told_meta", "meta-told_field", "field-told_both", "none-told_both",
    ],
)
def test_an_mcp_call_is_sent_again_under_the_key_of_its_first_attempt(tmp_path, first, again):
    result = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
    body = json.dumps(result).encode()
    told = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )

    def serve(port, sock):
        port.head(sock)
        if len(port.heads) > 1:
            sock.sendall(told)

    with ServedPort(serve) as port, Recourse(tmp_path, MCP.format(url=port.url)) as running:
        lost = pay(running, **first)
        assert lost.outcome == "unknown"
        again = {n: lost.header("Idempotency-Key") if v is TOLD else v for n, v in again.items()}
        repeated = pay(running, **again)
        assert repeated.outcome == "executed", repeated
        lines = [head.lower().split(b"\r\n") for head in port.heads]
        keys = [[line for line in head if line.startswith(b"idempotency-key")] for head in lines]
    sent, resent = keys
    assert sent == resent and len(sent) == 1, keys


def test_under_another_key_header_it_stays_unknown(double, token, tmp_path):
    path = f"/keyed/{token}"
    double.script("POST", path, LOST, times=1)
    with Recourse(tmp_path, rules(double)) as running:
        assert post(running, path, "intent", token).outcome == "unknown"
        assert running.stop() == 0
        running.policy_path.write_text(rules(double, "X-Key"))
        running.start()
        for spelling in SPELLINGS:
            assert post(running, path, spelling, token).outcome == "unknown"
    assert len(keys_seen(double, path)) == 1


def test_a_probe_asks_about_the_key_that_was_sent_first(proxy, double, token):
    """The repeat is another attempt; the probe must not look for a key that nobody ever sent."""
    path = f"/keyed/asked/{token}"
    double.script("POST", path, LOST, times=1)
    busy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    double.script("GET", f"/asked/{token}", ["read", {"send": busy}])
    assert post(proxy, path, "intent", token).outcome == "unknown"
    double.script("POST", path, ["read", "rst"], times=1)
    assert post(proxy, path, "bare", token).outcome == "unknown"
    sent, resent = keys_seen(double, path)
    assert sent == resent
    ((_, key),) = sent
    double.await_requests("GET", f"/asked/{token}", 2)
    double.await_recorded()
    asked = {r["target"] for r in double.requests(f"/asked/{token}", "GET")}
    assert asked == {f"/asked/{token}?by={key}"}, asked


def test_the_key_that_an_answer_told_names_its_operation(proxy, double, token):
    """An agent that sends back what it was told repeats its call, also where nothing reads keys."""
    path, body = f"/plain/{token}", {"client_ref": token}
    double.script("POST", path, LOST, times=1)
    trace = rawhttp.traced(f"{int(time.time_ns()):032x}")
    first = rawhttp.call(proxy.port, "POST", path, headers=trace, body=body)
    told = {"Idempotency-Key": first.header("Idempotency-Key")}
    assert first.outcome == "unknown" and told["Idempotency-Key"]
    for fields in (told, {**trace, **told}, {"Recourse-Intent": told["Idempotency-Key"]}):
        echo = rawhttp.call(proxy.port, "POST", path, headers=fields, body=body)
        assert echo.outcome == "unknown", echo
        assert echo.header("Idempotency-Key") == told["Idempotency-Key"]
    changed = rawhttp.call(proxy.port, "POST", path, headers=told, body={"client_ref": "other"})
    assert changed.status == 422
    assert len(double.effects(path)) == 1 == len(double.requests(path))


@pytest.mark.parametrize("again", SPELLINGS)
@pytest.mark.parametrize("first", ["none", "bare", "intent"])
def test_sent_back_to_a_backend_that_knows_keys_it_is_the_same_key(
    either, double, token, first, again
):
    path, body = f"/keyed/{token}", {"client_ref": token}
    double.script("POST", path, LOST, times=1)
    named = SPELLINGS[first](token) if first in SPELLINGS else {}
    lost = rawhttp.call(either.port, "POST", path, "keyed.test", headers=named, body=body)
    told = SPELLINGS[again](lost.header("Idempotency-Key"))
    repeated = rawhttp.call(either.port, "POST", path, "keyed.test", headers=told, body=body)
    assert (repeated.status, repeated.outcome) == (201, "executed"), repeated
    sent, resent = keys_seen(double, path)
    assert sent == resent


PLAIN = """\
version: 1
backends:
  shop: {{ url: "http://127.0.0.1:{port}", hosts: [ plain.test ] }}
tools:
  make: {{ match: POST shop /made, effect: write, undo: none, reason: tests }}
"""


def test_a_key_that_was_told_never_brings_about_again_what_another_trace_did(tmp_path):
    """The first call was not sent; its client's next attempt was, under a trace of its own."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    heads = []

    def lose():
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            with accepted:
                heads.append(accepted.recv(65536))

    policy = PLAIN.format(port=listener.getsockname()[1])
    with listener, Recourse(tmp_path, policy) as running:

        def make(fields):
            return rawhttp.call(
                running.port, "POST", "/made", "plain.test", fields, {"client_ref": "a"}
            )

        traces = [rawhttp.traced(f"{number:032x}") for number in (1, 2)]
        unsent = make(traces[0])
        assert unsent.outcome == "not_executed", unsent
        told = {"Idempotency-Key": unsent.header("Idempotency-Key")}
        for fields in (told, traces[0], told):
            again = make(fields)
            assert (again.status, again.outcome) == (unsent.status, "not_executed"), again
        listener.listen()
        threading.Thread(target=lose, daemon=True).start()
        assert make(traces[1]).outcome == "unknown"
        for fields in (told, traces[0], told, {"Recourse-Intent": told["Idempotency-Key"]}):
            assert make(fields).outcome == "unknown"
        listener.shutdown(socket.SHUT_RDWR)
    assert len(heads) == 1
