"""Plans a copy: which offsets of each partition are still to be copied, and whether the target may be written to.

The target itself says how far an earlier run came, because a copy keeps offsets: it goes on at the target's log end. A
topic that exists in the target must be empty, or the same copy's:

    last record of the target == the record at its offset in the source     the same copy
    differs                                                                  refused
    one of them does not exist any more (retention, compaction)              the marker decides: see `copy_marker`

Where a broker assigned the offsets, the marker has a pair of offsets that belong together, and the records behind it
are counted. A copy that was written at the source's offsets may be continued at a broker that serves its directory:
until the broker has assigned an offset, the target's log end counts there too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_core.cluster import Cluster, PartitionBounds, TopicDescription
from broker_core.log_copy.committed_batches import CommittedBatches
from broker_core.log_copy.copy_marker import CopyMarker, read_markers, source_id_of
from broker_core.log_copy.dense_batches import dense_batches
from broker_core.log_copy.last_record import find_last_record, find_record
from broker_core.model.exceptions import CopyRefusedError
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_reader import Record, records_of

FETCH_BYTES: Final = 16 * 1024 * 1024

RENUMBER_ADVICE: Final = (
    "Kafka's protocol has no way to write at a given offset, so a broker assigns new offsets: allow it with --renumber"
    " (committed offsets of groups and checkpoints do not fit then), or copy to a directory or to object storage, which"
    " keep offsets."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCopy:
    """Offsets [from_offset, until_offset) of the source go to the target, which ends at `target_offset`.

    `blocked_offset_count`: the offsets above, blocked by an open transaction. `log_start_offset`: the minimum of the
    target. `marker`: of an earlier run; None if this is the first one.
    """

    partition: TopicPartition
    from_offset: int
    until_offset: int
    target_offset: int
    log_start_offset: int
    blocked_offset_count: int
    renumbers: bool = False
    marker: CopyMarker | None = None

    @property
    def offset_count(self) -> int:
        return max(0, self.until_offset - self.from_offset)

    @property
    def goes_on(self) -> bool:
        """An earlier run has copied something."""
        return self.target_offset > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCopy:
    """`target`: the topic there, None if it does not exist yet."""

    source: TopicDescription
    target: TopicDescription | None
    partitions: tuple[PartitionCopy, ...]


class CopyPlanner:
    """`keeps_gaps`: the target takes records at given offsets. `renumbers`: where it does not, records may get other
    offsets. Reads both logs and writes nothing."""

    def __init__(self, source: Cluster, target: Cluster, *, keeps_gaps: bool, renumbers: bool = False) -> None:
        self._source = source
        self._target = target
        self._renumbers = renumbers
        self._keeps_gaps = keeps_gaps

    def require_other_log(self, topics: Sequence[TopicDescription]) -> None:
        """Raises CopyRefusedError if the target is the source: a topic has its id in one log only."""
        there = self._target.describe_topics([topic.name for topic in topics])
        for topic in topics:
            found = there.get(topic.name)
            if found is not None and found.topic_id == topic.topic_id and topic.topic_id.int:
                raise CopyRefusedError(
                    f"The source and the target are the same log: topic '{topic.name}' has the id {topic.topic_id} in"
                    " both. Nothing was changed. (If the target is a copy of the source's files, copy to another"
                    " place.)",
                    topic=topic.name,
                )

    def plan_topic(self, topic: TopicDescription) -> TopicCopy:
        """Raises CopyRefusedError if the target has other records under the name."""
        target = self._target.describe_topics([topic.name]).get(topic.name)
        partitions = list(topic.partitions())
        markers: Mapping[TopicPartition, CopyMarker] = {}
        if target is not None:
            if target.partition_count > topic.partition_count:
                raise CopyRefusedError(
                    f"Topic '{topic.name}' has {target.partition_count} partitions in the target and"
                    f" {topic.partition_count} in the source: it is not a copy of it. Delete it there first.",
                    topic=topic.name,
                )
            found = read_markers(self._target, partitions[: target.partition_count])
            markers = {tp: marker for tp, marker in found.items() if marker.source_id == source_id_of(topic)}
        return TopicCopy(
            source=topic,
            target=target,
            partitions=tuple(self._plan_partition(topic, target, tp, markers.get(tp)) for tp in partitions),
        )

    def _plan_partition(
        self,
        topic: TopicDescription,
        target: TopicDescription | None,
        partition: TopicPartition,
        marker: CopyMarker | None,
    ) -> PartitionCopy:
        bounds = self._source.bounds(partition)
        ends = None
        if target is not None and partition.partition < target.partition_count:
            ends = self._target.bounds(partition)
        if ends is None or ends.log_end_offset == 0:
            return self._planned(bounds, bounds.log_start_offset, 0, partition, None)
        if marker is not None and not self._keeps_gaps and not marker.is_placed:
            from_offset = self._counted(partition, marker, ends, bounds)
        else:
            self._require_same(topic, partition, marker, bounds, ends)
            from_offset = max(ends.log_end_offset, bounds.log_start_offset)
        return self._planned(bounds, from_offset, ends.log_end_offset, partition, marker)

    def _planned(
        self,
        bounds: PartitionBounds,
        from_offset: int,
        target_offset: int,
        partition: TopicPartition,
        marker: CopyMarker | None,
    ) -> PartitionCopy:
        is_renumbered = marker is not None and marker.source_offset != marker.target_offset
        renumbers = not self._keeps_gaps and (self._renumbers or is_renumbered)
        until_offset = bounds.last_stable_offset
        if not self._keeps_gaps and not renumbers and target_offset < from_offset < until_offset:
            raise gap_refusal(partition, target_offset, from_offset)
        return PartitionCopy(
            partition=partition,
            from_offset=from_offset,
            until_offset=until_offset,
            target_offset=target_offset,
            log_start_offset=_log_start(bounds, target_offset, marker),
            blocked_offset_count=bounds.high_watermark - until_offset,
            renumbers=renumbers,
            marker=marker,
        )

    def _require_same(
        self,
        topic: TopicDescription,
        partition: TopicPartition,
        marker: CopyMarker | None,
        bounds: PartitionBounds,
        ends: PartitionBounds,
    ) -> None:
        if ends.log_end_offset > bounds.high_watermark:
            raise _other_records(
                partition, f"it ends at offset {ends.log_end_offset}, the source at {bounds.high_watermark}"
            )
        last = find_last_record(self._target, partition, ends)
        if last is None or last.offset < bounds.log_start_offset:
            same = None
        else:
            same = find_record(self._source, partition, last.offset)
            if same is None and not TopicConfig.from_stored(topic.configs).is_compacted:
                raise _other_records(partition, f"it has a record at offset {last.offset}, where the source has none")
        if same is not None and last is not None and not _is_same(last, same):
            raise _other_records(partition, f"its record at offset {last.offset} is not the source's")
        if same is None and marker is None:
            raise _other_records(partition, "none of its records can be compared with the source's any more")

    def _counted(
        self, partition: TopicPartition, marker: CopyMarker, ends: PartitionBounds, bounds: PartitionBounds
    ) -> int:
        """The offset of the source that follows the target's last record."""
        wanted = ends.log_end_offset - marker.target_offset
        if wanted == 0:
            return marker.source_offset
        committed = CommittedBatches()
        offset, last = marker.source_offset, None
        while wanted > 0 and offset < bounds.last_stable_offset:
            fetched = self._source.fetch(
                partition, offset, max_bytes=FETCH_BYTES, isolation=IsolationLevel.READ_COMMITTED
            )
            picked = committed.pick(fetched, offset, bounds.last_stable_offset)
            for dense in dense_batches(picked.batches, offset):
                wanted -= dense.record_count
                if wanted <= 0:
                    last, offset = dense, dense.next_offset
                    break
            else:
                if picked.until_offset <= offset:
                    break
                offset = picked.until_offset
        there = find_last_record(self._target, partition, ends)
        if wanted or last is None or there is None or not _is_same(there, _last_of(last.batch)):
            raise _other_records(partition, "its last records are not those that the source has there")
        return offset


