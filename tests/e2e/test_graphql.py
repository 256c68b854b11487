"""Calls of a GraphQL server through Recourse: queries pass, mutations are tools, and what nobody
can read in one way is refused. The server is graphql-http's own."""

import hashlib
import json
import secrets
import urllib.parse

import pytest

from support import rawhttp
from support.graphql import CREATE, TRACE, Issues, policy, post
from support.recourse import CRASH_POINTS, Recourse, run_cli
from support.waiting import wait_until

STORED = "mutation($in: IssueInput!) { issueCreate(input: $in) { success issue { id } } }"
BACKEND = f"timeout: 600s, persisted: {{ stored-create: '{STORED}' }}"
UPDATE = """\
  issues.update:
    match: mutation issues issueUpdate
    effect: write
    identity: [ body#/id, body#/input/title ]
    before:
      graphql: "query($id: ID!) { issue(id: $id) { title labels points } }"
      variables: { id: "{body#/id}" }
      keep: [ body#/data/issue/title, body#/data/issue/labels ]
    undo:
      graphql: >-
        mutation($id: ID!, $in: IssueUpdate!) { issueUpdate(id: $id, input: $in) { success } }
      variables:
        id: "{body#/id}"
        in: { title: "{before.body#/data/issue/title}", labels: "{before.body#/data/issue/labels}" }
      repeatable: true
"""


@pytest.fixture(scope="module")
def running(packages):
    with Issues() as server:
        yield server


@pytest.fixture
def server(running):
    running.reset()
    return running


@pytest.fixture(scope="module")
def proxy(running, tmp_path_factory):
    run = Recourse(tmp_path_factory.mktemp("graphql"), policy(running.url, UPDATE, BACKEND))
    with run as recourse:
        yield recourse
        assert recourse.running(), recourse.stderr()[-4000:]
        assert recourse.verify()["ok"]


def create(proxy, title, ref=None, query=CREATE, headers=None, **more):
    given = {"title": title, "ref": ref or title}
    return post(proxy.port, query, {"in": given}, headers=headers, **more)


def detail(answer):
    return answer.json()["detail"]


# What a call is.
def test_queries_pass_as_often_as_they_are_asked(proxy, server):
    for _ in range(2):
        answer = post(proxy.port, "{ reads }")
        assert answer.status == 200 and answer.outcome is None
    assert answer.json() == {"data": {"reads": 2}}
    by_get = rawhttp.call(proxy.port, "GET", "/graphql?query=%7Breads%7D", host="issues.test")
    assert by_get.json() == {"data": {"reads": 3}}
    assert server.executed() == []


def test_a_mutation_runs_once_however_it_is_written(proxy, server, token):
    first = create(proxy, token)
    assert first.status == 200 and first.outcome == "executed", first
    literal = post(
        proxy.port,
        "# again\nmutation Again { ...F } fragment F on Mutation { issueCreate ( input: {ref: "
        f'"{token}", title: "{token}"'
        " }) { success, issue { id } } }",
    )
    assert literal.replayed and literal.body == first.body
    assert len(server.executed("issueCreate")) == 1
    events = proxy.events_for("issueCreate")
    assert {(e["method"], e["tool"]) for e in events} == {("mutation", "issues.create")}


def test_another_selection_does_not_get_an_answer_of_the_wrong_form(proxy, server, token):
    create(proxy, token)
    wider = create(proxy, token, query=CREATE.replace("{ id }", "{ id title }"))
    assert wider.status == 422 and wider.json()["type"].endswith("key-reused"), wider
    assert len(server.executed("issueCreate")) == 1


def test_another_user_does_not_get_the_answer(proxy, server, token):
    first = create(proxy, token, headers={"Authorization": "Bearer one"})
    other = create(proxy, token, headers={"Authorization": "Bearer two"})
    assert first.status == 200 and not other.replayed
    assert other.status in (200, 409), other


def test_a_read_among_the_mutations_is_one(proxy, server):
    for _ in range(2):
        assert post(proxy.port, "mutation { touch }").status == 200
    assert len(server.executed("touch")) == 2


def test_an_unlisted_mutation_is_guarded(proxy, server, token):
    for _ in range(2):
        answer = post(proxy.port, 'mutation { issueArchive(id: "%s") { success } }' % token)
    assert answer.replayed and len(server.executed("issueArchive")) == 1


