"""Plays cases.py on a cluster, and keeps what its API server asked the webhooks."""

import base64
import json
import pathlib
import sys

from cases import CASES
from real_cluster import NODE
from recorder import webhooks

HERE = pathlib.Path(__file__).resolve().parent
RECORDS = HERE / "records.json"


def create(cluster, case):
    """(whether it was allowed, what was said); nothing stays of it."""
    if case.on:
        path = f"/api/v1/namespaces/{case.namespace}/pods/{case.on}/ephemeralcontainers"
        alive = cluster.get("pod", case.on, "-n", case.namespace)
        alive["spec"]["ephemeralContainers"] = case.made["spec"]["ephemeralContainers"]
        done = cluster.kubectl("replace", "--raw", f"{path}?dryRun=All", "-f", "-",
                               input=json.dumps(alive), check=False)  # fmt: skip
    else:
        done = cluster.kubectl("create", "--dry-run=server", "-f", "-",
                               input=json.dumps(case.made), check=False)  # fmt: skip
    return done.returncode == 0, done.stdout + done.stderr


class Recorder:
    def __init__(self, cluster):
        self.file = cluster.home / "asked.jsonl"
        self.file.touch()
        self.read = 0
        cert, key = cluster.certificate("recorder", f"IP:{NODE}")
        cluster.programs.start(sys.executable, HERE / "recorder.py", self.file, NODE, cert, key)
        authority = base64.b64encode((cluster.home / "ca.crt").read_bytes()).decode()
        self.hooks = list(webhooks(NODE, authority))
        cluster.apply(*self.hooks)
        # API servers take new webhooks up within a second or so.
        cluster.await_true(lambda: self.hears(cluster))

    def hears(self, cluster):
        create(cluster, CASES["a pod that does not ask"])
        return {one["at"] for one in self.take()} == {"first", "last"}

    def take(self):
        """What was asked since."""
        with open(self.file, encoding="utf-8") as file:
            file.seek(self.read)
            lines = file.readlines()
            self.read = file.tell()
        return [json.loads(line) for line in lines]

    def remove(self, cluster):
        names = [one["metadata"]["name"] for one in self.hooks]
        cluster.kubectl("delete", "mutatingwebhookconfigurations", *names)


def tidy(asked):
    """Without what nobody here reads: who set which field when, and the object of before."""
    asked["request"]["object"]["metadata"].pop("managedFields", None)
    asked["request"].pop("oldObject", None)
    return asked


def order_of(asked):
    """The names of a pod's containers, as they start."""
    spec = asked["request"]["object"]["spec"]
    return [one["name"] for one in spec.get("initContainers", []) + spec["containers"]]


def judge(case, allowed, said, asked):
    """What is wrong; empty when nothing is. `asked`: what was asked last, if that came to be."""
    if allowed != case.allowed:
        return f"allowed is {allowed}: {said}"
    if case.order and order_of(asked) != case.order.split():
        return f"starts as {order_of(asked)}"
    return "" if case.says in said else f"says nothing of '{case.says}': {said}"


def play(cluster, report, keep):
    """Every case; with `keep` the records are replaced."""
    recorder = Recorder(cluster)
    records = {}
    for name, case in CASES.items():
        recorder.take()
        allowed, said = create(cluster, case)
        asked = {one["at"]: tidy(one["asked"]) for one in recorder.take()}
        records[name] = {**asked, "allowed": allowed}
        report(name, judge(case, allowed, said, asked.get("last")))
    recorder.remove(cluster)
    if keep:
        RECORDS.write_text(json.dumps({"kubernetes": cluster.version(), "cases": records},
                                      indent=0, sort_keys=True) + "\n")  # fmt: skip
