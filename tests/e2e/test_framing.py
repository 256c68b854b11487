"""Request framing over raw sockets: F1-F25 of the HTTP notes and the 4-H bytes.

What is ambiguous is refused with one answer and a closed connection, and nothing of it reaches the
backend. What is good reaches it exactly once, rendered anew.
"""

import hashlib

import pytest

from support import rawhttp
from support.recourse import PATIENCE

HOST = b"Host: shop.test"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n"


def head(target, *lines, method=b"POST", version=b"HTTP/1.1", host=HOST):
    fields = ([host] if host else []) + list(lines)
    return b"\r\n".join([method + b" " + target + b" " + version, *fields]) + b"\r\n\r\n"


def sized(target, *lines, body=b"abc", **options):
    return head(target, b"Content-Length: %d" % len(body), *lines, **options) + body


def chunked(target, coding=b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n", **options):
    return head(target, coding, **options) + body


LENGTH = b"Content-Length: 3"
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"

# (id, bytes for a target, accepted statuses)
BAD = [
    ("F1_H01_length_and_chunked", lambda t: head(t, LENGTH, CHUNKED) + CHUNKS + SMUGGLED, 400),
    ("F1_H02_chunked_and_length", lambda t: head(t, CHUNKED, LENGTH) + CHUNKS + SMUGGLED, 400),
    ("F1_H04_length_and_gzip", lambda t: head(t, LENGTH, b"Transfer-Encoding: gzip") + b"abc", 400),
    ("F2_H05_gzip_alone", lambda t: chunked(t, b"Transfer-Encoding: gzip", SMUGGLED), (400, 501)),
    ("F2_xchunked", lambda t: chunked(t, b"Transfer-Encoding: xchunked", SMUGGLED), (400, 501)),
    ("F2_chunked_gzip", lambda t: chunked(t, b"Transfer-Encoding: chunked, gzip"), (400, 501)),
    ("F3_H07_chunked_twice", lambda t: chunked(t, b"Transfer-Encoding: chunked, chunked"), 400),
    ("F3_H08_chunked_identity", lambda t: chunked(t, b"Transfer-Encoding: chunked, identity"), 400),
    ("F3_quoted", lambda t: chunked(t, b'Transfer-Encoding: "chunked"'), (400, 501)),
    ("F3_H10_nbsp", lambda t: chunked(t, b"Transfer-Encoding: \xa0chunked"), 400),
    ("F3_H11_empty_and_length", lambda t: sized(t, b"Transfer-Encoding:"), 400),
    ("F3_H13_identity_chunked", lambda t: chunked(t, b"Transfer-Encoding: identity, chunked"), 400),
    ("F3_H14_comma_before", lambda t: chunked(t, b"Transfer-Encoding: ,chunked"), 400),
    ("F3_H14_comma_after", lambda t: chunked(t, b"Transfer-Encoding: chunked,"), 400),
    ("F3_H16_two_fields", lambda t: head(t, CHUNKED, CHUNKED) + CHUNKS, 400),
    (
        "F3_H17_chunked_and_identity_fields",
        lambda t: head(t, CHUNKED, b"Transfer-Encoding: identity") + CHUNKS,
        400,
    ),
    ("F3_H19_vertical_tab", lambda t: chunked(t, b"Transfer-Encoding: \x0bchunked"), 400),
    ("F4_chunked_in_http_1_0", lambda t: chunked(t, version=b"HTTP/1.0"), 400),
    ("F5_H22_two_equal_lengths", lambda t: head(t, LENGTH, LENGTH) + b"abc", 400),
    ("F5_length_list", lambda t: head(t, b"Content-Length: 3, 3") + b"abc", 400),
    ("F6_H23_two_lengths", lambda t: head(t, LENGTH, b"Content-Length: 0") + b"abc", 400),
    *[
        (f"F6_H25_length_{index}", lambda t, v=v: head(t, b"Content-Length: " + v) + b"abc", 400)
        for index, v in enumerate([b"+3", b"-3", b"0x3", b"3 3", b"", b"1_0", b"03"])
    ],
    ("F6_H28_huge_length", lambda t: head(t, b"Content-Length: 9223372036854775807"), (400, 413)),
    ("F6_overflow", lambda t: head(t, b"Content-Length: 99999999999999999999"), (400, 413)),
    ("F7_space_before_colon", lambda t: head(t, b"Content-Length : 3") + b"abc", 400),
    ("F8_folded_line", lambda t: sized(t, b"X-A: b\r\n c"), 400),
    ("F8_folded_coding", lambda t: chunked(t, b"Transfer-Encoding:\r\n chunked"), 400),
    ("F9_H46_bare_cr", lambda t: sized(t, b"X-A: b\rc"), 400),
    ("F9_H46_cr_cr_lf", lambda t: sized(t, b"X-A: b\r"), 400),
    ("F9_H47_nul_in_value", lambda t: sized(t, b"X-A: b\0c"), 400),
    ("F9_H47_nul_in_name", lambda t: sized(t, b"X\0A: b"), 400),
    ("F9_del_in_value", lambda t: sized(t, b"X-A: b\x7fc"), 400),
    ("F10_bare_lf_lines", lambda t: sized(t).replace(b"\r\n", b"\n"), 400),
    ("F10_H35_bare_lf_in_chunks", lambda t: chunked(t, body=b"3\nabc\n0\n\n"), 400),
    *[
        (f"F11_H31_chunk_size_{index}", lambda t, v=v: chunked(t, body=v + b"\r\nabc\r\n0\r\n\r\n"),
         400)
        for index, v in enumerate(
            [b"0x3", b" 3", b"3 ", b"-3", b"0_3", b"", b"10000000000000003", b"g"]
        )
    ],  # fmt: skip
    ("F11_H34_data_without_crlf", lambda t: chunked(t, body=b"3\r\nabcX\r\n0\r\n\r\n"), 400),
    (
        "F12_H37_newline_in_extension",
        lambda t: chunked(t, body=b'3;a="b\r\n"\r\nabc\r\n0\r\n\r\n'),
        400,
    ),
    ("F12_lf_in_extension", lambda t: chunked(t, body=b"3;a=b\nc\r\nabc\r\n0\r\n\r\n"), 400),
    (
        "F12_H38_endless_extension",
        lambda t: chunked(t, body=b"3;" + b"a" * 1_000_000),
        (400, 413, 431),
    ),
    (
        "F13_H44_endless_trailers",
        lambda t: chunked(t, body=b"3\r\nabc\r\n0\r\n" + b"X-T: y\r\n" * 100_000),
        (400, 413, 431),
    ),
    ("H29_underscore_length", lambda t: head(t, b"Content_Length: 3") + SMUGGLED, 400),
    ("H49_space_before_first_field", lambda t: sized(t, host=b" Host: shop.test"), 400),
    ("H49_empty_name", lambda t: sized(t, b": x"), 400),
    ("H49_no_colon", lambda t: sized(t, b"Nonsense"), 400),
    ("H49_space_in_name", lambda t: sized(t, b"X A: b"), 400),
    ("H49_utf8_in_name", lambda t: sized(t, "X-Ä: b".encode()), 400),
    ("H4_no_host", lambda t: sized(t, host=None), 400),
    ("H52_two_hosts", lambda t: sized(t, HOST), 400),
    *[
        (f"H53_host_{index}", lambda t, v=v: sized(t, host=b"Host: " + v), 400)
        for index, v in enumerate([b"a, b", b"", b"a b", b"u@shop.test", b"shop.test:x"])
    ],
    ("H55_space_in_target", lambda t: sized(t + b" x"), 400),
    ("H55_tab_in_target", lambda t: sized(t + b"\tx"), 400),
    ("H55_nul_in_target", lambda t: sized(t + b"\0"), 400),
    ("H55_del_in_target", lambda t: sized(t + b"\x7f"), 400),
    ("H56_high_byte_in_target", lambda t: sized(t + b"\xff"), 400),
    ("H5_fragment_in_target", lambda t: sized(t + b"#x"), 400),
    ("H5_relative_target", lambda t: sized(t[1:]), 400),
    ("H59_connect", lambda t: head(b"shop.test:443", method=b"CONNECT", host=HOST), (400, 405)),
    ("H61_strange_method", lambda t: sized(t, method=b'G=":<>(e),[T];?"'), 400),
    ("H61_long_method", lambda t: sized(t, method=b"M" * 1024), (400, 405)),
    *[
        (f"H62_version_{index}", lambda t, v=v: sized(t, version=v), (400, 505))
        for index, v in enumerate([b"HTTP/1.2", b"http/1.1", b"HTTP/1.32", b"HTTP/2.0", b"HTTP/1"])
    ],
    ("H62_http_2_preface", lambda t: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 405, 505)),
    ("H62_http_0_9", lambda t: b"GET " + t + b"\r\n", (400, 505)),
    ("H64_tls_hello", lambda t: bytes.fromhex("16030100c8010000c40303") + b"\0" * 200, 400),
    ("H64_proxy_v1", lambda t: b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + sized(t), (400, 505)),
    ("H64_proxy_v2", lambda t: b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + sized(t), 400),
    ("H64_ssh", lambda t: b"SSH-2.0-OpenSSH_9.2\r\n", (400, 505)),
    ("H70_large_head", lambda t: sized(t, *[b"X-A%d: " % i + b"y" * 1000 for i in range(40)]), 431),
    ("H70_large_field", lambda t: sized(t, b"X-A: " + b"y" * 20_000), 431),
    ("H70_large_target", lambda t: sized(t + b"x" * 20_000), 414),
    ("H71_many_fields", lambda t: sized(t, *[b"A:"] * 1200), 431),
    ("M11_two_idempotency_keys", lambda t: sized(t, b"Idempotency-Key: a", b"Idempotency-Key: b"),
     400),
    ("F14_body_on_trace", lambda t: sized(t, method=b"TRACE"), (400, 405)),
]  # fmt: skip


