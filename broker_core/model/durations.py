"""Converts the durations of kio's messages to milliseconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds_of(duration: timedelta) -> int:
    """Exact: a message's durations are whole milliseconds."""
    return duration // _MILLISECOND
