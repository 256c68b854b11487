"""A running `recourse inject`, asked as an API server asks: AdmissionReviews over TLS, whose
certificate must be of the CA and for the name of the Service; and realistic pods to ask about."""

import base64
import copy
import functools
import http.client
import json
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import uuid

import jsonpatch

from support.certificates import Maker
from support.recourse import BINARY, ROOT, STOP_MAX, WAIT_MAX, environment
from support.waiting import wait_until

sys.path.insert(0, str(ROOT / "tests/helm"))
from chart import render  # noqa: E402

HOST = "shop-recourse-injector.agents.svc"


def made_certificate():
    """The files of a Secret of somebody's own, and its CA."""
    with tempfile.TemporaryDirectory() as directory:
        maker = Maker(directory)
        made = maker.issue("webhook", san=f"DNS:{HOST}")
        return {"ca.crt": maker.cert.read_text(), "tls.crt": made.cert.read_text(),
                "tls.key": made.key.read_text()}  # fmt: skip


CERTIFICATE = made_certificate()
GIVEN = {"certificate": {"existingSecret": "webhook-tls", "ca": CERTIFICATE["ca.crt"]}}
VALUES = {
    "injector": {"enabled": True, **GIVEN}, "demo": {"enabled": False},
    "policy": {"existingConfigMap": "recourse-policy"}, "admin": {"tokenSecret": "recourse-admin"},
}  # fmt: skip
EMPTY_DIR = {"recourse.dev/ledger": "emptyDir"}


@functools.cache
def chart_of(values):
    return render(VALUES, json.loads(values))


def template_of(out):
    return out.one("ConfigMap", "-injector")["data"]["template.json"]


def injector(directory, values=None, arguments=()):
    """One with all that the chart gives it."""
    out = chart_of(json.dumps(values or {}))
    return Injector(directory, template_of(out), CERTIFICATE, CERTIFICATE["ca.crt"], arguments)


def own_injector(directory, api, out, arguments=()):
    """One that makes its certificate itself, and asks `api`, with the flags of the chart."""
    (container,) = out.one("Deployment", "-injector")["spec"]["template"]["spec"]["containers"]
    flags = ("--own-certificate", "--host", "--mutating-webhook", "--validating-webhook", "--ca-li")
    own = [one for one in container["args"] if one.startswith(flags)]
    where = [f"--api-server={api.url}", f"--service-account={api.account}"]
    running = Injector(directory, template_of(out), {}, None, [*where, *own, *arguments])
    running.api = api
    return running


class Swapped:
    """A directory as the kubelet mounts it: links into one that is swapped at once."""

    def __init__(self, directory, files):
        self.directory, self.count = pathlib.Path(directory), 0
        self.directory.mkdir(parents=True)
        self.swap(files)
        for name in files:
            (self.directory / name).symlink_to(f"..data/{name}")

    def swap(self, files):
        self.count += 1
        real = self.directory / f"..{self.count}"
        real.mkdir()
        for name, text in files.items():
            (real / name).write_text(text)
        (self.directory / "..data_tmp").symlink_to(real.name)
        (self.directory / "..data_tmp").rename(self.directory / "..data")

    def __truediv__(self, name):
        return self.directory / name


