"""Storage that fails under load (s01-s12): no write after the first error, reads go on, the exit
code says what happened, and after a restart the checker finds every promise kept.

RECOURSE_E2E_SEED repeats the random choices, RECOURSE_IMAGES_E2E sets the disks of the last test.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.campaign import Campaign
from support.disks import fill, run_read_only, try_mount
from support.history import Write
from support.policies import standard
from support.recourse import WAIT_MAX, NotReady, Recourse
from support.shim import IMAGES, Shim, needs_shim
from support.waiting import made_in_time, wait_until

LATCHED, CUT, REFUSED = 74, 75, 78
MOVED_AFTER = 0.25  # seconds, from the journal
SEED = os.environ.get("RECOURSE_E2E_SEED") or str(random.SystemRandom().getrandbits(32))
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NTH = range(1, 21)
FAULTS = {
    # One-shot and sticky in turn.
    "journal": [f"journal:{n}:EIO{':sticky' if n % 2 else ''}" for n in NTH],
    "written": [f"journal:{n}:late" for n in (1, 2, 7)],
    # Rows of the journal that cannot be moved into data.mdb: they were confirmed before.
    "fdatasync": [f"fdatasync:{n}:EIO{':sticky' if n % 2 else ''}" for n in range(1, 7)],
    "meta": [f"dpwrite:{n}:{what}" for n in (1, 2, 7) for what in ("EIO", "late", "short")],
    "pages": [f"pwrite:{n}:{what}" for n in (1, 9) for what in ("EIO", "ENOSPC", "short")],
}


def send(process, write):
    with rawhttp.Connection(process.port) as connection:
        connection.send(write.data)
        return connection.response("POST")


def await_status(process, path, status):
    wait_until(lambda: process.probe(path)[0] == status, f"{path} never became {status}")


@pytest.fixture
def campaign(double, tmp_path):
    """Makes campaigns, and ends them whatever happens."""
    made = []

    def make(name, arguments=("--latched-for", "0s")):
        one = Campaign(double, str(tmp_path), standard(double, absent_after="6s"), name, 4, SEED)
        one.recourse.arguments = list(arguments)
        made.append(one)
        return one

    print(f"seed {SEED}")
    yield make
    for one in made:
        one.end()


@needs_shim
@pytest.mark.parametrize("kind", FAULTS)
def test_after_a_failed_commit_nothing_is_sent_and_reads_go_on(campaign, double, tmp_path, kind):
    run = campaign(f"s-{kind}")
    process = run.recourse
    for number, fault in enumerate(FAULTS[kind]):
        shim = Shim(tmp_path, process.data, fault)
        late = Write(f"/plain/{run.name}-late{number}", TRACE)

        def look(_, shim=shim, late=late):
            shim.arm()
            shim.await_hit()
            await_status(process, "/ready", 503)
            assert process.probe("/live")[0] == 200
            assert rawhttp.call(process.port, "GET", "/read/x").status == 200
            refused = send(process, late)
            assert refused.status == 503 and refused.json()["type"].endswith("/log-unavailable")
            process.terminate()
            assert process.wait() == LATCHED, process.stderr()[-2000:]

        run.strike_storage(shim, look)
        assert double.requests(late.path) == [], f"{fault}: a write was sent after the failure"
    found = run.reckon(run.refused_by_log())
    assert not found, "\n".join(found[:30])


@needs_shim
@pytest.mark.parametrize("fault, status", [("journal:1:EIO", 503), ("fdatasync:1:EIO", 201)])
def test_a_latched_process_ends_by_itself_so_that_it_is_restarted(
    double, tmp_path, token, fault, status
):
    """Also when the call was confirmed and its rows cannot be moved from the journal afterwards."""

    def latched(turn):
        process = Recourse(tmp_path / str(turn), standard(double), ["--latched-for", "2s"])
        write = Write(f"/plain/{token}-{turn}", TRACE)
        shim = Shim(process.directory, process.data, fault)
        process.start(shim.env)
        shim.arm()
        begun = time.monotonic()
        first = send(process, write)
        # Its first row is not moved while the call runs, unless that takes longer.
        if status == 201 and first.status != 201 and time.monotonic() - begun >= MOVED_AFTER:
            process.kill()
            return None
        assert first.status == status
        return process, write, first

    process, write, first = made_in_time(latched)
    assert process.wait() == LATCHED
    process.start()
    if status == 201:
        again = send(process, write)
        assert again.replayed and again.body == first.body
    answer = send(process, Write(f"/plain/{token}-next", TRACE))
    assert answer.status == 201 and process.verify()["ok"]
    assert process.stop() == 0


@needs_shim
def test_a_slow_disk_costs_time_and_nothing_else(double, tmp_path, token):
    shim = Shim(tmp_path, tmp_path / "data", "journal:1:120:sticky")
    with Recourse(tmp_path, standard(double), env=shim.env) as process:
        shim.arm()
        writes = [Write(f"/plain/{token}-{i}", TRACE) for i in range(3)] * 3
        with ThreadPoolExecutor(len(writes)) as pool:
            answers = list(pool.map(lambda write: send(process, write), writes))
        assert [answer.status for answer in answers] == [201] * len(writes)
        assert shim.hits() > 1
        for write in writes:
            assert len(double.effects(write.path)) == 1
        assert process.stop() == 0


@needs_shim
def test_a_disk_that_fails_during_the_start_refuses_it(double, tmp_path, token):
    """Every commit of creation and of recovery: the start ends, and the next one goes on."""
    process = Recourse(tmp_path, standard(double))
    refused = 0
    faults = [f"fdatasync:{n}:EIO" for n in range(1, 7)]
    for fault in [*faults, "dpwrite:2:late", "pwrite:1:short", "journal:1:EIO"]:
        shim = Shim(tmp_path, process.data, fault)
        shim.arm()
        try:
            process.start(shim.env)
            process.kill()
        except NotReady:
            refused += 1
            assert process.process.returncode == REFUSED, process.stderr()[-2000:]
    assert refused >= 3
    with process:
        assert send(process, Write(f"/plain/{token}", TRACE)).status == 201


@needs_shim
@pytest.mark.parametrize("left", ["nothing", "journaled rows"])
def test_kills_between_the_steps_of_a_start_lose_nothing(double, tmp_path, token, left):
    """Before each write into data.mdb and journal in turn, always from the same directory."""
    process = Recourse(tmp_path, standard(double))
    old, first = Write(f"/plain/{token}", TRACE), None
    if left != "nothing":
        process.start()
        first = send(process, old)
        process.kill()
        shutil.copytree(process.data, tmp_path / "left")
    for nth in range(1, 60):
        shutil.rmtree(process.data, ignore_errors=True)
        if left != "nothing":
            shutil.copytree(tmp_path / "left", process.data)
        shim = Shim(tmp_path, process.data, f"write:{nth}:kill")
        shim.arm()
        try:
            process.start(shim.env)
        except NotReady:
            assert process.process.returncode == -signal.SIGKILL, process.stderr()[-2000:]
        shim.armed.unlink()
        process.kill()
        with process:
            if first:
                assert send(process, old).body == first.body, nth
            assert send(process, Write(f"/plain/{token}-{nth}", TRACE)).status == 201, nth
            assert "newer rows" not in process.stderr()
        if not shim.hits():
            break
    assert 5 < nth < 59, "the steps were not passed one by one"


@needs_shim
@pytest.mark.parametrize("fault", ["journal:1:EIO", "journal:1:EIO:sticky"])
def test_a_start_does_without_a_journal_that_cannot_be_written(double, tmp_path, token, fault):
    """Its rows are in data.mdb by then: another file, or none, serves as well."""
    process = Recourse(tmp_path, standard(double))
    writes = [Write(f"/plain/{token}-{number}", TRACE) for number in range(3)]
    with process:
        bodies = [send(process, writes[0]).body]
        process.kill()
        shim = Shim(tmp_path, process.data, fault)
        shim.arm()
        process.start(shim.env)
        assert "the journal is made anew" in process.stderr()
        assert ("works without a journal" in process.stderr()) == fault.endswith("sticky")
        bodies.append(send(process, writes[1]).body)
        process.kill()
        process.start()
        bodies.append(send(process, writes[2]).body)
        assert [send(process, write).body for write in writes] == bodies
        assert process.verify()["ok"] and process.stop() == 0
    assert [len(double.effects(write.path)) for write in writes] == [1, 1, 1]


@pytest.mark.parametrize("name", ["lock.mdb", "recourse.lock", "data.mdb", "journal"])
def test_files_removed_while_it_runs(double, tmp_path, token, name):
    process = Recourse(tmp_path, standard(double), ["--latched-for", "0s"])
    old, new = Write(f"/plain/{token}-old", TRACE), Write(f"/plain/{token}-new", TRACE)
    with process:
        first = send(process, old)
        (process.data / name).unlink()
        second = send(process, new)
        assert send(process, old).body == first.body
        twin = Recourse(tmp_path / "twin", standard(double), ["--drain-timeout", "0s"])
        twin.data = process.data
        with pytest.raises(NotReady):
            twin.start()
        assert twin.process.returncode == REFUSED
        if name == "journal":
            assert second.status == 503 and double.requests(new.path) == []
            assert process.stop() == LATCHED
            process.start()  # what was in it alone was still in memory
            assert send(process, old).body == first.body
            assert send(process, new).status == 201 and process.stop() == 0
        elif name == "data.mdb":
            assert second.status == 503 and double.requests(new.path) == []
            assert process.stop() == LATCHED
            with pytest.raises(NotReady, match="data.mdb is missing"):
                process.start()
            assert not (process.data / "data.mdb").exists(), "an empty ledger was made"
        else:
            assert second.status == 201 and process.stop() == 0
            process.start()
            assert send(process, new).body == second.body


def test_a_twin_in_another_pid_namespace_is_refused(double, tmp_path, token):
    if not shutil.which("unshare") or subprocess.run(
        ["unshare", "--pid", "--fork", "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("no PID namespaces here")
    with Recourse(tmp_path, standard(double)) as first:
        twin = Recourse(tmp_path / "twin", standard(double), ["--drain-timeout", "0s"])
        twin.data = first.data
        ended = subprocess.run(
            ["unshare", "--pid", "--fork", *twin.command()],
            capture_output=True, text=True, timeout=WAIT_MAX, check=False,
            env={**os.environ, "RECOURSE_UNSAFE_FS": "true"},
        )  # fmt: skip
        assert ended.returncode == REFUSED and "is in use" in ended.stderr, ended
        assert send(first, Write(f"/plain/{token}", TRACE)).status == 201
        assert first.verify()["ok"] and first.stop() == 0


def test_a_file_cut_under_load_ends_the_process_and_the_next_start_refuses(campaign):
    run = campaign("cut")
    process = run.recourse

    def cut(_):
        wait_until(lambda: run.made >= 20, lambda: f"{run.made} of 20 calls")
        os.truncate(process.data / "data.mdb", 2 * 4096)
        assert process.wait() == CUT, process.stderr()[-2000:]

    process.start()
    run.drive(cut)
    assert "the ledger cannot be read any more" in process.stderr()
    with pytest.raises(NotReady, match="cut off"):
        process.start()
    assert process.process.returncode == REFUSED


def test_a_lost_volume_and_an_older_copy_are_noticed(double, tmp_path, token):
    process = Recourse(tmp_path, standard(double))
    with process:
        send(process, Write(f"/plain/{token}", TRACE))
        process.stop()
        shutil.copytree(process.data, tmp_path / "old")
        process.start()
        send(process, Write(f"/plain/{token}-later", TRACE))
        printed = process.cli("ledger", "verify").stdout
        rows, head = printed.split()[1], printed.split()[-1]
        process.stop()
        process.arguments = ["--expect-ledger", f"{rows}:{head}"]
        process.start()
        process.stop()
        shutil.rmtree(process.data)
        with pytest.raises(NotReady, match="cannot read"):
            process.start()
        shutil.copytree(tmp_path / "old", process.data)
        with pytest.raises(NotReady, match="older copy"):
            process.start()
        assert process.process.returncode == REFUSED


@needs_shim
def test_disks_after_a_power_cut_under_load_hold_every_answer(double, tmp_path, token):
    """What the real binary wrote, as a power cut may leave it, against what agents were told."""
    log, told = tmp_path / "shim-log", tmp_path / "told"
    process = Recourse(tmp_path, standard(double))
    shim = Shim(tmp_path, process.data, log=log)
    lines = []

    def agent(number):
        for i in range(12):
            answer = send(process, Write(f"/plain/{token}-{number}-{i}", TRACE))
            assert answer.status == 201
            # Whatever was durable before the answer stands before this place of the log.
            lines.append(f"{os.stat(log).st_size} {answer.header('Idempotency-Key')}\n")

    for _ in range(2):
        process.start(shim.env)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(agent, range(len(lines), len(lines) + 6)))
        process.process.send_signal(signal.SIGKILL)
        process.wait()
    told.write_text("".join(lines))
    count = os.environ.get("RECOURSE_IMAGES_E2E", "300")
    seed = str(int(SEED) % 2**32) if SEED.isdigit() else "1"
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else str(tmp_path)
    ended = subprocess.run(
        [IMAGES, log, told, count, seed, f"{scratch}/recourse-images-{os.getpid()}"],
        capture_output=True, text=True, timeout=5 * WAIT_MAX, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, f"seed {seed}: {ended.stdout[-3000:]}{ended.stderr[-1000:]}"
    assert f"{len(lines)} answers" in ended.stdout


@needs_shim
def test_a_file_system_that_turns_read_only(double, tmp_path, token):
    """s06: as ext4 does after an error of its own. The running process latches; the next start says
    what is wrong and changes nothing; once the disk can be written again nothing is missing."""
    process = Recourse(tmp_path, standard(double), ["--latched-for", "0s"])
    shim = Shim(tmp_path, process.data, "write:1:EROFS:sticky")
    process.start(shim.env)
    old, new = Write(f"/plain/{token}-old", TRACE), Write(f"/plain/{token}-new", TRACE)
    first = send(process, old)
    shim.arm()
    refused = send(process, new)
    assert refused.status == 503 and refused.json()["type"].endswith("/log-unavailable")
    await_status(process, "/ready", 503)
    assert send(process, old).body == first.body and not double.requests(new.path)
    assert rawhttp.call(process.port, "GET", "/read/x").status == 200
    assert process.stop() == LATCHED
    with pytest.raises(NotReady, match="it cannot be written|Read-only"):
        process.start(shim.env)
    assert process.process.returncode == REFUSED
    twin = Recourse(tmp_path / "twin", standard(double))
    twin.data = tmp_path / "read-only"
    ended = run_read_only(twin.command(), process.data, twin.data)
    if ended is not None:  # a mount namespace can be had
        assert ended.returncode == REFUSED, ended
        assert "Read-only file system; the ledger's directory must be writable" in ended.stderr
    with process:
        assert send(process, old).body == first.body and send(process, new).status == 201
        assert process.verify()["ok"]


@needs_shim
@pytest.mark.parametrize("index", ["kept", "lost"])
def test_a_start_on_a_full_disk_loses_nothing(double, tmp_path, token, index):
    """s04: with the index there, or to be built anew on a disk without room for it."""
    disk = tmp_path / "disk"
    is_mounted = try_mount(disk, "4m")
    process = Recourse(tmp_path / "run", standard(double))
    process.data = disk / "data"
    writes = [Write(f"/plain/{token}-{i}", TRACE) for i in range(20)]
    try:
        with process:
            bodies = [send(process, write).body for write in writes]
            process.kill()
            if index == "lost":
                shutil.rmtree(process.data / "index")
            fault = {}
            if is_mounted:
                fill(disk / "other")
            else:
                shim = Shim(tmp_path, process.data, "pwrite:1:ENOSPC:sticky")
                shim.arm()
                fault = shim.env
            try:
                process.start(fault)
                assert is_mounted and index == "kept", "it started without room for its index"
                assert send(process, writes[0]).replayed
                process.kill()
            except NotReady:
                assert process.wait() == REFUSED, process.stderr()[-2000:]
                assert "cannot be used" in process.stderr() or "cannot be read" in process.stderr()
            if is_mounted:
                (disk / "other").unlink()
            process.start()
            for write, body in zip(writes, bodies):
                again = send(process, write)
                assert again.replayed and again.body == body
                assert len(double.effects(write.path)) == 1
            assert send(process, Write(f"/plain/{token}-new", TRACE)).status == 201
            assert process.verify()["ok"] and process.stop() == 0
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)
