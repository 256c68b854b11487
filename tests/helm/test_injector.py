"""The injector: whom it is asked about, what happens while it is away, its certificate, its rights;
and what it adds is what charts include."""

import base64
import json

import pytest
from chart import CHART, Refused, render, rendered
from test_objects import argument

OURS, ISSUED = "injector-values", "injector-issued-values"
BASE = {"injector": {"enabled": True}, "demo": {"enabled": False},
        "policy": {"existingConfigMap": "p"}}  # fmt: skip


def webhook_of(out):
    (webhook,) = out.one("MutatingWebhookConfiguration", "-injector")["webhooks"]
    return webhook


def template_of(out):
    return json.loads(out.one("ConfigMap", "-injector")["data"]["template.json"])


def decoded(text):
    return base64.b64decode(text, validate=True).decode()


@pytest.mark.parametrize("case", [OURS, ISSUED])
def test_pods_are_held_up_only_if_they_ask_and_where_the_namespace_has_the_label(case):
    webhook = webhook_of(rendered(case))
    label, name = webhook["namespaceSelector"]["matchExpressions"]
    assert label == {"key": "recourse.dev/injection", "operator": "In", "values": ["enabled"]}
    assert (name["key"], name["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert {"kube-system", "agents"} <= set(name["values"]), "nor in its own"
    assert len(set(name["values"])) == len(name["values"])
    (condition,) = webhook["matchConditions"]
    assert condition["expression"] == (
        "(has(object.metadata.annotations) && "
        "object.metadata.annotations.exists(name, name.startsWith('recourse.dev/'))) || "
        "(has(object.metadata.labels) && object.metadata.labels.exists(name, "
        "name.startsWith('recourse.dev/') && name != 'recourse.dev/sidecar'))"
    )
    assert webhook["failurePolicy"] == "Fail" and webhook["sideEffects"] == "None"
    assert webhook["reinvocationPolicy"] == "IfNeeded" and webhook["matchPolicy"] == "Equivalent"
    assert webhook["admissionReviewVersions"] == ["v1"] and webhook["timeoutSeconds"] == 5
    assert webhook["rules"] == [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                                 "operations": ["CREATE"], "scope": "Namespaced"}]  # fmt: skip


@pytest.mark.parametrize("case", [OURS, ISSUED])
def test_meshes_are_asked_later_and_so_start_first(case):
    """API servers ask in the order of the configurations' names."""
    name = rendered(case).one("MutatingWebhookConfiguration", "-injector")["metadata"]["name"]
    assert name < min("istio-sidecar-injector", "istio-revision-tag-default",
                      "linkerd-proxy-injector-webhook-config")  # fmt: skip
    lists = template_of(rendered(case))["annotationLists"]
    assert lists["traffic.sidecar.istio.io/excludeInboundPorts"] == "19082"
    assert lists["config.linkerd.io/skip-inbound-ports"] == "19082"


@pytest.mark.parametrize("case", [OURS, ISSUED])
def test_workloads_are_looked_at_where_pods_are_and_held_up_by_nobodys_absence(case):
    out = rendered(case)
    webhook, policies = out.one("ValidatingWebhookConfiguration", "-workloads")["webhooks"]
    assert policies["clientConfig"] == webhook["clientConfig"]
    pods = webhook_of(out)
    assert webhook["failurePolicy"] == "Ignore" and webhook["sideEffects"] == "None"
    assert webhook["namespaceSelector"] == pods["namespaceSelector"]
    config = pods["clientConfig"]
    assert webhook["clientConfig"] == {
        **config, "service": {**config["service"], "path": "/validate"}}  # fmt: skip
    asked = {one for rule in webhook["rules"] for one in rule["resources"]}
    assert asked == {"deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"}
    assert all(rule["operations"] == ["CREATE", "UPDATE"] for rule in webhook["rules"])
    if case == ISSUED:
        notes = [out.one(kind, "")["metadata"]["annotations"] for kind in
                 ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")]  # fmt: skip
        assert notes[0] == notes[1]


def test_policies_are_looked_at_by_their_label_wherever_they_are():
    _, policies = rendered(OURS).one("ValidatingWebhookConfiguration", "-workloads")["webhooks"]
    assert policies["rules"] == [{"apiGroups": [""], "apiVersions": ["v1"], "scope": "Namespaced",
                                  "resources": ["configmaps"],
                                  "operations": ["CREATE", "UPDATE"]}]  # fmt: skip
    assert policies["objectSelector"] == {
        "matchExpressions": [{"key": "recourse.dev/policy", "operator": "Exists"}]}
    assert "namespaceSelector" not in policies and policies["failurePolicy"] == "Ignore"


@pytest.mark.parametrize("case", [OURS, ISSUED])
def test_api_servers_are_led_to_its_pods(case):
    out = rendered(case)
    where = webhook_of(out)["clientConfig"]["service"]
    service = out.one("Service", "-injector")
    assert (where["name"], where["namespace"]) == (service["metadata"]["name"], "agents")
    (port,) = service["spec"]["ports"]
    assert port["port"] == where["port"] and where["path"] == "/mutate"
    deployment = out.one("Deployment", "-injector")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert argument(container, "--listen").endswith(f":{ports[port['targetPort']]}")
    budget = out.one("PodDisruptionBudget", "-injector")["spec"]
    assert budget["selector"] == deployment["selector"] and budget["maxUnavailable"] == 1
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert deployment["replicas"] >= 2


RIGHTS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")


def token_of(out, name):
    ((_, pod),) = [one for one in out.pods() if one[0].endswith(name)]
    return pod["spec"]["automountServiceAccountToken"]


def test_it_has_no_rights_where_it_asks_for_nothing():
    out = rendered(ISSUED)
    assert not {*RIGHTS, "ServiceAccount"} & {one["kind"] for one in out.objects}
    assert not token_of(out, "-injector") and not token_of(out, "-test-inject")
    policy = out.one("NetworkPolicy", "-injector")["spec"]
    assert policy["egress"] == [] and set(policy["policyTypes"]) == {"Ingress", "Egress"}
    asked, probed = policy["ingress"]
    assert asked["ports"] == [{"port": "webhook", "protocol": "TCP"}] and "from" not in probed
    block, tests = asked["from"]
    assert block == {"ipBlock": {"cidr": "10.0.0.0/28"}}
    labels = tests["podSelector"]["matchLabels"].items()
    assert [name for name, pod in out.pods() if labels <= pod["metadata"]["labels"].items()] == [
        "shop-recourse-test-inject"]  # fmt: skip


def test_its_rights_are_those_of_its_ca_and_of_names_that_sidecars_mount():
    """That they are enough: tests/e2e/test_inject_cluster.py."""
    out = rendered(OURS)
    (role,) = out.all("Role")
    name = "shop-recourse-injector"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"],
                              "resourceNames": [f"{name}-authority"],
                              "verbs": ["get", "patch"]}]  # fmt: skip
    (cluster,) = out.all("ClusterRole")
    group, write = ["admissionregistration.k8s.io"], ["get", "patch"]
    configurations = {"mutating": f"0-agents-{name}", "validating": f"agents-{name}-workloads"}
    assert cluster["rules"] == [
        *({"apiGroups": group, "resources": [f"{kind}webhookconfigurations"],
           "resourceNames": [one], "verbs": write} for kind, one in configurations.items()),
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["recourse-admin"],
         "verbs": ["get"]}]  # fmt: skip
    for kind, one in configurations.items():
        assert out.one(f"{kind.title()}WebhookConfiguration", name if kind == "mutating" else
                       "-workloads")["metadata"]["name"] == one  # fmt: skip
    for binding in out.all("RoleBinding") + out.all("ClusterRoleBinding"):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name,
                                        "namespace": "agents"}]  # fmt: skip
    assert token_of(out, "-injector") and not token_of(out, "-test-inject")
    bare = render(BASE, {"injector": {"objects": {"missing": "ignore"}}})
    assert [rule["resources"] for rule in bare.all("ClusterRole")[0]["rules"]] == [
        ["mutatingwebhookconfigurations"], ["validatingwebhookconfigurations"]]  # fmt: skip
    unnamed = render(BASE).all("ClusterRole")[0]["rules"]
    assert ["secrets"] not in [rule["resources"] for rule in unnamed], "an empty list is all"


