"""Pages of the tree: links between them lead to files that exist, and to headings or anchors that
stand in them; any file names only pages that exist."""

import os
import re

LINK = re.compile(r"\]\(([^)\s]+)\)")
URL = re.compile(r"[a-z][a-z+.-]*://\S*")
# The name of a page. One that a variable or a pattern makes is none: $NAME.md, {folder}/a.md, *.md.
PAGE = re.compile(r"(?<![\w./$*%{}<>-])[\w./-]*[\w-]\.md(?![\w(-]|\.\w)")
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


def unknown_pages(pages, path, text):
    """(line, name) of each page that a file names and that is none of `pages`. A name alone is one
    of any folder; a path leads from the top or the file's folder. Links have a rule of their own.
    """
    for number, line in enumerate(text.split("\n"), 1):
        for name in PAGE.findall(LINK.sub(" ", URL.sub(" ", line))):
            places = {os.path.normpath(name), os.path.normpath(
                os.path.join(os.path.dirname(path), name))}
            if "/" not in name:
                places |= {page for page in pages if os.path.basename(page) == name}
            if not places & pages:
                yield number, name


def anchor(heading):
    """The name that a heading gets from whoever renders the page."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def without_code(text):
    """The same lines, those of code blocks empty."""
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block.group().count("\n"), text,
                  flags=re.DOTALL | re.MULTILINE)
