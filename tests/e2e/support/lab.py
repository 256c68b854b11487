"""A network of its own with a name server that says what a test wants, and Recourse inside.

Run as `python3 lab.py DIRECTORY` inside new network and mount namespaces (class Lab does that). It
takes one JSON object per line on stdin and answers each with one on stdout.
"""

import errno
import fcntl
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from support import rawhttp  # noqa: E402
from support.recourse import Recourse  # noqa: E402
from support.waiting import lasts, wait_until  # noqa: E402

PORT = 8080
V4 = ("10.1.1.1", "10.1.1.2", "10.1.1.4", "169.254.169.254", "169.254.1.1")
V6 = ("fd12::1", "fd12::2", "fd12::4", "fd00:ec2::254")
SILENT = "fd12::1"  # never answers a connection attempt
A, AAAA = 1, 28


class Lab:
    """The handle for the tests' side."""

    def __init__(self, directory, policy):
        assert shutil.which("unshare"), "util-linux is missing: it makes the lab's namespaces"
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", *as_root, sys.executable, __file__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ask("start", policy=policy)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()

    def ask(self, op, **arguments):
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the lab has ended; its stderr says why"
        answer = json.loads(line)
        assert "error" not in answer, answer
        return answer

    def name(self, name, *addresses, code=0, delay=0):
        """What the name server says from now on."""
        self.ask("name", name=name, addresses=addresses, code=code, delay=delay)


def bring_up():
    """Brings the loopback device up and gives it the lab's addresses."""
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS
    for i, address in enumerate(V4):
        name, packed = b"lo:%d" % i, socket.inet_aton(address)
        request = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, packed)
        fcntl.ioctl(control, 0x8916, request)  # SIOCSIFADDR
    control6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    index = socket.if_nametoindex("lo")
    for address in V6:
        packed = struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, address), 128, index)
        fcntl.ioctl(control6, 0x8916, packed)


def put_over(path, text, directory):
    """Shows a file of ours at `path` to this mount namespace alone."""
    ours = directory / path.strip("/").replace("/", "_")
    ours.write_text(text)
    subprocess.run(["mount", "--bind", ours, os.path.realpath(path)], check=True)


def bind_once_there(listener, address):
    """Binds, for which the kernel may need a moment after an address was added."""

    def is_bound():
        try:
            listener.bind((address, PORT))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            return False
        return True

    wait_until(is_bound, f"{address} is not there")


class NameServer:
    def __init__(self):
        self.known = {}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, peer = self.socket.recvfrom(512)
            threading.Thread(target=self.answer, args=(query, peer), daemon=True).start()

    def answer(self, query, peer):
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode())
            at += 1 + size
        question, (kind,) = query[12 : at + 5], struct.unpack("!H", query[at + 1 : at + 3])
        said = self.known.get(".".join(labels), {"addresses": [], "code": 3, "delay": 0})
        lasts(said["delay"])  # it is slow because a test says so
        family = socket.AF_INET6 if kind == AAAA else socket.AF_INET
        data = [
            socket.inet_pton(family, address)
            for address in said["addresses"]
            if kind in (A, AAAA) and (":" in address) == (kind == AAAA)
        ]
        head = query[:2] + struct.pack("!HHHHH", 0x8180 | said["code"], 1, len(data), 0, 0)
        records = b"".join(
            struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(one)) + one for one in data
        )
        self.socket.sendto(head + question + records, peer)


class Servers:
    """One HTTP server per address of the lab; `seen` is (address, method, path) of each request."""

    def __init__(self):
        self.seen = []
        self.full = []
        for address in (*V4, *V6, "127.0.0.1", "::1"):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            listener = socket.socket(family, socket.SOCK_STREAM)
            bind_once_there(listener, address)
            listener.listen(0 if address == SILENT else 64)
            if address == SILENT:
                self.fill(listener)
            else:
                threading.Thread(target=self.serve, args=(listener, address), daemon=True).start()

    def fill(self, listener):
        self.full.append(listener)
        for _ in range(8):
            filler = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            filler.setblocking(False)
            filler.connect_ex((SILENT, PORT))
            self.full.append(filler)

    def serve(self, listener, address):
        while True:
            sock, _ = listener.accept()
            with sock:
                data = b""
                while b"\r\n\r\n" not in data and (more := sock.recv(65536)):
                    data += more
                method, path, _ = data.split(b"\r\n")[0].decode().split(" ")
                self.seen.append((address, method, path))
                body = b'{"id": "e1"}'
                sock.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
                )


def main():
    directory = pathlib.Path(sys.argv[1])
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    bring_up()
    put_over("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:10 attempts:1\n", directory)
    put_over("/etc/hosts", "127.0.0.1 localhost\n", directory)
    put_over("/etc/nsswitch.conf", "hosts: files dns\n", directory)
    names, servers = NameServer(), Servers()
    recourse = None
    for line in sys.stdin:
        command = json.loads(line)
        op = command.pop("op")
        answer = {}
        if op == "start":
            recourse = Recourse(directory / "recourse", command["policy"]).start()
        elif op == "name":
            names.known[command.pop("name")] = command
        elif op == "call":
            got = rawhttp.call(
                recourse.port, command["method"], command["path"], host=command["host"],
                body={"a": 1} if command["method"] == "POST" else b"",
            )  # fmt: skip
            answer = {"status": got.status, "headers": got.headers, "body": got.body.decode()}
        elif op == "tunnel":
            with rawhttp.Connection(recourse.port) as connection:
                connection.send(rawhttp.render("CONNECT", command["target"], command["target"]))
                status, _, _, fields = connection.head()
                answer = {"status": status, "body": ""}
                if status == 200:
                    connection.send(rawhttp.render("GET", command["path"], command["target"]))
                    answer["inside"] = connection.response().status
                else:
                    size = int(dict(fields)["Content-Length"])
                    answer["body"] = connection.exactly(size).decode()
        elif op == "seen":
            answer = {"seen": servers.seen}
        elif op == "events":
            answer = {"events": recourse.events_for(command["path"])}
        elif op == "logs":
            answer = {"stderr": recourse.stderr(), "access": recourse.access_log()}
        else:
            answer = {"error": op}
        print(json.dumps(answer), flush=True)
    if recourse is not None:
        sys.exit(recourse.stop())


if __name__ == "__main__":
    main()
