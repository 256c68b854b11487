"""The life of guarded pods in a real cluster: what each function's name says, it shows. They run in
this order, and each finds what those before it left."""

import json
import secrets
import threading
import urllib.request

from cases import BARE, CASES, EMPTY_DIR, INJECTED, MESHED, POLICY, RIGHTS, TOKEN, pod
from chart import CHART
from images import AGENT, RECOURSE
from scripts import CALL, CALLER, IDLE, LAST_CALL, MESH_PROXY, SHOP

SYSTEM = "recourse-system"
PATIENCE = "--timeout=180s"
VALUES = {"image": {"repository": RECOURSE}, "admin": {"tokenSecret": TOKEN},
          "demo": {"image": AGENT, "everySeconds": 2}}  # fmt: skip
INJECTOR = {**VALUES, "injector": {"enabled": True},
            "demo": {**VALUES["demo"], "enabled": False},
            "policy": {"existingConfigMap": "recourse-policy"},
            "installSecret": "recourse-install"}  # fmt: skip
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
LABEL = {"recourse.dev/injection": "enabled"}


def namespace(name, labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def needed(where):
    """The policy and the Secrets that sidecars mount."""
    meta = {"namespace": where}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.yaml": POLICY},
             "metadata": {**meta, "name": "recourse-policy"}},
            {"apiVersion": "v1", "kind": "Secret", "stringData": {"token": secrets.token_hex(16)},
             "metadata": {**meta, "name": TOKEN}},
            {"apiVersion": "v1", "kind": "Secret", "stringData": {"secret": secrets.token_hex(32)},
             "metadata": {**meta, "name": "recourse-install"}}]  # fmt: skip


def install(cluster, release, where, values, *more):
    """Ready, under the Pod Security Standard of the namespace."""
    file = cluster.home / f"{release}.json"
    file.write_text(json.dumps(values))
    cluster.helm("upgrade", "--install", release, CHART, f"--namespace={where}",
                 f"--values={file}", "--wait", "--timeout=240s", *more)  # fmt: skip


def run(cluster, name, script, namespace=INJECTED, ready=True, **parts):
    """A pod of our own; its container runs the script."""
    container = {"command": ["python3", "-u", "-c", script], **parts.pop("container", {})}
    made = pod(parts.pop("annotations", None), namespace, container=container, **parts)
    made["metadata"]["name"] = name
    cluster.apply(made)
    if ready:
        cluster.kubectl("wait", f"pod/{name}", f"--namespace={namespace}", "--for=condition=Ready",
                        PATIENCE)  # fmt: skip
    return made


def logs(cluster, name, container="agent", namespace=INJECTED, check=False):
    return cluster.kubectl("logs", name, f"--container={container}", f"--namespace={namespace}",
                           check=check).stdout  # fmt: skip


def await_logs(cluster, text, name, **where):
    cluster.await_true(lambda: text in logs(cluster, name, **where))


def metrics(cluster, name, where=INJECTED, port=19082):
    """As Prometheus reads them."""
    address = cluster.get("pod", name, "-n", where)["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=60) as answer:
        return answer.read().decode()


def metric(cluster, pod_name, series, where=INJECTED):
    """Its number; 0: there is none yet."""
    lines = metrics(cluster, pod_name, where).splitlines()
    found = [line.rpartition(" ")[2] for line in lines if line.rpartition(" ")[0] == series]
    return float(found[0]) if found else 0.0


def open_shop(cluster, name, where=INJECTED):
    """One that answers orders once it is told to."""
    cluster.apply({"apiVersion": "v1", "kind": "Service",
                   "metadata": {"name": name, "namespace": where},
                   "spec": {"selector": {"app": name},
                            "ports": [{"port": 80, "targetPort": 8080}]}})  # fmt: skip
    run(cluster, name, SHOP, where, labels={"app": name}, container={
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}})  # fmt: skip


def release(cluster, name, where=INJECTED):
    cluster.kubectl("exec", name, f"--namespace={where}", "--", "python3", "-c", CALL,
                    "http://127.0.0.1:8080/release", "", "-")  # fmt: skip


