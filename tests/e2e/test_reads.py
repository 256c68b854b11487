"""The read lane and the listener: streaming, bounded memory, keep-alive, retries, drain."""

import hashlib
import signal
import socket
import threading

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import MEASURABLE, WAIT_MAX, Recourse
from support.waiting import lasts, wait_until

GIGABYTE = 1_000_000_000
MEMORY_MAX_KIB = 64 * 1024
BLOCK = b"\x5a" * (256 * 1024)


@pytest.fixture
def fresh(double, tmp_path):
    """A process of its own, for what is measured in it or done to it."""
    with Recourse(tmp_path, standard(double, timeout="10m")) as running:
        yield running


def receive_body(connection, count):
    """Takes `count` bytes without keeping them; True when they are all as sent."""
    right, left = True, count
    while left:
        data = connection.buffer or connection.socket.recv(1 << 18)
        connection.buffer = b""
        if not data:
            raise rawhttp.Cut(f"{left} of {count} bytes missing")
        right = right and data[0] == 0x5A and data[-1] == 0x5A
        left -= len(data)
    return right and left == 0


def assert_memory_bounded(process):
    now, highest = process.memory_kib()
    assert not MEASURABLE or highest < MEMORY_MAX_KIB, f"{now} KiB, at most {highest} KiB"


def test_a_gigabyte_comes_down_in_bounded_memory(fresh):
    with rawhttp.Connection(fresh.port, timeout=WAIT_MAX) as connection:
        connection.send(
            rawhttp.render("GET", f"/read/bytes?n={GIGABYTE}", "shop.test")
        )
        status, _, _, headers = connection.head()
        assert status == 200 and dict(headers)["Content-Length"] == str(GIGABYTE)
        assert receive_body(connection, GIGABYTE)
    assert_memory_bounded(fresh)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_gigabyte_goes_up_in_bounded_memory(fresh, double, framing):
    before = len(double.requests("/read/upload"))
    count = GIGABYTE if framing == "length" else GIGABYTE // 4
    field = ("Content-Length", count) if framing == "length" else ("Transfer-Encoding", "chunked")
    digest = hashlib.sha256()
    with rawhttp.Connection(fresh.port, timeout=WAIT_MAX) as connection:
        connection.send(rawhttp.render("POST", "/read/upload", "shop.test", [field], length=False))
        left = count
        while left:
            data = BLOCK[: min(left, len(BLOCK))]
            digest.update(data)
            connection.send(
                data if framing == "length" else b"%x\r\n" % len(data) + data + b"\r\n"
            )
            left -= len(data)
        if framing == "chunked":
            connection.send(b"0\r\n\r\n")
        answer = connection.response("POST")
    assert answer.status == 200
    seen = double.requests("/read/upload")[before:]
    assert [r["body_sha256"] for r in seen] == [digest.hexdigest()]
    assert_memory_bounded(fresh)


def test_a_slow_client_holds_the_backend_back(fresh, double, token):
    """Back-pressure: what the client does not take stays with the backend, not in our memory."""
    path = f"/read/bytes-{token}"
    count = 200_000_000
    with rawhttp.Connection(fresh.port, timeout=WAIT_MAX, receive_buffer=65536) as connection:
        connection.send(rawhttp.render("GET", f"{path}?n={count}", "shop.test"))
        connection.head()

        def is_held_back():
            before = double.sent(path)
            lasts(0.2)  # that nothing more comes is seen in the course of time only
            return before == double.sent(path) and before

        sent = wait_until(is_held_back, "the backend was never held back")
        assert sent < count // 2, f"{sent} bytes were taken from the backend for a stalled client"
        assert_memory_bounded(fresh)
        assert receive_body(connection, count)


