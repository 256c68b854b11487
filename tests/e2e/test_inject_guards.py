"""`recourse inject`: what agents may not have beside Recourse, what meshes and autoscalers are
told, and what is said of workloads before they make pods."""

import json
import re
import sys

import pytest

from support.injector import (
    EMPTY_DIR, claim, container, injector, named, pod, response_in, review_of, sidecar_of,
)  # fmt: skip
from support.meshes import istio, linkerd
from support.recourse import ROOT

sys.path.insert(0, str(ROOT / "tests/helm"))
from test_objects import argument, complaints  # noqa: E402


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with injector(tmp_path_factory.mktemp("injector")) as made:
        yield made


def with_volume(source, **more):
    mounts = [{"name": "v", "mountPath": "/v"}]
    return {"volumes": [{"name": "v", **source}], "containers": container(volumeMounts=mounts),
            **more}  # fmt: skip


ADMIN = {"name": "recourse-admin"}
TAKEN = [
    (with_volume({"secret": {"secretName": "recourse-admin"}}), "by its volume v"),
    (with_volume({"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": ADMIN}]}}),
     "by its volume v"),
    ({"containers": container(env=[{"name": "T", "valueFrom": {
        "secretKeyRef": {**ADMIN, "key": "token"}}}])}, "by its variable T"),
    ({"containers": container(envFrom=[{"secretRef": ADMIN}])}, "by envFrom"),
    ({"initContainers": container(envFrom=[{"secretRef": ADMIN}])}, "by envFrom"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TAKEN)))
def test_no_agent_has_a_secret_of_recourse_by_whatever_name(number, running):
    spec, how = TAKEN[number]
    said = running.refusal(pod(annotations=EMPTY_DIR, **spec))
    assert f"container agent has the Secret recourse-admin {how}, and that is Recourse's" in said
    own = json.loads(json.dumps(spec).replace("recourse-admin", "shop-token"))
    running.injected(pod(annotations=EMPTY_DIR, **own))


def unsafe():
    """Pods whose agents have rights that break the promise, and what is said."""
    def rights(**context):
        return {"containers": container(securityContext=context)}

    def adds(capability):
        return rights(capabilities={"add": [capability]})

    yield rights(privileged=True), "agent is privileged, and sees Recourse's memory, ledger"
    yield adds("SYS_PTRACE"), "capability SYS_PTRACE, and can read the memory"
    yield adds("CAP_SETUID"), "capability SETUID, and can become Recourse's user"
    yield adds("NET_ADMIN"), "capability NET_ADMIN, and can remove the rules of redirect"
    yield adds("SYS_ADMIN"), "capability SYS_ADMIN, and can enter"
    yield adds("ALL"), "capability ALL, and can do all that root can"
    yield {"hostIPC": True}, "hostIPC"
    for path in ("/", "/var/lib", "/var/lib/kubelet/pods", "/proc/1"):
        yield with_volume({"hostPath": {"path": path}}), f"agent mounts {path} of the node"


def test_agents_with_rights_that_break_the_promise_are_refused_or_told_of(tmp_path, running):
    for spec, said in unsafe():
        refusal = running.refusal(pod(annotations=EMPTY_DIR, **spec))
        assert said in refusal and "or set injector.unsafePods to warn" in refusal
    with injector(tmp_path / "one", {"injector": {"unsafePods": "warn"}}) as lenient:
        for spec, said in unsafe():
            made, warnings = lenient.injected(pod(annotations=EMPTY_DIR, **spec))
            assert sidecar_of(made) and any(said in one for one in warnings), warnings
    for path in ("/var/log", "/var/lib/kubeletlike", "/data"):
        running.injected(pod(annotations=EMPTY_DIR, **with_volume({"hostPath": {"path": path}})))
    (mesh,) = container(securityContext={"capabilities": {"add": ["NET_ADMIN"]}})
    running.injected(pod(annotations=EMPTY_DIR, initContainers=[{**mesh, "name": "mesh-init"}]))


def test_where_redirect_leads_calls_a_root_that_may_become_recourses_user_is_told_of(tmp_path):
    def told(warnings):
        return [one for one in warnings if "agent may be root, and as Recourse's user" in one]

    with injector(tmp_path / "one", {"redirect": {"enabled": True}}) as running:
        for context, pods in (({}, {}), ({"runAsUser": 0}, {"runAsNonRoot": True})):
            asked = pod(annotations=EMPTY_DIR, securityContext=pods,
                        containers=container(securityContext=context))  # fmt: skip
            assert told(running.injected(asked)[1]), context
        for context in ({"runAsUser": 1000}, {"runAsNonRoot": True},
                        {"capabilities": {"drop": ["ALL"]}}):  # fmt: skip
            asked = pod(annotations=EMPTY_DIR, containers=container(securityContext=context))
            assert not told(running.injected(asked)[1]), context