def received(double, target):
    """Requests whose target starts so, whatever their method."""
    return [r for r in double.requests() if r["target"].startswith(target)]


def assert_fine(proxy, double, token):
    """The proxy still serves, and all that came before has been dealt with."""
    answer = rawhttp.call(proxy.port, "GET", f"/read/{token}/after")
    assert answer.status == 200
    assert received(double, "/smuggled") == []


@pytest.mark.parametrize("name, make, status", BAD, ids=[row[0] for row in BAD])
def test_what_can_be_read_in_two_ways_is_refused(proxy, double, token, name, make, status):
    allowed = status if isinstance(status, tuple) else (status,)
    data = rawhttp.exchange(proxy.port, make(f"/plain/{token}".encode()))
    seen = rawhttp.statuses(data)
    assert len(seen) == 1 and seen[0] in allowed, data[:2000]
    assert b"application/problem+json" in data
    assert_fine(proxy, double, token)
    assert received(double, f"/plain/{token}") == []


def test_h74_a_body_cut_short_is_not_dispatched(proxy, double, token):
    data = rawhttp.exchange(
        proxy.port, head(f"/plain/{token}".encode(), b"Content-Length: 10") + b"abc",
        half_close=True,
    )  # fmt: skip
    assert rawhttp.statuses(data) in ([400], [])
    assert_fine(proxy, double, token)
    assert received(double, f"/plain/{token}") == []


