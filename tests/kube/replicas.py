"""Workloads of more than one pod, or whose pod is made anew, in a real cluster: those with a ledger
each, the one on a claim, and all on one ledger in a PostgreSQL beside the node. What each
function's name says, it shows."""

import json
import secrets
import shutil
import subprocess
import threading
import urllib.request

from cases import EMPTY_DIR, INJECTED, KEEPS, POLICY, TOKEN, claim, workload
from life import (
    PATIENCE, RESTRICTED, VALUES, await_logs, install, logs, namespace, needed, open_shop, release,
    run, status_of,
)  # fmt: skip
from programs import wait_until
from real_cluster import NODE
from scripts import CALL, IDLE
from support.postgres import Postgres, name_of

SHARED = "shared"
SETTLED = """\
version: 1
unlisted: { reads: pass, writes: guard }
backends:
  shop: { url: "http://shop" }
tools:
  orders.create:
    match: POST shop /orders
    effect: write
    external_ref: answer.body#/id
    settle: { request: "GET /orders?cart={body#/cart}", happened: answer.body#/0/id }
    undo: none
    reason: it only is a test
"""


def deployment(cluster, made, name, script=IDLE):
    """Its pods, when all are ready."""
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["python3", "-u", "-c", script]
    made["metadata"]["name"] = name
    made["spec"]["selector"]["matchLabels"] = {"app": name}
    made["spec"]["template"]["metadata"]["labels"] = {"app": name}
    cluster.apply(made)
    return rolled_out(cluster, name, made["metadata"]["namespace"])


def rolled_out(cluster, name, where):
    cluster.kubectl("rollout", "status", f"deployment/{name}", f"--namespace={where}", PATIENCE)
    return alive(cluster, name, where)


def alive(cluster, name, where):
    pods = cluster.get("pods", "-n", where, f"--selector=app={name}")["items"]
    return [one["metadata"]["name"] for one in pods
            if "deletionTimestamp" not in one["metadata"]]  # fmt: skip


def call(cluster, name, url, order, trace, where=INJECTED):
    """(whether it was a replay, the answer)."""
    said = cluster.kubectl("exec", name, "-c", "agent", f"--namespace={where}", "--", "python3",
                           "-c", CALL, url, json.dumps(order), f"00-{trace}-00f067aa0ba902b7-01",
                           ).stdout  # fmt: skip
    replayed, _, body = said.partition(" ")
    return replayed == "true", json.loads(body)


def answering_shop(cluster):
    open_shop(cluster, "slow")
    release(cluster, "slow")


def asked(cluster, shop, cart, where=INJECTED):
    """The key of each request for the cart that the shop got."""
    lines = [line.split() for line in logs(cluster, shop, namespace=where).splitlines()]
    return [words[1] for words in lines if words[:1] == ["asked"] and words[2:] == [cart]]


def a_repeat_at_another_replica_carries_the_same_key(cluster):
    answering_shop(cluster)
    first, second = deployment(
        cluster, workload("Deployment", EMPTY_DIR, replicas=2), "replicas")  # fmt: skip
    cart, trace = secrets.token_hex(4), secrets.token_hex(16)
    for one in (first, second):
        replayed, _ = call(cluster, one, "http://slow/orders", {"cart": cart}, trace)
        assert not replayed, "each has a ledger of its own"
    keys = asked(cluster, "slow", cart)
    assert len(keys) == 2 and len(set(keys)) == 1 and keys[0] != "None", keys
    cluster.kubectl("delete", "deployment", "replicas", f"--namespace={INJECTED}", "--wait=false")


