"""What a storm does, as a pure function of its seed: intents, their faults, reads, disruptions."""

import dataclasses
import random

from support.faults import CREATED, FAULTS, Fault
from support.history import Read, Write
from support.recourse import PATIENCE

OK = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
EMPTY = '{"items":[]}'
NOT_SENT = ("NOT_SENT",)

# Faults of backends that never let a request through, and the kind that leads there.
UNREACHABLE = {
    "b01_refused": "down",
    "b02_never_accepted": "full",
    "b31_expired": "expired",
    "b31_other_name": "misnamed",
    "b31_self_signed": "selfsigned",
    "b31_closed_in_the_handshake": "closing",
}
OVER_TLS = {
    "b31_no_goodbye_after_a_whole_length": ["read", "execute", "answer", "fin"],
    "b31_no_goodbye_after_an_open_body": [
        "read", "execute", {"send": CREATED + "\r\n%JSON%"}, "fin",
    ],
    "b31_goodbye_after_an_open_body": [
        "read", "execute", {"send": CREATED + "\r\n%JSON%"}, "goodbye", "fin",
    ],
}  # fmt: skip
# What a probe is told first; the write before it was executed and its answer lost.
PROBES = {
    "b34_probe_500": "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
    "b34_probe_wrong_schema": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "b34_probe_stale": f"HTTP/1.1 200 OK\r\nContent-Length: {len(EMPTY)}\r\n\r\n{EMPTY}",
    "b34_probe_reset": None,
}
LATE = {
    "b16_executed_after_the_first_probes": ["read", {"sleep": 1.6}, "execute"],
    "b15_executed_after_the_deadline": ["read", {"sleep": 1.2}, "execute", "answer"],
}
READS = {
    "b05_read_reset": ["read", "rst"],
    "b07_read_closed": ["read", "fin"],
    "b10_read_cut": ["read", {"send": OK[:-2] + "{"}, "fin"],
    "b11_read_chunks_cut": [
        "read", {"send": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"}, "rst",
    ],
    "b14_read_never_answered": ["read", "hang"],
    "b17_read_500": ["read", {"send": "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"}],
    "b33_closed_after_the_answer": ["read", {"send": OK}, {"sleep": 0.002}, "fin"],
}  # fmt: skip
# Kinds whose attempts have only a second, so that a busy machine may leave any of them unknown.
HASTY = ("plain", "probed", "judged", "listed", "large", "late", "secure")
CALM = ("calm", "checked", "keyed", "free", "safe")
# Where a probe, or the backend's own de-duplication, settles what is unknown.
SETTLED = ("/probed/", "/late/", "/secure/", "/checked/", "/safe/", "/keyed/")
SECURE = ("secure", "safe")
DISRUPTIONS = (
    "kill", "kill_twice", "crash_point", "terminate", "suspend", "no_descriptors", "reload",
    "crash_point", "kill",
)  # fmt: skip


@dataclasses.dataclass
class Intent:
    """One thing an agent wants done once. `steps`: the backend's script for the first `times`
    requests; `probe`: for the first probe."""

    write: Write
    fault: str = ""
    steps: list = None
    times: int = 1
    probe: list = None
    racers: int = 1
    hopeless: bool = False  # its backend cannot be reached, now or later


def cases():
    """[(fault, kind, Fault or steps)] of every write fault on every kind of route it fits."""
    found = [(name, kind, Fault(None, NOT_SENT, 0, ())) for name, kind in UNREACHABLE.items()]
    found.append(("b03_reset_when_accepted", "reset", Fault(None, ("UNCERTAIN",), 0, ())))
    for name, fault in FAULTS.items():
        found.append((name, fault.kind, fault))
        if fault.only_plain:
            continue
        found.append((name, "probed", fault))
        if not fault.body_bytes:
            found.append((name, "secure", fault))
            # One resend settles it, unless the backend keeps silent for as long as it may.
            if not {"hang"} & {step for step in fault.steps if isinstance(step, str)}:
                found.append((name, "keyed", fault))
    for name, steps in OVER_TLS.items():
        found.append((name, "secure", Fault(steps, (), 1, ())))
    for name, text in PROBES.items():
        probe = ["read", {"send": text}] if text else ["read", "rst"]
        fault = Fault(["read", "execute", "rst"], (), 1, (), probe=probe)
        found.append((name, "probed", fault))
    for name, steps in LATE.items():
        found.append((name, "late", Fault(steps, (), 1, ())))
    return [case for case in found if "trickle" not in case[0] or case[1] != "keyed"]


CASES = cases()
WRITE_FAULTS = sorted({name for name, _, _ in CASES})


class Plan:
    """Intent number n, read number n and disruption number n of a seed are always the same."""

    def __init__(self, seed, name):
        self.seed = seed
        self.name = name
        self.orders = {}

    def dice(self, *what):
        return random.Random(f"{self.seed}-{what}")

    def in_turn(self, what, things, n):
        """Thing number n of a sequence that repeats all `things`, each round in another order."""
        turn, at = divmod(n, len(things))
        if (what, turn) not in self.orders:
            order = list(things)
            self.dice(what, turn).shuffle(order)
            self.orders[what, turn] = order
        return self.orders[what, turn][at]

    def disruption(self, n):
        return self.in_turn("disruption", DISRUPTIONS, n), self.dice("moment", n)

    def intent(self, n):
        """Every second intent meets a fault; every fault comes once per round."""
        dice = self.dice("intent", n)
        if n % 2:
            kind = dice.choice(CALM)
            return Intent(self.write(n, kind, "calm", dice), racers=self.racers(dice))
        name = self.in_turn("fault", WRITE_FAULTS, n // 2)
        kinds = [(kind, fault) for named, kind, fault in CASES if named == name]
        # Each round takes another kind of route.
        kind, fault = kinds[(n // 2 // len(WRITE_FAULTS) + dice.randrange(2)) % len(kinds)]
        intent = Intent(
            self.write(n, kind, name, dice, fault.body_bytes), name, fault.steps,
            racers=1 if fault.alone else self.racers(dice), probe=fault.probe,
            hopeless=kind in (*UNREACHABLE.values(), "reset"),
        )  # fmt: skip
        if name.startswith(("b19_503_listed", "b20")):
            intent.times = dice.randint(1, 3)  # not executed, as often as it is told so
        return intent

    @staticmethod
    def racers(dice):
        return dice.choices((1, 2, 3, 8), (5, 3, 2, 1))[0]

    def write(self, n, kind, name, dice, padding=0):
        token = f"{self.name}-{n}-{name}"
        # Agents work on several traces; some name their calls, some send no trace at all.
        named, traced = dice.random() < 0.3, dice.random() < 0.85 or kind == "free"
        trace = f"{self.dice('trace', n // 16 * 4 + dice.randrange(4)).getrandbits(128) | 1:032x}"
        key = f"agent-key-{token}" if named else None
        query = "?slow=1" if kind in ("calm", "checked") and dice.random() < 0.3 else ""
        return Write(
            f"/{kind}/{token}", trace if traced else None, f"{kind}.test", query, key=key,
            padding=padding,
        )  # fmt: skip

    def read(self, n):
        """(Read, name of its fault or None, steps)"""
        if n % 4:
            return Read(f"/read/{self.name}-{n}"), None, None
        name = self.in_turn("read", sorted(READS), n // 4)
        return Read(f"/hasty/{self.name}-{n}-{name}"), name, READS[name]


def policy(double, ports, ca):
    """The policy of a storm: hasty tools have a second, calm ones more than any stall takes."""
    lines = ["version: 1", "backends:"]
    shop = sorted(set(HASTY + CALM) - {"keyed", *SECURE})
    hosts = ", ".join(["shop.test", *(f"{kind}.test" for kind in shop)])
    lines.append(f'  shop: {{ url: "{double.url}", hosts: [ {hosts} ], timeout: 60s }}')
    lines.append(
        f'  keyed: {{ url: "{double.keyed_url}", hosts: [ keyed.test ], timeout: 60s,'
        " key_header: Idempotency-Key }"
    )
    for name, port in ports.items():
        lines.append(
            f'  {name}: {{ url: "http://127.0.0.1:{port.port}", hosts: [ {name}.test ],'
            " timeout: 1s, connect_timeout: 300ms }"
        )
    for name, port in double.tls.items():
        hosts = "secure.test, safe.test" if name == "good" else f"{name}.test"
        lines.append(
            f'  {name}: {{ url: "https://localhost:{port}", hosts: [ {hosts} ], timeout: 60s,'
            f' connect_timeout: 20s, tls: {{ ca_file: "{ca}" }} }}'
        )
    lines.append("tools:")
    lines.append("  read.hasty:\n    match: GET shop /hasty/{token}")
    lines.append("    effect: read\n    timeout: 1s")
    backends = {"keyed": "keyed", **dict.fromkeys(SECURE, "good")}
    kinds = [*HASTY, *(kind for kind in CALM if kind != "free"), *ports]
    kinds += [name for name in double.tls if name != "good"]
    for kind in kinds:
        backend = backends.get(kind, kind if kind in (*ports, *double.tls) else "shop")
        lines.append(f"  {kind}.create:")
        lines.append(f"    match: POST {backend} /{kind}/{{token}}")
        lines.append("    effect: write\n    external_ref: answer.body#/id")
        lines.append("    undo: none\n    reason: a row of a test is never undone")
        # Says that equal calls without a trace are one, though the first was answered.
        lines.append("    identity: [ body#/client_ref ]\n    agent_key: wins")
        if kind in HASTY:
            lines.append(f"    timeout: {'3s' if kind == 'large' else '1s'}")
        if kind == "judged":
            lines.append('    success_when: [ "answer.body#/ok == true" ]')
        if kind == "listed":
            lines.append("    not_executed: [ 503 ]")
        if f"/{kind}/" in SETTLED and kind != "keyed":
            lines.append("    settle:")
            lines.append(
                f'      request: "GET /{kind}/{{path.token}}?client_ref={{body#/client_ref}}"'
            )
            lines.append("      happened: answer.body#/items/0/id")
            late, other = max(15, 8 * PATIENCE), max(6, 2 * PATIENCE)
            lines.append(f"      absent_after: {round(late if kind == 'late' else other)}s")
    return "\n".join(lines) + "\n"
