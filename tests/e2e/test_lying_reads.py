"""Reads that lie: a backend, a cache or a gateway before it answers the reads on which an undo
rests with what is old, part of it, or no answer at all. Nothing is sent that rests on that."""

import gzip
import json

import pytest
from test_time_machine import FIELDS, PATCH, Machine

from support.recourse import Recourse
from support.tracker import Tracker, policy
from support.waiting import wait_until


def text_of(answer):
    return json.dumps(answer).encode()


# Name by name: status, fields and bytes for an answer that would be true.
LIES = {
    "part": lambda answer: (206, {"Content-Range": "bytes 0-99/999"}, text_of(answer)),
    "transformed": lambda answer: (203, {}, text_of(answer)),
    "cached": lambda answer: (200, {"Age": "120"}, text_of(answer)),
    "page": lambda _: (200, {"Content-Type": "text/html"}, b"<html>Log in</html>"),
    "moved": lambda _: (302, {"Location": "/elsewhere"}, b""),
    "kept": lambda _: (304, {}, b""),
    "accepted": lambda answer: (202, {}, text_of(answer)),
    "nothing": lambda _: (200, {}, b""),
    "null": lambda _: (200, {}, b"null"),
    "list": lambda answer: (200, {}, text_of([answer])),
    "twice": lambda answer: (200, {}, text_of(answer)[:-1] + b',"title":"another"}'),
    "more": lambda answer: (200, {}, text_of(answer) + b"{}"),
    "utf-16": lambda answer: (200, {}, json.dumps(answer).encode("utf-16")),
    "brotli": lambda answer: (200, {"Content-Encoding": "br"}, text_of(answer)),
    "no gzip": lambda answer: (200, {"Content-Encoding": "gzip"}, text_of(answer)),
    "huge": lambda answer: (200, {}, text_of({**answer, "more": "x" * 3_000_000})),
    "bomb": lambda answer: (
        200,
        {"Content-Encoding": "gzip"},
        gzip.compress(text_of({**answer, "more": "x" * 30_000_000})),
    ),
    "cut": lambda answer: (200, {"Content-Length": "9999"}, text_of(answer)),
}


class Liar(Tracker):
    """Answers reads by the lie, of the thing as `stale` has it where that is set."""

    lie = None
    stale = None

    def send(self, http_request, status, answer, headers):
        if http_request.command != "GET" or self.lie is None:
            return super().send(http_request, status, answer, headers)
        status, fields, data = self.lie(self.stale or answer)
        fields = {"Content-Type": "application/json", "Content-Length": len(data), **headers,
                  **fields}  # fmt: skip
        http_request.send_response(status)
        for name, value in fields.items():
            http_request.send_header(name, str(value))
        http_request.end_headers()
        http_request.wfile.write(data)
        http_request.close_connection = True
        return None


@pytest.fixture(scope="module")
def tracker():
    api = Liar()
    yield api
    api.stop()


@pytest.fixture(scope="module")
def machine(tracker, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("lies"), policy(tracker.url)) as running:
        yield Machine(running, tracker)
        assert running.verify()["ok"]


@pytest.fixture(autouse=True)
def honest(tracker):
    yield
    tracker.lie = tracker.stale = None


@pytest.mark.parametrize("lie", LIES)
def test_a_write_does_not_rest_on_it(machine, tracker, lie):
    name = machine.issue()
    effects = len(tracker.effects)
    tracker.lie = LIES[lie]
    answer = machine.call("PATCH", f"/issues/{name}", PATCH)
    assert (answer.status, answer.outcome) in ((403, "rejected"), (503, "not_executed")), answer
    assert "cannot be read" in answer.json()["detail"], answer
    tracker.lie = None
    assert len(tracker.effects) == effects
    assert machine.call("PATCH", f"/issues/{name}", PATCH, machine.trace).status == 200
    machine.undo(machine.trace)
    assert tracker.state("issues", name) == {"id": name, "body": "untouched", **FIELDS}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("shows", ["ours", "before"])
def test_nor_does_an_undo(machine, tracker, lie, shows):
    """The lie shows it as the write had left it, or as it was before that; in truth somebody else
    has changed it."""
    name = machine.issue()
    before = dict(tracker.state("issues", name))
    trace = machine.update(name)
    stale = dict(tracker.state("issues", name)) if shows == "ours" else before
    tracker.foreign("issues", name, title="Theirs")
    effects = len(tracker.effects)
    tracker.stale, tracker.lie = stale, LIES[lie]
    read = len(tracker.asked("GET", f"/issues/{name}"))
    machine.cancel(trace)
    wait_until(lambda: len(tracker.asked("GET", f"/issues/{name}")) > read)
    wait_until(lambda: machine.flow(trace)["phase"] in ("UNDOING", "NEEDS_HUMAN"))
    tracker.lie = None
    flow = machine.await_flow(trace, "NEEDS_HUMAN")
    assert [one["now"] for one in flow["steps"][0]["changed_since"]] == ['"Theirs"'], flow
    assert tracker.state("issues", name)["title"] == "Theirs"
    assert len(tracker.effects) == effects


