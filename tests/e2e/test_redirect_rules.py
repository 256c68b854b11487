"""`recourse redirect`: the rules that it prints are those that it installs, once, and removes; they
redirect what they say and nothing else. In a pod's network of the tests' own (support/pod.py)."""

import os
import shutil
import socket
import threading

import pytest

from support.pod import OWN_UID, TOOLS, TOOLS6, Pod, why_not
from support.recourse import BINARY, WAIT_MAX, run_cli

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
OTHER_UID = 61234
PORTS = (53, 80, 443, 853, 8080)
LANDED, PASSED, REFUSED = "at Recourse's port", "at the tool", "refused"


@pytest.fixture
def pod(tmp_path):
    with Pod(tmp_path) as made:
        yield made


def redirect(pod, *arguments, uid=None):
    return pod.run(BINARY, "redirect", *arguments, timeout=WAIT_MAX, uid=uid)


def install(pod, *arguments):
    done = redirect(pod, "install", *arguments)
    assert done.returncode == 0 and done.stdout.startswith("installed: connections to "), done


PROBE = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as sock:
    sock.settimeout(%f)
    try:
        sock.connect((sys.argv[1], int(sys.argv[2])))
        sock.sendall(b"GET /probe HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
        print(sock.recv(4).decode())
    except ConnectionRefusedError:
        print("refused")
""" % WAIT_MAX


@pytest.fixture
def landing(pod):
    """Where a connection of the agent's to a tool's address ends; `listener` answers "here"."""
    def listen():
        sockets = []
        for host in ("127.0.0.1", "::1"):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.socket(family)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, 19083))
            listener.listen(16)
            sockets.append(listener)
        return sockets

    def serve(listener):
        while True:
            try:
                with listener.accept()[0] as sock:
                    sock.recv(1024)
                    sock.sendall(b"here")
            except OSError:
                return

    pod.tool(*(f"{host}:{port}" for host in (TOOLS, f"[{TOOLS6}]") for port in PORTS))
    listeners = pod.inside(listen)
    threads = [threading.Thread(target=serve, args=(one,)) for one in listeners]
    for thread in threads:
        thread.start()

    def connect(host, port, uid=OTHER_UID):
        done = pod.run("/usr/bin/python3", "-c", PROBE, host, port, timeout=2 * WAIT_MAX, uid=uid)
        words = {"here": LANDED, "HTTP": PASSED, "refused": REFUSED}
        return words.get(done.stdout.strip(), done)

    yield connect
    for one in listeners:
        one.shutdown(socket.SHUT_RDWR)
        one.close()
    for thread in threads:
        thread.join()


def test_what_is_shown_is_what_nft_then_holds(pod):
    options = ["--uid", 7, "--port", 15001, "--ports", "all", "--exclude-ports", "22,5432",
               "--exclude-cidrs", "10.96.0.0/12,fd00::/8"]  # fmt: skip
    install(pod, *options)
    held = pod.rules()
    shown = redirect(pod, "show", *options)
    assert shown.returncode == 0
    # nft prints what it holds as it reads it, but for its indentation.
    body = shown.stdout[shown.stdout.index("table inet recourse {") :]
    words = {"priority -110": "priority -110", "priority 0": "priority filter"}
    for said, printed in words.items():
        body = body.replace(said, printed)
    assert body.split() == held.split(), held


def test_installed_twice_is_installed_once_and_the_last_one_counts(pod):
    install(pod)
    once = pod.rules()
    install(pod)
    assert pod.rules() == once
    install(pod, "--ports", "80")
    held = pod.rules()
    assert held.count("redirect to :19083") == 1 and "tcp dport 80 redirect" in held, held


def test_removal_leaves_nothing_and_may_be_repeated(pod):
    for _ in range(2):
        done = redirect(pod, "remove")
        assert done.returncode == 0 and done.stderr == "", done
        assert pod.rules() == ""
        install(pod)
    done = redirect(pod, "remove")
    assert done.returncode == 0 and pod.rules() == ""


MESH = """table inet mesh {
  chain out { type nat hook output priority -100; tcp dport 80 redirect to :15001; }
}
"""


def test_beside_a_mesh_agents_come_here_and_recourse_goes_there(pod, landing):
    assert pod.run("nft", "-f", "-", timeout=WAIT_MAX, input=MESH).returncode == 0
    mesh = pod.rules()
    install(pod)
    assert mesh in pod.rules()
    assert [landing(TOOLS, 80), landing(TOOLS6, 80)] == [LANDED, LANDED]
    assert landing(TOOLS, 80, OWN_UID) == REFUSED, "nobody listens at the mesh's port"
    redirect(pod, "remove")
    assert pod.rules() == mesh


@pytest.mark.parametrize("host", [TOOLS, TOOLS6])
def test_only_what_is_listed_is_redirected_and_never_recourse_itself(pod, landing, host):
    assert landing(host, 80) == PASSED
    install(pod)
    assert [landing(host, port) for port in (80, 443, 8080)] == [LANDED, LANDED, PASSED]
    assert [landing(host, port, OWN_UID) for port in (80, 443, 8080)] == [PASSED] * 3
    install(pod, "--ports", "all", "--exclude-ports", "443")
    assert [landing(host, port) for port in (80, 443, 8080)] == [LANDED, PASSED, LANDED]
    install(pod, "--ports", "all")
    assert [landing(host, port) for port in PORTS] == [PASSED, LANDED, LANDED, PASSED, LANDED]
    install(pod, "--exclude-cidrs", f"{host}")
    assert [landing(host, port) for port in (80, 443)] == [PASSED, PASSED]
    install(pod, "--uid", OTHER_UID)
    assert [landing(host, 80, OTHER_UID), landing(host, 80, OWN_UID)] == [PASSED, LANDED]
    redirect(pod, "remove")
    assert landing(host, 80) == PASSED


def test_a_redirect_to_nobody_fails_closed(pod, landing):
    install(pod, "--port", 19099)
    assert [landing(host, 80) for host in (TOOLS, TOOLS6)] == [REFUSED, REFUSED]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.77.0.1", "fd77::1"])
def test_the_pods_own_addresses_are_left_alone(pod, landing, host):
    """Its probes and neighbours in the pod are reached as ever: nobody listens there now."""
    install(pod, "--ports", "all")
    assert landing(host, 8080) == REFUSED


def datagram(host, port, uid):
    return f"""
import os, socket
os.setuid({uid})
family = socket.AF_INET6 if ":" in "{host}" else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as sock:
    try:
        sock.sendto(b"x", ("{host}", {port}))
        print("sent")
    except PermissionError:
        print("dropped")
"""


@pytest.mark.parametrize("host", [TOOLS, TOOLS6])
def test_quic_is_dropped_but_for_recourse(pod, host):
    def send(port, uid=OTHER_UID):
        code = datagram(host, port, uid)
        return pod.run("/usr/bin/python3", "-c", code, timeout=WAIT_MAX).stdout.strip()

    assert send(443) == "sent"
    install(pod)
    assert [send(443), send(53), send(443, OWN_UID)] == ["dropped", "sent", "sent"]
    install(pod, "--ports", "80")
    assert send(443) == "sent"


def test_without_the_right_to_do_so_it_says_what_is_needed(pod):
    with_it = shutil.copy(BINARY, pod.directory / "recourse")
    for part in (pod.directory, *pod.directory.parents):
        if os.stat(part).st_mode & 0o001 == 0:
            os.chmod(part, os.stat(part).st_mode | 0o001)
    done = pod.run(with_it, "redirect", "install", timeout=WAIT_MAX, uid=OTHER_UID)
    assert done.returncode == 1 and "NET_ADMIN" in done.stderr, done
    assert pod.rules() == ""


def nft_that(directory, script):
    directory.mkdir()
    (directory / "nft").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "nft").chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


def test_what_nft_says_is_passed_on_with_advice(tmp_path):
    says = 'echo "-:4:3-9: Error: Could not process rule: No such file or directory" >&2; exit 1'
    done = run_cli("redirect", "install", env=nft_that(tmp_path / "bin", says))
    assert done.returncode == 1 and done.stdout == "", done
    assert "Could not process rule" in done.stderr and "nft_chain_nat" in done.stderr


def test_nft_gets_the_script_on_its_standard_input_and_no_shell(tmp_path):
    says = f'echo "$@" > {tmp_path}/arguments; cat > {tmp_path}/script'
    done = run_cli("redirect", "install", "--uid", "0", env=nft_that(tmp_path / "bin", says))
    assert done.returncode == 0 and "runs as root" in done.stderr, done
    assert (tmp_path / "arguments").read_text() == "-f -\n"
    shown = run_cli("redirect", "show", "--uid", "0")
    assert (tmp_path / "script").read_text() == shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ports", "80,0"], "'0' is not a port from 1 to 65535, nor the word all"),
        (["--exclude-ports", "22;drop"], "'22;drop' is not a port"),
        (["--exclude-cidrs", "10.0.0.1/8"], "'10.0.0.1/8' is not a network such as"),
        (["--exclude-cidrs", "x"], "'x' is not a network such as"),
        (["--uid", "-1"], "--uid: '-1'"),
        (["--port", "70000"], "--port: '70000'"),
    ],
)
def test_a_wrong_option_is_told(arguments, said):
    done = run_cli("redirect", "show", *arguments)
    assert done.returncode == 2 and said in done.stderr and done.stdout == "", done
