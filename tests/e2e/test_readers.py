"""Real servers read names in other ways than they are written. Whatever gets past the policy
without a human, none of them reads another value in it than the policy judged."""

import dataclasses
import itertools
import json
import urllib.parse

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.ports import free_ports
from support.readers import NAMES, Reader, all_readers
from support.recourse import Recourse

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
JUDGED, HIDDEN = "5", "9999"  # a human is asked above 1000

MULTIPART = "multipart/form-data; boundary=xx"
GOOD_PART = ('name="ask_sum"', JUDGED)
# What makes a part with that name something else than a text for some.
PART_MORE = [
    "", '; filename="a"', "; filename*=utf-8''a", '; name="other"', "\r\nContent-Type: text/html",
    "\r\nContent-Type: text/plain; charset=utf-7", "\r\nContent-Transfer-Encoding: base64",
    '\r\nContent-Disposition: form-data; name="other"',
]  # fmt: skip

# How a content type names its charset to some.
CHARSETS = ["charset=utf-7", "charset*=utf-7''", 'x="a; charset=utf-7"', "charset='utf-7'",
            "charset=utf-8; charset=utf-7", "charset=utf-8; charset*=utf-7''"]  # fmt: skip
LINE_ENDS = ["\n", "\r", "\r\r\n", "\n\r\n", " \r\n"]

# What some take for ask_sum, and what nobody does.
TWINS = [
    "ask_sum", "ASK_SUM", "Ask_Sum", "askSum", "a\u017fk_sum", "as\u212a_sum", "ask.sum", "ask sum",
    "ask[sum", " ask_sum", "  ask.sum", "ask_sum\0", "ask_sum\0x", "ask_sum[]", "ask_sum[0]",
    "ask_sum[x]", "ask.sum[]", "!ask_sum", "ask_sum\u200b", "\ufeffask_sum", "\uff41sk_sum",
    "ask-sum", "xask_sum", "__proto__[ask_sum]",
]  # fmt: skip

POLICY = """\
version: 1
mode: enforce
quotas: {{ default: {{ pending_approvals: 100000 }} }}
backends:
{backends}
tools:
{tools}
"""
BACKEND = '  {name}: {{ url: "http://127.0.0.1:{port}", hosts: [ {name}.test ] }}\n'
TOOLS = """\
  {name}.form:
    match: POST {name} /form
    effect: write
    approval: {{ by: [ ops ], when: "body#/ask_sum > 1000", hold: 0s }}
  {name}.query:
    match: POST {name} /query
    effect: write
    approval: {{ by: [ ops ], when: "query.ask_sum > 1000", hold: 0s }}
  {name}.free: {{ match: POST {name} /free, effect: write, reason: nothing is read of it }}
  {name}.search: {{ match: POST {name} /search, effect: read }}
"""


@dataclasses.dataclass
class Request:
    path: str
    query: str = ""
    kind: str = ""
    body: bytes = b""
    cookie: str = ""

    @property
    def line(self):
        return "POST", self.path + ("?" + self.query if self.query else "")

    @property
    def headers(self):
        fields = {"Content-Type": self.kind} if self.kind else {}
        return {**fields, "Cookie": self.cookie} if self.cookie else fields


def pair(name, value):
    return urllib.parse.quote(name, safe="") + "=" + value


def part(name, value):
    return f'--xx\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n'.encode()


def both(first, second, joint="&"):
    yield first + joint + second
    yield second + joint + first


def parts_of(*heads):
    return b"".join(part(head, value) for head, value in heads) + b"--xx--\r\n"


def both_orders(first, second):
    return [(first, second), (second, first)]


