"""Every object that the chart makes is one that Kubernetes takes, and pods are as safe as said."""

import json
import subprocess

import pytest
import yaml
from chart import CASES, CHART, ROOT, SECONDS_MAX, containers, render, rendered

CLIENTS = ROOT / "tests/e2e/clients"
SECRET_VOLUMES = {
    "recourse-admin", "recourse-operators", "recourse-ledger-key", "recourse-install"
}  # fmt: skip


def complaints(objects):
    """What a strict API server would say against them."""
    done = subprocess.run(
        ["node", CLIENTS / "kubernetes_schemas.mjs"], input=json.dumps(objects),
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_one_that_kubernetes_takes(case):
    objects = rendered(case).objects
    assert objects
    # Those of cert-manager: test_injector.py.
    known = [one for one in objects if not one["apiVersion"].startswith("cert-manager.io/")]
    assert complaints(known) == []
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)
    assert all("namespace" not in one["metadata"] for one in objects)


def test_a_field_that_kubernetes_does_not_know_is_noticed():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "livenesProbe": {}, "env": [{"name": "A", "valu": "b"}]}],
        "volumes": "none"}}  # fmt: skip
    said = complaints([pod, {**pod, "kind": "Pdo"}])
    assert any("livenesProbe is unknown" in one for one in said)
    assert any("valu is unknown" in one for one in said)
    assert any("volumes must be array" in one for one in said)
    assert any("no such kind" in one for one in said)


