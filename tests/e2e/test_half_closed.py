"""Clients that close their side for sending and read on (RFC 9112 9.6), those that look alike and
are gone, and those that go with an answer unread."""

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import Recourse
from support.waiting import wait_until

CLIENTS, WRITES = 'recourse_connections{side="client"}', "recourse_writes_in_flight"
ENDS = [(), [("Connection", "close")]]
TRACE, OTHER_TRACE = rawhttp.traced("a" * 32), rawhttp.traced("b" * 32)
TOOLS = """\
  patient: {{ match: "POST shop /patient/{{token}}", effect: write, reason: tests, hold: 600s }}
  hasty: {{ match: "POST shop /hasty/{{token}}", effect: write, reason: tests, hold: 2s }}
""".replace("{{", "{").replace("}}", "}")


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = standard(double, timeout="600s", extra_tools=TOOLS)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running


def request(path, trace=TRACE, body=b"x"):
    return rawhttp.render("POST", path, "shop.test", trace, body)


def half_closed(proxy, *requests):
    connection = rawhttp.Connection(proxy.port)
    connection.send(b"".join(requests))
    connection.finish_sending()
    return connection


def test_it_has_been_answered(proxy, double, token):
    """So the same call of another trace is another one."""
    path = f"/plain/{token}"
    with half_closed(proxy, request(path)) as connection:
        assert connection.response("POST").status == 201
        assert connection.at_end()  # by then it is known to have come
    again = rawhttp.call(proxy.port, "POST", path, headers=OTHER_TRACE, body=b"x")
    assert again.status == 201 and not again.replayed and len(double.effects(path)) == 2


def test_each_of_its_requests_is_answered(proxy, double, token):
    paths = [f"/plain/{token}{number}" for number in range(3)]
    with half_closed(proxy, *map(request, paths)) as connection:
        assert [connection.response("POST").status for _ in paths] == [201] * 3
        assert connection.at_end()
    assert [len(double.effects(path)) for path in paths] == [1] * 3


def test_its_repeat_waits_as_long_as_any_other(proxy, double, token):
    """Another repeat, of a tool with less patience, tells that some time has passed."""
    patient, hasty = f"/patient/{token}", f"/hasty/{token}"
    for path in (patient, hasty):
        double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    with rawhttp.Connection(proxy.port) as first, rawhttp.Connection(proxy.port) as second:
        first.send(request(patient))
        second.send(request(hasty))
        double.await_requests("POST", patient)
        double.await_requests("POST", hasty)
        with half_closed(proxy, request(patient)) as waiting:
            told = rawhttp.call(proxy.port, "POST", hasty, headers=TRACE, body=b"x")
            assert told.status == 409 and told.outcome == "pending"
            double.open_gate(token)
            assert waiting.response("POST").replayed
        assert first.response("POST").status == second.response("POST").status == 201
    assert len(double.effects(patient)) == len(double.effects(hasty)) == 1


def test_while_it_waits_an_equal_call_of_another_trace_is_its_retry(proxy, double, token):
    """It may be gone, and its own retry must not have a second effect."""
    path = f"/patient/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    with half_closed(proxy, request(path)) as waiting:
        double.await_requests("POST", path)
        with rawhttp.Connection(proxy.port) as other:
            before = proxy.held_bytes()
            other.send(request(path, OTHER_TRACE))
            wait_until(lambda: proxy.held_bytes() > before, "it has come")
            double.open_gate(token)
            assert other.response("POST").replayed
        assert waiting.response("POST").status == 201
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("how", ["close", "reset"])
def test_who_is_gone_was_not_answered(proxy, double, token, how):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    with rawhttp.Connection(proxy.port) as gone:
        gone.send(request(path))
        double.await_requests("POST", path)
        getattr(gone, how)()
    double.open_gate(token)
    proxy.await_phase(path, "SUCCEEDED")
    retry = rawhttp.call(proxy.port, "POST", path, headers=OTHER_TRACE, body=b"x")
    assert retry.replayed and len(double.effects(path)) == 1


def left_unread(proxy, path, fields=()):
    """Its client dies with the answer in its kernel; returns when the proxy has noticed."""
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(request(path, {**TRACE, **dict(fields)}))
        assert connection.socket.recv(10) == b"HTTP/1.1 2"
        wait_until(lambda: proxy.metric(WRITES) == 0, "the answer is out")
    wait_until(lambda: proxy.metric(CLIENTS) == 0, "its connection is gone")


@pytest.mark.parametrize("fields", ENDS, ids=["kept", "to be closed"])
def test_who_dies_before_it_has_read_all_was_not_answered(proxy, double, token, fields):
    path = f"/plain/{token}"
    left_unread(proxy, path, fields)
    retry = rawhttp.call(proxy.port, "POST", path, headers=OTHER_TRACE, body=b"x")
    assert retry.replayed and len(double.effects(path)) == 1
    # That one has read it.
    again = rawhttp.call(proxy.port, "POST", path, headers=OTHER_TRACE, body=b"y")
    assert again.status == 201 and not again.replayed


@pytest.mark.parametrize("fields", ENDS, ids=["kept", "to be closed"])
def test_who_ends_after_it_has_read_all_was_answered(proxy, double, token, fields):
    path = f"/plain/{token}"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(request(path, {**TRACE, **dict(fields)}))
        assert connection.response("POST").status == 201
    wait_until(lambda: proxy.metric(CLIENTS) == 0, "its connection is gone")
    again = rawhttp.call(proxy.port, "POST", path, headers=OTHER_TRACE, body=b"x")
    assert again.status == 201 and not again.replayed and len(double.effects(path)) == 2


def test_who_went_on_had_read_what_came_before(proxy, double, token):
    first, second = f"/plain/{token}1", f"/plain/{token}2"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(request(first))
        assert connection.response("POST").status == 201
        connection.send(request(second))
        assert connection.response("POST").status == 201
        connection.reset()
    wait_until(lambda: proxy.metric(CLIENTS) == 0, "its connection is gone")
    told = [rawhttp.call(proxy.port, "POST", path, headers=OTHER_TRACE, body=b"x")
            for path in (first, second)]  # fmt: skip
    assert [answer.replayed for answer in told] == [False, True]
