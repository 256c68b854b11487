"""Google Calendar v3 (npm @googleapis/calendar; developers.google.com/calendar/api:
version-resources, errors). A deleted event stays, with status cancelled, and its id stays taken.
The official texts disagree on whether a second insert of an id is found at once, so both are
offered."""

import json

from doubles.base import Case, Double, Kind, Refused, route

BASE = "/calendar/v3/calendars"
EVENTS = f"{BASE}/([^/]+)/events"


class Calendar(Double):
    volatile = ("etag", "updated")
    kinds = (
        Kind(f"{BASE}/[^/]+/acl", "rule", prefix="user:", needs=("scope",), made=200),
        Kind(BASE, "calendar", prefix="c", needs=("summary",), made=200),
    )
    too_many = (403, {"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}]}}, {})

    def __init__(self):
        self.sees_twins = True
        super().__init__()

    def no(self, status, reason):
        return Refused(status, {"error": {"code": status, "errors": [{"reason": reason}]}})

    def find(self, name):
        if f"event {name}" not in self.things:
            raise self.no(404, "notFound")
        return self.things[f"event {name}"]

    def touch(self, thing):
        thing["etag"] = f'"{self.number()}"'

    def shown(self, kind, thing):
        return {name: value for name, value in thing.items() if name != "calendar"}

    def event(self, calendar, **members):
        event = {"status": "confirmed", **members}
        self.touch(event)
        self.add(f"event {event['id']}", "event", calendar=calendar, **event)
        return 200, event

    @route(f"POST {EVENTS}")
    def insert(self, call, calendar):
        asked = call.json()
        name = asked.get("id", f"auto{self.number()}")
        if not 5 <= len(name) <= 1024 or set(name) - set("0123456789abcdefghijklmnopqrstuv"):
            raise self.no(400, "invalid")
        if f"event {name}" in self.things and self.sees_twins:
            raise self.no(409, "duplicate")
        return self.event(calendar, **{**asked, "id": name})

    @route(f"POST {EVENTS}/(?:quickAdd|import)")
    def quick(self, call, calendar):
        return self.event(calendar, id=f"auto{self.number()}", summary=call.query.get("text"))

    @route(f"GET {EVENTS}/([^/]+)")
    def show(self, _, __, name):
        event = self.find(name)
        return 200, self.shown(None, event), {"ETag": event["etag"]}

    @route(f"(PUT|PATCH) {EVENTS}/([^/]+)")
    def update(self, call, method, calendar, name):
        event = self.find(name)
        wanted = call.headers.get("If-Match")
        if wanted not in (None, event["etag"]):
            raise self.no(412, "conditionNotMet")
        if method == "PUT":
            event.clear()
            event.update(calendar=calendar)
        event.update(call.json())
        self.touch(event)
        self.happened(f"event {method}")
        return 200, self.shown(None, event), {"ETag": event["etag"]}

    @route(f"DELETE {EVENTS}/([^/]+)")
    def delete(self, _, __, name):
        event = self.find(name)
        if event["status"] == "cancelled":
            raise self.no(410, "deleted")
        event["status"] = "cancelled"
        self.happened("delete event")
        return 204, None

    @route(f"POST {EVENTS}/([^/]+)/move")
    def move(self, call, calendar, name):
        event = self.find(name)
        if event["calendar"] != calendar:
            raise self.no(404, "notFound")
        event["calendar"] = call.query["destination"]
        self.happened("move")
        return 200, self.shown(None, event)


DOUBLE = Calendar


def an_event(double):
    name = f"event{double.number()}"
    event = {"id": name, "summary": "Old", "attendees": [{"email": "a@b.test"}], "sequence": 0}
    return double.make(f"event {name}", calendar="primary", status="confirmed", etag='"1"',
                       **json.loads(json.dumps(event))).split()[1]  # fmt: skip


def cancelled(double, _):
    double.change(double.newest, status="cancelled")


CASES = [
    Case("calendar.event.insert", f"POST {BASE}/primary/events", {"summary": "$token"},
         undone=["delete event"], moved=cancelled, moved_undo=[]),
    Case("calendar.event.insert", f"POST {BASE}/primary/events",
         {"id": "standup$token", "summary": "$token"}, undone=["delete event"]),
    Case("calendar.event.quick", f"POST {BASE}/primary/events/quickAdd?text=$token", {},
         undone=["delete event"], moved=cancelled, moved_undo=[]),
    Case("calendar.event.update", f"PATCH {BASE}/primary/events/$id", {"summary": "$token"},
         given=an_event,
         foreign=lambda double, names: double.change(f"event {names['id']}", summary="Theirs")),
    Case("calendar.event.update", f"PUT {BASE}/primary/events/$id", {"id": "$id", "summary": "New"},
         given=an_event,
         foreign=lambda double, names: double.change(f"event {names['id']}", location="Theirs")),
    Case("calendar.event.move", f"POST {BASE}/primary/events/$id/move?destination=team",
         given=an_event),
    Case("calendar.create", f"POST {BASE}", {"summary": "$token"}),
    Case("calendar.acl.insert", f"POST {BASE}/primary/acl",
         {"role": "reader", "scope": {"type": "user", "value": "$token@b.test"}}),
]  # fmt: skip
