"""A human's no holds for the caller, the tool and the arguments, whatever trace or key follows."""

import time

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.policies import standard
from support.recourse import MEASURABLE
from support.waiting import made_in_time, wait_until
from test_clocks import YEAR, FakedClock

TRACE, OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
TOOL = """\
  {name}.send:
    match: POST shop /{name}/{{token}}
    effect: write
    undo: none
    reason: a row of a test is never undone
    approval: {{ by: [ finance ], hold: 0s, expires: {expires} }}
"""
BRIEF = 2  # seconds


def tools(brief=BRIEF):
    return TOOL.format(name="gated", expires="1h") + TOOL.format(name="brief", expires=f"{brief}s")


@pytest.fixture
def proxy(double, tmp_path):
    with Staffed(tmp_path, standard(double, extra_tools=tools())) as running:
        yield running


def send(proxy, path, trace=None, amount=1, **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    headers.update(rawhttp.traced(trace) if trace else {})
    return rawhttp.call(proxy.port, "POST", path, headers=headers, body={"amount": amount})


def problem(answer):
    return answer.json()["type"].rsplit("/", 1)[1]


def test_it_outlives_a_kill_and_holds_under_any_trace_and_key(proxy, double, token):
    path = f"/gated/{token}"
    asked = send(proxy, path, TRACE)
    assert asked.status == 202
    operation = asked.json()["operation"]
    assert proxy.reject(operation, reason="too dear")[0] == 200
    for is_restarted in (False, True):
        if is_restarted:
            proxy.kill()
            proxy.start()
        for trace, fields in (
            (TRACE, {}),
            (OTHER_TRACE, {}),
            (None, {}),
            (None, {"Idempotency_Key": f"{token}-{is_restarted}"}),
            (OTHER_TRACE, {"Authorization": "Bearer renewed"}),
        ):
            told = send(proxy, path, trace, **fields)
            assert (told.status, problem(told)) == (403, "approval-rejected"), told
            assert "too dear" in told.json()["detail"]
    assert proxy.waiting() == [] and double.requests(path) == []
    # Other arguments are another question, which shows the no to whoever is asked.
    other = send(proxy, path, OTHER_TRACE, amount=2)
    assert other.status == 202 and b"too dear" not in other.body
    why = proxy.shown(other.json()["operation"])["why"]
    assert f"ann said no to this tool with other arguments, operation {operation}: too dear" in why
    assert proxy.verify()["ok"]


def test_it_ends_with_expires_and_an_expiry_is_none(proxy, double, token):
    def rejected(turn):
        path, begun = f"/brief/{token}-{turn}", time.monotonic()
        first = send(proxy, path, TRACE).json()["operation"]
        said, told = proxy.reject(first)[0], send(proxy, path, OTHER_TRACE).status
        if time.monotonic() - begun >= BRIEF:
            return None
        assert (said, told) == (200, 403)
        return path, first

    path, first = made_in_time(rejected)
    # Its time is over: under the same key, too, it is asked again.
    again = wait_until(
        lambda: (told := send(proxy, path, TRACE)).status == 202 and told, proxy.stderr
    ).json()["operation"]
    assert again != first
    asked = [first, again]

    def approved(_):
        wait_until(
            lambda: proxy.events(operation=asked[-1])[-1]["phase"] == "EXPIRED", proxy.stderr
        )
        begun, anew = time.monotonic(), send(proxy, path, TRACE)
        assert anew.status == 202 and anew.json()["operation"] not in asked
        asked.append(anew.json()["operation"])
        said = proxy.approve(asked[-1])[0]
        ended = said == 200 and proxy.await_phase(path, ("SUCCEEDED", "EXPIRED"))["phase"]
        assert ended == "SUCCEEDED" or time.monotonic() - begun >= BRIEF, said
        return ended == "SUCCEEDED"

    made_in_time(approved)
    assert len(double.effects(path)) == 1


@pytest.mark.skipif(not MEASURABLE, reason="libfaketime and a sanitizer exclude each other")
def test_a_clock_that_is_set_back_over_a_restart_makes_it_last_no_longer(double, tmp_path, token):
    fake = FakedClock(double, tmp_path)

    def restarted(turn):
        path, brief, begun = f"/brief/{token}-{turn}", BRIEF << turn, time.monotonic()
        fake.set(0)
        policy = standard(double, extra_tools=tools(brief))
        with Staffed(tmp_path / f"run{turn}", policy, env=fake.recourse.env) as proxy:
            said = proxy.reject(send(proxy, path, TRACE).json()["operation"])[0]
            proxy.kill()
            fake.set(-YEAR)
            proxy.start()
            told = send(proxy, path, OTHER_TRACE).status
            if time.monotonic() - begun >= brief:
                return False
            assert (said, told) == (200, 403)
            for trace in (OTHER_TRACE, TRACE):
                wait_until(lambda: send(proxy, path, trace).status == 202)  # noqa: B023
            return True

    made_in_time(restarted)
