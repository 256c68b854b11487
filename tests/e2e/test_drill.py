"""`recourse drill`: kills itself at every durable point of a policy's flows."""

import json
import pathlib
import re
import signal
import subprocess
import tempfile

import pytest
import yaml

from support.pages import blocks, shows, transcript
from support.recourse import BINARY, ROOT, WAIT_MAX, environment, run_cli
from support.waiting import wait_until

EXAMPLES = ROOT / "policy/examples"
PACKS = ROOT / "policy/packs"
DRILL_MAX = 5 * WAIT_MAX

SHOP = """\
version: 1
backends:
  shop: { url: "http://shop.invalid" }
  pay:
    url: "https://pay.invalid"
    key_header: Idempotency-Key
    tls: { ca_file: /nowhere/ca.pem }
tools:
  orders.create:
    match: POST shop /orders
    effect: write
    identity: [ body#/cart ]
    settle:
      request: "GET /orders?cart={body#/cart}"
      happened: answer.body#/0/id
      absent_after: 2s
    undo: { request: "DELETE /orders/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
  payments.charge:
    match: POST pay /charges
    effect: write
    identity: [ body#/order ]
    breaks_flow: on_failure
    undo:
      request: "POST /refunds"
      json: { charge: "{external_ref}" }
      repeatable: by_key
      credentials: { Authorization: { file: /nowhere/token, prefix: "Bearer " } }
flows:
  checkout:
    tools: [ orders.create, payments.charge ]
    ends_with: payments.charge
    deadline: 10m
    on_deadline: undo
flow_rules:
  webhook: { url: "https://pager.invalid/hook", secret_file: /nowhere/hook }
"""

MIXED = """\
version: 1
backends:
  shop: { url: "http://shop.invalid/mcp", protocol: mcp }
  pay: { url: "http://shop.invalid", key_header: Idempotency-Key }
tools:
  orders.find: { match: tools/call shop find_order, effect: read }
  orders.create:
    match: [ "tools/call shop create_*" ]
    effect: write
    identity: [ body#/cart ]
    settle:
      call: find_order
      arguments: { cart: "{body#/cart}" }
      happened: answer.body#/id
      absent: answer.body#/found == false
      absent_after: 2s
    undo:
      call: cancel_order
      arguments: { id: "{external_ref}" }
      done_when: answer.body#/state == "canceled"
      repeatable: true
  orders.cancel: { match: tools/call shop cancel_order, effect: write, reason: it undoes }
  payments.charge:
    match: POST pay /charges
    effect: write
    identity: [ body#/order ]
    breaks_flow: on_failure
    undo: { request: "POST /refunds", json: { charge: "{external_ref}" }, repeatable: by_key }
  orders.confirm:
    match: tools/call shop confirm_order
    effect: write
    identity: [ body#/id ]
    breaks_flow: on_failure
    undo: none
    approval: { by: [ team ] }
flows:
  checkout: { tools: [ orders.create, payments.charge, orders.confirm ], ends_with: orders.confirm }
"""

UNUSUAL = """\
version: 1
backends:
  shop: { url: "http://shop.invalid" }
tools:
  cache.purge: { match: PURGE shop /cache, effect: write, undo: none, reason: it fills again }
"""


WORDS = """\
version: 1
backends:
  shop: { url: "http://shop.invalid" }
  pay: { url: "http://pay.invalid", key_at: body#/idempotency_key, key_form: "alnum:45" }
tools:
  issues.update:
    match: PATCH shop /issues/{id}
    effect: write
    identity: [ path.id ]
    settle: { request: "GET /log?issue={path.id}", happened: answer.body#/0/id, absent_after: 2s }
    before: { request: "GET /issues/{path.id}", version: header.ETag,
              keep: [ body#/title, body#/labels ] }
    undo: { request: "PATCH /issues/{path.id}", only_if: unchanged,
            json: { title: "{before.body#/title}", labels: "{before.body#/labels}" } }
  payments.create:
    match: POST pay /payments
    effect: write
    identity: [ body#/order ]
    breaks_flow: on_failure
    undo:
      - when: answer.body#/status == "held"
        request: "POST /payments/{external_ref}/cancel"
        repeatable: true
      - request: "POST /refunds"
        json: { payment: "{external_ref}" }
        key_at: body#/idempotency_key
        repeatable: by_key
flows:
  checkout: { tools: [ issues.update, payments.create ], ends_with: payments.create }
"""


