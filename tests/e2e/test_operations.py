"""What operators meet: exit codes, the lock, probes, events, logs without secrets, the CLI."""

import json
import os
import re
import signal

import pytest

from support import rawhttp
from support.double import Double
from support.policies import standard
from support.recourse import NotReady, Recourse, run_cli
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CANARY = "canary-7f3a91"
WRITE = {
    "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
    "Authorization": f"Bearer {CANARY}-authorization",
    "Cookie": f"session={CANARY}-cookie",
    "X-Api-Key": f"{CANARY}-api-key",
    "Idempotency-Key": f"{CANARY}-key",
}
# How long a drain takes is also how long the next process waits for its end.
WAITS = "waiting for the process that holds the ledger"
NO_WAIT = ["--drain-timeout", "0s"]


def test_a_second_process_on_the_same_ledger_is_refused(proxy, double, tmp_path):
    second = Recourse(tmp_path, standard(double), NO_WAIT)
    second.data = proxy.data
    with pytest.raises(NotReady):
        second.start()
    assert second.process.returncode == 78
    assert proxy.probe("/ready")[0] == 200, "the first process was disturbed"


def test_the_next_process_waits_for_one_that_drains(double, tmp_path, token):
    path, reply = f"/plain/{token}", "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
    double.script("POST", path, ["read", {"gate": token}, {"send": reply}], 1)
    write = rawhttp.render("POST", path, "shop.test", WRITE, b"{}")
    policy, arguments = standard(double, timeout="1h"), ["--drain-timeout", "1h"]
    first = Recourse(tmp_path / "first", policy, arguments)
    second = Recourse(tmp_path / "second", policy, arguments)
    second.data = first.data
    with first, rawhttp.Connection(first.port) as held:
        held.send(write)
        double.await_requests("POST", path)
        first.terminate()
        second.spawn()
        try:
            wait_until(lambda: WAITS in second.stderr(), second.stderr)
            second.terminate()
            assert second.wait() == 0, "a signal ends the wait"
            second.stderr_path.unlink()
            second.spawn()
            wait_until(lambda: WAITS in second.stderr(), second.stderr)
            double.open_gate(token)
            assert held.response("POST").status == 201
            assert first.wait() == 0
            wait_until(second.listens, second.stderr)
            second.ports = json.loads(second.ports_path.read_text())
            with rawhttp.Connection(second.port) as again:
                again.send(write)
                answer = again.response("POST")
            assert answer.status == 201 and answer.header("Idempotent-Replayed") == "true"
            assert second.stop() == 0
        finally:
            second.kill()
    assert len(double.requests(path)) == 1


@pytest.mark.parametrize("damage", ["garbage", "truncated"])
def test_a_damaged_ledger_is_refused_and_left_alone(double, tmp_path, token, damage):
    process = Recourse(tmp_path, standard(double))
    with process:
        rawhttp.call(process.port, "POST", f"/plain/{token}", body={"a": 1})
        assert process.stop() == 0
    path = process.data / "data.mdb"
    data = path.read_bytes()
    path.write_bytes(b"\x5a" * 65536 if damage == "garbage" else data[: 4096 * 2])
    before = path.read_bytes()
    with pytest.raises(NotReady):
        process.start()
    assert process.process.returncode == 78, process.stderr()[-2000:]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 1\nbackends: { a: { url: \"http://127.0.0.1:1\", nonsense: 1 } }\n",
        "version: 1\nbackends: { a: { url: \"http://127.0.0.1:1\" }, a: { url: \"http://b\" } }\n",
        "version: 1\ntools: { a: { match: POST nowhere /x, effect: read } }\n",
        "version: [\n",
    ],
)
def test_an_invalid_policy_is_exit_3_and_says_where(tmp_path, text):
    process = Recourse(tmp_path, text)
    with pytest.raises(NotReady):
        process.start()
    assert process.process.returncode == 3
    assert "policy.yaml" in process.stderr() + process.stdout()
    checked = run_cli("policy", "check", process.policy_path)
    assert checked.returncode == 3
    assert "policy.yaml:" in checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "--nonsense"],
        ["run", "--policy", "POLICY", "--data", "DATA", "--listen", "not-an-address"],
        ["nonsense"],
        ["events", "list", "--limit", "many"],
    ],
)
def test_wrong_usage_is_exit_2(double, tmp_path, arguments):
    policy = tmp_path / "policy.yaml"
    policy.write_text(standard(double))
    places = {"POLICY": policy, "DATA": tmp_path / "data"}
    ended = run_cli(*[places.get(argument, argument) for argument in arguments])
    assert ended.returncode == 2, (ended.stdout, ended.stderr)
    assert ended.stderr or ended.stdout


