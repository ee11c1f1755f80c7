"""Plans which bytes of which objects a reader needs, and encodes a plan for the way to its task.

    encoded plan    zlib of: the object names as JSON, a line feed, then five columns of little-endian 64-bit numbers:
                    name (its place in the list), position, bytes, base offset, offset count

A read of an object of its own takes about 30 bytes.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker_core.object_log.data_range import PlacedRange
from broker_core.object_log.partition_image import PartitionImage
from broker_core.staged_writes import FetchStep

MAX_PLANNED_READ_COUNT: Final = 10_000
"""Ranges in one plan for a task, about 300 kB. A task with more of them looks up the rest itself: a few requests beside
thousands."""
_DECODED_PLANS: Final = 64
_COLUMN_COUNT: Final = 5


class PlannedRead(NamedTuple):
    """Bytes [position, position + size_bytes) of an object are batches of the range at `base_offset`.

    The range ends at `end_offset`; if the bytes are its last ones, reading continues there.
    """

    object: str
    position: int
    size_bytes: int
    base_offset: int
    offset_count: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.offset_count


def plan_read(
    partition: PartitionImage,
    from_offset: int,
    until_offset: int,
    *,
    max_bytes: int | None = None,
    max_count: int | None = None,
) -> tuple[PlannedRead, ...]:
    """Whole ranges in offset order from the one with `from_offset`, or the first after it, below `until_offset`.

    As many as fit `max_bytes`, but at least one, and at most `max_count`.
    """
    found: list[PlannedRead] = []
    size_bytes = 0
    first, last = partition.rows_between(from_offset, until_offset)
    if max_count is not None:
        last = min(last, first + max_count)
    for row in range(first, last):
        placed = partition.ranges[row]
        size_bytes += placed.data.size_bytes
        if found and max_bytes is not None and size_bytes > max_bytes:
            break
        found.append(planned_read(placed))
    return tuple(found)


def planned_read(placed: PlacedRange) -> PlannedRead:
    """Of all batches of a range."""
    data = placed.data
    return PlannedRead(data.object, data.position, data.size_bytes, placed.base_offset, data.offset_count)


def plan_fetch_steps(
    reads: Sequence[PlannedRead], from_offset: int, until_offset: int, *, max_bytes: int, ahead_bytes: int
) -> list[FetchStep]:
    """As `PlannedReads.fetch_steps`: it counts what `whole_reads` and the first read from within a range take."""
    steps: list[FetchStep] = []
    row = row_at(reads, from_offset)
    while row < len(reads) and from_offset < until_offset:
        begins_inside = from_offset > reads[row].base_offset
        taken = [reads[row]] if begins_inside else whole_reads(reads, row, max_bytes)
        size_bytes = sum(read.size_bytes for read in taken) or max_bytes
        if steps and size_bytes > ahead_bytes:
            break
        ahead_bytes -= size_bytes
        row += len(taken)
        if not taken:
            steps.append(FetchStep(from_offset, from_offset, size_bytes))
            break
        steps.append(FetchStep(from_offset, reads[row - 1].end_offset, size_bytes))
        from_offset = reads[row - 1].end_offset
    return steps


def whole_reads(reads: Sequence[PlannedRead], row: int, max_bytes: int) -> list[PlannedRead]:
    """The ranges from that row on that one fetch reads whole: as many as fit `max_bytes`. A first one of up to twice
    that is read whole too, because its rest would be a request of its own. None: it is larger."""
    found = fitting_reads(reads, row, max_bytes)
    return found or fitting_reads(reads[row : row + 1], 0, 2 * max_bytes)


def fitting_reads(reads: Sequence[PlannedRead], row: int, max_bytes: int) -> list[PlannedRead]:
    """The ranges from that row on that fit together."""
    found: list[PlannedRead] = []
    while row < len(reads) and reads[row].size_bytes <= max_bytes:
        max_bytes -= reads[row].size_bytes
        found.append(reads[row])
        row += 1
    return found


def row_at(reads: Sequence[PlannedRead], offset: int) -> int:
    """Row of the first range that ends above `offset`."""
    return bisect_right(reads, offset, key=lambda read: read.end_offset)


def encode_reads(reads: Sequence[PlannedRead]) -> bytes:
    names = {name: place for place, name in enumerate(dict.fromkeys(read.object for read in reads))}
    columns = zip(*((names[read.object], *read[1:]) for read in reads), strict=True)
    numbers = [number for column in columns for number in column]
    return zlib.compress(json.dumps(list(names)).encode() + b"\n" + struct.pack(f"<{len(numbers)}q", *numbers), 1)


@functools.lru_cache(maxsize=_DECODED_PLANS)
def decode_reads(encoded: bytes) -> tuple[PlannedRead, ...]:
    """The inverse of `encode_reads`; a task decodes the same plan at each of its fetches."""
    head, _, body = zlib.decompress(encoded).partition(b"\n")
    names = json.loads(head)
    numbers = struct.unpack(f"<{len(body) // 8}q", body)
    count = len(numbers) // _COLUMN_COUNT
    columns = [numbers[start : start + count] for start in range(0, len(numbers), count)] if count else [()]
    return tuple(PlannedRead(names[name], *rest) for name, *rest in zip(*columns, strict=True))
