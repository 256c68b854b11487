"""An API server, as far as an injector asks one: objects that are read and patched over TLS, by a
ServiceAccount whose rights are those of the chart."""

import base64
import http.server
import json
import pathlib
import ssl
import threading

from support.certificates import Maker

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{ADMISSION}/mutatingwebhookconfigurations/"
VALIDATING = f"{ADMISSION}/validatingwebhookconfigurations/"
ACCOUNT = "shop-recourse-injector"
TOKEN = "token-of-the-injector"


def rules_of(out):
    """[(namespace or None for all, rule)] that the chart gives the injector's account."""
    for kind, space in (("Role", "agents"), ("ClusterRole", None)):
        for one in out.all(kind):
            name = one["metadata"]["name"]
            bound = [b["subjects"] for b in out.all(f"{kind}Binding")
                     if b["roleRef"]["name"] == name and b["roleRef"]["kind"] == kind]  # fmt: skip
            assert bound == [[{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "agents"}]]
            yield from ((space, rule) for rule in one["rules"])


def merged(target, patch):
    """RFC 7386; lists of objects with names are merged by these, as a strategic merge patch
    does."""
    if isinstance(patch, list) and isinstance(target, list):
        known = {one["name"]: one for one in target}
        return [*({**one} if one["name"] not in {p["name"] for p in patch} else
                  merged(known[one["name"]], next(p for p in patch if p["name"] == one["name"]))
                  for one in target)]  # fmt: skip
    if not isinstance(patch, dict):
        return patch
    target = target if isinstance(target, dict) else {}
    return {**target, **{name: merged(target.get(name), value) for name, value in patch.items()}}


class ApiServer:
    def __init__(self, directory, out):
        """With the objects of the rendered chart that an injector may ask for."""
        self.directory = pathlib.Path(directory)
        self.lock = threading.Lock()
        self.rules = list(rules_of(out))
        self.asked, self.objects, self.silent, self.version = [], {}, False, 0
        self.agents = set()  # by whose names API servers say who wrote what
        for one in out.all("Secret"):
            self.put(f"/api/v1/namespaces/agents/secrets/{one['metadata']['name']}", one)
        for kind, path in (("Mutating", MUTATING), ("Validating", VALIDATING)):
            for one in out.all(f"{kind}WebhookConfiguration"):
                self.put(path + one["metadata"]["name"], one)
        maker = Maker(self.directory / "api-ca", "cluster CA")
        account = self.directory / "account"
        account.mkdir()
        (account / "ca.crt").write_text(maker.cert.read_text())
        (account / "token").write_text(TOKEN)
        (account / "namespace").write_text("agents")
        self.account = account
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(maker.issue("api").both)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def put(self, path, one):
        self.version += 1
        meta = {**one.get("metadata", {}), "resourceVersion": str(self.version)}
        self.objects[path] = {**one, "metadata": meta}

    def secret(self, name, space="agents"):
        """The texts in a Secret."""
        with self.lock:
            one = self.objects[f"/api/v1/namespaces/{space}/secrets/{name}"]
        return {key: base64.b64decode(text).decode() for key, text in one.get("data", {}).items()}

    def webhooks(self, path):
        with self.lock:
            (one,) = [one for key, one in self.objects.items() if key.startswith(path)]
        return one["webhooks"]

    def bundles(self):
        """The CA that each webhook of both configurations is trusted by."""
        found = [one["clientConfig"].get("caBundle", "") for path in (MUTATING, VALIDATING)
                 for one in self.webhooks(path)]  # fmt: skip
        return {base64.b64decode(one).decode() for one in found}

    def may(self, verb, path):
        *_, resource, name = path.split("/")
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        space = path.split("/")[4] if "/namespaces/" in path else None
        return any(
            bound in (None, space) and group in rule["apiGroups"] and resource in rule["resources"]
            and verb in rule["verbs"] and name in rule.get("resourceNames", [name])
            for bound, rule in self.rules
        )  # fmt: skip

    def answer(self, verb, path, headers, body):
        """(status, object)."""
        if headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, {"kind": "Status", "message": "Unauthorized"}
        with self.lock:
            self.asked.append((verb, path))
            self.agents.add(headers["User-Agent"])
            if not self.may(verb, path):
                return 403, {"kind": "Status", "message": f"{verb} of {path} is forbidden"}
            one = self.objects.get(path)
            if one is None:
                return 404, {"kind": "Status", "message": f"{path} not found"}
            if verb == "patch":
                patch = json.loads(body)
                asked = patch.get("metadata", {}).get("resourceVersion")
                if asked not in (None, one["metadata"]["resourceVersion"]):
                    return 409, {"kind": "Status", "message": "the object has been modified"}
                is_merge = headers["Content-Type"] == "application/merge-patch+json"
                assert is_merge or "webhooks" in patch
                self.put(path, merged(one, patch))
                one = self.objects[path]
            elif "as=PartialObjectMetadata" in headers["Accept"]:
                one = {"kind": "PartialObjectMetadata", "metadata": one["metadata"]}
            return 200, one

    def handler(self):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply("get")

            def do_PATCH(self):
                self.reply("patch")

            def reply(self, verb):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if api.silent:
                    self.close_connection = True
                    return
                status, one = api.answer(verb, self.path, self.headers, body)
                text = json.dumps(one).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        return Handler

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
