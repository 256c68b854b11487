"""An operator at the browser, and the flows that he looks at."""

import http.client
import json

from support import flows
from support.approvals import token_of
from support.recourse import WAIT_MAX

LIST = '[role="grid"][data-loaded]'
LOADED = ".page-body[data-loaded]"


class Desk:
    """An operator at the browser, logged in."""

    def __init__(self, browser, recourse, token=None):
        self.browser = browser
        self.token = token or recourse.token
        self.url = f"http://127.0.0.1:{recourse.ports['admin']}/"

    def log_in(self, place="#/activity", **how):
        self.browser.open(self.url + place, **how)
        self.browser.fill("#token", self.token)
        self.browser.press("Enter")
        self.browser.wait("nav a[aria-current]")
        return self

    def go(self, place, ready=LOADED):
        self.browser.eval(f"location.hash = {json.dumps(place)}")
        self.browser.wait(ready, "attached")

    def is_clean(self):
        """Nothing went wrong, nothing was stopped by the policy, nothing left the origin."""
        seen = self.browser.seen()
        assert seen == {"errors": [], "foreign": [], "dialogs": [], "violations": []}


class Approver(Desk):
    """A person who may decide what waits."""

    def __init__(self, browser, recourse, name="ann"):
        super().__init__(browser, recourse, token_of(name))

    def look_at(self, operation):
        """The whole request and the buttons, as a person opens them."""
        self.log_in(f"#/approval/{operation}")
        self.browser.wait(".decide")
        return self

    def click(self, text):
        self.browser.click(f'.decide button:has-text("{text}")')

    def confirm(self, reason=None):
        if reason is not None:
            self.browser.fill("dialog textarea", reason)
        self.browser.click("dialog footer button[type=submit]")


def admin(recourse, method, path, headers=None, body=None):
    port = recourse.ports["admin"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_MAX)
    try:
        connection.request(method, path, headers=headers or {}, body=body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def undone_checkout(agent):
    agent.does("orders", "payments")
    agent.breaks()
    agent.await_undone()
    return agent.shop.recourse.admin("GET", f"/flows/{agent.flow}")


def parked_checkout(agent):
    agent.does("orders", "payments")
    agent.script_undo("payments", flows.answer_with("403 Forbidden"))
    agent.breaks()
    agent.await_parked()
    return agent.shop.recourse.admin("GET", f"/flows/{agent.flow}")
