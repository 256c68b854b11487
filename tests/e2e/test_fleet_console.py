"""What people see of all pods of a shared ledger at any of them, or at a steward: lists that name
the pod, one stream of what comes, the page."""

import contextlib
import http.client
import json
import os
import select
import subprocess
import sys
import threading

import pytest

from support import plans, rawhttp
from support.approvals import Staffed
from support.certificates import Maker
from support.desk import LIST, Desk
from support.postgres import Postgres
from support.recourse import BINARY, ROOT, WAIT_MAX, NotReady, environment, run_cli
from support.waiting import wait_until
from test_fleet import Pods, cut_off, write
from test_flow_commands import trace_of

sys.path.insert(0, str(ROOT / "tests/helm"))
from chart import rendered  # noqa: E402

NAMED = "hostname {}; exec \"$@\""


def named(pod, name):
    """Lets the process run as on a machine of that name."""
    pod.wrapper = ["unshare", "--uts", "--", "sh", "-c", NAMED.format(name), "sh"]


@pytest.fixture(scope="module")
def postgres():
    with Postgres(settings=plans.SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def fleet(double, postgres, tmp_path_factory):
    if subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode:
        pytest.skip("nobody may name a machine here")
    url = postgres.ledger()
    pods = Pods(tmp_path_factory.mktemp("pods"), double, url)
    named(pods.a, "pod-a")
    named(pods.b, "pod-b")
    with pods:
        yield pods
        for pod in (pods.a, pods.b):
            assert pod.running(), pod.stderr()[-4000:]


def listed(pod, *arguments):
    done = pod.cli(*arguments)
    assert done.returncode == 0, done
    return done.stdout


def test_lists_name_the_pod_and_show_what_one_wrote(fleet, token):
    paths = {}
    for name, pod in fleet.all.items():
        write(pod, f"/notes/{token}-{name}", f"{token}{name}")
        asked = write(pod, f"/mail/{token}-{name}", f"mail{token}{name}", status=202).json()
        paths[name] = asked["operation"]
    for what in (["operations"], ["events"], ["flows", "--all"]):
        arguments = [what[0], "list", "--limit", "1000", *what[1:]]
        table = listed(fleet.b, *arguments).splitlines()
        assert table[0].split()[1] == "POD", table[0]
        assert {"pod-a", "pod-b"} <= {line.split()[1] for line in table[1:]}
        mine = json.loads(listed(fleet.b, *arguments, "--pod", "pod-a", "--json"))
        assert mine and {one["pod"] for one in mine} == {"pod-a"}
        assert listed(fleet.b, *arguments, "--pod", "nobody").startswith("none")
    done = fleet.b.by_hand("ann", "list", "--pod", "pod-b", "--json")
    waiting = [one["operation"] for one in json.loads(done.stdout)["approvals"]]
    assert paths["b"] in waiting and paths["a"] not in waiting
    assert "pod-b" in fleet.a.by_hand("ann", "list").stdout
    (flow,) = [one for one in fleet.a.admin("GET", "/flows?all=true&limit=1000")["flows"]
               if one["flow"] == trace_of(f"{token}b")]
    shown = [line.split() for line in listed(fleet.a, "flows", "show", flow["number"]).splitlines()]
    assert ["pod", "pod-b"] in shown
    streams = fleet.a.admin("GET", "/status")["streams"]
    assert {(one["pod"], one["mode"]) for one in streams} == {
        ("pod-a", "enforce"), ("pod-b", "enforce")}


def test_what_is_told_of_one_operation_is_read_without_what_others_wrote(fleet, postgres, token):
    first = write(fleet.a, f"/notes/{token}", token)
    assert write(fleet.b, f"/notes/{token}", token).replayed
    write(fleet.b, f"/mail/{token}", f"mail{token}", status=202)
    whole = fleet.b.admin("GET", "/events?limit=1000")["events"]
    begun = os.stat(postgres.log).st_size
    operations = {event["operation"] for event in whole}
    assert first.header("Recourse-Event") in {event["event_id"] for event in whole}
    for operation in operations:
        told = fleet.b.admin("GET", f"/events?operation={operation}&limit=1000")["events"]
        mine = [event for event in whole if event["operation"] == operation]
        assert [one["event_id"] for one in told] == [one["event_id"] for one in mine]
        for cut in (mine[0]["event_id"], mine[-1]["event_id"]):
            rest = fleet.b.admin("GET", f"/events?operation={operation}&after={cut}")["events"]
            assert [one["event_id"] for one in rest] == [
                one["event_id"] for one in mine[[m["event_id"] for m in mine].index(cut) + 1:]]
    with open(postgres.log, encoding="utf-8", errors="replace") as log:
        log.seek(begun)
        asked = plans.plans_in(log.read())
    assert any(text.startswith("WITH RECURSIVE line(") or "line AS" in text for text in asked)
    assert not any("WHERE place >=" in text for text in asked), "the whole log was read"


class Watched:
    """A GET /stream that is open."""

    def __init__(self, pod, after=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", pod.ports["admin"],
                                                     timeout=WAIT_MAX)
        more = {"Last-Event-ID": after} if after else {}
        self.connection.request("GET", "/stream",
                                headers={"Authorization": f"Bearer {pod.token}", **more})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.last, self.told = after, []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.connection.close()

    def message(self):
        fields = {}
        while (line := self.answer.readline().decode().rstrip("\n")) or not fields:
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields

    def until(self, path):
        """All up to a final event of that path."""
        while True:
            told = self.message()
            if told.get("event") == "hello":
                assert not json.loads(told["data"])["gap"], told
            if told.get("event") != "event":
                continue
            self.last = told["id"]
            event = json.loads(told["data"])
            self.told.append(event["event_id"])
            if event.get("path") == path and event["status"] == "SUCCESS":
                return self.told


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_the_stream_of_a_pod_tells_what_others_do_once_and_all_of_it(fleet, token, order):
    first, second = (getattr(fleet, name) for name in order)
    with Watched(first) as watched:
        write(second, f"/notes/{token}-1", f"{token}1")
        write(first, f"/notes/{token}-2", f"{token}2")
        told = list(watched.until(f"/notes/{token}-2"))
        last = watched.last
    write(first, f"/notes/{token}-3", f"{token}3")
    write(second, f"/notes/{token}-4", f"{token}4")
    # At another pod, where nobody has watched.
    with Watched(second, last) as watched:
        for number in (3, 4):
            write(first, f"/notes/{token}-5{number}", f"{token}5{number}")
            watched.until(f"/notes/{token}-5{number}")
        told += watched.told
    assert len(told) == len(set(told)), "each row is told once"
    notes = [event["event_id"] for event in first.events()
             if event["path"].startswith(f"/notes/{token}-")]
    assert set(notes) <= set(told), "and all of them are"


def test_who_follows_events_sees_those_of_all_pods(fleet, token):
    write(fleet.a, f"/notes/{token}-0", f"{token}0")
    command = [BINARY, "events", "list", "--follow", "--json",
               "--admin", f"127.0.0.1:{fleet.b.ports['admin']}",
               "--admin-token-file", str(fleet.b.token_path)]
    follower = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE)
    text = b""

    def has(path):
        nonlocal text
        if select.select([follower.stdout], [], [], 0.1)[0]:
            text += os.read(follower.stdout.fileno(), 1 << 20)
        return f'"path":"{path}","'.encode() in text or f'"{path}"'.encode() in text

    with contextlib.closing(follower.stdout):
        try:
            wait_until(lambda: has(f"/notes/{token}-0"))
            for number, pod in enumerate((fleet.a, fleet.b, fleet.a), 1):
                write(pod, f"/notes/{token}-{number}", f"{token}{number}")
            for number in range(1, 4):
                wait_until(lambda wanted=f"/notes/{token}-{number}": has(wanted))
        finally:
            follower.kill()
            follower.wait()
    lines = [json.loads(line) for line in text.decode().splitlines()[:-1]]
    ids = [one["event_id"] for one in lines]
    assert len(ids) == len(set(ids))
    assert {f"/notes/{token}-{number}" for number in range(3)} <= {
        one.get("path") for one in lines}


