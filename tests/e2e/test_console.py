"""One console over the ledgers of several databases: it shows all of them, takes decisions to the
right one, and goes on while one is away."""

import contextlib
import http.client
import http.server
import itertools
import json
import re
import threading
import types

import pytest

from support.approvals import Watch, token_of
from support.desk import LIST, Approver
from support.openapi import Described
from support.postgres import Postgres
from support.recourse import BINARY, ROOT, WAIT_MAX, Recourse, run_cli
from support.waiting import wait_until
from test_fleet import Pods, write
from test_fleet_away import AWAY

EU, US = "eu", "us"


class Console(Recourse):
    """`recourse console` over pods, by the name of their ledger."""

    def __init__(self, directory, ledgers):
        super().__init__(directory, "version: 1\n")
        self.ledgers = ledgers

    def command(self):
        words = [BINARY, "console", "--admin", "127.0.0.1:0", "--probes", "127.0.0.1:0",
                 "--ports-file", str(self.ports_path)]
        for name, pod in self.ledgers.items():
            words += ["--ledger", f"{name}=127.0.0.1:{pod.ports['admin']}"]
        return words

    def ask(self, method, target, who="ann", body=None, token=None):
        headers = {"Authorization": f"Bearer {token or token_of(who)}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        status, text = self.http("admin", method, target,
                                 None if body is None else json.dumps(body), headers)
        return status, json.loads(text)

    def page(self, target, who="ann"):
        status, page = self.ask("GET", target, who)
        assert status == 200, page
        return page

    def states(self, who="ann"):
        return {one["name"]: one["state"] for one in self.page("/operations", who)["ledgers"]}

    def by(self, who, *arguments):
        path = self.directory / f"token.{who}"
        path.write_text(token_of(who))
        path.chmod(0o600)
        return run_cli(*arguments, "--admin", f"127.0.0.1:{self.ports['admin']}",
                       "--admin-token-file", str(path))


@pytest.fixture(scope="module")
def servers():
    with Postgres() as eu, Postgres() as us:
        yield {EU: eu, US: us}


@pytest.fixture(scope="module")
def ledgers(double, servers, tmp_path_factory):
    """A pod of each of two databases, each with secrets of its own."""
    groups = {}
    for name, server in servers.items():
        directory = tmp_path_factory.mktemp(name)
        groups[name] = Pods(directory, double, server.ledger(), ["pod"])
    # Who is known to one ledger alone.
    path = groups[US].pod.directory / "operators.yaml"
    path.write_text("\n".join(line for line in path.read_text().splitlines()
                              if "name: bob" not in line) + "\n")
    with groups[EU], groups[US]:
        yield {name: group.pod for name, group in groups.items()}


@pytest.fixture(scope="module")
def console(ledgers, tmp_path_factory):
    with Console(tmp_path_factory.mktemp("console"), ledgers) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


def asked(pod, token):
    return write(pod, f"/mail/{token}", f"mail{token}", status=202).json()["operation"]


def test_rows_of_all_ledgers_are_listed_and_name_theirs(console, ledgers, token):
    for name, pod in ledgers.items():
        write(pod, f"/notes/{token}-{name}", f"{token}{name}")
        asked(pod, f"{token}-{name}")
    for target, rows, path in (("/operations", "operations", f"/notes/{token}"),
                               ("/events?limit=1000", "events", f"/notes/{token}"),
                               ("/approvals?limit=1000", "approvals", f"/mail/{token}")):
        found = [one for one in console.page(target)[rows] if one.get("path", "").startswith(path)]
        assert {one["ledger"] for one in found} == {EU, US}, target
        for one in found:
            assert one["path"].endswith(one["ledger"])
            assert str(one["operation"]).startswith(one["ledger"] + ":")
    flows = console.page("/flows?all=true&limit=1000")["flows"]
    assert {one["ledger"] for one in flows} == {EU, US}
    ids = {one["operation"] for one in console.page("/operations?ledger=us")["operations"]}
    assert ids and {one.partition(":")[0] for one in ids} == {US}
    times = [one["time"] for one in console.page("/operations")["operations"]]
    assert times == sorted(times, reverse=True)
    status = console.page("/status")
    assert status["approvals_pending"] >= 2
    assert {one["ledger"] for one in status["streams"]} == {EU, US}
    printed = console.by("ann", "status").stdout.splitlines()
    said = {line.split()[0]: line for line in printed}
    assert f" {status['approvals_pending']} waiting " in said["approvals"], printed
    states = [line for line in printed if line.startswith("ledger ")]
    assert len(states) == 2 and " eu: up; its process: " in states[0], printed
    streams = [line for line in printed if line.startswith("stream       us:")]
    assert re.search(r" of \S+: live, [1-9]\d* open, \d+ rows", streams[-1]), printed
    table = console.by("ann", "operations", "list").stdout
    assert " eu:" in " " + table and "us:" in table


