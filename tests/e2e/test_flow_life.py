"""Flows over time: deadlines, agents that die, restarts, new policies, callers, observe mode."""

import contextlib
import os
import socket
import threading
import time

import pytest

from support import rawhttp
from support.callers import check_that_callers_share_no_flow
from support.flows import Shop, policy
from support.recourse import Recourse
from support.waiting import lasts, made_in_time, wait_until

TOOL = """\
  {name}.begin:
    match: POST shop /{name}/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo: {{ request: "DELETE /{name}/{{external_ref}}", repeatable: true }}
  {name}.end:
    match: POST shop /{name}-end/{{token}}
    effect: write
    undo: none
    reason: the end of a flow
"""
FLOW = """\
  {name}: {{ tools: [ {name}.begin, {name}.end ], ends_with: {name}.end,
            deadline: {deadline}, on_deadline: {name} }}
"""
NAMES = ("undo", "keep", "ask")


# Longer than a busy machine takes for the few calls of an agent, as a rule.
DEADLINE = 5
GRACE = 5  # what is left to an agent after a start


def timed(double, deadline=f"{DEADLINE}s"):
    return policy(
        double,
        tools="".join(TOOL.format(name=name) for name in NAMES),
        flows="".join(FLOW.format(name=name, deadline=deadline) for name in NAMES),
    )


@pytest.fixture(scope="module")
def shop(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("recourse"), timed(double)) as running:
        yield Shop(running, double)
        assert running.verify()["ok"]
        assert running.stop() == 0, running.stderr()[-4000:]


def in_time(shop, token, *kinds):
    """An agent whose calls all came before the deadline of its one flow."""

    def attempt(turn):
        agent = shop.agent(f"{token}-{turn}")
        for kind in kinds:
            answer = agent.call(kind)
            if answer.status == 409 and answer.json()["type"].endswith("/flow-closed"):
                return None
            assert answer.status == 201, answer
        found = shop.recourse.admin("GET", "/flows?all=true&limit=1000")["flows"]
        return [one["flow"] for one in found].count(agent.flow) == 1 and agent

    return made_in_time(attempt)


def killed_in_time(shop, token, *kinds):
    """The same, and the process is dead before that deadline."""

    def attempt(turn):
        agent, begun = shop.agent(f"{token}-{turn}"), time.monotonic()
        is_open = all(agent.call(kind).status == 201 for kind in kinds)
        shop.recourse.kill()
        if time.monotonic() - begun < DEADLINE:
            assert is_open, kinds
            return agent
        shop.recourse.start()
        return None

    return made_in_time(attempt)


# An agent that dies says nothing any more; the deadline of its flow speaks for it.
def test_an_agent_that_dies_has_its_flow_undone_at_the_deadline(shop, token):
    agent = in_time(shop, token, "undo", "orders", "payments")
    agent.await_undone()
    assert agent.undone() == ["payments", "orders", "undo"]
    assert agent.call("undo-end").json()["type"].endswith("/flow-closed")


def test_an_agent_that_dies_has_its_flow_parked_at_the_deadline_where_a_human_is_asked(shop, token):
    agent = in_time(shop, token, "ask", "orders")
    assert "deadline" in agent.await_parked()
    assert agent.undone() == []
    assert agent.call("ask-end").json()["type"].endswith("/flow-closed")


def test_a_flow_whose_effects_are_kept_is_over_at_the_deadline(shop, token):
    kept = in_time(shop, token, "keep", "orders")
    later = shop.agent(f"{token}-later")
    later.does("undo")
    later.await_undone()  # so the earlier deadline has passed as well
    assert kept.undone() == []
    again = shop.agent(f"{token}-again", trace=kept.trace)
    again.does("payments")
    again.breaks()
    again.await_undone()
    assert again.undone() == ["payments"] and kept.undone() == []


def test_a_flow_that_ended_in_time_stays(shop, token):
    ended = in_time(shop, token, "undo", "orders", "undo-end")
    later = shop.agent(f"{token}-later")
    later.does("undo")
    later.await_undone()
    assert ended.undone() == [] and not shop.told("a flow was undone", ended.flow)


def test_a_deadline_that_passed_while_the_process_was_down_still_undoes_the_flow(
    double, token, tmp_path
):
    with Recourse(tmp_path, timed(double)) as running:
        agent = killed_in_time(Shop(running, double), token, "undo", "orders")
        lasts(DEADLINE + 0.1)  # the deadline passes, and nobody is there who could tell it
        assert agent.undone() == []
        running.start()
        agent.await_undone()
        assert agent.undone() == ["orders", "undo"]