def test_server_sent_events_pass_one_by_one(proxy, double, token):
    """Each event arrives before the backend sends the next one."""
    path = f"/read/{token}"
    steps = ["read", {"send": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                              "Transfer-Encoding: chunked\r\n\r\n"}]  # fmt: skip
    for number in range(5):
        event = f"data: {number}\n\n"
        steps += [{"send": f"{len(event):x}\r\n{event}\r\n"}, {"gate": f"{token}-{number}"}]
    steps += [{"send": "0\r\n\r\n"}]
    double.script("GET", path, steps, 1)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test", {"Accept": "text/event-stream"}))
        status, _, _, headers = connection.head()
        assert status == 200 and ("Content-Type", "text/event-stream") in headers
        chunks = connection.chunks()
        for number in range(5):
            assert next(chunks) == f"data: {number}\n\n".encode()
            double.open_gate(f"{token}-{number}")
        assert list(chunks) == []


def test_a_client_that_leaves_a_stream_frees_the_backend(proxy, double, token):
    path = f"/read/{token}"
    head = "HTTP/1.1 200 OK\r\n\r\nfirst"
    # The effect after the silence is the double's sign that the proxy has closed its side.
    double.script("GET", path, ["read", {"send": head}, "until_closed", "execute"], 1)
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(rawhttp.render("GET", path, "shop.test"))
        connection.head()
    double.await_effects(path)


def test_connections_are_kept_on_both_sides(proxy, double, token):
    made = []
    with rawhttp.Connection(proxy.port) as connection:
        for turn in range(5):
            before = double.connections()
            for number in range(20):
                path = f"/read/{token}/{turn}/{number}"
                connection.send(rawhttp.render("GET", path, "shop.test"))
                assert connection.response().status == 200
            made.append(double.connections() - before)
            if made[-1] <= 2:  # more were idle for too long, on a machine that stood still
                break
    assert made[-1] <= 2, made


def test_connection_close_of_the_client_is_honoured(proxy, token):
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(
            rawhttp.render("GET", f"/read/{token}", "shop.test", {"Connection": "close"})
        )
        answer = connection.response()
        assert answer.status == 200 and answer.header("Connection") == "close"
        assert connection.at_end()


def test_a_half_closed_client_is_still_answered(proxy, double, token):
    read = rawhttp.render("GET", f"/read/{token}", "shop.test")
    write = rawhttp.render("POST", f"/plain/{token}", "shop.test", {}, b"abc")
    assert rawhttp.statuses(rawhttp.exchange(proxy.port, read, half_close=True)) == [200]
    assert rawhttp.statuses(rawhttp.exchange(proxy.port, write, half_close=True)) == [201]


def test_a_refusal_arrives_although_the_client_still_sends(proxy, token):
    """Closing at once would reset the connection and destroy the answer on its way."""
    length = {"Content-Length": 20_000_000}
    with rawhttp.Connection(proxy.port) as connection:
        head = rawhttp.render("POST", f"/plain/{token}", "shop.test", length, length=False)
        connection.send_as_far_as_taken(head + b"x" * 60_000)
        assert connection.response("POST").status == 413


def test_http_1_0_is_answered_and_closed(proxy, token):
    data = rawhttp.exchange(
        proxy.port, f"GET /read/{token} HTTP/1.0\r\nHost: shop.test\r\n\r\n".encode()
    )
    assert rawhttp.statuses(data) == [200]


def test_pipelined_requests_are_answered_in_order(proxy, double, token):
    paths = [f"/read/{token}/{number}" for number in range(10)]
    double.script("GET", paths[0], ["read", {"sleep": 0.2}, {"send": "HTTP/1.1 200 OK\r\n"
                  "Content-Length: 15\r\n\r\n{\"target\": \"-\"}"}], 1)  # fmt: skip
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(b"".join(rawhttp.render("GET", path, "shop.test") for path in paths))
        answers = [connection.response().json()["target"] for _ in paths]
    assert answers == ["-", *paths[1:]]
    order = [r["path"] for r in double.requests() if r["path"] in paths]
    assert order == paths


