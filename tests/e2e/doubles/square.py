"""Square (square/connect-api-specification api.json; developer.squareup.com: idempotency): the key
is `idempotency_key` in the body, of 45 characters at most for payments and refunds; another
payload under it is refused with 400 IDEMPOTENCY_KEY_REUSED; orders and invoices are versioned.
What a second cancellation by id gives is not published: it is refused. CardPaymentTimeline tells
when a card's payment was captured or voided."""

import json

from doubles.base import Case, Double, Kind, Refused, route


class Square(Double):
    kinds = (Kind("/v2/customers", "customer", wrap="customer", made=200, deleted=200),)
    volatile = ("idempotency_key", "version", "version_token")
    too_many = (429, {"errors": [{"category": "RATE_LIMIT_ERROR", "code": "RATE_LIMITED"}]}, {})
    takes_key = ("POST /v2/payments", "POST /v2/refunds", "POST /v2/orders", "POST /v2/customers",
                 "POST /v2/invoices", "PUT /v2/orders", "PUT /v2/payments")  # fmt: skip

    def key_of(self, call):
        key = json.loads(call.body or b"{}").get("idempotency_key")
        is_short = call.route in ("POST /v2/payments", "POST /v2/refunds") or (
            call.route.startswith("PUT /v2/payments/"))  # fmt: skip
        if is_short and not 1 <= len(key or "") <= 45:
            raise self.no("MISSING_REQUIRED_PARAMETER")
        takes = call.route.startswith(self.takes_key) and not call.route.endswith("cancel")
        return key if takes else None

    def key_reused(self, call):
        raise self.no("IDEMPOTENCY_KEY_REUSED")

    def no(self, code, status=400):
        return Refused(status, {"errors": [{"category": "INVALID_REQUEST_ERROR", "code": code}]})

    def put(self, kind, **members):
        name = f"{kind} {kind[0]}{self.number()}"
        return self.add(name, kind, **{**members, "id": name.split()[1]})

    def find(self, name):
        if name not in self.things:
            raise self.no("NOT_FOUND", 404)
        return self.things[name]

    @route("POST /v2/payments")
    def pay(self, call):
        asked = call.json()
        status = "COMPLETED" if asked.get("autocomplete", True) else "APPROVED"
        return 200, {"payment": self.put("payment", **asked, status=status, refunded=False)}

    @route("(GET|PUT) /v2/payments/([^/]+)")
    def one_payment(self, call, method, name):
        payment = self.find(f"payment {name}")
        if method == "PUT":
            asked = call.json()["payment"]
            if asked.pop("version_token", payment["version_token"]) != payment["version_token"]:
                raise self.no("VERSION_MISMATCH")
            payment.update(asked)
            self.touch(payment)
            self.happened("payment changed")
        return 200, {"payment": payment}

    @route("(GET|PUT) /v2/customers/([^/]+)")
    def one_customer(self, call, method, name):
        customer = self.find(f"customer {name}")
        if method == "PUT":
            asked = call.json()
            customer = self.versioned(f"customer {name}", asked.pop("version", customer["version"]))
            customer.update(asked)
            self.happened("customer changed")
        return 200, {"customer": customer}

    @route("POST /v2/payments/([^/]+)/(complete|cancel)")
    def turn_payment(self, _, name, verb):
        payment = self.find(f"payment {name}")
        if payment["status"] != "APPROVED":
            raise self.no("INVALID_REQUEST_ERROR")
        payment["status"] = {"complete": "COMPLETED", "cancel": "CANCELED"}[verb]
        at = {"complete": "captured_at", "cancel": "voided_at"}[verb]
        timeline = {"authorized_at": "2026-08-20T10:00:00Z", at: "2026-08-20T10:05:00Z"}
        payment["card_details"] = {"card_payment_timeline": timeline}
        self.happened(verb)
        return 200, {"payment": payment}

    @route("POST /v2/refunds")
    def refund(self, call):
        asked = call.json()
        payment = self.find(f"payment {asked['payment_id']}")
        if payment["status"] != "COMPLETED" or payment["refunded"]:
            raise self.no("PAYMENT_NOT_REFUNDABLE")
        assert asked["amount_money"] == payment["amount_money"]
        payment["refunded"] = True
        return 200, {"refund": self.put("refund", **asked, status="PENDING")}

    @route("POST /v2/(order|invoice)s")
    def create(self, call, kind):
        asked = call.json()[kind]
        states = {"order": {"state": "OPEN"}, "invoice": {"status": "DRAFT"}}
        return 200, {kind: self.put(kind, **{**asked, **states[kind], "version": 1})}

    def versioned(self, name, version):
        thing = self.find(name)
        if int(version) != thing["version"]:
            raise self.no("VERSION_MISMATCH")
        thing["version"] += 1
        return thing

    def touch(self, thing):
        if "version" in thing:
            thing["version"] += 1
        if "version_token" in thing:
            thing["version_token"] = f"v{self.number()}"

    @route("PUT /v2/orders/([^/]+)")
    def update_order(self, call, name):
        asked = call.json()["order"]
        order = self.versioned(f"order {name}", asked.pop("version"))
        order.update(asked)
        self.happened(f"order {asked['state']}")
        return 200, {"order": order}

    @route("DELETE /v2/invoices/([^/]+)")
    def drop_invoice(self, call, name):
        if self.versioned(f"invoice {name}", call.query["version"])["status"] != "DRAFT":
            raise self.no("BAD_REQUEST")
        del self.things[f"invoice {name}"]
        self.happened("delete invoice")
        return 200, {}

    @route("POST /v2/invoices/([^/]+)/(publish|cancel)")
    def turn_invoice(self, call, name, verb):
        invoice = self.find(f"invoice {name}")
        if invoice["status"] != {"publish": "DRAFT", "cancel": "UNPAID"}[verb]:
            raise self.no("BAD_REQUEST")
        self.versioned(f"invoice {name}", call.json()["version"])
        invoice["status"] = {"publish": "UNPAID", "cancel": "CANCELED"}[verb]
        self.happened(verb)
        return 200, {"invoice": invoice}


