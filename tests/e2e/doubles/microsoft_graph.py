"""Microsoft Graph v1.0 (microsoftgraph/microsoft-graph-docs-contrib): ids change with moves; 404
ErrorItemNotFound for what is gone."""

from doubles.base import Case, Double, Kind, Refused, route

ME = "/v1.0/me"
GONE = (404, {"error": {"code": "ErrorItemNotFound"}})


class Graph(Double):
    kinds = (
        Kind(f"{ME}/messages", "message", gone=GONE,
             members={"isDraft": True, "parentFolderId": "drafts"}),
        Kind(f"{ME}/events", "event", gone=GONE),
        Kind(f"{ME}/mailFolders", "folder", gone=GONE),
        Kind(f"{ME}/calendars", "calendar", gone=GONE),
    )  # fmt: skip
    volatile = ("changeKey", "id", "name")
    too_many = (429, {"error": {"code": "TooManyRequests"}}, {"Retry-After": "1"})

    def touch(self, thing):
        thing["changeKey"] = str(self.number())

    @route(f"POST {ME}/sendMail")
    def send_mail(self, _):
        self.happened("sent")
        return 202, None

    @route(f"POST {ME}/messages/([^/]+)/(send|permanentDelete)")
    def end(self, _, name, verb):
        if self.things.pop(f"message {name}", None) is None:
            raise Refused(*GONE)
        self.happened(verb)
        return 202, None

    @route(f"POST {ME}/messages/([^/]+)/move")
    def move(self, call, name):
        message = self.things.pop(f"message {name}", None)
        if message is None:
            raise Refused(*GONE)
        name = f"x{self.number()}"
        message = {**message, "id": name, "parentFolderId": call.json()["destinationId"]}
        return 201, self.add(f"message {name}", "move", **message)

    def state(self):
        """Names change with moves, which is no matter."""
        with self.lock:
            return str(sorted(str({k: v for k, v in sorted(thing.items())
                                   if k not in self.volatile})
                              for thing in self.things.values()))  # fmt: skip


DOUBLE = Graph
OLD = {"contentType": "text", "content": "Old"}


def there(kind, **members):
    return lambda double: double.make(
        f"{kind} x{double.number()}", **members, changeKey="1"
    ).split()[1]


A_MESSAGE = there("message", subject="Old", body=OLD, parentFolderId="inbox")
AN_EVENT = there("event", subject="Old", start={"dateTime": "1"}, end={"dateTime": "2"}, body=OLD)


def theirs(kind):
    return lambda double, names: double.change(f"{kind} {names['id']}", subject="Theirs")


def gone(double, _):
    del double.things[double.newest]


CASES = [
    Case("graph.mail.send", f"POST {ME}/sendMail", {"message": {"subject": "$token"}}, undone=None),
    Case("graph.draft.create", f"POST {ME}/messages", {"subject": "$token"}, moved=gone,
         moved_undo=[]),
    Case("graph.message.update", f"PATCH {ME}/messages/$id", {"subject": "$token"},
         given=A_MESSAGE, foreign=theirs("message")),
    Case("graph.draft.send", f"POST {ME}/messages/$id/send", given=A_MESSAGE, undone=None),
    Case("graph.message.move", f"POST {ME}/messages/$id/move", {"destinationId": "archive"},
         given=A_MESSAGE),
    Case("graph.message.erase", f"POST {ME}/messages/$id/permanentDelete", given=A_MESSAGE,
         undone=None),
    Case("graph.event.create", f"POST {ME}/events", {"subject": "$token"}, moved=gone,
         moved_undo=[]),
    Case("graph.event.update", f"PATCH {ME}/events/$id",
         {"subject": "$token", "start": {"dateTime": "3"}}, given=AN_EVENT,
         foreign=theirs("event")),
    Case("graph.folder.create", f"POST {ME}/mailFolders", {"displayName": "$token"}),
    Case("graph.calendar.create", f"POST {ME}/calendars", {"name": "$token"}),
]  # fmt: skip
