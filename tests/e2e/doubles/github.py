"""GitHub REST. Facts from github/rest-api-description (npm @octokit/openapi) and docs.github.com:

* no key anywhere: a second POST makes a second thing, or 422 where names are taken (pulls of one
  branch, labels, tags).
* an issue is closed, not deleted; PATCH answers the whole of it; labels are sent as names or
  objects, and answered as objects.
* PATCH of a missing ref: 422 "Reference does not exist" (solana-developer-platform#602); a merge
  of what is merged: 405; a submitted review is dismissed, a pending one deleted; DELETE of an
  absent label of an issue: 404.
* a request without User-Agent is refused with 403; secondary rate limits answer 403 or 429.
* a file is replaced and deleted by its blob's sha: without it 422, with another 409; blobs are read
  by sha.
Lists may lag for all that is published."""

import hashlib

from doubles.base import Case, Double, Refused, route
from doubles.github_mcp import McpDoor, mcp_cases

REPO = "/repos/([^/]+/[^/]+)"
ACME = "/repos/acme/shop"


class GitHub(McpDoor, Double):
    too_many = (403, {"message": "You have exceeded a secondary rate limit"}, {"Retry-After": "1"})
    volatile = ("updated_at",)

    def __init__(self):
        self.blobs = {}
        super().__init__()

    def check(self, call):
        if not call.headers.get("User-Agent") and call.path != "/mcp/":
            raise Refused(403, {"message": "Request forbidden by administrative rules."})
        if not call.headers.get("Authorization", "").startswith("Bearer "):
            raise Refused(401, {"message": "Requires authentication"})

    def find(self, name, status=404):
        if name not in self.things:
            raise Refused(status, {"message": "Not Found"})
        return self.things[name]

    def needs(self, call, *names):
        for name in names:
            if name not in call.json():
                raise Refused(422, {"message": "Validation Failed"})

    def touch(self, thing):
        thing["updated_at"] = len(self.effects)

    def labels(self, given):
        names = [one["name"] if isinstance(one, dict) else one for one in given]
        return [{"name": name, "color": "ededed", "default": False} for name in names]

    def edit(self, thing, what, changes):
        if "labels" in changes:
            changes = {**changes, "labels": self.labels(changes["labels"])}
        thing.update(changes)
        self.touch(thing)
        self.happened(what)
        return 200, thing

    def create(self, call, kind, what, status=201, **members):
        number = self.number()
        thing = {"id": 9_000_000 + number, "number": number, "state": "open", **call.json()}
        if "labels" in thing:
            thing["labels"] = self.labels(thing["labels"])
        name = f"{kind} {number if kind in ('issue', 'pull', 'milestone') else thing['id']}"
        return status, self.add(name, what, **{**thing, **members})

    def delete(self, name, what, status=404):
        self.find(name, status)
        del self.things[name]
        self.happened(what)
        return 204, None

    # Issues.
    @route(f"POST {REPO}/issues")
    def issue(self, call, _):
        self.needs(call, "title")
        return self.create(call, "issue", "issue")

    @route(f"(GET|PATCH) {REPO}/(issue|pull|milestone)s/([0-9]+)")
    def numbered(self, call, method, _, kind, number):
        thing = self.find(f"{kind} {number}")
        if method == "GET":
            return 200, thing
        changes = call.json()
        return self.edit(thing, f"{kind} {changes.get('state_reason', 'edited')}", changes)

    @route(f"POST {REPO}/issues/([0-9]+)/comments", f"POST {REPO}/pulls/([0-9]+)/comments")
    def comment(self, call, _, __):
        self.needs(call, "body")
        return self.create(call, "comment", "comment")

    @route(f"(GET|PATCH|DELETE) {REPO}/(?:issues|pulls)/comments/([0-9]+)")
    def one_comment(self, call, method, _, name):
        thing = self.find(f"comment {name}")
        if method == "GET":
            return 200, thing
        if method == "PATCH":
            return self.edit(thing, "comment edited", call.json())
        return self.delete(f"comment {name}", "delete comment")

    @route(f"(GET|POST|PUT) {REPO}/issues/([0-9]+)/labels")
    def issue_labels(self, call, method, _, number):
        issue = self.find(f"issue {number}")
        if method != "GET":
            asked = self.labels(call.json()["labels"])
            if method == "POST":
                asked = issue["labels"] + [one for one in asked if one not in issue["labels"]]
            self.edit(issue, f"labels {method}", {"labels": asked})
        return 200, issue["labels"]

    @route(f"DELETE {REPO}/issues/([0-9]+)/labels/([^/]+)")
    def drop_label(self, _, __, number, label):
        issue = self.find(f"issue {number}")
        left = [one for one in issue["labels"] if one["name"] != label]
        if left == issue["labels"]:
            raise Refused(404, {"message": "Label does not exist"})
        self.edit(issue, "label removed", {"labels": left})
        return 200, left

    # Pull requests.
    @route(f"POST {REPO}/pulls")
    def pull(self, call, _):
        self.needs(call, "head", "base")
        head = call.json()["head"]
        for name, thing in self.things.items():
            if name.startswith("pull ") and thing["head"] == head and thing["state"] == "open":
                message = f"A pull request already exists for acme:{head}."
                raise Refused(422, {"errors": [{"code": "custom", "message": message}]})
        return self.create(call, "pull", "pull", merged_at=None)

    @route(f"PUT {REPO}/pulls/([0-9]+)/merge")
    def merge(self, _, __, number):
        pull = self.find(f"pull {number}")
        if pull["merged_at"]:
            raise Refused(405, {"message": "Pull Request is not mergeable"})
        self.edit(pull, "merge", {"merged_at": "2026-08-20T10:00:00Z", "state": "closed"})
        return 200, {"merged": True, "sha": "5ca1ab1e"}

    @route(f"POST {REPO}/pulls/([0-9]+)/reviews")
    def review(self, call, _, __):
        states = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED",
                  "COMMENT": "COMMENTED"}  # fmt: skip
        state = states.get(call.json().get("event"), "PENDING")
        return self.create(call, "review", "review", status=200, state=state)

    @route(f"DELETE {REPO}/pulls/([0-9]+)/reviews/([0-9]+)")
    def drop_review(self, _, __, ___, name):
        review = self.find(f"review {name}")
        if review["state"] != "PENDING":
            raise Refused(422, {"message": "Can not delete a non-pending pull request review"})
        self.delete(f"review {name}", "delete review")
        return 200, review

    @route(f"PUT {REPO}/pulls/([0-9]+)/reviews/([0-9]+)/dismissals")
    def dismiss(self, call, _, __, name):
        self.needs(call, "message")
        return self.edit(self.find(f"review {name}"), "dismissal", {"state": "DISMISSED"})

    # References.
    @route(f"GET {REPO}/git/ref/(.+)")
    def show_ref(self, _, __, ref):
        return 200, self.find(f"refs/{ref}")

    @route(f"GET {REPO}/git/matching-refs/(.+)")
    def matching_refs(self, _, __, start):
        names = sorted(name for name in self.things if name.startswith(f"refs/{start}"))
        return 200, [self.things[name] for name in names]

    @route(f"PATCH {REPO}/git/refs/(.+)")
    def move_ref(self, call, _, ref):
        if f"refs/{ref}" not in self.things:
            raise Refused(422, {"message": "Reference does not exist"})
        sha = call.json()["sha"]
        return self.edit(self.things[f"refs/{ref}"], "ref moved", {"object": {"sha": sha}})

    @route(f"POST {REPO}/git/refs")
    def make_ref(self, call, _):
        asked = call.json()
        if asked["ref"] in self.things:
            raise Refused(422, {"message": "Reference already exists"})
        made = self.add(asked["ref"], "ref made", ref=asked["ref"], object={"sha": asked["sha"]})
        return 201, made

    @route(f"DELETE {REPO}/git/refs/(.+)")
    def drop_ref(self, _, __, ref):
        return self.delete(f"refs/{ref}", "ref deleted", 422)

    # Files.
    def blob(self, content):
        sha = hashlib.sha1(content.encode()).hexdigest()
        self.blobs[sha] = content
        return sha

    @route(f"GET {REPO}/git/blobs/([^/]+)")
    def show_blob(self, _, __, sha):
        if sha not in self.blobs:
            raise Refused(404, {"message": "Not Found"})
        return 200, {"sha": sha, "content": self.blobs[sha], "encoding": "base64"}

    def check_sha(self, call, name):
        here, sha = self.things.get(name, {}).get("sha"), call.json().get("sha")
        if here and not sha:
            raise Refused(422, {"message": '"sha" wasn\'t supplied.'})
        if sha != here:
            raise Refused(409, {"message": f"{name} does not match {sha}"})

    @route(f"PUT {REPO}/contents/(.+)")
    def put_file(self, call, _, path):
        self.needs(call, "message", "content")
        self.check_sha(call, f"file {path}")
        status = 200 if f"file {path}" in self.things else 201
        sha = self.blob(call.json()["content"])
        self.add(f"file {path}", "file", sha=sha)
        return status, {"content": {"path": path, "sha": sha}, "commit": {"sha": "c0"}}

    @route(f"DELETE {REPO}/contents/(.+)")
    def drop_file(self, call, _, path):
        self.needs(call, "message", "sha")
        self.find(f"file {path}")
        self.check_sha(call, f"file {path}")
        del self.things[f"file {path}"]
        self.happened("delete file")
        return 200, {"content": None, "commit": {"sha": "c0"}}

    # Releases, labels, milestones, runs.
    @route(f"POST {REPO}/releases")
    def release(self, call, _):
        self.needs(call, "tag_name")
        return self.create(call, "release", "release", **{"draft": False, **call.json()})

    @route(f"(GET|PATCH|DELETE) {REPO}/releases/([0-9]+)")
    def one_release(self, call, method, _, name):
        thing = self.find(f"release {name}")
        if method == "GET":
            return 200, thing
        if method == "PATCH":
            return self.edit(thing, "release edited", call.json())
        return self.delete(f"release {name}", "delete release")

    @route(f"POST {REPO}/labels")
    def label(self, call, _):
        self.needs(call, "name")
        asked = call.json()
        name = f"label {asked['name']}"
        if name in self.things:
            raise Refused(422, {"errors": [{"resource": "Label", "code": "already_exists"}]})
        return 201, self.add(name, "label", **asked)

    @route(f"(GET|PATCH|DELETE) {REPO}/labels/([^/]+)")
    def one_label(self, call, method, _, name):
        thing = self.find(f"label {name}")
        if method == "GET":
            return 200, thing
        if method == "PATCH":
            return self.edit(thing, "label edited", call.json())
        return self.delete(f"label {name}", "delete label")

    @route(f"POST {REPO}/milestones")
    def milestone(self, call, _):
        self.needs(call, "title")
        return self.create(call, "milestone", "milestone")

    @route(f"DELETE {REPO}/milestones/([0-9]+)")
    def drop_milestone(self, _, __, number):
        return self.delete(f"milestone {number}", "delete milestone")

    @route(f"POST {REPO}/actions/workflows/([^/]+)/dispatches")
    def dispatch(self, _, __, ___):
        self.happened("run")
        return 204, None


