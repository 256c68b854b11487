"""Writes that their backend takes on and finishes later, over a kill."""

import secrets

from support import rawhttp
from support.echo import Echo
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
