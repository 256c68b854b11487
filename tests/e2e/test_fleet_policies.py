"""Processes of one shared ledger that have different policies, as while a new one is rolled out."""

import pytest

from support import rawhttp
from support.postgres import Postgres
from support.waiting import wait_until
from test_fleet import Pods, write
from test_flow_commands import Shop, trace_of


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture
def pods(double, postgres, tmp_path):
    """`old` runs; `new` is to be started with another policy, where nobody answers at the shop."""
    url = postgres.ledger()
    made = Pods(tmp_path, double, url, ["old", "new"])
    text = made.new.policy_path.read_text()
    assert text.count(double.url) == 1
    made.new.policy_path.write_text(text.replace(double.url, "http://127.0.0.1:9"))
    made.old.start()
    yield made
    made.__exit__()


def version(pod):
    return pod.admin("GET", "/status")["policy"]["version"]


@pytest.mark.parametrize("end", ["", "stop", "kill"])
def test_a_flow_is_undone_under_its_own_policy_by_a_process_that_never_had_it(
    pods, double, token, end
):
    trace = trace_of(token)
    if end != "stop":
        pods.new.start()
        assert version(pods.new) != version(pods.old)
    write(pods.old, f"/orders/{token}", token)
    write(pods.old, f"/payments/{token}", token)
    if end:
        getattr(pods.old, end)()
    if end == "stop":
        pods.new.start()
    shop = Shop(pods.new, double)
    shop.flows("cancel", trace, "--reason", "the agent went astray")
    shop.await_flow(trace, "UNDONE")
    assert shop.effects(token) == ["POST orders", "POST payments", "POST refunds", "DELETE orders"]


def test_what_one_process_has_asked_for_is_approved_and_sent_by_another(pods, double, token):
    path = f"/mail/{token}"
    pods.new.start()
    asked = write(pods.old, path, token, status=202).json()["operation"]
    digest = pods.new.shown(asked)["digest"]
    done = pods.new.by_hand("ann", "approve", asked, "--digest", digest)
    assert done.returncode == 0, done
    wait_until(lambda: len(double.effects(path)) == 1)
    wait_until(lambda: pods.old.events_for(path)[-1]["phase"] == "SUCCEEDED")
    # Once nobody has the policy in force that asked, its question is void.
    waits = write(pods.old, path + "2", token + "2", status=202).json()["operation"]
    pods.old.stop()
    wait_until(lambda: "the policy changed" in pods.new.shown(waits)["detail"])


def test_a_call_that_runs_is_known_where_another_policy_names_it_otherwise(
    pods, double, token
):
    """The older policy takes a field for the intent, the newer one all of the body."""
    text = pods.old.policy_path.read_text()
    named = text.replace("    match: POST shop /notes/{token}\n    effect: write\n",
                         "    match: POST shop /notes/{token}\n    effect: write\n"
                         "    identity: body#/client_ref\n")
    assert named != text
    pods.old.stop()
    pods.old.policy_path.write_text(named)
    pods.old.start()
    pods.new.policy_path.write_text(text)
    pods.new.start()
    path = f"/notes/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    body = {"client_ref": token}
    lost = rawhttp.call(pods.old.port, "POST", path, headers=rawhttp.traced(trace_of(token)),
                        body=body)
    assert lost.outcome == "unknown", lost
    again = rawhttp.call(pods.new.port, "POST", path, headers=rawhttp.traced(trace_of(token)),
                         body=body)
    assert again.outcome == "unknown", again
    assert len(double.effects(path)) == 1
