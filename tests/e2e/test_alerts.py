"""The alert rules and the dashboard of the chart: valid, and about metrics that exist."""

import json
import re

import pytest
import yaml

from support.prometheus import promtool
from support.recourse import ROOT
from test_metrics import table

ALERTS = ROOT / "helm/recourse/files/alerts.yaml"
DASHBOARD = ROOT / "helm/recourse/files/dashboard.json"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]

# A sample every minute, for an hour and a half; the clock of promtool begins at 0.
HEALTHY = {
    "recourse_event_oldest_pending_timestamp_seconds": "0x90",
    'recourse_events{phase="UNCERTAIN"}': "0x90",
    "recourse_flows_parked": "0x90",
    "recourse_flows_stopped": "0x90",
    "recourse_flows_parked_oldest_timestamp_seconds": "0x90",
    'recourse_undos_total{tool="pay",result="stuck"}': "3x90",
    'recourse_undos_total{tool="pay",result="again"}': "3x90",
    "recourse_approvals_pending": "0x90",
    "recourse_store_full": "0x90",
    "recourse_store_map_used_bytes": "10x90",
    "recourse_store_map_size_bytes": "100x90",
    "recourse_store_free_bytes": "90x90",
    "recourse_store_reserve_bytes": "1x90",
    "recourse_store_latched": "0x90",
    "recourse_store_index_failing": "0x90",
    "recourse_store_restored": "0x90",
    "recourse_ledger_up": "1x90",
    "recourse_ledger_second_effects_total": "0x90",
    "recourse_ledger_orphaned_work": "0x90",
    "recourse_ledger_async_standbys": "0x90",
    'recourse_unguarded_connections_total{backend="pay"}': "2x90",
    'recourse_policy_reloads_total{result="refused"}': "2x90",
    "recourse_policy_orphaned_operations": "0x90",
    'recourse_webhooks_total{result="failed"}': "1x90",
    'recourse_webhooks_total{result="taken"}': "0+1x90",
    "recourse_access_log_lines_dropped_total": "0x90",
    'recourse_overload_rejections_total{reason="writes"}': "4x90",
    'recourse_overload_rejections_total{reason="tls"}': "0+9x90",
    'recourse_observed_dropped_total{reason="too-many"}': "0x90",
    'recourse_trace_spans_total{result="exported"}': "0+5x90",
    'recourse_trace_spans_total{result="dropped"}': "7x90",
}
# A shared ledger has no file that it might fill.
SHARED = {"recourse_store_map_size_bytes": "0x90", "recourse_store_free_bytes": "0x90",
          "recourse_store_reserve_bytes": "0x90"}  # fmt: skip
# What makes each of them fire, in place of the same series above.
BROKEN = {
    "RecourseOperationPendingForLong": {"recourse_event_oldest_pending_timestamp_seconds": "60x90"},
    "RecourseOutcomeUnknown": {'recourse_events{phase="UNCERTAIN"}': "2x90"},
    "RecourseFlowNeedsHuman": {"recourse_flows_parked": "1x90"},
    "RecourseFlowStopped": {"recourse_flows_stopped": "1x90"},
    "RecourseFlowWaitsForLong": {"recourse_flows_parked_oldest_timestamp_seconds": "60x90"},
    "RecourseCallsWaitForApproval": {"recourse_approvals_pending": "1x90"},
    "RecourseUndoStuck": {'recourse_undos_total{tool="pay",result="stuck"}': "0x80 1x10"},
    "RecourseUndoKeepsFailing": {'recourse_undos_total{tool="pay",result="again"}': "0+1x90"},
    "RecourseLedgerNearlyFull": {"recourse_store_map_used_bytes": "81x90"},
    "RecourseLedgerLatched": {"recourse_store_latched": "0x80 1x10"},
    "RecourseKeyIndexNotWritten": {"recourse_store_index_failing": "1x90"},
    "RecourseLedgerDown": {"recourse_ledger_up": "1x80 0x10"},
    "RecourseSecondEffect": {"recourse_ledger_second_effects_total": "0x85 1x5"},
    "RecourseWorkOrphaned": {"recourse_ledger_orphaned_work": "1x90"},
    "RecourseLedgerReplicatesAsynchronously": {"recourse_ledger_async_standbys": "1x90"},
    "RecourseLedgerRestored": {"recourse_store_restored": "1x90"},
    "RecourseIsBypassed": {
        'recourse_unguarded_connections_total{backend="pay"}': "2x85 3x5"
    },
    "RecoursePolicyReloadFailed": {'recourse_policy_reloads_total{result="refused"}': "0x85 1x5"},
    "RecoursePolicyLeftOperationsBehind": {"recourse_policy_orphaned_operations": "1x90"},
    "RecourseWebhookFailing": {'recourse_webhooks_total{result="failed"}': "0+1x90",
                               'recourse_webhooks_total{result="taken"}': "5x90"},
    "RecourseAccessLogDropsLines": {"recourse_access_log_lines_dropped_total": "0+1x90"},
    "RecourseRefusesForOverload": {'recourse_overload_rejections_total{reason="writes"}': "0+1x90"},
    "RecourseNotRecordingInObserveMode": {
        'recourse_observed_dropped_total{reason="too-many"}': "0+1x90"
    },
    "RecourseTracesLost": {'recourse_trace_spans_total{result="dropped"}': "0+1x90"},
}  # fmt: skip
ALSO = [  # other reasons of the same alert
    ("RecourseLedgerNearlyFull", {"recourse_store_full": "1x90"}),
    ("RecourseLedgerNearlyFull", {"recourse_store_reserve_bytes": "30x90"}),
]


