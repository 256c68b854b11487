"""Which rule a path falls under, over raw sockets (corpus 4-P): what another server could read as a
call that is treated otherwise is refused before it is dispatched; the rest passes as it came."""

import pytest

from support import rawhttp
from support.corpus import HOST, Watch, head, jsonic
from support.recourse import Recourse

# The sample policy of the corpus. It has no rule for /admin/**: what no tool lists falls under
# `unlisted`, whose words have their tests in test_writes.py (P43).
POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: guard }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ] }}
  loose: {{ url: "{keyed_url}", hosts: [ loose.test ] }}
tools:
  orders.read: {{ match: "GET shop /orders/**", effect: read }}
  orders.search: {{ match: "POST shop /orders/search", effect: read }}
  orders.delete:
    {{ match: "POST|GET shop /orders/delete", effect: write, undo: none, reason: sample }}
  slash.create:
    match: [ "POST shop /slash", "POST shop /slash/" ]
    effect: write
    undo: none
    reason: both are one to the backend
  django.create: {{ match: "POST shop /django/", effect: write, undo: none, reason: sample }}
  refs.create:
    match: POST shop /refs
    effect: write
    identity: [ query.ref, query.action ]
    undo: none
    reason: sample
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = POLICY.format(url=double.url, keyed_url=double.keyed_url)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture(scope="module")
def watch(proxy, double):
    return Watch(proxy, double)


