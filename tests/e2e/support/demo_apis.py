"""Three small APIs, as a stranger might have them, and agents' calls of them, and of an MCP
server's tools, that are known to be repeats of each other, or other intents."""

import datetime
import json
import urllib.parse
import uuid

from support.apis import Api, Refused


class Demo(Api):
    def check(self, http_request):
        pass

    def make(self, kind, body, **more):
        thing = {"id": f"{kind}-{self.next_number()}", **json.loads(body), **more}
        self.things[thing["id"]] = thing
        self.happened(thing["id"])
        return 201, thing

    def get(self, _, __, name):
        if name not in self.things:
            raise Refused(404, {"error": "not found"})
        return 200, self.things[name]

    def end(self, _, __, name):
        self.get(_, __, name)
        self.things[name]["state"] = "ended"
        self.happened(f"end {name}")
        return 200, {"state": "ended"}


class Shop(Demo):
    routes = (
        ("POST /orders", "order"),
        ("GET /orders", "search"),
        ("GET /orders/([^/]+)", "get"),
        ("PUT /orders/([^/]+)", "replace"),
        ("DELETE /orders/([^/]+)", "delete"),
    )

    def order(self, _, body):
        return self.make("ord", body, state="open")

    def search(self, http_request, _):
        query = urllib.parse.urlsplit(http_request.path).query
        cart = urllib.parse.parse_qs(query)["cart_id"][0]
        return 200, {"orders": [t for t in self.things.values() if t.get("cart_id") == cart]}

    def replace(self, _, body, name):
        self.things[name].update(json.loads(body))
        self.happened(f"replace {name}")
        return 200, self.things[name]

    def delete(self, _, __, name):
        self.remove(name, (404, {"error": "not found"}))
        return 204, None


class Payments(Demo):
    routes = (
        ("POST /v1/charges", "charge"),
        ("GET /v1/charges/([^/]+)", "get"),
        ("POST /v1/charges/([^/]+)/refund", "end"),
        ("POST /v1/transfers", "transfer"),
        ("GET /v1/transfers/([^/]+)", "get"),
    )

    def charge(self, _, body):
        return self.make("ch", body, status="paid")

    def transfer(self, _, body):
        return self.make("tr", body, status="sent")


class Desk(Demo):
    routes = (
        ("POST /bookings", "book"),
        ("GET /bookings/([^/]+)", "get"),
        ("POST /bookings/([^/]+)/cancel", "end"),
        ("POST /tickets", "ticket"),
        ("POST /nights", "night"),
        ("DELETE /nights/([^/]+)", "delete"),
    )

    def book(self, _, body):
        return self.make("b", body, state="booked")

    def ticket(self, _, body):
        return self.make("t", body, state="new")

    def night(self, _, __):
        self.things["midsummer"] = {"id": "midsummer"}
        self.happened("midsummer")
        return 201, self.things["midsummer"]

    def delete(self, _, __, name):
        self.remove(name, (404, {"error": "not found"}))
        return 204, None


def now(attempt):
    return datetime.datetime.now(datetime.UTC).isoformat() + f"#{attempt}"


# What an agent sends for intent `n`, at its first attempt or at a later one.
def order(n, attempt):
    return {
        "cart_id": f"cart-{n}",
        "customer": f"cu-{n % 4}",
        "lines": [{"sku": f"sku-{n % 7}", "quantity": n % 3}],
        "sent_at": now(attempt),
    }


def charge(n, attempt):
    words = ("for order", "paid for the order")[attempt % 2]
    return {"order_ref": f"A-{n}", "amount": n * 37 % 500, "memo": f"{words} {n}"}


def booking(n, attempt):
    request = uuid.uuid5(uuid.NAMESPACE_URL, f"{n} {attempt}")
    return {"seat": f"S-{n}", "event": f"ev-{n % 2}", "request": str(request)}


def transfer(n, attempt):
    """The same to the same people every few days: only the time tells two apart."""
    return {"to": f"acc-{n % 5}", "amount": 100 + n % 5, "sent_at": now(attempt)}


def ticket(n, attempt):
    """Only its words tell a ticket from another one."""
    words = ("it does not work", "it is broken")[attempt % 2]
    return {"queue": "support", "text": f"{words} in room {n}"}


def tool_order(n, attempt):
    """Arguments of create_order, with words for those who pack it."""
    words = ("please pack it well", "pack it well please")[attempt % 2]
    return {"item": f"item-{n}", "amount": n % 3, "note": f"{words} {n}"}


def mail(n, attempt):
    """Arguments of send_mail: only its words tell a mail from another one."""
    words = ("your order is there", "there is your order")[attempt % 2]
    return {"to": f"ada{n % 5}@example.com", "subject": "Hello", "body": f"{words}, number {n}"}
