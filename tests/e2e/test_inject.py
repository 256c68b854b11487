"""`recourse inject`: the webhook as an API server sees it, with the certificate and the template
that the chart makes; its patches, applied by another's library, give pods that Kubernetes takes and
that are the chart's own; bad questions."""

import base64
import copy
import functools
import re
import ssl
import sys

import pytest

from support.certificates import Maker
from support.injector import (
    EMPTY_DIR, HOST, VALUES, Injector, chart_of, claim, container, injector, named, pod,
    response_in, review_of, sidecar_of,
)  # fmt: skip
from support.recourse import ROOT

sys.path.insert(0, str(ROOT / "tests/helm"))
from chart import render  # noqa: E402
from test_objects import argument, complaints  # noqa: E402

@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with injector(tmp_path_factory.mktemp("injector")) as made:
        yield made


def test_the_api_server_trusts_it_by_the_bundle_of_its_configuration(running):
    """The client of these tests trusts the CA of the Secret alone; so does an API server."""
    (webhook,) = chart_of("{}").one("MutatingWebhookConfiguration", "-injector")["webhooks"]
    bundle = base64.b64decode(webhook["clientConfig"]["caBundle"]).decode()
    assert bundle == running.authority
    service = webhook["clientConfig"]["service"]
    assert f"{service['name']}.{service['namespace']}.svc" == HOST
    assert running.ask(review_of(pod(inject=None)))[0] == 200


# --- pods of every kind --------------------------------------------------------------------------

PODS = {
    "of a Deployment": pod(annotations=EMPTY_DIR),
    "of a Deployment, on a claim of its own": pod(
        annotations={"recourse.dev/ledger": "ephemeral"}),
    "of a StatefulSet": pod("StatefulSet", volumes=[claim()]),
    "of a Job": pod("Job", restartPolicy="Never", volumes=[claim("nightly-ledger")]),
    "by hand": pod("", annotations=EMPTY_DIR),
    "without anything": pod(annotations=EMPTY_DIR, volumes=None, securityContext=None,
                            terminationGracePeriodSeconds=None,
                            containers=[{"name": "agent", "image": "agent"}]),
    "with empty lists": pod(annotations=EMPTY_DIR, volumes=[], initContainers=[],
                            containers=[{"name": "agent", "image": "agent", "env": [],
                                         "volumeMounts": []}]),
    "with containers of its own before": pod(
        annotations=EMPTY_DIR,
        initContainers=[{"name": "migrate", "image": "agent"},
                        {"name": "mesh", "image": "mesh", "restartPolicy": "Always"}]),
}  # fmt: skip
del PODS["without anything"]["metadata"]["labels"]


@pytest.mark.parametrize("name", PODS)
def test_a_pod_gets_what_a_chart_would_have_included(name, running):
    asked = PODS[name]
    made, warnings = running.injected(asked)
    assert complaints([made]) == []
    hand = rendered_by_hand()
    spec = made["spec"]
    wanted = copy.deepcopy(named(hand["spec"]["initContainers"], "recourse"))
    if asked["metadata"]["annotations"].get("recourse.dev/ledger") == "emptyDir":
        wanted["resources"]["requests"]["ephemeral-storage"] = "4Gi"
    assert sidecar_of(made) == wanted
    assert spec["initContainers"][1:] == asked["spec"].get("initContainers", [])
    assert spec["volumes"][: len(asked["spec"].get("volumes", []))] == asked["spec"].get(
        "volumes", [])  # fmt: skip
    for volume in hand["spec"]["volumes"]:
        if volume["name"].startswith("recourse-"):
            assert named(spec["volumes"], volume["name"]) == volume
    (agent,) = spec["containers"]
    (before,) = asked["spec"]["containers"]
    variables = named(hand["spec"]["containers"], "agent")["env"]
    wanted = [one for one in variables if one["name"] not in ("SHOP", "EVERY_SECONDS")]
    assert agent["env"] == before.get("env", []) + wanted
    for one in spec["initContainers"][:1]:
        (token,) = [mount for mount in one["volumeMounts"] if mount["mountPath"] == TOKEN]
        assert named(spec["volumes"], token["name"])["downwardAPI"] == {"items": []}
    assert {**agent, "env": 0} == {**before, "env": 0}, "nothing else of the agent changed"
    assert made["metadata"]["labels"]["recourse.dev/sidecar"] == "shop-recourse"
    assert re.fullmatch("[0-9a-f]{12}", made["metadata"]["labels"]["recourse.dev/template"])
    assert asked["metadata"].get("labels", {}).items() <= made["metadata"]["labels"].items()
    assert spec["securityContext"] == {"fsGroup": 19080, "fsGroupChangePolicy": "OnRootMismatch"}
    assert spec["terminationGracePeriodSeconds"] == 60
    is_lost = not any("persistentVolumeClaim" in one for one in spec["volumes"])
    assert [("executed again" in one) for one in warnings] == [True] * is_lost
    used = {one["name"] for one in sidecar_of(made)["volumeMounts"]}
    assert used <= {one["name"] for one in spec["volumes"]}


