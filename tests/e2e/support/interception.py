"""Recourse with a CA of its own between agents and a TLS backend, and raw clients for the rest."""

import contextlib
import json
import pathlib
import socket
import ssl
import subprocess

from support.certificates import Maker
from support.recourse import WAIT_MAX, Recourse, run_cli
from support.secure import SecureBackend, server_context
from support.waiting import wait_until

HOST = "api.shop.test"
POLICY = """\
version: 1
tunnels: [ "localhost:{blind}" ]
backends:
  shop:
    url: "https://localhost:{port}"
    hosts: [ {host}, 127.0.0.1 ]
    connect_timeout: 30s
    tls: {{ ca_file: "{ca}" }}
    intercept: {intercept}
  quiet: {{ url: "https://quiet.test", tls: {{ ca_file: "{ca}" }} }}
tools:
  shop.create:
    match: POST shop /w/{{token}}
    effect: write
    scope: caller
    undo: none
    reason: a row of a test is never undone
"""


class Lab:
    """A TLS backend, one that is no backend of the policy, Recourse, and what agents are given."""

    def __init__(self, directory, arguments=(), intercept=True, with_ca=True, name=HOST):
        self.directory = pathlib.Path(directory)
        self.maker = Maker(self.directory / "backend-ca")
        self.context = server_context(self.maker.issue("good"))
        self.backend = SecureBackend(self.context)
        self.blind = SecureBackend(self.context)
        self.ca = self.directory / "pod-ca"
        self.bundle = self.directory / "shared" / "bundle.pem"
        self.java = self.directory / "shared" / "trust.jks"
        self.bundle.parent.mkdir()
        own = ["--ca", self.ca, "--ca-bundle", self.bundle, "--ca-bundle", self.java]
        self.recourse = Recourse(
            self.directory / "recourse",
            self.policy(name, intercept),
            [*(own if with_ca else []), *arguments],
        )

    def policy(self, host=HOST, intercept=True):
        return POLICY.format(
            port=self.backend.port, blind=self.blind.port, ca=self.maker.cert, host=host,
            intercept="true" if intercept else "false",
        )  # fmt: skip

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        for part in (self.backend, self.blind, self.recourse):
            self.stack.enter_context(part)
        return self

    def __exit__(self, *exc):
        self.stack.close()

    def environment(self, *trusted):
        """What `recourse env` prints; with `trusted`, of the variables for the CA those alone."""
        printed = run_cli(
            "env", "--proxy", f"http://127.0.0.1:{self.recourse.port}", "--bundle", self.bundle,
            "--java-trust-store", self.java, "--format", "json",
        )  # fmt: skip
        variables = json.loads(printed.stdout)
        named = [name for name, value in variables.items() if value == str(self.bundle)]
        for name in set(named) - set(trusted) if trusted else ():
            del variables[name]
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.directory), **variables}

    def run(self, command, trusted=()):
        return subprocess.run(
            list(map(str, command)), env=self.environment(*trusted), cwd=self.directory,
            capture_output=True, text=True, timeout=2 * WAIT_MAX, check=False,
        )  # fmt: skip

    def curl(self, path, *arguments, host=HOST, data='{"a": 1}'):
        """One POST of curl; (status, headers in lower case, body)."""
        ended = self.run(
            ["curl", "-sS", "-i", "--suppress-connect-headers", "-d", data,
             "-H", "Content-Type: application/json", *arguments, f"https://{host}{path}"]
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        head, _, body = ended.stdout.partition("\n\n")
        lines = head.splitlines()
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        return int(lines[0].split()[1]), fields, body

    def s_client(self, *arguments, target=f"{HOST}:443", ca=None):
        """openssl's own client through CONNECT, with one request; (exit code, all that it says)."""
        ended = subprocess.run(
            ["openssl", "s_client", "-proxy", f"127.0.0.1:{self.recourse.port}", "-connect",
             target, "-CAfile", ca or self.ca / "ca.crt", "-verify_return_error", "-ign_eof",
             *arguments],
            input=f"GET /r HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n",
            capture_output=True, text=True, timeout=2 * WAIT_MAX, check=False,
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def interceptions(self):
        """The counter's values that are not zero."""
        _, text = self.recourse.probe("/metrics")
        lines = [line for line in text.splitlines() if line.startswith("recourse_interceptions")]
        counted = {line.split('"')[1]: int(float(line.split()[-1])) for line in lines}
        return {result: count for result, count in counted.items() if count}

    def await_interceptions(self, *accepted):
        """Waits until what was counted is one of these."""
        wait_until(lambda: self.interceptions() in accepted, self.interceptions)


class MemoryClient:
    """TLS whose bytes a test moves itself, so that it decides when which of them are sent."""

    def __init__(self, ca, name=HOST):
        context = ssl.create_default_context(cafile=ca)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)

    def hello(self):
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def drive(self, sock, step):
        """Repeats `step` until it needs nothing more from the peer; gives what it returns."""
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                sock.sendall(self.outgoing.read())
                data = sock.recv(65536)
                self.incoming.write(data) if data else self.incoming.write_eof()
                continue
            sock.sendall(self.outgoing.read())
            return done


def read_head(sock):
    """Up to the end of the answer to CONNECT, and nothing after it."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        more = sock.recv(1)
        assert more, data
        data += more
    return data


def connect(port):
    sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT_MAX)
    sock.settimeout(WAIT_MAX)
    return sock
