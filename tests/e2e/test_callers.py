"""What tells callers apart besides their certificates (`callers`): fields and verified tokens."""

import json
import threading

import pytest

from support import rawhttp
from support.issuer import Issuer
from support.policies import standard
from support.prometheus import Scrape
from support.recourse import NotReady, Recourse, run_cli
from support.waiting import wait_until
from test_identity import Lab
from test_reload import put_in_force, reload_now

TRACE, OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
BY_FIELD = "callers: { field: X-Agent }\n"


def by_token(issuer, more=""):
    return (
        "callers: { jwt: { issuer: https://login.example, audience: recourse, "
        f"jwks_file: {issuer.file}, claim: email }}{more} }}\n"
    )


def headers_of(trace=None, **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return {**headers, **(rawhttp.traced(trace) if trace else {})}


def send(proxy, path, trace=None, body=None, **fields):
    return rawhttp.call(
        proxy.port, "POST", path, headers=headers_of(trace, **fields), body=body or {"a": 1}
    )


def problem(answer):
    return answer.json()["type"].rsplit("/", 1)[1]


def caller_of(proxy, path):
    return proxy.events_for(path)[-1]["caller"]


class Keys(Issuer):
    """An issuer with its keys in a file."""

    def __init__(self, directory):
        super().__init__(directory)
        self.file = directory / "jwks.json"
        self.publish(self.make("k1", "RSA"))

    def publish(self, *keys):
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps({"keys": keys}))
        fresh.replace(self.file)

    def bearer(self, **claims):
        return f"Bearer {self.token('k1', **claims)}"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    return Keys(tmp_path_factory.mktemp("issuer") / "keys")


@pytest.fixture(scope="module")
def by_field(double, tmp_path_factory):
    policy = standard(double) + BY_FIELD + (
        "quotas: { callers: { \"field:poor\": { operations_per_hour: 1 } } }\n"
    )
    with Recourse(tmp_path_factory.mktemp("field"), policy) as running:
        yield running


@pytest.fixture(scope="module")
def with_tokens(double, issuer, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("token"), standard(double) + by_token(issuer)) as running:
        yield running


def test_agents_told_apart_by_a_field_have_flows_keys_and_quotas_of_their_own(
    by_field, double, token
):
    path = f"/plain/{token}"
    first = {name: send(by_field, path, TRACE, X_Agent=name) for name in ("ann", "bob")}
    again = send(by_field, path, TRACE, X_Agent="ann")
    assert {answer.status for answer in first.values()} == {201}
    assert again.replayed and again.body == first["ann"].body != first["bob"].body
    assert len(double.effects(path)) == 2
    callers = {event["caller"] for event in by_field.events_for(path)}
    assert callers == {"field:ann", "field:bob"}
    flows = by_field.admin("GET", "/flows?all=true&limit=1000")["flows"]
    assert {flow["caller"] for flow in flows} >= callers
    assert send(by_field, f"{path}1", OTHER_TRACE, X_Agent="poor").status == 201
    over = send(by_field, f"{path}2", OTHER_TRACE, X_Agent="poor")
    assert (over.status, problem(over)) == (429, "quota-exceeded")


@pytest.mark.parametrize(
    "fields",
    [[], [("X-Agent", "")], [("X-Agent", "a"), ("X-Agent", "a")], [("X-Agent", "a" * 257)]],
    ids=["absent", "empty", "twice", "long"],
)
def test_a_write_of_nobody_is_not_sent_and_a_read_passes(by_field, double, token, fields):
    path = f"/plain/{token}"
    counted = by_field.admin("GET", "/status")["unknown_callers"]
    call = lambda method: rawhttp.call(by_field.port, method, path, headers=fields)
    told = call("POST")
    assert (told.status, problem(told), told.outcome) == (401, "caller-unknown", "not_executed")
    assert "X-Agent" in told.json()["detail"] and told.header("WWW-Authenticate") == "Recourse"
    assert double.requests(path, "POST") == [] and by_field.events_for(path) == []
    assert call("GET").status != 401 and len(double.requests(path, "GET")) == 1
    # A read is counted when its answer is over.
    counts = {"reads": counted["reads"] + 1, "writes": counted["writes"] + 1}
    wait_until(lambda: by_field.admin("GET", "/status")["unknown_callers"] == counts)
    scrape = Scrape(by_field)
    assert scrape.sum("recourse_unknown_callers_total", "write") == counts["writes"]
    assert "did not say who makes them" in by_field.cli("status").stdout