DOUBLE = GitHub


def there(kind, **members):
    """A thing of that kind; its name is a number of its own."""

    def make(double):
        number = str(double.number())
        double.make(f"{kind} {number}", id=int(number), number=int(number), **members)
        return number

    return make


def a_ref(folder="heads/"):
    def make(double):
        name = f"b{double.number()}"
        ref = f"refs/{folder}{name}"
        double.make(ref, ref=ref, object={"sha": "a1"})
        return name

    return make


def a_label(double):
    label = f"l{double.number()}"
    double.make(f"label {label}", name=label, color="ff0000", description=None)
    return label


def a_file(folder=""):
    def make(double):
        path = f"{folder}f{double.number()}.txt"
        sha = double.blob("b2xk\n")
        double.make(f"file {path}", sha=sha)
        return {"id": path, "sha": sha}

    return make


def file_cases(tail, folder):
    """Of files in that folder."""
    file, given = f"{ACME}/contents/$id", a_file(folder)
    theirs = changes("file ", sha="theirs")
    body = {"message": "m", "content": "$token", "branch": "main"}
    return [
        Case(f"github.file.put{tail}", f"PUT {file}", {**body, "sha": "$sha"}, given=given,
             foreign=theirs),
        Case(f"github.file.put{tail}", f"PUT {file}",
             {"message": "m", "content": "$token", "sha": "$sha"}, given=given),
        Case(f"github.file.put{tail}", f"PUT {ACME}/contents/{folder}$token.txt", body,
             foreign=lambda double, _: double.change(double.newest, sha="theirs")),
        Case(f"github.file.put{tail}", f"PUT {ACME}/contents/{folder}$token.txt",
             {"message": "m", "content": "$token"}),
        Case(f"github.file.delete{tail}", f"DELETE {file}",
             {"message": "m", "sha": "$sha", "branch": "main"}, given=given,
             foreign=lambda double, names: double.make(f"file {names['id']}", sha="theirs")),
        Case(f"github.file.delete{tail}", f"DELETE {file}", {"message": "m", "sha": "$sha"},
             given=given),
    ]  # fmt: skip


