"""Methods, headers, body kinds (corpus 4-M), JSON (4-J) and keys (4-K) over raw sockets.

Left for `protocol: mcp`, which is not spoken yet: M19 (batches), M22 and M23 (the method inside a
JSON-RPC body). M20 (GraphQL) needs no rule of its own: a POST that no tool lists is a write.
"""

import gzip
import json
import random

import pytest

from support import rawhttp
from support.corpus import Watch, head, jsonic, sized
from support.policies import standard
from support.recourse import Recourse

TOOLS = """\
  orders.create:
    match: POST shop /orders/{token}
    effect: write
    identity: [ body#/ref ]
    ignore: [ /sent_at ]
    external_ref: answer.body#/id
    undo: { request: "DELETE /orders/{path.token}?ref={body#/ref}" }
  traced.create:
    { match: "POST shop /traced/{token}", effect: write, trace: required, undo: none, reason: test }
  get.create:
    { match: "GET|POST shop /get/{token}", effect: write, undo: none, reason: test }
  any.create:
    { match: "* shop /any/{token}", effect: write, undo: none, reason: test }
  read.search: { match: "POST shop /read/search", effect: read }
"""
JSON = b"Content-Type: application/json"
FORM = b"Content-Type: application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = standard(double, extra_tools=TOOLS)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture(scope="module")
def watch(proxy, double):
    return Watch(proxy, double)


def fields_of(seen):
    fields = {}
    for name, value in seen["headers"]:
        fields.setdefault(name.lower(), []).append(value)
    return fields


# M01-M05: nobody asks for another method, or path, than the one that was judged.
OVERRIDES = [
    ("M01", b"", [b"X-HTTP-Method-Override: DELETE"]),
    ("M01_short", b"", [b"x-http-method: DELETE"]),
    ("M01_without_http", b"", [b"X-Method-Override: DELETE"]),
    ("M01_shortest", b"", [b"X-Method: DELETE"]),
    ("M02_to_a_read", b"", [b"X-HTTP-Method-Override: GET"]),
    ("M04_underscores", b"", [b"X_HTTP_Method_Override: DELETE"]),
    ("path_of_symfony", b"", [b"X-Original-URL: /orders/delete"]),
    ("path_of_iis", b"", [b"X-Rewrite-URL: /orders/delete"]),
    ("path_of_nginx", b"", [b"x-original-uri: /orders/delete"]),
    ("path_of_others", b"", [b"X-Override-URL: /orders/delete"]),
    ("path_of_gunicorn", b"", [b"SCRIPT_NAME: /orders"]),
    ("path_of_php", b"", [b"X.Original.URL: /orders/delete"]),
    ("P37_query", b"?_method=DELETE", []),
    ("query_of_salesforce", b"?_HttpMethod=PATCH", []),
    ("P38_query", b"?x-http-method-override=PUT", []),
]
ROUTES = [(b"GET", "read"), (b"POST", "plain"), (b"PUT", "unlisted")]


@pytest.mark.parametrize("name, query, lines", OVERRIDES, ids=[row[0] for row in OVERRIDES])
@pytest.mark.parametrize("method, kind", ROUTES, ids=["read", "write", "unlisted"])
def test_no_call_overrides_its_method_or_path(watch, token, name, query, lines, method, kind):
    watch.forget()
    target = f"/{kind}/{token}".encode()
    body = b"" if method == b"GET" else b"abc"
    make = head if method == b"GET" else sized
    options = {} if method == b"GET" else {"body": body}
    watch.refused(make(target + query, *lines, method=method, **options), 400)
    assert watch.passed(make(target, method=method, **options))["method"] == method.decode()


@pytest.mark.parametrize("method", [b"post", b"pOST", b"get"])
def test_no_call_of_a_tool_hides_in_the_case_of_its_method(watch, token, method):
    watch.forget()
    target = f"/orders/{token}".encode()
    problem = watch.refused(sized(target, method=method), 400)
    assert "methods have a case" in problem["detail"]


def multipart(name):
    return (
        b'--xx\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
        b'--xx\r\nContent-Disposition: form-data; name="' + name + b'"\r\n\r\nDELETE\r\n--xx--\r\n'
    )


