"""Processes of a shared ledger that are killed, stopped, ended or cut off from their database."""

import os
import signal
import subprocess
import threading

import pytest

from support import rawhttp
from support.postgres import Postgres
from support.recourse import CRASH_POINTS
from support.waiting import wait_until
from test_fleet import Pods, cut_off, stream_of, write
from test_flow_commands import trace_of

SILENT = "a process of the group is silent, and is taken over"
# As the first process of a container, where that may be made.
FIRST = ["unshare", "--pid", "--fork", "--kill-child", "--"]


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


@pytest.fixture(scope="module")
def url(postgres):
    return postgres.ledger()


def ask(pod, path, token):
    return write(pod, path, token, status=202).json()["operation"]


def approve(pod, operation):
    done = pod.by_hand("ann", "approve", operation, "--digest", pod.shown(operation)["digest"])
    assert done.returncode == 0, done


def causes(pod, path):
    return [event["cause"] for event in pod.events_for(path)]


NAMES = ["lives", "killed", "stopped", "unwatched", "testifies"]


class Losses:
    """Three processes are lost at once, each in the middle of something; one lives."""

    STOPPED = {"RECOURSE_CRASH_POINT": "f2:1:stop"}
    # Of its calls the first is sent, and its answer awaited.
    # The first outcome that it is about to write.
    TESTIFIES = {"RECOURSE_CRASH_POINT": "f4:1:stop"}
    UNWATCHED = {"RECOURSE_CRASH_POINT": "f2:2:stop", "RECOURSE_TEST_NO_WATCHDOG": "1"}

    def __init__(self, directory, double, url):
        self.double, self.callers = double, []
        self.pods = Pods(directory, double, url, NAMES)
        self.lives, self.killed = self.pods.lives, self.pods.killed
        self.stopped, self.unwatched = self.pods.stopped, self.pods.unwatched
        self.testifies = self.pods.testifies

    def __enter__(self):
        self.lives.start()
        self.killed.start({"RECOURSE_CRASH_POINT": "k16:1"})
        if not subprocess.run([*FIRST, "true"], check=False, capture_output=True).returncode:
            self.stopped.wrapper = FIRST
        self.stopped.start({**self.STOPPED, "RECOURSE_CRASH_HITS": self.hits(self.stopped)})
        self.unwatched.start({**self.UNWATCHED, "RECOURSE_CRASH_HITS": self.hits(self.unwatched)})
        self.testifies.start({**self.TESTIFIES, "RECOURSE_CRASH_HITS": self.hits(self.testifies)})
        for path in ("/placed/killed", "/orders/paused"):
            self.double.script("POST", path, ["read", "execute", {"gate": path}, "answer"], 1)
        self.begin(self.killed, "/placed/killed")
        self.begin(self.unwatched, "/orders/paused")
        for path in ("/placed/killed", "/orders/paused"):
            self.double.await_effects(path)
        for pod, path in ((self.stopped, "/placed/once"), (self.unwatched, "/placed/twice"),
                          (self.testifies, "/placed/told")):  # fmt: skip
            self.begin(pod, path)
            wait_until(lambda at=self.hits(pod): os.path.exists(at))
        self.waits = ask(self.killed, "/mail/waits", "waits")
        self.expires = ask(self.killed, "/offer/expires", "expires")
        approved = ask(self.killed, "/mail/approved", "approved")
        threading.Thread(target=cut_off_approval, args=(self.killed, approved)).start()
        assert self.killed.wait() == -signal.SIGKILL
        return self

    def __exit__(self, *exc):
        if self.unwatched.running():
            os.kill(self.unwatched.pid, signal.SIGCONT)
        for path in ("/placed/killed", "/orders/paused"):
            self.double.open_gate(path)
        self.pods.__exit__()
        for caller in self.callers:
            caller.join()

    @staticmethod
    def hits(pod):
        return str(pod.directory / "hits")

    def begin(self, pod, path):
        token = path.rpartition("/")[2]
        fields = rawhttp.traced(trace_of(token))
        self.callers.append(threading.Thread(target=cut_off, args=(pod, path, fields, token)))
        self.callers[-1].start()


