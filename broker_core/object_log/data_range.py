"""Ranges: stretches of batches of one partition that lie together in one object."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class DataRange(NamedTuple):
    """Where batches lie, and what they amount to. Offsets in them count from the start of the range (`stored_batches`).

    `offset_count` is above `record_count` where compaction removed records. Timestamps are in ms, -1 where there is
    none: the first batch's largest one and the largest of all.
    """

    object: str
    position: int
    size_bytes: int
    offset_count: int
    record_count: int
    first_timestamp_ms: int
    max_timestamp_ms: int


class AppendedRange(NamedTuple):
    """A range that a commit puts at the end of a partition. Its place in the log is what the fold gives it."""

    topic_id: UUID
    partition: int
    data: DataRange


class PlacedRange(NamedTuple):
    """A range at its place in a partition."""

    base_offset: int
    data: DataRange

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.data.offset_count
