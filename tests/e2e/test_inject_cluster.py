"""What an injector asks of the cluster, with the rights of the chart alone: its CA, which it makes,
renews and tells of; and the ConfigMap and the Secrets that a sidecar would wait for."""

import base64
import datetime
import re
import signal
import subprocess
import sys

import pytest

from support.api_server import MUTATING, ApiServer
from support.certificates import authority
from support.injector import (
    EMPTY_DIR, HOST, VALUES, own_injector, pod, response_in, review_of, sidecar_of,
)  # fmt: skip
from support.recourse import ROOT
from support.waiting import wait_until

sys.path.insert(0, str(ROOT / "tests/helm"))
from chart import render  # noqa: E402

AUTHORITY = "shop-recourse-injector-authority"
OWN = {**VALUES, "injector": {"enabled": True}}
POLICY = "/api/v1/namespaces/shop/configmaps/recourse-policy"
TOKEN = "/api/v1/namespaces/shop/secrets/recourse-admin"


def cluster(tmp_path, values=None):
    out = render(OWN, values or {})
    (tmp_path / "api").mkdir()
    return out, ApiServer(tmp_path / "api", out)


def trusting(running, api):
    """As API servers do once they were told."""
    (running.authority,) = running.until(
        lambda: "" not in api.bundles() and len(api.bundles()) == 1 and api.bundles())
    return running


def answered(running):
    return running.ask(review_of(pod(inject=None)))[0] == 200


def blocks(pem):
    return re.findall("-----BEGIN.*?-----END CERTIFICATE-----\n", pem, re.DOTALL)


def subject(pem):
    return subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, text=True,
                          capture_output=True, check=True).stdout  # fmt: skip


# --- the CA --------------------------------------------------------------------------------------


def test_every_replica_shows_a_certificate_that_api_servers_were_told_of(tmp_path):
    """Two begin at once with the empty Secret of the chart, and one CA comes of it."""
    out, api = cluster(tmp_path)
    assert api.secret(AUTHORITY) == {} and api.bundles() == {""}
    with api:
        with own_injector(tmp_path / "1", api, out) as one, own_injector(
            tmp_path / "2", api, out) as two:  # fmt: skip
            for running in (one, two):
                assert answered(trusting(running, api))
                left = running.certificate_end() - datetime.datetime.now().timestamp()
                assert 364 * 86400 < left <= 365 * 86400
            kept = api.secret(AUTHORITY)
        assert kept["ca.crt"] == one.authority and len(blocks(kept["ca.crt"])) == 1
        assert "PRIVATE KEY" in kept["signing.key"] and HOST in subject(kept["ca.crt"])
        with own_injector(tmp_path / "3", api, out) as later:
            assert answered(trusting(later, api)) and api.secret(AUTHORITY) == kept


def keep(api, signing, following=("", "")):
    """Puts these CAs into the Secret."""
    data = {"ca.crt": signing[0] + following[0], "signing.crt": signing[0],
            "signing.key": signing[1],
            "next.crt": following[0], "next.key": following[1]}  # fmt: skip
    path = f"/api/v1/namespaces/agents/secrets/{AUTHORITY}"
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    api.put(path, {**api.objects[path], "data": encoded})


def test_what_it_writes_bears_its_name(tmp_path):
    """Who applies the same field is told with whom that conflicts."""
    out, api = cluster(tmp_path)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        assert {verb for verb, _ in api.asked} == {"get", "patch"}
        assert api.agents == {"recourse-injector"}


def test_the_next_ca_is_known_before_it_signs(tmp_path):
    out, api = cluster(tmp_path)
    old = authority(tmp_path, "old", -265, 100)
    keep(api, old)
    with api, own_injector(tmp_path / "one", api, out) as running:
        running.until(lambda: len(blocks(api.secret(AUTHORITY)["ca.crt"])) == 2)
        trusting(running, api)
        assert old[0] in running.authority
        running.authority = old[0]
        assert answered(running), "the old one signs until API servers know both"


def test_a_ca_that_has_been_known_for_a_day_signs_and_the_old_one_stays_trusted(tmp_path):
    out, api = cluster(tmp_path)
    old, new = authority(tmp_path, "old", -300, 65), authority(tmp_path, "new", -2, 363)
    keep(api, old, new)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        assert api.secret(AUTHORITY)["signing.crt"] == old[0], "it knows of no telling yet"
        running.process.send_signal(signal.SIGHUP)
        running.until(lambda: api.secret(AUTHORITY)["signing.crt"] == new[0])
        assert api.secret(AUTHORITY)["next.crt"] == ""
        running.authority = new[0]
        running.until(lambda: accepts(running))
        assert set(blocks(api.secret(AUTHORITY)["ca.crt"])) == {old[0], new[0]}


def accepts(running):
    try:
        return answered(running)
    except OSError:  # it still shows the one before
        return False


def test_a_ca_that_has_ended_is_replaced_at_once(tmp_path):
    out, api = cluster(tmp_path)
    keep(api, authority(tmp_path, "old", -300, -1))
    with api, own_injector(tmp_path / "one", api, out) as running:
        assert answered(trusting(running, api))
        assert len(blocks(running.authority)) == 1


