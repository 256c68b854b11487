"""Starts, watches and ends the real binary. Every wait has a bound."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess

from support.waiting import PATIENCE, WAIT_MAX, InVain, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("RECOURSE_BIN", str(ROOT / "build/dev/recourse"))
CODE = pathlib.Path(BINARY).read_bytes() if os.access(BINARY, os.R_OK) else b""
# Sanitizers keep freed memory back, so sizes measured under them say nothing.
MEASURABLE = b"__sanitizer_" not in CODE
# Only some presets build them in.
CRASH_POINTS = b"RECOURSE_CRASH_POINT" in CODE
FIGURES = "RECOURSE_FIGURES"  # the file that figures.py reads
START_MAX = WAIT_MAX
STOP_MAX = 90.0 * PATIENCE


# Files of CAs that a machine names to its clients: `recourse ca bundle` takes them in.
CA_VARIABLES = {"AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "CURL_CA_BUNDLE", "DENO_CERT",
                "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE",
                "SSL_CERT_FILE"}  # fmt: skip


def environment(extra=None):
    """Our own variables only: the caller's RECOURSE_* and CAs must not leak into the product."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RECOURSE_") and name not in CA_VARIABLES
    }
    # The tests' own directory may lie on whatever a container has.
    return {**kept, "RECOURSE_UNSAFE_FS": "true", **(extra or {})}