def test_h73_an_invalid_request_ends_a_pipeline(proxy, double, token):
    good = head(f"/read/{token}/1".encode(), method=b"GET")
    bad = head(f"/read/{token}/2".encode(), CHUNKED, LENGTH, method=b"GET")
    data = rawhttp.exchange(proxy.port, good + bad + good.replace(b"/1 ", b"/3 "))
    assert rawhttp.statuses(data) == [200, 400]
    assert [r["target"] for r in received(double, f"/read/{token}/")] == [f"/read/{token}/1"]


def test_h40_a_flood_of_tiny_chunks_is_bounded(proxy, double, token):
    body = b"1\r\na\r\n" * 200_000 + b"0\r\n\r\n"
    data = rawhttp.exchange(proxy.port, chunked(f"/plain/{token}".encode(), body=body))
    assert rawhttp.statuses(data)[:1] in ([400], [408], [413]), data[:500]
    assert_fine(proxy, double, token)
    assert received(double, f"/plain/{token}") == []


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
    with rawhttp.Connection(proxy.port, timeout=30 * PATIENCE) as connection:
        connection.send(f"POST /plain/{token} HTTP/1.1\r\nHost: sh".encode())
        assert connection.response().status == 408
        assert connection.at_end()


PATHS = [
    ("P13", "/plain/{t}/"), ("P16", "/PLAIN/{t}"),
    ("P01", "/plain/x/../{t}"), ("P02", "/plain/%2e%2e/{t}"), ("P04", "/plain/..%2f{t}"),
    ("P05", "/plain/..%5c{t}"), ("P07", "/plain/%252e%252e/{t}"), ("P08", "/plain/%25252f{t}"),
    ("P10", "/plain//{t}"), ("P11", "/plain/./{t}"), ("P14", "/plain/{t}/."),
    ("P20", "/plain/{t}%00"), ("P22", "/plain/{t};x=1"), ("P23", "/plain/..;/{t}"),
    ("P25", "/plain/{t}%3bx"), ("P28", "/plain/%c0%af{t}"), ("P29", "/plain/%ef%bc%8f{t}"),
    ("P31", "/plain/%e2%80%8b{t}"), ("P32", "/plain/%u002e{t}"), ("malformed", "/plain/%zz{t}"),
]  # fmt: skip


