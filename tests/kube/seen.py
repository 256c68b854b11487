"""What operators see of pods in a real cluster: calls past Recourse, policies, what a sidecar has.
What each function's name says, it shows."""

import collections
import json
import re

from cases import EMPTY_DIR, INJECTED, POLICY
from life import await_logs, metric, metrics, open_shop, release, run
from scripts import BYPASS, IDLE

POLICY_OF = re.compile(r'^recourse_policy_info\{hash="([^"]+)"\} 1', re.MULTILINE)
COUNTED = 'recourse_unguarded_connections_total{backend="slow"}'
TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


def calls_of_a_client_that_ignores_the_proxy_are_counted(cluster):
    open_shop(cluster, "slow")
    run(cluster, "bypass", BYPASS, annotations=EMPTY_DIR)
    await_logs(cluster, "asked None past", "slow")  # without a key: nobody guarded it
    cluster.await_true(lambda: metric(cluster, "bypass", COUNTED) >= 1)
    assert metric(cluster, "alive", COUNTED) == 0
    release(cluster, "slow")


def the_token_of_the_pods_account_is_the_agents_alone(cluster):
    spec = cluster.get("pod", "alive", "-n", INJECTED)["spec"]
    found = {one["name"]: {mount["mountPath"]: mount["name"] for mount in one["volumeMounts"]}
             for one in spec["initContainers"] + spec["containers"]}  # fmt: skip
    assert found["agent"][TOKEN_FOLDER].startswith("kube-api-access-"), found
    assert found["recourse"][TOKEN_FOLDER] == "recourse-no-token", found
    look = ["exec", "alive", f"--namespace={INJECTED}", "-c", "agent", "--", "ls", TOKEN_FOLDER]
    told = cluster.kubectl(*look).stdout
    assert "token" in told, told
    own = cluster.get("pod", "alive", "-n", INJECTED)["status"]["initContainerStatuses"]
    (task,) = [one["containerID"].rpartition("/")[2] for one in own if one["name"] == "recourse"]
    mine = cluster.files(task, TOKEN_FOLDER)
    assert mine == [], mine


def watched(text):
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.yaml": text},
            "metadata": {"name": "watched", "namespace": INJECTED,
                         "labels": {"recourse.dev/policy": "true"}}}  # fmt: skip


def policy_of(cluster, name):
    (found,) = POLICY_OF.findall(metrics(cluster, name))
    return found


def a_change_of_a_policy_is_told_when_it_is_applied_and_seen_in_every_pod(cluster):
    cluster.apply(watched(POLICY))
    names = ["first", "second"]
    for name in names:
        run(cluster, name, IDLE, annotations={
            **EMPTY_DIR, "recourse.dev/policy-configmap": "watched"})  # fmt: skip
    before = policy_of(cluster, "first")
    done = cluster.apply(watched(POLICY.replace("key_header", "key_heder")), check=False)
    assert done.returncode != 0 and "policy.yaml:5:" in done.stderr, done.stderr
    said = cluster.apply(watched(POLICY.replace('"http://slow"', '"http://slower"'))).stderr
    assert "Warning: pods that run take this within minutes: backends.slow changed" in said, said

    def versions():
        return collections.Counter(policy_of(cluster, name) for name in names)

    cluster.await_true(lambda: before not in versions())
    assert [*versions().values()] == [2], versions()
    told = json.loads(cluster.kubectl(
        "exec", "first", "-c", "recourse", f"--namespace={INJECTED}", "--", "recourse", "policy",
        "status", "--json").stdout)  # fmt: skip
    assert told["version"] == policy_of(cluster, "first"), told


ALL = [
    calls_of_a_client_that_ignores_the_proxy_are_counted,
    the_token_of_the_pods_account_is_the_agents_alone,
    a_change_of_a_policy_is_told_when_it_is_applied_and_seen_in_every_pod,
]
