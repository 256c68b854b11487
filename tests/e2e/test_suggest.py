"""`recourse policy suggest`: from a stranger's traffic to a policy that is enforced."""

import json

import pytest
import yaml

from support import demo_apis, rawhttp
from support.mcp import Fixture
from support.mcp_wire import Modern, rpc
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

INTENTS = 25
KINDS = {
    # tool: (backend, path or MCP tool, what is sent, whether its repeats can be told from other
    # intents)
    "orders.create": ("shop", "/orders", demo_apis.order, True),
    "v1.charges.create": ("payments", "/v1/charges", demo_apis.charge, True),
    "bookings.create": ("desk", "/bookings", demo_apis.booking, True),
    "v1.transfers.create": ("payments", "/v1/transfers", demo_apis.transfer, False),
    "tickets.create": ("desk", "/tickets", demo_apis.ticket, False),
    "create_order": ("tools", "create_order", demo_apis.tool_order, True),
    "send_mail": ("tools", "send_mail", demo_apis.mail, False),
}
UNDOS = {
    "orders.create": "DELETE /orders/{external_ref}",
    "v1.charges.create": "POST /v1/charges/{external_ref}/refund",
    "bookings.create": "POST /bookings/{external_ref}/cancel",
    "create_order": "cancel_order",
}
CANARY = "zanzibar-canary"


class Traffic:
    """What agents send through the proxy in a day."""

    def __init__(self, port, doubles):
        self.port, self.doubles = port, doubles
        self.tools = Modern(f"http://127.0.0.1:{port}/mcp", {"Host": "tools.test"})

    def call(self, backend, method, path, body=b"", headers=()):
        return rawhttp.call(self.port, method, path, f"{backend}.test", headers, body)

    def make(self, tool, n):
        """One intent; the answer of every fifth is lost, and its agent calls again."""
        backend, path, sent, _ = KINDS[tool]
        if backend == "tools":
            return self.run(path, sent, n)
        if n % 5 == 0:
            self.doubles[backend].lose_answers = 1
            assert self.call(backend, "POST", path, sent(n, 0)).status == 502
        answer = self.call(backend, "POST", path, sent(n, 1))
        assert answer.status == 201, answer
        return answer.json()["id"]

    def run(self, tool, sent, n):
        """The same of an MCP server's tool."""
        if n % 5 == 0:
            self.doubles["tools"].arm(tool, kind="drop", execute=True)
            assert self.tools.call(tool, sent(n, 0)).status == 502
        result = self.tools.call(tool, sent(n, 1)).final()["result"]
        return result.get("structuredContent", {}).get("id")

    def day(self):
        self.tools.send(rpc("tools/list"))
        for n in range(INTENTS):
            made = {tool: self.make(tool, n) for tool in KINDS}
            order, charge, booking, ordered = (made[tool] for tool in UNDOS)
            self.tools.call("get_order", {"item": f"item-{n}"})
            assert self.call("shop", "GET", f"/orders?cart_id=cart-{n}").status == 200
            self.call("shop", "GET", f"/orders/{order}")
            self.call("payments", "GET", f"/v1/charges/{charge}")
            self.call("desk", "GET", f"/bookings/{booking}")
            if n % 4 == 0:
                self.call("shop", "PUT", f"/orders/{order}", {"note": CANARY})
                assert self.call("shop", "DELETE", f"/orders/{order}").status == 204
                self.call("payments", "POST", f"/v1/charges/{charge}/refund")
                self.call("desk", "POST", f"/bookings/{booking}/cancel")
                self.tools.call("cancel_order", {"id": ordered})
                assert self.call("shop", "GET", f"/orders/{order}").status == 404
            # Of these there is one only, so that nothing but its answer tells its name.
            if n == INTENTS - 1:
                night = self.call("desk", "POST", "/nights", b"{}").json()["id"]
                assert night.isalpha(), "no shape tells that it is a name"
                assert self.call("desk", "DELETE", f"/nights/{night}").status == 204


def policy(doubles, mode):
    urls = {name: f'"{double.url}"' for name, double in doubles.items()}
    urls["tools"] = f'"{doubles["tools"].endpoint}", protocol: mcp'
    backends = "".join(
        f'  {name}: {{ url: {url}, hosts: [ "{name}.test" ] }}\n' for name, url in urls.items()
    )
    return f"version: 1\nmode: {mode}\nbackends:\n{backends}"


