"""A webhook that changes nothing and writes down what it is asked: `recorder.py FILE ADDRESS CERT
KEY`. The API server asks it before all others (/first), and after them (/last).
"""

import http.server
import json
import ssl
import sys

PORT = 9443
RULES = [
    ("", ["pods", "namespaces", "configmaps"], ["CREATE"]),
    ("", ["pods/ephemeralcontainers"], ["UPDATE"]),
    ("apps", ["deployments"], ["CREATE"]),
    ("batch", ["jobs"], ["CREATE"]),
]


def webhooks(address, authority):
    """By their names the API server knows their order: Recourse's own begins with 0-."""
    for name, path in (("0", "first"), ("zz", "last")):
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration", "metadata": {"name": name},
            "webhooks": [{
                "name": f"{path}.recorder.test", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": f"https://{address}:{PORT}/{path}", "caBundle": authority},
                "sideEffects": "None", "failurePolicy": "Fail",
                "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": what,
                           "operations": when} for group, what, when in RULES],
            }],
        }  # fmt: skip


def main(file, address, cert, key):
    class Recorder(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with open(file, "a", encoding="utf-8") as record:
                line = {"at": self.path.partition("?")[0][1:], "asked": asked}
                record.write(json.dumps(line) + "\n")
            said = {"uid": asked["request"]["uid"], "allowed": True}
            body = json.dumps({**asked, "request": None, "response": said}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with http.server.ThreadingHTTPServer((address, PORT), Recorder) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
