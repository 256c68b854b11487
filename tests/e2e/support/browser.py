"""Handle for a real Chromium (clients/browser.mjs). Every call waits until it is done, bounded."""

import json
import subprocess

from support.npm import CLIENTS, node
from support.recourse import WAIT_MAX, environment



class BrowserError(AssertionError):
    """What was asked for did not come, or cannot be done."""


class Browser:
    """One Chromium, one page at a time: `open` begins with a fresh profile."""

    def __init__(self):
        self.process = subprocess.Popen(
            [node(), str(CLIENTS / "browser.mjs")],
            cwd=CLIENTS,
            env={**environment(), "RECOURSE_E2E_WAIT_MAX": str(WAIT_MAX)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def stop(self):
        self.process.stdin.close()
        self.process.wait(WAIT_MAX)
        self.process.stdout.close()

    def ask(self, op, **values):
        self.process.stdin.write(json.dumps({"op": op, **values}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise BrowserError("the browser has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(f"{op} {values}: {answer['error']}")
        return answer["value"]

    def open(self, url, **how):
        """`how`: width, height, dark, scale."""
        self.ask("open", url=url, **how)

    def click(self, selector):
        self.ask("click", selector=selector)

    def fill(self, selector, text):
        self.ask("fill", selector=selector, text=text)

    def press(self, *keys):
        for key in keys:
            self.ask("press", keys=key)

    def text(self, selector):
        """What a reader sees of the first such element."""
        return self.ask("text", selector=selector)

    def count(self, selector):
        return self.ask("count", selector=selector)

    def wait(self, selector, state="visible"):
        self.ask("wait", selector=selector, state=state)

    def until(self, script):
        """Waits until the expression holds in the page."""
        self.ask("until", script=script)

    def eval(self, script):
        return self.ask("eval", script=script)

    def axe(self):
        """What axe finds fault with in the page as it is now."""
        return self.ask("axe")

    def screenshot(self, path, full=False):
        self.ask("screenshot", path=str(path), full=full)

    def seen(self):
        """What happened since `open`: errors, foreign, dialogs, violations."""
        return self.ask("seen")

