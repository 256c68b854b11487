"""The pods of one group: real processes, each with links of its own to the database."""

import contextlib
import pathlib
import random
import re
import signal
import threading
import time

from load import FLOW_SECONDS_MAX

from support.approvals import Staffed
from support.flow_campaign import flow_policy
from support.policies import STANDARD
from support.recourse import CRASH_POINTS, NotReady, run_cli
from support.waiting import InVain, lasts, wait_until

GROUP = "shop/fleet"
MAIL = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 0s }
"""
COUNTED = ("recourse_ledger_in_doubt_total", "recourse_ledger_takeovers_total",
           "recourse_ledger_fenced_total", "recourse_ledger_second_effects_total")  # fmt: skip


def kinds_of_writes():
    """The tools of the standard policy, over the backends of the shop."""
    lines = STANDARD.partition("tools:\n")[2].partition("{extra}")[0]
    return lines.replace("POST keyed ", "POST bank ").format(absent_after="6s")


class Pod(Staffed):
    """One process, and the ports of its links."""

    def __init__(self, directory, policy, arguments, links):
        super().__init__(directory, policy, arguments)
        self.links = links
        self.is_touched = False  # by a fault
        self.streams = set()  # those that faults may have ended

    def stream(self):
        """That which it has begun last; None: none yet."""
        path = self.data / "recourse.stream"
        found = re.search(r" (\d+)\n", path.read_text()) if path.exists() else None
        return int(found[1]) if found else None

    def note(self):
        if stream := self.stream():
            self.streams.add(stream)

    def counts(self):
        """What it counts of the ledger; nothing when it does not answer."""
        with contextlib.suppress(OSError):
            text = self.probe("/metrics")[1]
            return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.M)
                    if name in COUNTED}  # fmt: skip
        return {}


class Fleet:
    """Looks to agents like one process: every call goes to any pod that runs."""

    def __init__(self, directory, double, database, wire, count):
        self.database, self.wire = database, wire
        self.lock, self.dice = threading.Lock(), random.Random()
        self.is_over = threading.Event()
        self.counted = {}  # process id: what it counted last
        self.deaths = []  # (stream, when it was killed)
        self.drained = set()  # streams that were handed over
        directory = pathlib.Path(directory)
        secret, key = directory / "install.secret", directory / "ledger.key"
        secret.write_text("5e" * 32 + "\n")
        key.write_text(run_cli("ledger", "new-key").stdout)
        for file in (secret, key):
            file.chmod(0o600)
        self.key_arguments = ["--ledger-key-file", key]
        secrets = ["--install-secret-file", secret, *self.key_arguments]
        policy = flow_policy(double, f"{FLOW_SECONDS_MAX:g}s", tools=MAIL + kinds_of_writes())
        policy += f"ledger: {{ group: {GROUP} }}\n"
        made = run_cli("ledger", "migrate", "--ledger", database.url)
        assert made.returncode == 0, made
        self.pods = []
        for number in range(count):
            links = [wire.link(target) for target in database.targets]
            arguments = [*secrets, "--ledger", database.through(links)]
            self.pods.append(Pod(directory / f"pod{number}", policy, arguments, links))

    # As one process.
    @property
    def port(self):
        return self.any().port

    def any(self):
        """A pod that runs, if there is one."""
        running = [pod for pod in self.pods if pod.running() and pod.ports]
        return self.dice.choice(running or self.pods)

    def running(self):
        return not self.is_over.is_set()

    def admin(self, method, target):
        return self.any().admin(method, target)

    def events(self, **filters):
        return self.any().events(**filters)

    # Their lives.
    def start(self):
        for pod in self.pods:
            pod.start()

    def kill(self):
        for pod in self.pods:
            if pod.running():
                pod.process.send_signal(signal.SIGCONT)
            pod.kill()

    def revive(self, pod):
        """Starts it if it has ended, as a kubelet does: again and again."""

        def has_begun():
            if pod.running():
                return True
            try:
                pod.start()
            except (NotReady, InVain):
                return False
            return True

        wait_until(has_begun, lambda: f"it does not start: {pod.stderr()[-1000:]}", 180.0)

    @contextlib.contextmanager
    def touching(self, dice):
        """One that nothing else is upon; at the end it runs."""
        pod = wait_until(lambda: self.take_one(dice), "something is upon each pod")
        self.look_at(pod)
        is_over = threading.Event()
        # It may begin several meanwhile, each of which may be taken over.
        noting = threading.Thread(target=self.note_until, args=(pod, is_over))
        noting.start()
        try:
            yield pod
        finally:
            self.revive(pod)
            is_over.set()
            noting.join()
            self.look_at(pod)
            pod.is_touched = False

    @staticmethod
    def note_until(pod, is_over):
        while not is_over.wait(0.02):
            pod.note()

    def take_one(self, dice):
        with self.lock:
            free = [pod for pod in self.pods if not pod.is_touched]
            if not free:
                return None
            pod = dice.choice(free)
            pod.is_touched = True
            return pod

    def look_at(self, pod):
        """Before it is touched, and after that."""
        pod.note()
        if pod.running() and (counts := pod.counts()):
            self.counted[pod.pid] = counts

    def owners(self):
        """Stream -> its pod."""
        return {stream: pod for pod in self.pods for stream in pod.streams}

    def sums(self):
        """What all processes counted, as far as they could be asked."""
        return {name: int(sum(counts.get(name, 0) for counts in self.counted.values()))
                for name in COUNTED}  # fmt: skip

    def faults(self):
        found = {"pod killed": self.kill_one, "pod stopped": self.pause_one,
                 "pod drained": self.drain_one, "pod cut off": self.cut_one}  # fmt: skip
        if CRASH_POINTS:
            found["pod stopped between check and send"] = self.crash_one
        return found

    def kill_one(self, dice):
        with self.touching(dice) as pod:
            self.deaths.append((pod.stream(), time.time()))
            pod.kill()
            # A short while: it goes on with its own work; a long one: others take it over.
            lasts(dice.choice((0.0, 0.5, 12.0)))

    def pause_one(self, dice):
        with self.touching(dice) as pod:
            process = pod.process
            process.send_signal(signal.SIGSTOP)
            lasts(dice.choice((1.0, 4.0, 9.0, 20.0)))  # how long it stands still is the subject
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            lasts(0.5)  # or its watchdog's work would go unseen

    def drain_one(self, dice):
        with self.touching(dice) as pod:
            if pod.running():
                self.drained.add(pod.stream())
                pod.terminate()
                pod.wait()
            lasts(dice.choice((0.0, 2.0)))  # how long it is away is the subject

    def cut_one(self, dice):
        with self.touching(dice) as pod:
            self.wire.cut(pod.links, dice.choice(("reset", "silent", "up", "down")))
            try:
                lasts(dice.choice((0.5, 4.0, 12.0)))  # how long it is cut off is the subject
            finally:
                self.wire.cut(pod.links, "no")

    def crash_one(self, dice):
        """It stops exactly between the check of its lease and the first byte."""
        with self.touching(dice) as pod:
            pod.kill()
            with contextlib.suppress(NotReady, InVain):
                pod.start({"RECOURSE_CRASH_POINT": f"f2:{dice.randint(1, 20)}:stop"})
                wait_until(lambda: not pod.running(), seconds=15.0)
            if pod.running():
                pod.process.send_signal(signal.SIGCONT)
            pod.kill()
