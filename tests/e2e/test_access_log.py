"""The access log: the members that the README names, and what stands in them."""

import fcntl
import json
import os
import re
import signal

import pytest

from support import flows, rawhttp
from support.policies import standard
from support.recourse import ROOT, Recourse
from support.waiting import wait_until

README = ROOT / "proxy/telemetry/README.md"
SECRET = "s3cr3t-value"


def documented():
    """Member -> whether every line has it."""
    text = README.read_text().split("## Access log\n")[1].split("\n## ")[0]
    members = {}
    for of_all, part in zip((True, False), text.split("\nOf some:\n"), strict=True):
        for names in re.findall(r"^\* ((?:`[a-z_]+` ?)+)", part, re.MULTILINE):
            for name in re.findall(r"`([a-z_]+)`", names):
                members[name] = of_all
    return members


@pytest.fixture(scope="module")
def logged(double, tmp_path_factory):
    """path template or status -> line, of calls of every kind."""
    with Recourse(tmp_path_factory.mktemp("logged"), flows.policy(double)) as running:
        port, body = running.port, {"client_ref": "l1"}

        def post(path, **fields):
            fields = {**rawhttp.traced("b" * 31 + "1"), **fields}
            return rawhttp.call(port, "POST", path, host="shop.test", headers=fields, body=body)

        double.script("POST", "/orders/l2", ["read", "fin"], 1)
        double.script("GET", "/orders/l2", flows.answer_with("500 No"))
        assert rawhttp.call(port, "GET", f"/read/l1?q={SECRET}", host="shop.test",
                            headers={"Authorization": SECRET}).status == 200  # fmt: skip
        assert post("/orders/l1", Cookie=SECRET).status == 201
        assert post("/orders/l1", Cookie=SECRET).status == 201
        assert post("/orders/l2").status in (409, 502, 504)
        assert rawhttp.call(port, "GET", "/", host=f"{SECRET}.test").status >= 400
        yield running.await_log(lambda line: True, count=5), running.stdout()


def line_of(logged, **wanted):
    (line,) = [one for one in logged[0] if wanted.items() <= one.items()]
    return line


def test_lines_have_the_members_that_the_readme_names_and_no_other(logged):
    members = documented()
    whole = {name for name, always in members.items() if always}
    for line in logged[0]:
        assert set(line) <= set(members), set(line) - set(members)
        assert whole <= set(line), whole - set(line)
    # See other tests.
    optional = {"verdict", "caller", "host_differs", "span_id", "original", "authority",
                "decision", "sni", "rpc", "mcp_tool", "reason"}  # fmt: skip
    assert set(members) - optional <= {name for line in logged[0] for name in line}


def test_a_write_says_what_became_of_it_and_how_long_its_backend_took(logged):
    line = line_of(logged, tool="orders.create", outcome="executed", replayed=False)
    assert (line["level"], line["status"], line["effect"]) == ("info", 201, "write")
    assert line["attempts"] == 1 and 0 < line["upstream_ms"] <= line["dur_ms"]
    assert line["path"] == "/orders/{token}" and line["upstream"] == "127.0.0.1"
    replay = line_of(logged, tool="orders.create", replayed=True)
    assert replay["outcome"] == "executed" and replay["attempts"] == 0
    assert "upstream_ms" not in replay and replay["event_id"] == line["event_id"]
    unknown = line_of(logged, outcome="unknown")
    assert unknown["level"] == "warn" and unknown["error"] and unknown["upstream_ms"] > 0


def test_a_read_says_how_long_its_backend_took_and_has_no_outcome(logged):
    line = line_of(logged, effect="read", status=200)
    assert line["level"] == "info" and "outcome" not in line and "event_id" not in line
    assert 0 < line["upstream_ms"] <= line["dur_ms"]


def test_what_is_refused_is_a_warning_and_nothing_of_a_request_is_told(logged):
    refused = line_of(logged, attempts=0, replayed=False)
    assert refused["level"] == "warn" and refused["error"]
    assert SECRET not in logged[1] and "/orders/l1" not in logged[1]


def test_a_log_that_nobody_reads_does_not_keep_the_process(double, tmp_path):
    """Whoever should read it may hang for good."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        arguments = ["--access-log", pipe]
        with Recourse(tmp_path / "run", standard(double), arguments) as running:
            for _ in range(50):
                assert rawhttp.call(running.port, "GET", "/read/x").status == 200
            assert running.stop() == 0
    finally:
        os.close(reader)


def test_a_file_that_was_renamed_is_followed_by_a_new_one(double, tmp_path):
    log, old = tmp_path / "access.log", tmp_path / "access.log.1"

    def statuses(file):
        return [json.loads(line)["status"] for line in file.read_text().splitlines()]

    with Recourse(tmp_path / "run", standard(double), ["--access-log", log]) as running:
        assert rawhttp.call(running.port, "GET", "/read/l1", host="shop.test").status == 200
        wait_until(lambda: log.exists() and statuses(log) == [200])
        log.rename(old)
        running.process.send_signal(signal.SIGHUP)
        wait_until(log.exists)
        assert rawhttp.call(running.port, "GET", "/x", host="nobody.test").status >= 400
        wait_until(lambda: statuses(log) and running.running())
        assert statuses(old) == [200] and len(statuses(log)) == 1
