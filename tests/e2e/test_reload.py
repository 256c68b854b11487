"""The policy changes while agents work: nothing breaks, and every call keeps the version it began
with."""

import hashlib
import json
import os
import signal
import struct
import subprocess
import threading

import pytest

from support import certificates, rawhttp
from support.policies import standard
from support.recourse import CRASH_POINTS, MEASURABLE, NotReady, Recourse, run_cli
from support.waiting import wait_until

BROKEN = "version: 1\ntools: [\n"


def version_of(text):
    data = text.encode()
    return hashlib.sha256(struct.pack("<Q", len(data)) + data).hexdigest()[:16]


def replace(path, text):
    """As careful editors do: a new file is renamed over the old one."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    os.rename(fresh, path)


class Volume:
    """A ConfigMap's volume: the file is a link into `..data`, which is a link to a directory."""

    def __init__(self, root, text):
        self.root = root
        self.number = 0
        root.mkdir()
        self.swap(text)
        (root / "policy.yaml").symlink_to("..data/policy.yaml")

    def swap(self, text):
        self.number += 1
        directory = self.root / f"..v{self.number}"
        directory.mkdir()
        (directory / "policy.yaml").write_text(text)
        (self.root / "..data_tmp").symlink_to(directory.name)
        os.rename(self.root / "..data_tmp", self.root / "..data")


def reload_now(process):
    status, body = process.http(
        "admin", "POST", "/policy/reload", headers={"Authorization": f"Bearer {process.token}"}
    )
    return status, json.loads(body)


def put_in_force(process):
    """What the policy file says. Its watch may have seen that before we asked."""
    status, report = reload_now(process)
    assert status == 200 and report["result"] in ("reloaded", "unchanged"), report
    assert report["version"] == version_of(process.policy_path.read_text()), report


def metric(process, name):
    for line in process.probe("/metrics")[1].splitlines():
        if line.startswith(name + " ") or line.startswith(name + "{"):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def refused_count(process):
    return metric(process, 'recourse_policy_reloads_total{result="refused"}')


class Load:
    """Agents that write and read without a pause."""

    def __init__(self, process, token, agents=3):
        self.process, self.token = process, token
        self.stopped = threading.Event()
        self.wrong, self.calls = [], 0
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(agents)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def run(self, agent):
        count = 0
        while not self.stopped.is_set():
            count += 1
            try:
                if agent == 0:
                    answer = rawhttp.call(self.process.port, "GET", f"/read/{self.token}")
                    good = answer.status in (200, 404)
                else:
                    answer = rawhttp.call(
                        self.process.port, "POST", f"/plain/{self.token}-{agent}", body={"n": count}
                    )
                    good = answer.status == 201
            except (OSError, rawhttp.Cut) as error:
                answer, good = error, False
            if not good:
                self.wrong.append(repr(answer))
            self.calls += 1


@pytest.mark.parametrize("layout", ["file", "volume"])
def test_no_call_notices_that_the_policy_changes(double, tmp_path, token, layout):
    base = standard(double)
    process = Recourse(tmp_path, base, arguments=["--threads", "2"])
    if layout == "volume":
        volume = Volume(tmp_path / "volume", base)
        process.policy_path = volume.root / "policy.yaml"
        change = volume.swap
    else:
        def change(text):
            replace(process.policy_path, text)

    valid, in_force = {version_of(base)}, version_of(base)
    with process:
        with Load(process, token) as load:
            for number in range(120):
                bad = number % 3 == 2
                text = BROKEN + f"# {number}\n" if bad else base + f"# {number}\n"
                before = refused_count(process)
                if not bad:
                    in_force = version_of(text)
                    valid.add(in_force)
                change(text)
                if number % 6 == 0:  # nobody says anything: the files are watched
                    pass
                elif number % 2 == 0:
                    process.process.send_signal(signal.SIGHUP)
                else:
                    status, report = reload_now(process)
                    assert status == (422 if bad else 200), report
                    assert not bad or "policy.yaml:" in report["detail"]
                if bad:
                    wait_until(lambda: refused_count(process) > before, "not refused")
                state = wait_until(
                    lambda: (s := process.admin("GET", "/policy"))["version"] == in_force and s,
                    f"{number}: {in_force} is not in force",
                )
                assert state["last_reload"]["result"] in ("refused", "reloaded", "unchanged")
                # Those that were under way, and one that began under this policy.
                wanted = load.calls + len(load.threads) + 1
                wait_until(lambda: load.calls >= wanted, "nobody is answered any more")
            assert load.calls > 100
        assert not load.wrong, load.wrong[:5]
        events = process.events()
        assert {event["policy_version"] for event in events} <= valid
        assert len({event["policy_version"] for event in events}) > 10
        assert process.verify()["ok"]
        assert metric(process, "recourse_policy_info") == 1
        assert process.stop() == 0


