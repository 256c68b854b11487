"""The alert rules of the injector: valid, about metrics that exist, in the chart where one runs."""

import re

import pytest
import yaml

from support.injector import chart_of
from support.prometheus import promtool
from support.recourse import ROOT

ALERTS = ROOT / "helm/recourse/files/injector_alerts.yaml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]

# A sample every minute, for two hours; the clock of promtool begins at 0.
END = "recourse_inject_certificate_end_timestamp_seconds"
REFUSED_TEMPLATES = 'recourse_inject_template_reloads_total{result="refused"}'
API_FAILURES = "recourse_inject_api_failures_total"
REVIEWS = 'recourse_inject_reviews_total{{result="{}"}}'
HEALTHY = {
    END: f"{30 * 86400}x120", REFUSED_TEMPLATES: "2x120",
    REVIEWS.format("refused"): "7x120", REVIEWS.format("bad"): "1x120",
    REVIEWS.format("injected"): "0+5x120", API_FAILURES: "3x120",
}  # fmt: skip
BROKEN = [
    ("RecourseNoInjector", {END: f"{30 * 86400}x110 stale"}),
    ("RecourseInjectorCertificateEnds", {END: f"{14 * 86400 + 600}x120"}),
    ("RecourseInjectorTemplateRefused", {REFUSED_TEMPLATES: "2x115 3x5"}),
    ("RecourseInjectorRefusesPods", {REVIEWS.format("refused"): "0+1x120"}),
    ("RecourseInjectorRefusesPods", {REVIEWS.format("bad"): "0+1x120"}),
    ("RecourseInjectorCannotAsk", {API_FAILURES: "0+1x120"}),
]


def firing(series, expected, tmp_path):
    """Fails unless these alerts fire, and no other, when the clock is at two hours."""
    seen = 'count by (alertname) (ALERTS{alertstate="firing"})'
    told = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": k, "values": v} for k, v in series.items()],
            "promql_expr_test": [{"expr": seen, "eval_time": "120m", "exp_samples": told}],
        }],
    }  # fmt: skip
    path = tmp_path / "rules_test.yaml"
    path.write_text(yaml.safe_dump(test))
    promtool("test", "rules", path)


def test_the_rules_are_valid_and_about_documented_metrics_and_say_what_to_do():
    assert "SUCCESS" in promtool("check", "rules", ALERTS)
    assert {rule["alert"] for rule in RULES} == {name for name, _ in BROKEN}
    documented = (ROOT / "proxy/inject/README.md").read_text()
    for rule in RULES:
        (name,) = set(re.findall(r"recourse_\w+", rule["expr"]))
        assert f"`{name}`" in documented
        assert ";" in rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_no_alert_fires_while_all_is_well(tmp_path):
    firing(HEALTHY, [], tmp_path)


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_an_alert_fires_for_its_reason_and_no_other_does(number, tmp_path):
    alert, broken = BROKEN[number]
    assert set(broken) <= set(HEALTHY)
    firing({**HEALTHY, **broken}, [alert], tmp_path)


def test_the_chart_brings_them_with_an_injector():
    out = chart_of('{"metrics": {"rules": {"enabled": true}}}')
    (rules,) = out.all("PrometheusRule")
    names = [group["name"] for group in rules["spec"]["groups"]]
    assert names == ["recourse", "recourse-injector"]
    assert rules["spec"]["groups"][1]["rules"] == RULES