def test_each_list_is_read_to_its_end_once(console, ledgers, token):
    for number in range(3):
        for name, pod in ledgers.items():
            write(pod, f"/notes/{token}-{name}-{number}", f"{token}{name}{number}")
    seen, target = [], "/events?limit=4"
    while target:
        page = console.page(target)
        seen += [one["event_id"] for one in page["events"]]
        target = page["next"] and f"/events?limit=4&after={page['next']}"
    assert len(seen) == len(set(seen))
    whole = [one["event_id"] for one in json.loads(
        console.by("ann", "events", "list", "--limit", "10000", "--json").stdout)]
    assert set(seen) <= set(whole) and len(whole) == len(set(whole))


def test_a_list_goes_on_where_it_was_cut_and_is_in_order_of_time(console, ledgers, token):
    """However its rows lie over the ledgers, and as often as one goes on."""
    for number in range(2):
        for name, pod in ledgers.items():
            write(pod, f"/notes/{token}-{name}-{number}", f"{token}{name}{number}")
    whole = json.loads(console.by("ann", "events", "list", "--limit", "10000", "--json").stdout)
    seen, after, calls = [], "0", 0
    while after:
        done = console.by("ann", "events", "list", "--limit", "7", "--after", after, "--json")
        assert done.returncode == 0, done
        rows = json.loads(done.stdout)
        seen += rows
        calls += 1
        cut = re.search(r"the oldest (\d+) are shown, .* --after (\S+), ", done.stderr)
        assert cut is None or int(cut[1]) == 7 == len(rows), done
        after = cut and cut[2]
    assert calls == -(-len(whole) // 7)
    assert [one["event_id"] for one in seen] == [one["event_id"] for one in whole]
    for rows, member in ((seen, "time"), (console.page("/approvals?limit=3")["approvals"], "asked"),
                         (console.page("/flows?limit=3")["flows"], "began")):
        assert [one[member] for one in rows] == sorted(one[member] for one in rows)
    for one in ("operations", "events"):
        newest = ["--newest"] if one == "events" else []
        done = console.by("ann", one, "list", "--limit", "5", "--json", *newest)
        rows = json.loads(done.stdout)
        times = [row["time"] for row in rows]
        assert len(rows) == 5 and times == sorted(times, reverse=True), done
    all_flows = json.loads(console.by("ann", "flows", "list", "--all", "--limit", "1000",
                                      "--json").stdout)
    newest = json.loads(console.by("ann", "flows", "list", "--all", "--limit", "3",
                                   "--json").stdout)
    assert newest == all_flows[-3:]


LISTS = [["flows", "list", "--stopped"], ["flows", "list", "--parked"], ["approvals", "list"],
         ["operations", "list"], ["events", "list"], ["events", "list", "--newest"]]


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_a_list_names_the_ledger_that_it_lacks(console, ledgers, servers, arguments):
    both = {EU: "up", US: "up"}
    wait_until(lambda: console.states() == both, console.states)
    assert "ledger" not in console.by("ann", *arguments).stderr
    (refused,) = re.findall("recourse: ledger .*", console.by("bob", *arguments).stderr)
    assert refused.startswith("recourse: ledger us refused: you are not known there"), refused
    servers[US].stop()
    try:
        wait_until(lambda: console.states() == {**both, US: "away"}, console.states)
        why = console.page("/operations")["ledgers"][1]["why"]
        for more in ([], ["--json"]):
            done = console.by("ann", *arguments, *more)
            told = f"recourse: ledger us is away: {why}; what it holds is not listed\n"
            assert done.returncode == 0 and done.stderr.count(told) == 1, done
            assert not more or json.loads(done.stdout) is not None, done
        servers[EU].stop()
        wait_until(lambda: console.states() == {EU: "away", US: "away"}, console.states)
        done = console.by("ann", *arguments)
        assert done.returncode == 1 and done.stderr.count(" is away: ") == 2, done
    finally:
        for server in servers.values():
            server.start()
    wait_until(lambda: console.states() == both, console.states)


@pytest.mark.parametrize("name", [EU, US])
def test_a_decision_goes_to_the_ledger_that_asked_and_to_no_other(
        console, ledgers, double, token, name):
    other = ledgers[US if name == EU else EU]
    operation = asked(ledgers[name], token)
    call = next(one for one in console.page("/approvals?limit=1000")["approvals"]
                if one["path"] == f"/mail/{token}")
    assert call["operation"] == f"{name}:{operation}"
    shown = console.page(f"/approvals/{call['operation']}")
    assert shown["operation"] == call["operation"] and shown["phase"] == "CLAIMED"
    before = other.ask("GET", "/approvals?limit=1000")[1]["approvals"]
    done = console.by("ann", "approvals", "approve", call["operation"], "--digest",
                      shown["digest"])
    assert done.returncode == 0, done
    wait_until(lambda: len(double.effects(f"/mail/{token}")) == 1)
    (decision,) = console.page(f"/approvals/{call['operation']}")["decisions"]
    assert decision["who"] == "ann"
    assert other.ask("GET", "/approvals?limit=1000")[1]["approvals"] == before
    assert console.ask("GET", f"/approvals/{operation}")[0] == 400, "it names no ledger"
    assert console.ask("GET", f"/approvals/{operation}?ledger={name}")[0] == 200


def test_who_may_what_each_ledger_says_for_itself(console, ledgers, token):
    calls = {name: f"{name}:{asked(pod, f'{token}-{name}')}" for name, pod in ledgers.items()}
    session = console.page("/session", "bob")
    assert {one["name"]: one["state"] for one in session["ledgers"]} == {EU: "up", US: "refused"}
    rows = console.page("/approvals?limit=1000", "bob")["approvals"]
    assert {one["ledger"] for one in rows} == {EU}
    order = {"reason": "no"}
    assert console.ask("POST", f"/approvals/{calls[US]}/reject", "bob", order)[0] == 403
    assert console.ask("POST", f"/approvals/{calls[EU]}/reject", "reader", order)[0] == 403
    assert console.ask("POST", f"/approvals/{calls[EU]}/reject", "bob", order)[0] == 200
    assert console.ask("POST", f"/approvals/{calls[US]}/reject", "ann", order)[0] == 200
    assert console.ask("GET", "/operations", token="nobody" * 8)[0] == 401
    assert console.http("admin", "GET", "/operations")[0] == 401
    # What is of two ledgers is of none.
    both = f"/events?operation={calls[EU]}&after={calls[US]}"
    assert console.ask("GET", both)[0] == 400
    assert console.ask("GET", f"/approvals/{calls[EU]}?ledger=us")[0] == 400
    assert console.ask("GET", "/approvals/asia:1.1")[0] == 404
    assert console.ask("GET", "/ledger/rows?ledger=eu")[0] == 404, "of its own process"
    for target in ("/policy", "/report", "/ledger"):
        assert console.ask("GET", target)[0] == 400
        assert console.ask("GET", f"{target}?ledger=eu")[0] == 200
    assert ledgers[EU].ask("GET", "/ledger?ledger=eu")[0] == 400, "a pod is no console"


def test_what_waits_is_told_once_though_its_ledger_was_away(console, ledgers, servers, token):
    waits = f"{US}:{asked(ledgers[US], token)}"
    with Watch(console, "--json") as watch:
        watch.await_line(waits, '"waiting"')
        servers[US].stop()
        try:
            wait_until(lambda: console.states() == {EU: "up", US: "away"}, console.states)
            asked(ledgers[EU], f"{token}-meanwhile")
            watch.await_line(f"{token}-meanwhile")  # it has looked
        finally:
            servers[US].start()
        wait_until(lambda: console.states() == {EU: "up", US: "up"}, console.states)
        asked(ledgers[US], f"{token}-after")
        watch.await_line(f"{token}-after")
        told = [line for line in watch.text.decode().splitlines() if waits in line]
        assert len(told) == 1, told
        assert console.ask("POST", f"/approvals/{waits}/reject", "ann", {"reason": "no"})[0] == 200
        watch.await_line(waits, '"rejected"')


def test_a_ledger_that_is_away_hides_no_other_and_comes_back(console, ledgers, servers, token):
    write(ledgers[EU], f"/notes/{token}-eu", f"{token}eu")
    write(ledgers[US], f"/notes/{token}-us", f"{token}us")
    call = f"{EU}:{asked(ledgers[EU], token)}"
    waits = f"{US}:{asked(ledgers[US], token)}"
    last = console.http("admin", "GET", "/events?follow=now", None,
                        {"Authorization": f"Bearer {token_of('ann')}"})[1]
    place = json.loads(last)["next"]
    log = console.page("/events?limit=2")
    read = [one["event_id"] for one in log["events"]]
    servers[US].stop()
    try:
        wait_until(lambda: console.states() == {EU: "up", US: "away"}, console.states)
        page = console.page("/operations")
        assert f"/notes/{token}-eu" in {one["path"] for one in page["operations"]}
        (away,) = [one for one in page["ledgers"] if one["name"] == US]
        assert away["why"]
        assert 'ledger="us"} 0' in console.probe("/metrics")[1]
        said = console.by("ann", "status").stdout
        assert f"; new writes are refused: {AWAY}; what is told of all pods" in said, said
        # Decisions of the other one go on; of this one nothing is said to be done.
        digest = console.page(f"/approvals/{call}")["digest"]
        order = {"digest": digest}
        assert console.ask("POST", f"/approvals/{call}/approve", "ann", order)[0] == 200
        assert console.ask("POST", f"/approvals/{waits}/reject", "ann", {"reason": "no"})[0] == 503
        write(ledgers[EU], f"/notes/{token}-news", f"{token}news")
        log = console.page(f"/events?limit=2&after={log['next']}")
        read += [one["event_id"] for one in log["events"]]
    finally:
        servers[US].start()
    wait_until(lambda: console.states() == {EU: "up", US: "up"}, console.states)
    assert console.ask("POST", f"/approvals/{waits}/reject", "ann", {"reason": "no"})[0] == 200
    write(ledgers[US], f"/notes/{token}-back", f"{token}back")
    # A list that is read meanwhile goes on where it was.
    whole = ledgers[US].ask("GET", "/events?limit=1000")[1]["events"]
    while log["next"]:
        log = console.page(f"/events?limit=1000&after={log['next']}")
        read += [one["event_id"] for one in log["events"]]
    told = [one for one in read if one.startswith(US)]
    assert told[:len(whole)] == [f"{US}:{one['event_id']}" for one in whole]
    seen = []

    def both():
        nonlocal place
        text = console.http("admin", "GET", f"/events?follow={place}", None,
                            {"Authorization": f"Bearer {token_of('ann')}"})[1]
        *rows, tail = map(json.loads, text.splitlines())
        place = tail["next"]
        seen.extend(one["event_id"] for one in rows)
        paths.update(one.get("path") for one in rows)
        return {f"/notes/{token}-news", f"/notes/{token}-back"} <= paths

    paths = set()
    wait_until(both)
    assert len(seen) == len(set(seen)), "each row is told once"


class Told:
    """A console as support.openapi asks it."""

    def __init__(self, console):
        self.console = console

    def ask(self, method, target, token=None, fields=None, content=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.console.ports["admin"],
                                                timeout=WAIT_MAX)
        with contextlib.closing(connection):
            shown = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, target, content, {**(fields or {}), **shown})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()


