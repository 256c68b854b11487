"""ConfigMaps with the label recourse.dev/policy, before API servers take them: what is wrong by
line and column, as `recourse policy check` says it, and what a change does to pods that run."""

import json

import pytest

from support.injector import injector, response_in, review_of
from support.recourse import run_cli

MAPS = {"group": "", "version": "v1", "resource": "configmaps"}
GOOD = """\
version: 1
backends:
  shop: { url: "http://shop:8080" }
tools:
  orders.create: { match: POST shop /orders, effect: write, undo: none, reason: it is a test }
  orders.list: { match: GET shop /orders, effect: read }
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with injector(tmp_path_factory.mktemp("injector")) as made:
        yield made


def config_map(text, key="policy.yaml"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {key: text},
            "metadata": {"name": "recourse-policy",
                         "labels": {"recourse.dev/policy": "true"}}}  # fmt: skip


def said_of(running, text, before=None, key="policy.yaml"):
    old = config_map(before) if before else None
    asked = review_of(config_map(text, key), resource=MAPS, oldObject=old,
                      operation="UPDATE" if before else "CREATE")  # fmt: skip
    status, _, body = running.ask(asked, path="/validate?timeout=5s")
    assert status == 200, body
    return response_in(body, asked)


def test_a_broken_policy_is_refused_by_line_and_column_as_the_command_says_it(running, tmp_path):
    broken = GOOD.replace("effect: write", "efect: write").replace("8080", "808O")
    said = said_of(running, broken)
    assert said["allowed"] is False and said["status"]["code"] == 403
    message = said["status"]["message"]
    path = tmp_path / "policy.yaml"
    path.write_text(broken)
    checked = run_cli("policy", "check", "--json", path)
    assert checked.returncode == 3
    for problem in json.loads(checked.stdout)["problems"]:
        assert f"policy.yaml:{problem['line']}:{problem['column']}: " in message
    assert message.startswith("policy.yaml:3:") and "policy.yaml:5:" in message


def test_a_good_one_is_taken(running):
    before = running.counted("policy")
    assert said_of(running, GOOD)["allowed"]
    assert running.counted("policy") == before + 1


def test_what_has_no_policy_where_pods_look_is_refused(running):
    message = said_of(running, GOOD, key="rules.yaml")["status"]["message"]
    assert "no text policy.yaml, which pods read" in message


def test_a_change_says_what_it_does_to_pods_that_run(running):
    after = GOOD.replace("orders.list", "orders.find").replace(
        'http://shop:8080', 'http://shop:9090').replace(
        "effect: write, undo: none, reason: it is a test", "effect: read")  # fmt: skip
    told = "".join(said_of(running, after, GOOD)["warnings"])
    assert told.startswith("pods that run take this within minutes: backends.shop changed, ")
    assert "tools.orders.create is no write any more, so its repeats are executed" in told
    assert "tools.orders.find is new" in told and "tools.orders.list is gone" in told
    assert "warnings" not in said_of(running, GOOD, GOOD)


def test_a_change_that_takes_a_restart_says_so(running):
    told = "".join(said_of(running, GOOD + "mode: observe\n", GOOD)["warnings"])
    assert "keep the policy of before until they are restarted: mode: " in told


def test_labels_of_a_policy_that_is_broken_already_can_be_changed(running):
    assert said_of(running, "broken", "broken")["allowed"]
    assert not said_of(running, "broken", "broken too")["allowed"]
