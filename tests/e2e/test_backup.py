"""A backup is a consistent copy made under load; what is restored from it starts and remembers."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.history import Write
from support.policies import standard
from support.recourse import BINARY, CRASH_POINTS, WAIT_MAX, NotReady, Recourse, environment
from support.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def send(process, write):
    with rawhttp.Connection(process.port) as connection:
        connection.send(write.data)
        return connection.response("POST")


def restore(process, backup, directory):
    """The steps of the README."""
    directory.mkdir(mode=0o700)
    shutil.copyfile(backup, directory / "data.mdb")
    (directory / "data.mdb").chmod(0o600)
    for secret in ("install.secret", "ledger.key"):
        shutil.copy(process.data / secret, directory)


def check_quarantine(process, double, write):
    """What was done since the backup is not remembered, and nothing new is sent before that is
    accepted; restarts do not change it."""
    for _ in range(2):
        assert "the ledger was restored from a backup" in process.stderr()
        assert re.search(r'"written":"20\d\d-\d\d-\d\dT[\d:]+Z"', process.stderr())
        assert "refused: restored from a backup" in process.cli("ledger", "status").stdout
        refused = send(process, write)
        assert refused.status == 503 and refused.json()["type"].endswith("/log-restored")
        assert refused.json()["outcome"] == "not_executed" and not double.requests(write.path)
        assert rawhttp.call(process.port, "GET", "/read/x").status == 200
        assert "recourse_store_restored 1" in process.probe("/metrics")[1]
        process.kill()
        process.start()
    for words in ((), ("--reason", " ")):
        assert "--reason" in process.cli("ledger", "accept", *words).stderr
    accepted = process.cli("ledger", "accept", "--reason", "nothing was done since")
    assert accepted.returncode == 0 and "ok: new writes" in accepted.stdout, accepted
    again = process.cli("ledger", "accept", "--reason", "once more")
    assert again.returncode == 0 and "nothing to accept" in again.stdout, again
    assert send(process, write).status == 201
    process.kill()
    process.start()
    assert send(process, write).replayed
    assert "accepted" in process.cli("ledger", "status").stdout


def test_a_backup_under_load_is_consistent_and_can_be_restored(double, tmp_path, token):
    backup = tmp_path / "backup.mdb"
    ended = threading.Event()
    answers, slowest = {}, []

    def agent(name):
        worst = 0.0
        while not ended.is_set():
            write = Write(f"/plain/{token}-{name}-{len(answers)}", TRACE)
            began = time.monotonic()
            answer = send(process, write)
            assert answer.status == 201
            worst = max(worst, time.monotonic() - began)
            answers[write.path] = (write, answer.body)
        slowest.append(worst)

    with Recourse(tmp_path, standard(double)) as process:
        with ThreadPoolExecutor(4) as pool:
            agents = [pool.submit(agent, number) for number in range(4)]
            try:
                wait_until(lambda: len(answers) >= 20, lambda: f"{len(answers)} of 20 answers")
                before = dict(answers)
                late, copies = time.monotonic() + WAIT_MAX, []
                while len(copies) < 4 or (len(answers) == len(before) and time.monotonic() < late):
                    backup.unlink(missing_ok=True)
                    copies.append(process.cli("ledger", "backup", backup))
                after = len(answers)
            finally:
                ended.set()
            for one in agents:
                one.result()
        for done in copies:
            assert done.returncode == 0 and done.stdout.startswith("ok: "), done
        assert after > len(before), "no call was made during the backups"
        assert backup.stat().st_mode & 0o777 == 0o600
        assert not (tmp_path / "backup.mdb.part").exists()
        print(f"slowest of {len(answers)} calls: {max(slowest) * 1000:.1f} ms")
        rows = int(copies[-1].stdout.split()[1])
        assert process.verify()["ok"] and process.stop() == 0

    restored = Recourse(tmp_path / "restored", standard(double))
    restore(process, backup, restored.data)
    with restored:
        report = restored.verify()
        assert report["ok"] and report["rows"] >= rows
        for write, body in before.values():
            again = send(restored, write)
            assert again.replayed and again.body == body
            assert len(double.effects(write.path)) == 1
        check_quarantine(restored, double, Write(f"/plain/{token}-since", TRACE))
        assert restored.stop() == 0


def test_a_backup_takes_the_place_of_no_file(double, tmp_path, token):
    kept = tmp_path / "kept.mdb"
    kept.write_text("of yesterday")
    with Recourse(tmp_path, standard(double)) as process:
        refused = process.cli("ledger", "backup", kept)
        assert refused.returncode == 1 and "is there already" in refused.stderr, refused
    assert kept.read_text() == "of yesterday" and not list(tmp_path.glob("*.part"))


def test_a_restore_with_another_secret_is_refused(double, tmp_path, token):
    backup = tmp_path / "backup.mdb"
    with Recourse(tmp_path, standard(double)) as process:
        send(process, Write(f"/plain/{token}", TRACE))
        assert process.cli("ledger", "backup", backup).returncode == 0
    restored = Recourse(tmp_path / "restored", standard(double))
    restore(process, backup, restored.data)
    (restored.data / "install.secret").write_text("0" * 64 + "\n")
    with pytest.raises(NotReady, match="install.secret is not the one"):
        restored.start()
    assert restored.process.returncode == 78


def test_backups_are_refused_without_the_token_and_one_at_a_time(double, tmp_path, token):
    with Recourse(tmp_path, standard(double)) as process:
        send(process, Write(f"/plain/{token}", TRACE))
        status, _ = process.http("admin", "POST", "/ledger/backup")
        assert status == 401
        bad = process.cli("ledger", "backup", tmp_path / "no" / "such" / "place")
        assert bad.returncode == 1 and "cannot create" in bad.stderr
        assert process.admin("POST", "/ledger/verify")["ok"]


@pytest.mark.skipif(not CRASH_POINTS, reason="this binary has no crash points")
@pytest.mark.parametrize("turn", range(5))
def test_a_kill_during_a_backup_leaves_no_half_copy_and_a_whole_ledger(
    double, tmp_path, token, turn
):
    backup = tmp_path / "backup.mdb"
    process = Recourse(tmp_path, standard(double))
    process.start({"RECOURSE_CRASH_POINT": "k24:1", "RECOURSE_CRASH_HITS": str(tmp_path / "hits")})
    first = send(process, Write(f"/plain/{token}", TRACE))
    done = process.cli("ledger", "backup", backup)
    assert process.wait() == -signal.SIGKILL
    assert done.returncode == 1 and "broke off" in done.stderr, done
    assert not backup.exists() and not (tmp_path / "backup.mdb.part").exists()
    with process:
        assert send(process, Write(f"/plain/{token}", TRACE)).body == first.body
        assert process.verify()["ok"]
        assert process.cli("ledger", "backup", backup).returncode == 0


def test_a_reader_that_goes_away_ends_its_backup(double, tmp_path, token):
    """And the next one can begin."""
    with Recourse(tmp_path, standard(double)) as process:
        for i in range(30):
            send(process, Write(f"/plain/{token}-{i}", TRACE))
        for _ in range(3):
            command = [
                BINARY, "ledger", "backup", str(tmp_path / "gone.mdb"),
                "--admin", f"127.0.0.1:{process.ports['admin']}",
                "--admin-token-file", str(process.token_path),
            ]  # fmt: skip
            gone = subprocess.Popen(
                command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            os.kill(gone.pid, signal.SIGKILL)
            gone.wait()
        wait_until(
            lambda: process.cli("ledger", "backup", tmp_path / "backup.mdb").returncode == 0,
            "no backup was possible any more",
        )
        assert process.stop() == 0
