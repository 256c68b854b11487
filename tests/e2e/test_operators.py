"""Who may use the admin port, and for what: tokens, JWTs, certificates, sessions of browsers."""

import json
import signal
import socket
import ssl
import subprocess
import time

import pytest

from support import rawhttp
from support.certificates import Maker
from support.issuer import Issuer, b64
from support.operators import CSRF, Guarded, tokens
from support.policies import standard
from support.recourse import ROOT, WAIT_MAX, NotReady, run_cli
from support.secure import SecureBackend, server_context
from support.waiting import wait_until

ALICE, BOB, CAROL, DAVE, HOOK = (
    name + "-token-of-thirty-two-bytes-and-more" for name in "abcdh"
)

# (method, path, the role that it takes).
# Every endpoint has a row but POST /drain, which ends what the others need.
ENDPOINTS = [
    ("GET", "/approvals", "read"),
    ("GET", "/approvals/999999", "read"),
    ("POST", "/approvals/999999/approve", "approve"),
    ("POST", "/approvals/999999/reject", "approve"),
    ("GET", "/events", "read"),
    ("GET", "/events/1", "read"),
    ("GET", "/flows", "read"),
    ("GET", "/flows/none", "read"),
    ("GET", "/flows/none/preview", "read"),
    ("GET", "/ledger", "read"),
    ("GET", "/log-level", "read"),
    ("GET", "/operations", "read"),
    ("GET", "/policy", "read"),
    ("GET", "/policy/explain?call=GET+shop+/", "read"),
    ("GET", "/policy/tools", "read"),
    ("GET", "/report", "read"),
    ("GET", "/status", "read"),
    ("GET", "/stream?after=none", "read"),  # a good one has no end
    ("GET", "/version", "read"),
    ("POST", "/ledger/verify", "read"),
    ("POST", "/policy/explain", "read"),
    ("POST", "/flows/close", "repair"),
    ("POST", "/flows/none/cancel", "repair"),
    ("POST", "/flows/none/close", "repair"),
    ("POST", "/flows/none/resolve", "repair"),
    ("POST", "/flows/none/retry", "repair"),
    ("POST", "/flows/none/undo", "repair"),
    ("POST", "/ledger/accept", "repair"),
    ("POST", "/ledger/backup", "repair"),
    ("POST", "/operations/1/settle", "settle"),
    ("POST", "/policy/reload", "repair"),
    ("PUT", "/log-level", "repair"),
]


PEOPLE = tokens(
    ("alice@example.com", ALICE, "read"),
    ("bob@example.com", BOB, "approve"),
    ("carol@example.com", CAROL, "repair"),
    ("adyen-webhooks", HOOK, "settle"),
)


@pytest.fixture(scope="module")
def guarded(double, tmp_path_factory):
    with Guarded(tmp_path_factory.mktemp("guarded"), standard(double), PEOPLE) as running:
        yield running
        assert running.stop() == 0


def test_a02_nobody_without_a_credential_uses_the_admin_port(guarded):
    for method, path, _ in [*ENDPOINTS, ("POST", "/session", ""), ("GET", "/nothing", "")]:
        status, fields, _ = guarded.ask(method, path)
        assert (status, fields["WWW-Authenticate"]) == (401, "Bearer"), (method, path)


def test_each_endpoint_takes_its_role_and_no_other(guarded):
    of_role = {"read": ALICE, "approve": BOB, "repair": CAROL, "settle": HOOK}
    for method, path, role in ENDPOINTS:
        for held, token in of_role.items():
            status, _, body = guarded.ask(method, path, token)
            may = held == role or (held, role) == ("repair", "settle")
            assert (status == 403) == (not may), (method, path, held, status, body)
            if status == 403:
                assert f"the role {role}" in json.loads(body)["detail"]


def test_the_shared_admin_token_reads_and_repairs_and_approves_nothing(guarded):
    who = guarded.who(guarded.token)
    assert (who["name"], who["how"], who["roles"]) == ("admin", "admin-token", ["read", "repair"])
    for method, path, role in ENDPOINTS:
        is_refused = guarded.ask(method, path, guarded.token)[0] in (401, 403)
        assert is_refused == (role == "approve"), (method, path)


def test_what_is_no_endpoint_is_refused_and_get_changes_nothing(guarded):
    assert guarded.ask("GET", "/flows/none/close", CAROL)[0] == 405
    status, fields, _ = guarded.ask("HEAD", "/ledger/accept", CAROL)
    assert (status, fields["Allow"]) == (405, "POST")
    assert guarded.ask("GET", "/nothing", ALICE)[0] == 404
    assert guarded.ask("GET", "//flows", ALICE)[0] == 404
    assert guarded.ask("OPTIONS", "/flows", ALICE)[0] == 405