# Where Kubernetes mounts the token of the pod's ServiceAccount into containers that mount nothing.
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


@functools.cache
def rendered_by_hand():
    """The demo's pod, in which the chart itself includes the same."""
    out = render({"policy": VALUES["policy"], "admin": VALUES["admin"]})
    return out.one("StatefulSet", "-agent")["spec"]["template"]


@pytest.mark.parametrize("name", PODS)
def test_a_pod_that_has_the_sidecar_is_left_as_it_is(name, running):
    made, _ = running.injected(PODS[name])
    again = running.review(made)
    assert again["allowed"] and "patch" not in again and "warnings" not in again
    by_hand = {**rendered_by_hand(), "kind": "Pod", "apiVersion": "v1"}
    by_hand["metadata"] = {**by_hand["metadata"], "name": "a",
                           "annotations": {"recourse.dev/inject": "true"}}  # fmt: skip
    assert "patch" not in running.review(by_hand) and running.review(by_hand)["allowed"]


def changed(made, **spec):
    return {**made, "spec": {**made["spec"], **spec}}


def with_sidecar(made, **members):
    own, *others = made["spec"]["initContainers"]
    return changed(made, initContainers=[{**own, **members}, *others])


def unguarded(made):
    """What is refused of a pod that has the sidecar, by hand or from a question before."""
    own, (agent,) = sidecar_of(made), made["spec"]["containers"]
    yield changed(made, hostNetwork=True), "remove hostNetwork"
    yield changed(made, shareProcessNamespace=True), "remove shareProcessNamespace"
    yield changed(made, hostPID=True), "and hostPID"
    yield changed(made, securityContext={"runAsUser": 19080}), "it runs as user 19080"
    yield (changed(made, containers=[{**agent, "securityContext": {"runAsUser": 19080}}]),
           "its container agent runs as user 19080")  # fmt: skip
    mount = {"name": "recourse-ledger", "mountPath": "/l"}
    yield changed(made, containers=[{**agent, "volumeMounts": [mount]}]), "mounts recourse-ledger"
    yield (changed(made, volumes=[claim("ours")]),
           "the ReplicaSet agent gives all its pods the claim ours")  # fmt: skip
    for other in ({"image": "registry.example/wrapper:1"}, {"command": ["sleep"]},
                  {"args": [*own["args"], "--ledger-max=1GiB"]}, {"args": ["version"]},
                  {"securityContext": {"runAsUser": 0}}, {"volumeMounts": []},
                  {"volumeMounts": [{**one, "name": "x"} for one in own["volumeMounts"]]},
                  {"volumeMounts": [{**one, "subPath": "x"} for one in own["volumeMounts"]]},
                  ):  # fmt: skip
        yield (with_sidecar(made, **other),
               "container recourse has another image, command, user, mount or flag")  # fmt: skip


def test_a_pod_that_has_a_sidecar_which_does_not_guard_it_is_refused(running):
    made, _ = running.injected(pod(annotations=EMPTY_DIR))
    for asked, said in unguarded(made):
        assert said in running.refusal(asked)
    mirrored = f"mirror.example:5000/x/recourse@sha256:{'0' * 64}"
    kept = with_sidecar(made, image=mirrored, resources={}, terminationMessagePath="/dev/log")
    assert "patch" not in running.review(kept) and running.review(kept)["allowed"]


