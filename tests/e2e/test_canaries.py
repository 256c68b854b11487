"""I16: secrets that go through the process appear nowhere but where they were meant to go."""

import json
import secrets

from support import rawhttp
from support.recourse import Recourse, run_cli
from support.waiting import wait_until

TRACE = "6bf92f3577b34da6a3ce929d0e0e4736"
POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: guard }}
ledger: {{ keep_headers: [ X-Receipt ] }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 5s }}
tools:
  pay:
    match: POST shop /pay/{{token}}
    effect: write
    identity: [ body#/order ]
    external_ref: answer.body#/id
    redact: [ answer.body#/pan, answer.header.X-Receipt, body#/card ]
    settle:
      request: "GET /pay/{{path.token}}?order={{body#/order}}"
      headers: {{ X-Shared: "{{header.X-Shared}}", Authorization: "{{header.Authorization}}" }}
      happened: answer.body#/items/0/id
    undo:
      request: "POST /undo/{{external_ref}}"
      headers: {{ Authorization: "{{header.Authorization}}" }}
      json: {{ order: "{{body#/order}}", note: "{{answer.body#/note}}" }}
"""
# Where a canary may be read by an operator who holds the token: what was kept, and nothing else.
KEPT = ("body-order", "header-shared", "answer-note", "answer-id")


class Canaries:
    """One random secret per place."""

    def __init__(self):
        self.all = {}

    def __getitem__(self, name):
        return self.all.setdefault(name, f"canary-{name}-{secrets.token_hex(8)}")


def raw_answer(status, body, canaries, path):
    headers = {
        "Content-Type": "application/json",
        "Set-Cookie": f"sid={canaries[path + 'set-cookie']}",
        "X-Receipt": canaries[path + "receipt"],
        "X-Internal": canaries[path + "internal"],
        "WWW-Authenticate": "Bearer",
        "Content-Length": str(len(body)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n{body}"


def call(proxy, path, canaries):
    headers = {
        **rawhttp.traced(TRACE),
        "Authorization": f"Bearer {canaries['authorization']}",
        "Cookie": f"sid={canaries['cookie']}",
        "X-Api-Key": canaries["api-key"],
        "Proxy-Authorization": f"Basic {canaries['proxy']}",
        "X-Shared": canaries["header-shared"],
    }
    body = {
        "order": f"{canaries['body-order']}-{path}",
        "card": {"number": canaries["card"]},
        "text": canaries["body-text"],
    }
    return rawhttp.call(
        proxy.port, "POST", f"{path}?token={canaries['query']}", headers=headers, body=body
    )


def expect_probe_with_credential(double, path, canaries):
    double.await_requests("GET", path)
    double.await_recorded()
    probe = next(r for r in double.requests(path) if r["method"] == "GET")
    assert canaries["authorization"] in dict(probe["headers"])["Authorization"]


def found_in(canaries, text):
    data = text if isinstance(text, bytes) else text.encode()
    return sorted(name for name, value in canaries.all.items() if value.encode() in data)


def test_no_secret_of_a_call_reaches_disk_logs_metrics_or_exports(double, tmp_path, token):
    canaries = Canaries()
    done = {
        "id": canaries["answer-id"], "pan": canaries["pan"],
        "note": canaries["answer-note"], "more": canaries["answer-body"],
    }  # fmt: skip
    answers = {
        f"/pay/{token}-done": (201, json.dumps(done)),
        f"/pay/{token}-refused": (422, json.dumps({"why": canaries["refusal"]})),
        f"/pay/{token}-unknown": (500, canaries["error-page"]),
        f"/unlisted/{token}": (201, json.dumps({"x": canaries["unlisted"]})),
    }
    for path, (status, body) in answers.items():
        answer = raw_answer(status, body, canaries, path[1:4])
        double.script("POST", path, ["read", {"send": answer}])
    probe = raw_answer(500, canaries["probe"], canaries, "probe")
    double.script("GET", f"/pay/{token}-unknown", ["read", {"send": probe}])
    policy, arguments = POLICY.format(url=double.url), ["--log-level", "debug"]
    with Recourse(tmp_path / "run", policy, arguments) as proxy:
        first = call(proxy, f"/pay/{token}-done", canaries)
        assert first.status == 201 and canaries["pan"].encode() in first.body
        assert first.header("Set-Cookie") and first.header("X-Receipt")
        again = call(proxy, f"/pay/{token}-done", canaries)
        assert again.replayed and again.status == 201
        assert json.loads(again.body) == {**done, "pan": "[redacted]"}
        assert again.header("Recourse-Redacted") == "answer.body#/pan, answer.header.X-Receipt"
        assert not again.header("Set-Cookie") and not again.header("X-Receipt")
        for path in list(answers)[1:]:
            call(proxy, path, canaries)
        rawhttp.call(
            proxy.port, "GET", f"/read/{token}?q={canaries['read-query']}",
            headers={"Authorization": canaries["read-authorization"]},
        )  # fmt: skip
        broken = f"GET / HTTP/1.1\r\nX: {canaries['broken']}\n\n"
        rawhttp.exchange(proxy.port, broken.encode())
        expect_probe_with_credential(double, f"/pay/{token}-unknown", canaries)

        spoken = {
            "metrics": proxy.probe("/metrics")[1],
            "list": json.dumps(proxy.events()),
            "cli list": proxy.cli("events", "list", "--json").stdout,
            "cli show": proxy.cli("events", "show", "3", "--json").stdout,
            "export": proxy.cli("ledger", "export").stdout,
            "verify": json.dumps(proxy.verify()),
        }
        operators = proxy.cli("ledger", "export", "--with-answers").stdout
        # The access log is written behind the answers.
        wait_until(lambda: proxy.stdout().count("\n") >= 6, proxy.stdout)
        proxy.kill()
        proxy.start()
        assert call(proxy, f"/pay/{token}-done", canaries).replayed
        proxy.kill()
        spoken["stdout"], spoken["stderr"] = proxy.stdout(), proxy.stderr()

    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            spoken[str(path)] = path.read_bytes()
    assert any(name.endswith("data.mdb") for name in spoken)
    for where, text in spoken.items():
        # The reference is an event's own field.
        allowed = {"answer-id"} if where in ("list", "cli list", "cli show", "export") else set()
        assert set(found_in(canaries, text)) <= allowed, where
    shown = found_in(canaries, operators)
    assert set(KEPT) <= set(shown)
    assert "[credential]" in operators
    assert not {"pan", "card", "query"} & set(shown)
    assert not [name for name in shown if "cookie" in name or "auth" in name or "key" in name]
    assert not [name for name in shown if "receipt" in name or "internal" in name]


def test_a_policy_that_would_store_a_redacted_value_is_refused(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        POLICY.format(url="http://127.0.0.1:9").replace("redact: [", "redact: [ body#/order,")
    )
    check = run_cli("policy", "check", policy)
    assert check.returncode == 3
    assert "tools.pay.settle" in check.stdout and "`redact` says that body#/order" in check.stdout
    assert "tools.pay.undo" in check.stdout
