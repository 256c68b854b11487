"""A wall clock that is off by what a test says (Debian package faketime)."""

import pathlib

LIBRARIES = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
HOUR, YEAR = 3600, 365 * 24 * 3600


class FakedTime:
    """What processes with this `env` take for the time of day: the true one and what `set` says,
    from the next look at it on. Their monotonic clock keeps its pace."""

    def __init__(self, directory, seconds=0):
        assert LIBRARIES, "the Debian package faketime is missing"
        self.offset = pathlib.Path(directory) / "offset"
        self.set(seconds)
        self.env = {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.offset),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
        }

    def set(self, seconds):
        partial = self.offset.with_suffix(".new")
        partial.write_text(f"{seconds:+d}s\n")
        partial.chmod(0o644)
        partial.rename(self.offset)
