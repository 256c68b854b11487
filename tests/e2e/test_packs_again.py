"""The writes of all packs that set something: what another one has changed meanwhile is made again,
and what nobody has changed is told from the log."""

import json
import secrets

import pytest
from test_packs import FORM, TOKEN, World

from support import rawhttp

REPO, ME = "/repos/acme/shop", "/gmail/v1/users/me"
CHANNEL = ("channel C1", {"name": "one", "is_archived": False, "topic": "Old"})
OTHER_CHANNEL = ("channel C2", {"name": "two", "is_archived": False, "topic": "Old"})
MESSAGE = ("message C1 1.1", {"text": "Old"})
ISSUE = ("issue 7", {"number": 7, "title": "Old", "body": "b", "state": "open", "labels": []})
EMPTY = {"description": None, "name": None, "email": None, "phone": None}
FULL = dict.fromkeys(EMPTY, "old")
PAID = {"amount": 5, "receipt_email": None, "description": None}
BILLED = {"cancel_at_period_end": False, "description": None, "default_payment_method": None}
MAIL = {"subject": "s", "body": {"content": "c"}, "parentFolderId": "inbox", "isDraft": False}
TICKET = {"id": 7, "subject": "s", "status": "open", "priority": None, "type": None,
          "assignee_id": 1, "group_id": 1, "tags": [], "deleted": False}  # fmt: skip


def form(path, *texts):
    return [(f"POST {path}", text) for text in texts]


def slack(method, *bodies):
    return [(f"POST /api/{method}", body) for body in bodies]


def of(method, path, *bodies):
    return [(f"{method} {path}", body) for body in bodies]


LABELS, REACTION, PIN = (
    f"{REPO}/issues/7/labels",
    {"channel": "C1", "timestamp": "1.1", "name": "ok"},
    {"channel": "C1", "timestamp": "1.1"},
)
ADD_LABEL, DROP_LABEL = ("POST " + LABELS, {"labels": ["x"]}), ("DELETE " + LABELS + "/x", "")
PUT_LABELS = ("PUT " + LABELS, {"labels": ["y"]})
EDIT_LABELS = (f"PATCH {REPO}/issues/7", {"labels": ["x"]})
TRASH, UNTRASH = [(f"POST {ME}/messages/m1/{verb}", "") for verb in ("trash", "untrash")]

# What is there before, and the writes A and B. After A, B comes A again.
SET_AGAIN = {
    "customer": ("stripe", [("cus_1", EMPTY)], form("/v1/customers/cus_1", "name=A", "name=B")),
    "full customer": ("stripe", [("cus_1", FULL)], form("/v1/customers/cus_1", "name=A", "name=B")),
    "metadata": ("stripe", [("cus_1", FULL)],
                 form("/v1/customers/cus_1", "metadata[a]=A", "metadata[a]=B")),
    "invoice": ("stripe", [("in_1", {"description": None, "footer": None})],
                form("/v1/invoices/in_1", "description=A", "description=B")),
    "subscription": ("stripe", [("sub_1", BILLED)], form(
        "/v1/subscriptions/sub_1", "cancel_at_period_end=true", "cancel_at_period_end=false")),
    "intent": ("stripe", [("pi_1", PAID)],
               form("/v1/payment_intents/pi_1", "amount=6", "amount=7")),
    "topic": ("slack", [CHANNEL], slack("conversations.setTopic", {"channel": "C1", "topic": "A"},
                                        {"channel": "C1", "topic": "B"})),
    "name": ("slack", [CHANNEL], slack("conversations.rename", {"channel": "C1", "name": "a"},
                                       {"channel": "C1", "name": "b"})),
    "message": ("slack", [MESSAGE], slack(
        "chat.update", {"channel": "C1", "ts": "1.1", "text": "A"},
        {"channel": "C1", "ts": "1.1", "text": "B"})),
    "reaction": ("slack", [],
                 slack("reactions.add", REACTION) + slack("reactions.remove", REACTION)),
    "pin": ("slack", [], slack("pins.add", PIN) + slack("pins.remove", PIN)),
    "archive": ("slack", [CHANNEL], slack("conversations.archive", {"channel": "C1"}) +
                slack("conversations.unarchive", {"channel": "C1"})),
    "label, removed": ("github", [ISSUE], [ADD_LABEL, DROP_LABEL]),
    "label, others put": ("github", [ISSUE], [ADD_LABEL, PUT_LABELS]),
    "label, others set": ("github", [ISSUE],
                          [ADD_LABEL, (f"PATCH {REPO}/issues/7", {"labels": []})]),
    "label removed, added": ("github", [(ISSUE[0], {**ISSUE[1], "labels": [{"name": "x"}]})],
                             [DROP_LABEL, ADD_LABEL]),
    "labels put, removed": ("github", [ISSUE], [("PUT " + LABELS, {"labels": ["x"]}), DROP_LABEL]),
    "labels set, removed": ("github", [ISSUE], [EDIT_LABELS, DROP_LABEL]),
    "trash": ("gmail", [("message m1", {"id": "m1", "labelIds": ["INBOX"]})], [TRASH, UNTRASH]),
    "folder": ("microsoft-graph", [("message i1", {"id": "i1", **MAIL})],
               of("POST", "/v1.0/me/messages/i1/move", {"destinationId": "archive"},
                  {"destinationId": "inbox"})),
    "tags": ("zendesk", [("ticket 7", TICKET)],
             of("POST", "/api/v2/tickets/7/tags", {"tags": ["a"]}, {"tags": ["b"]})),
    "tags, added": ("zendesk", [("ticket 7", TICKET)],
                    of("POST", "/api/v2/tickets/7/tags", {"tags": ["a"]})
                    + of("PUT", "/api/v2/tickets/7/tags", {"tags": ["b"]})),
    "ticket's tags": ("zendesk", [("ticket 7", TICKET)],
                      of("PUT", "/api/v2/tickets/7", {"ticket": {"tags": ["a"]}})
                      + of("POST", "/api/v2/tickets/7/tags", {"tags": ["b"]})),
}  # fmt: skip

