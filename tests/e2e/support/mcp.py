"""MCP servers, each a process of its own: one counts what it executes (clients/mcp-tools.mjs says
what it can be told), the other is the official server-everything."""

import http.client
import json
import subprocess

from support.npm import CLIENTS, node
from support.recourse import WAIT_MAX

POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: pass }}
backends:
  tools: {{ url: "{url}/mcp", hosts: [ 127.0.0.1 ], protocol: mcp, timeout: {timeout},
           connect_timeout: 30s }}
tools:
  all: {{ match: "tools/call tools *", effect: read }}
"""


def mcp_policy(url, timeout="600s"):
    """A policy over the MCP server at `url` which intervenes in nothing."""
    return POLICY.format(url=url, timeout=timeout)


class McpServer:
    """A server that prints its port and ends with its stdin; its endpoint is `url` + /mcp."""

    def __init__(self, script):
        self.process = subprocess.Popen(
            [node(), str(CLIENTS / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        self.endpoint = f"{self.url}/mcp"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(WAIT_MAX)
        self.process.stdout.close()


class Everything(McpServer):
    """@modelcontextprotocol/server-everything: legacy, with sessions and resumption."""

    def __init__(self):
        super().__init__("mcp-everything.mjs")


class Fixture(McpServer):
    """The server of our own: both eras, every execution counted, faults on demand."""

    def __init__(self):
        super().__init__("mcp-tools.mjs")

    def ask(self, method, path, value=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * WAIT_MAX)
        try:
            connection.request(method, path, body=None if value is None else json.dumps(value))
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def control(self, op, **values):
        return self.ask("POST", "/control", {"op": op, **values})

    def reset(self):
        """Forgets everything: counters, sessions, gates, faults, settings."""
        self.control("reset")

    def set(self, **settings):
        """answer="sse" | "json" | "auto", events=BOOL, page_size=N; sessions keep theirs.
        resume=BOOL; task_poll, task_ttl, task_auth: mcp-tasks.mjs."""
        self.control("set", **settings)

    def arm(self, tool, times=1, **fault):
        """The next calls of `tool` go wrong: kind=..., as mcp-tools.mjs lists them."""
        self.control("arm", tool=tool, times=times, fault=fault)

    def open(self, gate, count=1):
        self.control("open", gate=gate, count=count)

    def define(self, tool, **patch):
        """Changes what tools/list says of a tool, and tells the clients."""
        self.control("define", tool=tool, patch=patch)

    def forget_sessions(self):
        self.control("forget_sessions")

    def forget_tasks(self):
        self.control("forget_tasks")

    def wait_for(self, what, name=None, count=1):
        """Until `count` of: executions or cancelled of a tool, waiting at a gate or passed it,
        requests of a JSON-RPC method, open GET streams."""
        answer = self.control("await", what=what, name=name, count=count, seconds=WAIT_MAX)
        assert answer["seen"], f"{what} of {name} did not reach {count}: {self.counts()}"

    def counts(self):
        return self.ask("GET", "/counts")

    def executions(self, tool):
        """The arguments of every execution of a tool."""
        found = self.counts()["executions"]
        return [each["arguments"] for each in found if each["tool"] == tool]

    def requests(self, rpc=None):
        """The requests to /mcp as they arrived, all or those of one JSON-RPC method."""
        found = self.ask("GET", "/requests")
        return [each for each in found if rpc is None or each["rpc"] == rpc]
