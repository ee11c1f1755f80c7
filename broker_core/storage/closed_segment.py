"""Describes a segment that no longer grows, for retention, compaction and the segment table."""

from __future__ import annotations

from broker_core.log.segment_table import Segment
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import NO_TIMESTAMP
from broker_core.ports import FileSystem
from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent


def describe_closed_segment(
    fs: FileSystem,
    directory: str,
    base_offset: int,
    *,
    next_base_offset: int,
    known: Segment | None,
    index_interval_bytes: int,
) -> tuple[Segment, bool]:
    """(description, whether its index files were valid). `next_offset` is the next segment's base.

    Returns `known` while the file has the same size and time. Damage does not block writes: timestamps that cannot be
    read are unknown, and retention uses the file's time.
    """
    files = SegmentFiles(fs, directory, base_offset, index_interval_bytes=index_interval_bytes)
    try:
        size_bytes, modified_ms = files.size_bytes(), files.modified_ms()
        if (
            known is not None
            and (known.size_bytes, known.modified_ms) == (size_bytes, modified_ms)
            and known.next_offset == next_base_offset
        ):
            return known, True
        max_timestamp_ms = first_timestamp_ms = NO_TIMESTAMP
        is_fit = True
        try:
            extent = SegmentExtent(end_position=size_bytes, next_offset=next_base_offset)
            first = next(files.walk(extent), None)
            first_timestamp_ms = first[1].max_timestamp if first else NO_TIMESTAMP
            max_timestamp_ms = files.largest_timestamp(extent).timestamp_ms
            is_fit = not files.indexes.is_rebuilt
        except CorruptDataError:
            is_fit = True
    finally:
        files.close()
    segment = Segment(
        base_offset=base_offset,
        next_offset=next_base_offset,
        size_bytes=size_bytes,
        max_timestamp_ms=max_timestamp_ms,
        first_timestamp_ms=first_timestamp_ms,
        modified_ms=modified_ms,
    )
    return segment, is_fit
