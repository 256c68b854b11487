"""Images for containerd: Recourse's, as helm/ makes it, and one with Python and busybox for agents,
of the files of this Debian.
"""

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
AGENT = "docker.io/local/agent:1"
RECOURSE = "docker.io/library/recourse"
PYTHON = pathlib.Path("/usr/bin/python3.11")
LIBRARY = pathlib.Path("/usr/lib/python3.11")
LEFT_OUT = ("/test", "/idlelib", "/lib2to3", "/ensurepip", "/config-", "__pycache__")
APPLETS = ("sh", "sleep", "cat", "ls", "id")


def needed(programs):
    """The libraries of those, with the loader."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = [word for line in said.splitlines() for word in line.split()]
    return {word for word in words if word.startswith("/") and not word.endswith(":")}


def layer():
    """A tar of the root."""
    files = {PYTHON, *LIBRARY.rglob("*")}
    files = {one for one in files if one.is_file()
             and not any(part in str(one) for part in LEFT_OUT)}  # fmt: skip
    files |= {pathlib.Path(one) for one in
              needed([PYTHON, *(one for one in files if ".so" in one.name)])}  # fmt: skip
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for folder in ("tmp", "proc", "dev", "sys", "run", "var", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for one in sorted(files):
            tar.add(one.resolve(), arcname=str(one)[1:])
        tar.add(pathlib.Path("/bin/busybox").resolve(), arcname="bin/busybox")
        links = {f"bin/{one}": "busybox" for one in APPLETS} | {"usr/bin/python3": PYTHON.name}
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return made.getvalue()


def agent_archive(path):
    """As `docker save` writes it. It is the pods' pause image, too."""
    content = layer()
    config = {
        "architecture": "amd64", "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": ["/bin/sleep", "1000000"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
    }  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [AGENT], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        for name, data in (("layer.tar", content), ("config.json", json.dumps(config).encode()),
                           ("manifest.json", json.dumps(manifest).encode())):  # fmt: skip
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def recourse_archive(binary, path):
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory) / "root"
        subprocess.run([ROOT / "helm/image_root.sh", binary, root], check=True)
        subprocess.run([ROOT / "helm/image_archive.sh", root, path], check=True)
