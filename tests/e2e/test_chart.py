"""The chart's pods, run for real (support/kubelet.py): every command line that helm/recourse has
is one of the real binary, with the rights, mounts and users of the rendered YAML, on a read-only
root; the demo does what it says; and pods end as Kubernetes ends them."""

import contextlib
import json
import queue
import re
import secrets
import signal
import socket
import sys
import threading

import pytest
import yaml

from support.certificates import Maker
from support.kubelet import Node, RunningPod, impatient, network
from support.pod import TOOLS, why_not
from support.recourse import ROOT, WAIT_MAX, run_cli
from support.waiting import wait_until

sys.path.insert(0, str(ROOT / "tests/helm"))
from chart import CASES, CHART, render, rendered  # noqa: E402

WHY_NOT = why_not()
needs_pods = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
SHOP = "shop-recourse-backend"
TOKEN = "5f" * 32
OPERATORS = """\
version: 1
tokens:
  - { name: ann, sha256: "%s", groups: [ support ], roles: [ read ] }
roles: { approve: [ support ] }
""" % ("ab" * 32)
KEYS = f"k1 {secrets.token_hex(32)}\n"
INSTALL = secrets.token_hex(32)
NIGHTLY = f"""\
version: 1
unlisted: {{ reads: pass, writes: guard }}
backends:
  shop: {{ url: "http://{SHOP}" }}
"""


@pytest.fixture(scope="module")
def net():
    with network(SHOP) as made:
        yield made


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A CA of the company's: {file of the Secret: PEM}."""
    maker = Maker(tmp_path_factory.mktemp("ca"))
    return {"ca.crt": maker.cert.read_text(), "ca.key": maker.key.read_text()}


@pytest.fixture
def node(tmp_path, net, authority):
    """A node for the pods of rendered objects."""
    mounted = {
        "recourse-admin": {"token": TOKEN}, "recourse-operators": {"operators.yaml": OPERATORS},
        "recourse-keys": {"keys": KEYS}, "mail-credentials": {"token": "secret"},
        "recourse-install": {"secret": INSTALL}, "agents-ca": authority,
    }  # fmt: skip

    theirs = {"nightly-policy": {"policy.yaml": NIGHTLY}}

    def make(out):
        return Node(tmp_path, net, out.objects, mounted, theirs)

    return make


def templates_of(out, name):
    for one in out.all("StatefulSet"):
        if one["metadata"]["name"] == name:
            return one["spec"].get("volumeClaimTemplates", [])
    return []


def pod_of(out, node, name):
    """The pod of the workload whose name ends so, to be run."""
    ((name, pod),) = [one for one in out.pods() if one[0].endswith(name)]
    templates = templates_of(out, name)
    return RunningPod(node, f"{name}-0" if templates else name, pod, templates)


def first_installation():
    """The durable case when there is no ledger yet."""
    return render(CHART / "ci/durable-values.yaml", {"store": {"expectLedger": ""}})


def begin_ledgers(node):
    """What the durable case expects of its claims."""
    with pod_of(first_installation(), node, "-agent") as running:
        assert running.sidecar.end() == 0


@contextlib.contextmanager
def backend(out, node):
    """The demo's shop, in the network of the tools."""
    ((_, pod),) = [one for one in out.pods() if one[0].endswith("-backend")]
    (container,) = pod["spec"]["containers"]
    volumes = node.volumes("backend", pod, [])
    process = node.start(container, pod, volumes, namespace=node.network.tools)
    try:
        process.await_said("listening on 8080")
        yield process
    finally:
        process.kill()


# Pods of these need a database, or a process of their machine: test_fleet_console.py and
# test_redirect_node.py start theirs.
ALONE = [case for case in CASES if case not in ("ledger-values", "redirect-node-values")]


@needs_pods
@pytest.mark.parametrize("case", ALONE)
def test_every_command_line_of_the_chart_is_one_of_the_real_binary(case, node):
    """Init containers end with 0, sidecars become ready, stay alive, and end with 0 when told."""
    out = rendered(case)
    here = node(out)
    if case == "durable-values":
        begin_ledgers(here)
    for name, _, _ in out.sidecar_pods():
        with pod_of(out, here, name) as running:
            for probe in ("readinessProbe", "livenessProbe"):
                assert running.probe(running.sidecar_container[probe]) == 200
            assert running.sidecar.end() == 0, running.sidecar.said()
    for name, pod in out.pods():
        if name.endswith("-test-policy"):
            with RunningPod(here, name, pod) as running:
                check = running.agent()
                assert check.wait() == 0, check.said()


