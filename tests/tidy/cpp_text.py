"""Just enough C++ reading for the rules: code without comments and strings, and function sizes."""

import bisect
import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def blank_comments_and_strings(text):
    """Replaces comments and literals by spaces of the same shape, so that positions stay."""

    def blank(match):
        token = match.group()
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return '"' + re.sub(r"[^\n]", " ", token[1:-1]) + '"'

    return _TOKEN.sub(blank, text)


_TEXT = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=mark)"|"(?P<plain>.*)"', re.DOTALL)


def literals(text):
    """Yields (line, text) of each string literal; those that follow each other are one."""
    begin, end, parts = 0, 0, []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token.startswith(("/", "'")):
            continue
        if parts and text[end:match.start()].strip():
            yield text.count("\n", 0, begin) + 1, "".join(parts)
            parts = []
        if not parts:
            begin = match.start()
        found, end = _TEXT.fullmatch(token), match.end()
        plain = found["plain"]
        parts.append(found["raw"] if plain is None else plain.replace('\\"', '"'))
    if parts:
        yield text.count("\n", 0, begin) + 1, "".join(parts)


_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
_CONTROL = re.compile(r"^(if|for|while|switch|catch|else|do|try|return)\b")
_FUNCTION_TAIL = re.compile(
    r"(\)|\}|\bconst|\bnoexcept|\boverride|\bfinal|\bmutable|&|->[\w\s:<>,*&()]+)$")


def _kind_of_brace(before):
    """Says what a brace opens from the text between it and the statement before it."""
    text = " ".join(line for line in before.split("\n") if not line.lstrip().startswith("#"))
    text = re.sub(r"\b(public|private|protected)\s*:(?!:)", " ", text)
    text = re.sub(r"\s+", " ", text).strip()
    if _CONTROL.match(text):
        return "block"
    if ")" in text and _FUNCTION_TAIL.search(text) and not text.endswith("="):
        return "function"
    if _SCOPE.search(text):
        return "scope"
    return "value"


def _bodies(text):
    """Yields (declaration, first line, number of lines, scopes around it) of each outermost
    function body. `scopes` are what stands before the braces of namespaces and classes."""
    line_starts = [0] + [match.end() for match in re.finditer("\n", text)]
    stack, begin, inside = [], 0, 0
    for match in re.finditer(r"[{};]", text):
        position, mark = match.start(), match.group()
        if mark == "{":
            kind = "block" if inside else _kind_of_brace(text[begin:position])
            stack.append((kind, position, begin))
            inside += kind == "function"
            begin = begin if kind == "value" else position + 1
        elif mark == "}" and stack:
            kind, opened, before = stack.pop()
            if kind == "function":
                inside -= 1
                first = bisect.bisect_right(line_starts, opened)
                length = bisect.bisect_right(line_starts, position) - first + 1
                scopes = [text[start:end] for what, end, start in stack if what == "scope"]
                yield text[before:opened], first, length, scopes
            # After a braced initialiser the declaration goes on: Foo() : a_{1}, b_{2} {
            begin = before if kind == "value" else position + 1
        elif mark == ";" and not (stack and stack[-1][0] == "value"):
            begin = position + 1


def functions(text):
    """Yields (first line, number of lines) of each outermost function body.

    `text` is blanked. Lambdas count for the function around them. A heuristic that counts braces:
    it may overlook an exotic signature, and it does not report what is no function.
    """
    for _, first, length, _ in _bodies(text):
        yield first, length


_CLASS = re.compile(r"\b(?:class|struct|union)\b(?: alignas\([^)]*\))?(?: \[\[\w+\]\])? "
                    r"(?P<name>\w+)(?: final)?(?: ?:(?!:).*)?$")
_METHOD = re.compile(r"(?P<of>(?:\w+::)+)(?:~?\w+|operator[^\w\s]+|operator [\w:<> ]+)$")


def methods(text):
    """Yields (class, first line, number of lines, whether its class is in an unnamed namespace) of
    each body of a method, in its class or out of it. A nested class is named with those around it,
    without namespaces. `text` is blanked."""
    hidden = set()
    for declaration, first, length, scopes in _bodies(text):
        scopes = [re.sub(r"\s+", " ", scope.rsplit("\n\n", 1)[-1]).strip() for scope in scopes]
        around = [found["name"] for found in map(_CLASS.search, scopes) if found]
        is_hidden = any(scope.endswith("namespace") for scope in scopes)
        name = "::".join(around)
        if not around:
            head = re.sub(r"\s+", " ", declaration).split("(", 1)[0].rstrip()
            found = _METHOD.search(head)
            if not found:
                continue
            name = found["of"].removesuffix("::")
        if is_hidden:
            hidden.add(name)
        yield name, first, length, name in hidden


_NAMESPACE = re.compile(r"^(?:inline )?namespace\b(?P<name>[ \w:]*)$")
_TYPE = re.compile(
    r"(?:template <.*> ?)?(?:class|struct|union|enum(?: class| struct)?)\b(?: alignas\([^)]*\))?"
    r"(?: \[\[\w+\]\])? (?P<name>\w+)(?: final)?(?: ?:(?!:).*)?$")


def types(text):
    """Yields (line, qualified name) of each type that is defined in a named namespace, or in none,
    and in no other type or function. `text` is blanked. Specialisations are no types of their own.
    """
    spaces, begin = [], 0  # None: no namespace
    for match in re.finditer(r"[{};]", text):
        position, mark = match.start(), match.group()
        lines = [line for line in text[begin:position].split("\n")
                 if not line.lstrip().startswith("#")]
        before = re.sub(r"\s+", " ", " ".join(lines)).strip()
        begin = position + 1
        if mark == "}" and spaces:
            spaces.pop()
        if mark != "{":
            continue
        space = _NAMESPACE.match(before)
        if all(spaces) and (named := _TYPE.match(before)):
            line = text.count("\n", 0, position) + 1
            yield line, "::".join([*spaces, named["name"]])
        spaces.append(space["name"].strip() if space else None)
