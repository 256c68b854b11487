"""`policy import mcp` of what public MCP servers list: excerpts that stand in ../policy/mcp, and
whole lists where RECOURSE_TOOL_LISTS names a directory of them."""

import json
import os
import pathlib

import pytest
import yaml

from support.apis import Api
from support.recourse import ROOT, run_cli

LISTS = ROOT / "tests/policy/mcp"
WHOLE = sorted(pathlib.Path(os.environ.get("RECOURSE_TOOL_LISTS", "/none")).glob("*.[jy]*"))


class Server(Api):
    """Lists those tools, whatever it is asked."""

    routes = (("POST /mcp", "message"),)

    def __init__(self, tools):
        self.tools = tools
        super().__init__()

    def check(self, _):
        pass

    def message(self, _, body):
        result = {"serverInfo": {"name": "published"}, "tools": self.tools}
        return 200, {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}


def imported(path):
    listed = yaml.safe_load(path.read_text())
    server = Server(listed if isinstance(listed, list) else listed["tools"])
    try:
        made = run_cli("policy", "import", "mcp", f"{server.url}/mcp")
    finally:
        server.stop()
    assert made.returncode == 0, made
    return yaml.safe_load(made.stdout)["tools"], made.stdout


def commented(text, tool, word):
    """What stands beside `word` in a comment of that tool."""
    lines = text[text.index(f"\n  {tool}:") :].splitlines()[1:]
    end = next((i for i, line in enumerate(lines[1:], 1) if line[:3].strip()), len(lines))
    (found,) = [line for line in lines[:end] if line.startswith(f"    # {word}: ")]
    return yaml.safe_load(found.removeprefix("    # "))[word]


def test_ids_are_an_identity_with_all_that_they_stand_in():
    tools, text = imported(LISTS / "github.yaml")
    assert sorted(tools["merge_pull_request"]["identity"]) == [
        "body#/owner", "body#/pullNumber", "body#/repo"
    ]  # fmt: skip
    assert tools["issue_read"]["effect"] == "read"
    assert "identity" not in tools["label_write"], "its method says what is done to the name"
    assert "identity" not in tools["add_issue_comment"], "an issue has many comments"
    assert "body#/issue_number" in commented(text, "add_issue_comment", "identity")


def test_what_takes_a_thing_back_is_called_with_what_the_call_had():
    _, text = imported(LISTS / "github.yaml")
    assert commented(text, "star_repository", "undo") == {
        "call": "unstar_repository", "arguments": {"owner": "{body#/owner}", "repo": "{body#/repo}"}
    }  # fmt: skip
    undo = commented(text, "add_sub_issue", "undo")
    assert undo["call"] == "remove_sub_issue"
    assert undo["arguments"]["sub_issue_id"] == "{body#/sub_issue_id}"
    # Of its two arguments the call has none.
    assert commented(text, "create_repository", "undo")["arguments"] == {"..": None}


def test_a_second_message_into_a_channel_is_no_repeat_of_the_first():
    tools, text = imported(LISTS / "slack.yaml")
    assert "identity" not in tools["conversations_add_message"]
    assert "identity" not in tools["reactions_add"]
    assert commented(text, "reactions_add", "undo") == {
        "call": "reactions_remove",
        "arguments": {name: "{body#/%s}" % name for name in ("channel_id", "timestamp", "emoji")},
    }


def test_what_may_be_null_has_the_type_of_the_rest():
    _, text = imported(LISTS / "git.yaml")
    (told,) = [line for line in text.splitlines() if "base_branch" in line]
    assert "texts (" in told and "branch_name" in told, told


def test_what_is_deleted_is_named_by_all_that_names_it():
    tools, _ = imported(LISTS / "kubernetes.yaml")
    assert "identity" not in tools["pods_delete"], "no argument of it looks like an id"
    assert "identity" not in tools["pods_run"]
    assert tools["pods_get"]["effect"] == "read"


@pytest.mark.skipif(not WHOLE, reason="RECOURSE_TOOL_LISTS names no directory")
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_a_whole_list_becomes_a_policy_that_loads(tmp_path, path):
    tools, text = imported(path)
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    checked = run_cli("policy", "check", policy)
    assert checked.returncode == 0, checked.stdout
    assert len(tools) == len(yaml.safe_load(path.read_text())["tools"]), text[:3000]
