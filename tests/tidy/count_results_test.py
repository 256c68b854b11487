#!/usr/bin/env python3
"""Tests how ./dev test counts."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from count_results import main  # noqa: E402

GOOD = '<testcase name="a" classname="x" status="run"/>'
BAD = '<testcase name="b" classname="x" status="fail"><failure message=""/></testcase>'
ERROR = '<testcase name="c" classname="x"><error message="no fixture"/></testcase>'
SKIPPED = '<testcase name="d" classname="x"><skipped message=""/></testcase>'
SKIPS_ITSELF = '<testcase name="e" status="notrun"><skipped message="SKIP_RETURN_CODE"/></testcase>'
NOT_BUILT = '<testcase name="f" status="notrun"><skipped message="Unable to find x"/></testcase>'


class CountResultsTest(unittest.TestCase):

    def count(self, *files, code=0, parts=()):
        """Returns (exit code, lines) for files given as XML text, or None for a missing one."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            os.mkdir(os.path.join(folder, "parts"))
            for name, text in parts:
                with open(os.path.join(folder, "parts", name), "w", encoding="utf-8") as file:
                    file.write(text)
            for number, text in enumerate(files):
                paths.append(os.path.join(folder, f"{number}.xml"))
                if text is not None:
                    with open(paths[-1], "w", encoding="utf-8") as file:
                        file.write(text)
            arguments = [f"{path}={code}" for path in paths]
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                result = main(arguments)
            return result, output.getvalue().splitlines()

    def test_sums_all_files(self):
        code, lines = self.count(f"<testsuite>{GOOD}{GOOD}</testsuite>",
                                 f"<testsuites><testsuite>{GOOD}</testsuite></testsuites>")
        self.assertEqual((code, lines[-1]), (0, "3 passed, 0 failed"))

    def test_failures_and_errors_fail_and_are_named(self):
        code, lines = self.count(f"<testsuite>{GOOD}{BAD}{ERROR}</testsuite>")
        self.assertEqual((code, lines[-1]), (1, "1 passed, 2 failed"))
        self.assertIn("FAILED x b", lines)

    def test_skipped_tests_are_told_apart(self):
        code, lines = self.count(f"<testsuite>{GOOD}{SKIPPED}{SKIPS_ITSELF}</testsuite>")
        self.assertEqual((code, lines), (0, ["2 skipped", "1 passed, 0 failed"]))

    def test_a_test_that_could_not_start_failed(self):
        code, lines = self.count(f"<testsuite>{GOOD}{NOT_BUILT}</testsuite>")
        self.assertEqual((code, lines), (1, ["FAILED f", "1 passed, 1 failed"]))

    def test_an_unexplained_exit_code_is_a_failure(self):
        code, lines = self.count(f"<testsuite>{GOOD}</testsuite>", code=124)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))
        code, lines = self.count(f"<testsuite>{GOOD}{BAD}</testsuite>", code=8)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))

    def test_a_part_of_a_binary_stands_for_its_tests(self):
        part = '<testcase name="net.1" status="run"/>'
        code, lines = self.count(f"<testsuite>{part}</testsuite>", parts=[
            ("net.1.xml", f"<testsuites>{GOOD}{GOOD}{SKIPPED}</testsuites>")])
        self.assertEqual((code, lines), (0, ["1 skipped", "2 passed, 0 failed"]))

    def test_a_part_that_failed_names_its_tests_and_one_without_results_itself(self):
        part = '<testcase name="net.1" status="fail"><failure message=""/></testcase>'
        code, lines = self.count(f"<testsuite>{part}</testsuite>", parts=[
            ("net.1.xml", f"<testsuites>{GOOD}{BAD}</testsuites>")])
        self.assertEqual((code, lines), (1, ["FAILED x b", "1 passed, 1 failed"]))
        code, lines = self.count(f"<testsuite>{part}</testsuite>", parts=[
            ("net.1.xml", f"<testsuites>{GOOD}</testsuites>")])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))
        for status in ("run", "fail"):
            ended = f'<testcase name="net.1" status="{status}"/>'
            code, lines = self.count(f"<testsuite>{ended}{GOOD}</testsuite>")
            self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))

    def test_a_pattern_that_pytest_finds_nowhere_is_no_failure(self):
        self.assertEqual(self.count(f"<testsuite>{GOOD}</testsuite>", code=5),
                         (0, ["1 passed, 0 failed"]))

    def test_a_run_that_left_no_result_failed(self):
        for text in (None, "", "<testsuite>"):
            with self.subTest(text=text):
                code, lines = self.count(f"<testsuite>{GOOD}</testsuite>", text)
                self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))

    def test_no_test_at_all_is_no_success(self):
        self.assertEqual(self.count("<testsuite/>"), (1, ["no test ran", "0 passed, 0 failed"]))


if __name__ == "__main__":
    unittest.main()
