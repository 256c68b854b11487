"""A process that has nothing to do takes neither time nor the memory of what it did before."""

import contextlib
import pathlib
import socket
import time

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import MEASURABLE, WAIT_MAX, Recourse
from support.waiting import lasts

POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ] }}
"""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASKED = b"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n"
LOOKED_FOR = 5.0  # seconds
WAKINGS_MAX = 20  # in that time; a tick of 50 ms alone made 100 of them


def wakings(process):
    """How often a thread went to sleep by itself since the start: each had been woken before."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


def fewest_wakings(process):
    """In the quietest of some looks: what follows a call is over after a few of them."""
    fewest, deadline = None, time.monotonic() + WAIT_MAX
    while time.monotonic() < deadline and (fewest is None or fewest > WAKINGS_MAX):
        before = wakings(process)
        lasts(LOOKED_FOR)  # a rate is measured
        now = wakings(process) - before
        fewest = now if fewest is None else min(fewest, now)
    return fewest


class KeptPort(ServedPort):
    """Answers on connections that it keeps."""

    def __init__(self):
        super().__init__(KeptPort.session)

    def session(self, sock):
        with contextlib.suppress(OSError):
            while self.head(sock) is not None:
                sock.sendall(ANSWER)


@pytest.mark.skipif(not MEASURABLE, reason="a sanitizer has threads of its own")
def test_an_idle_process_sleeps_also_with_connections_that_asked_before(tmp_path):
    with KeptPort() as port, Recourse(tmp_path, POLICY.format(url=port.url)) as running:
        assert fewest_wakings(running) <= WAKINGS_MAX
        with contextlib.ExitStack() as kept:
            for _ in range(20):
                sock = kept.enter_context(
                    socket.create_connection(("127.0.0.1", running.port), WAIT_MAX)
                )
                sock.sendall(ASKED)
                assert sock.recv(65536).startswith(b"HTTP/1.1 200")
            assert fewest_wakings(running) <= WAKINGS_MAX
            assert rawhttp.call(running.port, "GET", "/a", host="shop.test").status == 200
        running.await_log(lambda line: True, 21)