def test_it_reaches_api_servers_through_its_network_policy():
    dns, servers = rendered(OURS).one("NetworkPolicy", "-injector")["spec"]["egress"]
    assert {one["port"] for one in dns["ports"]} == {53}
    assert {one["port"] for one in servers["ports"]} == {443, 6443} and "to" not in servers
    peers = [{"ipBlock": {"cidr": "10.0.0.0/28"}}]
    given = render(BASE, {"networkPolicy": {"enabled": True}, "injector": {"apiServers": peers}})
    assert given.one("NetworkPolicy", "-injector")["spec"]["egress"][1] == {"to": peers}


def test_platform_teams_place_name_and_scale_the_injector():
    out = rendered("injector-platform-values")
    assert all(one["metadata"]["labels"]["team"] == "platform" for one in out.objects)
    deployment = out.one("Deployment", "-injector")["spec"]
    assert "replicas" not in deployment, "they are the autoscaler's"
    scaler = out.one("HorizontalPodAutoscaler", "-injector")["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 6)
    assert scaler["scaleTargetRef"]["name"] == "shop-recourse-injector"
    spec, meta = deployment["template"]["spec"], deployment["template"]["metadata"]
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert spec["nodeSelector"] == {"pool": "control"}
    assert spec["tolerations"][0]["key"] == "control"
    assert list(spec["affinity"]) == ["nodeAffinity"], "in place of ours"
    assert spec["topologySpreadConstraints"][0]["maxSkew"] == 1
    assert meta["labels"]["tier"] == "control" and "prometheus.io/scrape" in meta["annotations"]
    assert spec["serviceAccountName"] == out.one("ServiceAccount", "")["metadata"]["name"]
    assert out.one("ServiceAccount", "")["automountServiceAccountToken"] is False
    assert spec["containers"][0]["image"].startswith("registry.example/platform/recourse:")
    assert webhook_of(out)["failurePolicy"] == "Ignore"
    template = template_of(out)
    assert (template["unsafePods"], template["workloads"]) == ("warn", "refuse")
    sidecar = template["initContainers"][0]
    assert {"name": "OTEL_RESOURCE_ATTRIBUTES", "value": "cluster=one"} in sidecar["env"]
    mount = {"name": "recourse-extra-ca", "mountPath": "/etc/company", "readOnly": True}
    assert mount in sidecar["volumeMounts"]
    volume = {"name": "recourse-extra-ca", "configMap": {"name": "company-ca"}}
    assert volume in template["volumes"]
    assert "ephemeral-storage" not in sidecar["resources"]["requests"], "as the pod's ledger is"
    mine = {"create": False, "name": "ours"}
    named = render(BASE, {"injector": {"serviceAccount": mine}})
    ((_, pod),) = [one for one in named.pods() if one[0].endswith("-injector")]
    assert pod["spec"]["serviceAccountName"] == "ours" and not named.all("ServiceAccount")


@pytest.mark.parametrize("certificate", [
    {}, {"certManager": True},
    {"existingSecret": "a", "ca": "-----BEGIN CERTIFICATE-----\nx\n"},
])  # fmt: skip
def test_a_second_rendering_without_a_cluster_is_the_same(certificate):
    """So Argo CD and Flux see no difference."""
    first, second = (render(BASE, {"injector": {"certificate": certificate}}) for _ in range(2))
    assert first.text == second.text


def test_the_ca_that_injectors_make_is_in_nothing_that_is_rendered():
    """So a tool that writes what it renders takes nothing away; who puts it there:
    tests/e2e/test_inject_cluster.py."""
    out = rendered(OURS)
    secret = out.one("Secret", "-injector-authority")
    assert secret["type"] == "Opaque" and "data" not in secret
    assert "caBundle" not in out.text
    host = "shop-recourse-injector.agents.svc"
    ((_, pod),) = [one for one in out.pods() if one[0].endswith("-injector")]
    (container,) = pod["spec"]["containers"]
    assert argument(container, "--own-certificate") == secret["metadata"]["name"]
    assert argument(container, "--host") == host
    assert argument(container, "--ca-life") == "365d"
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    assert "readOnly" not in mounts["tls"]
    for flag, name in (("--tls-cert", "tls.crt"), ("--tls-key", "tls.key")):
        assert argument(container, flag) == f"{mounts['tls']['mountPath']}/{name}"
    assert argument(container, "--template") == f"{mounts['template']['mountPath']}/template.json"


def test_cert_manager_makes_and_renews_it():
    out = rendered(ISSUED)
    assert not out.all("Secret") and not out.all("Issuer")
    made = out.one("Certificate", "-injector")
    assert made["apiVersion"] == "cert-manager.io/v1"
    host = "shop-recourse-injector.agents.svc"
    assert made["spec"] == {
        "secretName": "shop-recourse-injector-tls", "dnsNames": [host, f"{host}.cluster.local"],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "issuerRef": {"name": "platform", "kind": "ClusterIssuer"}}  # fmt: skip
    configuration = out.one("MutatingWebhookConfiguration", "-injector")
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "agents/shop-recourse-injector"
    }
    assert "caBundle" not in webhook_of(out)["clientConfig"]


