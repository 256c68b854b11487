"""SendGrid's mail (www.twilio.com/docs/sendgrid/api-reference/mail-send): 202 with X-Message-Id and
no body; no key, no way to ask, nothing takes it back."""

from doubles.base import Case, Double, route


class SendGrid(Double):
    @route("POST /v3/mail/send")
    def send_mail(self, _):
        self.happened("mail")
        return 202, None, {"X-Message-Id": f"m{self.number()}"}


DOUBLE = SendGrid
CASES = [
    Case("sendgrid.send", "POST /v3/mail/send", {"subject": "$token", "template_id": "t"},
         asks=True),
]  # fmt: skip