def test_an_order_is_written_down_with_its_operator_and_without_the_token(guarded):
    guarded.ask("POST", "/policy/reload", CAROL)
    guarded.ask("POST", "/flows/none/close", ALICE)
    done, refused = guarded.orders()[-2:]
    assert (done["operator"], done["action"], done["status"], done["how"]) == (
        "carol@example.com", "POST /policy/reload", "200", "token",
    )  # fmt: skip
    assert (refused["operator"], refused["target"], refused["status"]) == (
        "alice@example.com", "/flows/none/close", "403",
    )  # fmt: skip
    assert not any(token in guarded.stderr() for token in (ALICE, BOB, CAROL, guarded.token))


def test_a_named_operator_cannot_give_orders_in_another_name(guarded, double, token):
    answer = rawhttp.call(guarded.port, "POST", f"/w/{token}", body={"a": 1})
    assert answer.status in (200, 201)
    flow = guarded.admin("GET", "/flows?all=true")["flows"][-1]["number"]
    target = f"/flows/{flow}/close"
    body = json.dumps({"reason": "enough", "by": "alice"})
    status, _, text = guarded.ask("POST", target, CAROL, body=body)
    assert status == 400 and "carol@example.com" in json.loads(text)["detail"]
    status, _, text = guarded.ask("POST", target, CAROL, body=json.dumps({"reason": "enough"}))
    assert (status, json.loads(text)["reason"]) == (200, "carol@example.com: enough")


