"""Redirected connections: clients that know nothing of a proxy, IPv4 and IPv6, in a pod's network
of the tests' own (support/pod.py), with Recourse under a user of its own beside them."""

import json
import os
import shutil
import socket
import ssl
import tempfile

import pytest

from support.certificates import Maker
from support.pod import (
    ELSEWHERE, OWN_UID, REDIRECT_PORT, TOOLS, TOOLS6, Pod, sidecar, why_not,
)  # fmt: skip
from support.recourse import BINARY, WAIT_MAX

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
POLICY = f"""\
version: 1
unlisted: {{ reads: pass, writes: guard }}
tunnels: [ "far.test:443", "other.test:80", "{TOOLS}:8443" ]
backends:
  orders: {{ url: "http://four.test", hosts: [ six.test, "{TOOLS}:80", "[{TOOLS6}]:80" ] }}
tools:
  orders.create:
    match: POST orders /orders/{{id}}
    effect: write
    scope: caller
    external_ref: answer.body#/id
    undo: none
    reason: a row of a test is never undone
"""
COUNTED, TUNNELS = "recourse_redirected_connections_total", "recourse_tunnels_total"
HOSTS = ["four.test", "six.test", TOOLS, f"[{TOOLS6}]"]
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

PYTHON = """
import json, sys, requests
method, url, trace = sys.argv[1:]
body = {"amount": 5} if method == "POST" else None
answer = requests.request(method, url, json=body, headers={"traceparent": trace}, timeout=%f)
print("HTTP/1.1", answer.status_code)
for name, value in answer.headers.items():
    print(name + ":", value)
print()
print(answer.text)
"""
NODE = """
const [method, url, trace] = process.argv.slice(1);
const body = method === "POST" ? JSON.stringify({amount: 5}) : undefined;
const headers = {traceparent: trace, "Content-Type": "application/json"};
fetch(url, {method, body, headers, signal: AbortSignal.timeout(%d)}).then(async (answer) => {
  console.log("HTTP/1.1 " + answer.status);
  for (const [name, value] of answer.headers) console.log(name + ": " + value);
  console.log("\\n" + await answer.text());
});
"""