def test_pipelined_writes_and_reads_keep_their_order(proxy, token):
    data = b""
    for number in range(3):
        data += rawhttp.render("POST", f"/plain/{token}-{number}", "shop.test",
                               {"Content-Type": "application/json"}, b'{"a":1}')  # fmt: skip
        data += rawhttp.render("GET", f"/read/{token}/{number}", "shop.test")
    with rawhttp.Connection(proxy.port) as connection:
        connection.send(data)
        for number in range(3):
            assert connection.response("POST").status == 201
            assert connection.response().json()["target"] == f"/read/{token}/{number}"


def test_head_has_no_body_and_keeps_the_connection(proxy, token):
    with rawhttp.Connection(proxy.port) as connection:
        for _ in range(2):
            connection.send(rawhttp.render("HEAD", f"/read/{token}", "shop.test"))
            answer = connection.response("HEAD")
            assert answer.status == 200 and int(answer.header("Content-Length")) > 0
        connection.send(rawhttp.render("GET", f"/read/{token}", "shop.test"))
        assert connection.response().status == 200


def test_a_lost_read_is_retried_once(proxy, double, token):
    path = f"/read/{token}"
    double.script("GET", path, ["read", "rst"], 1)
    assert rawhttp.call(proxy.port, "GET", path).status == 200
    assert len(double.requests(path)) == 2


def test_retries_of_reads_are_bounded(proxy, double, token):
    path = f"/read/{token}"
    double.script("GET", path, ["read", "rst"], None)
    answer = rawhttp.call(proxy.port, "GET", path)
    assert answer.status == 502 and answer.json()["outcome"] == "not_executed"
    assert len(double.requests(path)) <= 3


def test_a_read_with_a_streamed_body_is_not_retried(proxy, double):
    """Its body has passed through and cannot be sent again."""
    before = len(double.requests("/read/upload"))
    double.script("POST", "/read/upload", ["read", "rst"], 1)
    answer = rawhttp.call(proxy.port, "POST", "/read/upload", body=b"x" * 1_000_000)
    assert answer.status == 502
    assert len(double.requests("/read/upload")) == before + 1


def test_a_read_is_not_retried_after_its_answer_began(proxy, double, token):
    path = f"/read/{token}"
    double.script(
        "GET", path, ["read", {"send": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}, "rst"]
    )
    with pytest.raises((rawhttp.Cut, ConnectionResetError)):
        rawhttp.call(proxy.port, "GET", path)
    assert len(double.requests(path)) == 1


def test_a_dead_kept_connection_is_not_the_clients_problem(proxy, double, token):
    """The backend closes after each answer, without saying so before."""
    path = f"/read/{token}"
    answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    double.script("GET", path, ["read", {"send": answer}, "fin"], None)
    with rawhttp.Connection(proxy.port) as connection:
        for _ in range(20):
            connection.send(rawhttp.render("GET", path, "shop.test"))
            assert connection.response().body == b"ok"