def test_a05_a_session_changes_nothing_without_its_csrf_token_and_our_own_origin(guarded):
    cookie, csrf = guarded.login(CAROL)
    own = f"http://localhost:{guarded.ports['admin']}"
    target = "/policy/reload"
    good = {"Cookie": cookie, CSRF: csrf, "Origin": own}

    def status_with(**changed):
        fields = {name: value for name, value in {**good, **changed}.items() if value is not None}
        return guarded.ask("POST", target, headers=fields)[0]

    assert status_with() == 200
    assert status_with(**{"Origin": None, "Sec-Fetch-Site": "same-origin"}) == 200
    refused = [
        {CSRF: None}, {CSRF: "x" * 43}, {"Origin": None}, {"Origin": "null"},
        {"Origin": "http://localhost:1"}, {"Origin": "http://evil.example"},
        {"Origin": own + ".evil.example"}, {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": None},
    ]  # fmt: skip
    assert [status_with(**change) for change in refused] == [403] * len(refused)
    assert status_with(Cookie="recourse_session=" + "x" * 43) == 401
    status, fields, _ = guarded.ask("GET", "/ledger", headers={"Cookie": cookie})
    assert status == 403 and "Access-Control-Allow-Origin" not in fields  # carol does not read
    # A bearer token is nothing that a foreign page could send.
    assert guarded.ask("POST", target, CAROL, headers={"Origin": "http://evil.example"})[0] == 200


def test_a_session_knows_its_operator_and_ends(guarded):
    cookie, csrf = guarded.login(ALICE)
    status, _, body = guarded.ask("GET", "/session", headers={"Cookie": "a=b; " + cookie})
    assert status == 200 and json.loads(body) == {
        "name": "alice@example.com", "how": "token", "roles": ["read"], "groups": [], "csrf": csrf,
    }  # fmt: skip
    fields = {"Cookie": cookie, CSRF: csrf, "Sec-Fetch-Site": "same-origin"}
    assert guarded.ask("POST", "/session", headers=fields)[0] == 400  # none begins another
    status, set_fields, _ = guarded.ask("DELETE", "/session", headers=fields)
    assert (status, "Max-Age=0" in set_fields["Set-Cookie"]) == (204, True)
    assert guarded.ask("GET", "/session", headers={"Cookie": cookie})[0] == 401


def test_a_page_under_a_foreign_name_cannot_reach_the_admin_port(double, tmp_path):
    arguments = ["--admin-host", "Ops.example", "--admin-host", "ui.example"]
    with Guarded(tmp_path, standard(double), PEOPLE, arguments) as running:
        port = running.ports["admin"]
        foreign = ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.x")
        for host in foreign:
            assert running.ask("GET", "/events", ALICE, {"Host": host})[0] == 421, host
        for host in ("127.0.0.1", f"[::1]:{port}", "LOCALHOST:1", "ops.example", "UI.example:443"):
            assert running.ask("GET", "/events", ALICE, {"Host": host})[0] == 200, host


def test_a06_guesses_are_slowed_down_and_lock_out_no_good_token(double, tmp_path):
    with Guarded(tmp_path, standard(double), PEOPLE) as running:
        # A place comes back every 6 s, so a slow machine needs a few more.
        seen = []
        while not seen or seen[-1][0] == 401 and len(seen) < 60:
            seen.append(running.ask("GET", "/events", f"guess-{len(seen)}"))
        statuses = [status for status, _, _ in seen]
        assert len(statuses) > 10 and statuses[-1] == 429, statuses
        assert int(seen[-1][1]["Retry-After"]) >= 1
        assert running.ask("GET", "/events", ALICE)[0] == 200
        assert "a login at the admin port failed" in running.stderr()
        assert "guess-" not in running.stderr()


def test_a_changed_operators_file_counts_at_once_and_ends_sessions(double, tmp_path):
    with Guarded(tmp_path, standard(double), PEOPLE) as running:
        cookie, _ = running.login(ALICE)
        people = tokens(("bob@example.com", BOB, "read, approve"), ("dave", DAVE, "read"))
        running.operators_path.write_text("version: 1\n" + people)
        running.await_said("the operators were read again")
        assert running.who(DAVE)["roles"] == ["read"]
        assert running.who(BOB)["roles"] == ["read", "approve"]
        assert running.who(ALICE) == 401
        assert running.ask("GET", "/session", headers={"Cookie": cookie})[0] == 401
        # What has an error changes nothing.
        running.operators_path.write_text("version: 1\ntokens:\n  - { name: dave, sha: x }\n")
        running.await_said("operators.yaml:3:5: error: tokens[0].sha256")
        assert running.who(DAVE)["roles"] == ["read"]


def test_a_wrong_operators_file_stops_the_start_and_is_told_with_its_place(double, tmp_path):
    wrong = """\
tokens:
  - { name: admin, sha256: "12", role: [ read ] }
roles: { aprove: [ x ] }
"""
    running = Guarded(tmp_path, standard(double), wrong)
    with pytest.raises(NotReady, match="exit 3"):
        running.start()
    for text in (
        "operators.yaml:3:7: error: tokens[0].name:", "tokens[0].sha256: is not the SHA-256",
        "tokens[0].role: unknown key, did you mean 'roles'?", "did you mean 'approve'?",
    ):  # fmt: skip
        assert text in running.stderr()
    checked = run_cli("operators", "check", running.operators_path)
    assert checked.returncode == 3 and "operators.yaml:3:7" in checked.stdout


def test_the_example_of_an_operators_file_is_one():
    checked = run_cli("operators", "check", ROOT / "proxy/package/operators.yaml")
    assert checked.returncode == 0 and checked.stdout.startswith("ok: "), checked


def test_a_printed_token_opens_the_door_with_the_printed_line(double, tmp_path):
    printed = run_cli("operators", "token", "erin@example.com").stdout.splitlines()
    token, line = printed[1], printed[-1]
    assert len(token) == 43
    with Guarded(tmp_path, standard(double), "tokens:\n" + line + "\n") as running:
        assert running.who(token)["name"] == "erin@example.com"
        token_file = tmp_path / "erin"
        token_file.write_text(token)
        address = f"127.0.0.1:{running.ports['admin']}"
        options = ["--admin", address, "--admin-token-file", token_file]
        assert run_cli("ledger", "verify", *options).returncode == 0
        refused = run_cli("policy", "reload", *options)
        assert refused.returncode != 0 and "the role repair" in refused.stderr


def test_a_printed_line_has_the_groups_and_roles_that_were_asked_for(tmp_path):
    told = run_cli("operators", "token", "ann", "--group", "finance", "--group", "sre", "--role",
                   "read", "--role", "approve")
    assert told.returncode == 0, told
    line = told.stdout.rstrip().splitlines()[-1]
    assert 'groups: [ "finance", "sre" ], roles: [ read, approve ] }' in line
    (tmp_path / "operators.yaml").write_text(f"version: 1\ntokens:\n{line}\n")
    checked = run_cli("operators", "check", tmp_path / "operators.yaml")
    assert checked.returncode == 0, checked
    refused = run_cli("operators", "token", "ann", "--role", "boss")
    assert refused.returncode == 2 and "boss" in refused.stderr
    refused = run_cli("operators", "token", "ann", "--group", 'a"b')
    assert refused.returncode == 2 and "cannot name a group" in refused.stderr


JWT = """\
jwt: {{ issuer: "https://login.example", audience: recourse, name_claim: email, {keys} }}
roles: {{ read: [ sre ], repair: [ sre ] }}
"""


def test_tokens_of_an_issuer_are_judged_by_the_keys_of_a_file(double, tmp_path):
    issuer = Issuer(tmp_path / "issuer")
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [issuer.make("r1", "RSA"), issuer.make("e1", "EC")]}))
    issuer.make("r2", "RSA")
    operators = JWT.format(keys=f'jwks_file: "{keys}"')
    with Guarded(tmp_path / "run", standard(double), operators) as running:
        for token in (issuer.token("r1"), issuer.token("e1", "ES256")):
            who = running.who(token)
            assert (who["name"], who["how"], who["roles"]) == (
                "alice@example.com", "jwt", ["read", "repair"],
            )  # fmt: skip
        assert running.who(issuer.token("r1", groups=["other"]))["roles"] == []
        good = issuer.token("r1")
        head, claims, signature = good.split(".")
        none = b64(b'{"alg":"none"}')
        bad = [
            issuer.token("r2"), f"{none}.{claims}.", f"{none}.{claims}.{signature}",
            issuer.token("r1", exp=int(time.time()) - 120), issuer.token("r1", aud="other"),
            issuer.token("r1", iss="https://evil.example"),
            issuer.token("r1", nbf=int(time.time()) + 600),
        ]  # fmt: skip
        assert [running.who(token) for token in bad] == [401] * len(bad)
        # A session lasts as long as the token would.
        cookie, _ = running.login(good)
        assert running.ask("GET", "/ledger", headers={"Cookie": cookie})[0] == 200
        rotated = [issuer.jwk("r2", "RSA", issuer.directory / "r2.pem")]
        keys.write_text(json.dumps({"keys": rotated}))
        running.await_said("the operators were read again")
        assert running.who(issuer.token("r2"))["how"] == "jwt"
        assert running.ask("GET", "/ledger", headers={"Cookie": cookie})[0] == 401