# --- beside others -------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["enabled", "disabled"])
def test_words_of_other_meshes_mean_the_same(word, running):
    said = running.review(pod(annotations=EMPTY_DIR, inject=word))
    assert said["allowed"] and ("patch" in said) == (word == "enabled")


def test_a_mesh_and_the_autoscaler_are_told_what_to_leave_alone(running):
    made, _ = running.injected(pod(annotations={
        **EMPTY_DIR, "traffic.sidecar.istio.io/excludeInboundPorts": "8080",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}))  # fmt: skip
    notes = made["metadata"]["annotations"]
    assert notes["traffic.sidecar.istio.io/excludeInboundPorts"] == "8080,19082"
    assert notes["config.linkerd.io/skip-inbound-ports"] == "19082"
    assert notes["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true", "it is theirs"
    made, _ = running.injected(pod(annotations=EMPTY_DIR))
    assert made["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == (
        "false")  # fmt: skip
    made, _ = running.injected(pod("StatefulSet", volumes=[claim()]))
    assert "cluster-autoscaler.kubernetes.io/safe-to-evict" not in made["metadata"]["annotations"]


@pytest.mark.parametrize("native", [True, False], ids=["native", "container"])
@pytest.mark.parametrize("mesh", [istio, linkerd])
def test_a_mesh_that_is_asked_later_is_left_alone(mesh, native, running):
    made, _ = running.injected(pod(annotations=EMPTY_DIR))
    meshed = mesh(made, native)
    assert complaints([meshed]) == []
    first, second, *more = [one["name"] for one in meshed["spec"]["initContainers"]]
    if native:  # it starts before, and stops after
        assert first.endswith("-init") and second.endswith("-proxy") and more == ["recourse"]
    else:
        assert first == "recourse" and second.endswith("-init") and more == []
    again = running.review(meshed)  # reinvocationPolicy: IfNeeded
    assert again["allowed"] and "patch" not in again


@pytest.mark.parametrize("mesh", [istio, linkerd])
def test_the_proxy_of_a_mesh_that_was_asked_earlier_is_left_alone(mesh, running):
    """As `istioctl kube-inject` and `linkerd inject --manual` write it, before anybody is asked."""
    meshed = mesh(pod(annotations=EMPTY_DIR), native=False)
    made, warnings = running.injected(meshed)
    assert complaints([made]) == [] and not any("guarded" in one for one in warnings)
    (proxy,) = [one for one in meshed["spec"]["containers"] if one["name"] != "agent"]
    assert proxy in made["spec"]["containers"]
    agent = named(made["spec"]["containers"], "agent")
    assert named(agent["env"], "HTTP_PROXY")["value"] == "http://127.0.0.1:19080"
    again = running.review(made)
    assert again["allowed"] and "patch" not in again
    named_too = {**EMPTY_DIR, "recourse.dev/containers": f"agent,{proxy['name']}"}
    made, _ = running.injected(mesh(pod(annotations=named_too), native=False))
    assert all("HTTP_PROXY" in str(one["env"]) for one in made["spec"]["containers"])


def test_a_pod_says_what_its_sidecar_may_use_and_where_it_listens(running):
    asked = pod(annotations={
        **EMPTY_DIR, "recourse.dev/cpu-request": "5m", "recourse.dev/memory-limit": "96Mi",
        "recourse.dev/ports": "proxy=29080, probes=29082"},
        containers=container(ports=[{"containerPort": 19080}]))  # fmt: skip
    made, _ = running.injected(asked)
    assert complaints([made]) == []
    own = sidecar_of(made)
    assert own["resources"]["requests"]["cpu"] == "5m"
    assert own["resources"]["limits"]["memory"] == "96Mi"
    assert argument(own, "--listen") == "127.0.0.1:29080"
    assert argument(own, "--probes") == "[::]:29082"
    assert own["ports"][0]["containerPort"] == 29082
    (agent,) = made["spec"]["containers"]
    assert named(agent["env"], "HTTPS_PROXY")["value"] == "http://127.0.0.1:29080"
    assert "proxyPort=29080" in named(agent["env"], "JAVA_TOOL_OPTIONS")["value"]
    assert "19080" not in str(agent["env"])
    notes = made["metadata"]["annotations"]
    assert notes["config.linkerd.io/skip-inbound-ports"] == "29082"
    again = running.review(made)
    assert again["allowed"] and "patch" not in again


# --- what makes pods -----------------------------------------------------------------------------

APPS = {"group": "apps", "version": "v1", "resource": "deployments"}


def deployment(**changes):
    made = pod(**changes)
    del made["metadata"]["generateName"], made["metadata"]["ownerReferences"]
    return {"kind": "Deployment", "apiVersion": "apps/v1",
            "metadata": {"name": "agent", "namespace": "shop"},
            "spec": {"template": {"metadata": made["metadata"], "spec": made["spec"]}}}  # fmt: skip


def validated(running, one, **changes):
    asked = review_of(one, **{"resource": APPS, **changes})
    status, _, body = running.ask(asked, path="/validate?timeout=5s")
    assert status == 200, body
    return response_in(body, asked)


def test_a_workload_whose_pods_will_be_refused_says_so_when_it_is_applied(tmp_path, running):
    said = validated(running, deployment())
    assert said["allowed"] and "patch" not in said
    assert re.match("its pods will be refused: .*: the Deployment agent has no volume recourse-led",
                    "".join(said["warnings"]))  # fmt: skip
    assert "executed again" in validated(running, deployment(annotations=EMPTY_DIR))["warnings"][0]
    assert "warnings" not in validated(running, deployment(inject=None))
    assert running.counted("workload") >= 3
    with injector(tmp_path / "one", {"injector": {"workloads": "refuse"}}) as strict:
        said = validated(strict, deployment())
        assert said["allowed"] is False
        assert said["status"]["message"].startswith("its pods would be refused: the pod cannot")
        assert validated(strict, deployment(annotations=EMPTY_DIR))["allowed"]
        # Whoever scales it changes no pod.
        scaled = deployment()
        scaled["spec"]["replicas"] = 3
        kept = validated(strict, scaled, operation="UPDATE", oldObject=deployment())
        assert kept["allowed"] and "warnings" not in kept
        before = deployment(annotations=EMPTY_DIR)
        assert not validated(strict, scaled, operation="UPDATE", oldObject=before)["allowed"]


def test_a_deployment_of_one_pod_may_have_a_claim_if_it_never_has_two(running):
    one = deployment(annotations={"recourse.dev/ledger": "singleton"}, volumes=[claim("ours")])
    one["spec"]["strategy"] = {"type": "Recreate"}
    said = validated(running, one)
    assert said["allowed"] and "warnings" not in said
    made = pod(annotations={"recourse.dev/ledger": "singleton"}, volumes=[claim("ours")])
    injected, warnings = running.injected(made)
    assert warnings == [] and named(injected["spec"]["volumes"], "recourse-ledger") == claim("ours")
    assert running.review(injected)["allowed"], "asked again"
    for changes, what in (({"replicas": 2}, "replicas to 1"), ({"strategy": {}}, "to Recreate")):
        spec = {**one["spec"], **changes}
        said = validated(running, {**one, "spec": spec}, operation="UPDATE", oldObject=one)
        assert said["allowed"] is False and what in said["status"]["message"]


def test_jobs_whose_pods_would_share_a_ledger_are_refused(running):
    job = deployment(volumes=[claim("ours")])
    batch = {"group": "batch", "version": "v1", "resource": "jobs"}
    assert validated(running, job, resource=batch)["allowed"]
    job["spec"]["parallelism"] = 3
    said = validated(running, job, resource=batch)
    assert said["allowed"] is False and "set parallelism to 1" in said["status"]["message"]


def test_a_statefulset_whose_claims_are_the_ledgers_is_fine(running):
    one = deployment()
    one["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "recourse-ledger"}}]
    said = validated(running, one, resource={**APPS, "resource": "statefulsets"})
    assert said["allowed"] and "warnings" not in said


def test_a_pod_is_changed_by_one_webhook_alone(running):
    said = validated(running, pod(annotations=EMPTY_DIR), resource={
        "group": "", "version": "v1", "resource": "pods"})  # fmt: skip
    assert said["allowed"] and "patch" not in said and "correct the rules" in said["warnings"][0]
