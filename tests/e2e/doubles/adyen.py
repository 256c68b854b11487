"""Adyen Checkout v71 (Adyen/adyen-openapi; docs.adyen.com: api-idempotency): keys on every POST;
changes of payments answer 201 "received", and their outcome comes by webhook; what another payload
under a key gives is not published, and is refused here."""

from doubles.base import Case, Double, Kind, Refused, route

API = "/v71"


class Adyen(Double):
    kinds = (
        Kind(f"{API}/paymentLinks", "link", members={"status": "active"}),
        Kind(f"{API}/storedPaymentMethods", "details"),
    )
    too_many = (429, {"status": 429}, {"transient-error": "true"})

    def check(self, call):
        if not call.headers.get("X-Api-Key"):
            raise Refused(401, {"status": 401})

    def key_of(self, call):
        return call.headers.get("Idempotency-Key") if call.method == "POST" else None

    def key_reused(self, call):
        raise Refused(422, {"status": 422, "errorCode": "704"})

    @route(f"POST {API}/payments")
    def pay(self, call):
        name = f"psp{self.number()}"
        self.add(f"payment {name}", "payment", **call.json())
        return 200, {"pspReference": name, "resultCode": "Authorised"}

    @route(f"POST {API}/payments/([^/]+)/(captures|refunds|cancels|reversals|amountUpdates)")
    def modify(self, _, __, what):
        self.happened(what)
        return 201, {"status": "received", "pspReference": f"psp{self.number()}"}


DOUBLE = Adyen
KEY = {"X-Api-Key": "key-of-the-agent"}
A_PAYMENT = {"merchantAccount": "M", "reference": "$token", "amount": {"value": 5}}
CASES = [
    Case("adyen.payment", f"POST {API}/payments", A_PAYMENT, headers=KEY, parks=True),
    Case("adyen.payment.change", f"POST {API}/payments/p1/refunds", A_PAYMENT, headers=KEY,
         parks=True),
    Case("adyen.link", f"POST {API}/paymentLinks", A_PAYMENT, headers=KEY, undone=["link changed"]),
    Case("adyen.details.store", f"POST {API}/storedPaymentMethods",
         {"merchantAccount": "M", "shopperReference": "$token"}, headers=KEY),
]  # fmt: skip
