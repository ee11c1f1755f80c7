"""Retention pins: a committed offset that protects the records at and after it from retention, until a time.

A reader commits its group's offset with this metadata:

    streamlog-pin-until:1798761600000       milliseconds since 1970-01-01 UTC

More text may follow after a semicolon. A running reader renews the pin with each commit; the pin of a dead one expires
by itself. Other systems see an ordinary committed offset.
"""

from __future__ import annotations

import re
from typing import Final

_PREFIX: Final = "streamlog-pin-until:"
_PIN: Final = re.compile(re.escape(_PREFIX) + r"(?P<until_ms>[0-9]{1,19})(;.*)?", re.DOTALL)


def pin_metadata(until_ms: int) -> str:
    """The offset metadata that pins it until `until_ms`."""
    return f"{_PREFIX}{until_ms}"


def pinned_until_ms(metadata: str) -> int | None:
    """The end of the pin in this metadata; None if there is none."""
    found = _PIN.fullmatch(metadata)
    return int(found["until_ms"]) if found else None