def run_cli(*arguments, env=None, timeout=WAIT_MAX):
    """Runs `recourse ARGUMENTS` to its end; gives the CompletedProcess with text."""
    return subprocess.run(
        [BINARY, *map(str, arguments)],
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class NotReady(Exception):
    """The process ended before it listened."""


class Recourse:
    """One `recourse run`, restartable over the same data directory and policy file.

    `directory` holds the policy, the ledger, the token, the ports file and the logs of every start.
    """

    def __init__(self, directory, policy, arguments=(), env=None, token=True):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.policy_path = self.directory / "policy.yaml"
        self.policy_path.write_text(policy)
        self.data = self.directory / "data"
        self.ports_path = self.directory / "ports.json"
        self.stdout_path = self.directory / "stdout.log"
        self.stderr_path = self.directory / "stderr.log"
        self.token_path = self.directory / "token"
        self.token = secrets.token_hex(16)
        self.token_path.write_text(self.token + "\n")
        self.token_path.chmod(0o600)
        self.with_token = token
        self.arguments = list(map(str, arguments))
        self.env = dict(env or {})
        self.binary = BINARY
        self.wrapper = []  # a command that replaces itself by the process
        self.process = self.last_counted = None
        self.armed = ""
        self.ports = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.kill()

    @property
    def pid(self):
        return self.process.pid

    @property
    def port(self):
        return self.ports["listen"]

    def command(self):
        token = ["--admin-token-file", str(self.token_path)] if self.with_token else []
        return [
            *self.wrapper, self.binary, "run",
            "--policy", str(self.policy_path),
            "--data", str(self.data),
            "--listen", "127.0.0.1:0",
            "--admin", "127.0.0.1:0",
            "--probes", "127.0.0.1:0",
            "--ports-file", str(self.ports_path),
            *token, *self.arguments,
        ]  # fmt: skip

    def spawn(self, env=None):
        """Starts the process without waiting for it to listen."""
        assert self.process is None or self.process.poll() is not None
        self.count_kill()
        self.armed = (env or self.env or {}).get("RECOURSE_CRASH_POINT", "")
        self.ports_path.unlink(missing_ok=True)
        with open(self.stdout_path, "ab") as out, open(self.stderr_path, "ab") as err:
            self.process = subprocess.Popen(
                self.command(),
                env=environment({**self.env, **(env or {})}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        return self

    def start(self, env=None):
        """Starts and waits until it listens. Raises NotReady when it ends before."""
        self.spawn(env)
        try:
            wait_until(self.listens, seconds=START_MAX)
        except InVain:
            self.kill()
            said = self.stderr()[-2000:]
            raise NotReady(f"no ports file in {START_MAX} s: {said}") from None
        self.ports = json.loads(self.ports_path.read_text())
        return self

    def listens(self):
        """Whether it has begun to. Raises NotReady when it ended before."""
        has_begun = self.ports_path.exists()
        if not has_begun and self.process.poll() is not None:
            raise NotReady(f"exit {self.process.returncode}: {self.stderr()[-2000:]}")
        return has_begun

    def running(self):
        return self.process is not None and self.process.poll() is None

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout=STOP_MAX):
        """Waits for the end; gives the exit code (negative: the signal)."""
        return self.process.wait(timeout)

    def stop(self):
        """SIGTERM, and the exit code."""
        self.terminate()
        return self.wait()

    def kill(self):
        """SIGKILL; harmless when it has ended already."""
        if self.running():
            self.armed = ""
            self.process.kill()
        if self.process is not None:
            self.process.wait(STOP_MAX)
            self.count_kill()

    def count_kill(self):
        """Once per process: by us, or by itself at the crash point that it was armed with."""
        process, path = self.process, os.environ.get(FIGURES)
        is_new = process is not None and process is not self.last_counted
        if path and is_new and process.returncode == -signal.SIGKILL:
            self.last_counted = process
            point = self.armed.split(":")[0]
            with open(path, "a", encoding="utf-8") as file:
                file.write("kills 1\n" + (f"kills at {point} 1\n" if point else ""))

    def stderr(self):
        return self.written(self.stderr_path)

    def stdout(self):
        return self.written(self.stdout_path)

    def written(self, path):
        """What is in the file; of a process that runs, the lines that are whole."""
        runs = self.running()
        text = path.read_text(errors="replace") if path.exists() else ""
        return text[: text.rfind("\n") + 1] if runs else text

    def access_log(self):
        return [json.loads(line) for line in self.stdout().splitlines()]

    def await_log(self, condition, count=1):
        """The access log lines that hold, once there are `count`: they come after the answer."""

        def enough():
            found = [line for line in self.access_log() if condition(line)]
            return len(found) >= count and found

        return wait_until(enough, lambda: self.stdout()[-2000:])

    def memory_kib(self):
        """Resident size now and at its highest."""
        sizes = {}
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                sizes[name] = int(value.split()[0])
        return sizes["VmRSS"], sizes["VmHWM"]

    # The other two listeners.
    def http(self, which, method, target, body=None, headers=None):
        """(status, body) of one request to the `admin` or `probes` listener."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[which], timeout=WAIT_MAX)
        try:
            connection.request(method, target, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def admin(self, method, target):
        status, body = self.http(
            "admin", method, target, headers={"Authorization": f"Bearer {self.token}"}
        )
        assert status == 200, (status, body)
        return json.loads(body)

    def probe(self, path):
        return self.http("probes", "GET", path)

    def metric(self, name):
        """The value of a series, by its name and labels as they stand there."""
        series = rf"^{re.escape(name)} (\S+)$"
        return float(re.search(series, self.probe("/metrics")[1], re.M).group(1))

    def held_bytes(self):
        """What is held for writes: one that waits has its part too."""
        return self.metric('recourse_buffered_bytes{of="writes"}')

    def events(self, **filters):
        """Every event that matches, over all pages, oldest first."""
        found, after = [], 0
        while True:
            query = "&".join(f"{k}={v}" for k, v in {**filters, "after": after}.items())
            page = self.admin("GET", f"/events?{query}&limit=1000")
            found += page["events"]
            if page["next"] is None:
                return found
            after = page["next"]

    def events_for(self, path):
        """Events of the operations on one path, oldest first."""
        return [event for event in self.events() if event["path"] == path]

    def await_phase(self, path, phases):
        """Waits until the last event of `path` has one of `phases`; gives that event."""
        wanted = (phases,) if isinstance(phases, str) else tuple(phases)

        def last():
            events = self.events_for(path)
            return events and events[-1]["phase"] in wanted and events[-1]

        def seen():
            events = [(e["phase"], e["cause"], e.get("detail")) for e in self.events_for(path)]
            return f"{path}: wanted {wanted}, events are {events}"

        return wait_until(last, seen)

    def cli(self, *arguments):
        """A CLI command against this process's admin listener."""
        return run_cli(
            *arguments,
            "--admin", f"127.0.0.1:{self.ports['admin']}",
            "--admin-token-file", self.token_path,
        )  # fmt: skip

    def verify(self):
        """The ledger's own check of its hash chain."""
        return self.admin("POST", "/ledger/verify")


@contextlib.contextmanager
def kept_whole(directory, policy):
    """A process for many tests, which at their end still runs on a whole ledger."""
    with Recourse(directory, policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.verify()["ok"]
