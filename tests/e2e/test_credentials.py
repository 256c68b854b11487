"""Backends whose credentials only Recourse has: agents neither send nor see them."""

import base64
import json
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.echo import Echo
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

POLICY = """\
version: 1
backends:
  shop:
    url: "{shop}"
    hosts: [ shop.test ]
    timeout: 600s
    credentials: {{ Authorization: {{ file: {secret}, prefix: "Bearer " }} }}
  open: {{ url: "{other}", hosts: [ open.test ], timeout: 600s }}
  tokened:
    url: "{tokened}"
    hosts: [ tokened.test ]
    timeout: 600s
    credentials:
      Authorization:
        prefix: "Bearer "
        token: {{ url: "{other}/token", client_id: agent, secret_file: {client}, scope: all }}
tools:
  bills.list:
    match: GET open /bills
    effect: read
    credentials: {{ Authorization: {{ file: {secret}, prefix: "Bearer " }} }}
  bills.pay:
    match: POST open /bills/{{ref}}
    effect: write
    credentials: {{ Authorization: {{ file: {secret}, prefix: "Bearer " }} }}
    external_ref: answer.body#/id
    settle: {{ request: "GET /bills/{{path.ref}}", happened: answer.body#/items/0/id,
              absent_after: 0s }}
    undo: {{ request: "DELETE /bills/{{external_ref}}" }}
  bills.change:
    match: PATCH open /bills/{{ref}}
    effect: write
    credentials: {{ Authorization: {{ file: {secret}, prefix: "Bearer " }} }}
    before: {{ request: "GET /bills/{{path.ref}}", keep: body#/id }}
    undo: {{ request: "PATCH /bills/{{path.ref}}", json: {{ id: "{{before.body#/id}}" }} }}
  live: {{ match: GET shop /live, effect: read, upgrade: [ websocket ] }}
  orders.create:
    match: POST shop /orders/{{ref}}
    effect: write
    external_ref: answer.body#/id
    settle: {{ request: "GET /orders/{{path.ref}}", happened: answer.body#/items/0/id,
              absent_after: 0s }}
    undo: {{ request: "DELETE /orders/{{external_ref}}" }}
  orders.update:
    match: PATCH shop /orders/{{ref}}
    effect: write
    before: {{ request: "GET /orders/{{path.ref}}", keep: body#/id }}
    undo: {{ request: "PATCH /orders/{{path.ref}}", json: {{ id: "{{before.body#/id}}" }} }}
  orders.stream:
    match: POST shop /pieces/{{ref}}
    effect: write
    answer: stream
    undo: none
    reason: end
"""
AGENTS = {"Authorization": "Bearer agents-own-word", "Accept-Encoding": "gzip"}
FIRST, SECOND = "canary-first-0123456789", "canary-second-012345678"


@pytest.fixture(scope="module")
def echo():
    with Echo() as shop:
        yield shop


@pytest.fixture(scope="module")
def other():
    with Echo() as backend:
        yield backend


@pytest.fixture(scope="module")
def tokened():
    with Echo() as backend:
        yield backend


@pytest.fixture(scope="module")
def proxy(echo, other, tokened, tmp_path_factory):
    directory = tmp_path_factory.mktemp("credentials")
    file, client = directory / "token", directory / "client"
    file.write_text(FIRST + "\n")
    client.write_text("canary-client\n")
    policy = POLICY.format(shop=echo.url, other=other.url, tokened=tokened.url, secret=file,
                           client=client)  # fmt: skip
    with Recourse(directory / "recourse", policy) as running:
        running.secret = file
        yield running
        assert running.verify()["ok"]
        shown = running.stdout() + running.stderr()
        shown += running.cli("ledger", "export", "--with-answers").stdout
        assert "canary" not in shown and "agents-own" not in shown
        for stored in running.data.rglob("*"):
            assert not stored.is_file() or b"canary-" not in stored.read_bytes(), stored