def test_an_agent_that_comes_back_after_a_long_stop_may_still_end_its_flow(double, token, tmp_path):
    with Recourse(tmp_path, timed(double)) as running:
        shop = Shop(running, double)

        def comes_back(turn):
            agent = killed_in_time(shop, f"{token}-{turn}", "undo", "orders")
            lasts(DEADLINE + 0.1)  # the same
            begun = time.monotonic()
            running.start()
            answer = agent.call("undo-end")
            if answer.status != 201 and time.monotonic() - begun >= GRACE:
                return None
            assert answer.status == 201, answer
            return agent

        agent = made_in_time(comes_back)
        later = shop.agent(f"{token}-later")
        later.does("undo")
        later.await_undone()
        assert agent.undone() == []


def ships(shop, token):
    """A last step that is on its way, and a flow that began later than its own. None: the deadline
    came before it."""
    agent, later, told = shop.agent(token), shop.agent(f"{token}-later"), []
    agent.does("orders")
    later.does("orders")
    agent.script("shipping", ["read", {"gate": token}, "execute", "answer"])

    def ship():
        with contextlib.suppress(rawhttp.Cut, OSError):
            told.append(agent.call("shipping"))

    calls = threading.Thread(target=ship)
    calls.start()
    wait_until(lambda: told or shop.double.requests(agent.path("shipping"), "POST"))
    if told:
        assert told[0].status == 409 and told[0].json()["type"].endswith("/flow-closed"), told
        return None
    return told, agent, later, calls


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_last_step_on_its_way_at_the_deadline_decides(double, token, tmp_path, is_killed):
    """Its agent reads a success of the whole, so that none of it may be undone afterwards."""
    with Recourse(tmp_path, policy(double, deadline="deadline: 2s, on_deadline: undo")) as running:
        told, agent, later, calls = made_in_time(
            lambda turn: ships(Shop(running, double), f"{token}-{turn}")
        )
        later.await_undone()  # so the deadline has passed for both
        if is_killed:
            running.kill()
            running.start()
        double.open_gate(agent.token)
        calls.join()
        if is_killed:
            assert not told
            told.append(agent.call("shipping"))
        # What a probe has found is told by a 200 of ours.
        assert told[0].status == (200 if is_killed else 201), told
        phase = f"/flows/{agent.flow}"
        wait_until(lambda: running.admin("GET", phase)["phase"] == "COMMITTED", agent.story)
        assert later.undone() == ["orders"] and agent.undone() == []


def test_a_process_that_is_ended_awaits_its_undo_request_and_goes_on_after_its_start(
    double, token, tmp_path
):
    with Recourse(tmp_path, policy(double)) as running:
        agent = Shop(running, double).agent(token)
        agent.does("orders", "payments")
        agent.script_undo("payments", ["read", "execute", {"gate": token}, "answer"])
        agent.breaks()
        wait_until(lambda: agent.undone() == ["payments"])
        running.terminate()
        wait_until(lambda: "draining" in running.stderr())
        double.open_gate(token)
        assert running.wait() == 0, running.stderr()[-4000:]
        running.start()
        agent.await_undone()
        assert agent.undone() == ["payments", "orders"]
        assert len(agent.undo_requests("payments")) == 1


class Branch:
    """A backend that can go away, and come back at its own address, which nobody else has."""

    def __init__(self, address, port=0):
        self.address, self.seen = address, []
        self.port = self.open(port)

    def open(self, port):
        self.listener = socket.create_server((self.address, port))
        threading.Thread(target=self.serve, args=(self.listener,), daemon=True).start()
        return self.listener.getsockname()[1]

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self, listener):
        body = b'{"id": "b1"}'
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                data = b""
                while b"\r\n\r\n" not in data and (more := sock.recv(65536)):
                    data += more
                if not data:
                    continue
                self.seen.append(data.split(b" ")[0].decode())
                sock.sendall(
                    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
                    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                )