def test_keys_from_a_url_are_read_again_for_an_unknown_kid_and_not_for_each(double, tmp_path):
    issuer, maker = Issuer(tmp_path / "issuer"), Maker(tmp_path / "ca")
    shown = [issuer.make("e1", "EC")]
    asked = []

    def serve(sock, path):
        asked.append(path)
        body = json.dumps({"keys": shown}).encode()
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with SecureBackend(server_context(maker.issue("login"))) as login:
        login.answer = serve
        keys = f'jwks_url: "{login.url_as("localhost")}/keys", jwks_ca_file: "{maker.cert}"'
        with Guarded(tmp_path / "run", standard(double), JWT.format(keys=keys)) as running:
            running.await_login(issuer.token("e1", "ES256"))
            assert asked == ["/keys"]
            shown.append(issuer.make("e2", "EC"))
            running.await_login(issuer.token("e2", "ES256"))
            issuer.make("e3", "EC")
            assert [running.who(issuer.token("e3", "ES256")) for _ in range(3)] == [401] * 3
            assert asked == ["/keys"] * 2
            assert running.who(issuer.token("e1", "ES256"))["name"] == "alice@example.com"


def test_keys_from_a_server_that_is_not_trusted_are_not_taken(double, tmp_path):
    issuer = Issuer(tmp_path / "issuer")
    issuer.make("e1", "EC")
    trusted, other = Maker(tmp_path / "ca"), Maker(tmp_path / "other")
    with SecureBackend(server_context(other.issue("login"))) as login:
        keys = f'jwks_url: "{login.url_as("localhost")}/keys", jwks_ca_file: "{trusted.cert}"'
        with Guarded(tmp_path / "run", standard(double), JWT.format(keys=keys)) as running:
            status, _, body = running.ask("GET", "/session", issuer.token("e1", "ES256"))
            assert status == 503 and "the issuer's keys" in json.loads(body)["detail"]
            running.await_said("the issuer's keys cannot be read")


