"""Calls that only a retry repeats, at two pods of one ledger: the second pod tells them apart by
what the first one's client did, as one process would."""

import contextlib
import json
import threading

import pytest

from support import plans, rawhttp
from support.postgres import SERVER_PROGRAMS, Postgres
from support.waiting import wait_until
from test_fleet import Pods, stream_of
from test_flow_commands import trace_of


@pytest.fixture(scope="module")
def postgres():
    with Postgres(settings=plans.SETTINGS, programs=SERVER_PROGRAMS) as running:
        yield running


@pytest.fixture(scope="module")
def pods(double, postgres, tmp_path_factory):
    url = postgres.ledger()
    policy = Pods.policy(double, f'{{ url: "{url}", group: shop/checkout }}').replace(
        "/notes/{token}\n", "/notes/{token}\n    hold: 6s\n", 1).replace(
        "/seats/{token}\n", "/seats/{token}\n    hold: 10m\n", 1)
    with Pods(tmp_path_factory.mktemp("pods"), double, url, policy=policy) as running:
        yield running
        for pod in (running.a, running.b):
            assert pod.running(), pod.stderr()[-4000:]
            assert pod.verify()["ok"]


@pytest.fixture(params=["no trace", "other trace"])
def fields(request, token):
    """Of the first call, and of the second."""
    if request.param == "no trace":
        return [{}, {}]
    return [rawhttp.traced(trace_of(f"{token}{nth}")) for nth in (1, 2)]


class Calls:
    """Two equal ones; the backend holds its answer to the first back."""

    def __init__(self, pods, token, fields, kind="notes", gated=True):
        self.pods, self.token, self.fields = pods, token, fields
        self.path, self.double = f"/{kind}/{token}", pods.double
        if gated:
            self.double.script("POST", self.path, ["read", "execute", {"gate": token}, "answer"], 1)

    def make(self, pod, nth):
        return rawhttp.call(pod.port, "POST", self.path, headers=self.fields[nth],
                            body={"client_ref": self.token})

    def begin(self, pod):
        """The first one, over a connection that is given back."""
        client = rawhttp.Connection(pod.port)
        fields = {**self.fields[0], "Content-Type": "application/json"}
        body = json.dumps({"client_ref": self.token}).encode()
        client.send(rawhttp.render("POST", self.path, "shop.test", fields, body))
        self.double.await_effects(self.path)
        return client

    def effects(self):
        return len(self.double.effects(self.path))

    def open(self):
        self.double.open_gate(self.token)


def test_a_call_while_the_client_of_an_equal_one_waits_is_another(pods, token, fields):
    calls = Calls(pods, token, fields)
    with calls.begin(pods.a) as first:
        second = calls.make(pods.b, 1)
        assert second.status == 201 and not second.replayed, second
        assert calls.effects() == 2
        calls.open()
        answer = first.response("POST")
        assert answer.status == 201 and answer.body != second.body


@pytest.mark.parametrize("noted", [False, True])
def test_a_call_after_an_equal_one_was_answered_is_another(pods, token, fields, noted, postgres):
    calls = Calls(pods, token, fields, gated=False)
    first = calls.make(pods.a, 0)
    if noted:
        wait_until(lambda: postgres.sql(pods.url, "SELECT sum(1 - (flags & 1)) FROM operation"
                                                  " WHERE phase = 7").strip() == "0")
    second = calls.make(pods.b, 1)
    assert second.status == 201 and not second.replayed, second
    assert calls.effects() == 2 and first.body != second.body


@pytest.mark.parametrize("ends", ["later", "before"])
def test_a_call_after_the_client_of_an_equal_one_has_left_is_its_retry(pods, token, fields, ends):
    calls = Calls(pods, token, fields)
    calls.begin(pods.a).reset()
    if ends == "later":
        told = calls.make(pods.b, 1)
        assert told.status == 409 and told.outcome == "pending" and calls.effects() == 1, told
    calls.open()
    answer = calls.make(pods.b, 1)
    assert answer.status == 201 and calls.effects() == 1, answer