FORMS = [
    ("M05", FORM, b"a=1&_method=DELETE", b"a=1&method=DELETE"),
    ("M05_escaped", FORM, b"%5Fmethod=DELETE&a=1", b"%5Fmethods=DELETE&a=1"),
    ("M05_upper_case", FORM, b"_METHOD=delete", b"a=_METHOD"),
    ("M05_semicolon", FORM, b"a=1;_method=DELETE", b"a=1;b=DELETE"),
    ("M05_other_name", FORM, b"X-HTTP-Method-Override=PUT", b"X-HTTP=PUT"),
    ("M05_multipart", b"Content-Type: multipart/form-data; boundary=xx", multipart(b"_method"),
     multipart(b"method")),
]  # fmt: skip


@pytest.mark.parametrize("name, kind, bad, good", FORMS, ids=[row[0] for row in FORMS])
@pytest.mark.parametrize("path", ["/read/search", "/plain/"])
def test_m05_no_form_overrides_its_method(watch, token, name, kind, bad, good, path):
    watch.forget()
    target = (path if path.startswith("/read") else path + token).encode()
    watch.refused(sized(target, kind, body=bad), 400)
    assert watch.passed(sized(target, kind, body=good))["body_len"] == len(good)


def test_m05_an_override_late_in_a_large_form_never_arrives_whole(watch):
    watch.forget()
    body = b"a=" + b"x" * 1_000_000 + b"&_method=DELETE&b=" + b"y" * 300_000
    data = sized(b"/read/search", FORM, body=body)
    uploads_before = len(watch.double.requests("/read/search"))
    received = rawhttp.exchange(watch.proxy.port, data)
    assert rawhttp.statuses(received) in ([400], []), received[:500]
    watch.double.await_requests("POST", "/read/search", uploads_before + 1)
    watch.double.await_recorded()
    uploads = watch.double.requests("/read/search")
    assert [r for r in uploads if r["complete"] and r["body_len"] > 1000] == []


# M07, M08, M10: what the agent may not say to the backend in our name or somebody else's.
DROPPED = [
    ("M07_forwarded", b"Forwarded: for=1.2.3.4;host=evil", "forwarded"),
    ("M07_x_forwarded_for", b"X-Forwarded-For: 1.2.3.4", "x-forwarded-for"),
    ("M07_x_forwarded_host", b"X-Forwarded-Host: evil", "x-forwarded-host"),
    ("M07_x_forwarded_proto", b"x-forwarded-proto: https", "x-forwarded-proto"),
    ("M07_x_forwarded_anything", b"X-Forwarded-User: admin", "x-forwarded-user"),
    ("M07_x_real_ip", b"X-Real-IP: 127.0.0.1", "x-real-ip"),
    ("M10_replayed", b"Idempotent-Replayed: true", "idempotent-replayed"),
    ("M10_outcome", b"Recourse-Outcome: executed", "recourse-outcome"),
    ("M10_event", b"recourse-event: 1", "recourse-event"),
    ("M10_approved", b"Recourse-Approved: yes", "recourse-approved"),
    ("H2_proxy_authorization", b"Proxy-Authorization: Basic x", "proxy-authorization"),
    ("H2_te", b"TE: trailers", "te"),
]


@pytest.mark.parametrize("name, line, field", DROPPED, ids=[row[0] for row in DROPPED])
@pytest.mark.parametrize("kind", ["read", "plain"])
def test_a_field_that_is_not_the_agents_to_send_is_dropped(watch, token, name, line, field, kind):
    watch.forget()
    target = f"/{kind}/{token}".encode()
    data = head(target, line, b"X-Fine: 1", method=b"GET") if kind == "read" else sized(
        target, line, b"X-Fine: 1")  # fmt: skip
    fields = fields_of(watch.passed(data))
    assert field not in fields and fields["x-fine"] == ["1"]


PROTECTED = (
    b"Host Content-Type Content-Length Content-Encoding Authorization Cookie traceparent "
    b"Idempotency-Key"
).split()


