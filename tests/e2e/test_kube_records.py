"""What a real API server asked the webhooks, and showed its admission policies, is judged today as
it was there: the cases of tests/kube/cases.py, on what `./dev kube --record` kept of them."""

import base64
import copy
import json
import sys

import jsonpatch
import pytest

from support import meshes
from support.injector import injector
from support.recourse import ROOT

sys.path[:0] = [str(ROOT / "tests/helm"), str(ROOT / "tests/kube")]
from admission import RECORDS, judge, order_of  # noqa: E402
from cases import CASES, LABELLED, MESHED  # noqa: E402
from test_guard import denials  # noqa: E402

RECORDED = json.loads(RECORDS.read_text())
SPACE = {"metadata": {"labels": {"recourse.dev/injection": "enabled"}}}
POLICIES = {"pods": "-guard", "namespaces": "-namespaces", **dict.fromkeys(
    ("deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"), "-workloads")}  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with injector(tmp_path_factory.mktemp("injector")) as made:
        yield made


def test_every_case_was_recorded_with_a_kubernetes_that_says_its_version():
    assert RECORDED["kubernetes"].startswith("v1.") and set(RECORDED["cases"]) == set(CASES)
    for name, case in CASES.items():
        assert RECORDED["cases"][name]["allowed"] == case.allowed


def is_asked(request):
    """Whether the chart's webhooks have the API server ask about it."""
    what, made = request["resource"]["resource"], request["object"]
    if what == "configmaps":
        return "recourse.dev/policy" in made["metadata"].get("labels", {})
    if what == "namespaces" or request["namespace"] not in LABELLED or request.get("subResource"):
        return False
    of = made if what == "pods" else made["spec"].get("jobTemplate", made)["spec"]["template"]
    meta = of["metadata"]
    words = [*meta.get("annotations", {}), *meta.get("labels", {})]
    return any(one.startswith("recourse.dev/") for one in words)


def injectors_word(running, asked):
    """(whether it allows it, what it says, the object that comes of it)."""
    request = asked["request"]
    path = "/mutate" if request["resource"]["resource"] == "pods" else "/validate"
    status, _, body = running.ask(asked, path=f"{path}?timeout=5s")
    assert status == 200, body
    said = json.loads(body)["response"]
    assert said["uid"] == request["uid"]
    patch = json.loads(base64.b64decode(said["patch"])) if "patch" in said else []
    words = [said.get("status", {}).get("message", ""), *said.get("warnings", [])]
    return said["allowed"], words, jsonpatch.apply_patch(request["object"], patch)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.asks_api])
def test_it_is_judged_as_the_cluster_judged_it(name, running):
    recorded, allowed, said = RECORDED["cases"][name], True, []
    request = recorded["first"]["request"]
    seen = [recorded["last"]["request"]["object"]] if "last" in recorded else []
    if is_asked(request):
        allowed, said, made = injectors_word(running, recorded["first"])
        if request["resource"]["resource"] == "pods":
            assert allowed == bool(seen), "the API server goes on with what is allowed"
        if allowed:
            seen.append(made)
    policy = POLICIES.get(request["resource"]["resource"])
    if policy:
        space = SPACE if request.get("namespace") in LABELLED else {"metadata": {}}
        for found in denials(policy, *seen, namespace=space):
            allowed = allowed and (policy != "-guard" or not found)
            said += found
    assert not judge(CASES[name], allowed, " ".join(said), recorded.get("last"))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.namespace == MESHED])
def test_what_a_mesh_has_made_of_it_is_left_as_it_is(name, running):
    asked = copy.deepcopy(RECORDED["cases"][name]["first"])
    request = asked["request"]
    _, _, made = injectors_word(running, asked)
    mesh, _, kind = made["metadata"]["labels"]["mesh"].partition("-")
    request["object"] = getattr(meshes, mesh)(made, kind == "native")
    again, said, same = injectors_word(running, asked)  # reinvocationPolicy: IfNeeded
    assert again and same == request["object"], said
    assert order_of(asked) == order_of(RECORDED["cases"][name]["last"])
