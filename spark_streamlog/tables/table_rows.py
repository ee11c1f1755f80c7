"""The rows of the metadata tables, read from a `Cluster`.

A table is read over some time and is not a snapshot of one instant: a topic that is deleted meanwhile has rows or has
none, without an error. Tables are small except `batches`, which is read partition by partition and in pieces.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from broker_core.cluster import Cluster, FetchedBatches, TopicDescription
from broker_core.group_lag import lag_of_group
from broker_core.model.exceptions import (
    OffsetOutOfRangeError,
    UnknownGroupError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import NO_TIMESTAMP, TopicPartition
from broker_core.model.limits import DEFAULT_FETCH_BYTES
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import iter_headers
from broker_core.staged_writes import FetchPlan, PlannedReads
from spark_streamlog.tables.table_schema import MetadataTable, table_arrow_schema

logger = logging.getLogger("spark_streamlog")

PIECE_ROW_COUNT: Final = 10_000
"""Rows of one Arrow batch of the table `batches`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """The rows that one task reads. Empty `topics` or `groups`: all of them. `partition`: only for `batches`; `plan`:
    where its batches are, in a log that plans its reads."""

    table: MetadataTable
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    partition: TopicPartition | None = None
    plan: FetchPlan | None = None


def split_scan(cluster: Cluster, scan: TableScan) -> list[TableScan]:
    """The scan in as many pieces as can be read in parallel."""
    if scan.table is not MetadataTable.BATCHES:
        return [scan]
    partitions = _partitions(cluster, scan)
    return [TableScan(table=scan.table, partition=tp, plan=_plan_of(cluster, tp)) for tp in partitions]


def _plan_of(cluster: Cluster, partition: TopicPartition) -> FetchPlan | None:
    if not isinstance(cluster, PlannedReads):
        return None
    bounds = cluster.bounds(partition)
    return cluster.plan_fetches(partition, bounds.log_start_offset, bounds.high_watermark)


def read_table(cluster: Cluster, scan: TableScan, *, now_ms: int) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the table's schema; none when there are no rows."""
    match scan.table:
        case MetadataTable.TOPICS:
            rows = [_topic_row(topic) for topic in _topics(cluster, scan)]
        case MetadataTable.SEGMENTS:
            rows = [row for partition in _partitions(cluster, scan) for row in _segment_rows(cluster, partition)]
        case MetadataTable.GROUPS:
            rows = [row for group in _groups(cluster, scan) for row in _group_rows(cluster, group, scan)]
        case MetadataTable.TRANSACTIONS:
            rows = _transaction_rows(cluster)
        case MetadataTable.LAG:
            rows = [row for group in _groups(cluster, scan) for row in _lag_rows(cluster, group, scan, now_ms)]
        case MetadataTable.BATCHES:
            assert scan.partition is not None, "the table batches is read partition by partition"
            yield from _batches_of(cluster, scan.partition, scan.plan)
            return
    if rows:
        yield _to_arrow(scan.table, rows)


