"""A control group with a memory limit, where this machine lets us make one (cgroup v1 or v2)."""

import os
import pathlib
import re

from support.waiting import wait_until

MOUNTS = pathlib.Path("/proc/self/mounts")
ROOT = "recourse-tests"


def mounted(kind, option=""):
    """The mount point of a hierarchy, or None."""
    for line in MOUNTS.read_text(encoding="ascii").splitlines():
        _, point, found, options = line.split()[:4]
        if found == kind and (not option or option in options.split(",")):
            return pathlib.Path(point)
    return None


class MemoryCell:
    """Whoever is started through `wrapper` has `bytes_max` of memory and no more: the kernel kills
    it beyond that. `is_made` is False where no group can be made here."""

    def __init__(self, name, bytes_max):
        self.path, self.is_made = None, False
        for base, limit in (
            (mounted("cgroup", "memory"), "memory.limit_in_bytes"),
            (mounted("cgroup2"), "memory.max"),
        ):
            if base is not None and self.make(base / ROOT / name, limit, bytes_max):
                break

    def make(self, path, limit, bytes_max):
        try:
            path.mkdir(parents=True, exist_ok=True)
            if limit == "memory.max":
                for above in (path.parents[1], path.parents[0]):
                    (above / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
            (path / limit).write_text(str(bytes_max), encoding="ascii")
        except OSError:
            return False
        self.path, self.is_made = path, True
        return True

    @property
    def wrapper(self):
        if not self.is_made:
            return []
        enter = f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"'
        return ["sh", "-c", enter, "sh"]

    def kills(self):
        """How often the kernel has killed for want of memory here."""
        for name, pattern in (
            ("memory.oom_control", r"^oom_kill (\d+)"),
            ("memory.events", r"^oom_kill (\d+)"),
        ):
            file = self.path / name if self.is_made else None
            if file is not None and file.exists():
                found = re.search(pattern, file.read_text(encoding="ascii"), re.MULTILINE)
                return int(found.group(1)) if found else 0
        return 0

    def remove(self):
        if self.is_made:
            wait_until(self.is_removed)

    def is_removed(self):
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True
