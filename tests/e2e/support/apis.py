"""A small HTTP API in this process, on whose routes the doubles of real ones are built."""

import http.server
import json
import re
import threading
import urllib.parse


class Refused(Exception):
    def __init__(self, status, body=None, headers=None):
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


class Api:
    """One API on a port of its own. `effects` are what happened there, oldest first."""

    routes = ()  # ("METHOD /path/(capture)", name of a method), the first that matches counts

    def __init__(self):
        self.lock = threading.Lock()
        self.effects = []
        self.requests = []  # (method, path, headers)
        self.things = {}
        self.lose_answers = 0  # so many effects happen without an answer
        self.lose_requests = 0  # so many requests are read, and nothing comes of them
        self.lose_next = 0  # so many answers do not come, whatever they say
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                length = int(self.headers.get("Content-Length", 0))
                api.serve(self, self.rfile.read(length))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def next_number(self):
        return len(self.effects) + 101

    def happened(self, what):
        self.effects.append(what)

    def serve(self, http_request, body):
        url = urllib.parse.urlsplit(http_request.path)
        with self.lock:
            self.requests.append((http_request.command, http_request.path, http_request.headers))
            if self.lose_requests > 0:
                self.lose_requests -= 1
                http_request.close_connection = True
                return
            effects = len(self.effects)
            try:
                self.check(http_request)
                status, answer, headers = self.route(http_request, url, body)
            except Refused as refused:
                status, answer, headers = refused.status, refused.body, refused.headers
            lost = len(self.effects) > effects and self.lose_answers > 0
            self.lose_answers -= lost
            lost_next = self.lose_next > 0
            self.lose_next -= lost_next
        if lost or lost_next:
            http_request.close_connection = True
        else:
            self.send(http_request, status, answer, headers)

    def send(self, http_request, status, answer, headers):
        data = b"" if answer is None else json.dumps(answer).encode()
        http_request.send_response(status)
        for name, value in headers.items():
            http_request.send_header(name, value)
        if status != 204:
            http_request.send_header("Content-Type", "application/json; charset=utf-8")
            http_request.send_header("Content-Length", str(len(data)))
        http_request.end_headers()
        http_request.wfile.write(data)

    def route(self, http_request, url, body):
        for pattern, name in self.routes:
            found = re.fullmatch(pattern, f"{http_request.command} {url.path}")
            if found:
                captures = [urllib.parse.unquote(text) for text in found.groups()]
                result = getattr(self, name)(http_request, body, *captures)
                return result if len(result) == 3 else (*result, {})
        raise Refused(404, {"message": "Not Found"})

    def check(self, http_request):
        if not http_request.headers.get("Authorization", "").startswith(("Bearer ", "Basic ")):
            raise Refused(401, {"message": "Unauthorized"})

    def remove(self, key, gone):
        if key not in self.things:
            raise Refused(*gone)
        del self.things[key]
        self.happened(f"delete {key}")