def order(cluster, cart, trace):
    """(whether it was a replay, the order), by the demo's agent."""
    said = cluster.kubectl(
        "exec", "shop-recourse-agent-0", "-c", "agent", f"--namespace={INJECTED}", "--", "python3",
        "-c", CALL, "http://shop-recourse-backend/orders",
        json.dumps({"customer": "ada", "cart": cart}), f"00-{trace}-00f067aa0ba902b7-01",
    ).stdout  # fmt: skip
    replayed, _, body = said.partition(" ")
    return replayed == "true", json.loads(body)


def status_of(cluster, name, where=INJECTED):
    """(restarts of the sidecar, of the agent)."""
    told = cluster.get("pod", name, "-n", where)["status"]
    own = [one for one in told["initContainerStatuses"] if one["name"] == "recourse"]
    return own[0], told["containerStatuses"][0]


# --- in this order -------------------------------------------------------------------------------


def the_injector_is_installed_in_a_restricted_namespace_and_passes_helm_test(cluster):
    cluster.apply(namespace(SYSTEM, RESTRICTED), namespace(INJECTED, {**LABEL, **RESTRICTED}),
                  namespace(BARE, {}), namespace("empty", LABEL), namespace(MESHED, LABEL),
                  )  # fmt: skip
    cluster.apply(*needed(INJECTED), *needed(SYSTEM), *needed(MESHED))
    install(cluster, "recourse", SYSTEM, INJECTOR)
    said = cluster.helm("test", "recourse", f"--namespace={SYSTEM}", "--logs").stdout
    assert "helm-test has no ConfigMap recourse-policy and no Secret recourse-admin" in said, said


def the_demo_writes_replays_undoes_and_asks_in_a_restricted_namespace(cluster):
    install(cluster, "shop", INJECTED, VALUES)
    await_logs(cluster, "asked twice, ordered once", "shop-recourse-agent-0")
    said = cluster.helm("test", "shop", f"--namespace={INJECTED}", "--logs").stdout
    for what in ("ordered once", "was undone", "a gift waits for a human"):
        assert what in said, said


def a_kill_of_the_sidecar_alone_loses_nothing(cluster):
    cart, trace = secrets.token_hex(4), secrets.token_hex(16)
    first = order(cluster, cart, trace)
    sidecar, agent = status_of(cluster, "shop-recourse-agent-0")
    cluster.ctr("tasks", "kill", "--signal=SIGKILL", sidecar["containerID"].rpartition("/")[2])

    def is_back():
        now, _ = status_of(cluster, "shop-recourse-agent-0")
        return now["restartCount"] == sidecar["restartCount"] + 1 and now["ready"]

    cluster.await_true(is_back)
    assert first == (False, order(cluster, cart, trace)[1]) and order(cluster, cart, trace)[0]
    assert status_of(cluster, "shop-recourse-agent-0")[1]["containerID"] == agent["containerID"]


def a_repeat_after_the_pods_end_is_answered_from_its_claim(cluster):
    cart, trace = secrets.token_hex(4), secrets.token_hex(16)
    first = order(cluster, cart, trace)
    for how in ([], ["--force", "--grace-period=0"]):
        cluster.kubectl("delete", "pod", "shop-recourse-agent-0", f"--namespace={INJECTED}", *how)
        cluster.kubectl("rollout", "status", "statefulset/shop-recourse-agent",
                        f"--namespace={INJECTED}", PATIENCE)  # fmt: skip
        assert order(cluster, cart, trace) == (True, first[1])


def a_drain_waits_for_the_write_that_runs(cluster):
    open_shop(cluster, "slow")
    run(cluster, "caller", CALLER, annotations=EMPTY_DIR)
    await_logs(cluster, "asked", "slow")
    said = []
    logged = ["logs", "--follow", "caller", "--container=agent", f"--namespace={INJECTED}"]
    follow = threading.Thread(target=lambda: said.append(cluster.kubectl(*logged).stdout))
    follow.start()
    cluster.kubectl("delete", "pod", "caller", f"--namespace={INJECTED}", "--wait=false")
    await_logs(cluster, "told to end", "caller")
    release(cluster, "slow")
    follow.join()
    cluster.kubectl("wait", "pod/caller", f"--namespace={INJECTED}", "--for=delete", PATIENCE)
    assert "answered 201" in said[0] and logs(cluster, "slow").count("asked") == 1, said


