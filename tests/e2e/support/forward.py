"""What the tests of forward mode share: a policy with tunnels, CONNECT, and its metrics."""

import json
import re
import ssl

from support import rawhttp
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
POLICY = """\
version: 1
mode: {mode}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test ], connect_timeout: 30s }}
  pay: {{ url: "https://pay.test" }}
tools:
  plain.create:
    match: POST shop /plain/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo: none
    reason: a row of a test is never undone
tunnels: [ {tunnels}, "*.listed.test:443" ]
"""


def policy(double, *tunnels, mode="enforce"):
    listed = ", ".join(f'"127.0.0.1:{port}"' for port in tunnels) or '"nowhere.test:1"'
    return POLICY.format(url=double.url, tunnels=listed, mode=mode)


def connect(connection, target, more=b"", version="1.1", fields=""):
    """Sends a CONNECT; the answer's status and fields."""
    connection.send(
        f"CONNECT {target} HTTP/{version}\r\nHost: {target}\r\n{fields}\r\n".encode() + more
    )
    status, _, _, headers = connection.head()
    return status, {name.lower(): value for name, value in headers}


def refusal(proxy, target, **how):
    """The problem that a refused CONNECT gets; the connection must end with it."""
    with rawhttp.Connection(proxy.port) as connection:
        status, fields = connect(connection, target, **how)
        assert fields["content-type"] == "application/problem+json"
        problem = json.loads(connection.exactly(int(fields["content-length"])))
        assert problem["outcome"] == "not_executed" and problem["status"] == status
        assert connection.at_end()
        return status, problem


def metric(proxy, name, **labels):
    """The sum over the series of that name that have these labels."""
    found = 0.0
    for line in proxy.probe("/metrics")[1].splitlines():
        has_all = all(f'{key}="{value}"' in line for key, value in labels.items())
        if re.match(rf"{name}[{{ ]", line) and has_all:
            found += float(line.split()[-1])
    return found


def await_metric(proxy, value, name, **labels):
    wait_until(
        lambda: metric(proxy, name, **labels) == value,
        lambda: f"{name} {labels} is {metric(proxy, name, **labels)}, not {value}",
    )


def post(token, body=b'{"n":1}', host="shop.test", trace=TRACE):
    fields = {"Content-Type": "application/json", **rawhttp.traced(trace)}
    return rawhttp.render("POST", f"/plain/{token}", host, fields, body)


def hello(name):
    """A ClientHello as OpenSSL makes it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(into, out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def split(record, size):
    """The same handshake message in records of `size` bytes."""
    data = record[5:]
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(record[:3] + len(piece).to_bytes(2, "big") + piece for piece in pieces)