def ask(proxy, method, path, trace=None, host="shop.test", body=b""):
    fields = {**AGENTS, **rawhttp.traced(trace or secrets.token_hex(16))}
    return rawhttp.call(proxy.port, method, path, host=host, headers=fields, body=body)


@pytest.mark.parametrize("method,path", [("GET", "/orders/a"), ("POST", "/orders/a"),
                                         ("GET", "/pieces/b"), ("POST", "/pieces/b")])  # fmt: skip
def test_the_backend_gets_it_and_the_agent_never_sees_it(proxy, echo, method, path):
    for value in (FIRST, SECOND):
        proxy.secret.write_text(value + "\n")
        body = b"" if method == "GET" else {"note": value[-3:]}
        answer = ask(proxy, method, path, body=body)
        assert answer.status == 200, answer
        assert echo.sent(method, path)[-1] == "Bearer " + value
        stars = "Bearer " + "*" * len(value)
        assert answer.header("X-Seen") == stars
        assert answer.json()["seen"]["headers"]["authorization"] == stars
        assert answer.json()["seen"]["headers"]["accept-encoding"] == "identity"
        assert b"canary" not in answer.body


def test_our_own_requests_have_it_too(proxy, echo, token):
    trace = secrets.token_hex(16)
    echo.cuts = "POST"
    assert ask(proxy, "POST", f"/orders/{token}", trace, body={}).status in (502, 504)
    wait_until(lambda: ask(proxy, "POST", f"/orders/{token}", trace, body={}).replayed)
    assert ask(proxy, "PATCH", f"/orders/{token}", trace, body={"id": "x"}).status == 200
    assert proxy.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
    wait_until(lambda: proxy.admin("GET", f"/flows/{trace}")["phase"] == "UNDONE")
    value = "Bearer " + proxy.secret.read_text().strip()
    assert echo.sent("POST", f"/orders/{token}") == [value]
    assert set(echo.sent("GET", f"/orders/{token}")) == {value}  # the probe, and the state before
    assert echo.sent("PATCH", f"/orders/{token}") == [value] * 2
    assert echo.sent("DELETE", "/orders/o-1") == [value]


@pytest.mark.parametrize("method,path", [("GET", "/bills"), ("POST", "/bills/a")])
def test_a_single_tool_has_its_own(proxy, other, method, path):
    for value in (SECOND, FIRST):
        proxy.secret.write_text(value + "\n")
        body = b"" if method == "GET" else {"note": value[-3:]}
        answer = ask(proxy, method, path, host="open.test", body=body)
        assert answer.status == 200, answer
        assert other.sent(method, path)[-1] == "Bearer " + value
        assert answer.header("X-Seen") == "Bearer " + "*" * len(value)
        assert b"canary" not in answer.body
    # Its neighbours have the agent's.
    assert ask(proxy, "GET", "/else", host="open.test").status == 200
    assert other.sent("GET", "/else")[-1] == AGENTS["Authorization"]


def test_our_own_requests_for_that_tool_have_it_too(proxy, other, token):
    trace = secrets.token_hex(16)
    other.cuts = "POST"
    pay = lambda: ask(proxy, "POST", f"/bills/{token}", trace, "open.test", {})  # noqa: E731
    assert pay().status in (502, 504)
    wait_until(lambda: pay().replayed)
    changed = ask(proxy, "PATCH", f"/bills/{token}", trace, "open.test", {"id": "x"})
    assert changed.status == 200, changed
    assert proxy.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
    wait_until(lambda: proxy.admin("GET", f"/flows/{trace}")["phase"] == "UNDONE")
    value = "Bearer " + proxy.secret.read_text().strip()
    assert other.sent("POST", f"/bills/{token}") == [value]
    assert set(other.sent("GET", f"/bills/{token}")) == {value}
    assert other.sent("PATCH", f"/bills/{token}") == [value] * 2
    assert other.sent("DELETE", "/bills/o-1") == [value]


