#!/usr/bin/env python3
"""Fails when clang-format would change a C++ file, and names the command that repairs it.

usage: format_check.py CLANG_FORMAT [ROOT]
"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True

from tidy import CPP, Tidy  # noqa: E402


def main(arguments):
    clang_format = arguments[0]
    here = os.path.dirname(os.path.abspath(__file__))
    root = arguments[1] if len(arguments) > 1 else os.path.dirname(os.path.dirname(here))
    paths = [path for path in Tidy(root).files() if path.endswith(CPP)]
    if not paths:
        return 0
    run = subprocess.run([clang_format, "--dry-run", "-Werror", *paths], cwd=root, text=True,
                         stderr=subprocess.PIPE, check=False)
    bad = sorted({line.split(":")[0] for line in run.stderr.splitlines() if ": error: " in line})
    if run.returncode != 0:
        print(run.stderr if not bad else f"repair with: {os.path.basename(clang_format)} -i "
              + " ".join(bad))
    return run.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
