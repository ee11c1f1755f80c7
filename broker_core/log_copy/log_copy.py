"""Copies topics between two logs of any kind. Killed at any instant and run again, it goes on where it was.

    plan        every topic: may it be written to, where does it go on     nothing is written before all are planned
    topic       create it with the source's settings, or add partitions
    markers     what is copied to where, before the first record           `copy_marker`
    partition   fetch read-committed ─► pick ─► sink                        `committed_batches`, `copy_sinks`
    markers     how far the topic came
    groups      committed offsets, if asked

A partition is copied up to the source's last stable offset as of the plan, so a copy of a log that is written to ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from broker_core.cluster import Cluster, TopicDescription
from broker_core.log_copy.committed_batches import CommittedBatches
from broker_core.log_copy.copy_marker import CopyMarker, commit_markers, source_id_of
from broker_core.log_copy.copy_plan import FETCH_BYTES, CopyPlanner, PartitionCopy, TopicCopy
from broker_core.log_copy.copy_sinks import CopySink, DenseSink, PlacedSink
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import NO_PRODUCER_ID, IsolationLevel, TimestampType, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.placed_writes import PlacedWrites

CopyProgress = Callable[[TopicPartition, int, int], None]
"""Called with the partition in progress, the count of completed offsets, and the total."""

_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_CREATE_TIME: Final = "CreateTime"
_OWN_SETTINGS: Final = frozenset({"flush.policy"})
"""Settings that Kafka does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPartition:
    """What one run did. Offsets without a record became gaps: there are more offsets than records then."""

    copy: PartitionCopy
    record_count: int
    size_bytes: int
    target_end_offset: int


class LogCopy:
    """`renumbers`: see `CopyPlanner`."""

    def __init__(self, source: Cluster, target: Cluster, *, renumbers: bool = False) -> None:
        self._source = source
        self._target = target
        self._planner = CopyPlanner(source, target, renumbers=renumbers)

    def plan(self, topics: Sequence[TopicDescription]) -> tuple[TopicCopy, ...]:
        """Writes nothing. Raises CopyRefusedError, and the errors of both logs."""
        return tuple(self._planner.plan_topic(topic) for topic in topics)

    def run(self, plan: Sequence[TopicCopy], progress: CopyProgress) -> tuple[CopiedPartition, ...]:
        """Raises CopyRefusedError for a gap that the target cannot keep, UnexpectedLogEndError if somebody else writes
        to the target, and the errors of both logs. What was copied until then stays, and a new run goes on."""
        total_count = sum(copy.offset_count for topic in plan for copy in topic.partitions)
        report = _Progress(progress, total_count)
        copied: list[CopiedPartition] = []
        for topic in plan:
            copied += self._copy_topic(topic, report)
        return tuple(copied)

    def _copy_topic(self, topic: TopicCopy, report: _Progress) -> list[CopiedPartition]:
        self._prepare(topic)
        markers = self._begin_markers(topic)
        sink: CopySink = PlacedSink(self._target) if isinstance(self._target, PlacedWrites) else DenseSink(self._target)
        copied = [self._copy_partition(copy, markers[copy.partition], sink, report) for copy in topic.partitions]
        sink.flush()
        if isinstance(self._target, PlacedWrites):
            changed = {
                one.copy.partition: markers[one.copy.partition].moved_to(one.target_end_offset, one.target_end_offset)
                for one in copied
                if one.target_end_offset != markers[one.copy.partition].target_offset
            }
            if changed:
                commit_markers(self._target, changed)
        self._finish(topic)
        return copied

    def _copy_partition(
        self, copy: PartitionCopy, marker: CopyMarker, sink: CopySink, report: _Progress
    ) -> CopiedPartition:
        sink.begin(copy, marker)
        committed = CommittedBatches()
        offset = copy.from_offset
        record_count = size_bytes = 0
        report.show(copy.partition)
        while offset < copy.until_offset:
            fetched = self._source.fetch(
                copy.partition, offset, max_bytes=FETCH_BYTES, isolation=IsolationLevel.READ_COMMITTED
            )
            picked = committed.pick(fetched, offset, copy.until_offset)
            assert picked.until_offset > offset, f"{copy.partition}: nothing at {offset} below {copy.until_offset}"
            sink.add(picked)
            record_count += picked.record_count
            size_bytes += len(picked.batches)
            report.advance(copy.partition, picked.until_offset - offset)
            offset = picked.until_offset
        end_offset = sink.end(max(offset, copy.until_offset))
        if not isinstance(self._target, PlacedWrites):
            # Without the records below the log start that are in one batch with the first record.
            record_count = end_offset - copy.target_offset
        return CopiedPartition(
            copy=copy, record_count=record_count, size_bytes=size_bytes, target_end_offset=end_offset
        )

    def _prepare(self, topic: TopicCopy) -> None:
        """The topic in the target. At brokers it has create time while it is filled: with log-append time they would
        set the time of the copy."""
        name, count = topic.source.name, topic.source.partition_count
        configs = dict(topic.source.configs)
        if self._sets_times(topic):
            configs[_TIMESTAMP_TYPE] = _CREATE_TIME
        if topic.target is None:
            try:
                self._target.create_topic(name, partition_count=count, configs=configs)
            except InvalidConfigError:
                if not _OWN_SETTINGS & configs.keys():
                    raise
                kafkas = {setting: value for setting, value in configs.items() if setting not in _OWN_SETTINGS}
                self._target.create_topic(name, partition_count=count, configs=kafkas)
            return
        if topic.target.partition_count < count:
            self._target.create_partitions(name, count)
        if self._sets_times(topic):
            self._target.alter_topic_configs(name, {_TIMESTAMP_TYPE: _CREATE_TIME})

    def _finish(self, topic: TopicCopy) -> None:
        if self._sets_times(topic):
            self._target.alter_topic_configs(
                topic.source.name, {_TIMESTAMP_TYPE: topic.source.configs[_TIMESTAMP_TYPE]}
            )

    def _sets_times(self, topic: TopicCopy) -> bool:
        config = TopicConfig.from_stored(topic.source.configs)
        is_log_append = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return is_log_append and not isinstance(self._target, PlacedWrites)

    def _begin_markers(self, topic: TopicCopy) -> dict[TopicPartition, CopyMarker]:
        """Existing ones, and new ones, which are committed before the first record."""
        missing = [copy for copy in topic.partitions if copy.marker is None]
        producer_id = NO_PRODUCER_ID
        if missing and not isinstance(self._target, PlacedWrites):
            producer_id = self._target.init_producer().producer_id
        begun = {
            copy.partition: CopyMarker(
                source_id=source_id_of(topic.source),
                start_offset=copy.log_start_offset,
                source_offset=copy.from_offset if copy.renumbers else copy.target_offset,
                target_offset=copy.target_offset,
                producer_id=producer_id,
            )
            for copy in missing
        }
        if begun:
            commit_markers(self._target, begun)
        found = {copy.partition: copy.marker for copy in topic.partitions if copy.marker is not None}
        return begun | found


class _Progress:
    def __init__(self, show: CopyProgress, total_count: int) -> None:
        self._show = show
        self._total_count = total_count
        self._done_count = 0

    def show(self, partition: TopicPartition) -> None:
        self._show(partition, self._done_count, self._total_count)

    def advance(self, partition: TopicPartition, count: int) -> None:
        self._done_count += count
        self.show(partition)
