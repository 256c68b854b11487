"""What the doubles of GraphQL APIs have in common: one document of one field, read far enough to
run it."""

import copy
import json
import re

from doubles.base import Double, Refused

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\.\.\.|-?\d+(?:\.\d+)?|\w+|[{}()\[\]:$@!=|]')


class Document:
    """The field of an operation: its name, arguments, directives, and what it selects."""

    def __init__(self, text, variables):
        self.tokens, self.at, self.variables = TOKEN.findall(text), 0, variables
        self.operation = self.next() if self.peek() != "{" else "query"
        while self.peek() != "{":
            self.skip_variables() if self.peek() == "(" else self.next()
        ((self.name, self.arguments, self.directives, self.selected),) = self.fields()

    def peek(self):
        return self.tokens[self.at]

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def skip_variables(self):
        depth = 0
        while True:
            depth += {"(": 1, ")": -1}.get(self.next(), 0)
            if depth == 0:
                return

    def fields(self):
        found = []
        self.next()
        while self.peek() != "}":
            name, arguments, directives, selected = self.next(), {}, {}, []
            if self.peek() == "(":
                arguments = self.pairs(")")
            while self.peek() == "@":
                self.next()
                directive = self.next()
                directives[directive] = self.pairs(")") if self.peek() == "(" else {}
            if self.peek() == "{":
                selected = self.fields()
            found.append((name, arguments, directives, selected))
        self.next()
        return found

    def pairs(self, end):
        found = {}
        self.next()
        while self.peek() != end:
            name = self.next()
            self.next()
            found[name] = self.value()
        self.next()
        return {name: value for name, value in found.items() if value is not ...}

    def value(self):
        if self.peek() == "{":
            return self.pairs("}")
        token = self.next()
        if token == "[":
            items = []
            while self.peek() != "]":
                items.append(self.value())
            self.next()
            return items
        if token == "$":
            return copy.deepcopy(self.variables.get(self.next(), ...))
        literals = {"true": True, "false": False, "null": None}
        if token in literals:
            return literals[token]
        return json.loads(token) if re.match(r'["\d-]', token) else token


def project(value, selected):
    if isinstance(value, list):
        return [project(one, selected) for one in value]
    if not selected or value is None:
        return value
    return {name: project(value[name], below) for name, _, _, below in selected}


def mutation(field, arguments, selected):
    """The body that agents send: all arguments in variables of their names, but that `$id` is a
    word of cases."""
    names = {name: "which" if name == "id" else name for name in arguments}
    declared = ", ".join(f"${names[name]}: Type!" for name in names)
    given = ", ".join(f"{name}: ${names[name]}" for name in names)
    query = f"mutation({declared}) {{ {field}({given}) {{ {selected} }} }}"
    return {"query": query, "variables": {names[one]: arguments[one] for one in arguments}}


class GraphqlDouble(Double):
    def read(self, call):
        asked = call.json()
        return Document(asked["query"], asked.get("variables") or {})

    def is_read(self, call):
        return self.read(call).operation == "query"

    def run(self, call):
        document = self.read(call)
        value = self.resolve(document)
        return 200, {"data": {document.name: project(value, document.selected)}}, {}

    def resolve(self, document):
        """The value of the field of a query or a mutation; raises Refused."""
        raise NotImplementedError

    def no(self, message, code, status=200):
        error = {"message": message, "extensions": {"code": code}}
        return Refused(status, {"data": None, "errors": [error]})
