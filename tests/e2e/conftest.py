"""Fixtures: one backend double per test module, one Recourse in front of it, tokens for paths."""

import itertools
import os
import pathlib
import shutil
import signal
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support import npm  # noqa: E402
from support.browser import Browser  # noqa: E402
from support.collector import wrong_in  # noqa: E402
from support.double import Double  # noqa: E402
from support.policies import standard  # noqa: E402
from support.recourse import BINARY, PATIENCE, Recourse  # noqa: E402
from support.walk import Walk  # noqa: E402

# libyaml's loader, of which the one that is written in Python takes seven times as long.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

pytest_plugins = ["support.schedule", "support.figures"]

# Far more than any test takes, and than its own waits allow: it only ends what hangs.
TEST_MAX_SECONDS = int(600 * PATIENCE)
counter = itertools.count(1)


def pytest_configure():
    if not os.access(BINARY, os.X_OK):
        pytest.exit(f"{BINARY} is missing: build it first, or set RECOURSE_BIN", 2)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.has_passed = report.passed


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    """Ledgers of tests that passed take 20 GB together; those of the others are worth a look."""
    yield
    if getattr(item, "has_passed", False) and "tmp_path" in item.funcargs:
        shutil.rmtree(item.funcargs["tmp_path"], ignore_errors=True)


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    backend = Double(str(tmp_path_factory.mktemp("backend")))
    yield backend
    backend.stop()


@pytest.fixture(scope="module")
def browser():
    running = Browser()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def exports():
    """Bodies that a module's collectors took: the protocol finds nothing wrong in any."""
    bodies = []
    yield bodies
    assert [one for one in wrong_in(bodies) if one] == []


@pytest.fixture
def walk(browser):
    """Looks at states of the page, and fails if axe found anything in them."""
    looking = Walk(browser)
    yield looking
    looking.found_nothing()


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    """Recourse under the standard policy; must still run, and must stop cleanly, at the end."""
    with Recourse(tmp_path_factory.mktemp("recourse"), standard(double)) as running:
        yield running
        assert running.running(), running.stderr()[-4000:]
        assert running.stop() == 0, running.stderr()[-4000:]


@pytest.fixture(scope="session")
def packages():
    """The folder of the npm packages that the lock file pins; installed once per checkout."""
    npm.install()
    return npm.CLIENTS


@pytest.fixture
def token():
    """A path segment that no other test uses."""
    return f"t{next(counter)}"


@pytest.fixture(autouse=True)
def bound():
    """Ends a test that hangs, whatever it waits for."""

    def give_up(*_):
        raise TimeoutError(f"the test took more than {TEST_MAX_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TEST_MAX_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
