"""Retention pins: a committed offset that keeps what lies at and behind it from being deleted, until a time.

A reader commits its offset for a group as everybody does, with this text beside it:

    streamlog-pin-until:1798761600000       milliseconds since 1970-01-01 UTC

More text may follow behind a semicolon. A reader that lives renews the pin with each commit; the pin of one that is
gone runs out by itself. Other systems see an ordinary committed offset.
"""

from __future__ import annotations

import re
from typing import Final

_PREFIX: Final = "streamlog-pin-until:"
_PIN: Final = re.compile(re.escape(_PREFIX) + r"(?P<until_ms>[0-9]{1,19})(;.*)?", re.DOTALL)


def pin_metadata(until_ms: int) -> str:
    """The text beside a committed offset that pins it until `until_ms`."""
    return f"{_PREFIX}{until_ms}"


def pinned_until_ms(metadata: str) -> int | None:
    """Until when the offset with this text is pinned; None when the text is no pin."""
    found = _PIN.fullmatch(metadata)
    return int(found["until_ms"]) if found else None
