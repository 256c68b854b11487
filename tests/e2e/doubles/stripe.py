"""Stripe, API v1. Facts from docs.stripe.com/api (idempotent_requests, errors), its page
error-low-level, and stripe/stripe-python (docstrings of stripe/_*_service.py, the codes in
stripe/_payment_intent.py):

* every POST takes an Idempotency-Key; the first status and body, 500s included, come again for at
  least 24 hours; what was refused before it began (validation, 429, 401) is not kept.
* other parameters, or another endpoint, under a key: 400, type idempotency_error.
* a PaymentIntent that cannot be canceled: 400 payment_intent_unexpected_state, with the intent.
* a charge without anything left to refund: 400 charge_already_refunded.
* DELETE of a customer answers `deleted: true`, as a GET of it does afterwards; only drafts of
  invoices, and items that no final invoice has, are deleted; a transfer is reversed up to its
  amount.
* objects show all their fields, empty ones as null; a change of one answers the whole.
Not published, so offered in both ways: what a second DELETE of a customer answers."""

from doubles.base import Case, Double, Refused, route

INTENT = "POST /v1/payment_intents"


class Stripe(Double):
    too_many = (429, {"error": {"type": "rate_limit_error"}}, {"Stripe-Should-Retry": "true"})

    def __init__(self):
        self.deleted_twice = 404  # or 200
        self.deleted = set()  # customers
        super().__init__()

    def check(self, call):
        if not call.headers.get("Authorization", "").startswith("Bearer "):
            raise self.no(401, "api_key_missing")

    def key_of(self, call):
        return call.headers.get("Idempotency-Key") if call.method == "POST" else None

    def key_hit(self):
        return {"Idempotent-Replayed": "true"}

    def key_reused(self, call):
        raise Refused(400, {"error": {"type": "idempotency_error", "message": "Keys for idempotent "
                      "requests can only be used with the same parameters"}})  # fmt: skip

    def keeps(self, answer):
        body = answer[1] or {}
        return body.get("error", {}).get("code") != "parameter_missing"

    def no(self, status, code, **more):
        error = {"type": "invalid_request_error", "code": code, **more}
        return Refused(status, {"error": error}, {"Stripe-Should-Retry": "false"})

    def find(self, name, kind):
        thing = self.things.get(name)
        if thing is None or thing["object"] != kind:
            raise self.no(404, "resource_missing")
        return thing

    def create(self, call, prefix, kind, *needs, **members):
        form = call.form()
        if call.headers.get("Content-Type") != "application/x-www-form-urlencoded":
            raise self.no(400, "content_type")
        for need in needs:
            if not form.get(need):
                raise self.no(400, "parameter_missing")
        name = f"{prefix}_{self.number()}"
        return 200, self.add(name, kind, id=name, object=kind, **{**form, **members})

    def set(self, thing, what, **members):
        thing.update(members)
        self.happened(what)
        return 200, thing

    # Payments.
    @route("POST /v1/charges")
    def charge(self, call):
        return self.create(call, "ch", "charge", "amount", "currency", refunded=False)

    @route(INTENT)
    def intent(self, call):
        form, status = call.form(), "requires_confirmation"
        if form.get("confirm") == "true":
            status = "requires_capture" if form.get("capture_method") == "manual" else "succeeded"
        needs = ("amount", "currency")
        return self.create(call, "pi", "payment_intent", *needs, status=status, refunded=False)

    @route(f"{INTENT}/([^/]+)/confirm")
    def confirm(self, _, name):
        intent = self.find(name, "payment_intent")
        return self.step(intent, "requires_confirmation", "confirm", "succeeded")

    @route(f"{INTENT}/([^/]+)/capture")
    def capture(self, _, name):
        intent = self.find(name, "payment_intent")
        return self.step(intent, "requires_capture", "capture", "succeeded")

    def step(self, intent, wanted, what, status):
        if intent["status"] != wanted:
            raise self.no(400, "payment_intent_unexpected_state", payment_intent=dict(intent))
        return self.set(intent, what, status=status)

    @route(f"{INTENT}/([^/]+)/cancel")
    def cancel(self, _, name):
        intent = self.find(name, "payment_intent")
        if intent["status"] in ("succeeded", "canceled"):
            raise self.no(400, "payment_intent_unexpected_state", payment_intent=dict(intent))
        return self.set(intent, "cancel", status="canceled")

    @route("POST /v1/refunds")
    def refund(self, call):
        form = call.form()
        kind = "charge" if "charge" in form else "payment_intent"
        paid = self.find(form.get(kind), kind)
        if paid["refunded"]:
            raise self.no(400, "charge_already_refunded")
        if paid.get("status", "succeeded") != "succeeded":
            raise self.no(400, "charge_not_captured")
        paid["refunded"] = True
        return self.create(call, "re", "refund", status="succeeded")

    # Changes of what there is.
    @route("GET /v1/(?:payment_intents|customers|invoices|subscriptions)/([^/]+)")
    def show(self, _, name):
        if name in self.deleted:
            return 200, {"id": name, "object": "customer", "deleted": True}
        if name not in self.things:
            raise self.no(404, "resource_missing")
        return 200, self.things[name]

    @route("POST /v1/(payment_intents|customers|invoices|subscriptions)/([^/]+)")
    def update(self, call, kind, name):
        thing = self.things.get(name)
        if thing is None:
            raise self.no(404, "resource_missing")
        typed = {"amount": int, "cancel_at_period_end": lambda text: text == "true"}
        changes = {field: typed.get(field, str)(value) for field, value in call.form().items()}
        return self.set(thing, f"{kind} changed", **changes)

    # Customers, catalogue.
    @route("POST /v1/customers")
    def customer(self, call):
        return self.create(call, "cus", "customer")

    @route("DELETE /v1/(customers|products)/([^/]+)")
    def delete(self, _, kind, name):
        if name not in self.things:
            if self.deleted_twice == 404:
                raise self.no(404, "resource_missing")
            return 200, {"id": name, "deleted": True}
        del self.things[name]
        self.deleted.update([name] if kind == "customers" else [])
        self.happened(f"delete {kind}")
        return 200, {"id": name, "deleted": True}

    @route("POST /v1/products")
    def product(self, call):
        return self.create(call, "prod", "product", "name")

    @route("POST /v1/prices")
    def price(self, call):
        return self.create(call, "price", "price", "currency", active="true")

    @route("POST /v1/payment_links")
    def link(self, call):
        return self.create(call, "plink", "payment_link", active="true")

    @route("POST /v1/(prices|payment_links)/([^/]+)")
    def deactivate(self, call, _, name):
        return self.set(self.things[name], "deactivate", **call.form())

    # Invoices.
    @route("POST /v1/invoices")
    def invoice(self, call):
        return self.create(call, "in", "invoice", "customer", status="draft")

    @route("DELETE /v1/invoices/([^/]+)")
    def drop_invoice(self, _, name):
        if self.find(name, "invoice")["status"] != "draft":
            raise self.no(400, "invoice_not_editable")
        del self.things[name]
        self.happened("delete invoice")
        return 200, {"id": name, "deleted": True}

    @route("POST /v1/invoices/([^/]+)/(finalize|void|send)")
    def turn(self, _, name, verb):
        wanted, status = {"finalize": ("draft", "open"), "void": ("open", "void"),
                          "send": ("open", "open")}[verb]  # fmt: skip
        invoice = self.find(name, "invoice")
        if invoice["status"] != wanted:
            raise self.no(400, "invoice_not_editable")
        return self.set(invoice, verb, status=status)

    @route("POST /v1/invoiceitems")
    def item(self, call):
        return self.create(call, "ii", "invoiceitem", "customer", invoice=None)

    @route("DELETE /v1/invoiceitems/([^/]+)")
    def drop_item(self, _, name):
        if self.find(name, "invoiceitem")["invoice"] is not None:
            raise self.no(400, "invoice_not_editable")
        del self.things[name]
        self.happened("delete item")
        return 200, {"id": name, "deleted": True}

    # Subscriptions.
    @route("POST /v1/subscriptions")
    def subscribe(self, call):
        status = "trialing" if "trial_period_days" in call.form() else "active"
        return self.create(call, "sub", "subscription", "customer", status=status)

    @route("DELETE /v1/subscriptions/([^/]+)")
    def unsubscribe(self, _, name):
        thing = self.find(name, "subscription")
        if thing["status"] == "canceled":
            raise self.no(404, "resource_missing")
        return self.set(thing, "end subscription", status="canceled")

    # Transfers.
    @route("POST /v1/transfers")
    def transfer(self, call):
        return self.create(call, "tr", "transfer", "amount", "destination", reversed=False)

    @route("POST /v1/transfers/([^/]+)/reversals")
    def reverse(self, _, name):
        transfer = self.find(name, "transfer")
        if transfer["reversed"]:
            raise self.no(400, "transfer_already_reversed")
        return self.set(transfer, "reversal", reversed=True)


