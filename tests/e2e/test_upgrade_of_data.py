"""Data that an earlier version left when it was killed (tests/ledger/fixtures/README.md)."""

import pathlib
import tarfile

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import Recourse

FIXTURES = pathlib.Path(__file__).parent.parent / "ledger" / "fixtures"


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    directory = tmp_path_factory.mktemp("recourse")
    with tarfile.open(FIXTURES / "schema3.tar.gz") as archive:
        archive.extractall(directory)
    with Recourse(directory, standard(double)) as running:
        yield running


def post(proxy, name, trace=None, **fields):
    headers = dict(fields)
    if trace:
        headers.update(rawhttp.traced("0" * 30 + trace))
    path = f"/plain/{name}"
    return rawhttp.call(proxy.port, "POST", path, headers=headers, body={"path": path})


# The call, the trace that it is repeated under, what is known of it.
UNFINISHED = [
    ("running", "a5", "unknown"),
    ("running", "b5", "unknown"),
    ("running", None, "unknown"),
    ("untraced", None, "unknown"),
    ("untraced", "b6", "unknown"),
    ("unknown", "a2", "unknown"),
    ("succeeded", "a0", "executed"),
]


@pytest.mark.parametrize("name, trace, outcome", UNFINISHED)
@pytest.mark.parametrize("fields", [{}, {"Authorization": "Bearer x"}], ids=["bare", "token"])
def test_a_call_of_before_is_not_sent_again_and_not_shown(
    proxy, double, name, trace, outcome, fields
):
    told = post(proxy, name, trace, **fields)
    assert told.status == 409 and told.json()["type"].endswith("/other-credentials"), told
    assert told.outcome == outcome
    assert double.requests(f"/plain/{name}") == []


def test_what_was_refused_before_may_be_made(proxy, double):
    assert post(proxy, "rejected", "a1").status == 201
    assert post(proxy, "rejected", "a1").replayed
    assert len(double.effects("/plain/rejected")) == 1
    assert proxy.verify()["ok"]


@pytest.fixture(scope="module")
def newer(double, tmp_path_factory):
    directory = tmp_path_factory.mktemp("recourse")
    with tarfile.open(FIXTURES / "schema4.tar.gz") as archive:
        archive.extractall(directory)
    with Recourse(directory, standard(double, extra_tools=DOCS)) as running:
        yield running


EXCUSE = "undo: none, reason: a row of a test is never undone"
DOCS = f"""\
  docs.make: {{ match: "POST shop /docs/{{token}}", effect: write, {EXCUSE} }}
  docs.drop: {{ match: "DELETE shop /docs/{{token}}/{{id}}", effect: write, {EXCUSE} }}
  docs.put: {{ match: "PUT shop /docs/{{token}}/{{id}}", effect: write, {EXCUSE} }}
  docs.patch: {{ match: "PATCH shop /docs/{{token}}/{{id}}", effect: write, {EXCUSE} }}
"""


def test_what_a_ledger_of_schema_4_holds_stands_as_its_methods_say(newer, double):
    def send(method, path, body, trace="a0"):
        headers = rawhttp.traced("0" * 30 + trace)
        return rawhttp.call(newer.port, method, path, headers=headers, body=body)

    assert send("POST", "/docs/old", {"n": 1}).replayed
    assert send("POST", "/plain/succeeded", {"path": "/plain/succeeded"}).replayed
    assert send("PUT", "/docs/old/7", {"state": "off"}).replayed
    assert send("PUT", "/docs/old/7", {"state": "on"}).status == 201
    assert not send("PUT", "/docs/old/7", {"state": "off"}).replayed
    assert send("PATCH", "/docs/old/8", {"a": 2}).replayed
    assert not send("PATCH", "/docs/old/8", {"a": 1}).replayed
    for method, path, body, trace in (
        ("POST", "/plain/running", {"path": "/plain/running"}, "a5"),
        ("DELETE", "/docs/old/9", {}, "a0"),
    ):
        told = send(method, path, body, trace)
        assert (told.status, told.outcome) == (409, "unknown")
        assert double.requests(path) == []
    assert newer.verify()["ok"]