def test_what_an_annotation_changed_in_the_sidecar_is_no_other_one(running):
    asked = pod(annotations={**EMPTY_DIR, "recourse.dev/log-level": "debug"})
    made, _ = running.injected(asked)
    again = running.review(made)
    assert again["allowed"] and "patch" not in again


@pytest.mark.parametrize("inject", [None, "false"])
def test_a_pod_that_does_not_ask_is_left_as_it_is(inject, running):
    said = running.review(pod(inject=inject))
    assert said == {"uid": said["uid"], "allowed": True}
    if inject is None:
        bare = pod(inject=inject)
        del bare["metadata"]["annotations"]
        assert running.review(bare).keys() == {"uid", "allowed"}
    (warning,) = running.review(pod(inject=inject, annotations=EMPTY_DIR))["warnings"]
    assert 'do nothing without recourse.dev/inject: "true"' in warning


def test_a_dry_run_gets_the_same_answer(running):
    asked = pod(annotations=EMPTY_DIR)
    real, dry = running.review(asked), running.review(asked, dryRun=True)
    assert real["patch"] == dry["patch"] and real["warnings"] == dry["warnings"]


def test_a_static_pod_is_left_as_it_is(running):
    asked = pod("", annotations={**EMPTY_DIR, "kubernetes.io/config.mirror": "1f"})
    (warning,) = running.review(asked)["warnings"]
    assert "static pod" in warning


def test_interception_and_redirect_come_with_the_template(tmp_path):
    values = {"interception": {"enabled": True}, "redirect": {"enabled": True}}
    with injector(tmp_path / "one", values) as running:
        made, _ = running.injected(pod(annotations=EMPTY_DIR))
    assert complaints([made]) == []
    names = [one["name"] for one in made["spec"]["initContainers"]]
    assert names == ["recourse-redirect", "recourse"]
    (agent,) = made["spec"]["containers"]
    assert named(agent["volumeMounts"], "recourse-trust")["readOnly"] is True
    assert named(agent["env"], "SSL_CERT_FILE")["value"] == "/run/recourse/trust/ca.pem"


def test_secrets_to_pull_the_image_with_are_added_to_those_of_the_pod(tmp_path):
    values = {"imagePullSecrets": [{"name": "mirror"}, {"name": "registry"}]}
    with injector(tmp_path / "one", values) as running:
        made, _ = running.injected(pod(annotations=EMPTY_DIR))
        assert made["spec"]["imagePullSecrets"] == values["imagePullSecrets"]
        own = [{"name": "registry"}, {"name": "theirs"}]
        made, _ = running.injected(pod(annotations=EMPTY_DIR, imagePullSecrets=own))
        assert made["spec"]["imagePullSecrets"] == [*own, {"name": "mirror"}]
    assert complaints([made]) == []


# --- what a pod may say --------------------------------------------------------------------------


def test_annotations_say_which_policy_ledger_log_and_containers(running):
    helper = {"name": "helper", "image": "helper"}
    asked = pod("StatefulSet", annotations={
        "recourse.dev/policy-configmap": "agents.v2", "recourse.dev/log-level": "debug",
        "recourse.dev/ledger": "pvc", "recourse.dev/ledger-max": "8GiB",
        "recourse.dev/containers": "agent, migrate"}, volumes=[claim()],
        initContainers=[{"name": "migrate", "image": "agent"}],
        containers=[helper, {"name": "agent", "image": "agent"}])  # fmt: skip
    made, warnings = running.injected(asked)
    assert complaints([made]) == [] and warnings == []
    spec = made["spec"]
    assert named(spec["volumes"], "recourse-policy")["configMap"] == {"name": "agents.v2"}
    assert argument(sidecar_of(made), "--log-level") == "debug"
    assert argument(sidecar_of(made), "--ledger-max") == "8GiB"
    assert named(spec["containers"], "helper") == helper
    for container in (spec["containers"][1], spec["initContainers"][1]):
        assert named(container["env"], "HTTP_PROXY")["value"] == "http://127.0.0.1:19080"


