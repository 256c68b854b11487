"""The TLS side of the scriptable backend: a port per certificate, and one that ends handshakes."""

import contextlib
import pathlib
import socket
import ssl

SHAKE_MAX = 60.0


def listen_with_tls(directory, serve):
    """{name: (listener, what to do with its connections)} for every NAME.both.pem of `directory`,
    each handing a connection to `serve` once TLS stands, and for "closing", where it never does."""
    ports = {"closing": (new_listener(), serve_nobody)}
    for file in sorted(pathlib.Path(directory).glob("*.both.pem")):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        ports[file.name.removesuffix(".both.pem")] = (new_listener(), shake(context, serve))
    return ports


def new_listener():
    return socket.create_server(("127.0.0.1", 0), backlog=1024)


def shake(context, serve):
    def handle(sock):
        sock.settimeout(SHAKE_MAX)
        try:
            secured = context.wrap_socket(sock, server_side=True)
        except OSError:
            sock.close()
            return
        serve(secured)

    return handle


def serve_nobody(sock):
    """Closes once the peer has begun the handshake."""
    with sock, contextlib.suppress(OSError):
        sock.settimeout(SHAKE_MAX)
        sock.recv(1 << 14)
