"""Microsoft Graph v1.0 (microsoftgraph/microsoft-graph-docs-contrib): ids change with moves, unless
the request says Prefer: IdType="ImmutableId" (outlook-immutable-id). A folder has an id, and
perhaps a well-known name, by which its messages are listed too (mailfolder, user-list-messages).
404 ErrorItemNotFound for what is gone. Copies of OneNote answer 202 with Operation-Location, whose
status is running, then completed, with the resourceId of the copy (page-copytosection,
onenoteoperation); a team is archived some time after the 202 (team-archive). An event shows its
transactionId; a second one with it was seen answered with 201, and refused with 400 or 409
ErrorDuplicateTransactionId, perhaps with the name of the first."""

import urllib.parse

from doubles.base import Case, Double, Kind, Refused, route

from support.waiting import wait_until

ME = "/v1.0/me"
GONE = (404, {"error": {"code": "ErrorItemNotFound"}})
IMMUTABLE = {"Prefer": 'IdType="ImmutableId"'}
WELL_KNOWN = ("archive", "drafts", "inbox", "sentitems")


def folder_id(name):
    return f"f-{name}" if name in WELL_KNOWN else name


class Graph(Double):
    kinds = (
        Kind(f"{ME}/messages", "message", gone=GONE,
             members={"isDraft": True, "parentFolderId": folder_id("drafts")}),
        Kind(f"{ME}/events", "event", gone=GONE, lists="value"),
        Kind(f"{ME}/mailFolders", "folder", gone=GONE),
        Kind(f"{ME}/calendars", "calendar", gone=GONE),
        Kind(f"{ME}/onenote/pages", "page", gone=GONE),
    )  # fmt: skip
    volatile = ("changeKey", "id", "name")
    too_many = (429, {"error": {"code": "TooManyRequests"}}, {"Retry-After": "1"})

    def __init__(self):
        self.second_event = (409, True)  # its status, and whether it names the first
        self.page = 100  # so many messages at most are listed at once
        self.jobs = {}  # what was taken on: how many questions from now it is done, and how
        super().__init__()

    def touch(self, thing):
        thing["changeKey"] = str(self.number())

    @route(f"POST {ME}/events")
    def event(self, call):
        asked = call.json()
        for name, thing in self.things.items():
            twin = thing.get("transactionId")
            if not name.startswith("event ") or twin is None or twin != asked.get("transactionId"):
                continue
            status, is_named = self.second_event
            if status == 201:
                return 201, thing
            error = {"code": "ErrorDuplicateTransactionId"}
            if is_named:
                error["@event.existingEventId"] = thing["id"]
            raise Refused(status, {"error": error})
        number = str(self.number())
        made = {**asked, "id": number}
        self.touch(made)
        return 201, self.add(f"event {number}", "event", **made)

    @route(f"POST {ME}/sendMail")
    def send_mail(self, _):
        self.happened("sent")
        return 202, None

    def take(self, name):
        message = self.things.pop(f"message {name}", None)
        if message is None:
            raise Refused(*GONE)
        return message

    def put(self, name, what, **members):
        """The message in another folder, under its immutable id (i5) or another one."""
        name = name if name.startswith("i") else f"x{self.number()}"
        self.old.discard(f"message {name}")
        return self.add(f"message {name}", what, **{**members, "id": name})

    @route(f"POST {ME}/messages/([^/]+)/permanentDelete")
    def erase(self, _, name):
        self.take(name)
        self.happened("permanentDelete")
        return 202, None

    @route(f"POST {ME}/messages/([^/]+)/send")
    def send_draft(self, _, name):
        message = {**self.take(name), "isDraft": False, "parentFolderId": folder_id("sentitems")}
        self.put(name, "send", **message)
        return 202, None

    @route(f"POST {ME}/messages/([^/]+)/move")
    def move(self, call, name):
        folder = folder_id(call.json()["destinationId"])
        return 201, self.put(name, "move", **{**self.take(name), "parentFolderId": folder})

    @route(f"GET {ME}/mailFolders/([^/]+)/messages")
    def messages(self, call, folder):
        def seen(name):
            is_other = call.headers.get("Prefer") == IMMUTABLE["Prefer"] and name[0] != "i"
            return f"i-of-{name}" if is_other else name

        there = [
            {**thing, "id": seen(name.split()[1])}
            for name, thing in self.listed("message")
            if thing["parentFolderId"] == folder_id(folder)
        ]
        skipped = int(call.query.get("$skip", 0))
        end = skipped + min(self.page, int(call.query["$top"]))
        answer = {"value": there[skipped:end]}
        if end < len(there):
            query = urllib.parse.urlencode({**call.query, "$skip": end})
            answer["@odata.nextLink"] = f"{self.url}{call.path.split('?')[0]}?{query}"
        return 200, answer

    def goes_on(self, name):
        """Whether it is done by now; each question brings it nearer."""
        job = self.jobs.get(name)
        if job is None:
            return True
        job[0] -= 1
        if job[0] >= 0:
            return False
        job[1]()
        job[1] = lambda: None
        return True

    @route(f"POST {ME}/onenote/(page|section)s/([^/]+)/copyTo(?:Section|Notebook)")
    def copy(self, call, kind, name):
        original, copied = self.things.get(f"{kind} {name}"), f"x{self.number()}"
        if original is None:
            raise Refused(*GONE)
        made = {**original, "id": copied, "parent": call.json()["id"]}
        self.jobs[copied] = [self.slow, lambda: self.things.update({f"{kind} {copied}": made})]
        self.happened("copy")
        return 202, None, {"Operation-Location": f"{self.url}{ME}/onenote/operations/{copied}"}

    @route(f"GET {ME}/onenote/operations/([^/]+)")
    def operation(self, _, copied):
        done = {"status": "completed", "resourceId": copied}
        return 200, {"id": copied, **(done if self.goes_on(copied) else {"status": "running"})}

    @route("POST /v1.0/teams/([^/]+)/(archive|unarchive)")
    def archive(self, _, name, verb):
        team = self.things.get(f"team {name}")
        if team is None:
            raise Refused(*GONE)
        self.jobs[name] = [self.slow, lambda: team.update(isArchived=verb == "archive")]
        self.happened("archive")
        return 202, None, {"Location": f"/teams('{name}')/operations('o1')"}

    @route("GET /v1.0/teams/([^/]+)")
    def team(self, _, name):
        self.goes_on(name)
        return 200, self.things[f"team {name}"]

    def state(self):
        """Names change with moves, which is no matter."""
        with self.lock:
            return str(sorted(str({k: v for k, v in sorted(thing.items())
                                   if k not in self.volatile})
                              for thing in self.things.values()))  # fmt: skip


