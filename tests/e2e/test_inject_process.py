"""`recourse inject` as a process: files that change under load, start, end, metrics, log; its own
command line and an injected pod, run for real (support/kubelet.py)."""

import calendar
import contextlib
import json
import pathlib
import re
import signal
import sys
import threading

import pytest

from support.certificates import Maker
from support.injector import (
    CERTIFICATE, EMPTY_DIR, GIVEN, HOST, VALUES, Injector, chart_of, claim, injector, patched, pod,
    response_in, review_of, sidecar_of, template_of,
)  # fmt: skip
from support.kubelet import Node, RunningPod, impatient, network
from support.recourse import MEASURABLE, ROOT, STOP_MAX, run_cli
from test_chart import SHOP, TOKEN, backend, needs_pods

sys.path.insert(0, str(ROOT / "tests/helm"))
from chart import CHART, render, rendered  # noqa: E402
from test_objects import argument  # noqa: E402


@pytest.fixture(scope="module")
def net():
    with network(SHOP, HOST) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with injector(tmp_path_factory.mktemp("injector")) as made:
        yield made


class Load(threading.Thread):
    """An API server: it keeps connections for some reviews, and expects an answer to each."""

    def __init__(self, running):
        super().__init__()
        self.running, self.ended, self.failed = running, threading.Event(), []
        self.seen = {}  # certificate: answers under it

    def run(self):
        try:
            while not self.ended.is_set():
                with self.running.connect() as connection:
                    for _ in range(3):
                        asked = review_of(pod(annotations=EMPTY_DIR))
                        status, _, body = connection.ask(asked)
                        assert status == 200
                        made = patched(asked["request"]["object"], response_in(body, asked))
                        assert sidecar_of(made)["name"] == "recourse"
                    known = connection.certificate
                    self.seen[known] = self.seen.get(known, 0) + 1
        except Exception as error:  # a thread must not lose it
            self.failed.append(repr(error))


def test_a_certificate_is_renewed_under_load_and_no_question_fails(tmp_path):
    """The kubelet swaps the directory of the Secret; the CA stays, as with cert-manager."""
    maker = Maker(tmp_path / "ca")

    def issued(name):
        made = maker.issue(name, san=f"DNS:{HOST}")
        return {"tls.crt": made.cert.read_text(), "tls.key": made.key.read_text()}

    template = template_of(chart_of("{}"))
    with Injector(tmp_path / "one", template, issued("1"), maker.cert.read_text()) as running:
        loads = [Load(running) for _ in range(3)]
        for load in loads:
            load.start()
        try:
            for number in range(2, 6):
                running.tls.swap(issued(str(number)))
                running.until(lambda: all(
                    len(load.seen) >= number or load.failed for load in loads))  # noqa: B023
            # Files that do not belong together, as in the middle of a swap by hand.
            both = issued("6")
            running.tls.swap({**both, "tls.crt": issued("7")["tls.crt"]})
            running.until(lambda: "keeps its certificate" in running.log.read_text())
            running.tls.swap(both)
            running.until(lambda: all(len(load.seen) >= 6 or load.failed for load in loads))
        finally:
            for load in loads:
                load.ended.set()
            for load in loads:
                load.join(STOP_MAX)
        assert [load.failed for load in loads] == [[], [], []]


def test_the_end_of_the_certificate_is_told(tmp_path):
    maker = Maker(tmp_path / "ca")

    def until(year):
        made = maker.issue(year, san=f"DNS:{HOST}", valid=("20240101000000Z", f"{year}0101000000Z"))
        return {"tls.crt": made.cert.read_text(), "tls.key": made.key.read_text()}

    ends = {year: calendar.timegm((int(year), 1, 1, 0, 0, 0)) for year in ("2040", "2041")}
    template = template_of(chart_of("{}"))
    authority = maker.cert.read_text()
    with Injector(tmp_path / "one", template, until("2040"), authority) as running:
        assert running.certificate_end() == ends["2040"]
        running.tls.swap(until("2041"))
        running.until(lambda: running.certificate_end() == ends["2041"])