def gap_refusal(partition: TopicPartition, from_offset: int, until_offset: int) -> CopyRefusedError:
    """The first gap of a partition that is copied to brokers."""
    return CopyRefusedError(
        f"{partition} has gaps between offsets {from_offset} and {until_offset}: records that were deleted, compacted"
        f" or aborted, or markers of transactions. {RENUMBER_ADVICE}",
        topic=partition.topic,
        partition=partition,
        offset=from_offset,
    )


def _log_start(bounds: PartitionBounds, target_offset: int, marker: CopyMarker | None) -> int:
    """The log start when the copy began; that of the source may have moved since."""
    if marker is not None:
        return marker.start_offset
    return 0 if target_offset else bounds.log_start_offset


def _other_records(partition: TopicPartition, what: str) -> CopyRefusedError:
    return CopyRefusedError(
        f"{partition} exists in the target with other records: {what}. Nothing was changed. Delete the topic there, or"
        " copy to another place.",
        topic=partition.topic,
        partition=partition,
    )


def _is_same(one: Record, other: Record) -> bool:
    """Everything but the offset."""
    return (one.key, one.value, one.timestamp_ms, one.headers) == (
        other.key,
        other.value,
        other.timestamp_ms,
        other.headers,
    )


def _last_of(batch: memoryview) -> Record:
    *_, last = records_of(batch)
    return last