def a_deployment_of_one_pod_keeps_its_claim(cluster):
    answering_shop(cluster)
    cluster.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                   "metadata": {"name": "single", "namespace": INJECTED},
                   "spec": {"accessModes": ["ReadWriteOncePod"],
                            "resources": {"requests": {"storage": "4Gi"}}}})  # fmt: skip
    (before,) = deployment(
        cluster, workload("Deployment", KEEPS, volumes=[claim("single")], replicas=1,
                          strategy={"type": "Recreate"}), "single")  # fmt: skip
    order, trace = {"cart": secrets.token_hex(4)}, secrets.token_hex(16)
    url = "http://slow/orders"
    replayed, first = call(cluster, before, url, order, trace)
    cluster.kubectl("rollout", "restart", "deployment/single", f"--namespace={INJECTED}")
    (after,) = rolled_out(cluster, "single", INJECTED)
    assert before != after and not replayed
    assert call(cluster, after, url, order, trace) == (True, first)
    assert len(asked(cluster, "slow", order["cart"])) == 1


def the_probes_and_backends_are_reached_by_ipv6(cluster):
    def six(name):
        told = cluster.get("pod", name, "-n", INJECTED)["status"]["podIPs"]
        return [one["ip"] for one in told if ":" in one["ip"]][0]

    answering_shop(cluster)
    probes = f"http://[{six('shop-recourse-agent-0')}]:19082/ready"
    with urllib.request.urlopen(probes, timeout=60) as answer:
        assert answer.status == 200
    shop = f"http://[{six('slow')}]:8080"
    config = needed(INJECTED)[0]
    config["metadata"]["name"] = "six"
    config["data"]["policy.yaml"] = POLICY + f'  six: {{ url: "{shop}" }}\n'
    cluster.apply(config)
    run(cluster, "six", IDLE, annotations={**EMPTY_DIR, "recourse.dev/policy-configmap": "six"})
    order, trace = {"cart": secrets.token_hex(4)}, secrets.token_hex(16)
    _, first = call(cluster, "six", f"{shop}/orders", order, trace)
    assert call(cluster, "six", f"{shop}/orders", order, trace) == (True, first)


# --- one ledger for all --------------------------------------------------------------------------


class Database:
    """A PostgreSQL beside the node, over TLS and by password, as pods find one."""

    def __init__(self, cluster):
        cert, key = cluster.certificate("database", f"IP:{NODE}")
        # Of this mount namespace's own /run: it goes with the cluster.
        self.server = Postgres("/run", [
            f"listen_addresses={NODE}", "ssl=on", "ssl_cert_file=server.crt",
            "ssl_key_file=server.key", "max_connections=100"])  # fmt: skip
        for file, name in ((cert, "server.crt"), (key, "server.key")):
            shutil.copy(file, f"{self.server.data}/{name}")
            shutil.chown(f"{self.server.data}/{name}", "postgres", "postgres")
        with open(f"{self.server.data}/pg_hba.conf", "a", encoding="utf-8") as access:
            access.write("hostssl all all 10.88.0.0/16 scram-sha-256\n")
        self.password = secrets.token_hex(16)
        self.server.start()
        self.server.sql("postgres", f"ALTER ROLE recourse PASSWORD '{self.password}'")
        name = name_of(self.server.database())
        self.url = f"postgres://recourse@{NODE}/{name}?sslrootcert=/etc/database-ca/ca.crt"

    def stop(self):
        self.server.stop()


def secret(name, **data):
    return {"apiVersion": "v1", "kind": "Secret", "stringData": data,
            "metadata": {"name": name, "namespace": SHARED}}  # fmt: skip


def events(cluster, name, trace):
    """What a pod's page shows of a trace."""
    told = cluster.kubectl("exec", name, "-c", "recourse", f"--namespace={SHARED}", "--",
                           "recourse", "events", "list", "--json", "--trace", trace).stdout
    return [one for one in json.loads(told) if one.get("kind") != "flow"]


