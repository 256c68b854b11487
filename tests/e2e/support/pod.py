"""A pod's network: an agent's namespace and one with its tools, joined by a veth pair.

Both are made here and removed at the end, whatever happened. `python3 pod.py RECORD
ADDRESS:PORT[=CERTIFICATE]...` is a tool in the other namespace, with TLS where it has a
certificate: it appends a JSON line to RECORD for each request, before it answers, and prints a line
once it listens.
"""

import contextlib
import ctypes
import functools
import http.server
import itertools
import json
import os
import pathlib
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from support.recourse import BINARY, Recourse  # noqa: E402
from support.waiting import wait_until  # noqa: E402

AGENT, TOOLS, ELSEWHERE = "10.77.0.1", "10.77.0.2", "10.77.0.3"
AGENT6, TOOLS6 = "fd77::1", "fd77::2"
HOSTS = f"""\
127.0.0.1 localhost
::1 localhost
{TOOLS} four.test far.test other.test
{TOOLS6} six.test
"""
OWN_UID = 19080  # of Recourse
REDIRECT_PORT = 19083
CLONE_NEWNET = 0x40000000
PROGRAMS = {"ip": "iproute2", "nft": "nftables", "setpriv": "util-linux"}


@functools.cache
def why_not():
    """Why no pod can be made here; empty when one can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            return f"needs {program} (package {package})"
    name = f"rc-try-{secrets.token_hex(4)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"may not make network namespaces: {made.stderr.strip()}"
    try:
        chain = "type nat hook output priority 0; tcp dport 1 redirect;"
        tried = subprocess.run(
            ["ip", "netns", "exec", name, "nft", "-f", "-"],
            input=f"table inet x {{ chain y {{ {chain} }}; }}",
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return "" if tried.returncode == 0 else f"nft cannot redirect here: {tried.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


class Pod:
    """Use as a context manager: what was started or made by it is gone afterwards."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        token = secrets.token_hex(4)
        self.agent, self.tools = f"rc-{token}-agent", f"rc-{token}-tools"
        self.etc = pathlib.Path("/etc/netns") / self.agent
        self.records = itertools.count(1)
        self.started = []

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for process in self.started:
            process.stdin.close()
            process.wait()
        for name in (self.agent, self.tools):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        shutil.rmtree(self.etc, ignore_errors=True)
        with contextlib.suppress(OSError):  # others may have files there
            self.etc.parent.rmdir()

    def make(self):
        for name in (self.agent, self.tools):
            ip("netns", "add", name)
        # `ip netns exec` shows these to what it runs.
        self.etc.mkdir(parents=True)
        (self.etc / "hosts").write_text(HOSTS)
        (self.etc / "nsswitch.conf").write_text("hosts: files\n")
        ip("-n", self.agent, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
           "netns", self.tools)  # fmt: skip
        ends = (
            (self.agent, AGENT, AGENT6, TOOLS, TOOLS6),
            (self.tools, TOOLS, TOOLS6, AGENT, AGENT6),
        )
        for name, v4, v6, peer, peer6 in ends:
            ip("-n", name, "address", "add", f"{v4}/24", "dev", "eth0")
            ip("-n", name, "address", "add", f"{v6}/64", "dev", "eth0", "nodad")
            if name == self.tools:
                ip("-n", name, "address", "add", f"{ELSEWHERE}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "default", "via", peer)
            ip("-n", name, "-6", "route", "add", "default", "via", peer6)

    def wrap(self, *command):
        """The command, inside the agent's namespace."""
        return ["ip", "netns", "exec", self.agent, *map(str, command)]

    def run(self, *command, timeout, uid=None, **options):
        """Runs a command of the agent's to its end; gives the CompletedProcess with text."""
        if uid is not None:
            command = ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", *command)
        return subprocess.run(
            self.wrap(*command), capture_output=True, text=True, timeout=timeout, check=False,
            **options,
        )  # fmt: skip

    def inside(self, function, name=None):
        """What `function()` gives when its sockets are made in the agent's namespace, or `name`."""
        with open(f"/run/netns/{name or self.agent}", encoding="ascii") as namespace:
            box = {}

            def work():
                # Of this thread alone.
                assert LIBC.setns(namespace.fileno(), CLONE_NEWNET) == 0, os.strerror(
                    ctypes.get_errno()
                )
                try:
                    box["value"] = function()
                except BaseException as error:  # told to the caller below
                    box["error"] = error

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        if "error" in box:
            raise box["error"]
        return box["value"]

    def tool(self, *addresses):
        """A tool that listens on those ADDRESS:PORT[=CERTIFICATE] of the other namespace."""
        record = self.directory / f"tool-{next(self.records)}.jsonl"
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.tools, sys.executable, __file__, str(record), *addresses],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        assert process.stdout.readline() == "ready\n", "the tool did not start"
        process.stdout.close()
        return Tool(record)

    def rules(self):
        """The tables of the agent's namespace, as nft prints them."""
        return ip("netns", "exec", self.agent, "nft", "list", "ruleset")


@contextlib.contextmanager
def sidecar(pod, policy, *arguments):
    """A Sidecar that runs; in a directory that its user can reach, which the tests' own may not."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        with Sidecar(pod, directory, policy, arguments) as running:
            yield running


class Sidecar(Recourse):
    """Recourse in the agent's namespace, under a user of its own."""

    def __init__(self, pod, directory, policy, arguments=()):
        super().__init__(f"{directory}/recourse", policy, arguments)
        self.pod = pod
        binary = shutil.copy(BINARY, f"{directory}/binary")  # the build may be for root alone
        self.wrapper = pod.wrap(
            "setpriv", "--reuid", OWN_UID, "--regid", OWN_UID, "--clear-groups", binary
        )
        for path in (self.directory, *self.directory.iterdir()):
            os.chown(path, OWN_UID, OWN_UID)

    def command(self):
        return [part for part in super().command() if part != BINARY]

    def http(self, *arguments, **options):
        ask = super().http
        return self.pod.inside(lambda: ask(*arguments, **options))

    def counted(self, name, **labels):
        """The value of one series of a counter."""
        status, text = self.probe("/metrics")
        assert status == 200
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        for line in text.splitlines():
            if line.startswith(f"{name}{{") and all(one in line for one in wanted):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def await_counted(self, name, count=1, **labels):
        wait_until(
            lambda: self.counted(name, **labels) >= count, lambda: self.probe("/metrics")[1]
        )


class Tool:
    def __init__(self, record):
        self.record = record

    def requests(self, path=None):
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [line for line in lines if path in (None, line["path"])]


LIBC = ctypes.CDLL(None, use_errno=True)


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size).decode()
        line = {
            "method": self.command, "path": self.path, "host": self.headers["Host"], "body": body,
            "at": self.server.name, "via": self.headers.get("Via"),
            "peer": self.client_address[0],
        }  # fmt: skip
        self.server.write(json.dumps(line) + "\n")
        answer = json.dumps({"id": f"e{time.time_ns()}"}).encode()
        self.send_response(201 if self.command == "POST" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, name, record):
        self.name, _, self.certificate = name.partition("=")
        host, _, port = self.name.rpartition(":")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.record = record
        super().__init__((host.strip("[]"), int(port)), Handler)
        if self.certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self.certificate)
            # The handshake is made by the first read, on the thread of the connection.
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def server_bind(self):
        # Without the look-up of a name for the address.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "tool", self.server_address[1]

    def write(self, line):
        os.write(self.record, line.encode())


def main():
    record = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for name in sys.argv[2:]:
        threading.Thread(target=Server(name, record).serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
