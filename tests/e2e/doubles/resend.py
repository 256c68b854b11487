"""Resend (resend/resend-openapi resend.json; error names in resend/resend-node src/interfaces.ts):
keys for /emails and /emails/batch only; another payload is 409 invalid_idempotent_request; a mail
is canceled while it is scheduled. What a second cancellation gives is not published: it is
refused."""

from doubles.base import Case, Double, Kind, Refused, route

USUAL = ("broadcast", "contact", "domain", "webhook", "template")


class Resend(Double):
    kinds = tuple(
        Kind(f"/{kind}s", kind, deleted=200, gone=(404, {"name": "not_found"})) for kind in USUAL
    )
    too_many = (429, {"statusCode": 429, "name": "rate_limit_exceeded"}, {})

    def key_of(self, call):
        if call.route not in ("POST /emails", "POST /emails/batch"):
            return None
        key = call.headers.get("Idempotency-Key")
        if key is not None and not 1 <= len(key) <= 256:
            raise Refused(400, {"statusCode": 400, "name": "invalid_idempotency_key"})
        return key

    def key_reused(self, call):
        raise Refused(409, {"statusCode": 409, "name": "invalid_idempotent_request"})

    @route("POST /emails")
    def email(self, call):
        asked = call.json()
        name = f"e{self.number()}"
        event = "scheduled" if "scheduled_at" in asked else "sent"
        self.add(f"email {name}", "email", last_event=event, **asked)
        return 200, {"id": name}

    @route("POST /emails/batch")
    def batch(self, _):
        self.happened("batch")
        return 200, {"data": [{"id": f"e{self.number()}"}]}

    @route("POST /emails/([^/]+)/cancel")
    def cancel(self, _, name):
        email = self.things[f"email {name}"]
        if email["last_event"] != "scheduled":
            raise Refused(422, {"statusCode": 422, "name": "validation_error"})
        email["last_event"] = "canceled"
        self.happened("cancel")
        return 200, {"object": "email", "id": name}

    @route("POST /broadcasts/([^/]+)/send")
    def broadcast(self, _, name):
        self.happened("broadcast sent")
        return 200, {"id": name}


DOUBLE = Resend
MAIL = {"to": ["a@b.test"], "subject": "$token"}
CASES = [
    Case("resend.email", "POST /emails", {**MAIL, "scheduled_at": "in 1 hour"}, undone=["cancel"],
         moved=lambda double, _: double.change(double.newest, last_event="sent")),
    Case("resend.email", "POST /emails", MAIL, parks=True),
    Case("resend.email.batch", "POST /emails/batch", [MAIL], undone=None),
    Case("resend.broadcast.create", "POST /broadcasts", {"name": "$token"}),
    Case("resend.broadcast.send", "POST /broadcasts/$token/send", {}, undone=None),
    Case("resend.contact.create", "POST /contacts", {"email": "$token@b.test"}),
    Case("resend.domain.create", "POST /domains", {"name": "$token.test"}),
    Case("resend.webhook.create", "POST /webhooks", {"endpoint": "https://$token.test"}),
    Case("resend.template.create", "POST /templates", {"name": "$token"}),
]  # fmt: skip
