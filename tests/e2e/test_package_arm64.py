"""The package and the image for arm64, by the recipes of those for this processor: installed beside
what Debian has for arm64, and run by qemu. `./dev arm64` names that Debian; else nothing is run."""

import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import tarfile

import pytest

from support import rawhttp
from support.policies import standard
from support.recourse import ROOT, Recourse
from support.waiting import WAIT_MAX
from test_image import ARCHIVER
from test_image import MAKER as IMAGE_MAKER
from test_package import MAKER, dpkg, run

SYSTEM = pathlib.Path(os.environ.get("RECOURSE_ARM64_ROOT", "/nowhere"))
BUILT = ROOT / "build/arm64/recourse"
pytestmark = pytest.mark.skipif(not SYSTEM.exists(), reason="runs in ./dev arm64")
# Debian's own, of which nothing but files of its root is there.
OF_EACH_DEBIAN = {"init-system-helpers", "systemd"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    run(MAKER, BUILT, folder, SYSTEM, timeout=WAIT_MAX * 5)
    (made,) = folder.glob("recourse_*_arm64.deb")
    return made


def runner(path, system, program):
    """A program that runs here. What a ledger may grow to, qemu takes at once."""
    path.write_text("#!/bin/sh\nexec qemu-aarch64-static -E RECOURSE_LEDGER_MAX=1GiB "
                    f'-L "{system}" "{program}" "$@"\n')  # fmt: skip
    path.chmod(0o755)
    return str(path)


def writes_and_replays(program, double, directory, token):
    proxy = Recourse(directory, standard(double))
    proxy.binary = program
    fields = {**rawhttp.traced(secrets.token_hex(16)), "Content-Type": "application/json"}
    path = f"/plain/{token}"
    with proxy:
        first, again = (
            rawhttp.call(proxy.port, "POST", path, headers=fields, body={"client_ref": token})
            for _ in range(2)
        )
        assert first.status == 201 and again.replayed and again.body == first.body
        assert proxy.verify()["ok"] and proxy.stop() == 0
    assert len(double.effects(path)) == 1


def test_the_package_is_installed_and_answers(package, double, tmp_path, token):
    root = tmp_path / "root"
    for name in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / name).mkdir(parents=True)
    shutil.copy(SYSTEM / "var/lib/dpkg/status", root / "var/lib/dpkg/status")
    dpkg(root, "--add-architecture", "arm64")
    dpkg(root, "--install", package)
    told = run("dpkg", f"--root={root}", "--status", "recourse:arm64").stdout
    assert "\nStatus: install ok installed\n" in told and "\nArchitecture: arm64\n" in told
    there = set(re.findall(r"^Package: (.+)$", (SYSTEM / "var/lib/dpkg/status").read_text(), re.M))
    needed = re.search(r"^Depends: (.+)$", told, re.M)[1]
    for one in needed.split(", "):
        assert {name.split()[0] for name in one.split(" | ")} & (there | OF_EACH_DEBIAN), one
    installed = runner(tmp_path / "recourse", SYSTEM, root / "usr/bin/recourse")
    version = re.search(r"^Version: (.+)$", told, re.M)[1]
    assert run(installed, "--version").stdout == f"recourse {version}\n"
    writes_and_replays(installed, double, tmp_path / "run", token)


def test_the_image_holds_all_that_it_needs_and_answers(double, tmp_path, token):
    root, archive = tmp_path / "root", tmp_path / "image.tar"
    run(IMAGE_MAKER, BUILT, root, SYSTEM, timeout=WAIT_MAX * 5)
    run(ARCHIVER, root, archive, timeout=WAIT_MAX * 5)
    with tarfile.open(archive) as tar:
        (one,) = json.load(tar.extractfile("index.json"))["manifests"]
        manifest = tar.extractfile(f"blobs/sha256/{one['digest'].partition(':')[2]}").read()
    assert one["platform"] == {"architecture": "arm64", "os": "linux"}
    assert hashlib.sha256(manifest).hexdigest() == one["digest"].partition(":")[2]
    assert archive.stat().st_size < 12_000_000
    inside = runner(tmp_path / "recourse", root, root / "usr/bin/recourse")
    writes_and_replays(inside, double, tmp_path / "run", token)
