"""What calls may hold: a process in a cell of 512 MiB lives through floods, and serves others."""

import pytest

from support import rawhttp
from support.cgroup import MemoryCell
from support.policies import standard
from support.recourse import MEASURABLE, Recourse

MIB = 1 << 20
CELL = 512 * MIB
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def cell(double, tmp_path, token):
    """A process that may use as much memory as the chart's limit gives it. Where the kernel does
    not say so, the highest size that it had is looked at, at the end."""
    group = MemoryCell(f"{tmp_path.name}-{token}", CELL)
    running = Recourse(tmp_path, standard(double, timeout="10m"))
    running.wrapper = group.wrapper
    try:
        running.start()
        yield running
        assert running.running(), running.stderr()[-4000:]
        now, highest = running.memory_kib()
        assert group.kills() == 0
        assert not MEASURABLE or highest < CELL // 1024, f"{now} KiB, at most {highest} KiB"
    finally:
        running.kill()
        group.remove()


@pytest.mark.parametrize("pair", [b"a&", b"=&", b"abcdefg&", b"a=%61&"])
def test_a_form_of_millions_of_pairs_is_refused_before_it_is_taken_apart(
    cell, double, token, pair
):
    path = f"/plain/{token}"
    body = pair * (8 * MIB // len(pair))
    answer = rawhttp.call(cell.port, "POST", path, headers=FORM, body=body)
    assert answer.status == 413 and "10,000 pairs" in answer.json()["detail"], answer
    assert answer.json()["outcome"] == "not_executed"
    assert double.requests(path) == [] and cell.events_for(path) == []
    now, highest = cell.memory_kib()
    assert not MEASURABLE or highest < 96 * 1024, f"{now} KiB, at most {highest} KiB"


def test_a_form_at_the_bound_is_served(cell, double, token):
    path = f"/plain/{token}"
    pairs = b"&".join(b"n%d=%d" % (n, n) for n in range(10_000))
    assert rawhttp.call(cell.port, "POST", path, headers=FORM, body=pairs).status == 201
    assert len(double.effects(path)) == 1
    late = rawhttp.call(cell.port, "POST", path, headers=FORM, body=pairs + b"&one=more")
    assert late.status == 413
