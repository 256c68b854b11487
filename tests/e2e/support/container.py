"""Becomes the process of a container: `container.py SPEC`, as root in a mount namespace of its own.

SPEC is JSON: `root` (a directory), `binds` ([from, to, read only]), `user`, `group`, `groups`,
`capabilities` (numbers that it keeps), `argv`, `env`. The root is made read-only, the rights are
dropped for good, and the process stays the same throughout.
"""

import ctypes
import json
import os
import sys

MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITIES = 64  # more than there are; those that are not there are skipped
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags):
    done = LIBC.mount(source.encode(), target.encode(), kind.encode() if kind else None,
                      ctypes.c_ulong(flags), None)  # fmt: skip
    if done != 0:
        raise OSError(ctypes.get_errno(), f"mount {source} on {target}")


def bind(source, target, is_read_only):
    mount(source, target, None, MS_BIND | MS_REC)
    if is_read_only:
        mount(source, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def make_place(path, is_directory):
    if is_directory:
        os.makedirs(path, mode=0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        open(path, "ab").close()


def main():
    spec = json.loads(sys.argv[1])
    root = spec["root"]
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    # A copy of what is there, so that mount points can be made; nothing of it is written back.
    for source, target, _ in spec["binds"]:
        make_place(root + target, os.path.isdir(source))
    bind(root, root, False)
    for source, target, is_read_only in spec["binds"]:
        bind(source, root + target, is_read_only)
    mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV)
    mount(root, root, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
    os.chroot(root)
    os.chdir("/")
    for number in range(CAPABILITIES):
        if number not in spec["capabilities"]:
            LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    os.setgroups(spec["groups"])
    os.setresgid(*[spec["group"]] * 3)
    os.setresuid(*[spec["user"]] * 3)
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    os.umask(0o022)
    os.execve(spec["argv"][0], spec["argv"], spec["env"])


if __name__ == "__main__":
    main()