def test_a_new_template_is_taken_wholly_or_not_at_all(tmp_path):
    with injector(tmp_path / "one") as running:

        def level():
            made, _ = running.injected(pod(annotations=EMPTY_DIR))
            return argument(sidecar_of(made), "--log-level")

        def reloads(result):
            line = f'recourse_inject_template_reloads_total{{result="{result}"}} '
            return line in running.probe("/metrics")[1] and re.search(
                re.escape(line) + "[1-9]", running.probe("/metrics")[1])  # fmt: skip

        assert level() == "info"
        louder = template_of(render(VALUES, {"logLevel": "debug"}))
        running.template.swap({"template.json": louder})
        running.until(lambda: level() == "debug")
        broken = json.loads(louder)
        broken["initContainers"][0]["restartPolicy"] = "Never"
        running.template.swap({"template.json": json.dumps(broken)})
        running.until(lambda: reloads("refused"))
        assert level() == "debug" and "needs restartPolicy Always" in running.log.read_text()


def test_it_answers_while_it_drains_and_ends_at_a_second_signal(tmp_path):
    with injector(tmp_path / "one", arguments=["--drain-timeout", "1h"]) as running:
        with running.connect() as kept:
            assert kept.ask(review_of(pod(inject=None)))[0] == 200
            running.signal()
            running.until(lambda: running.probe("/readyz")[0] == 503)
            assert running.probe("/healthz")[0] == 200
            status, headers, _ = kept.ask(review_of(pod(inject=None)))
            assert (status, headers["Connection"]) == (200, "close")
        assert running.review(pod(annotations=EMPTY_DIR))["patch"]
        running.signal()
        assert running.process.wait(STOP_MAX) == 0, running.log.read_text()


def test_it_ends_by_itself_when_it_has_drained(tmp_path):
    with injector(tmp_path / "one", arguments=["--drain-timeout", "200ms"]) as running:
        running.signal()
        assert running.process.wait(STOP_MAX) == 0
        assert '"stopped"' in running.log.read_text()


def good():
    return json.loads(template_of(chart_of("{}")))


@pytest.mark.parametrize("changes,said", [
    ({"version": 2}, "version is not 1"), ({"volumes": None}, "volumes is not a list of objects"),
    ({"agentEnv": [{}]}, "agentEnv is not a list of objects with a name each"),
    ({"labels": []}, "labels is not an object"), ({"ledger": "nfs"}, "neither 'pvc' nor one of"),
    ({"extra": 1}, "extra is not one of its members: version initContainers"),
    ({"initContainers": []}, "has no container 'recourse'"),
    ({"volumes": []}, "has no 'recourse-policy' with a configMap"),
    ({"terminationGracePeriodSeconds": 1.5}, "is not a whole number"),
    ({"ledgers": {"emptyDir": {"name": "x"}}}, "not a volume with the name 'recourse-ledger'"),
])  # fmt: skip
def test_a_template_that_cannot_be_used_is_refused_at_the_start(changes, said, tmp_path):
    path = tmp_path / "template.json"
    path.write_text(json.dumps({**good(), **changes}))
    done = run_cli("inject", "--template", path, "--tls-cert", "x", "--tls-key", "y")
    assert done.returncode == 2 and f"--template: {path}: " in done.stderr and said in done.stderr


def test_what_it_cannot_start_with_is_told(tmp_path):
    path = tmp_path / "template.json"
    tls = ["--tls-cert", tmp_path / "no.crt", "--tls-key", tmp_path / "no.key"]
    done = run_cli("inject", "--template", path, *tls)
    assert done.returncode == 2 and f"--template: cannot open {path}" in done.stderr
    path.write_text("{")
    assert "is no JSON" in run_cli("inject", "--template", path, *tls).stderr
    path.write_text(template_of(chart_of("{}")))
    done = run_cli("inject", "--template", path, *tls)
    assert done.returncode == 2 and "no.crt holds no readable certificate" in done.stderr
    assert run_cli("inject", "--template", path).returncode == 2


def test_its_metrics_are_those_of_its_readme(running):
    told = (ROOT / "proxy/inject/README.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", told, re.MULTILINE))
    said = running.probe("/metrics")[1]
    assert dict(re.findall(r"^# TYPE (\w+) (\w+)$", said, re.MULTILINE)) == documented
    results = set(re.findall(r'reviews_total{result="(\w+)"}', said))
    row = re.search(r"recourse_inject_reviews_total` .*", told)[0].split("|")
    assert results == set(re.findall(r"`(\w+)`", row[2])) - {"result"}


