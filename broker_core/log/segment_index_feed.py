"""Decides the index entries of a segment as batches are added: for appends, recovery and compaction.

As Kafka does, an entry is written for a batch when more than `index.interval.bytes` of batches have passed since the
last one, and a last time entry when the segment stops being active. Feeding the segment's batches again from its
start returns the same entries; this is how a lost index is rebuilt.
"""

from __future__ import annotations

from typing import NamedTuple

from broker_core.log.sparse_index import OffsetPosition, TimestampOffset
from broker_core.model.identifiers import NO_TIMESTAMP
from broker_core.record.batch_header import BatchHeader


class IndexEntries(NamedTuple):
    """The index entries of one batch; usually none."""

    offset_entry: OffsetPosition | None = None
    time_entry: TimestampOffset | None = None


_NOTHING = IndexEntries()


class SegmentIndexFeed:
    """Follows one segment, the active one or one that is rewritten.

    The state is a few numbers: plan on a `copy`, then swap it in. Start with an empty segment, or with the state of a
    known one: the keyword arguments are the attributes of the same names.
    """

    def __init__(
        self,
        *,
        base_offset: int,
        index_interval_bytes: int,
        created_ms: int = NO_TIMESTAMP,
        size_bytes: int = 0,
        next_offset: int | None = None,
        first_timestamp_ms: int = NO_TIMESTAMP,
        largest: TimestampOffset | None = None,
        offset_entry_count: int = 0,
        time_entry_count: int = 0,
        last_time_entry: TimestampOffset | None = None,
        bytes_since_entry: int = 0,
    ) -> None:
        none_yet = TimestampOffset(timestamp_ms=NO_TIMESTAMP, offset=base_offset)
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.created_ms = created_ms
        """When the segment began: the start of segment.ms if the first batch has no timestamp."""
        self.size_bytes = size_bytes
        self.next_offset = base_offset if next_offset is None else next_offset
        self.first_timestamp_ms = first_timestamp_ms
        """Largest timestamp of the first batch: the start of segment.ms. -1 while there is none."""
        self.largest = none_yet if largest is None else largest
        """Largest timestamp so far with its batch's last offset; the first batch of several that share it."""
        self.offset_entry_count = offset_entry_count
        self.time_entry_count = time_entry_count
        self.last_time_entry = none_yet if last_time_entry is None else last_time_entry
        self.bytes_since_entry = bytes_since_entry
        """Bytes of batches since the one with the last offset entry, that one included."""

    def add(self, header: BatchHeader) -> IndexEntries:
        """Adds the next batch, at byte `size_bytes`. Returns its index entries."""
        position, size_bytes, last_offset = self.size_bytes, header.size_bytes, header.last_offset
        if position == 0:
            self.first_timestamp_ms = header.max_timestamp
        if header.max_timestamp > self.largest.timestamp_ms:
            self.largest = TimestampOffset(timestamp_ms=header.max_timestamp, offset=last_offset)
        self.size_bytes = position + size_bytes
        self.next_offset = last_offset + 1
        entries = _NOTHING
        if self.bytes_since_entry > self.index_interval_bytes:
            self.offset_entry_count += 1
            self.bytes_since_entry = 0
            entries = IndexEntries(
                offset_entry=OffsetPosition(offset=last_offset, position=position),
                time_entry=self._maybe_time_entry(),
            )
        self.bytes_since_entry += size_bytes
        return entries

    def close(self) -> TimestampOffset | None:
        """The last time entry, for a segment that stops being active. None if the index already has it."""
        return self._maybe_time_entry()

    def copy(self) -> SegmentIndexFeed:
        twin = object.__new__(SegmentIndexFeed)
        vars(twin).update(vars(self))
        return twin

    def _maybe_time_entry(self) -> TimestampOffset | None:
        if self.largest.timestamp_ms <= self.last_time_entry.timestamp_ms:
            return None
        self.time_entry_count += 1
        self.last_time_entry = self.largest
        return self.largest
