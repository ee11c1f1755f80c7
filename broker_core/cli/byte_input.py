"""The input of `produce`: a file or standard input, read in pieces as they arrive."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

PIECE_BYTES: Final = 1024 * 1024
"""The size of one read: large enough to be cheap, small enough for the processor's cache."""


class ByteInput:
    """Reads a stream without waiting for more than the available bytes."""

    def __init__(self, stream: BinaryIO, total_bytes: int | None, *, name: str) -> None:
        self._stream = stream
        self.name = name
        """For people."""
        self.total_bytes = total_bytes
        """The size of a regular file; None for an input without a known end."""
        try:
            self._descriptor: int | None = stream.fileno()
        except (OSError, ValueError):
            self._descriptor = None

    def read(self) -> bytes:
        """Returns some bytes, or none at the end."""
        if self._descriptor is not None:
            return os.read(self._descriptor, PIECE_BYTES)
        return self._stream.read(PIECE_BYTES)

    def wait(self, timeout_s: float | None, *, stop_descriptor: int) -> bool:
        """Waits for data or the end of the input, up to the timeout or until `stop_descriptor` is readable.

        Returns whether there is something to read; always true for a regular file or a stream without descriptor.
        """
        if self._descriptor is None or self.total_bytes is not None:
            return True
        try:
            readable, _, _ = select.select([self._descriptor, stop_descriptor], [], [], timeout_s)
        except (OSError, ValueError):
            return True
        return self._descriptor in readable


@contextmanager
def open_input(file: Path | None) -> Iterator[ByteInput]:
    """The file, or standard input for None and for `-`."""
    if file is None or str(file) == "-":
        yield ByteInput(sys.stdin.buffer, None, name="standard input")
        return
    with file.open("rb") as stream:
        yield ByteInput(stream, file.stat().st_size if file.is_file() else None, name=str(file))
