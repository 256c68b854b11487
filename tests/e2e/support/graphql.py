"""A GraphQL server of issues (clients/graphql-server.mjs), the policy over it, and its client."""

import http.client
import json
import subprocess

from support import rawhttp
from support.npm import CLIENTS, node
from support.waiting import WAIT_MAX

TRACE = "5" * 32
CREATE = "mutation($in: IssueInput!) { issueCreate(input: $in) { success issue { id } } }"

POLICY = """\
version: 1
backends:
  issues: {{ url: "{url}/graphql", hosts: [ issues.test ], protocol: graphql, {backend} }}
tools:
  issues.create:
    match: mutation issues issueCreate
    effect: write
    external_ref: answer.body#/data/issueCreate/issue/id
    failed_when: answer.body#/errors/0/extensions/code == "FORBIDDEN"
    settle:
      graphql: "query($ref: String) {{ issues(ref: $ref) {{ id }} }}"
      variables: {{ ref: "{{body#/input/ref}}" }}
      happened: answer.body#/data/issues/0/id
      absent_after: 0s
    undo:
      graphql: "mutation($id: ID!) {{ issueDelete(id: $id) {{ success }} }}"
      variables: {{ id: "{{external_ref}}" }}
      done_when: answer.body#/data/issueDelete/success == true
      repeatable: true
  issues.delete: {{ match: mutation issues issueDelete, effect: write, undo: none, reason: gone }}
  issues.touch: {{ match: mutation issues touch, effect: read }}
{more}"""


def policy(url, more="", backend="timeout: 600s"):
    return POLICY.format(url=url, more=more, backend=backend)


class Issues:
    """The server: `url`, what it executed, and what it is told to do wrong."""

    def __init__(self):
        self.process = subprocess.Popen(
            [node(), str(CLIENTS / "graphql-server.mjs")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        self.process.wait(WAIT_MAX)
        self.process.stdout.close()

    def ask(self, method, path, value=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_MAX)
        connection.request(method, path, body=None if value is None else json.dumps(value))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def state(self):
        return self.ask("GET", "/state")

    def executed(self, field=None):
        return [one["args"] for one in self.state()["executed"] if field in (None, one["field"])]

    def issues(self):
        return self.state()["issues"]

    def reset(self):
        new = {"issues": {}, "executed": [], "requests": [], "reads": 0, "lose": "",
               "keyed": {}}
        self.ask("POST", "/control", new)

    def lose(self, when):
        """The answer to the next mutation is lost: "after" it acted, or "before"."""
        self.ask("POST", "/control", {"lose": when})


def post(port, query, variables=None, headers=None, path="/graphql", **more):
    """One request as agents' clients send it, of one trace unless `headers` name another; gives the
    answer."""
    given = {} if variables is None else {"variables": variables}
    body = {"query": query, **given, **more}
    fields = {"Accept": "application/json", **rawhttp.traced(TRACE), **(headers or {})}
    return rawhttp.call(port, "POST", path, host="issues.test", headers=fields, body=body)
