"""`policy test` and `policy replay` of policies with `before`, `settled_by`, `happened_if` and
tools of a GraphQL server."""

import json

from support import rawhttp
from support.recourse import Recourse, run_cli
from support.tracker import MCP_POLICY, Tracker, policy

WORDS = """\
version: 1
backends:
  jobs: { url: "http://jobs.test" }
  linear: { url: "http://linear.test/graphql", protocol: graphql, key_at: variables#/input/id }
tools:
  jobs.start:
    match: POST jobs /imports
    effect: write
    identity: body#/name
    settle: { request: "GET /imports?name={body#/name}", happened: answer.body#/0/id }
    happened_if: { when: 'answer.body#/code == "name_taken"', then: settle }
    settled_by: { request: "GET /jobs/{answer.body#/job}", until: answer.body#/done == true }
    undo: { request: "DELETE /imports/{external_ref}" }
  linear.issue.update:
    match: mutation linear issueUpdate
    effect: write
    identity: body#/id
    key_at: none
    settle: none
    before:
      graphql: "query($id: String!) { issue(id: $id) { title } }"
      variables: { id: "{body#/id}" }
      keep: body#/data/issue/title
    undo:
      graphql: >-
        mutation($id: String!, $t: String) { issueUpdate(id: $id, input: {title: $t}) { success } }
      variables: { id: "{body#/id}", t: "{before.body#/data/issue/title}" }
      only_if: unchanged
  linear.seen:
    match: mutation linear notificationMarkSeen
    effect: read
tests:
  - call: "POST jobs /imports"
    body: { name: a }
    expect: { tool: jobs.start, effect: write, approval: false, key: [ body#/name ] }
  - call: mutation linear issueUpdate
    body: { id: i1, input: { title: t } }
    expect: { tool: linear.issue.update, effect: write, key: [ body#/id ] }
  - { call: mutation linear notificationMarkSeen, expect: { tool: linear.seen, effect: read } }
  - { call: mutation linear issueDelete, body: { id: i1 }, expect: { tool: unlisted } }
"""