def test_without_an_issuer_the_ca_stays_when_the_certificate_is_renewed():
    """A leaf that signed for itself would be a new CA each time, which pods learn of later."""
    own = render(BASE, {"injector": {"certificate": {"certManager": True}}})
    name = "shop-recourse-injector"
    issuers = {one["metadata"]["name"]: one["spec"] for one in own.all("Issuer")}
    assert issuers == {f"{name}-selfsigned": {"selfSigned": {}},
                       name: {"ca": {"secretName": f"{name}-ca"}}}  # fmt: skip
    made = {one["metadata"]["name"]: one["spec"] for one in own.all("Certificate")}
    assert made.keys() == {name, f"{name}-ca"}
    authority, leaf = made[f"{name}-ca"], made[name]
    assert authority == {
        "secretName": f"{name}-ca", "isCA": True, "commonName": f"{name} CA",
        "duration": "87600h", "issuerRef": {"name": f"{name}-selfsigned", "kind": "Issuer"},
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"}}  # fmt: skip
    assert leaf["issuerRef"] == {"name": name, "kind": "Issuer"} and "isCA" not in leaf
    assert leaf["secretName"] == f"{name}-tls"
    configuration = own.one("MutatingWebhookConfiguration", "-injector")
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"agents/{name}"
    }


