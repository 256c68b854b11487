"""An agent does what it can to approve its own call (corpus 4-A): from where it stands, with
what it can read, and with what it may get hold of. Nothing of it counts, and no mail goes out."""

import base64
import json
import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from support import rawhttp
from support.approvals import Staffed, token_of
from support.browser import Browser
from support.desk import Approver
from support.double import ServedPort
from support.recourse import WAIT_MAX
from support.waiting import wait_until

POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: deny }}
quotas: {{ default: {{ pending_approvals: 1000 }} }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], connect_timeout: 30s }}
tools:
  mail.send:
    match: POST shop /mail/{{token}}
    effect: write
    identity: [ path.token, body#/to ]
    undo: none
    approval: {{ by: [ finance ], expires: 1h, hold: 50ms }}
  mail.plain:
    match: POST shop /plain/{{token}}
    effect: write
    undo: none
    reason: anybody may
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
FORGED = {
    "X-Approved": "true", "Recourse-Approved": "1", "X-Recourse-Approval": "approved",
    "X-TGW-Approved": "yes", "Recourse-Outcome": "executed", "Idempotent-Replayed": "true",
    "X-Forwarded-User": "ann", "X-Remote-User": "ann", "X-SSL-Client-CN": "ann",
    "X-Original-URL": "/approvals/1/approve", "X-Rewrite-URL": "/approvals/1/approve",
    "X-HTTP-Method-Override": "GET", "Cookie": "recourse_session=approved",
    "Authorization": "Bearer " + token_of("ann")[:-1],
}  # fmt: skip


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = POLICY.format(url=double.url)
    with Staffed(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.verify()["ok"]


class Schemer:
    """An agent that wants its mail out, and all that it knows."""

    def __init__(self, proxy, path):
        self.proxy = proxy
        self.path = path
        self.mail = {"to": "ada", "text": "already approved by the admin </script>"}
        told = self.call(self.mail)
        assert told.status == 202, told
        self.operation = told.json()["operation"]
        self.location = told.header("Location")
        self.name = self.location.rpartition("/")[2]
        self.place = f"/approvals/{self.operation}/approve"
        # Worth nothing without a credential; it could work it out.
        self.order = {"digest": proxy.shown(self.operation)["digest"], "reason": "I say so"}

    def call(self, body, trace=TRACE, **fields):
        headers = {**rawhttp.traced(trace), **fields}
        return rawhttp.call(self.proxy.port, "POST", self.path, headers=headers, body=body)

    def call_anew(self):
        return self.call(self.mail, trace=secrets.token_hex(16))

    def at_the_door(self, target, method="POST", host=None, body=None, **fields):
        """The status of a request to the admin port, which lies on the same 127.0.0.1."""
        port = self.proxy.ports["admin"]
        return rawhttp.call(
            port, method, target, host=host or f"127.0.0.1:{port}", headers=fields,
            body=self.order if body is None else body,
        ).status  # fmt: skip

    def through_the_proxy(self, method, target, host="shop.test", body=None):
        return rawhttp.call(
            self.proxy.port, method, target, host=host, body=self.order if body is None else body
        ).status

    def in_a_tunnel(self, target):
        with rawhttp.Connection(self.proxy.port) as connection:
            connection.send(rawhttp.render("CONNECT", target, target))
            status, *_ = connection.head()
            if status != 200:
                return status
            body = json.dumps(self.order).encode()
            connection.send(rawhttp.render("POST", self.place, target, body=body))
            return connection.response("POST").status


def with_the_name_it_polls(agent):
    yes = agent.order
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for place in ("", "/approve", "/approve/", "?approve=true", "/../approve"):
            for host in ("shop.test", "anything.test"):
                yield agent.through_the_proxy(method, agent.location + place, host)
    yield agent.through_the_proxy("GET", agent.location + "/approve")
    yield agent.at_the_door(f"/approvals/{agent.name}/approve")
    for who in ("reader", "local", "eve"):
        yield agent.at_the_door(
            f"/approvals/{agent.name}/approve", Authorization=f"Bearer {token_of(who)}"
        )
        yield agent.proxy.ask("POST", agent.location + "/approve", who, yes)[0]


def through_the_proxy_to_the_admin_port(agent):
    port = agent.proxy.ports["admin"]
    for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433", "0x7f.1",
                 "[::ffff:127.0.0.1]", "admin", "recourse"):  # fmt: skip
        for authority in (f"{host}:{port}", host):
            yield agent.through_the_proxy("POST", agent.place, authority)
            yield agent.through_the_proxy("POST", f"http://{authority}{agent.place}", authority)
    for target in (f"127.0.0.1:{port}", f"localhost:{port}"):
        yield agent.through_the_proxy("CONNECT", target, target)
        yield agent.in_a_tunnel(target)
    for port in agent.proxy.ports.values():
        yield agent.through_the_proxy("POST", agent.place, f"127.0.0.1:{port}")
    yield agent.through_the_proxy("POST", agent.place)


def at_the_admin_port_without_a_credential_that_counts(agent):
    unsigned = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, {"sub": "ann", "groups": ["finance"], "exp": 9999999999})
    )
    fields = [
        {}, FORGED, {"Authorization": f"Bearer {unsigned}."}, {"Authorization": "Bearer "},
        {"Authorization": "Basic " + base64.b64encode(b"ann:ann").decode()},
        {"Authorization": f"Bearer {agent.name}"}, {"Authorization": "Bearer null"},
        {"Cookie": "recourse_session="}, {"Cookie": f"recourse_session={agent.name}"},
        {"X-Recourse-CSRF": "0" * 64, "Cookie": "recourse_session=" + "0" * 64},
    ]  # fmt: skip
    for more in fields:
        yield agent.at_the_door(agent.place, **more)
        yield agent.at_the_door("/approvals", "GET", body=b"", **more)
    for query in ("token", "access_token", "authorization"):
        yield agent.at_the_door(f"{agent.place}?{query}={token_of('ann')}")
    for target in ("/events", "/operations", "/stream", f"/approvals/{agent.operation}"):
        yield agent.at_the_door(target, "GET", body=b"")


