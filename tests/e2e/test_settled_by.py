"""Writes that their backend takes on and finishes later, over a kill."""

import json
import secrets

from support import rawhttp
from support.apis import Api
from support.echo import Echo
from support.mcp_wire import Modern
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

POLICY = """\
version: 1
backends:
  desk: {{ url: "{url}", hosts: [ desk.test ], timeout: 600s }}
tools:
  tickets.import:
    match: POST desk /imports/{{ref}}
    effect: write
    external_ref: answer.body#/id
    settled_by: {{ request: "GET /jobs/{{answer.body#/id}}?of={{path.ref}}",
                  until: 'answer.body#/status == "completed"' }}
    undo:
      request: "DELETE /tickets/{{external_ref}}"
      settled_by: {{ request: "GET /jobs/{{answer.body#/id}}?gone={{external_ref}}",
                    until: 'answer.body#/status == "gone"' }}
"""


def test_it_runs_over_a_kill_until_it_is_done_and_its_undo_waits_for_that(tmp_path):
    trace = secrets.token_hex(16)
    with Echo() as desk, Recourse(tmp_path, POLICY.format(url=desk.url)) as run:

        def ask():
            return rawhttp.call(run.port, "POST", "/imports/a", host="desk.test",
                                headers=rawhttp.traced(trace), body={})  # fmt: skip

        first = ask()
        assert first.status == 200 and first.outcome == "pending", first
        run.kill()
        run.start()
        again = ask()
        assert again.outcome == "pending" and again.replayed and again.body == first.body
        assert run.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
        asked = len(desk.sent("GET", "/jobs/o-1?of=a"))
        wait_until(lambda: len(desk.sent("GET", "/jobs/o-1?of=a")) > asked)
        assert run.admin("GET", f"/flows/{trace}")["phase"] == "BREAKING"
        assert desk.sent("DELETE", "/") == []
        desk.status = "completed"
        wait_until(lambda: desk.sent("GET", "/jobs/o-1?gone=o-1"))
        run.kill()
        run.start()
        asked = len(desk.sent("GET", "/jobs/o-1?gone=o-1"))
        wait_until(lambda: len(desk.sent("GET", "/jobs/o-1?gone=o-1")) > asked)
        assert run.admin("GET", f"/flows/{trace}")["phase"] == "UNDOING"
        desk.status = "gone"
        wait_until(lambda: run.admin("GET", f"/flows/{trace}")["phase"] == "UNDONE")
        assert len(desk.sent("DELETE", "/tickets/o-1")) == len(desk.sent("POST", "/")) == 1
        assert run.verify()["ok"]
        explained = run_cli("policy", "explain", run.policy_path, "POST http://desk.test/imports/a")
        assert "unknown after 10m" in explained.stdout
        assert "taken on, it runs: GET /jobs" in explained.stdout


class Importer(Api):
    """An MCP server whose tools take on what they are asked for. `done` are the ended jobs."""

    routes = (("POST /mcp", "message"),)

    def __init__(self):
        self.done, self.calls = set(), []
        super().__init__()

    def message(self, _, body):
        message = json.loads(body)
        tool, given = message["params"]["name"], message["params"]["arguments"]
        self.calls.append((tool, given))
        output = {"id": given["id"], "state": "done" if given["id"] in self.done else "running"}
        if tool != "get_job":
            self.happened(tool)
            output = {"job": f"{tool}-1", "id": "t1"}
        content = [{"type": "text", "text": json.dumps(output)}]
        result = {"resultType": "complete", "content": content, "structuredContent": output}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def asked(self, job):
        return self.calls.count(("get_job", {"id": job}))


MCP = """\
version: 1
backends:
  desk: {{ url: "{url}/mcp", hosts: [ 127.0.0.1 ], protocol: mcp, timeout: 600s }}
tools:
  jobs.get: {{ match: tools/call desk get_job, effect: read }}
  tickets.import:
    match: tools/call desk import
    effect: write
    identity: body#/id
    external_ref: answer.body#/id
    settled_by: {{ call: get_job, arguments: {{ id: "{{answer.body#/job}}" }},
                  headers: {{ Authorization: "{{header.Authorization}}" }},
                  until: 'answer.body#/state == "done"' }}
    undo:
      call: remove
      arguments: {{ id: "{{external_ref}}" }}
      credentials: from_call
      settled_by: {{ call: get_job, arguments: {{ id: "{{answer.body#/job}}" }},
                    until: 'answer.body#/state == "done"' }}
"""


def test_so_does_a_call_of_an_mcp_server(tmp_path):
    trace = secrets.token_hex(16)
    desk = Importer()
    try:
        with Recourse(tmp_path, MCP.format(url=desk.url)) as run:
            fields = {**rawhttp.traced(trace), "Authorization": "Bearer of-the-agent"}

            def ask():
                client = Modern(f"http://127.0.0.1:{run.port}/mcp")
                return client.call("import", {"id": "a"}, headers=fields)

            def restarted(job):
                run.kill()
                run.start()
                asked = desk.asked(job)
                wait_until(lambda: desk.asked(job) > asked)

            first = ask()
            assert first.headers["recourse-outcome"] == "pending", first.headers
            restarted("import-1")
            again = ask()
            assert again.headers["recourse-outcome"] == "pending", again.headers
            assert again.final()["result"] == first.final()["result"]
            assert run.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
            restarted("import-1")
            assert desk.effects == ["import"]
            desk.done.add("import-1")
            wait_until(lambda: desk.effects == ["import", "remove"])
            wait_until(lambda: desk.asked("remove-1"))  # so it is known that it was taken on
            restarted("remove-1")
            assert run.admin("GET", f"/flows/{trace}")["phase"] == "UNDOING"
            desk.done.add("remove-1")
            wait_until(lambda: run.admin("GET", f"/flows/{trace}")["phase"] == "UNDONE")
            assert desk.effects == ["import", "remove"]
            assert run.verify()["ok"]
    finally:
        desk.stop()
