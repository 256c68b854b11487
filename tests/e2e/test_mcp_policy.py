"""What the admin API and the page say of the tools of an MCP server."""

import urllib.parse

from support.approvals import Staffed
from support.mcp import mcp_policy
from support.mcp_fixtures import fixture, running  # noqa: F401
from support.mcp_wire import Modern, rpc
from support.recourse import ROOT, Recourse


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