def test_a_call_while_a_retry_waits_at_another_pod_is_another(pods, token, fields, postgres):
    calls = Calls(pods, token, fields, "seats")
    calls.begin(pods.a).reset()
    answers = []
    retry = threading.Thread(target=lambda: answers.append(calls.make(pods.b, 1)))
    retry.start()
    at_b = stream_of(rawhttp.call(pods.b.port, "POST", f"/notes/{token}-b"))
    waiting = f"SELECT count(*) FROM operation WHERE phase = 5 AND flags >> 4 = {at_b}"
    wait_until(lambda: postgres.sql(pods.url, waiting).strip() == "1")
    calls.fields[1] = calls.fields[1] and rawhttp.traced(trace_of(f"{token}3"))
    other = calls.make(pods.a, 1)
    assert other.status == 201 and not other.replayed and calls.effects() == 2, other
    calls.open()
    retry.join()
    assert answers[0].status in (201, 409) and calls.effects() == 2, answers


def test_a_call_after_the_pod_of_an_equal_one_died_is_its_retry(double, postgres, tmp_path, token,
                                                                fields):
    url = postgres.ledger()
    with Pods(tmp_path, double, url) as pods:
        calls = Calls(pods, token, fields, "placed")
        with calls.begin(pods.a), contextlib.suppress(OSError, rawhttp.Cut):
            pods.a.kill()
            told = calls.make(pods.b, 1)
            assert told.status in (200, 201, 409) and calls.effects() == 1, told
        calls.open()
        # Who has been told is no retry the next time.
        if told.outcome != "executed":
            wait_until(lambda: calls.make(pods.b, 1).outcome == "executed")
        assert calls.effects() == 1


# --- pods with different policies ----------------------------------------------------------------


@pytest.fixture
def skewed(double, postgres, tmp_path):
    """Three pods, and a policy for one of them in which a tool has another name."""
    url = postgres.ledger()
    policy = Pods.policy(double, f'{{ url: "{url}", group: shop/checkout }}')
    with Pods(tmp_path, double, url, names="abc", policy=policy) as running:
        yield running, policy.replace("notes.create", "notes.made")


def lost_call_is_repeated_at(older, newer, double, token):
    path, fields = f"/notes/{token}", rawhttp.traced(trace_of(token))
    double.script("POST", path, ["read", "execute", "rst"], 1)
    body = {"client_ref": token}
    first = rawhttp.call(newer.port, "POST", path, headers=fields, body=body)
    assert first.outcome == "unknown", first.body
    repeat = rawhttp.call(older.port, "POST", path, headers=fields, body=body)
    assert (repeat.status, repeat.outcome) == (409, "unknown"), repeat.body
    assert len(double.effects(path)) == 1


def test_a_policy_that_is_reloaded_is_in_force_once_the_other_pods_know_it(skewed, double, token):
    pods, policy = skewed
    before = pods.a.admin("GET", "/policy")["version"]
    pods.a.policy_path.write_text(policy)
    assert ", in force in 18 s," in pods.a.cli("policy", "reload").stdout
    assert pods.a.admin("POST", "/policy/reload")["result"] == "announced"
    assert pods.a.admin("GET", "/policy")["version"] == before
    wait_until(lambda: pods.a.admin("GET", "/policy")["version"] != before)
    lost_call_is_repeated_at(pods.b, pods.a, double, token)


def test_a_policy_that_a_pod_starts_with_is_known_to_the_others_by_then(skewed, double, token):
    pods, policy = skewed
    assert pods.a.stop() == 0
    pods.a.policy_path.write_text(policy)
    pods.a.start()
    lost_call_is_repeated_at(pods.b, pods.a, double, token)


def test_a_pod_that_starts_while_a_policy_is_announced_knows_it_in_time(skewed, double, token):
    pods, policy = skewed
    before = pods.a.admin("GET", "/policy")["version"]
    assert pods.c.stop() == 0
    pods.a.policy_path.write_text(policy)
    assert pods.a.admin("POST", "/policy/reload")["result"] == "announced"
    pods.c.start()
    wait_until(lambda: pods.a.admin("GET", "/policy")["version"] != before)
    lost_call_is_repeated_at(pods.c, pods.a, double, token)
