"""Observe mode: nothing changes on the wire, and the report says what enforce would have done."""

import json
import resource
import signal
import socket
import threading

import pytest

from support import rawhttp
from support.policies import observed
from support.recourse import MEASURABLE, NotReady, Recourse, run_cli
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("observe"), observed(double.url)) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture
def fresh(double, tmp_path):
    with Recourse(tmp_path / "fresh", observed(double.url)) as running:
        yield running


def order(process, token, trace=TRACE, cart=1, note="", headers=()):
    fields = {**rawhttp.traced(trace), **dict(headers)}
    body = {"cart": cart, "note": note, "client_ref": token}
    return rawhttp.call(process.port, "POST", f"/orders/{token}", headers=fields, body=body)


def recorded(process, path, count):
    """The last events of the first `count` operations on a path, once all have an outcome."""

    def last_of_each():
        return {event["operation"]: event for event in process.events_for(path)}

    def all_of_them():
        last = last_of_each()
        done = [event for event in last.values() if event["phase"] != "DISPATCHING"]
        return len(done) >= count and [last[operation] for operation in sorted(last)]

    return wait_until(all_of_them, last_of_each)


def verdicts(events):
    return [event["verdict"] for event in events]


def await_metric(process, text):
    wait_until(
        lambda: text in process.probe("/metrics")[1], lambda: process.probe("/metrics")[1]
    )


def report(process, *arguments):
    ended = process.cli("report", "--json", *arguments)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def line(lines, **wanted):
    """The one line that has these members."""
    found = [row for row in lines if all(row[name] == value for name, value in wanted.items())]
    assert len(found) == 1, (wanted, lines)
    return found[0]


