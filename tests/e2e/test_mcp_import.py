"""`recourse policy import mcp`: the tools of a running server as a starting policy."""

import itertools
import json
import socket
import threading

import pytest
import yaml

from support.certificates import Maker
from support.mcp import Everything, Fixture
from support.recourse import run_cli
from support.secure import SecureBackend, server_context


@pytest.fixture(scope="module")
def running(packages):
    with Fixture() as server:
        yield server


@pytest.fixture
def fixture(running):
    running.reset()
    return running


def imported(tmp_path, url, *arguments):
    made = run_cli("policy", "import", "mcp", url, *arguments)
    assert made.returncode == 0, made
    path = tmp_path / "policy.yaml"
    path.write_text(made.stdout)
    checked = run_cli("policy", "check", path)
    assert checked.returncode == 0, (checked, made.stdout)
    return yaml.safe_load(made.stdout), made.stdout


@pytest.mark.parametrize("answer", ["sse", "json"])
def test_a_modern_server_becomes_a_policy(fixture, tmp_path, answer):
    fixture.set(answer=answer, page_size=3)
    policy, text = imported(tmp_path, fixture.endpoint)
    assert policy["backends"] == {
        "recourse-fixture": {"url": fixture.endpoint, "protocol": "mcp"}
    }
    assert "MCP 2026-07-28" in text
    effects = {name: tool["effect"] for name, tool in policy["tools"].items()}
    assert len(effects) > 9
    assert effects["search"] == "read" and effects["create_order"] == "write"
    assert policy["tools"]["cancel_order"]["identity"] == ["body#/id"]
    assert 'undo: { call: cancel_order, arguments: { id: "{external_ref}" } }' in text
    asked = fixture.requests()
    pages = -(-len(effects) // 3)
    assert {each["era"] for each in asked} == {"modern"}
    assert [each["rpc"] for each in asked] == ["server/discover"] + ["tools/list"] * pages


def test_a_legacy_server_becomes_a_policy(packages, tmp_path):
    with Everything() as server:
        policy, text = imported(tmp_path, server.endpoint)
    assert "MCP 2025-11-25" in text
    effects = [tool["effect"] for tool in policy["tools"].values()]
    assert effects.count("read") >= 5 and "write" in effects
    assert policy["tools"]["echo"]["match"].endswith(" echo")


class Canned:
    """Answers every request with the same bytes, or with nothing; remembers the requests."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/mcp"
        self.held = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.requests.append(client.recv(65536))
            if self.answer:
                client.sendall(self.answer)
                client.close()
            else:
                self.held.append(client)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.close()
        for client in self.held:
            client.close()


def answer(status, *headers, body=b"no"):
    head = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (answer(404), "is there an MCP server (Streamable HTTP) at this url?"),
        (answer(401), "401: the server wants credentials"),
        (answer(307, "Location: http://x/mcp/"), "(go to http://x/mcp/); give the url"),
        (answer(200, "Content-Type: text/html", body=b"<html>"), "is there an MCP server"),
    ],
)
def test_what_is_no_mcp_server_is_told(sent, problem):
    with Canned(sent) as server:
        told = run_cli("policy", "import", "mcp", server.url)
    assert told.returncode == 2 and not told.stdout, told
    assert told.stderr.startswith(f"recourse: {server.url}: ") and problem in told.stderr, told


def test_a_server_that_says_nothing_is_given_up(tmp_path):
    with Canned(b"") as server:
        told = run_cli("policy", "import", "mcp", server.url, "--timeout", "1s")
    assert told.returncode == 2 and "no answer from 127.0.0.1" in told.stderr, told
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told = run_cli("policy", "import", "mcp", f"http://127.0.0.1:{port}/mcp")
    assert told.returncode == 2 and "cannot connect to" in told.stderr, told


def test_fields_come_out_of_a_file_and_are_never_shown(tmp_path):
    fields = tmp_path / "fields"
    fields.write_text("Authorization: Bearer very-secret\nX-Tenant: 7\n")
    with Canned(answer(404)) as server:
        told = run_cli("policy", "import", "mcp", server.url, "--header-file", fields)
        assert told.returncode == 2 and "very-secret" not in told.stderr
        assert all(b"Authorization: Bearer very-secret\r\n" in each for each in server.requests)
        assert all(b"X-Tenant: 7\r\n" in each for each in server.requests)
        fields.write_text("Bearer very-secret\n")
        told = run_cli("policy", "import", "mcp", server.url, "--header-file", fields)
        assert told.returncode == 2 and "very-secret" not in told.stderr
        assert 'not of the form "Name: value"' in told.stderr


def test_an_https_server_must_be_one_that_is_trusted(tmp_path):
    authority = Maker(tmp_path)
    numbers = itertools.count(1)

    def list_tools(sock, _):
        result = {"serverInfo": {"name": "safe"}, "tools": [{"name": "act"}]}
        body = json.dumps({"jsonrpc": "2.0", "id": next(numbers), "result": result}).encode()
        sock.sendall(answer(200, "Content-Type: application/json", body=body))

    with SecureBackend(server_context(authority.issue("server"))) as server:
        server.answer = list_tools
        url = f"{server.url_as('localhost')}/mcp"
        told = run_cli("policy", "import", "mcp", url)
        assert told.returncode == 2 and "no TLS with localhost" in told.stderr, told
        policy, _ = imported(tmp_path, url, "--ca", authority.cert)
    assert policy["backends"] == {"safe": {"url": url, "protocol": "mcp"}}
    told = run_cli("policy", "import", "mcp", "http://x/mcp", "--ca", authority.cert)
    assert told.returncode == 2 and "--ca is for an https url" in told.stderr, told


def test_a_wrong_url_is_told():
    for url, problem in [
        ("ftp://x/mcp", "accepted: http://host"),
        ("http://user:word@x/mcp", "no place for secrets"),
    ]:
        told = run_cli("policy", "import", "mcp", url)
        assert told.returncode == 2 and problem in told.stderr, told