GONE = {
    "cached": (404, {"Age": "120"}, b'{"message":"Not Found"}'),
    "page": (404, {"Content-Type": "text/html"}, b"<html>no such route</html>"),
    "cut": (404, {"Content-Length": "999"}, b'{"message":"Not Found"}'),
}


@pytest.mark.parametrize("lie", GONE)
def test_what_somebody_brought_back_is_not_made_again(machine, tracker, lie):
    name = machine.issue()
    assert machine.call("DELETE", f"/issues/{name}").status == 204
    trace = machine.trace
    tracker.make("issues", name, **FIELDS)
    effects = len(tracker.effects)
    tracker.lie = lambda _: GONE[lie]
    read = len(tracker.asked("GET", f"/issues/{name}"))
    machine.cancel(trace)
    wait_until(lambda: len(tracker.asked("GET", f"/issues/{name}")) > read)
    assert machine.flow(trace)["phase"] == "UNDOING"
    tracker.lie = None
    machine.await_flow(trace, "UNDONE")
    assert len(tracker.effects) == effects, "it was there already"


def test_a_version_with_two_readings_is_none(machine, tracker):
    """Two tags: what was read counts, and no If-Match is made up of them."""
    name = machine.issue()
    trace = machine.update(name)
    tracker.lie = lambda answer: (200, {"ETag": '"v2", "v9"'}, text_of(answer))
    machine.cancel(trace)
    flow = machine.await_flow(trace, "NEEDS_HUMAN")
    assert "something else in it" in flow["reason"], flow
    assert tracker.state("issues", name)["title"] == "New"


def test_what_was_there_is_kept_sealed(machine, tracker):
    canary = "canary-of-what-was-there"
    name = machine.issue(title=canary)
    trace = machine.update(name)
    kept = [file.read_bytes() for file in machine.recourse.data.rglob("*") if file.is_file()]
    assert kept and not any(canary.encode() in one for one in kept)
    assert canary not in json.dumps(machine.recourse.events(trace=trace))
    machine.undo(trace)
    assert tracker.state("issues", name)["title"] == canary


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "fields, body",
    [
        (JSON, b'{"title":"a","reporter":"eve","title":"New"}'),
        (JSON, b'{"title":"New","\\u0074itle":"a"}'),
        (JSON, b'{"title":"New"} {"reporter":"eve"}'),
        ({"Content-Type": "text/plain"}, b'{"title":"New","reporter":"eve"}'),
        ({}, b'{"title":"New","reporter":"eve"}'),
        ({"Content-Type": "application/xml"}, b"<title>New</title>"),
        ({**JSON, "Content-Encoding": "gzip"}, gzip.compress(b'{"reporter":"eve"}')),
        ({"Content-Type": "application/merge-patch+json"}, b'{"title":"New","reporter":"eve"}'),
        (JSON, json.dumps({"title": "New", **{f"m{i}": i for i in range(3_000)}}).encode()),
        (JSON, json.dumps({"title": "New", "x": ["y" * 1_000_000]}).encode()),
    ],
    ids=["twice", "escaped", "two", "text", "no type", "xml", "gzip", "merge", "wide", "large"],
)
def test_what_a_call_sets_is_never_put_back_in_part(machine, tracker, fields, body):
    """Bodies that are no plain JSON object, or too much of one: refused, or for a human."""
    name = machine.issue()
    before = dict(tracker.state("issues", name))
    effects = len(tracker.effects)

    def takes_whatever_comes(http_request, _, kind, which):
        thing = {**tracker.state(kind, which), "title": "New", "reporter": "eve"}
        return tracker.changed(http_request, kind, which, thing)

    tracker.update = takes_whatever_comes
    try:
        answer = machine.call("PATCH", f"/issues/{name}", body, **fields)
    finally:
        del tracker.update
    if len(tracker.effects) == effects:
        assert answer.status in (400, 413, 415), answer
        assert tracker.state("issues", name) == before
        return
    machine.park(machine.trace)
    assert len(tracker.effects) == effects + 1
