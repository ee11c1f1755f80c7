"""Builders for tests of the log machines: headers and segments with only what a test is about spelled out."""

from __future__ import annotations

from broker_core.log.segment_table import Segment
from broker_core.record.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from broker_core.record.control_records import EndTransactionMarker


def a_header(
    *,
    base_offset: int = 0,
    records: int = 1,
    size_bytes: int = 100,
    timestamp_ms: int = 1_000,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = 0,
) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset,
        batch_length=size_bytes - 12,
        partition_leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL_BIT * transactional | CONTROL_BIT * control,
        last_offset_delta=records - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch if producer_id < 0 or epoch >= 0 else 0,
        base_sequence=sequence,
        record_count=records,
    )


def a_marker_header(*, base_offset: int, producer_id: int, epoch: int = 0, timestamp_ms: int = 1_000) -> BatchHeader:
    """Of a batch that ends a transaction; what it says is passed beside it as EndTransactionMarker."""
    return a_header(
        base_offset=base_offset, producer_id=producer_id, epoch=epoch, timestamp_ms=timestamp_ms, transactional=True,
        control=True,
    )  # fmt: skip


def a_segment(
    base_offset: int,
    next_offset: int,
    *,
    size_bytes: int = 1_000,
    max_timestamp_ms: int = 1_000,
    first_timestamp_ms: int = 1_000,
    modified_ms: int = -1,
    index_size_bytes: int = 0,
) -> Segment:
    return Segment(
        base_offset=base_offset,
        next_offset=next_offset,
        size_bytes=size_bytes,
        max_timestamp_ms=max_timestamp_ms,
        first_timestamp_ms=first_timestamp_ms,
        modified_ms=modified_ms,
        index_size_bytes=index_size_bytes,
    )


def a_marker(*, is_commit: bool = True, coordinator_epoch: int = 0) -> EndTransactionMarker:
    return EndTransactionMarker(is_commit=is_commit, coordinator_epoch=coordinator_epoch)
