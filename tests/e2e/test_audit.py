"""What auditors get: the whole hash chain, checked by a verifier that shares no code
with the product, and signed heads that notice a ledger that was put back, cut or rewritten."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.certificates import openssl
from support.policies import standard
from support.recourse import ROOT, WAIT_MAX, Recourse
from support.waiting import wait_until
from test_approvals import RULES
from test_webhook import Hook, check_signature

TRACE = "5bf92f3577b34da6a3ce929d0e0e4736"
SECRET_BODY, SECRET_HEADER = "secret-of-the-body", "secret-of-the-header"
SECRET_QUERY, SECRET_ANSWER = "secret-of-the-query", "secret-of-the-answer"
ANSWER = json.dumps({"id": "ref-of-the-answer", "text": SECRET_ANSWER})


def verifier_in(directory):
    """What auditors get: of an export, whether it is sound and what was said."""
    export = directory / "export.ndjson"
    script = ROOT / "filters/ledger/verify_export.py"

    def run(lines, *more):
        export.write_bytes(b"".join(lines))
        arguments = [sys.executable, "-I", script, export, *more]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=WAIT_MAX)
        return done.returncode == 0, done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    return verifier_in(tmp_path_factory.mktemp("verifier"))


class Keys:
    def __init__(self, directory):
        self.private, self.public = directory / "head.key", directory / "head.pub"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.private)
        openssl("pkey", "-in", self.private, "-pubout", "-out", self.public)
        self.private.chmod(0o600)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return Keys(tmp_path_factory.mktemp("keys"))


def signing(keys, file):
    return ["--ledger-head-key", keys.private, "--ledger-head-file", file,
            "--ledger-head-every", "100ms"]  # fmt: skip


def await_head(process, file):
    """The signed head, once it is of the newest row."""
    newest = process.admin("GET", "/ledger")["last_id"]

    def look():
        head = json.loads(file.read_text()) if file.exists() else {"row": 0}
        return head if head["row"] >= newest else None

    return wait_until(look)


def export(process, *arguments):
    run = process.cli("ledger", "export", "--format", "ndjson", *arguments)
    assert run.returncode == 0, run.stderr
    return run.stdout.encode().splitlines(keepends=True)


def write(process, path):
    headers = {**rawhttp.traced(TRACE), "Authorization": f"Bearer {SECRET_HEADER}"}
    body = {"client_ref": SECRET_BODY}
    answer = rawhttp.call(process.port, "POST", path, headers=headers, body=body)
    assert answer.status in (201, 202), answer
    return answer


@pytest.fixture(scope="module")
def staffed(double, keys, tmp_path_factory):
    """A ledger with calls, decisions of every kind, and what operators did to a flow."""
    directory = tmp_path_factory.mktemp("audit")
    head = directory / "head.json"
    policy = standard(double, extra_tools=RULES)
    with Staffed(directory / "recourse", policy, signing(keys, head)) as proxy:
        proxy.head = head
        for i in range(5):
            write(proxy, f"/plain/audit-{i}")
        double.script("POST", "/plain/audit-told", ["read", {
            "send": f"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(ANSWER)}\r\n\r\n{ANSWER}"}])  # fmt: skip
        write(proxy, "/plain/audit-told")
        for name in ("yes", "no", "edit"):
            write(proxy, f"/mail/audit-{name}" + f"?note={SECRET_QUERY}" * (name == "no"))
        (yes,), (no,), (edit,) = (
            proxy.await_waiting(f"/mail/audit-{name}") for name in ("yes", "no", "edit")
        )
        assert proxy.approve(yes["operation"], reason="checked the invoice")[0] == 200
        assert proxy.reject(no["operation"], who="bob", reason="not this week")[0] == 200
        body = json.dumps({"client_ref": "less"})
        assert proxy.approve(edit["operation"], body=body, reason="less of it")[0] == 200
        for name in ("yes", "edit"):
            proxy.await_phase(f"/mail/audit-{name}", "SUCCEEDED")
        write(proxy, "/step/audit")
        (flow,) = [f for f in proxy.admin("GET", "/flows")["flows"] if f["flow"] == TRACE]
        run = proxy.cli("flows", "close", flow["number"], "--reason", "the customer agreed")
        assert run.returncode == 0, run.stderr
        asked = {"yes": yes, "no": no, "edit": edit}
        proxy.operations = {name: one["operation"] for name, one in asked.items()}
        await_head(proxy, head)
        yield proxy


def test_an_export_is_checked_without_our_code(staffed, keys, verifier):
    lines = export(staffed)
    good, said = verifier(lines)
    assert good, said
    await_head(staffed, staffed.head)
    good, said = verifier(export(staffed), staffed.head, keys.public)
    assert good and "ok: " in said, said


def test_an_export_tells_who_decided_what_and_why(staffed):
    rows = [json.loads(line) for line in export(staffed)[1:-1]]
    events = [row["event"] for row in rows if row["kind"] == "event"]
    changes = [row["policy"] for row in rows if row["kind"] == "policy"]
    policies = {change["version"]: change["digest"] for change in changes}

    def decided(name, phase):
        return next(
            e for e in events
            if e["operation"] == staffed.operations[name] and e["phase"] == phase
        )  # fmt: skip

    for name, phase, who, decision, reason in (
        ("yes", "APPROVED", "ann", "approved", "checked the invoice"),
        ("no", "DENIED", "bob", "rejected", "not this week"),
        ("edit", "APPROVED", "ann", "edited", "less of it"),
    ):
        event = decided(name, phase)
        (one,) = event["decisions"]
        assert (one["who"], one["decision"], one["reason"]) == (who, decision, reason)
        assert event["policy_digest"] == policies[event["policy_version"]] and one["time"]
    closed = [row["flow"] for row in rows if row["kind"] == "flow"][-1]
    assert closed["phase"] == "COMMITTED" and closed["cause"] == "human"
    assert closed["reason"] == "admin: the customer agreed"
    assert closed["policy_version"] in policies


def test_events_list_and_show_say_who_and_why(staffed):
    listed = staffed.cli("events", "list", "--limit", "1000").stdout.splitlines()
    for text in (
        "approved by ann: checked the invoice",
        "rejected by bob: not this week",
        "approved with edits by ann: less of it",
        "admin: the customer agreed",
    ):
        assert [line for line in listed if line.endswith(f"  {text}")], text
    (line,) = [line for line in listed if "DENIED" in line]
    shown = staffed.cli("events", "show", line.split()[0]).stdout
    assert "rejected by bob: not this week" in shown


def test_bodies_headers_queries_and_answers_are_nowhere_in_an_export_in_clear(staffed):
    lines = export(staffed)
    rows = [base64.b64decode(json.loads(line)["row"]) for line in lines[1:-1]]
    for secret in (SECRET_BODY, SECRET_HEADER, SECRET_QUERY, SECRET_ANSWER):
        assert not [text for text in (*lines, *rows) if secret.encode() in text], secret
    opened = staffed.cli("ledger", "export", "--with-answers").stdout
    assert SECRET_ANSWER in opened, "who asks for answers has them"


def test_paths_references_and_words_of_approvers_are_in_no_row_in_clear(staffed):
    """People read them beside the row, which is what stays for auditors who have no key."""
    lines = export(staffed)[1:-1]
    rows = [json.loads(line) for line in lines]
    events = [row["event"] for row in rows if row["kind"] == "event"]
    words = {event["path"] for event in events} | {"ref-of-the-answer"}
    words |= {one["reason"] for event in events for one in event.get("decisions", ())}
    assert {"/plain/audit-told", "not this week"} <= words
    told = b"".join(lines)
    for word in words:
        assert word.encode() in told, "the test would see it"
        assert not [row for row in rows if word.encode() in base64.b64decode(row["row"])], word


def test_an_export_after_the_newest_row_is_empty_and_no_failure(double, tmp_path):
    with Recourse(tmp_path, standard(double)) as process:
        last = json.loads(export(process)[-2])["number"]
        run = process.cli("ledger", "export", "--format", "ndjson", "--after", last)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
        write(process, "/plain/audit-news")
        (row, *_) = export(process, "--after", str(last))[1:-1]
        assert json.loads(row)["number"] == last + 1


def changed(line, member):
    """One character of that member is another one."""
    at = line.index(f'"{member}":'.encode()) + len(member) + 3
    at += 1 if line[at : at + 1] == b'"' else 0
    other = b"B" if line[at : at + 1] == b"A" else b"A"
    if line[at : at + 1].isdigit():
        other = b"2" if line[at : at + 1] == b"1" else b"1"
    return line[:at] + other + line[at + 1 :]


def ended_anew(lines):
    """With a last line that fits what is left: what a forger would do."""
    last = json.loads(lines[-2])
    whole = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    end = {"kind": "end", "rows": len(lines) - 2, "head": last["hash"], "sha256": whole}
    return [*lines[:-1], json.dumps(end).encode() + b"\n"]


def rewritten(lines, at):
    """Row `at` is another one, and every hash after it is made anew."""
    out, previous = [lines[0]], None
    for i, line in enumerate(lines[1:-1], 1):
        row = json.loads(line)
        data = bytearray(base64.b64decode(row["row"]))
        if i == at:
            data[-1] ^= 1
        if previous is not None:
            data[40:72] = bytes.fromhex(previous)
            row["prev"] = previous
        previous = row["hash"] = hashlib.sha256(data).hexdigest()
        row["row"] = base64.b64encode(data).decode()
        out.append(json.dumps(row).encode() + b"\n")
    return ended_anew([*out, lines[-1]])


def test_a_tampered_export_is_noticed(staffed, keys, verifier):
    await_head(staffed, staffed.head)
    lines = export(staffed)
    middle = len(lines) // 2
    tampered = {}
    for at in (1, middle, len(lines) - 2):
        for member in ("number", "kind", "time", "prev", "hash", "row"):
            other = changed(lines[at], member)
            tampered[f"changed {member} of line {at}"] = [*lines[:at], other, *lines[at + 1 :]]
        tampered[f"removed line {at}"] = lines[:at] + lines[at + 1 :]
        tampered[f"removed line {at}, ended anew"] = ended_anew(lines[:at] + lines[at + 1 :])
    swapped = [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]]
    tampered["reordered"] = swapped
    tampered["reordered, ended anew"] = ended_anew(swapped)
    tampered["cut"] = lines[:-1]
    tampered["cut in a line"] = [*lines[:-2], lines[-2][:-9]]
    del tampered[f"removed line {len(lines) - 2}, ended anew"]  # whole as far as it goes: see below
    for name, export_lines in tampered.items():
        good, said = verifier(export_lines)
        assert not good, (name, said)


def test_a_forger_needs_the_key_of_the_signed_head(staffed, keys, verifier, tmp_path):
    await_head(staffed, staffed.head)
    lines = export(staffed)
    head = json.loads(staffed.head.read_text())
    cut = ended_anew(lines[: head["row"]] + lines[-1:])
    forged = rewritten(lines, 2)
    for export_lines in (cut, forged):
        assert verifier(export_lines)[0], "without a head nothing tells it from an older ledger"
        good, said = verifier(export_lines, staffed.head, keys.public)
        assert not good and "does not hold the signed head" in said, said
    claimed = tmp_path / "claimed.json"
    claimed.write_text(json.dumps({**head, "hash": json.loads(forged[-2])["hash"]}))
    assert not verifier(forged, claimed, keys.public)[0]
    stranger = Keys(tmp_path)
    assert not verifier(lines, staffed.head, stranger.public)[0]


def test_exports_go_on_where_the_last_one_ended(staffed, verifier):
    whole = export(staffed)
    middle = len(whole) // 2
    number = json.loads(whole[middle])["number"]
    rest = export(staffed, "--after", str(number))
    begin = json.loads(rest[0])
    assert (begin["after"], begin["base"]) == (number, json.loads(whole[middle])["hash"])
    assert verifier(rest)[0]
    last = json.loads(whole[-2])["number"]
    run = staffed.cli("ledger", "export", "--format", "ndjson", "--after", last + 1000)
    assert (run.returncode, run.stdout) == (1, "")
    assert f"there is no row {last + 1000}" in run.stderr and "cut" in run.stderr
    run = staffed.cli("ledger", "export", "--format", "ndjson", "--trace", TRACE)
    assert run.returncode == 2 and "--trace" in run.stderr


def verify(process, head, key):
    return process.cli("ledger", "verify", "--head", head, "--head-key", key)


def test_a_ledger_that_was_put_back_is_noticed_by_its_signed_head(double, keys, tmp_path, token):
    head, old, moved = tmp_path / "head.json", tmp_path / "old", tmp_path / "moved.json"
    process = Recourse(tmp_path / "recourse", standard(double), signing(keys, head))
    with process:
        write(process, f"/plain/{token}-before")
        await_head(process, head)
        good = verify(process, head, keys.public)
        assert good.returncode == 0 and good.stdout.count("ok: ") == 2, good.stderr
        assert process.stop() == 0
        shutil.copytree(process.data, old)
        process.start()
        for i in range(20):
            write(process, f"/plain/{token}-{i}")
        await_head(process, head)
        assert verify(process, head, keys.public).returncode == 0
        process.kill()
        last = json.loads(head.read_text())  # it may have been signed again meanwhile
        shutil.rmtree(process.data)
        shutil.copytree(old, process.data)
        process.start()
        write(process, f"/plain/{token}-more")
        wait_until(lambda: "does not reach it any more" in process.stderr())
        run = verify(process, head, keys.public)
        assert run.returncode == 78 and "put back to an older copy" in run.stderr, run
        for i in range(20):
            write(process, f"/plain/{token}-other-{i}")
        assert process.admin("GET", "/ledger")["last_id"] >= last["row"]
        other_row = f"row {last['row']} is not the one that was signed"
        wait_until(lambda: other_row in process.stderr())
        run = verify(process, head, keys.public)
        assert run.returncode == 78 and "rewritten" in run.stderr, run
        assert process.stop() == 0  # signs once more
        assert json.loads(head.read_text()) == last
        process.start()
        head.rename(moved)
        await_head(process, head)
        assert verify(process, head, keys.public).returncode == 0
        assert verify(process, moved, keys.public).returncode == 78
        forged = json.loads(moved.read_text())
        moved.write_text(json.dumps({**forged, "row": 1}))
        run = verify(process, moved, keys.public)
        assert run.returncode == 1 and "not signed" in run.stderr, run


def test_a_file_that_proves_nothing_of_this_ledger_is_replaced(double, keys, tmp_path, token):
    head, stranger = tmp_path / "head.json", tmp_path / "stranger"
    stranger.mkdir()
    forger = Keys(stranger)
    with Recourse(tmp_path / "forged", standard(double), signing(forger, head)) as other:
        for i in range(20):
            write(other, f"/plain/{token}-of-another-{i}")
        await_head(other, head)
    process = Recourse(tmp_path / "recourse", standard(double), signing(keys, head))
    for text in (head.read_text(), "", '{"row": 9}'):
        head.write_text(text)
        with process:
            write(process, f"/plain/{token}-{len(text)}")
            wait_until(lambda: verify(process, head, keys.public).returncode == 0)


def test_who_accepted_a_restored_ledger_and_why_is_in_the_chain(
    double, tmp_path, token, verifier
):
    process = Recourse(tmp_path / "recourse", standard(double))
    with process:
        write(process, f"/plain/{token}-before")
        assert process.stop() == 0
        shutil.copy(process.data / "data.mdb", tmp_path / "old.mdb")
        process.start()
        write(process, f"/plain/{token}-after")
        assert process.stop() == 0
        shutil.copy(tmp_path / "old.mdb", process.data / "data.mdb")
        process.start()
        run = process.cli("ledger", "accept", "--reason", "asked the backend, ticket 812")
        assert run.returncode == 0, run.stderr
        write(process, f"/plain/{token}-later")
        process.kill()
        process.start()
        assert process.verify()["ok"]
        lines = export(process)
    assert verifier(lines)[0]
    rows = [json.loads(line) for line in lines[1:-1]]
    (order,) = [row["order"] for row in rows if row["kind"] == "order"]
    policy = [row["policy"] for row in rows if "policy" in row][-1]
    assert order == {
        "what": "ledger.accept",
        "who": "admin",
        "reason": "asked the backend, ticket 812",
        "policy_version": policy["version"],
        "policy_digest": policy["digest"],
    }


def test_signed_heads_are_told_to_the_webhook(double, keys, tmp_path, token):
    hook = Hook()
    secret = tmp_path / "secret"
    secret.write_text("whsec-of-the-tests\n")
    secret.chmod(0o600)
    policy = standard(double)
    policy += f'flow_rules: {{ webhook: {{ url: "{hook.url}", secret_file: "{secret}" }} }}\n'
    arguments = ["--ledger-head-key", keys.private, "--ledger-head-every", "100ms"]
    try:
        with Recourse(tmp_path / "recourse", policy, arguments) as process:
            write(process, f"/plain/{token}")
            row = process.admin("GET", "/ledger")["last_id"]

            def told():
                posts = [(headers, body) for _, headers, body in list(hook.posts)]
                return [post for post in posts if json.loads(post[1])["row"] >= row]

            headers, body = wait_until(told)[0]
            check_signature(headers, body)
            assert json.loads(body)["type"] == "ledger.head"
            file = tmp_path / "told.json"
            file.write_bytes(body)
            assert verify(process, file, keys.public).returncode == 0
    finally:
        hook.close()


def test_a_key_that_cannot_sign_is_told_at_the_start(double, keys, tmp_path):
    process = Recourse(
        tmp_path / "recourse", standard(double), ["--ledger-head-key", keys.public]
    )
    keys.public.chmod(0o600)
    process.spawn()
    assert process.wait() == 2
    assert "--ledger-head-key" in process.stderr() and "genpkey" in process.stderr()
