"""`recourse ledger export`: whole, resumable, and told when it was cut."""

import base64
import json

import pytest

from support import rawhttp
from support.double import ServedPort
from support.policies import standard
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

TRACE = "7bf92f3577b34da6a3ce929d0e0e4736"
OTHER = "8bf92f3577b34da6a3ce929d0e0e4736"
BINARY = b"\xff\xfe\x00 not text"


def export(proxy, *arguments):
    """(first line, events, last line)"""
    run = proxy.cli("ledger", "export", *arguments)
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert lines[0]["kind"] == "export" and lines[-1]["kind"] == "end"
    assert lines[-1]["events"] == len(lines) - 2
    return lines[0], lines[1:-1], lines[-1]


@pytest.fixture(scope="module")
def filled(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("export"), standard(double)) as proxy:
        for i in range(30):
            trace = OTHER if i % 3 == 0 else TRACE
            answer = rawhttp.call(
                proxy.port, "POST", f"/plain/export-{i}",
                headers=rawhttp.traced(trace), body={"client_ref": f"x{i}"},
            )  # fmt: skip
            assert answer.status == 201
        path = "/plain/export-binary"
        head = f"HTTP/1.1 201 Created\r\nContent-Length: {len(BINARY)}\r\n\r\n".encode()
        double.script("POST", path, ["read", {"send": (head + BINARY).decode("latin-1")}])
        rawhttp.call(
            proxy.port, "POST", path, headers=rawhttp.traced(TRACE), body={"client_ref": "binary"}
        )
        yield proxy


def test_an_export_holds_every_event_as_the_api_shows_it(filled):
    def of_one_state():
        """Answers are noted as received behind them, so rows may still come."""
        before, taken, after = filled.verify(), export(filled), filled.verify()
        return before["head"] == after["head"] and (*taken, after)

    head, events, tail, report = wait_until(of_one_state)
    assert events == filled.events()
    assert tail["head"] == report["head"] and tail["up_to"] == report["last_id"] == head["up_to"]
    assert len(head["ledger"]) == 64


def test_an_export_goes_on_after_an_event(filled):
    _, whole, _ = export(filled)
    middle = whole[len(whole) // 2]["event_id"]
    head, rest, _ = export(filled, "--after", str(middle))
    assert head["after"] == middle
    assert rest == [event for event in whole if event["event_id"] > middle]
    _, nothing, tail = export(filled, "--after", str(whole[-1]["event_id"]))
    assert nothing == [] and tail["events"] == 0


def test_an_export_of_one_trace_has_that_trace_alone(filled):
    head, events, _ = export(filled, "--trace", OTHER)
    assert head["trace"] == OTHER and len(events) == 20
    assert {event["trace_id"] for event in events} == {OTHER}


def test_answers_are_in_an_export_that_asks_for_them(filled):
    _, events, _ = export(filled, "--with-answers")
    done = [event for event in events if event["phase"] == "SUCCEEDED"]
    assert len(done) == 31
    for event in done[:-1]:
        assert json.loads(event["answer"]["body"])["id"] == event["external_ref"]
        assert ["Content-Type", "application/json"] in event["answer"]["headers"]
    assert base64.b64decode(done[-1]["answer"]["body_base64"]) == BINARY
    assert not [event for event in export(filled)[1] if "answer" in event]


def test_large_answers_are_exported_page_by_page(double, tmp_path):
    body = "x" * 900_000
    with Recourse(tmp_path, standard(double)) as proxy:
        for i in range(8):
            path = f"/plain/large-{i}"
            answer = f"HTTP/1.1 201 Created\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            double.script("POST", path, ["read", {"send": answer}])
            rawhttp.call(proxy.port, "POST", path, headers=rawhttp.traced(TRACE), body={"i": i})
        status, page = proxy.http(
            "admin", "GET", "/events?lines=true&answers=true&limit=1000",
            headers={"Authorization": f"Bearer {proxy.token}"},
        )  # fmt: skip
        assert status == 200 and len(page) < 6_000_000
        assert json.loads(page.splitlines()[-1])["next"] is not None
        _, events, _ = export(proxy, "--with-answers")
        assert [len(e["answer"]["body"]) for e in events if "answer" in e] == [900_000] * 8


def breaks_off(port, sock):
    """Says that it is the admin port, and closes within its answer to everything else."""
    left = b""
    while (left := port.head(sock, left)) is not None:
        is_asked_who = b"/.recourse/port" in port.heads[-1]
        said = json.dumps({"recourse": "admin"} if is_asked_who else {"row": 1}).encode()
        promised = len(said) if is_asked_who else 2 * len(said)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % promised + said)
        if not is_asked_who:
            return


def test_an_export_that_breaks_off_has_no_last_line(filled):
    with ServedPort(breaks_off) as port:
        address = f"127.0.0.1:{port.port}"
        run = run_cli(
            "ledger", "export", "--admin", address, "--admin-token-file", filled.token_path
        )
    assert run.returncode == 1 and run.stdout == "" and "partial message" in run.stderr


def test_an_export_can_be_replayed_against_a_policy(filled, tmp_path):
    exported = tmp_path / "export.ndjson"
    exported.write_text(filled.cli("ledger", "export").stdout)
    replay = run_cli("policy", "replay", exported, "--policy", filled.policy_path)
    assert replay.returncode in (0, 1), replay.stdout + replay.stderr
    assert "31" in replay.stdout