def test_a_half_written_file_and_a_silent_change_are_seen_as_a_whole(double, tmp_path, token):
    base = standard(double)
    with Recourse(tmp_path, base) as process:
        with open(process.policy_path, "w", encoding="utf-8") as file:
            for line in base.splitlines(keepends=True):
                file.write(line)
            file.write("# written in place\n")
        wanted = version_of(base + "# written in place\n")
        wait_until(lambda: process.admin("GET", "/policy")["version"] == wanted, "not seen")
        assert process.stop() == 0


def test_a_call_in_flight_keeps_the_policy_it_began_with(double, tmp_path, token):
    old = standard(double)
    new = old.replace("plain.create", "plain.renamed")
    for path in (f"/plain/{token}", f"/slow/{token}"):
        steps = ["read", {"gate": token}, *(["execute", "answer"] if "plain" in path else [])]
        if "slow" in path:
            steps.append({"send": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"})
        double.script("*", path, steps)
    with Recourse(tmp_path, old) as process:
        answers = {}

        def run(method, path):
            body = {"a": 1} if method == "POST" else b""
            answers[method] = rawhttp.call(process.port, method, path, body=body)

        calls = [
            threading.Thread(target=run, args=("POST", f"/plain/{token}")),
            threading.Thread(target=run, args=("GET", f"/slow/{token}")),
        ]
        for call in calls:
            call.start()
        double.await_requests("POST", f"/plain/{token}")
        double.await_requests("GET", f"/slow/{token}")
        replace(process.policy_path, new)
        put_in_force(process)
        assert [o["tool"] for o in process.admin("GET", "/policy")["orphaned"]] == ["plain.create"]
        assert metric(process, "recourse_policy_orphaned_operations") == 1
        double.open_gate(token)
        for call in calls:
            call.join()
        assert answers["POST"].status == 201 and answers["GET"].status == 200
        rows = process.events_for(f"/plain/{token}")
        assert {(row["tool"], row["policy_version"]) for row in rows} == {
            ("plain.create", version_of(old))
        }
        later = rawhttp.call(process.port, "POST", f"/plain/{token}-later", body={"a": 1})
        assert later.status == 201
        assert process.events_for(f"/plain/{token}-later")[-1]["tool"] == "plain.renamed"
        assert process.stop() == 0
        logged = {line["policy"] for line in process.access_log() if line["status"] != 404}
        assert logged == {version_of(old), version_of(new)}


def lose(double, process, token):
    """A probed write whose answer is lost, and whose probes tell nothing for now."""
    path = f"/probed/{token}"
    double.script("GET", path, [{"send": "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"}])
    double.script("POST", path, ["read", "execute", "rst"], times=1)
    answer = rawhttp.call(process.port, "POST", path, body={"client_ref": token})
    assert answer.status == 502, answer
    process.await_phase(path, "UNCERTAIN")
    return path


@pytest.mark.parametrize("restart", [False, True])
def test_an_unknown_is_settled_by_the_policy_it_began_under(double, tmp_path, token, restart):
    old = standard(double)
    begin, end = old.index("  probed.create:"), old.index("  keyed.create:")
    new = old[:begin] + old[end:]
    with Recourse(tmp_path, old) as process:
        path = lose(double, process, token)
        replace(process.policy_path, new)
        if restart:
            process.kill()
            process.start()
        else:
            assert reload_now(process)[0] == 200
        orphan = process.admin("GET", "/policy")["orphaned"]
        seen = [(o["tool"], o["reason"], o["operations"], o["definition_kept"]) for o in orphan]
        assert seen == [("probed.create", "tool gone", 1, True)]
        assert '"tool":"probed.create"' in process.stderr()
        assert "put the tool back" in process.stderr()
        shown = process.cli("policy", "status")
        assert "probed.create (tool gone)" in shown.stdout, shown
        double.ask("clear")
        assert process.await_phase(path, "SUCCEEDED")["external_ref"]
        replace(process.policy_path, new + "# again\n")
        assert reload_now(process)[0] == 200
        state = process.admin("GET", "/policy")
        assert state["orphaned"] == [] and version_of(old) not in state["older_versions_held"]
        assert metric(process, "recourse_policy_orphaned_operations") == 0
        assert process.stop() == 0


def test_a_lost_old_policy_is_told_with_what_is_used_instead(double, tmp_path, token):
    old = standard(double)
    with Recourse(tmp_path, old) as process:
        path = lose(double, process, token)
        process.kill()
        (process.data / "policies" / version_of(old)).unlink()
        process.policy_path.write_text(old + "# changed\n")
        process.start()
        assert "under a policy that is lost" in process.stderr()
        assert "is not found, and is sent again" in process.stderr()
        (orphan,) = process.admin("GET", "/policy")["orphaned"]
        assert (orphan["tool"], orphan["reason"]) == ("probed.create", "policy lost")
        assert metric(process, "recourse_policy_orphaned_operations") == 1
        assert "probed.create (policy lost)" in process.cli("policy", "status").stdout
        double.ask("clear")
        process.await_phase(path, "SUCCEEDED")
        assert process.stop() == 0


def test_an_unknown_is_not_sent_again_because_a_new_policy_names_a_key(double, tmp_path, token):
    old = standard(double)
    new = old.replace("hosts: [ shop.test", "key_header: Idempotency-Key, hosts: [ shop.test")
    path = f"/plain/{token}"
    double.script("POST", path, ["read", "execute", "rst"], times=1)
    with Recourse(tmp_path, old) as process:
        call = {"headers": rawhttp.traced("7" * 32), "body": {"a": 1}}
        assert rawhttp.call(process.port, "POST", path, **call).status == 502
        replace(process.policy_path, new)
        put_in_force(process)
        again = rawhttp.call(process.port, "POST", path, **call)
        assert (again.status, again.outcome) == (409, "unknown"), again
        assert len(double.requests(path)) == 1
        assert process.stop() == 0


def test_a_mode_cannot_change_while_it_runs(double, tmp_path):
    old = standard(double)
    with Recourse(tmp_path, old) as process:
        replace(process.policy_path, old.replace("version: 1", "version: 1\nmode: observe"))
        status, report = reload_now(process)
        assert status == 422 and "mode: cannot change" in report["detail"]
        assert process.admin("GET", "/policy")["version"] == version_of(old)
        shown = process.cli("policy", "reload")
        assert shown.returncode == 3 and "mode: cannot change" in shown.stderr
        assert process.stop() == 0
        # Nobody refused it: nobody was there.
        shown = process.cli("policy", "reload")
        assert shown.returncode == 1 and "is recourse running there?" in shown.stderr


def test_a_file_that_others_may_write_to_is_refused_at_start_and_later(
    double, tmp_path, tmp_path_factory
):
    old = standard(double)
    with Recourse(tmp_path, old) as process:
        process.policy_path.chmod(0o666)
        wait_until(lambda: refused_count(process) == 1, "not noticed")
        assert "everyone may write to this file" in process.stderr()
        process.policy_path.chmod(0o600)
        wait_until(
            lambda: process.admin("GET", "/policy")["last_reload"]["result"] == "unchanged",
            "not taken back",
        )
        outside = tmp_path_factory.mktemp("elsewhere")
        (outside / "policy.yaml").write_text(old)
        process.policy_path.unlink()
        process.policy_path.symlink_to(outside / "policy.yaml")
        assert "leads out of its directory" in reload_now(process)[1]["detail"]
        assert process.stop() == 0
        with pytest.raises(NotReady):
            process.start()
        assert process.process.returncode == 3
        process.policy_path.unlink()
        process.policy_path.write_text(old)
        process.policy_path.chmod(0o666)
        with pytest.raises(NotReady):
            process.start()
        assert process.process.returncode == 3


def test_files_that_cannot_be_read_leave_the_old_policy_in_force(double, tmp_path, token):
    """The path is a link, so that each state of it comes in one step."""
    old = standard(double)
    process = Recourse(tmp_path, old)
    states = {
        "is not a regular file": lambda path: os.mkfifo(path),
        "has no *.yaml file": lambda path: path.mkdir(),
        "cannot be read: No such file or directory; name a policy file": lambda path: None,
        "everyone may write to this file": lambda path: (path.write_text(old), path.chmod(0o666)),
        "cannot be read: Permission denied; let the user that runs this": (
            lambda path: (path.write_text(old), path.chmod(0))
        ),
    }
    # Root reads whatever it likes; without its capabilities it is a user as others.
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    process.wrapper = bare if os.geteuid() == 0 else []
    with process:
        for number, (problem, make) in enumerate(states.items()):
            path = tmp_path / f"state{number}"
            make(path)
            (tmp_path / "next").symlink_to(path.name)
            os.rename(tmp_path / "next", process.policy_path)
            wait_until(lambda: refused_count(process) == 2 * number + 1, problem)
            told = process.admin("GET", "/policy")
            assert told["version"] == version_of(old) and told["last_reload"]["result"] == "refused"
            assert problem in told["last_reload"]["problems"][0], told
            assert problem in process.stderr()
            assert rawhttp.call(process.port, "POST", f"/plain/{token}", body={}).status == 201
            shown = process.cli("policy", "reload")
            assert shown.returncode == 3 and problem in shown.stderr
            assert refused_count(process) == 2 * number + 2
            replace(process.policy_path, old)
            wait_until(
                lambda: process.admin("GET", "/policy")["last_reload"]["result"] == "unchanged",
                "not taken back",
            )
        assert process.stop() == 0


def test_a_read_only_mount_may_be_writable_for_everyone(double, tmp_path, token):
    """So look the volumes of ConfigMaps: mode 0777, changed by the kubelet alone."""
    disk, old = tmp_path / "disk", standard(double)
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "mode=0777,size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can be mounted by root only")
    try:
        process = Recourse(tmp_path / "run", old)
        process.policy_path = disk / "policy.yaml"
        process.policy_path.write_text(old)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with process:
            assert rawhttp.call(process.port, "POST", f"/plain/{token}", body={}).status == 201
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            replace(process.policy_path, old + "# changed\n")
            changed = version_of(old + "# changed\n")
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            process.process.send_signal(signal.SIGHUP)
            wait_until(
                lambda: process.admin("GET", "/policy")["version"] == changed,
                "not taken",
            )
            assert process.stop() == 0
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_policy_that_waited_for_a_file_is_taken_once_that_is_there(double, tmp_path, token):
    """A ConfigMap may arrive before the Secret that it names."""
    old = standard(double)
    ca = tmp_path / "ca.pem"
    new = old.replace(
        "backends:\n",
        f"backends:\n  bank: {{ url: 'https://bank.test', tls: {{ ca_file: {ca} }} }}\n",
    )
    with Recourse(tmp_path, old) as process:
        replace(process.policy_path, new)
        wait_until(lambda: refused_count(process) == 1, "not refused")
        assert "ca.pem" in process.admin("GET", "/policy")["last_reload"]["problems"][0]
        os.rename(certificates.Maker(tmp_path / "made").cert, ca)
        wait_until(
            lambda: process.admin("GET", "/policy")["version"] == version_of(new), "not taken"
        )
        assert refused_count(process) == 1
        wait_until(  # told once every thread has the policy
            lambda: process.admin("GET", "/policy")["last_reload"]["trigger"] == "retry",
            "not told",
        )
        assert process.stop() == 0


def test_a_refusal_with_many_errors_is_told_in_few_lines(double, tmp_path):
    old = standard(double)
    with Recourse(tmp_path, old) as process:
        replace(process.policy_path, old + "".join(f"x{n}: 1\n" for n in range(60_000)))
        status, report = reload_now(process)
        assert status == 422 and len(report["problems"]) == 51
        assert report["problems"][-1] == "951 more errors: see `recourse policy check`"
        log = process.stderr()  # the change of the file may have been noticed, too
        assert log.count("policy refused") == 51 * log.count("the policy was not reloaded")
        listed = run_cli("policy", "check", process.policy_path)
        assert listed.stdout.count("unknown key") == 1000
        assert "59000 more errors are not listed" in listed.stdout
        assert process.stop() == 0


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("passes", [1, 2, 1, 2, 1])
def test_a_kill_in_the_swap_loses_nothing(double, tmp_path, token, passes):
    old = standard(double)
    new = old.replace("plain.create", "plain.renamed")
    process = Recourse(tmp_path, old, arguments=["--threads", "2"])
    with process:
        process.kill()
        process.start({"RECOURSE_CRASH_POINT": f"k25:{passes}"})
        before = {"headers": rawhttp.traced("8" * 32), "body": {"a": 1}}
        assert rawhttp.call(process.port, "POST", f"/plain/{token}", **before).status == 201
        replace(process.policy_path, new)
        with pytest.raises((OSError, ConnectionError)):
            reload_now(process)
        assert process.wait() == -signal.SIGKILL
        process.start()
        assert process.admin("GET", "/policy")["version"] == version_of(new)
        assert process.verify()["ok"]
        assert rawhttp.call(process.port, "POST", f"/plain/{token}-2", body={"a": 1}).status == 201
        assert process.stop() == 0


@pytest.mark.skipif(not MEASURABLE, reason="sanitizers keep freed memory back")
def test_replaced_policies_are_freed(double, tmp_path, token):
    tools = "".join(
        f'  t{n}: {{ match: "GET shop /t{n}/{{id}}/x", effect: read }}\n' for n in range(1000)
    )
    base = standard(double, extra_tools=tools)
    with Recourse(tmp_path, base) as process, Load(process, token, agents=2):
        sizes = []
        for number in range(30):
            replace(process.policy_path, base + f"# {number}\n")
            # The watch may have been faster.
            assert reload_now(process)[1]["version"] == version_of(base + f"# {number}\n")
            sizes.append(process.memory_kib()[0])
        assert sizes[-1] - sizes[9] < 20_000, sizes
