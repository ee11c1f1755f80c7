"""Is a broker there? Asked as a client asks first: Metadata, by hand, so that nothing is timed but the broker."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

RETRY_SECONDS = 0.002
# Metadata version 1, correlation id 1, no client id, no topics (an empty list, not all of them).
_QUESTION = struct.pack(">hhihi", 3, 1, 1, -1, 0)


def wait_for_first_answer(port: int, *, is_alive: Callable[[], bool], timeout_s: float) -> None:
    """Returns when the broker has named itself. Raises RuntimeError if it has ended, or does not answer in time."""
    deadline = time.monotonic() + timeout_s
    while not _names_a_broker(port):
        if not is_alive():
            raise RuntimeError(f"the broker of port {port} has ended")
        if time.monotonic() > deadline:
            raise RuntimeError(f"no Metadata answer at port {port} after {timeout_s} s")
        time.sleep(RETRY_SECONDS)


def _names_a_broker(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(_QUESTION)) + _QUESTION)
            answer = _read_frame(connection)
    except OSError:
        return False
    correlation_id, broker_count = struct.unpack_from(">ii", answer)
    assert correlation_id == 1, f"answer to question {correlation_id}, not to 1"
    return bool(broker_count > 0)


def _read_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise ConnectionError("closed in the middle of an answer")
        found += piece
    return found
