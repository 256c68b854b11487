"""What waits for a human under a key that the asked process lacks: a pod whose key file is behind
or ahead of the others', or a process that was started without an old key. It is listed, and says
what is missing; it is neither shown nor decided, and never denied."""

import json
import os
import signal

import pytest

from support.approvals import Staffed
from support.desk import Approver
from support.postgres import Postgres
from support.recourse import run_cli
from support.waiting import wait_until
from test_fleet import ASKED, Pods, write
from test_flow_commands import POLICY
from test_secrets import await_log, key_file, new_key

HELP = "put the line of that key into --ledger-key-file"


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


class Shared:
    """Of two pods the one that is asked lacks the key that the call was sealed with."""

    def __init__(self, directory, double, postgres, token):
        self.url = postgres.ledger()
        self.pods = Pods(directory, double, self.url)
        self.sealed_with = self.pods.secrets[3]
        self.keys = key_file(directory / "other.key", new_key("k2"))
        self.asked = self.pods.b
        self.asked.arguments = [str(self.keys) if one == str(self.sealed_with) else one
                                for one in self.asked.arguments]  # fmt: skip
        self.pods.__enter__()
        self.operation = write(self.pods.a, f"/mail/{token}", token, 202).json()["operation"]

    def verify(self):
        return run_cli("ledger", "verify", "--ledger", self.url, "--ledger-key-file", self.keys)

    def end(self):
        self.pods.__exit__()


class Embedded:
    """The process was started again without the key."""

    def __init__(self, directory, double, _postgres, token):
        self.keys = key_file(directory / "ledger.key", new_key("k1"))
        self.sealed_with = key_file(directory / "first.key", self.keys.read_text())
        policy = POLICY.replace("flows:\n", ASKED).format(url=double.url)
        self.asked = Staffed(directory / "pod", policy, ["--ledger-key-file", self.keys])
        self.asked.start()
        self.operation = write(self.asked, f"/mail/{token}", token, 202).json()["operation"]
        self.asked.kill()
        key_file(self.keys, new_key("k2"))
        self.asked.start()

    def verify(self):
        return self.asked.cli("ledger", "verify")

    def end(self):
        self.asked.kill()


@pytest.fixture(params=[Embedded, Shared], ids=["embedded", "shared"])
def lost(request, double, postgres, tmp_path, token):
    made = request.param(tmp_path, double, postgres, token)
    yield made
    assert made.asked.running(), made.asked.stderr()[-4000:]
    made.end()


def give_the_key(lost):
    key_file(lost.keys, lost.keys.read_text(), lost.sealed_with.read_text())
    os.kill(lost.asked.pid, signal.SIGHUP)
    await_log(lost.asked, "ledger keys read again")


def test_what_waits_is_listed_and_says_which_key_is_missing(lost, double, token):
    asked, operation = lost.asked, lost.operation
    assert json.loads(asked.cli("status", "--json").stdout)["approvals_pending"] == 1
    (line,) = asked.waiting()
    assert line["operation"] == operation and line["sealed"] is True
    assert (line["tool"], line["method"], line["status"]) == ("mail.send", "POST", "waiting")
    assert line["caller"].endswith("local")
    assert line["asked"].startswith("20") and "key 'k1' (check " in line["detail"]
    assert not {"expires", "needs", "by", "digest"} & set(line)
    for query, count in (("tool=mail.send", 1), ("by=finance", 1), (f"caller={line['caller']}", 1),
                         ("tool=mail.offer", 0), ("caller=eve", 0)):  # fmt: skip
        status, page = asked.ask("GET", f"/approvals?{query}")
        assert status == 200 and len(page["approvals"]) == count, (query, page)
    told = asked.by_hand("ann", "list")
    (row,) = [one for one in told.stdout.splitlines() if one.split()[:1] == [str(operation)]]
    assert "mail.send" in row and "key 'k1' (check " in row, told
    assert f"asked {line['asked']}; " in row and line["caller"] in row, told
    assert HELP in told.stdout, told
    for verb in (["show"], ["reject", "--reason", "no"], ["approve", "--digest", "0" * 64]):
        told = asked.by_hand("ann", verb[0], operation, *verb[1:])
        assert told.returncode == 1 and "key 'k1' (check " in told.stderr, told
        assert HELP in told.stderr and "no operation" not in told.stderr, told
    for method, verb, body in (("GET", "", None), ("POST", "/reject", {"reason": "no"}),
                               ("POST", "/approve", {"digest": "0" * 64})):  # fmt: skip
        status, problem = asked.ask(method, f"/approvals/{operation}{verb}", body=body)
        assert status == 503 and HELP in problem["detail"], problem
    assert asked.ask("GET", "/approvals/999999")[0] == 404
    assert double.effects(f"/mail/{token}") == []
    give_the_key(lost)
    (line,) = asked.waiting()
    assert "sealed" not in line and line["by"] == ["finance"] and line["needs"] == 1
    assert asked.approve(operation)[0] == 200
    wait_until(lambda: double.effects(f"/mail/{token}"))
    wait_until(lambda: asked.shown(operation)["status"] == "finished")
    assert len(double.effects(f"/mail/{token}")) == 1


def test_verify_checks_what_needs_no_key_and_names_the_key(lost):
    done = lost.verify()
    assert done.returncode == 1 and "BROKEN" not in done.stdout + done.stderr, done
    assert "key 'k1' (check " in done.stdout and "not checked" in done.stdout, done
    assert "--ledger-key-file" in done.stderr, done
    if isinstance(lost, Embedded):  # of a shared one a process checks what it wrote itself
        report = lost.asked.verify()
        assert not report["ok"] and report["check"] == "key" and report["rows"] > 1
    give_the_key(lost)
    assert lost.verify().returncode == 0


def test_a_row_that_was_changed_is_told_whatever_key_is_missing(
        double, postgres, tmp_path, token):  # fmt: skip
    lost = Shared(tmp_path, double, postgres, token)
    lost.end()
    postgres.sql(lost.url, "UPDATE event SET bytes = overlay(bytes placing '\\x00'::bytea from 60)"
                 " WHERE (stream, number) = (SELECT stream, max(number) FROM event"
                 " GROUP BY stream ORDER BY stream LIMIT 1)")
    done = lost.verify()
    assert done.returncode == 78 and "BROKEN: stream 1 " in done.stdout, done
    assert "key 'k1'" not in done.stdout.partition("BROKEN")[2].partition("\n")[0], done


def test_the_page_shows_what_waits_and_why_it_cannot_be_decided(lost, browser):
    desk = Approver(browser, lost.asked).log_in("#/approvals")
    browser.wait(".inbox-row")
    row = browser.text(".inbox-row")
    assert "mail.send" in row and "key 'k1'" in row, row
    assert "NaN" not in row and "undefined" not in row and "Invalid" not in row, row
    desk.go(f"#/approval/{lost.operation}")
    browser.wait(".state.bad")
    assert HELP in browser.text(".state.bad")
    desk.is_clean()
