"""What a backend's answer to a write proves, over raw sockets (corpus 4-R, the table of outcomes).

Each row is the exact bytes of an answer, the phase that they lead to and what the caller is told.
The same bytes as answers of reads stand in test_answers.py.
"""

import gzip
import hashlib
import json
import zlib

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import Recourse

TOOLS = """\
  judged.create:
    { match: "POST shop /judged/{token}", effect: write, external_ref: answer.body#/id,
      success_when: [ "answer.body#/ok == true" ],
      undo: { request: "DELETE /judged/{external_ref}" } }
  taken.create:
    { match: "POST shop /taken/{token}", effect: write, undo: none, reason: test,
      success_when: [ "answer.status == 202" ] }
"""
JSON = "Content-Type: application/json\r\n"
CREATED = "HTTP/1.1 201 Created\r\n" + JSON
OK = "HTTP/1.1 200 OK\r\n" + JSON
DONE = '{"id":"e1","ok":true}'
UNKNOWN, LOST, SUCCESS = "UNCERTAIN", "ANSWER_LOST", "SUCCEEDED"


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    policy = standard(double, extra_tools=TOOLS)
    with Recourse(tmp_path_factory.mktemp("recourse"), policy) as running:
        yield running
        assert running.stop() == 0, running.stderr()[-4000:]


def whole(body, head=CREATED, extra=""):
    return f"{head}{extra}Content-Length: {len(body)}\r\n\r\n{body}"


def status_line(text, body=DONE):
    return whole(body, f"HTTP/1.1 {text}\r\n{JSON}")


def chunks(body, trailers=""):
    return f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n{trailers}\r\n"


