"""What the admin port makes of requests by their bytes: pieces, chunks, pipelines, bounds."""

import json
import socket

import pytest

from support.recourse import WAIT_MAX

HEAD_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 1024 * 1024


@pytest.fixture
def talk(proxy):
    """Sends the pieces; gives all that comes back until the other side closes."""
    token = proxy.token_path.read_text().strip()

    def one(*pieces):
        with socket.create_connection(("127.0.0.1", proxy.ports["admin"]), WAIT_MAX) as sock:
            for piece in pieces:
                sock.sendall(piece)
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(65536), b""))

    def head(line, *fields):
        lines = [f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}", *fields]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    one.head = head
    return one


def is_verified(answer):
    start, _, body = answer.partition(b"\r\n\r\n")
    return start.startswith(b"HTTP/1.1 200 ") and json.loads(body)["ok"]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_chunked_request_is_read_however_it_is_cut(talk, size):
    whole = talk.head("POST /ledger/verify", "Transfer-Encoding: chunked", "Connection: close")
    whole += b"2\r\n{}\r\n0\r\n\r\n"
    assert is_verified(talk(*(whole[i : i + size] for i in range(0, len(whole), size))))


def test_requests_that_come_in_one_piece_are_answered_in_order(talk):
    chunked = talk.head("POST /ledger/verify", "Transfer-Encoding: chunked") + b"0\r\n\r\n"
    sized = talk.head("POST /ledger/verify", "Content-Length: 2") + b"{}"
    answers = talk(
        talk.head("GET /policy") + sized + chunked + talk.head("GET /nothing") + sized
        + talk.head("GET /policy", "Connection: close")
    )  # fmt: skip
    statuses = [int(answer[:3]) for answer in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 200, 200, 404, 200, 200]


def test_a_head_over_the_bound_ends_the_connection(talk):
    line = "X-Long: " + HEAD_BYTES_MAX * "x"
    assert not talk(talk.head("GET /policy", line)).startswith(b"HTTP/1.1 200")


def test_a_body_at_the_bound_is_read_and_one_over_it_is_refused(talk):
    sized = "Content-Length: {}", "Connection: close"
    just = talk.head("POST /ledger/verify", sized[0].format(BODY_BYTES_MAX), sized[1])
    assert b" 413 " not in talk(just, BODY_BYTES_MAX * b" ").split(b"\r\n")[0]
    over = talk.head("POST /ledger/verify", sized[0].format(BODY_BYTES_MAX + 1), sized[1])
    assert talk(over, (BODY_BYTES_MAX + 1) * b" ").startswith(b"HTTP/1.1 413 ")
    chunked = talk.head("POST /ledger/verify", "Transfer-Encoding: chunked")
    chunks = 17 * (b"10000\r\n" + 0x10000 * b" " + b"\r\n")
    assert talk(chunked, chunks + b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
