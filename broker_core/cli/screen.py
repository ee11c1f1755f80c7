"""Output for people and scripts: tables and JSON on stdout, progress and notes on stderr.

Tables fit the terminal; in a pipe or file they are as wide as needed. Progress is shown only on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from broker_core.cli.printable import printable, printable_json
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import is_internal_topic

_UNLIMITED_WIDTH = 100_000
_GAP = 2
_LEAST_LONG_WIDTH = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`is_long`: the column that is folded if the terminal is too narrow. A heading may have several lines."""

    heading: str
    is_number: bool = False
    is_long: bool = False


def stdout_console() -> Console:
    """Recreated for each use: stdout may have been replaced."""
    is_terminal = sys.stdout.isatty()
    return Console(width=None if is_terminal else _UNLIMITED_WIDTH, highlight=False, soft_wrap=not is_terminal)


def stderr_console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def show_table(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a table. On a terminal its long column is folded to fit; if that is not enough, a row is a block of lines.

    Cells are shown without markup. Control characters are escaped.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [_width(column, [row[place] for row in cells]) for place, column in enumerate(columns)]
    console = stdout_console()
    if sum(widths) + _GAP * (len(widths) - 1) > console.width:
        _show_records(console, [" ".join(column.heading.split()) for column in columns], cells)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        justify: JustifyMethod = "right" if column.is_number else "left"
        # The width is explicit: otherwise a table that is too wide narrows every column, also those that must not wrap.
        table.add_column(column.heading, justify=justify, overflow="fold", no_wrap=not column.is_long, min_width=width)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _width(column: Column, cells: Iterable[str]) -> int:
    """The minimum width of a column."""
    widest = max(cell_len(line) for text in (column.heading, *cells) for line in (text.splitlines() or [""]))
    return min(widest, _LEAST_LONG_WIDTH) if column.is_long else widest


def _show_records(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One line per cell, one block per row: for a terminal in which a table would lose digits."""
    margin = max(map(len, headings), default=0)
    for row in rows:
        for heading, cell in zip(headings, row, strict=True):
            console.print(Text(f"{heading.rjust(margin)}  {cell}"), soft_wrap=True)
        console.print()


def show_json(value: Any) -> None:
    """One JSON document on stdout. Control characters are escaped."""
    print(printable_json(value, indent=2))


def partition_json(partition: TopicPartition) -> dict[str, Any]:
    """The fields of a partition in all JSON of the command line."""
    return {"topic": partition.topic, "partition": partition.partition}


def note(text: str) -> None:
    """Prints a line on stderr for people, which is not part of the output."""
    stderr_console().print(Text(printable(text)))


def counted(number: int, noun: str) -> str:
    """`1 place`, `2 places`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def counted_partitions(partitions: Collection[TopicPartition]) -> str:
    """`2 partitions`, `2 partitions and 1 internal partition`."""
    internal_count = sum(is_internal_topic(partition.topic) for partition in partitions)
    internal = f" and {counted(internal_count, 'internal partition')}" if internal_count else ""
    return counted(len(partitions) - internal_count, "partition") + internal


def format_timestamp(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; `-` without a time, the number if it is out of the calendar's range."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def format_duration(duration_ms: int) -> str:
    """In the two largest useful units: `1.5 s`, `12 min 5 s`, `3 h 12 min`, `10 d 9 h`."""
    seconds, minutes, hours = (duration_ms // unit_ms for unit_ms in (1000, 60_000, 3_600_000))
    if minutes == 0:
        return f"{duration_ms // 100 / 10:.1f} s"
    if hours == 0:
        return f"{minutes} min {seconds % 60} s"
    if hours < 24:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24:,} d {hours % 24} h"


class ByteProgress:
    """A bar over bytes on stderr. If stderr is not a terminal, it shows nothing and costs nothing."""

    def __init__(self, progress: Progress | None, description: str, total_bytes: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=total_bytes) if progress else None

    def advance(self, count_bytes: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, count_bytes)

    def show(self, done_bytes: int, total_bytes: int) -> None:
        """Sets both: for work whose size becomes known only while it runs."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done_bytes, total=total_bytes)


SILENT = ByteProgress(None, "", None)


@contextmanager
def byte_progress(description: str, total_bytes: int | None = None, *, is_shown: bool = True) -> Iterator[ByteProgress]:
    """The bar while the block runs; it disappears with it."""
    if not is_shown or not sys.stderr.isatty():
        yield SILENT
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=stderr_console(), transient=True) as progress:
        yield ByteProgress(progress, description, total_bytes)


@contextmanager
def step_progress(description: str) -> Iterator[Callable[[object, int, int], None]]:
    """A bar over steps, on stderr if that is a terminal. It is called with the next step, the count of completed steps,
    and the total."""
    if not sys.stderr.isatty():
        yield lambda following, done_count, total_count: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=stderr_console(), transient=True) as progress:
        task = progress.add_task(description, total=None)

        def show(following: object, done_count: int, total_count: int) -> None:
            progress.update(task, description=f"{description} {following}", completed=done_count, total=total_count)

        yield show


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(str(value))
