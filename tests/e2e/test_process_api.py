"""What operators ask of the process as a whole: status, drain and the log level, by API and CLI."""

import contextlib
import json
from functools import partial

import pytest

from support import flows, rawhttp
from support.approvals import Staffed
from support.desk import admin
from support.recourse import WAIT_MAX, Recourse
from support.waiting import wait_until

RULES = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 0s }
"""


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    policy = flows.policy(double, tools=RULES)
    with Staffed(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]


@pytest.fixture
def fresh(double, tmp_path):
    with Recourse(tmp_path, flows.policy(double)) as running:
        yield running


def put_level(recourse, body):
    status, _, text = admin(
        recourse, "PUT", "/log-level", {"Authorization": f"Bearer {recourse.token}"}, body
    )
    return status, json.loads(text)


def test_status_tells_on_one_screen_what_the_api_tells(recourse, double, token):
    shop = flows.Shop(recourse, double)
    parked = shop.agent(f"{token}p")
    parked.does("orders")
    parked.script_undo("orders", flows.answer_with("403 Forbidden"))
    parked.breaks()
    parked.await_parked()
    shop.agent(f"{token}o").does("orders")
    assert rawhttp.call(recourse.port, "POST", f"/mail/{token}", host="shop.test",
                        body={"a": 1}).status == 202  # fmt: skip
    told = json.loads(recourse.cli("status", "--json").stdout)
    assert (told["state"], told["mode"], told["log_level"]) == ("ready", "enforce", "info")
    assert told["flows"] == {"open": 1, "breaking": 0, "parked": 1, "stopped": 0}
    assert told["approvals_pending"] == 1
    assert told["ledger"]["rows"] > 0 and told["policy"]["path"] == str(recourse.policy_path)
    assert told["policy"]["version"] == recourse.admin("GET", "/version")["policy_version"]
    screen = recourse.cli("status")
    assert screen.returncode == 0 and screen.stdout.count("\n") < 15, screen
    for line in (
        "state        ready", "mode         enforce", "writes       accepted",
        f"policy       {told['policy']['version']} from {recourse.policy_path}",
        "flows        1 open, 0 being undone, 1 parked (recourse flows list --parked), 0 stopped",
        "approvals    1 waiting (recourse approvals list)",
    ):  # fmt: skip
        assert line in screen.stdout


def test_the_log_level_changes_at_once_and_only_to_what_there_is(fresh):
    assert fresh.cli("log-level").stdout == "info\n"
    assert fresh.cli("log-level", "error").stdout == "error\n"
    assert fresh.cli("drain").returncode == 0
    assert '"msg":"draining"' not in fresh.stderr(), "a line of info"
    assert json.loads(fresh.cli("log-level", "info", "--json").stdout) == {"level": "info"}
    for bad in ("", "{}", '{"level":"loud"}', '{"level":1}', '{"level":"info","x":1}', "[1]"):
        status, problem = put_level(fresh, bad)
        assert status == 400 and "debug, info, warn, error" in problem["detail"], bad


def test_no_log_level_hides_what_operators_did_and_who_failed_to_log_in(fresh):
    def lines(what):
        told = [json.loads(line) for line in fresh.stderr().splitlines() if what in line]
        return [line for line in told if line["msg"] == what]

    def orders():
        return [line["action"] for line in lines("an operator's order")]

    before = orders()
    assert fresh.cli("log-level", "error").returncode == 0
    fresh.admin("POST", "/policy/reload")
    assert orders() == [*before, "PUT /log-level", "POST /policy/reload"]
    assert admin(fresh, "GET", "/status", {"Authorization": "Bearer guessed"})[0] == 401
    (failed,) = lines("a login at the admin port failed")
    assert failed["level"] == "warn"


def test_a_drain_ends_what_runs_takes_nothing_new_and_leaves_the_process_for_operators(
    fresh, double, token
):
    path = f"/slow/{token}"
    double.script("GET", path, [
        "read", {"gate": token}, {"send": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
    ], 1)  # fmt: skip
    with rawhttp.Connection(fresh.port) as kept, rawhttp.Connection(fresh.port) as busy:
        kept.send(rawhttp.render("GET", f"/read/{token}", "shop.test"))
        assert kept.response("GET").status == 200
        busy.send(rawhttp.render("GET", path, "shop.test"))
        double.await_requests("GET", path)
        drained = fresh.cli("drain", "--json")
        assert drained.returncode == 0, drained
        assert (told := json.loads(drained.stdout))["state"] == "draining" and not told["settled"]
        assert fresh.probe("/ready")[0] == 503
        wait_until(lambda: refuses(fresh), what="a closed listener")
        late = fresh.cli("drain", "--wait", "100ms")
        assert late.returncode == 1 and "the time of --wait is over" in late.stderr
        double.open_gate(token)
        assert busy.response("GET").body == b"ok"
    settled = fresh.cli("drain", "--wait", f"{int(WAIT_MAX) - 5}s")
    assert settled.returncode == 0 and "draining, settled" in settled.stdout, settled
    assert "writes       refused: draining\n" in settled.stdout, settled
    assert fresh.running() and fresh.admin("GET", "/ledger")["latched"] is False
    assert fresh.stderr().count('"msg":"draining"') == 1
    assert fresh.stop() == 0


def test_what_had_begun_to_arrive_when_a_drain_began_is_answered_and_no_new_write_is_sent(
    fresh, double, token
):
    """Idle connections are closed: who had not begun to ask loses nothing."""
    begun, late, read = f"/plain/{token}", f"/plain/{token}late", f"/read/{token}"
    expects = [("Expect", "100-continue"), ("Content-Length", "1")]
    with contextlib.ExitStack() as stack:
        connect = partial(rawhttp.Connection, fresh.port)
        writes, late_writes, reads = (stack.enter_context(connect()) for _ in range(3))
        writes.send(rawhttp.render("POST", begun, "shop.test", expects, length=False))
        assert writes.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        rests = {}
        for connection, method, path in ((late_writes, "POST", late), (reads, "GET", read)):
            whole = rawhttp.render(method, path, "shop.test")
            connection.send(whole[:20])
            rests[connection] = whole[20:]
            wait_until(lambda asking=connection: is_read(asking), "its first bytes were not read")
        assert fresh.cli("drain").returncode == 0
        writes.send(b"x")
        assert (answer := writes.response("POST")).status == 201
        assert answer.header("Connection") == "close" and writes.at_end()
        late_writes.send(rests[late_writes])
        refused = late_writes.response("POST")
        assert (refused.status, refused.header("Connection")) == (503, "close"), refused
        told = refused.json()
        assert told["type"].endswith("/draining") and told["retryable"] is True, told
        assert told["outcome"] == refused.outcome == "not_executed"
        assert late_writes.at_end()
        reads.send(rests[reads])
        assert (answer := reads.response("GET")).status == 200
        assert answer.header("Connection") == "close" and reads.at_end()
    assert len(double.effects(begun)) == 1 and double.requests(late) == []
    assert len(double.requests(read)) == 1
    assert not fresh.events_for(late), "nothing is claimed, so the next process executes it"


def is_read(connection):
    """Whether the process has read all that was sent to it: its kernel holds nothing more."""
    mine = f":{connection.socket.getsockname()[1]:04X}"
    for line in open("/proc/net/tcp", encoding="ascii"):
        _, _, peer, state, queues, *_ = line.split()
        if peer.endswith(mine) and state == "01":
            return queues.endswith(":00000000")
    return False


def refuses(recourse):
    try:
        rawhttp.Connection(recourse.port).close()
        return False
    except (ConnectionRefusedError, ConnectionResetError):  # reset: closed while it was made
        return True


LETTERS = """\
  letters.send:
    match: POST shop /letters/{token}
    effect: write
    undo: none
    reason: a letter cannot be called back
