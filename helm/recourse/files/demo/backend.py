"""A shop that trusts its callers: every POST is a new order.

GET /orders[?cart=CART], POST /orders, DELETE /orders/ID; POST /payments, which it declines; GET and
POST /gifts; GET /healthz.
"""

import http.server
import itertools
import json
import os
import threading
import urllib.parse

KEPT_MAX = 10_000  # it only is a demo
orders, gifts, numbers, lock = {}, [], itertools.count(1), threading.Lock()


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
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/healthz":
            return self.answer(200, {"status": "ok"})
        if url.path == "/gifts":
            return self.answer(200, gifts)
        carts = urllib.parse.parse_qs(url.query).get("cart")
        with lock:
            found = [one for one in orders.values() if not carts or one["cart"] in carts]
        return self.answer(200, found)

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/payments":
            return self.answer(422, {"error": "the card is declined"})
        if self.path == "/gifts":
            gifts.append(order)
            return self.answer(201, order)
        with lock:
            order["id"] = f"order-{next(numbers)}"
            orders[order["id"]] = order
            if len(orders) > KEPT_MAX:
                del orders[next(iter(orders))]
        print("a new order:", json.dumps(order), flush=True)
        self.answer(201, order)

    def do_DELETE(self):
        with lock:
            known = orders.pop(self.path.rpartition("/")[2], None)
        self.answer(200 if known else 404, known or {"error": "no such order"})

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    address = ("", int(os.environ.get("PORT", "8080")))
    with http.server.ThreadingHTTPServer(address, Shop) as server:
        print("listening on", server.server_address[1], flush=True)
        server.serve_forever()
