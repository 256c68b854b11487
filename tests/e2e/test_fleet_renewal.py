"""Retention removes the rows of a stream from its front. A process leaves a stream of which
something open holds the rest, and nobody notices that."""

import itertools
import threading

import pytest

from support import rawhttp
from support.postgres import Postgres
from support.waiting import InVain, wait_until
from test_fleet import Pods, write
from test_flow_commands import trace_of

RENEWED = "goes on under a new stream"


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as running:
        yield running


class Writers:
    """Make calls at all pods in turn, each until it is done, whatever happens to the pods."""

    def __init__(self, pods, token, count=3):
        self.pods, self.token, self.stops = list(pods.all.values()), token, threading.Event()
        self.made, self.wrong = [], []
        self.threads = [threading.Thread(target=self.run, args=(number,))
                        for number in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self.stops.set()
        for thread in self.threads:
            thread.join()

    def run(self, number):
        for at in itertools.count():
            if self.stops.is_set():
                return
            name = f"{self.token}-{number}-{at}"
            pods = itertools.cycle(self.pods[at % 2:] + self.pods[:at % 2])
            seen = []
            try:
                # 410: that was longer ago than rows are kept.
                wait_until(lambda: seen.append(self.ask(next(pods), name)) or
                           seen[-1] in (201, 410))
            except InVain:
                self.wrong.append((name, set(seen)))
                return
            self.made.append(name)

    @staticmethod
    def ask(pod, name):
        try:
            told = rawhttp.call(pod.port, "POST", f"/placed/{name}", body={"client_ref": name},
                                headers={**rawhttp.traced(trace_of(name)),
                                         "Idempotency-Key": f"key-{name}"})
            # 200: a pod has found out what became of it.
            return 201 if (told.status, told.outcome) == (200, "executed") else told.status
        except (OSError, rawhttp.Cut):
            return None


def test_streams_are_left_under_load_and_kills(double, postgres, tmp_path, token):
    with Pods(tmp_path, double, postgres.ledger(), more=", retention: 1s") as pods:
        waiting = []

        def holds(pod):
            """Rows of its stream, from now on."""
            name = f"{token}-{len(waiting)}"
            answer = write(pod, f"/mail/{name}", f"mail{name}", status=202)
            waiting.append((name, answer.json()["operation"]))

        def renewed(pod):
            return pod.stderr().count(RENEWED)

        with Writers(pods, token) as writers:
            for round_ in range(6):
                pod = pods.a if round_ % 2 == 0 else pods.b
                before = renewed(pod)
                holds(pod)
                wait_until(lambda pod=pod, before=before: renewed(pod) > before)
                if round_ >= 3:
                    pod.kill()
                    pod.start()
            made = len(writers.made)
            wait_until(lambda: len(writers.made) > made + 10)
        assert writers.wrong == [] and len(writers.made) > 50
        for name in writers.made:
            assert len(double.effects(f"/placed/{name}")) == 1, name
        # Whatever waited still does, and is sent once.
        for name, operation in waiting:
            assert not double.effects(f"/mail/{name}")
            assert pods.b.approve(operation)[0] == 200
        for name, _ in waiting:
            wait_until(lambda name=name: len(double.effects(f"/mail/{name}")) == 1)
        assert pods.a.verify()["ok"]
