"""The parts of an offset range that can hold a record with a key: all except closed segments whose filter excludes it.

Offsets that no segment covers, below the first or after the last one, are part of the result. So the reader notices a
log start that moved, or an end that was not reached.
"""

from __future__ import annotations

from broker_core.cluster import KeyRanges
from broker_core.log.key_filter import ClosedSegment
from broker_core.ports import FileSystem
from broker_core.storage.byte_lookup import OpenSegment, Segments, bytes_within
from broker_core.storage.key_filter_files import KeyFilterFile


def ranges_with_key(
    fs: FileSystem,
    directory: str,
    closed: Segments,
    open_segment: OpenSegment,
    key: bytes | None,
    *,
    from_offset: int,
    until_offset: int,
) -> KeyRanges:
    """`closed`: the segments below the active one, in order."""
    ranges: list[tuple[int, int]] = []
    skipped_bytes = 0
    wanted = from_offset
    for base_offset, extent in closed:
        if base_offset >= until_offset or extent.next_offset <= from_offset:
            continue
        segment = ClosedSegment(base_offset=base_offset, next_offset=extent.next_offset, size_bytes=extent.end_position)
        if not _is_denied(fs, directory, segment, key):
            continue
        if wanted < base_offset:
            ranges.append((wanted, base_offset))
        wanted = extent.next_offset
        if from_offset <= base_offset and wanted <= until_offset:
            skipped_bytes += extent.end_position
        else:
            skipped_bytes += bytes_within(open_segment(base_offset), extent, from_offset, until_offset)
    if wanted < until_offset:
        ranges.append((wanted, until_offset))
    return KeyRanges(ranges=tuple(ranges), skipped_bytes=skipped_bytes)


def _is_denied(fs: FileSystem, directory: str, segment: ClosedSegment, key: bytes | None) -> bool:
    found = KeyFilterFile.open(fs, directory, segment)
    if found is None:
        return False
    try:
        return found.denies(key)
    finally:
        found.close()
