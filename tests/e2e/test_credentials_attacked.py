"""Credentials that only Recourse has, under attack: an agent that makes the backend show them in
every form that an answer has, and sends fields of its own in their place."""

import base64
import contextlib
import html
import json
import re
import secrets
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.approvals import Staffed
from support.double import ServedPort
from support.waiting import wait_until

SECRET = "canary/first+01&23=\"45'67<89=="
OTHER = "other-canary/0123456789"  # in its file it stands behind its scheme
POLICY = """\
version: 1
backends:
  shop:
    url: "{url}"
    hosts: [ shop.test ]
    timeout: 600s
    credentials: {{ X-Api-Key: {{ file: {secret} }}, Authorization: {{ file: {whole} }} }}
  bank: {{ url: "http://localhost:{port}", hosts: [ bank.test ], connect_timeout: 30s }}
tools:
  orders.create: {{ match: "POST shop /{{show}}", effect: write, undo: none, reason: a test }}
  bank.pay:
    match: "POST bank /{{show}}"
    effect: write
    undo: {{ request: "DELETE /{{path.show}}", credentials: {{ X-Api-Key: {{ file: {secret} }} }} }}
    approval: {{ by: [ finance ], hold: 0s, credentials: {{ X-Api-Key: {{ file: {secret} }} }} }}
"""
AGENT = {"X-Agent": "agents-own"}


def chunked(*pieces, trailer=b"", extension=b""):
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(one), extension, one) for one in pieces)
    return b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


def plain(body, fields=b""):
    return fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


def escaped(text):
    return "".join(f"\\u{ord(c):04x}" for c in text)


# Path by path: what the backend says behind the first line, about the key it was sent.
SHOWS = {
    "body": lambda key: plain(key),
    "json": lambda key: plain(json.dumps({"key": key.decode()}).encode()),
    "nested": lambda key: plain(json.dumps(json.dumps({"key": key.decode()})).encode()),
    "unicode": lambda key: plain(escaped(key.decode()).encode()),
    "UNICODE": lambda key: plain(escaped(key.decode()).upper().replace("U", "u").encode()),
    "url": lambda key: plain(urllib.parse.quote(key, safe="").encode()),
    "query": lambda key: plain(urllib.parse.quote_plus(key).lower().encode()),
    "twice": lambda key: plain(
        urllib.parse.quote(urllib.parse.quote(key, safe=""), safe="").encode()
    ),
    "page": lambda key: plain(html.escape(key.decode()).encode()),
    "field": lambda key: plain(b"{}", b"X-Seen: " + key + b"\r\n"),
    "link": lambda key: plain(b"", b"Link: <https://a.test/?k=%s>\r\n" % key),
    "moved": lambda key: plain(
        b"", b"Location: https://evil.test/%s\r\n" % urllib.parse.quote(key).encode()
    ),
    "cookie": lambda key: plain(b"{}", b"Set-Cookie: k=%s\r\n" % key),
    "pieces": lambda key: chunked(*(key[at : at + 1] for at in range(len(key)))),
    "trailer": lambda key: chunked(b"{}", trailer=b"X-Seen: " + key + b"\r\n"),
    "extension": lambda key: chunked(b"{}", extension=b';seen="%s"' % key),
    "close": lambda key: b"Connection: close\r\n\r\n" + key,
    "coded": lambda key: b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked(key)[30:],
    "unknown": lambda key: plain(key, b"Content-Encoding: zz\r\n"),
    "identity": lambda key: plain(key, b"Content-Encoding: identity\r\n"),
    "events": lambda key: chunked(b"data: ", key, b"\n\n"),
    "base64": lambda key: plain(base64.b64encode(b"key=" + key + b";")),
    "hex": lambda key: plain(key.hex().encode()),
    "wide": lambda key: plain(key.decode().encode("utf-16")),
    "upper": lambda key: plain(key.upper()),
    "script": lambda key: plain(key.replace(b"/", b"\\x2f").replace(b"+", b"\\053")),
    "last": lambda key: plain(key.split(b" ")[-1]),
}  # fmt: skip


