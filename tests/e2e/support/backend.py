"""A scriptable backend, run as a process of its own: it outlives every kill of the proxy.

It appends one JSON line to its record for every request it receives and for every effect it
executes, before it answers, so that the record is the truth about what happened. Requests to
`method path` follow the script that a test set for them over the control port; without a script a
write is executed and answered 201, and a read answers what it knows.

Only the standard library is used, and no code is shared with the product.

    python3 backend.py RECORD [CERTIFICATES]      ends when stdin closes; prints
                                                  {"ports": [P, Q], "tls": {NAME: P}, "control": C}

A script is a list of steps:
    "read"                read the request body whole (an incomplete one ends the script)
    "execute"             have the effect, once per request
    "answer"              the normal answer to an executed write
    {"send": TEXT}        raw bytes (latin-1); %ID% %JSON% %LEN% stand for the effect and its answer
    {"trickle": TEXT, "every": S}    the same, one byte at a time
    {"sleep": S}          a slow backend
    {"gate": NAME}        wait until the test opens the gate
    "fin" "rst" "hang"    close, reset, or stay silent until the peer closes
    "until_closed"        stay silent until the peer closes, then go on with the script
    "goodbye"             end TLS before the connection: without it "fin" is a cut (close_notify)
A script may have a name; each request that follows it leaves a line "fault" in the record.
"""

import contextlib
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.parse

from tls_ports import listen_with_tls
from waiting import PATIENCE, lasts

# Longer than any test waits for what it wants to see.
WAIT_MAX = 300.0 * PATIENCE
KEYED = ("/keyed/", "/v1/")  # here the backend itself de-duplicates by Idempotency-Key
READ_METHODS = ("GET", "HEAD", "OPTIONS")
BLOCK = b"\x5a" * (256 * 1024)


class PeerGone(Exception):
    """The proxy closed or reset the connection."""