@pytest.mark.parametrize(
    "value, name",
    [
        ("local", "field:local"),
        ("a;cn:pod", "field:a%3bcn:pod"),
        ("jwt:alice", "field:jwt:alice"),
        ('q"\\', "field:q%22%5c"),
        ("\xe4\xf6", "field:%e4%f6"),
        ("a b%20", "field:a%20b%2520"),
    ],
)
def test_odd_values_are_callers_of_their_own_and_stand_in_no_log_as_they_came(
    by_field, token, value, name
):
    path = f"/plain/{token}"
    assert send(by_field, path, X_Agent=value).status == 201
    assert caller_of(by_field, path) == name
    by_field.await_log(lambda line: line.get("caller") == name)


def test_a_twin_of_the_field_is_no_caller(by_field, double, token):
    path = f"/plain/{token}"
    told = rawhttp.call(by_field.port, "POST", path, headers=[("X_Agent", "a"), ("X-Agent", "b")])
    assert (told.status, problem(told)) == (400, "malformed-request")
    assert double.requests(path) == []


def test_a_verified_token_names_the_caller_and_its_refresh_changes_nothing(
    with_tokens, issuer, double, token
):
    path = f"/plain/{token}"
    tokens = [issuer.bearer(email="ann@x.test", exp=4_000_000_000 + n) for n in range(2)]
    first = send(with_tokens, path, TRACE, Authorization=tokens[0])
    fresh = send(with_tokens, path, TRACE, Authorization=tokens[1])
    other = send(with_tokens, path, TRACE, Authorization=issuer.bearer(email="bob@x.test"))
    assert first.status == other.status == 201 and fresh.replayed
    assert first.body == fresh.body != other.body and len(double.effects(path)) == 2
    callers = {event["caller"] for event in with_tokens.events_for(path)}
    assert callers == {"jwt:ann@x.test", "jwt:bob@x.test"}
    sent = [dict(line["headers"])["Authorization"] for line in double.requests(path)]
    assert sent[0] == tokens[0], "the backend gets what the agent sent"


def test_two_users_of_one_agent_are_not_shown_each_others_answers(
    with_tokens, issuer, double, token
):
    """Where the claim names what both have in common."""
    path = f"/plain/{token}"
    users = [issuer.bearer(sub=name, email="agent@x.test") for name in ("u1", "u2")]
    first, other = (send(with_tokens, path, TRACE, Authorization=user) for user in users)
    assert first.status == 201 and problem(other) == "other-credentials"
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("scope", ["credentials", "account"])
def test_a_renewed_token_relies_on_a_key_only_where_it_is_the_accounts(
    double, issuer, tmp_path, token, scope
):
    path, calls = f"/keyed/{token}", []
    double.script("POST", path, ["read", "execute", "rst"], 1)
    policy = standard(double).replace("key_header:", f"key_scope: {scope}, key_header:")
    with Recourse(tmp_path, policy + by_token(issuer)) as proxy:
        for exp in (4_000_000_000, 4_000_000_001):
            fields = headers_of(TRACE, Authorization=issuer.bearer(exp=exp))
            calls.append(rawhttp.call(proxy.port, "POST", path, "keyed.test", fields, {"a": 1}))
    assert calls[0].outcome == "unknown"
    assert calls[1].status == (201 if scope == "account" else 409)
    assert len(double.requests(path)) == (2 if scope == "account" else 1)
    assert len(double.effects(path)) == 1