# Likewise, but B is about something else: A stands.
TOLD_AGAIN = {
    "another member": ("stripe", [("cus_1", FULL)],
                       form("/v1/customers/cus_1", "name=A", "phone=5")),
    "another customer": ("stripe", [("cus_1", FULL), ("cus_2", FULL)],
                         form("/v1/customers/cus_1", "name=A") +
                         form("/v1/customers/cus_2", "name=B")),
    "another channel": ("slack", [CHANNEL, OTHER_CHANNEL], slack(
        "conversations.setTopic", {"channel": "C1", "topic": "A"},
        {"channel": "C2", "topic": "B"})),
    "another place": ("slack", [CHANNEL], slack(
        "conversations.setTopic", {"channel": "C1", "topic": "A"}) +
        slack("conversations.rename", {"channel": "C1", "name": "b"})),
    "another label": ("github", [ISSUE], [ADD_LABEL, ("POST " + LABELS, {"labels": ["y"]})]),
    "a label of another": ("github", [ISSUE, ("issue 8", {**ISSUE[1], "labels": [{"name": "x"}]})],
                           [ADD_LABEL, (f"DELETE {REPO}/issues/8/labels/x", "")]),
}  # fmt: skip


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    running = {}

    def world(pack):
        if pack not in running:
            running[pack] = World(pack, tmp_path_factory.mktemp(pack)).__enter__()
        return running[pack]

    yield world
    for one in running.values():
        one.__exit__()


class Agent:
    """One that makes the calls of a row in a trace of its own."""

    def __init__(self, world, things):
        self.world, self.double = world, world.double
        self.headers = {**rawhttp.traced(secrets.token_hex(16)), "Authorization": TOKEN,
                        "User-Agent": "agent", "Prefer": 'IdType="ImmutableId"'}  # fmt: skip
        self.host = next(iter(world.policy["backends"].values()))["hosts"][0]
        self.double.things.clear()
        for name, members in things:
            self.double.make(name, **json.loads(json.dumps(members)))

    def send(self, call):
        """The answer, and how many effects came of the call."""
        (method, path), body = call[0].split(" "), call[1]
        headers, had = dict(self.headers), len(self.double.effects)
        if isinstance(body, str):
            body = body.encode()
            headers |= {"Content-Type": FORM} if body else {}
        answer = rawhttp.call(self.world.recourse.port, method, path, host=self.host,
                              headers=headers, body=body)  # fmt: skip
        assert answer.status < 300, (call, answer, answer.body)
        return answer, len(self.double.effects) - had


@pytest.mark.parametrize("pack, things, writes", SET_AGAIN.values(), ids=SET_AGAIN)
def test_what_another_write_has_changed_is_set_again(worlds, pack, things, writes):
    agent, (one, other) = Agent(worlds(pack), things), writes
    for call in (one, other, one, other):
        answer, effects = agent.send(call)
        assert not answer.replayed and effects == 1, (call, answer)
        assert agent.send(call)[0].replayed, call


@pytest.mark.parametrize("pack, things, writes", TOLD_AGAIN.values(), ids=TOLD_AGAIN)
def test_what_no_other_write_has_changed_is_told(worlds, pack, things, writes):
    agent, (one, other) = Agent(worlds(pack), things), writes
    answers = [agent.send(call) for call in (one, other, one, other)]
    assert [effects for _, effects in answers] == [1, 1, 0, 0]
    assert [answer.replayed for answer, _ in answers] == [False, False, True, True]