class Steward(Staffed):
    def command(self):
        words = super().command()
        at = words.index("run")
        words[at] = "steward"
        listen = words.index("--listen")
        return words[:listen] + words[listen + 2:]


def test_a_steward_sees_to_what_dead_pods_have_left(
        double, postgres, browser, walk, tmp_path, token):
    url, path = postgres.database(), f"/placed/{token}"
    assert run_cli("ledger", "migrate", "--ledger", url).returncode == 0
    pods = Pods(tmp_path, double, url, "a")
    policy = pods.a.policy_path.read_text()
    steward = Steward(tmp_path / "steward", policy, pods.secrets)
    with pods:
        double.script("POST", path, ["read", "execute", {"gate": token}], 1)
        fields = rawhttp.traced(trace_of(token))
        order = threading.Thread(target=cut_off, args=(pods.a, path, fields, token))
        order.start()
        double.await_effects(path)
        asked = write(pods.a, f"/mail/{token}", f"mail{token}", status=202).json()["operation"]
        pods.a.kill()
        order.join()
        with steward:
            assert steward.ports["listen"] == 0
            settled = steward.await_phase(path, ("SUCCEEDED", "ANSWER_LOST"))
            assert settled["external_ref"]
            digest = steward.shown(asked)["digest"]
            done = steward.by_hand("ann", "approve", asked, "--digest", digest)
            assert done.returncode == 0, done
            wait_until(lambda: len(double.effects(f"/mail/{token}")) == 1)
            assert steward.probe("/ready")[0] == 200
            desk = Desk(browser, steward).log_in()
            browser.wait(f"{LIST} .c-pod")
            walk.look("calls at a steward")
            walk.at(desk, "#/approvals")
            walk.at(desk, "#/policy", 'section:has-text("pod")')
            assert steward.stop() == 0, steward.stderr()[-4000:]
        double.open_gate(token)
    alone = Steward(tmp_path / "alone", policy[: policy.index("ledger:")])
    with pytest.raises(NotReady, match="exit 2: "):
        alone.start()
    assert "a steward works on a shared ledger" in alone.stderr()


