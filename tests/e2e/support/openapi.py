"""The OpenAPI document of a running process, and a client that holds every answer to it."""

import http.client
import json
import re
import urllib.parse

import jsonschema

from support.recourse import WAIT_MAX


def validator(document, schema):
    """Of one schema of the document, with its references."""
    whole = {**schema, "components": document["components"]}
    return jsonschema.Draft202012Validator(
        whole, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def schemas_in(value):
    """Every schema below, at any depth, that describes objects."""
    if isinstance(value, dict):
        if "properties" in value and "type" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from schemas_in(one)


class Described:
    """Asks the admin port of `guarded` as the operator `token`; every answer has to be one that the
    document knows. `seen` holds (METHOD, path template, status)."""

    def __init__(self, guarded, token):
        self.guarded = guarded
        self.token = token
        self.document = json.loads(guarded.ask("GET", "/openapi.json")[2])
        self.seen = set()
        self.written = set()  # (place, member) of every object that an answer had

    def operations(self):
        """(METHOD, path template, operation), with the parameters of its path in it."""
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                if method != "parameters":
                    shared = item.get("parameters", [])
                    parameters = shared + operation.get("parameters", [])
                    yield method.upper(), path, {**operation, "parameters": parameters}

    def find(self, method, target):
        path = urllib.parse.urlsplit(target).path
        for one, template, operation in self.operations():
            if one == method and re.fullmatch(re.sub(r"\{[a-z]+\}", "[^/]+", template), path):
                return template, operation
        raise AssertionError(f"the document has no {method} {path}")

    def response(self, operation, status):
        known = operation["responses"]
        assert str(status) in known, f"{operation['operationId']} answered {status}: not described"
        one = known[str(status)]
        if "$ref" in one:
            one = self.document["components"]["responses"][one["$ref"].rpartition("/")[2]]
        return one

    def ask(self, method, target, status, body=None, headers=None, token="own"):
        """One request, and its answer's body: JSON, else text."""
        template, operation = self.find(method, target)
        fields = dict(headers or {})
        token = self.token if token == "own" else token
        content = None if body is None else body if isinstance(body, str) else json.dumps(body)
        got, answered, text = self.guarded.ask(method, target, token, fields, content)
        assert got == status, (method, target, got, text)
        self.seen.add((method, template, status))
        return self.judge(operation, status, answered, text)

    def judge(self, operation, status, fields, text):
        response = self.response(operation, status)
        for name in response.get("headers", {}):
            assert fields[name] is not None, (operation["operationId"], status, name)
        content = response.get("content", {})
        if not content:
            assert text == "", (operation["operationId"], status, text)
            return text
        kind = fields["Content-Type"].partition(";")[0]
        assert kind in content, (operation["operationId"], status, kind)
        if not kind.endswith("json") or "schema" not in content[kind]:
            return text
        if kind == "application/x-ndjson":
            lines = [json.loads(line) for line in text.splitlines()]
            for line in lines:
                self.check(content[kind]["x-item-schema"], line)
            return lines
        value = json.loads(text)
        self.check(content[kind]["schema"], value)
        return value

    def check(self, schema, value):
        self.note("", schema, value)
        errors = sorted(validator(self.document, schema).iter_errors(value), key=str)
        assert not errors, "\n".join(
            f"{list(error.absolute_path)}: {error.message[:500]}" for error in errors
        )

    def note(self, place, schema, value):
        """Which described members the value has. A place is a schema's name, and members below."""
        for at, one in self.parts(place, schema):
            if "properties" in one and not self.describes(one, value):
                continue  # another of several
            if isinstance(value, dict):
                for name in set(one.get("properties", {})) & set(value):
                    self.written.add((at, name))
                    self.note(f"{at}.{name}", one["properties"][name], value[name])
            if isinstance(value, list) and isinstance(one.get("items"), dict):
                for item in value:
                    self.note(at, one["items"], item)

    def parts(self, place, schema):
        """The schema and those that it is made of or stands for, with their places."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield from self.parts(name, self.document["components"]["schemas"][name])
            return
        yield place, schema
        for kind in ("allOf", "anyOf", "oneOf"):
            for one in schema.get(kind, []):
                yield from self.parts(place, one)

    @staticmethod
    def describes(schema, value):
        return isinstance(value, dict) and set(schema.get("required", [])) <= set(value)

    def not_written(self):
        """The described members that no answer had, as "place member"; "place": no such object."""
        places = {place for place, _ in self.written}
        return {f"{place} {name}" if place in places else place
                for place, name in self.members() - self.written}

    def members(self):
        """Every (place, member) that an answer may have."""
        found, known = set(), set()

        def look(place, schema):
            for at, one in self.parts(place, schema):
                if (at, id(one)) in known:
                    continue
                known.add((at, id(one)))
                for name, of in one.get("properties", {}).items():
                    found.add((at, name))
                    look(f"{at}.{name}", of)
                if isinstance(one.get("items"), dict):
                    look(at, one["items"])

        for _, _, operation in self.operations():
            for status in operation["responses"]:
                for content in self.response(operation, status).get("content", {}).values():
                    for kind in ("schema", "x-item-schema"):
                        look("", content.get(kind, {}))
        return found

    def watch(self, target, count):
        """The data of the first messages of a stream, each as the document says."""
        template, operation = self.find("GET", target)
        connection = http.client.HTTPConnection(
            "localhost", self.guarded.ports["admin"], timeout=WAIT_MAX
        )
        try:
            connection.request("GET", target, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            self.seen.add(("GET", template, 200))
            content = operation["responses"]["200"]["content"][answer.getheader("Content-Type")]
            told = []
            while len(told) < count:
                line = answer.readline().decode()
                if line.startswith("data: "):
                    told.append(json.loads(line[len("data: "):]))
                    self.check(content["x-item-schema"], told[-1])
            return told
        finally:
            connection.close()
