"""Ports for programs that cannot take port 0. The kernel never gives one of these to a socket that
may have any, so that no other process is met there."""

import contextlib
import random
import socket

BELOW_THE_KERNELS = range(10_000, 30_000)


def is_free(port):
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def free_ports(count=1):
    """The first of so many in a row."""
    return next(
        first
        for first in random.sample(BELOW_THE_KERNELS, 1_000)
        if all(is_free(first + number) for number in range(count))
    )