DOUBLE = Stripe
PAY = "amount=2000&currency=eur&metadata[order_id]=$token"


def an_intent(status):
    return lambda double: double.make(
        f"pi_{double.number()}", object="payment_intent", status=status, refunded=False
    )


def an_invoice(status):
    return lambda double: double.make(f"in_{double.number()}", object="invoice", status=status)


def there(prefix, kind, **members):
    return lambda double: double.make(f"{prefix}_{double.number()}", object=kind, **members)


A_CUSTOMER = there("cus", "customer", email="old@b.test", name="Old", phone=None, description=None)
AN_INTENT = there("pi", "payment_intent", amount=2000, description=None, receipt_email=None,
                  status="requires_confirmation")  # fmt: skip
A_SUBSCRIPTION = there("sub", "subscription", cancel_at_period_end=False, description="Old",
                       default_payment_method=None, status="active")  # fmt: skip
A_DRAFT = there("in", "invoice", description="Old", footer=None, status="draft")


def theirs(**members):
    return lambda double, names: double.change(names["id"], **members)


def goes_on(**members):
    return lambda double, _: double.change(double.newest, **members)


CASES = [
    Case("stripe.charge", "POST /v1/charges", PAY, undone=["refund"],
         moved=goes_on(refunded=True), moved_undo=[]),
    Case("stripe.intent", INTENT, PAY, undone=["cancel"],
         moved=goes_on(status="canceled"), moved_undo=[]),
    Case("stripe.intent", INTENT, f"{PAY}&confirm=true", undone=["refund"],
         moved=goes_on(refunded=True), moved_undo=[]),
    Case("stripe.intent", INTENT, f"{PAY}&confirm=true&capture_method=manual", undone=["cancel"],
         moved=goes_on(status="succeeded")),
    Case("stripe.intent.update", f"{INTENT}/$id", "amount=2500", given=AN_INTENT,
         foreign=theirs(amount=9)),
    Case("stripe.intent.confirm", f"{INTENT}/$id/confirm", "return_url=https://a.test/$token",
         given=an_intent("requires_confirmation"), undone=["refund"]),
    Case("stripe.intent.capture", f"{INTENT}/$id/capture", "metadata[a]=$token",
         given=an_intent("requires_capture"), undone=["refund"]),
    Case("stripe.intent.cancel", f"{INTENT}/$id/cancel", "cancellation_reason=duplicate",
         given=an_intent("requires_capture"), undone=None),
    Case("stripe.refund", "POST /v1/refunds", "payment_intent=$id",
         given=an_intent("succeeded"), undone=None),
    Case("stripe.customer", "POST /v1/customers", "email=$token%40example.com"),
    Case("stripe.customer.update", "POST /v1/customers/$id", "email=$token%40b.test&name=New",
         given=A_CUSTOMER, foreign=theirs(name="Theirs")),
    Case("stripe.customer.update", "POST /v1/customers/$id", "phone=$token", given=A_CUSTOMER,
         parks=True),
    Case("stripe.customer.update", "POST /v1/customers/$id", "name=$token&metadata[a]=b",
         given=A_CUSTOMER, parks=True),
    Case("stripe.customer.delete", "DELETE /v1/customers/$id",
         given=lambda double: double.make(f"cus_{double.number()}", object="customer"),
         undone=None),
    Case("stripe.product", "POST /v1/products", "name=$token"),
    Case("stripe.price", "POST /v1/prices", "currency=eur&unit_amount=5&nickname=$token",
         undone=["deactivate"]),
    Case("stripe.payment_link", "POST /v1/payment_links", "metadata[a]=$token",
         undone=["deactivate"]),
    Case("stripe.invoice", "POST /v1/invoices", "customer=cus_$token",
         moved=goes_on(status="open")),
    Case("stripe.invoice.update", "POST /v1/invoices/$id", "description=$token", given=A_DRAFT,
         foreign=theirs(description="Theirs")),
    Case("stripe.invoice.finalize", "POST /v1/invoices/$id/finalize", "auto_advance=false",
         given=an_invoice("draft"), undone=["void"]),
    Case("stripe.invoice.send", "POST /v1/invoices/$id/send", "a=$token",
         given=an_invoice("open"), undone=None),
    Case("stripe.invoice.void", "POST /v1/invoices/$id/void", "a=$token",
         given=an_invoice("open"), undone=None),
    Case("stripe.invoice.item", "POST /v1/invoiceitems", "customer=cus_$token",
         moved=goes_on(invoice="in_1")),
    Case("stripe.subscription", "POST /v1/subscriptions", "customer=cus_$token&trial_period_days=9",
         undone=["end subscription"]),
    Case("stripe.subscription", "POST /v1/subscriptions", "customer=cus_$token", parks=True),
    Case("stripe.subscription.update", "POST /v1/subscriptions/$id",
         "cancel_at_period_end=true&description=$token", given=A_SUBSCRIPTION,
         foreign=theirs(cancel_at_period_end=True, description="Theirs")),
    Case("stripe.subscription.cancel", "DELETE /v1/subscriptions/$id", undone=None,
         given=lambda double: double.make(
             f"sub_{double.number()}", object="subscription", status="active")),
    Case("stripe.transfer", "POST /v1/transfers", "amount=5&destination=acct_1&description=$token",
         undone=["reversal"], moved=goes_on(reversed=True)),
    Case("stripe.transfer.reverse", "POST /v1/transfers/$id/reversals", "amount=5",
         given=lambda double: double.make(
             f"tr_{double.number()}", object="transfer", reversed=False),
         undone=None),
]  # fmt: skip