@pytest.mark.parametrize(
    "query, why",
    [
        ('mutation { issueCreate(input: {title: "a"}) { issue { id } } b: touch }',
         "tool issues.touch"),
        ('mutation { a: issueDelete(id: "1") { success } b: issueArchive(id: "2") { success } }',
         "issueArchive (no tool)"),
        ('mutation { made: issueCreate(input: {title: "a"}) { issue { id } } }', "does not select"),
        ('mutation { issueCreate(input: {title: "a"}) { success } }', "/data/issueCreate/issue/id"),
        ('mutation { issueCreate(input: {title: "a"}) @skip(if: false) { issue { id } } }',
         "@skip"),
        ("query A { reads } mutation B { touch }", "operationName names none"),
        ("mutation { issueCreate(", "line 1"),
        ("mutation { ...F }", "no fragment"),
    ],
)  # fmt: skip
def test_what_is_not_one_known_call_is_refused_with_the_reason(proxy, server, query, why):
    answer = post(proxy.port, query)
    assert answer.status == 400 and why in detail(answer), answer
    assert answer.header("Content-Type").startswith("application/problem+json")
    assert server.state()["requests"] == []


def test_the_ways_around_are_closed(proxy, server, token):
    mutation = "mutation { touch }"
    write = 'mutation { issueDelete(id: "1") { success } }'
    quoted = urllib.parse.quote(write)
    by_get = rawhttp.call(proxy.port, "GET", f"/graphql?query={quoted}", host="issues.test")
    assert by_get.status == 405 and by_get.header("Allow") == "GET, HEAD, POST, OPTIONS"
    assert post(proxy.port, "{ reads }", path=f"/graphql?query={quoted}").status == 400
    assert post(proxy.port, "{ reads }", Query=write).status == 400
    assert post(proxy.port, "{ reads }", id="7").status == 400
    batch = [{"query": "{ reads }"}, {"query": write}]
    sent = rawhttp.call(proxy.port, "POST", "/graphql", host="issues.test", body=batch)
    assert sent.status == 400 and "batch" in detail(sent)
    for path in ("/graphql/", "/GraphQL", "//graphql", "/graphql%2f", "/x/../graphql"):
        assert post(proxy.port, mutation, path=path).status in (400, 403), path
    form = rawhttp.call(proxy.port, "POST", "/graphql", host="issues.test",
                        headers={"Content-Type": "application/x-www-form-urlencoded"},
                        body=f"query={quoted}".encode())  # fmt: skip
    assert form.status == 415
    for method in ("PUT", "PATCH", "DELETE"):
        assert rawhttp.call(proxy.port, method, "/graphql", host="issues.test").status == 405
    assert server.state()["requests"] == []


def test_stored_documents_are_those_of_the_policy(proxy, server, token):
    variables = {"in": {"title": token, "ref": token}}

    def ask(**body):
        return rawhttp.call(proxy.port, "POST", "/graphql", host="issues.test", body=body,
                            headers=rawhttp.traced(TRACE))  # fmt: skip

    unknown = ask(variables=variables, documentId="other")
    assert unknown.status == 400 and "`persisted`" in detail(unknown)
    digest = hashlib.sha256(CREATE.encode()).hexdigest()
    for sent, is_good in ((digest, True), ("0" * 64, False)):
        extensions = {"persistedQuery": {"version": 1, "sha256Hash": sent}}
        answer = ask(query=CREATE, variables=variables, extensions=extensions)
        assert (answer.status == 200) == is_good, answer
    known = ask(variables=variables, documentId="stored-create")
    assert known.replayed, known


def test_a_bare_document_is_one_too(proxy, server, token):
    text = 'mutation { issueDelete(id: "%s") { success } }' % token
    for _ in range(2):
        answer = rawhttp.call(proxy.port, "POST", "/graphql", host="issues.test",
                              headers={"Content-Type": "application/graphql"},
                              body=text.encode())  # fmt: skip
    assert answer.outcome is not None


# What an answer proves.
def test_an_error_proves_what_the_policy_says(proxy, server, token):
    refused = create(proxy, "forbidden", ref=token)
    assert refused.status == 200 and refused.outcome == "rejected", refused
    assert create(proxy, "forbidden", ref=token).outcome == "rejected"
    assert len(server.executed("issueCreate")) == 2
    unclear = create(proxy, "half", ref=token + "half")
    assert unclear.status == 200 and unclear.outcome == "unknown", unclear


# Kills, retries, undo.
def flow_of(run, trace, phase):
    return wait_until(
        lambda: (flow := run.admin("GET", f"/flows/{trace}"))["phase"] == phase and flow,
        lambda: json.dumps(run.admin("GET", f"/flows/{trace}")),
    )


@pytest.mark.parametrize("lost", ["after", "before"])
def test_a_lost_answer_is_settled_and_never_a_second_issue(proxy, server, token, lost):
    server.lose(lost)
    first = create(proxy, token)
    assert first.status in (502, 504), first
    wait_until(lambda: create(proxy, token).status == 200, lambda: str(create(proxy, token)))
    assert len(server.issues()) == 1 and len(server.executed("issueCreate")) == 1
    told = create(proxy, token).json()
    if lost == "after":
        assert told["data"] is None and "was executed" in told["errors"][0]["message"]
        assert told["errors"][0]["extensions"]["external_ref"] in server.issues()


