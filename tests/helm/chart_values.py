"""The values of the chart and their comments: values.yaml is the page that explains them."""

import pathlib
import re

import yaml

CHART = pathlib.Path(__file__).resolve().parents[2] / "helm/recourse"


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
    """(path, default) of every value, maps included."""
    for key, value in values.items():
        here = f"{path}.{key}" if path else key
        yield here, value
        if isinstance(value, dict):
            yield from leaves(value, here)


def explained():
    """Paths of the values that have a comment; fails at one without. A map that has one is a value
    as a whole."""
    text = (CHART / "values.yaml").read_text()
    said = comments(text)
    found, whole = [], ()
    for path, value in leaves(yaml.safe_load(text)):
        if whole and path.startswith(whole):
            continue
        if path in said:
            found.append(path)
            whole = (path + ".",)
        elif not isinstance(value, dict):
            raise SystemExit(f"values.yaml: {path} has no comment: write `# -- what it does`")
    return found
