"""Links between the pages of the tree: to files that exist, and to headings or anchors in them."""

import os
import re

LINK = re.compile(r"\]\(([^)\s]+)\)")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


def broken(root, path, text):
    """(line, target) of each link of the page that leads nowhere. Other sites are not asked."""
    for number, line in enumerate(without_code(text).split("\n"), 1):
        for target in LINK.findall(line):
            if not re.match(r"[a-z]+:", target) and not leads_somewhere(root, path, target):
                yield number, target


def leads_somewhere(root, path, target):
    name, _, heading = target.partition("#")
    file = os.path.join(root, os.path.dirname(path), name) if name else os.path.join(root, path)
    if not os.path.exists(file):
        return False
    if not heading:
        return True
    with open(file, encoding="utf-8") as page:
        text = without_code(page.read())
    headings = {anchor(line) for line in text.split("\n") if line.startswith("#")}
    return heading in headings.union(ANCHOR.findall(text))


def anchor(heading):
    """The name that a heading gets from whoever renders the page."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def without_code(text):
    """The same lines, those of code blocks empty."""
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block.group().count("\n"), text,
                  flags=re.DOTALL | re.MULTILINE)
