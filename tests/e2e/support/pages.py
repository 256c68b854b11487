"""Commands and examples of the users' pages, as a reader meets them."""

import os
import pathlib
import re
import subprocess

from support.recourse import BINARY, ROOT, WAIT_MAX, environment

MARK = "--- the next command ---"
WIDTH = 118


def blocks(page, language=""):
    """The texts of a page's code blocks in that language, in their order."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [body for _, word, body in found if word == language]


def transcript(block):
    """(command, what the page shows of its output) of each `$ ` of a console."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    commands = []
    for part in parts:
        command, line, rest = "", "", part
        while not command or line.endswith("\\"):
            line, _, rest = rest.partition("\n")
            command += line + "\n"
        commands.append((command, rest))
    return commands


def shell(directory, commands, env=None, is_terminal=False):
    """Runs the commands in one bash with `recourse` on its path, at a terminal as wide as a page if
    so wished; the output of each."""
    tools = pathlib.Path(directory) / "path"
    tools.mkdir(exist_ok=True)
    if not (tools / "recourse").exists():
        (tools / "recourse").symlink_to(BINARY)
    script = "trap 'kill $(jobs -p) 2>/dev/null' EXIT\n" + "".join(
        f"echo '{MARK}'\n{command}\n" for command in commands
    )
    path = f"{tools}:{os.environ['PATH']}"
    command = ["bash", "-c", script]
    if is_terminal:
        (pathlib.Path(directory) / "script").write_text(f"stty cols {WIDTH} -onlcr\n{script}")
        command = ["script", "-qec", "bash script", "/dev/null"]
        env = {**(env or {}), "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=directory, env=environment({"PATH": path, **(env or {})}),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=2 * WAIT_MAX, check=False,
    )  # fmt: skip
    return done.stdout.split(MARK + "\n")[1:]


# What stands for what may differ: the page's word, and what it matches.
LOOSE = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+[Z…]", r"\d{4}-\d\d-\d\dT[\d:.]+[Z…]"),
    (r"\.\.\.|…", "(?s:.*?)"),
    (r"\b[0-9a-f]{12,}\b", "[0-9a-f]{12,}"),
    (r"\b[a-z]\d{6}\b", r"[a-z]\d{6,}"),
    (r"\b\d+\b", r"\d+"),
    (r"\s+", r"\s+"),
]


def _pattern(text):
    words = re.split("(" + "|".join(word for word, _ in LOOSE) + ")", text.strip())
    pattern = ""
    for number, word in enumerate(words):
        is_loose = number % 2
        pattern += next(to for of, to in LOOSE if re.fullmatch(of, word)) if is_loose else (
            re.escape(word)
        )  # fmt: skip
    return pattern


def shows(expected, output, is_shortened=False):
    """Whether the output is what the page shows. Numbers, times, digests and blanks may differ,
    `...` is anything; between lines that the page has shortened others may stand."""
    lines = [line for line in expected.splitlines() if line.strip()]
    between = r"\s.*?" if is_shortened else r"\s*"
    pattern = between.join(_pattern(line) for line in lines)
    return re.fullmatch(pattern + (".*" if is_shortened else ""), output.strip(), re.DOTALL)
