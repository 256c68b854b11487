"""What a backend has not acknowledged of a write never arrives once that was given up, or its
process was lost, also when the network is whole again minutes later: in clear, and within TLS.
Networks of the test's own (support/pod.py), of which one loses what has data, or ends a connection.
Of TLS only what is larger than its handshakes, so that these pass."""

import dataclasses
import json
import os
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from support import rawhttp
from support.certificates import Maker
from support.pod import AGENT, TOOLS, Pod, why_not
from support.postgres import Postgres
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
POLICY = """\
version: 1
backends: {{ shop: {{ url: "{url}", hosts: [ shop.test ], timeout: {timeout}{tls} }} }}
tools:
  orders.create:
    {{ match: POST shop /orders, effect: write, undo: none, reason: rows of tests }}
{more}"""
GIVEN_UP, KILLED, STOPPED, OTHER = 8081, 8082, 8083, 8084  # ports of the backend
LOSES = f"""\
table inet cut {{
  chain input {{
    type filter hook input priority 0;
    tcp dport {GIVEN_UP}-{OTHER} tcp flags & (%s) != 0 drop
    tcp dport {GIVEN_UP}-{OTHER} meta length > %d drop
  }}
}}
"""
REQUEST = b"POST /orders HTTP/1.1\r\nHost: shop.test\r\nContent-Length: %d\r\n\r\n%s"
HANDSHAKE_MAX = 1_200  # bytes of one of its packets from a client; full ones have 1,500


@dataclasses.dataclass(frozen=True)
class Wire:
    scheme: str
    body: dict
    loses: str
    least: int  # held of a write that is being sent
    certificate: str = ""
    ca: str = ""

    def tool(self, port):
        return f"{TOOLS}:{port}" + (f"={self.certificate}" if self.certificate else "")

    def policy(self, port, timeout, more=""):
        tls = f', tls: {{ ca_file: "{self.ca}" }}' if self.ca else ""
        url = f"{self.scheme}://{TOOLS}:{port}"
        return POLICY.format(url=url, timeout=timeout, tls=tls, more=more)

    def send_and_close(self, pod):
        """As a client does that thinks of nothing: its kernel goes on."""
        body = json.dumps(self.body).encode()

        def send():
            with socket.create_connection((TOOLS, OTHER)) as client:
                if self.ca:
                    context = ssl.create_default_context(cafile=self.ca)
                    # Unread tickets, which 1.3 sends behind its handshake, would make it a reset.
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                    client = context.wrap_socket(client, server_hostname=TOOLS)
                client.sendall(REQUEST % (len(body), body))
                client.close()

        pod.inside(send)


class Inside(Recourse):
    """In the agent's network."""

    def __init__(self, pod, wire, *arguments):
        super().__init__(*arguments)
        self.pod, self.wrapper, self.answer, self.body = pod, pod.wrap(), None, wire.body
        self.caller = threading.Thread(target=self.call)

    def call(self):
        try:
            self.answer = self.pod.inside(
                lambda: rawhttp.call(self.port, "POST", "/orders", headers=(), body=self.body)
            )
        except (OSError, rawhttp.Cut) as lost:
            self.answer = lost


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


@pytest.fixture
def pod(tmp_path):
    with Pod(tmp_path) as made:
        yield made


@pytest.fixture(params=("clear", "tls"))
def wire(request, tmp_path):
    if request.param == "clear":
        return Wire("http", {}, LOSES % ("psh | fin | rst", 65_535), 1)
    maker = Maker(tmp_path / "certificates")
    shown = maker.issue("tools", san=f"IP:{TOOLS}")
    return Wire("https", {"rows": "x" * 3 * HANDSHAKE_MAX}, LOSES % ("fin | rst", HANDSHAKE_MAX),
                2 * HANDSHAKE_MAX, str(shown.both), str(maker.cert))  # fmt: skip


@pytest.fixture
def group(tmp_path, wire):
    """Policy and arguments of two processes of one shared ledger."""
    secret, key = tmp_path / "install.secret", tmp_path / "ledger.key"
    secret.write_text("5e" * 32 + "\n")
    key.write_text(run_cli("ledger", "new-key").stdout)
    for file in (secret, key):
        file.chmod(0o600)
    with Postgres() as postgres:
        url = postgres.ledger()
        rules = wire.policy(STOPPED, "60s", f'ledger: {{ url: "{url}", group: shop/late }}\n')
        yield rules, ["--install-secret-file", secret, "--ledger-key-file", key]


def test_what_was_given_up_does_not_arrive_when_the_network_is_whole_again(
    pod, wire, group, tmp_path
):
    tool = pod.tool(*(wire.tool(port) for port in (GIVEN_UP, KILLED, STOPPED, OTHER)))
    with (
        Inside(pod, wire, tmp_path / "given-up", wire.policy(GIVEN_UP, "2s")) as given_up,
        Inside(pod, wire, tmp_path / "killed", wire.policy(KILLED, "60s")) as killed,
        Inside(pod, wire, tmp_path / "stopped", *group) as stopped,
        Recourse(tmp_path / "lives", *group) as lives,
    ):
        filter_by(pod, wire.loses)
        for one, port in ((given_up, GIVEN_UP), (killed, KILLED), (stopped, STOPPED)):
            one.caller.start()
            wait_until(lambda at=port: held(pod, at) >= wire.least)
        os.kill(stopped.pid, signal.SIGSTOP)
        killed.kill()
        left = {"killed": held(pod, KILLED)}
        wire.send_and_close(pod)
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
