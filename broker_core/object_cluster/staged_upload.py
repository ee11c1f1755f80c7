"""The upload of one task: batches, gathered by partition, in one object that is uploaded as they arrive.

    append ──► checked, adapted to the topic ──► gathered by partition ──► MAX_GATHERED_BYTES ──► parts

So a task holds no more than that in memory, and as much again in parts under way; and the object has a few large ranges
per partition, not one per call.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.log.batch_validation import validate_batches
from broker_core.model.exceptions import TopicRecreatedError, UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_log.data_range import AppendedRange, DataRange
from broker_core.object_log.object_names import data_path
from broker_core.object_log.range_filter import MIN_FILTERED_UPLOAD_BYTES, build_range_filter
from broker_core.object_log.stored_batches import SealedBatches, seal
from broker_core.ports import ObjectUpload
from broker_core.record.batch_reader import iter_headers
from broker_core.staged_writes import StagedData

MAX_GATHERED_BYTES: Final = 32 * 1024 * 1024
MAX_RANGE_BYTES: Final = 16 * 1024 * 1024
"""The size limit of one range: a reader that begins in its middle reads it from its start."""
_NO_EPOCH: Final = 0


class DataUpload:
    """`StagedUpload`. `find_topic` returns the current topic of a name, or None; `plan_number` as in `StagedData`."""

    def __init__(
        self,
        ports: LogPorts,
        find_topic: Callable[[str], TopicDescription | None],
        *,
        plan_number: int | None = None,
    ) -> None:
        self._ports = ports
        self._find_topic = find_topic
        self._plan_number = plan_number
        self._path = data_path(ports.clock.now_ms(), ports.entropy.random_bytes(16))
        self._upload: ObjectUpload | None = None
        self._topics: dict[str, tuple[TopicDescription, TopicConfig]] = {}
        self._gathered: dict[tuple[UUID, int], bytearray] = {}
        self._gathered_bytes = 0
        self._ranges: list[AppendedRange] = []
        self._position = 0
        self._is_over = False

    def init_producer(self) -> ProducerIdAndEpoch:
        return fresh_producer(self._ports)

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> None:
        assert not self._is_over, "an upload that has ended"
        topic, config = self._topic(partition)
        if topic_id is not None and topic.topic_id != topic_id:
            raise TopicRecreatedError.of(partition.topic, topic_id)
        valid = validate_batches(batches, config=config, now_ms=self._ports.clock.now_ms(), name=str(partition))
        self._gathered.setdefault((topic.topic_id, partition.partition), bytearray()).extend(valid.buffer)
        self._gathered_bytes += len(valid.buffer)
        if self._gathered_bytes >= MAX_GATHERED_BYTES:
            self._drain()

    def finish(self) -> StagedData:
        assert not self._is_over, "an upload that has ended"
        self._drain()
        self._is_over = True
        if self._upload is not None:
            self._upload.finish()
        return StagedData(
            ranges=tuple(tuple(one) for one in self._ranges),
            record_count=sum(one.data.record_count for one in self._ranges),
            size_bytes=self._position,
            plan_number=self._plan_number,
        )

    def abort(self) -> None:
        self._is_over = True
        self._gathered.clear()
        if self._upload is not None:
            self._upload.abort()

    def _topic(self, partition: TopicPartition) -> tuple[TopicDescription, TopicConfig]:
        known = self._topics.get(partition.topic)
        if known is None:
            found = self._find_topic(partition.topic)
            if found is None:
                raise UnknownTopicError(f"Topic '{partition.topic}' does not exist.", topic=partition.topic)
            known = self._topics[partition.topic] = (found, TopicConfig.from_stored(found.configs))
        require_partition(known[0], partition)
        return known

    def _drain(self) -> None:
        for (topic_id, partition), batches in sorted(self._gathered.items()):
            for piece, sealed in sealed_pieces(batches, MAX_RANGE_BYTES):
                if self._upload is None:
                    self._upload = self._ports.store.upload(self._path)
                self._upload.write(piece)
                key_filter = build_range_filter(piece, least_bytes=MIN_FILTERED_UPLOAD_BYTES)
                if key_filter:
                    self._upload.write(key_filter)
                data = DataRange(self._path, self._position, piece.nbytes, *sealed, filter_bytes=len(key_filter))
                self._ranges.append(AppendedRange(topic_id, partition, data))
                self._position += piece.nbytes + len(key_filter)
        self._gathered.clear()
        self._gathered_bytes = 0


def sealed_pieces(batches: bytearray, max_bytes: int) -> list[tuple[memoryview, SealedBatches]]:
    """Splits into pieces of whole batches, each sealed as a range; a batch above `max_bytes` is a piece of its own."""
    view = memoryview(batches)
    cuts = [0]
    end = 0
    for position, header in iter_headers(view):
        if position + header.size_bytes - cuts[-1] > max_bytes and position > cuts[-1]:
            cuts.append(position)
        end = position + header.size_bytes
    cuts.append(end)
    return [(view[start:stop], seal(view[start:stop])) for start, stop in pairwise(cuts)]


def require_partition(topic: TopicDescription, partition: TopicPartition) -> None:
    if not 0 <= partition.partition < topic.partition_count:
        raise UnknownPartitionError(
            f"Partition {partition.partition} of topic '{topic.name}' does not exist; it has the partitions 0 to"
            f" {topic.partition_count - 1}.",
            topic=topic.name,
            partition=partition.partition,
        )


def fresh_producer(ports: LogPorts) -> ProducerIdAndEpoch:
    """A random id. Nothing depends on it, because the commit is the step that happens once."""
    producer_id = int.from_bytes(ports.entropy.random_bytes(6), "big")
    return ProducerIdAndEpoch(producer_id=producer_id, producer_epoch=_NO_EPOCH)
