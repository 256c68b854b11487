"""Who makes the webhook's certificate in a real cluster, and that pods start while it is renewed:
injectors, whoever owns a Secret, cert-manager. What each function's name says, it shows."""

import base64
import contextlib
import json
import os
import pathlib
import re
import ssl
import subprocess
import threading

from cases import CASES, EMPTY_DIR
from life import INJECTOR, PATIENCE, SYSTEM, install, namespace, run
from platforms import INJECTORS, injectors
from programs import NotRun
from real_cluster import NODE
from scripts import IDLE
from support.certificates import authority

HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
HOST = f"{INJECTORS}.{SYSTEM}.svc"


def blocks(pem):
    return re.findall("-----BEGIN.*?-----END CERTIFICATE-----\n", pem, re.DOTALL)


def bundles(cluster):
    """What API servers trust each webhook by."""
    found = [one for kind in HOOKS for one in cluster.get(
        kind, "--selector=app.kubernetes.io/name=recourse")["items"]]
    return [base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode()
            for one in found for hook in one["webhooks"]]  # fmt: skip


def shown(cluster):
    """The certificate of each injector, now."""
    return [ssl.get_server_certificate((one["status"]["podIP"], 19443), timeout=60)
            for one in injectors(cluster)]  # fmt: skip


def all_signed_by(cluster, ca):
    file = cluster.home / "looked-for.pem"
    file.write_text(ca)
    return all(subprocess.run(["openssl", "verify", "-CAfile", file], input=one, text=True,
                              capture_output=True, check=False).returncode == 0
               for one in shown(cluster))  # fmt: skip


def lives(cluster):
    """Which processes serve."""
    return {one["metadata"]["uid"]: one["status"]["containerStatuses"][0]["restartCount"]
            for one in injectors(cluster)}  # fmt: skip


def secret_data(cluster, name):
    data = cluster.get("secret", name, "-n", SYSTEM).get("data", {})
    return {key: base64.b64decode(text).decode() for key, text in data.items()}


def put_secret(cluster, name, **data):
    cluster.kubectl("patch", "secret", name, f"--namespace={SYSTEM}", "--type=merge",
                    f"--patch={json.dumps({'stringData': data})}")  # fmt: skip


def is_injected(cluster):
    made = json.dumps(CASES["a pod that asks"].made)
    done = cluster.kubectl("create", "--dry-run=server", "-f", "-", input=made, check=False)
    return done.returncode == 0


@contextlib.contextmanager
def asking(cluster):
    """Asks for a guarded pod all the while; none may be refused."""
    made, ended, refused = json.dumps(CASES["a pod that asks"].made), threading.Event(), []

    def ask():
        while not ended.wait(0.2):
            done = cluster.kubectl("create", "--dry-run=server", "-f", "-", input=made,
                                   check=False)  # fmt: skip
            if done.returncode != 0:
                refused.append(done.stderr)

    asks = threading.Thread(target=ask)
    asks.start()
    try:
        yield
    finally:
        ended.set()
        asks.join()
    assert not refused, refused


def the_next_ca_of_injectors_signs_and_no_pod_is_refused_meanwhile(cluster):
    secret = f"{INJECTORS}-authority"
    folder = cluster.home / "authorities"
    folder.mkdir()
    old, new = authority(folder, "old", -265, 100), authority(folder, "new", -2, 363)
    put_secret(cluster, secret, **{"ca.crt": old[0], "signing.crt": old[0], "signing.key": old[1],
                                   "next.crt": "", "next.key": ""})  # fmt: skip
    # Less than a third of its life is left.
    cluster.await_true(lambda: all(
        old[0] in one and len(blocks(one)) == 2 for one in bundles(cluster)))
    cluster.await_true(lambda: all_signed_by(cluster, old[0]) and is_injected(cluster))
    before = lives(cluster)
    with asking(cluster):
        put_secret(cluster, secret, **{"ca.crt": old[0] + new[0], "next.crt": new[0],
                                       "next.key": new[1]})  # fmt: skip
        cluster.await_true(lambda: secret_data(cluster, secret)["signing.crt"] == new[0])
        cluster.await_true(lambda: all_signed_by(cluster, new[0]))
        assert all({*blocks(one)} == {old[0], new[0]} for one in bundles(cluster))
    assert lives(cluster) == before


def given(cluster, turn):
    cert, key = cluster.certificate(f"given-{turn}", f"DNS:{HOST}")
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": "given", "namespace": SYSTEM},
            "stringData": {"tls.crt": cert.read_text(), "tls.key": key.read_text()}}  # fmt: skip


def a_given_certificate_serves_and_the_next_one_without_a_restart(cluster):
    cluster.apply(given(cluster, 1))
    ca = (cluster.home / "ca.crt").read_text()
    values = {**INJECTOR, "injector": {
        "enabled": True, "certificate": {"existingSecret": "given", "ca": ca}}}  # fmt: skip
    try:
        install(cluster, "recourse", SYSTEM, values)
    except AssertionError as error:  # nobody takes the CA of injectors by accident
        assert 'conflict with "recourse-injector"' in str(error)
        install(cluster, "recourse", SYSTEM, values, "--force-conflicts")
    cluster.await_true(lambda: is_injected(cluster))
    cluster.helm("test", "recourse", f"--namespace={SYSTEM}")
    before, first = lives(cluster), {*shown(cluster)}
    with asking(cluster):
        cluster.apply(given(cluster, 2))
        cluster.await_true(lambda: not first & {*shown(cluster)})
    assert lives(cluster) == before


