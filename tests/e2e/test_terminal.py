"""What a person at a terminal meets: the start-up text, a question before an approval, lists that
go on. A pipe gets what programs read."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import pytest

from support import rawhttp
from support.approvals import Staffed, token_of
from support.policies import standard
from support.recourse import BINARY, WAIT_MAX, Recourse, environment, run_cli
from support.waiting import wait_until

GATED = """\
  pay.send:
    match: POST shop /pay/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 1h, hold: 0s }
"""


class Terminal:
    """A command at a terminal of its own: what it printed so far, and somebody who types."""

    def __init__(self, arguments, env=None, columns=0):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(self.ours, False)
        self.text = ""
        self.process = subprocess.Popen(
            [BINARY, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
            env=environment(env), start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_MAX)
        os.close(self.ours)

    def read(self):
        try:
            self.text += os.read(self.ours, 65_536).decode()
        except (BlockingIOError, OSError):
            pass
        return self.text.replace("\r\n", "\n")

    def await_text(self, wanted):
        return wait_until(lambda: wanted in self.read() and self.read(), self.read)

    def types(self, text):
        os.write(self.ours, text.encode())


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    with Staffed(tmp_path_factory.mktemp("proxy"), standard(double, extra_tools=GATED)) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


def test_a_start_at_a_terminal_tells_people_and_in_a_pipe_programs(double, tmp_path):
    running = Recourse(tmp_path, standard(double, extra_tools=GATED), token=False)
    with Terminal(running.command()[1:]) as terminal:
        text = terminal.await_text("Ctrl-C drains")
        ports = json.loads(running.ports_path.read_text())
    assert "  mode      enforce\n" in text
    assert f"  policy    {running.policy_path}, version " in text
    assert f"  agents    http://127.0.0.1:{ports['listen']}\n" in text
    assert f"  page      http://127.0.0.1:{ports['admin']}/\n" in text
    assert "nobody can log in yet" in text
    # What the log says comes first, as text too.
    first, _, rest = text.partition("\nrecourse ")
    place = rf"{re.escape(str(running.policy_path))}:\d+:\d+: warning: tools\."
    lines = first.splitlines()
    known = rf"{place}|\d\d:\d\d:\d\dZ (info|warning): \S"
    assert all(re.match(known, line) for line in lines), text
    assert any("tools.pay.send.identity: is not given" in line for line in lines), text
    assert " is ready\n" in rest and "warning: " not in rest
    with Recourse(tmp_path / "pipe", standard(double, extra_tools=GATED)) as piped:
        wait_until(lambda: '"msg":"ready"' in piped.stderr())
        assert "Ctrl-C" not in piped.stderr()
        told = [json.loads(line) for line in piped.stderr().splitlines()]
        assert any("tools.pay.send" in line.get("problem", "") for line in told)
        assert [line["mode"] for line in told if line["msg"] == "ready"] == ["enforce"]


def waiting_call(proxy, path):
    answer = rawhttp.call(
        proxy.port, "POST", path, host="shop.test", headers=rawhttp.traced("c" * 32), body={"a": 1}
    )
    assert answer.status == 202, answer
    return answer.json()["operation"]


def approving(proxy, operation, who="ann"):
    token = proxy.directory / f"terminal-{who}"
    token.write_text(token_of(who) + "\n")
    return ["approvals", "approve", operation, "--admin", f"127.0.0.1:{proxy.ports['admin']}",
            "--admin-token-file", token]  # fmt: skip


@pytest.mark.parametrize(
    "word, status", [("y\n", "finished"), ("\n", "waiting"), ("n\n", "waiting")]
)
def test_a_person_at_a_terminal_is_shown_the_request_and_asked(proxy, double, token, word, status):
    path = f"/pay/{token}"
    operation = waiting_call(proxy, path)
    with Terminal(approving(proxy, operation)) as terminal:
        text = terminal.await_text(f"approve operation {operation}? [y/N]")
        assert f"POST {path}" in text and '{"a": 1}' in text and double.requests(path) == []
        terminal.types(word)
        assert terminal.process.wait(WAIT_MAX) == (0 if status == "finished" else 1)
    wait_until(lambda: proxy.shown(operation)["status"] == status)


def test_elsewhere_the_beginning_of_the_digest_is_enough(proxy, double, token):
    path = f"/pay/{token}"
    operation = waiting_call(proxy, path)
    digest = proxy.shown(operation)["digest"]
    ask = approving(proxy, operation)
    short = run_cli(*ask, "--digest", digest[:11])
    assert short.returncode == 2 and "12 digits of it at least" in short.stderr
    assert run_cli(*ask).returncode == 2, "nobody is asked in a pipe"
    other = run_cli(*ask, "--digest", "0" * 12)
    assert other.returncode == 1 and "is another request than the one of --digest" in other.stderr
    assert double.requests(path) == []
    assert run_cli(*ask, "--digest", digest[:12]).returncode == 0
    wait_until(lambda: proxy.shown(operation)["status"] == "finished")


def test_a_list_fits_the_terminal_and_has_colours_unless_somebody_wants_none(proxy, token):
    path = f"/plain/{token}"
    rawhttp.call(proxy.port, "POST", path, host="shop.test", body={"a": 1})
    ask = ["events", "list", "--newest", "--limit", "5", "--admin-token-file", proxy.token_path,
           "--admin", f"127.0.0.1:{proxy.ports['admin']}"]  # fmt: skip
    shown = {}
    for env in ({"TERM": "xterm", "NO_COLOR": ""}, {"TERM": "xterm", "NO_COLOR": "1"}):
        with Terminal(ask, env, columns=80) as terminal:
            terminal.process.wait(WAIT_MAX)
            shown[env["NO_COLOR"]] = terminal.await_text("plain.c")
    assert "\x1b[3" in shown[""] and "\x1b[" not in shown["1"]
    lines = shown["1"].splitlines()
    assert len(lines) > 2 and all(len(line) <= 80 for line in lines), lines
    assert max(map(len, run_cli(*ask).stdout.splitlines())) > 100, "a pipe gets all of it"


@pytest.mark.parametrize("columns", [80, 118])
@pytest.mark.parametrize("what", ["events", "flows", "operations", "approvals"])
def test_each_list_fits_a_usual_terminal_and_cuts_no_id_time_or_state(proxy, token, what, columns):
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"}
    for kind in ("plain", "pay"):
        path = f"/{kind}/{token}-{'long' * 20}"
        rawhttp.call(proxy.port, "POST", path, "shop.test", trace, b"{}")
    ask = [what, "list", "--admin", f"127.0.0.1:{proxy.ports['admin']}",
           "--admin-token-file", proxy.token_path]  # fmt: skip
    with Terminal(ask, {"NO_COLOR": "1"}, columns=columns) as terminal:
        assert terminal.process.wait(WAIT_MAX) == 0, terminal.read()
        lines = terminal.read().splitlines()
    assert len(lines) > 1 and all(len(line) <= columns for line in lines), lines
    whole = re.compile(r" *\d+  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z  [A-Za-z_]+( |$)")
    assert all(whole.match(line) for line in lines[1:]), lines


def test_at_a_terminal_rows_that_come_later_stand_under_those_before(double, tmp_path, token):
    with Recourse(tmp_path, standard(double)) as running:
        admin = ["--admin", f"127.0.0.1:{running.ports['admin']}", "--admin-token-file",
                 running.token_path, "--follow"]  # fmt: skip
        plain = {"NO_COLOR": "1"}
        with Terminal(["events", "list", *admin], plain, columns=118) as events:
            with Terminal(["flows", "list", *admin], plain, columns=118) as flows:
                for terminal, title in ((events, "EVENT "), (flows, "FLOW ID")):
                    terminal.await_text(title)
                for number in (1, 2):
                    trace = str(number) * 32
                    answer = rawhttp.call(running.port, "POST", f"/plain/{token}-{number}",
                                          host="shop.test", headers=rawhttp.traced(trace),
                                          body={"a": 1})  # fmt: skip
                    assert answer.status == 201
                    flows.await_text(trace[:8])
                    wait_until(lambda number=number: events.read().count("SUCCEEDED") == number,
                               events.read)  # fmt: skip
                for terminal, state in ((events, "SUCCEEDED"), (flows, "OPEN")):
                    titles, *rows = terminal.read().splitlines()
                    at = titles.index("PHASE")
                    assert len(rows) >= 2 and all(len(row) <= 118 for row in rows), rows
                    found = [row[at:].split()[0] for row in rows]
                    assert found.count(state) == 2, (titles, rows)


class Following:
    """A command that goes on until it is ended, into a pipe."""

    def __init__(self, running, *arguments):
        self.process = subprocess.Popen(
            [BINARY, *arguments, "--follow", "--json", "--admin",
             f"127.0.0.1:{running.ports['admin']}", "--admin-token-file", running.token_path],
            stdout=subprocess.PIPE, env=environment(), text=True,
        )  # fmt: skip
        # Who waits for a line in vain sees the end of the pipe.
        self.bound = threading.Timer(WAIT_MAX, self.process.kill)

    def __enter__(self):
        self.bound.start()
        return self.process

    def __exit__(self, *exc):
        self.bound.cancel()
        self.process.kill()
        self.process.wait(WAIT_MAX)
        self.process.stdout.close()


def next_line(process, holds):
    """The first line that holds."""
    return next(line for line in map(json.loads, process.stdout) if holds(line))


def test_events_and_flows_that_come_later_are_told_as_they_come(double, tmp_path, token):
    with Recourse(tmp_path, standard(double)) as running:
        with Following(running, "events", "list") as events:
            with Following(running, "flows", "list") as flows:
                for number in (1, 2):
                    path = f"/plain/{token}-{number}"
                    trace = str(number) * 32
                    answer = rawhttp.call(running.port, "POST", path, host="shop.test",
                                          headers=rawhttp.traced(trace), body={"a": 1})  # fmt: skip
                    assert answer.status == 201
                    found = next_line(events, lambda e, path=path: e.get("path") == path
                                      and e["phase"] == "SUCCEEDED")  # fmt: skip
                    assert found["trace_id"] == trace
                    assert next_line(flows, lambda f, trace=trace: f["flow"].endswith(trace))
