#!/usr/bin/env python3
"""Sums JUnit result files. Prints what failed and, as its last line, `N passed, N failed`.

A file that is missing or unreadable counts as one failure: its runner did not get to the end.
"""

import os
import sys
import xml.etree.ElementTree as ElementTree

BAD = ("failure", "error")


def read_results(path):
    """Returns (passed, skipped, names of the failed) of one file."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return 0, 0, [f"{os.path.basename(path)}: the run did not end ({error})"]
    failed, skipped = [], 0
    for case in cases:
        tags = {child.tag for child in case}
        # ctest marks a test that could not start by its status alone.
        if tags.intersection(BAD) or case.get("status") == "fail":
            failed.append(f"{case.get('classname', '')} {case.get('name', '')}".strip())
        elif "skipped" in tags or case.get("status") in ("notrun", "disabled"):
            skipped += 1
    return len(cases) - len(failed) - skipped, skipped, failed


def main(paths):
    passed, skipped, failed = 0, 0, []
    for path in paths:
        file_passed, file_skipped, file_failed = read_results(path)
        passed += file_passed
        skipped += file_skipped
        failed += file_failed
    for name in failed:
        print(f"FAILED {name}")
    if skipped:
        print(f"{skipped} skipped")
    if passed == 0 and not failed:
        print("no test ran")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
