"""Two processes on one ledger in PostgreSQL: one promise over both."""

import contextlib
import json
import pathlib
import socket
import threading

import pytest

from support import plans, rawhttp
from support.approvals import Staffed
from support.postgres import SERVER_PROGRAMS, Postgres, newer_programs
from support.recourse import NotReady, run_cli
from support.waiting import wait_until
from test_flow_commands import POLICY, Shop, trace_of

ASKED = """\
  mail.send:
    match: POST shop /mail/{{token}}
    effect: write
    undo: none
    approval: {{ by: [ finance ], expires: 10m, hold: 0s }}
  mail.offer:
    match: POST shop /offer/{{token}}
    effect: write
    undo: none
    approval: {{ by: [ finance ], expires: 3s, hold: 0s }}
  orders.place:
    match: POST shop /placed/{{token}}
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /placed/{{path.token}}?client_ref={{body#/client_ref}}"
      happened: answer.body#/items/0/id
      absent_after: 3s
    undo: none
    reason: a row of a test is never undone
  switch.set:
    match: PUT shop /switch/{{token}}
    effect: write
    undo: none
    reason: a row of a test is never undone
  switch.change:
    match: PATCH shop /switch/{{token}}
    effect: write
    undo: none
    reason: a row of a test is never undone
flows:
"""


class Pods:
    """Processes of one group, with the same policy and secrets: `a` and `b`, or as named."""

    @staticmethod
    def policy(double, place):
        return POLICY.replace("flows:\n", ASKED).format(url=double.url) + f"ledger: {place}\n"

    def __init__(self, directory, double, url, names="ab", group="shop/checkout", policy="",
                 more=""):  # fmt: skip
        self.url, self.double = url, double
        secret, key = directory / "install.secret", directory / "ledger.key"
        secret.write_text("5e" * 32 + "\n")
        key.write_text(run_cli("ledger", "new-key").stdout)
        for file in (secret, key):
            file.chmod(0o600)
        self.secrets = ["--install-secret-file", secret, "--ledger-key-file", key]
        if policy:
            self.secrets += ["--ledger", url]
        policy = policy or self.policy(double, f'{{ url: "{url}", group: {group}{more} }}')
        self.all = {name: Staffed(directory / name, policy, self.secrets) for name in names}
        self.__dict__.update(self.all)

    def __enter__(self):
        for pod in self.all.values():
            pod.start()
        return self

    def __exit__(self, *exc):
        for pod in self.all.values():
            pod.kill()


@pytest.fixture(scope="module", params=["debian", "newer"])
def postgres(request):
    """Whatever these tests ask of it is found by an index."""
    programs = newer_programs() if request.param == "newer" else SERVER_PROGRAMS
    if programs is None:
        pytest.skip("npm has brought no newer PostgreSQL")
    with Postgres(settings=plans.SETTINGS, programs=programs) as running:
        yield running
        found = plans.plans_in(pathlib.Path(running.log).read_text(errors="replace"))
        assert len(found) > 30
        # That of recourse ledger status, which counts all of it.
        allowed = ["SELECT grp, kind::bigint, count(*)"]
        assert plans.scans(found, allowed) == []
        assert plans.large_scans(running, "ledger1", found, allowed) == []


@pytest.fixture(scope="module")
def pods(double, postgres, tmp_path_factory):
    url = postgres.granted(postgres.ledger(), "shop/checkout")
    with Pods(tmp_path_factory.mktemp("pods"), double, url) as running:
        yield running
        for pod in (running.a, running.b):
            assert pod.running(), pod.stderr()[-4000:]
            assert pod.verify()["ok"]


def write(pod, path, token, status=201, **fields):
    answer = rawhttp.call(pod.port, "POST", path, headers={**rawhttp.traced(trace_of(token)),
                                                           **fields},
                          body={"client_ref": token})
    assert answer.status == status, answer
    return answer


def stream_of(answer):
    return answer.header("Recourse-Event").partition(".")[0]


def test_the_tables_are_made_once_and_never_by_an_older_version(double, postgres, tmp_path):
    url = postgres.database()
    pods = Pods(tmp_path, double, url)
    with pytest.raises(NotReady, match="exit 78: "):
        pods.a.start()
    assert "run recourse ledger migrate --ledger URL" in pods.a.stderr()
    first = run_cli("ledger", "migrate", "--ledger", url)
    assert first.returncode == 0 and first.stdout.startswith("made the tables of version 6, ")
    again = run_cli("ledger", "migrate", "--ledger", url)
    assert again.returncode == 0 and again.stdout.startswith("nothing to do: ")
    assert first.stdout.split()[-1] == again.stdout.split()[-1]
    postgres.sql(url, "UPDATE ledger SET schema_version = 9")
    later = run_cli("ledger", "migrate", "--ledger", url)
    assert later.returncode == 78 and "which a later recourse has made" in later.stderr
    assert run_cli("ledger", "migrate", "--ledger", "memory:").returncode == 2


