"""The storage shim (tests/power_loss/storage_shim.cpp) under the real binary."""

import pathlib

import pytest

from support.recourse import BINARY, MEASURABLE
from support.waiting import wait_until

TESTS = pathlib.Path(BINARY).resolve().parent / "tests"
SHIM = TESTS / "libstorage_shim.so"
IMAGES = TESTS / "power_loss_images"
needs_shim = pytest.mark.skipif(
    not (SHIM.exists() and MEASURABLE), reason="this build has no storage shim"
)


class Shim:
    """The environment of one start. Faults count from `arm()` on."""

    def __init__(self, directory, data, fault="", log=None):
        self.armed = pathlib.Path(directory) / "shim-armed"
        self.hits_path = pathlib.Path(directory) / "shim-hits"
        self.armed.unlink(missing_ok=True)
        self.hits_path.unlink(missing_ok=True)
        self.env = {
            "LD_PRELOAD": str(SHIM),
            "SHIM_ROOT": str(data),
            "SHIM_FAULT": fault,
            "SHIM_ARM": str(self.armed),
            "SHIM_HITS": str(self.hits_path),
            **({"SHIM_LOG": str(log)} if log else {}),
        }

    def arm(self):
        self.armed.touch()

    def hits(self):
        return self.hits_path.read_text().count("hit") if self.hits_path.exists() else 0

    def await_hit(self):
        wait_until(self.hits, "the fault was not hit")

