r"""Java's properties, the form of every configuration file of Kafka.

    # a comment, as is a line with !
    name=value                  or name: value, or name value
    long = one \
           two                  a backslash at the end: the next line goes on, without its leading blanks

`\n`, `\t`, `\r`, `\f` and `\uXXXX` are those characters; a backslash before any other means that character. If a name
is repeated the last value wins.
"""

from __future__ import annotations

import re
from typing import Final

_BLANKS: Final = " \t\f"
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ENTRY: Final = re.compile(r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Names and values. Every text is valid."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, f"no setting in {line!r}"
        found[_unescaped(entry["name"])] = _unescaped(entry["value"])
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    is_going_on = False
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANKS)
        if not is_going_on and (not line or line[0] in "#!"):
            continue
        backslash_count = len(line) - len(line.rstrip("\\"))
        ends_open = backslash_count % 2 == 1
        content = line[:-1] if ends_open else line
        if is_going_on:
            lines[-1] += content
        else:
            lines.append(content)
        is_going_on = ends_open
    return lines


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        escaped = found[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROL.get(escaped, escaped)

    return _ESCAPE.sub(character, text)
