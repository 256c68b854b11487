"""Shopify, GraphQL Admin API 2026-07 (npm @shopify/dev-mcp dist/data/admin_2026-07.json.gz;
shopify.dev: implementing-idempotency, its changelog of 2025-12-12):

* the mutations of KEYED want @idempotent(key:), which must not be blank; the first result comes
  again; other parameters under it are the userError IDEMPOTENCY_KEY_PARAMETER_MISMATCH, of
  refundCreate a text without a code; after an attempt that failed inside, a key answers
  IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED for good. What is refused before uses no key up.
* what a rule of the shop forbids comes with HTTP 200 in userErrors, the thing being null.
* inventorySetQuantities must be told changeFromQuantity; another quantity than that, unless it is
  null, is CHANGE_FROM_QUANTITY_STALE.
* inventoryMoveQuantities wants it at both ends; it moves by so much, whatever else is there.
* a gift card is not debited by more than it has.
* a customer with orders is not deleted.
* orderCancel gives a Job, which says when it is done.
* who asks too often gets HTTP 200, errors with code THROTTLED.
Not published, so offered in both ways: whether closing what is closed is an error."""

from doubles.base import Case
from doubles.graphql import GraphqlDouble, mutation

KEYED = ("refundCreate", "inventorySetQuantities", "inventoryMoveQuantities")
# Field by field: what it makes, the argument with its members, what a new one has beside them.
MADE = {
    "refundCreate": ("refund", "input", {}),
    "draftOrderCreate": ("draftOrder", "input", {"status": "OPEN"}),
    "fulfillmentCreate": ("fulfillment", "fulfillment", {"status": "SUCCESS"}),
    "productCreate": ("product", "product", {}),
    "customerCreate": ("customer", "input", {"orders": 0}),
}
CHANGED = {
    "orderUpdate": ("order", "input"),
    "draftOrderUpdate": ("draftOrder", "input"),
    "productUpdate": ("product", "product"),
    "customerUpdate": ("customer", "input"),
}
DELETED = {"draftOrderDelete": ("draftOrder", "deletedId"),
           "productDelete": ("product", "deletedProductId"),
           "customerDelete": ("customer", "deletedCustomerId")}  # fmt: skip
TURNED = {"orderClose": ("order", "closed", True), "orderOpen": ("order", "closed", False),
          "fulfillmentCancel": ("fulfillment", "status", "CANCELLED"),
          "discountCodeActivate": ("codeDiscountNode", "status", "ACTIVE"),
          "discountCodeDeactivate": ("codeDiscountNode", "status", "EXPIRED"),
          "returnClose": ("return", "status", "CLOSED"),
          "returnReopen": ("return", "status", "OPEN")}  # fmt: skip


class UserError(Exception):
    def __init__(self, code, **payload):
        super().__init__(code)
        self.code, self.payload = code, payload