@needs_pods
@pytest.mark.parametrize("case", ["default-values", "redirect-values", "durable-values"])
def test_the_demo_does_what_it_says(case, node):
    """Also `helm test`: an agent places an order twice, and an unchanged shop gets it once."""
    out = rendered(case)
    here = node(out)
    if case == "durable-values":
        begin_ledgers(here)
    with backend(out, here) as shop:
        with pod_of(out, here, "-agent") as running:
            agent = running.agent()
            agent.await_said("asked twice, ordered once: order-1 (trace ")
            assert shop.said().count("a new order:") == 1
            if case == "durable-values":
                code, said = running.exec("events", "list")
                assert code == 0 and said.count("SUCCEEDED") == 1, said
                code, said = running.exec("status")
                assert code == 0, said
            # The order in which Kubernetes ends a pod with a native sidecar.
            assert agent.end() == 0, agent.said()
            assert running.sidecar.end() == 0, running.sidecar.said()
        with pod_of(out, here, "-test-order") as running:
            tried = running.agent()
            assert tried.wait() == 0, tried.said()
        assert "the payment failed, so order-3 was undone" in tried.said()
        assert "a gift waits for a human, and was not sent" in tried.said()
        assert shop.said().count("a new order:") == 3


@needs_pods
def test_redirect_is_what_leads_an_agent_without_variables_to_recourse(node):
    """Without the rules the same agent would reach the shop past Recourse, and say so."""
    out = render({"agent": {"proxyVariables": False}})
    here = node(out)
    with backend(out, here) as shop, pod_of(out, here, "-test-order") as running:
        agent = running.agent()
        assert agent.wait() == 1 and "ordered once" not in agent.said()
        assert shop.said().count("a new order:") == 2


@needs_pods
def test_a_ledger_outlives_its_pod_on_a_claim_and_no_other_pod_may_have_it(node):
    out, known = first_installation(), rendered("durable-values")
    here = node(out)
    with backend(out, here), pod_of(out, here, "-agent") as first:
        first.agent().await_said("ordered once")
        second = pod_of(out, here, "-agent")
        process = second.run(impatient(first.sidecar_container))
        try:
            assert process.wait() == 78, process.said()
            assert "/var/lib/recourse/ledger is in use by process" in process.said()
        finally:
            second.__exit__()
        first.sidecar.kill()  # as a node that is lost
    with pod_of(known, here, "-agent") as again:
        code, said = again.exec("events", "list")
        assert code == 0 and said.count("SUCCEEDED") == 1, said
        assert again.sidecar.end() == 0


@needs_pods
def test_a_volume_that_lost_its_ledger_is_refused(node):
    out = rendered("durable-values")
    ((_, pod, container), *_) = out.sidecar_pods()
    lost = RunningPod(node(out), "lost", pod, templates_of(out, "shop-recourse-agent"))
    process = lost.run(container)
    try:
        assert process.wait() == 78, process.said()
    finally:
        lost.__exit__()


@needs_pods
def test_a_ledger_is_restored_on_its_claim_as_the_readme_says(node):
    out = first_installation()
    here = node(out)
    shell = yaml.safe_load((ROOT / "helm/ledger-shell.yaml").read_text())
    with backend(out, here) as shop:
        with pod_of(out, here, "-agent") as running:
            running.agent().await_said("ordered once")
            code, said = running.exec("ledger", "backup", "/var/lib/recourse/agent-0.mdb")
            assert code == 0, said
            assert running.sidecar.end() == 0
        with RunningPod(here, "ledger-shell", shell) as running:
            restore = (
                "cd /var/lib/recourse; mv ledger lost; mkdir -m 700 ledger; umask 077; "
                "cat agent-0.mdb > ledger/data.mdb"
            )
            restored = running.agent(command=["sh", "-euc", restore])
            assert restored.wait() == 0, restored.said()
        with pod_of(out, here, "-agent") as running:
            agent = running.agent()
            agent.await_said("the shop cannot be reached: HTTP Error 503")  # log-restored
            agent.kill()
            count = shop.said().count("a new order:")
            code, said = running.exec("ledger", "accept", "--reason", "seen to it")
            assert code == 0, said
            running.agent().await_said("ordered once")
            assert shop.said().count("a new order:") == count + 1
            assert running.sidecar.end() == 0


class Taker:
    """A backend that takes calls, and answers one when it is told so, or closes its connection."""

    def __init__(self, node):
        self.seen, self.answers = [], queue.Queue()
        network = node.network
        self.server = network.inside(lambda: socket.create_server((TOOLS, 8080)), network.tools)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                with connection:
                    data = connection.recv(65536)
                    while b"\r\n\r\n{" not in data:
                        data += connection.recv(65536)
                    self.seen.append(data)
                    connection.sendall(self.answers.get(timeout=WAIT_MAX))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()

    def await_call(self):
        wait_until(lambda: self.seen, "no call came")


