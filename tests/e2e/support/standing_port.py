"""An address that stays while the process behind it is killed and started again, as in a pod."""

import contextlib
import socket
import struct
import threading

from support.recourse import WAIT_MAX


class StandingPort:
    """Passes every connection on to the port that `target()` names then; resets those that find
    nobody, and those whose other side is gone."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        # Wakes the accept below, which close() alone would not.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target()), timeout=WAIT_MAX)
        except OSError:
            reset(client)
            return
        server.settimeout(None)
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        pump(server, client)


def pump(source, sink):
    """Until the source ends, and its end is told as it came."""
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, sink):
            reset(one)


def reset(one):
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
        one.close()