def test_every_answer_is_as_the_description_says(console, ledgers, token):
    for name, pod in ledgers.items():
        write(pod, f"/orders/{token}", f"{token}{name}")
        call = f"{name}:{asked(pod, token)}"
    described = Described(Told(console), token_of("ann"))
    for target in ("/operations", "/operations?limit=2", "/events?limit=4", "/flows?all=true",
                   "/approvals", "/approvals?limit=2", "/status", "/session", "/policy/tools",
                   "/events?follow=now", f"/approvals/{call}", "/status?ledger=eu",
                   "/report?ledger=us", "/ledger?ledger=us"):
        described.ask("GET", target, 200)
    described.ask("POST", f"/approvals/{call}/reject", 200, {"reason": "no"},
                  {"Content-Type": "application/json"})
    described.ask("GET", "/report", 400)
    paths = described.document["paths"]
    assert "/stream" not in paths and "/ledger/rows" not in paths
    assert "ledger" in [one["name"] for one in paths["/operations"]["get"]["parameters"]]


def test_ids_are_those_of_the_description(console):
    """Whatever openapi.json calls an id names its ledger, but for what is of the log as a whole."""
    document = json.loads(console.http("admin", "GET", "/openapi.json")[1])
    found = set()

    def walk(schema, name):
        if isinstance(schema, list):
            for one in schema:
                walk(one, name)
        if not isinstance(schema, dict):
            return
        if schema.get("$ref", "").endswith("/Id"):
            found.add(name)
        for key, value in schema.items():
            if key == "properties":
                for member, one in value.items():
                    walk(one, member)
            else:
                walk(value, name)

    walk(document["components"]["schemas"], "")
    source = (ROOT / "proxy/console/ledger_ids.cpp").read_text()
    listed = re.search(r"kIdMembers = \{(.*?)\}", source, re.S)[1]
    assert set(re.findall(r'"(\w+)"', listed)) == found - {"", "first_id", "last_id", "bad_row"}


