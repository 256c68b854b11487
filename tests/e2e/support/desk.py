"""An operator at the browser, and the flows that he looks at."""

import http.client
import json

from support import flows
from support.recourse import PATIENCE

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


def admin(recourse, method, path, headers=None, body=None):
    port = recourse.ports["admin"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20 * PATIENCE)
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
