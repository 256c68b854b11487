"""b36: two hundred duplicates of one call at once, during each fault that leaves it unknown, and
b33: backends that close idle connections as we write. One dispatch, one story for everybody."""

import collections
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import checker, rawhttp
from support.double import ServedPort
from support.faults import FAULTS
from support.history import History, Write
from support.policies import standard
from support.recourse import PATIENCE, Recourse

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CROWD = 200
RUN_MAX = 500 * PATIENCE  # of all crowds together
CASES = [
    (name, route)
    for name, fault in FAULTS.items()
    for route in ("plain", "probed")
    if "b05" <= name[:3] <= "b16" and not fault.body_bytes
]


class Crowd:
    """What two hundred agents were told about one call."""

    def __init__(self, double, proxy, history, name, route):
        self.fault = FAULTS[name]
        self.path = f"/{route}/crowd-{name}"
        double.script("POST", self.path, self.fault.steps, None)
        write = Write(self.path, TRACE)
        with ThreadPoolExecutor(CROWD) as pool:
            calls = [pool.submit(history.call, proxy.port, write) for _ in range(CROWD)]
            self.answers = [call.result() for call in calls]
        self.proxy = proxy
        self.double = double

    def told(self):
        """How often each story was told: outcome of a problem, or status and body of an answer."""
        stories = collections.Counter()
        for answer in self.answers:
            assert answer is not None, "an agent got no answer at all"
            if "problem+json" in answer.header("Content-Type", ""):
                stories[json.loads(answer.body)["outcome"]] += 1
            else:
                stories[answer.status, answer.body] += 1
        return stories


@pytest.fixture(scope="module")
def crowds(double, tmp_path_factory):
    directory = tmp_path_factory.mktemp("crowds")
    history = History(str(directory / "history.jsonl"))
    policy = standard(double, timeout="5s", absent_after="3s")
    with Recourse(directory, policy) as proxy, ThreadPoolExecutor(3) as pool:
        yield {
            case: pool.submit(Crowd, double, proxy, history, *case) for case in CASES
        }, proxy, history
        assert proxy.running(), proxy.stderr()[-4000:]


@pytest.mark.parametrize("name, route", CASES)
def test_b36_a_crowd_of_duplicates_makes_one_dispatch_and_hears_one_story(
    crowds, double, name, route
):
    crowd = crowds[0][name, route].result(timeout=RUN_MAX)
    proxy = crowds[1]
    rows = proxy.events_for(crowd.path)
    effects = double.effects(crowd.path)
    dispatches = sum(row["phase"] == "DISPATCHING" for row in rows)
    stories = crowd.told()
    if route == "plain":
        assert dispatches == 1 and len(effects) == crowd.fault.effects
        assert len({row["operation"] for row in rows}) == 1
        # Whole answers are all the same answer, and nobody hears of another outcome beside it.
        assert len([story for story in stories if isinstance(story, tuple)]) <= 1, stories
        words = {story for story in stories if isinstance(story, str)}
        assert len(words - {"unknown", "pending"}) <= 1, stories
        assert "not_executed" not in stories or not effects, stories
        return
    # A new attempt begins only after a probe has proved that the one before did nothing.
    assert len(effects) <= 1
    for row, after in zip(rows, rows[1:]):
        if after["phase"] == "DISPATCHING":
            assert row["phase"] == "PROVEN_ABSENT", (row["phase"], after["event_id"])


def test_b36_the_crowds_broke_no_promise(crowds, double):
    for future in crowds[0].values():
        future.result(timeout=RUN_MAX)
    history = crowds[2].lines()
    record = [line for line in double.record() if "/crowd-" in line["path"]]
    found = checker.check(
        record, history, crowds[1].events(), faulty={line["path"] for line in history}
    )
    assert not found, "\n".join(found[:20])
    assert crowds[1].verify()["ok"]


class ImpatientBackend:
    """Answers one request on each connection, and closes when it feels like it: at once after the
    answer, or when the next request begins to arrive."""

    def __init__(self):
        self.lock = threading.Lock()
        self.bodies = collections.Counter()
        self.connections = 0

    def serve(self, port, sock):
        with self.lock:
            self.connections += 1
            closes_late = self.connections % 2 == 0
        while (body := port.head(sock)) is not None:
            length = re.search(rb"content-length: *(\d+)", port.heads[-1].lower())
            while length is not None and len(body) < int(length[1]):
                body += sock.recv(65536)
            with self.lock:
                self.bodies[body] += 1
            answer = b'{"id":"x"}'
            sock.sendall(
                b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                b"Keep-Alive: timeout=60\r\n\r\n%s" % (len(answer), answer)
            )
            if not closes_late:
                return
            sock.recv(1)  # the next request is being written now
            return


def test_b33_a_backend_that_closes_idle_connections_makes_no_write_unknown(tmp_path):
    """Writes never reuse a connection, so there is no idle one to lose under them."""
    backend = ImpatientBackend()
    with ServedPort(backend.serve) as port:
        policy = (
            "version: 1\nbackends:\n"
            f'  shop: {{ url: "{port.url}", hosts: [ shop.test ] }}\n'
            "tools:\n  plain.create:\n    match: POST shop /plain/{token}\n    effect: write\n"
            "    undo: none\n    reason: rows of tests\n"
        )
        with Recourse(tmp_path, policy) as proxy:
            for number in range(100):
                read = rawhttp.call(proxy.port, "GET", "/read/x", host="shop.test")
                assert read.status == 201, (number, read)  # reads do reuse, and are sent again
                write = Write(f"/plain/{number}", TRACE)
                with rawhttp.Connection(proxy.port) as connection:
                    connection.send(write.data)
                    assert connection.response("POST").status == 201, number
                assert backend.bodies[write.body] == 1
            phases = collections.Counter(event["phase"] for event in proxy.events())
            assert phases == {"DISPATCHING": 100, "SUCCEEDED": 100}
