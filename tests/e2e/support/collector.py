"""A collector of OpenTelemetry traces: OTLP over HTTP in JSON. It can be slow or in trouble."""

import http.server
import json
import ssl
import subprocess
import threading

from support.npm import CLIENTS
from support.recourse import WAIT_MAX, environment
from support.waiting import wait_until


class Collector:
    """`answers` come first, then 200; `gate` holds answers back while it is clear."""

    def __init__(self, identity=None):
        self.requests, self.answers = [], []
        self.gate = threading.Event()
        self.gate.set()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, said = collector.answers.pop(0) if collector.answers else (200, "{}")
                collector.requests.append((self.path, self.headers, body, status))
                collector.gate.wait(5 * WAIT_MAX)
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*identity)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()

    def bodies(self):
        return [body.decode() for _, _, body, _ in list(self.requests)]

    def spans(self):
        """Every span that was taken, with `attributes` as a dict."""
        found = []
        for _, _, body, status in list(self.requests):
            if status != 200:
                continue
            for resource in json.loads(body)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    found += [{**s, "attributes": values(s["attributes"])} for s in scope["spans"]]
        return found

    def resource(self):
        (resource,) = json.loads(self.requests[-1][2])["resourceSpans"]
        return values(resource["resource"]["attributes"])

    def await_spans(self, condition, count=1):
        """The spans that hold, once there are `count`."""

        def those():
            return [span for span in self.spans() if condition(span)]

        def told():
            names = [(s["name"], s["traceId"]) for s in self.spans()]
            return f"{len(those())} of {count} spans; there are {names}"

        return wait_until(lambda: len(found := those()) >= count and found, told)

    def await_trace(self, trace, count):
        """The spans of one trace: the call's first, then in order of their start."""
        spans = self.await_spans(lambda span: span["traceId"] == trace, count)
        return sorted(spans, key=lambda s: (s["kind"] != 2, int(s["startTimeUnixNano"])))


def wrong_in(bodies):
    """What the definitions of the protocol find wrong in each body: None, or a text."""
    judged = subprocess.run(
        ["node", CLIENTS / "otlp.mjs"], input=json.dumps(bodies), capture_output=True, text=True,
        cwd=CLIENTS, env=environment(), timeout=WAIT_MAX, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged
    return json.loads(judged.stdout)


def values(attributes):
    """Attributes as a dict; fails when one has another form than the protocol's."""
    found = {}
    for entry in attributes:
        ((kind, value),) = entry["value"].items()
        assert kind in ("stringValue", "intValue", "boolValue"), entry
        assert isinstance(value, bool if kind == "boolValue" else str), entry
        assert entry["key"] not in found, f"{entry['key']} is there twice"
        found[entry["key"]] = int(value) if kind == "intValue" else value
    return found
