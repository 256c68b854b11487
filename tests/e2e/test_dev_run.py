"""`./dev run` at a terminal, on a binary that is built already, and how its build begins."""

import glob
import os
import shutil
import signal
import subprocess

import pytest

from support.ports import free_ports
from support.recourse import BINARY, ROOT, WAIT_MAX
from support.waiting import wait_until

ENDED = "Everything that ./dev run started has ended."


@pytest.fixture(name="tree")
def built_tree(tmp_path):
    """A checkout whose build takes no time: where to run, and the PATH for it."""
    for path in ("tests/commands.sh", "tests/e2e/demo", "dev", "CMakePresets.json"):
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / path).is_dir() else shutil.copy)(ROOT / path, target)
    tree = tmp_path / "tree"
    (tree / "tests/e2e/clients").symlink_to(ROOT / "tests/e2e/clients")
    (tree / "build/release").mkdir(parents=True)
    (tree / "build/release/recourse").symlink_to(BINARY)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cmake", "ninja", "npm"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    return tree, f"{tools}:{os.environ['PATH']}"


def test_ctrl_c_ends_it_once_and_with_one_message(tree, tmp_path):
    """A terminal signals the whole foreground group."""
    root, path = tree
    log = tmp_path / "log"
    said = log.read_text
    with open(log, "wb") as out:
        env = {**os.environ, "PATH": path, "RECOURSE_SKIP_INSTALL": "1",
               "RECOURSE_DEMO_PORT": str(free_ports(4))}  # fmt: skip
        running = subprocess.Popen(
            [root / "dev", "run"], cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            wait_until(lambda: "# An agent places an order" in said(), said)
            os.killpg(running.pid, signal.SIGINT)
            assert running.wait(WAIT_MAX) == 0, said()
        finally:
            if running.poll() is None:
                running.terminate()
                running.wait(WAIT_MAX)
    text = said()
    assert text.count(ENDED) == 1 and text.rstrip().endswith(ENDED), text
    assert "second signal" not in text and '"msg":"stopped"' in text
    assert "last time" not in text


def test_how_long_nothing_took_is_not_told(tree):
    root, path = tree
    (root / "build/times").write_text("0\tbuilding preset release\n")
    done = subprocess.run(
        [root / "dev", "build", "release"], cwd=root, capture_output=True, text=True,
        timeout=WAIT_MAX, env={**os.environ, "PATH": path, "RECOURSE_SKIP_INSTALL": "1"},
        check=False,
    )  # fmt: skip
    assert "building preset release" in done.stdout and "last time" not in done.stdout, done


def test_a_build_without_the_benchmark_library_is_configured_in_silence(tmp_path):
    homes = glob.glob("/usr/lib/*/cmake/benchmark") + glob.glob("/lib/*/cmake/benchmark")
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path / "build", "--preset", "release", "--log-level=NOTICE",
         "-DCMAKE_IGNORE_PATH=" + ";".join(homes)],
        cwd=ROOT, capture_output=True, text=True, timeout=WAIT_MAX, check=False,
    )  # fmt: skip
    assert "benchmark" not in done.stderr, done.stderr


def test_what_npm_installed_in_one_checkout_is_linked_in_the_next(tmp_path):
    calls, tools = tmp_path / "calls", tmp_path / "tools"
    tools.mkdir()
    for name in ("cmake", "ninja"):
        (tools / name).write_text("#!/bin/sh\n")
    (tools / "npm").write_text(
        f"#!/bin/sh\nset -e\necho \"$*\" >>{calls}\nmkdir -p $2/node_modules/a\n"
        "cp $2/package-lock.json $2/node_modules/a/made-of\n"
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"),
           "XDG_CACHE_HOME": "", "RECOURSE_SKIP_INSTALL": "1"}  # fmt: skip

    def checkout(name, lock):
        root = tmp_path / name
        for path in ("tests/commands.sh", "dev", "CMakePresets.json"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, root / path)
        (root / "tests/helm").mkdir()
        (root / "tests/helm/package-lock.json").write_text(lock)
        # It ends for want of a folder tests/kube, once all that it needs is there.
        said = subprocess.run([root / "dev", "kube"], cwd=root, env=env, capture_output=True,
                              text=True, timeout=WAIT_MAX, check=False)  # fmt: skip
        assert "tests/kube" in said.stderr, said
        installed = root / "tests/helm/node_modules/a/made-of"
        assert installed.read_text() == lock
        return installed, len(calls.read_text().splitlines())

    first, installs = checkout("first", "one")
    assert installs == 1
    second, installs = checkout("second", "one")
    assert installs == 1 and second.samefile(first)
    third, installs = checkout("third", "another")
    assert installs == 2 and not third.samefile(first)