DOUBLE = Square
MONEY = {"amount": 500, "currency": "EUR"}


def a_payment(status):
    return lambda double: double.make(
        f"payment p{double.number()}", status=status, refunded=False, amount_money=MONEY
    ).split()[1]


def a_customer(double):
    name = f"c{double.number()}"
    double.make(f"customer {name}", id=name, given_name="Old", note="Old", version=1)
    return name


def an_approved_payment(double):
    name = a_payment("APPROVED")(double)
    double.change(f"payment {name}", version_token="v1")
    return name


def goes_on(**members):
    return lambda double, _: double.change(double.newest, **members)


CASES = [
    Case("square.payment", "POST /v2/payments",
         {"source_id": "cnon", "amount_money": MONEY, "reference_id": "$token"},
         undone=["refund"], moved=goes_on(refunded=True)),
    Case("square.payment", "POST /v2/payments",
         {"source_id": "cnon", "amount_money": MONEY, "reference_id": "$token",
          "autocomplete": False},
         undone=["cancel"], moved=goes_on(status="COMPLETED")),
    Case("square.payment.update", "PUT /v2/payments/$id",
         {"payment": {"amount_money": {"amount": 700, "currency": "EUR"}}},
         given=an_approved_payment,
         foreign=lambda double, names: double.change(
             f"payment {names['id']}", amount_money={"amount": 1, "currency": "EUR"})),
    Case("square.payment.update", "PUT /v2/payments/$id",
         {"payment": {"tip_money": {"amount": 70, "currency": "EUR"}}},
         given=an_approved_payment, parks=True),
    Case("square.payment.complete", "POST /v2/payments/$id/complete", {},
         given=a_payment("APPROVED"), undone=["refund"], lost_parks=True),
    Case("square.payment.cancel", "POST /v2/payments/$id/cancel", {},
         given=a_payment("APPROVED"), undone=None),
    Case("square.refund", "POST /v2/refunds", {"payment_id": "$id", "amount_money": MONEY},
         given=a_payment("COMPLETED"), undone=None),
    Case("square.order", "POST /v2/orders",
         {"order": {"location_id": "l1", "reference_id": "$token"}}, undone=["order CANCELED"],
         foreign=goes_on(state="COMPLETED")),
    Case("square.customer", "POST /v2/customers", {"email_address": "$token@b.test"}),
    Case("square.customer.update", "PUT /v2/customers/$id", {"given_name": "$token"},
         given=a_customer, foreign=lambda double, names: double.change(
             f"customer {names['id']}", note="Theirs")),
    Case("square.customer.update", "PUT /v2/customers/$id", {"family_name": "$token"},
         given=a_customer, parks=True),
    Case("square.customer.delete", "DELETE /v2/customers/$id", undone=None,
         given=a_customer),
    Case("square.invoice", "POST /v2/invoices", {"invoice": {"order_id": "$token"}},
         foreign=goes_on(title="Theirs"), moved=goes_on(status="UNPAID")),
    Case("square.invoice.publish", "POST /v2/invoices/$id/publish", {"version": 1},
         given=lambda double: double.make(
             f"invoice i{double.number()}", status="DRAFT", version=1).split()[1],
         undone=["cancel"], foreign=None,
         moved=lambda double, names: double.change(f"invoice {names['id']}", status="PAID")),
]  # fmt: skip
