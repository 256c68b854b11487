"""A small tracker of issues and pages with a state: it can be updated, replaced, deleted and made
again, with entity tags or without, and somebody else changes it when a test says so."""

import gzip
import hashlib
import json

from support.apis import Api, Refused

POLICY = """\
version: 1
backends:
  tracker: {{ url: "{url}", hosts: [ tracker.test ], timeout: 60s, connect_timeout: 30s }}
tools:
  issues.update:
    match: PATCH tracker /issues/{{id}}
    effect: write
    before: {{ request: "GET /issues/{{path.id}}", version: header.ETag{missing},
              keep: [ body#/title, body#/labels, body#/assignee, body#/points ] }}
    undo:
      request: "PATCH /issues/{{path.id}}"
      json: {{ title: "{{before.body#/title}}", labels: "{{before.body#/labels}}",
              assignee: "{{before.body#/assignee}}", points: "{{before.body#/points}}" }}
      credentials: from_call
      only_if: unchanged
  pages.replace:
    match: PUT tracker /pages/{{id}}
    effect: write
    before: {{ request: "GET /pages/{{path.id}}", keep: body#{missing} }}
    undo: {{ request: "PUT /pages/{{path.id}}", json: "{{before.body#}}", only_if: unchanged,
            credentials: from_call, repeatable: true }}
  issues.delete:
    match: DELETE tracker /issues/{{id}}
    effect: write
    before: {{ request: "GET /issues/{{path.id}}", keep: [ body#/title, body#/labels ]{missing} }}
    undo: {{ request: "POST /issues", only_if: unchanged, credentials: from_call,
            json: {{ title: "{{before.body#/title}}", labels: "{{before.body#/labels}}" }} }}
{tools}"""


MCP_POLICY = """\
version: 1
backends:
  tracker: {{ url: "{url}/mcp", hosts: [ 127.0.0.1 ], protocol: mcp, timeout: 60s,
             connect_timeout: 30s }}
tools:
  issues.get: {{ match: tools/call tracker get_issue, effect: read }}
  issues.edit:
    match: tools/call tracker edit_issue
    effect: write
    before: {{ call: get_issue, arguments: {{ id: "{{body#/id}}" }},
              keep: [ body#/title, body#/labels ] }}
    undo: {{ call: edit_issue, only_if: unchanged, credentials: from_call,
            arguments: {{ id: "{{body#/id}}", title: "{{before.body#/title}}",
                         labels: "{{before.body#/labels}}" }} }}
"""


def policy(url, missing="", tools=""):
    """`missing` are further words of every `before`, `tools` further lines."""
    return POLICY.format(url=url, missing=missing and f", {missing}", tools=tools)


def merged(old, new):
    both = isinstance(old, dict) and isinstance(new, dict)
    return {**old, **{key: merged(old.get(key), new[key]) for key in new}} if both else new


