"""`recourse doctor`: what works is good, what does not is named with what to do about it."""

import http.server
import json
import threading
import time
from email.utils import formatdate

import pytest

from support import rawhttp
from support.certificates import Maker
from support.policies import standard
from support.recourse import Recourse, run_cli
from support.secure import SecureBackend, server_context
from support.waiting import wait_until

NO_PROXY = {"HTTP_PROXY": "", "http_proxy": "", "HTTPS_PROXY": "", "https_proxy": "",
            "ALL_PROXY": "", "all_proxy": ""}  # fmt: skip
HEAD = "version: 1\nbackends:\n"


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("recourse"), standard(double)) as running:
        yield running


def ports_of(running):
    return [
        "--listen", f"127.0.0.1:{running.ports['listen']}",
        "--admin", f"127.0.0.1:{running.ports['admin']}",
        "--probes", f"127.0.0.1:{running.ports['probes']}",
    ]  # fmt: skip


def examined(arguments, env):
    told = run_cli("doctor", *arguments, "--json", env={**NO_PROXY, **(env or {})})
    document = json.loads(told.stdout)
    assert document["ok"] == (told.returncode == 0), told
    return told.returncode, {
        (one["name"], one.get("subject", "").split(" ")[0]): one for one in document["checks"]
    }


def doctor(*arguments, env=None):
    """The exit code, and the checks by name and subject. No backend here is overloaded: what seems
    so to a machine that stood still is looked at again."""
    return wait_until(
        lambda: "is it overloaded" not in str(found := examined(arguments, env)) and found
    )


def test_a_set_up_that_works_is_good_without_a_token(recourse):
    code, checks = doctor("--policy", recourse.policy_path, "--data", recourse.data,
                          *ports_of(recourse))  # fmt: skip
    bad = [one for one in checks.values() if one["verdict"] == "bad" and one["name"] != "disk"]
    assert not bad, bad
    assert checks["backend", "shop"]["verdict"] == "good"
    assert "first byte of a GET" in checks["backend", "shop"]["found"]
    assert checks["ready", ""]["found"] == "ready"
    assert ("operator", "") not in checks, "nobody said who he is"
    assert "a flush takes" in checks["disk", str(recourse.data)]["found"] or code == 1
    assert not list(recourse.data.glob("*doctor*"))


