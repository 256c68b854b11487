"""The Debian package: proxy/package/deb.sh makes it of the binary under test, dpkg installs it into
an empty root, and what it installed is started as the unit says, with the test as its manager."""

import contextlib
import glob
import gzip
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from support import rawhttp
from support.recourse import BINARY, ROOT, STOP_MAX, environment, run_cli
from support.waiting import WAIT_MAX, wait_until

MAKER = ROOT / "proxy/package/deb.sh"
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ["dpkg-deb", "dpkg-shlibdeps", "help2man", "llvm-strip-19", "systemd-sysusers"]
MISSING = [one for one in NEEDED if not shutil.which(one, path=PROGRAMS)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
# Of `systemd-analyze security`, times ten: what is left is a proxy's need of the network.
EXPOSURE_MAX = 15
# With the time that a drain takes, which may be longer than what the unit allows: 25 s and 5 s.
STOPPING = "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000"
POLICY = "etc/recourse/policy.yaml"
UNIT = "usr/lib/systemd/system/recourse.service"
PAGES = "usr/share/man/man1"
OBSERVING = """\
version: 1
mode: observe
unlisted: {{ reads: pass, writes: guard }}
backends: {{ shop: {{ url: "{url}", hosts: [ shop.test ] }} }}
"""


def run(*command, **options):
    options = {"timeout": WAIT_MAX, "capture_output": True, "text": True, **options}
    done = subprocess.run(list(map(str, command)), check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def dpkg(root, *words):
    return run("dpkg", f"--root={root}", "--force-script-chrootless", "--force-depends",
               "--force-not-root", "--force-confold", "--force-unsafe-io",
               f"--log={root}/dpkg.log", *words,
               env={**os.environ, "PATH": PROGRAMS})  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Of the binary under test; or one that was made elsewhere."""
    if made := os.environ.get("RECOURSE_PACKAGE"):
        return made
    folder = tmp_path_factory.mktemp("package")
    quick = {**os.environ, "DPKG_DEB_COMPRESSOR_LEVEL": "1"}  # seven seconds less, same files
    print(run(MAKER, BINARY, folder, timeout=WAIT_MAX * 5, env=quick).stdout)  # how large it is
    (made,) = folder.glob("*.deb")
    return made


@pytest.fixture
def root(package, tmp_path):
    """Where nothing is but what dpkg needs, and then the package."""
    made = tmp_path / "root"
    for name in ("info", "updates", "triggers"):
        (made / "var/lib/dpkg" / name).mkdir(parents=True)
    (made / "var/lib/dpkg/status").touch()
    dpkg(made, "--install", package)
    return made


def words_of(root, key):
    """The values of a key of the installed unit, in order."""
    return re.findall(rf"^{key}=(.*)$", (root / UNIT).read_text(), re.MULTILINE)


class Manager:
    """What systemd is to a service of Type=notify: it starts it, and hears what it says."""

    def __init__(self, root, folder, socket_name):
        self.stderr_path, self.ports_path = folder / "stderr.log", folder / "ports.json"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(socket_name.replace("@", "\0", 1))
        self.socket.setblocking(False)
        self.said = []
        (command,) = words_of(root, "ExecStart")
        program, *arguments = command.split()
        arguments = [str(root) + one if one.startswith("/") else one for one in arguments]
        ports = {f"RECOURSE_{name}": "127.0.0.1:0" for name in ("LISTEN", "ADMIN", "PROBES")}
        with open(self.stderr_path, "wb") as err:
            self.process = subprocess.Popen(
                [str(root) + program, *arguments],
                env=environment({**ports, "RECOURSE_PORTS_FILE": str(self.ports_path),
                                 "NOTIFY_SOCKET": socket_name}),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
            )  # fmt: skip

    def heard(self, state):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.said.append(self.socket.recv(4096).decode())
        return state in self.said

    def await_state(self, state):
        def told():
            has_ended = self.process.poll() is not None
            assert self.heard(state) or not has_ended, self.stderr_path.read_text()
            return self.heard(state)

        wait_until(told, lambda: f"no {state}: {self.said}, {self.stderr_path.read_text()}")

    def ports(self):
        return json.loads(self.ports_path.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_MAX)
        self.socket.close()


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_the_service_tells_when_it_is_ready_and_when_it_ends(root, double, tmp_path, token, kind):
    (root / POLICY).write_text(OBSERVING.format(url=double.url))
    name = f"@recourse-{token}" if kind == "abstract" else os.path.relpath(tmp_path / "notify")
    with Manager(root, tmp_path, name) as manager:
        manager.await_state("READY=1")
        ports = manager.ports()
        assert rawhttp.call(ports["probes"], "GET", "/ready").status == 200
        assert rawhttp.call(ports["listen"], "GET", f"/read/{token}").status == 200
        assert manager.said == ["READY=1"]
        (reload,) = words_of(root, "ExecReload")
        run(*shlex.split(reload), env={"MAINPID": str(manager.process.pid)})
        log = manager.stderr_path.read_text
        wait_until(lambda: re.search(r'"policy unchanged".*"trigger":"signal"', log()), log)
        manager.process.send_signal(signal.SIGTERM)
        manager.await_state(STOPPING)
        assert manager.process.wait(STOP_MAX) == 0
        assert manager.said == ["READY=1", STOPPING]
    assert (root / "var/lib/recourse/ledger/data.mdb").exists()


def test_a_start_waits_for_the_ledger_of_one_that_ends_and_asks_for_the_time(
    root, double, tmp_path, token
):
    (root / POLICY).write_text(OBSERVING.format(url=double.url))
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with Manager(root, folders[0], f"@first-{token}") as first:
        first.await_state("READY=1")
        with Manager(root, folders[1], f"@second-{token}") as second:
            wait_until(lambda: second.heard("READY=1") or second.said, second.stderr_path.read_text)
            (asked,) = second.said
            name, time = asked.split("=")
            assert name == "EXTEND_TIMEOUT_USEC" and 30e6 < int(time) <= 35e6
            first.process.terminate()
            assert first.process.wait(STOP_MAX) == 0
            second.await_state("READY=1")
            assert second.said == [asked, "READY=1"]


def test_an_unusable_policy_is_told_and_a_restart_not_tried(root, tmp_path, token):
    (root / POLICY).write_text("version: 1\nmode: observe\nnonsense: 1\n")
    with Manager(root, tmp_path, f"@recourse-{token}") as manager:
        code = manager.process.wait(WAIT_MAX)
        assert not manager.heard("READY=1")
    assert "policy.yaml:3:1: error: nonsense" in manager.stderr_path.read_text()
    assert not (root / "var/lib/recourse/ledger").exists()
    assert str(code) in words_of(root, "RestartPreventExitStatus")[0].split()


def test_no_exit_code_that_needs_a_person_leads_to_a_restart(root):
    """Those of a wrong command line, a wrong policy and an unusable ledger; the others may pass."""
    told = dict(re.findall(r"^ *(\d+)  +(.*)$", run_cli("help", "exit-codes").stdout, re.MULTILINE))
    (prevented,) = words_of(root, "RestartPreventExitStatus")
    assert prevented.split() == ["2", "3", "78"] and set(prevented.split()) < set(told)
    assert words_of(root, "Restart") == ["on-failure"]


def test_its_policy_observes_and_belongs_to_the_administrator(root, package):
    policy = root / POLICY
    assert run_cli("policy", "check", policy).returncode == 0
    assert run_cli("policy", "test", policy).returncode == 0
    assert "\nmode: observe\n" in policy.read_text()
    changed = policy.read_text() + "# mine\n"
    policy.write_text(changed)
    ledger = root / "var/lib/recourse/ledger/data.mdb"
    ledger.parent.mkdir()
    ledger.touch()
    dpkg(root, "--install", package)
    assert policy.read_text() == changed
    dpkg(root, "--remove", "recourse")
    assert policy.read_text() == changed and not (root / "usr/bin/recourse").exists()
    assert ledger.exists(), "a removal lost what was done"
    dpkg(root, "--purge", "recourse")
    assert not policy.exists()
    assert ledger.exists(), "a purge lost what was done"
    assert "\nrecourse:" in "\n" + (root / "etc/passwd").read_text()


def test_it_makes_a_user_and_a_directory_that_is_that_users_alone(root):
    lines = (root / "etc/passwd").read_text().splitlines()
    (user,) = [line.split(":") for line in lines if line.startswith("recourse:")]
    assert user[5:] == ["/var/lib/recourse", "/usr/sbin/nologin"]
    if os.geteuid() == 0:
        status = (root / "var/lib/recourse").stat()
        assert (status.st_uid, status.st_mode & 0o777) == (int(user[2]), 0o700)
    assert words_of(root, "User") == words_of(root, "StateDirectory") == ["recourse"]
    wanted = root / "etc/systemd/system/multi-user.target.wants/recourse.service"
    assert os.path.islink(wanted), "it does not start with the machine"


def test_it_says_what_it_needs(package):
    told = run("dpkg-deb", "--field", package).stdout
    for name in ("libc6", "libssl3", "liblmdb0", "libpq5"):
        assert re.search(rf"^Depends: .*\b{name} \(>= ", told, re.MULTILINE), name
    assert f"Version: {run_cli('version').stdout.split()[1]}\n" in told
    assert re.search(r"^Maintainer: Recourse maintainers <\S+@\S+>$", told, re.MULTILINE)
    names = run("dpkg-deb", "--contents", package).stdout
    assert all(line.split()[1] == "root/root" for line in names.splitlines())


def commands(*path):
    """Every command, with those below it, as the binary tells them."""
    _, _, told = run_cli(*path, "--help").stdout.partition("\nSubcommands:\n")
    below = re.findall(r"^  ([a-z-]+) ", told.partition("\n\n")[0], re.MULTILINE)
    return [path, *(one for word in below for one in commands(*path, word))]


def test_every_command_has_a_manual_page_without_warnings(root, tmp_path):
    if not shutil.which("man"):
        pytest.skip("needs man")
    pages = sorted((root / PAGES).iterdir())
    names = {page.name for page in pages}
    assert names == {f"{'-'.join(['recourse', *path])}.1.gz" for path in commands()}
    # As `man --warnings` does it, which for each would start eight programs.
    for page in pages:
        (tmp_path / page.stem).write_bytes(gzip.decompress(page.read_bytes()))
    done = run("groff", "-k", "-t", "-mandoc", "-Tutf8", "-P-c", "-ww", "-rLL=80n",
               *(page.stem for page in pages), cwd=tmp_path,
               env={**os.environ, "LC_ALL": "C.UTF-8"})  # fmt: skip
    assert done.stderr == ""
    for page in pages:
        title = rf"^ +{page.name.split('.')[0]} +- +\w"
        assert re.search(title, done.stdout.replace("‐", "-"), re.MULTILINE), page.name
    for page, option in (("run", "--policy"), ("flows-resolve", "--step")):
        told = run("man", "--local-file", root / PAGES / f"recourse-{page}.1.gz").stdout
        assert option in told.replace("‐", "-"), told


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_its_completions_are_those_of_the_binary(root, shell):
    place = {"bash": "bash-completion/completions/recourse",
             "fish": "fish/vendor_completions.d/recourse.fish",
             "zsh": "zsh/vendor-completions/_recourse"}[shell]  # fmt: skip
    told = run_cli("completion", shell).stdout
    assert told and (root / "usr/share" / place).read_text() == told


@pytest.mark.parametrize("ours", ["helm/recourse/files/alerts.yaml",
                                  "helm/recourse/files/dashboard.json",
                                  "filters/ledger/verify_export.py"])  # fmt: skip
def test_what_it_shares_is_that_of_the_tree(root, ours):
    theirs = root / "usr/share/recourse" / Path(ours).name
    assert theirs.read_bytes() == (ROOT / ours).read_bytes()


def test_the_unit_is_correct_and_confines_the_service(root):
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    # What it stands on, which other packages bring.
    for target in glob.glob("/lib/systemd/system/*.target"):
        shutil.copy(target, (root / UNIT).parent)
    (root / "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/sh", root / "bin/sh")  # every Debian has it; /bin/kill is not in all
    done = run("systemd-analyze", "verify", "--man=no", f"--root={root}", "recourse.service")
    assert done.stdout + done.stderr == ""
    run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}",
        f"--root={root}", "recourse.service")  # fmt: skip
