"""Policies over the MCP fixture server, as a user would write them."""

# A tool of its own for each way in which a call can end; `stream_report` is a write here.
TOOLS = """\
  orders.create:
    match: tools/call tools create_order
    effect: write
    scope: caller
    external_ref: answer.body#/id
    undo: { call: cancel_order, arguments: { id: "{external_ref}" }, repeatable: true }
  orders.cancel: { match: tools/call tools cancel_order, effect: write,
                   scope: caller, reason: it undoes }
  search: { match: tools/call tools search, effect: read }
  slow: { match: tools/call tools slow_write, effect: write,
          scope: caller, reason: tests, hold: 600s }
  cut: { match: "tools/call tools cut_*", effect: write, scope: caller, reason: tests }
  report: { match: tools/call tools stream_report, effect: write, scope: caller, reason: tests }
  ask: { match: tools/call tools ask_client, effect: write, scope: caller, reason: tests }
  status: { match: tools/call tools status_tool, effect: write, scope: caller, reason: tests }
  fail: { match: tools/call tools fail_tool, effect: write, scope: caller, reason: tests }
"""


def calls_policy(fixture, tools=TOOLS, more="", backend=""):
    """`loose.test` is the same server, of which the policy knows nothing but its hints."""
    return f"""\
version: 1
backends:
  tools: {{ url: "{fixture.endpoint}", hosts: [ 127.0.0.1 ], protocol: mcp, timeout: 600s,
           connect_timeout: 30s{backend} }}
  loose: {{ url: "http://localhost:{fixture.port}/mcp", hosts: [ loose.test ], protocol: mcp,
           timeout: 600s, connect_timeout: 30s, trust_annotations: true }}
tools:
{tools}{more}"""
