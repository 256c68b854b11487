"""A first start that cannot be is told of before anything is made on disk."""

import socket

import pytest

from support.policies import standard
from support.recourse import Recourse
from support.waiting import wait_until

OPERATORS = "version: 1\ntokens: [ { name: ann } ]\n"
MISSING = "{directory}/missing"
# What is wrong: (arguments, part of what has to be said).
WRONG = {
    "an address": (["--probes", "here"], "--probes: 'here' is not ADDRESS:PORT"),
    "a taken port": (["--admin", "127.0.0.1:{taken}"], "cannot listen on --admin"),
    "one port twice": (["--listen", "127.0.0.1:{free}", "--admin", "127.0.0.1:{free}"],
                       "--admin: port {free} is that of --listen already"),
    "one port twice, as a wildcard": (
        ["--listen", "0.0.0.0:{free}", "--probes", "127.0.0.1:{free}"],
        "--probes: port {free} is that of --listen already"),
    "an address of another machine": (["--listen", "192.0.2.1:0"], "cannot listen on --listen"),
    "the operators": (["--operators", "{directory}/operators.yaml"], "operators.yaml:2:11: error"),
    "no operators": (["--operators", MISSING], "missing"),
    "no token": (["--admin-token-file", MISSING], "--admin-token-file: cannot open"),
    "an empty token": (["--admin-token-file", "{directory}/empty"], "is empty"),
    "a certificate": (["--tls-cert", MISSING, "--tls-key", MISSING], "--tls-cert"),
    "the admin port's certificate": (["--admin-tls-cert", MISSING, "--admin-tls-key", MISSING],
                                     "--admin-tls-cert"),
    "a ledger key": (["--ledger-key-file", MISSING], "--ledger-key-file: cannot open"),
    "an install secret": (["--install-secret-file", "{directory}/empty"], "--install-secret-file"),
    "a head key": (["--ledger-head-key", MISSING], "--ledger-head-key: cannot open"),
    "an access log": (["--access-log", "{directory}/none/log"], "cannot open the access log"),
    "a collector": (["--otlp-endpoint", "http://127.0.0.1:4318", "--otlp-headers-file", MISSING],
                    "missing"),
    "a ports file": (["--ports-file", "{directory}/none/ports"], "--ports-file: cannot write"),
    "a directory of the CA": (["--ca", "{directory}/empty"], "--ca: "),
}  # fmt: skip


@pytest.fixture(name="ports")
def two_ports():
    """A port that somebody listens on, and one that nobody does."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with socket.create_server(("127.0.0.1", 0)) as free:
            number = free.getsockname()[1]
        yield {"taken": taken.getsockname()[1], "free": number}


class Started(Recourse):
    """With some of its options replaced."""

    def command(self):
        given = dict(zip(self.arguments[::2], self.arguments[1::2]))
        command = super().command()[: -len(self.arguments) or None]
        for option, value in given.items():
            if option in command:
                command[command.index(option) + 1] = value
            else:
                command += [option, value]
        return command


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_used_is_told_before_anything_is_made(double, tmp_path, ports, what):
    arguments, told = WRONG[what]
    facts = {"directory": tmp_path, **ports}
    (tmp_path / "operators.yaml").write_text(OPERATORS)
    (tmp_path / "empty").write_text("")
    running = Started(tmp_path, standard(double), token=False)
    running.arguments = ["--access-log", str(tmp_path / "access.log")]
    running.arguments += [argument.format(**facts) for argument in arguments]
    before = set(tmp_path.rglob("*"))
    running.spawn()
    assert running.wait() not in (0, 74, 75), running.stderr()
    assert told.format(**facts) in running.stderr()
    logs = {running.stdout_path, running.stderr_path}
    assert set(tmp_path.rglob("*")) - before == logs, running.stderr()


def test_ports_are_awaited_where_a_ledger_is_held_by_who_drains(double, tmp_path):
    """The process before holds its admin port until it has ended."""
    with Recourse(tmp_path / "first", standard(double)) as first:
        second = Started(tmp_path / "second", standard(double))
        second.data = first.data
        second.arguments = ["--admin", f"127.0.0.1:{first.ports['admin']}"]
        try:
            second.spawn()
            wait_until(lambda: "waiting for the process that holds the ledger" in second.stderr())
            assert first.stop() == 0
            wait_until(second.listens)
            assert second.stop() == 0, second.stderr()
        finally:
            second.kill()