def test_what_has_two_readings_is_still_refused(proxy):
    data = (
        b"POST /orders/x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    assert rawhttp.statuses(rawhttp.exchange(proxy.port, data)) == [400]


def test_a_repeat_is_executed_again_and_reported_with_the_time_between(fresh, double, token):
    first = order(fresh, token)
    second = order(fresh, token)
    assert first.status == second.status == 201 and first.body != second.body
    assert second.header("Idempotent-Replayed") is None
    assert first.header("Recourse-Event") is None and first.header("Idempotency-Key") is None
    assert len(double.effects(f"/orders/{token}")) == 2
    one, two = recorded(fresh, f"/orders/{token}", 2)
    assert verdicts([one, two]) == ["fresh", "would_replay"]
    assert two["related"] == one["operation"]
    assert one["external_ref"] != two["external_ref"]

    told = report(fresh)
    duplicates = line(told["duplicates"], tool="orders.create")
    assert duplicates["repeats"] == duplicates["double_effects"] == 1
    assert duplicates["verdicts"] == {"would_replay": 1}
    example = duplicates["examples"][0]
    assert (example["first"], example["repeat"]) == (one["operation"], two["operation"])
    assert example["first_trace"] == example["repeat_trace"] == TRACE
    assert 0 <= duplicates["seconds"]["min"] == duplicates["seconds"]["max"] < 600
    assert told["mode"] == "observe" and told["double_effects"] == 1
    assert told["verdicts"] == {"fresh": 1, "would_replay": 1}

    text = fresh.cli("report", "--since", "1h").stdout
    assert "1 repeat, 1 of them took effect twice" in text
    from_the_start = fresh.cli("report").stdout
    assert from_the_start.startswith("Recourse report, mode observe, the beginning to 2")
    assert "answered from the ledger are not among them" not in text
    assert "orders.create" in text and "would_replay 1" in text
    assert f"{two['operation']} after {one['operation']}, trace {TRACE}" in text
    fresh.await_log(lambda line: True, 2)
    log = [(entry["verdict"], entry["event_id"]) for entry in fresh.access_log()]
    assert log == [("fresh", str(one["event_id"])), ("would_replay", str(two["event_id"]))]
    metrics = fresh.probe("/metrics")[1]
    assert 'recourse_observed_total{tool="orders.create",verdict="would_replay"} 1' in metrics


def test_what_merging_would_have_hidden_is_named_by_field_and_never_by_value(fresh, token):
    hidden = [f"north{token}", f"south{token}", f"blue{token}", f"red{token}"]
    for place in hidden[:2]:
        order(fresh, token, headers={"X-Warehouse": place, "X-Same": "1"})
    order(fresh, token, note=hidden[2], headers={"X-Same": "1"})
    order(fresh, token, cart=2, note=hidden[3], headers={"X-Same": "2"})  # another call
    recorded(fresh, f"/orders/{token}", 4)
    told = report(fresh)["differences"]
    assert told == [
        {"tool": "orders.create", "field": "header.x-warehouse", "calls": 2},
        {"tool": "orders.create", "field": "body#/note", "calls": 1},
    ]
    text = fresh.cli("report").stdout
    assert "orders.create  header.x-warehouse  2" in text
    everything = text + json.dumps(told) + fresh.probe("/metrics")[1] + fresh.stderr()
    assert not any(value in everything for value in hidden)


def test_two_at_once_would_have_been_joined(fresh, double, token):
    path = f"/orders/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], times=2)
    threads = [threading.Thread(target=order, args=(fresh, token)) for _ in range(2)]
    for thread in threads:
        thread.start()
    # Both are at the backend at once: nobody waits for anybody.
    double.await_requests("POST", path, count=2)
    wait_until(lambda: len(fresh.events_for(path)) >= 2, lambda: fresh.events_for(path))
    double.open_gate(token)
    for thread in threads:
        thread.join()
    assert verdicts(recorded(fresh, path, 2)) == ["fresh", "would_join"]


def test_a_retry_under_another_trace_is_found_when_the_first_was_not_answered(
    fresh, double, token
):
    path = f"/orders/{token}"
    double.script("POST", path, ["read", "execute", "rst"], times=1)
    assert order(fresh, token).status == 502
    assert order(fresh, token, trace=OTHER).status == 201
    first, retry = recorded(fresh, path, 2)
    assert (first["phase"], first["cause"]) == ("UNCERTAIN", "connection_lost")
    assert retry["verdict"] == "would_be_unknown" and retry["related"] == first["operation"]
    told = report(fresh)
    retried = line(told["keys"], trouble="retried-under-another-trace")
    assert retried["tool"] == "orders.create" and "known as the same call" in retried["means"]
    assert line(told["duplicates"], tool="orders.create")["possible_double_effects"] == 1
    assert len(double.requests(path, "POST")) == 2
    # Observe mode asks no backend whether something happened.
    assert double.requests(path, "GET") == []


def test_every_kind_of_refusal_is_only_written_down(fresh, double, token):
    assert order(fresh, token, note="a").status == 201
    assert order(fresh, token, note="b").status == 201  # same cart, other words
    assert rawhttp.call(fresh.port, "POST", f"/mail/{token}", body={"to": "a"}).status == 201
    assert rawhttp.call(fresh.port, "POST", f"/rows/{token}", body={"a": 1}).status == 201
    assert rawhttp.call(fresh.port, "POST", f"/never/{token}1", body={"a": 1}).status == 201
    assert rawhttp.call(fresh.port, "GET", f"/seen/{token}1").status == 200
    conflict = recorded(fresh, f"/orders/{token}", 2)[1]
    assert conflict["verdict"] == "would_conflict" and conflict["related"] != 0
    assert verdicts(recorded(fresh, f"/mail/{token}", 1)) == ["would_hold"]
    (scope,) = recorded(fresh, f"/rows/{token}", 1)
    assert scope["verdict"] == "would_refuse"
    assert scope["detail"].startswith("key-required: the tool rows.add needs the header X-Run")
    (denied,) = recorded(fresh, f"/never/{token}1", 1)
    assert denied["verdict"] == "would_refuse" and denied["detail"].startswith("denied")
    told = report(fresh)
    assert line(told["keys"], tool="orders.create", trouble="key-reused")["calls"] == 1
    assert line(told["keys"], tool="rows.add", trouble="key-required")["calls"] == 1
    assert line(told["keys"], tool="unlisted.shop", trouble="denied")["calls"] == 1
    # `deny` would have refused the read too; it is counted, not written down.
    assert line(told["unlisted"], effect="write", path="/never/{id}")["calls"] == 1
    read = line(told["unlisted"], effect="read", path="/seen/{id}")
    assert (read["method"], read["backend"], read["calls"]) == ("GET", "shop", 1)
    why = {row["tool"]: row["why"] for row in told["without_undo"]}
    assert why == {
        "mail.send": "no undo and no reason, only an approval",
        "rows.add": "reason: rows may stay",
        "unlisted.shop": "no tool of the policy matches these calls",
    }


@pytest.mark.parametrize(
    "steps, status, cause",
    [
        (["read", "rst"], 502, "connection_lost"),
        (["read", {"send": "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"}], 500, "server_error"),
        (["read", "until_closed"], 504, "timeout"),
        (["read", {"send": "nonsense\r\n\r\n"}, "fin"], 502, "protocol_error"),
    ],
)
def test_unknown_outcomes_are_reported_and_never_sent_again(
    double, tmp_path, token, steps, status, cause
):
    hasty = observed(double.url, timeout="5s" if status == 504 else "60s")
    with Recourse(tmp_path, hasty) as fresh:
        is_told_as_unknown(fresh, double, token, steps, status, cause)


def listed(process, *arguments):
    ended = process.cli("operations", "list", "--json", *arguments)
    assert ended.returncode == 0, ended.stderr
    return [operation["path"] for operation in json.loads(ended.stdout)]


def is_told_as_unknown(fresh, double, token, steps, status, cause):
    path = f"/orders/{token}"
    double.script("POST", path, steps, times=1)
    answer = order(fresh, token)
    assert answer.status == status
    if answer.header("Content-Type") == "application/problem+json":  # else it is the backend's own
        told = answer.json()
        assert (told["outcome"], told["retryable"]) == ("unknown", False), told
        assert "may have been executed" in told["advice"]
        assert not answer.header("Retry-After")
    (event,) = recorded(fresh, path, 1)
    assert (event["phase"], event["cause"]) == ("UNCERTAIN", cause)
    told = line(report(fresh)["unknown"], tool="orders.create")
    assert (told["cause"], told["calls"], told["open"]) == (cause, 1, 0), "nothing waits for it"
    assert told["example"] == event["operation"]
    assert [path for path in listed(fresh) if path == event["path"]], "it is there for who looks"
    assert listed(fresh, "--phase", "UNCERTAIN") == [], "nobody is asked to settle it"
    wait_until(lambda: double.requests(path))
    assert len(double.requests(path)) == 1


def test_a_write_never_uses_a_pooled_connection(fresh, double, token):
    for _ in range(3):
        assert rawhttp.call(fresh.port, "GET", f"/seen/{token}").status == 200
        assert order(fresh, token).status == 201
    reads = {request["connection"] for request in double.requests(f"/seen/{token}")}
    writes = [request["connection"] for request in double.requests(f"/orders/{token}")]
    assert len(set(writes)) == 3 and len(reads) <= 3


def test_an_unreachable_backend_is_a_call_that_was_not_sent(tmp_path):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        policy = observed(url, unlisted="guard")
        with Recourse(tmp_path, policy) as running:
            assert order(running, "gone").status == 503
            assert order(running, "gone").status == 503
            (event,) = recorded(running, "/orders/gone", 1)
            assert (event["phase"], event["verdict"]) == ("NOT_SENT", "fresh")
            assert report(running)["repeats"] == 0


# ---- bounds and failures


def test_a_large_upload_streams_in_constant_memory(fresh, double, token):
    path, size = f"/orders/{token}", 64 << 20
    order(fresh, f"{token}-warm")
    before = fresh.memory_kib()[1]
    block = b"x" * 65536
    with rawhttp.Connection(fresh.port) as connection:
        chunked = [("Transfer-Encoding", "chunked")]
        connection.send(rawhttp.render("POST", path, "shop.test", chunked, length=False))
        for _ in range(size // len(block)):
            connection.send(b"%x\r\n" % len(block) + block + b"\r\n")
        connection.send(b"0\r\n\r\n")
        assert connection.response("POST").status == 201
    assert double.requests(path)[0]["body_len"] == size
    (event,) = recorded(fresh, path, 1)
    assert event["verdict"] == "would_refuse"
    assert event["detail"].startswith("request-too-large")
    if MEASURABLE:
        assert fresh.memory_kib()[1] - before < 20 * 1024


def test_a_broken_ledger_changes_nothing_for_the_traffic(fresh, double, token):
    assert order(fresh, token).status == 201
    recorded(fresh, f"/orders/{token}", 1)
    resource.prlimit(fresh.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    for _ in range(3):
        assert order(fresh, token).status == 201
    assert len(double.effects(f"/orders/{token}")) == 4
    status, text = fresh.probe("/ready")
    assert status == 200 and "nothing is recorded" in text
    wait_until(lambda: report(fresh)["not_recorded"] >= 3, lambda: report(fresh))
    told = fresh.cli("report").stdout
    assert "3 writes since the start of the process are missing from the ledger" in told


def test_a_ledger_that_cannot_be_opened_is_told_and_stops_no_traffic(double, tmp_path, token):
    path = f"/orders/{token}"
    with Recourse(tmp_path, observed(double.url)) as running:
        assert order(running, token).status == 201
        recorded(running, path, 1)
        assert running.stop() == 0
        data = running.data / "data.mdb"
        good = data.read_bytes()
        data.write_bytes(b"x" * len(good))
        running.start()
        assert [order(running, token).status for _ in range(2)] == [201, 201]
        assert rawhttp.call(running.port, "GET", f"/seen/{token}").status == 200
        assert len(double.effects(path)) == 3
        status, text = running.probe("/ready")
        assert status == 200 and "nothing is recorded: the ledger in " in text, text
        assert "observe mode goes on WITHOUT a ledger" in running.stderr()
        await_metric(running, 'recourse_observed_dropped_total{reason="log-unavailable"} 2')
        assert "recourse_store_latched 1" in running.probe("/metrics")[1]
        for command in ["report"], ["events", "list"], ["ledger", "export"], ["ledger", "verify"]:
            told = running.cli(*command)
            assert told.returncode != 0 and "ledger" in told.stderr + told.stdout, told
        assert "not recorded: the ledger in " in running.cli("ledger", "status").stdout
        # Everything else goes on: the policy, SIGHUP, the end.
        running.policy_path.write_text(observed(double.url) + "# changed\n")
        assert running.cli("policy", "reload").returncode == 0
        running.process.send_signal(signal.SIGHUP)
        assert order(running, token).status == 201
        assert running.stop() == 0
        assert data.read_bytes() == b"x" * len(good)  # what is there is left for whoever mends it
        # Enforce does not go on.
        running.policy_path.write_text(observed(double.url, mode="enforce"))
        with pytest.raises(NotReady):
            running.start()
        assert running.process.returncode == 78
        data.write_bytes(good)
        running.policy_path.write_text(observed(double.url))
        running.start()
        assert order(running, token).status == 201
        assert recorded(running, path, 2)[-1]["verdict"] == "would_replay"


def test_a_ledger_of_another_process_is_left_alone(fresh, double, tmp_path, token):
    second = Recourse(tmp_path / "second", observed(double.url) + "# another\n",
                      ["--drain-timeout", "0s"])  # fmt: skip
    second.data = fresh.data
    with second:
        before = sorted(path.name for path in (fresh.data / "policies").iterdir())
        assert order(second, token).status == 201
        assert "is in use by process" in second.probe("/ready")[1]
        assert second.cli("policy", "reload").returncode == 0
        assert sorted(path.name for path in (fresh.data / "policies").iterdir()) == before
        assert second.stop() == 0
    assert fresh.verify()["ok"]


def test_a_new_policy_is_taken_although_the_ledger_is_broken(fresh, double, token):
    assert order(fresh, token).status == 201
    recorded(fresh, f"/orders/{token}", 1)
    resource.prlimit(fresh.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    assert order(fresh, token).status == 201
    before = fresh.admin("GET", "/policy")["version"]
    fresh.policy_path.write_text(observed(double.url) + "# changed\n")
    told = fresh.cli("policy", "reload")
    assert told.returncode == 0, told.stderr
    assert fresh.admin("GET", "/policy")["version"] != before
    assert order(fresh, token).status == 201
    assert fresh.stop() == 0


def test_a_call_whose_arguments_were_not_seen_whole_is_not_judged(fresh, double, token):
    """The backend answers before it has read the body, and closes."""
    path = f"/orders/{token}"
    answer = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    double.script("POST", path, [{"send": answer}], times=1)
    with rawhttp.Connection(fresh.port) as connection:
        length = [("Content-Length", "1000000")]
        connection.send(rawhttp.render("POST", path, "shop.test", length, length=False))
        assert connection.response("POST").status == 503
    (event,) = recorded(fresh, path, 1)
    assert event["verdict"] == "not_judged"
    assert event["detail"].startswith("the arguments were not seen whole; ")
    told = report(fresh)
    assert told["verdicts"] == {"not_judged": 1} and told["repeats"] == 0
    assert line(told["keys"], trouble="not-judged")["calls"] == 1
    assert "not-judged" in fresh.cli("report").stdout
    # It is no repeat of anything, and nothing is a repeat of it.
    assert order(fresh, token).status == 201
    assert recorded(fresh, path, 2)[-1]["verdict"] == "fresh"


def test_a_kill_loses_nothing_that_was_written_down(fresh, double, token):
    path = f"/orders/{token}"
    order(fresh, token)
    (first,) = recorded(fresh, path, 1)
    double.script("POST", path, ["read", "execute", "until_closed"], times=1)
    broken = (OSError, rawhttp.Cut)
    thread = threading.Thread(target=lambda: pytest.raises(broken, order, fresh, token, cart=2))
    thread.start()
    fresh.await_phase(path, "DISPATCHING")
    fresh.kill()
    thread.join()
    fresh.start()
    assert order(fresh, token).status == 201
    events = recorded(fresh, path, 3)
    assert [(e["phase"], e["verdict"]) for e in events] == [
        ("SUCCEEDED", "fresh"), ("UNCERTAIN", "fresh"), ("SUCCEEDED", "would_replay"),
    ]  # fmt: skip
    assert events[1]["cause"] == "crash" and events[2]["related"] == first["operation"]
    assert fresh.verify()["ok"]
    assert 'recourse_events{phase="UNCERTAIN"} 0' in fresh.probe("/metrics")[1]


def test_what_was_observed_never_answers_a_call_of_enforce(fresh, double, token):
    path = f"/orders/{token}"
    seen = order(fresh, token)
    recorded(fresh, path, 1)
    assert fresh.stop() == 0
    fresh.policy_path.write_text(observed(double.url, mode="enforce"))
    fresh.start()
    enforced = order(fresh, token)
    assert enforced.status == 201 and not enforced.replayed and enforced.body != seen.body
    assert order(fresh, token).body == enforced.body
    assert len(double.effects(path)) == 2
    # And back: what enforce did explains nothing to observe mode.
    assert fresh.stop() == 0
    fresh.policy_path.write_text(observed(double.url))
    fresh.start()
    assert order(fresh, token).status == 201
    assert recorded(fresh, path, 3)[-1]["verdict"] == "would_replay"  # of the first, observed call
    assert recorded(fresh, path, 3)[-1]["related"] == recorded(fresh, path, 3)[0]["operation"]


# ---- the command


def test_an_empty_ledger_says_so(fresh):
    text = fresh.cli("report").stdout
    assert "The ledger has no writes in this time." in text
    told = report(fresh, "--since", "24h")
    assert told["calls"] == 0 and told["duplicates"] == [] and told["unknown"] == []


def test_a_period_that_cannot_be_read_is_refused(fresh):
    ended = fresh.cli("report", "--since", "yesterday")
    assert ended.returncode == 1
    assert "'yesterday' is no value for since; accepted: a duration before now" in ended.stderr
    ended = fresh.cli("report", "--since", "5s", "--until", "1h")
    assert ended.returncode == 1 and "since is later than until" in ended.stderr


def test_the_report_keeps_to_its_period(fresh, token):
    order(fresh, token)
    recorded(fresh, f"/orders/{token}", 1)
    assert report(fresh, "--since", "1h")["calls"] == 1
    assert report(fresh, "--since", "2h", "--until", "1h")["calls"] == 0


def test_policy_check_names_the_mode(double, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(observed(double.url))
    assert "mode observe (nothing is held back)" in run_cli("policy", "check", path).stdout
    path.write_text(observed(double.url, mode="enforce"))
    assert "observe" not in run_cli("policy", "check", path).stdout


def test_enforce_reports_what_its_ledger_holds(double, tmp_path, token):
    policy = observed(double.url, mode="enforce", unlisted="guard")
    with Recourse(tmp_path, policy) as running:
        assert order(running, token).status == 201
        assert order(running, token).replayed
        assert order(running, token, trace=OTHER).status == 201
        rawhttp.call(running.port, "POST", f"/never/{token}1", body={"a": 1})
        told = report(running)
    assert told["mode"] == "enforce" and told["calls"] == 3 and told["verdicts"] == {}
    assert told["outcomes"] == {"SUCCEEDED": 3}
    assert line(told["keys"], trouble="again-under-another-trace")["tool"] == "orders.create"
    assert line(told["unlisted"], effect="write", path="/never/{id}")["calls"] == 1
