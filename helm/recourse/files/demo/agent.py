"""An agent that repeats itself: it places each order twice, as one does that got no answer. Asked
once, as `helm test` does, it shows a broken flow and an approval, too, if the policy is the demo's.

It knows its tool (SHOP) and nothing of Recourse; HTTP_PROXY, or the pod's network, leads there.
"""

import json
import os
import secrets
import signal
import threading
import urllib.error
import urllib.request

ENDS = (signal.SIGTERM, signal.SIGINT)


def call(method, path, trace, body=None):
    """(whether Recourse replayed it, the answer)."""
    request = urllib.request.Request(
        os.environ["SHOP"] + path,
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={
            "Content-Type": "application/json",
            "traceparent": f"00-{trace}-{secrets.token_hex(8)}-01",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        is_replay = answer.headers.get("Idempotent-Replayed") == "true"
        return is_replay, json.load(answer)


def place_order():
    """Raises AssertionError when the repeat made a second order."""
    trace, cart = secrets.token_hex(16), f"cart-{secrets.token_hex(8)}"
    order = {"customer": "ada", "cart": cart}
    _, first = call("POST", "/orders", trace, order)
    is_replay, second = call("POST", "/orders", trace, order)
    _, found = call("GET", f"/orders?cart={cart}", trace)
    assert first == second, f"two answers: {first}, {second}"
    assert is_replay, "the repeat was not answered from the ledger: does it go through Recourse?"
    assert len(found) == 1, f"one intent made {len(found)} orders"
    print(f"asked twice, ordered once: {first['id']} (trace {trace})", flush=True)


def break_a_flow():
    """An order is undone because what belongs to it fails."""
    trace, cart = secrets.token_hex(16), f"cart-{secrets.token_hex(8)}"
    _, order = call("POST", "/orders", trace, {"customer": "bob", "cart": cart})
    try:
        call("POST", "/payments", trace, {"card": "declined"})
        raise AssertionError("the payment was taken")
    except urllib.error.HTTPError as error:
        assert error.code == 422, error
    pause = threading.Event()
    for _ in range(600):
        _, found = call("GET", f"/orders?cart={cart}", trace)
        if not found:
            print(f"the payment failed, so {order['id']} was undone", flush=True)
            return
        pause.wait(0.2)
    raise AssertionError(f"the payment failed, and {order['id']} is still there")


def ask_for_a_gift():
    """A call that the policy has a human decide is not made meanwhile."""
    trace = secrets.token_hex(16)
    _, told = call("POST", "/gifts", trace, {"to": "eve", "note": secrets.token_hex(4)})
    _, given = call("GET", "/gifts", trace)
    assert not given, f"nobody approved {given}"
    assert told["status"] == "pending_approval", told
    print("a gift waits for a human, and was not sent", flush=True)


def repeat(pause):
    """Places orders until it is told to end."""
    # Signals are taken between two orders. A handler runs at any moment, also within a lock.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    is_told = None
    while not is_told:
        try:
            place_order()
        except OSError as error:
            print("the shop cannot be reached:", error, flush=True)
        is_told = signal.sigtimedwait(ENDS, pause)


def main():
    pause = float(os.environ.get("EVERY_SECONDS", "0"))
    if pause:
        repeat(pause)
        return
    place_order()
    if os.environ.get("HAS_DEMO_POLICY"):
        break_a_flow()
        ask_for_a_gift()


if __name__ == "__main__":
    main()
