"""Doubles of APIs that take their keys in bodies, and say in words of their own what is undone
already. Each is true to what public sources say of it, which its docstring names."""

import json

from support.apis import Api, Refused


class Square(Api):
    """Payments and refunds (square/connect-api-specification, api.json): `idempotency_key` of at
    most 45 characters in the body is required; the same key with another payload is refused with
    400 IDEMPOTENCY_KEY_REUSED; a declined first attempt burns its key, too
    (developer.squareup.com/docs/working-with-apis/idempotency). CancelPaymentByIdempotencyKey
    answers success also where no payment has that key."""

    routes = (
        ("POST /v2/payments", "pay"),
        ("POST /v2/payments/cancel", "cancel_by_key"),
        ("POST /v2/refunds", "refund"),
        ("GET /v2/payments/by/([^/]+)", "find"),
    )

    def __init__(self):
        super().__init__()
        self.bodies = []  # as they came
        self.by_key = {}
        self.declines = 0
        self.cancels = True  # else a cancellation answers success and does nothing
        self.tells_replays = False  # in a field, as others do

    def error(self, code, status=400):
        return Refused(status, {"errors": [{"category": "INVALID_REQUEST_ERROR", "code": code}]})

    def once(self, path, body, make):
        self.bodies.append((path, body))
        asked = json.loads(body)
        key = asked.get("idempotency_key", "")
        if not 1 <= len(key) <= 45:
            raise self.error("VALUE_TOO_LONG" if key else "MISSING_REQUIRED_PARAMETER")
        if key in self.by_key:
            known, answer = self.by_key[key]
            if known != (path, asked):
                raise self.error("IDEMPOTENCY_KEY_REUSED")
            replayed = {"X-Replayed": "true"} if self.tells_replays else {}
            if isinstance(answer, Refused):
                return answer.status, answer.body, replayed
            return *answer, replayed
        try:
            answer = make(asked, key)
        except Refused as refused:
            answer = refused
        self.by_key[key] = (path, asked), answer
        if isinstance(answer, Refused):
            raise answer
        return answer

    def pay(self, _, body):
        def make(asked, key):
            if self.declines > 0:
                self.declines -= 1
                raise self.error("CARD_DECLINED", 402)
            payment = {"id": f"p{self.next_number()}", "status": "COMPLETED"}
            self.things[payment["id"]] = {**payment, "key": key, "refunded": False}
            self.happened("payment")
            return 200, {"payment": payment}

        return self.once("payments", body, make)

    def refund(self, _, body):
        def make(asked, key):
            payment = self.things.get(asked["payment_id"])
            if payment is None or payment["refunded"]:
                raise self.error("PAYMENT_NOT_REFUNDABLE")
            payment["refunded"] = True
            self.happened("refund")
            return 200, {"refund": {"id": f"r{self.next_number()}", "status": "PENDING"}}

        return self.once("refunds", body, make)

    def cancel_by_key(self, _, body):
        key = json.loads(body)["idempotency_key"]
        for payment in self.things.values():
            if payment["key"] == key and self.cancels and payment["status"] != "CANCELED":
                payment["status"] = "CANCELED"
                self.happened("cancel")
        return 200, {}

    def find(self, _, __, key):
        for payment in self.things.values():
            if payment["key"] == key:
                return 200, {"payment": {"id": payment["id"], "status": payment["status"]}}
        raise self.error("NOT_FOUND", 404)


class Calendar(Api):
    """Events of Google Calendar (developers.google.com/calendar/api/v3/reference/events): `id` is
    the client's, of a-v and 0-9, 5 to 1024 long; a second insert of it is refused with 409;
    deleting answers 204, and 410 once it is deleted."""

    routes = (
        ("POST /calendar/v3/calendars/primary/events", "insert"),
        ("DELETE /calendar/v3/calendars/primary/events/([^/]+)", "delete"),
    )

    def __init__(self):
        super().__init__()
        self.bodies = []

    def insert(self, _, body):
        self.bodies.append(("events", body))
        event = json.loads(body)
        name = event.get("id", "")
        if not 5 <= len(name) <= 1024 or set(name) - set("0123456789abcdefghijklmnopqrstuv"):
            raise Refused(400, {"error": {"code": 400, "message": "Invalid resource id value."}})
        if name in self.things:
            raise Refused(409, {"error": {"code": 409, "errors": [{"reason": "duplicate"}]}})
        self.things[name] = "confirmed"
        self.happened("event")
        return 200, {**event, "status": "confirmed"}

    def delete(self, _, __, name):
        if name not in self.things:
            raise Refused(404, {"error": {"code": 404}})
        if self.things[name] == "cancelled":
            raise Refused(410, {"error": {"code": 410, "errors": [{"reason": "deleted"}]}})
        self.things[name] = "cancelled"
        self.happened("delete")
        return 204, None


class PayPal(Api):
    """Authorizations of PayPal (paypal/paypal-rest-api-specifications, payments_payment_v2.json):
    void answers 204, or 200 with `Prefer: return=representation`; 422 with the issue
    PREVIOUSLY_VOIDED once it is void, PREVIOUSLY_CAPTURED once it is captured."""

    routes = (
        ("POST /v2/checkout/orders/([^/]+)/authorize", "authorize"),
        ("POST /v2/payments/authorizations/([^/]+)/void", "void"),
        ("GET /v2/payments/authorizations", "show"),
    )

    def authorize(self, http_request, _, order):
        name = f"a{self.next_number()}"
        self.things[name] = "CREATED"
        self.happened("authorization")
        return 201, {"id": name, "status": "CREATED"}

    def void(self, http_request, _, name):
        if self.things[name] != "CREATED":
            issue = f"PREVIOUSLY_{self.things[name]}"
            raise Refused(422, {"name": "UNPROCESSABLE_ENTITY", "details": [{"issue": issue}]})
        self.things[name] = "VOIDED"
        self.happened("void")
        if http_request.headers.get("Prefer") != "return=representation":
            return 204, None
        return 200, {"id": name, "status": "VOIDED"}

    def show(self, *_):
        return 200, {"authorizations": [{"id": name} for name in self.things]}


class Payouts(Api):
    """Batches that are taken on, and answered by their newest state to whoever comes again with
    their key (paypal/paypal-rest-api-specifications, payments_payouts_batch_v1.json)."""

    routes = (("POST /v1/payouts", "pay"), ("GET /v1/payouts", "show"))

    def __init__(self):
        super().__init__()
        self.by_key = {}
        self.is_done = False

    def pay(self, http_request, _):
        key = http_request.headers["PayPal-Request-Id"]
        if key not in self.by_key:
            self.by_key[key] = f"b{self.next_number()}"
            self.happened("payout")
        state = "SUCCESS" if self.is_done else "PENDING"
        return 200 if self.is_done else 202, {"id": self.by_key[key], "status": state}

    def show(self, *_):
        return 200, {"batches": [{"id": name} for name in self.by_key.values()] * self.is_done}
