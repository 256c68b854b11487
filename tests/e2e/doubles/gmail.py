"""Gmail v1 (npm @googleapis/gmail; developers.google.com/gmail/api/guides/drafts): no key, no
etag; a draft that is sent is gone, and its message has another id; deletions are for good; lists of
messages are by label, with ids alone. What sending a draft a second time gives is not published:
404 here."""

from doubles.base import Case, Double, Kind, Refused, route

ME = "/gmail/v1/users/me"
GONE = (404, {"error": {"code": 404, "status": "NOT_FOUND"}})


class Gmail(Double):
    kinds = tuple(
        Kind(f"{ME}/{path}", kind, prefix=kind, made=200, gone=GONE)
        for path, kind in (("drafts", "draft"), ("labels", "label"), ("settings/filters", "filter"))
    )
    volatile = ("id",)
    page = 500
    too_many = (403, {"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}]}}, {})

    def find(self, name):
        if name not in self.things:
            raise Refused(*GONE)
        return self.things[name]

    def state(self):
        """What is made again has another name, which is no matter."""
        with self.lock:
            return str(sorted(str({k: v for k, v in thing.items() if k != "id"})
                              for thing in self.things.values()))  # fmt: skip

    def message(self, what, *labels):
        name = f"m{self.number()}"
        self.add(f"message {name}", what, id=name, labelIds=list(labels))
        return 200, {"id": name, "labelIds": list(labels)}

    @route(f"POST {ME}/messages/send")
    def send_message(self, _):
        return self.message("sent", "SENT")

    @route(f"POST {ME}/drafts/send")
    def send_draft(self, call):
        name = f"draft {call.json()['id']}"
        self.find(name)
        del self.things[name]
        return self.message("sent", "SENT")

    @route(f"POST {ME}/messages(?:/import)?")
    def insert(self, _):
        return self.message("insert")

    @route(f"GET {ME}/messages")
    def messages(self, call):
        there = [{"id": thing["id"]} for _, thing in self.listed("message")
                 if call.query["labelIds"] in thing["labelIds"]]  # fmt: skip
        start = int(call.query.get("pageToken", 0))
        answer = {"resultSizeEstimate": len(there)}
        if there[start:]:
            answer["messages"] = there[start : start + self.page]
        if len(there) > start + self.page:
            answer["nextPageToken"] = str(start + self.page)
        return 200, answer

    @route(f"GET {ME}/messages/([^/]+)")
    def show(self, _, name):
        return 200, self.find(f"message {name}")

    @route(f"POST {ME}/messages/([^/]+)/(trash|untrash)")
    def trash(self, _, name, verb):
        message = self.find(f"message {name}")
        labels = [label for label in message["labelIds"] if label != "TRASH"]
        message["labelIds"] = [*labels, "TRASH"] if verb == "trash" else labels
        self.old.discard(f"message {name}")
        self.happened(verb)
        return 200, message

    @route(f"DELETE {ME}/messages/([^/]+)")
    def delete(self, _, name):
        self.find(f"message {name}")
        del self.things[f"message {name}"]
        self.happened("delete")
        return 204, None


DOUBLE = Gmail


def a_draft(double):
    name = f"draft{double.number()}"
    return double.make(f"draft {name}", id=name, message={"raw": "RnJvbTo="}).split()[1]


def a_message(double):
    name = f"m{double.number()}"
    return double.make(f"message {name}", id=name, labelIds=["INBOX"]).split()[1]


def sent(double, _):
    double.send_draft(type("Call", (), {"json": lambda self: {"id": double.newest.split()[1]}})())
    double.effects.pop()


CASES = [
    Case("gmail.send", f"POST {ME}/messages/send", {"raw": "$token"}, undone=None),
    Case("gmail.draft.create", f"POST {ME}/drafts", {"message": {"raw": "$token"}}, moved=sent),
    Case("gmail.draft.send", f"POST {ME}/drafts/send", {"id": "$id"}, given=a_draft, undone=None),
    Case("gmail.draft.delete", f"DELETE {ME}/drafts/$id", given=a_draft,
         foreign=lambda double, names: double.make(
             f"draft {names['id']}", id=names["id"], message={"raw": "VGhlaXJz"})),
    Case("gmail.message.trash", f"POST {ME}/messages/$id/trash", given=a_message, lists=True,
         lost_parks=True,
         foreign=lambda double, names: double.change(
             f"message {names['id']}", labelIds=["theirs"])),
    Case("gmail.message.delete", f"DELETE {ME}/messages/$id", given=a_message, undone=None),
    Case("gmail.message.insert", f"POST {ME}/messages", {"raw": "$token"}, undone=["trash"]),
    Case("gmail.label.create", f"POST {ME}/labels", {"name": "$token"}),
    Case("gmail.filter.create", f"POST {ME}/settings/filters", {"criteria": {"from": "$token"}}),
]  # fmt: skip
