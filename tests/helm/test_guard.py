"""What API servers see to themselves: the CEL of the chart's policies and webhooks, evaluated on
pods, workloads and namespaces as API servers show them."""

import functools
import json
import re
import select
import subprocess

import pytest
from chart import CHART, HERE, ROOT, SECONDS_MAX, render, rendered

CASE = "injector-values"


@functools.cache
def evaluator():
    """One for all questions of this process: most of what it does is to start. It ends with us."""
    return subprocess.Popen(["node", HERE / "cel.mjs"], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)  # fmt: skip


def evaluated(questions):
    running = evaluator()
    running.stdin.write(json.dumps(questions) + "\n")
    running.stdin.flush()
    assert select.select([running.stdout], [], [], SECONDS_MAX)[0], "no answer"
    said = running.stdout.readline()
    assert said, "it broke down; what it said stands above"
    return json.loads(said)


def denials(policy, *objects, namespace=None):
    """For each object the messages of the validations that it fails."""
    spec = rendered(CASE).one("ValidatingAdmissionPolicy", policy)["spec"]
    expressions = [one["expression"] for one in spec["validations"]]
    bindings = [{"object": one, "namespaceObject": namespace} for one in objects]
    answers = evaluated([{"variables": spec.get("variables", []), "expressions": expressions,
                          "bindings": one} for one in bindings])  # fmt: skip
    assert all(isinstance(one, bool) for answer in answers for one in answer), answers
    return [[rule["message"] for rule, holds in zip(spec["validations"], answer, strict=True)
             if not holds] for answer in answers]  # fmt: skip


def pod(annotations=None, **spec):
    metadata = {"name": "agent-0", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{"name": "agent", "image": "agent"}], **spec}}  # fmt: skip


def guarded(**spec):
    """A pod with the chart's own sidecar."""
    added = json.loads(rendered(CASE).one("ConfigMap", "-injector")["data"]["template.json"])
    return pod({"recourse.dev/inject": "true"}, initContainers=added["initContainers"], **spec)


ASKS = {"recourse.dev/inject": "true"}


def test_a_pod_that_asks_and_got_no_sidecar_is_denied_with_the_reason():
    bare = [pod(ASKS), pod({"recourse.dev/inject": "enabled"}), pod({"recourse.dev/inject": "yes"}),
            pod(ASKS, initContainers=[{"name": "recourse", "image": "x"}]),
            pod(ASKS, initContainers=[{"name": "mesh", "restartPolicy": "Always"}])]  # fmt: skip
    for said in denials("-guard", *bare):
        (message,) = said
        assert "label its namespace recourse.dev/injection=enabled" in message
        assert "the injector runs in agents" in message


def test_a_pod_that_has_it_or_does_not_ask_is_let_through():
    no = [{"recourse.dev/inject": word} for word in ("false", "disabled")]
    other = [None, {"a": "b"}, {"recourse.dev/ledger": "emptyDir"},
             {**ASKS, "kubernetes.io/config.mirror": "1f"}]  # fmt: skip
    assert not any(denials("-guard", guarded(), *(pod(one) for one in no + other)))


def test_a_misspelt_annotation_is_denied():
    ((message,),) = denials("-guard", pod({"recourse.dev/injct": "true"}))
    assert "that nobody knows: correct it (inject, policy-configmap, " in message


def test_the_policy_knows_the_annotations_of_the_injector():
    source = (ROOT / "proxy/inject/pod_options.cpp").read_text()
    known = re.findall(r'"([a-z-]+)"', source.partition("kWords[] = {")[2].partition("};")[0])
    rules = rendered(CASE).one("ValidatingAdmissionPolicy", "-guard")["spec"]["validations"]
    assert set(re.findall(r"'recourse.dev/([a-z-]+)'", rules[1]["expression"])) == set(known)


REFUSED = [
    {"targetContainerName": "recourse"}, {"securityContext": {"runAsUser": 19080}},
    {"securityContext": {"privileged": True}},
    {"volumeMounts": [{"name": "tmp"}, {"name": "recourse-ledger", "mountPath": "/l"}]},
]  # fmt: skip
ACCEPTED = [
    {}, {"targetContainerName": "agent"}, {"securityContext": {"runAsUser": 1000}},
    {"securityContext": {}}, {"volumeMounts": [{"name": "recourse-trust", "mountPath": "/t"}]},
    {"volumeMounts": []},
]  # fmt: skip


def test_an_ephemeral_container_that_sees_what_is_recourses_is_denied():
    shell = {"name": "debug", "image": "busybox"}
    asked = [guarded(ephemeralContainers=[shell, {**shell, **one}]) for one in REFUSED]
    for said in denials("-guard", *asked):
        assert said == ["an ephemeral container may not be privileged, be Recourse's user (19080), "
                        "nor see its process or volumes"]  # fmt: skip
    asked = [guarded(ephemeralContainers=[{**shell, **one}]) for one in ACCEPTED]
    asked += [pod(ephemeralContainers=[{**shell, **one}]) for one in REFUSED]  # none of ours
    assert not any(denials("-guard", *asked))


def test_the_user_is_that_of_the_values():
    out = render(CHART / f"ci/{CASE}.yaml", {"runAs": {"user": 20001}})
    rules = out.one("ValidatingAdmissionPolicy", "-guard")["spec"]["validations"]
    assert "runAsUser != 20001" in rules[2]["expression"]


