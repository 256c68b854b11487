"""`recourse redirect node` writes the rules into the networks of pods that wait for them without
rights (`recourse redirect await`), once, and nowhere else. Networks of the tests' own
(support/pod.py)."""

import os
import shutil
import subprocess
import tempfile

import pytest

from support.pod import OWN_UID, Pod, why_not
from support.recourse import BINARY, STOP_MAX, WAIT_MAX
from support.waiting import wait_until

WHY_NOT = why_not()
# One at a time: it serves every pod of the machine.
pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
              pytest.mark.xdist_group("redirect node")]  # fmt: skip
WAITER_UID = OWN_UID + 1
TABLE = "table inet recourse {"
LED = "connections to TCP ports 80, 443 go to port 19083"


@pytest.fixture
def binary():
    """One that users without rights can reach."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        # Its name is what it is known by.
        yield shutil.copy(BINARY, f"{directory}/recourse")


@pytest.fixture
def pod(tmp_path):
    with Pod(tmp_path) as made:
        yield made


@pytest.fixture
def node(tmp_path):
    log = tmp_path / "node.log"
    with open(log, "wb") as out:
        process = subprocess.Popen([BINARY, "redirect", "node"], stdout=out, stderr=out)
    yield log
    process.terminate()
    assert process.wait(STOP_MAX) == 0


def await_rules(pod, binary, *options, longest=f"{WAIT_MAX:.0f}s"):
    return pod.run(binary, "redirect", "await", "--for", longest, *options, uid=WAITER_UID,
                   timeout=2 * WAIT_MAX)  # fmt: skip


def test_a_pod_that_waits_gets_the_rules_that_it_would_install(pod, binary, node):
    options = ["--uid", OWN_UID, "--ports", "80,8443", "--exclude-cidrs", "10.96.0.0/12"]
    done = await_rules(pod, binary, *options)
    assert done.returncode == 0 and "TCP ports 80, 8443 go to port 19083" in done.stdout, done
    held = pod.rules()
    pod.run(BINARY, "redirect", "install", *options, timeout=WAIT_MAX)
    assert held == pod.rules() and TABLE in held
    wait_until(lambda: "80, 8443 go to port 19083, but for those of user" in node.read_text())


def test_it_waits_for_a_node_that_comes_later(pod, binary, tmp_path):
    command = pod.wrap("setpriv", "--reuid", WAITER_UID, "--clear-groups", binary, "redirect",
                       "await")  # fmt: skip
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with open(tmp_path / "log", "wb") as out:
        late = subprocess.Popen([BINARY, "redirect", "node"], stdout=out, stderr=out)
    said, _ = waiting.communicate(timeout=2 * WAIT_MAX)
    late.terminate()
    late.wait(STOP_MAX)
    assert waiting.returncode == 0 and LED in said


def test_without_a_node_it_ends_with_the_reason(pod, binary):
    done = await_rules(pod, binary, longest="1s")
    assert done.returncode == 1 and "`recourse redirect node` (the chart's" in done.stderr, done
    assert TABLE not in pod.rules()


def test_rules_stay_whoever_asks_later(pod, binary, node):
    """An agent may start such a process, to have its own user left alone."""
    assert await_rules(pod, binary).returncode == 0
    before = pod.rules()

    def is_told():
        """To another port, so that it waits; as often as the node does not look meanwhile."""
        done = await_rules(pod, binary, "--uid", WAITER_UID, "--port", "29083", longest="2s")
        assert done.returncode == 1 and pod.rules() == before
        return "its network has rules, which stay" in node.read_text()

    wait_until(is_told)


def test_the_network_of_the_machine_is_left_alone(binary, node):
    def is_told():
        done = subprocess.run(
            ["setpriv", "--reuid", str(WAITER_UID), "--clear-groups", binary, "redirect", "await",
             "--for", "2s", "--port", "29983"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1, done
        return "the network of the machine, which is left alone" in node.read_text()

    wait_until(is_told)
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    assert "recourse" not in tables.stdout