"""


def uncertain(recourse):
    return recourse.admin("GET", "/ledger")["uncertain"]


def test_a_drain_waits_for_what_a_probe_may_tell_and_not_for_what_nothing_can(
    double, tmp_path, token
):
    with Recourse(tmp_path, flows.policy(double, tools=LETTERS)) as recourse:
        agent = flows.Shop(recourse, double).agent(token)
        for kind in ("letters", "orders"):
            agent.script(kind, ["read", "fin"])
        found = json.dumps({"items": [{"id": "o-1"}]})
        double.script("GET", f"/orders/{token}", ["read", {"gate": token}, {
            "send": f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(found)}\r\n\r\n{found}"}])  # fmt: skip
        for kind in ("letters", "orders"):
            assert agent.call(kind).status in (502, 504)
        assert uncertain(recourse) == 2
        early = recourse.cli("drain", "--wait", "1s")
        assert early.returncode == 1 and "draining, not settled yet" in early.stdout, early
        double.open_gate(token)
        settled = recourse.cli("drain", "--wait", f"{int(WAIT_MAX) - 5}s")
        assert settled.returncode == 0 and "1 of unknown outcome" in settled.stdout, settled
        assert recourse.stop() == 0
        recourse.start()
        again = recourse.cli("drain", "--wait", f"{int(WAIT_MAX) - 5}s")
        assert again.returncode == 0 and uncertain(recourse) == 1, again


def test_a_drain_lets_flows_be_undone(fresh, double, token):
    agent = flows.Shop(fresh, double).agent(token)
    agent.does("orders", "payments")
    agent.script_undo("payments", ["read", "fin"])  # tried again after a while
    agent.breaks()
    settled = fresh.cli("drain", "--wait", f"{int(WAIT_MAX) - 5}s", "--json")
    assert settled.returncode == 0, settled
    none = {"open": 0, "breaking": 0, "parked": 0, "stopped": 0}
    assert json.loads(settled.stdout)["flows"] == none
    assert agent.undone() == ["payments", "orders"]
