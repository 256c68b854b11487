"""`recourse ca init|bundle` and `recourse env`, as people, init containers and clients use them."""

import json
import pathlib
import shutil
import ssl
import stat
import subprocess

import pytest
import yaml

from support.certificates import Maker
from support.interception import Lab
from support.recourse import WAIT_MAX, NotReady, run_cli

SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
TRUSTED = [
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "AWS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "DENO_CERT", "CARGO_HTTP_CAINFO",
]  # fmt: skip


def done(*arguments):
    ended = run_cli(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def text_of(certificate, *what):
    shown = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", *what],
        capture_output=True, text=True, timeout=WAIT_MAX, check=True,
    )  # fmt: skip
    return shown.stdout


@pytest.fixture
def ca(tmp_path):
    done("ca", "init", tmp_path / "ca", "--name", "agent-7f9c")
    return tmp_path / "ca"


# --- init ----------------------------------------------------------------------------------------
def test_the_ca_is_one_level_deep_short_lived_and_named_after_its_pod(ca):
    shown = text_of(ca / "ca.crt", "-text")
    assert "CA:TRUE, pathlen:0" in shown and "Certificate Sign" in shown
    assert "NIST CURVE: P-256" in shown and "Recourse CA of agent-7f9c" in shown
    week = 7 * 86400
    text_of(ca / "ca.crt", "-checkend", str(week - 3600))
    later = subprocess.run(
        ["openssl", "x509", "-in", ca / "ca.crt", "-checkend", str(week + 60)],
        capture_output=True, timeout=WAIT_MAX, check=False,
    )  # fmt: skip
    assert later.returncode == 1
    assert stat.S_IMODE((ca / "ca.key").stat().st_mode) == 0o600
    assert sorted(path.name for path in ca.iterdir()) == ["ca.crt", "ca.key"]


def test_a_second_init_changes_nothing(ca):
    before = [(ca / name).read_bytes() for name in ("ca.key", "ca.crt")]
    assert "is there" in done("ca", "init", ca)
    assert [(ca / name).read_bytes() for name in ("ca.key", "ca.crt")] == before


def test_what_is_no_ca_is_named_and_left_alone(ca):
    (ca / "ca.crt").write_text("nonsense")
    ended = run_cli("ca", "init", ca)
    assert ended.returncode == 1 and "ca.crt is not a certificate" in ended.stderr
    assert (ca / "ca.crt").read_text() == "nonsense"


@pytest.mark.parametrize("life", ["1m", "9999d", "long"])
def test_a_life_that_is_too_short_or_too_long_is_refused(tmp_path, life):
    ended = run_cli("ca", "init", tmp_path / "ca", "--life", life)
    assert ended.returncode == 2 and "1h to 3650d" in ended.stderr
    assert not (tmp_path / "ca").exists()


# --- bundle --------------------------------------------------------------------------------------
def test_the_bundle_holds_the_systems_cas_and_ours(ca, tmp_path):
    out = tmp_path / "bundle.pem"
    out.write_text("old")
    done("ca", "bundle", ca, "--out", out)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(out)
    system = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    system.load_verify_locations(SYSTEM)
    assert len(context.get_ca_certs()) == len(system.get_ca_certs()) + 1
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    assert done("ca", "bundle", ca) == out.read_text()


def subjects(bundle):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    return sorted(str(one["subject"]) for one in context.get_ca_certs())


def test_the_bundle_holds_what_the_image_names_in_the_variables_that_env_replaces(ca, tmp_path):
    """An image with a CA of its company trusts it by these variables; ours take their place."""
    own = Maker(tmp_path / "company", "Company CA").cert
    out = tmp_path / "bundle.pem"
    plain = done("ca", "bundle", ca)
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"):
        # With the name of the bundle itself, as in a shell that has our variables already.
        for _ in range(2):
            env = {name: str(own), "CURL_CA_BUNDLE": str(out), "PIP_CERT": SYSTEM}
            ended = run_cli("ca", "bundle", ca, "--out", out, env=env)
            assert ended.returncode == 0, ended.stderr
            text = out.read_text()
            assert text.count(own.read_text()) == 1 and len(text) == len(plain) + len(
                own.read_text()
            )
        assert any("Company CA" in subject for subject in subjects(out))


def test_several_files_of_cas_are_put_together(ca, tmp_path):
    own = Maker(tmp_path / "company", "Company CA").cert
    both = done("ca", "bundle", "--system", SYSTEM, "--system", own, ca)
    assert both == (
        pathlib.Path(SYSTEM).read_text() + own.read_text() + (ca / "ca.crt").read_text()
    )


def test_a_bundle_without_the_systems_cas_has_to_be_asked_for(ca, tmp_path):
    assert done("ca", "bundle", ca, "--system", "none") == (ca / "ca.crt").read_text()
    for system in (tmp_path / "missing", ca / "ca.key"):
        ended = run_cli("ca", "bundle", ca, "--system", system, "--out", tmp_path / "out")
        assert ended.returncode == 1 and "--system" in ended.stderr
        assert not (tmp_path / "out").exists()


