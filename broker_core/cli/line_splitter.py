"""Splits bytes into lines as Arrow columns, without a Python object per line.

A line ends with `\\n`, which is removed; all other bytes stay. The bytes after the last `\\n` are a line too, unless
there are none.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from broker_core.model.exceptions import InvalidRecordError

MAX_LINE_BYTES: Final = 128 * 1024 * 1024
"""The maximum size of a line: longer input without a line end is not text, and must not fill the memory."""


class LineSplitter:
    """`receive_data` returns the complete lines, `finish` the rest. Both return a BinaryArray, possibly empty."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0
        self.line_count = 0

    @property
    def unfinished_bytes(self) -> int:
        """The size of the incomplete last line."""
        return self._unfinished_bytes

    def receive_data(self, data: bytes) -> Any:
        end = data.rfind(b"\n")
        if end < 0:
            self._keep(data)
            return _no_lines()
        block = b"".join([*self._unfinished, data[:end]])
        self._unfinished = []
        self._unfinished_bytes = 0
        if end + 1 < len(data):
            self._keep(data[end + 1 :])
        return self._split(block)

    def finish(self) -> Any:
        if not self._unfinished_bytes:
            return _no_lines()
        block = b"".join(self._unfinished)
        self._unfinished = []
        self._unfinished_bytes = 0
        return self._split(block)

    def _keep(self, data: bytes) -> None:
        self._unfinished.append(data)
        self._unfinished_bytes += len(data)
        if self._unfinished_bytes > MAX_LINE_BYTES:
            raise InvalidRecordError(
                f"line {self.line_count + 1} of {self._source} has more than {MAX_LINE_BYTES} bytes, the maximum for"
                " a line"
            )

    def _split(self, block: bytes) -> Any:
        lines = pc.split_pattern(pa.array([block], pa.binary()), pattern=b"\n").values
        self.line_count += len(lines)
        return lines


def split_keys(lines: Any, separator: bytes, *, first_line: int, source: str) -> tuple[Any, Any]:
    """(keys, values): each line cut at its first separator. A line without one is an error with its number and
    source."""
    parts = pc.split_pattern(lines, pattern=separator, max_splits=1)
    counts = pc.list_value_length(parts)
    missing = pc.index(counts, pa.scalar(1, counts.type)).as_py()
    if missing >= 0:
        shown = repr(separator.decode("utf-8", "backslashreplace"))
        raise InvalidRecordError(f"line {first_line + missing} of {source} has no key separator {shown}")
    return pc.list_element(parts, 0), pc.list_element(parts, 1)


def _no_lines() -> Any:
    return pa.array([], pa.binary())
