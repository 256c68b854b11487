"""A relay that records. It stands between an MCP client and what the client talks to, hands bytes
on as they come, and keeps every exchange, so that what two ways to the same server answer can be
compared."""

import contextlib
import json
import re
import select
import socket
import threading

from support.recourse import WAIT_MAX

HEAD_MAX = 1 << 20
# Of the connection or of the moment; `via` is Recourse's own and asked about elsewhere.
PASSING = {"connection", "keep-alive", "transfer-encoding", "date", "via", "content-length"}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VARIABLE = [
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
]


def fields_of(head):
    lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return lines[0], [(name.lower(), value.strip()) for name, _, value in pairs]


def dechunked(data):
    """(the body of chunks as far as it goes, whether the last chunk came)."""
    body = b""
    while True:
        size, end, rest = data.partition(b"\r\n")
        if not end:
            return body, False
        count = int(size.split(b";")[0], 16)
        if count == 0:
            return body, True
        body += rest[:count]
        if len(rest) < count + 2:
            return body, False
        data = rest[count + 2 :]


def of_one_exchange(head, own=(), *added):
    """A head whose sender closes the connection after this exchange; without the fields `own`."""
    dropped = (b"connection:", b"keep-alive:", *own)
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(dropped)]
    return b"\r\n".join([*kept, *added, b"Connection: close"]) + b"\r\n\r\n"


class Exchange:
    """One request and its answer, as they stood on the wire."""

    def __init__(self, request_head, request_body):
        line, fields = fields_of(request_head)
        self.method, self.target, _ = line.split(" ")
        self.request_fields = dict(fields)
        self.request_body = request_body
        self.raw = b""

    def rpc(self):
        try:
            return json.loads(self.request_body).get("method", "response")
        except ValueError:
            return None

    def answer(self):
        """(status, header fields, body, whole) of the answer; None before its head has come."""
        head, end, data = self.raw.partition(b"\r\n\r\n")
        if not end:
            return None
        line, fields = fields_of(head)
        named = dict(fields)
        if named.get("transfer-encoding") == "chunked":
            body, whole = dechunked(data)
        else:
            body, whole = data, len(data) == int(named.get("content-length", len(data)))
        kept = sorted(pair for pair in fields if pair[0] not in PASSING)
        return int(line.split(" ")[1]), kept, body.decode(), whole


class Relay:
    """Listens on `port` and hands everything on to another port of 127.0.0.1."""

    def __init__(self, port):
        self.upstream = port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}/mcp"
        self.exchanges = []
        self.changed = threading.Condition()
        self.running = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, contextlib.suppress(OSError, EOFError):
            client.settimeout(WAIT_MAX)
            head, body = self.request(client)
            exchange = Exchange(head, body)
            with self.changed:
                self.exchanges.append(exchange)
                self.running += 1
            try:
                with socket.create_connection(("127.0.0.1", self.upstream), WAIT_MAX) as server:
                    server.sendall(self.rendered(head) + body)
                    self.hand_on(client, server, exchange)
            finally:
                with self.changed:
                    self.running -= 1
                    self.changed.notify_all()

    @staticmethod
    def request(client):
        data = b""
        while b"\r\n\r\n" not in data:
            more = client.recv(1 << 16)
            if not more or len(data) > HEAD_MAX:
                raise EOFError
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(dict(fields_of(head)[1]).get("content-length", 0))
        while len(body) < length:
            more = client.recv(1 << 16)
            if not more:
                raise EOFError
            body += more
        return head, body

    def rendered(self, head):
        """The head for the next hop: one exchange per connection, under that hop's name."""
        return of_one_exchange(head, (b"host:",), b"Host: 127.0.0.1:%d" % self.upstream)

    def hand_on(self, client, server, exchange):
        """Until one side leaves; a client says nothing while it waits, and leaves at the end."""
        waiting = b""
        while True:
            ready, _, _ = select.select([client, server], [], [], WAIT_MAX)
            if not ready or client in ready:
                return
            data = server.recv(1 << 16)
            if not data:
                return
            began = b"\r\n\r\n" in exchange.raw
            exchange.raw += data
            if not began:
                waiting += data
                head, end, rest = waiting.partition(b"\r\n\r\n")
                data = of_one_exchange(head) + rest if end else b""
            client.sendall(data)

    def recorded(self):
        """Every exchange in the order of its request, once all have ended."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.running == 0, WAIT_MAX), "an exchange goes on"
            return list(self.exchanges)


def normalised(text, names):
    """The text without what differs from run to run; `names` numbers the ids it has seen."""
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    return UUID.sub(lambda found: names.setdefault(found[0], f"UUID-{len(names) + 1}"), text)


def transcript(exchanges):
    """What was asked and answered, comparable from run to run. GET streams are left out: they run
    beside the calls, so whether one stood yet, and what came on it, is chance. (The SDK v1 opens
    one more after each error that came on a stream with event ids, as if it had been cut.)"""
    names, lines = {}, []
    for each in exchanges:
        if each.method == "GET":
            continue
        status, fields, body, whole = each.answer() or (None, [], "", False)
        asked = f"{each.method} {each.target} {each.request_body.decode()}"
        lines.append(
            [*(normalised(part, names) for part in (asked, repr(fields), body)), status, whole]
        )
    return lines
