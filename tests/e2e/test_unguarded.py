"""Connections of a pod that go to backends past Recourse are counted, whichever program makes them
(support/pod.py: namespaces, with Recourse under a user of its own)."""

import contextlib
import socket

import pytest

from support.pod import REDIRECT_PORT, TOOLS, TOOLS6, Pod, sidecar, why_not
from support.recourse import BINARY, WAIT_MAX

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
POLICY = """\
version: 1
unlisted: { reads: pass, writes: deny }
backends:
  four: { url: "http://four.test" }
  six: { url: "http://six.test" }
  nowhere: { url: "http://nowhere.test" }
"""
COUNTED = "recourse_unguarded_connections_total"


@pytest.fixture(scope="module")
def pod(tmp_path_factory):
    with Pod(tmp_path_factory.mktemp("pod")) as made:
        made.tool(f"{TOOLS}:80", f"[{TOOLS6}]:80", f"{TOOLS}:8080")
        yield made


@contextlib.contextmanager
def connected(pod, *to):
    """A connection of the agent's that stays open."""
    sock = pod.inside(lambda: socket.create_connection(to, timeout=WAIT_MAX))
    with sock:
        yield sock


def test_what_goes_past_it_is_counted_once_and_told(pod):
    with sidecar(pod, POLICY, "--watch-unguarded") as recourse:
        with connected(pod, TOOLS, 8080), connected(pod, TOOLS, 80):
            recourse.await_counted(COUNTED, backend="four")
            with connected(pod, TOOLS6, 80):
                recourse.await_counted(COUNTED, backend="six")
            # The look that found the second one saw the first one again.
            assert recourse.counted(COUNTED, backend="four") == 1
        with connected(pod, TOOLS, 80):
            recourse.await_counted(COUNTED, 2, backend="four")
        assert recourse.counted(COUNTED, backend="six") == 1
        assert recourse.counted(COUNTED, backend="nowhere") == 0
        assert "went past Recourse" in recourse.stderr()
        assert recourse.stop() == 0, recourse.stderr()[-4000:]


def test_what_comes_through_it_is_not_counted(pod):
    with sidecar(pod, POLICY, "--watch-unguarded", "--redirect", REDIRECT_PORT) as recourse:
        done = pod.run(BINARY, "redirect", "install", "--ports", "80", timeout=WAIT_MAX)
        assert done.returncode == 0, done
        try:
            with connected(pod, TOOLS, 80) as led:
                led.sendall(b"GET / HTTP/1.1\r\nHost: four.test\r\n\r\n")
                assert led.recv(12) == b"HTTP/1.1 200"
                pod.run(BINARY, "redirect", "remove", timeout=WAIT_MAX)
                with connected(pod, TOOLS6, 80):
                    recourse.await_counted(COUNTED, backend="six")
                assert recourse.counted(COUNTED, backend="four") == 0
        finally:
            pod.run(BINARY, "redirect", "remove", timeout=WAIT_MAX)


def test_nobody_looks_unless_asked(pod):
    with sidecar(pod, POLICY) as recourse:
        assert COUNTED not in recourse.probe("/metrics")[1]