def test_what_somebody_took_from_the_webhooks_is_put_back(tmp_path):
    """Such as a tool that writes them as they were rendered."""
    out, api = cluster(tmp_path)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        (path,) = [one for one in api.objects if one.startswith(MUTATING)]
        rendered = out.one("MutatingWebhookConfiguration", "-injector")
        api.put(path, rendered)
        running.process.send_signal(signal.SIGHUP)
        trusting(running, api)
        (mine,) = api.webhooks(MUTATING)
        del mine["clientConfig"]["caBundle"]
        assert mine == rendered["webhooks"][0], "nothing else of them is touched"


def test_without_an_api_server_it_goes_on_with_what_it_has_and_says_so(tmp_path):
    out, api = cluster(tmp_path)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        api.silent = True
        running.process.send_signal(signal.SIGHUP)
        failures = "recourse_inject_api_failures_total"
        running.until(lambda: running.metric(failures) >= 1)
        assert "cannot read the Secret agents/" + AUTHORITY in running.log.read_text()
        assert answered(running)


# --- what a sidecar would wait for ---------------------------------------------------------------


def there(api, *paths):
    for path in paths:
        name = path.rpartition("/")[2]
        api.put(path, {"metadata": {"name": name}, "data": {"token": "c2VjcmV0"}})


def test_a_pod_whose_namespace_lacks_what_it_mounts_is_refused_with_the_names(tmp_path):
    out, api = cluster(tmp_path)
    agent = pod(annotations=EMPTY_DIR)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        assert running.refusal(agent) == (
            "the namespace shop has no ConfigMap recourse-policy and no Secret recourse-admin, "
            "without which the sidecar never starts: make them"
        )
        there(api, POLICY)
        assert "has no Secret recourse-admin" in running.refusal(agent)
        there(api, TOKEN)
        made, _ = running.injected(agent)
        assert sidecar_of(made)["name"] == "recourse"
        asked = len(api.asked)
        running.injected(agent)
        assert len(api.asked) == asked, "what is there is believed for a while"
        other = pod(annotations={**EMPTY_DIR, "recourse.dev/policy-configmap": "mine"})
        assert "has no ConfigMap mine," in running.refusal(other)
        assert running.review(pod(inject=None))["allowed"]


# The name of the Service leads here.
HERE = """
import socket
real = socket.getaddrinfo
socket.getaddrinfo = lambda _, *more, **others: real("127.0.0.1", *more, **others)
"""


def test_helm_test_is_content_with_an_injector_that_misses_what_sidecars_mount(tmp_path):
    out, api = cluster(tmp_path)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        (tmp_path / "ca.crt").write_text(running.authority)
        script = out.one("ConfigMap", "-test-inject")["data"]["inject.py"]
        asked = wait_until(lambda: running.has_heard((told := subprocess.run(
            [sys.executable, "-c", HERE + script.replace("/run/injector", str(tmp_path))],
            env={"URL": f"https://{HOST}:{running.ports['listen']}/mutate"},
            capture_output=True, text=True, check=False,
        )).stdout) and told)  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    assert "helm-test has no ConfigMap recourse-policy and no Secret recourse-admin" in asked.stdout


def test_a_workload_is_told_what_its_pods_will_lack_and_never_refused_for_it(tmp_path):
    """It may be applied before what it needs."""
    out, api = cluster(tmp_path, {"injector": {"workloads": "refuse"}})
    template = pod(annotations=EMPTY_DIR)
    for name in ("generateName", "ownerReferences"):
        del template["metadata"][name]
    one = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "a"},
           "spec": {"template": template}}  # fmt: skip
    asked = review_of(one, resource={"group": "apps", "version": "v1", "resource": "deployments"})
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        said = wait_until(lambda: running.has_heard(
            told := response_in(running.ask(asked, path="/validate")[2], asked)) and told)
    assert said["allowed"] and "no ConfigMap recourse-policy" in "".join(said["warnings"])


@pytest.mark.parametrize("unknown", ["warn", "refuse"])
def test_what_nobody_can_tell_is_told_or_refused_as_the_values_say(unknown, tmp_path):
    out, api = cluster(tmp_path, {"injector": {"objects": {"unknown": unknown}}})
    agent = pod(annotations=EMPTY_DIR)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        api.silent = True
        if unknown == "refuse":
            assert running.refusal(agent).startswith("nobody can tell whether the sidecar's Conf")
        else:
            _, warnings = running.injected(agent)
            assert any("nobody can tell" in one for one in warnings)


def test_a_missing_one_may_be_told_of_alone_or_not_looked_for(tmp_path):
    out, api = cluster(tmp_path, {"injector": {"objects": {"missing": "warn"}}})
    agent = pod(annotations=EMPTY_DIR)
    with api, own_injector(tmp_path / "one", api, out) as running:
        trusting(running, api)
        _, warnings = running.injected(agent)
        assert any("has no ConfigMap recourse-policy" in one for one in warnings)
    (tmp_path / "2").mkdir()
    out, api = cluster(tmp_path / "2", {"injector": {"objects": {"missing": "ignore"}}})
    with api, own_injector(tmp_path / "two", api, out) as running:
        trusting(running, api)
        running.injected(agent)
        assert not [path for _, path in api.asked if "/namespaces/shop/" in path]
        assert not api.may("get", POLICY) and not api.may("get", TOKEN)
