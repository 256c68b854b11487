"""What is good reaches the backend exactly once, rendered anew (the good rows of corpus 4-H).

What is refused stands in test_corpus_heads.py, test_corpus_paths.py and test_corpus_calls.py.
"""

import hashlib

import pytest

from support import rawhttp
from support.corpus import LENGTH, chunked, head, sized

def received(double, target):
    """Requests whose target starts so, whatever their method."""
    return [r for r in double.requests() if r["target"].startswith(target)]


GOOD = [
    ("content_length", lambda t: sized(t, body=b'{"a":1}', *()), b'{"a":1}'),
    ("chunked", lambda t: chunked(t, body=b'4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n'), b'{"a":1}'),
    ("H20_tab_before_chunked", lambda t: chunked(t, b"Transfer-Encoding:\tchunked"), b"abc"),
    ("H20_upper_case_chunked", lambda t: chunked(t, b"TRANSFER-ENCODING: CHUNKED"), b"abc"),
    ("F12_extension_is_dropped", lambda t: chunked(t, body=b"3;a=b\r\nabc\r\n0;x\r\n\r\n"), b"abc"),
    (
        "F13_H41_trailers_are_dropped",
        lambda t: chunked(
            t,
            body=b"3\r\nabc\r\n0\r\n"
            b"X-Tenant: evil\r\nIdempotency-Key: evil\r\nHost: evil\r\n\r\n",
        ),
        b"abc",
    ),
    ("F25_empty_lines_first", lambda t: b"\r\n\r\n" + sized(t), b"abc"),
    ("no_body", lambda t: head(t, b"Content-Length: 0"), b""),
    ("F15_no_length_is_no_body", lambda t: head(t), b""),
    ("HTTP_1_0", lambda t: sized(t, version=b"HTTP/1.0"), b"abc"),
    (
        "H2_upgrade_to_h2c_is_ignored",
        lambda t: sized(t, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c",
                        b"HTTP2-Settings: AAMAAABk"),
        b"abc",
    ),
    (
        "H1_hop_by_hop_fields",
        lambda t: sized(t, b"Connection: close, X-Hop", b"Connection: X-Other", b"X-Hop: 1",
                        b"X-Other: 2", b"Keep-Alive: timeout=5", b"TE: trailers",
                        b"Proxy-Connection: close", b"Trailer: X-T",
                        b"Proxy-Authorization: Basic c2VjcmV0"),
        b"abc",
    ),
    (
        "H1_protected_fields_cannot_be_nominated_away",
        lambda t: sized(t, b"Connection: Content-Type, Authorization", b"Authorization: Bearer x"),
        b"abc",
    ),
    (
        "M10_our_own_fields_are_dropped",
        lambda t: sized(t, b"Idempotent-Replayed: true", b"Recourse-Outcome: executed"),
        b"abc",
    ),
]  # fmt: skip
NEVER_FORWARDED = (
    "connection proxy-connection keep-alive te trailer transfer-encoding upgrade http2-settings "
    "proxy-authorization x-hop x-other expect x-tenant idempotent-replayed recourse-outcome"
).split()


@pytest.mark.parametrize("name, make, body", GOOD, ids=[row[0] for row in GOOD])
def test_what_is_good_is_rendered_anew_and_sent_once(proxy, double, token, name, make, body):
    target = f"/plain/{token}"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(make(target.encode()))
        answer = connection.response("POST")
    assert answer.status == 201, answer
    (seen,) = received(double, target)
    assert seen["complete"] and seen["version"] == "HTTP/1.1" and seen["target"] == target
    assert seen["body_sha256"] == hashlib.sha256(body).hexdigest()
    names = [header.lower() for header, _ in seen["headers"]]
    values = {header.lower(): value for header, value in seen["headers"]}
    hop = [n for n in names if n in NEVER_FORWARDED and values[n].lower() != "close"]
    assert hop == []
    assert names.count("host") == 1 and values["host"] == f"127.0.0.1:{double.port}"
    assert names.count("content-length") == (1 if body else names.count("content-length"))
    assert values.get("content-length", "0") == str(len(body))
    assert values.get("idempotency-key") != "evil"
    if "protected" in name:
        assert values["authorization"] == "Bearer x"


