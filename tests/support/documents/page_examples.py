"""The examples of a Markdown page: each fenced block, with its language and where it stands.

A comment in the line before a block says how it is to be treated:

    <!-- example: not run, it needs an S3 bucket -->
    <!-- example: runs until it is stopped -->
    <!-- example: runs beside those that follow -->

A block without one is run, in the order of the page, with what the blocks before it left.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
LANGUAGES = frozenset({"python", "bash", "sql", "text"})
FENCE = re.compile(r"^```(\w*)$")
NOTE = re.compile(
    r"^<!-- example: (?:(?P<not_run>not run, .+)"
    r"|(?P<until_stopped>runs until it is stopped)"
    r"|(?P<beside>runs beside those that follow)) -->$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One fenced block. `not_run` is the reason, empty for a block that is run."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str
    is_stopped: bool
    is_beside: bool

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def examples_of(page: Path) -> list[Example]:
    """All fenced blocks of a page. A comment that is not one of the two forms fails."""
    found: list[Example] = []
    lines = page.read_text().splitlines()
    block: list[str] | None = None
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence and block is None:
            block, begin, language, note = [], number, fence[1], _note_before(lines, number)
        elif line == "```":
            assert block is not None
            found.append(
                Example(
                    page=page,
                    line=begin,
                    language=language,
                    text="\n".join(block) + "\n",
                    not_run=(note and note["not_run"]) or "",
                    is_stopped=bool(note and note["until_stopped"]),
                    is_beside=bool(note and note["beside"]),
                )
            )
            block = None
        elif block is not None:
            block.append(line)
    assert block is None, f"{page_id(page)}:{begin}: the block has no end"
    return found


def _note_before(lines: list[str], number: int) -> re.Match[str] | None:
    before = lines[number - 2] if number > 1 else ""
    if not before.startswith("<!-- example:"):
        return None
    note = NOTE.match(before)
    assert note, f"{before!r} does not say how the example is run: see {__name__}"
    return note