def test_there_is_no_bundle_without_a_ca(tmp_path):
    ended = run_cli("ca", "bundle", tmp_path / "ca")
    assert ended.returncode == 1 and "recourse ca init" in ended.stderr


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no JDK")
def test_java_reads_the_key_store_and_finds_its_digest_right(ca, tmp_path):
    done("ca", "bundle", ca, "--form", "jks", "--out", tmp_path / "trust.jks")
    listed = subprocess.run(
        ["keytool", "-list", "-keystore", tmp_path / "trust.jks", "-storepass", "changeit"],
        capture_output=True, text=True, timeout=WAIT_MAX, check=False,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stdout
    print_ = text_of(ca / "ca.crt", "-fingerprint", "-sha256").split("=")[1].strip()
    assert print_ in listed.stdout


def test_the_form_goes_by_the_name_of_the_file_unless_told(ca, tmp_path):
    done("ca", "bundle", ca, "--system", "none", "--out", tmp_path / "trust.jks")
    assert (tmp_path / "trust.jks").read_bytes().startswith(b"\xfe\xed\xfe\xed")
    done("ca", "bundle", ca, "--system", "none", "--form", "pem", "--out", tmp_path / "pem.jks")
    assert (tmp_path / "pem.jks").read_text() == (ca / "ca.crt").read_text()


def test_a_missing_directory_is_to_be_made(ca, tmp_path):
    ended = run_cli("ca", "bundle", ca, "--system", "none", "--out", tmp_path / "none" / "x.pem")
    assert ended.returncode == 1 and "make its directory first" in ended.stderr


# --- run -----------------------------------------------------------------------------------------
def spoil(lab, what):
    """Arguments of `run`, and what it says of them."""
    if what == "bundle":
        return ["--ca-bundle", lab.directory / "none" / "ca.pem"], "make its directory first"
    if what == "system":
        return ["--ca-system", lab.directory / "nope"], "--ca-system: cannot open"
    assert run_cli("ca", "init", lab.ca).returncode == 0
    if what == "open key":
        (lab.ca / "ca.key").chmod(0o644)
        return [], "ca.key is open to every user"
    shutil.copy(Maker(lab.directory / "company", "Company CA").cert, lab.ca / "ca.crt")
    return [], "--ca: "


@pytest.mark.parametrize("what", ["bundle", "system", "open key", "foreign certificate"])
def test_files_of_the_command_line_that_cannot_be_used_end_it_with_2(tmp_path, what):
    lab = Lab(tmp_path)
    arguments, said = spoil(lab, what)
    lab.recourse.arguments += map(str, arguments)
    with lab.backend, lab.blind, pytest.raises(NotReady) as raised:
        lab.recourse.start()
    assert "exit 2" in str(raised.value) and said in str(raised.value)


# --- env -----------------------------------------------------------------------------------------
WANTED = {
    **{name: "http://127.0.0.1:19080"
       for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy")},
    "NO_PROXY": "models.example,10.0.0.0/8", "no_proxy": "models.example,10.0.0.0/8",
    "NODE_USE_ENV_PROXY": "1",
    **{name: "/etc/agent/it's ours.pem" for name in TRUSTED},
}  # fmt: skip


def shown(form):
    return done(
        "env", "--bundle", "/etc/agent/it's ours.pem", "--java-trust-store", "/etc/agent/t.jks",
        "--no-proxy", "models.example,10.0.0.0/8", "--format", form,
    )  # fmt: skip


def java_is_right(variables):
    options = variables.pop("JAVA_TOOL_OPTIONS").split(" ")
    return {
        "-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=19080",
        "-Dhttp.nonProxyHosts=models.example|10.0.0.0/8",
        "-Djavax.net.ssl.trustStore=/etc/agent/t.jks",
    } <= set(options)  # fmt: skip


def test_env_in_json():
    variables = json.loads(shown("json"))
    assert java_is_right(variables) and variables == WANTED


def test_env_for_a_container_of_kubernetes():
    variables = {one["name"]: one["value"] for one in yaml.safe_load(shown("k8s"))}
    assert java_is_right(variables) and variables == WANTED


def test_env_for_a_shell_is_what_the_shell_then_has():
    ran = subprocess.run(
        ["sh", "-c", f"{shown('sh')}\nenv -0"], env={"PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=WAIT_MAX, check=True,
    )  # fmt: skip
    variables = dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)
    java_is_right(variables)
    assert WANTED.items() <= variables.items()


def test_env_as_a_file_of_lines():
    lines = dict(line.split("=", 1) for line in shown("dotenv").splitlines())
    assert lines["HTTPS_PROXY"] == "http://127.0.0.1:19080"
    assert json.loads(lines["SSL_CERT_FILE"]) == "/etc/agent/it's ours.pem"


def test_env_names_the_clients_that_go_around_and_what_to_do():
    said = run_cli("env").stderr
    for client in ("stripe-node", "AWS SDK", "undici", "aiohttp", "urllib3", "Apache HttpClient"):
        assert client in said, said
    assert "createFetchHttpClient" in said and "redirect install" in said


def test_env_names_files_so_that_any_directory_will_do():
    arguments = ["--bundle", "a/../ca.pem", "--java-trust-store", "t.jks", "--format", "json"]
    variables = json.loads(done("env", *arguments))
    assert variables["SSL_CERT_FILE"] == str(pathlib.Path.cwd() / "ca.pem")
    assert f"trustStore={pathlib.Path.cwd() / 't.jks'}" in variables["JAVA_TOOL_OPTIONS"]


def test_env_without_a_bundle_names_no_trust_and_still_clears_no_proxy():
    variables = json.loads(done("env", "--format", "json"))
    assert variables["NO_PROXY"] == "" and not set(TRUSTED) & set(variables)
    assert "trustStore" not in variables["JAVA_TOOL_OPTIONS"]


@pytest.mark.parametrize("proxy", ["127.0.0.1:19080", "https://a:1", "http://a", "http://a:1/x"])
def test_env_wants_a_proxy_that_every_client_understands(proxy):
    ended = run_cli("env", "--proxy", proxy)
    assert ended.returncode == 2 and "http://HOST:PORT" in ended.stderr


def test_the_readme_names_every_variable():
    readme = (pathlib.Path(__file__).resolve().parents[2] / "proxy" / "RUNNING.md").read_text()
    for name in json.loads(done("env", "--format", "json", "--bundle", "x")):
        assert name.lower() in readme.lower(), name
