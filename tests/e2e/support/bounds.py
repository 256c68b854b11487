"""I18: what a process takes is bounded, however much it has been through: memory, descriptors, and
the ledger's file. The bounds are generous: they find what grows without end, not noise."""

import os
import threading

from support.recourse import MEASURABLE, WAIT_MAX
from support.waiting import InVain, wait_until

RESIDENT_MAX_KIB = 256 * 1024
# With bodies and answers of every size on their way at once.
BODIES_RESIDENT_MAX_KIB = 1024 * 1024
DESCRIPTORS_MAX = 256  # while agents call
AT_REST_MAX = 96  # descriptors, once nobody calls
FILE_AHEAD = 48 * 1024 * 1024  # given by the disk ahead of use, and pages that are free again
ROW_BYTES_MAX = 16 * 1024  # of the file, on average
LOOK_EVERY = 0.05


class Bounds:
    """The most that the processes of one campaign took."""

    def __init__(self, resident_max_kib=RESIDENT_MAX_KIB):
        self.resident_max_kib = resident_max_kib
        self.resident_kib = 0
        self.descriptors = 0

    def look(self, recourse):
        """Gives the descriptors open now; None: it has just died."""
        try:
            descriptors = len(os.listdir(f"/proc/{recourse.pid}/fd"))
            _, highest = recourse.memory_kib()
        except (OSError, KeyError):
            return None
        self.descriptors = max(self.descriptors, descriptors)
        self.resident_kib = max(self.resident_kib, highest)
        return descriptors

    def watch(self, recourse, over):
        """Looks until `over` is set, from a thread of its own."""

        def work():
            while not over.wait(LOOK_EVERY):
                self.look(recourse)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def violations(self, recourse, report, seconds=WAIT_MAX):
        """At rest, while it runs. `report`: what the ledger's own check says; `seconds`: how long
        connections that ended may take to be closed."""
        found = []
        resting = await_few_descriptors(recourse, seconds=seconds)
        self.look(recourse)
        if resting > AT_REST_MAX:
            found.append(f"I18 {resting} descriptors are open at rest")
        if self.descriptors > DESCRIPTORS_MAX:
            found.append(f"I18 {self.descriptors} descriptors were open")
        if MEASURABLE and self.resident_kib > self.resident_max_kib:
            found.append(f"I18 {self.resident_kib} KiB were resident")
        size = ledger_bytes(recourse)
        if size > FILE_AHEAD + ROW_BYTES_MAX * report["last_id"]:
            found.append(f"I18 the ledger has {size} bytes for {report['last_id']} rows")
        return found


def descriptors_of(recourse):
    return len(os.listdir(f"/proc/{recourse.pid}/fd"))


def await_few_descriptors(recourse, most=AT_REST_MAX, seconds=WAIT_MAX):
    """What is open once connections that ended are closed: soon after their last byte."""

    def few():
        count = descriptors_of(recourse)
        return count <= most and count

    try:
        return wait_until(few, seconds=seconds)
    except InVain:
        return descriptors_of(recourse)  # whoever asks judges the number


def ledger_bytes(recourse):
    """What the ledger's file has of its disk."""
    return os.stat(recourse.data / "data.mdb").st_blocks * 512