def test_what_nobody_has_started_is_bad_and_says_what_to_do(double, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(standard(double, backends='  gone: { url: "http://127.0.0.1:1" }\n'))
    code, checks = doctor("--policy", policy, "--listen", "127.0.0.1:1", "--admin", "127.0.0.1:1",
                          "--probes", "127.0.0.1:1")  # fmt: skip
    assert code == 1
    names = {one["name"]: one for one in checks.values()}
    for name in ("agents' port", "admin port"):
        assert names[name]["verdict"] == "bad" and "recourse run" in names[name]["mend"]
    gone = checks["backend", "gone"]
    assert gone["verdict"] == "bad" and gone["found"] == "127.0.0.1: Connection refused"
    assert "does it listen at this address" in gone["mend"]
    assert checks["backend", "shop"]["verdict"] == "good"


def test_ports_that_were_mixed_up_are_told_apart(recourse):
    listen, admin = recourse.ports["listen"], recourse.ports["admin"]
    _, checks = doctor("--policy", recourse.policy_path, "--listen", f"127.0.0.1:{admin}",
                       "--admin", f"127.0.0.1:{listen}",
                       "--probes", f"127.0.0.1:{recourse.ports['probes']}")  # fmt: skip
    names = {one["name"]: one for one in checks.values()}
    assert names["agents' port"]["found"] == "is the port of --admin"
    assert names["admin port"]["found"] == "is the port of --listen"


def test_traces_are_counted_without_a_token(double, tmp_path):
    with Recourse(tmp_path, standard(double)) as recourse:
        ask = ["--policy", recourse.policy_path, *ports_of(recourse)]
        assert doctor(*ask)[1]["traces", ""]["found"] == "no write has come yet"
        for n, headers in enumerate((rawhttp.traced("d" * 32), {})):
            rawhttp.call(recourse.port, "POST", f"/plain/doctor-{n}", "shop.test", headers, b"{}")
            told = doctor(*ask)[1]["traces", ""]
            if n == 0:
                assert (told["verdict"], told["found"]) == ("good", "each of 1 writes has a flow")
    assert told["verdict"] == "doubt" and "traceparent" in told["mend"]
    assert "1 of 2 writes came without a trace" in told["found"]


def test_whose_token_it_is_is_told_and_one_that_is_not_taken(recourse, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("0123456789abcdef0123456789abcdef\n")
    ask = ["--policy", recourse.policy_path, *ports_of(recourse), "--admin-token-file"]
    found = doctor(*ask, recourse.token_path)[1]["operator", "admin"]
    assert (found["verdict"], found["found"]) == ("good", "may read, repair")
    code, checks = doctor(*ask, wrong)
    assert code == 1 and checks["operator", ""]["verdict"] == "bad"
    assert "--operators" in checks["operator", ""]["mend"]


# What one process may open is less than its connections need.
def test_too_few_files_are_doubted_and_a_disk_that_cannot_be_written_is_bad(double, tmp_path):
    policy, file = tmp_path / "policy.yaml", tmp_path / "file"
    policy.write_text(standard(double))
    file.write_text("")
    _, checks = doctor("--policy", policy, "--connections-max", "100000000")
    files = checks["open files", ""]
    assert files["verdict"] == "doubt" and "LimitNOFILE" in files["mend"], files
    code, checks = doctor("--policy", policy, "--data", "/proc/nowhere")
    disk = checks["disk", "/proc"]
    assert code == 1 and disk["verdict"] == "bad" and "--data" in disk["mend"], disk


def test_whatever_is_not_good_says_what_to_do(double, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(standard(double, backends='  gone: { url: "http://none.invalid" }\n'))
    nowhere = ["--listen", "127.0.0.1:1", "--admin", "127.0.0.1:1", "--probes", "127.0.0.1:1"]
    _, checks = doctor("--policy", policy, *nowhere, "--data", "/proc/nowhere",
                       "--admin-token-file", tmp_path / "none",
                       "--connections-max", "100000000",
                       env={"HTTP_PROXY": "http://proxy.corp:3128"})  # fmt: skip
    assert {name for name, _ in checks} == {
        "policy", "agents' port", "admin port", "ready", "operator", "backend", "disk",
        "open files", "clock", "HTTP_PROXY", "traces"}  # fmt: skip
    for one in checks.values():
        assert one["verdict"] == "good" or one["mend"], one


def test_a_backend_whose_certificate_nobody_trusts_is_told(tmp_path):
    maker, other = Maker(tmp_path / "ca"), Maker(tmp_path / "other")
    with SecureBackend(server_context(maker.issue("shop"))) as shop:
        url = shop.url_as("localhost")
        policy = tmp_path / "policy.yaml"
        checks = {}
        for name, trusted in (("good", maker), ("bad", other)):
            policy.write_text(
                HEAD + f'  {name}: {{ url: "{url}", tls: {{ ca_file: "{trusted.cert}" }} }}\n'
            )
            checks |= doctor("--policy", policy)[1]
    assert "TLS verified" in checks["backend", "good"]["found"], checks
    assert checks["backend", "bad"]["verdict"] == "bad"
    assert "ca_file" in checks["backend", "bad"]["mend"]


def test_a_clock_that_differs_from_a_backends_is_doubted(tmp_path):
    class Late(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response_only(204)
            self.send_header("Date", formatdate(time.time() - 7_200, usegmt=True))
            self.end_headers()

        def log_message(self, *_):
            pass

    policy = tmp_path / "policy.yaml"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Late) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        policy.write_text(HEAD + f'  b: {{ url: "http://127.0.0.1:{server.server_address[1]}" }}\n')
        _, checks = doctor("--policy", policy)
        server.shutdown()
    assert checks["clock", ""]["verdict"] == "doubt"
    assert "behind this machine" in checks["clock", ""]["found"]


def test_variables_that_lead_elsewhere_are_doubted(double, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(standard(double))
    ask = ["--policy", policy, "--listen", "127.0.0.1:19080"]
    elsewhere = {"HTTP_PROXY": "http://proxy.corp:3128"}
    assert doctor(*ask)[1]["HTTP_PROXY", ""]["verdict"] == "good"
    assert "proxy.corp" in doctor(*ask, env=elsewhere)[1]["HTTP_PROXY", ""]["found"]
    around = {"HTTP_PROXY": "http://127.0.0.1:19080", "NO_PROXY": "localhost,127.0.0.1"}
    found = doctor(*ask, env=around)[1]["HTTP_PROXY", ""]
    assert found["verdict"] == "doubt" and "leads around it to" in found["found"]
    around["NO_PROXY"] = "elsewhere.test"
    assert doctor(*ask, env=around)[1]["HTTP_PROXY", ""]["verdict"] == "good"


def test_a_policy_with_errors_is_bad_and_leads_to_the_check(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(HEAD + "  b: { url: x }\n")
    code, checks = doctor("--policy", policy)
    names = {one["name"]: one for one in checks.values()}
    assert code == 1 and names["policy"]["verdict"] == "bad"
    assert names["policy"]["mend"] == f"recourse policy check {policy}"


def test_whoever_names_no_operators_is_told_to_name_the_file(double, tmp_path):
    policy = tmp_path / "policy.yaml"
    tool = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 0s }
"""
    policy.write_text(standard(double, extra_tools=tool))
    names = {one["name"]: one for one in doctor("--policy", policy)[1].values()}
    assert "nobody can approve" in names["policy"]["found"]
    assert names["policy"]["mend"] == "name the operators file: --operators FILE"


def test_people_get_lines_and_no_colours_in_a_pipe(recourse):
    told = run_cli("doctor", "--policy", recourse.policy_path, *ports_of(recourse), env=NO_PROXY)
    assert told.stdout.startswith(f"doubt       policy {recourse.policy_path}: ")
    assert "\n            do: recourse policy check" in told.stdout
    assert "\x1b" not in told.stdout
    assert f"good        admin port 127.0.0.1:{recourse.ports['admin']}: answers\n" in told.stdout


@pytest.mark.parametrize(("backend", "verdict", "found"), [
    ("keyed", "good", "the same key got the same answer"),
    ("shop", "bad", "another answer the second time"),
    ("plain", "not looked", "no key"),
])  # fmt: skip
def test_a_key_is_tried_when_somebody_asks(double, token, tmp_path, backend, verdict, found):
    policy, key = tmp_path / "policy.yaml", "key_header: Idempotency-Key"
    policy.write_text(
        f'{HEAD}  keyed: {{ url: "{double.keyed_url}", hosts: [ k.test ], {key} }}\n'
        f'  shop: {{ url: "{double.url}", hosts: [ s.test ], {key} }}\n'
        '  plain: { url: "http://127.0.0.1:1", hosts: [ p.test ] }\n'
    )
    body = tmp_path / "body.json"
    body.write_text('{"n": 1}')
    path = f"/{'keyed' if backend == 'keyed' else 'plain'}/{token}"
    _, checks = doctor("--policy", policy, "--try-key", f"POST {backend} {path}",
                       "--try-body", body, "--try-header", "X-Try: yes")  # fmt: skip
    tried = checks["key", "POST"]
    assert tried["verdict"] == verdict and found in tried["found"], tried
    assert len(double.effects(path)) == {"keyed": 2, "shop": 3, "plain": 0}[backend]
