"""`recourse pack`: the packs as the binary has them, and the forms in which it gives them away."""

import json

import yaml

from support.recourse import ROOT, run_cli

PACKS = sorted((ROOT / "policy/packs").glob("*.yaml"))
PACKS_BY_NAME = {path.stem: path for path in PACKS}


def test_the_packs_are_in_the_binary(tmp_path):
    listed = run_cli("pack", "list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [p.stem for p in PACKS]
    for pack in PACKS:
        assert run_cli("pack", "show", pack.stem).stdout == pack.read_text()
    added = run_cli("pack", "add", "stripe", "--to", tmp_path / "policy")
    assert added.returncode == 0, added.stderr
    assert (tmp_path / "policy/stripe.yaml").read_text() == PACKS_BY_NAME["stripe"].read_text()
    again = run_cli("pack", "add", "stripe", "--to", tmp_path / "policy")
    assert again.returncode == 1 and "is there already" in again.stderr, again
    for command in (["add", "Strip", "--to", tmp_path], ["show", "Strip"],
                    ["export", "Strip", "--as", "mcp"]):  # fmt: skip
        unknown = run_cli("pack", *command)
        assert unknown.returncode == 2, unknown
        assert "did you mean 'stripe'?; there are: adyen, github" in unknown.stderr, unknown


def test_what_a_pack_knows_is_told_to_programs_too():
    packs = json.loads(run_cli("pack", "list", "--json").stdout)["packs"]
    assert [pack["name"] for pack in packs] == [path.stem for path in PACKS]
    shown = json.loads(run_cli("pack", "show", "resend", "--json").stdout)
    assert shown["policy"] == PACKS_BY_NAME["resend"].read_text()
    assert shown["writes"] == next(p["writes"] for p in packs if p["name"] == "resend")
    assert shown["writes"][0] | {"undone_by": ""} == {
        "write": "POST /emails", "repeat_safe_by": "Idempotency-Key", "settled_by": "its key",
        "undone_by": "", "class": "externally reversible",
    }  # fmt: skip


def test_an_exported_pack_is_imported_as_it_is(tmp_path):
    overlay, api = tmp_path / "stripe.overlay.yaml", tmp_path / "api.yaml"
    overlay.write_text(run_cli("pack", "export", "stripe", "--as", "overlay").stdout)
    assert yaml.safe_load(overlay.read_text())["overlay"] == "1.0.0"
    api.write_text("openapi: 3.1.0\ninfo: { title: Stripe, version: '1' }\npaths: {}\n")
    made = run_cli("policy", "import", "openapi", api, "--overlay", overlay)
    assert made.returncode == 0, made
    pack = yaml.safe_load(PACKS_BY_NAME["stripe"].read_text())
    policy = yaml.safe_load(made.stdout)
    assert (policy["backends"], policy["tools"]) == (pack["backends"], pack["tools"])
    overlay.write_text(overlay.read_text().replace("effect: write", "efect: write", 1))
    refused = run_cli("policy", "import", "openapi", api, "--overlay", overlay)
    assert refused.returncode == 2 and not refused.stdout, refused
    assert "stripe.overlay.yaml:" in refused.stderr and "did you mean 'effect'?" in refused.stderr
    listed = json.loads(run_cli("pack", "export", "stripe", "--as", "mcp").stdout)
    assert "dev.recourse/effects" in listed["tools"][0]["_meta"]


def test_the_table_of_writes_is_up_to_date():
    table = run_cli("pack", "list", "--markdown").stdout
    assert (ROOT / "policy/packs/writes.md").read_text() == table, (
        "run: recourse pack list --markdown > policy/packs/writes.md"
    )
