"""Databases that are reached otherwise, or fail otherwise: poolers, passwords, a full disk."""

import contextlib
import pathlib
import secrets
import shutil
import tempfile

import pytest

from support import rawhttp
from support.certificates import Maker
from support.disks import fill, small_disk
from support.pooler import PORT, PROGRAM, Pooler
from support.postgres import Postgres, name_of
from support.recourse import NotReady, run_cli
from support.waiting import wait_until
from test_fleet import Pods, write
from test_fleet_console import Steward


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture
def url(postgres):
    return postgres.ledger()


def ask(pod, path):
    return rawhttp.call(pod.port, "POST", path, body={"client_ref": "n"})


def status_of(pod, path):
    return ask(pod, path).status


@pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed")
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_pools_sessions_or_is_refused_with_words(double, postgres, url, tmp_path, token,
                                                          mode):  # fmt: skip
    with Pooler(postgres, mode) as pooler:
        pods = Pods(tmp_path, double, pooler.through(url))
        if mode == "transaction":
            with pytest.raises(NotReady, match="exit 78: "):
                pods.a.start()
            assert "pgbouncer: pool_mode = session" in pods.a.stderr()
            return
        with pods:
            first = write(pods.a, f"/notes/{token}", token, **{"Idempotency-Key": token})
            again = write(pods.b, f"/notes/{token}", token, **{"Idempotency-Key": token})
            assert again.replayed and again.body == first.body
            assert pods.a.verify()["ok"]


def test_a_password_that_has_changed_is_read_again(double, postgres, url, tmp_path):
    words = tmp_path / "password"
    words.write_text("the-first-word\n")
    postgres.sql(url, "CREATE ROLE app SUPERUSER LOGIN PASSWORD 'the-first-word'")
    hba = postgres.sql(url, "SHOW hba_file").strip()
    with open(hba, "r+", encoding="utf-8") as file:
        rules = file.read()
        file.seek(0)
        file.write("local all app scram-sha-256\n" + rules)
    postgres.sql(url, "SELECT pg_reload_conf()")
    app = url.replace("//recourse@", "//app@")
    more = f', password_file: "{words}", wait: 1s'
    with Pods(tmp_path, double, app, ["pod"], more=more) as pods:
        wait_until(lambda: status_of(pods.pod, "/notes/first") == 201)
        postgres.sql(url, "ALTER ROLE app PASSWORD 'the-second-word'")
        postgres.sql(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                          " WHERE usename = 'app'")  # fmt: skip
        wait_until(lambda: status_of(pods.pod, "/notes/second") == 503)
        assert pods.pod.probe("/ready")[0] == 200
        words.write_text("the-second-word\n")
        wait_until(lambda: status_of(pods.pod, "/notes/second") == 201)
        postgres.sql(url, "ALTER ROLE app VALID UNTIL 'yesterday'; SELECT pg_terminate_backend(pid)"
                          " FROM pg_stat_activity WHERE usename = 'app'")  # fmt: skip
        wait_until(lambda: status_of(pods.pod, "/notes/third") == 503)
        postgres.sql(url, "ALTER ROLE app VALID UNTIL 'infinity'")
        wait_until(lambda: status_of(pods.pod, "/notes/third") == 201)
        assert len(double.effects("/notes/third")) == 1
        assert "-word" not in pods.pod.stderr()


def with_tls(maker, here):
    """A server whose name is db.shop.example."""
    postgres = Postgres(settings=[
        f"listen_addresses={here}", "ssl=on", "ssl_cert_file=db.pem", "ssl_key_file=db.key"])
    made = maker.issue("db", san="DNS:db.shop.example")
    for file in (made.cert, made.key):
        shutil.copy(file, postgres.data)
        at = pathlib.Path(postgres.data, file.name)
        at.chmod(0o600)
        shutil.chown(at, pathlib.Path(postgres.data).owner())
    return postgres


def test_a_server_whose_certificate_is_of_another_is_refused_with_words(double, tmp_path, token):
    here = f"127.{1 + secrets.randbelow(250)}.{secrets.randbelow(250)}.9"
    maker, other = Maker(tmp_path / "ca"), Maker(tmp_path / "other")
    postgres = with_tls(maker, here)

    def url(name, authority=maker, user="recourse", more=""):
        return (f"postgres://{user}@{name}/{place}?hostaddr={here}&sslmode=verify-full"
                f"&sslrootcert={authority.cert}{more}")

    with postgres:
        place = name_of(postgres.database())
        assert run_cli("ledger", "migrate", "--ledger", url("db.shop.example")).returncode == 0
        # A certificate may be renewed, or a clock set; a name in the URL is a person's.
        for wrong, why, code in (
            (url("db.evil.example"), 'does not match host name "db.evil.example"', 78),
            (url("db.shop.example", other), "certificate verify failed", 1),
        ):
            refused = run_cli("ledger", "status", "--ledger", wrong)
            assert refused.returncode == code and why in refused.stderr, refused
            assert "sslrootcert=FILE" in refused.stderr and "sslmode" in refused.stderr
            assert "password" not in refused.stderr and "has its host" not in refused.stderr
            pods = Pods(tmp_path, double, wrong)
            with pytest.raises(NotReady, match=f"exit {code}: "):
                pods.a.start()
            assert why in pods.a.stderr()
        with Pods(tmp_path, double, url("db.shop.example"), ["pod"]) as pods:
            write(pods.pod, f"/notes/{token}", token)
        passwords_are_bound_to_the_channel(postgres, here, lambda user, more="": url(
            "db.shop.example", user=user, more=more))  # fmt: skip