def test_a_flow_is_undone_by_the_mutation_that_the_policy_names(proxy, server, token):
    trace = secrets.token_hex(16)
    answer = create(proxy, token, headers=rawhttp.traced(trace))
    assert answer.outcome == "executed" and len(server.issues()) == 1
    assert proxy.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
    flow = flow_of(proxy, trace, "UNDONE")
    assert flow["undone_count"] == 1 and server.issues() == {}
    assert len(server.executed("issueDelete")) == 1


def test_an_update_is_undone_from_what_was_there_before(proxy, server, token):
    old = {"id": "i1", "title": "Old", "labels": ["a"]}
    server.ask("POST", "/control", {"issues": {"i1": old}})
    trace = secrets.token_hex(16)
    answer = post(proxy.port,
                  "mutation($id: ID!) { issueUpdate(id: $id, input: {title: \"New\", labels: []}) "
                  "{ success } }", {"id": "i1"}, headers=rawhttp.traced(trace))  # fmt: skip
    assert answer.outcome == "executed", answer
    assert server.issues()["i1"]["title"] == "New"
    assert proxy.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
    flow_of(proxy, trace, "UNDONE")
    assert server.issues()["i1"] == old


SET = "mutation($id: ID!, $in: IssueUpdate!) { issueUpdate(id: $id, input: $in) { success } }"


def test_what_a_later_call_has_set_is_set_again(proxy, server, token):
    issues = {name: {"id": name, "title": "Old", "labels": []} for name in (token, f"{token}-2")}
    server.ask("POST", "/control", {"issues": issues})
    trace = rawhttp.traced(secrets.token_hex(16))

    def change(title, issue=token):
        return post(proxy.port, SET, {"id": issue, "in": {"title": title}}, headers=trace)

    assert not change("a").replayed and not change("b", f"{token}-2").replayed
    assert change("a").replayed  # of another issue
    assert not change("b").replayed and not change("a").replayed
    assert change("a").replayed and not change("b").replayed
    assert [one["title"] for one in server.issues().values()] == ["b", "b"]
    assert len(server.executed("issueUpdate")) == 5


def test_the_agents_own_undo_ends_the_answer(proxy, server, token):
    trace = rawhttp.traced(secrets.token_hex(16))
    made = create(proxy, token, headers=trace)
    assert create(proxy, token, headers=trace).replayed
    issue = made.json()["data"]["issueCreate"]["issue"]["id"]
    delete = "mutation($id: ID!) { issueDelete(id: $id) { success } }"
    assert post(proxy.port, delete, {"id": issue}, headers=trace).outcome == "executed"
    again = create(proxy, token, headers=trace)
    assert again.outcome == "executed" and not again.replayed and again.body != made.body
    assert create(proxy, token, headers=trace).body == again.body
    assert len(server.executed("issueCreate")) == 2


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("point", ["k05", "k10", "k11", "k12"])
def test_a_kill_between_write_and_answer_leaves_one_issue(running, tmp_path, token, point):
    running.reset()
    run = Recourse(tmp_path, policy(running.url))
    run.start({"RECOURSE_CRASH_POINT": f"{point}:1"})
    trace = secrets.token_hex(16)
    headers = rawhttp.traced(trace)
    with pytest.raises((OSError, rawhttp.Cut)):
        create(run, token, headers=headers)
    run.wait()
    with run:
        wait_until(lambda: create(run, token, headers=headers).status == 200,
                   lambda: str(create(run, token, headers=headers)))  # fmt: skip
        assert len(running.issues()) == 1 and len(running.executed("issueCreate")) == 1
        assert run.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
        flow_of(run, trace, "UNDONE")
        assert running.issues() == {}
        assert run.verify()["ok"]


# What the command line says of it.
def test_explain_knows_it(proxy):
    explained = run_cli("policy", "explain", proxy.policy_path,
                        "mutation issues issueCreate", "--body", '{"input": {"title": "a"}}')
    assert "issues.create" in explained.stdout and "mutation issueCreate" in explained.stdout
    body = json.dumps({"query": "query A { reads } mutation B { touch }"})
    refused = run_cli("policy", "explain", proxy.policy_path, "POST issues /graphql",
                        "--body", body)  # fmt: skip
    assert "operationName" in refused.stdout


