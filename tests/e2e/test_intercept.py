"""HTTPS of unchanged agents that ends at Recourse: CONNECT, a minted leaf, the same calls."""

import contextlib
import json
import pathlib
import shutil
import ssl
import stat
import subprocess
import time

import pytest

from support import rawhttp
from support.certificates import PAST, Maker, openssl
from support.interception import HOST, Lab, MemoryClient, connect, read_head
from support.recourse import WAIT_MAX, NotReady, run_cli
from support.secure import server_context
from support.waiting import wait_until

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("intercept")) as made:
        yield made
        assert made.recourse.stop() == 0, made.recourse.stderr()[-4000:]


def has(module):
    return subprocess.run([PYTHON, "-c", f"import {module}"], check=False,
                          capture_output=True, timeout=WAIT_MAX).returncode == 0  # fmt: skip


def python(library):
    return [PYTHON, CLIENTS / "intercepted.py", library]


CURL = ["curl", "-sS", "--fail", "-d", "{}", "-H", "Content-Type: application/json"]
NODE = ["node", CLIENTS / "call.mjs", "axios"]
JAVA = ["java", CLIENTS / "Intercepted.java"]
# A client, and the one variable that has it trust the CA.
ROWS = {
    "curl SSL_CERT_FILE": (CURL, "SSL_CERT_FILE"),
    "curl CURL_CA_BUNDLE": (CURL, "CURL_CA_BUNDLE"),
    "urllib": (python("urllib"), "SSL_CERT_FILE"),
    "requests REQUESTS_CA_BUNDLE": (python("requests"), "REQUESTS_CA_BUNDLE"),
    "requests CURL_CA_BUNDLE": (python("requests"), "CURL_CA_BUNDLE"),
    "httpx": (python("httpx"), "SSL_CERT_FILE"),
    "aiohttp": (python("aiohttp"), "SSL_CERT_FILE"),
    "node": (NODE, "NODE_EXTRA_CA_CERTS"),
    "java": (JAVA, "JAVA_TOOL_OPTIONS"),
}


def skip_what_is_missing(client):
    name = client.split(" ")[0]
    if name in ("httpx", "aiohttp") and not has(name):
        pytest.skip(f"no python3-{name}")
    if name == "java" and shutil.which("java") is None:
        pytest.skip("no JDK")


# --- clients -------------------------------------------------------------------------------------
@pytest.mark.parametrize("client", ROWS)
def test_an_unchanged_client_with_the_variables_of_recourse_env(lab, packages, token, client):
    skip_what_is_missing(client)
    command, variable = ROWS[client]
    data = ['{"a": 1}'] if client == "node" else []
    ended = lab.run([*command, f"https://{HOST}/w/{token}", *data], trusted=[variable])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert lab.backend.count(f"/w/{token}") == 1
    assert lab.recourse.events_for(f"/w/{token}")[-1]["phase"] == "SUCCEEDED"


@pytest.mark.parametrize("client", ["curl CURL_CA_BUNDLE", "urllib", "node"])
def test_a_client_that_does_not_trust_the_ca_sends_nothing_and_the_log_says_what_to_do(
    tmp_path, packages, client
):
    with Lab(tmp_path) as lab:
        command, _ = ROWS[client]
        data = ["{}"] if client == "node" else []
        ended = lab.run([*command, f"https://{HOST}/w/1", *data], trusted=["PIP_CERT"])
        assert ended.returncode != 0
        assert lab.backend.count("/w/1") == 0
        # Node looks at the certificate only after the handshake.
        lab.await_interceptions(*([{"closed": 1}, {"unused": 1}] if client == "node" else []),
                                {"untrusted": 1})  # fmt: skip
        line = next(line for line in lab.recourse.stderr().splitlines() if "intercepted" in line)
        assert "--ca-bundle" in line and HOST in line


def test_git_reaches_the_backend(lab):
    ended = lab.run(["git", "ls-remote", f"https://{HOST}/repo.git"], trusted=["GIT_SSL_CAINFO"])
    assert "/repo.git/info/refs" in [seen["path"] for seen in lab.backend.seen], ended.stderr


def test_pip_reaches_the_backend(lab):
    command = [PYTHON, "-m", "pip", "download", "--no-deps", "--retries", "0",
               "--disable-pip-version-check", "--index-url", f"https://{HOST}/simple", "nothing-x"]
    if not has("pip"):
        pytest.skip("no pip")
    ended = lab.run(command, trusted=["PIP_CERT"])
    assert "/simple/nothing-x/" in [seen["path"] for seen in lab.backend.seen], ended.stderr


