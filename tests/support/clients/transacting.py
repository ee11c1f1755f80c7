"""Transactions step by step on any Cluster, and what a read-committed reader sees of them."""

from __future__ import annotations

from collections.abc import Sequence

from support.builders.builders import SOME_TIME_MS

from broker_core.cluster import AppendResult, Cluster, TransactionalProducer
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from broker_core.record import columns
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record


class SetClock:
    """A clock that a test turns."""

    def __init__(self, time_ms: int = SOME_TIME_MS) -> None:
        self.time_ms = time_ms

    def now_ms(self) -> int:
        return self.time_ms


def init(cluster: Cluster, transactional_id: str, **how: object) -> TransactionalProducer:
    given = cluster.init_producer(transactional_id, **how)
    return TransactionalProducer(
        transactional_id=transactional_id, producer_id=given.producer_id, producer_epoch=given.producer_epoch
    )


def begin(cluster: Cluster, transactional_id: str, *partitions: TopicPartition, **how: object) -> TransactionalProducer:
    """Initialised, with the partitions added."""
    producer = init(cluster, transactional_id, **how)
    cluster.add_partitions_to_transaction(producer, partitions)
    return producer


def write(
    cluster: Cluster,
    producer: TransactionalProducer,
    partition: TopicPartition,
    *values: str,
    base_sequence: int = 0,
    timestamp_ms: int = SOME_TIME_MS,
) -> AppendResult:
    """One transactional batch of these values."""
    return cluster.append(partition, transactional_batch(producer, values, base_sequence, timestamp_ms))


def transactional_batch(
    producer: TransactionalProducer, values: Sequence[str], base_sequence: int = 0, timestamp_ms: int = SOME_TIME_MS
) -> bytearray:
    return build_batch(
        [Record(value=value.encode(), timestamp_ms=timestamp_ms) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=base_sequence,
        is_transactional=True,
    )


def committed(cluster: Cluster, partition: TopicPartition) -> list[str]:
    """The values that a read-committed reader sees from the log start to its end, asked for first as Spark does."""
    isolation = IsolationLevel.READ_COMMITTED
    found = cluster.list_offsets({partition: OffsetSpec.LATEST}, isolation)[partition]
    assert found is not None
    return values_of(cluster, partition, found.offset, isolation)


def everything(cluster: Cluster, partition: TopicPartition) -> list[str]:
    """The values that a read-uncommitted reader sees."""
    return values_of(cluster, partition, cluster.bounds(partition).high_watermark, IsolationLevel.READ_UNCOMMITTED)


def values_of(cluster: Cluster, partition: TopicPartition, until_offset: int, isolation: IsolationLevel) -> list[str]:
    offset = cluster.bounds(partition).log_start_offset
    aborted = columns.AbortedFilter() if isolation is IsolationLevel.READ_COMMITTED else None
    values: list[str] = []
    while offset < until_offset:
        fetched = cluster.fetch(partition, offset, max_bytes=10**6, isolation=isolation)
        if aborted is not None:
            aborted.add(fetched.aborted_transactions)
        decoded = columns.decode(fetched.buffer, from_offset=offset, until_offset=until_offset, aborted=aborted)
        values += [value.decode() for value in decoded.record_batch.column("value").to_pylist()]
        assert fetched.next_offset > offset, f"{partition}: stuck at {offset} below {until_offset}"
        offset = fetched.next_offset
    return values


def is_settled(cluster: Cluster, partition: TopicPartition) -> bool:
    """No transaction is open there."""
    bounds = cluster.bounds(partition)
    return bounds.last_stable_offset == bounds.high_watermark
