"""Plans which bytes of which objects a reader needs."""

from __future__ import annotations

from typing import NamedTuple

from broker_core.object_log.partition_image import PartitionImage


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
    partition: PartitionImage, from_offset: int, until_offset: int, *, max_bytes: int | None = None
) -> tuple[PlannedRead, ...]:
    """Whole ranges in offset order from the one with `from_offset`, or the first after it, below `until_offset`.

    As many as fit `max_bytes`, but at least one.
    """
    found: list[PlannedRead] = []
    size_bytes = 0
    first, last = partition.rows_between(from_offset, until_offset)
    for row in range(first, last):
        placed = partition.ranges[row]
        data = placed.data
        size_bytes += data.size_bytes
        if found and max_bytes is not None and size_bytes > max_bytes:
            break
        found.append(PlannedRead(data.object, data.position, data.size_bytes, placed.base_offset, data.offset_count))
    return tuple(found)
