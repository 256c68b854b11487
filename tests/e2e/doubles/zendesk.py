"""Zendesk Support v2 (its OpenAPI description; cloudbees-oss/zendesk-java-client
IdempotencyUtil.java): tickets are made under an Idempotency-Key for two hours, with
x-idempotency-lookup miss or hit; another payload is 400 IdempotentRequestError; deletion is soft,
and 404 RecordNotFound once it is done."""

from doubles.base import Case, Double, Kind, Refused, route

GONE = (404, {"error": "RecordNotFound", "description": "Not found"})
API = "/api/v2"


class Zendesk(Double):
    kinds = (
        Kind(f"{API}/users", "user", wrap="user", gone=GONE),
        Kind(f"{API}/organizations", "organization", wrap="organization", gone=GONE),
    )
    too_many = (429, {"error": "TooManyRequests"}, {"Retry-After": "1"})

    def key_of(self, call):
        is_ticket = call.route == f"POST {API}/tickets"
        return call.headers.get("Idempotency-Key") if is_ticket else None

    def key_hit(self):
        return {"X-Idempotency-Lookup": "hit"}

    def key_reused(self, call):
        raise Refused(400, {"error": "IdempotentRequestError"})

    def find(self, name, is_deleted=False):
        ticket = self.things.get(name)
        if ticket is None or ticket["deleted"] != is_deleted:
            raise Refused(*GONE)
        return ticket

    @route(f"POST {API}/tickets")
    def create(self, call):
        number = self.number()
        asked = call.json()["ticket"]
        self.add(f"ticket {number}", "ticket", **asked, tags=[], deleted=False)
        fields = {"X-Idempotency-Lookup": "miss"}
        return 201, {"ticket": {"id": number, **asked}}, fields

    @route(f"DELETE {API}/tickets/([^/]+)")
    def delete(self, _, number):
        self.find(f"ticket {number}")["deleted"] = True
        self.happened("delete ticket")
        return 204, None

    @route(f"PUT {API}/deleted_tickets/([^/]+)/restore")
    def restore(self, _, number):
        self.find(f"ticket {number}", True)["deleted"] = False
        self.happened("restore")
        return 200, {}

    @route(f"(GET|POST|PUT) {API}/tickets/([^/]+)/tags")
    def tags(self, call, method, number):
        ticket = self.find(f"ticket {number}")
        if method != "GET":
            tags = call.json()["tags"]
            ticket["tags"] = tags if method == "POST" else ticket["tags"] + tags
            self.happened(f"tags {method}")
        return {"GET": 200, "POST": 201, "PUT": 200}[method], {"tags": ticket["tags"]}


DOUBLE = Zendesk


def a_ticket(double):
    number = str(double.number())
    double.make(f"ticket {number}", subject="Old", tags=["a", "b"], deleted=False)
    return number


def other_tags(double, names):
    double.change(f"ticket {names['id']}", tags=["theirs"])


CASES = [
    Case("zendesk.ticket.create", f"POST {API}/tickets", {"ticket": {"subject": "$token"}},
         undone=["delete ticket"],
         moved=lambda double, _: double.change(double.newest, deleted=True), moved_undo=[]),
    Case("zendesk.ticket.delete", f"DELETE {API}/tickets/$id", given=a_ticket),
    Case("zendesk.ticket.tags", f"POST {API}/tickets/$id/tags", {"tags": ["$token"]},
         given=a_ticket, foreign=other_tags),
    Case("zendesk.ticket.tags", f"PUT {API}/tickets/$id/tags", {"tags": ["$token"]},
         given=a_ticket, foreign=other_tags),
    Case("zendesk.user.create", f"POST {API}/users", {"user": {"email": "$token@b.test"}}),
    Case("zendesk.organization.create", f"POST {API}/organizations",
         {"organization": {"name": "$token"}}),
]  # fmt: skip
