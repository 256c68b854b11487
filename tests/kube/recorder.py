"""A webhook that changes nothing and writes down what it is asked: `recorder.py FILE ADDRESS CERT
KEY`. The API server asks it before all others (/first), and after them (/last). Between them, and
after Recourse, it stands for the injectors of meshes.
"""

import base64
import http.server
import json
import pathlib
import ssl
import sys

import jsonpatch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support import meshes  # noqa: E402

PORT = 9443
# By the names of their configurations API servers know when to ask them.
MESHES = {"istio-sidecar-injector": "istio",
          "linkerd-proxy-injector-webhook-config": "linkerd"}  # fmt: skip
RULES = [
    ("", ["pods", "namespaces", "configmaps"], ["CREATE"]),
    ("", ["pods/ephemeralcontainers"], ["UPDATE"]),
    ("apps", ["deployments", "statefulsets", "daemonsets"], ["CREATE"]),
    ("batch", ["jobs", "cronjobs"], ["CREATE"]),
]


def configuration(name, *hooks):
    return {"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration", "metadata": {"name": name},
            "webhooks": list(hooks)}  # fmt: skip


def webhook(name, address, authority, rules, **more):
    """What is asked at /NAME."""
    return {
        "name": f"{name.replace('/', '-')}.recorder.test", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://{address}:{PORT}/{name}", "caBundle": authority},
        "sideEffects": "None", "failurePolicy": "Fail",
        "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": what,
                   "operations": when} for group, what, when in rules], **more,
    }  # fmt: skip


def webhooks(address, authority):
    """Recourse's own begins with 0-."""
    for name, path in (("0", "first"), ("zz", "last")):
        yield configuration(name, webhook(path, address, authority, RULES))
    for name, mesh in MESHES.items():
        yield configuration(name, *(
            webhook(f"{mesh}/{kind}", address, authority, [("", ["pods"], ["CREATE"])],
                    objectSelector={"matchLabels": {"mesh": f"{mesh}-{kind}"}})
            for kind in ("native", "container")))  # fmt: skip


def meshed(path, pod):
    """The patch of the mesh that is asked there."""
    mesh, _, kind = path.partition("/")
    made = getattr(meshes, mesh)(pod, kind == "native")
    patch = jsonpatch.make_patch(pod, made).to_string()
    return {"patchType": "JSONPatch", "patch": base64.b64encode(patch.encode()).decode()}


def main(file, address, cert, key):
    class Recorder(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0][1:]
            said = {"uid": asked["request"]["uid"], "allowed": True}
            if "/" in path:
                said |= meshed(path, asked["request"]["object"])
            else:
                with open(file, "a", encoding="utf-8") as record:
                    record.write(json.dumps({"at": path, "asked": asked}) + "\n")
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
