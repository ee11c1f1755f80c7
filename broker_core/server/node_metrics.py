"""The metrics that are read from a node at each scrape: sizes and offsets of partitions, lag of groups, waiting
requests, connections.

The node is read on its loop, as plain numbers (`NodeReading`). The slow part, file sizes and formatting, runs in a
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily

from broker_core.model.identifiers import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReading:
    partition: TopicPartition
    log_start_offset: int
    log_end_offset: int
    is_offline: bool
    size_bytes: Callable[[], int]
    """Reads the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """`group_offsets`: committed offsets by group."""

    partitions: tuple[PartitionReading, ...] = ()
    group_offsets: tuple[tuple[str, TopicPartition, int], ...] = ()
    parked: tuple[tuple[str, int], ...] = ()
    """Names of purgatories, and how many requests wait in each."""
    connections: tuple[tuple[str, int], ...] = ()
    """By listener."""
    unsent_answer_bytes: int = 0
    unsynced_bytes: int = 0
    """Bytes of appends that are not acknowledged yet: they wait for the disk."""
    jobs: int = 0
    is_ready: bool = False


class ReadingCollector:
    """A collector of prometheus_client for one reading."""

    def __init__(self, reading: NodeReading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Any]:
        reading = self._reading
        yield from self._partitions(reading)
        yield _gauge("kafka_server_partition_count", "Partitions.", [((), len(reading.partitions))], [])
        yield _gauge(
            "kafka_server_offline_partition_count", "Offline partitions.",
            [((), sum(one.is_offline for one in reading.partitions))], [],
        )  # fmt: skip
        # A single node has no under-replicated partitions; what can lag is the disk.
        yield _gauge(
            "kafka_server_unsynced_append_bytes",
            "Bytes of appends that are not synced yet.",
            [((), reading.unsynced_bytes)],
            [],
        )
        yield from self._groups(reading)
        yield _gauge(
            "kafka_server_purgatory_size", "Parked requests.",
            [((name,), count) for name, count in reading.parked], ["operation"],
        )  # fmt: skip
        yield _gauge(
            "kafka_server_connection_count", "Open connections.",
            [((name,), count) for name, count in reading.connections], ["listener"],
        )  # fmt: skip
        yield _gauge(
            "kafka_server_unsent_response_bytes", "Bytes of responses that are not sent yet.",
            [((), reading.unsent_answer_bytes)], [],
        )  # fmt: skip
        yield _gauge("kafka_server_unfinished_jobs", "Unfinished disk jobs.", [((), reading.jobs)], [])
        yield _gauge("kafka_server_ready", "1 if the broker accepts clients.", [((), int(reading.is_ready))], [])

    def _partitions(self, reading: NodeReading) -> Iterator[Any]:
        labels = ["topic", "partition"]
        online = [one for one in reading.partitions if not one.is_offline]
        named = [((one.partition.topic, str(one.partition.partition)), one) for one in online]
        yield _gauge(
            "kafka_log_size_bytes",
            "Size of the partition on disk.",
            [(key, one.size_bytes()) for key, one in named],
            labels,
        )
        yield _gauge(
            "kafka_log_start_offset", "Log start offset.", [(key, one.log_start_offset) for key, one in named], labels
        )
        yield _gauge(
            "kafka_log_end_offset", "Log end offset.", [(key, one.log_end_offset) for key, one in named], labels
        )

    def _groups(self, reading: NodeReading) -> Iterator[Any]:
        ends = {one.partition: one.log_end_offset for one in reading.partitions}
        yield _gauge(
            "kafka_consumergroup_lag", "Offsets between the group's committed offset and the log end offset.",
            [
                ((group, partition.topic, str(partition.partition)), max(0, ends[partition] - offset))
                for group, partition, offset in reading.group_offsets
                if partition in ends
            ],
            ["group", "topic", "partition"],
        )  # fmt: skip


def _gauge(name: str, text: str, samples: list[tuple[tuple[str, ...], int]], labels: list[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in samples:
        family.add_metric(list(key), value)
    return family
