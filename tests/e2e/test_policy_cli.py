"""What the commands for policies say: the schema, an import, a replay."""

import json
import pathlib
import re
import socket
import threading

import jsonschema
import pytest
import yaml

from support import flows, rawhttp
from support.policies import standard
from support.recourse import ROOT, Recourse, run_cli

SPECS = ROOT / "tests/policy/openapi"
EXAMPLES = sorted((ROOT / "policy/examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def schema():
    schema = json.loads(run_cli("policy", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def valid_policies():
    """Every policy in the C++ tests that loads by itself is one the schema has to take."""
    for path in sorted((ROOT / "tests/policy").glob("*.cpp")) + sorted(
        (ROOT / "tests/filters").glob("*.h")
    ):
        for text in re.findall(r'R"\((.*?)\)"', path.read_text(), re.DOTALL):
            yield path.name, text if "version: 1" in text else "version: 1\n" + text


def test_the_schema_takes_every_policy_that_the_loader_takes(schema, tmp_path, double):
    taken = [(path.name, path.read_text()) for path in EXAMPLES]
    taken.append(("standard", standard(double)))
    for number, (name, text) in enumerate(valid_policies()):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        if run_cli("policy", "check", path).returncode == 0:
            taken.append((name, text))
    assert len(taken) > 5
    for name, text in taken:
        errors = [error.message for error in schema.iter_errors(yaml.safe_load(text))]
        assert not errors, (name, errors, text)


BASE = 'version: 1\nbackends: { b: { url: "http://b" } }\n'


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "version: 2",
        "version: '1'",
        "version: 1\nread_onyl: true",
        "version: 1\nmode: enforced",
        "version: 1\nmode: off",
        "version: 1\nunlisted: { reads: guard }",
        "version: 1\nbackends: { b: {} }",
        'version: 1\nbackends: { b: { url: "ftp://b" } }',
        'version: 1\nbackends: { "b c": { url: "http://b" } }',
        'version: 1\nbackends: { b: { url: "http://b", timeout: 1:30 } }',
        'version: 1\nbackends: { b: { url: "http://b", timeout: 010 } }',
        'version: 1\nbackends: { b: { url: "https://b", tls: { client_cert: x } } }',
        BASE + "tools: { t: { match: GET b /x } }",
        BASE + "tools: { t: { match: GET b /x, effect: yes } }",
        BASE + "tools: { t: { match: GET b /x, effect: read, undo: none } }",
        BASE + "tools: { t: { match: POST b /x, effect: write } }",
        BASE + "tools: { t: { match: POST b /x, effect: write, undo: none } }",
        BASE + 'tools: { t: { match: POST b /x, effect: write, undo: none, reason: r, '
               'settle: { request: "GET x", happened: "answer.body#/id" } } }',
        BASE + "tools: { t: { match: POST b /x, effect: write, undo: none, reason: r, "
               "not_executed: [ 4x ] } }",
        BASE + "flows: { f: { tools: [ t ], on_deadline: undo } }",
        BASE + "tests: [ { call: GET b /x, expect: {} } ]",
    ],
)  # fmt: skip
def test_what_is_wrong_in_shape_is_refused_by_schema_and_loader(schema, tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text + "\n")
    assert run_cli("policy", "check", path).returncode == 3
    assert list(schema.iter_errors(yaml.safe_load(text))), text


def imported(tmp_path, name):
    made = run_cli("policy", "import", "openapi", SPECS / name)
    assert made.returncode == 0, made.stderr
    path = tmp_path / "made.yaml"
    path.write_text(made.stdout)
    checked = run_cli("policy", "check", path)
    assert checked.returncode == 0, checked.stdout + made.stdout
    return yaml.safe_load(made.stdout), made.stdout, path


def test_a_shop_becomes_a_policy_with_identities_and_undo(schema, tmp_path):
    policy, text, path = imported(tmp_path, "shop.yaml")
    assert not list(schema.iter_errors(policy))
    assert policy["backends"] == {"shop_api": {"url": "https://eu.shop.example/v2"}}
    assert "# CHECK: another server: https://staging.shop.example/v2" in text
    tools = policy["tools"]
    assert {name: tool["effect"] for name, tool in tools.items()} == {
        "listProducts": "read", "listOrders": "read", "createOrder": "write", "getOrder": "read",
        "changeOrder": "write", "cancelOrder": "write", "addNote": "write",
    }  # fmt: skip
    assert tools["createOrder"]["identity"] == ["body#/customer_id", "body#/cart_id"]
    assert tools["createOrder"]["undo"]["request"] == "DELETE /orders/{external_ref}"
    assert "external_ref" not in tools["createOrder"], "id is the default"
    assert tools["addNote"]["identity"] == ["path.orderId", "body#/author/userId"]
    assert tools["addNote"]["external_ref"] == "answer.header.Location"
    assert "identity" not in tools["changeOrder"], "two changes of one order are two changes"
    assert tools["cancelOrder"]["undo"] == "undecided"
    warned = run_cli("policy", "check", path).stdout
    assert "tools.cancelOrder.undo: nobody has decided yet" in warned
    body = tmp_path / "body.json"
    body.write_text('{"customer_id": "ada", "cart_id": "c1", "note": "as you like"}')
    shown = run_cli(
        "policy", "explain", path, "POST https://eu.shop.example/orders", "--body", body
    )
    assert "createOrder" in shown.stdout and '"c1"' in shown.stdout
    path.write_text(text.replace("mode: observe", "mode: enforce"))
    refused = run_cli("policy", "check", path)
    undecided = [name for name, tool in tools.items() if tool.get("undo") == "undecided"]
    assert refused.returncode == 3 and f"{len(undecided)} error" in refused.stdout, refused.stdout


def test_keys_of_payments_and_names_that_are_not_legal(tmp_path):
    policy, text, _ = imported(tmp_path, "payments.json")
    assert "key_header" not in policy["backends"]["payments"]
    assert [one.get("key_at") for one in policy["tools"].values()] == [
        None, "header:Idempotency-Key", None, None, None
    ]  # fmt: skip
    assert policy["backends"]["events.pay.example"]["url"] == "https://events.pay.example/base"
    assert set(policy["tools"]) == {
        "charges_create", "charges_list", "charges_create_2", "get_v1_exports_id_.csv",
        "op_unlisted",
    }  # fmt: skip
    charge = policy["tools"]["charges_create"]
    assert charge["identity"] == ["body#/order_ref"]
    assert charge["external_ref"] == "answer.body#/charge_id"
    assert "CHECK: a capture is a whole segment" in text


def test_a_nasty_description_still_gives_a_policy_that_loads(tmp_path):
    policy, text, _ = imported(tmp_path, "nasty.yaml")
    assert [b["url"] for b in policy["backends"].values()] == ["http://change-me.invalid/relative"]
    assert "names no usable address" in text
    for left_out in ("same_route", "dots", "semicolon"):
        assert f"# CHECK: left out: {left_out}: " in text
        assert left_out not in policy["tools"]
    assert policy["tools"]["same_name"]["match"] == "DELETE ber_api /b/{x}/{p2_x}"
    assert policy["tools"]["either"]["identity"] == ["body#/a~1b~0c_id"]
    assert "leads out of this file" in text and "leads to nothing" in text
    assert "neither JSON nor a form" in text


@pytest.mark.parametrize(
    "text, problem",
    [
        ('{"swagger": "2.0"}', "is Swagger 2.0; convert it"),
        ("openapi: 2.9\n", "accepted: 3.0 and 3.1"),
        ("- a\n", "a map is expected"),
        ("openapi: 3.0.0\npaths: {}\n", "describes no operation"),
        ("openapi: [\n", "api:1:10: error: this '[' is not closed"),
        ("openapi: 3.0.0\nopenapi: 3.0.0\n", "api:2:1"),
        ("a: &x 1\n", "anchors are not accepted"),
        ("", "a map is expected"),
    ],
)
def test_what_is_no_description_is_told_in_one_line(tmp_path, text, problem):
    path = tmp_path / "api"
    path.write_text(text)
    result = run_cli("policy", "import", "openapi", path)
    assert result.returncode == 2 and result.stdout == ""
    assert problem in result.stderr and result.stderr.count("\n") == 1, result.stderr
    assert run_cli("policy", "import", "openapi", tmp_path / "none").returncode == 2


def test_a_description_of_many_bytes_with_characters_beyond_the_first_plane(tmp_path):
    """Real ones have both: emoji written as two escapes of JSON, and more than 10 MiB."""
    api = {
        "openapi": "3.0.1",
        "info": {"title": "Shop"},
        "servers": [{"url": "https://api.shop.example"}],
        "paths": {"/a": {"post": {"operationId": "a", "summary": "ok \U0001f600 \\u and on"}}},
        "x-fill": "\U0001f600" * 1_000_000,
    }
    path = tmp_path / "api.json"
    path.write_text(json.dumps(api))
    assert path.stat().st_size > 11 << 20
    made = run_cli("policy", "import", "openapi", path)
    assert made.returncode == 0 and "match: \"POST shop /a\"" in made.stdout, made.stderr
    path.write_text('{ "openapi": "3.0.1", "x": "\\ud83d" }')
    broken = run_cli("policy", "import", "openapi", path)
    assert broken.returncode == 2 and "api.json:1:" in broken.stderr, broken.stderr


JUDGED = """\
version: 1
backends: {{ shop: {{ url: "{url}", hosts: [ shop.test ] }} }}
tools:
  pay:
    match: POST shop /pay
    effect: write
    identity: [ body#/cart, query.ref ]
    undo: none
    approval: {{ by: [ ops ], when: body#/amount > 1000, hold: 0s }}
"""
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=xx"
PART = '--xx\r\nContent-Disposition: form-data; name="amount"{}\r\n\r\n5\r\n'
REFUSED = [
    ("", "application/json", '{"amount":1,"Amount":2}', "take 'Amount' in the body for it"),
    ("", "application/json", '{"amount":1,"amo\\u017funt":2}', None),
    ("?ref=1&Ref=2", "application/json", "{}", "take 'Ref' in the query for it"),
    ("?amount=2", "application/json", '{"amount":1}', "take 'amount' in the query for it"),
    ("", FORM, "amount=1&amount[]=2", "take 'amount[]' in the form for it"),
    ("", f"{FORM}; charset=latin1", "amount=1", "has to be in UTF-8"),
    ("", MULTIPART, PART.format('; filename="a"') + "--xx--\r\n", "is a file or no plain text"),
    ("", "text/plain", "amount=1", "send JSON"),
]


@pytest.mark.parametrize("query, kind, body, reason", REFUSED)
def test_explain_says_what_the_proxy_says_against_arguments(
    tmp_path, double, query, kind, body, reason
):
    policy = tmp_path / "policy.yaml"
    policy.write_text(JUDGED.format(url=double.url))
    call = ["policy", "explain", policy, f"POST shop /pay{query}", "--json"]
    (tmp_path / "body").write_bytes(body.encode())
    header = ["--header", f"Content-Type: {kind}", "--body", tmp_path / "body"]
    told = json.loads(run_cli(*call, *header).stdout)
    with Recourse(tmp_path / "run", policy.read_text()) as proxy:
        fields = {"Content-Type": kind}
        answer = rawhttp.call(
            proxy.port, "POST", f"/pay{query}", headers=fields, body=body.encode()
        )
    if reason is None:
        assert told["refused"] == "" and answer.status != 400
        return
    assert answer.status in (400, 415)
    document = answer.json()
    assert told["refused"] == document["type"].rpartition("/")[2]
    assert told["reason"] == document["detail"] and reason in told["reason"]


def test_explain_reads_the_values_of_multipart(tmp_path, double):
    policy = tmp_path / "policy.yaml"
    policy.write_text(JUDGED.format(url=double.url))
    body = tmp_path / "body"
    for value, waits in (("5", False), ("5000", True)):
        body.write_bytes((PART.format("").replace("5", value) + "--xx--\r\n").encode())
        told = run_cli("policy", "explain", policy, "POST shop /pay", "--body", body,
                       "--header", f"Content-Type: {MULTIPART}").stdout  # fmt: skip
        assert ("for a human: body#/amount > 1000" in told) is waits, told


def test_the_call_of_an_mcp_tool_is_explained(tmp_path):
    example = ROOT / "policy/examples/mcp.yaml"
    call = ["policy", "explain", example, "tools/call shop create_order", "--body"]
    shown = run_cli(*call, '{"client_ref": "cart-42", "amount": 5000}')
    assert shown.returncode == 0, shown
    assert '"cart-42"' in shown.stdout and "for a human: " in shown.stdout
    assert 'tools/call cancel_order {"id":"{external_ref}"' in shown.stdout
    arguments = tmp_path / "arguments.json"
    arguments.write_text('{"client_ref": "cart-42", "amount": 7}')
    shown = run_cli(*call, arguments)
    assert '"cart-42"' in shown.stdout and "for a human: " not in shown.stdout
    told = run_cli("policy", "explain", example, "tools/call shop")
    assert told.returncode == 2 and "tools/call backend NAME" in told.stdout, told


def test_what_is_no_file_is_told(tmp_path, double):
    policy, body = tmp_path / "p.yaml", tmp_path / "body"
    policy.write_text(standard(double))
    body.write_bytes(b"x" * (8 << 20))
    explain = ["policy", "explain", policy, "POST shop /plain/a", "--body"]
    assert run_cli(*explain, body).returncode == 0
    for wrong, problem in [
        (tmp_path, "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        (tmp_path / "none", "No such file"),
    ]:
        told = run_cli(*explain, wrong)
        assert told.returncode == 2 and told.stderr.startswith("recourse: --body: "), told
        assert problem in told.stderr
        told = run_cli("policy", "import", "openapi", wrong)
        assert told.returncode == 2 and problem in told.stderr, told
        assert "give an OpenAPI file" in told.stderr
    body.write_bytes(b"x" * ((8 << 20) + 1))
    assert "is larger than 8 MiB" in run_cli(*explain, body).stderr
    missing = run_cli("policy", "check", tmp_path / "none.yaml")
    assert missing.returncode == 3 and "; name a policy file or a directory" in missing.stdout


def replay(tmp_path, rows, after, before=None):
    exported, policy = tmp_path / "export.ndjson", tmp_path / "after.yaml"
    exported.write_text("".join(json.dumps(row) + "\n" for row in rows))
    policy.write_text(after)
    arguments = ["policy", "replay", exported, "--policy", policy]
    if before is not None:
        (tmp_path / "before.yaml").write_text(before)
        arguments += ["--before", tmp_path / "before.yaml"]
    return run_cli(*arguments)


def row(number, **values):
    return {
        "event_id": number, "operation": number, "tool": "plain.create", "backend": "shop",
        "caller": "local", "trace_id": f"{number:032x}", "method": "POST", "path": "/plain/a",
        **values,
    }  # fmt: skip


def test_a_real_ledger_is_classed_by_another_policy(double, tmp_path, token):
    old = standard(double)
    with Recourse(tmp_path / "run", old) as process:
        for n in range(3):
            answer = rawhttp.call(process.port, "POST", f"/plain/{token}", body={"n": n})
            assert answer.status == 201
        rawhttp.call(process.port, "POST", f"/other/{token}", body={"n": 1})
        listed = process.cli("events", "list", "--json", "--limit", "100")
        rows = json.loads(listed.stdout)
        assert process.stop() == 0
    same = replay(tmp_path, rows, old, before=old)
    assert same.returncode == 0, same.stdout
    assert "key cannot be recomputed: arguments are not kept" in same.stdout
    assert same.stdout.endswith(
        "4 past write calls: 0 classed otherwise, 0 that would be repeats of another, 0 repeats "
        "that would be calls of their own\n"
    )
    assert "next: recourse policy replay" in replay(tmp_path, rows, old).stdout, "keys are untold"
    named = replay(tmp_path, rows, old.replace("plain.create", "plain.renamed"))
    assert named.returncode == 1
    assert "tool plain.create: it would be tool plain.renamed" in named.stdout
    read = old.replace(
        "match: POST shop /read/upload",
        f"match: [ POST shop /read/upload, POST shop /other/{token} ]",
    )
    assert "it would be a read: passed on, not keyed" in replay(tmp_path, rows, read).stdout
    denied = replay(tmp_path, rows, old.replace("writes: guard", "writes: deny"))
    assert "an unlisted write: it would be refused (denied)" in denied.stdout
    logged = replay(tmp_path, rows, old.replace("writes: guard", "writes: pass"))
    assert "it would only be logged" in logged.stdout
    gone = replay(tmp_path, rows, "version: 1\nbackends: { x: { url: \"http://x\" } }\n")
    assert "refused (unknown-backend)" in gone.stdout


def test_undo_requests_are_no_calls_of_an_agent(double, tmp_path, token):
    """Sent by Recourse, they would be classed by no policy as what they are; in every form of an
    export."""
    policy = flows.policy(double)
    with Recourse(tmp_path / "run", policy) as process:
        agent = flows.Shop(process, double).agent(token)
        agent.does("orders", "payments")
        agent.breaks()
        agent.await_undone()
        forms = [
            process.cli("ledger", "export"),
            process.cli("ledger", "export", "--format", "ndjson"),
        ]
        listed = json.loads(process.cli("events", "list", "--json", "--limit", "100").stdout)
        assert process.stop() == 0
    assert sorted(agent.undone()) == ["orders", "payments"]
    assert any(row.get("undoes") for row in listed), listed
    exported = [[json.loads(line) for line in form.stdout.splitlines()] for form in forms]
    for rows in (listed, *exported):
        same = replay(tmp_path, rows, policy, before=policy)
        assert same.returncode == 0, same.stdout
        assert "3 past write calls: 0 classed otherwise, 0 that would be repeats" in same.stdout


def test_calls_that_would_become_one_and_repeats_that_would_be_two(double, tmp_path):
    by_path = standard(double).replace(
        "effect: write\n    external_ref: answer.body#/id\n    undo: none",
        "effect: write\n    identity: path.token\n    scope: caller\n    undo: none", 1,
    )  # fmt: skip
    rows = [row(1), row(2), row(3, path="/plain/b"), row(4, related=1, path="/plain/c")]
    result = replay(tmp_path, rows, by_path, before=standard(double))
    assert "merged        1  tool plain.create: it would be a repeat" in result.stdout
    assert "split         1  tool plain.create: it repeated an earlier call" in result.stdout
    assert "its key would be made of caller, caller, path.token instead of" in result.stdout
    by_body = by_path.replace("path.token", "body#/order").replace("scope: caller", "scope: trace")
    kept = [
        row(1, body={"order": 7}, trace_id="a" * 32),
        row(2, body='{"order": 7.0}', trace_id="a" * 32),
        row(3, trace_id="a" * 32),
    ]
    result = replay(tmp_path, kept, by_body)
    assert "merged        1" in result.stdout
    assert "unknown       1  tool plain.create: key cannot be recomputed" in result.stdout


@pytest.mark.parametrize(
    "text, problem",
    [
        (
            '{"operation": 1, "method": "POST", "path": "/x"}\nnonsense\n',
            "line 2: not one JSON value",
        ),
        ('{"a": 1}\n', "line 1: an event has operation, method and path"),
        ("7\n", "line 1: an event is a JSON object"),
        ('\n\n{"operation": 1, "method": "POST", "path": "x"}\n', "line 3: an event has"),
        ("", "it is empty"),
        ('{"kind":"export"}\n{"event_id":7,"operation":7,"method":"POST","path":"/x"}\n',
         "was cut off; export again, or export the rest with --after 7"),
    ],
)
def test_a_damaged_export_is_told_by_its_line(double, tmp_path, text, problem):
    exported, policy = tmp_path / "export", tmp_path / "p.yaml"
    exported.write_text(text)
    policy.write_text(standard(double))
    result = run_cli("policy", "replay", exported, "--policy", policy)
    assert result.returncode == 2 and problem in result.stderr, result
    assert run_cli("policy", "replay", tmp_path / "none", "--policy", policy).returncode == 2
    policy.write_text("version: 1\nx: 1\n")
    assert run_cli("policy", "replay", exported, "--policy", policy).returncode == 3
    assert pathlib.Path(exported).exists()


def test_the_admin_port_may_have_an_ipv6_address():
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    asked = []

    def serve():
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(65536).decode())
            body = b'{"latched":false}'
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)

    with listener:
        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        told = run_cli("ledger", "status", "--admin", f"[::1]:{port}")
        thread.join()
    assert told.returncode == 0 and "accepted" in told.stdout, told
    assert f"\r\nHost: [::1]:{port}\r\n" in asked[0]


def test_a_check_shows_the_line_of_each_problem_and_no_credential(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(BASE + "tools:\n  t: { match: GET b /x, efect: read }\n   u: {}\n")
    told = run_cli("policy", "check", path)
    assert told.returncode == 3
    assert f"{path}:5:4: error: deeper than line 4" in told.stdout
    assert "     5 |    u: {}\n       |    ^\n" in told.stdout
    path.write_text(BASE + "mod: x # sk_live_0123456789abcdef\n")
    told = run_cli("policy", "check", path).stdout
    assert f"{path}:3:1: error: mod: unknown key" in told and "sk_live" not in told


APPROVED = """\
tools:
  t:
    match: POST b /x
    effect: write
    undo: none
    approval: { by: [ finance, fiance ] }
"""


def test_approvers_that_nobody_is_are_told_by_a_check_and_at_the_start(tmp_path):
    people = tmp_path / "operators.yaml"
    people.write_text(
        f"version: 1\ntokens:\n  - {{ name: ann, sha256: {'a' * 64}, groups: [ finance ],"
        " roles: [ approve ] }\n"
    )
    running = Recourse(tmp_path, BASE + APPROVED, ["--operators", str(people)])
    warning = f"{running.policy_path}:8:32: warning: tools.t.approval.by[1]: nobody in {people} is"
    told = run_cli("policy", "check", running.policy_path, "--operators", people)
    assert told.returncode == 0 and warning in told.stdout, told
    with running:
        assert warning in running.stderr()
    people.write_text("version: 1\ntokens: x\n")
    told = run_cli("policy", "check", running.policy_path, "--operators", people)
    assert told.returncode == 3 and "operators.yaml:2:9: error: tokens" in told.stdout