def workload(template=None, own=None, **spec):
    made = pod(template, **spec)
    return {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "agent", **({"annotations": own} if own else {})},
            "spec": {"template": {"metadata": {k: v for k, v in made["metadata"].items()
                                               if k != "name"}, "spec": made["spec"]}}}  # fmt: skip


def cron(made):
    return {**made, "kind": "CronJob", "apiVersion": "batch/v1",
            "spec": {"jobTemplate": {"spec": made["spec"]}}}  # fmt: skip


def test_a_workload_in_a_namespace_without_the_label_is_told():
    labelled = {"metadata": {"labels": {"recourse.dev/injection": "enabled"}}}
    assert denials("-workloads", workload(ASKS), namespace=labelled) == [[]]
    included = guarded()["spec"]["initContainers"]
    for other in ({"metadata": {}}, {"metadata": {"labels": {"recourse.dev/injection": "on"}}}):
        ((said,), none, charted) = denials("-workloads", workload(ASKS), workload(),
                                           workload(ASKS, initContainers=included),
                                           namespace=other)  # fmt: skip
        assert said.endswith("refused: label the namespace recourse.dev/injection=enabled")
        assert none == charted == []
        assert denials("-workloads", cron(workload(ASKS)), cron(workload()),
                       namespace=other) == [[said], []]  # fmt: skip
    rules = rendered(CASE).one("ValidatingAdmissionPolicy", "-workloads")["spec"]
    found = [one["resources"] for one in rules["matchConstraints"]["resourceRules"]]
    assert found == [["deployments", "statefulsets", "daemonsets"], ["jobs", "cronjobs"]]


def test_an_annotation_of_the_workload_itself_is_told():
    labelled = {"metadata": {"labels": {"recourse.dev/injection": "enabled"}}}
    both = workload(ASKS, ASKS)
    ((said,), fine, no, (cronned,)) = denials(
        "-workloads", workload(own=ASKS), both, workload(own={"recourse.dev/inject": "false"}),
        cron(workload(own=ASKS)), namespace=labelled)  # fmt: skip
    assert said == cronned and fine == no == []
    assert "move it to metadata.annotations of the pod template" in said


def test_a_namespace_with_words_of_other_meshes_is_told():
    def namespace(**metadata):
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", **metadata}}

    wrong = [namespace(annotations={"recourse.dev/inject": "enabled"}),
             namespace(labels={"recourse.dev/injection": "true"}),
             namespace(labels={"recourse.dev/inject": "true"})]  # fmt: skip
    assert all("has the label recourse.dev/injection=enabled alone" in one
               for (one,) in denials("-namespaces", *wrong))  # fmt: skip
    right = [namespace(), namespace(labels={"recourse.dev/injection": "enabled", "a": "b"})]
    assert not any(denials("-namespaces", *right))


def test_denials_are_the_guards_alone_unless_asked_for():
    def actions(values):
        out = render(CHART / f"ci/{CASE}.yaml", values)
        return {one["spec"]["policyName"].rpartition("-")[2]: one["spec"]["validationActions"]
                for one in out.all("ValidatingAdmissionPolicyBinding")}  # fmt: skip

    told = {"guard": ["Deny"], "workloads": ["Warn"], "namespaces": ["Warn"]}
    assert actions({}) == told
    assert actions({"injector": {"workloads": "refuse"}}) == {**told, "workloads": ["Deny"]}
    assert actions({"injector": {"guard": False}}) == {}


def test_the_guard_outlives_the_chart_and_needs_no_injector():
    out = rendered(CASE)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        guard = out.one(kind, "-guard")
        assert guard["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert out.one("ValidatingAdmissionPolicy", "-guard")["spec"]["failurePolicy"] == "Fail"
    (rules,) = [out.one("ValidatingAdmissionPolicy", "-guard")["spec"]["matchConstraints"]]
    assert "namespaceSelector" not in rules, "a namespace without the label is where it is needed"


# --- webhooks ------------------------------------------------------------------------------------


def meant(kind, *objects):
    webhook, *_ = rendered(CASE).one(kind, "")["webhooks"]
    (condition,) = webhook["matchConditions"]
    return [one[0] for one in evaluated([{"expressions": [condition["expression"]],
                                          "bindings": {"object": each}} for each in objects])]


def test_the_injector_is_asked_about_pods_that_name_it():
    labelled = pod()
    labelled["metadata"]["labels"] = {"recourse.dev/inject": "true"}
    ours = pod()
    ours["metadata"]["labels"] = {"recourse.dev/sidecar": "shop"}
    assert meant("MutatingWebhookConfiguration", pod(ASKS), pod({"recourse.dev/injct": "1"}),
                 labelled, pod(), pod({"a": "b"}), ours) == [True, True, True, False, False, False]


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_the_injector_is_asked_about_workloads_whose_pods_name_it(kind):
    def made(annotations):
        one = workload(annotations)
        return cron(one) if kind == "CronJob" else one

    bare = made(None)
    del (bare["spec"].get("jobTemplate", bare)["spec"]["template"]["metadata"])
    assert meant("ValidatingWebhookConfiguration", made(ASKS), made({"a": "b"}), made(None),
                 bare) == [True, False, False, False]  # fmt: skip
