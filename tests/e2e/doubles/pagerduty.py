"""PagerDuty (PagerDuty/api-schema: REST and Events v2). An incident_key is refused with 400, code
2002, while an open incident has it; the list filter of an empty key shows everything; a second
trigger of a dedup_key updates the open alert, one after a resolve makes another; From is required
on incidents; a maintenance window that is over is not deleted (405)."""

from doubles.base import Case, Double, Kind, Refused, route


class PagerDuty(Double):
    kinds = (
        Kind("/incidents/[^/]+/notes", "note", wrap="note"),
        Kind("/services", "service", wrap="service"),
    )
    volatile = ("updated_at",)
    too_many = (429, {"error": {"code": 2020, "message": "Rate Limit Exceeded"}}, {})

    def check(self, call):
        is_event = call.path.startswith("/v2/")  # there the routing_key is the credential
        if not is_event and not call.headers.get("Authorization"):
            raise Refused(401, {"error": {"code": 2006}})
        is_incident = call.path.startswith("/incidents") and call.method != "GET"
        if is_incident and "notes" not in call.path and not call.headers.get("From"):
            raise self.no(2001, "Invalid Input Provided")

    def no(self, code, message, status=400):
        return Refused(status, {"error": {"code": code, "message": message}})

    def touch(self, thing):
        thing["updated_at"] = str(self.number())

    @route("POST /incidents")
    def create(self, call):
        asked = call.json()["incident"]
        key = asked.get("incident_key")
        for name, thing in self.things.items():
            is_open = name.startswith("incident ") and thing["status"] != "resolved"
            if is_open and key is not None and thing.get("incident_key") == key:
                raise self.no(2002, "Arguments Caused Error")
        name = f"P{self.number()}"
        members = {**asked, "id": name, "status": "triggered"}
        return 201, {"incident": self.add(f"incident {name}", "incident", **members)}

    @route("GET /incidents")
    def list(self, call):
        wanted = call.query.get("incident_key")
        found = [thing for _, thing in self.listed("incident")
                 if not wanted or thing.get("incident_key") == wanted]  # fmt: skip
        return 200, {"incidents": found, "more": False}

    @route("(GET|PUT) /incidents/([^/]+)")
    def one(self, call, method, name):
        incident = self.things.get(f"incident {name}")
        if incident is None:
            raise self.no(2100, "Not Found", 404)
        if method == "PUT":
            asked = call.json()["incident"]
            asked.pop("type", None)
            incident.update(asked)
            self.touch(incident)
            self.happened(f"incident {incident['status']}")
        return 200, {"incident": incident}

    @route("(?:PUT|POST) /incidents/([^/]+)/(merge|responder_requests|status_updates)")
    def tell(self, _, __, what):
        self.happened(what)
        return 200, {}

    @route("POST /maintenance_windows")
    def window(self, call):
        name = f"W{self.number()}"
        asked = call.json()["maintenance_window"]
        made = self.add(f"window {name}", "window", **asked, id=name, is_over=False)
        return 201, {"maintenance_window": made}

    @route("DELETE /maintenance_windows/([^/]+)")
    def drop_window(self, _, name):
        if self.things[f"window {name}"]["is_over"]:
            raise Refused(405, {"error": {"code": 2000}})
        del self.things[f"window {name}"]
        self.happened("delete window")
        return 204, None

    @route("POST /v2/enqueue")
    def event(self, call):
        asked = call.json()
        key = asked.get("dedup_key") or f"d{self.number()}"
        name = f"alert {key}"
        if asked["event_action"] == "trigger":
            self.add(name, "alert", status="triggered")
        elif self.things.get(name, {}).get("status") not in (None, "resolved"):
            statuses = {"resolve": "resolved", "acknowledge": "acknowledged"}
            self.things[name]["status"] = statuses[asked["event_action"]]
            self.happened(f"alert {self.things[name]['status']}")
        return 202, {"status": "success", "message": "Event processed", "dedup_key": key}

    @route("POST /v2/change/enqueue")
    def change_event(self, _):
        self.happened("change")
        return 202, {"status": "success"}


DOUBLE = PagerDuty
FROM = {"From": "agent@b.test"}


def an_incident(double):
    name = f"P{double.number()}"
    double.make(f"incident {name}", id=name, status="triggered", title="Old", updated_at="1")
    return name


def resolved(double, _):
    double.change(double.newest, status="resolved")


EVENT = {"routing_key": "r1", "dedup_key": "$token", "payload": {"summary": "Down"}}
CASES = [
    Case("pagerduty.incident.create", "POST /incidents",
         {"incident": {"title": "$token", "service": {"id": "P1"}}}, headers=FROM,
         undone=["incident resolved"], lists=True),
    Case("pagerduty.incident.create", "POST /incidents",
         {"incident": {"title": "$token", "incident_key": "$token", "service": {"id": "P1"}}},
         headers=FROM, undone=["incident resolved"], lists=True),
    Case("pagerduty.incident.update", "PUT /incidents/$id",
         {"incident": {"type": "incident_reference", "status": "acknowledged", "title": "$token"}},
         given=an_incident, headers=FROM,
         foreign=lambda double, names: double.change(
             f"incident {names['id']}", status="resolved")),
    Case("pagerduty.incident.note", "POST /incidents/P1/notes", {"note": {"content": "$token"}}),
    Case("pagerduty.incident.merge", "PUT /incidents/$token/merge", {"source_incidents": []},
         headers=FROM, undone=None),
    Case("pagerduty.incident.responders", "POST /incidents/$token/responder_requests",
         {"responder_request_targets": []}, headers=FROM, undone=None),
    Case("pagerduty.incident.status", "POST /incidents/P1/status_updates", {"message": "$token"},
         headers=FROM, undone=None),
    Case("pagerduty.maintenance.create", "POST /maintenance_windows",
         {"maintenance_window": {"start_time": "$token"}}, headers=FROM,
         moved=lambda double, _: double.change(double.newest, is_over=True)),
    Case("pagerduty.service.create", "POST /services", {"service": {"name": "$token"}}),
    Case("pagerduty.event", "POST /v2/enqueue", {**EVENT, "event_action": "trigger"},
         undone=["alert resolved"]),
    Case("pagerduty.change", "POST /v2/change/enqueue",
         {"routing_key": "r1", "payload": {"summary": "$token"}}, undone=None),
]  # fmt: skip