# --- the same calls as in reverse mode -----------------------------------------------------------
def test_a_repeat_through_interception_is_one_effect(lab, token):
    first = lab.curl(f"/w/{token}", "-H", "Idempotency-Key: k1")
    again = lab.curl(f"/w/{token}", "-H", "Idempotency-Key: k1")
    assert first[0] == again[0] == 200 and first[2] == again[2]
    assert again[1]["idempotent-replayed"] == "true"
    assert lab.backend.count(f"/w/{token}") == 1


def test_keys_are_those_of_reverse_mode(lab, token):
    path = f"/w/{token}"
    direct = rawhttp.call(lab.recourse.port, "POST", path, host=HOST, body={"a": 1})
    assert direct.status == 200
    status, fields, _ = lab.curl(path)
    assert status == 200 and fields["idempotent-replayed"] == "true"
    assert fields["idempotency-key"] == direct.header("Idempotency-Key").lower()
    assert lab.backend.count(path) == 1


def test_a_repeat_after_kill_9_is_one_effect_and_the_ca_is_still_the_same(tmp_path):
    with Lab(tmp_path) as lab:
        assert lab.curl("/w/1")[0] == 200
        before = [(lab.ca / name).read_bytes() for name in ("ca.key", "ca.crt")]
        bundle = lab.bundle.read_bytes()
        lab.recourse.kill()
        lab.recourse.start()
        status, fields, _ = lab.curl("/w/1")
        assert status == 200 and fields["idempotent-replayed"] == "true"
        assert lab.backend.count("/w/1") == 1
        assert [(lab.ca / name).read_bytes() for name in ("ca.key", "ca.crt")] == before
        assert lab.bundle.read_bytes() == bundle


def test_a_backend_whose_certificate_is_bad_is_refused_as_in_reverse_mode(tmp_path):
    with Lab(tmp_path) as lab:
        lab.backend.context = server_context(lab.maker.issue("expired", valid=PAST))
        direct = rawhttp.call(lab.recourse.port, "POST", "/w/1", host=HOST, body={"a": 1})
        status, _, body = lab.curl("/w/2")
        assert status == direct.status == 502
        inside, outside = json.loads(body), json.loads(direct.body)
        for member in ("type", "detail", "outcome"):
            assert inside[member] == outside[member]
        assert "expired" in inside["detail"]
        assert lab.backend.effects == []


def test_what_comes_inside_is_logged_as_any_call_and_counted(tmp_path):
    with Lab(tmp_path) as lab:
        assert lab.curl("/w/1")[0] == 200
        line = lab.recourse.await_log(lambda line: line["method"] == "POST")[0]
        assert line["backend"] == "shop" and line["tool"] == "shop.create"
        assert lab.interceptions() == {"ok": 1}


def test_one_connection_serves_many_requests(lab, token):
    urls = [f"https://{HOST}/r/{token}/{number}" for number in range(5)]
    outputs = ["-o", "/dev/null"] * len(urls)
    ended = lab.run(["curl", "-sS", "--fail", "-w", "%{num_connects}\n", *outputs, *urls])
    assert ended.returncode == 0, ended.stderr
    assert sum(map(int, ended.stdout.split())) == 1


def test_a_request_inside_that_names_another_host_is_misdirected(lab, token):
    status, _, body = lab.curl(f"/w/{token}", "-H", "Host: quiet.test")
    assert status == 421, body
    assert lab.backend.count(f"/w/{token}") == 0


def test_large_bodies_pass_both_ways(lab, token):
    size = 1 << 20

    def echo(sock, path):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)

    lab.backend.answer = echo
    try:
        body = lab.directory / "large.json"
        body.write_text(json.dumps({"text": "y" * size}))
        json_type = ["-H", "Content-Type: application/json"]
        ended = lab.run(["curl", "-sS", "--fail", "--data-binary", f"@{body}", *json_type,
                         f"https://{HOST}/w/{token}"])  # fmt: skip
    finally:
        lab.backend.calm(lab.context)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "x" * size and lab.backend.count(f"/w/{token}") == 1


# --- the certificate -----------------------------------------------------------------------------
def shown_by(lab, *arguments, **where):
    """The PEM text of the leaf that a client is shown."""
    code, text = lab.s_client(*arguments, **where)
    assert code == 0, text
    begin = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")
    path = lab.directory / "leaf.pem"
    path.write_text(text[begin:end])
    return subprocess.run(
        ["openssl", "x509", "-in", path, "-noout", "-text"],
        capture_output=True, text=True, timeout=WAIT_MAX, check=True,
    ).stdout  # fmt: skip


