"""Finds a producer's last marker in the files of a partition, from the newest segment to the oldest.

Only for what the producer state does not know: a snapshot of it does not say of which kind a marker was."""

from __future__ import annotations

from collections.abc import Iterable

from broker_core.log.segment_table import Segment
from broker_core.ports import FileSystem
from broker_core.record.control_records import EndTransactionMarker
from broker_core.storage.batch_walk import marker_at, walk_headers
from broker_core.storage.segment_names import LOG, segment_path


def find_last_marker(
    fs: FileSystem, directory: str, segments: Iterable[Segment], producer_id: int
) -> EndTransactionMarker | None:
    """None: the log has no marker of the producer. Raises CorruptBatchError."""
    for segment in sorted(segments, key=lambda each: each.base_offset, reverse=True):
        found = _last_in_segment(fs, directory, segment, producer_id)
        if found is not None:
            return found
    return None


def _last_in_segment(fs: FileSystem, directory: str, segment: Segment, producer_id: int) -> EndTransactionMarker | None:
    found: EndTransactionMarker | None = None
    file = fs.open(segment_path(directory, segment.base_offset, LOG), writable=False)
    try:
        walk = walk_headers(file, position=0, until_position=segment.size_bytes, min_offset=segment.base_offset)
        for position, header in walk:
            if header.is_control and header.producer_id == producer_id:
                found = marker_at(file, position, header) or found
    finally:
        file.close()
    return found
