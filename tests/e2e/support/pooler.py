"""pgbouncer before a PostgreSQL of the tests."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import urllib.parse

from .postgres import as_another_user
from .recourse import START_MAX, STOP_MAX
from .waiting import wait_until

PROGRAM = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
PORT = 6432  # a part of the socket's name
CONFIG = """\
[databases]
* = host={server} user=recourse
[pgbouncer]
listen_addr = {address}
listen_port = {port}
unix_socket_dir = {folder}
pool_mode = {mode}
{auth}
"""


class Pooler:
    """`mode`: session or transaction. `address`: where it listens besides; `auth`: how it lets
    clients in."""

    def __init__(self, postgres, mode, address="", auth="auth_type = any"):
        self.folder = tempfile.mkdtemp(prefix="recourse-pooler-")
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        config = pathlib.Path(self.folder, "pgbouncer.ini")
        config.write_text(CONFIG.format(server=postgres.folder, port=PORT, folder=self.folder,
                                        mode=mode, address=address, auth=auth))  # fmt: skip
        self.process = subprocess.Popen(
            as_another_user([PROGRAM, "-q", str(config)]), cwd="/", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        socket = pathlib.Path(self.folder, f".s.PGSQL.{PORT}")
        wait_until(socket.exists, "no socket of pgbouncer", START_MAX)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        self.process.wait(STOP_MAX)
        shutil.rmtree(self.folder, ignore_errors=True)

    def through(self, url):
        """The same database by way of it."""
        place = urllib.parse.quote(self.folder, safe="")
        return f"postgres://recourse@{place}:{PORT}/{url.rpartition('/')[2]}"