def cut_off_approval(pod, operation):
    pod.by_hand("ann", "approve", operation, "--digest", pod.shown(operation)["digest"])


@pytest.fixture(scope="module")
def losses(double, postgres, url, tmp_path_factory):
    if not CRASH_POINTS:
        pytest.skip("this binary has no crash points")
    as_pod = postgres.granted(url, "shop/checkout")
    with Losses(tmp_path_factory.mktemp("losses"), double, as_pod) as running:
        yield running
        assert running.lives.running(), running.lives.stderr()[-4000:]
        assert running.lives.verify()["ok"]


def test_what_a_killed_one_was_sending_is_found_out(losses):
    settled = losses.lives.await_phase("/placed/killed", ("SUCCEEDED", "ANSWER_LOST"))
    assert settled["external_ref"]
    assert causes(losses.lives, "/placed/killed")[:2] == ["first_call", "owner_lost"]
    assert len(losses.double.effects("/placed/killed")) == 1


def test_what_was_approved_at_a_killed_one_is_sent_by_the_one_that_lives(losses):
    losses.lives.await_phase("/mail/approved", "SUCCEEDED")
    assert len(losses.double.effects("/mail/approved")) == 1


def test_what_waits_since_a_killed_one_asked_is_approved_at_another_and_sent_once(losses):
    approve(losses.lives, losses.waits)
    losses.lives.await_phase("/mail/waits", "SUCCEEDED")
    assert len(losses.double.effects("/mail/waits")) == 1


def test_what_nobody_decides_ends_although_the_one_that_asked_was_killed(losses):
    losses.lives.await_phase("/offer/expires", "EXPIRED")
    assert losses.double.effects("/offer/expires") == []


def again_at(losses, path):
    """The same call at the one that lives, once that knows that there was no effect."""
    losses.lives.await_phase(path, "PROVEN_ABSENT")
    token = path.rpartition("/")[2]
    assert write(losses.lives, path, token).outcome == "executed"


def test_one_that_is_stopped_right_before_its_first_byte_is_ended_and_sends_nothing(losses):
    again_at(losses, "/placed/once")
    ended = 128 + signal.SIGKILL if losses.stopped.wrapper else -signal.SIGKILL
    assert losses.stopped.wait() == ended
    assert len(losses.double.effects("/placed/once")) == 1


def test_without_its_watchdog_the_stopped_one_would_send_too(losses):
    again_at(losses, "/placed/twice")
    assert losses.unwatched.running()
    os.kill(losses.unwatched.pid, signal.SIGCONT)
    losses.double.await_effects("/placed/twice", 2)


def test_one_that_was_paused_tells_what_it_knows_when_it_comes_back(losses):
    losses.lives.await_phase("/orders/paused", "UNCERTAIN")
    os.kill(losses.unwatched.pid, signal.SIGCONT)
    losses.double.open_gate("/orders/paused")
    losses.lives.await_phase("/orders/paused", "SUCCEEDED")
    assert causes(losses.lives, "/orders/paused")[:2] == ["first_call", "owner_lost"]
    assert len(losses.double.effects("/orders/paused")) == 1


def test_one_that_is_stopped_before_it_writes_an_outcome_writes_no_second_one(losses):
    settled = losses.lives.await_phase("/placed/told", ("SUCCEEDED", "ANSWER_LOST"))
    os.kill(losses.testifies.pid, signal.SIGCONT)
    wait_until(lambda: "stream was ended by another one" in losses.testifies.stderr())
    write(losses.testifies, "/notes/after", "after")
    events = losses.lives.events_for("/placed/told")
    assert events[-1] == settled and len(losses.double.effects("/placed/told")) == 1
    assert [event["cause"] for event in events[:2]] == ["first_call", "owner_lost"]