class Answer:
    def __init__(self, text):
        head, _, self.body = text.replace("\r\n", "\n").partition("\n\n")
        first, *lines = head.split("\n")
        self.status = int(first.split(" ")[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)

    @property
    def replayed(self):
        return self.headers.get("idempotent-replayed") == "true"


def by_curl(pod, method, url):
    body = ["-d", '{"amount": 5}'] if method == "POST" else []
    return pod.run(
        "curl", "-sS", "-i", "-g", "--max-time", WAIT_MAX, "-X", method, *body,
        "-H", f"traceparent: {TRACE}", "-H", "Content-Type: application/json", url,
        timeout=2 * WAIT_MAX,
    )  # fmt: skip


def by_python(pod, method, url):
    return pod.run(
        "/usr/bin/python3", "-c", PYTHON % WAIT_MAX, method, url, TRACE, timeout=2 * WAIT_MAX
    )


def by_node(pod, method, url):
    return pod.run(
        "node", "-e", NODE % (WAIT_MAX * 1000), method, url, TRACE, timeout=2 * WAIT_MAX
    )


CLIENTS = {"curl": by_curl, "python": by_python, "node": by_node}


def call(pod, method, url, client="curl"):
    done = CLIENTS[client](pod, method, url)
    assert done.returncode == 0, done
    return Answer(done.stdout)


@pytest.fixture(scope="module")
def pod(tmp_path_factory):
    with Pod(tmp_path_factory.mktemp("pod")) as made:
        yield made


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Maker(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def tool(pod, authority):
    cert = authority.issue("far", f"DNS:far.test,DNS:near.test,IP:{TOOLS}").both
    return pod.tool(
        f"{TOOLS}:80", f"[{TOOLS6}]:80", f"{TOOLS}:8080", f"[{TOOLS6}]:8080", f"{ELSEWHERE}:80",
        f"{TOOLS}:443={cert}", f"{TOOLS}:8443={cert}", f"{ELSEWHERE}:443={cert}",
    )  # fmt: skip


def install(pod, *options):
    done = pod.run(BINARY, "redirect", "install", *options, timeout=WAIT_MAX)
    assert done.returncode == 0, done


@pytest.fixture
def redirected(pod):
    """The usual rules, and TCP port 8443, for the time of a test."""
    install(pod, "--ports", "80,443,8443")
    yield
    pod.run(BINARY, "redirect", "remove", timeout=WAIT_MAX)


@pytest.fixture(scope="module")
def shared(pod, tool):
    with sidecar(pod, POLICY, "--redirect", REDIRECT_PORT) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture
def recourse(shared, redirected):
    return shared


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_unchanged_clients_are_served_by_policy(pod, recourse, tool, token, client, host):
    assert call(pod, "GET", f"http://{host}/{token}", client).status == 200
    (seen,) = tool.requests(f"/{token}")
    # Whatever address the client took, the backend is dialled as the policy names it.
    assert (seen["at"], seen["host"]) == (f"{TOOLS}:80", "four.test") and "recourse" in seen["via"]
    path = f"/orders/{token}"
    first, again = (call(pod, "POST", f"http://{host}{path}", client) for _ in range(2))
    assert (first.status, again.status) == (201, 201) and again.body == first.body
    assert again.replayed and not first.replayed
    assert len(tool.requests(path)) == 1
    (line, _) = recourse.await_log(
        lambda one: one["method"] == "POST" and one["event_id"] == first.headers["recourse-event"],
        count=2,
    )
    wanted = f"[{TOOLS6}]:80" if host in ("six.test", f"[{TOOLS6}]") else f"{TOOLS}:80"
    assert line["arrival"] == "redirect" and line["original"] == wanted, line


def test_a_client_socket_of_both_families_is_told_apart(pod, recourse, tool, token):
    """An IPv4 address in its form of IPv6, as Java and others dial it."""

    def get():
        with socket.socket(socket.AF_INET6) as sock:
            sock.settimeout(WAIT_MAX)
            sock.connect((f"::ffff:{TOOLS}", 80))
            sock.sendall(f"GET /{token} HTTP/1.1\r\nHost: four.test\r\n\r\n".encode())
            return sock.recv(12)

    assert pod.inside(get) == b"HTTP/1.1 200"
    assert tool.requests(f"/{token}")[0]["via"]


def test_a_repeat_after_a_crash_is_the_same_effect(pod, redirected, tool, token):
    path = f"/orders/{token}"
    with sidecar(pod, POLICY, "--redirect", REDIRECT_PORT + 1) as recourse:
        install(pod, "--port", REDIRECT_PORT + 1)
        first = call(pod, "POST", f"http://four.test{path}")
        recourse.kill()
        refused = by_curl(pod, "POST", f"http://four.test{path}")
        assert refused.returncode == 7, "without Recourse nobody gets through"
        recourse.start()
        again = call(pod, "POST", f"http://six.test{path}")
    assert again.replayed and again.body == first.body
    assert len(tool.requests(path)) == 1


def test_an_address_proves_nothing_the_backend_is_dialled(pod, recourse, tool, token):
    done = pod.run(
        "curl", "-sS", "--max-time", WAIT_MAX, "--resolve", f"four.test:80:{ELSEWHERE}",
        f"http://four.test/{token}", timeout=2 * WAIT_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done
    (seen,) = tool.requests(f"/{token}")
    assert seen["at"] == f"{TOOLS}:80"


def test_ports_that_are_not_listed_are_not_touched(pod, recourse, tool, token):
    assert call(pod, "GET", f"http://four.test:8080/{token}").status == 200
    (seen,) = tool.requests(f"/{token}")
    assert seen["at"] == f"{TOOLS}:8080" and seen["via"] is None


def exchange(host, port, data, context=None, server_name=None):
    """Inside the pod: what comes back until the other side ends."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.settimeout(WAIT_MAX)
        sock.connect((host, port))
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=server_name)
        answer = b""
        try:
            sock.sendall(data)
            while more := sock.recv(65536):
                answer += more
        except ConnectionError:
            pass
        return answer


def request(host, path="/", method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_direct_hit_on_the_port_is_closed(pod, recourse, tool, token, host):
    before = recourse.counted(COUNTED, result="direct")
    got = pod.inside(lambda: exchange(host, REDIRECT_PORT, request("four.test", f"/{token}")))
    assert got == b"" and not tool.requests(f"/{token}")
    recourse.await_counted(COUNTED, before + 1, result="direct")
    assert '"reason":"direct"' in recourse.stderr()


def test_what_was_meant_for_the_pod_itself_is_closed(pod, recourse):
    """Our rules never redirect that; others' may."""
    listen, probes = recourse.ports["listen"], recourse.ports["probes"]
    wanted = f'oifname "lo" tcp dport {{ 8081, {listen}, {probes} }} meta skuid 61234'
    chain = f"type nat hook output priority -120; {wanted} redirect to :{REDIRECT_PORT};"
    rules = f"table inet others {{ chain out {{ {chain} }}; }}"
    assert pod.run("nft", "-f", "-", timeout=WAIT_MAX, input=rules).returncode == 0
    code = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
        "s.settimeout(float(sys.argv[2])); print(s.recv(1))"
    )
    try:
        for port, result in ((8081, "loopback"), (listen, "own-listener"),
                             (probes, "own-listener")):  # fmt: skip
            before = recourse.counted(COUNTED, result=result)
            done = pod.run(
                "/usr/bin/python3", "-c", code, port, WAIT_MAX, timeout=2 * WAIT_MAX, uid=61234
            )
            assert "b''" in done.stdout or "ConnectionResetError" in done.stderr, done
            recourse.await_counted(COUNTED, before + 1, result=result)
    finally:
        pod.run("nft", "delete table inet others", timeout=WAIT_MAX)


def test_rules_that_do_not_exclude_recourse_make_no_loop(pod, tool, redirected, token):
    with sidecar(pod, POLICY, "--redirect", REDIRECT_PORT + 4) as recourse:
        options = ("--port", REDIRECT_PORT + 4)
        install(pod, *options, "--uid", OWN_UID + 1)
        answer = call(pod, "GET", f"http://four.test/{token}")
        assert answer.status == 502, answer.body
        assert not tool.requests(f"/{token}")
        recourse.await_counted(COUNTED, 1, result="own-user")
        assert "--uid" in recourse.stderr()
        install(pod, *options)
        assert call(pod, "GET", f"http://four.test/{token}").status == 200
    assert len(tool.requests(f"/{token}")) == 1


def test_a_host_of_another_port_is_misdirected(pod, recourse, tool, token):
    for host in ("four.test:8080", f"{TOOLS}:8080"):
        got = pod.inside(lambda: exchange(TOOLS, 80, request(host, f"/{token}")))  # noqa: B023
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 421 "), got
        problem = json.loads(body)
        assert problem["outcome"] == "not_executed" and "port 8080" in problem["detail"], problem
        assert problem["advice"]
    assert not tool.requests(f"/{token}")


def test_a_host_that_the_policy_does_not_know_is_refused_with_advice(pod, recourse, tool, token):
    before = recourse.counted(TUNNELS, by="redirect", decision="refused")
    for host in ("far.test", "evil.test", ELSEWHERE):
        got = pod.inside(lambda: exchange(ELSEWHERE, 80, request(host, f"/{token}")))  # noqa: B023
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 403 "), got
        problem = json.loads(body)
        assert problem["type"].endswith("/unknown-backend") and "tunnels" in problem["detail"]
    assert not tool.requests(f"/{token}")
    recourse.await_counted(TUNNELS, before + 3, by="redirect", decision="refused")


def test_a_host_that_tunnels_list_is_reached_unseen_and_by_its_name(pod, recourse, tool, token):
    got = pod.inside(lambda: exchange(ELSEWHERE, 80, request("other.test", f"/{token}")))
    assert got.startswith(b"HTTP/1.1 200 "), got
    (seen,) = tool.requests(f"/{token}")
    assert (seen["at"], seen["host"], seen["via"]) == (f"{TOOLS}:80", "other.test", None)


def test_one_connection_may_be_for_several_backends_never_for_another_port(pod, recourse, tool):
    data = b"".join(
        f"GET /several HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        for host in ("four.test", "six.test", "four.test:81")
    )
    got = pod.inside(lambda: exchange(TOOLS, 80, data + request("four.test")))
    assert got.count(b"HTTP/1.1 200 ") == 3 and got.count(b"HTTP/1.1 421 ") == 1, got


def test_connect_to_a_proxy_of_the_agents_own_is_refused(pod, recourse):
    data = b"CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n\r\n"
    got = pod.inside(lambda: exchange(TOOLS, 80, data))
    assert got.startswith(b"HTTP/1.1 405 ") and b"unset the proxy" in got, got


def tls(authority):
    return ssl.create_default_context(cafile=str(authority.cert))


def get_by_tls(pod, authority, address, port, name, path):
    return pod.inside(
        lambda: exchange(address, port, request(name, path), tls(authority), server_name=name)
    )


def test_tls_to_a_listed_name_is_a_tunnel_to_that_name(pod, recourse, tool, authority, token):
    before = recourse.counted(TUNNELS, by="redirect", decision="opened")
    got = get_by_tls(pod, authority, ELSEWHERE, 443, "far.test", f"/{token}")
    assert got.startswith(b"HTTP/1.1 200 "), got
    (seen,) = tool.requests(f"/{token}")
    assert (seen["at"], seen["via"]) == (f"{TOOLS}:443", None)
    recourse.await_counted(TUNNELS, before + 1, by="redirect", decision="opened")
    (line,) = recourse.await_log(lambda one: one.get("original") == f"{ELSEWHERE}:443")
    assert line["sni"] == "far.test" and line["decision"] == "opened", line
    assert line["arrival"] == "redirect" and line["upstream"] == TOOLS and line["bytes_out"] > 0


@pytest.mark.parametrize("client", CLIENTS)
def test_https_clients_are_told_that_their_host_is_not_listed(pod, recourse, tool, client):
    before = recourse.counted(TUNNELS, by="redirect", decision="refused")
    done = CLIENTS[client](pod, "GET", "https://four.test/not-listed")
    assert done.returncode != 0 and not tool.requests("/not-listed"), done
    recourse.await_counted(TUNNELS, before + 1, by="redirect", decision="refused")
    line = recourse.await_log(lambda one: one.get("sni") == "four.test")[-1]
    assert line["decision"] == "refused" and line["error"] == "tunnel-refused", line


def test_tls_without_a_name_goes_by_its_address(pod, recourse, tool, authority, token):
    context = tls(authority)
    context.check_hostname = False

    def get(address, port):
        return exchange(address, port, request(address, f"/{token}"), context)

    got = pod.inside(lambda: get(TOOLS, 8443))
    assert got.startswith(b"HTTP/1.1 200 "), got
    with pytest.raises(ssl.SSLError, match="(?i)access.denied"):
        pod.inside(lambda: get(TOOLS, 443))
    assert [seen["at"] for seen in tool.requests(f"/{token}")] == [f"{TOOLS}:8443"]


def test_an_address_that_is_listed_takes_no_name(pod, recourse, tool, authority, token):
    """The name would be another host, of which the policy says nothing."""
    with pytest.raises(ssl.SSLError, match="(?i)access.denied"):
        get_by_tls(pod, authority, TOOLS, 8443, "near.test", f"/{token}")
    assert not tool.requests(f"/{token}")


def test_what_is_neither_http_nor_tls_is_refused(pod, recourse):
    got = pod.inside(lambda: exchange(TOOLS, 80, b"\x00\x00\x00\x08\x04\xd2\x16\x2f"))
    assert got.startswith(b"HTTP/1.1 400 "), got
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    got = pod.inside(lambda: exchange(TOOLS, 80, preface))
    assert got == b"" or got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 505 ")), got


def test_who_waits_for_the_other_side_to_speak_is_let_go(pod, tool, redirected):
    arguments = ("--redirect", REDIRECT_PORT + 2, "--head-timeout", "2s")
    with sidecar(pod, POLICY, *arguments):
        install(pod, "--port", REDIRECT_PORT + 2)
        assert pod.inside(lambda: exchange(TOOLS, 80, b"")) == b""


def test_without_the_flag_nobody_asks_where_a_connection_was_meant_to_go(pod, tool, redirected):
    """Then it is a call to Recourse, as if it were the backend."""
    with sidecar(pod, POLICY) as recourse:
        install(pod, "--port", recourse.port)
        assert call(pod, "GET", "http://four.test/plain").status == 200
        (line,) = recourse.await_log(lambda one: one["arrival"] == "reverse")
        assert "original" not in line
        got = pod.inside(lambda: exchange("127.0.0.1", recourse.port, request("four.test")))
        assert got.startswith(b"HTTP/1.1 200 ")
    assert len(tool.requests("/plain")) == 1


def test_in_observe_mode_nothing_is_refused_for_its_host(pod, tool, redirected, authority, token):
    policy = POLICY.replace("tunnels: ", "mode: observe\n# ")
    with sidecar(pod, policy, "--redirect", REDIRECT_PORT + 5) as recourse:
        install(pod, "--port", REDIRECT_PORT + 5)
        got = get_by_tls(pod, authority, TOOLS, 443, "far.test", f"/{token}")
        assert got.startswith(b"HTTP/1.1 200 "), got
        got = pod.inside(lambda: exchange(TOOLS, 80, request("other.test", f"/{token}")))
        assert got.startswith(b"HTTP/1.1 200 "), got
        recourse.await_counted(TUNNELS, 2, by="redirect", decision="would-refuse")
        got = pod.inside(lambda: exchange(TOOLS, 80, request("four.test:8080", f"/{token}/port")))
        assert got.startswith(b"HTTP/1.1 200 "), got
        recourse.await_log(lambda line: line.get("decision") == "would-refuse"
                           and line["effect"] == "read")  # fmt: skip
    assert [seen["via"] for seen in tool.requests(f"/{token}")] == [None, None]


def test_the_process_drains_and_ends_with_open_tunnels(pod, tool, redirected, authority):
    with sidecar(pod, POLICY, "--redirect", REDIRECT_PORT + 3) as recourse:
        install(pod, "--port", REDIRECT_PORT + 3)

        def open_tunnel():
            sock = socket.create_connection((TOOLS, 443), timeout=WAIT_MAX)
            return tls(authority).wrap_socket(sock, server_hostname="far.test")

        with pod.inside(open_tunnel) as tunnel:
            recourse.await_counted(TUNNELS, 1, by="redirect", decision="opened")
            recourse.terminate()
            assert recourse.wait() == 0
            tunnel.close()


INTERCEPTED = """\
version: 1
backends:
  far: {{ url: "https://far.test", tls: {{ ca_file: "{shared}/backend.pem" }}, intercept: true }}
tools:
  far.create:
    match: POST far /orders/{{id}}
    effect: write
    scope: caller
    undo: none
    reason: a row of a test is never undone
"""


def test_https_of_a_client_that_knows_no_proxy_is_intercepted(
    pod, tool, redirected, authority, token
):
    with tempfile.TemporaryDirectory() as shared:
        os.chmod(shared, 0o755)
        shutil.copy(authority.cert, f"{shared}/backend.pem")
        os.chmod(f"{shared}/backend.pem", 0o644)
        os.chown(shared, OWN_UID, OWN_UID)
        own = ["--ca", f"{shared}/ca", "--ca-bundle", f"{shared}/bundle.pem"]
        policy = INTERCEPTED.format(shared=shared)
        path = f"/orders/{token}"
        with sidecar(pod, policy, "--redirect", REDIRECT_PORT + 6, *own) as running:
            install(pod, "--port", REDIRECT_PORT + 6)
            first, again = (
                Answer(pod.run(
                    "curl", "-sS", "-i", "-d", "{}", "-H", "Content-Type: application/json",
                    "--cacert", f"{shared}/bundle.pem", f"https://far.test{path}",
                    timeout=2 * WAIT_MAX,
                ).stdout)
                for _ in range(2)
            )  # fmt: skip
            assert (first.status, again.status) == (201, 201) and again.replayed
            (seen,) = tool.requests(path)
            assert seen["at"] == f"{TOOLS}:443" and "recourse" in seen["via"]
            running.await_counted("recourse_interceptions_total", 2, result="ok")
            line = running.await_log(lambda one: one["method"] == "POST")[0]
            assert line["arrival"] == "redirect" and line["tool"] == "far.create", line
