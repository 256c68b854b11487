"""What platform teams set, in a real cluster: the chart's values, and what namespaces ask of pods.
What each function's name says, it shows."""

import json

import yaml
from cases import ASKS, CASES, EMPTY_DIR, INJECTED, MESHED, pod
from chart import CHART, CI_VALUES
from life import (
    INJECTOR, LABEL, PATIENCE, SYSTEM, install, metric, metrics, namespace, needed, run,
)  # fmt: skip
from programs import NotRun
from scripts import IDLE

INJECTORS = "recourse-recourse-injector"
# Kinds of others, that a cluster has with those.
OPERATORS = ("cert-manager.io/v1", "monitoring.coreos.com/v1")
PLACED = {**INJECTOR, "commonLabels": {"team": "platform"}, "injector": {
    "enabled": True, "failurePolicy": "Ignore", "unsafePods": "warn", "workloads": "refuse",
    "objects": {"missing": "warn"}, "autoscaling": {"enabled": True},
    "podAnnotations": {"prometheus.io/scrape": "false"}, "podLabels": {"tier": "control"},
    "priorityClassName": "platform", "nodeSelector": {"pool": "control"},
    "tolerations": [{"key": "control", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "spot", "operator": "DoesNotExist"}]}]}}},
    "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "injector"}}}],
    "serviceAccount": {"create": True, "annotations": {"purpose": "none"}},
}}  # fmt: skip


# --- what is rendered ----------------------------------------------------------------------------


def rendered(cluster, name, where, values, *more):
    told = cluster.helm("template", name, CHART, f"--namespace={where}", f"--values={values}",
                        f"--kube-version={cluster.version()}", *more).stdout  # fmt: skip
    return [one for one in yaml.safe_load_all(told) if one]


def taken(cluster, objects):
    """What the API server says against them as they are, field by field."""
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    done = cluster.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict",
                           "--namespace=dry", "-f", "-", input=json.dumps(listed),
                           check=False)  # fmt: skip
    return done.stderr


def parts(cluster, of_operators):
    for values in CI_VALUES:
        for one in rendered(cluster, "dry", "dry", values):
            if (one["apiVersion"] in OPERATORS) == of_operators:
                yield values.name, one


def policies_of_admission_are_of_the_types_that_the_api_server_knows(cluster):
    def checked():
        found = cluster.get("validatingadmissionpolicies")["items"]
        return found if all("observedGeneration" in one.get("status", {}) for one in found) else []

    found = {one["metadata"]["name"]: one["status"].get("typeChecking", {}).get(
        "expressionWarnings", []) for one in cluster.await_true(checked)}  # fmt: skip
    assert len(found) == 3 and not any(found.values()), found


def all_taken(cluster, of_operators):
    cluster.apply(namespace("dry", {}))
    files = {}
    for name, one in parts(cluster, of_operators):
        files.setdefault(name, []).append(one)
    said = {name: taken(cluster, objects) for name, objects in files.items()}
    assert files and not any(said.values()), said


def objects_of_every_values_file_are_taken_field_by_field(cluster):
    assert len(CI_VALUES) >= 10
    all_taken(cluster, of_operators=False)


def monitors_rules_and_certificates_are_what_their_operators_define(cluster):
    if not cluster.definitions:
        raise NotRun("set RECOURSE_KUBE_CRDS to a folder with the CustomResourceDefinitions of "
                     "cert-manager and Prometheus' operator")  # fmt: skip
    cluster.kubectl("apply", "--server-side", "-f", cluster.definitions)
    cluster.kubectl("wait", "crd", "--all", "--for=condition=Established", PATIENCE)
    all_taken(cluster, of_operators=True)


def a_second_rendering_differs_in_nothing_from_what_runs_and_replaces_no_pod(cluster):
    values = cluster.home / "recourse.json"
    file = cluster.home / "second.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": rendered(
        cluster, "recourse", SYSTEM, values, "--no-hooks")}))  # fmt: skip
    # As Argo CD and Flux compare it: API servers say what would become of it.
    done = cluster.kubectl("diff", "--server-side", "--field-manager=argocd", "--force-conflicts",
                           f"--namespace={SYSTEM}", "-f", file, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr

    def pods():
        found = cluster.get("pods", "-n", SYSTEM, "--selector=app.kubernetes.io/component=injector")
        return {one["metadata"]["uid"] for one in found["items"]}

    before = pods()
    install(cluster, "recourse", SYSTEM, json.loads(values.read_text()))
    assert pods() == before


# --- what namespaces ask of pods -----------------------------------------------------------------


def limited(kind, where, **spec):
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "ours", "namespace": where},
            "spec": spec}  # fmt: skip


def opened(cluster, where, *objects):
    """A namespace of agents."""
    cluster.apply(namespace(where, LABEL), *needed(where), *objects)


