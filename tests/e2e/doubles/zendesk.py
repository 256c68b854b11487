"""Zendesk Support v2 (its OpenAPI description; cloudbees-oss/zendesk-java-client
IdempotencyUtil.java): tickets are made under an Idempotency-Key for two hours, with
x-idempotency-lookup miss or hit; another payload is 400 IdempotentRequestError; deletion is soft,
and 404 RecordNotFound once it is done. Deletions of many, erasures and merges are jobs, which have
acted once their job_status is completed; restore_many answers at once. A change with safe_update
whose updated_stamp is not the newest is 409 UpdateConflict."""

from doubles.base import Case, Double, Kind, Refused, route

GONE = (404, {"error": "RecordNotFound", "description": "Not found"})
API = "/api/v2"


class Zendesk(Double):
    kinds = (
        Kind(f"{API}/users", "user", wrap="user", gone=GONE),
        Kind(f"{API}/organizations", "organization", wrap="organization", gone=GONE),
    )

    def __init__(self):
        self.jobs = {}
        super().__init__()

    volatile = ("updated_at",)
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

    def touch(self, thing):
        thing["updated_at"] = f"2026-08-01T00:00:00Z {self.number()}"

    @route(rf"(GET|PUT) {API}/tickets/(\d+)")
    def one(self, call, method, number):
        ticket = self.find(f"ticket {number}")
        if method == "PUT":
            asked = call.json()["ticket"]
            stamp = asked.pop("updated_stamp", None)
            if asked.pop("safe_update", False) and stamp != ticket["updated_at"]:
                raise Refused(409, {"error": "UpdateConflict"})
            if comment := asked.pop("comment", None):
                ticket.setdefault("comments", []).append(comment)
            ticket.update(asked)
            self.touch(ticket)
            self.happened("ticket changed")
        return 200, {"ticket": {"id": int(number), **ticket}}

    @route(rf"DELETE {API}/tickets/(\d+)")
    def delete(self, _, number):
        self.find(f"ticket {number}")["deleted"] = True
        self.happened("delete ticket")
        return 204, None

    @route(f"PUT {API}/deleted_tickets/([^/]+)/restore")
    def restore(self, _, number):
        self.find(f"ticket {number}", True)["deleted"] = False
        self.happened("restore")
        return 200, {}

    def job(self, what, act):
        """Acts when it has been asked about often enough."""
        number = f"j{self.number()}"
        self.jobs[number] = [self.slow, act]
        self.happened(what)
        return 200, {"job_status": {"id": number, "status": "queued", "results": None}}

    @route(f"GET {API}/job_statuses/([^/]+)")
    def status(self, _, number):
        job = self.jobs[number]
        job[0] -= 1
        if job[0] >= 0:
            return 200, {"job_status": {"id": number, "status": "working", "results": None}}
        job[1]()
        job[1] = lambda: None
        return 200, {"job_status": {"id": number, "status": "completed", "results": []}}

    @route(f"DELETE {API}/tickets/destroy_many")
    def delete_many(self, call):
        tickets = [self.find(f"ticket {one}") for one in call.query["ids"].split(",")]
        return self.job("delete tickets", lambda: [one.update(deleted=True) for one in tickets])

    @route(f"PUT {API}/deleted_tickets/restore_many")
    def restore_many(self, call):
        for one in call.query["ids"].split(","):
            self.find(f"ticket {one}", True)["deleted"] = False
        self.happened("restore tickets")
        return 200, None

    @route(f"DELETE {API}/deleted_tickets/([^/]+)")
    def erase(self, _, number):
        self.find(f"ticket {number}", True)
        return self.job("erase ticket", lambda: self.things.pop(f"ticket {number}"))

    @route(f"POST {API}/tickets/([^/]+)/merge")
    def merge(self, call, number):
        kept = self.find(f"ticket {number}")
        return self.job("merge", lambda: kept.update(merged=call.json()["ids"]))

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
    fields = {"status": "open", "priority": None, "type": None, "assignee_id": 5, "group_id": 6}
    double.make(f"ticket {number}", subject="Old", tags=["a", "b"], deleted=False,
                updated_at="2026-07-01T00:00:00Z", **fields)  # fmt: skip
    return number


def two_tickets(double):
    return {"id": a_ticket(double), "other": a_ticket(double)}


def a_deleted_ticket(double):
    number = a_ticket(double)
    double.change(f"ticket {number}", deleted=True)
    return number


def other_tags(double, names):
    double.change(f"ticket {names['id']}", tags=["theirs"])


CASES = [
    Case("zendesk.ticket.create", f"POST {API}/tickets", {"ticket": {"subject": "$token"}},
         undone=["delete ticket"],
         moved=lambda double, _: double.change(double.newest, deleted=True), moved_undo=[]),
    Case("zendesk.ticket.update", f"PUT {API}/tickets/$id",
         {"ticket": {"status": "solved", "priority": "high", "subject": "$token"}}, given=a_ticket,
         foreign=lambda double, names: double.change(f"ticket {names['id']}", priority="low")),
    Case("zendesk.ticket.update", f"PUT {API}/tickets/$id",
         {"ticket": {"status": "solved", "comment": {"body": "$token"}}}, given=a_ticket,
         parks=True, unfound=True),
    Case("zendesk.ticket.delete", f"DELETE {API}/tickets/$id", given=a_ticket),
    Case("zendesk.tickets.delete", f"DELETE {API}/tickets/destroy_many?ids=$id,$other",
         given=two_tickets, later="write"),
    Case("zendesk.ticket.erase", f"DELETE {API}/deleted_tickets/$id", given=a_deleted_ticket,
         undone=None, later="write"),
    Case("zendesk.ticket.merge", f"POST {API}/tickets/$id/merge", {"ids": ["$other"]},
         given=two_tickets, undone=None, later="write"),
    Case("zendesk.ticket.tags", f"POST {API}/tickets/$id/tags", {"tags": ["$token"]},
         given=a_ticket, foreign=other_tags),
    Case("zendesk.ticket.tags", f"PUT {API}/tickets/$id/tags", {"tags": ["$token"]},
         given=a_ticket, foreign=other_tags, unfound=True),
    Case("zendesk.user.create", f"POST {API}/users", {"user": {"email": "$token@b.test"}}),
    Case("zendesk.organization.create", f"POST {API}/organizations",
         {"organization": {"name": "$token"}}),
]  # fmt: skip
