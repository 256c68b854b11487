"""What runs in the pods of life.py: a slow shop and its agent, each `python3 -c SCRIPT`."""

# It places each order at once, says with which key, and answers when somebody asks for /release.
SHOP = """
import http.server, json, socket, threading
released, orders = threading.Event(), []
class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path == "/release":
            released.set()
        cart = self.path.partition("cart=")[2]
        self.answer(200, [one for one in orders if one["cart"] == cart])
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        order = {"cart": "", **order, "id": f"order-{len(orders)}"}
        orders.append(order)
        print("asked", self.headers["Idempotency-Key"], order["cart"], flush=True)
        released.wait()
        self.answer(201, order)
    def log_message(self, *_):
        pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
Server(("", 8080), Shop).serve_forever()
"""

# It is told to end while its call runs, and waits for the answer.
CALLER = """
import signal, urllib.request
signal.signal(signal.SIGTERM, lambda *_: print("told to end", flush=True))
asked = urllib.request.Request("http://slow/orders", b"{}", {"Content-Type": "application/json",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
print("answered", urllib.request.urlopen(asked, timeout=300).status, flush=True)
"""

# One call: its url, body and traceparent; prints whether it is a replay, and the answer.
CALL = """
import sys, urllib.request
url, body, trace = sys.argv[1:]
asked = urllib.request.Request(url, body.encode() or None,
                               {"Content-Type": "application/json", "traceparent": trace})
with urllib.request.urlopen(asked, timeout=60) as answer:
    print(answer.headers.get("Idempotent-Replayed", "false"), answer.read().decode())
"""

# It asks the shop itself, whatever the variables say.
BYPASS = """
import signal, urllib.request
signal.signal(signal.SIGTERM, lambda *_: exit(0))
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print("answered", direct.open("http://slow/orders", b'{"cart": "past"}', timeout=300).status)
signal.pause()
"""
# Its last call comes when it is told to end.
LAST_CALL = """
import signal, urllib.request
def call(*_):
    asked = urllib.request.Request("http://slow/orders", b'{"cart": "last"}', {
        "Content-Type": "application/json",
        "traceparent": "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
    print("answered", urllib.request.urlopen(asked, timeout=60).status, flush=True)
    exit(0)
signal.signal(signal.SIGTERM, call)
print("listens", flush=True)
signal.pause()
"""

# A mesh's proxy, which carries nothing here.
MESH_PROXY = """
import signal
def end(*_):
    print("told to end", flush=True)
    exit(0)
signal.signal(signal.SIGTERM, end)
print("listens", flush=True)
signal.pause()
"""
IDLE = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0)); signal.pause()"
