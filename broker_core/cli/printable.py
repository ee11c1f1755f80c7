"""Text of others, such as the names that clients give themselves, made harmless: it must not move a terminal's cursor,
nor break the line that it stands in."""

from __future__ import annotations


def printable(text: str) -> str:
    """With every control character, line end and half character as an escape: `\\n`, `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