def installed(cluster, database):
    """A release of the chart on that ledger, and three replicas of its pod without a volume."""
    key = subprocess.run([cluster.recourse, "ledger", "new-key"], capture_output=True, text=True,
                         check=True).stdout  # fmt: skip
    cluster.apply(
        namespace(SHARED, RESTRICTED), secret("recourse-database", password=database.password),
        secret("recourse-keys", keys=key), secret("recourse-install", secret=secrets.token_hex(32)),
        secret(TOKEN, token=secrets.token_hex(16)),
        secret("database-ca", **{"ca.crt": (cluster.home / "ca.crt").read_text()}),
    )  # fmt: skip
    open_shop(cluster, "shop", SHARED)
    install(cluster, "all", SHARED, {
        **VALUES, "policy": {"inline": SETTLED}, "steward": {"enabled": True},
        "ledger": {"url": database.url, "passwordSecret": "recourse-database"},
        "ledgerKeySecret": "recourse-keys", "installSecret": "recourse-install",
        "extraVolumes": [{"name": "ca", "mountPath": "/etc/database-ca", "volume": {
            "secret": {"secretName": "database-ca", "defaultMode": 0o440}}}],
        "demo": {**VALUES["demo"], "replicas": 0}})  # fmt: skip
    template = cluster.get("statefulset", "all-recourse-agent", "-n", SHARED)["spec"]["template"]
    assert not any("persistentVolumeClaim" in one for one in template["spec"]["volumes"])
    made = workload("Deployment", namespace=SHARED, replicas=3)
    made["spec"]["template"] = template
    return deployment(cluster, made, "agents")


def with_one_ledger_any_replica_answers_and_takes_over(cluster):
    database = Database(cluster)
    first, second, third = installed(cluster, database)
    stays, trace = {"cart": secrets.token_hex(4)}, secrets.token_hex(16)
    lost, lost_trace = {"cart": secrets.token_hex(4)}, secrets.token_hex(16)
    url = "http://shop/orders"
    cut = threading.Thread(target=lambda: cluster.kubectl(
        "exec", first, "-c", "agent", f"--namespace={SHARED}", "--", "python3", "-c", CALL, url,
        json.dumps(lost), f"00-{lost_trace}-00f067aa0ba902b7-01", check=False))  # fmt: skip
    cut.start()
    await_logs(cluster, lost["cart"], "shop", namespace=SHARED)
    sidecar, _ = status_of(cluster, first, SHARED)
    cluster.kubectl("delete", "pod", first, f"--namespace={SHARED}", "--force", "--grace-period=0")
    cluster.ctr("tasks", "kill", "--signal=SIGKILL", sidecar["containerID"].rpartition("/")[2],
                check=False)  # fmt: skip
    cut.join()

    def is_settled():
        found = events(cluster, second, lost_trace)
        return found and found[-1]["phase"] in ("SUCCEEDED", "ANSWER_LOST") and found

    found = wait_until(is_settled, lambda: events(cluster, second, lost_trace))
    assert found[-1]["external_ref"] and "owner_lost" in [one["cause"] for one in found], found
    assert len(asked(cluster, "shop", lost["cart"], SHARED)) == 1
    release(cluster, "shop", SHARED)
    _, answer = call(cluster, second, url, stays, trace, SHARED)
    assert call(cluster, third, url, stays, trace, SHARED) == (True, answer)
    (new,) = set(rolled_out(cluster, "agents", SHARED)) - {first, second, third}
    assert call(cluster, new, url, stays, trace, SHARED) == (True, answer)
    assert len(asked(cluster, "shop", stays["cart"], SHARED)) == 1
    steward = cluster.get("deployment", "all-recourse-steward", "-n", SHARED)["status"]
    assert steward["readyReplicas"] == 1
    cluster.kubectl("delete", "deployment", "agents", f"--namespace={SHARED}")
    cluster.helm("uninstall", "all", f"--namespace={SHARED}", "--wait")
    database.stop()


ALL = [
    a_repeat_at_another_replica_carries_the_same_key,
    a_deployment_of_one_pod_keeps_its_claim,
    the_probes_and_backends_are_reached_by_ipv6,
    with_one_ledger_any_replica_answers_and_takes_over,
]  # fmt: skip
