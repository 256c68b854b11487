"""Linear (linear/linear packages/sdk/src/schema.graphql; what its API was seen to answer):

* create inputs take an `id`, a UUID of the client's choice, which is that of the thing; a second
  one of it is an error INPUT_ERROR, "conflict on insert of Issue", and makes nothing. It comes
  with HTTP 200 or 400: both are offered.
* deleting an issue, a project or a document puts it into the trash, from where unarchiving takes
  it back; a comment is gone. What is not there is an error.
* who asks too often gets HTTP 400, code RATELIMITED.
Not published, so offered in both ways: whether a second deletion succeeds."""

import json
import re

from doubles.base import Case
from doubles.graphql import GraphqlDouble, mutation

VERB = re.compile("(.+)(Create|Update|Delete|(?<!Un)Archive|Unarchive)")
ARCHIVABLE = ("issue", "project", "document")


class Linear(GraphqlDouble):
    volatile = ("updatedAt",)
    too_many = (400, {"errors": [{"message": "Rate limit exceeded",
                                  "extensions": {"code": "RATELIMITED"}}]}, {})  # fmt: skip

    def __init__(self):
        self.conflict_status = 200  # or 400
        self.deletes_twice = True
        super().__init__()

    def check(self, call):
        if not call.headers.get("Authorization"):
            raise self.no("Authentication required", "AUTHENTICATION_ERROR", 401)

    def touch(self, thing):
        thing["updatedAt"] = str(self.number())

    def find(self, kind, name):
        if f"{kind} {name}" not in self.things:
            raise self.no("Entity not found", "INPUT_ERROR")
        return self.things[f"{kind} {name}"]

    def done(self, **entity):
        return {"success": True, "lastSyncId": 1, **entity}

    def resolve(self, document):
        asked = document.arguments
        if document.operation == "query":
            if document.name in KINDS:
                return self.find(document.name, asked["id"])
            return self.listing(document.name.removesuffix("s"), asked)
        if method := getattr(self, document.name, None):
            return method(asked)
        kind, verb = VERB.fullmatch(document.name).groups()
        return getattr(self, verb.lower())(kind, asked)

    def listing(self, kind, asked):
        wanted = asked["filter"]["id"]["eq"]
        nodes = [thing for _, thing in self.listed(kind) if thing["id"] == wanted]
        with_archived = asked.get("includeArchived")
        return {"nodes": [one for one in nodes if with_archived or not one["archivedAt"]]}

    def set(self, kind, name, what, /, **members):
        thing = self.find(kind, name)
        thing.update(members)
        self.touch(thing)
        self.happened(f"{kind} {what}")
        return self.done(**{kind: thing, "entity": thing})

    # What most kinds do alike.
    def create(self, kind, asked):
        name = asked["input"].get("id", f"server-{self.number()}")
        if f"{kind} {name}" in self.things:
            message = f"conflict on insert of {KINDS[kind]}"
            raise self.no(message, "INPUT_ERROR", self.conflict_status)
        thing = {"archivedAt": None, "trashed": None, **asked["input"], "id": name}
        self.touch(thing)
        return self.done(**{kind: self.add(f"{kind} {name}", f"{kind} made", **thing)})

    def update(self, kind, asked):
        members = dict(asked["input"])
        if "stateId" in members:
            members["state"] = {"id": members.pop("stateId")}
        return self.set(kind, asked["id"], "changed", **members)

    def delete(self, kind, asked):
        if kind in ARCHIVABLE:
            return self.archive(kind, {**asked, "trash": True})
        name = f"{kind} {asked['id']}"
        if name not in self.things and self.deletes_twice:
            return self.done(entityId=asked["id"])
        self.find(kind, asked["id"])
        del self.things[name]
        self.happened(f"{kind} deleted")
        return self.done(entityId=asked["id"])

    def archive(self, kind, asked):
        trashed = True if asked.get("trash") else self.find(kind, asked["id"])["trashed"]
        return self.set(kind, asked["id"], "archived", archivedAt="2026-08-01", trashed=trashed)

    def unarchive(self, kind, asked):
        return self.set(kind, asked["id"], "unarchived", archivedAt=None, trashed=None)

    # What only some do.
    def issueAddLabel(self, asked):
        labels = {*self.find("issue", asked["id"])["labelIds"], asked["labelId"]}
        return self.set("issue", asked["id"], "labelled", labelIds=sorted(labels))

    def issueRemoveLabel(self, asked):
        labels = {*self.find("issue", asked["id"])["labelIds"]} - {asked["labelId"]}
        return self.set("issue", asked["id"], "unlabelled", labelIds=sorted(labels))


    def commentResolve(self, asked):
        return self.set("comment", asked["id"], "resolved", resolvedAt="2026-08-01")

    def commentUnresolve(self, asked):
        return self.set("comment", asked["id"], "unresolved", resolvedAt=None)