@pytest.fixture
def tmp_path():
    """In memory, as hundreds of ledgers here are killed by no power cut. One drill has a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield pathlib.Path(folder)


def drill(tmp_path, policy, *arguments):
    path = tmp_path / "policy.yaml"
    path.write_text(policy)
    return run_cli("drill", "--policy", path, "--tmp", tmp_path, *arguments, timeout=DRILL_MAX)


def test_a_sound_policy_keeps_the_promise_wherever_it_is_killed_and_nothing_real_is_asked(
    tmp_path, double
):
    real = SHOP.replace("http://shop.invalid", f"http://127.0.0.1:{double.port}")
    done = drill(tmp_path, real, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["kept"] and found["broken"] == found["not_run"] == 0
    assert found["kills"] > 100 and found["not_reached"] <= found["runs"] // 10
    ends = {
        "every step succeeds": ("COMMITTED", 2, 0),
        "payments.charge is refused, which breaks the flow": ("UNDONE", 1, 1),
        "an operator cancels it": ("UNDONE", 1, 1),
        "the answer of payments.charge is lost": ("COMMITTED", 2, 0),
        "the agent dies after 1 of 2 steps, and the deadline passes": ("UNDONE", 1, 1),
    }
    killed = set()
    for row in found["rows"]:
        assert row["promise"] in ("kept", "not_reached"), row
        end = (row["phase"], row["effects"], row["undone"])
        if row["killed"] == "none":
            assert end == ends[row["scenario"]], row
        elif end == ends[row["scenario"]]:  # else its agent gave up before it was answered
            killed.add((row["scenario"], row["killed"]))
    assert killed == {(what, when) for what in ends for when in ("before", "after", "twice")}
    assert double.record() == []
    places = {row["at"] for row in found["rows"]}
    undo = "undo of orders.create DISPATCHING"
    assert {"payments.charge DISPATCHING", "flow UNDOING", undo} <= places
    assert list(tmp_path.glob("recourse-drill-*")) == []


def test_the_reference_policy_keeps_the_promise(tmp_path_factory):
    path = EXAMPLES / "reference.yaml"
    ((command, expected),) = transcript(blocks("proxy/drill/README.md")[0])
    assert command == f"recourse drill --policy {path.relative_to(ROOT)}\n"
    disk = tmp_path_factory.mktemp("drill")
    done = run_cli("drill", "--policy", path, "--tmp", disk, timeout=DRILL_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    assert shows(expected, done.stdout), done.stdout
    lines = done.stdout.splitlines()
    assert "    KILLED " in done.stdout and "BROKEN" not in done.stdout
    assert any(line.startswith("promise kept: ") for line in lines), done.stdout
    places = [line for line in lines if "mail.send " in line]
    for phase in ("CLAIMED", "APPROVED", "DISPATCHING", "SUCCEEDED"):
        assert any(f"mail.send {phase}" in line for line in places), (phase, done.stdout)


def test_steps_that_are_tools_of_an_mcp_server_are_drilled(tmp_path):
    done = drill(tmp_path, MIXED, "--flow", "checkout", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["kept"] and found["broken"] == found["not_run"] == 0 and found["kills"] > 50
    ends = {
        (row["scenario"], row["phase"], row["effects"], row["undone"])
        for row in found["rows"]
        if row["killed"] == "none"
    }
    assert ("every step succeeds", "COMMITTED", 3, 0) in ends, ends
    assert ("orders.confirm is refused, which breaks the flow", "UNDONE", 2, 2) in ends, ends
    assert "orders.create SUCCEEDED" in {row["at"] for row in found["rows"]}
    assert "speaks mcp" not in done.stdout


def test_an_update_is_put_back_and_keys_in_bodies_are_known_again(tmp_path):
    done = drill(tmp_path, WORDS, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    ends = {
        (row["scenario"], row["phase"], row["effects"], row["undone"])
        for row in found["rows"]
        if row["killed"] == "none"
    }
    assert ("payments.create is refused, which breaks the flow", "UNDONE", 1, 1) in ends, ends
    assert ("every step succeeds", "COMMITTED", 2, 0) in ends, ends
    assert "not played" not in done.stderr
    refunded = [row for row in found["rows"] if "undo request 2" in row["scenario"]]
    assert refunded == [], "who ends a flow is not undone"
    assert re.search(r"^.+: \d+ runs are done$", done.stderr, re.M), done.stderr


def test_a_claim_of_the_policy_that_is_false_breaks_the_promise(tmp_path):
    claims = {
        "key_header": "payments.charge took effect 2 times",
        "repeatable": "the effect of orders.create was undone 2 times",
        "absent_after": "orders.create took effect 2 times",
    }
    doubts = [word for claim in claims for word in ("--doubt", claim)]
    done = drill(tmp_path, SHOP, *doubts)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PROMISE BROKEN" in done.stdout
    forgotten = drill(tmp_path, SHOP, "--doubt", "key_lives", "--doubt", "done")
    assert forgotten.returncode == 1 and "Doubted: key_lives." in forgotten.stdout
    assert f"      {claims['key_header']}\n" in forgotten.stdout
    assert "Doubted: done." in forgotten.stdout
    stands = "the log says that orders.create is undone, but its effect stands"
    assert f"      {stands}\n" in forgotten.stdout
    for claim, how in claims.items():
        assert f"Doubted: {claim}." in done.stdout
        assert f"      {how}\n" in done.stdout


JOBS = """\
version: 1
backends: { shop: { url: "http://shop.invalid" } }
tools:
  stock.import:
    match: POST shop /imports
    effect: write
    settle: none
    identity: body#/file
    settled_by: { request: "GET /jobs/{answer.body#/job}", until: answer.body#/state == "done" }
    undo: { request: "DELETE /imports/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
"""


def test_a_job_that_says_done_of_what_never_took_effect_breaks_the_promise(tmp_path):
    sound = drill(tmp_path, JOBS)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    done = drill(tmp_path, JOBS, "--doubt", "settled_by")
    assert done.returncode == 1 and "Doubted: settled_by." in done.stdout
    assert "      the log says SUCCEEDED of stock.import, which had no effect\n" in done.stdout


# What a tool of a pack rests on, as far as others say so than the API's own documents: without it
# the promise breaks.
RESTS_ON = [
    ("google-calendar", "calendar.event.insert", "happened_if"),
    ("google-calendar", "calendar.event.insert", "repeatable"),
    ("linear", "linear.issue.create", "happened_if"),
    ("microsoft-graph", "graph.event.create", "happened_if"),
    ("pagerduty", "pagerduty.incident.create", "happened_if"),
    ("paypal", "paypal.order", "key_hit"),
    ("paypal", "paypal.order.authorize", "done"),
    ("paypal", "paypal.order.capture", "done"),
    ("paypal", "paypal.order.capture", "happened_if"),
    ("shopify", "shopify.refund.create", "key_after_failure"),
    ("shopify", "shopify.refund.create", "key_lives"),
    ("square", "square.payment", "key_after_failure"),
    ("square", "square.payment", "key_lives"),
    ("zendesk", "zendesk.ticket.create", "key_header"),
    ("zendesk", "zendesk.ticket.create", "key_hit"),
    ("zendesk", "zendesk.ticket.create", "key_lives"),
]


@pytest.mark.parametrize("pack, tool, claim", RESTS_ON)
def test_a_pack_rests_on_what_others_say_of_its_api(tmp_path, pack, tool, claim):
    policy = yaml.safe_load((PACKS / f"{pack}.yaml").read_text())
    policy.pop("tests")
    policy["tools"] = {tool: policy["tools"][tool]}
    done = drill(tmp_path, yaml.safe_dump(policy, width=10_000), "--doubt", claim)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr
    assert f"Doubted: {claim}." in done.stdout and "PROMISE BROKEN" in done.stdout


def test_a_policy_with_errors_is_refused_as_policy_check_refuses_it(tmp_path):
    done = drill(tmp_path, SHOP.replace("absent_after", "absent_aftr"))
    assert done.returncode == 2
    checked = run_cli("policy", "check", tmp_path / "policy.yaml").stdout.splitlines()
    errors = [line for line in checked if ": error: " in line and "absent_aftr" in line]
    assert errors and all(line in done.stderr.splitlines() for line in errors), done.stderr
    assert list(tmp_path.glob("recourse-drill-*")) == []


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--flow", "chekout"], "names no flow, or none that can be drilled; accepted: checkout"),
        (["--doubt", "me"], "--doubt"),
        (["--timeout", "soon"], "'soon' is not a duration"),
    ],
)
def test_what_cannot_be_drilled_is_a_usage_error(tmp_path, arguments, says):
    done = drill(tmp_path, SHOP, *arguments)
    assert done.returncode == 2
    assert says in done.stderr + done.stdout


def test_calls_that_wait_for_a_human_are_approved_and_drilled(tmp_path):
    pack = PACKS / "sendgrid.yaml"
    done = run_cli("drill", "--policy", pack, "--tmp", tmp_path, timeout=DRILL_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sendgrid.send APPROVED" in done.stdout and "promise kept: " in done.stdout


def test_a_policy_of_which_nothing_can_be_drilled_says_why(tmp_path):
    done = drill(tmp_path, UNUSUAL)
    assert done.returncode == 2
    assert "cache.purge: its method PURGE is none of" in done.stderr, done.stderr


def test_a_drill_without_a_place_for_its_files_says_which_flag_names_one(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(SHOP)
    done = run_cli("drill", "--policy", path, "--tmp", tmp_path / "none")
    assert done.returncode == 2 and "--tmp" in done.stderr, done.stderr


def test_a_drill_that_ran_out_of_time_proves_nothing(tmp_path):
    done = drill(tmp_path, SHOP, "--timeout", "100ms")
    assert done.returncode == 1
    assert "NOT PROVEN" in done.stdout and "for want of time" in done.stdout


def processes_of(directory):
    """Process ids whose command line names the directory, which a fork has from its parent."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(directory).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_drill_that_is_ended_leaves_no_process_and_no_directory(tmp_path, name):
    path = tmp_path / "policy.yaml"
    path.write_text(SHOP)
    command = [BINARY, "drill", "--policy", str(path), "--tmp", str(tmp_path)]
    # Whoever runs the tests in the background has this signal ignored, and so would the drill.
    running = subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        wait_until(lambda: list(tmp_path.glob("*/run-*/data/data.mdb")), "no proxy was started")
        assert len(processes_of(tmp_path)) > 3
    finally:
        running.send_signal(signal.Signals[name])
        assert running.wait(WAIT_MAX) == -signal.Signals[name]
    wait_until(lambda: not processes_of(tmp_path), "a process of the drill is left")
    assert list(tmp_path.glob("recourse-drill-*")) == []