@pytest.mark.parametrize("name", PROTECTED)
def test_m08_connection_cannot_nominate_a_protected_field_away(watch, token, name):
    watch.forget()
    target = f"/keyed/{token}".encode()
    lines = [
        JSON, b"Authorization: Bearer x", b"Cookie: a=b", b"Idempotency-Key: k-" + token.encode(),
        b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        b"Content-Encoding: identity", b"X-Gone: 1",
    ]  # fmt: skip
    data = sized(target, b"Connection: close, X-Gone, " + name, *lines, body=b"{}",
                 host=b"Host: keyed.test")  # fmt: skip
    fields = fields_of(watch.passed(data))
    assert name.decode().lower() in fields and "x-gone" not in fields
    assert fields["idempotency-key"] == [f"k-{token}"]
    assert watch.events()[0]["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_m10_the_intent_and_the_flow_stay_between_agent_and_proxy(watch, token):
    watch.forget()
    lines = [b"Recourse-Intent: i-" + token.encode(), b"Recourse-Flow: f", b"Recourse-Session: s"]
    for data in (sized(f"/plain/{token}".encode(), *lines),
                 head(f"/read/{token}".encode(), *lines, method=b"GET")):  # fmt: skip
        fields = fields_of(watch.passed(data))
        assert [name for name in fields if name.startswith("recourse-")] == []
    assert watch.events()[0]["flow"] == "f"


# M16, M17 and what encodes: a body that the policy reads must be readable.
REF = b'{"ref":"%s","sent_at":1}'
KINDS = [
    ("M16_utf_16", [b"Content-Type: application/json; charset=utf-16"], 415),
    ("M16_utf_7", [b"Content-Type: application/json;charset=UTF-7"], 415),
    ("M16_latin_1", [b'Content-Type: application/json; charset="iso-8859-1"'], 415),
    ("M16_two_charsets", [b"Content-Type: application/json; charset=utf-8; charset=utf-16"], 415),
    ("M17_text", [b"Content-Type: text/plain"], 415),
    ("M17_missing", [], 415),
    ("M17_bytes", [b"Content-Type: application/octet-stream"], 415),
    ("M17_json_as_form", [FORM], 415),
    ("c6_gzip", [JSON, b"Content-Encoding: gzip"], 415),
    ("c6_unknown_coding", [JSON, b"Content-Encoding: br"], 415),
]


@pytest.mark.parametrize("name, lines, status", KINDS, ids=[row[0] for row in KINDS])
def test_a_body_that_the_policy_reads_must_be_readable(watch, token, name, lines, status):
    watch.forget()
    target, body = f"/orders/{token}".encode(), REF % token.encode()
    watch.refused(sized(target, *lines, body=body), status)
    assert watch.passed(sized(target, b"Content-Type: application/json; charset=utf-8", body=body))
    assert {event["tool"] for event in watch.events()} == {"orders.create"}


def test_an_encoded_body_without_a_key_has_no_identity(watch, token):
    watch.forget()
    target = f"/plain/{token}".encode()
    lines, body = [JSON, b"Content-Encoding: gzip"], gzip.compress(b'{"a":1}')
    watch.refused(sized(target, *lines, body=body), 415)
    watch.nothing_happened()
    seen = watch.passed(sized(target, *lines, b"Idempotency-Key: z-" + token.encode(), body=body))
    assert seen["body_len"] == len(body)
    # What no tool lists is told apart by its bytes alone.
    assert watch.passed(sized(f"/unlisted/{token}".encode(), *lines, body=body))


def test_m20_a_graphql_call_is_a_write_unless_a_tool_says_otherwise(watch, token):
    watch.forget()
    watch.passed(jsonic(f"/graphql/{token}".encode(), {"query": "query { a }"}))
    assert {event["tool"] for event in watch.events()} == {"unlisted.shop"}


def test_m25_head_is_not_served_where_get_writes(watch, token):
    watch.forget()
    watch.refused(head(f"/get/{token}".encode(), method=b"HEAD"), 405)
    watch.nothing_happened()
    watch.refused(head(f"/any/{token}".encode(), method=b"HEAD"), 405)
    watch.passed(head(f"/get/{token}".encode(), method=b"GET"))
    watch.passed(head(f"/read/{token}".encode(), method=b"HEAD"))


@pytest.mark.parametrize("method", [b"TRACE", b"TRACK", b"DEBUG"])
def test_m26_methods_that_reflect_are_not_served(watch, token, method):
    watch.forget()
    watch.refused(head(f"/read/{token}".encode(), method=method), 405)
    watch.nothing_happened()


@pytest.mark.parametrize("method", [b"PROPFIND", b"MKCOL", b"Mkcol", b"QUERY", b"_"])
def test_m26_an_unknown_method_is_a_write(watch, token, method):
    """It is not refused as such: the `unlisted` rule decides, as a tool may have any method."""
    watch.forget()
    watch.passed(head(f"/plain/{token}".encode(), method=method))
    assert {event["tool"] for event in watch.events()} == {"unlisted.shop"}


def test_m28_what_negotiates_does_not_make_another_call(watch, token):
    watch.forget()
    key = b"Idempotency-Key: n-" + token.encode()
    target = f"/plain/{token}".encode()
    watch.passed(sized(target, key, b"Accept: a/b", b"Accept-Language: de"))
    for lines in ([b"Accept: c/d"], [b"Accept-Language: en", b"User-Agent: other"]):
        answer = rawhttp.call(
            watch.proxy.port, "POST", target.decode(), body=b"abc",
            headers=[tuple(line.decode().split(": ")) for line in (key, *lines)],
        )  # fmt: skip
        assert answer.status == 201 and answer.replayed
    assert watch.requests() == []


def test_m29_cookies_are_passed_on_and_never_logged(watch, token):
    watch.forget()
    canary = f"canary-{token}-secret"
    one = b"Cookie: a=" + canary.encode() + b"x" * 7000
    many = [b"Cookie: c%d=%s" % (n, canary.encode()) for n in range(50)]
    for lines in ([one], many):
        for data in (head(f"/read/{token}".encode(), *lines, method=b"GET"),
                     sized(f"/plain/{token}{len(lines)}".encode(), *lines)):  # fmt: skip
            cookies = fields_of(watch.passed(data))["cookie"]
            assert len(cookies) == len(lines) and canary in cookies[-1]
    logs = watch.proxy.stdout() + watch.proxy.stderr() + json.dumps(watch.events())
    assert token in logs and canary not in logs


# 4-J: every text that JSON readers disagree about, on a tool that reads its arguments.
BAD_JSON = [
    ("J01_duplicate", b'{"ref":"r","a":1,"a":2}'),
    ("J01_nested_duplicate", b'{"ref":"r","a":[{"b":1,"b":1}]}'),
    ("J02_escaped_duplicate", b'{"ref":"r","a":1,"\\u0061":2}'),
    ("J11_exponent", b'{"ref":1e401}'),
    ("J11_negative_exponent", b'{"ref":-1e401}'),
    ("J11_65_digits", b'{"ref":' + b"1" * 65 + b"}"),
    *[(f"J13_{text}", b'{"ref":' + text.encode() + b"}") for text in
      ("NaN", "Infinity", "+1", "01", ".5", "1.", "0x10", "1_000", "-", "1e", "--1")],
    *[(f"J14_{index}", b'{"ref":"' + text + b'"}') for index, text in enumerate(
        (b"\\ud800", b"\\udc00", b"\\ud800\\ud800", b"\\udc00\\ud800"))],
    ("J14_in_a_name", b'{"ref":1,"\\ud800":1}'),
    ("J17_nul", b'{"ref":"a\0b"}'),
    ("J17_tab", b'{"ref":"a\tb"}'),
    ("J17_newline", b'{"ref":"a\nb"}'),
    ("J19_byte_order_mark", b'\xef\xbb\xbf{"ref":1}'),
    ("J19_utf_16_le", '{"ref":1}'.encode("utf-16-le")),
    ("J19_utf_16_be", '{"ref":1}'.encode("utf-16-be")),
    ("J19_latin_1", b'{"ref":"\xe9"}'),
    ("J19_overlong", b'{"ref":"\xc0\xaf"}'),
    ("J19_surrogate", b'{"ref":"\xed\xa0\x80"}'),
    ("J20_trailing_comma", b'{"ref":1,}'),
    ("J20_comment", b'{"ref":1/**/}'),
    ("J20_single_quotes", b"{'ref':1}"),
    ("J20_unquoted", b"{ref:1}"),
    ("J20_python", b'{"ref":True}'),
    ("J20_two_texts", b'{"ref":1}{"ref":2}'),
    ("J20_cut", b'{"ref":1'),
    ("J22_spaces", b"   "),
    ("J22_empty", b""),
    ("J22_null", b"null"),
    ("J22_number", b"1"),
    ("J22_string", b'"x"'),
    ("J23_depth_65", b'{"ref":1,"a":' + b"[" * 64 + b"]" * 64 + b"}"),
    ("J23_depth_1025", b"[" * 1025 + b"]" * 1025),
    ("J23_depth_100000", b"[" * 100_000 + b"]" * 100_000),
    ("J25_1_MiB_of_brackets", b"[" * (1 << 20)),
    ("J25_1_MiB_of_digits", b"1" * (1 << 20)),
    ("J25_1_MiB_of_an_open_string", b'"' + b"a" * (1 << 20)),
    ("J25_too_many_values", b"[" + b"1," * 100_001 + b"1]"),
    ("go_twin_of_a_name", b'{"ref":"r","REF":"s"}'),
]  # fmt: skip


@pytest.mark.parametrize("name, body", BAD_JSON, ids=[row[0] for row in BAD_JSON])
def test_arguments_with_two_readings_are_refused(watch, token, name, body):
    watch.forget()
    target = f"/orders/{token}".encode()
    watch.refused(jsonic(target, body), 400)
    good = jsonic(target, {"ref": name, "a": {"A": 1, "a": 2}})
    assert watch.passed(good)["target"] == target.decode()


def keys_of(watch, token, bodies, path="plain"):
    """The keys of one operation per body, made under one trace."""
    trace = b"traceparent: 00-%032x-00f067aa0ba902b7-01" % int(token[1:])
    watch.forget()
    keys = []
    for body in bodies:
        data = jsonic(f"/{path}/{token}".encode(), body, trace, b"Connection: close")
        received = rawhttp.exchange(watch.proxy.port, data)
        assert rawhttp.statuses(received) == [201], received[:1000]
        answer = received.lower().partition(b"idempotency-key: ")[2]
        keys.append(answer.partition(b"\r\n")[0])
    assert len(watch.requests()) == len(set(keys))
    return keys


SAME = [
    ("J10_zeros", [b"[-0]", b"[0]", b"[-0.0]", b"[0e5]", b"[0E-7]"]),
    ("J10_one", [b"[1]", b"[1.0]", b"[1e0]", b"[10e-1]", b"[0.1e1]"]),
    ("J16_escapes", [b'["a\\u0000b"]', b'["\\u0061\\u0000b"]']),
    ("J17_del", [b'["\x7f"]', b'["\\u007f"]']),
    ("J28_space_and_escapes", [b'{"a":"\\u00e9\\/"}', '{ "a" :\t"é/"\n}'.encode()]),
]
OTHER = [
    ("J04_2_to_53", [b"[9007199254740993]", b"[9007199254740992]"]),
    ("J05_beyond_64_bits", [b"[9223372036854775808]", b"[18446744073709551615]",
                            b"[18446744073709551616]"]),
    ("J07_digits", [b"[0.30000000000000000001]", b"[0.3]", b"[0.30000000000000000002]"]),
    ("J08_large_fraction", [b"[12345678901234567890.5]", b"[0]", b"[12345678901234567890]"]),
    ("J31_normal_forms", ['["Å"]'.encode(), '["A\u030a"]'.encode()]),
    ("J32_look_alikes", ['["a"]'.encode(), '["а"]'.encode(), '["a\u200b"]'.encode(),
                         '["\u202ea"]'.encode()]),
    ("types", [b'["1"]', b"[1]", b"[true]", b"[null]", b"[[1]]", b"[]", b"{}"]),
]  # fmt: skip


@pytest.mark.parametrize("name, bodies", SAME, ids=[row[0] for row in SAME])
def test_one_meaning_is_one_call(watch, token, name, bodies):
    assert len(set(keys_of(watch, token, bodies))) == 1


@pytest.mark.parametrize("name, bodies", OTHER, ids=[row[0] for row in OTHER])
def test_another_meaning_is_another_call(watch, token, name, bodies):
    assert len(set(keys_of(watch, token, bodies))) == len(bodies)


def test_j26_the_order_of_members_makes_no_other_call(watch, token):
    members = {f"k{n}": n for n in range(8)} | {"é": 1, "\U0001f602": 2, "\ufb33": 3}
    names = list(members)
    bodies = []
    for seed in range(30):
        random.Random(seed).shuffle(names)
        bodies.append(json.dumps({name: members[name] for name in names}).encode())
    assert len(set(keys_of(watch, token, bodies))) == 1


def test_j34_what_is_ignored_makes_no_other_call(watch, token):
    bodies = [b'{"ref":"a","sent_at":1}', b'{"ref":"a","sent_at":{"x":2}}', b'{"ref":"a"}']
    assert len(set(keys_of(watch, token, bodies, path="orders"))) == 1


# 4-K: keys that cannot be read in one way are no keys.
KEYS = [
    ("K08_256_bytes", b"k" * 256),
    ("K08_space", b"a b"),
    ("K08_comma", b"a,b"),
    ("K08_semicolon", b"a;b"),
    ("K08_quote_inside", b'a"b'),
    ("K08_open_quote", b'"a'),
    ("K08_after_the_quote", b'"a"b'),
    ("K08_bad_escape", b'"a\\nb"'),
    ("K08_backslash", b"a\\b"),
    ("K08_dots", b"../../etc"),
    ("K08_empty", b""),
    ("K08_empty_quoted", b'""'),
    ("K08_nul", b"a\0b"),
    ("K08_carriage_return", b"a\rb"),
    ("K08_obs_text", b"a\xe9"),
]


@pytest.mark.parametrize("name, key", KEYS, ids=[row[0] for row in KEYS])
@pytest.mark.parametrize("field", [b"Idempotency-Key", b"Recourse-Intent"])
def test_k08_a_key_that_cannot_be_read_is_refused(watch, token, name, key, field):
    watch.forget()
    target = f"/plain/{token}".encode()
    watch.refused(sized(target, field + b": " + key), 400)
    good = b'"a, \\"b\\"; ' + token.encode() + b'"'
    assert watch.passed(sized(target, field + b": " + good))


def test_k08_a_key_of_255_bytes_is_one(watch, token):
    watch.forget()
    key = token.encode() + b"k" * (255 - len(token))
    assert watch.passed(sized(f"/plain/{token}".encode(), b"Idempotency-Key: " + key))


# K02: the rule of W3C Trace Context is to go on as if there were none, so a bad one is no trace.
TRACES = [
    ("K02_zeros", b"00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
    ("K02_zero_parent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
    ("K02_upper_case", b"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
    ("K02_version_ff", b"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("K02_10_KB", b"00-" + b"4" * 10_000 + b"-00f067aa0ba902b7-01"),
    ("K02_short", b"00-4bf9-00f067aa0ba902b7-01"),
    ("K02_empty", b""),
    ("K02_not_hexadecimal", b"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01"),
]


@pytest.mark.parametrize("name, trace", TRACES, ids=[row[0] for row in TRACES])
def test_k02_a_trace_that_is_none_protects_like_none(watch, token, name, trace):
    """It is a call without a scope: what was answered is another call when it comes again, and
    `trace: required` wants a real one (K01)."""
    watch.forget()
    line = b"traceparent: " + trace
    watch.passed(sized(f"/plain/{token}".encode(), line))
    watch.passed(sized(f"/plain/{token}".encode(), line))
    trace_id = watch.events()[0]["trace_id"]
    assert len(trace_id) == 32 and trace_id != "0" * 32 and trace_id not in trace.decode()
    assert watch.requests() == []
    refusal = rawhttp.call(watch.proxy.port, "POST", f"/traced/{token}", body=b"abc",
                           headers={"traceparent": trace.decode()})  # fmt: skip
    assert refusal.status == 428 and "traceparent" in refusal.json()["detail"]
    watch.nothing_happened()


def test_k01_a_required_trace_is_a_trace_or_a_key(watch, token):
    watch.forget()
    target = f"/traced/{token}".encode()
    answer = rawhttp.call(watch.proxy.port, "POST", target.decode(), body=b"abc")
    assert answer.status == 428 and answer.outcome == "not_executed", answer
    watch.nothing_happened()
    trace = b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert watch.passed(sized(target, trace))
    assert watch.passed(sized(target, b"Idempotency-Key: k-" + token.encode()))


def test_k07_k14_a_key_of_one_tool_says_nothing_about_another(watch, token):
    watch.forget()
    key = b"Idempotency-Key: shared-" + token.encode()
    watch.passed(sized(f"/plain/{token}".encode(), key))
    watch.passed(sized(f"/unlisted/{token}".encode(), key))
    answer = rawhttp.call(watch.proxy.port, "POST", f"/plain/{token}", body=b"other",
                          headers={"Idempotency-Key": f"shared-{token}"})  # fmt: skip
    assert answer.status == 422
    assert watch.requests() == []
