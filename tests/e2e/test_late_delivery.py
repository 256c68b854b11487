"""What a backend has not acknowledged of a write never arrives once that was given up, or its
process was lost, also when the network is whole again minutes later. Networks of the test's own
(support/pod.py), of which one loses what has data, or ends a connection."""

import os
import signal
import socket
import subprocess
import threading

import pytest

from support import rawhttp
from support.pod import AGENT, TOOLS, Pod, why_not
from support.postgres import Postgres
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
POLICY = """\
version: 1
backends: {{ shop: {{ url: "http://{tools}:{port}", hosts: [ shop.test ], timeout: {timeout} }} }}
tools:
  orders.create:
    {{ match: POST shop /orders, effect: write, undo: none, reason: rows of tests }}
{more}"""
GIVEN_UP, KILLED, STOPPED, OTHER = 8081, 8082, 8083, 8084  # ports of the backend
LOSES = f"""\
table inet cut {{
  chain input {{
    type filter hook input priority 0;
    tcp dport {GIVEN_UP}-{OTHER} tcp flags & (psh | fin | rst) != 0 drop
  }}
}}
"""
REQUEST = b"POST /orders HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 2\r\n\r\n{}"


class Inside(Recourse):
    """In the agent's network."""

    def __init__(self, pod, *arguments):
        super().__init__(*arguments)
        self.pod, self.wrapper, self.answer = pod, pod.wrap(), None
        self.caller = threading.Thread(target=self.call)

    def call(self):
        try:
            self.answer = self.pod.inside(
                lambda: rawhttp.call(self.port, "POST", "/orders", headers=(), body={})
            )
        except (OSError, rawhttp.Cut) as lost:
            self.answer = lost


def policy(port, timeout, more=""):
    return POLICY.format(tools=TOOLS, port=port, timeout=timeout, more=more)


def held(pod, port):
    """Bytes for that port of the backend that the agent's kernel goes on to send."""

    def table():
        with open("/proc/thread-self/net/tcp", encoding="ascii") as file:
            return [line.split() for line in file.readlines()[1:]]

    rows = [row for row in pod.inside(table) if row[2].endswith(f":{port:04X}")]
    return sum(int(row[4].partition(":")[0], 16) for row in rows)


def filter_by(pod, rules):
    subprocess.run(["ip", "netns", "exec", pod.tools, "nft", "-f", "-"], input=rules, text=True,
                   check=True)  # fmt: skip


def send_and_close(pod):
    """As a client does that thinks of nothing: its kernel goes on."""

    def send():
        with socket.create_connection((TOOLS, OTHER)) as client:
            client.sendall(REQUEST)

    pod.inside(send)


@pytest.fixture
def pod(tmp_path):
    with Pod(tmp_path) as made:
        yield made


@pytest.fixture
def group(tmp_path):
    """Policy and arguments of two processes of one shared ledger."""
    secret, key = tmp_path / "install.secret", tmp_path / "ledger.key"
    secret.write_text("5e" * 32 + "\n")
    key.write_text(run_cli("ledger", "new-key").stdout)
    for file in (secret, key):
        file.chmod(0o600)
    with Postgres() as postgres:
        url = postgres.ledger()
        rules = policy(STOPPED, "60s", f'ledger: {{ url: "{url}", group: shop/late }}\n')
        yield rules, ["--install-secret-file", secret, "--ledger-key-file", key]


def test_what_was_given_up_does_not_arrive_when_the_network_is_whole_again(pod, group, tmp_path):
    tool = pod.tool(*(f"{TOOLS}:{port}" for port in (GIVEN_UP, KILLED, STOPPED, OTHER)))
    with (
        Inside(pod, tmp_path / "given-up", policy(GIVEN_UP, "2s")) as given_up,
        Inside(pod, tmp_path / "killed", policy(KILLED, "60s")) as killed,
        Inside(pod, tmp_path / "stopped", *group) as stopped,
        Recourse(tmp_path / "lives", *group) as lives,
    ):
        filter_by(pod, LOSES)
        for one, port in ((given_up, GIVEN_UP), (killed, KILLED), (stopped, STOPPED)):
            one.caller.start()
            wait_until(lambda at=port: held(pod, at) > 0)
        os.kill(stopped.pid, signal.SIGSTOP)
        killed.kill()
        left = {"killed": held(pod, KILLED)}
        send_and_close(pod)
        given_up.caller.join()
        left["given up"] = held(pod, GIVEN_UP)
        assert given_up.answer.status == 504 and given_up.answer.outcome == "unknown"
        # From now on somebody else may send it.
        assert lives.await_phase("/orders", "UNCERTAIN")["cause"] == "owner_lost"
        left["stopped"] = held(pod, STOPPED)
        filter_by(pod, "delete table inet cut\n")
        # Begun last, so that all others would have been tried again by then.
        wait_until(lambda: any(one["at"].endswith(str(OTHER)) for one in tool.requests()))
        arrived = [one["at"] for one in tool.requests() if one["peer"] == AGENT]
        assert arrived == [f"{TOOLS}:{OTHER}"]
        assert left == {"killed": 0, "given up": 0, "stopped": 0}
        os.kill(stopped.pid, signal.SIGCONT)
        stopped.caller.join()
        assert stopped.answer.outcome == "unknown"
