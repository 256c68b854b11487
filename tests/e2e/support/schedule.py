"""Spreads the tests evenly over the workers: a pytest plugin beside pytest-xdist's `loadgroup`.

Tests that share a fixture of their module stay together, as each would need a process of its own
elsewhere; every other test may run anywhere. The longest begin first, by the times in seconds.json,
which a run with RECOURSE_E2E_RECORD=1 writes anew.
"""

import collections
import json
import os
import pathlib

import pytest

SECONDS_FILE = pathlib.Path(__file__).resolve().parents[1] / "seconds.json"
RECORDED_MIN = 1.0  # what takes less begins last
SHARED_SCOPES = ("module", "package", "session")
# Fixtures that cost nothing to have once per worker.
EVERYWHERE = ("packages",)
BUILT_IN = ("_pytest.tmpdir", "_pytest.fixtures", "xdist.plugin", "xdist.newhooks")
measured = collections.Counter()


def group_of(item):
    """Its file, when it shares a fixture with other tests of that; else itself."""
    fixtures = [definitions[-1] for definitions in item._fixtureinfo.name2fixturedefs.values()]
    shared = any(
        fixture.scope in SHARED_SCOPES and fixture.func.__name__ not in EVERYWHERE
        and fixture.func.__module__ not in BUILT_IN
        for fixture in fixtures
    )  # fmt: skip
    return item.path.name if shared else item.nodeid.rpartition("/")[2]


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    seconds = json.loads(SECONDS_FILE.read_text()) if SECONDS_FILE.exists() else {}
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        if group == item.path.name:
            item.add_marker(pytest.mark.xdist_group(group.removesuffix(".py")))
    items.sort(key=lambda item: (-seconds.get(groups[item], 0), groups[item]))


def pytest_runtest_logreport(report):
    if os.environ.get("RECOURSE_E2E_RECORD"):
        name, _, group = report.nodeid.rpartition("/")[2].partition("@")
        measured[f"{group}.py" if group else name] += report.duration


def pytest_sessionfinish(session):
    if measured and not hasattr(session.config, "workerinput"):
        slow = {name: round(s, 1) for name, s in measured.most_common() if s >= RECORDED_MIN}
        SECONDS_FILE.write_text(json.dumps(slow, indent=1) + "\n")
