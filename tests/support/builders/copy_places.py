"""The three kinds of log that can be copied from and to, new or open twice, and what they are filled with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.clients.transacting import begin, write
from support.objects.object_builders import MemoryLog

from broker_core.cluster import Cluster
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.identifiers import CompressionType, TopicPartition
from broker_core.placed_writes import PlacedAppend, PlacedWrites
from broker_core.record.batch_header import write_placement
from broker_core.record.batch_reader import Record

KINDS = ("directory", "objects", "broker")
KEEPS = {"retention.ms": "-1"}

_names = itertools.count()


class CopyPlaces:
    """`place(kind)` gives a function that opens the same log again and again; a broker's is shared by all tests."""

    def __init__(self, folder: Path, broker) -> None:
        self._folder = folder
        self._broker = broker

    def place(self, kind: str):
        if kind == "objects":
            return MemoryLog().open
        if kind == "broker":
            return self._broker
        folder = self._folder / f"log-{next(_names)}"
        return lambda: EmbeddedCluster(folder, create=True)


def a_name() -> str:
    return f"topic-{next(_names)}"


def some_batches() -> list[bytearray]:
    """Of all codecs; with headers, and with null and empty keys and values."""
    return [
        a_batch(
            [
                a_record(10 * codec),
                a_record(10 * codec + 1, key=None, value=b"", headers=(("a", b"1"), ("a", None), ("b", b""))),
                a_record(10 * codec + 2, key=b"", value=None, timestamp_ms=SOME_TIME_MS - codec),
            ],
            compression=codec,
        )
        for codec in CompressionType
    ]


def fill_densely(cluster: Cluster, topic: str) -> None:
    """Two partitions without gaps, from offset 0 on; also batches of an idempotent producer."""
    cluster.create_topic(topic, partition_count=2, configs=KEEPS)
    producer_id = cluster.init_producer().producer_id
    for number, batch in enumerate(some_batches()):
        cluster.append(TopicPartition(topic, number % 2), batch)
    for number in range(3):
        batch = a_batch(2, producer=(producer_id, 0, 2 * number))
        cluster.append(TopicPartition(topic, 0), batch)


def fill_with_gaps(cluster: Cluster, topic: str) -> None:
    """Partition 0 begins above 0 and has gaps inside and at its end, partition 1 is dense, partition 2 has no record
    left, partition 3 never had one."""
    cluster.create_topic(topic, partition_count=4, configs=KEEPS)
    first = TopicPartition(topic, 0)
    if isinstance(cluster, PlacedWrites) and not isinstance(cluster, EmbeddedCluster):
        _place_with_gaps(cluster, first)
    else:
        _transact_with_gaps(cluster, first)
    for batch in some_batches():
        cluster.append(TopicPartition(topic, 1), batch)
    cluster.append(TopicPartition(topic, 2), a_batch(7))
    cluster.delete_records(TopicPartition(topic, 2), 7)


def _transact_with_gaps(cluster: Cluster, partition: TopicPartition) -> None:
    cluster.append(partition, a_batch(5))
    for number, is_committed in enumerate((True, False, True, False)):
        producer = begin(cluster, f"{partition}-{number}", partition)
        write(cluster, producer, partition, f"one-{number}", f"two-{number}")
        cluster.append(partition, some_batches()[number])
        cluster.end_transaction(producer, commit=is_committed)
    cluster.delete_records(partition, 2)


def _place_with_gaps(cluster: PlacedWrites, partition: TopicPartition) -> None:
    batches = bytearray()
    offset = 4
    for batch in some_batches():
        write_placement(batch, 0, base_offset=offset, leader_epoch=0)
        batches += batch
        offset += 5
    cluster.append_placed(
        [PlacedAppend(partition=partition, from_offset=0, until_offset=offset + 3, batches=batches, log_start_offset=5)]
    )


def bounds_of(cluster: Cluster, topic: str) -> list[tuple[int, int]]:
    """(log start, log end) of each partition."""
    count = cluster.describe_topics([topic])[topic].partition_count
    bounds = [cluster.bounds(TopicPartition(topic, number)) for number in range(count)]
    return [(each.log_start_offset, each.log_end_offset) for each in bounds]


def a_record_with_value(value: bytes) -> Record:
    return Record(value=value, timestamp_ms=SOME_TIME_MS)


@contextmanager
def opened(*openers) -> Iterator[list[Cluster]]:
    clusters = [opener() for opener in openers]
    try:
        yield clusters
    finally:
        for cluster in clusters:
            cluster.close()
