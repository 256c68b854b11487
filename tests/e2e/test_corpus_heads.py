"""Request framing, byte by byte (corpus 4-H, rules F1-F25 and H1-H12): what has two readings is
answered once and the connection closed, and nothing of it reaches the backend or the log."""

import string

import pytest

from support import rawhttp
from support.corpus import (
    CHUNKED, CHUNKS, HOST, LENGTH, SMUGGLED, Watch, chunked, head, sized,
)  # fmt: skip

TOKEN = set(b"!#$%&'*+-.^_`|~" + string.digits.encode() + string.ascii_letters.encode())


def coded(value):
    return lambda t: chunked(t, b"Transfer-Encoding: " + value)


def measured(value):
    return lambda t: head(t, b"Content-Length: " + value) + b"abc"


def chunk_line(line):
    return lambda t: chunked(t, body=line + b"\r\nabc\r\n0\r\n\r\n")


def lined(*lines):
    return lambda t: sized(t, *lines)


def hosted(value):
    return lambda t: sized(t, host=b"Host: " + value)


def version(value):
    return lambda t: sized(t, version=value)


def read(target, *lines, **options):
    return head(target, *lines, method=b"GET", **options)


# family: (its good neighbour, [(id, bytes for a target, status)])
FAMILIES = {
    "length_and_coding": (sized, [
        ("H01_length_and_chunked", lambda t: head(t, LENGTH, CHUNKED) + CHUNKS, 400),
        ("H02_chunked_and_length", lambda t: head(t, CHUNKED, LENGTH) + CHUNKS, 400),
        ("H04_length_and_gzip", lambda t: head(t, LENGTH, b"Transfer-Encoding: gzip") + b"abc",
         400),
        ("H11_empty_coding_and_length", lined(b"Transfer-Encoding:"), 400),
        ("H29_underscore_length", lambda t: head(t, b"Content_Length: 3"), 400),
        ("F1_identity_and_length", lined(b"Transfer-Encoding: identity"), 400),
        ("F1_zero_length_and_chunked", lambda t: head(t, b"Content-Length: 0", CHUNKED) + CHUNKS,
         400),
    ]),
    "coding": (chunked, [
        ("H05_gzip", coded(b"gzip"), 501),
        ("F2_xchunked", coded(b"xchunked"), 501),
        ("F2_chunked_then_gzip", coded(b"chunked, gzip"), 400),
        ("F2_gzip_then_chunked", coded(b"gzip, chunked"), 400),
        ("H07_chunked_twice", coded(b"chunked, chunked"), 400),
        ("H08_chunked_identity", coded(b"chunked, identity"), 400),
        ("F3_quoted", coded(b'"chunked"'), 400),
        ("F3_parameter", coded(b"chunked;q=1"), 400),
        ("H10_nbsp", coded(b"\xa0chunked"), 400),
        ("H11_empty", coded(b""), 400),
        ("H13_identity_chunked", coded(b"identity, chunked"), 400),
        ("H14_comma_before", coded(b",chunked"), 400),
        ("H14_comma_after", coded(b"chunked,"), 400),
        ("H16_two_fields", lambda t: head(t, CHUNKED, CHUNKED) + CHUNKS, 400),
        ("H17_chunked_and_identity", lambda t: head(t, CHUNKED, b"Transfer-Encoding: identity")
         + CHUNKS, 400),
        ("H19_vertical_tab", coded(b"\x0bchunked"), 400),
        ("F4_chunked_in_http_1_0", lambda t: chunked(t, version=b"HTTP/1.0"), 400),
        ("F8_folded", lambda t: chunked(t, b"Transfer-Encoding:\r\n chunked"), 400),
    ]),
    "length": (sized, [
        ("H22_two_equal", lambda t: head(t, LENGTH, LENGTH) + b"abc", 400),
        ("H23_two_different", lambda t: head(t, LENGTH, b"Content-Length: 0") + b"abc", 400),
        ("F5_list", measured(b"3, 3"), 400),
        ("H25_plus", measured(b"+3"), 400),
        ("H25_minus", measured(b"-3"), 400),
        ("H25_hexadecimal", measured(b"0x3"), 400),
        ("H25_two_numbers", measured(b"3 3"), 400),
        ("H25_empty", measured(b""), 400),
        ("H25_underscore", measured(b"1_0"), 400),
        ("H26_leading_zero", measured(b"03"), 400),
        ("H26_two_zeros", measured(b"00"), 400),
        ("H28_largest", measured(b"9223372036854775807"), 413),
        ("H28_one_over_8_MiB", measured(b"8388609"), 413),
        ("F6_over_64_bits", measured(b"18446744073709551616"), 400),
        ("F6_twenty_digits", measured(b"99999999999999999999"), 400),
        ("F6_letters", measured(b"three"), 400),
        ("F6_fraction", measured(b"3.0"), 400),
    ]),
    "lines": (sized, [
        ("F7_space_before_colon", lambda t: head(t, b"Content-Length : 3") + b"abc", 400),
        ("F7_tab_before_colon", lined(b"X-A\t: b"), 400),
        ("F8_folded_line", lined(b"X-A: b\r\n c"), 400),
        ("F8_folded_with_a_tab", lined(b"X-A: b\r\n\tc"), 400),
        ("H46_bare_cr", lined(b"X-A: b\rc"), 400),
        ("H46_cr_cr_lf", lined(b"X-A: b\r"), 400),
        ("H47_nul_in_value", lined(b"X-A: b\0c"), 400),
        ("H47_nul_in_name", lined(b"X\0A: b"), 400),
        ("F9_del_in_value", lined(b"X-A: b\x7fc"), 400),
        ("F10_bare_lf_everywhere", lambda t: sized(t).replace(b"\r\n", b"\n"), 400),
        ("F10_bare_lf_at_the_end", lambda t: sized(t).replace(b"\r\n\r\n", b"\r\n\n"), 400),
        ("H49_space_before_first_field", lambda t: sized(t, host=b" Host: shop.test"), 400),
        ("H49_empty_name", lined(b": x"), 400),
        ("H49_no_colon", lined(b"Nonsense"), 400),
        ("H49_space_in_name", lined(b"X A: b"), 400),
        ("H49_utf8_in_name", lined("X-Ä: b".encode()), 400),
        ("H50_obs_text_in_content_type", lined(b"Content-Type: text/pl\xe4in"), 400),
        ("H50_obs_text_in_authorization", lined(b"Authorization: B\xe9arer"), 400),
        ("H50_obs_text_in_a_key", lined(b"Idempotency-Key: \xe9"), 400),
        ("H50_obs_text_in_traceparent", lined(b"traceparent: \xe9"), 400),
        ("H1_connection_is_no_token_list", lined(b"Connection: a b"), 400),
    ]),
    "chunks": (chunked, [
        ("H31_hexadecimal_prefix", chunk_line(b"0x3"), 400),
        ("H31_space_before", chunk_line(b" 3"), 400),
        ("H31_space_after", chunk_line(b"3 "), 400),
        ("H31_minus", chunk_line(b"-3"), 400),
        ("H31_plus", chunk_line(b"+3"), 400),
        ("H31_underscore", chunk_line(b"0_3"), 400),
        ("H31_empty", chunk_line(b""), 400),
        ("H31_letter", chunk_line(b"g"), 400),
        ("H32_over_64_bits", chunk_line(b"10000000000000003"), 400),
        ("H32_64_bits", chunk_line(b"ffffffffffffffff"), 413),
        ("H34_no_crlf_after_data", lambda t: chunked(t, body=b"3\r\nabcX\r\n0\r\n\r\n"), 400),
        ("H34_lf_after_data", lambda t: chunked(t, body=b"3\r\nabc\n0\r\n\r\n"), 400),
        ("H34_more_data_than_said", lambda t: chunked(t, body=b"2\r\nabc\r\n0\r\n\r\n"), 400),
        ("H35_bare_lf", lambda t: chunked(t, body=b"3\nabc\n0\n\n"), 400),
        ("H37_newline_in_quotes", chunk_line(b'3;a="b\r\n"'), 400),
        ("H37_lf_in_extension", chunk_line(b"3;a=b\nc"), 400),
        ("H37_nul_in_extension", chunk_line(b"3;a=\0"), 400),
        ("H38_endless_extension", lambda t: chunked(t, body=b"3;" + b"a" * 1_000_000), 400),
        ("H40_200000_chunks_of_one_byte",
         lambda t: chunked(t, body=b"1\r\na\r\n" * 200_000 + b"0\r\n\r\n"), 413),
        ("H43_length_as_trailer_then_fold",
         lambda t: chunked(t, body=b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n x\r\n\r\n"), 400),
        ("H44_endless_trailers",
         lambda t: chunked(t, body=b"3\r\nabc\r\n0\r\n" + b"X-T: y\r\n" * 100_000), 431),
        ("H44_lf_in_trailers", lambda t: chunked(t, body=b"3\r\nabc\r\n0\r\nX-T: y\n\r\n"), 400),
    ]),
    "host": (sized, [
        ("H4_none", lambda t: sized(t, host=None), 400),
        ("H52_two", lined(HOST), 400),
        ("H52_two_different", lined(b"Host: keyed.test"), 400),
        ("H53_list", hosted(b"a, b"), 400),
        ("H53_empty", hosted(b""), 400),
        ("H53_space", hosted(b"a b"), 400),
        ("H53_user", hosted(b"u@shop.test"), 400),
        ("H53_port_of_letters", hosted(b"shop.test:x"), 400),
        ("H53_port_zero", hosted(b"shop.test:0"), 400),
        ("H53_port_too_large", hosted(b"shop.test:65536"), 400),
        ("H53_two_ports", hosted(b"shop.test:80:80"), 400),
        ("H53_path", hosted(b"shop.test/x"), 400),
        ("H53_query", hosted(b"shop.test?x"), 400),
        ("P49_unicode", hosted("shöp.test".encode()), 400),
        ("P49_escape", hosted(b"shop%2etest"), 400),
        ("P49_underscore", hosted(b"shop_a.test"), 400),
        ("P49_zone", hosted(b"[fe80::1%25lo]"), 400),
        ("P49_open_bracket", hosted(b"[::1"), 400),
    ]),
    "target": (sized, [
        ("H55_space", lambda t: sized(t + b" x"), 400),
        ("H55_tab", lambda t: sized(t + b"\tx"), 400),
        ("H55_nul", lambda t: sized(t + b"\0"), 400),
        ("H55_del", lambda t: sized(t + b"\x7f"), 400),
        ("H56_high_byte", lambda t: sized(t + b"\xff"), 400),
        ("H5_fragment", lambda t: sized(t + b"#x"), 400),
        ("H5_relative", lambda t: sized(t[1:]), 400),
        ("H5_empty", lambda t: sized(b""), 400),
        ("H5_user_in_absolute_form", lambda t: sized(b"http://u@shop.test" + t), 400),
        ("H5_other_scheme", lambda t: sized(b"ftp://shop.test" + t), 400),
        ("H3_absolute_form_without_host", lambda t: sized(b"http://" + t), 400),
        ("H59_connect", lambda t: head(b"shop.test:443", method=b"CONNECT"), 403),
        ("H59_connect_with_a_path", lambda t: head(t, method=b"CONNECT"), 400),
        ("H70_large_target", lambda t: sized(t + b"x" * 20_000), 414),
    ]),
    "first_line": (sized, [
        ("H61_strange_method", lambda t: sized(t, method=b'G=":<>(e),[T];?"'), 400),
        ("H61_long_method", lambda t: sized(t, method=b"M" * 1024), 400),
        ("H61_no_method", lambda t: sized(t, method=b""), 400),
        ("H62_http_1_2", version(b"HTTP/1.2"), 505),
        ("H62_http_2_0", version(b"HTTP/2.0"), 505),
        ("H62_lower_case", version(b"http/1.1"), 400),
        ("H62_http_1_32", version(b"HTTP/1.32"), 505),
        ("H62_no_minor", version(b"HTTP/1"), 400),
        ("H62_space_after", version(b"HTTP/1.1 "), 400),
        ("H62_http_2_preface", lambda t: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        ("H62_http_0_9", lambda t: b"GET " + t + b"\r\n", 400),
        ("H64_tls_hello", lambda t: bytes.fromhex("16030100c8010000c40303") + b"\0" * 200, 400),
        ("H64_proxy_v1", lambda t: b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + sized(t), 400),
        ("H64_proxy_v2", lambda t: b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + sized(t), 400),
        ("H64_ssh", lambda t: b"SSH-2.0-OpenSSH_9.2\r\n", 400),
        ("F25_three_empty_lines", lambda t: b"\r\n\r\n\r\n" + sized(t), 400),
    ]),
    "size": (sized, [
        ("H70_large_head", lined(*[b"X-A%d: " % i + b"y" * 1000 for i in range(40)]), 431),
        ("H70_large_field", lined(b"X-A: " + b"y" * 20_000), 431),
        ("H70_large_name", lined(b"X" * 20_000 + b": y"), 431),
        ("H71_many_fields", lined(*[b"A:"] * 1200), 431),
        ("H71_one_field_too_many", lined(*[b"A:"] * 99), 431),
        ("H1_many_connection_tokens", lined(b"Connection: " + b"a," * 300), 431),
    ]),
    "once": (sized, [
        ("M11_two_keys", lined(b"Idempotency-Key: a", b"Idempotency-Key: a"), 400),
        ("M13_two_authorizations", lined(b"Authorization: a", b"authorization: b"), 400),
        ("M14_two_content_types", lined(b"Content-Type: a/b", b"Content-Type: a/b"), 400),
        ("M14_content_type_list", lined(b"Content-Type: application/json, text/plain"), 400),
        ("M14_two_content_encodings", lined(b"Content-Encoding: a", b"Content-Encoding: b"), 400),
        ("H68_two_expectations", lined(b"Expect: 100-continue", b"Expect: 100-continue"), 400),
        ("K02_two_traceparents", lined(b"traceparent: a", b"traceparent: b"), 400),
        ("K08_two_intents", lined(b"Recourse-Intent: a", b"Recourse-Intent: b"), 400),
        ("c5_unknown_expectation", lined(b"Expect: wonders"), 417),
    ]),
    "body_where_none_may_be": (sized, [
        ("F14_trace_with_length", lambda t: sized(t, method=b"TRACE"), 405),
    ]),
}  # fmt: skip
ROWS = [
    (name, make, status, good)
    for good, rows in FAMILIES.values()
    for name, make, status in rows
]


@pytest.fixture(scope="module")
def watch(proxy, double):
    return Watch(proxy, double)


@pytest.mark.parametrize("name, make, status, good", ROWS, ids=[row[0] for row in ROWS])
def test_what_can_be_read_in_two_ways_is_refused(watch, token, name, make, status, good):
    watch.forget()
    target = f"/plain/{token}".encode()
    watch.refused(make(target), status)
    seen = watch.passed(good(target))
    assert seen["target"] == target.decode() and seen["body_len"] == 3
    assert {event["path"] for event in watch.events()} == {target.decode()}


# A server that does not look for a body here takes its bytes for the next request: it is asked to
# close behind this one.
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"OPTIONS"])
@pytest.mark.parametrize("make", [sized, chunked])
def test_h65_a_body_where_none_is_expected_passes_on_the_last_request(watch, token, method, make):
    watch.forget()
    seen = watch.passed(make(f"/plain/{token}".encode(), method=method))
    assert seen["body_len"] == 3 and ["Connection", "close"] in seen["headers"]


def test_h29_an_underscore_in_a_name_is_named_in_the_error(watch, token):
    target = f"/plain/{token}".encode()
    assert "_" in watch.refused(sized(target, b"Idempotency_Key: b"), 400)["detail"]
    assert "_" in watch.refused(sized(target, host=b"Host: shop_a.test"), 400)["detail"]


def refused_or_passed(watch, data):
    """The status of one request whose connection then ends, and whether the backend saw it."""
    data = data.replace(b"\r\nHost:", b"\r\nConnection: close\r\nHost:", 1)
    statuses = rawhttp.statuses(rawhttp.exchange(watch.proxy.port, data + SMUGGLED))
    seen = watch.requests()
    assert len(statuses) == 1, data
    assert [r for r in seen if "smuggled" in r["target"]] == [], data
    return statuses[0], len(seen)


def each_byte(watch, make, is_good, bad=400):
    """Puts every byte into one place of a request; exactly the good ones reach the backend."""
    watch.forget()
    for byte in range(256):
        value = bytes([byte])
        status = bad(value) if callable(bad) else bad
        wanted = (200, 1) if is_good(value) else (status, 0)
        assert refused_or_passed(watch, make(value)) == wanted, value


def test_every_byte_of_a_field_name(watch, token):
    target = f"/read/{token}".encode()
    each_byte(
        watch, lambda b: read(target, b"X-" + b + b"A: v"), lambda b: b[0] in TOKEN or b == b":"
    )


def test_every_byte_of_a_field_value(watch, token):
    target = f"/read/{token}".encode()
    each_byte(
        watch,
        lambda b: read(target, b"X-A: v" + b + b"w"),
        lambda b: b == b"\t" or (b[0] >= 0x20 and b[0] != 0x7F),
    )


def test_every_byte_of_a_target(watch, token):
    """In a query, where nothing but the target's own grammar is judged."""
    target = f"/read/{token}?".encode()
    each_byte(
        watch,
        lambda b: read(target + b + b"=1"),
        lambda b: 0x21 <= b[0] <= 0x7E and b not in b'"#<>\\',
    )


def test_every_byte_of_a_method_and_before_it(watch, token):
    """None of these is a method that reads, so the ones that pass are guarded writes."""
    target = f"/plain/{token}".encode()
    watch.forget()
    for byte in range(256):
        value = bytes([byte])
        status, seen = refused_or_passed(watch, sized(target, method=b"G" + value))
        is_good = byte in TOKEN
        assert (status in (200, 201), seen) == (is_good, int(is_good)), value


def test_every_byte_beside_a_length_or_a_coding(watch, token):
    target = f"/plain/{token}".encode()
    watch.forget()
    digits = set(b"0123456789")
    for byte in range(256):
        value = bytes([byte])
        if value in b" \t":
            continue
        for coding in (value + b"chunked", b"chunked" + value):
            is_token = byte in TOKEN
            wanted = (501 if is_token else 400, 0)
            assert refused_or_passed(watch, coded(coding)(target)) == wanted, coding
        if byte in digits:
            continue
        for length in (value + b"3", b"3" + value):
            assert refused_or_passed(watch, measured(length)(target)) == (400, 0), length
    assert watch.events() == []


def test_h74_a_request_cut_anywhere_is_not_dispatched(watch, token):
    whole = sized(f"/plain/{token}".encode(), b"X-A: b")
    watch.forget()
    for size in range(1, len(whole)):
        received = rawhttp.exchange(watch.proxy.port, whole[:size], half_close=True)
        assert rawhttp.statuses(received) in ([], [400]), whole[:size]
    pieces = chunked(f"/plain/{token}".encode())
    for size in range(len(head(f"/plain/{token}".encode(), CHUNKED)), len(pieces)):
        received = rawhttp.exchange(watch.proxy.port, pieces[:size], half_close=True)
        assert rawhttp.statuses(received) == [400], pieces[:size]
    watch.nothing_happened()


def test_h73_an_invalid_request_ends_a_pipeline(watch, token):
    watch.forget()
    first = read(f"/read/{token}/1".encode())
    bad = head(f"/read/{token}/2".encode(), CHUNKED, LENGTH)
    data = rawhttp.exchange(watch.proxy.port, first + bad + CHUNKS + first.replace(b"/1 ", b"/3 "))
    assert rawhttp.statuses(data) == [200, 400]
    assert [r["target"] for r in watch.requests()] == [f"/read/{token}/1"]


@pytest.mark.parametrize("line", [b"X-A: b\xe9c", b"X-A:", b"X-A:  b  ", b"X-A: a,,b;c=\"d"])
def test_a_field_that_is_not_ours_is_opaque(watch, token, line):
    watch.forget()
    seen = watch.passed(read(f"/read/{token}".encode(), line))
    value = line.partition(b":")[2].strip(b" ").decode("latin-1")
    assert dict(seen["headers"])["X-A"] == value
