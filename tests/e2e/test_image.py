"""The image: helm/image_root.sh makes all that helm/Dockerfile puts into it, and the chart's pods
run in exactly that, read-only, as its user and without rights, with no other file to fall back on.
"""

import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tarfile

import pytest
import yaml

from support.certificates import Maker
from support.kubelet import ENTRYPOINT, Node
from support.pod import TOOLS, why_not
from support.recourse import BINARY, ROOT, WAIT_MAX
from test_chart import CHART, backend, net, pod_of, render, rendered

MAKER, ARCHIVER = ROOT / "helm/image_root.sh", ROOT / "helm/image_archive.sh"
SBOM = "usr/share/sbom/recourse.spdx.json"
CAS = "etc/ssl/certs/ca-certificates.crt"
NEEDED = ["llvm-strip-19", "dpkg-query", "nft"]
MISSING = [one for one in NEEDED if not shutil.which(one, path=os.environ["PATH"] + ":/usr/sbin")]
WHY_NOT = f"needs {', '.join(MISSING)}" if MISSING else why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
__all__ = ["net"]
TLS_POLICY = """\
version: 1
unlisted: { reads: pass, writes: guard }
backends:
  four: { url: "https://four.test" }
"""
READ = """
import urllib.request
print(urllib.request.urlopen("http://four.test/orders", timeout=%f).status)
""" % WAIT_MAX


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A root like the image's; or one that was made elsewhere, by the steps of the Dockerfile."""
    if made := os.environ.get("RECOURSE_IMAGE"):
        return pathlib.Path(made)
    root = tmp_path_factory.mktemp("image") / "root"
    done = subprocess.run([MAKER, BINARY, root], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)  # how large it is
    return root


def test_it_holds_recourse_nft_and_nothing_that_runs_beside_them(image):
    programs = [path for path in image.rglob("*") if path.is_file() and not path.is_symlink()
                and path.stat().st_mode & stat.S_IXUSR and ".so" not in path.name]  # fmt: skip
    assert sorted(str(path.relative_to(image)) for path in programs) == [
        "usr/bin/recourse", "usr/sbin/nft"
    ]  # fmt: skip
    # What the binary loads once a shared ledger is asked for, with what that needs.
    libraries = {path.name.partition(".so")[0] for path in image.rglob("*.so.*")}
    assert {"libpq", "libldap-2.5", "libgssapi_krb5"} <= libraries
    for path in image.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH), path
        elif not os.readlink(path).startswith("/"):
            assert path.exists(), f"{path} leads nowhere"
        else:
            assert (image / os.readlink(path)[1:]).exists(), f"{path} leads nowhere"