# (id, target, status, slug of the problem). The good neighbours, tried after each row, are
# GET /orders/7 (a read) and the literal write /orders/delete. "GET" before a target: only that is
# refused, as a POST is an unlisted write whichever way the path is read.
AMBIGUOUS, MALFORMED = "ambiguous-path", "malformed-request"
REFUSED = [
    ("P01", "/orders/x/../delete", 400, AMBIGUOUS),
    ("P02", "GET /orders/%2e%2e/admin", 400, AMBIGUOUS),
    ("P02_half", "GET /orders/.%2E/admin", 400, AMBIGUOUS),
    ("P04", "GET /orders/..%2fadmin", 400, AMBIGUOUS),
    ("P04_slash_alone", "/orders%2fdelete", 400, AMBIGUOUS),
    ("P05", "GET /orders/..%5cadmin", 400, AMBIGUOUS),
    ("P05_raw_backslash", "/orders\\delete", 400, MALFORMED),
    ("P07", "GET /orders/%252e%252e/admin", 400, AMBIGUOUS),
    ("P08", "/orders/%25252fdelete", 400, AMBIGUOUS),
    ("P10", "/orders//delete", 400, AMBIGUOUS),
    ("P10_at_the_front", "//orders/delete", 400, AMBIGUOUS),
    ("P10_at_the_end", "/orders/delete//", 400, AMBIGUOUS),
    ("P11", "/orders/./delete", 400, AMBIGUOUS),
    ("P02_dots_and_space", "GET /orders/..%20/admin", 400, AMBIGUOUS),
    ("P11_dot_and_space", "/orders/.%20/delete", 400, AMBIGUOUS),
    ("P11_space_alone", "/orders/%20/delete", 400, AMBIGUOUS),
    ("P11_three_dots", "/orders/.../delete", 400, AMBIGUOUS),
    ("P13", "/orders/delete/", 400, AMBIGUOUS),
    ("P14", "/orders/delete/.", 400, AMBIGUOUS),
    ("P16", "/orders/DELETE", 400, AMBIGUOUS),
    ("P16_and_slash", "/orders/Delete/", 400, AMBIGUOUS),
    ("P16_first_segment", "/ORDERS/delete", 400, AMBIGUOUS),
    ("P19_space", "/orders/delete%20", 400, AMBIGUOUS),
    ("P19_tab", "/orders/delete%09", 400, AMBIGUOUS),
    ("P19_dot", "/orders/delete.", 400, AMBIGUOUS),
    ("P19_extension", "/orders/delete.json", 400, AMBIGUOUS),
    ("P19_two_extensions", "/orders/delete.tar.gz", 400, AMBIGUOUS),
    ("P20", "/orders/delete%00", 400, AMBIGUOUS),
    ("P20_then_extension", "/orders/delete%00.json", 400, AMBIGUOUS),
    ("P22", "/orders/delete;x=1", 400, AMBIGUOUS),
    ("P22_empty", "/orders/delete;", 400, AMBIGUOUS),
    ("P23", "GET /orders/..;/admin", 400, AMBIGUOUS),
    ("P23_with_value", "GET /orders/..;foo=bar/admin", 400, AMBIGUOUS),
    ("P25", "/orders/delete%3bx", 400, AMBIGUOUS),
    ("P26", "/orders/delete%3Fq=1", 400, AMBIGUOUS),
    ("P26_fragment", "/orders/delete%23x", 400, AMBIGUOUS),
    ("P28", "/orders/%c0%af", 400, AMBIGUOUS),
    ("P28_dots", "/orders/%c0%ae%c0%ae/x", 400, AMBIGUOUS),
    ("P28_cut", "/orders/%c3", 400, AMBIGUOUS),
    ("P29", "/orders/%ef%bc%8fdelete", 400, AMBIGUOUS),
    ("P29_fraction_slash", "/orders/%e2%81%84delete", 400, AMBIGUOUS),
    ("P29_division_slash", "/orders/%e2%88%95delete", 400, AMBIGUOUS),
    ("P31_zero_width", "/orders/del%e2%80%8bete", 400, AMBIGUOUS),
    ("P31_soft_hyphen", "/orders/del%c2%adete", 400, AMBIGUOUS),
    ("P32_dots", "/orders/%u002e%u002e/", 400, MALFORMED),
    ("P32_letter", "/orders/%u0064elete", 400, MALFORMED),
    ("P32_not_hexadecimal", "/orders/%zz", 400, MALFORMED),
    ("P32_cut", "/orders/%4", 400, MALFORMED),
    ("P35", "/orders/{id}", 400, MALFORMED),
    ("P37", "/orders/1?_method=DELETE", 400, MALFORMED),
    ("P37_escaped", "/orders/1?a=b&%5Fmethod=DELETE", 400, MALFORMED),
    ("P37_behind_a_semicolon", "/orders/1?a=b;_method=DELETE", 400, MALFORMED),
    ("P37_as_a_list", "/orders/1?_method[]=DELETE", 400, MALFORMED),
    ("P38", "/orders/1?x-http-method-override=PUT", 400, MALFORMED),
    ("P38_underscores", "/orders/1?X_HTTP_METHOD_OVERRIDE=PUT", 400, MALFORMED),
    ("P44", "/orders" + "/a" * 4000, 414, "target-too-long"),
    ("P44_one_segment_too_many", "/orders" + "/a" * 256, 414, "target-too-long"),
    ("P46", "/orders/delete%0a", 400, AMBIGUOUS),
    ("P46_carriage_return", "/orders/delete%0d%0aX:y", 400, AMBIGUOUS),
]


@pytest.mark.parametrize("name, target, status, slug", REFUSED, ids=[row[0] for row in REFUSED])
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_path_with_two_readings_is_refused(watch, token, name, target, status, slug, method):
    watch.forget()
    only, _, target = target.rpartition(" ")
    if only and only.encode() != method:
        target += f"?{token}"  # two rows may be one path
        assert watch.passed(head(target.encode(), b"Content-Length: 0"))["target"] == target
        assert [event["tool"] for event in watch.events()][:1] == ["unlisted.shop"]
        return
    problem = watch.refused(head(target.encode(), method=method), status)
    assert problem["type"].endswith("/" + slug), problem
    assert watch.passed(head(f"/orders/{token}".encode(), method=b"GET"))
    good = jsonic(b"/orders/delete", {"t": token + name})
    assert watch.passed(good)["target"] == "/orders/delete"
    assert {event["tool"] for event in watch.events()} == {"orders.delete"}


