"""What backends answer on read routes (4-R): broken answers are never passed on as whole ones, and
no byte of one answer ever reaches another request."""

import functools
import gzip
import hashlib

import pytest

from support import rawhttp
from support.double import ServedPort
from support.recourse import MEASURABLE, WAIT_MAX, Recourse

OK = "HTTP/1.1 200 OK\r\n"


def scripted(double, token, answer, end="fin", times=None):
    path = f"/read/{token}"
    double.script("GET", path, ["read", {"send": answer}, end], times)
    return path


def assert_next_is_clean(connection, double, token):
    """A request on the same client connection gets its own answer."""
    path = f"/read/{token}/next"
    connection.send(rawhttp.render("GET", path, "shop.test"))
    answer = connection.response()
    assert answer.status == 200 and answer.json()["target"] == path


UNREADABLE = {
    "R09_head_cut": OK + "Content-Type: te",
    "R03_switching_protocols": "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nraw",
    "R11_length_and_chunked": OK + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "3\r\nabc\r\n0\r\n\r\n",
    "R12_unknown_coding": OK + "Transfer-Encoding: xchunked\r\n\r\nabc",
    "R13_status_of_two_digits": "HTTP/1.1 99 X\r\nContent-Length: 0\r\n\r\n",
    "R13_status_of_four_digits": "HTTP/1.1 2000 X\r\nContent-Length: 0\r\n\r\n",
    "R13_status_of_letters": "HTTP/1.1 abc X\r\nContent-Length: 0\r\n\r\n",
    "R14_status_099": "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n",
    "R17_ssh_banner": "SSH-2.0-OpenSSH_9.2\r\n",
    "R18_lf_only": "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc",
    "R31_large_head": OK + "X: " + "y" * 70_000 + "\r\n\r\n",
    "R31_many_fields": OK + "A: b\r\n" * 1000 + "\r\n",
    "F6_two_lengths": OK + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "F7_space_before_colon": OK + "Content-Length : 3\r\n\r\nabc",
    "F8_folded_line": OK + "X-A: b\r\n c\r\nContent-Length: 3\r\n\r\nabc",
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_answer_that_cannot_be_read_is_a_502(proxy, double, token, name):
    path = scripted(double, token, UNREADABLE[name])
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        answer = connection.response()
        assert answer.status == 502, answer
        assert answer.header("Content-Type").startswith("application/problem+json")
        assert answer.header("Proxy-Status").startswith("recourse")
        assert_next_is_clean(connection, double, token)


CUT = {
    "R06_short_body": OK + "Content-Length: 100\r\n\r\n" + "a" * 50,
    "R08_chunk_cut": OK + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n8\r\nabc",
    "F17_no_last_chunk": OK + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    "F10_bare_lf_in_chunks": OK + "Transfer-Encoding: chunked\r\n\r\n5\nabcde\n0\n\n",
}


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("name", CUT)
def test_a_cut_body_is_never_passed_on_as_whole(proxy, double, token, name, end):
    path = scripted(double, token, CUT[name], end)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        try:
            answer = connection.response()
        except (rawhttp.Cut, ConnectionResetError):
            return
        assert answer.status == 502, "a cut answer looked complete to the client"


WHOLE = {
    "R01_100_first": (
        "HTTP/1.1 100 Continue\r\n\r\n" + OK + "Content-Length: 3\r\n\r\nabc",
        b"abc",
    ),
    "R02_103_first": (
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK + "Content-Length: 3\r\n\r\nabc",
        b"abc",
    ),
    "R07_ended_by_closing": (OK + "\r\nuntil the end", b"until the end"),
    "R16_http_1_0": ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
    "R16_http_1_0_ended_by_closing": ("HTTP/1.0 200 OK\r\n\r\nabc", b"abc"),
    "R20_encoded_body": (OK + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b!",
                         b"\x1f\x8b!"),
    "chunked": (OK + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
                b"abcde"),
    "F5_equal_lengths": (OK + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
    "empty_reason": ("HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\nabc", b"abc"),
    "R15_no_space_after_status": ("HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_is_passed_on(proxy, double, token, name):
    data, body = WHOLE[name]
    path = scripted(double, token, data)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        answer = connection.response()
        assert answer.status == 200 and answer.body == body
        assert answer.version == "HTTP/1.1"
        assert_next_is_clean(connection, double, token)


EXTRA = {
    "R10_second_answer": OK + "Content-Length: 3\r\n\r\nabc" + OK + "Content-Length: 4\r\n\r\nevil",
    "R10_extra_bytes": OK + "Content-Length: 3\r\n\r\nabcEVILEVIL",
    "R10_after_last_chunk": OK + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + OK
                               + "Content-Length: 4\r\n\r\nevil",
}  # fmt: skip


@pytest.mark.parametrize("name", EXTRA)
def test_bytes_after_an_answer_are_never_served_to_another_request(proxy, double, token, name):
    path = scripted(double, token, EXTRA[name], {"sleep": 0.05})
    with rawhttp.Connection(proxy.port) as connection:
        for _ in range(3):
            connection.send(rawhttp.render("GET", path, "shop.test"))
            answer = connection.response()
            assert answer.status == 200 and answer.body == b"abc"
            assert_next_is_clean(connection, double, token)


def test_r04_a_204_has_no_body_whatever_follows(proxy, double, token):
    path = scripted(double, token, "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello",
                    {"sleep": 0.05})  # fmt: skip
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        answer = connection.response()
        assert answer.status in (204, 502)
        assert_next_is_clean(connection, double, token)


def test_f18_an_answer_ended_by_closing_is_chunked_anew(proxy, double, token):
    path = scripted(double, token, OK + "\r\nabc")
    answer = rawhttp.call(proxy.port, "GET", path)
    assert answer.header("Transfer-Encoding") == "chunked" and answer.body == b"abc"


def test_h11_an_http_1_0_client_gets_no_chunks(proxy, double, token):
    path = scripted(double, token, OK + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    data = rawhttp.exchange(
        proxy.port, f"GET {path} HTTP/1.0\r\nHost: shop.test\r\n\r\n".encode()
    )
    head, _, body = data.partition(b"\r\n\r\n")
    assert body == b"abc" and b"chunked" not in head.lower()


def test_fields_that_are_not_the_backends_to_send_are_dropped(proxy, double, token):
    path = scripted(
        double, token,
        OK + "Idempotent-Replayed: true\r\nRecourse-Outcome: executed\r\nX-Accel-Redirect: /x\r\n"
        "Keep-Alive: timeout=5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Fine: 2\r\nSet-Cookie: a=1\r\n"
        "Set-Cookie: b=2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
        "Content-Type: text/evil\r\n\r\n",
    )  # fmt: skip
    answer = rawhttp.call(proxy.port, "GET", path)
    names = [name.lower() for name, _ in answer.headers]
    for name in ("idempotent-replayed", "recourse-outcome", "x-accel-redirect", "x-hop",
                 "keep-alive", "content-type"):  # fmt: skip
        assert name not in names
    assert answer.all("Set-Cookie") == ["a=1", "b=2"] and answer.header("X-Fine") == "2"
    assert answer.trailers == []


@pytest.mark.parametrize("status", [404, 500, 302, 304, 599])
def test_any_final_status_of_a_read_is_the_backends_own(proxy, double, token, status):
    body = "" if status == 304 else "abc"
    path = scripted(
        double, token,
        f"HTTP/1.1 {status} Some Reason\r\nLocation: /x\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}",
    )  # fmt: skip
    answer = rawhttp.call(proxy.port, "GET", path)
    assert (answer.status, answer.body) == (status, body.encode())
    assert answer.header("Location") == "/x"


MIB = 1 << 20
JUDGED = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], timeout: 5m }}
tools:
  judged.create:
    match: POST shop /judged
    effect: write
    success_when: [ "answer.body#/ok == true" ]
    undo: none
    reason: a row of a test is never undone
  plain.create: {{ match: POST shop /plain, effect: write, undo: none, reason: test }}
"""
BLOCK = b"z" * (256 * 1024)


@functools.cache
def bomb():
    return gzip.compress(b'{"ok": true, "pad": "' + b"0" * (64 * MIB) + b'"}', 9)


def send_bomb(sock):
    head = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    sock.sendall(head + b"Content-Length: %d\r\n\r\n" % len(bomb()) + bomb())


def send_huge_head(sock):
    sock.sendall(b"HTTP/1.1 201 Created\r\n")
    for number in range(64):
        sock.sendall((b"X-%d: " % number + b"h" * 1000 + b"\r\n") * 1024)
    sock.sendall(b"Content-Length: 2\r\n\r\n{}")


def send_huge_body(sock):
    sock.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % (10 << 30))
    for _ in range(40_000):
        sock.sendall(BLOCK)


# What is sent, to which tool, the phase, and what the first caller and a repeat are told.
HUGE = {
    "b30_gzip_bomb": (send_bomb, "/judged", "UNCERTAIN", "unknown"),
    "b30_head_of_64_MiB": (send_huge_head, "/plain", "UNCERTAIN", "unknown"),
    "b30_body_of_10_GiB": (send_huge_body, "/plain", "SUCCEEDED", "executed"),
}


@pytest.mark.parametrize("name", HUGE)
def test_b30_a_huge_answer_of_a_write_is_judged_in_bounded_memory(tmp_path, name):
    """The effect is had once, whatever came of the answer; repeats are told what is known of it."""
    send, path, phase, outcome = HUGE[name]
    effects = []

    def serve(port, sock):
        if port.head(sock) is not None:
            effects.append(path)
            send(sock)

    with ServedPort(serve) as port, Recourse(tmp_path, JUDGED.format(url=port.url)) as running:
        headers = rawhttp.traced(hashlib.sha256(name.encode()).hexdigest()[:32])
        before, _ = running.memory_kib()
        for _ in range(3):
            answer = rawhttp.call(
                running.port, "POST", path, headers=headers, body=b"{}", timeout=2 * WAIT_MAX
            )
            told = answer.outcome or answer.json()["outcome"]
            assert told == outcome, answer
            assert len(answer.body) < MIB
        assert running.events_for(path)[-1]["phase"] == phase
        assert len(effects) == 1
        _, most = running.memory_kib()
        assert not MEASURABLE or most - before < 32 * 1024, f"{before} KiB before, {most} at most"