@pytest.fixture(scope="module")
def doubles(packages):
    running = {
        "shop": demo_apis.Shop(),
        "payments": demo_apis.Payments(),
        "desk": demo_apis.Desk(),
        "tools": Fixture(),
    }
    yield running
    for double in running.values():
        double.stop()


@pytest.fixture(scope="module")
def observed(doubles, tmp_path_factory):
    """The data directory of a process that has watched for a day, and was stopped."""
    directory = tmp_path_factory.mktemp("observed")
    with Recourse(directory, policy(doubles, "observe")) as running:
        Traffic(running.port, doubles).day()
        # The last call of the day is there while the process runs on.
        wait_until(lambda: "nights.delete" in run_cli(
            "policy", "suggest", "--data", running.data).stdout)  # fmt: skip
        exported = running.cli("ledger", "export")
        assert exported.returncode == 0, exported.stderr
        (directory / "export.ndjson").write_text(exported.stdout)
        assert running.stop() == 0, running.stderr()[-4000:]
    return running


@pytest.fixture(scope="module")
def suggested(observed, tmp_path_factory):
    """The file of the tools, and what the command said."""
    out = tmp_path_factory.mktemp("policy") / "tools.yaml"
    ended = run_cli(
        "policy", "suggest", "--data", observed.data, "--policy", observed.policy_path,
        "--out", out, timeout=500,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return out, ended.stderr


def key_of(tool, body):
    """What the key is made of, as the policy reference says."""
    if "identity" in tool:
        places = [place.removeprefix("body#/") for place in tool["identity"]]
        return json.dumps([body.get(place) for place in places])
    ignored = {pointer.removeprefix("/") for pointer in tool.get("ignore", [])}
    return json.dumps({k: v for k, v in body.items() if k not in ignored}, sort_keys=True)


def test_identities_and_undos_are_right_and_no_two_intents_are_one(suggested):
    tools = yaml.safe_load(suggested[0].read_text())["tools"]
    right = 0
    for name, (_, _, sent, is_decidable) in KINDS.items():
        # Other intents than those that were seen, too.
        keys = {n: key_of(tools[name], sent(n, 1)) for n in range(4 * INTENTS)}
        assert len(set(keys.values())) == len(keys), f"{name} merges two intents"
        again = [key_of(tools[name], sent(n, 2)) == keys[n] for n in range(4 * INTENTS)]
        assert is_decidable or not any(again), name
        right += all(again) == is_decidable
    assert right >= 0.8 * len(KINDS), suggested[0].read_text()
    undos = {
        name: tool["undo"].get("request") or tool["undo"]["call"]
        for name, tool in tools.items()
        if isinstance(tool.get("undo"), dict)
    }
    assert undos.items() <= UNDOS.items(), undos
    assert len(undos) >= 0.7 * len(UNDOS)


def test_what_is_not_decided_is_said_with_its_counts(suggested):
    text = suggested[0].read_text()
    assert "30 calls, 25 intents, 5 repeats. Identity: equal in 5 repeats" in text
    assert "Identity: not decided: " in text
    assert "# took back 7 of 25; 7 reads then found nothing" in text
    assert '"GET /orders?cart_id={body#/cart_id}", happened: "answer.body#/orders/0/id"' in text
    tools = yaml.safe_load(text)["tools"]
    assert tools["orders.create"]["external_ref"] == "answer.body#/id"
    assert tools["orders.get"] == {"match": "GET shop /orders/{id}", "effect": "read"}
    assert "identity" not in tools["tickets.create"]
    assert tools["get_order"] == {"match": "tools/call tools get_order", "effect": "read"}
    # Others may order the same item: it is for a person to say that nobody does.
    assert "settle" not in tools["create_order"]
    asks = 'call: "get_order", arguments: { "item": "{body#/item}" }'
    assert f'    # settle: {{ {asks}, happened: "answer.body#/id" }}' in text
    assert tools["create_order"]["undo"]["arguments"] == {"id": "{external_ref}"}


def test_one_thing_that_was_deleted_is_no_word_of_its_path(suggested):
    tools = yaml.safe_load(suggested[0].read_text())["tools"]
    assert tools["nights.delete"]["match"] == "DELETE desk /nights/{id}"


def test_the_verdict_comes_first_with_a_line_for_each_tool(suggested):
    tools = yaml.safe_load(suggested[0].read_text())["tools"]
    lines = suggested[1].splitlines()
    assert lines[0].startswith(f"verdict: it holds; {len(tools)} tools from "), lines[0]
    undecided = [name for name, tool in tools.items() if tool.get("undo") == "undecided"]
    assert lines[0].endswith(f"; {len(undecided)} to decide before enforce")
    said = {line.split()[0]: line for line in lines[1 : 1 + len(tools)]}
    assert set(said) == set(tools)
    assert [name for name in said if "undo undecided" in said[name]] == undecided
    check, replay, drill = lines[1 + len(tools) : 4 + len(tools)]
    assert check.startswith("  check   valid beside ")
    assert replay.startswith("  replay  ") and replay.endswith(" 0 another intent")
    assert drill.startswith("  drill   promise kept: ")
    assert len(lines) <= len(tools) + 6, suggested[1]


def test_details_are_for_who_asks_or_when_it_does_not_hold(observed, tmp_path):
    arguments = ["policy", "suggest", "--data", observed.data, "--no-drill"]
    asked = run_cli(*arguments, "--policy", observed.policy_path, "--details")
    verdict, details = asked.stderr.split("\n\n", 1)
    assert asked.returncode == 0 and verdict.startswith("verdict: it holds")
    assert "suggested.yaml:" in details and ": valid, version " in details
    broken = tmp_path / "broken.yaml"
    broken.write_text(observed.policy_path.read_text() + "flow: {}\n")
    failed = run_cli(*arguments, "--policy", broken)
    assert failed.returncode == 1 and failed.stderr.startswith("verdict: the policy is invalid")
    assert f"{broken}:" in failed.stderr and "did you mean" in failed.stderr
    missing = run_cli(*arguments, "--policy", tmp_path / "none.yaml")
    assert missing.returncode == 2 and "none.yaml" in missing.stderr


def replayed(observed, policy, *calls):
    told = run_cli("policy", "replay", *calls, "--policy", policy)
    print(told.stdout, told.stderr)
    rows = [line.split() for line in told.stdout.split("\n\n")[0].splitlines()[1:]]
    return told, {row[0]: [int(count) for count in row[1:]] for row in rows}


@pytest.fixture(scope="module")
def beside(observed, suggested, tmp_path_factory):
    """A directory of the policy in force and its suggested tools."""
    directory = tmp_path_factory.mktemp("beside")
    (directory / "policy.yaml").write_text(observed.policy_path.read_text())
    (directory / "tools.yaml").write_text(suggested[0].read_text())
    return directory


def test_a_check_is_silent_where_all_arguments_were_shown_to_count(beside):
    tools = yaml.safe_load((beside / "tools.yaml").read_text())["tools"]
    whole = {name: tool["match"] for name, tool in tools.items() if tool.get("identity") == "all"}
    assert any(match.startswith("POST ") for match in whole.values()), whole
    said = run_cli("policy", "check", beside)
    assert said.returncode == 0, said.stderr
    for name in whole:
        assert f"tools.{name}.identity" not in said.stdout + said.stderr


def test_a_policy_is_replayed_over_what_was_seen(observed, beside):
    told, counts = replayed(observed, beside, "--data", observed.data)
    assert told.returncode == 0, told.stderr
    # seen, sent, replayed, joined, in doubt, refused, asks, untold
    assert counts["orders.create"] == [30, 25, 0, 0, 5, 0, 0, 0]
    assert counts["create_order"][:1] == [30] and counts["nights.delete"][:2] == [1, 1]
    assert "caught        5  orders.create: the first one's answer had not arrived" in told.stdout
    assert "0 calls of another intent merged" in told.stdout
    assert "next: say mode: enforce, then recourse policy check --strict" in told.stdout


def test_a_policy_that_takes_two_intents_for_one_does_not_pass(observed, beside, tmp_path):
    tools = beside / "tools.yaml"
    merging = tmp_path / "merging"
    merging.mkdir()
    (merging / "policy.yaml").write_text((beside / "policy.yaml").read_text())
    tool = yaml.safe_load(tools.read_text())["tools"]["tickets.create"]
    match = f'match: "{tool["match"]}"\n'
    text = tools.read_text().replace(match, match + "    identity: body#/queue\n")
    (merging / "tools.yaml").write_text(text)
    told, counts = replayed(observed, merging, "--data", observed.data)
    assert told.returncode == 1 and "MERGED   tickets.create: " in told.stdout
    assert "next: add to `identity` what tells these calls apart" in told.stdout


def test_an_export_of_what_was_seen_says_what_its_rows_tell(observed, beside):
    export = observed.policy_path.parent / "export.ndjson"
    told, counts = replayed(observed, beside, export)
    assert told.returncode == 0, told.stderr
    assert sum(counts["tickets.create"][1:7]) == 30, "all arguments are its key"
    assert counts["orders.create"][-1] == 30, "an export has no arguments"
    assert "next: recourse policy replay --data DIR --policy" in told.stdout
    neither = run_cli("policy", "replay", "--policy", beside)
    assert neither.returncode == 2 and "say which calls" in neither.stderr


def test_an_edited_suggestion_is_judged_by_the_same_traffic(suggested, observed, tmp_path):
    (tmp_path / "base.yaml").write_text(observed.policy_path.read_text())
    tools = yaml.safe_load(suggested[0].read_text())
    del tools["tools"]["nights.create"]
    tools["tools"]["orders.create"]["identity"] = ["body#/customer"]
    (tmp_path / "tools.yaml").write_text(json.dumps(tools))
    tried = run_cli(
        "policy", "suggest", "--data", observed.data, "--policy", tmp_path, "--no-drill"
    )
    assert list(yaml.safe_load(tried.stdout)["tools"]) == ["nights.create"], tried.stderr
    assert "another file" not in tried.stderr
    assert "  bookings.create  listed; catches 5 of 5 repeats, takes 0 other" in tried.stderr
    merged = [line for line in tried.stderr.splitlines() if line.startswith("  orders.create  ")]
    assert tried.returncode == 1 and "takes 0 other" not in merged[0], tried.stderr
    assert " writes had no trace: " in tried.stderr


def test_nothing_that_was_sent_is_readable_on_disk(observed):
    files = [path for path in observed.data.rglob("*") if path.is_file()]
    kept = {path.name: path.read_bytes() for path in files}
    assert kept["traffic"]
    assert (observed.data / "traffic").stat().st_mode & 0o777 == 0o600
    for name in ("traffic",):
        for plain in (CANARY, "cart-7", "orders", "sent_at"):
            assert plain.encode() not in kept[name]


def test_the_suggestion_is_enforced(suggested, doubles, tmp_path):
    directory = tmp_path / "policy"
    directory.mkdir()
    (directory / "backends.yaml").write_text(policy(doubles, "enforce"))
    open_questions = suggested[0].read_text()
    (directory / "tools.yaml").write_text(open_questions)
    refused = run_cli("policy", "check", directory)
    assert refused.returncode == 3 and "nobody has decided yet" in refused.stdout
    decided = open_questions.replace("undo: undecided", "undo: none\n    reason: a test decides so")
    (directory / "tools.yaml").write_text(decided)
    running = Recourse(tmp_path / "enforced", "")
    running.policy_path = directory
    with running:
        traffic = Traffic(running.port, doubles)
        effects = len(doubles["shop"].effects)
        first = traffic.call("shop", "POST", "/orders", demo_apis.order(900, 0))
        again = traffic.call("shop", "POST", "/orders", demo_apis.order(900, 1))
        assert (again.status, again.body, again.replayed) == (201, first.body, True)
        other = traffic.call("shop", "POST", "/orders", demo_apis.order(901, 0))
        assert other.status == 201 and not other.replayed
        assert len(doubles["shop"].effects) == effects + 2
        executed = len(doubles["tools"].executions("create_order"))
        made = [traffic.tools.call("create_order", demo_apis.tool_order(900, n)) for n in (0, 2, 1)]
        assert made[0].final()["result"] == made[1].final()["result"]
        assert made[2].final()["result"]["isError"], "other words for the same order"
        assert len(doubles["tools"].executions("create_order")) == executed + 1


def test_without_traffic_it_says_where_it_looked(tmp_path):
    missing = run_cli("policy", "suggest", "--data", tmp_path)
    assert missing.returncode == 2 and "install.secret" in missing.stderr


def test_a_description_names_the_operations(observed, tmp_path):
    described = tmp_path / "api.yaml"
    described.write_text(
        "openapi: 3.0.0\ninfo: { title: shop, version: '1' }\n"
        "servers: [ { url: 'http://shop.test' } ]\npaths:\n"
        "  /orders/{orderId}: { get: { operationId: getOrder, responses: {} } }\n"
    )
    ended = run_cli(
        "policy", "suggest", "--data", observed.data, "--openapi", described, "--since", "1h"
    )
    assert ended.returncode == 0, ended.stderr
    tools = yaml.safe_load(ended.stdout)["tools"]
    assert tools["getOrder"]["match"] == "GET shop /orders/{orderId}"
