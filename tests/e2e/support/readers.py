"""Real readers of requests, each a small server in its own language, that say what they read."""

import contextlib
import os
import pathlib
import socket
import subprocess

from support import rawhttp
from support.npm import node
from support.ports import free_ports
from support.waiting import WAIT_MAX, wait_until

HERE = pathlib.Path(__file__).resolve().parents[1] / "readers"
NAMES = ["php", "go", "node", "ruby", "python"]
COMPILE_MAX = 300


def listens(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), WAIT_MAX).close()
        return True
    return False


def compiled(directory):
    binary = directory / "reader"
    environment = {**os.environ, "GO111MODULE": "off", "GOCACHE": str(directory / "cache")}
    subprocess.run(
        ["/usr/bin/go", "build", "-o", binary, "reader.go"],
        cwd=HERE / "go", env=environment, check=True, timeout=COMPILE_MAX,
    )  # fmt: skip
    return binary


class Reader:
    """`ask` gives what it reads in a request that comes straight from us."""

    def __init__(self, command, port=None):
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.port = port or int(self.process.stdout.readline())
        wait_until(lambda: listens(self.port), "the reader listens")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, request):
        answer = rawhttp.call(self.port, *request.line, headers=request.headers, body=request.body)
        return answer.json() if answer.status == 200 else {"values": [], "method": "POST"}


@contextlib.contextmanager
def all_readers(directory):
    """By language."""
    port = free_ports()
    php = ["php", "-n", "-d", "display_errors=0", "-S", f"127.0.0.1:{port}", HERE / "reader.php"]
    with contextlib.ExitStack() as stack:
        readers = {}
        for name, command, at in [
            ("php", php, port),
            ("go", [compiled(directory)], None),
            ("node", [node(), HERE / "reader.mjs"], None),
            ("ruby", ["ruby", HERE / "reader.rb"], None),
            ("python", ["/usr/bin/python3", HERE / "reader.py"], None),
        ]:
            readers[name] = Reader(command, at)
            stack.callback(readers[name].stop)
        yield readers