# Keys in variables.
KEYED = """\
version: 1
backends:
  issues: {{ url: "{url}/graphql", hosts: [ issues.test ], protocol: graphql, timeout: 600s,
            key_at: "variables#/in/id", key_form: uuid }}
tools:
  issues.create:
    {{ match: mutation issues issueCreate, effect: write, undo: none, reason: "kept",
      failed_when: answer.body#/errors/0/extensions/code == "EXISTS" }}
"""


def test_a_key_goes_into_the_variables_and_nowhere_else(running, tmp_path, token):
    running.reset()
    with Recourse(tmp_path, KEYED.format(url=running.url)) as run:
        assert create(run, token).outcome == "executed"
        assert create(run, token).replayed
        ((name, issue),) = running.issues().items()
        assert len(name) == 36 and issue["title"] == token
        sent = json.loads(running.state()["requests"][0]["body"])
        variables = {"in": {"id": name, "title": token, "ref": token}}
        assert sent == {"query": CREATE, "variables": variables}
        own = post(run.port, CREATE, {"in": {"id": "of-the-agent-itself", "title": token + "b"}})
        assert own.outcome == "executed" and "of-the-agent-itself" in running.issues()
        literal = post(run.port, 'mutation { issueCreate(input: {title: "c"}) { success } }')
        assert literal.status == 400 and "does not use the variable" in detail(literal)


# Keys in the document.
DIRECTED = """\
version: 1
backends:
  issues: {{ url: "{url}/graphql", hosts: [ issues.test ], protocol: graphql, timeout: 600s }}
tools:
  refunds.create:
    match: mutation issues refundCreate
    effect: write
    identity: body#/order
    key_at: document@idempotent(key)
    key_form: uuid
    external_ref: answer.body#/data/refundCreate/id
    undo:
      graphql: "mutation($id: ID!) {{ refundCancel(id: $id) {{ id }} }}"
      variables: {{ id: "{{external_ref}}" }}
      key_at: document@idempotent(key)
      repeatable: by_key
  refunds.cancel: {{ match: mutation issues refundCancel, effect: write, undo: none, reason: end }}
"""
REFUND = 'mutation R($o: String!) {\n  refundCreate(order: $o, amount: 5) # five\n  { id } }'


@pytest.fixture(scope="module")
def directed(running, tmp_path_factory):
    run = Recourse(tmp_path_factory.mktemp("directed"), DIRECTED.format(url=running.url))
    with run as recourse:
        yield recourse
        assert recourse.verify()["ok"]


def test_a_key_goes_into_the_directive_of_the_field_and_nowhere_else(directed, server, token):
    server.lose("after")
    first = post(directed.port, REFUND, {"o": token})
    assert first.status in (502, 504), first
    told = post(directed.port, REFUND, {"o": token})
    assert told.status == 200 and told.outcome == "executed", told
    assert post(directed.port, REFUND, {"o": token}).replayed
    (key,) = server.state()["keyed"]
    assert len(key) == 36 and len(server.executed("refundCreate")) == 1
    sent = [json.loads(one["body"]) for one in server.state()["requests"]]
    assert len(sent) == 2 and sent[0] == sent[1]
    written = REFUND.replace("amount: 5)", f'amount: 5) @idempotent(key: "{key}")')
    assert sent[0] == {"query": written, "variables": {"o": token}}


def test_the_agents_own_key_stays_where_it_wrote_it(directed, server, token):
    literal = REFUND.replace("amount: 5)", f'amount: 5) @idempotent(key: "own {token}")')
    first = post(directed.port, literal, {"o": token})
    assert first.outcome == "executed" and list(server.state()["keyed"]) == [f"own {token}"]
    # A client that makes a key for each try means the same: the identity says so.
    again = post(directed.port, literal.replace("own ", "new "), {"o": token})
    assert again.replayed, again
    by_variable = REFUND.replace("String!)", "String!, $k: String!)")
    by_variable = by_variable.replace("amount: 5)", "amount: 5) @idempotent(key: $k)")
    other = post(directed.port, by_variable, {"o": token + "b", "k": "mine"})
    assert other.outcome == "executed" and "mine" in server.state()["keyed"]
    filled = post(directed.port, by_variable, {"o": token + "c"})
    assert filled.outcome == "executed", filled
    variables = json.loads(server.state()["requests"][-1]["body"])["variables"]
    assert variables["k"] in server.state()["keyed"]
    assert len(server.executed("refundCreate")) == 3


def test_an_undo_has_a_key_of_its_own_there(directed, server, token):
    trace = secrets.token_hex(16)
    assert post(directed.port, REFUND, {"o": token}, rawhttp.traced(trace)).outcome == "executed"
    assert directed.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
    flow_of(directed, trace, "UNDONE")
    assert len(server.executed("refundCancel")) == 1 and len(server.state()["keyed"]) == 2