@pytest.mark.parametrize("name, target", PATHS, ids=[row[0] for row in PATHS])
def test_a_path_with_two_readings_is_refused(proxy, double, token, name, target):
    answer = rawhttp.call(proxy.port, "POST", target.format(t=token), body={"a": 1})
    assert answer.status == 400, answer
    assert [r for r in double.requests() if token in r["target"]] == []


@pytest.mark.parametrize("method", ["TRACE", "TRACK"])
def test_m26_tracing_methods_never_reach_the_backend(proxy, double, token, method):
    answer = rawhttp.call(proxy.port, method, f"/read/{token}")
    assert answer.status in (400, 403, 405)
    assert received(double, f"/read/{token}") == []


@pytest.mark.parametrize("method", ["DEBUG", "PROPFIND", "MKCOL"])
def test_m26_an_unknown_method_is_never_taken_for_a_read(proxy, token, method):
    answer = rawhttp.call(proxy.port, method, f"/plain/{token}")
    assert answer.status == 405 or answer.outcome == "executed", answer


OVERRIDES = [
    ("", {"X-HTTP-Method-Override": "DELETE"}),
    ("", {"x-http-method": "DELETE"}),
    ("", {"X-Method-Override": "DELETE"}),
    ("", {"X-Method": "DELETE"}),
    ("", {"X_HTTP_Method_Override": "DELETE"}),
    ("?_method=DELETE", {}),
    ("?a=b&_METHOD=delete", {}),
    ("?%5fmethod=DELETE", {}),
    ("?x-http-method-override=PUT", {}),
]


@pytest.mark.parametrize("query, fields", OVERRIDES, ids=[str(n) for n in range(len(OVERRIDES))])
@pytest.mark.parametrize("method, kind", [("GET", "read"), ("POST", "plain"), ("PUT", "unlisted")])
def test_m01_no_call_overrides_the_method_that_the_policy_judged(
    proxy, double, token, method, kind, query, fields
):
    path = f"/{kind}/{token}"
    body = b"" if method == "GET" else {"a": 1}
    answer = rawhttp.call(proxy.port, method, path + query, headers=fields, body=body)
    assert answer.status == 400 and answer.json()["outcome"] == "not_executed", answer
    assert received(double, path) == []


def test_a_query_that_only_looks_like_an_override_is_passed_on(proxy, double, token):
    path = f"/read/{token}"
    answer = rawhttp.call(proxy.port, "GET", f"{path}?payment_method=card&_methods=1")
    assert answer.status == 200
    assert len(received(double, path)) == 1