def test_the_page_shows_all_ledgers_and_decides(console, ledgers, double, browser, walk, token):
    for name, pod in ledgers.items():
        write(pod, f"/notes/{token}-{name}", f"{token}{name}")
    desk = Approver(browser, console).log_in()
    for name in ledgers:
        browser.wait(f'{LIST} .c-pod:has-text("{name}")')
    write(ledgers[US], f"/notes/{token}-later", f"{token}later")
    browser.wait(f'.row:has-text("/notes/{token}-later")')
    call = f"{US}:{asked(ledgers[US], token)}"
    walk.at(desk, "#/approvals", f'.inbox-row:has-text("/mail/{token}")')
    walk.at(desk, f"#/approval/{call}", '.decide button:has-text("Approve")')
    for place in ("parked", "stopped", "unknown"):
        walk.at(desk, f"#/{place}")
    desk.is_clean()


def test_a_console_that_is_started_wrongly_says_why(tmp_path):
    for ledger, why in (("eu", "is not NAME=ADDRESS"), ("EU=127.0.0.1:1", "is not NAME=ADDRESS"),
                        ("eu=nowhere", "HOST:PORT")):
        done = run_cli("console", "--ledger", ledger)
        assert done.returncode == 2 and why in done.stderr, done
    done = run_cli("console", "--ledger", "eu=127.0.0.1:1", "--ledger", "eu=127.0.0.1:2")
    assert done.returncode == 2 and "a name of its own" in done.stderr


