"""Batches as Kafka's protocol takes them from a producer: offset deltas 0, 1, 2, …, and create time.

A batch that has gaps inside, begins below the wanted offset, or has log-append time is decoded and encoded again with
its codec; its records keep the timestamps that a consumer sees. All others keep their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_core.model.identifiers import TimestampType
from broker_core.model.limits import MAX_BATCH_BYTES
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import iter_headers
from broker_core.record.columns import ALL_COLUMNS, decode, encode


class DenseBatch(NamedTuple):
    """One batch. Its records are at the offsets [base_offset, next_offset) of the source, with gaps if there are fewer
    of them."""

    base_offset: int
    next_offset: int
    record_count: int
    batch: memoryview

    @property
    def has_gaps(self) -> bool:
        return self.record_count != self.next_offset - self.base_offset


def dense_batches(batches: bytearray, from_offset: int) -> Iterator[DenseBatch]:
    """One for each batch with a record at or above `from_offset`."""
    view = memoryview(batches)
    for position, header in iter_headers(view):
        batch = view[position : position + header.size_bytes]
        base_offset = max(header.base_offset, from_offset)
        if base_offset == header.base_offset and _is_dense(header):
            yield DenseBatch(base_offset, header.next_offset, header.record_count, batch)
            continue
        rows = decode(batch, from_offset=from_offset, columns=ALL_COLUMNS).record_batch
        if rows.num_rows:
            encoded = encode(
                rows,
                default_timestamp_ms=-1,
                compression=header.compression_type,
                # One batch out of one batch: how far a copy is, is found again by counting.
                max_batch_bytes=MAX_BATCH_BYTES,
            )
            yield DenseBatch(base_offset, header.next_offset, rows.num_rows, memoryview(encoded.buffer))


def _is_dense(header: BatchHeader) -> bool:
    return header.record_count == header.last_offset_delta + 1 and header.timestamp_type is TimestampType.CREATE_TIME