class Record:
    """The append-only record; one write call per line, so lines never mix."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, line):
        line["time_ns"] = time.time_ns()
        os.write(self.fd, (json.dumps(line) + "\n").encode())


class Backend:
    def __init__(self, record):
        self.record = Record(record)
        self.changed = threading.Condition()
        self.rules = []
        self.gates = set()
        self.requests = []  # (method, path) of every request that began to arrive
        self.recorded = 0  # how many of them stand in the record
        self.effects = []  # dicts: id, method, path, ref
        self.keyed = {}  # Idempotency-Key -> effect, for paths under KEYED
        self.sent = {}  # path -> bytes of streamed answers handed to the kernel
        self.connections = 0
        self.sequence = 0

    def steps_for(self, request):
        with self.changed:
            for rule in self.rules:
                if rule["path"] != request.path or rule["method"] not in (request.method, "*"):
                    continue
                if rule["times"] is not None:
                    rule["times"] -= 1
                    if rule["times"] == 0:
                        self.rules.remove(rule)
                if rule["name"] is not None:
                    line = {"name": rule["name"], "path": rule["path"], "request": request.number}
                    self.record.add({"t": "fault", **line})
                return rule["steps"]
        return None

    def wait_for(self, condition, timeout):
        with self.changed:
            return self.changed.wait_for(condition, min(timeout, WAIT_MAX))

    def note_request(self, request):
        with self.changed:
            self.sequence += 1
            request.number = self.sequence
            self.requests.append((request.method, request.path))
            self.changed.notify_all()

    def record_request(self, request):
        with self.changed:
            self.record.add(request.line())
            self.recorded += 1
            self.changed.notify_all()

    def execute(self, request):
        with self.changed:
            key = request.field("idempotency-key")
            if request.path.startswith(KEYED) and key in self.keyed:
                return self.keyed[key]
            effect = {
                "id": f"e{len(self.effects) + 1:06d}",
                "method": request.method,
                "path": request.path,
                "ref": request.reference(),
            }
            self.effects.append(effect)
            if request.path.startswith(KEYED) and key is not None:
                self.keyed[key] = effect
            self.record.add({"t": "effect", "request": request.number, **effect})
            self.changed.notify_all()
            return effect

    # The control port: one JSON object per line in each direction.
    def control(self, command):
        op = command["op"]
        if op == "rule":
            with self.changed:
                del command["op"]
                self.rules.append(command)
            return {}
        if op == "clear":
            with self.changed:
                self.rules.clear()
            return {}
        if op == "open":
            with self.changed:
                self.gates.add(command["gate"])
                self.changed.notify_all()
            return {}
        if op == "await":
            wanted = (command["method"], command["path"])
            seen = self.wait_for(
                lambda: self.requests.count(wanted) >= command["count"], command["timeout"]
            )
            return {"seen": seen}
        if op == "await_effects":
            path = command["path"]
            seen = self.wait_for(
                lambda: sum(e["path"] == path for e in self.effects) >= command["count"],
                command["timeout"],
            )
            return {"seen": seen}
        if op == "await_recorded":
            recorded = self.wait_for(
                lambda: self.recorded == len(self.requests), command["timeout"]
            )
            return {"recorded": recorded}
        if op == "effects":
            with self.changed:
                return {"effects": [e for e in self.effects if e["path"] == command["path"]]}
        if op == "sent":
            return {"sent": self.sent.get(command["path"], 0)}
        if op == "connections":
            return {"connections": self.connections}
        return {"error": f"unknown op {op}"}


class Request:
    def __init__(self, connection, head):
        self.connection = connection
        self.raw_head = head
        lines = head.split(b"\r\n")
        self.method, self.target, self.version = lines[0].decode("latin-1").split(" ")
        self.path, _, query = self.target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))
        self.headers = []
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            self.headers.append([name.decode("latin-1"), value.strip().decode("latin-1")])
        self.body = b""
        self.body_length = 0
        self.digest = hashlib.sha256()
        self.complete = None
        self.number = None
        self.received_ns = time.time_ns()

    def field(self, name):
        return next((v for n, v in self.headers if n.lower() == name), None)

    def reference(self):
        if self.field("idempotency-key") and self.path.startswith(KEYED):
            return self.field("idempotency-key")
        try:
            value = json.loads(self.body)
            return str(value["client_ref"]) if isinstance(value, dict) else None
        except (ValueError, KeyError):
            return None

    def read_body(self):
        """Reads the body and keeps its first MiB; the digest covers all of it."""
        if self.complete is not None:
            return
        self.complete = False
        if (self.field("transfer-encoding") or "").lower() == "chunked":
            while size := int(self.connection.line().partition(b";")[0], 16):
                self.take(size)
                self.connection.line()
            while self.connection.line():
                pass
        else:
            self.take(int(self.field("content-length") or 0))
        self.complete = True

    def take(self, count):
        while count:
            data = self.connection.some(count)
            count -= len(data)
            self.digest.update(data)
            self.body_length += len(data)
            if len(self.body) < 1 << 20:
                self.body += data

    def line(self):
        return {
            "t": "request",
            "number": self.number,
            "received_ns": self.received_ns,
            "connection": self.connection.number,
            "method": self.method,
            "target": self.target,
            "path": self.path,
            "version": self.version,
            "headers": self.headers,
            "body_sha256": self.digest.hexdigest(),
            "body_len": self.body_length,
            "complete": bool(self.complete),
            "key": self.field("idempotency-key"),
        }


class Served:
    """One connection from the proxy."""

    def __init__(self, backend, sock, number):
        self.backend = backend
        self.socket = sock
        self.number = number
        self.buffer = b""

    def more(self):
        try:
            data = self.socket.recv(1 << 18)
        except OSError as error:
            raise PeerGone from error
        if not data:
            raise PeerGone
        self.buffer += data

    def line(self, end=b"\r\n"):
        while end not in self.buffer:
            self.more()
        line, _, self.buffer = self.buffer.partition(end)
        return line

    def some(self, most):
        if not self.buffer:
            self.more()
        data, self.buffer = self.buffer[:most], self.buffer[most:]
        return data

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise PeerGone from error

    def serve(self):
        try:
            self.socket.settimeout(WAIT_MAX)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                request = Request(self, self.line(b"\r\n\r\n"))
                self.backend.note_request(request)
                if not self.one(request):
                    break
        except PeerGone:
            pass
        finally:
            self.socket.close()

    def one(self, request):
        """Serves one request; False when the connection must not be used again."""
        steps = self.backend.steps_for(request)
        # A script that starts otherwise answers before it has read the request.
        reads_first = steps is None or steps[0] == "read"
        try:
            if reads_first:
                request.read_body()
        finally:
            if reads_first:
                self.backend.record_request(request)
        try:
            if steps is not None:
                return self.play(request, steps)
            if request.method in READ_METHODS or request.path.startswith("/read"):
                self.answer_read(request)
            else:
                self.answer_write(request, self.backend.execute(request))
            return (request.field("connection") or "").lower() != "close"
        finally:
            if not reads_first:
                self.backend.record_request(request)

    def play(self, request, steps):
        effect = None
        for step in steps:
            if step == "read":
                request.read_body()
            elif step == "execute":
                effect = self.backend.execute(request)
            elif step == "answer":
                self.answer_write(request, effect)
            elif step == "fin":
                return False
            elif step == "goodbye":
                with contextlib.suppress(OSError):
                    self.socket.unwrap()
            elif step == "rst":
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif step == "hang":
                while True:
                    self.more()
            elif step == "until_closed":
                with contextlib.suppress(PeerGone):
                    while True:
                        self.more()
            elif "send" in step:
                self.send(self.expand(step["send"], effect))
            elif "trickle" in step:
                for byte in self.expand(step["trickle"], effect):
                    self.send(bytes([byte]))
                    lasts(step["every"])  # it is slow because a test says so
            elif "sleep" in step:
                lasts(step["sleep"])  # the same
            elif "gate" in step:
                gate = step["gate"]
                self.backend.wait_for(lambda: gate in self.backend.gates, WAIT_MAX)
        return True

    @staticmethod
    def expand(text, effect):
        value = answer_body(effect) if effect else b""
        data = text.encode("latin-1")
        data = data.replace(b"%ID%", effect["id"].encode() if effect else b"none")
        data = data.replace(b"%JSON%", value).replace(b"%LEN%", str(len(value)).encode())
        return data.replace(b"%HALF%", value[: len(value) // 2])

    def answer_write(self, request, effect):
        body = answer_body(effect)
        head = (
            f"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            f"\r\nLocation: {request.path}/{effect['id']}\r\nX-Receipt: {effect['id']}\r\n"
            "Set-Cookie: session=backend-secret\r\n\r\n"
        ).encode()
        if "slow" in request.query:
            # In pieces, so that a proxy can be killed between them; which it has read, nobody sees.
            for piece in (head[:9], head[9:], body[: len(body) // 2], body[len(body) // 2 :]):
                self.send(piece)
                lasts(0.005)
        else:
            self.send(head + body)

    def answer_read(self, request):
        if request.path.startswith("/read/bytes"):
            return self.stream(request, int(request.query["n"]))
        if "client_ref" in request.query:
            wanted = request.query["client_ref"]
            with self.backend.changed:
                items = [
                    {"id": e["id"]}
                    for e in self.backend.effects
                    if e["ref"] == wanted and e["path"] == request.path
                ]
            value = {"items": items}
        else:
            value = {
                "method": request.method,
                "target": request.target,
                "headers": request.headers,
                "body_sha256": request.digest.hexdigest(),
                "body_len": request.body_length,
            }
        body = json.dumps(value).encode()
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        self.send(head if request.method == "HEAD" else head + body)

    def stream(self, request, count):
        self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
            + (
                b"Transfer-Encoding: chunked\r\n\r\n"
                if "chunked" in request.query
                else f"Content-Length: {count}\r\n\r\n".encode()
            )
        )
        self.backend.sent[request.path] = 0
        while count:
            data = BLOCK[: min(count, len(BLOCK))]
            if "chunked" in request.query:
                self.send(b"%x\r\n" % len(data) + data + b"\r\n")
            else:
                self.send(data)
            count -= len(data)
            self.backend.sent[request.path] += len(data)
        if "chunked" in request.query:
            self.send(b"0\r\n\r\n")


def answer_body(effect):
    return json.dumps({"id": effect["id"], "client_ref": effect["ref"], "done": True}).encode()


def serve_control(backend, sock):
    with sock, sock.makefile("rwb") as stream:
        for line in stream:
            stream.write(json.dumps(backend.control(json.loads(line))).encode() + b"\n")
            stream.flush()


def accept_forever(listener, handle):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=handle, args=(sock,), daemon=True).start()


def main():
    threading.stack_size(256 * 1024)
    backend = Backend(sys.argv[1])

    def serve(sock):
        with backend.changed:
            backend.connections += 1
            number = backend.connections
        Served(backend, sock, number).serve()


    secure = listen_with_tls(sys.argv[2], serve) if len(sys.argv) > 2 else {}
    for listener, handle in secure.values():
        threading.Thread(target=accept_forever, args=(listener, handle), daemon=True).start()
    # Two ports for the same backend: a policy tells backends apart by their authority.
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(2)]
    control = socket.create_server(("127.0.0.1", 0), backlog=64)
    for listener in listeners:
        threading.Thread(target=accept_forever, args=(listener, serve), daemon=True).start()
    threading.Thread(
        target=accept_forever, args=(control, lambda s: serve_control(backend, s)), daemon=True
    ).start()
    ports = [listener.getsockname()[1] for listener in listeners]
    tls = {name: listener.getsockname()[1] for name, (listener, _) in secure.items()}
    said = {"ports": ports, "tls": tls, "control": control.getsockname()[1]}
    print(json.dumps(said), flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
