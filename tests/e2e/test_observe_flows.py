"""What observe mode saw is no part of a flow of enforce."""

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


def flow_policy(double, mode):
    return policy(double).replace("version: 1\n", f"version: 1\nmode: {mode}\n")


def step(process, kind, name):
    return rawhttp.call(
        process.port, "POST", f"/{kind}/{name}", headers=rawhttp.traced(TRACE),
        body={"client_ref": name},
    )  # fmt: skip