def serve(port, sock):
    left = b""
    while (left := port.head(sock, left)) is not None:
        head = port.heads[-1]
        lines = head.split(b"\r\n")
        fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            fields.setdefault(name.lower(), []).append(value.strip())
        length = int(fields.get(b"content-length", [b"0"])[0])
        while len(left) < length:
            left += sock.recv(65536)
        left = left[length:]
        path = lines[0].split()[1].decode().strip("/").split("?")[0].split("/")[0]
        name = b"authorization" if path.startswith("token-") else b"x-api-key"
        path = path.removeprefix("token-")
        key = (fields.get(name) or [b"none"])[0]
        first = b"HTTP/1.1 200 " + (key if path == "reason" else b"OK")
        kind = b"text/event-stream" if path == "events" else b"text/plain"
        show = SHOWS.get(path, lambda _: plain(b"{}"))
        if path == "part" and b"range" in fields:
            start, end = fields[b"range"][0].removeprefix(b"bytes=").split(b"-")
            first = b"HTTP/1.1 206 Partial Content"
            show = lambda key: plain(key[int(start) : int(end)])  # noqa: E731
        elif path == "part":
            show = SHOWS["body"]
        if path == "moved":
            first = b"HTTP/1.1 302 Found"
        sock.sendall(first + b"\r\nContent-Type: " + kind + b"\r\n" + show(key))
        if path in ("close", "coded"):
            return


@pytest.fixture(scope="module")
def shop():
    with ServedPort(serve) as port:
        yield port


@pytest.fixture(scope="module")
def proxy(shop, tmp_path_factory):
    directory = tmp_path_factory.mktemp("attacked")
    file = directory / "key"
    file.write_text(SECRET + "\n")
    whole = directory / "whole"
    whole.write_text(f"Bearer {OTHER}\n")
    policy = POLICY.format(url=shop.url, port=shop.port, secret=file, whole=whole)
    with Staffed(directory / "recourse", policy) as running:
        yield running
        assert running.verify()["ok"]
        shown = running.stdout() + running.stderr()
        shown += running.cli("ledger", "export", "--with-answers").stdout
        for stored in running.data.rglob("*"):
            assert not stored.is_file() or SECRET.encode() not in stored.read_bytes(), stored
        assert not shows_it(shown.encode())


def readings(data):
    """What whoever reads it may make of the bytes."""
    text = data.decode("latin-1")
    yield text
    yield text.replace("\0", "")
    yield text.replace("\\x2f", "/").replace("\\053", "+")
    for word in re.findall(r"[\w+/=]{16,}", text):
        with contextlib.suppress(ValueError):
            yield base64.b64decode(word, validate=True).decode("latin-1")
        with contextlib.suppress(ValueError):
            yield bytes.fromhex(word).decode("latin-1")
    for _ in range(3):
        text = html.unescape(urllib.parse.unquote(text.replace("\\/", "/").replace("\\\\", "\\")))
        text = text.replace('\\"', '"').replace("\\'", "'")
        for number in range(0x20, 0x7F):
            for form in (f"\\u{number:04x}", f"\\u{number:04X}"):
                text = text.replace(form, chr(number))
        yield text


def shows_it(data, secret=SECRET):
    # Four fifths of it are enough to guess the rest.
    part = secret[: len(secret) * 4 // 5].lower()
    return any(part in one.lower() for one in readings(data))


def ask(proxy, method, path, fields=AGENT, body=b"", host="shop.test", trace=None):
    with rawhttp.Connection(proxy.port) as connection:
        traced = rawhttp.traced(trace or secrets.token_hex(16))
        pairs = {**fields, **traced, "Connection": "close"}
        connection.send(rawhttp.render(method, path, host, pairs, body))
        while connection.fill():
            pass
        return connection.buffer


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", [*SHOWS, "reason"])
def test_no_form_of_an_answer_shows_it(proxy, shop, method, path):
    sent = len(shop.heads)
    got = ask(proxy, method, f"/{path}", body=b"{}" if method == "POST" else b"")
    assert SECRET.encode() in shop.heads[sent], "the backend has got it"
    assert got.startswith(b"HTTP/1.1 ") and not shows_it(got), got


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["body", "last", "base64"])
def test_nor_what_follows_its_scheme(proxy, method, path):
    got = ask(proxy, method, f"/token-{path}", body=b"{}" if method == "POST" else b"")
    assert b" 200 " in got and not shows_it(got, OTHER), got