def forged(issuer):
    head, claims, _ = issuer.token("k1").split(".")
    none = "eyJhbGciOiJub25lIn0"
    return {
        "absent": [],
        "no bearer token": [("Authorization", "Basic YTpi")],
        "algorithm none": [("Authorization", f"Bearer {none}.{claims}.")],
        "none with a signature": [("Authorization", f"Bearer {none}.{claims}.AAAA")],
        "another key": [("Authorization", f"Bearer {head}.{claims}.{'A' * 342}")],
        "expired": [("Authorization", issuer.bearer(exp=1_000_000_000))],
        "another audience": [("Authorization", issuer.bearer(aud="other"))],
        "another issuer": [("Authorization", issuer.bearer(iss="https://other.example"))],
        "no such claim": [("Authorization", issuer.bearer(email=None))],
    }


@pytest.mark.parametrize("case", [
    "absent", "no bearer token", "algorithm none", "none with a signature", "another key",
    "expired", "another audience", "another issuer", "no such claim",
])  # fmt: skip
def test_a_token_that_does_not_hold_names_nobody(with_tokens, issuer, double, token, case):
    path = f"/plain/{token}"
    fields = forged(issuer)[case]
    told = rawhttp.call(with_tokens.port, "POST", path, headers=fields)
    assert (told.status, problem(told)) == (401, "caller-unknown"), told
    assert told.header("WWW-Authenticate") == "Bearer"
    assert double.requests(path) == []


def test_two_tokens_in_one_call_are_none(with_tokens, issuer, double, token):
    path = f"/plain/{token}"
    fields = [("Authorization", issuer.bearer())] * 2
    told = rawhttp.call(with_tokens.port, "POST", path, headers=fields)
    assert told.status == 400 and double.requests(path) == []


def test_mesh_certificate_with_per_user_authorization(double, issuer, tmp_path, token):
    """One pod, one certificate, two users: without `callers` none is shown the other's answer, with
    it their calls are their own."""
    path = f"/plain/{token}"
    lab = Lab(tmp_path, double)
    pod = lab.maker.issue("pod", san="URI:spiffe://shop.test/ns/a/sa/pod")
    users = [issuer.bearer(email=f"{name}@x.test", sub=name) for name in ("ann", "bob")]
    fresh = issuer.bearer(email="ann@x.test", sub="ann", exp=4_000_000_000)

    def call(user, trace):
        fields = {"Authorization": user, "Content-Type": "application/json"}
        return lab.call(pod, "POST", path, {**fields, **rawhttp.traced(trace)}, b'{"a": 1}')

    with lab.recourse as proxy:
        ann, bob = (call(user, TRACE) for user in users)
        assert ann.status == 201 and problem(bob) == "other-credentials"
        assert problem(call(fresh, TRACE)) == "other-credentials", "an opaque one"
        proxy.policy_path.write_text(standard(double) + by_token(issuer))
        put_in_force(proxy)
        ann, bob = (call(user, OTHER_TRACE) for user in users)
        assert ann.status == bob.status == 201 and ann.body != bob.body
        again = call(fresh, OTHER_TRACE)
        assert again.replayed and again.body == ann.body
        assert len(double.effects(path)) == 3
        assert caller_of(proxy, path) == "jwt:bob@x.test;spiffe://shop.test/ns/a/sa/pod"


REPEATS = [(TRACE, TRACE), (TRACE, OTHER_TRACE), (TRACE, None), (None, None), (None, TRACE)]


@pytest.mark.parametrize("trace, later", REPEATS)
@pytest.mark.parametrize("how", ["restart", "reload"])
def test_a_call_of_before_callers_is_not_sent_again(double, tmp_path, token, trace, later, how):
    """It was cut off by kill -9 under a policy without `callers`, and its outcome is unknown."""
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", {"gate": token}, "answer"], 1)
    with Recourse(tmp_path, standard(double)) as proxy:

        def cut_off():
            with pytest.raises((rawhttp.Cut, ConnectionError)):
                send(proxy, path, trace, X_Agent="ann")

        client = threading.Thread(target=cut_off)
        client.start()
        double.await_effects(path)
        proxy.kill()
        client.join()
        double.open_gate(token)
        if how == "reload":
            proxy.start()
        proxy.policy_path.write_text(standard(double) + BY_FIELD)
        if how == "restart":
            proxy.start()
        else:
            put_in_force(proxy)
        for _ in range(2):
            told = send(proxy, path, later, X_Agent="ann")
            assert (told.status, problem(told), told.outcome) == (
                409, "other-credentials", "unknown"
            ), told  # fmt: skip
        assert len(double.effects(path)) == len(double.requests(path)) == 1
        # Another call of the agent is its own.
        assert send(proxy, f"{path}x", later, X_Agent="ann").status == 201