# One write, by an agent that knows no Recourse.
ONE_WRITE = {
    "name": "agent",
    "command": ["python3", "-c", """
import urllib.error, urllib.request
request = urllib.request.Request("http://%s/orders", b'{"cart": 1}', {
    "Content-Type": "application/json", "traceparent": "00-%s-00f067aa0ba902b7-01"})
try:
    print(urllib.request.urlopen(request, timeout=%f).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
""" % (SHOP, "4b" * 16, WAIT_MAX)],
    "securityContext": {"runAsUser": 10001, "runAsGroup": 10001, "readOnlyRootFilesystem": True},
}  # fmt: skip


@needs_pods
def test_an_agent_in_a_job_completes_and_what_is_open_goes_on_with_the_next(node):
    out = rendered("parent-job")
    here = node(out)
    with Taker(here) as backend_of_job:
        backend_of_job.answers.put(b"")  # nobody knows what became of it
        for _ in range(2):  # the second pod repeats the call of the first
            with pod_of(out, here, "nightly") as running:
                agent = running.agent(**ONE_WRITE)
                assert agent.wait() == 0, agent.said()
                assert '"outcome":"unknown"' in agent.said().replace(" ", ""), agent.said()
                assert running.sidecar.end() == 0, running.sidecar.said()
            assert len(backend_of_job.seen) == 1, "an unknown outcome is never sent on a guess"


@needs_pods
def test_a_call_that_outlives_its_agent_is_finished_before_the_sidecar_ends(node):
    """A pod is evicted in the middle of a call: the agent goes first, then the sidecar is told."""
    out = rendered("parent-job")
    here = node(out)
    with Taker(here) as shop:
        with pod_of(out, here, "nightly") as running:
            agent = running.agent(**ONE_WRITE)
            shop.await_call()
            agent.kill()
            running.sidecar.signal(signal.SIGTERM)
            running.await_probe(running.sidecar_container["readinessProbe"], 503)
            shop.answers.put(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
            assert running.sidecar.wait() == 0, running.sidecar.said()
        with pod_of(out, here, "nightly") as running:
            agent = running.agent(**ONE_WRITE)
            assert agent.wait() == 0 and agent.said().startswith("201"), agent.said()
            assert running.sidecar.end() == 0, running.sidecar.said()
        assert len(shop.seen) == 1, "the repeat got the stored answer"


def test_every_command_that_people_are_told_exists():
    told = [(ROOT / "helm/README.md").read_text(), (CHART / "files/alerts.yaml").read_text()]
    told += [rendered(case).notes for case in CASES]
    typed = r"`[^`\n]+`|^ .*-- recourse .*|^\$? ?recourse .*"
    found = set()
    for line in re.findall(typed, "\n".join(told), re.MULTILINE):
        found |= set(re.findall(r"\brecourse((?: [a-z][a-z-]+(?=[ `]|$))+)", line))
    assert len(found) > 10
    for words in found:
        done = run_cli(*words.split(), "--help")
        assert done.returncode == 0 and f"Usage: recourse{words} [" in done.stdout, words


def variables_of(case):
    for _, pod, _ in rendered(case).sidecar_pods():
        for container in pod["spec"]["containers"]:
            yield {one["name"]: one["value"] for one in container["env"]
                   if one["name"] not in ("SHOP", "EVERY_SECONDS", "HAS_DEMO_POLICY")}


@pytest.mark.parametrize("case,arguments", [
    ("default-values", []),
    ("durable-values", ["--no-proxy", "metrics.internal,10.0.0.1"]),
    ("intercept-values", ["--proxy", "http://127.0.0.1:29080",
                          "--bundle", "/run/recourse/trust/ca.pem",
                          "--java-trust-store", "/run/recourse/trust/ca.jks"]),
    ("parent", ["--bundle", "/run/recourse/trust/ca.pem"]),
])  # fmt: skip
def test_agents_get_the_variables_that_recourse_env_prints(case, arguments):
    done = run_cli("env", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    for variables in variables_of(case):
        assert variables == json.loads(done.stdout)


def test_redirected_agents_get_those_that_name_the_bundle_alone():
    done = run_cli("env", "--bundle", "/run/recourse/trust/ca.pem", "--java-trust-store",
                   "/run/recourse/trust/ca.jks", "--format", "json")  # fmt: skip
    printed = json.loads(done.stdout)
    proxied = json.loads(run_cli("env", "--format", "json").stdout)
    wanted = {name: value for name, value in printed.items() if name not in proxied}
    wanted["JAVA_TOOL_OPTIONS"] = " ".join(re.findall(r"-Djavax\S+", printed["JAVA_TOOL_OPTIONS"]))
    for variables in variables_of("redirect-values"):
        assert variables == wanted