def test_nor_does_an_answer_to_what_was_approved_or_undone(proxy, shop):
    trace = secrets.token_hex(16)
    for path in ("body", "json"):
        assert b" 202 " in ask(proxy, "POST", f"/{path}", body=b"{}", host="bank.test", trace=trace)
    for waiting in proxy.waiting():
        assert proxy.approve(waiting["operation"])[0] == 200
        wait_until(lambda one=waiting: proxy.shown(one["operation"])["status"] == "finished")
    for path in ("body", "json"):
        got = ask(proxy, "POST", f"/{path}", body=b"{}", host="bank.test", trace=trace)
        assert b" 200 " in got and not shows_it(got), got
    assert proxy.cli("flows", "cancel", trace, "--reason", "a test").returncode == 0
    wait_until(lambda: proxy.admin("GET", f"/flows/{trace}")["phase"] == "UNDONE")
    assert SECRET.encode() in shop.heads[-1] and b"DELETE" in shop.heads[-1]
    assert not shows_it(json.dumps(proxy.admin("GET", f"/flows/{trace}")).encode())


def test_no_other_charset_is_asked_for(proxy, shop):
    fields = {**AGENT, "Accept": "text/plain;charset=ibm037", "Accept-Charset": "utf-16"}
    for method in ("GET", "POST"):
        ask(proxy, method, "/json", fields, b"{}" if method == "POST" else b"")
        assert b"charset" not in shop.heads[-1].lower()


@pytest.mark.parametrize("name", ["Range", "rAnGe"])
def test_no_part_of_an_answer_shows_a_part_of_it(proxy, shop, name):
    got = b""
    for start in range(0, len(SECRET), 4):
        fields = {**AGENT, name: f"bytes={start}-{start + 4}", "If-Range": '"v1"'}
        answer = ask(proxy, "GET", "/part", fields)
        assert b"range:" not in shop.heads[-1].lower()  # nor If-Range
        got += answer.partition(b"\r\n\r\n")[2]
    assert got and not shows_it(got), got


@pytest.mark.parametrize(
    "fields",
    [
        {"X-Api-Key": "theirs"},
        {"x-api-key": "theirs"},
        {"X_Api_Key": "theirs"},
        {"X-API_key": "theirs"},
        {"X-Api-Key": "theirs", "x-API-key": "theirs"},
        {"Connection": "close, X-Api-Key"},
        {"Connection": "x-api-key", "X-Api-Key": "theirs"},
        {"X-Api-Key": ""},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nothing_of_an_agents_stands_in_its_place(proxy, shop, method, fields):
    sent = len(shop.heads)
    got = ask(proxy, method, f"/else-{secrets.token_hex(4)}", {**AGENT, **fields},
              b"{}" if method == "POST" else b"")  # fmt: skip
    heads = shop.heads[sent:]
    assert b"HTTP/1.1 200" in got or not heads, got
    for head in heads:
        keys = [line for line in head.split(b"\r\n")
                if line.lower().replace(b"_", b"-").startswith(b"x-api-key:")]  # fmt: skip
        assert keys == [b"X-Api-Key: " + SECRET.encode()], head


def test_many_at_once_see_nothing(proxy):
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda i: ask(proxy, "GET", f"/{[*SHOWS][i % len(SHOWS)]}"),
                            range(100)):  # fmt: skip
            assert not shows_it(got), got
            assert base64.b64encode(SECRET.encode()) not in got
