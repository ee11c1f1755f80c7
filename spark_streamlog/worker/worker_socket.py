"""What keeps Spark and its Python worker from waiting for each other's TCP between two tasks.

Spark speaks to a worker over a loopback connection that lives through many tasks, and leaves Nagle's algorithm on. It
sends the order for a task in several small pieces, and by that algorithm the second one waits until the first was
acknowledged; the worker's kernel puts that off for 40 ms, as it hopes for an answer to send along:

    Spark    piece 1 ────────►                     ┌► piece 2
    worker               reads, has nothing to say │
    kernel                       40 ms … ACK ──────┘

So the worker asks for acknowledgements at once. The kernel keeps to that until it takes the connection for a dialogue
again, which happens while a task runs: it is asked anew at the end of each. The other way round the worker's own last
piece does not wait for Spark either.
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


def answer_at_once() -> None:
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