@pytest.mark.parametrize("case", CASES)
def test_names_that_refer_to_something_find_it(case):
    """Volumes, ports and labels: the schemas know nothing of what refers to what."""
    out = rendered(case)
    for name, pod in out.pods():
        claims = [one["metadata"]["name"] for obj in out.all("StatefulSet")
                  for one in obj["spec"].get("volumeClaimTemplates", [])
                  if obj["metadata"]["name"] == name]  # fmt: skip
        volumes = [one["name"] for one in pod["spec"].get("volumes", [])] + claims
        assert len(set(volumes)) == len(volumes), name
        used = set()
        for container in containers(pod):
            mounts = container.get("volumeMounts", [])
            paths = [one["mountPath"] for one in mounts]
            assert len(set(paths)) == len(paths)
            used |= {one["name"] for one in mounts}
            ports = {one["name"] for one in container.get("ports", [])}
            assert all(len(port) <= 15 for port in ports)
            probes = [container[key] for key in container if key.endswith("Probe")]
            assert all(probe["httpGet"]["port"] in ports for probe in probes)
        assert used == set(volumes), name
    made = {one["metadata"]["name"] for one in out.all("ConfigMap")}
    for _, pod in out.pods():
        for volume in pod["spec"].get("volumes", []):
            if "configMap" in volume and case != "parent-job":  # that has a policy of its own
                assert volume["configMap"]["name"] in made
    for workload in out.all("StatefulSet") + out.all("Deployment"):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for service in out.all("Service"):
        found = [pod for _, pod in out.pods()
                 if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
        assert len(found) == 1, "a Service leads to the pods of one workload"
    for kind, where in (("PodMonitor", "selector"), ("NetworkPolicy", "podSelector")):
        for one in out.all(kind):
            wanted = one["spec"][where]["matchLabels"].items()
            if one["metadata"]["name"].endswith("-console"):  # which is no sidecar
                assert [name for name, pod in out.pods()
                        if wanted <= pod["metadata"]["labels"].items()] == ["shop-recourse-console"]
                continue
            for _, pod, _ in out.sidecar_pods():
                assert wanted <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize("case", CASES)
def test_the_sidecar_is_a_native_one_before_everything_that_it_serves(case):
    pods = list(rendered(case).sidecar_pods())
    assert pods or case.startswith(("library-", "injector-"))
    for _, pod, sidecar in pods:
        assert sidecar["restartPolicy"] == "Always"
        first = [one["name"] for one in pod["spec"]["initContainers"]]
        assert first in (["recourse"], ["recourse-redirect", "recourse"])
        assert "recourse" not in [one["name"] for one in pod["spec"]["containers"]]
        assert not pod["spec"].get("shareProcessNamespace")
        assert not pod["spec"].get("hostNetwork")
        for probe, path in (("startupProbe", "/ready"), ("readinessProbe", "/ready"),
                            ("livenessProbe", "/live")):  # fmt: skip
            assert sidecar[probe]["httpGet"] == {"path": path, "port": "recourse-probes"}
        (port,) = sidecar["ports"]
        assert f":{port['containerPort']}" in argument(sidecar, "--probes")
        assert "preStop" not in str(sidecar), "it runs before the agent has ended"


def argument(container, flag):
    """The value of --flag=VALUE; None without that flag."""
    found = [one.partition("=")[2] for one in container["args"] if one.startswith(f"{flag}=")]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize("case", CASES)
def test_containers_have_no_rights(case):
    for _, pod in rendered(case).pods():
        for container in containers(pod):
            if container["image"].startswith("registry.example/") and "args" not in container:
                continue  # an agent of somebody else's
            rights = container["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
            assert rights["capabilities"]["drop"] == ["ALL"]
            assert "privileged" not in rights
            assert container["resources"]["limits"]["memory"]
            given = rights["capabilities"].get("add", [])
            if container.get("args", [])[:2] == ["redirect", "install"]:
                assert given == ["NET_ADMIN"] and rights["runAsUser"] == 0
                continue
            if pod["spec"].get("hostPID"):
                assert given == ["SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE"]
                assert container["args"] == ["redirect", "node"]
                continue
            assert "add" not in rights["capabilities"]
            assert rights["runAsNonRoot"] is True
            is_ours = container["name"] == "recourse"
            assert (rights["runAsUser"] == 19080) == is_ours, "the user is Recourse's alone"
            assert (rights["runAsGroup"] == 19080) == is_ours


@pytest.mark.parametrize("case", CASES)
def test_secrets_are_files_that_recourse_alone_sees(case):
    out = rendered(case)
    made = [one["type"] for one in out.all("Secret")]
    assert made == ["Opaque"] * (case == "injector-values"), "no other is rendered"
    assert all("data" not in one for one in out.all("Secret"))
    for _, pod in out.pods():
        for container in containers(pod):
            assert "secretKeyRef" not in str(container) and "envFrom" not in container
            secret = {v["name"] for v in pod["spec"].get("volumes", []) if "secret" in v}
            mounts = {one["name"]: one for one in container.get("volumeMounts", [])}
            if container["name"] == "recourse":
                assert all(mounts[name]["readOnly"] for name in secret & set(mounts))
                assert all("subPath" not in mount for mount in mounts.values())
            else:
                assert not secret & set(mounts)
                private = {"recourse-ledger", "recourse-policy", "recourse-ca"}
                assert not private & set(mounts)
                assert mounts.get("recourse-trust", {"readOnly": True})["readOnly"]
        for volume in pod["spec"].get("volumes", []):
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440


def test_secrets_are_mounted_where_the_flags_say():
    for _, pod, sidecar in rendered("durable-values").sidecar_pods():
        mounts = {one["name"]: one["mountPath"] for one in sidecar["volumeMounts"]}
        assert SECRET_VOLUMES < set(mounts)
        environment = {one["name"]: one.get("value", one) for one in sidecar["env"]}
        uid = environment["RECOURSE_POD_UID"]
        assert uid["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
        token = environment["RECOURSE_ADMIN_TOKEN_FILE"]
        assert token == mounts["recourse-admin"] + "/token"
        operators = argument(sidecar, "--operators")
        assert operators == mounts["recourse-operators"] + "/operators.yaml"
        assert argument(sidecar, "--ledger-key-file") == mounts["recourse-ledger-key"] + "/keys"
        install = argument(sidecar, "--install-secret-file")
        assert install == mounts["recourse-install"] + "/secret"
        wanted = {v["name"]: v["secret"]["secretName"] for v in pod["spec"]["volumes"]
                  if "secret" in v}  # fmt: skip
        assert wanted == {
            "recourse-admin": "recourse-admin", "recourse-operators": "recourse-operators",
            "recourse-ledger-key": "recourse-keys", "recourse-install": "recourse-install",
            "recourse-secret-mail-credentials": "mail-credentials"}  # fmt: skip
        mail = mounts["recourse-secret-mail-credentials"]
        assert mail == "/run/secrets/recourse/mail-credentials"


def test_drains_of_nodes_leave_the_agents_one_by_one_if_asked():
    out = rendered("durable-values")
    (budget,) = out.all("PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    wanted = budget["spec"]["selector"]["matchLabels"].items()
    agents = [pod for _, pod, _ in out.sidecar_pods()]
    assert agents and all(wanted <= pod["metadata"]["labels"].items() for pod in agents)
    assert not rendered("default-values").all("PodDisruptionBudget")


@pytest.mark.parametrize("case", CASES)
def test_two_pods_never_share_a_ledger(case):
    out = rendered(case)
    for name, pod, sidecar in out.sidecar_pods():
        assert argument(sidecar, "--data").startswith("/var/lib/recourse/")
        homes = [v for v in pod["spec"]["volumes"] if v["name"] == "recourse-ledger"]
        if argument(sidecar, "--ledger"):
            assert "emptyDir" in homes[0], "nothing there outlives the pod"
            continue
        owner = next(one for one in out.objects
                     if one["metadata"]["name"] == name and one["kind"] != "Service")
        assert owner["kind"] in ("StatefulSet", "CronJob", "Pod")
        if homes and "persistentVolumeClaim" in homes[0]:
            assert owner["kind"] == "CronJob" and owner["spec"]["concurrencyPolicy"] == "Forbid"
        elif owner["kind"] == "StatefulSet" and not homes:
            (claim,) = owner["spec"]["volumeClaimTemplates"]
            assert claim["metadata"]["name"] == "recourse-ledger"
            assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
        else:
            room = sidecar["resources"]["requests"]["ephemeral-storage"]
            assert homes[0]["emptyDir"]["sizeLimit"] == room, "the node has room for it"


UNITS = {"Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@pytest.mark.parametrize("size", ["100Mi", "3Gi", "2Ti"])
def test_the_ledger_stays_below_its_volume(size):
    out = render({"store": {"size": size}})
    ((_, _, sidecar),) = [one for one in out.sidecar_pods() if one[0].endswith("-agent")]
    volume = int(size[:-2]) * UNITS[size[-2:]]
    assert int(argument(sidecar, "--ledger-max")) == volume * 8 // 10
    claim = out.one("StatefulSet", "-agent")["spec"]["volumeClaimTemplates"][0]
    assert claim["spec"]["resources"]["requests"]["storage"] == size


@pytest.mark.parametrize("case", CASES)
def test_what_runs_has_time_to_end(case):
    for _, pod, sidecar in rendered(case).sidecar_pods():
        drain = int(argument(sidecar, "--drain-timeout").removesuffix("s"))
        assert pod["spec"]["terminationGracePeriodSeconds"] >= drain + 10


def test_the_policy_is_mounted_as_a_directory_and_changes_without_a_restart():
    first, second = (
        render({"policy": {"inline": f"version: 1\n# {text}\n"}}) for text in ("one", "two")
    )
    assert first.one("ConfigMap", "-policy")["data"] == {"policy.yaml": "version: 1\n# one\n"}
    odd = "  # begins with a space\n\nversion: 1\nname: '{{ x }}'\n# no end of line"
    mine = render({"policy": {"inline": odd}}).one("ConfigMap", "-policy")
    assert mine["data"] == {"policy.yaml": odd}
    agents = [out.one("StatefulSet", "-agent") for out in (first, second)]
    assert agents[0] == agents[1], "a new policy starts no pod again"
    ((_, pod, sidecar), *_) = first.sidecar_pods()
    (mount,) = [one for one in sidecar["volumeMounts"] if one["name"] == "recourse-policy"]
    assert mount == {"name": "recourse-policy", "mountPath": "/etc/recourse/policy",
                     "readOnly": True}  # fmt: skip
    (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "recourse-policy"]
    assert volume["configMap"] == {"name": "shop-recourse-policy"}
    assert argument(sidecar, "--policy") == "/etc/recourse/policy/policy.yaml"


def test_rules_and_dashboard_are_the_files_themselves():
    out = rendered("durable-values")
    rules = out.one("PrometheusRule", "recourse")["spec"]
    assert rules == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    board = out.one("ConfigMap", "-dashboard")
    shown = json.loads(board["data"]["recourse.json"])
    assert shown == json.loads((CHART / "files/dashboard.json").read_text())
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert out.one("PodMonitor", "recourse")["metadata"]["labels"]["release"] == "prometheus"
    bare = rendered("default-values")
    assert not bare.all("PrometheusRule") and not bare.all("PodMonitor")


def test_the_network_policy_opens_dns_the_shop_and_what_is_listed():
    (policy,) = rendered("durable-values").all("NetworkPolicy")
    dns, shop, listed = policy["spec"]["egress"]
    assert {one["port"] for one in dns["ports"]} == {53} and len(dns["to"]) == 1
    pods = {name: pod["metadata"]["labels"] for name, pod in rendered("durable-values").pods()}
    wanted = shop["to"][0]["podSelector"]["matchLabels"].items()
    assert [name for name, labels in pods.items() if wanted <= labels.items()] == [
        "shop-recourse-backend"
    ]
    assert listed["to"] == [{"ipBlock": {"cidr": "10.20.0.0/16"}}]
    assert policy["spec"]["policyTypes"] == ["Egress"]
    assert not rendered("default-values").all("NetworkPolicy")