# (id, method, target, target that the backend sees, the tool of the write or None for a read)
PASSED = [
    ("P17", "POST", "/orders/dele%74e", "/orders/delete", "orders.delete"),
    ("P17_get", "GET", "/orders/%64elete", "/orders/delete", "orders.delete"),
    ("P17_query_stays", "POST", "/orders/dele%74e?a=%74", "/orders/delete?a=%74", "orders.delete"),
    ("P17_of_a_server_that_decodes_nothing", "GET", "/orders/%37", "/orders/%37", None),
    ("P01_to_the_same_tool", "GET", "/orders/delete/..", "/orders/delete/..", None),
    ("P01_below", "GET", "/orders/a/../b", "/orders/a/../b", None),
    ("P04_within_a_read", "GET", "/orders/a%2fb", "/orders/a%2fb", None),
    ("P10_within_a_read", "GET", "/orders//7", "/orders//7", None),
    ("P22_of_a_read", "GET", "/orders/7;v=1", "/orders/7;v=1", None),
    ("P08_of_a_read", "GET", "/orders/100%25", "/orders/100%25", None),
    ("P34", "GET", "/orders/*", "/orders/*", None),
    ("P34_two", "GET", "/orders/**", "/orders/**", None),
    ("P44_most_segments", "GET", "/orders" + "/a" * 255, "/orders" + "/a" * 255, None),
    ("longer_name", "GET", "/orders/deleted", "/orders/deleted", None),
    ("below", "GET", "/orders/delete/7", "/orders/delete/7", None),
    ("extension_of_a_read", "GET", "/orders/report.json", "/orders/report.json", None),
    ("case_of_a_read", "GET", "/orders/X7/", "/orders/X7/", None),
    ("utf8", "GET", "/orders/caf%c3%a9", "/orders/caf%c3%a9", None),
    ("escape_that_must_stay", "GET", "/orders/a%20b", "/orders/a%20b", None),
    ("P13_both_listed", "POST", "/slash/", "/slash/", "slash.create"),
    ("P13_both_listed_without", "POST", "/slash", "/slash", "slash.create"),
    ("P13_listed_with_slash", "POST", "/django/", "/django/", "django.create"),
    ("P37_looks_like_it", "GET", "/orders/1?payment_method=x&_methods=1&method=y",
     "/orders/1?payment_method=x&_methods=1&method=y", None),
    ("P40_reads_are_not_decided_by_their_query", "GET", "/orders/1?action=read&ACTION=delete",
     "/orders/1?action=read&ACTION=delete", None),
    ("query_bytes_stay", "GET", "/orders/1?b=2&a=%7e;c=+&a=1", "/orders/1?b=2&a=%7e;c=+&a=1", None),
]  # fmt: skip


@pytest.mark.parametrize("name, method, target, seen, tool", PASSED, ids=[r[0] for r in PASSED])
def test_a_path_whose_readings_are_treated_alike_passes(
    watch, token, name, method, target, seen, tool
):
    watch.forget()
    body = {"token": token} if method == "POST" else None
    trace = f"traceparent: 00-{int(token[1:]):032x}-00f067aa0ba902b7-01".encode()
    if body:
        data = jsonic(target.encode(), body, trace)
    else:
        data = head(target.encode(), trace, method=method.encode())
    assert watch.passed(data)["target"] == seen
    assert {event["tool"] for event in watch.events()} == ({tool} if tool else set())


def test_p13_a_path_without_the_slash_that_its_write_has_is_ambiguous(watch):
    watch.forget()
    watch.refused(jsonic(b"/django", {"a": 1}), 400)
    watch.nothing_happened()


# Where the policy takes a value out of the query, there must be one value and one name for it.
QUERIES = [
    ("P40_twice", "ref=1&ref=2"),
    ("P40_case", "ref=1&action=read&ACTION=delete"),
    ("P40_case_alone", "ref=1&Action=delete"),
    ("P40_list", "ref=1&action=read&action[]=delete"),
    ("P40_list_alone", "ref=1&action[]=delete"),
    ("P40_escaped_list", "ref=1&action=read&action%5b%5d=delete"),
    ("P40_index", "ref=1&action[0]=delete"),
    ("P40_escaped_name", "ref=1&%72ef=2"),
    ("P41_semicolon", "ref=1&action=re%61d;action=delete"),
    ("P41_malformed_escape", "ref=1&action=%zz"),
]