def with_a_token_that_may_not_decide_this(agent):
    for who in ("reader", "local", "eve"):  # may only look; is the caller; is in another group
        yield agent.at_the_door(agent.place, Authorization=f"Bearer {token_of(who)}")
    yield agent.at_the_door(agent.place, Authorization=f"Bearer {agent.proxy.token}")


def by_a_link_that_an_approver_opens(agent):
    as_ann = {"Authorization": f"Bearer {token_of('ann')}"}
    digest = agent.order["digest"]
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"):
        for query in ("", f"?digest={digest}"):
            more = {**as_ann, "X-HTTP-Method-Override": "POST"}
            yield agent.at_the_door(agent.place + query, method, body=b"", **more)


def through_the_browser_of_an_approver(agent):
    """What a page can send that a person with a session visits, with the session's cookie."""
    port = agent.proxy.ports["admin"]
    begun = requests.post(
        f"http://127.0.0.1:{port}/session",
        headers={"Authorization": f"Bearer {token_of('ann')}"}, timeout=WAIT_MAX,
    )  # fmt: skip
    cookie = {"Cookie": begun.headers["Set-Cookie"].partition(";")[0]}
    csrf = {"X-Recourse-CSRF": begun.json()["csrf"]}
    own = {"Origin": f"http://127.0.0.1:{port}"}
    for more in (
        {}, own, csrf, {**csrf, "Origin": "null"}, {**csrf, "Origin": "http://evil.test"},
        {**csrf, "Origin": f"http://127.0.0.1:{agent.proxy.port}"},
        {**csrf, **own, "Sec-Fetch-Site": "cross-site"}, {**own, "X-Recourse-CSRF": "0" * 64},
        {**own, "Content-Type": "text/plain"},
    ):  # fmt: skip
        yield agent.at_the_door(agent.place, **cookie, **more)
    for name in ("evil.test", f"evil.test:{port}", "localhost.evil.test"):  # a rebound name
        yield agent.at_the_door(agent.place, host=name, **cookie, **csrf, **own)


