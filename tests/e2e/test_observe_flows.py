"""What observe mode saw is no part of what enforce does."""

import json

from support import rawhttp
from support.flows import answer_with, policy
from support.recourse import Recourse
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_enforcing_undoes_nothing_that_observe_mode_saw(double, token, tmp_path):
    """A trace that began under observe mode goes on as a flow of what enforce has done."""
    with Recourse(tmp_path, flow_policy(double, "observe")) as running:
        first = step(running, "orders", f"{token}a")
        assert first.status == 201
        wait_until(
            lambda: "SUCCEEDED" in [e["phase"] for e in running.events_for(f"/orders/{token}a")]
        )
        assert running.stop() == 0
        running.policy_path.write_text(flow_policy(double, "enforce"))
        running.start()
        assert running.admin("GET", "/flows?all=true")["flows"] == []
        second = step(running, "orders", f"{token}b")
        assert second.status == 201
        double.script("POST", f"/shipping/{token}", answer_with("422 Unprocessable"), 1, "no")
        assert step(running, "shipping", token).status == 422
        (flow,) = wait_until(
            lambda: [f for f in running.admin("GET", "/flows?all=true")["flows"]
                     if f["phase"] in ("UNDONE", "NEEDS_HUMAN")]
        )  # fmt: skip
    assert flow["phase"] == "UNDONE", flow
    gone = [line["path"] for line in double.requests(method="DELETE")]
    assert f"/orders/{second.json()['id']}" in gone
    assert f"/orders/{first.json()['id']}" not in gone


def test_what_observe_mode_never_learned_waits_for_nobody(double, token, tmp_path):
    path = f"/orders/{token}"
    with Recourse(tmp_path, flow_policy(double, "observe")) as running:
        double.script("POST", path, ["read", "rst"], times=1)
        assert step(running, "orders", token).status == 502
        (event,) = wait_until(
            lambda: [e for e in running.events_for(path) if e["phase"] == "UNCERTAIN"]
        )
        assert running.stop() == 0
        running.policy_path.write_text(flow_policy(double, "enforce"))
        running.start()
        operation = str(event["operation"])
        assert running.cli("operations", "list", "--phase", "UNCERTAIN").stdout == "none\n"
        listed = running.cli("operations", "list").stdout.splitlines()
        (row,) = [line for line in listed if line.split()[0] == operation]
        assert row.endswith("(observed)"), row
        settled = running.cli(
            "operations", "settle", operation, "--as", "happened", "--reason", "looked it up"
        )
        assert settled.returncode == 1
        assert "made in observe mode; nothing waits for it" in settled.stderr, settled
        (unknown,) = json.loads(running.cli("report", "--json").stdout)["unknown"]
        assert (unknown["calls"], unknown["open"]) == (1, 0), unknown


def test_a_write_of_a_flow_that_enforce_would_have_broken_is_foretold_as_refused(
    double, token, tmp_path
):
    with Recourse(tmp_path, flow_policy(double, "observe")) as running:
        assert step(running, "orders", f"{token}a").status == 201
        double.script("POST", f"/shipping/{token}", answer_with("422 Unprocessable"), 1, "no")
        assert step(running, "shipping", token).status == 422
        wait_until(
            lambda: "REJECTED" in [e["phase"] for e in running.events_for(f"/shipping/{token}")]
        )
        assert step(running, "orders", f"{token}b").status == 201, "observe mode refuses nothing"
        late = wait_until(lambda: running.events_for(f"/orders/{token}b"))[0]
        assert late["verdict"] == "would_refuse", late
        assert late["detail"].startswith("flow-closed: an earlier write broke its flow"), late
        (before,) = {e["verdict"] for e in running.events_for(f"/orders/{token}a")}
        assert before == "fresh"
        refused = json.loads(running.cli("report", "--json").stdout)["refused"]
        assert [line["reason"].split(":")[0] for line in refused] == ["flow-closed"], refused


def flow_policy(double, mode):
    return policy(double).replace("version: 1\n", f"version: 1\nmode: {mode}\n")


def step(process, kind, name):
    return rawhttp.call(
        process.port, "POST", f"/{kind}/{name}", headers=rawhttp.traced(TRACE),
        body={"client_ref": name},
    )  # fmt: skip
