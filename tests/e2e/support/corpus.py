"""What the corpora share: requests as exact bytes, and a watch over what each of them led to.

A row of a corpus is an id, bytes and a status. A refused one is answered once, the connection is
closed, the backend sees nothing and the log holds nothing; the good neighbour that follows on the
same path reaches the backend exactly once. Since both are looked at together, a refused request
that would arrive late is seen as well.
"""

import json

from support import rawhttp

HOST = b"Host: shop.test"
LENGTH = b"Content-Length: 3"
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"
# Stands behind refused bytes: were any of it read as a request, the backend would see it.
SMUGGLED = b"POST /plain/smuggled HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n"


def head(target, *lines, method=b"POST", version=b"HTTP/1.1", host=HOST):
    fields = ([host] if host else []) + list(lines)
    return b"\r\n".join([method + b" " + target + b" " + version, *fields]) + b"\r\n\r\n"


def sized(target, *lines, body=b"abc", **options):
    return head(target, b"Content-Length: %d" % len(body), *lines, **options) + body


def chunked(target, coding=CHUNKED, body=CHUNKS, **options):
    return head(target, coding, **options) + body


def jsonic(target, body, *lines, **options):
    """A write with a JSON body: bytes as they are, anything else as JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return sized(target, b"Content-Type: application/json", *lines, body=body, **options)


class Watch:
    """Requests that the backend received and events that were written since the last look."""

    def __init__(self, proxy, double):
        self.proxy = proxy
        self.double = double
        self.offset = 0
        self.last_event = 0
        self.forget()

    def forget(self):
        self.double.await_recorded()
        self.requests()
        self.events()

    def requests(self):
        with open(self.double.record_path, "rb") as record:
            record.seek(self.offset)
            data = record.read()
        self.offset += len(data)
        lines = [json.loads(line) for line in data.splitlines()]
        return [line for line in lines if line["t"] == "request"]

    def events(self):
        found = []
        while True:
            page = self.proxy.admin("GET", f"/events?after={self.last_event}&limit=1000")
            found += page["events"]
            self.last_event = max([self.last_event, *(e["event_id"] for e in page["events"])])
            if page["next"] is None:
                return found

    def refused(self, data, status, half_close=False):
        """Sends bytes that must be refused; gives the problem."""
        received = rawhttp.exchange(self.proxy.port, data + SMUGGLED, half_close=half_close)
        assert rawhttp.statuses(received) == [status], received[:2000]
        answer_head, _, body = received.partition(b"\r\n\r\n")
        fields = answer_head.lower().split(b"\r\n")
        assert b"connection: close" in fields, received[:2000]
        assert b"content-type: application/problem+json" in fields, received[:2000]
        if data.startswith(b"HEAD "):
            return None
        problem = json.loads(body)
        assert problem["outcome"] in ("not_executed", "rejected"), problem
        assert problem["detail"] and problem["advice"], problem
        return problem

    def nothing_happened(self):
        assert self.requests() == []
        assert self.events() == []

    def passed(self, data):
        """Sends bytes that must be answered by the backend; gives the one request that it saw."""
        method = data.lstrip(b"\r\n").split(b" ", 1)[0].decode()
        with rawhttp.Connection(self.proxy.port) as connection:
            connection.send(data)
            answer = connection.response(method)
        assert answer.status in (200, 201), answer
        (seen,) = self.requests()
        assert seen["complete"], seen
        return seen
