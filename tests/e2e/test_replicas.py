"""Replicas of one workload, each with a ledger of its own, that share the install secret: what one
began is the same call to a backend that de-duplicates, whoever of them is asked again."""

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.recourse import NotReady, Recourse

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SECRET = "5e" * 32
POLICY = """\
version: 1
backends:
  bank: {{ url: "{url}", hosts: [ shop.test ], key_header: Idempotency-Key,
          connect_timeout: 30s }}
tools:
  payments.charge:
    match: POST bank /v1/payments/{{token}}
    effect: write
    undo: none
    reason: refunds are for people
  mail.send:
    match: POST bank /mail/{{token}}
    effect: write
    undo: none
    approval: {{ by: [ finance ], expires: 1h, hold: 50ms }}
"""


def secret_file(path, text=SECRET + "\n", mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def pay(proxy, token, trace=TRACE):
    headers = rawhttp.traced(trace)
    return rawhttp.call(
        proxy.port, "POST", f"/v1/payments/{token}", headers=headers, body={"client_ref": token}
    )


def replica(directory, double, secret, make=Recourse):
    directory.mkdir()
    return make(directory, POLICY.format(url=double.keyed_url), ["--install-secret-file", secret])


def keys_sent(double, token):
    path = f"/v1/payments/{token}"
    return [one["key"] for one in double.requests(path, "POST")]


def test_a_repeat_at_another_replica_carries_the_same_key(double, token, tmp_path):
    secret = secret_file(tmp_path / "secret")
    with replica(tmp_path / "a", double, secret) as one:
        with replica(tmp_path / "b", double, secret) as other:
            first = pay(one, token)
            again = pay(other, token)
    assert (first.status, again.status) == (201, 201)
    assert first.body == again.body, "the backend knew it again"
    assert len(set(keys_sent(double, token))) == 1
    assert len(double.effects(f"/v1/payments/{token}")) == 1


def test_a_replica_that_lost_its_volume_carries_the_same_key(double, token, tmp_path):
    secret = secret_file(tmp_path / "secret", mode=0o400)
    with replica(tmp_path / "a", double, secret) as one:
        assert pay(one, token).status == 201
        assert not (one.data / "install.secret").exists(), "it is in one place alone"
    with replica(tmp_path / "b", double, secret) as new:
        assert pay(new, token).status == 201
    assert len(double.effects(f"/v1/payments/{token}")) == 1


def test_without_it_each_replica_has_keys_of_its_own(double, token, tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        with Recourse(tmp_path / name, POLICY.format(url=double.keyed_url)) as proxy:
            assert pay(proxy, token).status == 201
    assert len(set(keys_sent(double, token))) == 2


def test_a_poll_is_of_the_ledger_that_gave_it(double, token, tmp_path):
    secret = secret_file(tmp_path / "secret")
    with replica(tmp_path / "a", double, secret, Staffed) as one:
        with replica(tmp_path / "b", double, secret, Staffed) as other:
            held = [
                rawhttp.call(
                    proxy.port, "POST", f"/mail/{token}",
                    headers=rawhttp.traced(TRACE), body={"to": name},
                )
                for proxy, name in ((one, "ada"), (other, "bob"))
            ]  # fmt: skip
            polls = [told.header("Location") for told in held]
            assert [told.status for told in held] == [202, 202] and polls[0] != polls[1]
            asked = [
                rawhttp.call(proxy.port, "GET", poll).status
                for proxy in (one, other)
                for poll in polls
            ]
    assert asked == [200, 404, 404, 200]


@pytest.mark.parametrize(
    "text, mode, problem",
    [
        ("", 0o600, "does not begin with 64 hex digits"),
        ("5e" * 31, 0o600, "does not begin with 64 hex digits"),
        ("zz" * 32, 0o600, "openssl rand -hex 32"),
        (SECRET, 0o644, "open to every user"),
        (None, 0o600, "--install-secret-file: cannot open"),
    ],
)
def test_a_file_that_is_none_is_refused(double, tmp_path, text, mode, problem):
    secret = tmp_path / "secret"
    if text is not None:
        secret_file(secret, text, mode)
    with pytest.raises(NotReady, match=problem):
        replica(tmp_path / "a", double, secret).start()


def test_a_ledger_keeps_the_secret_that_it_began_with(double, token, tmp_path):
    with Recourse(tmp_path, POLICY.format(url=double.keyed_url)) as proxy:
        assert pay(proxy, token).status == 201
        assert proxy.stop() == 0
        other = secret_file(tmp_path / "other")
        proxy.arguments = [*proxy.arguments, "--install-secret-file", str(other)]
        with pytest.raises(NotReady, match="--install-secret-file"):
            proxy.start()
        # So ledgers that are there come to share one: all take the secret of the first.
        secret_file(other, (proxy.data / "install.secret").read_text())
        proxy.start()
        assert pay(proxy, token).replayed