KINDS = {"issue": "Issue", "comment": "Comment", "project": "Project", "document": "Document",
         "issueLabel": "IssueLabel", "issueRelation": "IssueRelation"}  # fmt: skip
DOUBLE = Linear


def create(kind, tool, asked, **words):
    body = mutation(f"{kind}Create", {"input": asked}, f"success {kind} {{ id }}")
    return Case(f"linear.{tool}.create", "POST /graphql", body, **words)


def on(field, tool, selected="success", more=None, **words):
    body = mutation(field, {"id": "$id", **(more or {})}, selected)
    return Case(f"linear.{tool}", "POST /graphql", body, **words)


def given(kind, /, **members):
    def make(double):
        name = f"9c1e9d7e-0000-4000-8000-{double.number():012}"
        thing = {"id": name, "archivedAt": None, "trashed": None, **members}
        double.make(f"{kind} {name}", **json.loads(json.dumps(thing)))
        return name

    return make


def gone(double, _):
    del double.things[double.newest]


def for_good(kind):
    """Somebody has deleted it, and it is in no trash."""
    return lambda double, names: double.things.pop(f"{kind} {names['id']}")


def others(kind, **members):
    return lambda double, names: double.change(f"{kind} {names['id']}", **members)


AN_ISSUE = {"title": "Old", "description": None, "priority": 2, "estimate": None, "dueDate": None,
            "labelIds": ["l1"], "state": {"id": "todo"}}  # fmt: skip
A_DOCUMENT = {"title": "Old", "content": "# Old\n", "icon": None, "color": "#000"}
A_PROJECT = {"name": "Old", "description": "", "content": None, "priority": 0,
             "startDate": None, "targetDate": "2026-12-01"}  # fmt: skip
CASES = [
    create("issue", "issue", {"teamId": "T1", "title": "$token"}, lists=True,
           undone=["issue archived"], moved=gone),
    on("issueUpdate", "issue.update", "success issue { id }",
       {"input": {"title": "$token", "labelIds": [], "estimate": 3}},
       given=given("issue", **AN_ISSUE), foreign=others("issue", title="Theirs")),
    on("issueDelete", "issue.delete", given=given("issue")),
    on("issueArchive", "issue.archive", given=given("issue")),
    on("issueUnarchive", "issue.unarchive",
       given=given("issue", archivedAt="2026-08-01", trashed=True), foreign=for_good("issue")),
    on("issueAddLabel", "issue.label.add", more={"labelId": "l2"},
       given=given("issue", labelIds=["l1"])),
    on("issueRemoveLabel", "issue.label.remove", more={"labelId": "l1"},
       given=given("issue", labelIds=["l1"])),
    create("comment", "comment", {"issueId": "I1", "body": "$token"}, lists=True, moved=gone,
           moved_undo=[]),
    on("commentUpdate", "comment.update", more={"input": {"body": "$token"}},
       given=given("comment", body="Old"), foreign=others("comment", body="Theirs")),
    on("commentDelete", "comment.delete", given=given("comment"), undone=None),
    create("project", "project", {"teamIds": ["T1"], "name": "$token"}, lists=True,
           undone=["project archived"]),
    on("projectUpdate", "project.update", more={"input": {"name": "$token", "targetDate": None}},
       given=given("project", **A_PROJECT), foreign=others("project", name="Theirs")),
    on("projectDelete", "project.delete", given=given("project")),
    on("projectUnarchive", "project.unarchive",
       given=given("project", archivedAt="2026-08-01", trashed=True)),
    create("document", "document", {"projectId": "P1", "title": "$token"}, lists=True,
           undone=["document archived"]),
    on("documentUpdate", "document.update", more={"input": {"title": "$token", "icon": "Bug"}},
       given=given("document", **A_DOCUMENT), foreign=others("document", content="Theirs")),
    on("documentDelete", "document.delete", given=given("document")),
    on("documentUnarchive", "document.unarchive",
       given=given("document", archivedAt="2026-08-01", trashed=True)),
    create("issueLabel", "label", {"teamId": "T1", "name": "$token"}, lists=True, moved=gone,
           moved_undo=[]),
    create("issueRelation", "relation",
           {"issueId": "I1", "relatedIssueId": "$token", "type": "blocks"}, moved=gone,
           moved_undo=[]),
    on("issueLabelDelete", "label.delete", given=given("issueLabel"), undone=None),
    on("issueRelationDelete", "relation.delete", given=given("issueRelation"), undone=None),
    on("commentResolve", "comment.resolve", given=given("comment", resolvedAt=None)),
    on("commentUnresolve", "comment.unresolve",
       given=given("comment", resolvedAt="2026-08-01")),
]  # fmt: skip
