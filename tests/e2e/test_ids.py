"""Ids of a ledger whose rows are not of stream 0, as a shared one has them: `42.17` wherever one is
told, taken or followed, and nowhere the number that both are packed into."""

import json
import re
import urllib.request

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.collector import Collector
from support.recourse import run_cli
from support.waiting import WAIT_MAX, wait_until
from test_flow_commands import POLICY, Shop, trace_of
from test_webhook import Hook

STREAM = 42
ASKED = """\
  mail.send:
    match: POST shop /mail/{{token}}
    effect: write
    undo: none
    approval: {{ by: [ finance ], expires: 10m, hold: 0s }}
flows:
"""
ID = re.compile(rf"{STREAM}\.[1-9][0-9]*")
BARE = re.compile(rf'[\[:,]\s*{STREAM}\.\d+\s*[,\]}}]')  # a number of JSON, which loses zeros


def check(text):
    """Holds whatever is said to the form of ids; gives it back."""
    packed = [n for n in re.findall(r"(?<![\w.])\d{12,}(?![\w.])", text) if int(n) >> 36 == STREAM]
    assert not packed, (packed, text)
    assert not BARE.search(text), text
    return text


class Told:
    """One process with its people, and all that it says."""

    def __init__(self, proxy, shop, hook, collector):
        self.proxy, self.shop, self.hook, self.collector = proxy, shop, hook, collector

    def get(self, target):
        status, text = self.proxy.http(
            "admin", "GET", target, headers={"Authorization": f"Bearer {self.proxy.token}"})
        assert status == 200, (target, text)
        return check(text)

    def cli(self, *arguments, code=0):
        done = self.proxy.cli(*arguments)
        assert done.returncode == code, done
        check(done.stderr)
        return check(done.stdout)

    def write(self, path, host="shop.test", status=201, body=None, **fields):
        answer = rawhttp.call(self.proxy.port, "POST", path, host=host, headers=fields,
                              body=body or {"client_ref": "x"})
        assert answer.status == status, answer
        check(answer.body.decode())
        for _, value in answer.headers:
            check(value)
        assert ID.fullmatch(answer.header("Recourse-Event")), answer
        return answer


@pytest.fixture(scope="module")
def told(double, tmp_path_factory):
    hook = Hook()
    secret = tmp_path_factory.mktemp("secret") / "hook"
    secret.write_text("whsec-of-the-tests\n")
    secret.chmod(0o600)
    policy = (POLICY.replace("flows:\n", ASKED) +
              'flow_rules: {{ webhook: {{ url: "{hook}", secret_file: "{secret}" }} }}\n').format(
                  url=double.url, hook=hook.url, secret=secret)  # fmt: skip
    with Collector() as collector:
        with Staffed(tmp_path_factory.mktemp("recourse"), policy,
                     ["--ledger", f"memory:?stream={STREAM}",
                      "--otlp-endpoint", collector.url]) as proxy:  # fmt: skip
            shop = Shop(proxy, double)
            yield Told(proxy, shop, hook, collector)
            assert proxy.verify()["ok"]
            assert proxy.stop() == 0, proxy.stderr()[-4000:]
            check(proxy.stdout())
            check(proxy.stderr())
    hook.close()


def test_an_answer_and_its_repeat_name_the_event(told, token):
    key = {"Idempotency-Key": f"key-{token}"}
    first = told.write(f"/notes/{token}", **key)
    again = told.write(f"/notes/{token}", **key)
    assert again.replayed and again.header("Recourse-Event") == first.header("Recourse-Event")
    other = told.write(f"/notes/{token}", status=422, body={"client_ref": "other"}, **key)
    assert ID.fullmatch(other.json()["event"]) and ID.search(other.json()["detail"])


