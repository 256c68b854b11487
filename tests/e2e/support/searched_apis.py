"""Doubles of APIs whose writes are found by a search, twin by twin, or are undone as their state
says. Each is true to what public sources say of it, which its docstring names."""

import json
import urllib.parse

from support.apis import Api, Refused


class SquareOrders(Api):
    """Orders (square/connect-api-specification, api.json): SearchOrders is a POST that only asks,
    has no filter for `reference_id`, and answers a `cursor` while there is more; `metadata` is
    shown. Two orders a page here. Orders are canceled by PUT."""

    routes = (
        ("POST /v2/orders", "create"),
        ("POST /v2/orders/search", "search"),
        ("PUT /v2/orders/([^/]+)", "cancel"),
    )

    def __init__(self):
        super().__init__()
        self.bodies = []

    def create(self, _, body):
        self.bodies.append(body)
        order = {"id": f"o{self.next_number()}", "state": "OPEN", **json.loads(body)["order"]}
        self.things[order["id"]] = order
        self.happened(f"order {order['reference_id']}")
        return 200, {"order": order}

    def search(self, _, body):
        start = int(json.loads(body).get("cursor", "0"))
        orders = list(self.things.values())
        answer = {"orders": orders[start : start + 2]}
        if start + 2 < len(orders):
            answer["cursor"] = str(start + 2)
        return 200, answer

    def cancel(self, _, body, name):
        self.things[name]["state"] = json.loads(body)["order"]["state"]
        self.happened(f"cancel {self.things[name]['reference_id']}")
        return 200, {"order": self.things[name]}


class GitRefs(Api):
    """References of GitHub (github/rest-api-description): a second POST of one is refused with 422
    "Reference already exists", whoever made it and wherever it points
    (rust-lang/promote-release#112, renovatebot/renovate#20281); GET shows where; DELETE answers
    204, and 422 once it is gone."""

    routes = (
        ("POST /repos/a/b/git/refs", "create"),
        ("GET /repos/a/b/git/ref/(.+)", "show"),
        ("DELETE /repos/a/b/git/refs/(.+)", "delete"),
    )

    def create(self, _, body):
        asked = json.loads(body)
        if asked["ref"] in self.things:
            raise Refused(422, {"message": "Reference already exists"})
        self.things[asked["ref"]] = asked["sha"]
        self.happened(f"create {asked['ref']}")
        return 201, {"ref": asked["ref"], "object": {"sha": asked["sha"]}}

    def show(self, _, __, name):
        ref = f"refs/{name}"
        if ref not in self.things:
            raise Refused(404, {"message": "Not Found"})
        return 200, {"refs": [{"ref": ref, "object": {"sha": self.things[ref]}}]}

    def delete(self, _, __, name):
        if f"refs/{name}" not in self.things:
            raise Refused(422, {"message": "Reference does not exist"})
        self.remove(f"refs/{name}", (422, None))
        return 204, None


class PaymentIntents(Api):
    """PaymentIntents of Stripe (stripe/stripe-python): one in `requires_capture` is canceled, one
    that `succeeded` is refunded; canceling that is 400 payment_intent_unexpected_state."""

    routes = (
        ("POST /v1/payment_intents", "create"),
        ("GET /v1/payment_intents", "list"),
        ("POST /v1/payment_intents/([^/]+)/cancel", "cancel"),
        ("POST /v1/refunds", "refund"),
    )

    def create(self, _, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        states = {"manual": "requires_capture", "automatic": "succeeded"}
        intent = {"id": f"pi_{self.next_number()}", "metadata": {"order": form["order"]}}
        state = states.get(form["capture_method"])
        if state is not None:
            intent["status"] = state
        self.things[intent["id"]] = dict(intent)
        self.happened("intent")
        return 200, intent

    def list(self, *_):
        return 200, {"object": "list", "data": list(self.things.values()), "has_more": False}

    def cancel(self, _, __, name):
        if self.things[name]["status"] != "requires_capture":
            raise Refused(400, {"error": {"code": "payment_intent_unexpected_state"}})
        self.things[name]["status"] = "canceled"
        self.happened("cancel")
        return 200, self.things[name]

    def refund(self, _, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if self.things[form["payment_intent"]]["status"] != "succeeded":
            raise Refused(400, {"error": {"code": "charge_not_captured"}})
        self.happened("refund")
        return 200, {"id": "re_1"}
