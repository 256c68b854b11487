"""Where a backend's name may lead (b32, T11, P50), and what a name server can do to a call.

The name server, the addresses and Recourse are in a network of their own (support/lab.py).
"""

import itertools
import json

import pytest
from support.lab import Lab
from support.waiting import wait_until

# What the name server says, and the words that the backend has beside its url.
NAMES = {
    "good": (["10.1.1.1"], {}, ""),
    "six": (["fd12::2"], {}, ""),
    "metadata": (["169.254.169.254"], {}, ""),
    "metadata6": (["fd00:ec2::254"], {}, ""),
    "linklocal": (["169.254.1.1"], {}, ""),
    "loopback": (["127.0.0.1"], {}, ""),
    "loopback6": (["::1"], {}, ""),
    "mapped": (["::ffff:127.0.0.1"], {}, ""),
    "nat64": (["64:ff9b::a9fe:a9fe"], {}, ""),
    "unspecified": (["0.0.0.0"], {}, ""),
    "narrow": (["10.1.1.2"], {}, "addresses: [ 10.1.1.1 ]"),
    "ranged": (["169.254.169.254"], {}, "addresses: [ link_local, 169.254.0.0/16 ]"),
    "near": (["127.0.0.1"], {}, "addresses: [ public, loopback ]"),
    "node": (["169.254.1.1"], {}, "addresses: [ link_local ]"),
    "meant": (["169.254.169.254"], {}, "addresses: [ 169.254.169.254 ]"),
    "mixed": (["169.254.169.254", "10.1.1.1"], {}, ""),
    "second": (["10.1.1.3", "10.1.1.1"], {}, ""),
    "silent_six": (["fd12::1", "10.1.1.1"], {}, "connect_timeout: 8s"),
    "changes": (["10.1.1.1"], {}, ""),
    "gone": ([], {"code": 3}, ""),
    "empty": ([], {}, ""),
    "servfail": ([], {"code": 2}, ""),
    "slow": (["10.1.1.1"], {"delay": 5}, "connect_timeout: 300ms"),
    "slow2": (["10.1.1.1"], {"delay": 60}, "connect_timeout: 300ms"),
    "fresh": (["10.1.1.1"], {}, ""),
}


# The same for ends of tunnels, all under one wildcard.
TUNNELS = {
    "good": "10.1.1.4",
    "six": "fd12::4",
    "alias": "10.1.1.1",
    "alias6": "fd12::2",
    "loopback": "127.0.0.1",
    "loopback6": "::1",
    "mapped": "::ffff:127.0.0.1",
    "linklocal": "169.254.1.1",
    "metadata": "169.254.169.254",
    "unspecified": "0.0.0.0",
}


def policy():
    lines = ["version: 1", "backends:"]
    for name, (_, _, words) in NAMES.items():
        host = name.replace("_", "-")
        # Shorter than what a slow name holds up, longer than a busy machine stands still.
        if "connect_timeout" not in words:
            words = f"{words}, connect_timeout: 8s" if words else "connect_timeout: 8s"
        lines.append(f'  {name}: {{ url: "http://{host}.lab.test:8080", {words} }}')
    # What the url itself names needs no word.
    lines.append('  literal: { url: "http://127.0.0.1:8080" }')
    lines.append('  localhost: { url: "http://localhost:8080" }')
    # A loopback address that is listed is meant; where backends are called, it is an error.
    lines.append('tunnels: [ "*.ends.test:8080", "[::1]:8080" ]')
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab"), policy()) as made:
        for name, (addresses, how, _) in NAMES.items():
            made.name(f"{name.replace('_', '-')}.lab.test", *addresses, **how)
        for name, address in TUNNELS.items():
            made.name(f"{name}.ends.test", address)
        yield made
    assert made.process.returncode == 0


def call(lab, method, name, path):
    host = f"{name.replace('_', '-')}.lab.test" if name in NAMES else name
    return lab.ask("call", method=method, path=path, host=f"{host}:8080")


def reached(lab, path):
    return [address for address, _, seen in lab.ask("seen")["seen"] if seen == path]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("good", "10.1.1.1"),
        ("six", "fd12::2"),
        ("near", "127.0.0.1"),
        ("node", "169.254.1.1"),
        ("meant", "169.254.169.254"),
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("mixed", "10.1.1.1"),
        ("second", "10.1.1.1"),
        ("silent_six", "10.1.1.1"),
    ],
)
def test_a_call_goes_to_an_address_that_its_backend_may_have(lab, token, method, name, address):
    path = f"/{token}"
    assert call(lab, method, name, path)["status"] == 200
    assert reached(lab, path) == [address]
    wait_until(
        lambda: address in [line.get("upstream") for line in lab.ask("logs")["access"]],
        "the access log names the address",
    )


