"""PayPal (paypal/paypal-rest-api-specifications;
developer.paypal.com/reference/guidelines/idempotency). The same PayPal-Request-Id is answered by
the newest state, in orders with 200 in place of 201; while the first is in work, 409
PREVIOUS_REQUEST_IN_PROGRESS. What the same id with another payload gives is not published for v2:
it is refused here. Sandbox protocols of others: 422 PREVIOUSLY_VOIDED and CAPTURE_FULLY_REFUNDED;
whether an order with a card is answered or refused when it comes again is told in both ways."""

from doubles.base import Case, Double, Kind, Refused, route

ORDERS, PAYMENTS = "/v2/checkout/orders", "/v2/payments"


class PayPal(Double):
    kinds = (Kind("/v2/invoicing/invoices", "invoice", members={"status": "DRAFT"}),)
    too_many = (429, {"name": "RATE_LIMIT_REACHED"}, {})

    def __init__(self):
        self.refuses_card_again = False
        super().__init__()

    def key_of(self, call):
        takes = "invoicing" not in call.path and not call.path.endswith("/void")
        return call.headers.get("PayPal-Request-Id") if takes and call.method == "POST" else None

    def key_reused(self, call):
        raise self.no("DUPLICATE_REQUEST_ID")

    def answer(self, call):
        key = self.key_of(call)
        is_again = key in self.keys and key is not None
        status, body, fields = super().answer(call)
        if is_again and status == 201 and ORDERS in call.path:
            if self.refuses_card_again and call.route.endswith(ORDERS):
                return 422, {"details": [{"issue": "TRANSACTION_REFUSED"}]}, {}
            return 200, body, fields
        return status, body, fields

    def no(self, issue, status=422):
        return Refused(status, {"name": "UNPROCESSABLE_ENTITY", "details": [{"issue": issue}]})

    def put(self, kind, status, **members):
        name = f"{kind} {kind[0]}{self.number()}"
        return self.add(name, kind, id=name.split()[1], status=status, **members)

    def find(self, name):
        if name not in self.things:
            raise self.no("INVALID_RESOURCE_ID", 404)
        return self.things[name]

    @route(f"POST {ORDERS}")
    def order(self, call):
        return 201, self.put("order", "CREATED", **call.json())

    @route(f"POST {ORDERS}/([^/]+)/(authorize|capture)")
    def pay(self, _, order, verb):
        order = self.find(f"order {order}")
        if order["status"] == "COMPLETED":
            raise self.no("ORDER_ALREADY_CAPTURED")
        order["status"] = "COMPLETED"
        name = "authorization" if verb == "authorize" else "capture"
        paid = self.put(name, "CREATED" if verb == "authorize" else "COMPLETED")
        unit = {"payments": {f"{name}s": [{"id": paid["id"]}]}}
        order["purchase_units"] = [unit]
        return 201, {"id": order["id"], "status": "COMPLETED", "purchase_units": [unit]}

    @route(f"GET {ORDERS}/([^/]+)")
    def show(self, _, order):
        return 200, self.find(f"order {order}")

    @route(f"GET {PAYMENTS}/authorizations/([^/]+)")
    def held(self, _, name):
        return 200, self.find(f"authorization {name}")

    @route(f"POST {PAYMENTS}/authorizations/([^/]+)/(capture|reauthorize|void)")
    def on_authorization(self, _, name, verb):
        authorization = self.find(f"authorization {name}")
        status = authorization["status"]
        if verb == "void":
            if status != "CREATED":
                raise self.no(f"PREVIOUSLY_{status}")
            authorization["status"] = "VOIDED"
            self.happened("void")
            return 204, None
        if status != "CREATED":
            raise self.no(f"AUTHORIZATION_ALREADY_{status}")
        if verb == "reauthorize":
            return 201, self.put("authorization", "CREATED")
        authorization["status"] = "CAPTURED"
        return 201, self.put("capture", "COMPLETED")

    @route(f"POST {PAYMENTS}/captures/([^/]+)/refund")
    def refund(self, _, name):
        capture = self.find(f"capture {name}")
        if capture["status"] == "REFUNDED":
            raise self.no("CAPTURE_FULLY_REFUNDED")
        capture["status"] = "REFUNDED"
        return 201, self.put("refund", "COMPLETED")

    @route("POST /v1/payments/payouts")
    def payout(self, call):
        return 201, self.put("batch", "PENDING", **call.json())

    @route("POST /v2/invoicing/invoices/([^/]+)/(send|cancel)")
    def turn(self, _, name, verb):
        invoice = self.find(f"invoice {name}")
        if invoice["status"] != {"send": "DRAFT", "cancel": "SENT"}[verb]:
            raise self.no("INVALID_INVOICE_STATUS")
        invoice["status"] = {"send": "SENT", "cancel": "CANCELLED"}[verb]
        self.happened(verb)
        return 200, {}


DOUBLE = PayPal


def there(kind, status):
    return lambda double: (
        double.make(f"{kind} {kind[0]}{double.number()}", id="x", status=status).split()[1]
    )


def becomes(status):
    return lambda double, _: double.change(double.newest, status=status)


AN_ORDER, HELD = there("order", "APPROVED"), there("authorization", "CREATED")
AN_AUTHORIZATION = f"POST {PAYMENTS}/authorizations/$id"
CASES = [
    Case("paypal.order", f"POST {ORDERS}",
         {"intent": "CAPTURE", "purchase_units": [{"invoice_id": "$token"}]}, undone=None),
    Case("paypal.order.authorize", f"POST {ORDERS}/$id/authorize", {}, given=AN_ORDER,
         undone=["void"], moved=becomes("VOIDED"), moved_undo=[]),
    Case("paypal.order.authorize", f"POST {ORDERS}/$id/authorize", {}, given=AN_ORDER,
         undone=["void"], moved=becomes("CAPTURED")),
    Case("paypal.order.capture", f"POST {ORDERS}/$id/capture", {}, given=AN_ORDER,
         undone=["refund"], moved=becomes("REFUNDED"), moved_undo=[]),
    Case("paypal.authorization.capture", f"{AN_AUTHORIZATION}/capture", {"invoice_id": "$token"},
         given=HELD, undone=["refund"], moved=becomes("REFUNDED"), moved_undo=[]),
    Case("paypal.authorization.renew", f"{AN_AUTHORIZATION}/reauthorize", {"amount": "$token"},
         given=HELD, undone=["void"], moved=becomes("CAPTURED")),
    Case("paypal.authorization.void", f"{AN_AUTHORIZATION}/void", given=HELD, undone=None),
    Case("paypal.capture.refund", f"POST {PAYMENTS}/captures/$id/refund", {},
         given=there("capture", "COMPLETED"), undone=None),
    Case("paypal.payout", "POST /v1/payments/payouts",
         {"sender_batch_header": {"sender_batch_id": "$token"}}, undone=None),
    Case("paypal.invoice.draft", "POST /v2/invoicing/invoices",
         {"detail": {"invoice_number": "$token"}}),
    Case("paypal.invoice.send", "POST /v2/invoicing/invoices/$id/send", {},
         given=there("invoice", "DRAFT"), undone=["cancel"],
         moved=lambda double, names: double.change(f"invoice {names['id']}", status="PAID")),
]  # fmt: skip