def refusal(cluster, made):
    done = cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(made),
                           check=False)  # fmt: skip
    assert done.returncode != 0, done.stdout
    return done.stderr


def sidecar_of(cluster, name, where):
    found = cluster.get("pod", name, "-n", where)["spec"]["initContainers"]
    return next(one for one in found if one["name"] == "recourse")


OWN = {"resources": {"requests": {"cpu": "10m", "memory": "32Mi"},
                     "limits": {"cpu": "100m", "memory": "64Mi"}}}  # fmt: skip


def a_resource_quota_that_wants_limits_has_them_by_annotation(cluster):
    opened(cluster, "quota", limited("ResourceQuota", "quota", hard={
        "requests.cpu": "50m", "limits.cpu": "500m", "limits.memory": "512Mi"}))  # fmt: skip
    cluster.await_true(lambda: cluster.get("resourcequota", "ours", "-n", "quota")["status"])
    said = refusal(cluster, pod(EMPTY_DIR, "quota", container=OWN))
    assert "must specify limits.cpu for: recourse" in said, said
    run(cluster, "agent", IDLE, "quota", container=OWN, annotations={
        **EMPTY_DIR, "recourse.dev/cpu-request": "5m", "recourse.dev/cpu-limit": "200m",
        "recourse.dev/memory-limit": "256Mi"})  # fmt: skip
    made = sidecar_of(cluster, "agent", "quota")["resources"]
    assert made["limits"] == {"cpu": "200m", "memory": "256Mi"}, made
    # By its cgroup; 3/8 of it are for calls.
    assert metric(cluster, "agent", "recourse_buffered_bytes_max", "quota") == 96 * 2**20


def a_limit_range_below_the_sidecars_is_kept_by_annotation(cluster):
    opened(cluster, "range", limited("LimitRange", "range", limits=[
        {"type": "Container", "max": {"memory": "128Mi"}}]))  # fmt: skip
    said = refusal(cluster, pod(EMPTY_DIR, "range", container=OWN))
    assert "maximum memory usage per Container is 128Mi" in said, said
    run(cluster, "agent", IDLE, "range", container=OWN,
        annotations={**EMPTY_DIR, "recourse.dev/memory-limit": "96Mi"})  # fmt: skip


def resources_of_the_pod_hold_the_sidecar_too_by_annotation(cluster):
    opened(cluster, "whole")
    whole = {"resources": {"requests": {"cpu": "40m", "memory": "64Mi"},
                           "limits": {"memory": "128Mi"}}}  # fmt: skip
    said = refusal(cluster, pod(EMPTY_DIR, "whole", **whole))
    assert "requests" in said and "aggregate" in said, said
    # Not run: a kubelet without cgroups of pods, as here, panics at such a pod.
    less = {**EMPTY_DIR, "recourse.dev/cpu-request": "5m", "recourse.dev/memory-request": "32Mi",
            "recourse.dev/memory-limit": "96Mi"}  # fmt: skip
    cluster.kubectl("create", "--dry-run=server", "-f", "-",
                    input=json.dumps(pod(less, "whole", **whole)))  # fmt: skip


def an_agent_may_have_recourses_ports_if_the_pod_says_where_else_it_listens(cluster):
    run(cluster, "moved", IDLE, container={"ports": [{"containerPort": 19080}]}, annotations={
        **EMPTY_DIR, "recourse.dev/log-level": "debug",
        "recourse.dev/ports": "proxy=29080,admin=29081,probes=29082"})  # fmt: skip
    assert "recourse_build_info" in metrics(cluster, "moved", port=29082)
    assert "--log-level=debug" in sidecar_of(cluster, "moved", INJECTED)["args"]


# --- where injectors run, and what they refuse ---------------------------------------------------


def eviction(cluster, name):
    made = {"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": SYSTEM}}  # fmt: skip
    return cluster.kubectl("create", "--raw", f"/api/v1/namespaces/{SYSTEM}/pods/{name}/eviction",
                           "-f", "-", input=json.dumps(made), check=False)  # fmt: skip


def injectors(cluster):
    found = cluster.get("pods", "-n", SYSTEM, "--selector=app.kubernetes.io/component=injector")
    return [one for one in found["items"] if "deletionTimestamp" not in one["metadata"]]