def judged(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    told = run_cli("policy", "test", path)
    return told.returncode, told.stdout + told.stderr


def replayed(tmp_path, rows, text, before=None):
    exported, path = tmp_path / "export.ndjson", tmp_path / "after.yaml"
    exported.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path.write_text(text)
    arguments = ["policy", "replay", exported, "--policy", path]
    if before is not None:
        (tmp_path / "before.yaml").write_text(before)
        arguments += ["--before", tmp_path / "before.yaml"]
    return run_cli(*arguments)


def test_the_words_of_updates_jobs_and_mutations_are_tested(tmp_path):
    code, said = judged(tmp_path, WORDS)
    assert code == 0, said
    code, said = judged(tmp_path, WORDS.replace("tool: linear.seen,", "tool: linear.issue.update,"))
    assert code == 1 and "linear.seen" in said, said
    code, said = judged(tmp_path, WORDS.replace("call: mutation linear issueDelete",
                                                "call: mutation jobs issueDelete"))  # fmt: skip
    assert code == 3 and "backend jobs is no GraphQL server" in said, said
    code, said = judged(tmp_path, WORDS.replace("call: mutation linear issueDelete",
                                                "call: query linear issues"))  # fmt: skip
    assert code == 3 and "a test calls mutations: mutation linear FIELD" in said, said


def test_updates_of_a_real_ledger_are_replayed(tmp_path):
    tracker = Tracker()
    try:
        tracker.make("issues", "i1", title="a", labels=[], assignee=None, points=1)
        old = policy(tracker.url)
        with Recourse(tmp_path / "run", old) as process:
            headers = {**rawhttp.traced("a" * 32), "Authorization": "Bearer x"}
            for points in (2, 3):
                answer = rawhttp.call(process.port, "PATCH", "/issues/i1", host="tracker.test",
                                      headers=headers, body={"points": points})  # fmt: skip
                assert answer.status == 200, answer
            listed = process.cli("events", "list", "--json", "--limit", "100")
            rows = json.loads(listed.stdout)
            process.cli("flows", "cancel", "a" * 32, "--reason", "a test")
            assert process.stop() == 0
    finally:
        tracker.stop()
    same = replayed(tmp_path, rows, old, before=old)
    assert same.returncode == 0, same.stdout
    assert "2 past write calls: 0 classed otherwise" in same.stdout
    merged = old.replace("match: PATCH tracker /issues/{id}\n    effect: write",
                         "match: PATCH tracker /issues/{id}\n    effect: write\n"
                         "    identity: path.id")  # fmt: skip
    assert merged != old
    said = replayed(tmp_path, rows, merged, before=old).stdout
    assert "merged        1  tool issues.update" in said, said
    gone = replayed(tmp_path, rows, WORDS).stdout
    assert "refused (unknown-backend)" in gone, gone


STATES = """\
version: 1
backends: { tracker: { url: "URL", hosts: [ tracker.test ] } }
tools:
  issues.retitle:
    match: PATCH tracker /issues/{id}
    effect: write
    before: { request: "GET /issues/{path.id}", version: header.ETag,
              keep: [ body#/title, "body#/state or null" ],
              headers: { Authorization: "{header.Authorization}" } }
    settle: { request: before, happened: as_set, absent: 'answer.body#/state == "locked"',
              absent_after: 5s }
    undo: { request: "PATCH /issues/{path.id}", only_if: unchanged, credentials: from_call,
            json: { title: "{before.body#/title}", state: "{before.body#/state unless null}" } }
  issues.close:
    match: PUT tracker /issues/{id}/close
    effect: write
    before: { request: "GET /issues/{path.id}", keep: "body#/state or null",
              headers: { Authorization: "{header.Authorization}" } }
    settle: { request: before, happened: 'answer.body#/state == "closed"',
              absent: 'answer.body#/state == "open"', absent_after: 1m }
    undo: none
    reason: a closing stays
tests:
  - call: "PATCH tracker /issues/i1"
    body: { title: b }
    expect: { tool: issues.retitle, effect: write, approval: false, key: [ caller, args ] }
  - { call: "PUT tracker /issues/i1/close", expect: { tool: issues.close, effect: write } }
  - { call: "GET tracker /issues/i1", expect: { tool: unlisted, effect: read } }
"""


def test_the_words_of_probes_by_a_state_are_tested(tmp_path):
    text = STATES.replace("URL", "http://tracker.test")
    code, said = judged(tmp_path, text)
    assert code == 0, said
    code, said = judged(tmp_path, text.replace("tool: issues.close,", "tool: issues.retitle,"))
    assert code == 1 and "issues.close" in said, said
    for wrong, right, problem in (
        ("happened: as_sett", "happened: as_set", "did you mean 'as_set'?"),
        ("absent_after: soon", "absent_after: 5s", "absent_after"),
        ("request: befor,", "request: before,", "did you mean 'before'?"),
        ("absent: 'answer.body/state ", "absent: 'answer.body#/state ", "absent: "),
    ):
        broken = text.replace(right, wrong, 1)
        assert broken != text
        code, said = judged(tmp_path, broken)
        assert code == 3 and problem in said and "p.yaml:" in said, (wrong, said)


def test_writes_that_are_asked_for_by_their_state_are_replayed(tmp_path):
    tracker = Tracker()
    try:
        tracker.make("issues", "i1", title="a", state="open")
        text = STATES.replace("URL", tracker.url)
        with Recourse(tmp_path / "run", text) as process:
            headers = {**rawhttp.traced("a" * 32), "Authorization": "Bearer x"}
            tracker.lose_answers = 1
            for title in ("b", "c"):
                rawhttp.call(process.port, "PATCH", "/issues/i1", host="tracker.test",
                             headers=headers, body={"title": title})  # fmt: skip
            process.await_phase("/issues/i1", "SUCCEEDED")
            listed = process.cli("events", "list", "--json", "--limit", "100")
            rows = json.loads(listed.stdout)
    finally:
        tracker.stop()
    assert {row["tool"] for row in rows} == {"issues.retitle"}, rows
    same = replayed(tmp_path, rows, text, before=text)
    assert same.returncode == 0 and "2 past write calls: 0 classed otherwise" in same.stdout, same
    other = text.replace("happened: as_set, absent: 'answer.body#/state == \"locked\"',\n"
                         "              absent_after: 5s", "happened: as_set")  # fmt: skip
    assert other != text
    said = replayed(tmp_path, rows, other, before=text)
    assert "0 classed otherwise" in said.stdout, said
    merged = text.replace("effect: write\n", "effect: write\n    identity: path.id\n", 1)
    said = replayed(tmp_path, rows, merged, before=text).stdout
    assert "merged        1  tool issues.retitle" in said, said


def test_mutations_of_an_export_are_replayed(tmp_path):
    def row(number, field, **values):
        return {"event_id": number, "operation": number, "tool": "linear.issue.update",
                "backend": "linear", "caller": "local", "trace_id": "a" * 32, "method": "POST",
                "path": "/graphql", "mcp_tool": field, **values}  # fmt: skip

    rows = [row(1, "issueUpdate"), row(2, "issueDelete")]
    said = replayed(tmp_path, rows, WORDS)
    print(said.stdout, said.stderr)
    assert "2 past write calls" in said.stdout, said


def test_an_mcp_update_is_tested(tmp_path):
    text = MCP_POLICY.format(url="http://tracker.test") + """\
tests:
  - { call: tools/call tracker edit_issue, body: { id: i1, title: t },
      expect: { tool: issues.edit, effect: write } }
  - { call: tools/call tracker get_issue, body: { id: i1 }, expect: { effect: read } }
"""
    code, said = judged(tmp_path, text)
    assert code == 0, said
