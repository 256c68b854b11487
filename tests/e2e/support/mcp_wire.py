"""MCP on the wire, without a library: single requests of both eras, and what came back."""

import contextlib
import functools
import http.client
import json

from support.recourse import WAIT_MAX

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = "application/json, text/event-stream"


class SseEvent:
    """One event: `id`, `event`, `data` as they stand on the stream, or None."""

    def __init__(self, lines):
        fields = dict(line.split(":", 1) for line in lines if not line.startswith(":"))
        self.id, self.event, self.data = (
            fields[name].removeprefix(" ") if name in fields else None
            for name in ("id", "event", "data")
        )

    def message(self):
        return json.loads(self.data) if self.data else None


def sse_events(body):
    """The whole events of a text/event-stream; an unfinished last one is none."""
    blocks = body.decode().replace("\r\n", "\n").split("\n\n")[:-1]
    return [SseEvent(block.split("\n")) for block in blocks]


class Answer:
    """`cut` tells that the answer ended before its framing said so."""

    def __init__(self, status, headers, body, cut):
        self.status = status
        self.headers = headers
        self.body = body
        self.cut = cut

    def is_sse(self):
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def messages(self):
        """Every JSON-RPC message in it, in order."""
        if self.is_sse():
            return [event.message() for event in sse_events(self.body) if event.data]
        return [json.loads(self.body)] if self.body else []

    def final(self):
        """The response to the request: the message with a result or an error."""
        (message,) = [m for m in self.messages() if "result" in m or "error" in m]
        return message

    def text(self):
        """The text of a tool's result."""
        return "".join(part.get("text", "") for part in self.final()["result"]["content"])


class Stream:
    """An answer that is read event by event, as it comes. A server may keep its head until it has
    something to say, so the head is waited for when it is asked for. Not thread-safe."""

    def __init__(self, connection):
        self.connection = connection

    @functools.cached_property
    def answer(self):
        return self.connection.getresponse()

    @property
    def status(self):
        return self.answer.status

    @property
    def headers(self):
        return {k.lower(): v for k, v in self.answer.getheaders()}

    def next(self):
        """The next event, waited for; None at the end of the stream."""
        lines = []
        while line := self.answer.readline().decode():
            if line.strip("\r\n"):
                lines.append(line.strip("\r\n"))
            elif lines:
                return SseEvent(lines)
        return None

    def message(self):
        """The next JSON-RPC message; events without one are passed over."""
        while (event := self.next()) is not None:
            if event.data:
                return event.message()
        return None

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def begin(url, method, body=None, headers=None):
    """The connection on which one request has been sent."""
    authority, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(authority, timeout=WAIT_MAX)
    connection.request(method, f"/{path}", body=body, headers=headers or {})
    return connection


def exchange(url, method, body=None, headers=None):
    """One request and its whole answer."""
    with contextlib.closing(begin(url, method, body, headers)) as connection:
        answer = connection.getresponse()
        try:
            received, cut = answer.read(), False
        except http.client.IncompleteRead as error:
            received, cut = error.partial, True
        except ConnectionError:
            received, cut = b"", True
        fields = {k.lower(): v for k, v in answer.getheaders()}
        return Answer(answer.status, fields, received, cut)


def rpc(method, params=None, number=1):
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


def call(tool, arguments=None, number=1, **params):
    return rpc("tools/call", {"name": tool, "arguments": arguments or {}, **params}, number)


class Modern:
    """Requests of 2026-07-28: each stands alone."""

    def __init__(self, url, headers=None):
        self.url = url
        self.headers = dict(headers or {})

    def wrapped(self, message):
        """The message with its envelope, and the header fields that mirror it."""
        params = dict(message.get("params", {}))
        params["_meta"] = {**ENVELOPE, **params.get("_meta", {})}
        fields = {
            "Content-Type": "application/json", "Accept": ACCEPT,
            "MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"],
        }  # fmt: skip
        if "name" in params:
            fields["Mcp-Name"] = params["name"]
        return {**message, "params": params}, {**fields, **self.headers}

    def send(self, message, headers=None):
        """The whole answer to a message."""
        wrapped, fields = self.wrapped(message)
        return exchange(self.url, "POST", json.dumps(wrapped), {**fields, **(headers or {})})

    def open(self, message, headers=None):
        """The answer to a message as a Stream."""
        wrapped, fields = self.wrapped(message)
        return Stream(begin(self.url, "POST", json.dumps(wrapped), {**fields, **(headers or {})}))

    def call(self, tool, arguments=None, number=1, headers=None, **params):
        return self.send(call(tool, arguments, number, **params), headers)


class Legacy:
    """A session of 2025-11-25, opened by `initialize`."""

    def __init__(self, url, headers=None, capabilities=None):
        self.url = url
        self.headers = dict(headers or {})
        self.session = None
        params = {"protocolVersion": LEGACY, "capabilities": capabilities or {},
                  "clientInfo": {"name": "raw", "version": "1"}}  # fmt: skip
        self.initialized = self.send(rpc("initialize", params, 0))
        self.session = self.initialized.headers.get("mcp-session-id")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def fields(self, headers):
        own = {"Content-Type": "application/json", "Accept": ACCEPT}
        if self.session is not None:
            own |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": LEGACY}
        return {**own, **self.headers, **(headers or {})}

    def send(self, message, headers=None):
        return exchange(self.url, "POST", json.dumps(message), self.fields(headers))

    def open(self, message, headers=None):
        return Stream(begin(self.url, "POST", json.dumps(message), self.fields(headers)))

    def call(self, tool, arguments=None, number=1, headers=None, **params):
        return self.send(call(tool, arguments, number, **params), headers)

    def listen(self, last_event_id=None):
        """The GET stream, from after an event if one is named."""
        fields = {"Accept": "text/event-stream"}
        if last_event_id is not None:
            fields["Last-Event-ID"] = last_event_id
        return Stream(begin(self.url, "GET", None, self.fields(fields)))

    def end(self):
        return exchange(self.url, "DELETE", None, self.fields(None))
