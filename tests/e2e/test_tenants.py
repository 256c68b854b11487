"""What Recourse sends of itself about a call reaches the things of the call's tenant."""

import json
import secrets

import pytest

from support import rawhttp
from support.apis import Api, Refused
from support.recourse import Recourse
from support.waiting import wait_until

POLICY = """\
version: 1
backends:
  desk: {{ url: "{url}", hosts: [ desk.test ], timeout: 60s }}
tools:
  tickets.create:
    match: POST desk /tickets
    effect: write
    identity: [ body#/ref ]
    external_ref: answer.body#/id
    settle: {{ request: "GET /tickets?ref={{body#/ref}}", happened: answer.body#/0/id,
              absent_after: 1s }}
    undo: {{ request: "DELETE /tickets/{{external_ref}}", repeatable: true }}
  jobs.start:
    match: POST desk /jobs
    effect: write
    identity: [ body#/ref ]
    external_ref: answer.body#/id
    settled_by: {{ request: "GET /jobs/{{answer.body#/id}}",
                  until: 'answer.body#/state == "done"' }}
    undo: {{ request: "DELETE /jobs/{{external_ref}}", repeatable: true }}
  tickets.edit:
    match: PATCH desk /tickets/{{id}}
    effect: write
    before: {{ request: "GET /tickets/{{path.id}}", keep: [ body#/title ] }}
    undo: {{ request: "PATCH /tickets/{{path.id}}", json: {{ title: "{{before.body#/title}}" }},
            only_if: unchanged }}
"""


class Desk(Api):
    """Each tenant has its own things, under the same names."""

    routes = (
        ("POST /(?:tickets|jobs)", "create"),
        ("GET /tickets", "find"),
        ("GET /(?:tickets|jobs)/(.+)", "read"),
        ("PATCH /tickets/(.+)", "edit"),
        ("DELETE /(?:tickets|jobs)/(.+)", "drop"),
    )

    def __init__(self):
        super().__init__()
        self.tenants = {name: {"1": {"title": f"of {name}", "ref": "0"}} for name in ("a", "b")}
        self.state = "running"

    def check(self, http_request):
        pass

    def mine(self, http_request):
        return self.tenants[http_request.headers.get("X-Tenant", "a")]

    def named(self, http_request, name):
        if name not in self.mine(http_request):
            raise Refused(404, {"error": "not there"})
        return self.mine(http_request)[name]

    def create(self, http_request, body):
        name = str(len(self.mine(http_request)) + 1)
        self.mine(http_request)[name] = json.loads(body)
        self.happened(("create", name))
        return 201, {"id": name}

    def find(self, http_request, _):
        ref = http_request.path.split("=")[1]
        mine = self.mine(http_request)
        return 200, [{"id": name} for name, one in mine.items() if one["ref"] == ref]

    def read(self, http_request, _, name):
        return 200, {**self.named(http_request, name), "state": self.state}

    def edit(self, http_request, body, name):
        self.named(http_request, name).update(json.loads(body))
        self.happened(("edit", name))
        return 200, self.named(http_request, name)

    def drop(self, http_request, _, name):
        self.named(http_request, name)
        del self.mine(http_request)[name]
        self.happened(("drop", name))
        return 200, {}


@pytest.fixture(name="desk")
def fixture_desk():
    desk = Desk()
    yield desk
    desk.stop()


class Caller:
    def __init__(self, running):
        self.running, self.trace = running, secrets.token_hex(16)

    def call(self, method, path, body):
        fields = {"X-Tenant": "b", **rawhttp.traced(self.trace)}
        return rawhttp.call(self.running.port, method, path, host="desk.test", headers=fields,
                            body=body)  # fmt: skip

    def cancel(self):
        assert self.running.cli("flows", "cancel", self.trace, "--reason", "no").returncode == 0
        wait_until(lambda: self.running.admin("GET", f"/flows/{self.trace}")["phase"] == "UNDONE")


@pytest.fixture(name="caller")
def fixture_caller(desk, tmp_path):
    with Recourse(tmp_path, POLICY.format(url=desk.url)) as running:
        yield Caller(running)


def all_of_b(desk):
    return all(headers.get("X-Tenant") == "b" for _, _, headers in desk.requests)


def test_a_probe_and_the_undo_that_follows(desk, caller):
    desk.lose_answers = 1
    lost = caller.call("POST", "/tickets", {"ref": "7", "title": "new"})
    assert lost.outcome == "unknown"
    assert caller.running.await_phase("/tickets", "SUCCEEDED")["external_ref"] == "2"
    caller.cancel()
    assert all_of_b(desk)
    assert list(desk.tenants["b"]) == ["1"] and list(desk.tenants["a"]) == ["1"]


def test_a_question_whether_it_is_done(desk, caller):
    assert caller.call("POST", "/jobs", {"ref": "7"}).outcome == "pending"
    desk.state = "done"
    caller.running.await_phase("/jobs", "SUCCEEDED")
    caller.cancel()
    assert all_of_b(desk)
    assert list(desk.tenants["b"]) == ["1"] and list(desk.tenants["a"]) == ["1"]


@pytest.mark.parametrize("lost", [0, 1])
def test_the_state_before_a_write_and_its_comparison(desk, caller, lost):
    desk.lose_answers = lost
    edited = caller.call("PATCH", "/tickets/1", {"title": "new"})
    assert edited.outcome == ("unknown" if lost else "executed")
    if lost:
        operation = caller.running.events_for("/tickets/1")[-1]["operation"]
        settled = caller.running.cli("operations", "settle", str(operation), "--as", "happened",
                                     "--reason", "seen")  # fmt: skip
        assert settled.returncode == 0, settled
    caller.cancel()
    assert all_of_b(desk)
    assert {name: desk.tenants[name]["1"]["title"] for name in "ab"} == {"a": "of a", "b": "of b"}