def refused_start(pod, code):
    """What a start says that comes to nothing."""
    with pytest.raises(NotReady, match=f"exit {code}: "):
        pod.start()
    return pod.stderr().splitlines()[-1]


def test_who_starts_before_the_database_is_started_again(double, tmp_path, token):
    """A machine boots them in any order; what no restart mends is code 78."""
    with Postgres() as postgres:
        url = postgres.ledger()
        database = name_of(url)
        pods = Pods(tmp_path, double, url, ["pod", "other"])
        steward = Steward(tmp_path / "steward", pods.policy(
            double, f'{{ url: "{url}", group: shop/checkout }}'), pods.secrets)  # fmt: skip
        postgres.stop()
        for process in (pods.pod, steward):
            assert "cannot be reached" in refused_start(process, 1)
        migrated = run_cli("ledger", "migrate", "--ledger", url)
        assert migrated.returncode == 1 and "cannot be reached" in migrated.stderr, migrated
        postgres.start()
        only = "default_transaction_read_only"
        postgres.sql("postgres", f"ALTER DATABASE {database} SET {only} = on")
        assert "read-only" in refused_start(pods.pod, 1)
        postgres.sql("postgres", f"ALTER DATABASE {database} RESET {only};"
                                 f"ALTER DATABASE {database} CONNECTION LIMIT 0;"
                                 "CREATE ROLE plain LOGIN")  # fmt: skip
        plain = url.replace("//recourse@", "//plain@")
        (tmp_path / "plain").mkdir()
        crowded = Pods(tmp_path / "plain", double, plain, ["pod"])
        assert "too many connections" in refused_start(crowded.pod, 1)
        with postgres.frozen():
            assert "timeout expired" in refused_start(Pods(
                tmp_path, double, url.partition("?")[0], ["hung"]).hung, 1)  # fmt: skip
        nowhere = url.replace(f"/{database}?", "/nowhere?")
        assert "does not exist" in refused_start(Pods(tmp_path, double, nowhere).a, 78)
        with pods.pod:
            write(pods.pod, f"/notes/{token}", token)
        (tmp_path / "install.secret").write_text("77" * 32 + "\n")
        said = refused_start(pods.other, 78)
        assert "all groups of a database have one" in said


def test_a_role_that_may_not_is_told_what_gives_it_the_right(double, postgres, url, tmp_path,
                                                              token):  # fmt: skip
    """Whose rights are those of another group, too."""
    role, group = f"pod_{token}", "shop/checkout"
    postgres.sql(url, f'CREATE ROLE "{role}" LOGIN')
    mine = url.replace("//recourse@", f"//{role}@")
    pods = Pods(tmp_path, double, mine, ["pod"])
    told = f"forbids that to the role {role}, group {group}: ERROR:"
    grant = f"recourse ledger grant --ledger URL --role {role} --as pod --group {group}"
    said = refused_start(pods.pod, 78)
    assert told in said and "permission denied for table ledger" in said, said
    assert said.endswith(grant), said

    def ask(*words, address=mine):
        return run_cli("ledger", words[0], "--ledger", address, *words[1:])

    for words, code, why in (
        (["verify"], 78, f"--role {role} --as reader"),
        (["migrate"], 78, f"--role {role} --as migration"),
        (["grant", "--role", role, "--as", "reader"], 78, "as the role that owns"),
        (["accept", "--group", group, "--reason", "r"], 78, f"--as pod --group {group}"),
    ):
        done = ask(*words)
        assert done.returncode == code and why in done.stderr, done
        assert f"role {role}" in done.stderr and "does not answer" not in done.stderr, done

    def given(*words):
        done = ask("grant", "--role", role, "--as", *words, address=url)
        assert done.returncode == 0, done

    given("pod", "--group", "another/one")
    said = refused_start(pods.pod, 78)
    assert 'row-level security policy for table "stream"' in said and said.endswith(grant), said
    nobody = ask("grant", "--role", "nobody", "--as", "reader", address=url)
    assert nobody.returncode == 78 and nobody.stderr.endswith("CREATE ROLE\n"), nobody
    given("pod", "--group", group)
    with pods.pod:
        write(pods.pod, f"/notes/{token}", token)
    given("reader")
    for words in (["verify"], ["export", "--format", "ndjson"], ["status"]):
        done = ask(*words)
        assert done.returncode == 0 and done.stderr == "", done
    postgres.sql(url, f'REVOKE SELECT ON intent FROM "{role}"')
    done = ask("verify")
    assert done.returncode == 1 and f"--role {role} --as reader" in done.stderr, done
    assert "does not answer" not in done.stderr, done


