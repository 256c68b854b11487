"""A backend that shows all it was sent, as debugging endpoints do."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self):
        echo = self.server.echo
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        fields = {name.lower(): value for name, value in self.headers.items()}
        seen = {"method": self.command, "path": self.path, "body": body, "headers": fields}
        echo.requests.append(seen)
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", echo.elsewhere)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if echo.cuts and self.command == echo.cuts:
            echo.cuts = None
            self.close_connection = True
            return None
        authorization = self.headers.get("Authorization", "none")
        if self.path == "/live":
            return self.upgrade(authorization)
        if self.path.startswith("/early"):
            hint = f"HTTP/1.1 103 Early Hints\r\nX-Seen: {authorization}\r\n\r\n"
            self.wfile.write(hint.encode())
        if self.path == "/token":
            text = json.dumps({"access_token": echo.token, "expires_in": 3600}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            return self.wfile.write(text)
        answer = {"id": "o-1", "items": [{"id": "o-1"}], "status": echo.status, "seen": seen}
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if "zipped" in self.path:
            self.send_header("Content-Encoding", "gzip")
            text = gzip.compress(text)
        self.send_header("X-Seen", seen["headers"].get("authorization", "none"))
        if "pieces" not in self.path:
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            return self.wfile.write(text)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(text), 7):
            piece = text[at : at + 7]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        return self.wfile.write(b"0\r\n\r\n")

    def upgrade(self, authorization):
        """Agrees to a WebSocket, and says in it what credential came."""
        self.close_connection = True
        head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.wfile.write(f"{head}X-Seen: {authorization}\r\n\r\n".encode())
        for text in (authorization.encode(), b"bye"):
            self.wfile.write(bytes([0x81, len(text)]) + text)
            self.wfile.flush()

    do_GET = do_POST = do_PATCH = do_DELETE = do_HEAD = answer


class Echo:
    """`requests` are those it got, oldest first; the next one of method `cuts` gets no answer."""

    def __init__(self):
        self.requests = []
        self.cuts = None
        self.status = "working"
        self.token = "canary-token-0123456789"
        self.elsewhere = "http://elsewhere.test/stolen"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.echo = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()

    def sent(self, method, path):
        """The Authorization of each such request."""
        return [one["headers"].get("authorization") for one in self.requests
                if one["method"] == method and one["path"].startswith(path)]  # fmt: skip
