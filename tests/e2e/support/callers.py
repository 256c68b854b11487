"""Agents that Recourse tells apart by their certificates."""

import ssl

from support import flows, rawhttp
from support.certificates import Maker
from support.recourse import Recourse


class SecureConnection(rawhttp.Connection):
    """The raw client inside TLS; an end without close_notify is an SSLEOFError."""

    def __init__(self, port, context):
        super().__init__(port)
        self.socket = context.wrap_socket(
            self.socket, server_hostname="localhost", suppress_ragged_eofs=False
        )


def context_of(maker, client=None):
    context = ssl.create_default_context(cafile=maker.cert)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    return context


def check_that_callers_share_no_flow(directory, double, policy, agents_of):
    """`agents_of(shop)`: two agents whose writes would be one flow if one caller made them."""
    maker = Maker(directory / "ca")
    server = maker.issue("server")
    arguments = ["--tls-cert", server.cert, "--tls-key", server.key, "--tls-client-ca", maker.cert]
    with Recourse(directory / "recourse", policy, arguments) as running:
        first, second = agents_of(flows.Shop(running, double))
        for agent, name in ((first, "first"), (second, "second")):
            context = context_of(maker, maker.issue(name, san=f"DNS:{name}.test"))
            agent.connect = lambda port, _, context=context: SecureConnection(port, context)
            agent.does("orders")
        first.breaks()
        first.await_undone()
        assert first.undone() == ["orders"]
        second.does("payments")
        assert second.undone() == [] and first.call("payments").status == 409