def injectors_run_where_platform_teams_place_them(cluster):
    cluster.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000,
                   "metadata": {"name": "platform"}})  # fmt: skip
    cluster.kubectl("label", "node", "n1", "pool=control")
    cluster.kubectl("taint", "node", "n1", "control=yes:NoSchedule")
    try:
        install(cluster, "recourse", SYSTEM, PLACED)
        # The autoscaler keeps `replicas`, also without metrics.
        cluster.await_true(lambda: len(injectors(cluster)) == 2)
        cluster.kubectl("rollout", "status", f"deployment/{INJECTORS}", f"--namespace={SYSTEM}",
                        PATIENCE)  # fmt: skip
        for one in injectors(cluster):
            meta, spec = one["metadata"], one["spec"]
            assert (spec["nodeName"], spec["priority"]) == ("n1", 1000)
            assert meta["labels"]["tier"] == "control" and meta["labels"]["team"] == "platform"
            assert meta["annotations"]["prometheus.io/scrape"] == "false"
        account = cluster.get("serviceaccount", INJECTORS, "-n", SYSTEM)
        assert account["metadata"]["annotations"]["purpose"] == "none"
    finally:
        cluster.kubectl("taint", "node", "n1", "control-")


def a_drain_of_nodes_leaves_one_injector(cluster):
    cluster.await_true(lambda: cluster.get(
        "poddisruptionbudget", INJECTORS, "-n", SYSTEM)["status"]["disruptionsAllowed"] == 1)
    first, second = (one["metadata"]["name"] for one in injectors(cluster))
    done = eviction(cluster, first)
    assert done.returncode == 0, done.stderr
    done = eviction(cluster, second)
    assert "disruption budget" in done.stderr, done.stdout + done.stderr
    cluster.kubectl("rollout", "status", f"deployment/{INJECTORS}", f"--namespace={SYSTEM}",
                    PATIENCE)  # fmt: skip


def values_say_what_is_refused_and_what_is_warned_of(cluster):
    """Those of PLACED, against the defaults that cases.py shows."""

    def said(name, **where):
        made = CASES[name].made
        made = {**made, "metadata": {**made["metadata"], **where}}
        done = cluster.kubectl("create", "--dry-run=server", "-f", "-", check=False,
                               input=json.dumps(made))  # fmt: skip
        return done.returncode == 0, done.stderr

    def is_taken():  # the kubelet has written the new template
        # A namespace whose Pod Security Standard lets it through.
        allowed, text = said("an agent that breaks the promise: is privileged", namespace=MESHED)
        return allowed and text

    text = cluster.await_true(is_taken)
    assert "Warning:" in text and "privileged" in text, text
    allowed, text = said("a Secret that is missing")
    assert allowed and "Warning:" in text and "recourse-admin" in text, text
    allowed, text = said("a Deployment on a claim")
    assert not allowed and "its pods would be refused" in text, text
    allowed, text = said("a Deployment in a namespace without the label")
    assert not allowed and "label the namespace" in text, text


def where_failures_of_the_webhook_are_ignored_the_guard_refuses_what_no_injector_saw(cluster):
    asks = ["create", "--dry-run=server", "-f", "-"]
    cluster.kubectl("scale", f"deployment/{INJECTORS}", f"--namespace={SYSTEM}", "--replicas=0")
    cluster.kubectl("wait", "pod", f"--namespace={SYSTEM}", "--for=delete", PATIENCE,
                    "--selector=app.kubernetes.io/component=injector")  # fmt: skip
    made = json.dumps(pod(ASKS | EMPTY_DIR))
    done = cluster.kubectl(*asks, input=made, check=False)
    assert done.returncode != 0 and "asks for Recourse's sidecar and got none" in done.stderr, done
    cluster.kubectl(*asks, input=json.dumps(pod()))
    install(cluster, "recourse", SYSTEM, INJECTOR)
    cluster.kubectl("scale", f"deployment/{INJECTORS}", f"--namespace={SYSTEM}", "--replicas=2")
    cluster.kubectl("rollout", "status", f"deployment/{INJECTORS}", f"--namespace={SYSTEM}",
                    PATIENCE)  # fmt: skip
    cluster.await_true(lambda: cluster.kubectl(*asks, input=made, check=False).returncode == 0)


ALL = [
    policies_of_admission_are_of_the_types_that_the_api_server_knows,
    objects_of_every_values_file_are_taken_field_by_field,
    monitors_rules_and_certificates_are_what_their_operators_define,
    a_second_rendering_differs_in_nothing_from_what_runs_and_replaces_no_pod,
    a_resource_quota_that_wants_limits_has_them_by_annotation,
    a_limit_range_below_the_sidecars_is_kept_by_annotation,
    resources_of_the_pod_hold_the_sidecar_too_by_annotation,
    an_agent_may_have_recourses_ports_if_the_pod_says_where_else_it_listens,
    injectors_run_where_platform_teams_place_them,
    a_drain_of_nodes_leaves_one_injector,
    values_say_what_is_refused_and_what_is_warned_of,
    where_failures_of_the_webhook_are_ignored_the_guard_refuses_what_no_injector_saw,
]  # fmt: skip
