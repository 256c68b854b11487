"""Stands for kube-proxy and a cluster's DNS: leads the addresses of Services to their pods, and
tells those addresses by name. `services.py URL TOKEN CA ADDRESS`, in the node's network.
"""

import json
import socket
import ssl
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request

DOMAIN = ".svc.cluster.local"
ADDRESS_RECORD = 1
NO_SUCH_NAME = 3
SERVICE_NAME = "kubernetes.io/service-name"


class Api:
    def __init__(self, url, token, authority):
        self.url, self.token = url, token
        self.context = ssl.create_default_context(cafile=authority)

    def open(self, path):
        fields = {"Authorization": f"Bearer {self.token}"}
        asked = urllib.request.Request(self.url + path, headers=fields)
        return urllib.request.urlopen(asked, context=self.context)

    def get(self, path):
        with self.open(path) as answer:
            return json.load(answer)

    def slices(self, where="", selector=""):
        return self.get(f"/apis/discovery.k8s.io/v1{where}/endpointslices{selector}")["items"]


def ready(one):
    return [end["addresses"][0] for end in one.get("endpoints") or []
            if end.get("conditions", {}).get("ready", True)]  # fmt: skip


RULES = """\
table ip services
delete table ip services
table ip services {
  chain services { %s }
  chain prerouting { type nat hook prerouting priority -100; jump services; }
  chain output { type nat hook output priority -100; jump services; }
  chain postrouting { type nat hook postrouting priority 100; ct status dnat masquerade; }
}
"""


def ends_of(service, slices):
    """(port, [(address, port of a pod)]) of each port of the Service."""
    meta = service["metadata"]
    own = [one for one in slices if one["metadata"]["namespace"] == meta["namespace"]
           and one["metadata"]["labels"].get(SERVICE_NAME) == meta["name"]]  # fmt: skip
    for port in service["spec"]["ports"]:
        yield port["port"], [
            (address, end["port"]) for one in own for end in one.get("ports") or []
            if end.get("name", "") == port.get("name", "") for address in ready(one)
        ]  # fmt: skip


def rules(services, slices):
    """nftables' script: a random pod of each Service."""
    lines = []
    for service in services:
        address = service["spec"].get("clusterIP", "None")
        for port, ends in ends_of(service, slices) if address != "None" else []:
            choices = ", ".join(f"{i} : {end}" for i, (end, _) in enumerate(ends))
            if ends:
                lines.append(f"ip daddr {address} tcp dport {port} dnat to numgen random mod "
                             f"{len(ends)} map {{ {choices} }}:{ends[0][1]};")  # fmt: skip
    return RULES % "\n".join(lines)


def lead(api):
    """Whatever changes, all is written anew."""
    while True:
        with api.open("/apis/discovery.k8s.io/v1/endpointslices?watch=1") as changes:
            for _ in changes:
                script = rules(api.get("/api/v1/services")["items"], api.slices())
                subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True)


def addresses(api, name):
    """None where there is no such Service."""
    service, _, namespace = name.removesuffix(DOMAIN).rpartition(".")
    if not name.endswith(DOMAIN) or "." in service or not service:
        return None
    try:
        found = api.get(f"/api/v1/namespaces/{namespace}/services/{service}")["spec"]["clusterIP"]
    except urllib.error.HTTPError:
        return None
    if found != "None":
        return [found]
    selector = f"?labelSelector={SERVICE_NAME}={service}"
    return [end for one in api.slices(f"/namespaces/{namespace}", selector) for end in ready(one)]


def answer(api, question):
    """RFC 1035, 4.1."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
    found = addresses(api, ".".join(labels).lower())
    code = NO_SUCH_NAME if found is None else 0
    told = (found or []) if kind == ADDRESS_RECORD else []
    head = question[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, len(told), 0, 0)
    records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", ADDRESS_RECORD, 1, 1, 4)
                       + socket.inet_aton(one) for one in told)  # fmt: skip
    return head + question[12 : at + 5] + records


def main(url, token, authority, own):
    api = Api(url, token, authority)
    threading.Thread(target=lead, args=(api,), daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((own, 53))
        while True:
            question, whom = server.recvfrom(512)
            server.sendto(answer(api, question), whom)


if __name__ == "__main__":
    main(*sys.argv[1:])