class Tracker(Api):
    routes = (
        ("GET /(issues|pages)/([^/]+)", "show"),
        ("PATCH /(issues|pages)/([^/]+)", "update"),
        ("PUT /(issues|pages)/([^/]+)", "replace"),
        ("DELETE /(issues|pages)/([^/]+)", "delete"),
        ("POST /(issues|pages)", "create"),
        ("POST /mcp", "message"),
    )

    def __init__(self):
        self.has_tags = True
        self.untagged = set()  # names of what has none all the same
        self.tells = True  # answers to writes show what they left
        self.read_fails = 0  # so many reads are answered with a 503
        self.after_read = None  # called with what was just read
        self.counts = True  # its tags, of which each is a digest otherwise
        self.merges = False  # updates of an object in an object leave the rest of it
        self.coded_tag = None  # what becomes of a tag where it codes an answer, if it does at all
        self.codes_reads = False  # these answers too, whatever is asked for
        self.conflicts = 0  # so many updates of what was updated before are answered with a 409
        super().__init__()

    def make(self, kind, name, **fields):
        self.things[kind, name] = {"id": name, **fields}, 1

    def state(self, kind, name):
        found = self.things.get((kind, name))
        return found and found[0]

    def foreign(self, kind, name, **fields):
        """Somebody else's change, past Recourse."""
        with self.lock:
            self.set(kind, name, {**self.state(kind, name), **fields})

    def set(self, kind, name, thing):
        _, number = self.things.get((kind, name), (None, 0))
        self.things[kind, name] = thing, number + 1

    def asked(self, method, path):
        wanted = (method, path)
        return [headers for verb, target, headers in self.requests if (verb, target) == wanted]

    def found(self, kind, name):
        if (kind, name) not in self.things:
            raise Refused(404, {"message": "Not Found"})
        return self.things[kind, name]

    def tag(self, number, name):
        is_tagged = self.has_tags and name not in self.untagged
        return {"ETag": self.text_of(number)} if is_tagged else {}

    def text_of(self, number):
        return f'"v{number}"' if self.counts else f'"{hashlib.md5(b"%d" % number).hexdigest()}"'

    def send(self, http_request, status, answer, headers):
        is_coded = self.coded_tag and (http_request.command != "GET" or self.codes_reads)
        if not is_coded or answer is None:
            return super().send(http_request, status, answer, headers)
        data = gzip.compress(json.dumps(answer).encode())
        coded = {**headers, "Content-Encoding": "gzip", "Content-Type": "application/json",
                 "Content-Length": str(len(data))}  # fmt: skip
        if "ETag" in coded:
            coded["ETag"] = self.coded_tag(coded["ETag"])
        http_request.send_response(status)
        for name, value in coded.items():
            http_request.send_header(name, value)
        http_request.end_headers()
        http_request.wfile.write(data)

    def show(self, _, __, kind, name):
        if self.read_fails:
            self.read_fails -= 1
            raise Refused(503)
        thing, number = self.found(kind, name)
        answer = 200, dict(thing), self.tag(number, name)
        if self.after_read:
            self.after_read(kind, name)
        return answer

    def changed(self, http_request, kind, name, thing):
        _, number = self.found(kind, name)
        wanted = http_request.headers.get("If-Match")
        known = self.text_of(number)
        if wanted and wanted != (self.coded_tag(known) if self.codes_reads else known):
            raise Refused(412, {"message": "Precondition Failed"})
        self.set(kind, name, thing)
        self.happened(f"{http_request.command} {kind}/{name}")
        if not self.tells:
            return 200, {"ok": True}
        return 200, thing, self.tag(number + 1, name)

    def update(self, http_request, body, kind, name):
        thing, number = self.found(kind, name)
        if self.conflicts and number > 1:
            self.conflicts -= 1
            raise Refused(409, {"message": "somebody moved it"})
        updated = merged if self.merges else lambda old, new: {**old, **new}
        return self.changed(http_request, kind, name, updated(thing, json.loads(body)))

    def replace(self, http_request, body, kind, name):
        self.found(kind, name)
        return self.changed(http_request, kind, name, {**json.loads(body), "id": name})

    def delete(self, _, __, kind, name):
        self.found(kind, name)
        del self.things[kind, name]
        self.happened(f"DELETE {kind}/{name}")
        return 204, None

    def create(self, _, body, kind):
        name = f"n{self.next_number()}"
        self.make(kind, name, **json.loads(body))
        self.happened(f"POST {kind}")
        return 201, self.state(kind, name)

    def message(self, _, body):
        """The same issues through the other door, without sessions."""
        message = json.loads(body)
        params = message.get("params", {})
        arguments, tool = params.get("arguments", {}), params.get("name")
        thing, _ = self.found("issues", arguments["id"])
        if tool == "edit_issue":
            self.set("issues", arguments["id"], {**thing, **arguments})
            self.happened(f"edit_issue {arguments['id']}")
        output = self.state("issues", arguments["id"])
        content = [{"type": "text", "text": json.dumps(output)}]
        result = {"resultType": "complete", "content": content, "structuredContent": output}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}
