"""Appends plain values to any Cluster as one record batch, the way a producer would."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from broker_core.cluster import AppendResult, Cluster
from broker_core.model.identifiers import CompressionType, TimestampType, TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record


def append_values(
    cluster: Cluster,
    topic: str,
    *values: str | bytes | None,
    partition: int = 0,
    timestamps_ms: Collection[int] = (),
    compression: CompressionType = CompressionType.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> AppendResult:
    """One batch of these values; in a transaction when a producer is given."""
    records = [
        Record(value=value.encode() if isinstance(value, str) else value, timestamp_ms=timestamp_ms)
        for value, timestamp_ms in itertools.zip_longest(values, timestamps_ms, fillvalue=1_000)
    ]
    return append_records(
        cluster,
        topic,
        *records,
        partition=partition,
        compression=compression,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        base_sequence=base_sequence,
    )


def append_records(
    cluster: Cluster,
    topic: str,
    *records: Record,
    partition: int = 0,
    compression: CompressionType = CompressionType.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> AppendResult:
    batch = build_batch(
        records,
        compression=compression,
        timestamp_type=timestamp_type,
        log_append_time_ms=5_000,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        is_transactional=producer_id >= 0,
    )
    return cluster.append(TopicPartition(topic, partition), batch)
