"""Renders the chart under helm/recourse as Helm would, and finds things in what comes out."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/recourse"
HERE = ROOT / "tests/helm"
CI_VALUES = sorted(CHART.glob("ci/*-values.yaml"))
BUILD = ROOT / "build/helm"
SECONDS_MAX = 600  # only ends what hangs: a busy machine may compile for long


class Refused(Exception):
    """The chart does not take these values; the text is what Helm would say."""


def packages_of_debian():
    """The environment of the compiler: libraries from Debian's packages, and from nowhere else."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GO")}
    return {**kept, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "CGO_ENABLED": "0",
            "GOCACHE": str(BUILD / "cache")}  # fmt: skip


@functools.cache
def renderer():
    """The compiled tests/helm/render; Go itself knows what has changed since the last time."""
    go = "/usr/bin/go" if os.access("/usr/bin/go", os.X_OK) else shutil.which("go")
    assert go, "go is missing: ./dev test installs it (package golang-go)"
    BUILD.mkdir(parents=True, exist_ok=True)
    binary = BUILD / f"render.{os.getpid()}"
    made = subprocess.run(
        [go, "build", "-o", binary, "."],
        cwd=HERE / "render", env=packages_of_debian(), capture_output=True, text=True,
        timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    os.replace(binary, BUILD / "render")  # two presets may be tested at once
    return BUILD / "render"


class Rendered:
    """What `helm install` would send (objects, and their text), and what it would print."""

    def __init__(self, told):
        self.objects, self.text, self.notes = told["objects"], told["text"], told["notes"]

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


def render(*values, chart=CHART, subcharts=(), api=(), existing=()):
    """Renders with values files, or values given as maps, each laid on those before it.

    A subchart is a directory, or ALIAS=DIRECTORY; `existing` are objects of the cluster.
    """
    with tempfile.TemporaryDirectory() as directory:
        arguments = [str(chart)]
        for number, one in enumerate(values):
            path = one
            if isinstance(one, dict):
                path = pathlib.Path(directory) / f"{number}.yaml"
                path.write_text(yaml.safe_dump(one))
            arguments += ["--values", str(path)]
        for one in subcharts:
            arguments += ["--subchart", str(one)]
        for version in api:
            arguments += ["--api", version]
        if existing:
            cluster = pathlib.Path(directory) / "existing.json"
            cluster.write_text(json.dumps(existing))
            arguments += ["--existing", str(cluster)]
        done = subprocess.run([renderer(), *arguments], capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False)  # fmt: skip
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
