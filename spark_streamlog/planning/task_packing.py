"""Several ranges in one Spark task: starting Python in a task costs more than reading a little.

The largest item goes first, each into the smallest task so far. So a large range stays alone, and small ones fill the
other tasks. Within a task the items keep their order, so the ranges of one partition are read in order of offsets.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

TASK_BYTES: Final = 8 * 1024 * 1024
"""The bytes that justify a task: its start takes some 20 ms in the JVM and Python, the time to decode 8 MiB."""

ESTIMATED_OFFSET_BYTES: Final = 1024
"""Where the size is not known without reading: at brokers."""


def task_count(total_bytes: int, *, at_least: int) -> int:
    """The number of tasks for this many bytes. `at_least`: the number that may run in parallel."""
    return max(at_least, -(-total_bytes // TASK_BYTES))


def pack(sizes_bytes: Sequence[int], count: int) -> list[list[int]]:
    """The items, by their index in `sizes_bytes`, in at most `count` tasks; `count` is positive. No task is empty, and
    the tasks are in the order of their first items."""
    if len(sizes_bytes) <= count:
        return [[place] for place in range(len(sizes_bytes))]
    tasks: list[list[int]] = [[] for _ in range(count)]
    # An item without bytes has a cost too.
    lightest = [(0, number) for number in range(count)]
    for place in sorted(range(len(sizes_bytes)), key=lambda place: -sizes_bytes[place]):
        taken, number = heapq.heappop(lightest)
        tasks[number].append(place)
        heapq.heappush(lightest, (taken + max(sizes_bytes[place], ESTIMATED_OFFSET_BYTES), number))
    return sorted(sorted(task) for task in tasks if task)
