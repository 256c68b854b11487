"""What operators order of the process, and not of a call or a flow: who, when, and under which
policy is in the hash chain before it is done, and in the log at every level."""

import json

import pytest

from support import rawhttp
from support.operators import Guarded, tokens
from support.policies import standard
from support.shim import Shim, needs_shim

CAROL, ERIN = "token-of-carol", "token-of-erin"
PEOPLE = tokens(("carol", CAROL, "read, repair"), ("erin", ERIN, "read, approve"))
TRACE = "6bf92f3577b34da6a3ce929d0e0e4736"


class Watched(Guarded):
    def does(self, method, target, body=None, who=CAROL):
        headers = {} if body is None else {"Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        return self.ask(method, target, who, headers, text)[0]

    def rows(self):
        """Of the whole chain, whose hashes fit."""
        run = self.cli("ledger", "export", "--format", "ndjson")
        assert run.returncode == 0, run.stderr
        rows = [json.loads(line) for line in run.stdout.splitlines()[1:-1]]
        for row, previous in zip(rows[1:], rows):
            assert row["prev"] == previous["hash"]
        return rows

    def ordered(self):
        """(what, who) of each order in the chain."""
        return [(row["order"]["what"], row["order"]["who"]) for row in self.rows()
                if row["kind"] == "order"]  # fmt: skip


@pytest.fixture
def process(double, tmp_path):
    with Watched(tmp_path, standard(double), PEOPLE) as running:
        yield running


def test_who_ordered_what_of_the_process_is_in_the_chain(process):
    assert process.does("PUT", "/log-level", {"level": "error"}) == 200
    assert process.does("POST", "/ledger/backup") == 200
    assert process.does("POST", "/policy/reload") == 200
    assert process.does("POST", "/drain") == 200
    process.kill()
    process.start()
    rows = [row for row in process.rows() if row["kind"] == "order"]
    assert [row["order"]["what"] for row in rows] == [
        "log-level.error", "ledger.backup", "policy.reload", "drain",
    ]  # fmt: skip
    in_force = next(row["policy"] for row in process.rows() if row["kind"] == "policy")
    for row in rows:
        assert row["order"]["who"] == "carol" and row["order"]["reason"] == ""
        assert row["order"]["policy_version"] == in_force["version"]
        assert row["order"]["policy_digest"] == in_force["digest"]
    assert process.verify()["ok"]
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)


def test_a_reload_is_ordered_under_the_old_policy_and_leads_to_the_new_one(process, double):
    old = process.admin("GET", "/version")["policy_version"]
    process.policy_path.write_text(standard(double, absent_after="4s"))
    assert process.does("POST", "/policy/reload") == 200
    new = process.admin("GET", "/version")["policy_version"]
    told = [row for row in process.rows() if row["kind"] in ("order", "policy")][-2:]
    if told[0]["kind"] == "order":  # else the change of the file was seen first
        assert (told[0]["order"]["policy_version"], told[1]["policy"]["version"]) == (old, new)
    assert ("policy.reload", "carol") in process.ordered()


def test_what_was_refused_or_had_been_done_is_no_order(process):
    assert process.does("PUT", "/log-level", {"level": "loud"}) == 400
    assert process.does("GET", "/log-level") == 200
    for method, target in (("POST", "/drain"), ("POST", "/ledger/backup"),
                           ("POST", "/policy/reload"), ("PUT", "/log-level")):  # fmt: skip
        assert process.does(method, target, {"level": "debug"}, who=ERIN) == 403
        assert process.does(method, target, {"level": "debug"}, who="guessed") == 401
    assert process.ordered() == []
    for _ in range(3):
        assert process.does("POST", "/drain") == 200
    assert process.ordered() == [("drain", "carol")]


def test_with_a_ledger_in_trouble_it_is_done_all_the_same_and_the_log_tells_of_it(
    double, tmp_path, token
):
    arguments = ["--latched-for", "0s"]
    with Watched(tmp_path, standard(double), PEOPLE, arguments) as process:
        (process.data / "data.mdb").unlink()
        refused = rawhttp.call(process.port, "POST", f"/plain/{token}",
                               headers=rawhttp.traced(TRACE), body={"a": 1})  # fmt: skip
        assert refused.status == 503
        assert process.does("PUT", "/log-level", {"level": "error"}) == 200
        assert process.does("POST", "/drain") == 200
        lines = [json.loads(line) for line in process.stderr().splitlines()]
        missing = "an operator's order is not in the hash chain"
        told = [(line["operator"], line["what"]) for line in lines if line["msg"] == missing]
        assert told == [("carol", "log-level.error"), ("carol", "drain")]
        done = [(line["operator"], line["action"]) for line in process.orders()]
        assert done == [("carol", "PUT /log-level"), ("carol", "POST /drain")]
        status = json.loads(process.ask("GET", "/status", CAROL)[2])
        assert (status["state"], status["log_level"]) == ("draining", "error")


@needs_shim
def test_with_a_disk_that_hangs_it_is_done_all_the_same_and_the_log_tells_of_it(double, tmp_path):
    process = Watched(tmp_path, standard(double), PEOPLE)
    shim = Shim(tmp_path, process.data, "journal:1:86400000:sticky")
    try:
        process.start(shim.env)
        shim.arm()
        assert process.does("PUT", "/log-level", {"level": "error"}) == 200
        assert shim.hits() == 1
        assert process.does("POST", "/drain") == 200
        status = json.loads(process.ask("GET", "/status", CAROL)[2])
        assert (status["state"], status["log_level"]) == ("draining", "error")
        lines = [json.loads(line) for line in process.stderr().splitlines()]
        missing = [line for line in lines
                   if line["msg"] == "an operator's order is not in the hash chain"]  # fmt: skip
        assert [line["what"] for line in missing] == ["log-level.error", "drain"]
        assert all("has not confirmed its row" in line["reason"] for line in missing)
        process.kill()
        process.start()
        assert process.verify()["ok"]
    finally:
        process.kill()