def names_in(text):
    """The metrics that an expression reads."""
    found = set(re.findall(r"\b(?:recourse|process)_[a-z_]+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def firing(series, expected, tmp_path):
    """Fails unless these alerts fire, and no other, when the clock is at 90 minutes."""
    samples = [{"alertname": name, "alertstate": "firing"} for name in expected]
    seen = 'count by (alertname, alertstate) (ALERTS{alertstate="firing"})'
    told = [
        {"labels": "{" + ",".join(f'{k}="{v}"' for k, v in one.items()) + "}", "value": 1}
        for one in samples
    ]
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": k, "values": v} for k, v in series.items()],
            "promql_expr_test": [{"expr": seen, "eval_time": "90m", "exp_samples": told}],
        }],
    }  # fmt: skip
    path = tmp_path / "rules_test.yaml"
    path.write_text(yaml.safe_dump(test))
    promtool("test", "rules", path)


def test_the_rules_are_valid_and_each_says_what_to_do():
    assert "SUCCESS" in promtool("check", "rules", ALERTS)
    assert {rule["alert"] for rule in RULES} == set(BROKEN)
    for rule in RULES:
        said = rule["annotations"]["summary"]
        assert said.startswith("{{ $labels.instance }}: "), rule["alert"]
        assert ";" in said or "`recourse " in said, f"{rule['alert']} names no next step"
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        whole = said + rule["annotations"].get("description", "")
        filled = set(re.findall(r"\{\{ (.*?) \}\}", whole))
        assert filled <= {"$labels.instance", "$labels.tool", "$labels.backend", "$labels.reason",
                          "$value", "humanizeDuration $value"}, rule["alert"]  # fmt: skip


def test_no_alert_fires_while_all_is_well(tmp_path):
    firing(HEALTHY, [], tmp_path)
    firing({**HEALTHY, **SHARED}, [], tmp_path)


@pytest.mark.parametrize("alert,broken", [*BROKEN.items(), *ALSO])
def test_an_alert_fires_for_its_reason_and_no_other_does(alert, broken, tmp_path):
    assert set(broken) <= set(HEALTHY)
    firing({**HEALTHY, **broken}, [alert], tmp_path)


def test_a_summary_tells_how_long_and_how_many(tmp_path):
    test = f"""
rule_files: [ "{ALERTS}" ]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{ series: 'recourse_flows_parked{{instance="pod-1:19082"}}', values: 2x10 }}
    alert_rule_test:
      - alertname: RecourseFlowNeedsHuman
        eval_time: 5m
        exp_alerts:
          - exp_labels: {{ severity: critical, instance: "pod-1:19082" }}
            exp_annotations:
              summary: >-
                pod-1:19082: 2 flows broke and need a human; see `recourse flows list --parked`,
                then `recourse flows retry`, `resolve` or `close`
              description: What they did at the backends still stands, wholly or in part.
"""
    path = tmp_path / "one_test.yaml"
    path.write_text(test)
    promtool("test", "rules", path)


def expressions_of(board):
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    found += [entry["expr"] for entry in board["annotations"]["list"]]
    variables = board["templating"]["list"]
    return found + [entry["definition"] for entry in variables if "definition" in entry]


def test_the_dashboard_is_whole_and_its_expressions_parse(tmp_path):
    board = json.loads(DASHBOARD.read_text())
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    places = {}
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])):  # fmt: skip
            assert places.setdefault(cell, panel["title"]) == panel["title"], "panels overlap"
        assert panel["type"] == "row" or panel["targets"], panel["title"]
    variables = {entry["name"] for entry in board["templating"]["list"]}
    rules = []
    for text in expressions_of(board):
        used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval"}
        assert used <= variables, text
        if not text.startswith("label_values("):
            filled = text.replace("$__rate_interval", "5m").replace("$instance", ".*")
            rules.append({"record": f"panel:{len(rules)}", "expr": filled})
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


def test_rules_and_dashboard_read_metrics_that_exist_with_labels_that_they_have():
    known = table()
    board = json.loads(DASHBOARD.read_text())
    texts = [rule["expr"] for rule in RULES] + expressions_of(board)
    for text in texts:
        assert names_in(text) and names_in(text) <= set(known), text
        for name, matchers in re.findall(r"\b((?:recourse|process)_[a-z_]+)\{([^}]*)\}", text):
            labels = set(re.findall(r"(\w+)(?:=|!)", matchers)) - {"instance"}
            assert labels <= known[re.sub(r"_(bucket|sum|count)$", "", name)][1], text
    for metric in ("recourse_flows_parked", "recourse_undos_total", "recourse_store_latched"):
        assert any(metric in names_in(text) for text in texts)