def test_what_a_pod_has_set_itself_stays(running):
    own = [*({"name": name, "value": "models.example"} for name in ("NO_PROXY", "no_proxy")),
           {"name": "HTTP_PROXY", "value": "http://127.0.0.1:19080"}]  # fmt: skip
    asked = pod(annotations=EMPTY_DIR, securityContext={"fsGroup": 2000, "runAsUser": 1000},
                terminationGracePeriodSeconds=300,
                containers=[{"name": "agent", "image": "agent", "env": own}])  # fmt: skip
    made, warnings = running.injected(asked)
    assert complaints([made]) == []
    assert made["spec"]["securityContext"] == {
        "fsGroup": 2000, "runAsUser": 1000, "fsGroupChangePolicy": "OnRootMismatch"}  # fmt: skip
    assert made["spec"]["terminationGracePeriodSeconds"] == 300
    (agent,) = made["spec"]["containers"]
    assert agent["env"][:3] == own
    assert [one for one in warnings if "agent sets NO_PROXY, no_proxy itself" in one]


def test_javas_options_are_added_to_those_of_the_container(running):
    names = [one["name"] for one in rendered_by_hand()["spec"]["containers"][0]["env"]]
    ours = named(rendered_by_hand()["spec"]["containers"][0]["env"], "JAVA_TOOL_OPTIONS")["value"]
    for own, wanted in (("-Xmx1g", f"-Xmx1g {ours}"), ("", ours), (f"{ours} -ea", f"{ours} -ea")):
        env = [{"name": "A", "value": "b"}, {"name": "JAVA_TOOL_OPTIONS", "value": own}]
        made, warnings = running.injected(pod(annotations=EMPTY_DIR, containers=container(env=env)))
        (agent,) = made["spec"]["containers"]
        assert agent["env"][:2] == [env[0], {**env[1], "value": wanted}]
        assert {one["name"] for one in agent["env"]} == {"A", *names} - {"SHOP", "EVERY_SECONDS"}
        assert not [one for one in warnings if "itself" in one]
        assert "patch" not in running.review(made)


KEY = {"valueFrom": {"configMapKeyRef": {"name": "proxies", "key": "http"}}}
PAST = [{"name": name, "value": "http://proxy.example:3128"}
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy")]  # fmt: skip
PAST += [{"name": "HTTPS_PROXY", "value": ""}, {"name": "HTTP_PROXY", **KEY},
         {"name": "NO_PROXY", "value": "*"}, {"name": "no_proxy", "value": "a.example, *"},
         {"name": "JAVA_TOOL_OPTIONS", **KEY}]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PAST)))
def test_a_container_that_leads_calls_past_recourse_is_refused_unless_it_is_no_agent(
    number, running
):
    own = PAST[number]
    both = [*container(), {"name": "mesh", "image": "mesh", "env": [own]}]
    said = running.refusal(pod(annotations=EMPTY_DIR, containers=both))
    assert f"its container mesh sets {own['name']} itself" in said
    assert "by the annotation recourse.dev/containers" in said
    chosen = {**EMPTY_DIR, "recourse.dev/containers": "agent"}
    made, _ = running.injected(pod(annotations=chosen, containers=both))
    assert made["spec"]["containers"][1] == both[1]
    # Another webhook may come between two questions.
    made, _ = running.injected(pod(annotations=EMPTY_DIR))
    (agent,) = made["spec"]["containers"]
    later = changed(made, containers=[{**agent, "env": [*agent["env"], own]}])
    assert f"its container agent sets {own['name']} itself" in running.refusal(later)