def it_starts_after_a_native_mesh_proxy_and_ends_before_it_and_after_its_agent(cluster):
    open_shop(cluster, "slow")
    release(cluster, "slow")
    proxy = {"name": "istio-proxy", "image": AGENT, "restartPolicy": "Always",
             "securityContext": RIGHTS, "command": ["python3", "-u", "-c", MESH_PROXY]}  # fmt: skip
    run(cluster, "meshed", LAST_CALL, initContainers=[proxy],
        annotations={**EMPTY_DIR, "sidecar.istio.io/status": "{}"})  # fmt: skip
    for one in ("istio-proxy", "agent"):
        await_logs(cluster, "listens", "meshed", container=one)
    own = cluster.get("pod", "meshed", "-n", INJECTED)["status"]["initContainerStatuses"]
    began = {one["name"]: one["state"]["running"]["startedAt"] for one in own}
    assert [*began] == ["istio-proxy", "recourse"] and began["istio-proxy"] <= began["recourse"]
    said = {}

    def follow(name):
        lines = cluster.kubectl("logs", "--follow", "--timestamps", "meshed", f"--container={name}",
                                f"--namespace={INJECTED}").stdout.splitlines()  # fmt: skip
        time, _, said[name] = lines[-1].partition(" ")
        ended[name] = time.rstrip("Z").ljust(29, "0")

    ended = {}
    follows = [threading.Thread(target=follow, args=(name,)) for name in (*began, "agent")]
    for one in follows:
        one.start()
    cluster.kubectl("delete", "pod", "meshed", f"--namespace={INJECTED}", "--wait=false")
    for one in follows:
        one.join()
    assert said["agent"] == "answered 201" and said["istio-proxy"] == "told to end", said
    assert ended["agent"] <= ended["recourse"] <= ended["istio-proxy"], (ended, said)


def a_job_with_the_sidecar_ends(cluster):
    claim = {"name": "recourse-ledger", "persistentVolumeClaim": {"claimName": "nightly"}}
    container = pod()["spec"]["containers"][0]
    call = ["python3", "-c", CALL, "http://shop-recourse-backend/orders", '{"cart": "job"}',
            f"00-{secrets.token_hex(16)}-00f067aa0ba902b7-01"]  # fmt: skip
    cluster.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
         "metadata": {"name": "nightly", "namespace": INJECTED},
         "spec": {"accessModes": ["ReadWriteOncePod"],
                  "resources": {"requests": {"storage": "4Gi"}}}},
        {"apiVersion": "batch/v1", "kind": "Job",
         "metadata": {"name": "nightly", "namespace": INJECTED},
         "spec": {"backoffLimit": 0, "template": {
             "metadata": {"annotations": {"recourse.dev/inject": "true"}},
             "spec": {"restartPolicy": "Never", "volumes": [claim],
                      "containers": [{**container, "command": call}]}}}})  # fmt: skip
    cluster.kubectl("wait", "job/nightly", f"--namespace={INJECTED}", "--for=condition=Complete",
                    PATIENCE)  # fmt: skip


def redirect_leads_an_agent_that_knows_no_proxy(cluster):
    cluster.apply(namespace("led", {}), *needed("led"))
    install(cluster, "led", "led", {**VALUES, "redirect": {"enabled": True}})
    await_logs(cluster, "asked twice, ordered once", "led-recourse-agent-0", namespace="led")
    cluster.helm("uninstall", "led", "--namespace=led", "--wait")


def redirect_by_the_node_leads_agents_of_a_restricted_namespace(cluster):
    cluster.apply(namespace("nodes", {}), namespace("led2", RESTRICTED), *needed("led2"))
    bare = {"policy": {"inline": POLICY}, "demo": {"enabled": False}, "redirect": {"node": True}}
    install(cluster, "nodes", "nodes", {**VALUES, **bare})
    install(cluster, "led", "led2", {**VALUES, "redirect": {"enabled": True, "byNode": True}})
    await_logs(cluster, "asked twice, ordered once", "led-recourse-agent-0", namespace="led2")
    cluster.helm("uninstall", "led", "--namespace=led2", "--wait")


def a_policy_reaches_pods_that_run(cluster):
    run(cluster, "alive", IDLE, annotations=EMPTY_DIR)
    asked = ["exec", "alive", "-c", "recourse", f"--namespace={INJECTED}", "--", "recourse",
             "policy", "status", "--json"]  # fmt: skip

    def version():
        return json.loads(cluster.kubectl(*asked).stdout)["version"]

    before = version()
    config = needed(INJECTED)[0]
    cluster.apply({**config, "data": {"policy.yaml": POLICY + "# another\n"}})
    cluster.await_true(lambda: version() != before)


