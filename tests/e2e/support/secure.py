"""A TLS backend whose next connections misbehave as a test says."""

import json
import ssl
import threading
import warnings

from .double import ServedPort


def server_context(identity, client_ca=None, most=None):
    """A context that serves as `identity`; `most` is the newest TLS version it speaks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    if most is not None:
        with warnings.catch_warnings():  # that old versions are old is the point here
            warnings.simplefilter("ignore", DeprecationWarning)
            if most < ssl.TLSVersion.TLSv1_2:
                context.minimum_version = most
                context.set_ciphers("ALL:@SECLEVEL=0")
            context.maximum_version = most
    return context


class SecureBackend(ServedPort):
    """Answers every request 200, a POST after recording its effect, until told otherwise.

    `context` is what new connections are served with; `before(sock)`, when set, has the plain
    socket instead of TLS; `answer(sock, path)`, when set, sends the answer and ends the connection.
    With `keep` connections stay open after an answer.
    """

    def __init__(self, context):
        self.context = context
        self.before = None
        self.answer = None
        self.keep = False
        self.lock = threading.Lock()
        self.connections = 0
        self.effects = []  # paths
        self.seen = []  # one dict per request
        super().__init__(SecureBackend.session)

    def url_as(self, host):
        return f"https://{host}:{self.port}"

    def calm(self, context):
        self.context, self.before, self.answer, self.keep = context, None, None, False

    def count(self, path):
        return self.effects.count(path)

    def session(self, sock):
        with self.lock:
            self.connections += 1
        if self.before is not None:
            self.before(sock)
            return
        names = []
        self.context.sni_callback = lambda _, name, __: names.append(name)
        with self.context.wrap_socket(sock, server_side=True) as secured:
            while self.one(secured, names[0] if names else None):
                pass

    def one(self, sock, name):
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(65536)
            if not more:
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        fields = dict(
            line.decode().lower().split(": ", 1) for line in head.split(b"\r\n")[1:] if line
        )
        while len(body) < int(fields.get("content-length", 0)):
            body += sock.recv(65536)
        path = target.partition("?")[0]
        peer = sock.getpeercert() or {}
        with self.lock:
            self.seen.append(
                {
                    "method": method,
                    "path": path,
                    "sni": name,
                    "reused": sock.session_reused,
                    "protocol": sock.version(),
                    "alpn": sock.selected_alpn_protocol(),
                    "client": dict(pair[0] for pair in peer.get("subject", ())).get("commonName"),
                    "host": fields["host"],
                }
            )
            if method == "POST":
                self.effects.append(path)
        if self.answer is not None:
            self.answer(sock, path)
            return False
        kept = b"Keep-Alive: timeout=60\r\n"
        items = [{"id": "e1"}] if path in self.effects else []
        text = json.dumps({"id": "e1", "items": items}).encode()
        sock.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s"
            % (len(text), kept if self.keep else b"Connection: close\r\n", text)
        )
        return self.keep and fields.get("connection") != "close"
