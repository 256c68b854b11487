"""What the agents saw: the history file of calls and their ends, and agents that write it."""

import hashlib
import json
import os
import threading
import time

from support import rawhttp


class History:
    """Appends one JSON line per call made and per call ended. Thread-safe.

    Every call has a number, which its field X-Call tells the backend, so that the record of the
    backend says whose call it was that had an effect.
    """

    def __init__(self, path):
        self.path = path
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.lock = threading.Lock()
        self.calls = 0

    def add(self, line):
        line["time_ns"] = time.time_ns()
        os.write(self.fd, (json.dumps(line) + "\n").encode())

    def lines(self):
        with open(self.path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def close(self):
        os.close(self.fd)

    def invoke(self, request):
        """Notes that `request` is being made; gives the call's number and its bytes."""
        with self.lock:
            self.calls += 1
            number = self.calls
        line = {"t": "invoke", "call": number, "method": request.method, "path": request.path}
        self.add({**line, "body_sha256": hashlib.sha256(request.body).hexdigest()})
        head, _, body = request.data.partition(b"\r\n\r\n")
        return number, head + b"\r\nX-Call: %d\r\n\r\n" % number + body

    def lost(self, number, request, error):
        line = {"t": "lost", "call": number, "path": request.path, "method": request.method}
        self.add({**line, "error": repr(error)})

    def left(self, number, request, is_cut):
        """Its agent did not wait for the answer; `is_cut`: it had not sent all of the request."""
        line = {"t": "left", "call": number, "path": request.path, "method": request.method}
        self.add({**line, "cut": is_cut})

    def returned(self, number, request, answer):
        self.add(
            {
                "t": "return",
                "call": number,
                "path": request.path,
                "method": request.method,
                "status": answer.status,
                "headers": {name.lower(): value for name, value in answer.headers},
                "body": answer.body.decode("latin-1"),
            }
        )

    def call(self, port, request, timeout=rawhttp.TIMEOUT):
        """Sends `request` on a fresh connection; the Response, or None when the answer was lost."""
        number, data = self.invoke(request)
        try:
            with rawhttp.Connection(port, timeout) as connection:
                connection.send(data)
                answer = connection.response(request.method)
        except (OSError, rawhttp.Cut) as error:
            self.lost(number, request, error)
            return None
        self.returned(number, request, answer)
        return answer


class Write:
    """The bytes of one intent: the same for every repeat, but for the trace."""

    def __init__(
        self, path, trace, host="shop.test", query="", reference=None, key=None, padding=0
    ):
        self.method = "POST"
        self.path = path
        self.host = host
        self.target = path + query
        self.reference = reference or path.rsplit("/", 1)[1]
        self.key = key
        content = {"client_ref": self.reference, "amount": 100}
        if padding:
            content["padding"] = "x" * padding
        self.body = json.dumps(content).encode()
        self.enter(trace)

    def enter(self, trace):
        """Makes every further call one of this trace (None: of no trace)."""
        headers = {"Content-Type": "application/json"}
        if trace:
            headers["traceparent"] = f"00-{trace}-00f067aa0ba902b7-01"
        if self.key:
            headers["Idempotency-Key"] = self.key
        self.data = rawhttp.render("POST", self.target, self.host, headers, self.body)


class Read:
    """The bytes of a GET."""

    method = "GET"
    body = b""

    def __init__(self, path, host="shop.test"):
        self.path = self.target = path
        self.data = rawhttp.render("GET", path, host)
