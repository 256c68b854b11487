"""Where there is a real Helm, it makes of the chart what render/ makes, and finds no fault."""

import shutil
import subprocess

import pytest
import yaml
from chart import CASES, CHART, HERE, PARENTS, SECONDS_MAX, rendered

HELM = shutil.which("helm")
pytestmark = pytest.mark.skipif(not HELM, reason="there is no helm (Debian has no package of it)")


def helm(*arguments):
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX,
                          check=False)  # fmt: skip


def by_name(objects):
    """Without the certificate of an injector, which is another one each time."""
    return {(one["kind"], one["metadata"]["name"]): without_certificate(one) for one in objects}


def without_certificate(one):
    if one["kind"] == "Secret":
        return {**one, "data": sorted(one["data"])}
    if one["kind"] == "MutatingWebhookConfiguration":
        (webhook,) = one["webhooks"]
        config = {**webhook["clientConfig"], "caBundle": ""}
        return {**one, "webhooks": [{**webhook, "clientConfig": config}]}
    return one


@pytest.mark.parametrize("case", CASES)
def test_helm_makes_the_same_objects(case, tmp_path):
    chart, values = CHART, ["--values", CHART / f"ci/{case}.yaml"]
    if case in PARENTS:
        chart, values = tmp_path / case, []
        shutil.copytree(HERE / case, chart)
        shutil.copytree(CHART, chart / "charts/recourse")
    made = helm("template", "shop", chart, "--namespace", "agents", "--kube-version", "1.31.0",
                *values)  # fmt: skip
    assert made.returncode == 0, made.stderr
    objects = [one for one in yaml.safe_load_all(made.stdout) if one]
    assert by_name(objects) == by_name(rendered(case).objects)


def test_helm_finds_no_fault():
    linted = helm("lint", "--strict", CHART)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    old = helm("template", "shop", CHART, "--kube-version", "1.28.0")
    assert old.returncode != 0 and "incompatible with Kubernetes v1.28.0" in old.stderr
