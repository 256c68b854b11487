"""What an answer proves, and what its caller gets to see: the first answer as it came, rejections
that are tried again, redirects that come back, and probes whose answers prove nothing."""

import subprocess

import pytest
import requests

from support import rawhttp
from support.recourse import WAIT_MAX, Recourse

TRACE = "5" * 32
POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test, 127.0.0.1 ],
           repeat_if: answer.header.Should-Retry == true }}
  brief: {{ url: "{keyed_url}", hosts: [ brief.test ], key_header: Idempotency-Key,
            key_lives: 1ms }}
tools:
  rows.add:
    {{ match: "POST shop /plain/{{token}}", effect: write, undo: none, reason: test }}
  probed.add:
    match: POST shop /probed/{{token}}
    effect: write
    settle:
      request: "GET /probed/{{path.token}}"
      happened: answer.body#/items/0/id
      absent: [ answer.body#/found == false, answer.status == 410 ]
      absent_after: 0s
    undo: none
    reason: test
"""


@pytest.fixture(scope="module")
def shop(double, tmp_path_factory):
    policy = POLICY.format(url=double.url, keyed_url=double.keyed_url)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.stop() == 0, running.stderr()[-4000:]


def answer(status, body="", fields=""):
    return f"HTTP/1.1 {status} X\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}"


def scripted(double, path, *answers):
    for text in answers:
        double.script("POST", path, ["read", {"send": text}, "fin"], times=1)


def post(running, path, trace=TRACE):
    return rawhttp.call(running.port, "POST", path, headers=rawhttp.traced(trace), body={"a": path})


def test_the_first_answer_passes_as_it_came_whatever_it_proves(shop, double, token):
    path = f"/plain/{token}"
    fields = "Content-Type: text/html\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-RateLimit: 7\r\n"
    scripted(double, path, answer(503, "<h1>try later</h1>", fields + "Retry-After: 30\r\n"))
    told = post(shop, path)
    assert (told.status, told.body) == (503, b"<h1>try later</h1>"), told
    assert told.all("Set-Cookie") == ["a=1", "b=2"] and told.header("X-RateLimit") == "7"
    assert told.header("Retry-After") == "30" and told.header("Content-Type") == "text/html"
    assert told.outcome == "unknown" and told.header("Recourse-Event")
    assert told.header("Proxy-Status").startswith("recourse; received-status=503; details=")
    again = post(shop, path)
    assert (again.status, again.outcome) == (409, "unknown")
    assert len(double.requests(path)) == 1


def test_a_token_is_refreshed_and_the_call_made_again(shop, double, token):
    """As every OAuth client does it, with real `requests`, within one trace."""
    path = f"/plain/{token}"
    scripted(double, path, answer(401, "", 'WWW-Authenticate: Bearer error="invalid_token"\r\n'))
    url, agent = f"http://127.0.0.1:{shop.port}{path}", requests.Session()
    agent.headers["traceparent"] = f"00-{TRACE}-00f067aa0ba902b7-01"
    refused = agent.post(url, json={"a": 1}, timeout=WAIT_MAX)
    assert refused.status_code == 401 and "invalid_token" in refused.headers["WWW-Authenticate"]
    assert agent.post(url, json={"a": 1}, timeout=WAIT_MAX).status_code == 201
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize("status", [400, 402, 403, 404, 412, 416, 422, 423, 424, 428, 429, 451])
def test_a_rejection_answers_nobody_else(shop, double, token, status):
    path = f"/plain/{token}"
    scripted(double, path, *[answer(status, "no")] * 3)
    assert [post(shop, path).status for _ in range(4)] == [status] * 3 + [201]
    assert len(double.effects(path)) == 1


def test_a_redirect_of_a_write_comes_back_here(shop, double, token):
    """curl follows it with method and body: three calls are one effect, and it is remembered."""
    path, moved = f"/plain/{token}", f"/plain/{token}-moved"
    for _ in range(3):
        scripted(double, path, answer(307, "", f"Location: {double.url}{moved}?x=1\r\n"))
        done = subprocess.run(
            ["curl", "-sS", "-L", "-d", '{"a":1}', "-H", "Content-Type: application/json", "-w",
             "%{http_code} %{num_redirects}", "-o", "/dev/null",
             "-H", f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01",
             f"http://127.0.0.1:{shop.port}{path}"],
            capture_output=True, text=True, timeout=WAIT_MAX, check=True,
        )  # fmt: skip
        assert done.stdout == "201 1", done
    assert len(double.effects(moved)) == 1
    assert shop.events_for(moved)[-1]["phase"] == "SUCCEEDED"


def test_a_redirect_that_would_lead_past_us_is_refused_with_the_fix(shop, double, token):
    path = f"/plain/{token}"
    scripted(double, path, answer(308, "", "Location: http://elsewhere.test/a?token=s3cret\r\n"))
    told = post(shop, path)
    assert (told.status, told.outcome) == (502, "not_executed"), told
    assert "http://elsewhere.test:80/a" in told.json()["detail"]
    assert "put that url in the policy" in told.json()["detail"]
    assert told.header("Location") is None and "s3cret" not in told.body.decode()


JSON = "Content-Type: application/json\r\n"
EMPTY = '{"items":[]}'
PROVE_NOTHING = {
    "accepted": answer(202, EMPTY, JSON),
    "not_authoritative": answer(203, EMPTY, JSON),
    "partial": answer(206, EMPTY, JSON),
    "from_a_cache": answer(200, EMPTY, JSON + "Age: 7\r\n"),
    "404_from_a_cache": answer(404, "", "Age: 7\r\n"),
    "gateway_404": answer(404, "<html>no route</html>", "Content-Type: text/html\r\n"),
    "text_404": answer(404, "404 page not found", "Content-Type: text/plain\r\n"),
    "json_called_text": answer(200, EMPTY, "Content-Type: text/html\r\n"),
    "null": answer(200, "null", JSON),
    "null_list": answer(200, '{"items":null}', JSON),
    "no_list": answer(200, "{}", JSON),
    "no_member": answer(200, '{"items":[{}]}', JSON),
    "error": answer(200, '{"error":{"code":"busy"}}', JSON),
    "error_and_list": answer(200, '{"error":"busy","items":[]}', JSON),
    "link_next": answer(200, EMPTY, JSON + 'Link: <https://a/?page=2>; rel="next"\r\n'),
    "next": answer(200, '{"items":[],"next":"/probed?page=2"}', JSON),
    "next_page_token": answer(200, '{"items":[],"nextPageToken":"x"}', JSON),
    "has_more": answer(200, '{"items":[],"has_more":true}', JSON),
    "cursor": answer(200, '{"items":[],"meta":{"cursor":"x"}}', JSON),
    "odata": answer(200, '{"items":[],"@odata.nextLink":"https://a"}', JSON),
    "dynamo": answer(200, '{"items":[],"LastEvaluatedKey":{"id":{"S":"7"}}}', JSON),
    "stated_but_more": answer(200, '{"found":false,"has_more":true}', JSON),
}
PROVE_ABSENCE = {
    "empty_list": answer(200, '{"items":[],"has_more":false,"next":null}', JSON),
    "stated": answer(200, '{"found":false}', JSON),
    "stated_status": answer(410, "<html>gone</html>", "Content-Type: text/html\r\n"),
    "empty_404": answer(404),
    "json_404": answer(404, '{"error":"no such order"}', JSON),
}


def lose(shop, double, path, probe):
    double.script("GET", path, ["read", {"send": probe}, "fin"])
    double.script("POST", path, ["read", "rst"], times=1)
    assert post(shop, path).outcome == "unknown"


def test_what_proves_nothing_is_never_taken_for_absence(shop, double, token):
    paths = {name: f"/probed/{token}-{name}" for name in PROVE_NOTHING}
    for name, path in paths.items():
        lose(shop, double, path, PROVE_NOTHING[name])
    for name, path in paths.items():
        double.await_requests("GET", path, 3)  # two would prove it
        assert shop.events_for(path)[-1]["phase"] == "UNCERTAIN", name
        assert len(double.requests(path, "POST")) == 1, name
    probe = double.requests(paths["null"], "GET")[0]
    fields = {name.lower(): value for name, value in probe["headers"]}
    assert fields["cache-control"] == "no-cache"


def test_absence_that_is_stated_is_believed(shop, double, token):
    paths = {name: f"/probed/{token}-{name}" for name in PROVE_ABSENCE}
    for name, path in paths.items():
        lose(shop, double, path, PROVE_ABSENCE[name])
    for name, path in paths.items():
        shop.await_phase(path, "PROVEN_ABSENT")
        assert post(shop, path).status == 201, name


def test_a_field_says_whether_a_failure_may_be_repeated(shop, double, token):
    path, other = f"/plain/{token}", f"/plain/{token}-other"
    scripted(double, path, answer(500, "", "Should-Retry: true\r\n"))
    assert post(shop, path).outcome == "not_executed"
    assert post(shop, path).status == 201
    scripted(double, other, answer(500, "", "Should-Retry: false\r\n"))
    assert post(shop, other).outcome == "unknown"
    assert post(shop, other).status == 409
    assert len(double.requests(other)) == 1


def test_a_key_is_relied_on_no_longer_than_it_lives(shop, double, token):
    path = f"/keyed/{token}"
    double.script("POST", path, ["read", {"sleep": 0.05}, "rst"], times=1)
    call = {"host": "brief.test", "headers": rawhttp.traced(TRACE), "body": {"a": path}}
    assert rawhttp.call(shop.port, "POST", path, **call).outcome == "unknown"
    assert rawhttp.call(shop.port, "POST", path, **call).status == 409
    assert len(double.requests(path)) == 1
