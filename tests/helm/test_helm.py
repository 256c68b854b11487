"""What Helm and kubectl themselves have to say of the chart, and of the commands of its page."""

import re
import shlex
import tarfile

import pytest
import yaml
from chart import CHART, CI_VALUES, ROOT, render, rendered, run

VALUES = [CHART / "values.yaml", *CI_VALUES]


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_helm_finds_no_fault_with_any_values_file(values):
    linted = run("helm", "lint", "--strict", CHART, "--values", values)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "[WARNING]" not in linted.stdout and "1 chart(s) linted" in linted.stdout


def test_a_fault_is_found(tmp_path):
    wrong = tmp_path / "values.yaml"
    wrong.write_text("store: { type: nfs }\n")
    assert run("helm", "lint", "--strict", CHART, "--values", wrong).returncode != 0


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_templates_of_every_values_file_are_what_an_installation_sends(values):
    """Argo CD and Flux run `helm template`; what the default makes for itself is their problem."""
    made = run("helm", "template", "shop", CHART, "--namespace=agents", "--values", values)
    assert made.returncode == 0, made.stderr
    names = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(made.stdout)]
    out = render(values)
    assert sorted(names) == sorted((one["kind"], one["metadata"]["name"]) for one in out.objects)


def test_an_older_kubernetes_is_refused():
    old = run("helm", "template", "shop", CHART, "--kube-version=1.28.0")
    assert old.returncode != 0 and "incompatible with Kubernetes v1.28.0" in old.stderr


def test_the_package_is_the_chart_without_its_tests(tmp_path):
    made = run("helm", "package", CHART, "--destination", tmp_path)
    assert made.returncode == 0, made.stderr
    (package,) = tmp_path.glob("recourse-*.tgz")
    with tarfile.open(package) as archive:
        names = {one.removeprefix("recourse/") for one in archive.getnames()}
    files = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
    assert names == {one for one in files if not one.startswith("ci/")}
    assert render(chart=package).text == rendered("default-values").text


def commands_of_the_page():
    """Those by which the page makes what a namespace needs."""
    text = (ROOT / "helm/README.md").read_text().replace("\\\n", " ")
    found = re.findall(r"^kubectl -n agents (create (?:secret|configmap) .*)$", text, re.M)
    return sorted(set(found))


def test_the_commands_of_the_page_make_what_pods_mount(tmp_path):
    (tmp_path / "policy.yaml").write_text("version: 1\n")
    made = {}
    for command in commands_of_the_page():
        words = shlex.split(command.replace("$(openssl rand -hex 32)", "5f" * 32))
        done = run("kubectl", *words, "--dry-run=client", "--output=yaml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        one = yaml.safe_load(done.stdout)
        made[one["kind"], one["metadata"]["name"]] = set(one["data"])
    assert made == {("Secret", "recourse-admin"): {"token"},
                    ("Secret", "recourse-install"): {"secret"},
                    ("ConfigMap", "recourse-policy"): {"policy.yaml"}}  # fmt: skip
