"""`policy import openapi` of what owners of APIs publish: excerpts that stand in
../policy/openapi, and whole descriptions where RECOURSE_DESCRIPTIONS names a directory of them."""

import os
import pathlib

import pytest
import yaml
from test_policy_cli import imported

from support.recourse import run_cli

WHOLE = sorted(pathlib.Path(os.environ.get("RECOURSE_DESCRIPTIONS", "/none")).glob("*.[jy]*"))


def test_a_published_description_gets_proposals_that_hold(tmp_path):
    tools = imported(tmp_path, "github.yaml")[0]["tools"]
    made = tools["issues_create-milestone"]
    assert made["external_ref"] == "answer.body#/number", "its id names no milestone"
    assert made["undo"]["request"].endswith("/milestones/{external_ref}")
    update = tools["issues_update-milestone"]
    assert update["undo"]["json"] == {
        name: "{before.body#/%s}" % name for name in ("description", "due_on", "state", "title")
    }
    assert update["undo"]["only_if"] == "unchanged"
    assert tools["repos_replace-all-topics"]["undo"]["rest"] == "stays"
    assert tools["gists_star"]["undo"]["request"] == "DELETE /gists/{path.gist_id}/star"
    masked = tools["repos_update-webhook-config-for-repo"]
    assert masked["undo"] == "undecided" and "before" not in masked, "its secret is shown as stars"
    policy = imported(tmp_path, "resend.yaml")[0]
    assert "key_header" not in policy["backends"]["resend"]
    assert {name for name, tool in policy["tools"].items() if "key_at" in tool} == {
        "emails_send", "emails_send-batch"
    }  # fmt: skip


@pytest.mark.skipif(not WHOLE, reason="RECOURSE_DESCRIPTIONS names no directory")
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_a_whole_one_becomes_a_policy_that_loads(tmp_path, path):
    made = run_cli("policy", "import", "openapi", path)
    assert made.returncode == 0 and made.stderr == "", made.stderr
    policy = tmp_path / "policy.yaml"
    policy.write_text(made.stdout)
    checked = run_cli("policy", "check", policy)
    assert checked.returncode == 0, checked.stdout[-2000:]
    tools = yaml.safe_load(made.stdout)["tools"].values()
    for tool in tools:
        undo = tool.get("undo")
        is_put = isinstance(undo, dict) and undo["request"].startswith("PUT") and "json" in undo
        assert not is_put or undo["rest"] == "stays", tool
    writes = [tool for tool in tools if tool["effect"] == "write"]
    decided = [tool for tool in writes if tool["undo"] != "undecided"]
    print(f"{path.name}: {len(writes)} writes, {len(decided)} with an undo")