def test_a_backend_that_is_gone_when_its_effect_is_undone_is_tried_until_it_is_back(
    double, token, tmp_path
):
    branch = Branch(f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255 | 1}")
    tool = (
        "  branch.create:\n    match: POST branch /branch/{token}\n    effect: write\n"
        "    external_ref: answer.body#/id\n"
        "    undo: { request: \"DELETE /branch/{external_ref}\" }\n"
    )
    text = policy(double, tools=tool).replace(
        "tools:\n",
        f'  branch: {{ url: "http://{branch.address}:{branch.port}", hosts: [ branch.test ] }}\n'
        "tools:\n", 1,
    )  # fmt: skip
    with Recourse(tmp_path, text) as running:
        agent = Shop(running, double).agent(token)
        agent.does("orders")
        assert agent.call("branch", Host="branch.test").status == 201
        branch.close()
        agent.breaks()
        undo = lambda: [e for e in agent.events() if e["undoes"]]  # noqa: E731
        wait_until(lambda: [e["phase"] for e in undo()].count("NOT_SENT") >= 2)
        assert agent.undone() == []
        branch.open(branch.port)
        agent.await_undone()
        assert branch.seen == ["POST", "DELETE"] and agent.undone() == ["orders"]
        branch.close()


# What an agent says of its flow, where the policy lets it.
@pytest.fixture(scope="module")
def trusting(double, tmp_path_factory):
    text = policy(double) + "flow_rules: { agents_may: [ close, cancel ] }\n"
    with Recourse(tmp_path_factory.mktemp("trusting"), text) as running:
        yield Shop(running, double)
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
def test_an_agent_cancels_its_flow_with_any_request(trusting, token, method):
    agent = trusting.agent(token)
    agent.does("orders", "payments")
    answer = agent.call("notes", method=method, Recourse_Flow="cancel")
    assert answer.status == 202, answer
    agent.await_undone()
    assert agent.undone() == ["payments", "orders"]
    assert trusting.double.requests(agent.path("notes")) == []
    assert agent.call("notes", method="GET", Recourse_Flow="cancel").status == 409


def test_an_agent_closes_a_flow_by_its_name(trusting, token):
    agent = trusting.agent(token, name=f"cart-{token}")
    agent.does("orders")
    closed = agent.call("notes", method="GET", Recourse_Flow=f"close cart-{token}")
    assert closed.status == 200 and closed.json()["phase"] == "COMMITTED", closed
    again = trusting.agent(f"{token}-again", name=f"cart-{token}")
    again.does("payments")
    again.breaks()
    again.await_undone()
    assert again.undone() == ["payments"] and agent.undone() == []


# Policies and modes.
def test_an_undo_stays_as_it_was_made_when_the_policy_changes(double, token, tmp_path):
    with Recourse(tmp_path, policy(double)) as running:
        shop = Shop(running, double)
        agent = shop.agent(token)
        agent.does("orders")
        changed = policy(double).replace(
            "DELETE /orders/{external_ref}", "DELETE /elsewhere/{external_ref}"
        )
        before = running.admin("GET", "/policy")["version"]
        running.policy_path.write_text(changed)
        wait_until(lambda: running.admin("GET", "/policy")["version"] != before)
        newer = shop.agent(f"{token}-newer", trace=agent.trace)
        newer.does("orders")
        agent.breaks()
        agent.await_undone()
        undo = [e["path"] for e in agent.events() if e["undoes"]]
        versions = [e["policy_version"] for e in agent.events() if e["undoes"]]
        wanted = [f"/elsewhere/{newer.effects['orders']}", f"/orders/{agent.effects['orders']}"]
        assert list(dict.fromkeys(undo)) == wanted
        assert versions[0] != versions[-1] == before


def test_observe_mode_knows_no_flows(double, token, tmp_path):
    with Recourse(tmp_path, "mode: observe\n" + policy(double)) as running:
        agent = Shop(running, double).agent(token)
        agent.does("orders")
        agent.breaks()
        agent.does("payments")  # nothing is fenced
        answer = agent.call("notes", method="GET", Recourse_Flow="cancel")
        assert answer.status == 200
        (seen,) = double.requests(agent.path("notes"), "GET")
        assert ["Recourse-Flow", "cancel"] in seen["headers"]
        assert agent.undone() == [] and not any(e["undoes"] for e in agent.events())
        assert running.stop() == 0


def test_two_callers_under_one_trace_do_not_share_a_flow(double, token, tmp_path):
    def agents_of(shop):
        first, second = shop.agent(token), shop.agent(f"{token}-second")
        second.trace = second.flow = first.trace
        return first, second

    check_that_callers_share_no_flow(tmp_path, double, policy(double), agents_of)