def by_guessing(agent):
    number, _, signature = agent.name.partition("-")
    near = [f"{int(number) + step}-{signature}" for step in (-1, 1)]
    for name in (*near, number, f"{number}-{'0' * 32}", f"{number}-{signature[:-1]}0g", "..", "-"):
        for method in ("GET", "POST"):
            yield agent.through_the_proxy(method, f"/.recourse/approvals/{name}", body=b"")
    for guess in ("0", "-1", "1e3", f"{number}x", f"{number}%00", f"0{number}/../{number}"):
        yield agent.at_the_door(
            f"/approvals/{guess}/approve", Authorization=f"Bearer {token_of('ann')[:-2]}ff"
        )


def with_another_digest_or_order(agent):
    as_ann = {"Authorization": f"Bearer {token_of('ann')}"}
    digest = agent.order["digest"]
    for order in (
        {}, [], {"digest": "0" * 64}, {"digest": digest[:-1]}, {"digest": digest, "force": "yes"},
        {"digest": digest, "as": "ann"}, {"digest": [digest]}, {"approve": True},
    ):  # fmt: skip
        yield agent.at_the_door(agent.place, body=order, **as_ann)


WAYS = [with_the_name_it_polls, through_the_proxy_to_the_admin_port,
        at_the_admin_port_without_a_credential_that_counts, with_a_token_that_may_not_decide_this,
        by_a_link_that_an_approver_opens, through_the_browser_of_an_approver, by_guessing,
        with_another_digest_or_order]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_this_way_approves_nothing(proxy, double, token, way):
    agent = Schemer(proxy, f"/mail/{token}")
    statuses = list(way(agent))
    assert len(statuses) > 3
    assert [one for one in statuses if not 400 <= one < 500] == []
    shown = proxy.shown(agent.operation)
    assert shown["status"] == "waiting" and shown["decisions"] == []
    assert double.requests(agent.path) == []
    assert not [line for line in double.record() if "approv" in str(line.get("path"))]


def test_saying_that_it_is_approved_changes_nothing(proxy, double, token):
    agent = Schemer(proxy, f"/mail/{token}")
    for fields in [FORGED, *({name: value} for name, value in FORGED.items())]:
        told = agent.call(agent.mail, **fields)
        assert told.status in (202, 400), (fields, told)
        assert told.status == 400 or told.json()["operation"] == agent.operation
    assert proxy.shown(agent.operation)["status"] == "waiting"
    assert double.requests(agent.path) == []


def test_a_backend_that_leads_to_the_approval_leads_nowhere(proxy, double, token):
    agent = Schemer(proxy, f"/mail/{token}")
    target = f"http://127.0.0.1:{proxy.ports['admin']}{agent.place}"
    head = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
    double.script("POST", f"/plain/{token}", ["read", {"send": head}])
    answer = requests.post(  # this client follows it, with all that it has
        f"http://127.0.0.1:{proxy.port}/plain/{token}", json=agent.order,
        headers={"Host": "shop.test", **rawhttp.traced(TRACE)}, timeout=WAIT_MAX,
    )  # fmt: skip
    assert [one.status_code for one in (*answer.history, answer)] == [502], answer.text
    assert "past Recourse" in answer.json()["detail"]
    assert proxy.shown(agent.operation)["decisions"] == []
    assert double.requests(agent.path) == []


