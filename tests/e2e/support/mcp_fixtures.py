"""Fixtures of the modules that put Recourse in front of the MCP fixture server. A module imports
what it uses and says by `proxy` under which policy Recourse runs."""

import contextlib

import pytest

from support.mcp import Fixture
from support.mcp_wire import Legacy, Modern

ERAS = {"legacy": Legacy, "modern": Modern}


@contextlib.contextmanager
def serving(recourse):
    """Runs it; at the end it must still run, and must stop cleanly."""
    with recourse:
        yield recourse
        assert recourse.running(), recourse.stderr()[-4000:]
        assert recourse.stop() == 0, recourse.stderr()[-4000:]


@pytest.fixture(scope="module")
def running(packages):
    with Fixture() as server:
        yield server


@pytest.fixture
def fixture(running):
    running.reset()
    return running


@pytest.fixture
def url(proxy, fixture):
    return f"http://127.0.0.1:{proxy.port}/mcp"


@pytest.fixture(params=ERAS)
def client(url, request):
    return ERAS[request.param](url)
