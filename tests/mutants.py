"""Does the suite notice a broken rule? `./dev mutants [NAME...]`

Each mutant is one small change of the product's source that breaks one of its rules. They are made
one by one in a copy of the tree (build/mutants/tree), the C++ tests that know nothing of sockets
are built and run there, and a table says which test noticed. Ends with 1 when none did, or when the
text that a mutant replaces is no longer found: the source has moved on, and the mutant must follow.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

from mutant_table import MUTANTS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutants"
TREE = WORK / "tree"
# Of each suite the tests without sockets; quick ones first: the first test that fails is enough.
SUITES = {
    "net_test": "WriteStreamTest.*",
    "server_test": "ReadLaneTest.*",
    "ledger_test": "*",
    "filters_test": "*",
    "sim_test": "*",
}
COPIED = ("CMakeLists.txt", "CMakePresets.json", "proxy", "filters", "policy", "tests", "bench")
TEST_SECONDS_MAX = 900
SIM_SEEDS = "1000"


def files_of(top):
    """Paths of everything that is copied, relative to `top`."""
    for name in COPIED:
        for file in [top / name] if (top / name).is_file() else (top / name).rglob("*"):
            if file.is_file() and not {"node_modules", "__pycache__"} & set(file.parts):
                yield file.relative_to(top)


def copy_tree():
    """The tree as it stands, beside what was built there: only what differs is written anew."""
    TREE.mkdir(parents=True, exist_ok=True)
    wanted = set(files_of(ROOT))
    for gone in set(files_of(TREE)) - wanted:
        (TREE / gone).unlink()
    for file in wanted:
        target = TREE / file
        if target.exists() and target.read_bytes() == (ROOT / file).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, target)


def build(jobs):
    """True when all suites were built."""
    done = subprocess.run(
        ["ninja", "-C", str(TREE / "build/dev"), "-j", str(jobs), *SUITES],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (WORK / "build.log").write_text(done.stdout + done.stderr)
    return done.returncode == 0


def failure():
    """Name of the first test that fails; None: all pass."""
    for suite, tests in SUITES.items():
        binary = TREE / "build/dev/tests" / suite
        try:
            done = subprocess.run(
                [binary, f"--gtest_filter={tests}", "--gtest_fail_fast", "--gtest_brief=1"],
                cwd=TREE, capture_output=True, text=True, errors="replace", check=False,
                timeout=TEST_SECONDS_MAX, env={**os.environ, "RECOURSE_SIM_SEEDS": SIM_SEEDS},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{suite}: no end in {TEST_SECONDS_MAX} s"
        if done.returncode == 0:
            continue
        (WORK / "test.log").write_text(done.stdout + done.stderr)
        named = re.search(r"\[  FAILED  \] (\S+?)[,\s]", done.stdout)
        return f"{suite}: {named[1] if named else f'ended with {done.returncode}'}"
    return None


def judge(mutant, jobs):
    """(is caught, what to say of it)"""
    file = TREE / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        return False, f"its text is there {text.count(mutant.old)} times: mend mutant_table.py"
    try:
        file.write_text(text.replace(mutant.old, mutant.new))
        if not build(jobs):
            return False, "it does not compile: mend mutant_table.py (build/mutants/build.log)"
        caught = failure()
    finally:
        file.write_text(text)
    return caught is not None, caught or "SURVIVED: " + mutant.rule


def chosen(names):
    known = {mutant.name: mutant for mutant in MUTANTS}
    for name in names:
        if name not in known:
            sys.exit(f"mutants: '{name}' is none of them; there are: {' '.join(known)}")
    return [known[name] for name in names] or list(MUTANTS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    mutants = chosen(arguments.names)
    copy_tree()
    if not (TREE / "build/dev/build.ninja").exists():
        configure = ["cmake", "--preset", "dev", "--log-level=NOTICE"]
        subprocess.run(configure, cwd=TREE, check=True, stdout=subprocess.DEVNULL)
    print("building the tree as it is", flush=True)
    if not build(arguments.jobs):
        sys.exit("mutants: the tree does not build as it is; see build/mutants/build.log")
    if found := failure():
        sys.exit(f"mutants: the tree fails as it is: {found}; see build/mutants/test.log")
    survivors = 0
    print(f"{'MUTANT':<32}{'CAUGHT BY'}", flush=True)
    for mutant in mutants:
        is_caught, said = judge(mutant, arguments.jobs)
        survivors += not is_caught
        print(f"{mutant.name:<32}{said}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants were caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