def test_many_clients_at_once_each_get_their_own_answer(proxy, token):
    wrong = []

    def agent(name):
        with rawhttp.Connection(proxy.port) as connection:
            for number in range(20):
                path = f"/read/{token}/{name}/{number}"
                connection.send(rawhttp.render("GET", path, "shop.test"))
                target = connection.response().json()["target"]
                if target != path:
                    wrong.append((path, target))

    threads = [threading.Thread(target=agent, args=(name,)) for name in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_sigterm_lets_writes_and_reads_in_flight_finish(fresh, double, token):
    write, read = f"/plain/{token}", f"/read/{token}"
    double.script("POST", write, ["read", "execute", {"gate": token}, "answer"], 1)
    reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    double.script("GET", read, ["read", {"gate": token}, {"send": reply}], 1)
    answers = {}

    def call(method, path, body=b""):
        answers[path] = rawhttp.call(fresh.port, method, path, body=body)

    threads = [
        threading.Thread(target=call, args=("POST", write, {"a": 1})),
        threading.Thread(target=call, args=("GET", read)),
    ]
    for thread in threads:
        thread.start()
    double.await_requests("POST", write)
    double.await_requests("GET", read)
    fresh.terminate()
    await_drain(fresh)
    double.open_gate(token)
    for thread in threads:
        thread.join()
    assert answers[write].status == 201 and answers[read].body == b"ok"
    assert fresh.wait() == 0
    assert len(double.effects(write)) == 1


def test_sigterm_waits_for_a_write_whose_client_has_left(fresh, double, token):
    path = f"/plain/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    with rawhttp.Connection(fresh.port) as connection:
        connection.send(rawhttp.render("POST", path, "shop.test"))
        double.await_requests("POST", path)
        connection.reset()
    fresh.terminate()
    await_drain(fresh)
    double.open_gate(token)
    assert fresh.wait() == 0
    fresh.start()
    assert [e["phase"] for e in fresh.events_for(path)] == ["DISPATCHING", "SUCCEEDED"]


def test_a_kept_connection_is_turned_away_during_a_drain(fresh, double, token):
    """New calls get no promise during a drain: they are refused, not executed, or cut unread."""
    slow, late = f"/read/{token}", f"/plain/{token}"
    reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    double.script("GET", slow, ["read", {"gate": token}, {"send": reply}], 1)
    with rawhttp.Connection(fresh.port) as held, rawhttp.Connection(fresh.port) as kept:
        kept.send(rawhttp.render("GET", f"/read/{token}/first", "shop.test"))
        assert kept.response().status == 200
        held.send(rawhttp.render("GET", slow, "shop.test"))
        double.await_requests("GET", slow)
        fresh.terminate()
        await_drain(fresh)
        kept.send_as_far_as_taken(rawhttp.render("POST", late, "shop.test", {}, b"x"))
        try:
            answer = kept.response("POST")
            assert answer.status == 503 and answer.json()["outcome"] == "not_executed"
        except (rawhttp.Cut, ConnectionResetError):
            pass
        double.open_gate(token)
        assert held.response().body == b"ok"
    assert fresh.wait() == 0
    assert double.requests(late) == []


def await_drain(process):
    """Waits until new work is turned away: /ready fails, or the listener is closed."""

    def turns_away():
        try:
            return process.probe("/ready")[0] != 200
        except OSError:
            return True

    wait_until(turns_away, "still ready after SIGTERM")


def test_a_drain_ends_idle_connections_and_takes_no_new_ones(fresh):
    with rawhttp.Connection(fresh.port) as idle:
        idle.send(rawhttp.render("GET", "/read/x", "shop.test"))
        assert idle.response().status == 200
        assert fresh.stop() == 0
        assert idle.at_end()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", fresh.port), timeout=WAIT_MAX).close()


def test_a_second_sigterm_ends_the_process_at_once(double, tmp_path, token):
    path = f"/read/{token}"
    double.script("GET", path, ["read", "hang"], 1)
    arguments = ["--drain-timeout", "1h"]
    with (
        Recourse(tmp_path, standard(double, timeout="1h"), arguments) as running,
        rawhttp.Connection(running.port) as connection,
    ):
        connection.send(rawhttp.render("GET", path, "shop.test"))
        double.await_requests("GET", path)
        running.terminate()
        await_drain(running)
        assert running.running(), "the drain did not wait for the read in flight"
        running.process.send_signal(signal.SIGTERM)
        running.wait()


def test_a_drain_has_an_end(double, tmp_path, token):
    path = f"/read/{token}"
    double.script("GET", path, ["read", "hang"], 1)
    arguments = ["--drain-timeout", "500ms"]
    with Recourse(tmp_path, standard(double, timeout="1h"), arguments) as running:
        with rawhttp.Connection(running.port) as connection:
            connection.send(rawhttp.render("GET", path, "shop.test"))
            double.await_requests("GET", path)
            running.terminate()
            running.wait()