def test_an_event_an_operation_and_their_lists_are_found_by_it(told, token):
    event = told.write(f"/notes/{token}").header("Recourse-Event")
    shown = json.loads(told.get(f"/events/{event}"))
    assert shown["event_id"] == event and ID.fullmatch(shown["operation"])
    operation = shown["operation"]
    assert told.cli("events", "show", event).count(operation) >= 2
    assert operation in told.cli("operations", "show", event)
    assert operation in told.cli("operations", "list")
    rows = json.loads(told.cli("events", "list", "--after", operation, "--json"))
    assert rows and operation not in [row["event_id"] for row in rows]
    assert f" {event} " in told.cli("events", "list", "--limit", "1000")

    def listed(*options):
        return told.cli("events", "list", *options)

    # Rows of what earlier tests began may come meanwhile; those of flows are no events.
    wait_until(
        lambda: listed("--newest").splitlines()[1].split()[0]
        == json.loads(listed("--limit", "1000", "--json"))[-1]["event_id"]
    )
    missing = told.cli("events", "show", f"{STREAM}.99999", code=1)
    assert missing == ""
    assert "an id such as 17 or 42.17" in run_cli("events", "show", "42,17").stderr


def test_pages_go_on_where_they_ended(told, token):
    for i in range(5):
        told.write(f"/notes/{token}-{i}")
    found, before = [], ""
    while before is not None:
        page = json.loads(told.get(f"/operations?limit=2{before and f'&before={before}'}"))
        found += [one["operation"] for one in page["operations"]]
        before = page["older"]
    everything = {event["operation"] for event in told.proxy.events()}
    assert len(found) == len(set(found)) and set(found) == everything
    newer = json.loads(told.get(f"/operations?after={found[3]}&limit=200"))
    assert found[3] not in [one["event_id"] for one in newer["operations"]]


def test_a_parked_flow_is_told_repaired_and_reported(told, token):
    flow = told.shop.park(token)
    number = flow["number"]
    step = next(step for step in flow["steps"] if step["tool"] == "payments.charge")
    assert ID.fullmatch(number) and ID.fullmatch(step["step"])
    assert ID.fullmatch(step["undo_operation"]) and f"step {step['step']} " in flow["reason"]
    assert number in told.cli("flows", "list", "--parked")
    assert number in told.cli("flows", "show", number)
    told.cli("flows", "undo", number, "--preview")
    check(told.get(f"/flows/{number}"))
    posts = wait_until(lambda: told.hook.of(flow))
    assert f"recourse flows show {number}" in check(posts[0][2].decode())
    told.cli("flows", "resolve", number, "--step", "17", "--as", "done", "--reason", "r", code=1)
    told.cli("flows", "resolve", number, "--step", step["step"], "--as", "done",
             "--reason", "refunded by hand")
    told.shop.await_flow(number, "UNDONE")
    undo = next(e for e in told.proxy.events(flow=flow["flow"]) if e["undoes"] != 0)
    assert ID.fullmatch(undo["undoes"])


def test_a_step_is_named_by_text_and_never_by_a_number_with_a_point(told, token):
    flow = told.shop.park(token)
    stream, number = flow["steps"][1]["step"].split(".")
    status, problem = told.shop.post(
        f"/flows/{flow['number']}/resolve",
        f'{{"step": {stream}.{number}, "as": "done", "reason": "r"}}')
    assert status == 400 and "'step'" in problem["detail"]


def test_an_approval_is_asked_polled_and_given_by_it(told, token):
    asked = told.write(f"/mail/{token}", status=202)
    body = asked.json()
    operation = body["operation"]
    assert ID.fullmatch(operation) and ID.fullmatch(body["event"])
    poll = asked.header("Location")
    name = rf"{operation}-[0-9a-f]{{32}}\?of=[0-9a-f]{{16}}"
    assert re.fullmatch(rf"\S*/\.recourse/approvals/{name}", poll)
    path = poll[poll.index("/.recourse"):]

    def polled(target):
        answer = rawhttp.call(told.proxy.port, "GET", target)
        check(answer.body.decode())
        return answer

    assert polled(path).json()["operation"] == operation
    other = f"{STREAM}.{int(operation.split('.')[1]) + 1}"
    assert polled(path.replace(operation, other)).status == 404
    assert polled(path.replace(operation, operation.split(".")[1])).status == 404
    assert operation in check(told.proxy.by_hand("ann", "list").stdout)
    assert operation in check(told.proxy.by_hand("ann", "show", operation).stdout)
    digest = told.proxy.shown(operation)["digest"]
    done = told.proxy.by_hand("ann", "approve", operation, "--digest", digest)
    assert done.returncode == 0 and f"operation {operation} is" in check(done.stdout)
    wait_until(lambda: polled(path).json()["status"] == "finished")
    posts = wait_until(lambda: told.hook.about(operation))
    assert f"recourse approvals show {operation}" in check(posts[0][2].decode())


