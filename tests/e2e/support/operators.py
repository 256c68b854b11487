"""Recourse with an operators file, and requests to its admin port as anybody."""

import hashlib
import http.client
import json

from .recourse import WAIT_MAX, Recourse
from .waiting import lasts, wait_until

CSRF = "X-Recourse-CSRF"


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def tokens(*rows):
    lines = ["tokens:"]
    for name, token, roles in rows:
        lines.append(f'  - {{ name: {name}, sha256: "{digest(token)}", roles: [ {roles} ] }}')
    return "\n".join(lines) + "\n"


class Guarded(Recourse):
    """Recourse with an operators file."""

    def __init__(self, directory, policy, operators, arguments=(), **more):
        super().__init__(directory, policy, **more)
        self.operators_path = self.directory / "operators.yaml"
        self.operators_path.write_text("version: 1\n" + operators)
        self.arguments = ["--operators", str(self.operators_path), *map(str, arguments)]

    def ask(self, method, target, token=None, headers=None, body=None, context=None):
        """(status, fields, body) at the admin port."""
        kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
        more = {} if context is None else {"context": context}
        connection = kind("localhost", self.ports["admin"], timeout=WAIT_MAX, **more)
        fields = {} if token is None else {"Authorization": "Bearer " + token}
        try:
            connection.request(method, target, body=body, headers={**fields, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def who(self, token):
        status, _, body = self.ask("GET", "/session", token)
        return json.loads(body) if status == 200 else status

    def await_login(self, token):
        """Waits until the token is known."""

        def is_known():
            if isinstance(self.who(token), dict):
                return True
            lasts(0.5)  # after ten wrong tokens the port takes none for a while: that is not met
            return False

        wait_until(is_known, lambda: self.who(token))

    def await_said(self, text):
        """Waits until the log says so."""
        wait_until(lambda: text in self.stderr(), lambda: self.stderr()[-2000:])

    def orders(self):
        lines = [json.loads(line) for line in self.stderr().splitlines() if line.startswith("{")]
        return [line for line in lines if line["msg"] == "an operator's order"]

    def login(self, token):
        status, fields, body = self.ask("POST", "/session", token)
        assert status == 200, body
        cookie = fields["Set-Cookie"]
        for word in ("HttpOnly", "SameSite=Strict", "Path=/"):
            assert word in cookie
        return cookie.partition(";")[0], json.loads(body)["csrf"]
