#!/usr/bin/env python3
"""Writes the table of values in helm/recourse/README.md from the comments of values.yaml.

usage: chart_readme.py [--check]   (--check writes nothing, and ends with 1 if the table is old)
"""

import json
import pathlib
import re
import sys

import yaml

CHART = pathlib.Path(__file__).resolve().parents[2] / "helm/recourse"
BEGIN, END = "<!-- values: tests/helm/chart_readme.py writes them -->\n", "<!-- end -->\n"


def comments(text):
    """{path of a value: its comment}, for each key below `# -- ...` and what follows it."""
    found, said, above = {}, [], []
    for line in text.splitlines():
        comment = re.match(r" *# (-- )?(.*)", line)
        if comment:
            said = [*([] if comment[1] else said), comment[2]]
            continue
        key = re.match(r"( *)([A-Za-z]+):", line)
        if key:
            above = [*above[: len(key[1]) // 2], key[2]]
            if said:
                found[".".join(above)] = " ".join(said)
        said = []
    return found


def leaves(values, path=""):
    """(path, default) of every value; a map that is a value itself ends with its comment."""
    for key, value in values.items():
        here = f"{path}.{key}" if path else key
        yield here, value
        if isinstance(value, dict):
            yield from leaves(value, here)


def rows():
    """(path, default, comment) of every documented value; fails at one without a comment."""
    text = (CHART / "values.yaml").read_text()
    said = comments(text)
    found, whole = [], ()
    for path, value in leaves(yaml.safe_load(text)):
        if whole and path.startswith(whole):
            continue
        if path in said:
            found.append((path, value, said[path]))
            whole = (path + ".",)
        elif not isinstance(value, dict):
            raise SystemExit(f"values.yaml: {path} has no comment: write `# -- what it does`")
    return found


def table():
    lines = ["| value | default | meaning |", "|---|---|---|"]
    for path, value, comment in rows():
        default = json.dumps(value, separators=(", ", ": "))
        lines.append(f"| `{path}` | `{default}` | {comment} |")
    return "\n".join(lines) + "\n"


def renewed(text):
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + table() + END + tail


def main():
    path = CHART / "README.md"
    old = path.read_text()
    new = renewed(old)
    if sys.argv[1:] == ["--check"]:
        sys.exit(old != new)
    path.write_text(new)


if __name__ == "__main__":
    main()