REFUSED = {
    "metadata": "cloud metadata",
    "metadata6": "cloud metadata",
    "nat64": "cloud metadata",
    "ranged": "cloud metadata",
    "linklocal": "link-local",
    "loopback": "loopback",
    "loopback6": "loopback",
    "mapped": "loopback",
    "unspecified": "unspecified",
    "narrow": "`addresses` do not list",
}


def assert_not_sent(lab, answer, path, slug, detail):
    document = json.loads(answer["body"])
    assert document["type"].endswith("/" + slug), document
    assert document["outcome"] == "not_executed" and detail in document["detail"], document
    events = lab.ask("events", path=path)["events"]
    for event in events:
        assert event["phase"] in ("DISPATCHING", "NOT_SENT"), event
    assert not events or detail in events[-1]["detail"]
    assert reached(lab, path) == []
    return dict(answer["headers"])["Proxy-Status"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_sent(lab, token, method, name):
    path = f"/{token}"
    answer = call(lab, method, name, path)
    assert answer["status"] == 502
    status = assert_not_sent(lab, answer, path, "address-refused", REFUSED[name])
    assert "error=destination_ip_prohibited" in status
    assert NAMES[name][0][0] in lab.ask("logs")["stderr"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("gone", "does not resolve"),
        ("empty", "does not resolve"),
        ("servfail", "does not resolve"),
        ("slow", "looking up"),
    ],
)
def test_without_an_address_nothing_is_sent(lab, token, method, name, detail):
    answer = call(lab, method, name, f"/{token}")
    assert answer["status"] == 503
    assert_not_sent(lab, answer, f"/{token}", "not-sent", detail)


def test_a_name_that_changes_to_the_metadata_address_is_refused_from_then_on(lab, token):
    path = f"/{token}"
    assert call(lab, "POST", "changes", path)["status"] == 200
    lab.name("changes.lab.test", "169.254.169.254")
    paths = (f"{path}/{number}" for number in itertools.count())

    def refused():
        asked = next(paths)
        answer = call(lab, "GET", "changes", asked)
        return answer["status"] != 200 and (answer, asked)

    answer, last = wait_until(refused, "the old address is remembered for too long")
    assert_not_sent(lab, answer, last, "address-refused", "cloud metadata")
    assert set(reached(lab, path)) == {"10.1.1.1"}
    assert_not_sent(
        lab, call(lab, "POST", "changes", f"{path}/w"), f"{path}/w", "address-refused", "metadata"
    )


def test_a_slow_name_server_holds_up_no_other_name(lab, token):
    # Earlier tests look up neither of the two.
    assert call(lab, "GET", "slow2", f"/{token}")["status"] == 503
    assert call(lab, "GET", "fresh", f"/{token}")["status"] == 200


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("good.ends.test:8080", "10.1.1.4"),
        ("six.ends.test:8080", "fd12::4"),
        ("[::1]:8080", "::1"),
    ],
)
def test_a_tunnel_goes_where_it_may(lab, token, target, address):
    answer = lab.ask("tunnel", target=target, path=f"/{token}")
    assert (answer["status"], answer["inside"]) == (200, 200)
    assert reached(lab, f"/{token}") == [address]


@pytest.mark.parametrize(("name", "backend"), [("alias", "good"), ("alias6", "six")])
def test_a_tunnel_reaches_no_backend_by_another_name(lab, token, name, backend):
    answer = lab.ask("tunnel", target=f"{name}.ends.test:8080", path=f"/{token}")
    problem = json.loads(answer["body"])
    assert answer["status"] == 403 and problem["type"].endswith("/tunnel-refused"), problem
    assert f"the address of backend '{backend}'" in problem["detail"]
    assert reached(lab, f"/{token}") == []


FAIR = ("good", "six", "alias", "alias6")


@pytest.mark.parametrize("name", [name for name in TUNNELS if name not in FAIR])
def test_a_tunnel_goes_nowhere_else(lab, token, name):
    answer = lab.ask("tunnel", target=f"{name}.ends.test:8080", path=f"/{token}")
    problem = json.loads(answer["body"])
    assert answer["status"] == 502 and problem["type"].endswith("/address-refused"), problem
    assert "no tunnel may have" in problem["detail"]
    assert reached(lab, f"/{token}") == []
