"""Clocks of pods and of their database that differ, and that jump."""

import calendar
import os
import tempfile
import time

import pytest

from support import rawhttp
from support.faked_time import YEAR, FakedTime
from support.postgres import Postgres
from support.recourse import MEASURABLE, run_cli
from support.waiting import wait_until
from test_fleet import Pods, write

pytestmark = pytest.mark.skipif(
    not MEASURABLE, reason="libfaketime and a sanitizer exclude each other"
)


@pytest.fixture(scope="module")
def of_database():
    with tempfile.TemporaryDirectory(prefix="recourse-clock-") as directory:
        os.chmod(directory, 0o755)  # for the server's own user
        yield FakedTime(directory)


@pytest.fixture(scope="module")
def postgres(of_database):
    with Postgres(env=of_database.env) as running:
        yield running


@pytest.fixture
def url(postgres, of_database):
    of_database.set(0)
    return postgres.ledger()


class Faked(Pods):
    """Each has a clock of its own: `at` says by how much it is off."""

    def __init__(self, directory, double, url, at):
        super().__init__(directory, double, url, at)
        for name, seconds in at.items():
            (directory / f"clock-{name}").mkdir()
            self.all[name].env |= FakedTime(directory / f"clock-{name}", seconds).env


def ages(pod, path):
    """By the true clock, in seconds."""
    return [time.time() - calendar.timegm(time.strptime(event["time"][:19], "%Y-%m-%dT%H:%M:%S"))
            for event in pod.events_for(path)]  # fmt: skip


def now_of(postgres, url):
    return int(postgres.sql(url, "SELECT extract(epoch FROM now())::bigint"))


def test_pods_whose_clocks_differ_agree(double, url, tmp_path, token):
    with Faked(tmp_path, double, url, {"late": -10 * YEAR, "early": 10 * YEAR}) as pods:
        path, mail, offer = f"/notes/{token}", f"/mail/{token}", f"/offer/{token}"
        first = write(pods.early, path, token)
        again = write(pods.late, path, token)
        assert again.replayed and again.body == first.body
        for pod in (pods.late, pods.early):
            assert all(-60 < age < 600 for age in ages(pod, path)), ages(pod, path)
        asked = write(pods.late, mail, f"{token}mail", status=202).json()["operation"]
        assert pods.early.approve(asked)[0] == 200
        wait_until(lambda: len(double.effects(mail)) == 1)
        expires = write(pods.early, offer, f"{token}offer", status=202).json()["operation"]
        wait_until(lambda: pods.late.events_for(offer)[-1]["phase"] == "EXPIRED")
        assert pods.late.approve(expires)[0] != 200 and double.effects(offer) == []
        assert pods.late.verify()["ok"]


def test_the_clock_of_the_database_can_be_moved_here(postgres, of_database, url):
    """Without this, the next test would prove nothing."""
    of_database.set(3 * YEAR)
    wait_until(lambda: now_of(postgres, url) - time.time() > 2 * YEAR)


def test_nothing_leaves_because_the_clock_of_the_database_has_jumped(
    double, postgres, of_database, url, tmp_path, token
):
    def has_had_its_turn():
        return postgres.sql(url, "SELECT count(*) FROM work WHERE kind = 4 AND due_at > now()"
                                 " AND due_at > to_timestamp(0) + interval '1 day'") == "1\n"

    path = f"/notes/{token}"
    pods = Pods(tmp_path, double, url)
    with pods:
        first = write(pods.a, path, token)
        write(pods.b, f"{path}-more", f"{token}more")
        of_database.set(3 * YEAR)
        again = write(pods.b, path, token)
        assert again.replayed and again.body == first.body
    rows = postgres.sql(url, "SELECT count(*) FROM event")
    postgres.sql(url, "DELETE FROM work WHERE kind = 4")
    # Those that know of no earlier time.
    with pods:
        wait_until(has_had_its_turn)
        wait_until(lambda: "so much later" in pods.a.stderr() + pods.b.stderr())
        again = write(pods.b, path, token)
        assert again.replayed and again.body == first.body
        assert int(postgres.sql(url, "SELECT count(*) FROM event")) >= int(rows)
        assert len(double.effects(path)) == 1
        answer = rawhttp.call(pods.a.port, "GET", path)
        assert answer.status < 500
    assert run_cli("ledger", "verify", "--ledger", url).returncode == 0
