"""What TLS, interception and MCP cost per call: CPU time of Recourse alone.

The clients of the TLS calls are Python's and make one call after the other, so only the CPU time of
the proxy means something there, never the rate; each call finds the proxy asleep, which makes it
dearer than one of a crowd.
"""

import http.client
import http.server
import os
import ssl
import statistics
import subprocess
import threading

from instructions import MCP_CALL, MCP_WRITE
from rounds import Bench, split_cpus
from servers import Servers, find_program

HOST = "127.0.0.1"
ANSWER = b"x" * 1024
WAIT_SECONDS_MAX = 60
POLICY = """\
version: 1
unlisted: {{ reads: pass, writes: deny }}
backends:
  plain: {{ url: "http://127.0.0.1:{plain}", hosts: [ plain.test ] }}
  secure:
    url: "https://127.0.0.1:{secure}"
    hosts: [ secure.test ]
    intercept: true
    tls: {{ ca_file: "{ca}" }}
"""
# name: (host that is asked, whether through CONNECT and TLS, requests of one connection)
WAYS = {
    "plain agent, plain backend": ("plain.test", False, None),
    "plain agent, TLS backend": ("secure.test", False, None),
    "intercepted": ("secure.test", True, None),
    "plain agent, TLS backend, new connection": ("secure.test", False, 1),
    "intercepted, new connection": ("secure.test", True, 1),
}
WRITE = ["--method", "POST", "--fresh-keys", "SEED"]
CALLS = {
    "POST read": ["--path", "/1k", "--method", "POST", "--body", "1024"],
    "MCP read": ["--path", "/mcp", "--host", "desk", "--method", "POST", "--text", MCP_CALL],
    "POST write": ["--path", "/orders", "--body", "1024", *WRITE],
    "MCP write": ["--path", "/mcp", "--host", "desk", "--text", MCP_WRITE, *WRITE],
}


class Backend:
    """Answers every GET with 1 KiB and keeps its connections; over TLS if it has a context."""

    def __init__(self, context=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(ANSWER)))
                self.end_headers()
                self.wfile.write(ANSWER)
                self.wfile.flush()

        self.server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
        self.server.daemon_threads = True
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def make_certificate(folder):
    """A self-signed certificate of 127.0.0.1, which is its own CA; the PEM files of both parts."""
    cert, key = os.path.join(folder, "backend.pem"), os.path.join(folder, "backend.key")
    subprocess.run([find_program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-subj",
                    "/CN=backend", "-days", "30", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, stderr=subprocess.DEVNULL)
    return cert, key


class Agent:
    """One client, on a connection of its own or on one for each call."""

    def __init__(self, port, trust, way):
        self.port, self.trust = port, trust
        self.host, self.is_tunnelled, self.calls_max = way
        self.connection = None

    def open(self):
        if not self.is_tunnelled:
            return http.client.HTTPConnection(HOST, self.port, timeout=WAIT_SECONDS_MAX)
        made = http.client.HTTPSConnection(HOST, self.port, timeout=WAIT_SECONDS_MAX,
                                           context=self.trust)
        made.set_tunnel(self.host, 443)
        return made

    def call(self):
        if self.connection is None:
            self.connection = self.open()
        self.connection.request("GET", "/1k", headers={"Host": self.host})
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200 or body != ANSWER:
            raise SystemExit(f"{self.host} answered {answer.status}: {body[:200]!r}")
        if self.calls_max == 1:
            self.close()

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def run_interception(options, report):
    """The part of a whole run."""
    samples = {name: [] for name in WAYS}
    kept, fresh = (200, 50) if options.quick else (2_000, 400)
    with Servers(options.build, options.folder) as servers:
        cert, key = make_certificate(options.folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        policy = os.path.join(options.folder, "interception.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(POLICY.format(plain=Backend().port, secure=Backend(context).port, ca=cert))
        ca = os.path.join(options.folder, "ca")
        recourse = servers.start_recourse(split_cpus()[0], 0, policy, extra=["--ca", ca])
        trust = ssl.create_default_context(cafile=os.path.join(ca, "ca.crt"))
        for number in range(options.rounds):
            ways = list(WAYS.items())
            for name, way in ways if number % 2 == 0 else ways[::-1]:
                agent, calls = Agent(recourse.port, trust, way), fresh if way[2] else kept
                for _ in range(calls // 10):
                    agent.call()
                before = recourse.cpu_ns()
                for _ in range(calls):
                    agent.call()
                samples[name].append((recourse.cpu_ns() - before) / 1e3 / calls)
                agent.close()
    print(f"\nCPU of Recourse per GET of 1 KiB, one agent (medians of {options.rounds} rounds)")
    for name, values in samples.items():
        print(f"{name:44}{statistics.median(values):9.0f} us   "
              f"{min(values):.0f} to {max(values):.0f}")
    report.data["interception"] = samples


def run_mcp(options, report):
    """The part of a whole run."""
    proxy_cpus, other_cpus = split_cpus()
    bench = Bench(options, other_cpus)
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", other_cpus)
        recourse = servers.start_recourse(proxy_cpus, backend.port, "instructions.yaml")
        bench.rounds(CALLS, [recourse])
    print(f"\nCPU of Recourse per call, 64 connections (medians of {options.rounds} rounds)")
    for name in CALLS:
        values = bench.figure(name, "recourse", "cpu_us")
        print(f"{name:20}{values.median:9.1f} us   {values.low:.1f} to {values.high:.1f}")
    for name in ("read", "write"):
        pairs = zip(bench.samples[f"MCP {name}", "recourse"],
                    bench.samples[f"POST {name}", "recourse"])
        ratio = statistics.median(mcp["cpu_us"] / post["cpu_us"] for mcp, post in pairs)
        print(f"MCP {name} over the same by plain HTTP: x {ratio:.2f}")
    report.data["mcp"] = bench.data()