def calls():
    """What the policy judges, and beside it, or instead of it, a twin with a hidden value."""
    good = f"ask_sum={JUDGED}"
    for twin in TWINS:
        bad = pair(twin, HIDDEN)
        member = json.dumps(twin) + f":{HIDDEN}"
        for pairs in [*both(good, bad), *both(good, bad, ";"), bad]:
            yield Request("/form", kind=FORM, body=pairs.encode())
            yield Request("/query", query=pairs)
        for members in [*both(f'"ask_sum":{JUDGED}', member, ","), member]:
            yield Request("/form", kind=JSON, body=("{" + members + "}").encode())
        yield Request("/form", query=bad, kind=FORM, body=good.encode())
        yield Request("/form", query=bad, kind=JSON, body=f'{{"ask_sum":{JUDGED}}}'.encode())
        yield Request("/query", query=good, kind=FORM, body=bad.encode())
        yield Request("/query", query=good, kind=JSON, body=("{" + member + "}").encode())
        yield Request("/form", kind=FORM, body=good.encode(), cookie=bad)
        for quoted in [f'name="{twin}"', f"name='{twin}'", f'name=x; name="{twin}"']:
            if "\0" not in twin:
                hidden = (quoted, HIDDEN)
                yield Request("/query", query=good, kind=MULTIPART, body=parts_of(hidden))
                for heads in [(GOOD_PART, hidden), (hidden, GOOD_PART), (hidden,)]:
                    yield Request("/form", kind=MULTIPART, body=parts_of(*heads))
        yield Request("/form", query=bad, kind=MULTIPART, body=parts_of(GOOD_PART))
        yield Request("/form", kind=MULTIPART, body=parts_of(GOOD_PART), cookie=bad)
    for more in PART_MORE:
        for heads in both_orders((f'name="ask_sum"{more}', HIDDEN), GOOD_PART):
            yield Request("/form", kind=MULTIPART, body=parts_of(*heads))
        yield Request("/form", kind=MULTIPART, body=parts_of((f'name="ask_sum"{more}', HIDDEN)))
    other = '--yy\r\nContent-Disposition: form-data; name="ask_sum"\r\n\r\n9999\r\n--yy--\r\n'
    for more in ["xboundary=yy; boundary=xx", "boundary=xx; boundary*=utf-8''yy",
                 "boundary=xx; boundary*0=yy"]:  # fmt: skip
        for heads in both_orders(GOOD_PART, ('name="note"', other)):
            yield Request("/form", kind=f"multipart/form-data; {more}", body=parts_of(*heads))
    # What is JSON to us is a form to PHP, or to whoever looks at its beginning, and the reverse.
    for kind in [f"{FORM} x+json", f"{FORM}+json"]:
        yield Request("/form", kind=kind, body=b'{"ask_sum":5,"x":"&ask_sum=9999&y="}')
    for mark in [b"", b"\xef\xbb\xbf"]:
        hidden = b'{"x":"&ask_sum=5&y=","ask_sum":9999}'
        yield Request("/form", kind=FORM, body=mark + hidden)
    yield Request("/form", query=f"a=1;ask_sum={HIDDEN}", kind=JSON, body=b"{}")
    broken = b"preamble\r\n" + parts_of(('name="ask_sum"', HIDDEN))
    yield Request("/query", query=good, kind=MULTIPART, body=broken)
    yield Request("/form", kind=MULTIPART, body=broken)
    yield Request("/query", query=good, kind=FORM, body=f"ask_sum={HIDDEN}&a=%zz".encode())
    for charset in ["utf-7", "utf-16", "ibm037"]:
        yield Request("/form", kind=f"{FORM}; charset={charset}", body=b"+AGEAcwBrAF8-sum=9999")
    for charset in CHARSETS:
        member = b'{"ask_sum":5,"+AGEAcwBrAF8-sum":9999}'
        yield Request("/form", kind=f"{JSON}; {charset}", body=member)
    for line in LINE_ENDS:
        hidden = f'a{line}--xx{line}Content-Disposition: form-data; name="ask_sum"{line}{line}9999'
        for heads in both_orders(GOOD_PART, ('name="note"', hidden)):
            yield Request("/form", kind=MULTIPART, body=parts_of(*heads))


@pytest.fixture(scope="module")
def readers(packages, tmp_path_factory):
    with all_readers(tmp_path_factory.mktemp("readers")) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(readers, tmp_path_factory):
    backends = "".join(BACKEND.format(name=name, port=readers[name].port) for name in NAMES)
    policy = POLICY.format(
        backends=backends, tools="".join(TOOLS.format(name=name) for name in NAMES)
    )
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.stop() == 0, running.stderr()[-4000:]


traces = itertools.count(1)


def through(proxy, name, request):
    fields = {**request.headers, **rawhttp.traced(f"{next(traces):032x}")}
    return rawhttp.call(
        proxy.port, *request.line, host=f"{name}.test", headers=fields, body=request.body
    )


def as_texts(values):
    for value in values:
        yield from as_texts(value) if isinstance(value, list) else [str(value)]


def reads_other(said):
    return [text for text in as_texts(said["values"]) if text != JUDGED]


@pytest.mark.parametrize("name", NAMES)
def test_no_reader_reads_a_value_that_was_not_judged(proxy, readers, name):
    passed = fooled = 0
    for request in calls():
        fooled += bool(reads_other(readers[name].ask(request)))
        answer = through(proxy, name, request)
        if answer.status != 200:
            assert answer.status in (202, 400, 415), (request, answer)
            continue
        passed += 1
        assert not reads_other(answer.json()), (request, answer)
    # Without the policy it does, and what nobody takes for it passes.
    assert fooled > 10 and passed > 10


@pytest.mark.parametrize("name", NAMES)
def test_a_twin_of_a_name_that_no_policy_reads_passes(proxy, name):
    for twin in TWINS:
        for request in [
            Request("/free", query=f"ask_sum=1&{pair(twin, '2')}"),
            Request("/free", kind=FORM, body=f"ask_sum=1&{pair(twin, '2')}".encode()),
            Request("/free", query="ask_sum=1", kind=FORM, body=b"ask_sum=1", cookie="ask_sum=1"),
        ]:
            assert through(proxy, name, request).status == 200, request


