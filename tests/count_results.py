#!/usr/bin/env python3
"""Sums JUnit result files. Prints what failed and, as its last line, `N passed, N failed`.

usage: count_results.py [--seconds N] FILE=EXIT_CODE...

What is lost must never look like what passed. A file that is missing or unreadable counts as one
failure, and so does a runner that ended with an exit code that its file does not explain.

A case named BINARY.NUMBER is one part of a binary's tests: it stands for what parts/NAME.xml beside
its file says of them. A part that left no such file failed, whatever its exit code.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

BAD = ("failure", "error")
PART = re.compile(r"\w+\.\d+")
PYTEST_FOUND_NOTHING = 5


def read_results(path, code):
    """Returns (passed, skipped, names of the failed) of one file and its runner's exit code."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return 0, 0, [f"{os.path.basename(path)}: the run did not end ({error})"]
    passed, skipped, failed = 0, 0, []
    for case in cases:
        children = {child.tag: child for child in case}
        bad = bool(children.keys() & set(BAD)) or was_lost(case, children)
        if PART.fullmatch(case.get("name", "")):
            part = os.path.join(os.path.dirname(path), "parts", case.get("name") + ".xml")
            results = read_results(part, int(bad))
            passed, skipped = passed + results[0], skipped + results[1]
            failed += results[2]
        elif bad:
            # ctest repeats the name as the class.
            names = dict.fromkeys([case.get("classname", ""), case.get("name", "")])
            failed.append(" ".join(names).strip())
        elif "skipped" in children or case.get("status") == "disabled":
            skipped += 1
        else:
            passed += 1
    if code not in (0, PYTEST_FOUND_NOTHING) and not failed:
        failed.append(f"{os.path.basename(path)}: exit code {code} without a failed test")
    return passed, skipped, failed


def was_lost(case, children):
    """ctest marks a test that could not start as skipped; one that skips itself says SKIP_..."""
    if case.get("status") == "fail":
        return True
    reason = children["skipped"].get("message", "") if "skipped" in children else ""
    return case.get("status") == "notrun" and not reason.startswith("SKIP_")


def main(arguments):
    passed, skipped, failed, took = 0, 0, [], ""
    if arguments[0] == "--seconds":
        took = f" in {int(arguments[1]) // 60} min {int(arguments[1]) % 60} s"
        arguments = arguments[2:]
    for argument in arguments:
        path, _, code = argument.rpartition("=")
        file_passed, file_skipped, file_failed = read_results(path, int(code))
        passed += file_passed
        skipped += file_skipped
        failed += file_failed
    for name in failed:
        print(f"FAILED {name}")
    if skipped:
        print(f"{skipped} skipped")
    if passed == 0 and not failed:
        print("no test ran")
    print(f"{passed} passed, {len(failed)} failed{took}")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
