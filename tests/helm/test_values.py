"""Values: typos are refused with words that help, and each value does what its comment says."""

import json
import re

import chart_values
import pytest
import yaml
from chart import CASES, CHART, HERE, ROOT, Refused, render, rendered
from test_objects import argument

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
README = CHART / "README.md"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("values,said", [
    ({"polcy": {}}, "at '': additional properties 'polcy' not allowed"),
    ({"store": {"tpye": "pvc"}}, "at '/store': additional properties 'tpye' not allowed"),
    ({"metrics": {"podMonitor": {"enable": True}}}, "additional properties 'enable' not allowed"),
    ({"store": {"type": "nfs"}}, "'/store/type': value must be one of 'pvc'"),
    ({"store": {"size": "4GB"}}, "at '/store/size': '4GB' does not match pattern"),
    ({"redirect": {"enabled": "yes"}}, "at '/redirect/enabled': got string, want boolean"),
    ({"ports": {"proxy": 80}}, "at '/ports/proxy': minimum: got 80, want 1,024"),
    ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match pattern"),
    ({"extraArgs": ["threads=2"]}, "at '/extraArgs/0': 'threads=2' does not match pattern"),
    ({"demo": {"enabled": False}}, "there is no policy: set policy.inline"),
    ({"policy": {"inline": "version: 1", "existingConfigMap": "mine"}}, "choose one of them"),
    ({"drainSeconds": 55}, "must be at least drainSeconds (55) + 10"),
    ({"store": {"type": "existingClaim"}}, "name the claim in store.existingClaim"),
    ({"store": {"type": "existingClaim", "existingClaim": "one"}, "demo": {"replicas": 2}},
     "each pod needs a ledger of its own"),
    ({"ledger": {"url": "mysql://db/x"}}, "at '/ledger/url': 'mysql://db/x' does not match"),
    ({"ledger": {"url": "postgres://db/recourse"}, "installSecret": "one"},
     "name the Secrets that they share, ledgerKeySecret and installSecret"),
    ({"steward": {"enabled": True}}, "steward.enabled is for a ledger that pods share"),
    ({"steward": {"nodeSelector": {"pool": 1}}}, "at '/steward/nodeSelector/pool': got number"),
    ({"console": {"enabled": True, "tlsSecret": "tls"}}, "name its ledgers, console.ledgers"),
    ({"console": {"enabled": True, "ledgers": {"eu": "https://eu"}}}, "console.tlsSecret"),
    ({"console": {"ledgers": {"eu": "http://eu:1"}}}, "'http://eu:1' does not match pattern"),
    ({"console": {"ledgers": {"EU": "https://eu"}}}, "'EU' does not match pattern"),
    ({"redirect": {"daemonSet": {"toleration": []}}},
     "at '/redirect/daemonSet': additional properties 'toleration' not allowed"),
    ({"injector": {"enabled": True}}, "set demo.enabled to false"),
    ({"injector": {"certificate": {"issuer": {}}}},
     "additional properties 'issuer' not allowed"),
    ({"injector": {"certificate": {"ca": "mine"}}},
     "certificate/ca': 'mine' does not match pattern"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_the_reason(values, said):
    with pytest.raises(Refused, match=re.escape(said)):
        render(values)


def test_a_typo_is_refused_where_the_chart_is_a_dependency_too():
    with pytest.raises(Refused, match="additional properties 'tpye' not allowed"):
        render({"recourse": {"store": {"tpye": "pvc"}}}, chart=HERE / "parent", subcharts=[CHART])


def walk(schema, values, path=""):
    """(path, schema, value) of every value that has a default."""
    for key, value in values.items():
        here = f"{path}.{key}" if path else key
        below = schema["properties"][key]
        yield here, below, value
        if isinstance(value, dict) and "properties" in below:
            yield from walk(below, value, here)


def closed(schema, path=""):
    """Paths of the objects that take any key although they list some."""
    for key, below in schema.get("properties", {}).items():
        yield from closed(below, f"{path}.{key}")
    if "properties" in schema and schema.get("additionalProperties") is not False:
        yield path


def test_schema_and_values_know_the_same_words_and_no_other():
    assert list(closed(SCHEMA)) == []
    found = dict((path, schema) for path, schema, _ in walk(SCHEMA, VALUES))
    for path, schema in found.items():
        below = set(schema.get("properties", {}))
        named = {one.rpartition(".")[2] for one in found if one.rpartition(".")[0] == path}
        assert below == named, f"{path}: a value without default, or a default without schema"
    assert set(SCHEMA["properties"]) - {"global"} == set(VALUES)


def text_of_templates():
    paths = (CHART / "templates").rglob("*")
    return "\n".join(path.read_text() for path in paths if path.is_file())


def test_no_value_is_dead():
    text = text_of_templates()
    for path, schema, value in walk(SCHEMA, VALUES):
        if not (isinstance(value, dict) and "properties" in schema):
            name = path.rpartition(".")[2]
            whole = "." + path.rpartition(".")[0]  # `resources` is printed as a whole
            assert re.search(rf"\.{name}\b", text) or f"with .Values{whole} }}}}" in text, path


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_complete_and_says_nothing_unfinished(case):
    out = rendered(case)
    for wrong in ("<no value>", "<nil>", "%!", "map["):
        assert wrong not in out.text + out.notes, wrong
    assert not re.search(r"[ \t]$", out.notes, re.MULTILINE)


def test_the_notes_tell_the_next_command_and_warn():
    default, volatile, durable, library = (
        rendered(f"{name}-values").notes for name in ("default", "volatile", "durable", "library")
    )
    assert "create secret generic shop-recourse-admin" in default
    assert "--set admin.tokenSecret=shop-recourse-admin" in default
    assert "helm -n agents test shop" in default and "store.expectLedger=1" in default
    assert "WARNING: store.type is emptyDir" in volatile and "AGAIN" in volatile
    assert "create secret generic shop-recourse-install --from-literal=secret=" in volatile
    assert "-c recourse -- recourse events list" in volatile
    assert "port-forward shop-recourse-agent-0 19081" in volatile
    assert "WARNING" not in default + library and "emptyDir" not in default + durable + library
    assert "NetworkPolicy holds for whole pods" in durable
    assert "does not serve monitoring.coreos.com/v1" in durable
    with_operator = render(CHART / "ci/durable-values.yaml", existing=[])
    assert "does not serve" not in with_operator.notes
    assert "ReadWriteOnce two pods on one node" in library
    assert "Your own agents" in library
    mine = render({"policy": {"inline": "version: 1"}}).notes
    assert "the backend http://shop-recourse-backend" in mine and "backend http" not in default
    assert "## Your own agents" in (ROOT / "helm/README.md").read_text()


def test_redirect_and_interception_are_off_unless_asked_for():
    for case in ("default-values", "durable-values", "volatile-values"):
        text = rendered(case).text
        assert "NET_ADMIN" not in text and "recourse-redirect" not in text
        assert "--redirect" not in text
        assert "--ca" not in text and "SSL_CERT_FILE" not in text


def test_redirect_excludes_the_user_that_the_sidecar_runs_as():
    out = render({
        "redirect": {"enabled": True, "ports": "all"},
        "runAs": {"user": 20001, "group": 20002},
        "ports": {"redirect": 29083},
    })
    for _, pod, sidecar in out.sidecar_pods():
        install = pod["spec"]["initContainers"][0]
        assert install["args"] == ["redirect", "install", "--uid=20001", "--port=29083",
                                   "--ports=all"]  # fmt: skip
        assert sidecar["securityContext"]["runAsUser"] == 20001
        assert pod["spec"]["securityContext"]["fsGroup"] == 20002
        assert argument(sidecar, "--redirect") == "29083"
        names = {one["name"] for one in pod["spec"]["containers"][0]["env"]}
        assert not names & {"HTTP_PROXY", "NO_PROXY"}, "the kernel leads them"


def test_a_node_writes_the_rules_for_pods_without_rights():
    out = rendered("redirect-node-values")
    for _, pod, sidecar in out.sidecar_pods():
        wait = pod["spec"]["initContainers"][0]
        assert wait["args"] == ["redirect", "await", "--uid=19080", "--port=19083",
                                "--ports=80,443"]  # fmt: skip
        # Its own connection must not be left alone, as the sidecar's are.
        assert wait["securityContext"]["runAsUser"] == 19081
        assert wait["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert argument(sidecar, "--redirect") == "19083"
    assert out.one("DaemonSet", "-redirect")["spec"]["template"]["spec"]["hostPID"]
    assert not rendered("redirect-values").all("DaemonSet")


def test_platform_teams_place_and_name_whatever_pod_is_not_an_agent():
    """The injector's: test_injector.py."""
    ledger, node = rendered("ledger-values"), rendered("redirect-node-values")
    for out, kind, name, values in (
        (ledger, "Deployment", "-steward", ["steward"]),
        (ledger, "Job", "-migration", ["ledger", "migration"]),
        (node, "DaemonSet", "-redirect", ["redirect", "daemonSet"]),
    ):
        set_ = yaml.safe_load((CHART / f"ci/{CASE_OF[kind]}.yaml").read_text())
        for key in values:
            set_ = set_[key]
        pod = out.one(kind, name)["spec"]["template"]
        assert set_["podLabels"].items() <= pod["metadata"]["labels"].items()
        assert set_["podAnnotations"].items() <= pod["metadata"]["annotations"].items()
        for key in PLACES & set(set_):
            assert pod["spec"][key] == set_[key], (name, key)
        assert pod["spec"]["automountServiceAccountToken"] is False
    for out, kind, name, account in ((ledger, "Deployment", "-steward", "shop-recourse-steward"),
                                     (node, "DaemonSet", "-redirect", "redirect")):  # fmt: skip
        assert out.one(kind, name)["spec"]["template"]["spec"]["serviceAccountName"] == account
        (made,) = out.all("ServiceAccount")
        assert made["metadata"]["name"] == account and not made["automountServiceAccountToken"]
    steward = ledger.one("Deployment", "-steward")["spec"]["template"]["metadata"]
    assert "recourse.dev/sidecar" in steward["labels"], "ours stay beside theirs"
    assert "traffic.sidecar.istio.io/excludeInboundPorts" in steward["annotations"]


def test_nobody_places_pods_unasked_but_the_one_of_each_node():
    out = render({"ledger": {"url": "postgres://db/recourse"}, "ledgerKeySecret": "keys",
                  "installSecret": "install", "steward": {"enabled": True},
                  "redirect": {"enabled": True, "node": True}})  # fmt: skip
    (node,) = out.all("DaemonSet")
    spec = node["spec"]["template"]["spec"]
    # Also nodes that others have to leave.
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical"
    for _, pod in out.pods():
        asked = (PLACES | {"serviceAccountName"}) & set(pod["spec"])
        assert pod is node["spec"]["template"] or not asked
    assert not out.all("ServiceAccount")


PLACES = {"priorityClassName", "nodeSelector", "tolerations", "affinity",
          "topologySpreadConstraints"}  # fmt: skip
CASE_OF = {"Deployment": "ledger-values", "Job": "ledger-values",
           "DaemonSet": "redirect-node-values"}  # fmt: skip


def test_interception_makes_a_ca_in_memory_and_shows_agents_its_bundle_alone():
    for _, pod, sidecar in rendered("redirect-values").sidecar_pods():
        volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
        assert volumes["recourse-ca"]["emptyDir"]["medium"] == "Memory"
        mounts = {one["name"]: one["mountPath"] for one in sidecar["volumeMounts"]}
        assert argument(sidecar, "--ca") == mounts["recourse-ca"]
        bundles = [one.partition("=")[2] for one in sidecar["args"] if "--ca-bundle=" in one]
        assert [one.rpartition("/")[0] for one in bundles] == [mounts["recourse-trust"]] * 2
        agent = pod["spec"]["containers"][0]
        environment = {one["name"]: one["value"] for one in agent["env"]}
        assert environment["SSL_CERT_FILE"] == bundles[0]
        assert f"trustStore={bundles[1]} " in environment["JAVA_TOOL_OPTIONS"]
        (trust,) = [one for one in agent["volumeMounts"] if one["name"] == "recourse-trust"]
        assert trust == {"name": "recourse-trust", "mountPath": mounts["recourse-trust"],
                         "readOnly": True}  # fmt: skip
    for _, pod, _ in rendered("intercept-values").sidecar_pods():
        volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
        assert volumes["recourse-ca"]["secret"]["secretName"] == "agents-ca"


def test_an_image_is_named_by_its_digest_where_one_is_given():
    ((_, _, sidecar), *_) = rendered("durable-values").sidecar_pods()
    assert sidecar["image"].startswith("registry.example/platform/recourse@sha256:0123")
    ((_, _, sidecar), *_) = rendered("default-values").sidecar_pods()
    meta = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert sidecar["image"] == f"recourse:{meta['appVersion']}"
    source = (ROOT / "CMakeLists.txt").read_text()
    assert meta["appVersion"] == re.search(r"project\(\S+ VERSION ([\d.]+)", source).group(1)
    assert meta["kubeVersion"] == ">=1.29.0-0", "older ones drop a sidecar's restartPolicy"


def test_rendering_is_the_same_every_time():
    assert render(CHART / "ci/durable-values.yaml").text == rendered("durable-values").text


def test_values_yaml_explains_every_value_in_lines_of_its_columns():
    told = chart_values.explained()
    for path, schema, value in walk(SCHEMA, VALUES):
        if not (isinstance(value, dict) and "properties" in schema):
            assert any(path == one or path.startswith(one + ".") for one in told), path
    for line in (CHART / "values.yaml").read_text().splitlines():
        assert len(line) <= 120, line


def test_values_that_the_charts_readme_names_exist():
    known = {path for path, _, _ in walk(SCHEMA, VALUES)}
    named = set(re.findall(r"`(\w+\.[\w.]+?)(?:=\w+)?`", README.read_text())) - {"values.yaml"}
    assert len(named) > 10 and named <= known, named - known


def test_the_lines_for_your_own_agents_are_those_of_a_chart_that_is_rendered():
    chapter = (ROOT / "helm/README.md").read_text().partition("## Your own agents")[2]
    shown = chapter.partition("```yaml\n")[2].partition("```")[0].splitlines()
    real = (HERE / "parent/templates/agents.yaml").read_text().splitlines()
    assert len(shown) > 15 and set(shown) <= set(real)


def test_alerts_that_pages_name_exist():
    pages = ("helm/README.md", "proxy/docs/shared-ledger.md")
    text = "".join((ROOT / page).read_text() for page in pages)
    told = set(re.findall(r"\bRecourse[A-Z]\w+", text))
    rules = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    assert len(told) > 2 and told <= {one["alert"] for group in rules for one in group["rules"]}


def test_metrics_that_the_readme_names_exist():
    asked = r"count by \((\w+)\) \((recourse_\w+)\)"
    told = re.findall(asked, (ROOT / "helm/README.md").read_text())
    table = (ROOT / "proxy/telemetry/metric_table.cpp").read_text()
    assert len(told) > 1
    for label, name in told:
        assert re.search(rf'"{name}", Type::\w+, "(\w+ )*{label}\b', table), name


def test_the_page_names_what_meshes_are_told():
    page = (ROOT / "helm/README.md").read_text()
    ((_, pod, _), *_) = rendered("default-values").sidecar_pods()
    told = [one for one in pod["metadata"]["annotations"] if "istio" in one or "linkerd" in one]
    assert len(told) == 2 and all(f"`{one}`" in page for one in told)


def test_aliases_of_the_chart_get_in_nobodys_way():
    """Two kinds of agents in one release, each with a policy, claims and metrics of its own."""
    own = {"demo": {"enabled": False}, "metrics": {"podMonitor": {"enabled": True}},
           "networkPolicy": {"enabled": True}, "policy": {"inline": "version: 1"}}  # fmt: skip
    out = render({"recourse": own, "mailer": own}, chart=HERE / "parent",
                 subcharts=[CHART, f"mailer={CHART}"])  # fmt: skip
    names = [(one["kind"], one["metadata"]["name"]) for one in out.objects]
    assert len(set(names)) == len(names)
    assert {("ConfigMap", "shop-recourse-policy"), ("ConfigMap", "shop-mailer-policy")} < set(names)
    selected = [one["spec"]["selector"]["matchLabels"] for one in out.all("PodMonitor")]
    assert len(selected) == 2 and selected[0] != selected[1]


def test_values_that_readme_and_notes_set_exist():
    texts = [ROOT / "helm/README.md", CHART / "templates/NOTES.txt"]
    found = set()
    for path in texts:
        for name in re.findall(r"--set(?:-file)? ([\w.]+)=", path.read_text()):
            found.add(name.removeprefix("recourse."))
    assert len(found) > 2
    assert found <= {path for path, _, _ in walk(SCHEMA, VALUES)}