def test_the_refusal_names_both(proxy):
    request = Request("/form", kind=FORM, body=b"ask_sum=5&ask.sum%00x=9999")
    answer = through(proxy, "php", request)
    assert answer.status == 400
    detail = answer.json()["detail"]
    assert "body#/ask_sum" in detail and "'ask.sum<U+0000>x' in the form" in detail


def overrides():
    for field in ["_method", ".method", " _method", "  .method", "_method\0x", "_METHOD"]:
        yield Request("/search", query=pair(field, "DELETE"), kind=FORM, body=b"a=b")
        yield Request("/search", kind=FORM, body=("a=b&" + pair(field, "DELETE")).encode())
        yield Request("/search", kind=JSON, body=json.dumps({"a": 1, field: "DELETE"}).encode())
    yield Request("/search", kind=JSON, body=b'{"\\u005fmethod":"DELETE"}')
    for head in ['name="_method"', "name='_method'", "name=_method", 'name="a"; name="_method"',
                 'name="_method"; name="a"', "name*=utf-8''_method", 'name=".method"',
                 'name*0="_me"; name*1="thod"', 'name="_m\\ethod"']:  # fmt: skip
        for kind in ["multipart/form-data; boundary=xx", 'Multipart/Form-Data; boundary="xx"']:
            yield Request("/search", kind=kind, body=parts_of((head, "DELETE")))
    for charset in CHARSETS:
        yield Request("/search", kind=f"{JSON}; {charset}", body=b'{"+AF8-method":"DELETE"}')


@pytest.mark.parametrize("name", NAMES)
def test_no_reader_takes_a_read_for_another_method(proxy, readers, name):
    fooled = 0
    for request in overrides():
        fooled += readers[name].ask(request)["method"] != "POST"
        answer = through(proxy, name, request)
        if answer.status == 200:
            assert answer.json()["method"] == "POST", (request, answer)
        else:
            assert answer.status in (400, 415), (request, answer)
    assert fooled
    for body in [b'{"method":"x","a":{"_method":"x"}}', b'["_method"]']:
        assert through(proxy, name, Request("/search", kind=JSON, body=body)).status == 200


@pytest.mark.parametrize("value, status", [("5", 200), ("1000.00", 200), ("1000.01", 202),
                                           ("90071992547409930000", 202), ("1e9", 202),
                                           ("5000e-9", 202), ("abc", 202)])  # fmt: skip
def test_a_number_in_a_form_or_a_query_compares_as_one(proxy, value, status):
    text = f"ask_sum={value}"
    asked = [
        Request("/form", kind=FORM, body=text.encode()),
        Request("/form", kind=MULTIPART, body=parts_of(('name="ask_sum"', value))),
        Request("/query", query=text),
    ]
    assert [through(proxy, "python", request).status for request in asked] == [status] * 3


def test_a_file_is_no_value_and_other_files_pass(proxy):
    file = ('name="ask_sum"; filename="sum.txt"', "5")
    refused = through(proxy, "python", Request("/form", kind=MULTIPART, body=parts_of(file)))
    assert refused.status == 400
    assert "the part 'ask_sum' of the form is a file" in refused.json()["detail"]
    beside = [GOOD_PART, ('name="scan"; filename="a.png"\r\nContent-Type: image/png', "\x89PNG")]
    passed = through(proxy, "python", Request("/form", kind=MULTIPART, body=parts_of(*beside)))
    assert passed.status == 200 and set(passed.json()["values"]) == {JUDGED}


SCRIPTS = """\
version: 1
backends: {{ php: {{ url: "http://127.0.0.1:{port}", hosts: [ 127.0.0.1 ] }} }}
tools:
  pay:
    match: POST php /pay
    effect: write
    undo: none
    approval: {{ by: [ finance ], hold: 0s }}
"""


def test_a_script_with_a_path_behind_it_is_no_way_around_a_gate(tmp_path):
    """PHP runs the script that it meets first on the path, and tells it the rest."""
    site, port = tmp_path / "site", free_ports()
    site.mkdir()
    for script in ("index.php", "pay.php"):
        (site / script).write_text(
            "<?php echo basename(__FILE__), ' ', $_SERVER['PATH_INFO'] ?? '';"
        )
    served = Reader(["php", "-n", "-S", f"127.0.0.1:{port}", "-t", site], port)
    try:
        ran = {path: rawhttp.call(port, "POST", path).body.decode() for path in
               ("/pay", "/index.php/pay", "/pay.php/x", "/index.php/other")}  # fmt: skip
        assert ran["/pay"] == ran["/index.php/pay"] == "index.php /pay"
        assert ran["/pay.php/x"] == "pay.php /x"
        with Staffed(tmp_path / "run", SCRIPTS.format(port=port)) as proxy:
            told = {path: rawhttp.call(proxy.port, "POST", path, "127.0.0.1") for path in ran}
        assert told["/pay"].status == 202
        for path in ("/index.php/pay", "/pay.php/x"):
            assert told[path].status == 400 and "PATH_INFO" in told[path].json()["detail"], path
        assert told["/index.php/other"].body == b"index.php /other"
    finally:
        served.stop()