class Shopify(GraphqlDouble):
    volatile = ("updatedAt",)
    too_many = (200, {"errors": [{"message": "Throttled",
                                  "extensions": {"code": "THROTTLED"}}]}, {})  # fmt: skip

    def __init__(self):
        self.turns_twice = True  # or an error
        self.jobs = {}
        self.fails_inside = 0  # so many keyed attempts fail, and use their key up
        super().__init__()

    def check(self, call):
        if not call.headers.get("X-Shopify-Access-Token"):
            raise self.no("Invalid API key or access token", "UNAUTHORIZED", 401)

    def find(self, kind, name):
        if f"{kind} {name}" not in self.things:
            raise UserError("NOT_FOUND")
        return self.things[f"{kind} {name}"]

    def nothing(self, document):
        """Null in all that was asked for but userErrors."""
        return {name: None for name, _, _, _ in document.selected}

    def resolve(self, document):
        if document.operation == "query":
            return self.asked(document)
        try:
            found = self.keyed(document) if document.name in KEYED else self.act(document)
            return {**self.nothing(document), "userErrors": [], **found}
        except UserError as error:
            told = {"code": error.code, "message": error.code, "field": None}
            return {**self.nothing(document), "userErrors": [told]}

    def asked(self, document):
        if document.name == "job":
            return self.job(document.arguments["id"])
        if document.name != "inventoryItem":
            return self.things.get(f"{document.name} {document.arguments['id']}")
        item = document.arguments["id"]
        ((_, level, _, _),) = document.selected
        quantity = self.things[f"quantity {item} {level['locationId']}"]["quantity"]
        return {"inventoryLevel": {"quantities": [{"quantity": quantity}]}}

    def job(self, name):
        job = self.jobs[name]
        job[0] -= 1
        if job[0] == -1:
            job[1]["canceled"] = True
        return {"done": job[0] < 0}

    def cancel(self, order):
        name = f"gid://shopify/Job/{self.number()}"
        self.jobs[name] = [self.slow, self.find("order", order)]
        self.happened("order canceled")
        return {"job": {"id": name, "done": False}}

    def keyed(self, document):
        key = document.directives.get("idempotent", {}).get("key", "")
        if not key.strip():
            raise self.no("The @idempotent directive is required", "BAD_REQUEST")
        asked = document.name, document.arguments
        if key in self.keys:
            before, result = self.keys[key]
            if before != asked:
                raise UserError("IDEMPOTENCY_KEY_PARAMETER_MISMATCH")
            if result is None:
                raise UserError("IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED")
            return result
        if self.fails_inside > 0:
            self.fails_inside -= 1
            self.keys[key] = asked, None
            raise UserError("SERVICE_UNAVAILABLE")
        result = self.act(document)
        self.keys[key] = asked, result
        return result

    def act(self, document):
        name, asked = document.name, document.arguments
        if name == "inventorySetQuantities":
            return self.quantities(asked["input"])
        if name == "inventoryMoveQuantities":
            return self.move(asked["input"])
        if name in ("giftCardCredit", "giftCardDebit"):
            return self.turn_card(name, asked)
        if name == "orderCancel":
            return self.cancel(asked["orderId"])
        if name in MADE:
            kind, argument, members = MADE[name]
            thing = f"gid://shopify/{kind}/{self.number()}"
            made = {**members, **asked[argument], "id": thing}
            return {kind: self.add(f"{kind} {thing}", f"{kind} made", **made)}
        if name in CHANGED:
            kind, argument = CHANGED[name]
            members = dict(asked[argument])
            thing = self.find(kind, asked.get("id") or members.pop("id"))
            if kind == "draftOrder" and "note" in members:
                members["note2"] = members.pop("note")
            thing.update(members)
            self.happened(f"{kind} changed")
            return {kind: thing}
        if name in DELETED:
            kind, told = DELETED[name]
            thing = asked.get("id") or asked["input"]["id"]
            if self.find(kind, thing).get("orders"):
                raise UserError("CUSTOMER_HAS_ORDERS")
            del self.things[f"{kind} {thing}"]
            self.happened(f"{kind} deleted")
            return {told: thing}
        kind, member, value = TURNED[name]
        thing = self.find(kind, asked.get("id") or asked["input"]["id"])
        if thing[member] == value and not self.turns_twice:
            raise UserError("INVALID")
        thing[member] = value
        self.happened(f"{kind} {member} {value}")
        return {kind: thing}

    def turn_card(self, name, asked):
        verb = name.removeprefix("giftCard")
        card, moved = self.find("giftCard", asked["id"]), asked[f"{verb.lower()}Input"]
        amount = float(moved[f"{verb.lower()}Amount"]["amount"])
        if verb == "Debit" and card["balance"] < amount:
            raise UserError("INSUFFICIENT_FUNDS")
        card["balance"] += amount if verb == "Credit" else -amount
        self.happened(f"card {verb}")
        return {f"{name}Transaction": {"id": f"gid://{self.number()}"}}

    def move(self, asked):
        (change,) = asked["changes"]
        item = change["inventoryItemId"]
        ends = {end: self.things[f"quantity {item} {change[end]['locationId']}"]
                for end in ("from", "to")}  # fmt: skip
        for end, there in ends.items():
            wanted = change[end]["changeFromQuantity"]
            if wanted not in (None, there["quantity"]):
                raise UserError("CHANGE_FROM_QUANTITY_STALE")
            if (change[end]["name"] == "available") == ("ledgerDocumentUri" in change[end]):
                raise UserError("INVALID_LEDGER_DOCUMENT")
        ends["from"]["quantity"] -= change["quantity"]
        ends["to"]["quantity"] += change["quantity"]
        self.happened("quantity moved")
        return {"inventoryAdjustmentGroup": {"id": f"gid://{self.number()}"}}

    def quantities(self, asked):
        wanted = asked["quantities"]
        for one in wanted:
            there = self.things[f"quantity {one['inventoryItemId']} {one['locationId']}"]
            if "changeFromQuantity" not in one:
                raise self.no("changeFromQuantity is required", "BAD_REQUEST")
            if one["changeFromQuantity"] not in (None, there["quantity"]):
                raise UserError("CHANGE_FROM_QUANTITY_STALE")
        for one in wanted:
            there = self.things[f"quantity {one['inventoryItemId']} {one['locationId']}"]
            there["quantity"] = one["quantity"]
        self.happened("quantity set")
        return {"inventoryAdjustmentGroup": {"id": f"gid://{self.number()}"}}


