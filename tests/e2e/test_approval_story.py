"""The whole story of a call that needs a human, with ordinary parts alone: an agent's script in
Python or JavaScript that knows nothing of Recourse, a person at a real browser, a mail server that
counts its mails, and a sidecar that is killed while the agent waits and right after the click."""

import json
import subprocess
import sys

import pytest

from support.approvals import Staffed
from support.browser import CLIENTS, Browser
from support.desk import Approver
from support.policies import standard
from support.recourse import CRASH_POINTS, WAIT_MAX
from support.standing_port import StandingPort
from support.waiting import wait_until

# Told at once, or held for longer than any test takes.
TOOL = """\
  mail.{name}:
    match: POST shop /{name}/{{token}}
    effect: write
    settle:
      request: "GET /{name}/{{path.token}}?client_ref={{body#/client_ref}}"
      happened: answer.body#/items/0/id
      absent_after: {absent_after}
    undo: none
    approval: {{ by: [ finance ], expires: 1h, hold: {hold} }}
"""
# A busy machine may execute late what a kill left in a socket.
ABSENT_AFTER = "6s"
RULES = "".join(
    TOOL.format(name=name, hold=hold, absent_after=ABSENT_AFTER)
    for name, hold in (("told", "100ms"), ("held", "1h"))
)
AGENTS = {
    "python": [sys.executable, CLIENTS / "mail_agent.py"],
    "node": ["node", CLIENTS / "mail_agent.mjs"],
}
EVERY_MANNER = [("python", "held"), ("node", "told"), ("python", "told"), ("node", "held")]
# Before the click is durable, after it, and within the one attempt that it is good for.
AFTER_THE_CLICK = [("k15", "node", "told"), ("k16", "node", "told"), ("k16", "python", "held"),
                   ("k05", "python", "held"), ("k05", "node", "told"), ("k05", "python", "told"),
                   ("k07", "node", "told"), ("k10", "python", "held"),
                   ("k12", "node", "told")]  # fmt: skip
END = 3 * WAIT_MAX


class Agent:
    """A script with one tool, at work in a process of its own."""

    def __init__(self, language, port, path):
        mail = {"to": "ada@example.com", "text": "your refund", "client_ref": path}
        command = [*AGENTS[language], f"http://127.0.0.1:{port}{path}", json.dumps(mail)]
        self.process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)

    def is_done(self):
        return self.process.poll() is not None

    def result(self):
        out, _ = self.process.communicate(timeout=END)
        assert self.process.returncode == 0, out
        return json.loads(out)

    def stop(self):
        self.process.kill()
        self.process.communicate()


class Story:
    """One agent, one person, one sidecar."""

    def __init__(self, running, double, browser, port, path):
        self.running = running
        self.double = double
        self.browser = browser
        self.port = port
        self.path = path
        self.agent = None

    def begins(self, language):
        self.agent = Agent(language, self.port, self.path)
        return self.running.await_waiting(self.path)[0]["operation"]

    def clicks(self, operation):
        """The person approves; what becomes of the click is another matter."""
        person = Approver(self.browser, self.running).look_at(operation)
        assert "ada@example.com" in self.browser.text("pre")
        assert self.double.effects(self.path) == []
        person.click("Approve")
        person.confirm("checked with Ada")

    def goes_on(self):
        """The agent's call comes to its end; who is asked again says yes again."""

        def is_over():
            if self.agent.is_done():
                return True
            asked = [one["operation"] for one in self.running.waiting()
                     if (one["path"], one["status"]) == (self.path, "waiting")]  # fmt: skip
            if asked:
                self.clicks(asked[0])
                self.browser.wait('.badge:has-text("Approved")')
            return False

        wait_until(is_over, lambda: self.running.events_for(self.path), END)

    def ends_well(self):
        """One mail, and the agent has its receipt; gives what the agent was told on the way."""
        said = self.agent.result()
        (mail,) = self.double.effects(self.path)
        assert len(self.double.requests(self.path, "POST")) == 1
        assert said["status"] in (200, 201), said
        assert mail["id"] in json.dumps(said["result"]), said
        assert self.running.verify()["ok"]
        return said["told"]

    def approvals(self):
        """How often the one operation was approved."""
        events = self.running.events_for(self.path)
        assert len({event["operation"] for event in events}) == 1
        return [event["phase"] for event in events].count("APPROVED")


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.stop()


@pytest.fixture
def story(double, browser, tmp_path, token):
    with Staffed(tmp_path, standard(double, extra_tools=RULES)) as running:
        with StandingPort(lambda: running.port) as front:
            stories = []

            def make(kind):
                stories.append(Story(running, double, browser, front.port, f"/{kind}/{token}"))
                return stories[-1]

            yield make
            for one in stories:
                if one.agent is not None:
                    one.agent.stop()


@pytest.mark.parametrize(("language", "manner"), EVERY_MANNER)
def test_a_person_says_yes_and_the_agent_has_its_answer(story, language, manner):
    tale = story(manner)
    operation = tale.begins(language)
    tale.clicks(operation)
    told = tale.ends_well()
    # Who is held never hears of the wait; who is told polls until it is over.
    assert told == [201] if manner == "held" else told[0] == 202 and set(told[1:]) == {200}
    assert tale.approvals() == 1


@pytest.mark.parametrize(("language", "manner"), EVERY_MANNER)
def test_the_sidecar_is_killed_while_the_agent_waits(story, language, manner):
    tale = story(manner)
    operation = tale.begins(language)
    if manner == "told":  # it polls already
        tale.running.await_log(lambda line: line["method"] == "GET")
    tale.running.kill()
    tale.running.start()
    assert tale.running.await_waiting(tale.path)[0]["operation"] == operation
    tale.clicks(operation)
    told = tale.ends_well()
    assert "broken" in told or manner == "told"
    assert tale.approvals() == 1, "one question, one answer"


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize(("point", "language", "manner"), AFTER_THE_CLICK)
def test_the_sidecar_is_killed_at_a_point_after_the_click(story, point, language, manner):
    tale = story(manner)
    tale.running.kill()
    tale.running.start(env={"RECOURSE_CRASH_POINT": f"{point}:1"})
    tale.clicks(tale.begins(language))
    tale.running.wait(END)
    if point != "k07":  # sent whole, and perhaps not read yet
        assert len(tale.double.effects(tale.path)) == int(point in ("k10", "k12"))
    tale.running.start()
    tale.goes_on()
    tale.ends_well()
    # An approval is used up by the attempt, also by one that provably sent nothing.
    assert tale.approvals() == (2 if point == "k05" else 1)


@pytest.mark.parametrize(("language", "manner"), EVERY_MANNER[:2])
def test_the_sidecar_is_killed_right_after_the_click(story, language, manner):
    tale = story(manner)
    tale.clicks(tale.begins(language))
    tale.running.kill()
    tale.running.start()
    tale.goes_on()
    tale.ends_well()
