"""Avoids a TCP delay between Spark and its Python worker from one task to the next.

Spark uses a loopback connection to a worker for many tasks, and leaves Nagle's algorithm on. It sends a task in several
small pieces, and by that algorithm the second piece waits until the first is acknowledged; the worker's kernel delays
the acknowledgement by 40 ms to send it together with data:

    Spark    piece 1 ────────►                     ┌► piece 2
    worker               reads, has nothing to say │
    kernel                       40 ms … ACK ──────┘

So the worker requests immediate acknowledgements. The kernel keeps this setting until it treats the connection as
interactive again, which happens while a task runs; so the worker sets it again at the end of each task. In the other
direction, the worker's own last piece does not wait for Spark either.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OPEN_FILES: Final = Path("/proc/self/fd")
_LOOPBACK: Final = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


def disable_socket_delays() -> None:
    """For all loopback connections of this process: Spark does not say which one is its own. Does nothing where there
    are none, or where the system is not Linux."""
    if not hasattr(socket, "TCP_QUICKACK") or not _OPEN_FILES.is_dir():
        return
    for number in _open_sockets():
        try:
            with socket.socket(fileno=os.dup(number)) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.getpeername()[0] in _LOOPBACK:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            continue  # closed meanwhile, or not connected


def _open_sockets() -> Iterator[int]:
    for name in os.listdir(_OPEN_FILES):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                yield int(name)
        except OSError:
            continue  # the one that listed them
