#!/usr/bin/env python3
"""Checks the tree against tests/tidy/rules.py; prints one line per violation.

usage: tidy.py [ROOT]
"""

import ast
import os
import re
import sys

sys.dont_write_bytecode = True

import cpp_text  # noqa: E402
import links  # noqa: E402
import rules  # noqa: E402

CPP = (".h", ".cpp")
CODE = CPP + (".py", ".sh", ".cmake", ".js", ".mjs", ".ts", "CMakeLists.txt")
TEXT = CODE + (".txt", ".md", ".json", ".yaml", ".yml", ".cfg", ".conf", ".tpl", ".html", ".css",
               ".go", ".java")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](?P<header>[^>"]+)[>"]', re.MULTILINE)
SIZED = CPP + (".py", ".sh", ".js", ".mjs", ".ts")


class Tidy:
    """Collects the violations of one tree."""

    def __init__(self, root):
        self.root = root
        self.violations = []
        self.types = {}  # qualified name: where it is defined
        self.rooms = {}  # folder: the rooms that it may include
        self.public = {}  # folder: its headers that other rooms may include, None for all
        self.room_lines = {}  # folder: its line in the list
        self.crossed = set()  # (folder, header of another room that it includes)
        self.sizes = {}  # folder: how many sources stand in it
        self.classes = {}  # (file if only that sees it, class): (lines, bodies, where the last is)
        self.words = {}  # page: how many words it has
        self.admin_paths = []  # (path, what of it stands before its place)

    def report(self, path, line, message):
        self.violations.append(f"{path}:{line}: {message}")

    def run(self):
        self.check_top_level()
        self.check_links()
        cmake = self.read_cmake()
        self.read_rooms()
        self.read_admin_paths()
        pages = {path for path in self.files() if path.endswith(".md")}
        for path in self.files():
            if not is_text(path):
                continue
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                text = file.read()
            self.check_text(path, text)
            self.check_pages(path, text, pages)
            if path.endswith(CPP):
                self.check_cpp(path, text, cmake)
            elif path.endswith(".js"):
                self.check_page_paths(path, text)
            elif path.endswith(".py"):
                self.check_python(path, text)
            elif path.endswith(".md"):
                self.words[path] = sum(any(map(str.isalpha, word)) for word in text.split())
                for line, target in links.broken(self.root, path, text):
                    self.report(path, line, f"the link to {target} leads nowhere: name a file of "
                                "the tree, and a heading that stands in it")
        self.check_class_sizes()
        self.check_words()
        self.check_list_of_rooms()
        return sorted(self.violations)

    def files(self):
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(set(folders) - rules.SKIPPED_FOLDERS)
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    yield os.path.relpath(path, self.root)

    def check_links(self):
        """Symbolic links lead to places of one machine."""
        for folder, folders, names in os.walk(self.root):
            for name in sorted([*folders, *names]):
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    self.report(os.path.relpath(path, self.root), 1, "a symbolic link may lead out "
                                "of the tree: put the file or folder itself here")
            folders[:] = sorted(set(folders) - rules.SKIPPED_FOLDERS)

    def read_cmake(self):
        """All CMakeLists.txt joined: the place that names the folders whose sources are built."""
        texts = []
        for path in self.files():
            if os.path.basename(path) == "CMakeLists.txt":
                with open(os.path.join(self.root, path), encoding="utf-8") as file:
                    texts.append(file.read())
        return "\n".join(texts)

    def read_rooms(self):
        """The list of rooms; a room may include those of lower levels only, so there is no ring."""
        path = os.path.join(self.root, rules.ROOMS)
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            rows = [(number, line.rstrip("\n").split("\t")) for number, line in enumerate(file, 1)
                    if not line.startswith("#")]
        levels = {fields[2]: int(fields[0]) for _, fields in rows}
        for number, (level, _, room, public, uses) in rows:
            self.room_lines[room] = number
            self.rooms[room] = set(uses.split())
            self.public[room] = None if public == "*" else set(public.split()) - {"-"}
            for used in uses.split():
                if levels.get(used, int(level)) >= int(level):
                    self.report(rules.ROOMS, number, f"{room} may not include {used}, which is no "
                                "room of a lower level")
            if not os.path.isdir(os.path.join(self.root, room)):
                self.report(rules.ROOMS, number, f"{room} is no folder: take its line away")

    def read_admin_paths(self):
        path = os.path.join(self.root, rules.ADMIN_PATHS)
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            found = [literal for _, literal in cpp_text.literals(file.read()) if literal[:1] == "/"]
        self.admin_paths = [(whole, whole.partition("{")[0]) for whole in found]

    def check_top_level(self):
        for name in sorted(os.listdir(self.root)):
            if name.startswith(".") or name in rules.SKIPPED_FOLDERS:
                continue
            is_folder = os.path.isdir(os.path.join(self.root, name))
            known = rules.TOP_LEVEL_FOLDERS if is_folder else rules.TOP_LEVEL_FILES
            if name not in known:
                self.report(name, 1, "the top level is fixed: move this into one of "
                            + ", ".join(sorted(rules.TOP_LEVEL_FOLDERS)))

    def check_text(self, path, text):
        lines = text.split("\n")
        banned = [rule for rule in rules.BANNED_TEXT  # a text that holds none of it is read once
                  if not re.match(rule[1], path) and re.search(rule[0], text, re.MULTILINE)]
        for number, line in enumerate(lines, 1):
            if path.endswith(CODE) and len(line) > rules.LINE_COLUMNS_MAX:
                self.report(path, number, f"line of {len(line)} columns, at most "
                            f"{rules.LINE_COLUMNS_MAX}")
            for pattern, _, instead in banned:
                if found := re.search(pattern, line):
                    self.report(path, number, f"'{found.group()}' may not stand here: {instead}")
        count = len(lines) - 1
        if (path.endswith(SIZED) or path == "dev") and count > rules.FILE_LINES_MAX:
            self.report(path, 1, f"file of {count} lines, at most {rules.FILE_LINES_MAX}: split it")

        if path == "README.md" and count > rules.README_LINES_MAX:
            self.report(path, 1, f"{count} lines, at most {rules.README_LINES_MAX}: move what is "
                        "not for a first look to another page")
        if path.endswith(".md"):
            for number, line in enumerate(links.without_code(text).split("\n"), 1):
                if len(line) > rules.PAGE_COLUMNS_MAX and not line.startswith("|"):
                    self.report(path, number, f"line of {len(line)} columns, at most "
                                f"{rules.PAGE_COLUMNS_MAX}")

    def check_words(self):
        for whose, which, most in rules.PAGE_WORDS:
            pages = {path: words for path, words in self.words.items() if re.fullmatch(which, path)}
            words = sum(pages.values())
            if words > most:
                self.report(max(pages, key=pages.get), 1, f"{whose} have {words:,} words, at most "
                            f"{most:,}: say it shorter, or only once")

    def check_pages(self, path, text, pages):
        if re.match(rules.UNKNOWN_PAGES, path):
            return
        for line, name in links.unknown_pages(pages, path, text):
            self.report(path, line, f"{name} is no page of the tree: name one that is, or state "
                        "the rule itself")

    def check_cpp(self, path, text, cmake):
        code = cpp_text.blank_comments_and_strings(text)
        self.check_includes(path, text, code)
        self.check_banned_code(path, code)
        self.check_json(path, text)
        self.check_admin_paths(path, text)
        self.check_types(path, code)
        self.check_built(path, cmake)
        self.check_room_size(path)
        if path.endswith(".h") and not re.search(r"^#pragma once$", code, re.MULTILINE):
            self.report(path, 1, "header without #pragma once")
        for first, length in cpp_text.functions(code):
            self.check_function_length(path, first, length)
        self.count_methods(path, code)

    def count_methods(self, path, code):
        if not path.startswith(rules.PRODUCT):
            return
        for name, first, length, is_hidden in cpp_text.methods(code):
            key = (path if is_hidden else "", name)
            lines, bodies, _ = self.classes.get(key, (0, 0, None))
            self.classes[key] = (lines + length, bodies + 1, (path, first))

    def check_class_sizes(self):
        for (_, name), (lines, bodies, (path, line)) in self.classes.items():
            if lines > rules.CLASS_LINES_MAX or bodies > rules.CLASS_METHODS_MAX:
                self.report(path, line, f"class {name} has {lines} lines of bodies in {bodies} "
                            f"methods over all its files, at most {rules.CLASS_LINES_MAX} in "
                            f"{rules.CLASS_METHODS_MAX}: make two classes of it")

    def check_function_length(self, path, first, length):
        if length > rules.FUNCTION_LINES_MAX:
            self.report(path, first, f"function of {length} lines, at most "
                        f"{rules.FUNCTION_LINES_MAX}: give a part of it a name")

    def check_includes(self, path, text, code):
        for match in INCLUDE.finditer(text):
            if code[match.start():match.end()].strip() == "":
                continue  # inside a comment
            number = text.count("\n", 0, match.start()) + 1
            header = match.group("header")
            for pattern, homes, instead in rules.HEADER_HOMES:
                if re.match(pattern, header) and not re.match(homes, path):
                    self.report(path, number, f"{header} may not be included here: {instead}")
            self.check_room(path, number, header)

    def check_room(self, path, number, header):
        mine, theirs = folder_of(path), folder_of(header)
        if not (path.startswith(rules.PRODUCT) and header.startswith(rules.PRODUCT)):
            return
        if theirs != mine and theirs not in self.rooms.get(mine, ()):
            self.report(path, number, f"{header}: {mine} may not include {theirs}: go through a "
                        f"room of {rules.ROOMS}, or say there that it may")
        elif theirs != mine:
            self.crossed.add((mine, header))
            public = self.public[theirs]
            if public is not None and os.path.basename(header).removesuffix(".h") not in public:
                self.report(path, number, f"{header} is {theirs}'s own: go through one of its "
                            f"public headers, or name this one in {rules.ROOMS}")

    def check_list_of_rooms(self):
        """What the list of rooms allows and nobody uses is a hole in a wall."""
        pairs = {(mine, folder_of(header)) for mine, header in self.crossed}
        included = {header for _, header in self.crossed}
        for room, number in self.room_lines.items():
            for used in sorted(self.rooms[room]):
                if (room, used) not in pairs:
                    self.report(rules.ROOMS, number, f"{room} includes nothing of {used}: "
                                "take that away")
            for name in sorted(self.public[room] or ()):
                if f"{room}/{name}.h" not in included:
                    self.report(rules.ROOMS, number, f"no other room includes {name}.h of {room}: "
                                "take that away")

    def check_room_size(self, path):
        folder = folder_of(path)
        self.sizes[folder] = self.sizes.get(folder, 0) + 1
        if path.startswith(rules.PRODUCT) and self.sizes[folder] == rules.ROOM_FILES_MAX + 1:
            self.report(path, 1, f"{folder} has more than {rules.ROOM_FILES_MAX} sources: make two "
                        "rooms of it")

    def check_types(self, path, code):
        """Two types of one name: the linker keeps one reading of what both have."""
        if not path.endswith(".h") and not path.startswith(rules.PRODUCT):
            return  # of a test that is a program of its own
        for line, name in cpp_text.types(code):
            first = self.types.setdefault(name, f"{path}:{line}")
            if first != f"{path}:{line}":
                self.report(path, line, f"{name} is another type in {first}: give one of them "
                            "another name, or an unnamed namespace in its .cpp")

    def check_banned_code(self, path, code):
        for pattern, homes, instead in rules.BANNED_CODE:
            if re.match(homes, path):
                continue
            for match in re.finditer(pattern, code):
                number = code.count("\n", 0, match.start()) + 1
                found = match.group().strip()
                self.report(path, number, f"'{found}' may not stand here: {instead}")

    def check_json(self, path, text):
        if not path.startswith(rules.PRODUCT) or re.match(rules.JSON_HOME, path):
            return
        for line, literal in cpp_text.literals(text):
            is_whole = (literal.count("{") == literal.count("}") > 0 and "{{" not in literal
                        and not literal.startswith(","))
            if rules.JSON_NAME.search(literal) and not is_whole:
                self.report(path, line, "a piece of JSON may not stand here: write it with "
                            "JsonObject (proxy/base/json/json_object.h)")

    def check_admin_paths(self, path, text):
        if (not path.startswith(rules.PRODUCT) or path == rules.ADMIN_PATHS
                or re.match(rules.NO_ADMIN_PATHS, path)):
            return
        for line, literal in cpp_text.literals(text):
            target = re.match(r"(?:[A-Z]+ )?(/[^\s?]+)", literal)
            if target and any(target[1] == whole or (begin != whole and target[1].startswith(begin))
                              for whole, begin in self.admin_paths):
                self.report(path, line, f"'{target[1]}' may not stand here: name the path of "
                            f"{rules.ADMIN_PATHS}")

    def check_page_paths(self, path, text):
        if not path.startswith(rules.ADMIN_PAGES):
            return
        for match in re.finditer(r"""["'`](/[a-z](?:\$\{[^}]*\}|[\w/.-])*)""", text):
            # What is no segment of its own is a query.
            wanted = re.sub(r"(?<!/)\$\{.*", "", match[1], flags=re.DOTALL)
            if not wanted.startswith("/ui/") and not any(
                    is_of(wanted, whole) for whole, _ in self.admin_paths):
                self.report(path, text.count("\n", 0, match.start()) + 1,
                            f"'{wanted}' is no path of {rules.ADMIN_PATHS}")

    def check_built(self, path, cmake):
        folder = folder_of(path)
        if not path.endswith(".cpp"):
            return
        if path.startswith(rules.PRODUCT):
            if folder not in self.rooms:
                self.report(path, 1, f"{folder} is no room: give it a line in {rules.ROOMS}")
            return
        named = [path, folder]
        if folder.startswith("tests/"):
            named.append(folder[len("tests/"):])
        elif folder == "bench" or folder.startswith("bench/"):
            named.append(os.path.basename(path))
            if path.endswith("_bench.cpp"):
                named.append("*_bench.cpp")
        if not any(re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", cmake) for name in named):
            self.report(path, 1, "no CMakeLists.txt builds this file: name its folder there")

    def check_python(self, path, text):
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            self.report(path, error.lineno or 1, f"not Python: {error.msg}")
            return
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.check_function_length(path, node.lineno, node.end_lineno - node.lineno + 1)
            for name in names_of(node):
                self.check_banned_name(path, node.lineno, name)
            if path == rules.MUTANTS and isinstance(node, ast.Call) and len(node.args) == 5:
                self.check_mutant(path, node)

    def check_mutant(self, path, node):
        _, _, file, old, _ = (ast.literal_eval(argument) for argument in node.args)
        full = os.path.join(self.root, file)
        source = ""
        if os.path.exists(full):
            with open(full, encoding="utf-8") as text:
                source = text.read()
        if source.count(old) != 1:
            self.report(path, node.lineno, f"{file} has the text that this mutant replaces "
                        f"{source.count(old)} times: the mutant must follow the source")

    def check_banned_name(self, path, line, name):
        for pattern, homes, instead in rules.BANNED_PYTHON:
            if re.fullmatch(pattern, name) and not re.match(homes, path):
                self.report(path, line, f"'{name}' may not stand here: {instead}")


def names_of(node):
    """The dotted names that a node of Python code stands for: `a.b`, or `from a import b`."""
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    whole = parts and isinstance(node, ast.Name)
    return [".".join([node.id, *reversed(parts)])] if whole else []


def is_of(path, pattern):
    """Whether the segments are the same, but for places: `${id}` of a page, `{id}` of the list."""
    pairs = list(zip(path.split("/"), pattern.split("/"), strict=False))
    return path.count("/") == pattern.count("/") and all(
        one == other or "{" in one or "{" in other for one, other in pairs)


def folder_of(path):
    return os.path.dirname(path)


def is_text(path):
    name = os.path.basename(path)
    return (path.endswith(TEXT) or path in ("dev", ".ci/run") or name.startswith(".clang")) and (
        name != "package-lock.json")


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(here))
    violations = Tidy(root).run()
    for violation in violations:
        print(violation)
    if violations:
        print(f"tidy: {len(violations)} violations; the rules stand in tests/tidy/rules.py")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
