"""Which ledger a process opens: the one in --data, or the one that --ledger or the policy names."""

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import NotReady, Recourse, run_cli
from support.waiting import wait_until

SHARED = "postgres://recourse:hunter2@127.0.0.1:1/recourse?sslmode=disable"


def write(proxy, token):
    answer = rawhttp.call(proxy.port, "POST", f"/plain/{token}",
                          headers={"Idempotency-Key": f"key-{token}"}, body={"client_ref": "x"})
    assert answer.status == 201, answer
    return answer


def refused(tmp_path, policy, *arguments, code):
    """What a start says that comes to nothing."""
    proxy = Recourse(tmp_path / "refused", policy, arguments)
    with pytest.raises(NotReady, match=f"exit {code}: "):
        proxy.start()
    assert "hunter2" not in proxy.stderr()
    return proxy.stderr()


def secrets(tmp_path):
    secret, key = tmp_path / "install.secret", tmp_path / "ledger.key"
    secret.write_text("00" * 32 + "\n")
    key.write_text(run_cli("ledger", "new-key").stdout)
    for file in (secret, key):
        file.chmod(0o600)
    return ["--install-secret-file", secret, "--ledger-key-file", key]


@pytest.mark.parametrize("named", ["by the flag", "by the policy"])
def test_a_ledger_in_memory_answers_repeats_and_forgets_all_at_its_end(double, tmp_path, named):
    by_flag = named == "by the flag"
    policy = standard(double, ledger="" if by_flag else 'url: "memory:"')
    arguments = ["--ledger", "memory:"] if by_flag else []
    token = f"memory-{by_flag}"
    with Recourse(tmp_path / "recourse", policy, arguments) as proxy:
        write(proxy, token)
        assert write(proxy, token).replayed
        assert proxy.verify()["ok"]
        assert not (proxy.data / "data.mdb").exists()
        assert proxy.data.stat().st_mode & 0o777 == 0o700
        assert proxy.stop() == 0
        proxy.start()
        assert not write(proxy, token).replayed
    assert len(double.effects(f"/plain/{token}")) == 2


def test_the_directory_of_data_may_be_named_as_a_url(double, tmp_path):
    data = tmp_path / "recourse/data"
    with Recourse(tmp_path / "recourse", standard(double), ["--ledger", f"lmdb:{data}/"]) as proxy:
        write(proxy, "by-url")
        proxy.stop()
        proxy.arguments = []
        proxy.start()
        assert write(proxy, "by-url").replayed


def test_flag_and_policy_must_agree(double, tmp_path):
    policy = standard(double, ledger='url: "memory:"')
    said = refused(tmp_path, policy, "--ledger", f"lmdb:{tmp_path}/refused/data", code=2)
    assert "--ledger and the policy's ledger.url differ; leave one out" in said
    said = refused(tmp_path, standard(double), "--ledger", f"lmdb:{tmp_path}/other", code=2)
    assert "--ledger and --data name different directories" in said
    said = refused(tmp_path, standard(double), "--ledger", "mysql://u:hunter2@db/x", code=2)
    assert "--ledger: it is no address of a ledger; accepted: postgres://" in said


def test_a_ledger_is_not_forgotten_for_another_one(double, tmp_path):
    with Recourse(tmp_path / "recourse", standard(double)) as proxy:
        write(proxy, "kept")
        proxy.stop()
        proxy.arguments = ["--ledger", "memory:"]
        with pytest.raises(NotReady, match="exit 78: "):
            proxy.start()
        assert "holds a ledger, and the other one would not know its operations" in proxy.stderr()


def test_a_shared_ledger_needs_the_secrets_and_the_name_of_its_group(double, tmp_path):
    said = refused(tmp_path, standard(double), "--ledger", SHARED, code=2)
    assert "--install-secret-file and --ledger-key-file" in said
    said = refused(tmp_path, standard(double), "--ledger", SHARED, *secrets(tmp_path), code=2)
    assert "ledger: { group: NAMESPACE/WORKLOAD }" in said


def test_another_ledger_takes_a_restart(double, tmp_path):
    with Recourse(tmp_path / "recourse", standard(double)) as proxy:
        proxy.policy_path.write_text(standard(double, ledger='url: "memory:"'))
        wait_until(lambda: "restart it to change them" in proxy.stderr(), proxy.stderr)
        assert proxy.admin("GET", "/policy")["last_reload"]["result"] == "refused"


def test_policy_check_tells_what_pods_of_a_group_share(double, tmp_path):
    policy = tmp_path / "policy.yaml"
    tool = """\
  wide.create:
    match: POST shop /wide/{token}
    effect: write
    scope: caller
    dedupe_window: 1h
    undo: none
    reason: r
"""
    policy.write_text(standard(double, extra_tools=tool, ledger=f'url: "{SHARED}", group: a/b'))
    checked = run_cli("policy", "check", policy)
    said = checked.stdout + checked.stderr
    assert checked.returncode == 0, said
    assert "scope: caller takes in all pods of the group a/b" in said
    assert "dedupe_window: takes in all pods of the group a/b" in said
    assert "ledger.url: holds a password" in said and "hunter2" not in said


def test_a_database_that_is_not_there_is_told_with_what_to_do(double, tmp_path):
    url = SHARED.replace("/recourse?", "/recourse?connect_timeout=2&")
    policy = standard(double, ledger="group: a/b")
    said = refused(tmp_path, policy, "--ledger", url, *secrets(tmp_path), code=1)
    assert "the ledger's database cannot be reached: " in said, said
    assert "; see that it runs, and that --ledger or the policy's ledger.url has its host" in said


def test_libpq_is_needed_for_a_shared_ledger_alone(tmp_path):
    (tmp_path / "libpq.so.5").write_text("no library\n")
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert run_cli("--version", env=env).returncode == 0
    migrated = run_cli("ledger", "migrate", "--ledger", SHARED, env=env)
    assert migrated.returncode != 0 and "a shared ledger needs libpq: " in migrated.stderr