def test_the_request_line_and_the_order_of_fields_are_kept(proxy, double, token):
    target = f"/read/{token}?b=2&a=%7E1&a=1"
    lines = [b"X-One: 1", b"x-two: two  words", b"X-One: 3", b"Accept: */*"]
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(head(target.encode(), *lines, method=b"GET"))
        assert connection.response().status == 200
    (seen,) = received(double, target)
    kept = [f"{n}: {v}".encode() for n, v in seen["headers"] if n.lower() in
            ("x-one", "x-two", "accept")]  # fmt: skip
    assert kept == lines


def test_h7_a_request_that_went_through_us_already_is_a_loop(proxy, double, token):
    first = rawhttp.call(proxy.port, "GET", f"/read/{token}")
    via = dict(first.json()["headers"]).get("Via") or dict(first.json()["headers"]).get("via")
    assert via, "the proxy must name itself in Via"
    again = rawhttp.call(proxy.port, "GET", f"/read/{token}", headers={"Via": via})
    assert again.status == 508
    assert len(received(double, f"/read/{token}")) == 1


def test_h68_expect_is_answered_by_the_proxy_and_not_forwarded(proxy, double, token):
    target = f"/plain/{token}"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(head(target.encode(), LENGTH, b"Expect: 100-continue"))
        assert connection.head()[0] == 100
        connection.send(b"abc")
        assert connection.response("POST").status == 201
    (seen,) = received(double, target)
    assert "expect" not in [name.lower() for name, _ in seen["headers"]]


def test_expect_is_refused_before_the_body_when_the_call_is(proxy, double, token):
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(
            head(f"/plain/{token}".encode(), LENGTH, b"Expect: 100-continue",
                 host=b"Host: elsewhere.test")
        )  # fmt: skip
        assert connection.response("POST").status == 403


def test_an_unknown_expectation_fails(proxy, double, token):
    data = rawhttp.exchange(
        proxy.port, sized(f"/plain/{token}".encode(), b"Expect: wonders", b"Connection: close")
    )
    assert rawhttp.statuses(data) == [417]
    assert received(double, f"/plain/{token}") == []


@pytest.mark.parametrize(
    "name, line",
    [
        ("H50_obs_text", "X-A: b\xe9c"),
        ("H67_websocket", "Connection: Upgrade\r\nUpgrade: websocket"),
    ],
)
def test_what_does_not_concern_us_passes_or_is_dropped(proxy, double, token, name, line):
    target = f"/read/{token}"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(head(target.encode(), line.encode("latin-1"), method=b"GET"))
        assert connection.response().status == 200
    (seen,) = received(double, target)
    fields = {n.lower(): v for n, v in seen["headers"]}
    assert "upgrade" not in fields
    assert fields.get("x-a", "b\xe9c") == "b\xe9c"


def test_h43_a_trailer_cannot_frame(proxy, double, token):
    body = b"3\r\nabc\r\n0\r\nContent-Length: 100\r\nTransfer-Encoding: gzip\r\n\r\n"
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(chunked(f"/plain/{token}".encode(), body=body))
        status = connection.response("POST").status
    assert status in (201, 400)
    assert len(received(double, f"/plain/{token}")) == (1 if status == 201 else 0)


def test_h58_options_of_the_server_stays_here(proxy, double):
    answer = rawhttp.call(proxy.port, "OPTIONS", "*")
    assert answer.status in (200, 204, 400, 405)
    assert [r for r in double.requests() if r["target"] == "*"] == []


def test_d01_a_head_that_never_ends_is_timed_out(proxy, double, token):
    """Takes as long as the head may: ten seconds."""
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(f"POST /plain/{token} HTTP/1.1\r\nHost: sh".encode())
        assert connection.response().status == 408
        assert connection.at_end()