def test_its_log_names_the_pod_and_nothing_that_is_in_it(tmp_path):
    with injector(tmp_path / "one") as running:
        secret = [{"name": "TOKEN", "value": "canary-7f3a"}]
        agent = {"name": "a", "image": "a", "env": secret}
        running.injected(pod(annotations=EMPTY_DIR, containers=[agent]))
        running.refusal(pod("StatefulSet"))
        lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    told = {one["result"]: one for one in lines if one["msg"] == "review"}
    assert told["injected"]["pod"] == "shop/agent-5d8c6b7f9b-*"
    assert told["refused"]["pod"] == "shop/agent-0"
    assert "volumeClaimTemplate" in told["refused"]["reason"]
    assert "canary" not in running.log.read_text()


def test_what_a_controller_does_not_show_is_in_the_log_and_counted(tmp_path):
    """It drops the warnings that it gets for its pods."""
    env = [{"name": "NO_PROXY", "value": "models.example"}]
    with injector(tmp_path / "one") as running:
        assert running.metric("recourse_inject_warnings_total") == 0
        agent = {"name": "a", "image": "a", "env": env}
        _, warnings = running.injected(pod(annotations=EMPTY_DIR, containers=[agent]))
        assert running.metric("recourse_inject_warnings_total") == len(warnings) == 2
        lines = [json.loads(line) for line in running.log.read_text().splitlines()]
    (told,) = [one for one in lines if one["msg"] == "review"]
    assert (told["level"], told["warnings"]) == ("warn", "; ".join(warnings))
    assert "container a sets NO_PROXY itself" in told["warnings"]
    assert "executed again" in told["warnings"] and "models.example" not in told["warnings"]


@pytest.mark.skipif(not MEASURABLE, reason="sanitizers need memory of their own")
def test_reviews_of_large_pods_stay_within_the_memory_that_the_chart_gives(tmp_path):
    """As many connections as there may be, each with all of a review but its last byte."""
    limit = rendered("injector-values").one("Deployment", "-injector")["spec"]["template"]["spec"][
        "containers"][0]["resources"]["limits"]["memory"]  # fmt: skip
    large = json.dumps(review_of(pod(annotations={**EMPTY_DIR, "note": "x" * 3_400_000}))).encode()
    head = b"POST /mutate HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(large)
    with injector(tmp_path / "one") as running:
        crowd = []
        for _ in range(33):
            crowd.append(running.connect())
            assert crowd[-1].ask(review_of(pod(inject=None)))[0] == 200
        assert crowd[0].http.sock.recv(1) == b"", "the one that has waited longest gave way"
        answers = []
        for part in (head + large[:-1], large[-1:]):
            for one in crowd[1:]:
                with contextlib.suppress(OSError):  # its idle time may be over
                    one.http.sock.sendall(part)
                    answers.append(one.http.sock.recv(15) if part == large[-1:] else b"")
        assert b"HTTP/1.1 200 OK" in answers
        status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
        most = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
        assert most < int(limit.removesuffix("Mi")) * 1024 * 3 // 4, (most, limit)


# --- in a pod ------------------------------------------------------------------------------------


@needs_pods
def test_the_chart_runs_an_injector_without_rights(net, tmp_path):
    out = rendered("injector-issued-values")
    node = Node(tmp_path, net, out.objects, {"shop-recourse-injector-tls": CERTIFICATE})
    ((_, own),) = [one for one in out.pods() if one[0].endswith("-injector")]
    (container,) = own["spec"]["containers"]
    with RunningPod(node, "injector", own) as running:
        running.sidecar_container, running.sidecar = container, running.run(container)
        running.await_probe(container["readinessProbe"])
        assert running.probe(container["livenessProbe"]) == 200
        running.sidecar.signal(signal.SIGTERM)
        running.await_probe(container["readinessProbe"], 503)
        running.sidecar.signal(signal.SIGTERM)
        assert running.sidecar.wait() == 0, running.sidecar.said()


