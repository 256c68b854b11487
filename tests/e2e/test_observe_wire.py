"""Observe mode on the wire: the same bytes with and without Recourse, hop for hop."""

import json
import pathlib
import subprocess

import pytest
import requests

from support import rawhttp
from support.double import ServedPort
from support.policies import observed
from support.recourse import WAIT_MAX, Recourse

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

# What a proxy must change: its own hop, and the trace of its passing.
HOP = {"host", "via", "connection", "keep-alive"}
FRAMING = {"content-length", "transfer-encoding"}


def fields_of(head):
    lines = head.decode("latin-1").split("\r\n")
    pairs = [tuple(part.strip() for part in text.split(":", 1)) for text in lines[1:]]
    kept = [pair for pair in pairs if pair[0].lower() not in HOP | FRAMING]
    # Framing is written anew by every proxy; its fields may move and change their case.
    return lines[0], kept, [(n.lower(), v) for n, v in pairs if n.lower() in FRAMING]


ANSWER = (
    b"HTTP/1.1 201 Made it\r\nContent-Type: application/json\r\nSet-Cookie: a=1\r\n"
    b"Set-Cookie: b=2\r\nX-Accel-Redirect: /x\r\nRecourse-Event: 9\r\n"
    b"Idempotent-Replayed: true\r\nContent-Length: 10\r\n\r\n{\"id\": 42}"
)


def echoing(bodies):
    """Keeps what comes, byte for byte, and always answers ANSWER."""

    def serve(port, sock):
        left = port.head(sock)
        if left is None:
            return
        if b"100-continue" in port.heads[-1].lower():
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if b"chunked" in port.heads[-1].lower():
            while not left.endswith(b"0\r\n\r\n"):
                left += sock.recv(65536)
            size, _, left = left.partition(b"\r\n")
            left = left[: int(size, 16)]
        else:
            text = port.heads[-1].lower()
            length = 0
            if b"content-length:" in text:
                length = int(text.split(b"content-length:")[1].split(b"\r\n")[0])
            while len(left) < length:
                left += sock.recv(65536)
        bodies.append(left)
        sock.sendall(ANSWER)

    return serve


CALLS = [
    ("POST", "/orders/a?x=%2f&y", [("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01"),
                                  ("tracestate", "a=b"), ("Recourse-Intent", "i"),
                                  ("Recourse-Flow", "f"), ("Recourse-Session", "s"),
                                  ("Forwarded", "for=1.2.3.4"), ("X-Forwarded-For", "1.2.3.4"),
                                  ("Content-Type", "application/json")], b'{"cart": 1}'),
    ("POST", "/orders/b", [("Idempotency-Key", "\"k\""), ("Content-Type", "text/plain")], b"x"),
    ("POST", "/rows/no-scope", [("Content-Type", "application/json")], b"not json"),
    ("post", "/orders/a", [("SCRIPT_NAME", "/orders")], b"x"),
    ("POST", "/mail/a", [("X-HTTP-Method-Override", "DELETE")], b""),
    ("DELETE", "/never/listed/%41%2e", [], b""),
    ("PUT", "/a//b/../c;v=1?_method=DELETE", [("Accept-Encoding", "gzip, br")], b"12345"),
    ("GET", "/never/listed", [("Cookie", "s=1"), ("Authorization", "Bearer t")], b""),
    ("GET", "/a%2fb/./c", [], b""),
]  # fmt: skip


@pytest.mark.parametrize(
    "method, target, headers, body", CALLS, ids=[f"{m} {t}" for m, t, _, _ in CALLS]
)
def test_request_and_answer_are_those_of_a_call_without_recourse(
    tmp_path, method, target, headers, body
):
    bodies = []
    with ServedPort(echoing(bodies)) as backend:
        policy = observed(backend.url)
        host = f"127.0.0.1:{backend.port}"
        with Recourse(tmp_path, policy) as running:
            for port in (backend.port, running.port):
                answer = rawhttp.exchange(
                    port, rawhttp.render(method, target, host, [*headers, ("Connection", "close")],
                                         body, length=bool(body)),
                )  # fmt: skip
                if port == backend.port:
                    straight = answer
            assert running.running(), running.stderr()
    assert fields_of(backend.heads[0]) == fields_of(backend.heads[1])
    assert backend.heads[1].lower().count(b"\r\nvia:") == 1
    assert bodies[0] == bodies[1] == body
    heads = [part.partition(b"\r\n\r\n") for part in (straight, answer)]
    assert fields_of(heads[0][0]) == fields_of(heads[1][0])
    assert heads[0][2] == heads[1][2]


def test_unchanged_clients_see_no_difference(tmp_path):
    """curl, requests and Node's fetch: the same request at the backend, the same answer."""
    bodies = []
    payload = '{"cart": 7}'
    with ServedPort(echoing(bodies)) as backend:
        policy = observed(backend.url)
        with Recourse(tmp_path, policy) as running:
            seen = []
            for port in (backend.port, running.port):
                url = f"http://127.0.0.1:{port}/orders/clients"
                curl = subprocess.run(
                    ["curl", "-sS", "-H", "Content-Type: application/json", "-d", payload, url],
                    capture_output=True, text=True, timeout=2 * WAIT_MAX, check=True,
                ).stdout  # fmt: skip
                answer = requests.post(
                    url, data=payload, headers={"Content-Type": "application/json"},
                    timeout=WAIT_MAX,
                )
                node = subprocess.run(
                    ["node", str(CLIENTS / "call.mjs"), "fetch", url, payload],
                    capture_output=True, text=True, timeout=2 * WAIT_MAX, check=True,
                ).stdout  # fmt: skip
                fetched = json.loads(node)
                fetched["headers"] = {
                    k: v for k, v in fetched["headers"].items() if k not in HOP
                }
                headers = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
                status = (answer.status_code, answer.reason)
                seen.append((curl, status, headers, answer.text, fetched))
    assert seen[0] == seen[1]
    assert [fields_of(head) for head in backend.heads[:3]] == [
        fields_of(head) for head in backend.heads[3:]
    ]
    assert bodies[:3] == bodies[3:] == [payload.encode()] * 3