def test_the_admin_port_speaks_tls_and_a_certificate_names_the_operator(double, tmp_path):
    maker, strangers = Maker(tmp_path / "ca"), Maker(tmp_path / "strangers")
    server = maker.issue("server")
    alice = maker.issue("alice", san=None, subject="alice")
    mallory = maker.issue("mallory", san=None, subject="mallory")
    stranger = strangers.issue("alice", san=None, subject="alice")
    operators = PEOPLE + (
        'client_certificates: { groups: { "cn:alice": [ sre ] } }\n'
        "roles: { read: [ sre ], repair: [ sre ] }\n"
    )
    arguments = ["--admin-tls-cert", server.cert, "--admin-tls-key", server.key,
                 "--admin-client-ca", maker.cert]  # fmt: skip
    with Guarded(tmp_path / "run", standard(double), operators, arguments) as running:
        url = f"https://localhost:{running.ports['admin']}"

        def curl(*options):
            done = subprocess.run(
                ["curl", "-sS", "--cacert", maker.cert, *map(str, options)],
                capture_output=True, text=True, timeout=WAIT_MAX, check=False,
            )  # fmt: skip
            return done.returncode, done.stdout

        def by(identity):
            return ["--cert", identity.cert, "--key", identity.key]

        code, body = curl(url + "/session", *by(alice))
        assert (code, json.loads(body)["name"]) == (0, "cn:alice")
        assert json.loads(curl(url + "/session", *by(mallory))[1])["roles"] == []
        assert json.loads(curl(url + "/events", *by(mallory))[1])["status"] == 403
        assert curl(url + "/session", *by(stranger))[0] != 0
        bearer = ["-H", f"Authorization: Bearer {ALICE}"]
        assert json.loads(curl(url + "/session", *bearer)[1])["name"] == "alice@example.com"
        assert json.loads(curl(url + "/events")[1])["status"] == 401
        assert curl(url.replace("https", "http") + "/events")[0] != 0
        # A browser sends its certificate for any page that asks it to.
        reload = ["-X", "POST", url + "/policy/reload", *by(alice), "-o", "/dev/null", "-w",
                  "%{http_code}"]  # fmt: skip
        assert curl(*reload)[1] == "200"
        assert curl(*reload, "-H", "Origin: https://evil.example")[1] == "403"

        context = ssl.create_default_context(cafile=maker.cert)
        context.load_cert_chain(alice.cert, alice.key)
        status, fields, body = running.ask("POST", "/session", context=context)
        cookie = fields["Set-Cookie"]
        assert status == 200 and "; Secure" in cookie
        own = {"Cookie": cookie.partition(";")[0], CSRF: json.loads(body)["csrf"], "Origin": url}
        assert running.ask("POST", "/policy/reload", headers=own, context=context)[0] == 200
        nobody = ssl.create_default_context(cafile=maker.cert)
        assert running.ask("POST", "/policy/reload", headers=own, context=nobody)[0] == 401

        options = ["--admin", url, "--admin-ca", maker.cert]
        verified = run_cli("ledger", "verify", *options, "--admin-cert", alice.cert,
                           "--admin-key", alice.key)  # fmt: skip
        assert verified.returncode == 0, verified.stderr
        backup = tmp_path / "copy"
        copied = run_cli("ledger", "backup", backup, *options, "--admin-cert", alice.cert,
                         "--admin-key", alice.key)  # fmt: skip
        assert copied.returncode == 0 and backup.stat().st_size > 0, copied.stderr
        assert "401" not in verified.stderr
        untrusted = run_cli("ledger", "verify", "--admin", url, "--admin-ca", strangers.cert)
        assert untrusted.returncode != 0 and "no TLS with localhost" in untrusted.stderr


def test_silence_in_the_handshake_ends_and_new_certificates_are_taken_at_a_sighup(
    double, tmp_path
):
    maker, other = Maker(tmp_path / "ca"), Maker(tmp_path / "other")
    server, fresh = maker.issue("server"), other.issue("server")
    arguments = ["--admin-tls-cert", server.cert, "--admin-tls-key", server.key]
    with Guarded(tmp_path / "run", standard(double), PEOPLE, arguments) as running:
        address = ("127.0.0.1", running.ports["admin"])
        with socket.create_connection(address, timeout=WAIT_MAX) as silent:
            with socket.create_connection(address, timeout=WAIT_MAX) as plain:
                plain.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert not plain.recv(100).startswith(b"HTTP")
            server.cert.write_text(fresh.cert.read_text())
            server.key.write_text(fresh.key.read_text())
            running.process.send_signal(signal.SIGHUP)
            context = ssl.create_default_context(cafile=other.cert)

            def is_taken():
                try:
                    assert running.ask("GET", "/events", ALICE, context=context)[0] == 200
                    return True
                except ssl.SSLError:
                    return False

            wait_until(is_taken, lambda: running.stderr()[-2000:])
            assert silent.recv(1) == b""  # within its five seconds