REFUSED = [
    (pod(annotations={"recourse.dev/injct": "true"}, inject=None),
     "recourse.dev/injct is not one of recourse.dev/inject, recourse.dev/policy-configmap"),
    (pod(annotations={"recourse.dev/memory-limit": "64MB"}), "a quantity such as 128Mi"),
    (pod(annotations={"recourse.dev/cpu-request": "0"}), "a quantity such as 50m or 0.5"),
    (pod(annotations={"recourse.dev/ports": "proxy=80"}), "proxy=29080,admin=29081,probes=29082"),
    (pod(annotations={**EMPTY_DIR, "recourse.dev/ports": "admin=19080"}), "would be 19080"),
    (pod(annotations=EMPTY_DIR, containers=container(ports=[{"containerPort": 19082}])),
     "its container agent has the port 19082, on which Recourse listens"),
    (pod(inject="yes"), "recourse.dev/inject has the value 'yes'; accepted: \"true\" or \"false\""),
    (pod(inject="True"), "has the value 'True'"),
    (pod(annotations={"recourse.dev/log-level": "loud"}), "accepted: debug, info, warn or error"),
    (pod(annotations={"recourse.dev/ledger": "nfs"}), "accepted: pvc, singleton, emptyDir, "),
    (pod(annotations={**EMPTY_DIR, "recourse.dev/policy-configmap": "A_b"}), "name of a ConfigMap"),
    (pod(annotations={**EMPTY_DIR, "recourse.dev/containers": "agnt"}),
     "recourse.dev/containers names 'agnt', which the pod lacks"),
    (pod(annotations={"recourse.dev/containers": ""}), "names of the pod's containers, by commas"),
    (pod(annotations={**EMPTY_DIR, "recourse.dev/ledger-max": "1GiB"}), "of the pod's own: remove"),
    (pod("StatefulSet", volumes=[claim()], annotations={"recourse.dev/ledger-max": "1GB"}),
     "1MiB to 16TiB, such as 8GiB"),
    (pod(), "the ReplicaSet agent has no volume recourse-ledger for what must outlive its pods: "
            "make it a StatefulSet with the volumeClaimTemplate recourse-ledger; or, "),
    (pod("StatefulSet"), "give it the volumeClaimTemplate recourse-ledger; or, "),
    (pod("Job"), "give it a volume recourse-ledger with a claim of its own; or, "),
    (pod("", volumes=[]), "the pod has no volume recourse-ledger"),
    (pod(volumes=[claim("ours")]),
     "the ReplicaSet agent gives all its pods the claim ours, and two pods never share a ledger"),
    (pod("DaemonSet", volumes=[claim("ours")], annotations={"recourse.dev/ledger": "singleton"}),
     "two pods never share a ledger"),
    (pod(annotations={"recourse.dev/ledger": "singleton"}), "with a claim: give the pod one"),
    (pod("DaemonSet", volumes=[claim("ours")]), "two pods never share a ledger"),
    (pod("StatefulSet", volumes=[claim("ours")]),
     "two pods never share a ledger: name recourse-ledger in volumeClaimTemplates"),
    (pod("", volumes=[{"name": "recourse-ledger", "hostPath": {"path": "/var/ledger"}}]),
     "the volume recourse-ledger is hostPath; a ledger lives on"),
    (pod("StatefulSet", volumes=[claim()], annotations=EMPTY_DIR), "remove one of them"),
    (pod(annotations=EMPTY_DIR, hostNetwork=True), "remove hostNetwork"),
    (pod(annotations=EMPTY_DIR, shareProcessNamespace=True), "remove shareProcessNamespace"),
    (pod(annotations=EMPTY_DIR, hostPID=True), "and hostPID"),
    (pod(annotations=EMPTY_DIR, os={"name": "windows"}), "containers are of Windows"),
    (pod(annotations=EMPTY_DIR, nodeSelector={"kubernetes.io/os": "windows"}), "of Windows"),
    (pod("ReplicationController", volumes=[claim("ours")]), "two pods never share a ledger"),
    (pod("StatefulSet", volumes=[{"name": "recourse-ledger", "persistentVolumeClaim": {
        "claimName": "recourse-ledger-agent-0", "readOnly": True}}]), "is readOnly, and a ledger"),
    (pod(annotations=EMPTY_DIR, securityContext={"runAsUser": 19080}), "it runs as user 19080"),
    (pod(annotations=EMPTY_DIR, containers=container(securityContext={"runAsUser": 19080})),
     "its container agent runs as user 19080, which is Recourse's alone"),
    (pod("StatefulSet", volumes=[claim()], containers=container(
        volumeMounts=[{"name": "recourse-ledger", "mountPath": "/l"}])), "mounts recourse-ledger"),
    (pod(annotations=EMPTY_DIR, volumes=[{"name": "recourse-policy", "emptyDir": {}}]),
     "it has a volume recourse-policy of its own: rename that"),
    (pod("StatefulSet", volumes=[claim(), {**claim(), "name": "other"}]),
     'its volume other is the claim "recourse-ledger-agent-0" of the ledger: remove that volume'),
    (pod(annotations=EMPTY_DIR, initContainers=[{"name": "recourse", "image": "x"}]),
     "it has a container recourse of its own: rename that"),
]  # fmt: skip