@pytest.fixture(scope="module")
def archive(image, tmp_path_factory):
    file = tmp_path_factory.mktemp("archive") / "image.tar"
    done = subprocess.run([ARCHIVER, image, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return file


def blob(archive, digest):
    kind, _, name = digest.partition(":")
    with tarfile.open(archive) as tar:
        found = tar.extractfile(f"blobs/{kind}/{name}").read()
    assert hashlib.sha256(found).hexdigest() == name
    return found


def test_its_archive_holds_the_root_and_runs_as_the_dockerfile_says(image, archive):
    with tarfile.open(archive) as tar:
        index, old = (json.load(tar.extractfile(f"{name}.json")) for name in ("index", "manifest"))
    manifest = json.loads(blob(archive, index["manifests"][0]["digest"]))
    (layer,), config = manifest["layers"], json.loads(blob(archive, manifest["config"]["digest"]))
    dockerfile = (ROOT / "helm/Dockerfile").read_text().splitlines()
    said = dict(line.split(" ", 1) for line in dockerfile if line and line[0].isupper())
    assert config["config"] == {"User": said["USER"], "Entrypoint": json.loads(said["ENTRYPOINT"]),
                                "Cmd": json.loads(said["CMD"])}  # fmt: skip
    packed = blob(archive, layer["digest"])
    content = subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    assert [one.partition("/sha256/")[2] for one in (old[0]["Config"], *old[0]["Layers"])] == [
        one["digest"].partition(":")[2] for one in (manifest["config"], layer)
    ]  # fmt: skip
    user = int(said["USER"].split(":")[0])
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = {member.name.removeprefix("./"): member for member in tar}
        for name, member in members.items():
            path, is_its_own = image / name, name == "var/lib/recourse"
            assert (member.uid, member.gid) == ((user, user) if is_its_own else (0, 0)), name
            assert member.issym() or member.mode == stat.S_IMODE(path.stat().st_mode), name
            if member.isfile():
                assert tar.extractfile(member).read() == path.read_bytes(), name
    assert {str(path.relative_to(image)) for path in image.rglob("*")} == set(members) - {"."}


def content_of(root):
    """Of each path its mode and what it holds."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, os.readlink(path) if path.is_symlink()
                                      else path.is_file() and path.read_bytes())
        for path in root.rglob("*")
    }  # fmt: skip


def test_two_builds_give_the_same_bytes_which_are_few(image, archive, tmp_path):
    assert archive.stat().st_size < 12_000_000
    again = tmp_path / "root"
    if made := os.environ.get("RECOURSE_IMAGE_AGAIN"):  # of the packages there, not of those here
        shutil.copytree(made, again, symlinks=True)
    else:
        subprocess.run([MAKER, BINARY, again], capture_output=True, check=True)
    assert content_of(again) == content_of(image)
    # Small, a root is packed in no time.
    for path in again.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.truncate(path, min(path.stat().st_size, 4096))
    (again / "usr/bin/recourse").write_text("#!/bin/sh\necho recourse 1.2.3\n")
    files = [tmp_path / "first.tar", tmp_path / "second.tar"]
    for file in files:
        subprocess.run([ARCHIVER, again, file], capture_output=True, check=True)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_scanners_find_what_is_inside_as_on_a_debian(image):
    said = subprocess.run(
        ["dpkg-query", f"--admindir={image}/var/lib/dpkg", "--show",
         "--showformat=${Package} ${Version} ${db:Status-Abbrev}\n"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert all(one.split()[2] == "ii" for one in said)
    listed = {one["name"]: one["versionInfo"] for one in sbom(image)["packages"]}
    installed = {name: version for name, version, _ in (one.split() for one in said)}
    assert installed == {name: version for name, version in listed.items()
                         if name != "recourse" and not name.endswith("-dev")}  # fmt: skip
    release = (image / "etc/os-release").read_text()
    assert re.search(r"^ID=debian$", release, re.M) and re.search(r"^VERSION_ID=", release, re.M)


def sbom(image):
    return json.loads((image / SBOM).read_text())


def test_its_list_says_what_belongs_to_what_and_when_the_source_was_made(tmp_path):
    made = []
    for epoch in ("0", "1700000000"):
        subprocess.run([MAKER, BINARY, tmp_path / epoch], capture_output=True, check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": epoch})  # fmt: skip
        made.append(sbom(tmp_path / epoch))
    assert [one["creationInfo"]["created"] for one in made] == ["1970-01-01T00:00:00Z",
                                                                "2023-11-14T22:13:20Z"]
    told = {(one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"])
            for one in made[0]["relationships"]}  # fmt: skip
    assert ("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-recourse") in told
    assert ("SPDXRef-recourse", "DEPENDS_ON", "SPDXRef-libc6") in told
    assert ("SPDXRef-libboost1.81-dev", "BUILD_DEPENDENCY_OF", "SPDXRef-recourse") in told
    ids = {one["SPDXID"] for one in made[0]["packages"]}
    assert {one for first, _, last in told for one in (first, last)} == {*ids, "SPDXRef-DOCUMENT"}


def test_its_list_names_every_package_with_version_and_license(image):
    told = sbom(image)
    assert told["spdxVersion"] == "SPDX-2.3" and told["creationInfo"]["created"].endswith("Z")
    packages = {one["name"]: one for one in told["packages"]}
    assert len(packages) == len(told["packages"])
    assert {"recourse", "libc6", "libssl3", "liblmdb0", "nftables", "ca-certificates",
            "libboost1.81-dev"} <= set(packages)  # fmt: skip
    for name, one in packages.items():
        assert one["versionInfo"]
        purl = one["externalRefs"][0]["referenceLocator"]
        assert purl == f"pkg:generic/recourse@{one['versionInfo']}" or re.fullmatch(
            rf"pkg:deb/debian/{re.escape(name)}@[\w.%~-]+\?arch=\w+&distro=debian-\d+&upstream=\S+",
            purl,
        )
        if not name.endswith("-dev"):
            assert (image / f"usr/share/doc/{name}/copyright").stat().st_size > 0


def test_the_dockerfile_puts_that_and_nothing_else_into_the_image(image):
    lines = (ROOT / "helm/Dockerfile").read_text().splitlines()
    last = lines[lines.index("FROM scratch") + 1 :]
    words = [line.split(" ", 1) for line in last if line and not line.startswith("#")]
    assert [word for word, _ in words] == ["COPY", "USER", "ENTRYPOINT", "CMD"]
    told = dict(words)
    assert told["COPY"] == "--from=build /image/ /"
    assert json.loads(told["ENTRYPOINT"]) == [ENTRYPOINT] and (image / ENTRYPOINT[1:]).exists()
    values = yaml.safe_load((CHART / "values.yaml").read_text())["runAs"]
    assert told["USER"] == f"{values['user']}:{values['group']}"
    assert f"recourse:x:{values['user']}:{values['group']}:" in (image / "etc/passwd").read_text()
    assert "RUN ./dev build release" in lines
    # The base is what it was, whatever its tag comes to mean.
    (base,) = [line for line in lines if line.startswith("ARG BASE=")]
    assert re.fullmatch(r"ARG BASE=docker\.io/library/debian:\S+-slim@sha256:[0-9a-f]{64}", base)
    assert f"{MAKER.relative_to(ROOT)} build/release/recourse /image" in "\n".join(lines)


@pytest.mark.parametrize("case", ["default-values", "redirect-values"])
def test_the_demo_runs_in_it(case, image, net, tmp_path):
    """With redirect its nft installs the rules; with interception its CAs make the bundle."""
    out = rendered(case)
    here = Node(tmp_path, net, out.objects, image=image)
    with backend(out, here) as shop, pod_of(out, here, "-agent") as running:
        agent = running.agent()
        agent.await_said("asked twice, ordered once: order-1")
        assert shop.said().count("a new order:") == 1
        if case == "redirect-values":
            bundle = (running.volumes["recourse-trust"] / "ca.pem").read_text()
            assert bundle.count("BEGIN CERTIFICATE") > 50
        assert agent.end() == 0
        assert running.sidecar.end() == 0, running.sidecar.said()


def test_in_it_a_backend_is_trusted_by_the_cas_of_the_image(image, net, tmp_path):
    maker = Maker(tmp_path / "ca")
    chain = maker.issue("four", san="DNS:four.test").both
    own = tmp_path / "image"
    shutil.copytree(image, own, symlinks=True)
    out = render({"policy": {"inline": TLS_POLICY}})
    net.tool(f"{TOOLS}:443={chain}")
    for is_trusted in (False, True):
        if is_trusted:
            with open(own / CAS, "a", encoding="ascii") as file:
                file.write(maker.cert.read_text())
        here = Node(tmp_path / str(is_trusted), net, out.objects, image=own)
        with pod_of(out, here, "-agent") as running:
            agent = running.agent(command=["python3", "-c", READ])
            assert (agent.wait() == 0) == is_trusted, agent.said()
            assert ("200" in agent.said()) == is_trusted

