"""A client that sends exactly the bytes it is given and reads answers without forgiving anything.

Ordinary HTTP libraries repair or refuse what the framing tests must send, so this one has no
opinion about requests. Every wait ends after `timeout` seconds.
"""

import json
import socket
import struct

from support.recourse import WAIT_MAX as TIMEOUT


class Cut(Exception):
    """The peer closed the connection before the answer was complete."""

    def __init__(self, message, partial=b""):
        super().__init__(message)
        self.partial = partial


class Response:
    """One answer: what stood on the wire, and the body without its framing."""

    def __init__(self, status, reason, version, headers, body, trailers, interim):
        self.status = status
        self.reason = reason
        self.version = version
        self.headers = headers  # list of (name, value) in wire order
        self.body = body
        self.trailers = trailers
        self.interim = interim  # statuses of the 1xx answers that came before

    def header(self, name, default=None):
        values = self.all(name)
        return values[0] if values else default

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def json(self):
        return json.loads(self.body)

    @property
    def replayed(self):
        return self.header("Idempotent-Replayed") == "true"

    @property
    def outcome(self):
        return self.header("Recourse-Outcome")

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


class Connection:
    """One TCP connection with a read buffer. Use as a context manager."""

    def __init__(self, port, timeout=TIMEOUT, receive_buffer=None, source=None, segment=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if segment is not None:
            # What the peer's kernel keeps of what is not read goes by the size of its segments.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_as_far_as_taken(self, data):
        """Sends what the peer takes; a peer that refused and closed already is not an error."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def finish_sending(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def fill(self):
        """Reads once; False at the end of the stream."""
        data = self.socket.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def until(self, mark):
        while mark not in self.buffer:
            if not self.fill():
                raise Cut(f"closed while waiting for {mark!r}", self.buffer)
        head, _, self.buffer = self.buffer.partition(mark)
        return head

    def exactly(self, count):
        while len(self.buffer) < count:
            if not self.fill():
                raise Cut(f"closed after {len(self.buffer)} of {count} bytes", self.buffer)
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def at_end(self):
        """True when the peer has closed and sent nothing more. Waits for either."""
        try:
            return not self.buffer and not self.fill()
        except ConnectionResetError:
            return True

    def head(self):
        lines = self.until(b"\r\n\r\n").split(b"\r\n")
        version, _, rest = lines[0].partition(b" ")
        status, _, reason = rest.partition(b" ")
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            assert colon, f"field line without colon: {line!r}"
            headers.append((name.decode("latin-1"), value.strip().decode("latin-1")))
        return int(status), reason.decode("latin-1"), version.decode(), headers

    def chunks(self):
        """Yields the data of each chunk as it arrives; then sets self.trailers."""
        while True:
            size = int(self.until(b"\r\n").partition(b";")[0], 16)
            if size == 0:
                break
            yield self.exactly(size)
            assert self.exactly(2) == b"\r\n"
        self.trailers = []
        while line := self.until(b"\r\n"):
            self.trailers.append(line)

    def response(self, method="GET"):
        """Reads one final answer whole."""
        interim = []
        while True:
            status, reason, version, headers = self.head()
            if status >= 200 or status == 101:
                break
            interim.append(status)
        fields = {}
        for name, value in headers:
            fields.setdefault(name.lower(), []).append(value)
        assert len(fields.get("content-length", [])) <= 1, headers
        assert not ("content-length" in fields and "transfer-encoding" in fields), headers
        self.trailers = []
        if method == "HEAD" or status in (101, 204, 304):
            body = b""
        elif "transfer-encoding" in fields:
            assert fields["transfer-encoding"] == ["chunked"], headers
            body = b"".join(self.chunks())
        elif "content-length" in fields:
            body = self.exactly(int(fields["content-length"][0]))
        else:
            while self.fill():
                pass
            body, self.buffer = self.buffer, b""
        return Response(status, reason, version, headers, body, self.trailers, interim)


def render(method, target, host, headers=(), body=b"", length=True):
    """The plain bytes of a request. `headers` is a list of pairs or a dict."""
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in pairs]
    if length and (body or method in ("POST", "PUT", "PATCH")):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def call(port, method, target, host="shop.test", headers=(), body=b"", timeout=TIMEOUT):
    """One request on a connection of its own. A dict as body is sent as JSON."""
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
        if not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("Content-Type", "application/json"))
    with Connection(port, timeout) as connection:
        connection.send(render(method, target, host, pairs, body))
        return connection.response(method)


def traced(trace):
    """The fields of a call that belongs to `trace`."""
    return {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}


def exchange(port, data, timeout=TIMEOUT, half_close=False):
    """Sends raw bytes and gives everything that came back until the peer closed."""
    with Connection(port, timeout) as connection:
        connection.send_as_far_as_taken(data)
        if half_close:
            connection.finish_sending()
        received = b""
        try:
            while part := connection.socket.recv(1 << 16):
                received += part
        except ConnectionResetError:
            pass
        return received


def statuses(data):
    """Statuses of the answers in a byte string, for connections that were closed."""
    return [
        int(part.split(b" ", 1)[0])
        for part in data.replace(b"HTTP/1.0 ", b"HTTP/1.1 ").split(b"HTTP/1.1 ")[1:]
        if part[:3].isdigit()
    ]