def test_no_agent_has_a_volume_of_recourse_but_the_cas(tmp_path):
    values = {"interception": {"enabled": True}, "policySecrets": ["shop"],
              "ledgerKeySecret": "keys", "admin": {"operatorsSecret": "people"}}  # fmt: skip
    with injector(tmp_path / "one", values) as running:
        made, _ = running.injected(pod(annotations=EMPTY_DIR))
        names = [one["name"] for one in made["spec"]["volumes"] if "recourse" in one["name"]]
        assert {"recourse-admin", "recourse-ca", "recourse-ledger-key", "recourse-ledger",
                "recourse-operators", "recourse-secret-shop",
                "recourse-trust"} < set(names)  # fmt: skip
        for name in names:
            for use in ({"volumeMounts": [{"name": name, "mountPath": "/x"}]},
                        {"volumeDevices": [{"name": name, "devicePath": "/dev/x"}]}):  # fmt: skip
                for list_of in ("containers", "initContainers"):
                    asked = pod(annotations=EMPTY_DIR, **{
                        "containers": container(), list_of: container(**use)})  # fmt: skip
                    assert f"container agent mounts {name}, which" in running.refusal(asked)
                later = changed(made, containers=container(**use))  # by another webhook
                assert f"container agent mounts {name}, which" in running.refusal(later)
        trust = {"name": "recourse-trust", "mountPath": "/x", "readOnly": True}
        running.injected(pod(annotations=EMPTY_DIR, containers=container(volumeMounts=[trust])))
        assert "patch" not in running.review(made) and running.review(made)["allowed"]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_pod_that_recourse_could_not_guard_is_refused_with_the_reason(number, running):
    asked, said = REFUSED[number]
    assert said in running.refusal(asked)


@pytest.mark.parametrize("inject", [None, "true"])
def test_a_label_in_place_of_an_annotation_is_refused(inject, running):
    asked = pod(inject=inject, annotations=EMPTY_DIR if inject else {})
    asked["metadata"]["labels"]["recourse.dev/inject"] = "true"
    said = running.refusal(asked)
    assert "has the label recourse.dev/inject, which does nothing: make it an annotation" in said


