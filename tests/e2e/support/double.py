"""Handles for the backends of the tests: the scriptable one, a refused port and a full backlog."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading

from support.recourse import WAIT_MAX

HERE = os.path.dirname(os.path.abspath(__file__))


class Double:
    """The scriptable backend (backend.py) as a process, with its control port. `identities` is a
    directory of certificates; each is served on the TLS port that `tls` names."""

    def __init__(self, directory, identities=None):
        self.record_path = os.path.join(directory, "backend.jsonl")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "backend.py"), self.record_path]
            + ([str(identities)] if identities else []),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        ports = json.loads(self.process.stdout.readline())
        self.port, self.keyed_port = ports["ports"]
        self.tls = ports["tls"]
        self.control_port = ports["control"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.keyed_url = f"http://127.0.0.1:{self.keyed_port}"

    def stop(self):
        self.process.stdin.close()
        self.process.wait(WAIT_MAX)
        self.process.stdout.close()

    def ask(self, op, **arguments):
        address = ("127.0.0.1", self.control_port)
        with socket.create_connection(address, timeout=2 * WAIT_MAX) as sock:
            with sock.makefile("rwb") as stream:
                stream.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
                stream.flush()
                answer = json.loads(stream.readline())
        assert "error" not in answer, answer
        return answer

    def script(self, method, path, steps, times=None, name=None):
        """The next `times` requests (None: all) to `method path` follow `steps`; the record tells
        each of them by `name`."""
        self.ask("rule", method=method, path=path, steps=steps, times=times, name=name)

    def open_gate(self, gate):
        self.ask("open", gate=gate)

    def await_requests(self, method, path, count=1):
        """Waits until `count` requests have begun to arrive."""
        answer = self.ask("await", method=method, path=path, count=count, timeout=WAIT_MAX)
        assert answer["seen"], f"{method} {path} was not received {count} times"

    def await_effects(self, path, count=1):
        answer = self.ask("await_effects", path=path, count=count, timeout=WAIT_MAX)
        assert answer["seen"], f"{path} was not executed {count} times"

    def await_recorded(self):
        """Waits until every request that began to arrive has ended and stands in the record."""
        answer = self.ask("await_recorded", timeout=WAIT_MAX)
        assert answer["recorded"], "a request is still arriving"

    def effects(self, path):
        return self.ask("effects", path=path)["effects"]

    def sent(self, path):
        return self.ask("sent", path=path)["sent"]

    def connections(self):
        return self.ask("connections")["connections"]

    def record(self):
        """Every line of the record so far."""
        with open(self.record_path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def requests(self, path=None, method=None):
        return [
            line
            for line in self.record()
            if line["t"] == "request"
            and path in (None, line["path"])
            and method in (None, line["method"])
        ]


class RefusedPort:
    """A port that refuses connections: bound, so nobody else gets it, but not listening (b01)."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def stop(self):
        self.socket.close()


class FullPort:
    """A port whose backlog is full: a further connection attempt is never answered (b02)."""

    def __init__(self):
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.fillers = []
        for _ in range(8):
            filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            filler.settimeout(0.3)
            self.fillers.append(filler)
            try:
                filler.connect(("127.0.0.1", self.port))
            except TimeoutError:
                break
        else:
            raise RuntimeError("the backlog did not fill")

    def stop(self):
        for filler in self.fillers:
            filler.close()
        self.listener.close()


class ResettingPort:
    """Accepts and resets at once, without reading (b03)."""

    def __init__(self):
        code = (
            "import socket,struct,sys,threading\n"
            "l=socket.create_server(('127.0.0.1',0));print(l.getsockname()[1],flush=True)\n"
            "def run():\n"
            "  while True:\n"
            "    s,_=l.accept();s.setsockopt(socket.SOL_SOCKET,socket.SO_LINGER,"
            "struct.pack('ii',1,0));s.close()\n"
            "threading.Thread(target=run,daemon=True).start();sys.stdin.read()\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.port = int(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(WAIT_MAX)
        self.process.stdout.close()


class ServedPort:
    """A backend of one test: every connection is given to `serve(port, socket)` on a thread of its
    own, and closed when that returns. `heads` are the request heads that `head` has read."""

    def __init__(self, serve, receive_buffer=None):
        self.serve = serve
        self.heads = []
        self.stopped = threading.Event()
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1024)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stopped.set()
        # Wakes the accept below, which close() alone would not.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while not self.stopped.is_set():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.run, args=(sock,), daemon=True).start()

    def run(self, sock):
        with sock:
            sock.settimeout(5 * WAIT_MAX)
            try:
                self.serve(self, sock)
            except OSError:
                pass  # the peer has left, which ends what a backend has to do

    def head(self, sock, left=b"", most=1000):
        """Reads one request head; gives what came after it, or None at the end of the stream."""
        while b"\r\n\r\n" not in left:
            data = sock.recv(most)
            if not data:
                return None
            left += data
        head, _, left = left.partition(b"\r\n\r\n")
        self.heads.append(head)
        return left

    @staticmethod
    def reset(sock):
        """Makes the close at the end a RST."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
