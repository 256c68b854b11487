"""Who gets a second chance: few tests, and none that shows the promise under kills or faults."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from may_retest import FAILED_MAX, may_retest  # noqa: E402

WAIT = "tests/e2e/test_upgrade.py::test_silent_tunnels_hold_no_buffers"


class MayRetest(unittest.TestCase):
    def test_a_few_waits_may(self):
        self.assertTrue(may_retest([WAIT]))
        self.assertTrue(may_retest([f"{WAIT}[{i}]" for i in range(FAILED_MAX)]))

    def test_none_and_many_may_not(self):
        self.assertFalse(may_retest([]))
        self.assertFalse(may_retest([f"{WAIT}[{i}]" for i in range(FAILED_MAX + 1)]))

    def test_what_proves_the_promise_may_never(self):
        for file in ("test_kill", "test_flow_kills", "test_campaign", "test_flow_checker"):
            self.assertFalse(may_retest([WAIT, f"tests/e2e/{file}.py::test_one"]))


if __name__ == "__main__":
    unittest.main()
