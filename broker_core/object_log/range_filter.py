"""The key filter of a range: which keys its records may have. It lies behind the range's batches in their object.

    [position, position + size_bytes)     the batches
    the `filter_bytes` after them         the filter, as in `log.key_filter`, with offsets relative to the range

The commit that refers to the range tells `filter_bytes`; 0 is a range without a filter, such as all those of earlier
versions. Small ranges have none: to read them costs one request, as does a look at their filter. Whoever writes a range
that will be merged leaves the filter to the merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from broker_core.log.key_filter import (
    KEY_FILTER_HEADER_BYTES,
    ClosedSegment,
    KeyFilterBuilder,
    block_denies,
    block_position,
    decode_key_filter_header,
    is_block_whole,
    key_filter_blocks,
)
from broker_core.model.exceptions import CorruptDataError
from broker_core.object_log.data_range import DataRange
from broker_core.record.batch_reader import iter_headers
from broker_core.record.key_places import BLOCK_BYTES

Batches = bytearray | memoryview

MIN_FILTERED_RANGE_BYTES: Final = 1024 * 1024
"""A smaller range gets no filter."""
MIN_FILTERED_UPLOAD_BYTES: Final = 8 * 1024 * 1024
"""The same for what a writer uploads: half of MERGED_RANGE_BYTES. Smaller ranges are merged, larger ones are not."""


def build_range_filter(batches: Batches, *, least_bytes: int) -> bytes:
    """Of whole batches in ascending order of offset. Empty if they are smaller than `least_bytes`, or cannot be
    decoded, which their readers report."""
    if len(batches) < least_bytes:
        return b""
    try:
        return _built(batches)
    except CorruptDataError:
        return b""


def filter_span(data: DataRange, key: bytes | None) -> tuple[int, int] | None:
    """(position in the object, bytes) of what says whether the range may have the key; None asks for records without
    one. None if there is nothing to read."""
    block_count = key_filter_blocks(data.filter_bytes) if data.filter_bytes else None
    if block_count is None or (key is not None and not block_count):
        return None
    start = data.position + data.size_bytes
    if key is None:
        return start, KEY_FILTER_HEADER_BYTES
    return start + block_position(key, block_count), BLOCK_BYTES


def filter_denies(data: DataRange, key: bytes | None, content: bytes | None) -> bool:
    """Whether no record of the range has the key. `content`: the bytes of `filter_span`; what is short or damaged
    excludes nothing."""
    if not data.filter_bytes:
        return False
    block_count = key_filter_blocks(data.filter_bytes)
    if key is not None and block_count == 0:
        return True
    if content is None or block_count is None:
        return False
    if key is not None:
        return block_denies(content, key, block_count)
    header = decode_key_filter_header(content)
    return header is not None and header.segment.size_bytes == data.size_bytes and not header.null_key_count


def filter_problem(data: DataRange, batches: Batches, stored: bytes) -> tuple[int, str, bool] | None:
    """What is wrong with a whole filter: (position in it, what, whether queries miss records by it)."""
    header = decode_key_filter_header(stored[:KEY_FILTER_HEADER_BYTES])
    if header is None or header.segment.size_bytes != data.size_bytes or header.file_bytes != len(stored):
        return 0, "the key filter is damaged or was not made for this range", False
    for position in range(KEY_FILTER_HEADER_BYTES, len(stored), BLOCK_BYTES):
        if not is_block_whole(stored[position : position + BLOCK_BYTES]):
            return position, "a block of the key filter is damaged", False
    builder = KeyFilterBuilder(header.segment, block_count=header.block_count)
    for keys in _keys_of(batches):
        builder.add(keys)
    if builder.is_denied_by(stored):
        return 0, "the key filter misses an existing key", True
    return None


def _built(batches: Batches) -> bytes:
    first, next_offset = None, 0
    for _, header in iter_headers(batches):
        first = header.base_offset if first is None else first
        next_offset = header.next_offset
    assert first is not None, "a range without batches"
    segment = ClosedSegment(base_offset=0, next_offset=next_offset - first, size_bytes=len(batches))
    builder = KeyFilterBuilder(segment)
    for keys in _keys_of(batches):
        builder.add(keys)
    return builder.finish()


def _keys_of(batches: Batches) -> Iterator[Any]:
    """Arrow arrays of keys. Raises CorruptDataError."""
    # Imported here, where a filter is built: a process that only commits does not need pyarrow.
    from broker_core.record.columns import decode

    view = memoryview(batches)
    position = 0
    while position < len(view):
        from_offset = int.from_bytes(view[position : position + 8], "big")
        decoded = decode(view[position:], from_offset=from_offset, columns=frozenset({"key"}))
        yield decoded.record_batch.column("key")
        position += decoded.bytes_consumed
