"""An HTTP server with many doors: whatever path a message is sent to, it is an MCP endpoint that
runs its tools, and a POST that is no message places an order."""

import http.server
import json
import threading


class Doors:
    """Use as a context manager. With `context` it speaks TLS."""

    def __init__(self, address="127.0.0.1", port=0, context=None):
        self.lock = threading.Lock()
        self.ran = []  # (path, the tool's name, or None of what is no message)
        doors = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, value):
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            def do_GET(self):
                self.answer(200, {"path": self.path})

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                tool = asked.get("params", {}).get("name")
                with doors.lock:
                    doors.ran.append((self.path, tool))
                    made = {"id": f"m{len(doors.ran)}", "path": self.path}
                if tool is None:
                    self.answer(201, made)
                    return
                text = [{"type": "text", "text": json.dumps(made)}]
                result = {"content": text, "structuredContent": made, "resultType": "complete"}
                self.answer(200, {"jsonrpc": "2.0", "id": asked["id"], "result": result})

        self.server = http.server.ThreadingHTTPServer((address, port), Handler)
        self.server.daemon_threads = True
        if context is not None:
            # Each connection shakes hands in its own thread, when it is first read.
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def of(self, path):
        """How often something ran at that path."""
        with self.lock:
            return sum(at == path for at, _ in self.ran)

    def count(self):
        with self.lock:
            return len(self.ran)