def test_a_call_of_before_callers_is_known_by_the_key_that_it_was_told(double, tmp_path, token):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, standard(double)) as proxy:
        lost = send(proxy, path, TRACE)
        assert lost.outcome == "unknown"
        proxy.policy_path.write_text(standard(double) + BY_FIELD)
        put_in_force(proxy)
        key = lost.header("Idempotency-Key")
        for fields in ({"Idempotency_Key": key}, {"Recourse_Intent": key}):
            told = send(proxy, path, OTHER_TRACE, X_Agent="ann", **fields)
            assert problem(told) == "other-credentials" and told.outcome == "unknown"
    assert len(double.requests(path)) == 1


def test_keys_that_cannot_be_read_refuse_a_start_and_a_reload_and_otherwise_stay(
    double, tmp_path, token
):
    path = f"/plain/{token}"
    issuer = Keys(tmp_path / "keys")
    kept = issuer.file.read_text()
    issuer.file.unlink()
    proxy = Recourse(tmp_path / "recourse", standard(double) + by_token(issuer))
    with pytest.raises(NotReady, match="callers.jwt.jwks_file"):
        proxy.start()
    checked = run_cli("policy", "check", proxy.policy_path)
    assert checked.returncode != 0 and "policy.yaml:" in checked.stdout
    issuer.file.write_text(kept)
    with proxy:
        call = lambda: send(proxy, path, TRACE, Authorization=issuer.bearer())
        assert call().status == 201
        # The file goes, or says nothing, while the policy stays.
        for text in ("no keys", None):
            issuer.file.write_text(text) if text else issuer.file.unlink()
            reload_now(proxy)
            assert call().replayed
        # The policy changes too: it is refused, and the one before stays, keys and all.
        proxy.policy_path.write_text(standard(double, timeout="59s") + by_token(issuer))
        status, report = reload_now(proxy)
        assert status != 200 or report["result"] == "refused"
        assert call().replayed
        # Another key, without a new policy.
        proxy.policy_path.write_text(standard(double) + by_token(issuer))
        issuer.publish(issuer.make("k2", "EC"))
        wait_until(lambda: problem_or_none(call()) == "caller-unknown", proxy.stderr)
        fresh = f"Bearer {issuer.token('k2', 'ES256')}"
        assert send(proxy, path, TRACE, Authorization=fresh).replayed


def problem_or_none(answer):
    return problem(answer) if answer.status >= 400 else None


def test_observe_mode_foretells_the_refusal_and_lets_it_pass(double, tmp_path, token):
    path = f"/plain/{token}"
    policy = standard(double).replace("version: 1", "version: 1\nmode: observe") + BY_FIELD
    with Recourse(tmp_path, policy) as proxy:
        assert send(proxy, path).status == 201
        assert send(proxy, path, X_Agent="ann").status == 201
        line = proxy.await_log(lambda line: line.get("verdict") == "would_refuse")[0]
        assert line["reason"].startswith("caller-unknown")
        assert proxy.admin("GET", "/status")["unknown_callers"] == {"reads": 0, "writes": 1}
    assert len(double.effects(path)) == 2


def test_explain_says_what_caller_and_principal_are_made_of(by_field, with_tokens):
    shown = run_cli("policy", "explain", by_field.policy_path, "POST shop /plain/1",
                    "--header", "X-Agent: ann")  # fmt: skip
    assert "field: header X-Agent: ann" in shown.stdout, shown
    shown = run_cli("policy", "explain", by_field.policy_path, "POST shop /plain/1")
    assert "absent in this call" in shown.stdout and "caller-unknown" in shown.stdout
    shown = run_cli("policy", "explain", with_tokens.policy_path, "POST shop /plain/1",
                    "--header", "Authorization: Bearer x")  # fmt: skip
    assert "email of the verified token in Authorization" in shown.stdout
    assert "header Authorization (issuer and subject of its token)" in shown.stdout
