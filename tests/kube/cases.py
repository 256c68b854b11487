"""What API servers are asked to create, and what becomes of it: one list, for the cluster of
`./dev kube` and for what was recorded of it (tests/e2e/test_kube_records.py).
"""

import dataclasses

from images import AGENT

INJECTED, MESHED, BARE = "agents", "meshed", "bare"
LABELLED = (INJECTED, MESHED)  # the other namespace has no label
ASKS = {"recourse.dev/inject": "true"}
EMPTY_DIR = {**ASKS, "recourse.dev/ledger": "emptyDir"}
# What the Pod Security Standard "restricted" wants.
RIGHTS = {
    "runAsNonRoot": True, "runAsUser": 10001, "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
POLICY = """\
version: 1
unlisted: { reads: pass, writes: guard }
backends:
  shop: { url: "http://shop-recourse-backend" }
  slow: { url: "http://slow", key_header: Idempotency-Key }
"""


@dataclasses.dataclass
class Case:
    made: dict
    says: str = ""  # the reason, or a warning
    allowed: bool = True
    asks_api: bool = False  # the injector asks the API server before it says so
    on: str = ""  # a pod that lives: its ephemeral containers are changed
    order: str = ""  # in which its containers start

    @property
    def namespace(self):
        return self.made["metadata"].get("namespace")


def pod(annotations=None, namespace=INJECTED, labels=None, owner=None, container=None, name="agent",
        **spec):  # fmt: skip
    meta = {"name": name, "namespace": namespace, "annotations": annotations or {},
            "labels": labels or {}}  # fmt: skip
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": owner, "name": "agent",
                                    "uid": "6b1f6b1c-8f4f-4c0e-a0a4-0e0c8e8f7d55",
                                    "controller": True}]  # fmt: skip
    agent = {"name": "agent", "image": AGENT, "securityContext": RIGHTS, **(container or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta,
            "spec": {"containers": [agent], **spec}}  # fmt: skip


def workload(kind, annotations=None, namespace=INJECTED, volumes=(), **spec):
    made = pod(annotations)
    template = {"metadata": {"annotations": annotations or {}, "labels": {"app": "agent"}},
                "spec": {**made["spec"], "volumes": list(volumes)}}  # fmt: skip
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec = {"selector": {"matchLabels": {"app": "agent"}}, **spec}
    spec = {"template": template, **spec}
    if kind == "CronJob":
        spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}}
    return {"apiVersion": "batch/v1" if "Job" in kind else "apps/v1", "kind": kind,
            "metadata": {"name": "agent", "namespace": namespace}, "spec": spec}  # fmt: skip


def config_map(text, labels):
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.yaml": text},
            "metadata": {"name": "another", "namespace": BARE, "labels": labels}}  # fmt: skip


def mounted(volume):
    return {"volumes": [{"name": "mine", **volume}],
            "container": {"volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}}  # fmt: skip


def capable(name):
    return {"container": {"securityContext": {**RIGHTS, "capabilities": {"add": [name]}}}}


def refused(says, annotations=None, **parts):
    return Case(pod(annotations or EMPTY_DIR, **parts), says, allowed=False)


def claim(name):
    return {"name": "recourse-ledger", "persistentVolumeClaim": {"claimName": name}}


TOKEN = "recourse-admin"
SECRETS = {
    "a volume": mounted({"secret": {"secretName": TOKEN}}),
    "a projected volume": mounted({"projected": {"sources": [{"secret": {"name": TOKEN}}]}}),
    "a variable": {"container": {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {
        "name": TOKEN, "key": "token"}}}]}},
    "envFrom": {"container": {"envFrom": [{"secretRef": {"name": TOKEN}}]}},
}  # fmt: skip
UNSAFE = {
    "is privileged": {"container": {"securityContext": {"privileged": True}}},
    "has the capability SYS_PTRACE": capable("SYS_PTRACE"),
    "has the capability SETUID": capable("SETUID"),
    "has the capability NET_ADMIN": capable("NET_ADMIN"),
    "hostIPC": {"hostIPC": True},
    "hostNetwork": {"hostNetwork": True},
    "shareProcessNamespace": {"shareProcessNamespace": True},
    "mounts /var/lib/kubelet of the node": mounted({"hostPath": {"path": "/var/lib/kubelet"}}),
}  # fmt: skip
KEEPS = {**ASKS, "recourse.dev/ledger": "singleton"}
# With native sidecars meshes start first, else after Recourse.
MESHES = {
    "istio-native": "istio-init istio-proxy recourse agent",
    "istio-container": "recourse istio-init agent istio-proxy",
    "linkerd-native": "linkerd-init linkerd-proxy recourse agent",
    "linkerd-container": "recourse linkerd-init linkerd-proxy agent",
}
SHELL = {"name": "debug", "image": AGENT, "securityContext": RIGHTS}

