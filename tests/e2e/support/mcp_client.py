"""Unchanged MCP clients as processes: clients/mcp-driver.mjs says how they are driven."""

import json
import subprocess

from support.npm import CLIENTS, node
from support.recourse import WAIT_MAX

# name -> (driver, options): every client of the tests, and the era it speaks where it may choose.
CLIENT_KINDS = {
    "sdk v1": ("legacy", {}),
    "sdk v2 modern": ("modern", {"mode": "modern"}),
    "sdk v2 legacy": ("modern", {"mode": "legacy"}),
    "ai": ("ai", {}),
    "openai agents": ("openai-agents", {}),
    "langgraph": ("langgraph", {}),
}


class McpClient:
    """One client of an MCP server. Its steps run one after the other; `start` does not wait."""

    def __init__(self, driver, endpoint, **options):
        self.process = subprocess.Popen(
            [node(), str(CLIENTS / f"mcp-{driver}.mjs"), endpoint, json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.steps = 0
        self.outcomes = {}  # step -> its line

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait(WAIT_MAX)
        self.process.stdin.close()
        self.process.stdout.close()

    def start(self, op, **values):
        """Starts a step that does not hold up the next one; gives its number."""
        self.steps += 1
        line = json.dumps({"op": op, "wait": False, **values}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return self.steps

    def outcome(self, step):
        """{"value": ...} or {"error": ...} of a step, once it has ended."""
        while step not in self.outcomes:
            line = self.process.stdout.readline()
            assert line, f"the client ended before step {step}: {self.process.wait(WAIT_MAX)}"
            told = json.loads(line)
            self.outcomes[told.pop("step")] = told
        return self.outcomes[step]

    def tell(self, op, **values):
        return self.outcome(self.start(op, **values))

    def ask(self, op, **values):
        """The value of a step, which must not fail."""
        outcome = self.tell(op, **values)
        assert "error" not in outcome, outcome
        return outcome["value"]

    def call(self, tool, arguments=None, **values):
        return self.ask("call", tool=tool, arguments=arguments or {}, **values)

    def end(self):
        """Lets it close what it has open, and end; gives its exit code."""
        self.process.stdin.close()
        return self.process.wait(WAIT_MAX)


def connected(kind, endpoint, **options):
    """A client of one of the CLIENT_KINDS, connected."""
    driver, own = CLIENT_KINDS[kind]
    client = McpClient(driver, endpoint, **own, **options)
    try:
        client.ask("connect")
    except BaseException:
        client.__exit__()
        raise
    return client
