"""One ledger in a database for all pods: no volumes, a Job for its tables, a steward."""

import pytest
from chart import render, rendered
from test_objects import argument

SHARED = {
    "ledger": {"url": "postgres://recourse@db/recourse"},
    "ledgerKeySecret": "keys",
    "installSecret": "install",
}


@pytest.fixture(scope="module")
def out():
    return rendered("ledger-values")


def processes(out):
    """The sidecar and the steward, with their pods."""
    for _, pod, sidecar in out.sidecar_pods():
        yield pod, sidecar
    steward = out.one("Deployment", "-steward")["spec"]["template"]
    yield steward, steward["spec"]["containers"][0]


def test_pods_have_no_claim_and_what_their_group_shares(out):
    agents = out.one("StatefulSet", "-agent")["spec"]
    assert agents["replicas"] == 3 and "volumeClaimTemplates" not in agents
    for pod, process in processes(out):
        assert argument(process, "--ledger").startswith("postgres://recourse@db.data.svc/")
        assert argument(process, "--ledger-group") == "shop/checkout"
        assert argument(process, "--ledger-max") is None
        mounts = {one["name"]: one["mountPath"] for one in process["volumeMounts"]}
        for flag, volume, secret, file in (
            ("--ledger-password-file", "recourse-database", "recourse-database", "password"),
            ("--ledger-key-file", "recourse-ledger-key", "recourse-keys", "keys"),
            ("--install-secret-file", "recourse-install", "recourse-install", "secret"),
        ):
            assert argument(process, flag) == f"{mounts[volume]}/{file}"
            (found,) = [v for v in pod["spec"]["volumes"] if v["name"] == volume]
            assert found["secret"]["secretName"] == secret
        annotations = pod["metadata"]["annotations"]
        assert "cluster-autoscaler.kubernetes.io/safe-to-evict" not in annotations
        assert "ephemeral-storage" not in str(process["resources"])


def test_a_group_is_a_release_unless_it_is_named():
    for _, sidecar in processes(render({**SHARED, "steward": {"enabled": True}})):
        assert argument(sidecar, "--ledger-group") == "agents/shop-recourse"
        assert argument(sidecar, "--ledger-password-file") is None


def test_tables_are_made_before_pods_of_the_image_start(out):
    job = out.one("Job", "-migration")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"][:2] == ["ledger", "migrate"]
    assert argument(container, "--ledger").startswith("postgres://migration@db.data.svc/")
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    password = argument(container, "--ledger-password-file")
    assert password == f"{mounts['recourse-database']}/password"
    secrets = {v["name"]: v["secret"]["secretName"] for v in spec["volumes"]}
    assert secrets["recourse-database"] == "migration-database"
    plain = render(SHARED).one("Job", "-migration")["spec"]["template"]["spec"]
    assert "volumes" not in plain and "volumeMounts" not in plain["containers"][0]
    off = render({**SHARED, "ledger": {**SHARED["ledger"], "migration": {"enabled": False}}})
    assert not off.all("Job") and not rendered("default-values").all("Job")


def test_a_steward_is_a_pod_that_no_agent_is_in(out):
    steward = out.one("Deployment", "-steward")["spec"]["template"]["spec"]
    (container,) = steward["containers"]
    assert container["args"][0] == "steward" and "initContainers" not in steward
    assert argument(container, "--listen") is None
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "recourse-probes"
    assert "port-forward deployment/shop-recourse-steward 19081" in out.notes
    assert "WARNING: store" not in out.notes and "expectLedger" not in out.notes
    assert "steward" not in render(SHARED).text
