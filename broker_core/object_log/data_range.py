"""Ranges: consecutive batches of one partition in one object."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class DataRange(NamedTuple):
    """The position of batches and their totals. Offsets in them are relative to the start of the range
    (`stored_batches`).

    `offset_count` is above `record_count` if compaction removed records. Timestamps are in ms, -1 if there is
    none: the first batch's largest one and the largest of all. `filter_bytes`: the key filter behind the batches, 0
    for none (`range_filter`).
    """

    object: str
    position: int
    size_bytes: int
    offset_count: int
    record_count: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    filter_bytes: int = 0


class AppendedRange(NamedTuple):
    """A range that a commit appends to a partition. The fold assigns its offsets."""

    topic_id: UUID
    partition: int
    data: DataRange


class PlacedRange(NamedTuple):
    """A range with its base offset in a partition."""

    base_offset: int
    data: DataRange

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.data.offset_count
