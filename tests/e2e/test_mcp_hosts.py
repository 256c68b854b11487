"""Backends behind one host and port: two MCP endpoints and plain routes, told apart by the path, in
each way in which an agent can reach them; and no other path or spelling leads around a rule."""

import contextlib
import http.client
import itertools
import json
import ssl

import pytest

from support.certificates import Maker
from support.mcp_doors import Doors
from support.mcp_wire import Answer, Modern, call
from support.pod import REDIRECT_PORT, TOOLS, Pod, sidecar, why_not
from support.recourse import BINARY, WAIT_MAX, Recourse, run_cli
from support.secure import server_context

HOST = "four.test"  # of the pod's /etc/hosts too
NUMBERS = itertools.count(1)
# Where the first server has a write, the second one has a read of the same name.
POLICY = """\
version: 1
mode: {mode}
backends:
  a: {{ url: "{url}/mcp/a", protocol: mcp, connect_timeout: 30s{words} }}
  b: {{ url: "{url}/mcp/b", protocol: mcp, connect_timeout: 30s{words} }}
  rest: {{ url: "{url}", connect_timeout: 30s{words} }}
tools:
  a.create: {{ match: tools/call a create_order, effect: write, scope: caller, reason: tests }}
  b.create: {{ match: tools/call b create_order, effect: read }}
  rest.create: {{ match: POST rest /orders, effect: write, scope: caller, reason: tests }}
"""


class Reached:
    """Recourse before one server; `send` is one request of an agent to that server's url."""

    def __init__(self, doors, recourse, connect, prefix=""):
        self.doors, self.recourse = doors, recourse
        self.connect, self.prefix = connect, prefix

    def send(self, method, path, message, headers=None):
        with contextlib.closing(self.connect()) as connection:
            fields = {"Host": HOST, "Content-Type": "application/json", **(headers or {})}
            body = None if message is None else json.dumps(message)
            connection.request(method, self.prefix + path, body=body, headers=fields)
            answer = connection.getresponse()
            named = {k.lower(): v for k, v in answer.getheaders()}
            return Answer(answer.status, named, answer.read(), False)

    def call(self, path, tool="create_order", arguments=None):
        message, fields = Modern("").wrapped(call(tool, arguments or {}))
        return self.send("POST", path, message, fields)


def policy(url, hosts, mode="enforce", words=""):
    return POLICY.format(url=url, mode=mode, words=f", hosts: [ {', '.join(hosts)} ]{words}")


@contextlib.contextmanager
def plain(directory, way):
    with Doors() as doors:
        text = policy(f"http://127.0.0.1:{doors.port}", [HOST])
        with Recourse(directory, text) as recourse:

            def connect():
                made = http.client.HTTPConnection("127.0.0.1", recourse.port, timeout=WAIT_MAX)
                if way == "connect":
                    made.set_tunnel(HOST, 80)
                return made

            yield Reached(doors, recourse, connect, f"http://{HOST}" if way == "forward" else "")
            assert recourse.stop() == 0, recourse.stderr()[-4000:]


@contextlib.contextmanager
def intercepted(directory):
    maker = Maker(directory / "backend-ca")
    with Doors(context=server_context(maker.issue("good"))) as doors:
        words = f', intercept: true, tls: {{ ca_file: "{maker.cert}" }}'
        text = policy(f"https://localhost:{doors.port}", [HOST], words=words)
        own = ["--ca", directory / "ca", "--ca-bundle", directory / "bundle.pem"]
        with Recourse(directory / "recourse", text, own) as recourse:
            trust = ssl.create_default_context(cafile=directory / "ca" / "ca.crt")

            def connect():
                made = http.client.HTTPSConnection(
                    "127.0.0.1", recourse.port, timeout=WAIT_MAX, context=trust
                )
                made.set_tunnel(HOST, 443)
                return made

            yield Reached(doors, recourse, connect)
            assert recourse.stop() == 0, recourse.stderr()[-4000:]


@contextlib.contextmanager
def redirected(directory):
    if reason := why_not():
        pytest.skip(reason)
    with Pod(directory) as pod, pod.inside(lambda: Doors(TOOLS, 80), name=pod.tools) as doors:
        text = policy(f"http://{HOST}", [f"{TOOLS}:80"])
        with sidecar(pod, text, "--redirect", REDIRECT_PORT) as recourse:
            done = pod.run(BINARY, "redirect", "install", "--ports", "80", timeout=WAIT_MAX)
            assert done.returncode == 0, done

            def connect():
                made = http.client.HTTPConnection(TOOLS, 80, timeout=WAIT_MAX)
                pod.inside(made.connect)
                return made

            yield Reached(doors, recourse, connect)
            assert recourse.stop() == 0, recourse.stderr()[-4000:]


WAYS = {
    "reverse": lambda directory: plain(directory, "reverse"),
    "forward": lambda directory: plain(directory, "forward"),
    "connect": lambda directory: plain(directory, "connect"),
    "intercepted": intercepted,
    "redirected": redirected,
}


@pytest.fixture(scope="module", params=WAYS)
def reached(request, tmp_path_factory):
    with WAYS[request.param](tmp_path_factory.mktemp("hosts")) as made:
        yield made


