"""A shop whose policy knows flows, and agents that go through checkouts in it.

Every effect has a name of its own (the double's), and its undo request carries that name as the
last segment of its path, so that the backend's record alone tells what was undone, and when.
"""

import itertools
import json
import secrets

from support import rawhttp
from support.waiting import wait_until

POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: guard }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test, 127.0.0.1 ], timeout: {timeout},
          connect_timeout: 30s }}
  bank: {{ url: "{keyed_url}", hosts: [ bank.test ], key_header: Idempotency-Key,
          timeout: {timeout}, connect_timeout: 30s }}
tools:
  orders.create:
    match: POST shop /orders/{{token}}
    effect: write
    external_ref: answer.body#/id
    settle: {{ request: "GET /orders/{{path.token}}?client_ref={{body#/client_ref}}",
              happened: answer.body#/items/0/id, absent_after: {absent_after} }}
    undo: {{ request: "DELETE /orders/{{external_ref}}", done: [ 2xx, 404 ],
            repeatable: true{undo} }}
  payments.charge:
    match: POST bank /v1/payments/{{token}}
    effect: write
    external_ref: answer.body#/id
    settle: {{ request: "GET /v1/payments/{{path.token}}?client_ref={{key}}",
              happened: answer.body#/items/0/id, absent_after: {absent_after} }}
    undo: {{ request: "POST /v1/refunds/{{external_ref}}",
            json: {{ charge: "{{external_ref}}" }}, repeatable: by_key{undo} }}
  refunds.create:
    match: POST bank /v1/refunds/{{token}}
    effect: write
    undo: none
    reason: it is itself an undo
  shipping.book:
    match: POST shop /shipping/{{token}}
    effect: write
    breaks_flow: on_failure
    external_ref: answer.body#/id
    settle: {{ request: "GET /shipping/{{path.token}}?client_ref={{body#/client_ref}}",
              happened: answer.body#/items/0/id, absent_after: {absent_after} }}
    undo: {{ request: "DELETE /shipping/{{external_ref}}", repeatable: true{undo} }}
{tools}flows:
  checkout: {{ tools: [ orders.create, payments.charge, shipping.book ],
              ends_with: shipping.book{deadline} }}
{flows}"""

# A flow that stops at its deadline unless a stamp follows its note.
NOTES = """\
  notes.create:
    match: POST shop /notes/{token}
    effect: write
    external_ref: answer.body#/id
    redact: [ answer.body#/secret ]
    undo: { request: "DELETE /notes/{external_ref}", done: [ 2xx, 404 ] }
  stamps.create:
    match: POST shop /stamps/{token}
    effect: write
    undo: none
    reason: nothing comes of it
"""
NOTE_FLOW = """\
  note: { tools: [ notes.create, stamps.create ], ends_with: stamps.create, deadline: 200ms,
          on_deadline: ask }
"""


def policy(double, timeout="60s", tools="", flows="", deadline="", absent_after="3s", undo=""):
    """`tools` and `flows` are further lines, `deadline` further words of the checkout, `undo` of
    each undo."""
    return POLICY.format(
        url=double.url,
        keyed_url=double.keyed_url,
        timeout=timeout,
        absent_after=absent_after,
        tools=tools,
        flows=flows,
        deadline=deadline and f", {deadline}",
        undo=undo and f", {undo}",
    )


def answer_with(status, text="Said"):
    """Steps of a script: reads the request and says this."""
    return ["read", {"send": f"HTTP/1.1 {status} {text}\r\nContent-Length: 0\r\n\r\n"}]


class Shop:
    """One Recourse before the double."""

    numbers = itertools.count(1)

    def __init__(self, recourse, double):
        self.recourse = recourse
        self.double = double

    def agent(self, token, **how):
        return Agent(self, token, **how)

    def told(self, what, flow):
        """The log lines that say this of that flow."""
        lines = [json.loads(line) for line in self.recourse.stderr().splitlines() if what in line]
        return [line for line in lines if line["msg"] == what and line["flow"] == flow]


class Agent:
    """One agent in one flow: its trace, or the flow that it names."""

    def __init__(self, shop, token, name=None, trace=None):
        self.shop = shop
        self.double = shop.double
        self.token = token
        self.trace = trace or secrets.token_hex(16)
        self.name = name
        self.flow = name or self.trace
        self.connect = rawhttp.Connection
        self.effects = {}  # kind -> the effect's name, as it was answered

    def path(self, kind, token=None):
        prefix = "/v1" if kind in ("payments", "refunds") else ""
        return f"{prefix}/{kind}/{token or self.token}"

    def call(self, kind, token=None, method="POST", timeout=rawhttp.TIMEOUT, **headers):
        fields = {
            "Host": "bank.test" if kind == "payments" else "shop.test",
            "traceparent": f"00-{self.trace}-b7ad6b7169203331-01",
            "Content-Type": "application/json",
        }
        if self.name:
            fields["Recourse-Flow"] = self.name
        fields.update({name.replace("_", "-"): value for name, value in headers.items()})
        fields = {name: value for name, value in fields.items() if value is not None}
        host = fields.pop("Host")
        body = json.dumps({"client_ref": token or self.token}).encode()
        if method != "POST":
            del fields["Content-Type"]
            body = b""
        with self.connect(self.shop.recourse.port, timeout) as connection:
            path = self.path(kind, token)
            connection.send(rawhttp.render(method, path, host, fields, body))
            answer = connection.response(method)
        if 200 <= answer.status < 300 and method == "POST":
            self.effects[kind if token is None else f"{kind} {token}"] = answer.json().get("id")
        return answer

    def does(self, *kinds):
        for kind in kinds:
            answer = self.call(kind)
            assert answer.status == 201, answer

    def script(self, kind, steps, times=1, token=None):
        """What the backend does with the next write of that kind."""
        self.double.script("POST", self.path(kind, token), steps, times)

    def undo_of(self, kind):
        """(method, path) of the request that undoes it."""
        name = self.effects[kind]
        if kind == "payments":
            return "POST", f"/v1/refunds/{name}"
        return "DELETE", f"/{kind.split(' ')[0]}/{name}"

    def script_undo(self, kind, steps, times=1):
        self.double.script(*self.undo_of(kind), steps, times)

    def breaks(self):
        """The step that breaks the flow: refused, and nothing of it happened."""
        self.script("shipping", answer_with("422 Unprocessable"))
        answer = self.call("shipping")
        assert answer.status == 422, answer

    def undone(self):
        """Which effects of this flow were undone at the backend, in order, every time."""
        kinds = {name: kind for kind, name in self.effects.items()}
        return [
            kinds[line["path"].rpartition("/")[2]]
            for line in self.double.record()
            if line["t"] == "effect" and line["path"].rpartition("/")[2] in kinds
        ]

    def undo_requests(self, kind):
        method, path = self.undo_of(kind)
        return self.double.requests(path, method)

    def events(self):
        return self.shop.recourse.events(trace=self.trace)

    def phases(self, kind, token=None):
        path = self.path(kind, token)
        return [e["phase"] for e in self.events() if e["path"] == path and e["method"] == "POST"]

    def await_undone(self):
        """Waits until the flow is UNDONE."""
        try:
            wait_until(lambda: self.shop.told("a flow was undone", self.flow))
        except AssertionError as error:
            raise AssertionError(f"{self.story()} {self.shop.recourse.stderr()[-1500:]}") from error

    def await_parked(self):
        """Waits until the flow is parked or has stopped; gives the last reason."""
        try:
            lines = wait_until(
                lambda: self.shop.told("a flow needs a human", self.flow)
                or self.shop.told("a flow stopped unfinished", self.flow)
            )
        except AssertionError as error:
            raise AssertionError(f"{self.story()} {self.shop.recourse.stderr()[-1500:]}") from error
        return lines[-1]["reason"]

    def story(self):
        return [(e["method"], e["path"], e["phase"], e["attempt"], e["detail"])
                for e in self.events()]  # fmt: skip