class FromChart(Staffed):
    """A process by the command line of a rendered container; files and addresses are the test's."""

    def __init__(self, directory, policy, container, places):
        super().__init__(directory, policy)
        self.words = container["args"]
        self.places = {"--policy": self.policy_path, "--data": self.data, "--operators":
                       self.directory / "operators.yaml", **places}

    def command(self):
        flags = [word.partition("=") for word in self.words[1:]]
        return [BINARY, self.words[0], f"--ports-file={self.ports_path}",
                f"--admin-token-file={self.token_path}",
                *(f"{flag}={self.places.get(flag, value)}" if equals else flag
                  for flag, equals, value in flags)]


    def by_tls(self, certs, *arguments):
        """JSON that a command of the operator prints."""
        done = run_cli(*arguments, "--json", "--admin", f"https://localhost:{self.ports['admin']}",
                       "--admin-ca", certs.cert, "--admin-token-file", self.token_path)
        assert done.returncode == 0, done
        return json.loads(done.stdout)


class FromConsole(FromChart):
    def command(self):
        return [word for word in super().command() if not word.startswith("--admin-token-file=")]


def test_the_chart_starts_pods_a_steward_of_their_group_and_a_console(double, postgres, tmp_path):
    out, url = rendered("ledger-values"), postgres.database()
    (job,) = out.all("Job")
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    password.chmod(0o600)
    of_test = {"--ledger": f"--ledger={url}",
               "--ledger-password-file": f"--ledger-password-file={password}"}  # fmt: skip
    migrate = [of_test.get(word.partition("=")[0], word)
               for word in job["spec"]["template"]["spec"]["containers"][0]["args"]]
    assert run_cli(*migrate).stdout.startswith("made the tables")
    pods = Pods(tmp_path, double, url, [])
    policy = pods.policy(double, "{}").replace("ledger: {}\n", "")
    places = {"--ledger": url, "--ledger-password-file": password,
              "--install-secret-file": pods.secrets[1], "--ledger-key-file": pods.secrets[3],
              **{flag: "127.0.0.1:0" for flag in ("--listen", "--admin", "--probes")}}
    certs = Maker(tmp_path / "certs")
    serves = certs.issue("serves")
    tls = {"--admin-tls-cert": serves.cert, "--admin-tls-key": serves.key}
    sidecar = next(one for _, _, one in out.sidecar_pods())
    (steward,) = out.one("Deployment", "-steward")["spec"]["template"]["spec"]["containers"]
    with (FromChart(tmp_path / "pod", policy, sidecar, places) as pod,
          FromChart(tmp_path / "steward", policy, steward, {**places, **tls}) as keeper):
        streams = keeper.by_tls(certs, "status")["streams"]
        assert [one["state"] for one in streams] == ["live", "live"]
        at = f"eu=https://localhost:{keeper.ports['admin']}"
        (console,) = rendered("console-values").one("Deployment", "-console")["spec"]["template"][
            "spec"]["containers"]  # fmt: skip
        console["args"] = [one for one in console["args"] if not one.startswith("--ledger=us")]
        places = {"--ledger": at, "--ledger-ca": certs.cert, "--admin": "127.0.0.1:0",
                  "--probes": "127.0.0.1:0", **tls}  # fmt: skip
        with FromConsole(tmp_path / "console", "version: 1\n", console, places) as page:
            page.token_path.write_text(keeper.token)
            status = page.by_tls(certs, "status")
            assert {one["ledger"] for one in status["streams"]} == {"eu"}, status
            assert [one["state"] for one in status["ledgers"]] == ["up"], status
            assert page.probe("/ready")[0] == 200
            assert page.stop() == 0
        # Of a steward whose certificate nobody vouches for nothing is believed.
        others = Maker(tmp_path / "others", "another CA")
        places["--ledger-ca"] = others.cert
        with FromConsole(tmp_path / "wrong", "version: 1\n", console, places) as page:
            page.token_path.write_text(keeper.token)
            done = run_cli("status", "--admin", f"https://localhost:{page.ports['admin']}",
                           "--admin-ca", certs.cert, "--admin-token-file", page.token_path)
            assert done.returncode != 0 and "the log of the console says why" in done.stderr, done
            assert "certificate" in page.stderr(), page.stderr()
        groups = postgres.sql(url, "SELECT DISTINCT grp FROM stream")
        assert groups == "shop/checkout\n"
        assert keeper.stop() == 0 and pod.stop() == 0, keeper.stderr()[-2000:]


