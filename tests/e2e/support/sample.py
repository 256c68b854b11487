"""A run that must end in time: pytest plugin behind `./dev test --seconds N`.

Files run in an order drawn by a seed, so that what one tree does not reach another one does, and
the same tree reaches the same again. What would begin too late is skipped, and says so.
"""

import hashlib
import time

import pytest

begun = time.monotonic()


def pytest_addoption(parser):
    group = parser.getgroup("sample")
    group.addoption("--sample-seconds", type=int, help="begin no test later than this many seconds")
    group.addoption("--sample-seed", default="", help="draws the order of the files")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--sample-seconds") is not None:
        seed = config.getoption("--sample-seed")
        items.sort(key=lambda item: hashlib.sha256(f"{seed} {item.path.name}".encode()).digest())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    seconds = item.config.getoption("--sample-seconds")
    if seconds is not None and time.monotonic() - begun > seconds:
        pytest.skip(f"not reached within {seconds} s")