def test_a_mount_where_the_cas_are_to_be_is_refused(tmp_path):
    with injector(tmp_path / "one", {"interception": {"enabled": True}}) as running:
        own = {"name": "kube-api-access-x7k2p", "mountPath": "/run/recourse/trust"}
        said = running.refusal(pod(annotations=EMPTY_DIR, containers=container(volumeMounts=[own])))
    assert "its container agent mounts something at /run/recourse/trust" in said


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "Job"])
def test_the_kinds_of_others_are_other_owners(kind, running):
    asked = pod(kind, volumes=[claim("ours")])
    asked["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.others.example/v1"
    _, (warning,) = running.injected(asked)
    assert f"no other pod of the {kind} agent may have the claim ours" in warning


def test_another_owner_is_told_that_it_must_see_to_its_claim(running):
    made, (warning,) = running.injected(pod("CloneSet", volumes=[claim("ours")]))
    assert complaints([made]) == []
    assert "no other pod of the CloneSet agent may have the claim ours" in warning


# --- questions that are none ---------------------------------------------------------------------


@pytest.mark.parametrize("changes", [
    {"operation": "UPDATE"}, {"operation": "DELETE", "object": None}, {"subResource": "status"},
    {"subResource": "ephemeralcontainers", "operation": "UPDATE"},
    {"resource": {"group": "apps", "version": "v1", "resource": "deployments"},
     "object": {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {}, "spec": {}}},
])  # fmt: skip
def test_what_is_no_new_pod_is_let_through_and_told_of(changes, running):
    asked = review_of(pod(annotations=EMPTY_DIR), **changes)
    status, _, body = running.ask(asked)
    said = response_in(body, asked)
    assert status == 200 and said["allowed"] and "patch" not in said
    assert "correct the rules of its webhook" in said["warnings"][0]


def without(*path):
    asked = review_of(pod(annotations=EMPTY_DIR))
    inner = asked
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return asked


DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000
BAD = [
    (400, {"body": b""}, "no JSON"), (400, {"body": b"{"}, "no JSON"),
    (400, {"body": b"\xff\xfe{}"}, "no JSON"), (400, {"body": b"[]"}, "no AdmissionReview"),
    (400, {"body": DEEP}, "no JSON"), (400, {"body": b'{"kind":"a","kind":"b"}'}, "no JSON"),
    (400, {"body": {**review_of(pod()), "apiVersion": "admission.k8s.io/v1beta1"}},
     "no AdmissionReview of admission.k8s.io/v1: set admissionReviewVersions"),
    (400, {"body": {**review_of(pod()), "kind": "Pod"}}, "no AdmissionReview"),
    (400, {"body": without("request")}, "no request with a uid"),
    (400, {"body": without("request", "uid")}, "no request with a uid"),
    (400, {"body": without("request", "object")}, "request.object is no pod"),
    (400, {"body": without("request", "object", "spec", "containers")}, "request.object is no pod"),
    (400, {"body": without("request", "object", "metadata")}, "request.object is no pod"),
    (405, {"body": b"", "method": "GET"}, "asks by POST"),
    (404, {"body": b"{}", "path": "/"}, "asks at POST /mutate and POST /validate"),
    (415, {"body": b"{}", "kind": "text/plain"}, "is not application/json"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_question_is_refused_with_the_reason(number, running):
    status, changes, said = BAD[number]
    before = running.counted("bad")
    got, _, body = running.ask(**changes)
    assert got == status and said in body.decode()
    assert running.counted("bad") == before + 1


def test_odd_pods_break_nothing(running):
    """No API server sends these; whoever does gets an answer."""
    for part in ({"containers": None}, {"containers": {}}, {"volumes": 7, "initContainers": "x"},
                 {"containers": [None, 3, {}, {"name": 4, "env": "x"}]},
                 {"securityContext": [], "terminationGracePeriodSeconds": "x"}):  # fmt: skip
        asked = pod(annotations=EMPTY_DIR)
        asked["spec"].update(part)
        status, _, _ = running.ask(review_of(asked))
        assert status in (200, 400)
    asked = pod()
    asked["metadata"]["annotations"] = {"recourse.dev/inject": 1}
    assert "accepted" in running.refusal(asked)


def test_a_pod_of_the_size_that_an_api_server_takes_is_read_and_a_larger_one_refused(running):
    large = pod(annotations={**EMPTY_DIR, "note": "x" * (3 * 1024 * 1024 - 8192)})
    made, _ = running.injected(large)
    assert sidecar_of(made)["name"] == "recourse"
    status, headers, body = running.ask(review_of(pod(annotations={"note": "x" * 4_000_000})))
    assert status == 413 and b"more than 3407872 bytes" in body
    assert headers["Connection"] == "close"
    assert running.review(pod(inject=None))["allowed"]


def test_the_webhook_speaks_tls_alone_and_serves_nobody_else(running):
    with pytest.raises(ssl.SSLCertVerificationError):
        stranger = Maker(running.directory / "stranger")
        Injector.connect(type("Other", (), {"ports": running.ports,
                                            "authority": stranger.cert.read_text()}))  # fmt: skip
    assert running.probe("/mutate")[0] == 404
    assert running.probe("/healthz") == (200, "live\n")
    assert running.probe("/readyz") == (200, "ready\n")