DOUBLE = Shopify
PATH = "POST /admin/api/2026-07/graphql.json"
AGENT = {"X-Shopify-Access-Token": "shpat_canary-of-the-agent"}


def call(field, tool, arguments, selected, **words):
    body = mutation(field, arguments, f"{selected} userErrors {{ message }}")
    return Case(f"shopify.{tool}", PATH, body, headers=AGENT, **words)


def create(field, tool, asked, **words):
    kind, argument, _ = MADE[field]
    return call(field, tool, {argument: asked}, f"{kind} {{ id }}", **words)


def given(kind, **members):
    def make(double):
        name = f"gid://shopify/{kind}/{double.number()}"
        double.make(f"{kind} {name}", **{"id": name, **members})
        return name

    return make


def a_quantity(double):
    name = f"gid://shopify/InventoryItem/{double.number()}"
    double.make(f"quantity {name} L1", quantity=3)
    return name


def two_quantities(double):
    name = a_quantity(double)
    double.make(f"quantity {name} L2", quantity=0)
    return name


def moved(source, target, uris, **words):
    """A call that moves three pieces between states; which of them want an URI differs."""
    ends = {"from": {"locationId": "L1", "name": source, "changeFromQuantity": 3},
            "to": {"locationId": "L2", "name": target, "changeFromQuantity": None}}  # fmt: skip
    for end in uris:
        ends[end]["ledgerDocumentUri"] = "gid://app/Move/1"
    change = {"inventoryItemId": "$id", "quantity": 3, **ends}
    return call("inventoryMoveQuantities", "inventory.move",
                {"input": {"reason": "movement_created", "referenceDocumentUri": "gid://app/Move/1",
                           "changes": [change]}},
                "inventoryAdjustmentGroup { id }", given=two_quantities, **words)  # fmt: skip


def others(kind, **members):
    return lambda double, names: double.change(f"{kind} {names['id']}", **members)


def goes_on(**members):
    return lambda double, _: double.change(double.newest, **members)


def gone(double, _):
    del double.things[double.newest]


AN_ORDER = {"note": None, "email": "a@a.test", "phone": None, "poNumber": "1", "tags": ["a"]}
A_DRAFT = {"note2": "old", "email": None, "tags": [], "poNumber": None, "taxExempt": False,
           "status": "OPEN"}  # fmt: skip
A_PRODUCT = {"title": "Old", "descriptionHtml": "<p>", "vendor": "a", "productType": "",
             "status": "DRAFT", "tags": []}  # fmt: skip
A_CUSTOMER = {"firstName": "A", "lastName": None, "note": None, "tags": [], "taxExempt": False,
              "orders": 0}  # fmt: skip
