"""An embedded ledger goes on in a database with all that it knew, once, however it gets there."""

import json
import shutil
import subprocess
import threading

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.postgres import Postgres
from support.recourse import BINARY, NotReady, environment, run_cli
from support.waiting import wait_until
from test_fleet import Pods, cut_off, write
from test_flow_commands import POLICY, Shop, trace_of

GROUP = "shop/checkout"


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


def migrated(postgres):
    return postgres.ledger()


def arguments(volume, url):
    return ["ledger", "import", str(volume.data), "--to", url, "--group", GROUP]


def bring(volume, url, code=0):
    done = run_cli(*arguments(volume, url))
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


WAITS = ("SELECT count(*) > 0 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
         " WHERE c.relname = '{}' AND NOT l.granted")


def kill_import(postgres, volume, url, table):
    """kill -9 of an import that waits for that table."""
    waits = WAITS.format(table)
    with postgres.holding(url, f"LOCK TABLE {table} IN EXCLUSIVE MODE"):
        running = subprocess.Popen([BINARY, *arguments(volume, url)], env=environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: postgres.sql(url, waits) == "t\n",
                   lambda: (running.poll(), postgres.said()))
        running.kill()
        running.wait()


@pytest.fixture(scope="module")
def brought(double, postgres, tmp_path_factory):
    """A volume whose pod was killed at work, and the pods that go on with what it left."""
    folder = tmp_path_factory.mktemp("import")
    # The same one before and after: what another policy asked for is not approved under this one.
    policy = Pods.policy(double, f"{{ group: {GROUP} }}")
    volume = Staffed(folder / "volume", policy)
    url = migrated(postgres)
    with volume:
        volume.done = write(volume, "/notes/kept", "kept", **{"Idempotency-Key": "key-kept"})
        volume.asked = write(volume, "/mail/asked", "asked", status=202).json()["operation"]
        write(volume, "/orders/flow", "flow")
        write(volume, "/payments/flow", "flow")
        double.script("POST", "/placed/cut", ["read", "execute", {"gate": "cut"}], 1)
        fields = rawhttp.traced(trace_of("cut"))
        order = threading.Thread(target=cut_off, args=(volume, "/placed/cut", fields, "cut"))
        order.start()
        double.await_effects("/placed/cut")
        assert "is in use by process" in bring(volume, url, code=78)
        volume.kill()
        order.join()
    kill_import(postgres, volume, url, "event")
    kill_import(postgres, volume, url, "operation")
    assert int(postgres.sql(url, "SELECT count(*) FROM event")) > 9
    status = json.loads(run_cli("ledger", "status", "--ledger", url).stdout)
    assert [one["state"] for one in status["streams"]] == ["being imported"]
    volume.said = bring(volume, url)
    pods = Pods(folder, double, url, policy=policy)
    for name in ("install.secret", "ledger.key"):
        shutil.copy(volume.data / name, folder / name)
    with pods:
        pods.volume = volume
        yield pods
        double.open_gate("cut")


def test_an_import_that_was_killed_twice_brings_everything_once(brought, postgres):
    said = brought.volume.said
    assert said.startswith("imported ") and "ok: 1 streams, " in said and "BROKEN" not in said, said
    again = bring(brought.volume, brought.url)
    assert again.startswith("nothing to do: ") and "ok: stream 0 " in again, again
    assert postgres.sql(brought.url, "SELECT count(*) FROM event WHERE stream = 0"
                                     " GROUP BY number HAVING count(*) > 1") == ""


def test_repeats_at_any_pod_are_answered_from_what_was_imported(brought):
    done = brought.volume.done
    for pod in (brought.a, brought.b):
        repeat = write(pod, "/notes/kept", "kept", **{"Idempotency-Key": "key-kept"})
        assert repeat.replayed and repeat.body == done.body
        assert repeat.header("Recourse-Event") == done.header("Recourse-Event")
    assert len(brought.double.effects("/notes/kept")) == 1


def test_what_the_killed_pod_was_sending_is_found_out(brought):
    brought.a.await_phase("/placed/cut", ("SUCCEEDED", "ANSWER_LOST"))
    causes = [event["cause"] for event in brought.a.events_for("/placed/cut")]
    assert causes[:2] == ["first_call", "owner_lost"], causes
    told = write(brought.b, "/placed/cut", "cut", status=200)
    assert told.outcome == "executed" and len(brought.double.effects("/placed/cut")) == 1


def test_an_approval_and_a_flow_go_on(brought):
    operation = brought.volume.asked
    assert operation in [one["operation"] for one in brought.b.waiting()]
    assert brought.b.approve(operation)[0] == 200
    brought.double.await_effects("/mail/asked")
    shop = Shop(brought.b, brought.double)
    shop.flows("cancel", trace_of("flow"), "--reason", "not wanted any more")
    shop.await_flow(trace_of("flow"), "UNDONE")
    assert shop.effects("flow") == [
        "POST orders", "POST payments", "POST refunds", "DELETE orders"]


def test_the_volume_is_used_by_nobody_else_from_then_on(brought, postgres):
    with pytest.raises(NotReady, match="(?s)exit 78: .*was imported into the shared ledger"):
        brought.volume.start()
    elsewhere = bring(brought.volume, migrated(postgres), code=78)
    assert "it was imported into the shared ledger" in elsewhere


def test_domains_of_trust_and_volumes_are_not_mixed(double, brought, tmp_path):
    assert "holds no ledger" in run_cli("ledger", "import", tmp_path, "--to", brought.url,
                                        "--group", GROUP).stderr
    policy, secret = POLICY.format(url=double.url), brought.volume.data / "install.secret"
    for name, secrets, why in (
        ("a", [], "another install.secret: that is another domain of trust"),
        ("b", ["--install-secret-file", secret], "holds the rows of another imported ledger"),
    ):
        other = Staffed(tmp_path / name, policy, secrets)
        with other:
            write(other, f"/notes/other-{name}", f"other-{name}")
        refused = run_cli(*arguments(other, brought.url), *secrets)
        assert refused.returncode == 78 and why in refused.stderr, refused
        with other:  # nothing has marked it
            write(other, f"/notes/more-{name}", f"more-{name}")
