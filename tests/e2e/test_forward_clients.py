"""Forward mode with unchanged clients: curl, requests, urllib, Node; and TLS in a tunnel."""

import http.client
import http.cookiejar
import json
import os
import shutil
import subprocess

import pytest
import requests

from support import npm, rawhttp
from support.certificates import Maker
from support.double import ServedPort
from support.forward import TRACE, connect, hello, policy
from support.recourse import WAIT_MAX, Recourse, run_cli
from support.secure import server_context
from support.waiting import wait_until


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("recourse"), policy(double)) as running:
        yield running


def proxied(proxy):
    url = f"http://127.0.0.1:{proxy.port}"
    return {"http_proxy": url, "https_proxy": url, "HTTP_PROXY": url, "HTTPS_PROXY": url}


def run(proxy, *command, cwd=None):
    env = {k: v for k, v in os.environ.items() if k.lower() != "no_proxy"}
    return subprocess.run(
        command, env={**env, **proxied(proxy)}, capture_output=True, text=True, cwd=cwd,
        timeout=2 * WAIT_MAX, check=False,
    )  # fmt: skip


def test_curl(proxy, double, token):
    url = f"http://shop.test/plain/{token}"
    common = ["curl", "-sS", "--data", '{"n":1}', "-H", "Content-Type: application/json",
              "-H", f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01", url]  # fmt: skip
    direct = run(proxy, *common)
    tunnelled = run(proxy, *common, "--proxytunnel")
    assert direct.returncode == tunnelled.returncode == 0, tunnelled.stderr
    assert direct.stdout == tunnelled.stdout != ""
    refused = run(proxy, "curl", "-sS", "https://pay.test/")
    assert refused.returncode == 56 and "403" in refused.stderr
    assert len(double.requests(f"/plain/{token}")) == 1


def test_python(proxy, double, token):
    url = f"http://shop.test/plain/{token}"
    headers = {"Content-Type": "application/json", **rawhttp.traced(TRACE)}
    with requests.Session() as session:
        session.trust_env = False
        session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        session.proxies = {"http": proxied(proxy)["http_proxy"],
                           "https": proxied(proxy)["http_proxy"]}  # fmt: skip
        answers = [session.post(url, data=b'{"n":1}', headers=headers) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        with pytest.raises(requests.exceptions.ProxyError, match="403"):
            session.get("https://pay.test/")
    code = (
        "import sys,urllib.request as u\n"
        "r=u.Request(sys.argv[1],data=b'{\"n\":1}',headers={'Content-Type':'application/json',"
        "'traceparent':sys.argv[2]})\n"
        "a=u.urlopen(r);print(a.status,a.headers['Idempotent-Replayed'])"
    )
    done = run(proxy, "/usr/bin/python3", "-c", code, url, headers["traceparent"])
    assert done.stdout.split() == ["201", "true"], done.stderr
    # http.client says CONNECT in HTTP/1.0.
    tunnel = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=WAIT_MAX)
    tunnel.set_tunnel("shop.test", 80)
    for _ in range(2):
        tunnel.request("POST", f"/plain/{token}", b'{"n":1}', headers)
        answer = tunnel.getresponse()
        assert (answer.status, answer.headers["Idempotent-Replayed"]) == (201, "true")
        answer.read()
    tunnel.close()
    assert len(double.requests(f"/plain/{token}")) == 1


def test_axios(proxy, packages, double, token):
    code = """
      const axios = require('axios');
      const [url, trace] = process.argv.slice(1);
      const post = () => axios.post(url, {n: 1}, {headers: {traceparent: trace}});
      post().then(first => post().then(second => console.log(
        first.status, second.status, second.headers['idempotent-replayed'])));
    """
    trace = rawhttp.traced(TRACE)["traceparent"]
    done = run(proxy, "node", "-e", code, f"http://shop.test/plain/{token}", trace, cwd=packages)
    assert done.stdout.split() == ["201", "201", "true"], done.stderr
    assert len(double.requests(f"/plain/{token}")) == 1


JAVA = """
import java.net.*;
public class Call {
  public static void main(String[] in) throws Exception {
    for (int i = 0; i < 2; i++) {
      var call = (HttpURLConnection) new URL(in[0]).openConnection();
      call.setRequestMethod("POST");
      call.setDoOutput(true);
      call.setRequestProperty("Content-Type", "application/json");
      call.setRequestProperty("traceparent", in[1]);
      call.getOutputStream().write("{\\"n\\":1}".getBytes());
      System.out.println(call.getResponseCode() + " "
          + call.getHeaderField("Idempotent-Replayed"));
      call.getInputStream().readAllBytes();
    }
    try {
      ((HttpURLConnection) new URL("https://pay.test/").openConnection()).getResponseCode();
    } catch (java.io.IOException told) {
      System.out.println(told.getMessage());
    }
  }
}
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
def test_java(proxy, double, token, tmp_path):
    source = tmp_path / "Call.java"
    source.write_text(JAVA)
    where = [f"-D{scheme}.proxyHost=127.0.0.1" for scheme in ("http", "https")]
    where += [f"-D{scheme}.proxyPort={proxy.port}" for scheme in ("http", "https")]
    trace = rawhttp.traced(TRACE)["traceparent"]
    done = run(proxy, "java", *where, str(source), f"http://shop.test/plain/{token}", trace)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["201 null", "201 true"], done.stderr
    assert "403" in lines[2], done.stdout
    assert len(double.requests(f"/plain/{token}")) == 1


# What goes around the proxy's variables, and with the word that `recourse env` names does not:
# (program, the client as it is, with that word). Each posts to the url in its arguments.
STRIPE = """
  import Stripe from 'stripe';
  const [host, name] = process.argv.slice(1);
  const more = MORE;
  const stripe = new Stripe('sk_test_of_nobody', {host, port: 80, protocol: 'http',
    maxNetworkRetries: 0, telemetry: false, ...more});
  await stripe.rawRequest('POST', `/plain/${name}`, {n: 1});
"""
HTTP_AGENT = """
  import http from 'node:http';
  const [host, name] = process.argv.slice(1);
  const agent = new http.Agent(MORE);
  const headers = {'content-type': 'application/json'};
  await new Promise((done, fail) => http.request({host, path: `/plain/${name}`, method: 'POST',
    agent, headers}, (answer) => answer.resume().on('end', done)).on('error', fail).end('{}'));
"""
AIOHTTP = """
import aiohttp, asyncio, sys
async def post():
    async with aiohttp.ClientSession(MORE) as session:
        async with session.post(f"http://{sys.argv[1]}/plain/{sys.argv[2]}", json={}) as answer:
            await answer.read()
asyncio.run(post())
"""
URLLIB3 = """
import os, sys, urllib3
pool = urllib3.MORE
pool.request("POST", f"http://{sys.argv[1]}/plain/{sys.argv[2]}", body=b"{}", retries=False,
             headers={"Content-Type": "application/json"})
"""
PYTHON, NODE = ["/usr/bin/python3", "-c"], None
AROUND = {
    "stripe-node": (NODE, STRIPE, "{}", "{httpClient: Stripe.createFetchHttpClient()}"),
    "http.Agent": (NODE, HTTP_AGENT, "{}", "{proxyEnv: process.env}"),
    "aiohttp": (PYTHON, AIOHTTP, "", "trust_env=True"),
    "urllib3": (PYTHON, URLLIB3, "PoolManager()", "ProxyManager(os.environ['HTTP_PROXY'])"),
}


@pytest.mark.parametrize("client", AROUND)
def test_what_goes_around_the_variables_and_how_it_does_not(
    proxy, packages, double, token, client
):
    command, program, as_it_is, mended = AROUND[client]
    command = command or [npm.node(), "--input-type=module", "-e"]
    told = json.loads(run_cli("env", "--proxy", f"http://127.0.0.1:{proxy.port}", "--format",
                              "json").stdout)  # fmt: skip
    for more in (as_it_is, mended):
        ended = subprocess.run(
            [*command, program.replace("MORE", more), "shop.test", token],
            env={"PATH": os.environ["PATH"], **told}, cwd=packages,
            capture_output=True, text=True, timeout=2 * WAIT_MAX, check=False,
        )  # fmt: skip
        # No resolver knows the host: whoever does not ask the proxy gets nowhere.
        is_through = more == mended
        assert (ended.returncode == 0) == is_through, ended.stderr
        assert len(double.requests(f"/plain/{token}")) == is_through


def test_node_by_its_own_connect(proxy, double, token):
    """As Node 22 does for http:// urls with NODE_USE_ENV_PROXY=1."""
    code = """
      const http = require('http');
      const [port, path, trace] = process.argv.slice(1);
      const ask = http.request({host: '127.0.0.1', port, method: 'CONNECT', path: 'shop.test:80'});
      ask.on('connect', (answer, socket) => {
        if (answer.statusCode !== 200) throw new Error(answer.statusCode);
        const agent = new http.Agent({keepAlive: true, maxSockets: 1});
        agent.createConnection = () => socket;
        const post = done => {
          const call = http.request({agent, host: 'shop.test', method: 'POST', path,
            headers: {'content-type': 'application/json', traceparent: trace}}, reply => {
              reply.resume();
              reply.on('end', () => done(reply));
          });
          call.end('{"n":1}');
        };
        post(first => post(second => {
          console.log(first.statusCode, second.statusCode, second.headers['idempotent-replayed']);
          process.exit(0);
        }));
      });
      ask.end();
    """
    trace = rawhttp.traced(TRACE)["traceparent"]
    done = run(proxy, "node", "-e", code, str(proxy.port), f"/plain/{token}", trace)
    assert done.stdout.split() == ["201", "201", "true"], done.stderr
    assert len(double.requests(f"/plain/{token}")) == 1


def test_tls_through_a_listed_tunnel(double, tmp_path):
    """The client checks the name against the certificate, we check it against the CONNECT."""
    maker = Maker(tmp_path / "ca")
    context = server_context(maker.issue("tls"))

    def serve(port, sock):
        with context.wrap_socket(sock, server_side=True) as secure:
            secure.recv(1 << 16)
            secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            while secure.recv(1 << 16):
                pass

    with ServedPort(serve) as end:
        listed = policy(double).replace("nowhere.test:1", f"localhost:{end.port}")
        with Recourse(tmp_path / "recourse", listed) as running:
            done = run(running, "curl", "-sS", "--cacert", str(maker.cert),
                       f"https://localhost:{end.port}/")  # fmt: skip
            assert (done.returncode, done.stdout) == (0, "ok"), done.stderr
            running.await_log(lambda line: line.get("sni") == "localhost"
                              and line["decision"] == "opened")  # fmt: skip


def test_who_can_only_be_told_by_tls_is_explained_in_the_log(double, tmp_path):
    """One line a second, so that nobody fills the log."""
    with Recourse(tmp_path, policy(double)) as running:

        def is_explained():
            with rawhttp.Connection(running.port) as connection:
                assert connect(connection, "shop.test:80")[0] == 200
                connection.send(hello("shop.test"))
                assert connection.exactly(7) == b"\x15\x03\x01\x00\x02\x02\x31"
            return "does not look into TLS; call http://shop.test" in running.stderr()

        wait_until(is_explained, lambda: running.stderr()[-2000:])
        assert '"sni":"shop.test"' in running.stderr()
