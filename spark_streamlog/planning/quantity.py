"""Durations and sizes as Spark's options write them: `15m`, `250ms`, `64MB`, `512k`.

Both have an integer of 19 digits at most and a unit in any case. The range of the number is not checked here.
"""

from __future__ import annotations

import re
from typing import Final

_MICROSECONDS: Final = {
    "us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000,
}  # fmt: skip
_POWERS_OF_1024: Final = {
    "b": 0, "k": 1, "kb": 1, "m": 2, "mb": 2, "g": 3, "gb": 3, "t": 4, "tb": 4, "p": 5, "pb": 5,
}  # fmt: skip


def duration_ms(text: str, *, needs_unit: bool = False) -> int | None:
    """Milliseconds, rounded down; a bare number is milliseconds unless a unit is required. None: not a duration."""
    number, unit = _number_and_unit(text)
    if number is None or (needs_unit and not unit) or (unit or "ms") not in _MICROSECONDS:
        return None
    return number * _MICROSECONDS[unit or "ms"] // 1000


def size_bytes(text: str) -> int | None:
    """Bytes, with Spark's units: `k` and `kb` are both 1024. None: not a size."""
    number, unit = _number_and_unit(text)
    if number is None or (unit or "b") not in _POWERS_OF_1024:
        return None
    return number << 10 * _POWERS_OF_1024[unit or "b"]


def _number_and_unit(text: str) -> tuple[int | None, str]:
    # A bound on the digits: for thousands of them Python's conversion raises its own error.
    found = re.fullmatch(r"0*([0-9]{1,19})\s*([a-z]*)", text.strip().lower(), re.ASCII)
    return (int(found[1]), found[2]) if found else (None, "")