def _to_arrow(table: MetadataTable, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    schema = table_arrow_schema(table)
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _topics(cluster: Cluster, scan: TableScan) -> list[TopicDescription]:
    topics = cluster.describe_topics(scan.topics or None)
    return [topics[name] for name in sorted(topics)]


def _partitions(cluster: Cluster, scan: TableScan) -> list[TopicPartition]:
    return [partition for topic in _topics(cluster, scan) for partition in topic.partitions()]


def _groups(cluster: Cluster, scan: TableScan) -> list[str]:
    return [group for group in cluster.list_groups() if not scan.groups or group in scan.groups]


def _topic_row(topic: TopicDescription) -> tuple[Any, ...]:
    return topic.name, str(topic.topic_id), topic.partition_count, topic.is_internal, sorted(topic.configs.items())


def _segment_rows(cluster: Cluster, partition: TopicPartition) -> list[tuple[Any, ...]]:
    try:
        segments = cluster.describe_segments(partition)
    except (UnknownTopicError, UnknownPartitionError):
        return []
    return [
        (
            partition.topic,
            partition.partition,
            segment.base_offset,
            segment.next_offset,
            segment.size_bytes,
            _timestamp_us(segment.max_timestamp_ms),
            segment.is_active,
            segment.path,
        )
        for segment in segments
    ]


def _group_rows(cluster: Cluster, group: str, scan: TableScan) -> list[tuple[Any, ...]]:
    return [
        (group, tp.topic, tp.partition, stored.offset, stored.metadata, _timestamp_us(stored.commit_time_ms))
        for tp, stored in sorted(cluster.fetch_offsets(group).items())
        if not scan.topics or tp.topic in scan.topics
    ]


def _transaction_rows(cluster: Cluster) -> list[tuple[Any, ...]]:
    return [
        (
            transaction.transactional_id,
            transaction.state.label,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.timeout_ms,
            _timestamp_us(transaction.start_time_ms),
            [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(transaction.partitions)],
        )
        for transaction in cluster.list_transactions()
    ]


def _lag_rows(cluster: Cluster, group: str, scan: TableScan, now_ms: int) -> list[tuple[Any, ...]]:
    try:
        lags = lag_of_group(cluster, group, now_ms=now_ms)
    except UnknownGroupError:
        return []
    for lag in lags:
        if lag.error is not None:
            logger.warning("The lag of group %s in %s is unknown: %s", group, lag.partition, lag.error)
    return [
        (
            group,
            lag.partition.topic,
            lag.partition.partition,
            lag.committed.offset,
            lag.log_start_offset,
            lag.log_end_offset,
            lag.behind_offsets,
            lag.behind_bytes,
            lag.behind_ms,
            lag.lost_offsets,
        )
        for lag in lags
        if not scan.topics or lag.partition.topic in scan.topics
    ]


def _batches_of(cluster: Cluster, partition: TopicPartition, plan: FetchPlan | None) -> Iterator[pa.RecordBatch]:
    """Up to the high watermark at the start of the read. Includes control batches and open transactions."""
    rows: list[tuple[Any, ...]] = []
    if plan is not None and not (isinstance(cluster, PlannedReads) and cluster.is_current(plan)):
        plan = None
    try:
        bounds = cluster.bounds(partition) if plan is None else plan.bounds
        wanted, until = bounds.log_start_offset, bounds.high_watermark
        while wanted < until:
            fetched = _fetch(cluster, partition, wanted, plan)
            for _, header in iter_headers(fetched.buffer):
                if wanted <= header.last_offset and header.base_offset < until:
                    rows.append(_batch_row(partition, header))
            if fetched.next_offset <= wanted:
                break
            wanted = fetched.next_offset
            while len(rows) >= PIECE_ROW_COUNT:
                yield _to_arrow(MetadataTable.BATCHES, rows[:PIECE_ROW_COUNT])
                del rows[:PIECE_ROW_COUNT]
    except (UnknownTopicError, UnknownPartitionError):
        pass
    if rows:
        yield _to_arrow(MetadataTable.BATCHES, rows)


def _fetch(cluster: Cluster, partition: TopicPartition, wanted: int, plan: FetchPlan | None) -> FetchedBatches:
    """From `wanted` on, or from the log start if retention has deleted `wanted`."""
    try:
        if plan is not None and wanted < plan.until_offset and isinstance(cluster, PlannedReads):
            return cluster.fetch_planned(plan, wanted, max_bytes=DEFAULT_FETCH_BYTES)
        return cluster.fetch(partition, wanted, max_bytes=DEFAULT_FETCH_BYTES)
    except OffsetOutOfRangeError:
        return cluster.fetch(
            partition, max(wanted, cluster.bounds(partition).log_start_offset), max_bytes=DEFAULT_FETCH_BYTES
        )


def _batch_row(partition: TopicPartition, header: BatchHeader) -> tuple[Any, ...]:
    return (
        partition.topic,
        partition.partition,
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.size_bytes,
        header.compression_type.name.lower(),
        "log-append" if header.timestamp_type else "create",
        _timestamp_us(header.base_timestamp),
        _timestamp_us(header.max_timestamp),
        header.partition_leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        header.is_control,
    )


def _timestamp_us(timestamp_ms: int) -> int | None:
    """For an Arrow column of microseconds. None if it does not fit: the log may have any 64-bit number."""
    if timestamp_ms == NO_TIMESTAMP or not -(2**63) <= timestamp_ms * 1000 < 2**63:
        return None
    return timestamp_ms * 1000