DOUBLE = Graph
OLD = {"contentType": "text", "content": "Old"}


def there(kind, prefix="x", **members):
    return lambda double: double.make(
        f"{kind} {prefix}{double.number()}", **members, changeKey="1"
    ).split()[1]


MAIL = {"subject": "Old", "body": OLD, "isDraft": False, "parentFolderId": folder_id("inbox")}
DRAFT = {**MAIL, "isDraft": True, "parentFolderId": folder_id("drafts")}
A_MESSAGE = there("message", **MAIL)
AN_EVENT = there("event", subject="Old", start={"dateTime": "1"}, end={"dateTime": "2"}, body=OLD)


A_PAGE = there("page", title="Old")
A_SECTION = there("section", displayName="Old")
A_TEAM = there("team", isArchived=False)
AN_OLD_TEAM = there("team", isArchived=True)


def theirs(kind):
    return lambda double, names: double.change(f"{kind} {names['id']}", subject="Theirs")


def gone(double, _):
    del double.things[double.newest]


def moved_on(double, _):
    """Somebody has moved it further, so it has another name, unless that is immutable."""
    with double.lock:
        message, name = double.things.pop(double.newest), double.newest.split()[1]
        name = name if name.startswith("i") else f"x{double.number()}"
        double.things[f"message {name}"] = {**message, "id": name, "parentFolderId": "theirs"}


def a_move(folder="archive", prefix="i", **words):
    return Case("graph.message.move", f"POST {ME}/messages/$id/move", {"destinationId": folder},
                given=there("message", prefix, **MAIL), **words)  # fmt: skip


def deleted(double, names):
    """Somebody has deleted the team, once Recourse was told that it is archived, or is no more."""
    wait_until(lambda: double.jobs[names["id"]][0] < 0)
    del double.things[f"team {names['id']}"]


CASES = [
    Case("graph.mail.send", f"POST {ME}/sendMail", {"message": {"subject": "$token"}}, undone=None),
    Case("graph.draft.create", f"POST {ME}/messages", {"subject": "$token"}, moved=gone,
         moved_undo=[]),
    Case("graph.message.update", f"PATCH {ME}/messages/$id", {"subject": "$token"},
         given=A_MESSAGE, foreign=theirs("message")),
    Case("graph.draft.send", f"POST {ME}/messages/$id/send", given=there("message", **DRAFT),
         undone=None),
    a_move(prefix="x", foreign=moved_on, unfound=True),
    a_move(prefix="x", headers=IMMUTABLE, parks=True, unfound=True),
    a_move(headers=IMMUTABLE, foreign=moved_on, lists=True, lost_parks=True),
    a_move(folder_id("archive"), headers=IMMUTABLE, lists=True, lost_parks=True),
    Case("graph.message.erase", f"POST {ME}/messages/$id/permanentDelete", given=A_MESSAGE,
         undone=None),
    Case("graph.event.create", f"POST {ME}/events", {"subject": "$token"}, moved=gone,
         moved_undo=[], lists=True),
    Case("graph.event.update", f"PATCH {ME}/events/$id",
         {"subject": "$token", "start": {"dateTime": "3"}}, given=AN_EVENT,
         foreign=theirs("event")),
    Case("graph.folder.create", f"POST {ME}/mailFolders", {"displayName": "$token"}),
    Case("graph.calendar.create", f"POST {ME}/calendars", {"name": "$token"}),
    Case("graph.page.copy", f"POST {ME}/onenote/pages/$id/copyToSection", {"id": "$token"},
         given=A_PAGE, later="write"),
    Case("graph.section.copy", f"POST {ME}/onenote/sections/$id/copyToNotebook",
         {"id": "$token"}, given=A_SECTION, undone=None, later="write"),
    Case("graph.team.archive", "POST /v1.0/teams/$id/archive", given=A_TEAM, later="write",
         foreign=deleted),
    Case("graph.team.unarchive", "POST /v1.0/teams/$id/unarchive", given=AN_OLD_TEAM,
         later="write", foreign=deleted),
]  # fmt: skip
