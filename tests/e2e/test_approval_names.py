"""Who asks and who approves are two, by whatever name a credential calls them."""

import json

import pytest

from support import rawhttp
from support.issuer import Issuer
from support.operators import Guarded, digest, tokens
from support.waiting import wait_until

POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: deny }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], connect_timeout: 30s }}
callers: {{ jwt: {{ issuer: "https://login.example", audience: recourse, jwks_file: "{keys}",
                   claim: email }} }}
tools:
  mail.send:
    match: POST shop /mail/{{token}}
    effect: write
    identity: [ path.token ]
    undo: none
    approval: {{ by: [ finance, bob, dana ], expires: 1h, hold: 0s }}
  mail.twice:
    match: POST shop /twice/{{token}}
    effect: write
    identity: [ path.token ]
    undo: none
    approval: {{ by: [ finance ], needs: 2, expires: 1h, hold: 0s }}
"""
OPERATORS = """\
jwt: {{ issuer: "https://login.example", audience: recourse, name_claim: sub,
       jwks_file: "{keys}" }}
roles: {{ read: [ finance, sre ], approve: [ finance, sre ] }}
"""
STATIC = "ann's own token, which is long enough to be one"


class Bank:
    def __init__(self, directory, double):
        self.issuer = Issuer(directory / "issuer")
        keys = directory / "jwks.json"
        keys.write_text(json.dumps({"keys": [self.issuer.make("k1", "RSA")]}))
        people = tokens(("agent@x.test", STATIC, "read, approve")).replace(
            " }\n", ", groups: [ finance ] }\n")
        assert digest(STATIC) in people
        self.proxy = Guarded(directory / "run", POLICY.format(url=double.url, keys=keys),
                             OPERATORS.format(keys=keys) + people)

    def token(self, sub, email, groups=("finance",), **more):
        return self.issuer.token("k1", sub=sub, email=email, groups=list(groups), **more)

    def asks(self, path, token):
        told = rawhttp.call(self.proxy.port, "POST", path, body={"to": "ada"},
                            headers={"Authorization": f"Bearer {token}"})
        assert told.status == 202, told
        return told.json()["operation"]

    def say(self, operation, token, verb="approve"):
        """(status, detail) of that person's word."""
        fields = {"Content-Type": "application/json"}
        status, _, text = self.proxy.ask("GET", f"/approvals/{operation}", token)
        assert status == 200, text
        body = {"reason": "seen"}
        if verb == "approve":
            body["digest"] = json.loads(text)["digest"]
        status, _, text = self.proxy.ask("POST", f"/approvals/{operation}/{verb}", token, fields,
                                         json.dumps(body))
        return status, json.loads(text).get("detail", "")


@pytest.fixture(scope="module")
def bank(double, tmp_path_factory):
    running = Bank(tmp_path_factory.mktemp("bank"), double)
    with running.proxy:
        yield running


def test_a_token_that_names_agent_and_person_cannot_approve_its_own_call(bank, double, token):
    path = f"/mail/{token}"
    both = bank.token("ann", "agent@x.test")
    operation = bank.asks(path, both)
    own = {
        "the same token": both,
        "another one of that person": bank.token("ann", "ann@x.test"),
        "a person that the callers' claim names so": bank.token("zoe", "agent@x.test"),
        "the agent's name as a person's": bank.token("agent@x.test", "z@x.test"),
        "a person of the file with the agent's name": STATIC,
    }
    for what, credential in own.items():
        for verb in ("approve", "reject"):
            status, detail = bank.say(operation, credential, verb)
            assert status == 403 and "caller" in detail, (what, verb, detail)
    assert double.requests(path) == []
    status, detail = bank.say(operation, bank.token("eve", "eve@x.test"))
    assert status == 200, detail
    wait_until(lambda: len(double.effects(path)) == 1)


def test_a_browsers_session_is_that_person_too(bank, token):
    operation = bank.asks(f"/mail/{token}", bank.token("ann", "agent@x.test"))
    cookie, csrf = bank.proxy.login(bank.token("ann", "ann@x.test"))
    fields = {"Cookie": cookie, "X-Recourse-CSRF": csrf, "Content-Type": "application/json",
              "Origin": f"http://localhost:{bank.proxy.ports['admin']}"}  # fmt: skip
    _, _, text = bank.proxy.ask("GET", f"/approvals/{operation}", headers={"Cookie": cookie})
    body = json.dumps({"digest": json.loads(text)["digest"]})
    status, _, text = bank.proxy.ask(
        "POST", f"/approvals/{operation}/approve", headers=fields, body=body)
    assert status == 403 and "caller" in text


def test_the_name_of_a_group_opens_nothing_as_a_persons(bank, double, token):
    path = f"/mail/{token}"
    operation = bank.asks(path, bank.token("agent", "agent-2@x.test"))
    status, detail = bank.say(operation, bank.token("finance", "f@x.test", ["sre"]))
    assert status == 403 and "group" in detail, detail
    # A person whom the policy names by their own name is asked.
    assert bank.say(operation, bank.token("bob", "bob@x.test", ["sre"]))[0] == 200
    wait_until(lambda: len(double.effects(path)) == 1)


def test_a_group_that_only_tokens_tell_of_is_no_person_either(bank, token):
    assert bank.proxy.who(bank.token("dan", "dan@x.test", ["dana", "sre"]))["name"] == "dan"
    operation = bank.asks(f"/mail/{token}", bank.token("agent", "agent-3@x.test"))
    assert bank.say(operation, bank.token("dana", "dana@x.test", ["sre"]))[0] == 403
    assert bank.say(operation, bank.token("dan", "dan@x.test", ["dana", "sre"]))[0] == 200


def test_one_person_by_two_names_counts_once(bank, double, token):
    path = f"/twice/{token}"
    operation = bank.asks(path, bank.token("agent", "agent-4@x.test"))
    assert bank.say(operation, bank.token("zed@x.test", "z@x.test"))[0] == 200
    status, detail = bank.say(operation, bank.token("other", "zed@x.test"))
    assert status == 409 and "zed@x.test" in detail
    assert double.requests(path) == []
    assert bank.say(operation, bank.token("yan", "yan@x.test"))[0] == 200
    wait_until(lambda: len(double.effects(path)) == 1)