def test_a_secret_of_yours_comes_with_its_ca():
    ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    given = {"existingSecret": "webhook-tls", "ca": ca}
    out = render(BASE, {"injector": {"certificate": given}})
    assert not out.all("Secret") and not out.all("Certificate") and not out.all("Role")
    assert decoded(webhook_of(out)["clientConfig"]["caBundle"]) == ca
    secrets = [v["secret"]["secretName"] for _, pod in out.pods() for v in pod["spec"]["volumes"]
               if "secret" in v]  # fmt: skip
    assert secrets == ["webhook-tls"]
    assert out.one("ConfigMap", "-test-inject")["data"]["ca.crt"] == ca
    (sources,) = [pod["spec"]["volumes"][0]["projected"]["sources"] for name, pod in out.pods()
                  if name.endswith("-test-inject")]  # fmt: skip
    assert sources == [{"configMap": {"name": "shop-recourse-test-inject"}}]


@pytest.mark.parametrize("values,said", [
    ({"policy": {"existingConfigMap": ""}}, "name that ConfigMap in policy.existingConfigMap"),
    ({"policy": {"existingConfigMap": "", "inline": "version: 1"}}, "and not policy.inline"),
    ({"store": {"type": "existingClaim", "existingClaim": "one"}}, "all injected pods would share"),
    ({"store": {"expectLedger": "1"}}, "leave it unset with injector.enabled"),
    ({"podDisruptionBudget": {"enabled": True}}, "need some of their own"),
    ({"injector": {"port": 19082}}, "injector.port and ports.probes are both 19082"),
    ({"networkPolicy": {"enabled": True, "egress": [{}]}}, "do nothing for injected pods"),
    ({"networkPolicy": {"dns": [{"podSelector": {}}]}}, "NetworkPolicies of their own"),
    ({"injector": {"certificate": {"certManager": True, "existingSecret": "a"}}}, "choose one"),
    ({"injector": {"certificate": {"existingSecret": "a"}}}, "and ca belong together"),
    ({"injector": {"certificate": {"issuerRef": {"name": "a"}}}}, "set certManager"),
    ({"injector": {"serviceAccount": {"create": False}}}, "set create, or name one"),
    ({"injector": {"certificate": {"issuerRef": {"nmae": "a"}}}}, "invalid propertyName 'nmae'"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(values, said):
    with pytest.raises(Refused) as refused:
        render(BASE, values)
    assert said in str(refused.value)


def test_it_adds_what_charts_include():
    """With the same values, in a pod whose claim comes from a volumeClaimTemplate."""
    values = CHART / "ci/durable-values.yaml"
    first = {"store": {"expectLedger": ""}, "podDisruptionBudget": {"enabled": False}}
    silent = {"enabled": False, "egress": [], "dns": []}
    added = template_of(render(values, first, {**BASE, "networkPolicy": silent}))
    (_, pod, _), *_ = render(values, first).sidecar_pods()
    agent = pod["spec"]["containers"][0]
    policy = {"name": "recourse-policy", "configMap": {"name": "p"}}
    assert added["initContainers"] == pod["spec"]["initContainers"]
    assert [policy if one["name"] == policy["name"] else one for one in pod["spec"]["volumes"]
            if one["name"] != "demo"] == added["volumes"]  # fmt: skip
    assert added["imagePullSecrets"] == pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    own = ("SHOP", "EVERY_SECONDS")
    assert added["agentEnv"] == [one for one in agent["env"] if one["name"] not in own]
    assert added["labels"].pop("recourse.dev/template")
    assert added["labels"].items() <= pod["metadata"]["labels"].items()
    assert added["securityContext"].items() <= pod["spec"]["securityContext"].items()
    grace = pod["spec"]["terminationGracePeriodSeconds"]
    assert (added["version"], added["terminationGracePeriodSeconds"]) == (1, grace)
    assert added["ledger"] == "pvc" and added["agentVolumeMounts"] == []


def test_pods_say_of_which_template_they_are():
    seen, others = set(), {"injector": {"replicas": 3}}
    for values in ({}, {"image": {"tag": "9"}}, {"logLevel": "debug"}, others):
        out = render(BASE, values)
        label = out.one("ConfigMap", "-injector")["metadata"]["labels"]["recourse.dev/template"]
        assert template_of(out)["labels"]["recourse.dev/template"] == label
        seen.add(label)
    assert len(seen) == 3, "how many injectors there are changes no pod"


def test_a_ledger_that_goes_with_its_pod_is_of_the_size_and_class_of_the_values():
    added = template_of(rendered(ISSUED))
    assert added["ledger"] == "ephemeral"
    assert added["ledgers"]["emptyDir"] == {"name": "recourse-ledger",
                                            "emptyDir": {"sizeLimit": "1Gi"}}  # fmt: skip
    ephemeral = render({"store": {"type": "ephemeral", "size": "1Gi", "storageClass": "fast-ssd"}})
    ((_, pod, _), *_) = ephemeral.sidecar_pods()
    assert added["ledgers"]["ephemeral"] in pod["spec"]["volumes"]
    claims = ephemeral.one("StatefulSet", "-agent")["spec"].get("volumeClaimTemplates")
    assert claims is None
    spec = added["ledgers"]["ephemeral"]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert spec == {"accessModes": ["ReadWriteOncePod"], "storageClassName": "fast-ssd",
                    "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip


@pytest.mark.parametrize("case,name", [(OURS, "authority"), (ISSUED, "tls")])
def test_helm_test_sees_the_ca_and_not_the_key(case, name):
    ((_, pod),) = [one for one in rendered(case).pods() if one[0].endswith("-test-inject")]
    (volume,) = pod["spec"]["volumes"]
    _, secret = volume["projected"]["sources"]
    assert secret["secret"] == {"name": f"shop-recourse-injector-{name}",
                                "items": [{"key": "ca.crt", "path": "ca.crt"}]}  # fmt: skip


def test_prometheus_finds_injected_pods_in_every_namespace_and_the_injectors():
    sidecars, injectors = rendered(OURS).all("PodMonitor")
    assert sidecars["spec"]["namespaceSelector"] == {"any": True}
    labels = template_of(rendered(OURS))["labels"]
    assert sidecars["spec"]["podTargetLabels"] == ["recourse.dev/template"]
    del labels["recourse.dev/template"]
    assert sidecars["spec"]["selector"]["matchLabels"] == labels
    wanted = injectors["spec"]["selector"]["matchLabels"].items()
    found = [name for name, pod in rendered(OURS).pods()
             if wanted <= pod["metadata"]["labels"].items()]  # fmt: skip
    assert found == ["shop-recourse-injector"]


def test_the_notes_tell_what_a_namespace_needs():
    ours, issued = rendered(OURS).notes, rendered(ISSUED).notes
    assert "kubectl label namespace NAMESPACE recourse.dev/injection=enabled" in ours
    assert "create configmap recourse-policy --from-file=policy.yaml=policy.yaml" in ours
    assert "these Secrets too, if any: recourse-admin\n" in ours
    assert "these Secrets too, if any: none\n" in issued
    assert "recourse.dev/policy=true" in ours
    assert "WARNING: store.type is ephemeral" in issued
    assert "NetworkPolicy holds for whole pods" not in ours
    assert "the NetworkPolicy is of the injectors alone" in ours
    assert "NetworkPolicy" not in render(BASE).notes


def test_the_notes_warn_where_no_guard_stands():
    assert "UNGUARDED" not in rendered(OURS).notes
    assert "injector.guard is off" in render(BASE, {"injector": {"guard": False}}).notes
    old = render(BASE, existing=[], minor="29")
    assert "no ValidatingAdmissionPolicies" in old.notes
    assert not old.all("ValidatingAdmissionPolicy")