CASES = {
    "a pod that asks": Case(pod(EMPTY_DIR), "executed again"),
    "a pod that says what its sidecar may use and where it listens": Case(
        pod({**EMPTY_DIR, "recourse.dev/memory-limit": "96Mi",
             "recourse.dev/ports": "proxy=29080,probes=29082"}), "executed again"),
    "a pod of a StatefulSet, with its claim": Case(
        pod(ASKS, owner="StatefulSet", name="agent-0", volumes=[claim("recourse-ledger-agent-0")])),
    "a pod of a StatefulSet, with a claim for all": refused(
        "two pods never share a ledger", ASKS, owner="StatefulSet", volumes=[claim("ledger")]),
    "a pod that does not ask": Case(pod()),
    "a pod that says no": Case(pod({"recourse.dev/inject": "disabled"})),
    "a pod that asks, in a namespace without the label": Case(
        pod(EMPTY_DIR, BARE), "label its namespace recourse.dev/injection=enabled", allowed=False),
    "a pod that does not ask, in a namespace without the label": Case(pod(namespace=BARE)),
    "a misspelt annotation": refused("recourse.dev/injct", {"recourse.dev/injct": "true"}),
    "a misspelt annotation, in a namespace without the label": Case(
        pod({"recourse.dev/injct": "true"}, BARE), "that nobody knows", allowed=False),
    "a label in place of the annotation": Case(
        pod(labels=ASKS), "annotation", allowed=False),
    "an agent that is Recourse's user": refused(
        "19080", container={"securityContext": {**RIGHTS, "runAsUser": 19080}}),
    "an agent with a port of Recourse's": refused(
        "has the port 19082", container={"ports": [{"containerPort": 19082}]}),
    "an agent with another proxy": refused(
        "HTTP_PROXY", container={"env": [{"name": "HTTP_PROXY", "value": "http://corp:3128"}]}),
    **{f"an agent with Recourse's Secret, by {how}": refused("that is Recourse's alone", **parts)
       for how, parts in SECRETS.items()},
    **{f"an agent that breaks the promise: {what}": refused(what.removeprefix("is "), **parts)
       for what, parts in UNSAFE.items()},
    "a policy's ConfigMap that is missing": Case(
        pod({**EMPTY_DIR, "recourse.dev/policy-configmap": "absent"}), "absent", allowed=False,
        asks_api=True),
    "a Secret that is missing": Case(
        pod(EMPTY_DIR, "empty"), TOKEN, allowed=False, asks_api=True),
    "a Deployment on a claim": Case(
        workload("Deployment", ASKS, volumes=[claim("ledger")]), "its pods will be refused"),
    "a Deployment that loses its ledger": Case(workload("Deployment", EMPTY_DIR), "executed again"),
    "a Deployment in a namespace without the label": Case(
        workload("Deployment", EMPTY_DIR, BARE), "label the namespace"),
    "a CronJob in a namespace without the label": Case(
        workload("CronJob", EMPTY_DIR, BARE), "label the namespace"),
    "a CronJob whose runs would share a ledger": Case(
        workload("CronJob", ASKS, volumes=[claim("ledger")]), "set concurrencyPolicy to Forbid",
        allowed=False),
    "a StatefulSet without claims of its pods": Case(
        workload("StatefulSet", ASKS), "give it the volumeClaimTemplate recourse-ledger"),
    "a DaemonSet that loses its ledgers": Case(workload("DaemonSet", EMPTY_DIR), "executed again"),
    "a Job whose pods would share a ledger": Case(
        workload("Job", ASKS, volumes=[claim("ledger")], parallelism=3), "set parallelism to 1",
        allowed=False),
    "a namespace with another mesh's word": Case(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "wrong", "labels": {"recourse.dev/injection": "true"}}},
        "has the label recourse.dev/injection=enabled alone"),
    "a policy that is broken": Case(
        config_map(POLICY + "tols: {}\n", {"recourse.dev/policy": "true"}), "6:1", allowed=False),
    "a policy": Case(config_map(POLICY, {"recourse.dev/policy": "true"})),
    "a shell in a guarded pod": Case(pod(ephemeralContainers=[SHELL]), on="alive"),
    **{f"a shell that {what}": Case(
        pod(ephemeralContainers=[{**SHELL, **how}]), "an ephemeral container may not",
        allowed=False, on="alive") for what, how in {
            "sees Recourse's process": {"targetContainerName": "recourse"},
            "is Recourse's user": {"securityContext": {**RIGHTS, "runAsUser": 19080}},
            "has the ledger": {"volumeMounts": [{"name": "recourse-ledger", "mountPath": "/l"}]},
        }.items()},
    "a Deployment of one pod that keeps its claim": Case(
        workload("Deployment", KEEPS, volumes=[claim("ledger")], replicas=1,
                 strategy={"type": "Recreate"})),
    "a Deployment whose next pod would share the claim": Case(
        workload("Deployment", KEEPS, volumes=[claim("ledger")]), "set strategy.type to Recreate",
        allowed=False),
    "a pod of a Deployment that keeps its claim": Case(
        pod(KEEPS, owner="ReplicaSet", volumes=[claim("ledger")])),
    **{f"a pod of a mesh: {mesh}": Case(
        pod(EMPTY_DIR, MESHED, {"mesh": mesh}), "executed again", order=order)
       for mesh, order in MESHES.items()},
}  # fmt: skip
