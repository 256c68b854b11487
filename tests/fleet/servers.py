"""Databases that a fleet is tried on: a PostgreSQL of our own, or any that somebody has."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import urllib.parse

from support.postgres import Postgres, name_of
from support.waiting import InVain, lasts, wait_until

SQL_MAX = 60.0
BACK_MAX = 120.0


class Wire:
    """The process of wire.py."""

    def __init__(self):
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("wire.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, **command):
        with self.lock:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def link(self, target):
        return self.ask(link=target)["port"]

    def cut(self, ports, how):
        self.ask(cut=list(ports), how=how)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(SQL_MAX)
        self.process.stdout.close()


class Database:
    """What all of them are: addresses, a way to ask, and what may befall them.

    `targets`: where its servers listen; `url`: as libpq knows it; `folders`: of the servers, where
    they are our own, which stay after stop().
    """

    name = "a database"
    targets, url, folders = (), "", ()

    def through(self, ports):
        """The address of the ledger by way of these ports of 127.0.0.1, one for each target."""
        raise NotImplementedError

    def sql(self, statement):
        """What it gives: a list of rows, each a list of texts."""
        done = subprocess.run(
            ["psql", self.url, "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", statement],
            capture_output=True, text=True, timeout=SQL_MAX, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise ConnectionError(done.stderr.strip())
        return [line.split("\t") for line in done.stdout.splitlines()]

    def answers(self):
        with contextlib.suppress(ConnectionError, subprocess.TimeoutExpired):
            return bool(self.sql("SELECT 1"))
        return False

    def await_back(self):
        wait_until(self.answers, f"{self.name} does not come back", BACK_MAX)

    def faults(self):
        """{name: function of the dice}; each lasts as long as the fault does."""
        return {}

    def logs(self):
        """Files of the servers in which no plaintext may stand."""
        return [path for folder in self.folders for path in pathlib.Path(folder).rglob("*")]


def processes_under(pid):
    """The process and its children."""
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *map(int, path.read_text().split())] if path.exists() else []


def is_gone(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all(pids):
    signal_all(pids, signal.SIGKILL)
    wait_until(lambda: all(map(is_gone, pids)), "a killed process stays")


class Own(Database):
    """One PostgreSQL, in a folder of its own."""

    name = "one PostgreSQL"

    def __init__(self):
        self.postgres = Postgres().start()
        self.url = self.postgres.database()
        self.place = name_of(self.url)
        self.targets = [os.path.join(self.postgres.folder, ".s.PGSQL.5432")]
        self.folders = [self.postgres.folder]

    def stop(self):
        self.postgres.stop()

    def through(self, ports):
        return f"postgres://recourse@127.0.0.1:{ports[0]}/{self.place}?sslmode=disable"

    def faults(self):
        return {"server killed": self.kill, "server stopped": self.pause,
                "server restarted": self.restart}  # fmt: skip

    def pids(self):
        return processes_under(self.postgres.process.pid)

    def kill(self, dice):
        pids = self.pids()
        signal_all(pids[:1], signal.SIGSTOP)  # or it would begin new ones meanwhile
        kill_all([*pids, *self.pids()])
        self.postgres.process.wait()
        lasts(dice.uniform(0.0, 6.0))  # how long it is away is what this is about
        self.postgres.start()

    def pause(self, dice):
        pids = self.pids()
        signal_all(pids, signal.SIGSTOP)
        lasts(dice.choice((1.0, 4.0, 12.0)))  # as above
        signal_all(pids, signal.SIGCONT)

    def restart(self, dice):
        self.postgres.stop()
        lasts(dice.uniform(0.0, 3.0))  # as above
        self.postgres.start()


class Given(Database):
    """Somebody's server. The tables are made in a schema of their own, dropped at the end."""

    name = "the server of the URL"

    def __init__(self, url, seed):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("postgres", "postgresql") or not parts.hostname:
            raise SystemExit("which server? --url postgres://USER@HOST:PORT/DATABASE")
        host = parts.netloc.rpartition("@")[2].rpartition(":")[0] if parts.port else (
            parts.netloc.rpartition("@")[2])
        self.schema = f"fleet_{seed}"
        self.host = urllib.parse.unquote(host)
        self.port = parts.port or 5432
        is_path = self.host.startswith("/")
        socket = os.path.join(self.host, f".s.PGSQL.{self.port}")
        self.targets = [socket if is_path else [self.host, self.port]]
        self.url = url
        self.sql(f"CREATE SCHEMA {self.schema}")
        self.url = self.with_words(url, options=f"-csearch_path={self.schema}")

    @staticmethod
    def with_words(url, **words):
        more = "&".join(f"{name}={urllib.parse.quote(str(word), safe='')}"
                        for name, word in words.items())  # fmt: skip
        return f"{url}{'&' if '?' in url else '?'}{more}"

    def stop(self):
        with contextlib.suppress(ConnectionError, InVain):
            self.await_back()
            self.sql(f"DROP SCHEMA {self.schema} CASCADE")

    def through(self, ports):
        if self.host.startswith("/"):
            rest = self.url.partition("://")[2]
            account, at, place = rest.partition("@")
            database = (place if at else rest).partition("/")[2]
            return f"postgres://{account}{at}127.0.0.1:{ports[0]}/{database}"
        # The name stays, for its certificate.
        return self.with_words(self.url, hostaddr="127.0.0.1", port=ports[0])