def test_a_password_that_is_refused_is_told_by_its_file(double, tmp_path):
    here = f"127.{1 + secrets.randbelow(250)}.{secrets.randbelow(250)}.9"
    postgres = with_tls(Maker(tmp_path / "ca"), here)
    words = tmp_path / "password"
    words.write_text("not-the-word\n")
    with postgres:
        url = postgres.ledger()
        postgres.sql(url, "CREATE ROLE app SUPERUSER LOGIN PASSWORD 'the-word'")
        rules = pathlib.Path(postgres.data, "pg_hba.conf")
        rules.write_text("host all app 127.0.0.0/8 scram-sha-256\n" + rules.read_text())
        postgres.sql(url, "SELECT pg_reload_conf()")
        app = f"postgres://app@{here}/{name_of(url)}"
        pods = Pods(tmp_path, double, app, ["pod"], more=f', password_file: "{words}"')
        said = refused_start(pods.pod, 1)
        assert "refuses the password" in said and f"it is what {words} holds" in said, said
        assert said.count("password authentication failed") == 1, said
        words.write_text("the-word\n")
        with pods.pod:
            assert status_of(pods.pod, "/notes/known") == 201


def passwords_are_bound_to_the_channel(postgres, here, url):
    """Who asks for one in another way could have it passed on to it, whatever its certificate."""
    rules = pathlib.Path(postgres.data, "pg_hba.conf")
    for name, way in (("bound", "scram-sha-256"), ("old", "md5"), ("plain", "password")):
        stored = "md5" if name == "old" else "scram-sha-256"
        postgres.sql("postgres", f"SET password_encryption = '{stored}';"
                                 f" CREATE ROLE {name} SUPERUSER LOGIN PASSWORD 'a-word'")
        rules.write_text(f"hostssl all {name} 127.0.0.0/8 {way}\n" + rules.read_text())
    postgres.sql("postgres", "SELECT pg_reload_conf()")
    wait_until(lambda: postgres.sql("postgres", "SELECT count(*) FROM pg_hba_file_rules"
                                                " WHERE user_name[1] <> 'all'") == "3\n")
    asked = run_cli("ledger", "status", "--ledger", url("bound:a-word"))
    assert asked.returncode == 0, asked
    others = [url("old:a-word"), url("plain:a-word")]
    with contextlib.ExitStack() as until_the_end:
        if PROGRAM is not None:  # it knows SCRAM, and no binding
            words = pathlib.Path(postgres.folder, "words")
            words.write_text('"bound" "a-word"\n')
            auth = (f"auth_type = scram-sha-256\nauth_file = {words}\n"
                    "client_tls_sslmode = require\n"
                    f"client_tls_cert_file = {postgres.data}/db.pem\n"
                    f"client_tls_key_file = {postgres.data}/db.key")
            until_the_end.enter_context(Pooler(postgres, "session", here, auth))
            others.append(url("bound:a-word", f"&port={PORT}"))
        for other in others:
            refused = run_cli("ledger", "status", "--ledger", other)
            assert refused.returncode == 78, refused
            assert "channel binding" in refused.stderr and "a-word" not in refused.stderr, refused


def test_while_the_disk_of_the_database_is_full_nothing_is_begun(double, tmp_path):
    # Its server runs as somebody who may not look into the folders of tests.
    place = pathlib.Path(tempfile.mkdtemp(prefix="recourse-disk-"))
    place.chmod(0o755)
    with small_disk(place / "disk", "160M") as disk:
        with Postgres(disk) as postgres:
            url = postgres.ledger()
            with Pods(tmp_path, double, url, ["pod"], more=", wait: 1s") as pods:
                assert status_of(pods.pod, "/notes/before") == 201
                fill(disk / "other")
                told = []

                def is_full():
                    answer = ask(pods.pod, f"/notes/full-{len(told)}")
                    told.append((answer.status, answer.outcome))
                    return answer.status == 503 and answer.outcome == "not_executed"

                wait_until(is_full, lambda: told)
                last = f"/notes/full-{len(told) - 1}"
                assert double.effects(last) == []
                assert rawhttp.call(pods.pod.port, "GET", "/notes/before").status == 200
                (disk / "other").unlink()
                wait_until(lambda: status_of(pods.pod, last) == 201)
                for number in range(len(told)):
                    assert len(double.effects(f"/notes/full-{number}")) == 1
                assert pods.pod.verify()["ok"]