CASES = [
    create("refundCreate", "refund.create", {"orderId": "o1", "note": "$token"}, undone=None),
    call("inventorySetQuantities", "inventory.set",
         {"input": {"name": "available", "reason": "correction", "quantities": [
             {"inventoryItemId": "$id", "locationId": "L1", "quantity": 9,
              "changeFromQuantity": 3}]}},
         "inventoryAdjustmentGroup { id }", given=a_quantity,
         foreign=lambda double, names: double.change(f"quantity {names['id']} L1", quantity=7)),
    moved("available", "available", ()),
    moved("reserved", "available", ("from",)),
    moved("available", "damaged", ("to",)),
    moved("reserved", "damaged", ("from", "to")),
    *(call(f"giftCard{verb}", f"giftcard.{verb.lower()}",
           {"id": "$id", f"{verb.lower()}Input": {
               f"{verb.lower()}Amount": {"amount": "5.00", "currencyCode": "EUR"}}},
           f"giftCard{verb}Transaction {{ id }}", given=given("giftCard", balance=9.0))
      for verb in ("Credit", "Debit")),
    call("orderUpdate", "order.update", {"input": {"id": "$id", "note": "$token", "tags": []}},
         "order { id }", given=given("order", **AN_ORDER), foreign=others("order", note="theirs")),
    call("orderClose", "order.close", {"input": {"id": "$id"}}, "order { id }",
         given=given("order", closed=False)),
    call("orderOpen", "order.open", {"input": {"id": "$id"}}, "order { id }",
         given=given("order", closed=True)),
    create("draftOrderCreate", "draft.create", {"email": "$token@a.test"}, moved=gone),
    call("draftOrderUpdate", "draft.update", {"id": "$id", "input": {"note": "$token"}},
         "draftOrder { id }", given=given("draftOrder", **A_DRAFT),
         foreign=others("draftOrder", tags=["theirs"])),
    call("draftOrderDelete", "draft.delete", {"input": {"id": "$id"}}, "deletedId",
         given=given("draftOrder", **A_DRAFT), undone=None),
    create("fulfillmentCreate", "fulfillment.create",
           {"lineItemsByFulfillmentOrder": [{"fulfillmentOrderId": "$token"}]},
           undone=["fulfillment status CANCELLED"]),
    call("fulfillmentCancel", "fulfillment.cancel", {"id": "$id"}, "fulfillment { id }",
         given=given("fulfillment", status="SUCCESS"), undone=None),
    create("productCreate", "product.create", {"title": "$token"}),
    call("productUpdate", "product.update", {"product": {"id": "$id", "title": "$token"}},
         "product { id title }", given=given("product", **A_PRODUCT),
         foreign=others("product", title="theirs")),
    call("productDelete", "product.delete", {"input": {"id": "$id"}}, "deletedProductId",
         given=given("product", **A_PRODUCT), undone=None),
    create("customerCreate", "customer.create", {"email": "$token@a.test"},
           moved=goes_on(orders=1)),
    call("customerUpdate", "customer.update", {"input": {"id": "$id", "note": "$token"}},
         "customer { id }", given=given("customer", **A_CUSTOMER),
         foreign=others("customer", firstName="theirs")),
    call("customerDelete", "customer.delete", {"input": {"id": "$id"}}, "deletedCustomerId",
         given=given("customer", **A_CUSTOMER), undone=None),
    call("orderCancel", "order.cancel",
         {"orderId": "$id", "reason": "OTHER", "restock": True}, "job { id done }",
         given=given("order", canceled=False), undone=None, later="write"),
    *(call(field, tool, {"id": "$id"}, f"{kind} {{ id }}", given=given(kind, status=status))
      for field, tool, kind, status in (
          ("discountCodeDeactivate", "discount.deactivate", "codeDiscountNode", "ACTIVE"),
          ("discountCodeActivate", "discount.activate", "codeDiscountNode", "EXPIRED"),
          ("returnClose", "return.close", "return", "OPEN"),
          ("returnReopen", "return.reopen", "return", "CLOSED"))),
]  # fmt: skip
