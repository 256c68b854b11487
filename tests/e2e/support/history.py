"""What the agents saw: the history file of calls and their ends, and agents that write it."""

import hashlib
import json
import os
import threading
import time

from support import rawhttp


class History:
    """Appends one JSON line per call made and per call ended. Thread-safe."""

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

    def call(self, port, request, timeout=10.0):
        """Sends `request` on a fresh connection; the Response, or None when the answer was lost."""
        with self.lock:
            self.calls += 1
            number = self.calls
        line = {"t": "invoke", "call": number, "method": request.method, "path": request.path}
        self.add({**line, "body_sha256": hashlib.sha256(request.body).hexdigest()})
        try:
            with rawhttp.Connection(port, timeout) as connection:
                connection.send(request.data)
                answer = connection.response(request.method)
        except (OSError, rawhttp.Cut) as error:
            self.add({"t": "lost", "call": number, "path": request.path, "error": repr(error)})
            return None
        self.add(
            {
                "t": "return",
                "call": number,
                "path": request.path,
                "status": answer.status,
                "headers": {name.lower(): value for name, value in answer.headers},
                "body": answer.body.decode("latin-1"),
            }
        )
        return answer


class Write:
    """The bytes of one intent: the same for every repeat, but for the trace."""

    def __init__(self, path, trace, host="shop.test", query="", reference=None):
        self.method = "POST"
        self.path = path
        self.host = host
        self.target = path + query
        self.reference = reference or path.rsplit("/", 1)[1]
        self.body = json.dumps({"client_ref": self.reference, "amount": 100}).encode()
        self.enter(trace)

    def enter(self, trace):
        """Makes every further call one of this trace (None: of no trace)."""
        headers = {"Content-Type": "application/json"}
        if trace:
            headers["traceparent"] = f"00-{trace}-00f067aa0ba902b7-01"
        self.data = rawhttp.render("POST", self.target, self.host, headers, self.body)