def test_whatever_a_take_over_and_its_calls_die_of_each_call_is_made_once(
    double, url, tmp_path, postgres
):
    if not CRASH_POINTS:
        pytest.skip("this binary has no crash points")
    with Pods(tmp_path, double, url, ["pod"], "shop/points") as pods:
        pod = pods.pod

        def die_at(point, path):
            pod.kill()
            pod.start({"RECOURSE_CRASH_POINT": f"{point}:1"})
            token = path.rpartition("/")[2]
            cut_off(pod, path, rawhttp.traced(trace_of(token)), token)
            assert pod.wait() == -signal.SIGKILL

        begun, ended = "/placed/begun", "/placed/ended"
        die_at("f1", begun)
        assert double.effects(begun) == []
        pod.start()
        pod.await_phase(begun, "PROVEN_ABSENT")
        assert write(pod, begun, "begun").outcome == "executed"
        die_at("f4", ended)
        assert len(double.effects(ended)) == 1
        for passes in range(1, 6):
            pod.spawn({"RECOURSE_CRASH_POINT": f"f3:{passes}"})
            assert pod.wait() == -signal.SIGKILL
        pod.start()
        pod.await_phase(ended, ("SUCCEEDED", "ANSWER_LOST"))
        assert causes(pod, ended)[:2] == ["first_call", "owner_lost"]
        assert causes(pod, ended).count("owner_lost") == 1
        assert len(double.effects(begun)) == len(double.effects(ended)) == 1
        left = "SELECT count(*) FROM stream WHERE grp = 'shop/points' AND state <> 3"
        wait_until(lambda: postgres.sql(url, left).strip() == "1")
        assert pod.verify()["ok"]


def test_one_that_drains_hands_over_at_once(double, url, tmp_path):
    with Pods(tmp_path, double, url, ["ends", "stays"], "shop/drained") as pods:
        operation = ask(pods.ends, "/mail/drained", "drained")
        assert pods.ends.stop() == 0
        approve(pods.stays, operation)
        pods.stays.await_phase("/mail/drained", "SUCCEEDED")
        assert SILENT not in pods.stays.stderr()
        assert len(double.effects("/mail/drained")) == 1


def test_one_that_is_started_again_goes_on_with_its_own_at_once(double, url, tmp_path, postgres):
    with Pods(tmp_path, double, url, ["pod"], "shop/alone") as pods:
        first = stream_of(write(pods.pod, "/notes/alone", "alone"))
        operation = ask(pods.pod, "/offer/alone", "offer")
        pods.pod.kill()
        pods.pod.start()
        pods.pod.await_phase("/offer/alone", "EXPIRED")
        assert pods.pod.shown(operation)["status"] == "expired"
        assert SILENT not in pods.pod.stderr()
        assert postgres.sql(url, f"SELECT state FROM stream WHERE stream = {first}").strip() == "3"


def test_while_the_database_is_away_reads_pass_and_outcomes_are_kept(
    double, url, tmp_path, postgres
):
    with Pods(tmp_path, double, url, group="shop/away") as pods:
        path, answers = "/placed/away", []
        double.script("POST", path, ["read", "execute", {"gate": path}, "answer"], 1)
        sent = threading.Thread(target=lambda: answers.append(write(pods.a, path, "away")))
        sent.start()
        double.await_effects(path)
        postgres.stop()
        try:
            refused = rawhttp.call(pods.b.port, "POST", "/notes/away", body={"client_ref": "n"})
            assert refused.status == 503 and "log-unavailable" in refused.json()["type"]
            assert int(refused.header("Retry-After")) >= 1
            assert refused.outcome == "not_executed" and double.effects("/notes/away") == []
            for pod in pods.all.values():
                assert rawhttp.call(pod.port, "GET", "/notes/away").status == 200
                assert pod.probe("/ready")[0] == 200
            double.open_gate(path)
        finally:
            postgres.start()
        sent.join()
        assert answers[0].outcome == "executed"
        assert causes(pods.b, path) == ["first_call", "answer"]
        wait_until(lambda: rawhttp.call(pods.b.port, "POST", "/notes/away",
                                        body={"client_ref": "n"}).status == 201)
        assert len(double.effects(path)) == 1
        assert not any(SILENT in pod.stderr() for pod in pods.all.values())
