"""File systems of a test's own: small ones, and one that cannot be written."""

import contextlib
import os
import subprocess

import pytest


def try_mount(path, size):
    path.mkdir(parents=True)
    return (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
            capture_output=True, check=False,
        ).returncode == 0
    )  # fmt: skip


@contextlib.contextmanager
def small_disk(path, size):
    if not try_mount(path, size):
        pytest.skip("a file system can be mounted by root only")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path):
    """Takes all that is free on the disk of `path`."""
    with open(path, "wb", buffering=0) as other:
        for size in (1 << 16, 1 << 9, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(other.fileno(), bytes(size))


def run_read_only(command, data, directory):
    """Runs `command` over a copy of `data` at `directory`, on a read-only file system in a mount
    namespace of its own; None where there can be none. Exit code 99: a file was changed."""
    directory.mkdir(parents=True, exist_ok=True)
    script = (
        'set -e; mount -t tmpfs tmpfs "$1"; cp -a "$2/." "$1/"; mount -o remount,ro "$1"; '
        'a=$1; b=$2; shift 2; set +e; "$@"; code=$?; diff -r "$a" "$b" >&2 || exit 99; exit $code'
    )
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        return None
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(directory), str(data), *command],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "RECOURSE_UNSAFE_FS": "true"},
    )  # fmt: skip