# --- cert-manager --------------------------------------------------------------------------------


def hook(name, cluster, path, *resources):
    """As cert-manager's chart has the API server ask it."""
    ca = base64.b64encode((cluster.home / "ca.crt").read_bytes()).decode()
    return {"name": "webhook.cert-manager.io", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://{NODE}:10260/{path}", "caBundle": ca},
            "sideEffects": "None", "failurePolicy": "Fail", "rules": [{
                "apiGroups": [f"{name}.io"], "apiVersions": ["v1"], "resources": resources,
                "operations": ["CREATE", "UPDATE"]}]}  # fmt: skip


def start_cert_manager(cluster):
    """Beside the node, as its pods would run."""
    programs = pathlib.Path(os.environ["RECOURSE_CERT_MANAGER_BIN"]).resolve()
    config = [f"--kubeconfig={cluster.home}/kubeconfig"]
    cluster.apply(namespace("cert-manager", {}))
    cert, key = cluster.certificate("cert-manager", f"IP:{NODE}")
    cluster.programs.start(
        programs / "webhook", *config, "--secure-port=10260", "--healthz-port=10261",
        f"--tls-cert-file={cert}", f"--tls-private-key-file={key}",
        "--metrics-listen-address=127.0.0.1:9404")  # fmt: skip
    cluster.programs.start(
        programs / "controller", *config, "--leader-elect=false",
        "--cluster-resource-namespace=cert-manager",
        "--metrics-listen-address=127.0.0.1:9402")  # fmt: skip
    cluster.programs.start(
        programs / "cainjector", "--leader-elect=false", "--metrics-listen-address=127.0.0.1:9405",
        env={"KUBECONFIG": f"{cluster.home}/kubeconfig"})  # fmt: skip
    for kind, path, asked in (("Mutating", "mutate", ("certificaterequests",)),
                              ("Validating", "validate", ("*/*",))):  # fmt: skip
        cluster.apply({"apiVersion": "admissionregistration.k8s.io/v1",
                       "kind": f"{kind}WebhookConfiguration",
                       "metadata": {"name": "cert-manager-webhook"},
                       "webhooks": [hook("cert-manager", cluster, path, *asked)]})  # fmt: skip


def await_ready(cluster, name, revision=1):
    def is_ready():
        status = cluster.get("certificate", name, "-n", SYSTEM).get("status", {})
        ready = [one["status"] for one in status.get("conditions", []) if one["type"] == "Ready"]
        return ready == ["True"] and status.get("revision", 0) >= revision

    cluster.await_true(is_ready)


def renew(cluster, name):
    """As `cmctl renew` does."""
    issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
               "message": "by hand", "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    status = cluster.get("certificate", name, "-n", SYSTEM)["status"]
    status["conditions"].append(issuing)
    cluster.kubectl("patch", "certificate", name, f"--namespace={SYSTEM}", "--type=merge",
                    "--subresource=status",
                    f"--patch={json.dumps({'status': status})}")  # fmt: skip
    await_ready(cluster, name, status["revision"] + 1)


def cert_manager_makes_renews_and_tells_of_the_certificate(cluster):
    if "RECOURSE_CERT_MANAGER_BIN" not in os.environ or not cluster.definitions:
        raise NotRun("set RECOURSE_CERT_MANAGER_BIN to a folder with cert-manager's controller, "
                     "cainjector and webhook, and RECOURSE_KUBE_CRDS to one with its "
                     "CustomResourceDefinitions")  # fmt: skip
    cluster.kubectl("apply", "--server-side", "-f", cluster.definitions)
    cluster.kubectl("wait", "crd", "--all", "--for=condition=Established", PATIENCE)
    start_cert_manager(cluster)
    install(cluster, "recourse", SYSTEM, {**INJECTOR, "injector": {
        "enabled": True, "certificate": {"certManager": True}}})  # fmt: skip
    for name in (f"{INJECTORS}-ca", INJECTORS):
        await_ready(cluster, name)
    made = secret_data(cluster, f"{INJECTORS}-tls")
    cluster.await_true(lambda: [*{*bundles(cluster)}] == [made["ca.crt"]])
    cluster.await_true(lambda: is_injected(cluster))
    run(cluster, "certified", IDLE, annotations=EMPTY_DIR)
    cluster.helm("test", "recourse", f"--namespace={SYSTEM}")
    before = lives(cluster)
    with asking(cluster):
        first = {*shown(cluster)}
        renew(cluster, INJECTORS)
        cluster.await_true(lambda: not first & {*shown(cluster)})
        second = {*shown(cluster)}
        cluster.kubectl("delete", "secret", f"{INJECTORS}-tls", f"--namespace={SYSTEM}")
        cluster.await_true(lambda: not second & {*shown(cluster)})
        # The CA's next certificate has the same key, so that the order does not matter.
        renew(cluster, f"{INJECTORS}-ca")
        cluster.await_true(lambda: made["ca.crt"] != secret_data(
            cluster, f"{INJECTORS}-ca")["tls.crt"])  # fmt: skip
    assert lives(cluster) == before
    cluster.await_true(lambda: is_injected(cluster))


ALL = [
    the_next_ca_of_injectors_signs_and_no_pod_is_refused_meanwhile,
    a_given_certificate_serves_and_the_next_one_without_a_restart,
    cert_manager_makes_renews_and_tells_of_the_certificate,
]