def changes(kind, **members):
    return lambda double, names: double.change(f"{kind}{names['id']}", **members)


def ref_cases(tool, folder, tail=""):
    ref, given = f"{ACME}/git/refs/{folder}$id", a_ref(folder)
    return [
        Case(f"github.{tool}.update{tail}", f"PATCH {ref}", {"sha": "$token", "force": True},
             given=given, foreign=changes(f"refs/{folder}", object={"sha": "theirs"})),
        Case(f"github.{tool}.delete{tail}", f"DELETE {ref}", given=given,
             foreign=lambda double, names: double.make(
                 f"refs/{folder}{names['id']}", ref="theirs", object={"sha": "theirs"})),
    ]  # fmt: skip


AN_ISSUE = there("issue", title="Old", body=None, state="open",
                 labels=[{"name": "bug", "color": "ededed", "default": False}])  # fmt: skip
A_PULL = there("pull", title="Old", body="b", state="open", head="h", merged_at=None)
A_COMMENT = there("comment", body="Old")
A_RELEASE = there("release", name="Old", body="b", draft=True, prerelease=False)
A_MILESTONE = there("milestone", title="Old", state="open", description="d", due_on=None)
CHANGED_LABELS = changes("issue ", labels=[{"name": "theirs", "color": "0", "default": False}])
CASES = [
    Case("github.issue.create", f"POST {ACME}/issues", {"title": "$token"},
         undone=["issue not_planned"]),
    Case("github.issue.update", f"PATCH {ACME}/issues/$id",
         {"title": "$token", "body": "New", "labels": []}, given=AN_ISSUE,
         foreign=changes("issue ", title="Theirs")),
    Case("github.issue.comment", f"POST {ACME}/issues/$id/comments", {"body": "$token"},
         given=AN_ISSUE),
    Case("github.issue.comment.update", f"PATCH {ACME}/issues/comments/$id", {"body": "$token"},
         given=A_COMMENT, foreign=changes("comment ", body="Theirs")),
    Case("github.issue.labels.add", f"POST {ACME}/issues/$id/labels", {"labels": ["$token"]},
         given=AN_ISSUE, foreign=CHANGED_LABELS),
    Case("github.issue.labels.set", f"PUT {ACME}/issues/$id/labels", {"labels": ["$token"]},
         given=AN_ISSUE, foreign=CHANGED_LABELS),
    Case("github.issue.label.remove", f"DELETE {ACME}/issues/$id/labels/bug", given=AN_ISSUE),
    Case("github.pull.create", f"POST {ACME}/pulls", {"head": "$token", "base": "main"},
         undone=["pull edited"]),
    Case("github.pull.update", f"PATCH {ACME}/pulls/$id", {"title": "$token"}, given=A_PULL,
         foreign=changes("pull ", title="Theirs")),
    Case("github.pull.merge", f"PUT {ACME}/pulls/$id/merge", {"sha": "a1"}, given=A_PULL,
         undone=None),
    Case("github.pull.review", f"POST {ACME}/pulls/$id/reviews", {"body": "$token"}, given=A_PULL,
         moved=lambda double, _: double.change(double.newest, state="COMMENTED")),
    Case("github.pull.review", f"POST {ACME}/pulls/$id/reviews",
         {"body": "$token", "event": "APPROVE"}, given=A_PULL, undone=["dismissal"]),
    Case("github.pull.review", f"POST {ACME}/pulls/$id/reviews",
         {"body": "$token", "event": "COMMENT"}, given=A_PULL, parks=True),
    Case("github.pull.comment", f"POST {ACME}/pulls/$id/comments",
         {"body": "$token", "path": "a.txt", "line": 1}, given=A_PULL),
    Case("github.pull.comment.update", f"PATCH {ACME}/pulls/comments/$id", {"body": "$token"},
         given=A_COMMENT, foreign=changes("comment ", body="Theirs")),
    *ref_cases("branch", "heads/"), *ref_cases("branch", "heads/fix/", ".2"),
    *ref_cases("tag", "tags/"),
    *file_cases("", ""), *file_cases(".2", "docs/"), *file_cases(".3", "src/app/"),
    Case("github.release.create", f"POST {ACME}/releases", {"tag_name": "$token", "draft": True}),
    Case("github.release.create", f"POST {ACME}/releases", {"tag_name": "$token"}, parks=True),
    Case("github.release.update", f"PATCH {ACME}/releases/$id", {"name": "$token"},
         given=A_RELEASE, foreign=changes("release ", name="Theirs")),
    Case("github.label.create", f"POST {ACME}/labels", {"name": "$token", "color": "00ff00"}),
    Case("github.label.update", f"PATCH {ACME}/labels/$id", {"color": "0000ff"}, given=a_label,
         foreign=changes("label ", color="111111")),
    Case("github.milestone.create", f"POST {ACME}/milestones", {"title": "$token"}),
    Case("github.milestone.update", f"PATCH {ACME}/milestones/$id", {"title": "$token"},
         given=A_MILESTONE, foreign=changes("milestone ", title="Theirs")),
    Case("github.workflow.dispatch", f"POST {ACME}/actions/workflows/$token/dispatches",
         {"ref": "main"}, undone=None),
    *mcp_cases(AN_ISSUE, A_PULL, a_label),
]  # fmt: skip