def test_an_unknown_operation_is_settled_by_it(told, token):
    told.shop.double.script("POST", f"/mails/{token}", ["read", "rst"], times=1)
    answer = rawhttp.call(told.proxy.port, "POST", f"/mails/{token}", body={"client_ref": "x"})
    event = answer.header("Recourse-Event")
    assert answer.status in (502, 504) and ID.fullmatch(event), answer
    said = told.cli("operations", "settle", event, "--as", "happened", "--reason", "looked")
    assert re.search(rf"operation {STREAM}\.\d+ is SUCCEEDED", said)


def test_the_stream_of_news_has_it_as_its_place(told, token):
    request = urllib.request.Request(
        f"http://127.0.0.1:{told.proxy.ports['admin']}/stream?after={STREAM}.0",
        headers={"Authorization": f"Bearer {told.proxy.token}"})
    event = told.write(f"/notes/{token}").header("Recourse-Event")
    with urllib.request.urlopen(request, timeout=WAIT_MAX) as stream:
        lines = []
        while f"id: {event}" not in lines:
            lines.append(check(stream.readline().decode().strip()))
    assert any(re.match(r'data: \{"last":"42\.\d+","gap":', line) or line.endswith("true}")
               for line in lines)


def test_exports_reports_and_heads_name_rows_by_it(told, token, tmp_path):
    told.write(f"/notes/{token}")
    lines = [json.loads(line) for line in told.cli("ledger", "export").splitlines()]
    assert ID.fullmatch(lines[0]["up_to"]) and ID.fullmatch(lines[1]["event_id"])
    rows = [json.loads(line) for line in
            told.cli("ledger", "export", "--format", "ndjson").splitlines()]
    numbers = [row["number"] for row in rows[1:-1]]
    assert numbers[0] == f"{STREAM}.1" and rows[-1]["rows"] == len(numbers)
    rest = told.cli("ledger", "export", "--format", "ndjson", "--after", numbers[-3])
    assert len(rest.splitlines()) >= 4
    exported = tmp_path / "export"
    exported.write_text(told.cli("ledger", "export"))
    replay = run_cli("policy", "replay", exported, "--policy", told.proxy.policy_path)
    assert replay.returncode == 0, replay
    for command in ("status", "verify"):
        told.cli("ledger", command)
    told.cli("report")
    told.get("/report")
    told.get("/policy")
    told.get("/events?limit=1000&flows=true")
    told.get("/ledger/rows")
    check(told.proxy.probe("/metrics")[1])


def test_spans_have_it(told, token):
    event = told.write(f"/notes/{token}", traceparent=f"00-{trace_of(token)}-b7ad6b7169203331-01")
    name = event.header("Recourse-Event")
    spans = wait_until(lambda: [s for s in told.collector.spans()
                                if s["attributes"].get("recourse.event") == name])
    assert ID.fullmatch(spans[0]["attributes"]["recourse.operation"])
    for _, _, body, _ in told.collector.requests:
        check(body.decode())


def test_a_packed_id_is_none(told, token):
    event = told.write(f"/notes/{token}").header("Recourse-Event")
    packed = str((STREAM << 36) + int(event.split(".")[1]))
    for path in (f"/events/{packed}", f"/events/{event}0000000000000", f"/events/0{event}"):
        status, _ = told.proxy.http("admin", "GET", path,
                                    headers={"Authorization": f"Bearer {told.proxy.token}"})
        assert status == 400, path
