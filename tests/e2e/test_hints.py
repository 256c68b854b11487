"""Whoever asks the wrong port, or asks wrongly, is told what to do, and nothing else."""

import json

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import NotReady, Recourse, run_cli

APPROVED = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], hold: 0s }
"""


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    policy = standard(double, extra_tools=APPROVED)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running


def at(recourse, port="admin"):
    return ["--admin", f"127.0.0.1:{recourse.ports[port]}"]


def test_an_agent_at_the_wrong_port_is_told_which_one_is_its_own(recourse):
    status, told = recourse.http("admin", "POST", "/orders", body="{}")
    detail = json.loads(told)["detail"]
    assert status == 401 and "operators' port" in detail and "--listen" in detail, told
    for method, target in (("POST", "/orders"), ("GET", "/orders/1")):
        _, told = recourse.http("probes", method, target)
        assert "probes" in told and "agents call the one of --listen" in told, told


def test_a_command_without_its_token_is_told_of_the_file_alone(recourse):
    told = run_cli("status", *at(recourse))
    assert told.returncode == 1
    assert told.stderr == (
        "recourse: GET /status: a token is needed; name the file that has it: "
        "--admin-token-file FILE\n"
    )


def test_approvals_that_nobody_can_give_are_told_at_the_start(recourse):
    warned = [line for line in recourse.stderr().splitlines() if "nobody can approve" in line]
    assert len(warned) == 1 and "finance" in warned[0] and "--operators" in warned[0], warned
    looked = run_cli("doctor", "--policy", recourse.policy_path, "--json")
    (policy,) = [one for one in json.loads(looked.stdout)["checks"] if one["name"] == "policy"]
    assert policy["verdict"] == "doubt" and "nobody can approve" in policy["found"], policy


def test_who_can_approve_nothing_is_told_so_before_a_digest_is_asked_for(recourse, token):
    asked = rawhttp.call(recourse.port, "POST", f"/mail/{token}", body={"to": "ada"})
    told = recourse.cli("approvals", "approve", str(asked.json()["operation"]))
    assert told.returncode == 1 and "digest" not in told.stderr, told
    assert "admin does not have the role approve" in told.stderr, told
    assert "name people in --operators FILE" in told.stderr, told


def test_a_missing_operators_file_is_called_one(double, tmp_path):
    running = Recourse(tmp_path, standard(double), ["--operators", str(tmp_path / "none.yaml")])
    with pytest.raises(NotReady, match="exit 3"):
        running.start()
    assert "none.yaml: error: cannot be read: No such file" in running.stderr()
    assert "name an operators file" in running.stderr() and "a policy file" not in running.stderr()


def test_a_phase_is_taken_in_any_case_and_a_wrong_one_is_told_all(recourse, token):
    asked = rawhttp.call(recourse.port, "POST", f"/plain/{token}", body={"a": 1})
    assert asked.status == 201, asked
    for kind in ("operations", "events"):
        found = recourse.cli(kind, "list", "--phase", "succeeded")
        assert found.returncode == 0 and "SUCCEEDED" in found.stdout, found
        told = recourse.cli(kind, "list", "--phase", "lost").stderr
        assert "UNCERTAIN" in told and "ANSWER_LOST" in told and "COMPENSATED" in told, told
    assert recourse.cli("flows", "list", "--phase", "needs_human").returncode == 0


@pytest.mark.parametrize(
    "command, told",
    [
        (["operations", "list", "--tool", "none"], "none\n"),
        (["events", "list", "--tool", "none"], "none\n"),
        (["events", "list", "--newest", "--tool", "none"], "none\n"),
        (["approvals", "list", "--tool", "none"], "none\n"),
        (["flows", "list", "--name", "none"], "none; --all shows ended ones\n"),
        (["flows", "list", "--name", "none", "--all"], "none\n"),
    ],
)
def test_an_empty_list_says_that_it_is(recourse, command, told):
    assert recourse.cli(*command).stdout == told
    empty = [[], {"approvals": [], "next": None}]
    assert json.loads(recourse.cli(*command, "--json").stdout) in empty


def test_an_operation_is_shown_as_it_is_now(recourse, token):
    path = f"/plain/{token}"
    assert rawhttp.call(recourse.port, "POST", path, body={"a": 1}).status == 201
    first, *_, last = recourse.events_for(path)
    for number in (first["event_id"], last["event_id"]):
        shown = recourse.cli("operations", "show", str(number))
        assert shown.returncode == 0, shown
        lines = shown.stdout.splitlines()
        assert "phase            SUCCEEDED" in lines, shown.stdout
        assert [line.split()[0] for line in lines[-2:]] == [
            str(first["event_id"]), str(last["event_id"])
        ]  # fmt: skip
    told = json.loads(recourse.cli("operations", "show", str(first["operation"]), "--json").stdout)
    assert told["event_id"] == last["event_id"]
    missing = recourse.cli("operations", "show", "99999999")
    assert missing.returncode == 1 and "no event has this id" in missing.stderr


def test_each_problem_of_a_policy_that_was_not_taken_has_its_line(double, tmp_path):
    with Recourse(tmp_path, standard(double)) as running:
        running.policy_path.write_text("version: 1\nmodes: enforce\ntolls: {}\n")
        told = running.cli("policy", "reload")
    assert told.returncode == 3 and "\\x0a" not in told.stderr, told
    lines = told.stderr.splitlines()
    assert "the one before stays in force" in lines[0]
    assert any("did you mean 'mode'?" in line for line in lines[1:])
    assert any("did you mean 'tools'?" in line for line in lines[1:])


def test_a_report_counts_the_repeats_that_leave_no_row(recourse, token):
    def told():
        return json.loads(recourse.cli("report", "--json").stdout)["replays"]

    before = told()
    for _ in range(3):
        answer = rawhttp.call(
            recourse.port, "POST", f"/plain/{token}", headers={"Idempotency-Key": f'"{token}"'},
            body={"a": 1},
        )  # fmt: skip
        assert answer.status == 201
    assert told() == before + 2
    text = recourse.cli("report").stdout
    assert f"Not among them: {before + 2} repeats that were answered from the ledger since" in text