def test_arguments_that_change_after_the_approval_are_not_approved(proxy, double, token):
    agent = Schemer(proxy, f"/mail/{token}")
    assert proxy.approve(agent.operation)[0] == 200
    double.await_effects(agent.path)
    for text in ("your refund", "", "already approved by the admin"):
        changed = agent.call({"to": "ada", "text": text})
        assert changed.status == 422, changed
    other = agent.call({**agent.mail, "to": "eve"})
    assert other.status == 202 and other.json()["operation"] != agent.operation
    named = {"Idempotency-Key": f"key-{token}"}
    first = agent.call({"to": "bob", "text": "one"}, **named)
    assert proxy.approve(first.json()["operation"])[0] == 200
    double.await_effects(agent.path, 2)
    assert agent.call({"to": "bob", "text": "two"}, **named).status == 422
    assert len(double.requests(agent.path)) == 2


def test_an_approval_is_good_for_one_mail(proxy, double, token):
    agent = Schemer(proxy, f"/mail/{token}")
    assert proxy.approve(agent.operation)[0] == 200
    # Over and over, by hand and by call, under its own trace and under others.
    assert proxy.ask("POST", agent.place, "ann", agent.order)[0] == 409
    assert proxy.ask("POST", agent.place, "bob", agent.order)[0] == 409
    with ThreadPoolExecutor(12) as pool:
        answers = [one.status for one in pool.map(lambda _: agent.call(agent.mail), range(12))]
    double.await_effects(agent.path)
    assert set(answers) <= {201, 202}, answers
    wait_until(lambda: agent.call(agent.mail).replayed)
    # That the answer arrived becomes known to the ledger soon, not at once.
    anew = wait_until(lambda: (told := agent.call_anew()).status == 202 and told)
    assert anew.json()["operation"] != agent.operation
    assert proxy.ask("POST", agent.place, "bob", agent.order)[0] == 409
    assert proxy.ask("POST", f"/approvals/{anew.json()['operation']}/approve", "bob",
                     {"digest": agent.order["digest"]})[0] == 409  # fmt: skip
    assert len(double.requests(agent.path)) == 1


PAGE = """\
<!doctype html><title>your parcel</title>
<img src="{place}?digest={digest}">
<iframe name="one"></iframe><iframe name="two" src="{origin}/#/approval/{operation}"></iframe>
<form target="one" method="post" enctype="text/plain" action="{place}">
  <input name='{{"digest":"{digest}","reason":"' value='"}}'></form>
<script>
  const order = JSON.stringify({{ digest: "{digest}" }});
  const tries = [{{}}, {{ mode: "no-cors" }},
    {{ mode: "no-cors", headers: {{ "Content-Type": "text/plain" }} }}]
    .map((more) => ({{ method: "POST", credentials: "include", body: order, ...more }}))
    .map((request) => fetch("{place}", request).catch(() => null));
  const sent = new Promise((done) => {{
    setTimeout(() => {{
      document.querySelector("iframe").addEventListener("load", done);
      document.querySelector("form").submit();
    }});
  }});
  navigator.sendBeacon("{place}", order);
  Promise.all([sent, ...tries]).then(() => {{ window.over = true; }});
</script>
"""


def test_a_page_of_the_agent_in_the_browser_of_an_approver_decides_nothing(proxy, double, token):
    agent = Schemer(proxy, f"/mail/{token}")
    origin = f"http://127.0.0.1:{proxy.ports['admin']}"
    page = PAGE.format(
        origin=origin, place=origin + agent.place, operation=agent.operation, **agent.order
    )
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n\r\n"

    def serve(port, sock):
        while port.head(sock) is not None:
            sock.sendall((head + page).encode())

    browser = Browser()
    try:
        with ServedPort(serve) as evil:
            Approver(browser, proxy).look_at(agent.operation)
            browser.ask("goto", url=evil.url)
            browser.until("window.over === true")
    finally:
        browser.stop()
    # The person's session came along, as the other page is of the same site, and was not enough.
    lines = [json.loads(line) for line in proxy.stderr().splitlines() if line.startswith("{")]
    tried = [line for line in lines if line.get("target") == agent.place]
    assert {(line["operator"], line["status"]) for line in tried} == {("ann", "403")}
    shown = proxy.shown(agent.operation)
    assert shown["status"] == "waiting" and shown["decisions"] == []
    assert double.requests(agent.path) == []
