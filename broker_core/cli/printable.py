"""Escapes foreign text, such as the names that clients send: it must not move a terminal's cursor or break its
line. In JSON the escapes are JSON's own, so the parsed text is the same."""

from __future__ import annotations

import json
from typing import Any


def printable(text: str) -> str:
    """Escapes every control character, line end and surrogate: `\\n`, `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_json(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON, with the same characters escaped: `\\n`, `\\u001b`, `\\u009b`."""
    lines = json.dumps(value, ensure_ascii=False, indent=indent).split("\n")
    return "\n".join([_printable_json_line(line) for line in lines])


def _printable_json_line(line: str) -> str:
    """The only line ends in JSON are those of its layout: `json.dumps` escapes those of the values."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