def test_a_port_in_use_is_exit_1(proxy, double, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(standard(double))
    ended = run_cli(
        "run", "--policy", policy, "--data", tmp_path / "data",
        "--listen", f"127.0.0.1:{proxy.port}", "--admin", "127.0.0.1:0", "--probes", "127.0.0.1:0",
    )  # fmt: skip
    assert ended.returncode == 1 and str(proxy.port) in ended.stderr


def test_flags_win_over_the_environment(double, tmp_path, token):
    env = {"RECOURSE_LISTEN": "127.0.0.1:1", "RECOURSE_ACCESS_LOG": str(tmp_path / "access.log")}
    with Recourse(tmp_path, standard(double), env=env) as process:
        assert rawhttp.call(process.port, "GET", f"/read/{token}").status == 200
        assert process.stop() == 0
    lines = (tmp_path / "access.log").read_text().splitlines()
    assert [json.loads(line) for line in lines] and process.stdout() == ""


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version_is_told_by_the_binary(flag):
    done = run_cli(flag)
    assert done.returncode == 0 and re.fullmatch(r"recourse \d+\.\d+\.\d+.*\n", done.stdout), done


def test_version_is_told(proxy):
    ended = run_cli("version")
    assert ended.returncode == 0 and ended.stdout.strip()
    assert proxy.admin("GET", "/version")


def test_probes_and_metrics(proxy, token):
    rawhttp.call(proxy.port, "POST", f"/plain/{token}", body={"a": 1})
    assert proxy.probe("/live")[0] == 200
    assert proxy.probe("/ready")[0] == 200
    status, text = proxy.probe("/metrics")
    assert status == 200
    assert "# TYPE recourse_" in text
    for line in text.splitlines():
        if not line.startswith("#") and line:
            float(line.rpartition(" ")[2])
    assert token not in text, "paths must not become metric labels"
    assert proxy.probe("/nonsense")[0] == 404


def test_the_admin_listener_wants_its_token(proxy):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": proxy.token}):
        status, _ = proxy.http("admin", "GET", "/events", headers=headers)
        assert status == 401
    status, _ = proxy.http("probes", "GET", "/events",
                           headers={"Authorization": f"Bearer {proxy.token}"})  # fmt: skip
    assert status == 404


def test_without_a_token_file_the_admin_listener_is_closed_to_all(double, tmp_path):
    with Recourse(tmp_path, standard(double), token=False) as process:
        for headers in ({}, {"Authorization": "Bearer "}):
            assert process.http("admin", "GET", "/events", headers=headers)[0] == 401


def test_the_proxy_never_forwards_to_its_own_listeners(double, tmp_path, token):
    with Recourse(tmp_path, standard(double)) as process:
        for port in process.ports.values():
            answer = rawhttp.call(process.port, "GET", "/events", host=f"localhost:{port}")
            assert answer.status in (403, 508)


def test_events_are_listed_and_shown(proxy, double, token):
    path = f"/plain/{token}"
    answer = rawhttp.call(proxy.port, "POST", path, headers=WRITE, body={"client_ref": token})
    number = answer.header("Recourse-Event")
    shown = proxy.cli("events", "show", number, "--json")
    assert shown.returncode == 0, shown.stderr
    event = json.loads(shown.stdout)
    assert str(event["event_id"]) == number and event["path"] == path
    assert event["status"] == "SUCCESS" and event["phase"] == "SUCCEEDED"
    assert event["external_ref"] == double.effects(path)[0]["id"]
    assert event["http_status"] == 201 and event["method"] == "POST"
    people = proxy.cli("events", "show", number)
    assert people.returncode == 0 and event["tool"] in people.stdout
    for arguments in (["--status", "SUCCESS"], ["--tool", "plain.create"], ["--limit", "1"], []):
        listed = proxy.cli("events", "list", *arguments)
        assert listed.returncode == 0 and listed.stdout.strip(), listed.stderr
    assert proxy.cli("events", "show", "999999999").returncode == 1


def test_operations_are_listed_by_what_the_admin_api_knows_them_by(proxy, double, token):
    trace = f"{abs(hash(token)):032x}"[-32:]
    path = f"/plain/{token}"
    answer = rawhttp.call(proxy.port, "POST", path, headers=rawhttp.traced(trace),
                          body={"client_ref": token})
    assert answer.status == 201
    (event,) = [one for one in proxy.admin("GET", f"/operations?trace={trace}")["operations"]]
    for name, value in (("trace", trace), ("flow", trace), ("value", event["external_ref"])):
        listed = json.loads(proxy.cli("operations", "list", f"--{name}", value, "--json").stdout)
        assert listed == [event], name
    for name in ("status", "caller"):
        listed = proxy.cli("operations", "list", f"--{name}", event[name], "--json")
        assert event in json.loads(listed.stdout), name
    nobody = proxy.cli("operations", "list", "--trace", trace, "--caller", "nobody-else")
    assert nobody.stdout == "none\n", nobody
    rows = json.loads(proxy.cli("events", "list", "--flow", trace, "--json").stdout)
    assert rows and {one["flow"] for one in rows} == {trace}


def test_a_list_that_was_cut_says_so_and_the_newest_come_first_if_they_are_asked_for(proxy, token):
    for number in range(3):
        rawhttp.call(proxy.port, "POST", f"/plain/{token}-{number}", headers=WRITE | {
            "Idempotency-Key": f"{token}-{number}"}, body={"a": number})  # fmt: skip
    everything = [event["event_id"] for event in proxy.events()]
    cut = proxy.cli("events", "list", "--limit", "2", "--json")
    assert [event["event_id"] for event in json.loads(cut.stdout)] == everything[:2]
    assert "more follow" in cut.stderr and f"--after {everything[1]}" in cut.stderr, cut.stderr
    whole = proxy.cli("events", "list", "--limit", "100000", "--json")
    assert whole.stderr == "" and len(json.loads(whole.stdout)) >= len(everything)
    newest = proxy.cli("events", "list", "--newest", "--limit", "2", "--json")
    assert [event["event_id"] for event in json.loads(newest.stdout)] == everything[:-3:-1]
    assert "larger --limit" in newest.stderr
    succeeded = ["--newest", "--phase", "SUCCEEDED", "--tool", "plain.create", "--limit", "1"]
    people = proxy.cli("events", "list", *succeeded).stdout.splitlines()
    assert len(people) == 2 and people[1].split()[0] == str(everything[-1]), people
    all_of_them = proxy.cli("events", "list", "--newest", "--limit", "100000", "--json")
    listed = [event["event_id"] for event in json.loads(all_of_them.stdout)]
    assert listed == sorted(listed, reverse=True) and set(everything) <= set(listed)
    assert all_of_them.stderr == ""


def test_events_are_filtered_and_paged(proxy, token):
    for number in range(5):
        rawhttp.call(proxy.port, "POST", f"/plain/{token}-{number}", headers=WRITE | {
            "Idempotency-Key": f"{token}-{number}"}, body={"a": number})  # fmt: skip
    page = proxy.admin("GET", "/events?limit=3")
    assert len(page["events"]) == 3 and page["next"] == page["events"][-1]["event_id"]
    everything = proxy.events()
    numbers = [event["event_id"] for event in everything]
    assert numbers == sorted(set(numbers))
    pending = proxy.events(status="PENDING")
    assert pending and {e["status"] for e in pending} == {"PENDING"}
    succeeded = proxy.events(phase="SUCCEEDED", tool="plain.create")
    assert {(e["phase"], e["tool"]) for e in succeeded} == {("SUCCEEDED", "plain.create")}
    one = proxy.events(operation=everything[-1]["operation"])
    assert {e["operation"] for e in one} == {everything[-1]["operation"]}
    one_event = proxy.admin("GET", f"/events/{everything[0]['event_id']}")
    assert one_event.get("event", one_event)["event_id"] == everything[0]["event_id"]


@pytest.mark.parametrize(
        "query",
    ["limit=0", "limit=abc", "after=-1", "status=NONSENSE", "phase=x", "trace=zzz", "unknown=1"],
)
def test_a_bad_event_filter_is_refused(proxy, query):
    status, _ = proxy.http(
        "admin", "GET", f"/events?{query}", headers={"Authorization": f"Bearer {proxy.token}"}
    )
    assert status == 400


def test_the_ledger_can_be_verified(proxy, token):
    rawhttp.call(proxy.port, "POST", f"/plain/{token}", body={"a": 1})
    report = proxy.verify()
    events = proxy.events()
    assert report["ok"] is True and report["rows"] == report["last_id"]
    assert len(events) <= report["rows"] and events[-1]["event_id"] <= report["last_id"]
    ended = proxy.cli("ledger", "verify")
    assert ended.returncode == 0, ended.stderr
    wrong = run_cli("ledger", "verify", "--admin", f"127.0.0.1:{proxy.ports['admin']}")
    assert wrong.returncode == 1


def test_policy_explain_names_the_tool(proxy, token):
    ended = run_cli("policy", "explain", proxy.policy_path, f"POST http://shop.test/plain/{token}")
    assert ended.returncode == 0, ended.stderr
    assert "plain.create" in ended.stdout and "write" in ended.stdout
    assert run_cli("policy", "check", proxy.policy_path).returncode == 0
    assert run_cli("policy", "test", proxy.policy_path).returncode == 0


def test_no_secret_reaches_a_log(tmp_path):
    """Canaries in headers, bodies, queries and answers occur in no log, metric or stored path."""
    double = Double(str(tmp_path))
    try:
        body = {"client_ref": f"{CANARY}-body", "card": f"{CANARY}-card"}
        with Recourse(tmp_path / "r", standard(double, timeout="60s"),
                      ["--log-level", "debug"]) as process:  # fmt: skip
            for path in ("/plain/a", "/probed/a", "/plain/a"):
                rawhttp.call(process.port, "POST", f"{path}?token={CANARY}-query", headers=WRITE
                             | {"Idempotency-Key": f"{CANARY}-{path}"}, body=body)  # fmt: skip
            rawhttp.call(process.port, "GET", f"/read/x?token={CANARY}-query", headers=WRITE)
            rawhttp.call(process.port, "POST", "/plain/a", host="unknown.test", headers=WRITE,
                         body=body)  # fmt: skip
            rawhttp.exchange(process.port, f"POST /{CANARY} x\r\n{CANARY}: \0\r\n\r\n".encode())
            double.script("POST", "/plain/lost", ["read", "rst"], 1)
            rawhttp.call(process.port, "POST", "/plain/lost", headers={}, body=body)
            metrics = process.probe("/metrics")[1]
            events = json.dumps(process.events())
            assert process.stop() == 0
        access = process.access_log()
        assert len(access) >= 6
        assert CANARY not in process.stderr()
        assert CANARY not in metrics
        assert CANARY not in events
        assert f"{CANARY}-" not in process.stdout()
        for line in process.stderr().splitlines():
            json.loads(line)
        stored = b"".join(p.read_bytes() for p in process.data.rglob("*") if p.is_file())
        for secret in ("authorization", "cookie", "api-key"):
            assert f"{CANARY}-{secret}".encode() not in stored
        assert b"backend-secret" not in stored, "Set-Cookie of an answer was stored"
    finally:
        double.stop()


def test_access_log_lines_tell_what_happened(double, tmp_path, token):
    path = f"/plain/{token}"
    with Recourse(tmp_path, standard(double)) as process:
        for _ in range(2):
            rawhttp.call(process.port, "POST", path, headers=WRITE, body={"a": 1})
        rawhttp.call(process.port, "GET", f"/read/{token}", headers=WRITE)
        assert process.stop() == 0
    lines = process.access_log()
    assert len(lines) == 3
    text = [json.dumps(line) for line in lines]
    assert all("201" in line and "plain.create" in line for line in text[:2])
    assert all(TRACE in line for line in text)


def test_the_ports_file_appears_when_everything_listens(double, tmp_path):
    with Recourse(tmp_path, standard(double)) as process:
        assert set(process.ports) == {"listen", "admin", "probes"}
        assert all(isinstance(port, int) and port > 0 for port in process.ports.values())
        assert process.probe("/ready")[0] == 200


def test_data_is_for_the_owner_alone(proxy):
    assert os.stat(proxy.data).st_mode & 0o077 == 0


def test_sigint_stops_like_sigterm(double, tmp_path):
    with Recourse(tmp_path, standard(double)) as process:
        process.process.send_signal(signal.SIGINT)
        assert process.wait() == 0
