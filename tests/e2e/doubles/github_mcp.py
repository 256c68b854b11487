"""GitHub's MCP server, over the same repositories as the REST API of github.py. Facts from
github/github-mcp-server at 64a49f34: `pkg/github/__toolsnaps__/*.snap` for tools and arguments,
`pkg/github/{issues,pullrequests,labels,repositories}.go` and `minimal_types.go` for answers.

* results are texts, mostly JSON: of what was made {"id", "url"}, with the database id; of labels a
  sentence. Members that are empty are left out of what is read.
* an error of the API behind it is a result with isError.
* `method` tells create from update and delete; label_write takes it in any case of letters."""

import json

from doubles.base import Case, Refused, route

READS = ("get_", "list_", "search_", "issue_read", "pull_request_read")


def made(thing):
    url = f"https://github.com/acme/shop/issues/{thing.get('number')}"
    return {"id": str(thing["id"]), "url": url}


class McpDoor:
    """Mixed into the double of the REST API, whose things it has."""

    def called(self, call):
        message = json.loads(call.body)
        params = message.get("params", {})
        return message, params.get("name", ""), params.get("arguments", {})

    def is_read(self, call):
        if call.route != "POST /mcp/":
            return super().is_read(call)
        message, tool, _ = self.called(call)
        return message["method"] != "tools/call" or tool.startswith(READS)

    @route("POST /mcp/")
    def message(self, call):
        message, tool, given = self.called(call)
        if message["method"] != "tools/call":
            raise Refused(404, {"message": "no such method"})
        result = {"resultType": "complete"}
        try:
            told = getattr(self, f"tool_{tool}")(given)
            text = told if isinstance(told, str) else json.dumps(told)
        except Refused as refused:
            text, result["isError"] = f"failed: {refused.status} {refused.body}", True
        result["content"] = [{"type": "text", "text": text}]
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def shown(self, thing):
        return {name: value for name, value in thing.items() if value not in (None, "", [])}

    def tool_issue_read(self, given):
        return self.shown(self.find(f"issue {given['issue_number']}"))

    def tool_pull_request_read(self, given):
        return self.shown(self.find(f"pull {given['pullNumber']}"))

    def members(self, given, *names):
        return {name: given[name] for name in names if given.get(name)}

    def tool_issue_write(self, given):
        fields = self.members(given, "title", "body", "state", "labels")
        if given["method"] == "create":
            if "title" not in fields:
                raise Refused(422, "missing required parameter: title")
            return made(self.new("issue", fields))
        issue = self.find(f"issue {given['issue_number']}")
        self.edit(issue, f"issue {given.get('state', 'edited')}", fields)
        return made(issue)

    def new(self, kind, fields):
        number = self.number()
        thing = {"id": 9_000_000 + number, "number": number, "state": "open", **fields}
        return self.add(f"{kind} {number}", kind, **thing)

    def tool_add_issue_comment(self, given):
        self.find(f"issue {given['issue_number']}")
        number = 9_000_000 + self.number()
        return made(self.add(f"comment {number}", "comment", id=number, body=given["body"]))

    def tool_create_pull_request(self, given):
        return made(self.new("pull", {**self.members(given, "title", "head", "base"),
                                      "merged_at": None}))  # fmt: skip

    def tool_update_pull_request(self, given):
        pull = self.find(f"pull {given['pullNumber']}")
        self.edit(pull, "pull edited", self.members(given, "title", "body", "state", "base"))
        return made(pull)

    def tool_merge_pull_request(self, given):
        return self.merge(None, None, str(given["pullNumber"]))[1]

    def tool_label_write(self, given):
        method, name = given["method"].lower(), f"label {given['name']}"
        if method == "create":
            if name in self.things:
                raise Refused(422, "already_exists")
            self.add(name, "label", **self.members(given, "name", "color", "description"))
        elif method == "delete":
            self.delete(name, "delete label")
        else:
            self.edit(self.find(name), "label edited", self.members(given, "color", "description"))
        return f"label '{given['name']}' {method}d successfully"

    def tool_create_branch(self, given):
        name = f"refs/heads/{given['branch']}"
        if name in self.things:
            raise Refused(422, "Reference already exists")
        return self.add(name, "ref made", ref=name, object={"sha": "a1"})

    def tool_create_or_update_file(self, given):
        self.happened(f"commit {given['path']}")
        return {"commit": {"sha": "c1"}}

    tool_delete_file = tool_create_or_update_file

    def tool_push_files(self, given):
        self.happened(f"commit {len(given['files'])}")
        return {"ref": f"refs/heads/{given['branch']}", "object": {"sha": "c1"}}


def others(kind):
    """Neither what it was before nor what the write left."""
    return lambda double, names: double.change(f"{kind} {names['id']}", state="theirs")


def reopened(kind):
    return lambda double, names: double.change(f"{kind} {names['id']}", state="open")


ACME = {"owner": "acme", "repo": "shop"}


def mcp_cases(issue, pull, label):
    """`issue`, `pull` and `label` give one that was there before."""
    numbered = {**ACME, "method": "update", "issue_number": "$id#"}
    return [
        Case("github.mcp.issue", "tools/call issue_write",
             {**ACME, "method": "create", "title": "$token"}, parks=True),
        Case("github.mcp.issue", "tools/call issue_write",
             {**numbered, "state": "closed", "state_reason": "completed"}, given=issue,
             foreign=others("issue"), moved=reopened("issue"), moved_undo=[]),
        Case("github.mcp.issue", "tools/call issue_write",
             {**numbered, "state": "closed", "title": "$token"}, given=issue, parks=True),
        Case("github.mcp.comment", "tools/call add_issue_comment",
             {**ACME, "issue_number": "$id#", "body": "$token"}, given=issue, undone=None),
        Case("github.mcp.pull.create", "tools/call create_pull_request",
             {**ACME, "title": "T", "head": "$token", "base": "main"}, undone=None),
        Case("github.mcp.pull.update", "tools/call update_pull_request",
             {**ACME, "pullNumber": "$id#", "state": "closed"}, given=pull,
             foreign=others("pull"), moved=reopened("pull"), moved_undo=[]),
        Case("github.mcp.pull.merge", "tools/call merge_pull_request",
             {**ACME, "pullNumber": "$id#"}, given=pull, undone=None),
        Case("github.mcp.label", "tools/call label_write",
             {**ACME, "method": "create", "name": "$token", "color": "00ff00"}),
        Case("github.mcp.label", "tools/call label_write",
             {**ACME, "method": "update", "name": "$id", "color": "0000ff"}, given=label,
             parks=True),
        Case("github.mcp.branch.create", "tools/call create_branch",
             {**ACME, "branch": "$token"}, undone=None),
        Case("github.mcp.file", "tools/call create_or_update_file",
             {**ACME, "branch": "main", "path": "$token", "content": "x", "message": "m"},
             undone=None),
        Case("github.mcp.file", "tools/call delete_file",
             {**ACME, "branch": "main", "path": "$token", "message": "m"}, undone=None),
        Case("github.mcp.file", "tools/call push_files",
             {**ACME, "branch": "main", "message": "m",
              "files": [{"path": "$token", "content": "x"}]}, undone=None),
    ]  # fmt: skip
