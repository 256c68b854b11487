"""A cluster of which Helm sees what it has to: an API server on loopback that serves the kinds of
the chart, and some objects."""

import http.server
import json
import re
import threading

CLUSTER_KINDS = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
                 "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]  # fmt: skip
RIGHTS = ["ClusterRole", "ClusterRoleBinding"]
KINDS = {
    "v1": ["ConfigMap", "Pod", "Secret", "Service", "ServiceAccount"],
    "apps/v1": ["Deployment", "StatefulSet"],
    "policy/v1": ["PodDisruptionBudget"],
    "networking.k8s.io/v1": ["NetworkPolicy"],
    "monitoring.coreos.com/v1": ["PodMonitor", "PrometheusRule"],
    "rbac.authorization.k8s.io/v1": ["Role", "RoleBinding", *RIGHTS],
    "admissionregistration.k8s.io/v1": CLUSTER_KINDS,
}


def plural(kind):
    return re.sub("y$", "ie", kind.lower()) + "s"


def groups():
    for version in KINDS:
        group, _, name = version.rpartition("/")
        if group:
            one = {"groupVersion": version, "version": name}
            yield {"name": group, "versions": [one], "preferredVersion": one}


def resources(version):
    return [{"name": plural(kind), "kind": kind, "namespaced": kind not in CLUSTER_KINDS + RIGHTS,
             "verbs": ["get", "create"]} for kind in KINDS[version]]  # fmt: skip


def path_of(one):
    meta, version = one["metadata"], one["apiVersion"]
    where = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    root = "/apis" if "/" in version else "/api"
    return f"{root}/{version}{where}/{plural(one['kind'])}/{meta['name']}"


class Cluster:
    def __init__(self, objects, minor):
        self.answers = {
            "/version": {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups())},
            **{("/apis/" if "/" in version else "/api/") + version: {
                "kind": "APIResourceList", "groupVersion": version, "resources": resources(version)
            } for version in KINDS},
            **{path_of(one): one for one in objects},
        }  # fmt: skip
        answers = self.answers

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                found = answers.get(self.path.partition("?")[0])
                missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                           "reason": "NotFound", "code": 404}  # fmt: skip
                body = json.dumps(found or missing).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
