"""One console for several ledgers: it is told of them, serves TLS alone, and keeps nothing."""

import pytest
import yaml
from chart import CHART, render, rendered

CASE = CHART / "ci/console-values.yaml"
PLACES = ("priorityClassName", "nodeSelector", "tolerations", "affinity",
          "topologySpreadConstraints")  # fmt: skip
ASKED = {"enabled": True, "ledgers": {"eu": "https://eu.example"}, "tlsSecret": "tls"}


@pytest.fixture(scope="module")
def out():
    return rendered("console-values")


@pytest.fixture(scope="module")
def deployment(out):
    return out.one("Deployment", "-console")["spec"]


def values_of(container, flag):
    return [one.partition("=")[2] for one in container["args"] if one.startswith(flag + "=")]


def test_it_is_told_of_its_ledgers_and_serves_tls_alone(deployment):
    (container,) = deployment["template"]["spec"]["containers"]
    assert deployment["replicas"] == 2 and container["args"][0] == "console"
    assert values_of(container, "--ledger") == ["eu=https://steward.eu.example:19081",
                                                "us=https://steward.us.example"]  # fmt: skip
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert values_of(container, "--ledger-ca") == [f"{mounts['ledgers']}/ca.crt"]
    assert values_of(container, "--admin-tls-cert") == [f"{mounts['tls']}/tls.crt"]
    assert values_of(container, "--admin-tls-key") == [f"{mounts['tls']}/tls.key"]
    hosts = values_of(container, "--admin-host")
    assert hosts == ["shop-recourse-console.agents.svc", "recourse.example"]
    (without,) = render({"console": ASKED}).one("Deployment", "-console")["spec"]["template"][
        "spec"]["containers"]  # fmt: skip
    assert not values_of(without, "--ledger-ca") and len(without["volumeMounts"]) == 1


def test_it_reaches_the_steward_of_the_chart_at_its_service():
    """Whose certificate and name are for that; the port is that of the pod, as network policies
    count it."""
    of = rendered("ledger-values")
    service = of.one("Service", "-steward")
    (port,) = service["spec"]["ports"]
    steward = of.one("Deployment", "-steward")["spec"]["template"]
    (container,) = steward["spec"]["containers"]
    assert service["spec"]["selector"].items() <= steward["metadata"]["labels"].items()
    for _, pod, _ in of.sidecar_pods():
        if pod["metadata"]["labels"].get("app.kubernetes.io/component") != "steward":
            assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert values_of(container, "--admin") == [f"[::]:{port['port']}"]
    assert port["targetPort"] == port["port"]
    name = f"{service['metadata']['name']}.agents.svc"
    assert values_of(container, "--admin-host") == [name, "steward.example"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert values_of(container, "--admin-tls-cert") == [f"{mounts['tls']}/tls.crt"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["RECOURSE_ADMIN"] == f"https://{name}:{port['port']}"
    url = environment["RECOURSE_ADMIN"]
    console = render({"console": {**ASKED, "ledgers": {"eu": url}},
                      "networkPolicy": {"enabled": True}})
    (asked,) = console.one("Deployment", "-console")["spec"]["template"]["spec"]["containers"]
    assert values_of(asked, "--ledger") == [f"eu={url}"]
    ledgers = console.one("NetworkPolicy", "-console")["spec"]["egress"][1]
    assert ledgers["ports"] == [{"port": port["port"], "protocol": "TCP"}]


def test_a_steward_without_a_certificate_is_reached_within_its_pod_alone():
    of = render({"ledger": {"url": "postgres://r@db/r"}, "steward": {"enabled": True},
                 "ledgerKeySecret": "k", "installSecret": "i"})  # fmt: skip
    (container,) = of.one("Deployment", "-steward")["spec"]["template"]["spec"]["containers"]
    assert values_of(container, "--admin") == ["127.0.0.1:19081"]
    assert not [one for one in of.all("Service") if one["metadata"]["name"].endswith("-steward")]


def test_it_has_no_rights_and_keeps_nothing(deployment):
    spec = deployment["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False and not spec["enableServiceLinks"]
    rights = container["securityContext"]
    assert rights["runAsNonRoot"] and rights["readOnlyRootFilesystem"]
    assert rights["capabilities"]["drop"] == ["ALL"]
    assert {one["secret"]["secretName"] for one in spec["volumes"]} == {"console-tls",
                                                                        "ledgers-ca"}  # fmt: skip
    for probe, path in (("livenessProbe", "/live"), ("readinessProbe", "/ready")):
        assert container[probe]["httpGet"] == {"path": path, "port": "recourse-probes"}


def test_service_budget_and_network_are_of_its_pods_alone(out, deployment):
    labels = deployment["template"]["metadata"]["labels"]
    service = out.one("Service", "-console")["spec"]
    budget = out.one("PodDisruptionBudget", "-console")["spec"]
    policy = out.one("NetworkPolicy", "-console")["spec"]
    selectors = (service["selector"], budget["selector"]["matchLabels"],
                 policy["podSelector"]["matchLabels"])  # fmt: skip
    for selector in selectors:
        assert selector["app.kubernetes.io/component"] == "console"
        assert selector == deployment["selector"]["matchLabels"]
        assert selector.items() <= labels.items()
    assert service["sessionAffinity"] == "ClientIP", "sessions are of one process"
    for _, pod, _ in out.sidecar_pods():
        assert not selectors[0].items() <= pod["metadata"]["labels"].items()
    monitor = out.one("PodMonitor", "-console")["spec"]
    assert monitor["selector"]["matchLabels"] == selectors[0]
    page, probes = policy["ingress"]
    assert page["from"] == [{"namespaceSelector": {"matchLabels": {"team": "platform"}}}]
    assert page["ports"] == [{"port": "admin", "protocol": "TCP"}] and "from" not in probes
    names, ledgers = policy["egress"]
    assert {one["port"] for one in names["ports"]} == {53} and names["to"]
    assert [one["port"] for one in ledgers["ports"]] == [19081, 443]


def test_platform_teams_place_and_name_it(out, deployment):
    asked = yaml.safe_load(CASE.read_text())["console"]
    pod = deployment["template"]
    assert asked["podLabels"].items() <= pod["metadata"]["labels"].items()
    assert asked["podAnnotations"].items() <= pod["metadata"]["annotations"].items()
    for key in PLACES:
        assert pod["spec"][key] == asked[key], key
    account = out.one("ServiceAccount", "-console")
    assert account["metadata"]["annotations"] == {"purpose": "console"}
    assert pod["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_it_is_off_unless_asked_for():
    assert "console" not in rendered("default-values").text
    assert not render({"console": ASKED}).all("NetworkPolicy")
