"""A run that must end in time: the same seed draws the same order, and what is late is skipped."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "e2e" / "support"


def run(*options):
    """Runs six files of two tests, 0.3 s each file, and returns (order of the files, output)."""
    with tempfile.TemporaryDirectory() as folder:
        for name in "abcdef":
            text = "import time\ndef test_1(): time.sleep(0.3)\ndef test_2(): pass\n"
            pathlib.Path(folder, f"test_{name}.py").write_text(text, encoding="utf-8")
        command = [sys.executable, "-B", "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider",
                   "-p", "sample", "--rootdir", folder, folder, *options]
        done = subprocess.run(command, env={"PYTHONPATH": str(SUPPORT)}, capture_output=True,
                              text=True, timeout=60, check=True)
    lines = [line for line in done.stdout.splitlines() if "::test_1" in line]
    return [line.partition("test_")[2][0] for line in lines], done.stdout


class Sample(unittest.TestCase):
    def test_without_a_bound_the_order_is_pytests(self):
        order, _ = run()
        self.assertEqual(order, list("abcdef"))

    def test_a_seed_draws_one_order(self):
        one, _ = run("--sample-seconds", "60", "--sample-seed", "one")
        again, output = run("--sample-seconds", "60", "--sample-seed", "one")
        other, _ = run("--sample-seconds", "60", "--sample-seed", "other")
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)
        self.assertEqual(sorted(one), list("abcdef"))
        self.assertIn("12 passed", output)

    def test_what_would_begin_late_is_skipped_and_says_so(self):
        _, output = run("--sample-seconds", "1")
        self.assertIn("not reached within 1 s", output)
        self.assertRegex(output, r"\d+ passed, \d+ skipped")


if __name__ == "__main__":
    unittest.main()