@needs_pods
def test_helm_test_asks_the_injector(net, tmp_path):
    """By the name of its Service, whose port is that of the pod here."""
    alone = {"injector": {**GIVEN, "objects": {"missing": "ignore"}}}
    out = render(CHART / "ci/injector-values.yaml", alone)
    node = Node(tmp_path, net, out.objects, {"webhook-tls": CERTIFICATE})
    pods = dict(out.pods())
    own, test = pods["shop-recourse-injector"], pods["shop-recourse-test-inject"]
    (container,) = own["spec"]["containers"]
    volumes = node.volumes("injector", own, [])
    process = node.start(container, own, volumes, namespace=net.tools)
    try:
        process.await_said('"ready"')
        with RunningPod(node, "test", test) as running:
            (asker,) = test["spec"]["containers"]
            (url,) = asker["env"]
            assert url == {"name": "URL", "value": f"https://{HOST}/mutate"}
            changed = [{"name": "URL", "value": f"https://{HOST}:19443/mutate"}]
            asked = running.agent(env=changed)
            assert asked.wait() == 0, asked.said()
            assert "the injector adds: recourse\n" in asked.said()
    finally:
        process.kill()


def bare_agent():
    """The demo's agent as somebody's Deployment has it: without a part of Recourse."""
    demo = rendered("default-values").one("StatefulSet", "-agent")["spec"]["template"]["spec"]
    (agent,) = demo["containers"]
    own = [one for one in agent["env"] if one["name"] == "SHOP"]
    # One order: the next one is far beyond the test.
    agent = {**agent, "env": [*own, {"name": "EVERY_SECONDS", "value": "36000"}]}
    volumes = [one for one in demo["volumes"] if one["name"] == "demo"]
    return {"containers": [agent], "volumes": volumes}


def namespace_of_agents(net, tmp_path):
    """(objects of the demo, a node) with the ConfigMap and the Secret that injected pods mount."""
    demo = rendered("default-values")
    policy = {"recourse-policy": demo.one("ConfigMap", "-policy")["data"]}
    secrets = {"recourse-admin": {"token": TOKEN}}
    return demo, Node(tmp_path, net, demo.objects, secrets, policy)


@needs_pods
@pytest.mark.parametrize("ledger", ["emptyDir", "ephemeral"])
@pytest.mark.parametrize("is_redirected", [False, True])
def test_an_injected_agent_orders_once(ledger, is_redirected, net, tmp_path):
    """The pod of somebody's Deployment, and what the patch makes of it."""
    asked = pod(annotations={"recourse.dev/ledger": ledger}, **bare_agent())
    values = {"redirect": {"enabled": is_redirected}, "interception": {"enabled": is_redirected}}
    with injector(tmp_path / "injector", values) as running:
        made, _ = running.injected(asked)
    demo, node = namespace_of_agents(net, tmp_path)
    with backend(demo, node) as shop, RunningPod(node, "agent", made) as running:
        agent = running.agent()
        agent.await_said("asked twice, ordered once: order-1 (trace ")
        assert shop.said().count("a new order:") == 1
        code, said = running.exec("events", "list")
        assert code == 0 and said.count("SUCCEEDED") == 1, said
        assert agent.end() == 0, agent.said()
        assert running.sidecar.end() == 0, running.sidecar.said()


@needs_pods
def test_the_claim_of_a_statefulset_remembers_for_the_next_pod_and_no_other_has_it(net, tmp_path):
    parts = bare_agent()
    parts["volumes"].append(claim())
    with injector(tmp_path / "injector") as running:
        made, warnings = running.injected(pod("StatefulSet", **parts))
    assert warnings == []
    demo, node = namespace_of_agents(net, tmp_path)
    with backend(demo, node):
        with RunningPod(node, "agent-0", made) as running:
            running.agent().await_said("ordered once: order-1")
            second = RunningPod(node, "agent-0", made)
            refused = second.run(impatient(running.sidecar_container))
            assert refused.wait() == 78, refused.said()
            running.sidecar.kill()  # as a node that is lost
        with RunningPod(node, "agent-0", made) as running:
            code, said = running.exec("events", "list")
            assert code == 0 and said.count("SUCCEEDED") == 1, said
            assert running.sidecar.end() == 0, running.sidecar.said()
