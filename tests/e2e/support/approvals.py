"""A process with people who may decide what waits for a human, and what tests ask of it."""

import hashlib
import json
import os
import select
import subprocess
import time

from .recourse import BINARY, WAIT_MAX, Recourse, environment, run_cli
from .waiting import wait_until

# Name: groups. `reader` may look and not decide; `local` is what agents without certificates are.
PEOPLE = {
    "ann": ["finance"],
    "bob": ["finance"],
    "eve": ["marketing"],
    "local": ["finance"],
    "reader": [],
}


def token_of(name):
    return f"token-of-{name}-" + hashlib.sha256(name.encode()).hexdigest()


def operators():
    lines = ["version: 1", "tokens:"]
    for name, groups in PEOPLE.items():
        digest = hashlib.sha256(token_of(name).encode()).hexdigest()
        roles = "read" if name == "reader" else "read, approve"
        more = f", groups: [ {', '.join(groups)} ]" if groups else ""
        lines.append(f'  - {{ name: {name}, sha256: "{digest}", roles: [ {roles} ]{more} }}')
    return "\n".join(lines) + "\n"


class Staffed(Recourse):
    """Recourse with the people above."""

    def __init__(self, directory, policy, arguments=(), **more):
        super().__init__(directory, policy, **more)
        path = self.directory / "operators.yaml"
        path.write_text(operators())
        self.arguments = ["--operators", str(path), *map(str, arguments)]

    def ask(self, method, target, who="ann", body=None):
        """(status, JSON) of one request of that person to the admin port."""
        headers = {"Authorization": f"Bearer {token_of(who)}"} if who else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        status, text = self.http(
            "admin", method, target, None if body is None else json.dumps(body), headers
        )
        return status, json.loads(text)

    def waiting(self):
        status, page = self.ask("GET", "/approvals?limit=1000")
        assert status == 200, page
        return page["approvals"]

    def await_waiting(self, path, count=1):
        """The calls on that path that wait for a human, once there are `count`."""

        def enough():
            found = [one for one in self.waiting() if one["path"] == path]
            return len(found) >= count and found

        return wait_until(enough, self.waiting)

    def shown(self, operation, who="ann"):
        status, approval = self.ask("GET", f"/approvals/{operation}", who)
        assert status == 200, approval
        return approval

    def approve(self, operation, who="ann", **more):
        """(status, JSON) of an approval of what is shown now."""
        body = {"digest": self.shown(operation)["digest"], "reason": "seen", **more}
        return self.ask("POST", f"/approvals/{operation}/approve", who, body)

    def reject(self, operation, who="ann", reason="not today"):
        return self.ask("POST", f"/approvals/{operation}/reject", who, {"reason": reason})

    def by_hand(self, who, *arguments):
        """`recourse approvals ARGUMENTS` of that person."""
        path = self.directory / f"token-of-{who}"
        path.write_text(token_of(who) + "\n")
        path.chmod(0o600)
        return run_cli(
            "approvals", *arguments,
            "--admin", f"127.0.0.1:{self.ports['admin']}",
            "--admin-token-file", path,
        )  # fmt: skip


class Watch:
    """A `recourse approvals watch` that runs; its lines as they come."""

    def __init__(self, running, *arguments):
        path = running.directory / "watcher"
        path.write_text(token_of("ann") + "\n")
        path.chmod(0o600)
        self.process = subprocess.Popen(
            [BINARY, "approvals", "watch", "--admin", f"127.0.0.1:{running.ports['admin']}",
             "--admin-token-file", str(path), *arguments],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.text = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def await_line(self, *words):
        """The first line that has all of them."""
        deadline = time.monotonic() + WAIT_MAX
        while True:
            for line in self.text.decode().splitlines():
                if all(word in line for word in words):
                    return line
            assert time.monotonic() < deadline, self.text
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                more = os.read(self.process.stdout.fileno(), 65536)
                assert more, self.process.communicate()
                self.text += more