def test_the_page_of_one_pod_shows_all_and_those_of_one(fleet, browser, walk, token):
    write(fleet.a, f"/notes/{token}-a", f"{token}a")
    desk = Desk(browser, fleet.b).log_in()
    browser.wait(f'{LIST} .c-pod:has-text("pod-a")')
    write(fleet.a, f"/notes/{token}-news", f"{token}news")
    browser.wait(f'.row:has-text("/notes/{token}-news")')
    browser.wait('select[aria-label="Pod"] option[value="pod-b"]', "attached")
    write(fleet.b, f"/notes/{token}-b", f"{token}b")
    desk.go("#/activity?pod=pod-b", LIST)
    browser.wait(f'.row:has-text("/notes/{token}-b")')
    assert browser.eval("[...document.querySelectorAll('.rows .c-pod')]"
                        ".every((one) => one.textContent === 'pod-b')")
    walk.look("calls of one pod")
    walk.at(desk, "#/activity", f"{LIST} .c-pod")
    walk.at(desk, "#/activity?show=flows&all=true", f"{LIST} .c-pod")
    asked = write(fleet.a, f"/mail/{token}-page", f"mail{token}", status=202).json()["operation"]
    for place in (f"#/approval/{asked}", f"#/operation/{asked}"):
        walk.at(desk, place, ':has-text("pod-a")')
    chosen = 'select[aria-label="Pod"] option[value="pod-b"]'
    for place in ("approvals", "parked", "stopped", "unknown"):
        walk.at(desk, f"#/{place}", chosen)
    walk.at(desk, "#/approvals?pod=pod-a", f'.inbox-row:has-text("/mail/{token}-page")')
    desk.go("#/policy")
    browser.wait('section:has-text("2 pods") td:has-text("enforce")')
    walk.look("pods of the policy")
    desk.is_clean()
