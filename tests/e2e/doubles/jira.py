"""Jira Cloud REST v3 (salto-io/jira-swaggers, npm jira.js): an issue with subtasks is not deleted
(400); 404 for what is gone, and for what one may not see; PUT of an issue answers 204; remote links
and properties answer 201 when new, 200 when replaced."""

from doubles.base import Case, Double, Kind, Refused, route

API = "/rest/api/3"
MISSING = (404, {"errorMessages": ["Issue does not exist or you do not have permission."]})


class Jira(Double):
    kinds = (
        Kind(f"{API}/issue/[^/]+/comment", "comment", needs=("body",), gone=MISSING),
        Kind(f"{API}/issue/[^/]+/worklog", "worklog", gone=MISSING),
        Kind(f"{API}/component", "component", needs=("name",), gone=MISSING),
        Kind(f"{API}/filter", "filter", needs=("name",), made=200, gone=(400, {})),
        Kind(f"{API}/version", "version", needs=("name",), gone=MISSING),
    )
    volatile = ("updated",)
    too_many = (429, {"errorMessages": ["Rate limit"]}, {"Retry-After": "1"})

    def touch(self, thing):
        thing.get("fields", thing)["updated"] = self.number()

    def find(self, name):
        if name not in self.things:
            raise Refused(*MISSING)
        return self.things[name]

    @route(f"POST {API}/issue")
    def create(self, call):
        fields = call.json()["fields"]
        if "summary" not in fields:
            raise Refused(400, {"errors": {"summary": "You must specify a summary of the issue."}})
        number = str(self.number())
        self.add(f"issue {number}", "issue", fields=fields, subtasks=0)
        return 201, {"id": number, "key": f"SHOP-{number}", "self": f"{API}/issue/{number}"}

    @route(f"(GET|PUT|DELETE) {API}/issue/([^/]+)")
    def one(self, call, method, name):
        issue = self.find(f"issue {name}")
        if method == "GET":
            wanted = call.query["fields"].split(",")
            fields = {field: issue["fields"].get(field) for field in wanted}
            return 200, {"id": name, "key": name, "fields": fields}
        if method == "DELETE":
            if issue["subtasks"]:
                raise Refused(400, {"errorMessages": ["The issue has subtasks."]})
            del self.things[f"issue {name}"]
        else:
            issue["fields"].update(call.json()["fields"])
            self.touch(issue)
        self.happened(f"issue {method}")
        return 204, None

    @route(f"PUT {API}/issue/([^/]+)/assignee")
    def assign(self, call, name):
        issue = self.find(f"issue {name}")
        account = call.json()["accountId"]
        issue["fields"]["assignee"] = account and {"accountId": account, "active": True}
        self.touch(issue)
        self.happened("assigned")
        return 204, None

    def upsert(self, name, what, members):
        status = 200 if name in self.things else 201
        self.add(name, what, **members)
        return status, {"id": self.number()}

    @route(f"POST {API}/issue/([^/]+)/remotelink")
    def link(self, call, issue):
        asked = call.json()
        return self.upsert(f"link {issue} {asked['globalId']}", "link", asked)

    @route(f"PUT {API}/issue/([^/]+)/properties/([^/]+)")
    def property(self, call, issue, name):
        return self.upsert(f"property {issue} {name}", "property", {"value": call.json()})

    def drop(self, name):
        self.find(name)
        del self.things[name]
        self.happened(f"delete {name.split()[0]}")
        return 204, None

    @route(f"DELETE {API}/issue/([^/]+)/remotelink")
    def unlink(self, call, issue):
        return self.drop(f"link {issue} {call.query['globalId']}")

    @route(f"DELETE {API}/issue/([^/]+)/properties/([^/]+)")
    def drop_property(self, _, issue, name):
        return self.drop(f"property {issue} {name}")

    @route(f"POST {API}/version/([^/]+)/removeAndSwap")
    def drop_version(self, _, name):
        return self.drop(f"version {name}")


DOUBLE = Jira
DOC = {"type": "doc", "version": 1, "content": [{"type": "paragraph"}]}


def an_issue(double):
    number = str(double.number())
    fields = {"summary": "Old", "description": None, "labels": ["a", "b"], "assignee": None}
    double.make(f"issue {number}", fields=fields, subtasks=0)
    return number


def a_comment(double):
    number = str(double.number())
    double.make(f"comment {number}", id=number, body=DOC)
    return number


def other_fields(double, names):
    fields = double.things[f"issue {names['id']}"]["fields"]
    double.change(f"issue {names['id']}", fields={**fields, "summary": "Theirs"})


def an_assigned_issue(double):
    number = an_issue(double)
    fields = {"assignee": {"accountId": "a7", "active": True}}
    double.make(f"issue {number}", fields=fields, subtasks=0)
    return number


def others_assignee(double, names):
    double.change(f"issue {names['id']}", fields={"assignee": {"accountId": "theirs"}})


def there(kind, suffix):
    def make(double):
        number = str(double.number())
        double.make(f"{kind} {number} {suffix}", value="theirs")
        return number

    return make


FIELDS = {"project": {"key": "SHOP"}, "issuetype": {"name": "Bug"}, "summary": "$token"}
LINK = {"globalId": "g1", "object": {"url": "https://a.test", "title": "A"}}
CASES = [
    Case("jira.issue.create", f"POST {API}/issue", {"fields": FIELDS},
         moved=lambda double, _: double.change(double.newest, subtasks=1)),
    Case("jira.issue.update", f"PUT {API}/issue/$id",
         {"fields": {"summary": "$token", "description": DOC, "labels": []}}, given=an_issue,
         foreign=other_fields),
    Case("jira.issue.assign", f"PUT {API}/issue/$id/assignee", {"accountId": "$token"},
         given=an_issue, foreign=others_assignee),
    Case("jira.issue.assign", f"PUT {API}/issue/$id/assignee", {"accountId": None},
         given=an_assigned_issue, foreign=others_assignee),
    Case("jira.issue.delete", f"DELETE {API}/issue/$id", given=an_issue, undone=None),
    Case("jira.issue.comment", f"POST {API}/issue/SHOP-7/comment", {"body": {"text": "$token"}}),
    Case("jira.issue.comment.update", f"PUT {API}/issue/SHOP-7/comment/$id",
         {"body": {"text": "$token"}}, given=a_comment,
         foreign=lambda double, names: double.change(f"comment {names['id']}", body={})),
    Case("jira.issue.worklog", f"POST {API}/issue/SHOP-7/worklog",
         {"timeSpentSeconds": 60, "comment": {"text": "$token"}}),
    Case("jira.issue.remotelink", f"POST {API}/issue/$token/remotelink", LINK),
    Case("jira.issue.remotelink", f"POST {API}/issue/$id/remotelink", LINK,
         given=there("link", "g1"), parks=True),
    Case("jira.issue.property", f"PUT {API}/issue/$token/properties/p1", {"done": True}),
    Case("jira.issue.property", f"PUT {API}/issue/$id/properties/p1", {"done": True},
         given=there("property", "p1"), parks=True),
    Case("jira.version.create", f"POST {API}/version", {"projectId": 1, "name": "$token"}),
    Case("jira.component.create", f"POST {API}/component", {"project": "SHOP", "name": "$token"}),
    Case("jira.filter.create", f"POST {API}/filter", {"name": "$token", "jql": "a = b"}),
]  # fmt: skip
