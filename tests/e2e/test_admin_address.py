"""Commands show their token to the admin port alone."""

import http.server
import json
import threading

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import Recourse, run_cli


@pytest.fixture(scope="module")
def recourse(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("recourse"), standard(double)) as running:
        yield running


@pytest.fixture(name="stranger")
def some_server():
    """A server of somebody else's: its port, and the fields of what was sent there."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(dict(self.headers))
            body = b'{"recourse": "listen?"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], seen
        server.shutdown()


def status_at(recourse, port):
    return run_cli(
        "status", "--admin", f"127.0.0.1:{port}", "--admin-token-file", recourse.token_path
    )


def test_the_port_of_agents_never_gets_a_token(recourse):
    for _ in range(2):
        asked = status_at(recourse, recourse.port)
        assert asked.returncode == 1
        assert "is the port for agents (--listen of" in asked.stderr
        assert "give the address of --admin" in asked.stderr
    lines = recourse.await_log(lambda line: line["status"] == 200, 2)
    assert recourse.access_log() == lines and len(lines) == 2
    assert not any(line.get("backend") for line in lines)


def test_the_port_of_probes_is_told_from_it_too(recourse):
    asked = status_at(recourse, recourse.ports["probes"])
    assert asked.returncode == 1 and "is the port of probes and metrics" in asked.stderr


def test_a_list_that_nobody_gave_has_no_heading(recourse):
    address = f"127.0.0.1:{recourse.ports['probes']}"
    asked = run_cli(
        "operations", "list", "--admin", address, "--admin-token-file", recourse.token_path
    )
    assert asked.returncode == 1 and asked.stdout == "" and "is the port of" in asked.stderr


def test_a_strangers_server_never_gets_a_token(recourse, stranger):
    port, seen = stranger
    asked = status_at(recourse, port)
    assert asked.returncode == 1, asked
    assert "not the admin API of a Recourse of this version" in asked.stderr
    assert len(seen) == 1 and not any("Authorization" in fields for fields in seen)


def test_the_admin_port_says_that_it_is(recourse):
    assert recourse.http("admin", "GET", "/.recourse/port")[0] == 200
    assert status_at(recourse, recourse.ports["admin"]).returncode == 0


def test_only_a_get_asks_the_port_of_agents_what_it_is(recourse):
    asked = rawhttp.call(recourse.port, "GET", "/.recourse/port")
    assert (asked.status, json.loads(asked.body)) == (200, {"recourse": "listen"})
    written = rawhttp.call(recourse.port, "POST", "/.recourse/port", body=b"{}")
    assert b'"recourse"' not in written.body


def test_a_token_that_could_go_nowhere_is_told_as_before(recourse):
    free = run_cli("status", "--admin", "127.0.0.1:1", "--admin-token-file", recourse.token_path)
    assert free.returncode == 1 and "is recourse running there?" in free.stderr


def test_a_backend_that_refuses_connections_is_named_with_its_address(double, tmp_path):
    nobody = '  gone: { url: "http://127.0.0.1:1", hosts: [ gone.test ] }\n'
    with Recourse(tmp_path, standard(double, backends=nobody)) as running:
        status, _ = running.http("listen", "GET", "/read/1", headers={"Host": "gone.test"})
        assert status in (502, 503)
        told = [json.loads(line) for line in running.stderr().splitlines()]
        (line,) = [line for line in told if line["msg"] == "a backend cannot be reached"]
        assert (line["backend"], line["address"]) == ("gone", "127.0.0.1:1")
        assert (line["ip"], line["reason"]) == ("127.0.0.1", "connection refused")
