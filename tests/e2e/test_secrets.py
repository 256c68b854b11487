"""What is on disk and who can read it: sealed rows, keys, rotation, older ledgers, canaries."""

import json
import os
import pathlib
import re
import signal

import pytest

from support import rawhttp
from support.recourse import NotReady, Recourse, run_cli
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 60s,
          connect_timeout: 30s }}
tools:
  orders.create:
    match: POST shop /orders/{{token}}
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /orders/{{path.token}}?client_ref={{body#/client_ref}}"
      happened: answer.body#/items/0/id
    undo:
      request: "DELETE /orders/{{external_ref}}"
      headers: {{ X-Why: "{{header.X-Why}}" }}
      repeatable: true
"""


def post(proxy, token, **headers):
    fields = {**rawhttp.traced(TRACE), "X-Why": "a reason", **headers}
    return rawhttp.call(
        proxy.port, "POST", f"/orders/{token}", headers=fields, body={"client_ref": token}
    )


def files_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def key_file(path, *lines):
    path.write_text("".join(lines))
    path.chmod(0o600)
    return path


def new_key(name):
    made = run_cli("ledger", "new-key", name)
    assert made.returncode == 0, made.stderr
    return made.stdout


def await_log(proxy, text):
    wait_until(lambda: text in proxy.stderr(), lambda: proxy.stderr()[-3000:])


def test_without_a_key_file_a_key_is_made_beside_the_data_and_told(double, tmp_path, token):
    with Recourse(tmp_path, POLICY.format(url=double.url)) as proxy:
        limits = pathlib.Path(f"/proc/{proxy.pid}/limits").read_text()
        assert re.search(r"Max core file size +0 +0", limits)
        key = proxy.data / "ledger.key"
        assert key.stat().st_mode & 0o777 == 0o600
        assert "lies beside them" in proxy.stderr()
        assert post(proxy, token).status == 201
        proxy.kill()
        saved = key.read_bytes()
        key.unlink()
        with pytest.raises(NotReady, match="ledger.key is missing, and the ledger beside it"):
            proxy.start()
        key.write_bytes(saved)
        key.chmod(0o600)
        proxy.start()
        assert post(proxy, token).replayed
        assert len(double.effects(f"/orders/{token}")) == 1


def test_keys_rotate_while_the_process_runs(double, tmp_path, token):
    old, new = new_key("k1"), new_key("k2")
    keys = key_file(tmp_path / "keys", old)
    arguments = ["--ledger-key-file", keys]
    with Recourse(tmp_path, POLICY.format(url=double.url), arguments) as proxy:
        first = post(proxy, f"{token}-old")
        assert first.status == 201
        key_file(keys, new)  # the key in use is not thrown away
        os.kill(proxy.pid, signal.SIGHUP)
        await_log(proxy, "it lacks key 'k1'")
        key_file(keys, "k3\n", old)
        os.kill(proxy.pid, signal.SIGHUP)
        await_log(proxy, "line 1: key 'k3' has no value")
        key_file(keys, new, old)
        os.kill(proxy.pid, signal.SIGHUP)
        await_log(proxy, "ledger keys read again")
        assert post(proxy, f"{token}-new").status == 201
        for part in ("old", "new"):
            assert post(proxy, f"{token}-{part}").replayed
        proxy.kill()
        proxy.start()
        assert post(proxy, f"{token}-old").body == first.body
        assert post(proxy, f"{token}-new").replayed
        assert proxy.verify()["ok"]
        assert old.split()[1] not in proxy.stderr() + proxy.stdout()


def test_a_key_that_is_gone_harms_nothing_but_what_it_sealed(double, tmp_path, token):
    keys = key_file(tmp_path / "keys", new_key("k1"))
    lost = keys.read_text()
    arguments = ["--ledger-key-file", keys]
    done, open_, fresh = f"{token}-done", f"{token}-open", f"{token}-fresh"
    unknown = ["read", {"send": "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"}]
    double.script("POST", f"/orders/{open_}", unknown)
    double.script("GET", f"/orders/{open_}", unknown)
    with Recourse(tmp_path, POLICY.format(url=double.url), arguments) as proxy:
        assert post(proxy, done).status == 201
        assert post(proxy, open_).status == 500
        assert post(proxy, f"{token}-other").status == 201
        proxy.kill()
        key_file(keys, new_key("k2"))
        proxy.start()
        assert "newest event is sealed with a key that the key file lacks" in proxy.stderr()
        answer = post(proxy, done)
        problem = json.loads(answer.body)
        assert answer.status == 409 and problem["outcome"] == "executed"
        assert "key 'k1'" in problem["detail"]
        answer = post(proxy, open_)
        problem = json.loads(answer.body)
        assert answer.status == 409 and problem["outcome"] == "unknown"
        assert "key 'k1'" in problem["detail"]
        assert post(proxy, fresh).status == 201 and post(proxy, fresh).replayed
        assert "key 'k1'" in proxy.events()[0]["detail"]
        report = proxy.verify()
        assert not report["ok"] and report["check"] == "key"
        assert report["bad_row"] == proxy.events()[0]["event_id"]
        assert "key 'k1'" in report["problem"]
        # The line comes back: everything is as it was.
        key_file(keys, keys.read_text(), lost)
        os.kill(proxy.pid, signal.SIGHUP)
        await_log(proxy, "ledger keys read again")
        assert post(proxy, done).replayed
        assert proxy.verify()["ok"]
    assert len(double.effects(f"/orders/{done}")) == 1
    assert len(double.requests(f"/orders/{open_}", "POST")) == 1


@pytest.mark.parametrize(
    "mode, problem",
    [(0o644, "open to every user"), (0o640, "may be read by its group"), (0o620, "its group")],
)
def test_a_key_file_that_others_can_reach_is_refused(tmp_path, mode, problem):
    keys = key_file(tmp_path / "keys", new_key("k1"))
    keys.chmod(mode)
    proxy = Recourse(tmp_path, POLICY.format(url="http://127.0.0.1:9"), ["--ledger-key-file", keys])
    with pytest.raises(NotReady, match=problem):
        proxy.start()


def test_a_mounted_secret_is_a_key_file(tmp_path):
    mount = tmp_path / "mount"
    (mount / "..data").mkdir(parents=True)
    real = mount / "..data" / "keys"
    real.write_text(new_key("k1"))
    real.chmod(0o440)
    (mount / "keys").symlink_to("..data/keys")
    arguments = ["--ledger-key-file", mount / "keys"]
    with Recourse(tmp_path, POLICY.format(url="http://127.0.0.1:9"), arguments) as proxy:
        assert "key 'k1'" not in proxy.stderr() and "'k1' (check" in proxy.stderr()


def test_another_install_secret_is_refused_before_anything_is_sent(double, tmp_path, token):
    with Recourse(tmp_path, POLICY.format(url=double.url)) as proxy:
        assert post(proxy, token).status == 201
        assert proxy.stop() == 0
        secret = proxy.data / "install.secret"
        kept = secret.read_text()
        secret.write_text("0" * 64 + "\n")
        with pytest.raises(NotReady, match="install.secret is not the one"):
            proxy.start()
        secret.unlink()
        with pytest.raises(NotReady, match="install.secret is missing"):
            proxy.start()
        secret.write_text(kept)
        proxy.start()
        assert post(proxy, token).replayed


def test_a_token_that_every_user_can_read_is_warned_about(tmp_path):
    proxy = Recourse(tmp_path, POLICY.format(url="http://127.0.0.1:9"))
    with proxy:
        assert "can read the admin token" not in proxy.stderr()
        proxy.kill()
        proxy.token_path.chmod(0o644)
        proxy.start()
        assert "every user of this machine can read the admin token" in proxy.stderr()
