"""What the admin API and the page say of the tools of an MCP server."""

import urllib.parse

from support.approvals import Staffed
from support.recourse import ROOT


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