def ends_within(path, seconds):
    ended = subprocess.run(["openssl", "x509", "-in", path, "-noout", "-checkend", str(seconds)],
                           capture_output=True, timeout=WAIT_MAX, check=False)  # fmt: skip
    return ended.returncode == 1


def test_the_leaf_is_for_that_host_alone_and_for_a_day(lab):
    text = shown_by(lab, "-servername", HOST, "-verify_hostname", HOST)
    assert f"DNS:{HOST}\n" in text and text.count("DNS:") == 1
    assert "CA:FALSE" in text and "TLS Web Server Authentication" in text
    leaf = lab.directory / "leaf.pem"
    day = 86400
    assert ends_within(leaf, day) and not ends_within(leaf, day - 2 * 3600)
    # Clocks of agents may be behind.
    ended = subprocess.run(
        ["openssl", "verify", "-attime", str(int(time.time()) - 120), "-CAfile",
         lab.ca / "ca.crt", leaf],
        capture_output=True, text=True, timeout=WAIT_MAX, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_ca_may_sign_for_no_other_host(lab):
    text = subprocess.run(
        ["openssl", "x509", "-in", lab.ca / "ca.crt", "-noout", "-text"],
        capture_output=True, text=True, timeout=WAIT_MAX, check=True,
    ).stdout  # fmt: skip
    permitted = text[text.index("Name Constraints"):]
    for name in (f"DNS:{HOST}", "DNS:localhost", "IP:127.0.0.1/255.255.255.255"):
        assert name in permitted
    assert "quiet.test" not in text


def test_an_address_has_a_certificate_of_its_own(lab, token):
    status, _, _ = lab.curl(f"/w/{token}", host="127.0.0.1")
    assert status == 200 and lab.backend.count(f"/w/{token}") == 1
    text = shown_by(lab, "-noservername", "-verify_ip", "127.0.0.1", target="127.0.0.1:443")
    assert "IP Address:127.0.0.1" in text


def test_a_client_that_names_no_host_means_that_of_its_connect(lab):
    text = shown_by(lab, "-noservername", "-verify_hostname", HOST)
    assert f"DNS:{HOST}" in text


def test_a_mounted_ca_is_used_as_it_is(tmp_path):
    lab = Lab(tmp_path)
    company = Maker(tmp_path / "company", "Company CA")
    lab.ca.mkdir()
    for name, path in (("ca.crt", company.cert), ("ca.key", company.key)):
        shutil.copy(path, lab.ca / name)
        (lab.ca / name).chmod(0o600)
    before = (lab.ca / "ca.crt").read_bytes()
    with lab:
        assert lab.curl("/w/1")[0] == 200
        assert (lab.ca / "ca.crt").read_bytes() == before
        assert b"".join(company.cert.read_bytes().split()) in b"".join(
            lab.bundle.read_bytes().split()
        )


# --- what fails, and how that is told ------------------------------------------------------------
REFUSED = {
    "old": (["-servername", HOST, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], "version"),
    "h2 alone": (["-servername", HOST, "-alpn", "h2"], "protocol"),
    "another name": (["-servername", "other.test"], "name"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_handshake_that_cannot_be_is_counted_and_logged(tmp_path, what):
    arguments, result = REFUSED[what]
    with Lab(tmp_path) as lab:
        code, text = lab.s_client(*arguments)
        assert code != 0, text
        lab.await_interceptions({result: 1})
        assert f'"result":"{result}"' in lab.recourse.stderr()
        assert lab.backend.seen == []


def test_a_client_that_goes_after_the_handshake_may_pin_certificates(tmp_path):
    with Lab(tmp_path) as lab:
        with connect(lab.recourse.port) as sock:
            sock.sendall(b"CONNECT %s:443 HTTP/1.1\r\nHost: x\r\n\r\n" % HOST.encode())
            assert read_head(sock).startswith(b"HTTP/1.1 200")
            client = MemoryClient(lab.ca / "ca.crt")
            client.drive(sock, client.tls.do_handshake)
        lab.await_interceptions({"unused": 1})


def test_a_hello_that_comes_with_the_connect_and_one_that_comes_byte_by_byte(lab):
    for whole in (True, False):
        with connect(lab.recourse.port) as sock:
            client = MemoryClient(lab.ca / "ca.crt")
            asked = b"CONNECT %s:443 HTTP/1.1\r\nHost: x\r\n\r\n" % HOST.encode()
            hello = client.hello()
            if whole:
                sock.sendall(asked + hello)
            else:
                sock.sendall(asked)
            assert read_head(sock).startswith(b"HTTP/1.1 200")
            if not whole:
                for byte in hello:
                    sock.sendall(bytes([byte]))
            client.drive(sock, client.tls.do_handshake)
            assert client.tls.version() == "TLSv1.3"
            client.tls.write(b"GET /r HTTP/1.1\r\nHost: %s\r\n\r\n" % HOST.encode())
            assert client.drive(sock, lambda: client.tls.read(12)) == b"HTTP/1.1 200"  # noqa: B023


def test_a_host_that_is_not_named_is_not_intercepted(lab):
    # A backend without the word: Recourse does not look into its TLS, so there is none.
    code, text = lab.s_client("-servername", "quiet.test", target="quiet.test:443")
    assert code != 0 and "Recourse" not in text.partition("BEGIN CERTIFICATE")[2], text
    # A tunnel that the policy allows shows the server's own certificate.
    target = f"localhost:{lab.blind.port}"
    _, text = lab.s_client("-servername", "localhost", target=target, ca=lab.maker.cert)
    assert "issuer=CN = test CA" in text and "Verify return code: 0 (ok)" in text, text


# --- TLS on the listener too ---------------------------------------------------------------------
def test_interception_inside_of_tls_to_the_proxy(tmp_path):
    maker = Maker(tmp_path / "proxy-ca")
    own = maker.issue("proxy")
    arguments = ["--tls-cert", own.cert, "--tls-key", own.key]
    with Lab(tmp_path, arguments) as lab:
        proxy = f"https://localhost:{lab.recourse.port}"
        size = 300_000
        (tmp_path / "body.json").write_text(json.dumps({"text": "z" * size}))
        status, _, body = lab.curl(
            "/w/1", "--proxy", proxy, "--proxy-cacert", maker.cert,
            data=f"@{tmp_path / 'body.json'}",
        )  # fmt: skip
        assert status == 200, body
        assert lab.backend.count("/w/1") == 1
        assert lab.interceptions() == {"ok": 1}


def test_what_came_over_tls_goes_nowhere_once_a_new_policy_does_not_intercept(tmp_path):
    """It might go on in clear text."""
    with Lab(tmp_path) as lab, contextlib.ExitStack() as stack:
        sock = stack.enter_context(connect(lab.recourse.port))
        sock.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode())
        assert b" 200 " in read_head(sock)
        context = ssl.create_default_context(cafile=lab.ca / "ca.crt")
        secured = stack.enter_context(context.wrap_socket(sock, server_hostname=HOST))

        def post(path):
            fields = {"Content-Type": "application/json"}
            secured.sendall(rawhttp.render("POST", path, HOST, fields, b"{}"))

        post("/w/before")
        assert b" 200 " in read_head(secured)
        lab.recourse.policy_path.write_text(lab.policy(intercept=False))
        assert lab.recourse.cli("policy", "reload").returncode == 0
        secured.settimeout(WAIT_MAX)
        left = b""
        post("/w/after")
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            while more := secured.recv(65536):
                left += more
        assert b"HTTP/1.1 421 " in left and b"connect again" in left, left
        assert lab.backend.count("/w/before") == 1 and lab.backend.count("/w/after") == 0


# --- the policy and the CA -----------------------------------------------------------------------
def test_a_policy_that_intercepts_does_not_start_without_a_ca(tmp_path):
    lab = Lab(tmp_path, with_ca=False)
    with lab.backend, lab.blind, pytest.raises(NotReady) as raised:
        lab.recourse.start()
    assert "exit 3" in str(raised.value) and "--ca DIR" in str(raised.value)


def test_a_policy_that_begins_to_intercept_is_refused_without_a_ca(tmp_path):
    with Lab(tmp_path, intercept=False, with_ca=False) as lab:
        before = json.loads(lab.recourse.cli("policy", "status", "--json").stdout)["version"]
        lab.recourse.policy_path.write_text(lab.policy())
        ended = lab.recourse.cli("policy", "reload")
        assert ended.returncode == 3 and "--ca DIR" in ended.stdout + ended.stderr
        after = json.loads(lab.recourse.cli("policy", "status", "--json").stdout)["version"]
        assert after == before


def test_a_host_that_a_new_policy_adds_is_permitted_by_the_same_key(tmp_path):
    with Lab(tmp_path, name="first.shop.test") as lab:
        key = (lab.ca / "ca.key").read_bytes()
        old = tmp_path / "old.pem"
        shutil.copy(lab.ca / "ca.crt", old)
        lab.recourse.policy_path.write_text(lab.policy())
        assert lab.recourse.cli("policy", "reload").returncode == 0
        assert lab.curl("/w/1")[0] == 200
        assert (lab.ca / "ca.key").read_bytes() == key
        assert "further hosts" in lab.recourse.stderr()
        # Who read the bundle before goes on with what was permitted then, and with nothing else.
        code, _ = lab.s_client("-servername", "localhost", target=f"localhost:{lab.backend.port}",
                               ca=old)  # fmt: skip
        assert code == 0
        code, text = lab.s_client("-servername", HOST, ca=old)
        assert code != 0 and "permitted subtree" in text


def take(lab, **policy):
    lab.recourse.policy_path.write_text(lab.policy(**policy))
    ended = lab.recourse.cli("policy", "reload")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_interception_that_is_switched_off_and_on_leaves_the_ca_and_the_bundles_alone(tmp_path):
    with Lab(tmp_path) as lab:
        files = [lab.ca / "ca.crt", lab.bundle, lab.java]
        before = [path.read_bytes() for path in files]
        for intercept in (False, True):
            take(lab, intercept=intercept)
            assert [path.read_bytes() for path in files] == before
        assert lab.curl("/w/1")[0] == 200
        assert "further hosts" not in lab.recourse.stderr()


def test_a_host_that_is_replaced_stays_permitted_and_comes_back_without_a_new_ca(tmp_path):
    with Lab(tmp_path, name="first.shop.test") as lab:
        take(lab)
        both = (lab.ca / "ca.crt").read_bytes()
        take(lab, host="first.shop.test")
        assert (lab.ca / "ca.crt").read_bytes() == both
        # The bundle of an agent that was started in between.
        assert lab.curl("/w/1", host="first.shop.test")[0] == 200
        take(lab)
        assert lab.curl("/w/2")[0] == 200
        assert (lab.ca / "ca.crt").read_bytes() == both
        assert lab.recourse.stderr().count("permits further hosts") == 1


def test_a_bundle_that_is_gone_or_damaged_is_written_again(tmp_path):
    with Lab(tmp_path) as lab:
        before = lab.bundle.read_bytes(), lab.java.read_bytes()
        lab.bundle.unlink()
        lab.java.write_bytes(b"nonsense")
        wait_until(
            lambda: lab.recourse.stderr().count("is written again") >= 2,
            lambda: lab.recourse.stderr()[-4000:],
        )
        assert (lab.bundle.read_bytes(), lab.java.read_bytes()) == before


def test_init_with_a_policy_makes_the_ca_that_run_would_make(tmp_path):
    lab = Lab(tmp_path)
    ended = run_cli("ca", "init", lab.ca, "--policy", lab.recourse.policy_path)
    assert ended.returncode == 0, ended.stderr
    made = (lab.ca / "ca.crt").read_bytes()
    with lab:
        assert lab.curl("/w/1")[0] == 200
        assert (lab.ca / "ca.crt").read_bytes() == made


def test_only_https_backends_are_intercepted_and_explain_says_which(lab, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text('version: 1\nbackends:\n  a: { url: "http://a.test", intercept: true }\n')
    ended = run_cli("policy", "check", bad)
    assert ended.returncode == 3 and "backends.a.intercept" in ended.stdout
    said = run_cli("policy", "explain", lab.recourse.policy_path, f"POST https://{HOST}/w/1").stdout
    assert "intercept " in said
    tunnel = ["policy", "explain", lab.recourse.policy_path]
    said = run_cli(*tunnel, f"CONNECT {HOST}:443").stdout
    assert "whether it comes over TLS or not" in said and "refused" not in said
    said = run_cli(*tunnel, "CONNECT quiet.test:80").stdout
    assert "TLS is refused, unless you say `intercept: true`" in said


def test_bundles_are_for_everybody_and_the_key_is_not(lab):
    assert stat.S_IMODE(lab.bundle.stat().st_mode) == 0o644
    assert stat.S_IMODE(lab.java.stat().st_mode) == 0o644
    assert stat.S_IMODE((lab.ca / "ca.key").stat().st_mode) == 0o600
    openssl("x509", "-in", lab.ca / "ca.crt", "-noout")