def test_it_is_starred_out_of_interim_answers_and_tunnels(proxy):
    stars = b"Bearer " + b"*" * len(FIRST)
    proxy.secret.write_text(FIRST + "\n")
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", "/early", "shop.test", AGENTS))
        status, *_, fields = connection.head()
        assert status == 103 and dict(fields)["X-Seen"].encode() == stars
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Extensions": "permessage-deflate",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", "/live", "shop.test", {**AGENTS, **upgrade}))
        status, *_, fields = connection.head()
        assert status == 101 and dict(fields)["X-Seen"].encode() == stars
        sent = bytes([0x81, len(stars)]) + stars + b"\x81\x03bye"
        assert connection.exactly(len(sent)) == sent


def test_what_is_encoded_unasked_is_looked_through_or_withheld(proxy, echo):
    proxy.secret.write_text(FIRST + "\n")
    written = ask(proxy, "POST", "/orders/zipped", body={})
    assert written.status == 200 and written.header("Content-Encoding") is None
    assert written.json()["seen"]["headers"]["authorization"] == "Bearer " + "*" * len(FIRST)
    read = ask(proxy, "GET", "/orders/zipped")
    assert read.status == 502 and "encoded" in read.json()["detail"], read


def test_it_goes_nowhere_else(proxy, echo, other):
    other.requests.clear()
    moved = ask(proxy, "GET", "/moved")
    assert moved.status == 302 and moved.header("Location") == echo.elsewhere
    assert ask(proxy, "GET", "/stolen", host="open.test").status == 200
    assert other.sent("GET", "/stolen") == [AGENTS["Authorization"]]


def test_without_it_nothing_is_sent(proxy, echo, token):
    value = proxy.secret.read_text()
    proxy.secret.unlink()
    for method in ("GET", "POST"):
        answer = ask(proxy, method, f"/orders/{token}", body=b"" if method == "GET" else {})
        assert answer.status == 503 and "credential" in answer.json()["detail"], answer
    assert echo.sent("GET", f"/orders/{token}") == echo.sent("POST", f"/orders/{token}") == []
    assert f"cannot open {proxy.secret}" in proxy.stderr()
    proxy.secret.write_text(value)
    assert ask(proxy, "POST", f"/orders/{token}", body={}).status == 200


def test_a_token_is_asked_for_once_and_shown_to_nobody(proxy, other, tokened, token):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(
            lambda i: ask(proxy, ("GET", "POST")[i % 2], f"/{token}/{i}", host="tokened.test"),
            range(8)))  # fmt: skip
    assert {answer.status for answer in answers} == {200}
    assert all(b"canary" not in answer.body for answer in answers)
    sent = tokened.sent("GET", f"/{token}") + tokened.sent("POST", f"/{token}")
    assert sent == ["Bearer " + other.token] * 8
    (asked,) = [one for one in other.requests if one["path"] == "/token"]
    assert asked["body"] == "grant_type=client_credentials&scope=all"
    basic = base64.b64decode(asked["headers"]["authorization"].removeprefix("Basic "))
    assert basic == b"agent:canary-client"


def test_the_command_line_says_where_it_comes_from(proxy, tmp_path):
    explained = run_cli("policy", "explain", proxy.policy_path, "POST http://shop.test/orders/a")
    assert f"Authorization from {proxy.secret}, read when it is sent" in explained.stdout
    policy = proxy.policy_path.read_text()
    broken = tmp_path / "broken.yaml"
    broken.write_text(policy.replace(
        'undo: { request: "DELETE /orders/{external_ref}" }',
        'undo: { request: "DELETE /orders/{external_ref}", credentials: from_call }'))  # fmt: skip
    checked = run_cli("policy", "check", broken)
    assert "Authorization is one of the `credentials` of backend shop" in checked.stdout
    broken.write_text(policy.replace("http://127.0.0.1", "http://shop.svc", 1))
    assert "whoever sees the connection" in run_cli("policy", "check", broken).stdout
    tools = json.dumps(proxy.admin("GET", "/policy/tools"))
    assert '"credentials": ["Authorization"]' in tools and "canary" not in tools