class Injector:
    def __init__(self, directory, template, certificate, authority, arguments=()):
        """`template` and the two of `certificate` are texts, `authority` the CA's."""
        self.directory = pathlib.Path(directory)
        self.template = Swapped(self.directory / "template", {"template.json": template})
        self.tls = Swapped(self.directory / "tls", certificate)
        self.authority, self.arguments = authority, arguments
        self.log = self.directory / "log"
        self.process = self.ports = self.api = None

    def __enter__(self):
        ports = self.directory / "ports.json"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BINARY, "inject", "--template", self.template / "template.json",
                 "--tls-cert", self.tls / "tls.crt", "--tls-key", self.tls / "tls.key",
                 "--listen", "127.0.0.1:0", "--probes", "127.0.0.1:0", "--ports-file", ports,
                 *self.arguments],
                env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.until(ports.exists)
        self.ports = json.loads(ports.read_text())
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait(STOP_MAX)

    def until(self, holds):
        """Waits until `holds()` is true, and gives what it gave."""

        def found():
            value = holds()
            assert value or self.process.poll() is None, self.log.read_text()
            return value

        return wait_until(found, self.log.read_text)

    def metric(self, name):
        lines = self.probe("/metrics")[1].splitlines()
        (line,) = [one for one in lines if one.startswith(name + " ")]
        return float(line.split()[-1])

    def certificate_end(self):
        """Seconds since 1970, as /metrics tells."""
        return self.metric("recourse_inject_certificate_end_timestamp_seconds")

    def connect(self):
        return Connection(self.ports["listen"], self.authority)

    def probe(self, path):
        """(status, body) of the plain port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["probes"], timeout=WAIT_MAX)
        connection.request("GET", path)
        answer = connection.getresponse()
        said = answer.status, answer.read().decode()
        connection.close()
        return said

    def counted(self, result):
        return int(self.metric(f'recourse_inject_reviews_total{{result="{result}"}}'))

    def ask(self, body, **changes):
        """The answer to one request on a connection of its own: (status, headers, body)."""
        with self.connect() as connection:
            return connection.ask(body, **changes)

    def review(self, pod, **changes):
        """The `response` to a review of that new pod. One that did not hear of its API server in
        time, which is less than a machine may stand still, is asked for again."""

        def reviewed():
            asked = review_of(pod, **changes)
            status, _, body = self.ask(asked)
            assert status == 200, body
            return self.has_heard(said := response_in(body, asked)) and said

        return wait_until(reviewed, "its API server is not heard")

    def has_heard(self, said):
        return self.api is None or self.api.silent or "nobody can tell" not in json.dumps(said)

    def injected(self, pod, **changes):
        """The pod with its patch, as an API server stores it, and the warnings."""
        said = self.review(pod, **changes)
        assert said["allowed"], said
        return patched(pod, said), said.get("warnings", [])

    def refusal(self, pod, **changes):
        said = self.review(pod, **changes)
        assert said["allowed"] is False and "patch" not in said and "patchType" not in said
        assert said["status"]["code"] == 403 and said["status"]["reason"] == "Forbidden"
        return said["status"]["message"]

    def signal(self):
        self.process.send_signal(signal.SIGTERM)


class Connection:
    """One TLS connection; of one thread."""

    def __init__(self, port, authority):
        context = ssl.create_default_context(cadata=authority)
        plain = socket.create_connection(("127.0.0.1", port), timeout=WAIT_MAX)
        self.http = http.client.HTTPConnection(HOST)
        self.http.sock = context.wrap_socket(plain, server_hostname=HOST)
        self.certificate = self.http.sock.getpeercert(binary_form=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.http.close()

    def ask(self, body, method="POST", path="/mutate?timeout=5s", kind="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.http.request(method, path, body, {"Content-Type": kind})
        answer = self.http.getresponse()
        return answer.status, answer.headers, answer.read()


def response_in(body, asked):
    """Checks what holds for every answer."""
    review = json.loads(body)
    assert review.keys() == {"apiVersion", "kind", "response"}
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    said = review["response"]
    assert said["uid"] == asked["request"]["uid"]
    assert ("patch" in said) == (said.get("patchType") == "JSONPatch")
    assert all(len(one) <= 256 for one in said.get("warnings", []))
    return said


def patched(pod, said):
    """What becomes of the pod; by another's reading of RFC 6902."""
    if "patch" not in said:
        return copy.deepcopy(pod)
    return jsonpatch.apply_patch(pod, json.loads(base64.b64decode(said["patch"], validate=True)))


def review_of(pod, **changes):
    """As kube-apiserver writes it."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": str(uuid.uuid4()), "kind": kind, "resource": resource,
        "requestKind": kind, "requestResource": resource, "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller",
                     "uid": "0b0b7f4f-6a2e-4d5c-9a55-6e8b8a1f2c11",
                     "groups": ["system:serviceaccounts", "system:authenticated"]},
        "object": pod, "oldObject": None, "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        **({"name": pod["metadata"]["name"]} if "name" in pod.get("metadata", {}) else {}),
        **changes,
    }  # fmt: skip
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def pod(owner="ReplicaSet", annotations=None, inject="true", **spec):
    """A pod with what the API server has filled in before it asks; `spec` replaces parts of it.

    An owner's kind, or "" for a pod that somebody made by hand.
    """
    asked = {"recourse.dev/inject": inject} if inject else {}
    metadata = {"namespace": "shop", "labels": {"app": "agent", "pod-template-hash": "5d8c6b7f9b"},
                "annotations": {**asked, **(annotations or {})}}  # fmt: skip
    if owner in ("", "StatefulSet"):
        metadata["name"] = "agent-0"
    else:
        metadata["generateName"] = "agent-5d8c6b7f9b-"
    if owner:
        version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(owner, "apps/v1")
        metadata["ownerReferences"] = [
            {"apiVersion": version, "kind": owner, "name": "agent", "controller": True,
             "uid": "6b1f6b1c-8f4f-4c0e-a0a4-0e0c8e8f7d55", "blockOwnerDeletion": True}
        ]  # fmt: skip
    token = {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}}  # fmt: skip
    mount = {"name": token["name"], "readOnly": True,
             "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}  # fmt: skip
    container = {
        "name": "agent", "image": "registry.example/agent:7", "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "MODEL", "value": "large"}], "resources": {}, "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }  # fmt: skip
    whole = {
        "volumes": [token], "containers": [container], "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default", "serviceAccount": "default", "securityContext": {},
        "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                         "effect": "NoExecute", "tolerationSeconds": 300}],
        **spec,
    }  # fmt: skip
    whole = {name: value for name, value in whole.items() if value is not None}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": whole}


def container(**more):
    """The containers of a pod: one agent."""
    return [{"name": "agent", "image": "agent", **more}]


def claim(name="recourse-ledger-agent-0"):
    """The volume that a StatefulSet makes of a volumeClaimTemplate."""
    return {"name": "recourse-ledger", "persistentVolumeClaim": {"claimName": name}}


def sidecar_of(made):
    return made["spec"]["initContainers"][0]


def named(items, name):
    (found,) = [one for one in items if one["name"] == name]
    return found