# (id, answer, phase, status for the caller)
ANSWERS = [
    ("R01_100_then_201", "HTTP/1.1 100 Continue\r\n\r\n" + whole(DONE), SUCCESS, 201),
    ("R02_103_then_200", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + whole(DONE, OK),
     SUCCESS, 200),
    ("R02_17_interim", "HTTP/1.1 102 Processing\r\n\r\n" * 17 + whole(DONE), UNKNOWN, 502),
    ("R03_101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
     UNKNOWN, 502),
    ("R04_204_with_bytes", "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello", SUCCESS, 204),
    ("R05_304", "HTTP/1.1 304 Not Modified\r\n\r\n", UNKNOWN, 304),
    ("R06_short_body", CREATED + "Content-Length: 100\r\n\r\n" + DONE, LOST, 502),
    ("R07_closed_mid_json", CREATED + "\r\n" + DONE[:-1], LOST, 502),
    ("R07_closed_behind_json", CREATED + "\r\n" + DONE, SUCCESS, 201),
    ("R07_closed_text", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\ndone", SUCCESS, 200),
    ("R08_chunk_cut", CREATED + "Transfer-Encoding: chunked\r\n\r\n30\r\n" + DONE, LOST, 502),
    ("R08_no_last_chunk", CREATED + chunks(DONE)[:-5], LOST, 502),
    ("R08_bad_chunk", CREATED + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + DONE, LOST, 502),
    ("R09_head_cut", CREATED[:-5], UNKNOWN, 502),
    ("R09_status_cut", "HTTP/1.1 20", UNKNOWN, 502),
    ("R09_nothing", "", UNKNOWN, 502),
    ("R10_second_answer", whole(DONE) + whole('{"id":"evil"}'), SUCCESS, 201),
    ("R10_extra_bytes", whole(DONE) + "EVIL", SUCCESS, 201),
    ("R11_length_and_chunked", CREATED + "Content-Length: 3\r\n" + chunks(DONE), UNKNOWN, 502),
    ("R12_unknown_coding", CREATED + "Transfer-Encoding: xchunked\r\n\r\n" + DONE, UNKNOWN, 502),
    ("R12_chunked_twice", CREATED + "Transfer-Encoding: chunked\r\n" + chunks(DONE), UNKNOWN, 502),
    ("R13_two_digits", status_line("99 X"), UNKNOWN, 502),
    ("R13_four_digits", status_line("2000 X"), UNKNOWN, 502),
    ("R13_letters", status_line("abc X"), UNKNOWN, 502),
    ("R14_099", status_line("099 X"), UNKNOWN, 502),
    ("R14_000", status_line("000 X"), UNKNOWN, 502),
    ("R14_600", status_line("600 X"), UNKNOWN, 600),
    ("R14_999", status_line("999 X"), UNKNOWN, 999),
    ("R15_no_reason", status_line("201 "), SUCCESS, 201),
    ("R15_no_space", status_line("201"), SUCCESS, 201),
    ("R16_http_1_0", whole(DONE).replace("1.1", "1.0"), SUCCESS, 201),
    ("R16_chunked_in_http_1_0", (CREATED + chunks(DONE)).replace("1.1", "1.0"), UNKNOWN, 502),
    ("R17_http_2", "\0\0\x12\4\0\0\0\0\0\0\3\0\0\0\x64", UNKNOWN, 502),
    ("R17_ssh", "SSH-2.0-OpenSSH_9.2\r\n", UNKNOWN, 502),
    ("R17_http_1_2", whole(DONE).replace("1.1", "1.2"), UNKNOWN, 502),
    ("R18_lf_only", whole(DONE).replace("\r\n", "\n"), UNKNOWN, 502),
    ("R26_login_page", whole("<html>", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"),
     SUCCESS, 200),
    ("R27_202", whole("{}", "HTTP/1.1 202 Accepted\r\n" + JSON), SUCCESS, 202),
    ("R28_206", whole(DONE, "HTTP/1.1 206 Partial\r\n" + JSON), UNKNOWN, 206),
    ("R28_207", whole(DONE, "HTTP/1.1 207 Multi-Status\r\n" + JSON), UNKNOWN, 207),
    ("R29_close", whole(DONE, CREATED, "Connection: close\r\n"), SUCCESS, 201),
    ("R31_30_KiB_of_head", whole(DONE, CREATED, "".join(
        f"X-{n}: {'y' * 1000}\r\n" for n in range(29))), SUCCESS, 201),
    ("R31_70_KiB_of_head", whole(DONE, CREATED, "".join(
        f"X-{n}: {'y' * 1000}\r\n" for n in range(70))), UNKNOWN, 502),
    ("R31_field_of_17_KiB", whole(DONE, CREATED, "X: " + "y" * 17_000 + "\r\n"), UNKNOWN, 502),
    ("R31_98_fields", whole(DONE, CREATED, "A: b\r\n" * 98), SUCCESS, 201),
    ("R31_99_fields", whole(DONE, CREATED, "A: b\r\n" * 99), UNKNOWN, 502),
    ("F5_equal_lengths", whole(DONE, CREATED, f"Content-Length: {len(DONE)}\r\n"), SUCCESS, 201),
    ("F6_two_lengths", whole(DONE, CREATED, "Content-Length: 3\r\n"), UNKNOWN, 502),
    ("F7_space_before_colon", whole(DONE, CREATED, "X : y\r\n"), UNKNOWN, 502),
    ("F8_folded", whole(DONE, CREATED, "X: y\r\n z\r\n"), UNKNOWN, 502),
    ("F9_nul", whole(DONE, CREATED, "X: y\0\r\n"), UNKNOWN, 502),
]  # fmt: skip


def trace_of(path):
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def post(proxy, path):
    headers = rawhttp.traced(trace_of(path))
    return rawhttp.call(proxy.port, "POST", path, headers=headers, body={"client_ref": path})


def write(proxy, double, path, answer, end="fin"):
    """One write that is answered so; gives the caller's answer and the last event."""
    double.script("POST", path, ["read", "execute", {"send": answer}, end], times=1)
    return post(proxy, path), proxy.events(trace=trace_of(path))[-1]


@pytest.mark.parametrize("name, answer, phase, status", ANSWERS, ids=[row[0] for row in ANSWERS])
def test_the_bytes_of_an_answer_lead_to_a_phase(proxy, double, token, name, answer, phase, status):
    path = f"/plain/{token}"
    told, event = write(proxy, double, path, answer)
    assert (event["phase"], told.status) == (phase, status), (event, told)
    if phase == SUCCESS:
        assert told.outcome == "executed"
    elif phase == LOST:
        assert told.outcome == "executed" and not told.json()["retryable"]
    elif status == 502:
        assert told.outcome == "unknown" and told.json()["outcome"] == "unknown"
    # Whatever it was: it is never sent again.
    again = post(proxy, path)
    assert again.status == (status if phase == SUCCESS else 409 if phase == UNKNOWN else 502)
    assert len(double.effects(path)) == len(double.requests(path)) == 1


REJECTED = (307, 308, 400, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 416, 417, 421, 422,
            423, 424, 426, 431, 451, 501, 505)  # fmt: skip
NOT_SENT = (401, 407, 412, 425, 428, 429)


def phase_of(status):
    if status in REJECTED:
        return "REJECTED"
    if status in NOT_SENT:
        return "NOT_SENT"
    return SUCCESS if 200 <= status < 300 and status not in (206, 207) else UNKNOWN


STATUSES = [*range(200, 209), 226, *range(300, 309), *range(400, 432), 451, 499, *range(500, 512),
            520, 599, 600, 777, 999]  # fmt: skip


def test_every_status_has_the_phase_of_the_table(proxy, double, token):
    for status in STATUSES:
        path = f"/plain/{token}-{status}"
        body = "" if status in (204, 304) else DONE
        told, event = write(proxy, double, path, status_line(f"{status} X", body))
        assert event["phase"] == phase_of(status), status
        assert (told.status, told.body.decode()) == (status, body) and told.outcome


def test_r10_bytes_behind_an_answer_reach_nobody(proxy, double, token):
    evil = whole('{"id":"evil"}')
    for n in range(3):
        told, _ = write(proxy, double, f"/plain/{token}-{n}", whole(DONE) + evil, {"sleep": 0.02})
        assert told.json()["id"] == "e1"
        answer = rawhttp.call(proxy.port, "GET", f"/read/{token}")
        assert answer.json()["target"] == f"/read/{token}"


OURS = (
    "Idempotent-Replayed: true\r\nRecourse-Outcome: unknown\r\nRecourse-Event: 1\r\n"
    "recourse-anything: x\r\nX-Accel-Redirect: /private\r\nX-Accel-Buffering: no\r\n"
    "X-Sendfile: /etc/passwd\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
    "Proxy-Authenticate: Basic\r\nTrailer: X-T\r\nUpgrade: h2c\r\nX-Fine: 2\r\n"
)
NEVER = (
    "recourse-anything x-accel-redirect x-sendfile x-hop keep-alive trailer "
    "upgrade x-t proxy-authenticate"
).split()


def test_r19_r21_r22_r23_fields_that_are_not_the_backends_are_dropped(proxy, double, token):
    path = f"/plain/{token}"
    trailers = "X-T: 1\r\nSet-Cookie: evil=1\r\nContent-Type: text/evil\r\n"
    answer = CREATED + OURS + "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n" + chunks(DONE, trailers)
    told, event = write(proxy, double, path, answer)
    replayed = post(proxy, path)
    assert told.header("Idempotent-Replayed") is None and replayed.replayed
    for seen in (told, replayed):
        assert [name for name, _ in seen.headers if name.lower() in NEVER] == []
        assert seen.outcome == "executed" and seen.header("X-Fine") == "2"
        assert seen.all("Recourse-Event") == [str(event["event_id"])]
        assert seen.all("Content-Type") == ["application/json"] and seen.trailers == []
    assert told.all("Set-Cookie") == ["a=1", "b=2"] and replayed.all("Set-Cookie") == []
    assert replayed.body == told.body


# R20: an answer that is compressed is read decoded, and kept and told as the backend sent it.
def encoded(coding, data, extra=""):
    return whole(data.decode("latin-1"), CREATED, f"Content-Encoding: {coding}\r\n{extra}")


def bomb(size):
    return DONE.encode() + b" " * size


READABLE = [
    ("gzip", encoded("gzip", gzip.compress(DONE.encode()))),
    ("x_gzip", encoded("X-GZip", gzip.compress(DONE.encode()))),
    ("deflate", encoded("deflate", zlib.compress(DONE.encode()))),
    ("identity", encoded("identity", DONE.encode())),
    ("chunked", CREATED + "Content-Encoding: gzip\r\n"
     + chunks(gzip.compress(DONE.encode()).decode("latin-1"))),
    ("ended_by_closing", CREATED + "Content-Encoding: gzip\r\n\r\n"
     + gzip.compress(DONE.encode()).decode("latin-1")),
]  # fmt: skip
UNREADABLE = [
    ("brotli", encoded("br", b"\x0b\x02\x80{}\x03")),
    ("zstd", encoded("zstd", b"\x28\xb5\x2f\xfd")),
    ("twice", encoded("gzip, gzip", gzip.compress(gzip.compress(DONE.encode())))),
    ("two_fields", encoded("gzip", gzip.compress(DONE.encode()), "Content-Encoding: gzip\r\n")),
    ("not_gzip", encoded("gzip", DONE.encode())),
    ("raw_deflate", encoded("deflate", zlib.compress(DONE.encode())[2:-4])),
    ("cut", encoded("gzip", gzip.compress(DONE.encode())[:-1])),
    ("two_members", encoded("gzip", gzip.compress(DONE.encode()) + gzip.compress(b" "))),
    ("bytes_behind", encoded("gzip", gzip.compress(DONE.encode()) + b"x")),
    ("bomb_by_ratio", encoded("gzip", gzip.compress(bomb(100_000)))),
    ("bomb_by_size", encoded("deflate", zlib.compress(bomb(3 << 20), 1))),
]


@pytest.mark.parametrize("name, answer", READABLE, ids=[row[0] for row in READABLE])
def test_r20_a_compressed_answer_is_read_and_kept_as_it_came(proxy, double, token, name, answer):
    path = f"/judged/{token}"
    told, event = write(proxy, double, path, answer)
    assert (told.status, event["phase"]) == (201, SUCCESS), event
    assert event["external_ref"] == "e1" and event["undo"]
    again = post(proxy, path)
    assert again.replayed and again.body == told.body
    assert again.header("Content-Encoding") == told.header("Content-Encoding")
    data = answer.encode("latin-1")
    assert told.body in data and told.body.startswith(DONE[:2].encode()) == (name == "identity")


@pytest.mark.parametrize("name, answer", UNREADABLE, ids=[row[0] for row in UNREADABLE])
def test_r20_what_cannot_be_decoded_proves_nothing(proxy, double, token, name, answer):
    told, event = write(proxy, double, f"/judged/{token}", answer)
    assert (told.status, told.outcome, event["phase"]) == (201, "unknown", UNKNOWN), event
    assert "success_when" in event["detail"]
    # Without a condition the status speaks; the reference is missing, and that is noted.
    told, event = write(proxy, double, f"/plain/{token}", answer)
    assert (told.status, event["phase"]) == (201, SUCCESS), event
    assert event["external_ref"] == "" and "external_ref" in event["detail"]
    assert told.body in answer.encode("latin-1")


def test_r20_a_compressed_answer_settles_an_unknown_outcome(proxy, double, token):
    path = f"/probed/{token}"
    items = gzip.compress(b'{"items":[{"id":"found-1"}]}')
    double.script("GET", path, ["read", {"send": encoded("gzip", items)}, "fin"])
    double.script("POST", path, ["read", "execute", "rst"], times=1)
    post(proxy, path)
    event = proxy.await_phase(path, SUCCESS)
    assert event["cause"] == "probe_present" and event["external_ref"] == "found-1"
    assert len(double.effects(path)) == 1


def refs_missing(proxy, tool):
    _, text = proxy.probe("/metrics")
    for line in text.splitlines():
        if line.startswith("recourse_refs_missing_total{") and f'tool="{tool}"' in line:
            return float(line.rsplit(" ", 1)[1])
    return 0.0


REFS = [
    ("R24_missing", '{"ok":true}'),
    ("R24_null", '{"id":null,"ok":true}'),
    ("R24_object", '{"id":{"a":1},"ok":true}'),
    ("R24_array", '{"id":["e1"],"ok":true}'),
    ("R24_empty", '{"id":"","ok":true}'),
    ("R24_10_KB", json.dumps({"id": "x" * 10_000, "ok": True})),
    ("R24_line_break", json.dumps({"id": "a\r\nX-Evil: 1", "ok": True})),
    ("R24_no_json", "<html>"),
    ("R25_two_ids", '{"id":"a","id":"b","ok":true}'),
]


@pytest.mark.parametrize("name, body", REFS, ids=[row[0] for row in REFS])
def test_r24_a_success_without_a_usable_reference_is_noted(proxy, double, token, name, body):
    before = refs_missing(proxy, "plain.create")
    told, event = write(proxy, double, f"/plain/{token}", whole(body))
    assert (told.status, event["phase"], event["external_ref"]) == (201, SUCCESS, ""), event
    assert "no external_ref at answer.body#/id" in event["detail"]
    assert refs_missing(proxy, "plain.create") == before + 1


@pytest.mark.parametrize("ref", ["a/b", "../admin", "%2e%2e", "x?y", "*", "all", "ä", "a b"])
def test_r24_a_reference_that_fits_no_path_is_kept_and_makes_no_undo(proxy, double, token, ref):
    """Names of resources have a '/', so a reference with one is kept; what may not go into a path
    is refused where it would."""
    body = json.dumps({"id": ref, "ok": True})
    told, event = write(proxy, double, f"/judged/{token}", whole(body))
    assert (told.status, event["phase"], event["external_ref"]) == (201, SUCCESS, ref), event
    assert not event["undo"] and "undo request cannot be made" in event["detail"]


def test_r26_a_login_page_proves_nothing_where_the_policy_looks(proxy, double, token):
    page = whole("<html>log in</html>", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
    told, event = write(proxy, double, f"/judged/{token}", page)
    assert (told.status, told.outcome, event["phase"]) == (200, "unknown", UNKNOWN)


def test_r27_accepted_is_done_only_when_the_policy_says_so_or_a_probe_finds_it(
    proxy, double, token
):
    accepted = whole("{}", "HTTP/1.1 202 Accepted\r\n" + JSON)
    _, event = write(proxy, double, f"/taken/{token}", accepted)
    assert event["phase"] == SUCCESS
    path = f"/probed/{token}"
    double.script("POST", path, ["read", "execute", {"send": accepted}, "fin"], times=1)
    assert post(proxy, path).status == 202
    assert [e["phase"] for e in proxy.events_for(path)][:2] == ["DISPATCHING", UNKNOWN]
    assert proxy.await_phase(path, SUCCESS)["cause"] == "probe_present"


def test_f21_a_status_above_599_of_a_read_is_the_backends_own(proxy, double, token):
    path = f"/read/{token}"
    double.script("GET", path, ["read", {"send": whole("x", "HTTP/1.1 999 Denied\r\n")}, "fin"])
    answer = rawhttp.call(proxy.port, "GET", path)
    assert (answer.status, answer.body) == (999, b"x")
