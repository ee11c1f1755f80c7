"""Escapes foreign text, such as the names that clients send: it must not move a terminal's cursor or break its
line."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escapes every control character, line end and surrogate: `\\n`, `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
