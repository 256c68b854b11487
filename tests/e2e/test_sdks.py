"""What the users of unchanged SDKs see of Recourse's own answers: each throws, with the problem's
code and words, and none repeats what no repeat can settle."""

import json
import subprocess

import pytest
import requests

from support import npm
from support.approvals import Staffed
from support.double import RefusedPort
from support.recourse import WAIT_MAX, Recourse

POLICY = """\
version: 1
backends:
  api: {{ url: "{url}", hosts: [ 127.0.0.1 ] }}
tools:
  api.write: {{ match: POST api /v1/**, effect: write, undo: none, {rule} }}
"""
UNGATED = "reason: rows of a test stay"
GATED = "approval: { by: [ finance ], answer: 409, should_retry: false, hold: 0s }"

PATHS = {
    "stripe": "/v1/charges",
    "openai": "/v1/batches",
    "axios": "/v1/axios",
    "requests": "/v1/requests",
}
LOST = ["read", "execute", "rst"]  # the backend acts, and nobody hears of it

# What each SDK throws for a problem of that status.
THROWN = {
    "stripe": {
        403: "StripePermissionError",
        409: "StripeAPIError",
        422: "StripeIdempotencyError",
        502: "StripeAPIError",
        503: "StripeAPIError",
    },
    "openai": {
        403: "PermissionDeniedError",
        409: "ConflictError",
        422: "UnprocessableEntityError",
        502: "InternalServerError",
        503: "InternalServerError",
    },
}
TYPES = {
    403: "permission_error",
    409: "api_error",
    422: "idempotency_error",
    502: "api_error",
    503: "api_error",
}


def by_requests(proxy, key, amount):
    answer = requests.post(
        f"http://127.0.0.1:{proxy.port}{PATHS['requests']}",
        json={"amount": amount},
        headers={"Idempotency-Key": key},
        timeout=WAIT_MAX,
    )
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        told = error.response.json()["error"]
        return {"threw": "HTTPError", "status": error.response.status_code, **told}
    return {"resolved": answer.json()["id"]}


def by_sdk(client, proxy, key, amount="1", retries=0):
    """What the caller of that SDK gets."""
    if client == "requests":
        return by_requests(proxy, key, amount)
    origin = f"http://127.0.0.1:{proxy.port}"
    ended = subprocess.run(
        [npm.node(), str(npm.CLIENTS / "sdk.mjs"), client, origin, key, amount, str(retries)],
        capture_output=True, text=True, timeout=2 * WAIT_MAX, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def check_thrown(client, told, status, code, words):
    assert "resolved" not in told, told
    assert (told["status"], told["code"], told["type"]) == (status, code, TYPES[status]), told
    assert words in told["message"], told
    name = {"axios": "AxiosError", "requests": "HTTPError"}.get(client)
    assert told["threw"] == (name or THROWN[client][status]), told


def statuses(proxy):
    """The statuses of all calls that were made, retries too; the process ends for it."""
    assert proxy.stop() == 0, proxy.stderr()[-4000:]
    return [line["status"] for line in proxy.access_log()]


@pytest.fixture
def proxy(packages, double, tmp_path):
    with Recourse(tmp_path, POLICY.format(url=double.url, rule=UNGATED)) as running:
        yield running


@pytest.mark.parametrize("client", PATHS)
def test_an_unknown_outcome_is_thrown_and_so_is_its_repeat(proxy, double, client, token):
    double.script("POST", PATHS[client], LOST, 1)
    before = len(double.effects(PATHS[client]))
    told = by_sdk(client, proxy, token)
    check_thrown(client, told, 502, "outcome-unknown", "may have been executed")
    told = by_sdk(client, proxy, token)
    check_thrown(client, told, 409, "outcome-unknown", "may have been executed")
    assert len(double.effects(PATHS[client])) == before + 1


@pytest.mark.parametrize("client", PATHS)
def test_a_key_with_other_arguments_is_thrown(proxy, client, token):
    assert "resolved" in by_sdk(client, proxy, token, "1")
    told = by_sdk(client, proxy, token, "2")
    check_thrown(client, told, 422, "key-reused", "other arguments")


@pytest.mark.parametrize("client", PATHS)
def test_a_call_that_waits_or_is_rejected_by_a_human_is_thrown(
    packages, double, tmp_path, client, token
):
    with Staffed(tmp_path, POLICY.format(url=double.url, rule=GATED)) as proxy:
        told = by_sdk(client, proxy, token)
        check_thrown(client, told, 409, "approval-pending", "A human must approve")
        (waiting,) = proxy.await_waiting(PATHS[client])
        assert proxy.reject(waiting["operation"], reason="never to eve")[0] == 200
        told = by_sdk(client, proxy, token)
    check_thrown(client, told, 403, "approval-rejected", "never to eve")


@pytest.mark.parametrize("client", PATHS)
def test_a_backend_that_is_down_is_thrown(packages, tmp_path, client, token):
    port = RefusedPort()
    try:
        url = f"http://127.0.0.1:{port.port}"
        with Recourse(tmp_path, POLICY.format(url=url, rule=UNGATED)) as proxy:
            told = by_sdk(client, proxy, token)
    finally:
        port.stop()
    check_thrown(client, told, 503, "not-sent", "was not executed")


@pytest.mark.parametrize("client", ["stripe", "openai"])
def test_what_nothing_can_settle_is_not_tried_again(proxy, double, client, token):
    """Three retries are allowed; neither the first answer nor that to a repeat makes use of one."""
    double.script("POST", PATHS[client], LOST, 1)
    for status in (502, 409):
        told = by_sdk(client, proxy, token, retries=3)
        check_thrown(client, told, status, "outcome-unknown", "nothing here can find out")
    assert statuses(proxy) == [502, 409]


@pytest.mark.parametrize("client", ["stripe", "openai"])
def test_what_a_probe_may_settle_is_tried_again(packages, double, tmp_path, client, token):
    probe = 'settle: { request: "GET /v1/probe", happened: answer.body#/id }'
    double.script("POST", PATHS[client], LOST, 1)
    double.script("GET", "/v1/probe", ["read", {"send": "HTTP/1.1 503 x\r\n\r\n"}, "fin"])
    policy = POLICY.format(url=double.url, rule=f"{UNGATED}, hold: 0s, {probe}")
    with Recourse(tmp_path, policy) as proxy:
        told = by_sdk(client, proxy, token, retries=1)
        check_thrown(client, told, 409, "outcome-unknown", "returns the outcome when known")
        assert statuses(proxy) == [502, 409]