def test_the_same_call_at_both_pods_has_one_effect_and_one_answer(pods, token):
    key = {"Idempotency-Key": f"key-{token}"}
    first = write(pods.a, f"/notes/{token}", token, **key)
    second = write(pods.b, f"/notes/{token}", token, **key)
    assert second.replayed and second.body == first.body
    assert second.header("Recourse-Event") == first.header("Recourse-Event")
    other = rawhttp.call(pods.b.port, "POST", f"/notes/{token}", headers=key,
                         body={"client_ref": "other"})
    assert other.status == 422
    assert len(pods.double.effects(f"/notes/{token}")) == 1


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_steps_of_one_flow_over_both_pods_are_undone_together(pods, token, order):
    trace = trace_of(token)
    first, second = (getattr(pods, name) for name in order)
    one = write(first, f"/orders/{token}", token)
    two = write(second, f"/payments/{token}", token)
    assert stream_of(one) != stream_of(two)
    shop = Shop(pods.a, pods.double)
    flow = shop.flow(trace)
    assert [step["tool"] for step in flow["steps"]] == ["orders.create", "payments.charge"]
    assert Shop(pods.b, pods.double).flow(trace) == flow
    shop.flows("cancel", trace, "--reason", "the agent went astray")
    shop.await_flow(trace, "UNDONE")
    assert shop.effects(token) == ["POST orders", "POST payments", "POST refunds", "DELETE orders"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("lost", [False, True], ids=["answered", "unknown"])
@pytest.mark.parametrize("order", ["aba", "bab"])
def test_on_off_on_over_both_pods_leaves_it_on(pods, token, order, lost, method):
    path, first, second = f"/switch/{token}", getattr(pods, order[0]), getattr(pods, order[1])

    def switch(pod, state):
        return rawhttp.call(pod.port, method, path, headers=rawhttp.traced(trace_of(token)),
                            body={"state": state})

    assert switch(first, "on").status == 201
    assert switch(first, "on").replayed and switch(second, "on").replayed
    if lost:
        pods.double.script(method, path, ["read", "execute", "rst"], 1)
    off = switch(second, "off")
    assert off.outcome == "unknown" if lost else off.status == 201
    again = switch(first, "on")
    assert not again.replayed, again
    if method == "PATCH":  # whose repeat is another call only once its client had the answer whole
        assert again.status in (201, 409)
    else:
        assert again.status == 201 and len(pods.double.effects(path)) == 3


def test_what_is_asked_at_one_pod_is_approved_at_the_other(pods, token):
    asked = write(pods.a, f"/mail/{token}", token, status=202).json()
    operation = asked["operation"]
    assert operation in [one["operation"] for one in pods.b.await_waiting(f"/mail/{token}")]
    digest = pods.b.shown(operation)["digest"]
    done = pods.b.by_hand("ann", "approve", operation, "--digest", digest)
    assert done.returncode == 0, done
    poll = asked["poll"][asked["poll"].index("/.recourse"):]
    for pod in (pods.a, pods.b):
        wait_until(lambda pod=pod: rawhttp.call(pod.port, "GET", poll).json()["status"]
                   == "finished")
    assert len(pods.double.effects(f"/mail/{token}")) == 1


def test_of_two_approvers_at_two_pods_one_decides_and_the_other_is_told_who(pods, token):
    asked = write(pods.a, f"/mail/{token}", token, status=202).json()["operation"]
    digest = pods.a.shown(asked)["digest"]
    both = [(pods.a, "ann"), (pods.b, "bob")]
    answers = {}

    def decide(pod, who):
        target, body = f"/approvals/{asked}/approve", {"digest": digest, "reason": "seen"}
        answers[who] = pod.ask("POST", target, who, body)

    deciding = [threading.Thread(target=decide, args=one) for one in both]
    for thread in deciding:
        thread.start()
    for thread in deciding:
        thread.join()
    assert sorted(status for status, _ in answers.values()) == [200, 409], answers
    won = next(who for who, (status, _) in answers.items() if status == 200)
    lost = next(body for status, body in answers.values() if status == 409)
    assert won in lost["detail"], lost
    wait_until(lambda: len(pods.double.effects(f"/mail/{token}")) == 1)


def test_lists_of_one_pod_have_what_the_other_did(pods, token):
    write(pods.a, f"/notes/{token}-before", f"{token}before")
    at_a = write(pods.a, f"/notes/{token}-a", f"{token}a")
    at_b = write(pods.b, f"/notes/{token}-b", f"{token}b")
    for pod in (pods.a, pods.b):
        events = {event["event_id"]: event for event in pod.events()}
        assert {at_a.header("Recourse-Event"), at_b.header("Recourse-Event")} <= set(events)
        page = pod.admin("GET", "/operations?limit=2")
        assert [one["path"] for one in page["operations"]] == [
            f"/notes/{token}-b", f"/notes/{token}-a"]
        older = pod.admin("GET", f"/operations?limit=1&before={page['older']}")
        assert older["operations"][0]["path"] not in (f"/notes/{token}-b", f"/notes/{token}-a")
        newer = pod.admin("GET", f"/operations?after={older['operations'][0]['event_id']}")
        assert [one["path"] for one in newer["operations"]][:2] == [
            f"/notes/{token}-b", f"/notes/{token}-a"]
        shown = pod.cli("events", "show", at_a.header("Recourse-Event"))
        assert shown.returncode == 0 and f"/notes/{token}-a" in shown.stdout
    flow = next(one for one in pods.b.admin("GET", "/flows?all=true")["flows"]
                if one["flow"] == trace_of(f"{token}a"))
    assert flow["number"].startswith(stream_of(at_a) + ".")
    def newest(pod, *words):
        listed = json.loads(pod.cli("events", "list", "--newest", "--json", *words).stdout)
        return [(str(one["event_id"]), one.get("kind") == "flow") for one in listed]

    rows = newest(pods.a)
    ids = [row for row, is_flow in rows if not is_flow]
    assert sorted(ids) == sorted(map(str, events)), "each row of both once"
    assert ids.index(at_b.header("Recourse-Event")) < ids.index(at_a.header("Recourse-Event"))
    after = at_a.header("Recourse-Event")
    later = [row for row, is_flow in newest(pods.b, "--after", after) if not is_flow]
    assert later == ids[:ids.index(after)]
    page = pods.a.admin("GET", f"/events?flows=true&back=2&up_to={rows[1][0]}")
    assert [str(event["event_id"]) for event in page["events"]] == [rows[2][0], rows[1][0]]
    assert str(page["older"]) == rows[3][0]
    # Which start of which pod wrote the newest row of each.
    listed = [*pods.b.admin("GET", "/operations?limit=1")["operations"], flow,
              events[at_a.header("Recourse-Event")]]
    assert [str(one["stream"]) for one in listed] == [
        stream_of(at_b), stream_of(at_a), stream_of(at_a)]
    assert {one["pod"] for one in listed} == {socket.gethostname()}


def test_the_database_tells_which_streams_there_are(pods, token):
    written = write(pods.a, f"/notes/{token}", token)
    said = run_cli("ledger", "status", "--ledger", pods.url)
    assert said.returncode == 0, said
    status = json.loads(said.stdout)
    mine = next(one for one in status["streams"] if str(one["stream"]) == stream_of(written))
    assert mine["group"] == "shop/checkout" and mine["state"] == "live" and mine["rows"] > 1


def test_a_pod_with_another_secret_is_refused(pods, double, tmp_path):
    other = Pods(tmp_path, double, pods.url)
    (tmp_path / "install.secret").write_text("11" * 32 + "\n")
    with pytest.raises(NotReady, match="exit 78: "):
        other.a.start()


def test_workloads_that_share_a_database_share_no_calls(pods, double, token, tmp_path):
    path, key = f"/notes/{token}", {"Idempotency-Key": f"key-{token}"}
    url = pods.url.replace("//app@", "//recourse@")
    with Pods(tmp_path, double, url, ["other"], "shop/returns") as others:
        first = write(pods.a, path, token, **key)
        second = write(others.other, path, token, **key)
        assert not second.replayed and len(double.effects(path)) == 2
        assert write(pods.b, path, token, **key).body == first.body
        assert write(others.other, path, token, **key).body == second.body
        assert [event["caller"] for event in others.other.events_for(path)] == [
            "shop/returns/local"] * 2
        assert {flow["caller"] for flow in pods.a.admin("GET", "/flows?all=true")["flows"]} == {
            "shop/checkout/local"}


def test_what_a_killed_pod_was_sending_is_found_out_by_the_other(double, postgres, tmp_path, token):
    url, path = postgres.database(), f"/placed/{token}"
    assert run_cli("ledger", "migrate", "--ledger", url).returncode == 0
    with Pods(tmp_path, double, url) as pods:
        double.script("POST", path, ["read", "execute", {"gate": token}], 1)
        fields = rawhttp.traced(trace_of(token))
        order = threading.Thread(target=lambda: cut_off(pods.a, path, fields, token))
        order.start()
        double.await_effects(path)
        pods.a.kill()
        order.join()
        settled = pods.b.await_phase(path, ("SUCCEEDED", "ANSWER_LOST"))
        causes = [event["cause"] for event in pods.b.events_for(path)]
        assert causes[:2] == ["first_call", "owner_lost"], causes
        assert settled["external_ref"]
        orders = [json.loads(row)["order"] for row in
                  run_cli("ledger", "export", "--format", "ndjson", "--ledger", url).stdout
                  .splitlines() if '"order"' in row]
        assert [order["what"] for order in orders] == ["ledger.takeover"], orders
        assert "1 calls of it became unknown, 0 that wait go on here" in orders[0]["reason"]
        told = rawhttp.call(pods.b.port, "POST", path, headers=fields, body={"client_ref": token})
        assert told.outcome == "executed" and len(double.effects(path)) == 1
        double.open_gate(token)


def cut_off(pod, path, fields, token):
    with contextlib.suppress(OSError, rawhttp.Cut):
        rawhttp.call(pod.port, "POST", path, headers=fields, body={"client_ref": token})