def a_ca_that_somebody_took_away_is_written_again(cluster):
    hooks = cluster.get("mutatingwebhookconfigurations")["items"]
    (name,) = [one["metadata"]["name"] for one in hooks]
    path = "/webhooks/0/clientConfig/caBundle"
    cluster.kubectl("patch", "mutatingwebhookconfiguration", name, "--type=json",
                    f'--patch=[{{"op": "remove", "path": "{path}"}}]')  # fmt: skip

    def is_back():
        hooks = cluster.get("mutatingwebhookconfiguration", name)["webhooks"]
        return hooks[0]["clientConfig"].get("caBundle")

    cluster.await_true(is_back)
    run(cluster, "after", IDLE, annotations=EMPTY_DIR)


def pods_of_an_older_template_are_found(cluster):
    run(cluster, "older", IDLE, annotations=EMPTY_DIR)
    install(cluster, "recourse", SYSTEM, {**INJECTOR, "logLevel": "debug"})
    own = cluster.get("configmap", "recourse-recourse-injector", "-n", SYSTEM)["metadata"]["labels"]
    version = own["recourse.dev/template"]

    def newest():
        run(cluster, "newest", IDLE, annotations=EMPTY_DIR)
        made = cluster.get("pod", "newest", "-n", INJECTED)["metadata"]["labels"]
        if made["recourse.dev/template"] == version:
            return True
        cluster.kubectl("delete", "pod", "newest", f"--namespace={INJECTED}")
        return False

    # Injectors take a new template when the kubelet has written it.
    cluster.await_true(newest)
    older = f"--selector=recourse.dev/template,recourse.dev/template!={version}"
    found = cluster.get("pods", "--all-namespaces", older)["items"]
    names = {one["metadata"]["name"] for one in found}
    assert "older" in names and "newest" not in names, names


def while_no_injector_answers_no_pod_that_asks_starts_and_others_do(cluster):
    injectors = "deployment/recourse-recourse-injector"
    scale = ["scale", injectors, f"--namespace={SYSTEM}"]
    cluster.kubectl(*scale, "--replicas=0")
    cluster.kubectl("wait", "pod", f"--namespace={SYSTEM}", "--for=delete", PATIENCE,
                    "--selector=app.kubernetes.io/component=injector")  # fmt: skip
    asks = {**CASES["a pod that asks"].made}
    asked = json.dumps(asks)
    done = cluster.kubectl("create", "-f", "-", input=asked, check=False)
    assert done.returncode != 0 and "inject.recourse.dev" in done.stderr, done.stderr
    run(cluster, "other", IDLE)
    cluster.kubectl(*scale, "--replicas=2")
    cluster.kubectl("rollout", "status", injectors, f"--namespace={SYSTEM}", PATIENCE)
    run(cluster, "again", IDLE, annotations=EMPTY_DIR)


def without_the_chart_the_guard_stays(cluster):
    cluster.helm("uninstall", "recourse", f"--namespace={SYSTEM}", "--wait")
    done = cluster.kubectl("create", "-f", "-", input=json.dumps(CASES["a pod that asks"].made),
                           check=False)  # fmt: skip
    assert "label its namespace recourse.dev/injection=enabled" in done.stderr, done.stderr


BEFORE = [
    the_injector_is_installed_in_a_restricted_namespace_and_passes_helm_test,
    the_demo_writes_replays_undoes_and_asks_in_a_restricted_namespace,
    a_policy_reaches_pods_that_run,
]  # fmt: skip
AFTER = [
    a_kill_of_the_sidecar_alone_loses_nothing,
    a_repeat_after_the_pods_end_is_answered_from_its_claim,
    a_drain_waits_for_the_write_that_runs,
    it_starts_after_a_native_mesh_proxy_and_ends_before_it_and_after_its_agent,
    a_job_with_the_sidecar_ends,
    redirect_leads_an_agent_that_knows_no_proxy,
    redirect_by_the_node_leads_agents_of_a_restricted_namespace,
    a_ca_that_somebody_took_away_is_written_again,
    pods_of_an_older_template_are_found,
]  # fmt: skip
LAST = [
    while_no_injector_answers_no_pod_that_asks_starts_and_others_do,
    without_the_chart_the_guard_stays,
]  # fmt: skip
