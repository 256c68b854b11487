"""How long one call holds up its I/O thread, whatever an agent sends: the longest turn of each."""

import http.client
import itertools
import os

from servers import Servers

MIB = 1 << 20
BODY_MAX = 8 * MIB
GOAL_MS = 50
TURNS = "recourse_io_turn_seconds_bucket"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MULTIPART = "multipart/form-data; boundary=xx"


def filled(piece, most=BODY_MAX, begin=b"", end=b"", joint=b""):
    """As many pieces as fit."""
    room = most - len(begin) - len(end) + len(joint)
    return begin + joint.join([piece] * (room // (len(piece) + len(joint)))) + end


def numbered(count, text, joint):
    return joint.join(text % (number, number) for number in range(count))


def parts(count, size):
    head = b'--xx\r\nContent-Disposition: form-data; name="n%d"\r\n\r\n'
    all_of_them = (head % number + b"x" * size + b"\r\n" for number in range(count))
    return b"".join(all_of_them) + b"--xx--\r\n"


def message(params):
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params + b"}"


NEAR_END = b'--xx\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
ONE_TEXT = {"begin": b'{"order_id":"', "end": b'"}'}
QUERY = filled(b'{a(b:\\"c\\")', begin=b'{"query":"', end=b'"}')
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}'
ARGUMENTS = {"begin": b'{"name":"t","arguments":{"a":"', "end": b'"}}'}

# name: (path, content type, body)
BODIES = {
    "form, 8 MiB of a&": ("/orders", FORM, filled(b"a&")),
    "form, 10,000 pairs": ("/orders", FORM, numbered(10_000, b"n%d=%d", b"&")),
    "form, 10,000 long pairs": ("/orders", FORM, b"&".join([b"n=" + b"%41" * 250] * 10_000)),
    "form, 8 MiB of escapes": ("/orders", FORM, filled(b"%41", begin=b"order_id=")),
    "form of a read, 8 MiB": ("/search", FORM, filled(b"a=b&")),
    "form, 8 MiB of a;": ("/orders", FORM, filled(b"a;", begin=b"order_id=1;")),
    "JSON, 8 MiB of members": ("/orders", JSON, filled(b'"a":1', begin=b"{", end=b"}", joint=b",")),
    "JSON, 60 deep, 8 MiB": ("/orders", JSON, filled(b" ", begin=b"[" * 60, end=b"]" * 60)),
    "JSON, 99,990 nodes": ("/orders", JSON, b"[" + b",".join([b"1"] * 99_990) + b"]"),
    "JSON, 49,990 members": ("/orders", JSON, b"{" + numbered(49_990, b'"n%d":%d', b",") + b"}"),
    "JSON, 99,000 long numbers": ("/orders", JSON, b"[" + b",".join([b"1" * 63] * 99_000) + b"]"),
    "JSON, 8 MiB of \\u0041": ("/orders", JSON, filled(b"\\u0041", **ONE_TEXT)),
    "JSON, 8 MiB of \\n": ("/notes", JSON, filled(b"\\n", **ONE_TEXT)),
    "JSON, 8 MiB of text": ("/orders", JSON, filled(b"x", **ONE_TEXT)),
    "GraphQL, 8 MiB": ("/notes", JSON, QUERY),
    "GraphQL of a read, 8 MiB": ("/search", JSON, QUERY),
    "multipart, 1,000 parts": ("/orders", MULTIPART, parts(1_000, 8_000)),
    "multipart, 8 MiB of near ends": ("/orders", MULTIPART, filled(
        b"\r\n--x", begin=NEAR_END, end=b"\r\n--xx--\r\n")),
    "multipart, 8 MiB of names": ("/orders", MULTIPART, filled(
        b"Content-Disposition: " + b"name=" * 190 + b"\r\n", begin=NEAR_END,
        end=b"\r\n--xx--\r\n")),
    "multipart, 900 parts of names": ("/orders", MULTIPART, b"".join(
        [NEAR_END[:-4] + b";name=" * 15 + b"x" * 900 + b"\r\n\r\n1\r\n"] * 900) + b"--xx--\r\n"),
    "text, 8 MiB": ("/notes", "text/plain", filled(b"x")),
    "MCP call, 8 MiB of \\u0041": ("/mcp", JSON, message(
        filled(b"\\u0041", BODY_MAX - 100, **ARGUMENTS))),
    "MCP call, 99,000 nodes": ("/mcp", JSON, message(
        b'{"name":"t","arguments":{"a":[' + b",".join([b"1"] * 99_000) + b"]}}")),
    "MCP batch, 4 MiB": ("/mcp", JSON, b"[" + filled(CALL, 4 * MIB, joint=b",") + b"]"),
}  # fmt: skip
# name: (target, fields)
HEADS = {
    "head, 95 fields": ("/orders", {f"X-Field-{n}": "v" * 300 for n in range(95)}),
    "head, 15 KiB of cookies": ("/orders", {"Cookie": "a=b; " * 3_000}),
    "path, 7 KiB of %2F": ("/" + "a%2Fb" * 250 + "x" * 5_000, {}),
    "path, 7 KiB of escapes": ("/" + "%C3%A9" * 1_200, {}),
    "path, 250 dot segments": ("/a/.." * 125, {}),
    "query, 7 KiB of pairs": ("/orders?" + "a&" * 3_500, {}),
}
keys = itertools.count(1)


def send(server, path, kind, body, fields=None):
    """Whatever the answer is: what it takes of the thread is what this is about."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Content-Type": kind, "Host": "mcp.test" if path == "/mcp" else "127.0.0.1",
               "Accept": "application/json, text/event-stream", "Recourse-Intent": f"k{next(keys)}",
               **(fields or {})}
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        return 0  # refused, and closed before all of it was sent
    finally:
        connection.close()


def turns(server):
    """{bound in ms: turns of at most that}"""
    return {float(name.partition('le="')[2].partition('"')[0]) * 1e3: count
            for name, count in server.metrics().items() if name.startswith(TURNS)}


def longest(server, path, kind, body, fields=None):
    """The bound in ms that no turn meanwhile was over, and the answer's status."""
    before = turns(server)
    status = send(server, path, kind, body, fields)
    after = turns(server)
    total = after[float("inf")] - before[float("inf")]
    return min(bound for bound in after if after[bound] - before[bound] == total), status


def run(options, report):
    cpus = os.sched_getaffinity(0)
    cases = {name: (path, kind, body, None) for name, (path, kind, body) in BODIES.items()}
    cases |= {name: (target, JSON, b"{}", fields) for name, (target, fields) in HEADS.items()}
    found = {}
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", cpus)
        server = servers.start_recourse(cpus, backend.port, "turns.yaml")
        for name, case in cases.items():
            # A round may meet another program's turn; what the call itself takes is in each.
            rounds = [longest(server, *case) for _ in range(options.rounds)]
            found[name] = (min(bound for bound, _ in rounds), rounds[0][1])
    print(f"\nThe longest turn of an I/O thread (goal: at most {GOAL_MS} ms for any call)")
    for name, (bound, status) in found.items():
        print(f"{name:34}{f'up to {bound:g} ms':>16}   answered {status or 'by a close'}")
    report.data["longest_turns_ms"] = {name: bound for name, (bound, _) in found.items()}
