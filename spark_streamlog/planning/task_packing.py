"""Several ranges in one Spark task: starting Python in a task costs more than reading a little.

The heaviest item goes first, each into the lightest task so far. So a large range stays alone, and small ones fill up
what is left. Within a task the items keep their order, so the ranges of one partition are read in order of offsets.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

TASK_BYTES: Final = 8 * 1024 * 1024
"""What a task must read to be worth its start: some 20 ms in the JVM and Python, in which 8 MiB are decoded."""

ESTIMATED_OFFSET_BYTES: Final = 1024
"""Where bytes cannot be told without reading: at brokers."""


def task_count(total_bytes: int, *, at_least: int) -> int:
    """How many tasks are worth it for so many bytes. `at_least`: as many as may run side by side."""
    return max(at_least, -(-total_bytes // TASK_BYTES))


def pack(sizes_bytes: Sequence[int], count: int) -> list[list[int]]:
    """The items, by their places in `sizes_bytes`, in at most `count` tasks; `count` is positive. No task is empty, and
    the tasks are in the order of their first items."""
    if len(sizes_bytes) <= count:
        return [[place] for place in range(len(sizes_bytes))]
    tasks: list[list[int]] = [[] for _ in range(count)]
    # An item without bytes costs something as well.
    lightest = [(0, number) for number in range(count)]
    for place in sorted(range(len(sizes_bytes)), key=lambda place: -sizes_bytes[place]):
        taken, number = heapq.heappop(lightest)
        tasks[number].append(place)
        heapq.heappush(lightest, (taken + max(sizes_bytes[place], ESTIMATED_OFFSET_BYTES), number))
    return sorted(sorted(task) for task in tasks if task)
