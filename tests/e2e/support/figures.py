"""How often processes of a run were killed, and at which crash points: told at its end.

A pytest plugin. Every worker appends to one file (RECOURSE_FIGURES, where soak.py reads it too).
A run of everything with a binary that has crash points must have met each of them often enough.
"""

import collections
import os
import tempfile

from support.recourse import CRASH_POINTS, FIGURES, MEASURABLE

# k19 is k07 where the request is an undo request.
POINTS = tuple(f"k{number:02d}" for number in range(1, 28) if number != 19)
MET_MIN = 5


def is_controller(config):
    return not hasattr(config, "workerinput")


def pytest_configure(config):
    if is_controller(config) and FIGURES not in os.environ:
        descriptor, path = tempfile.mkstemp(prefix="recourse-figures-")
        os.close(descriptor)
        os.environ[FIGURES] = path
        config.add_cleanup(lambda: os.remove(path))


def counted():
    figures = collections.Counter()
    with open(os.environ[FIGURES], encoding="utf-8") as file:
        for line in file:
            what, count = line.rsplit(" ", 1)
            figures[what] += int(count)
    return figures


def met_too_seldom(config):
    """Of a run of all tests; with a sanitizer they are fewer."""
    is_whole = not config.getoption("keyword") and config.args == ["tests/e2e"]
    if not (is_whole and CRASH_POINTS and MEASURABLE):
        return []
    figures = counted()
    return [point for point in POINTS if figures[f"kills at {point}"] < MET_MIN]


def pytest_sessionfinish(session):
    if is_controller(session.config) and session.exitstatus == 0:
        if met_too_seldom(session.config):
            session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    if not is_controller(config):
        return
    figures = counted()
    met = {point: figures[f"kills at {point}"] for point in POINTS}
    if figures["kills"]:
        points = ", ".join(f"{point} {count}" for point, count in met.items() if count)
        terminalreporter.write_line(f"{figures['kills']} kills; at crash points: {points}")
    if seldom := met_too_seldom(config):
        terminalreporter.write_line(f"FAILED: met fewer than {MET_MIN} times: {' '.join(seldom)}")
