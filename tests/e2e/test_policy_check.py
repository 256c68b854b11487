"""`recourse policy check`: strict, and for programs."""

import json
import re

from support.recourse import ROOT, run_cli

BASE = 'version: 1\nbackends: { b: { url: "http://b" } }\n'


def checked(path, *flags):
    told = run_cli("policy", "check", path, *flags)
    return told.returncode, told.stdout


FLAWED = BASE + 'tools:\n  "größe": { match: "POST b /x", efect: write }\n'
WARNED = BASE + "tools:\n  t: { match: POST b /x, effect: write, undo: none, reason: so it is }\n"


def test_strict_takes_warnings_for_errors(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(WARNED)
    assert checked(path)[0] == 0
    code, said = checked(path, "--strict")
    assert code == 3 and ": invalid: 0 errors, " in said and "--strict takes for errors" in said
    for example in (ROOT / "policy/examples").glob("*.yaml"):
        code, said = checked(example, "--strict")
        assert code == 0 and said.endswith(", 0 warnings\n"), said


def test_a_check_for_programs(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(FLAWED)
    code, said = checked(path, "--json")
    told = json.loads(said)
    assert code == 3 and not told["valid"] and told["errors"] == len(told["problems"]) > 0
    assert told["problems"][0].keys() == {
        "severity", "file", "line", "column", "key", "message",
    }  # fmt: skip
    path.write_text(WARNED)
    code, said = checked(path, "--json")
    told = json.loads(said)
    assert code == 0 and told["valid"] and told["warnings"] > 0 and told["tools"] == 1
    assert not json.loads(checked(path, "--json", "--strict")[1])["valid"]
    assert checked(path, "--json", "--sarif")[0] == 2


# OASIS SARIF 2.1.0, chapter 3, as far as the log has it.
def judge_sarif(log):
    assert log.keys() == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0" and isinstance(log["runs"], list)  # 3.13
    for run in log["runs"]:
        assert run.keys() <= {"tool", "columnKind", "results"} and "tool" in run  # 3.14
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")  # 3.14.17
        driver = run["tool"]["driver"]  # 3.18.2
        assert driver["name"]  # 3.19.8
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(set(ids)) == len(ids)
        assert all(rule["shortDescription"]["text"] for rule in driver["rules"])  # 3.49.9
        for result in run["results"]:
            assert result["message"]["text"]  # 3.27.11
            assert result["level"] in ("none", "note", "warning", "error")  # 3.27.10
            assert ids[result["ruleIndex"]] == result["ruleId"]  # 3.27.6
            for location in result["locations"]:
                physical = location["physicalLocation"]  # 3.29
                uri = physical["artifactLocation"]["uri"]  # 3.4.3: RFC 3986
                assert re.fullmatch(r"(?:[A-Za-z0-9._~/:-]|%[0-9A-F]{2})+", uri), uri
                region = physical.get("region", {"startLine": 1})  # 3.30
                assert region["startLine"] >= 1 and region.get("startColumn", 1) >= 1
                for logical in location.get("logicalLocations", []):
                    assert logical["fullyQualifiedName"]  # 3.33.5
    return [result for run in log["runs"] for result in run["results"]]


def test_a_check_for_code_scanning(tmp_path):
    path = tmp_path / "a policy.yaml"
    path.write_text(FLAWED)
    code, said = checked(path, "--sarif")
    results = judge_sarif(json.loads(said))
    assert code == 3 and results
    place = next(r for r in results if "efect" in r["message"]["text"])["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20policy.yaml")
    assert place["physicalLocation"]["artifactLocation"]["uri"].startswith("file:///")
    line = FLAWED.splitlines()[place["physicalLocation"]["region"]["startLine"] - 1]
    column = place["physicalLocation"]["region"]["startColumn"]
    assert line[column - 1 :].startswith("efect"), (line, column)
    path.write_text(WARNED)
    code, said = checked(path, "--sarif")
    assert code == 0
    assert {result["level"] for result in judge_sarif(json.loads(said))} == {"warning"}
    judge_sarif(json.loads(checked(tmp_path / "none.yaml", "--sarif")[1]))
    good = ROOT / "policy/examples/quickstart.yaml"
    assert judge_sarif(json.loads(checked(good, "--sarif")[1])) == []
