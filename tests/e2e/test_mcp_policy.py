"""What the admin API and the page say of the tools of an MCP server."""

import json
import urllib.parse

import yaml
from support.approvals import Staffed
from support.mcp import mcp_policy
from support.mcp_fixtures import fixture, running  # noqa: F401
from support.mcp_wire import Modern, rpc
from support.recourse import ROOT, Recourse, run_cli


def test_the_api_names_the_tools_of_an_mcp_server(tmp_path):
    text = (ROOT / "policy/examples/mcp.yaml").read_text()
    with Staffed(tmp_path, text) as running:
        shown = running.admin("GET", "/policy/tools")
        (shop,) = shown["backends"]
        assert shop["protocol"] == "mcp" and shop["url"] == "http://127.0.0.1:3000/mcp"
        tools = {tool["name"]: tool for tool in shown["tools"]}
        assert tools["shop.look"]["mcp_names"] == ["get_*", "list_*", "find_order"]
        create = tools["shop.create_order"]
        assert (create["methods"], create["patterns"]) == ([], [])
        assert create["undo"].startswith('tools/call cancel_order {"id":"{external_ref}"')
        call = urllib.parse.quote_plus("tools/call shop cancel_order")
        said = running.admin("GET", f"/policy/explain?call={call}")
        assert said["tool"] == "shop.cancel_order" and said["effect"] == "write"


def test_a_name_that_the_server_does_not_list_is_told_once_and_in_the_status(tmp_path, fixture):
    more = """\
  made: { match: tools/call tools create_order, effect: write, reason: tests }
  misspelt: { match: tools/call tools cancel_ordr, effect: write, reason: tests }
"""
    fixture.set(page_size=3)
    with Recourse(tmp_path, mcp_policy(fixture.url) + more) as proxy:
        client = Modern(f"http://127.0.0.1:{proxy.port}/mcp")
        assert proxy.admin("GET", "/status")["missing_tools"] == []
        for _ in range(2):
            cursor = {}
            while cursor is not None:
                page = client.send(rpc("tools/list", cursor)).final()["result"]
                cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
        assert proxy.admin("GET", "/status")["missing_tools"] == ["tools cancel_ordr"]
        assert "names tools cancel_ordr, a tool that its MCP" in proxy.cli("status").stdout
        told = [line for line in proxy.stderr().splitlines() if "does not list" in line]
        assert len(told) == 1 and "cancel_ordr" in told[0], told


EFFECTS = {
    "effect": "write",
    "identity": "body#/item",
    "undo": {"call": "cancel_order", "arguments": {"id": "{external_ref}"}, "repeatable": True},
}


def test_what_a_server_declares_is_in_force_only_where_the_policy_says_so(tmp_path, fixture):
    def listed():
        client = Modern(f"http://127.0.0.1:{proxy.port}/mcp")
        return client.send(rpc("tools/list", {})).final()["result"]["tools"]

    def imported(*options):
        made = run_cli("policy", "import", "mcp", fixture.endpoint, *options)
        assert made.returncode == 0, made
        return yaml.safe_load(made.stdout), made.stdout

    fixture.define("create_order", _meta={"dev.recourse/effects": EFFECTS})
    policy, text = imported()
    assert policy["tools"]["create_order"]["undo"] == "undecided"
    assert "    # CHECK: the server declares the following, which is not believed" in text
    path = tmp_path / "trusting.yaml"
    path.write_text(f"version: 1\nbackends:\n  tools: {{ url: '{fixture.endpoint}', protocol: mcp,"
                    " trust_effects: true }\n")  # fmt: skip
    policy, text = imported("--policy", path)
    tool = policy["tools"]["create_order"]
    assert tool["undo"]["call"] == "cancel_order" and tool["identity"] == "body#/item"
    path.write_text(path.read_text().replace("trust_effects: true", "trust_effects: false"))
    assert imported("--policy", path)[0]["tools"]["create_order"]["undo"] == "undecided"
    more = f"  made: {json.dumps(tool | {'match': 'tools/call tools create_order'})}\n"
    more += "  taken_back: { match: tools/call tools cancel_order, effect: write,"
    more += " undo: none, reason: it takes back }\n"
    (tmp_path / "proxy").mkdir()
    with Recourse(tmp_path / "proxy", mcp_policy(fixture.url) + more) as proxy:
        assert any(one["name"] == "create_order" for one in listed())
        assert proxy.admin("GET", "/status")["redeclared_tools"] == []
        fixture.define("create_order", _meta={"dev.recourse/effects": {"effect": "read"}})
        listed()
        listed()
        assert proxy.admin("GET", "/status")["redeclared_tools"] == ["tools create_order"]
        assert "declares other effects" in proxy.cli("status").stdout
        told = [line for line in proxy.stderr().splitlines() if "declares other effects" in line]
        assert len(told) == 1 and "create_order" in told[0], told
        shown = proxy.admin("GET", "/policy/tools")["tools"]
        assert next(one for one in shown if one["name"] == "made")["effect"] == "write"