def test_a_stranger_has_few_tokens_asked_about(ledgers, tmp_path):
    """However long they are: each costs all ledgers a question, and the console's one thread.
    Runs last: to the ledgers the console is one who has failed often."""
    with Console(tmp_path, ledgers) as console:
        assert console.page("/operations", "ann")["ledgers"]
        told = (console.ask("GET", "/operations", token=f"{number:064x}")[0]
                for number in range(40))  # some come back on a slow day
        refused = list(itertools.takewhile(lambda status: status != 429, told))
        assert 10 <= len(refused) < 40 and set(refused) <= {401, 503}
        assert console.page("/operations", "ann")["ledgers"], "whoever is known goes on"


class Impostor(http.server.BaseHTTPRequestHandler):
    """What proves to be an admin port, knows everybody, and lists nothing."""

    protocol_version = "HTTP/1.1"
    says = (200, "text/html", b"<script>alert(1)</script>")

    def do_GET(self):
        status, media, body = self.says
        if self.path == "/.recourse/port":
            status, media, body = 200, "application/json", b'{"recourse":"admin"}'
        elif self.path.startswith("/session"):
            said = {"name": "ann", "roles": ["read", "approve"]}
            status, media, body = 200, "application/json", json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    "says",
    [
        (200, "text/html", b"<script>alert(1)</script>"),
        (200, "application/json", b"[]"),
        (200, "application/x-ndjson", b'{"id": 1}\nnothing\n'),
        (200, "application/json", b""),
        (404, "application/json", b"{}"),
        (400, "application/problem+json", b'{"title": "no such parameter"}'),
        (500, "text/plain", b"sorry"),
    ],
    ids=lambda says: f"{says[0]}-{says[2][:8].decode()}",
)
def test_who_lists_nothing_is_not_called_up(ledgers, tmp_path, says):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Its", (Impostor,), {"says": says})
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    impostor = types.SimpleNamespace(ports={"admin": server.server_port})
    try:
        with Console(tmp_path / "console", {EU: ledgers[EU], "no": impostor}) as console:
            for target in ("/operations", "/approvals", "/flows?all=true", "/status"):
                states = {one["name"]: one for one in console.page(target)["ledgers"]}
                assert states[EU]["state"] == "up", states
                assert states["no"]["state"] == "away", states
                assert str(says[0]) in states["no"]["why"], states
            status, said = console.ask("GET", "/approvals/no:7")
            if says[0] == 200 and says[1] != "application/json":
                assert status == 502 and "ledger no answered 200" in said["detail"], said
    finally:
        server.shutdown()
        server.server_close()