@pytest.mark.parametrize("name, query", QUERIES, ids=[row[0] for row in QUERIES])
def test_p40_a_value_that_the_policy_reads_must_have_one_reading(watch, token, name, query):
    watch.forget()
    watch.refused(jsonic(f"/refs?{query}".encode(), {"t": token}), 400)
    assert watch.passed(jsonic(f"/refs?ref={token}{name}&action=a&x=1&x=2".encode(), {"t": 1}))
    assert {event["tool"] for event in watch.events()} == {"refs.create"}


HOSTS = [
    ("P50_loopback", b"127.0.0.1", 403),
    ("P50_loopback_v6", b"[::1]", 403),
    ("P50_mapped", b"[::ffff:127.0.0.1]", 403),
    ("P50_hexadecimal", b"0x7f.1", 403),
    ("P50_decimal", b"2130706433", 403),
    ("P50_octal", b"0177.0.0.1", 403),
    ("P50_short", b"127.1", 403),
    ("P50_any", b"0.0.0.0", 403),
    ("P50_metadata", b"169.254.169.254", 403),
    ("P50_localhost", b"localhost", 403),
    ("P49_punycode", b"xn--shp-tna.test", 403),
    ("P49_unicode", "shöp.test".encode(), 400),
    ("P49_escape", b"shop%2etest", 400),
    ("P49_ideographic_dot", "shop。test".encode(), 400),
    ("other_subdomain", b"x.shop.test", 403),
    ("longer_name", b"shop.test.evil.example", 403),
]


@pytest.mark.parametrize("name, host, status", HOSTS, ids=[row[0] for row in HOSTS])
def test_only_a_host_that_the_policy_names_has_a_backend(watch, token, name, host, status):
    watch.forget()
    target = f"/orders/{token}".encode()
    close = b"Connection: close"
    for data in (
        head(target, close, method=b"GET", host=b"Host: " + host),
        head(b"http://" + host + target, close, method=b"GET"),
    ):
        if status == 400 and not data.startswith(b"GET /"):
            watch.refused(data, 400)  # already the target's bytes are not allowed
            continue
        problem = watch.refused(data, status)
        if status == 403:
            assert problem["type"].endswith("/unknown-backend")
    assert watch.passed(head(target, method=b"GET"))


@pytest.mark.parametrize("host", [b"SHOP.test", b"shop.test:80", b"shop.test:65535"])
def test_a_host_is_compared_without_case_and_by_its_rule_for_ports(watch, token, host):
    watch.forget()
    assert watch.passed(head(f"/orders/{token}".encode(), method=b"GET", host=b"Host: " + host))


def test_p50_our_own_listeners_are_never_a_backend(watch, token):
    watch.forget()
    for listener in ("listen", "admin", "probes"):
        host = b"Host: 127.0.0.1:%d" % watch.proxy.ports[listener]
        data = head(b"/events", b"Connection: close", method=b"GET", host=host)
        watch.refused(data, 403)
    watch.nothing_happened()


def test_h3_the_authority_of_the_target_outranks_host(watch, token):
    watch.forget()
    path = f"/orders/{token}"
    absolute = head(b"http://shop.test" + path.encode(), method=b"GET", host=b"Host: loose.test")
    seen = watch.passed(absolute)
    assert seen["target"] == path
    assert dict(seen["headers"])["Host"] == f"127.0.0.1:{watch.double.port}"
    refused = head(b"http://elsewhere.test" + path.encode(), b"Connection: close", method=b"GET",
                   host=HOST)  # fmt: skip
    watch.refused(refused, 403)
    assert rawhttp.statuses(rawhttp.exchange(watch.proxy.port, refused)) == [403]