def test_each_endpoint_of_one_authority_has_its_own_rules(reached, token):
    before = {path: reached.doors.of(path) for path in ("/mcp/a", "/mcp/b", "/orders")}
    first, again = (reached.call("/mcp/a", arguments={"item": token}) for _ in range(2))
    assert first.final()["result"]["structuredContent"]["path"] == "/mcp/a", first.body
    assert again.final()["result"] == first.final()["result"]
    assert again.headers["idempotent-replayed"] == "true"
    other, repeated = (reached.call("/mcp/b", arguments={"item": token}) for _ in range(2))
    assert other.final()["result"]["structuredContent"]["path"] == "/mcp/b", other.body
    assert repeated.final()["result"] != other.final()["result"]
    placed, once = (reached.send("POST", "/orders", {"item": token}) for _ in range(2))
    assert placed.status == once.status == 201 and placed.body == once.body
    assert reached.send("GET", "/orders", None).status == 200
    ran = {path: reached.doors.of(path) - count for path, count in before.items()}
    assert ran == {"/mcp/a": 1, "/mcp/b": 2, "/orders": 1}
    for name in ("a.create", "b.create", "rest.create"):
        reached.recourse.await_log(lambda line, name=name: line.get("tool") == name, count=2)


SPELLINGS = [
    "/mcp/a/", "/mcp/A", "/MCP/a", "/mcp/%61", "/mcp/a.", "/mcp/a%20", "/mcp/a.json", "/mcp./a",
    "//mcp/a", "/mcp//a", "/mcp%2fa", "/mcp/./a", "/mcp/b/../a", "/mcp/b/%2e%2e/a", "/mcp/a;x=1",
    "/mcp\\a", "/mcp/a%00", "/mcp/b/", "/mcp/%62", "/mcp/B",
]  # fmt: skip


@pytest.mark.parametrize("path", SPELLINGS)
def test_no_spelling_of_a_path_leads_around_a_rule(reached, path):
    before = reached.doors.count()
    answer = reached.call(path, arguments={"item": "spelled"})
    assert answer.status == 400, (path, answer.status, answer.body)
    assert reached.doors.count() == before


@pytest.mark.parametrize("path", ["/messages", "/mcp/c", "/mcp/a/b", "/mcp/b/a", "/mcp", "/"])
def test_no_other_path_of_the_server_is_another_door(reached, path):
    before = reached.doors.count()
    answer = reached.call(path, arguments={"item": "beside"})
    assert answer.status == 403 and b"another door" in answer.body, (path, answer.body)
    assert reached.doors.count() == before


def test_two_servers_share_a_name_of_agents(tmp_path, token):
    """As sidecars are used: one address for all, and the path says which server is meant."""
    with Doors() as one, Doors() as two:
        text = f"""\
version: 1
backends:
  a: {{ url: "http://127.0.0.1:{one.port}/mcp/a", hosts: [ {HOST} ], protocol: mcp }}
  b: {{ url: "http://127.0.0.1:{two.port}/mcp/b", hosts: [ {HOST} ], protocol: mcp }}
"""
        with Recourse(tmp_path, text) as recourse:

            def connect():
                return http.client.HTTPConnection("127.0.0.1", recourse.port, timeout=WAIT_MAX)

            reached = Reached(one, recourse, connect)
            assert reached.call("/mcp/a", "t", {"item": token}).status == 200
            assert (one.count(), two.count()) == (1, 0)
            assert reached.call("/mcp/b", "t", {"item": token}).status == 200
            assert (one.count(), two.count()) == (1, 1)
            # What a client asks before it logs in goes to the server whose endpoint it is.
            asked = reached.send("GET", "/.well-known/oauth-protected-resource/mcp/b", None)
            assert asked.status == 200
            (line,) = recourse.await_log(lambda line: line["method"] == "GET")
            assert line["backend"] == "b"


def test_observe_mode_tells_the_endpoints_apart_too(tmp_path, token):
    with Doors() as doors:
        text = policy(f"http://127.0.0.1:{doors.port}", [HOST], mode="observe")
        with Recourse(tmp_path, text) as recourse:

            def connect():
                return http.client.HTTPConnection("127.0.0.1", recourse.port, timeout=WAIT_MAX)

            reached = Reached(doors, recourse, connect)
            for path in ("/mcp/a", "/mcp/b", "/mcp/a/"):
                assert reached.call(path, arguments={"item": token}).status == 200
                assert doors.of(path) == 1
            lines = recourse.await_log(lambda line: line["method"] == "POST", count=3)
            told = {(line["backend"], line.get("tool")) for line in lines}
            assert told == {("a", "a.create"), ("b", "b.create"), ("a", None)}


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ('b: { url: "http://t:3000/mcp/a", protocol: mcp }', "one endpoint is one backend"),
        ('b: { url: "http://t:3000/MCP/a/", protocol: mcp }', "may be taken for it"),
        ('b: { url: "https://t:3000/mcp/b", protocol: mcp }', "differs in the scheme"),
        ('b: { url: "http://t:3000/x", addresses: [ public ] }', "differs in the `addresses`"),
    ],
)
def test_what_cannot_be_told_apart_is_refused_where_it_stands(tmp_path, second, problem):
    path = tmp_path / "policy.yaml"
    path.write_text(
        "version: 1\nbackends:\n"
        f'  a: {{ url: "http://t:3000/mcp/a", protocol: mcp }}\n  {second}\n'
    )
    done = run_cli("policy", "check", path)
    assert done.returncode == 3
    assert f"{path}:4:3: error: backends.b: " in done.stdout + done.stderr
    assert problem in done.stdout + done.stderr
