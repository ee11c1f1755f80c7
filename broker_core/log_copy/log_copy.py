"""Copies topics between two logs of any kind. Killed at any instant and run again, it goes on where it was.

    plan        every topic: may it be written to, where does it go on     nothing is written before all are planned
    topic       create it with the source's settings, or add partitions
    markers     what is copied to where, before the first record           `copy_marker`
    partition   fetch read-committed ─► pick ─► sink                        `committed_batches`, `copy_sinks`
    markers     how far the topic came
    groups      committed offsets, if asked

A topic that cannot be copied stops none of the others: its error is in the plan or in the result. An error that is not
about one topic, such as a full disk or a broker that does not answer, ends the copy.

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
from broker_core.log_copy.copy_sinks import CopySink
from broker_core.log_copy.copy_target import copy_target
from broker_core.model.exceptions import (
    AuthorizationError,
    BrokerError,
    CorruptDataError,
    InvalidConfigError,
    InvalidRequestError,
    ProducerError,
    StreamlogError,
)
from broker_core.model.identifiers import NO_PRODUCER_ID, IsolationLevel, TopicPartition

CopyProgress = Callable[[TopicPartition, int, int], None]
"""Called with the partition in progress, the count of completed offsets, and the total."""

_OWN_SETTINGS: Final = frozenset({"flush.policy"})
"""Settings that Kafka does not have."""
_ABOUT_ONE_TOPIC: Final = (InvalidRequestError, CorruptDataError, ProducerError, AuthorizationError, BrokerError)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFailure:
    """`is_begun`: some of its records may have been copied. A new run continues there."""

    topic: str
    error: StreamlogError
    is_begun: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """`failures`: the topics that cannot be copied."""

    topics: tuple[TopicCopy, ...]
    failures: tuple[TopicFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPartition:
    """The result of one run. Offsets without a record became gaps, so there may be fewer records than offsets."""

    copy: PartitionCopy
    record_count: int
    size_bytes: int
    target_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """`failures`: of the plan and of the run. Partitions of these topics are not in `partitions`."""

    partitions: tuple[CopiedPartition, ...]
    failures: tuple[TopicFailure, ...] = ()


class LogCopy:
    """`renumbers`: see `CopyPlanner`."""

    def __init__(self, source: Cluster, target: Cluster, *, renumbers: bool = False) -> None:
        self._source = source
        self._target = target
        self._kind = copy_target(target)
        self._planner = CopyPlanner(source, target, keeps_gaps=self._kind.keeps_gaps, renumbers=renumbers)

    def plan(self, topics: Sequence[TopicDescription]) -> CopyPlan:
        """Writes nothing. Raises CopyRefusedError if both are the same log, and errors that are not about one topic."""
        self._planner.require_other_log(topics)
        planned: list[TopicCopy] = []
        failures: list[TopicFailure] = []
        for topic in topics:
            try:
                planned.append(self._planner.plan_topic(topic))
            except _ABOUT_ONE_TOPIC as error:
                failures.append(TopicFailure(topic=topic.name, error=error, is_begun=False))
        return CopyPlan(topics=tuple(planned), failures=tuple(failures))

    def run(self, plan: CopyPlan, progress: CopyProgress) -> CopyResult:
        """Raises errors that are not about one topic. The copied records stay, and a new run continues.

        Failures of topics: CopyRefusedError for a gap that the target cannot keep, UnexpectedLogEndError if there is
        another writer of the target, and errors of both logs about one topic.
        """
        total_count = sum(copy.offset_count for topic in plan.topics for copy in topic.partitions)
        report = _Progress(progress, total_count)
        copied: list[CopiedPartition] = []
        failures = list(plan.failures)
        for topic in plan.topics:
            try:
                copied += self._copy_topic(topic, report)
            except _ABOUT_ONE_TOPIC as error:
                failures.append(TopicFailure(topic=topic.source.name, error=error, is_begun=True))
        return CopyResult(partitions=tuple(copied), failures=tuple(failures))

    def _copy_topic(self, topic: TopicCopy, report: _Progress) -> list[CopiedPartition]:
        self._prepare(topic)
        markers = self._begin_markers(topic)
        sink = self._kind.new_sink()
        copied = [self._copy_partition(copy, markers[copy.partition], sink, report) for copy in topic.partitions]
        sink.finish()
        self._set_source_settings(topic)
        return copied

    def _copy_partition(
        self, copy: PartitionCopy, marker: CopyMarker, sink: CopySink, report: _Progress
    ) -> CopiedPartition:
        sink.begin(copy, marker)
        committed = CommittedBatches()
        offset = copy.from_offset
        size_bytes = 0
        report.show(copy.partition)
        while offset < copy.until_offset:
            try:
                fetched = self._source.fetch(
                    copy.partition, offset, max_bytes=FETCH_BYTES, isolation=IsolationLevel.READ_COMMITTED
                )
                picked = committed.pick(fetched, offset, copy.until_offset)
            except CorruptDataError as error:
                raise _located(error, copy.partition, offset) from error
            assert picked.until_offset > offset, f"{copy.partition}: nothing at {offset} below {copy.until_offset}"
            sink.add(picked)
            size_bytes += len(picked.batches)
            report.advance(copy.partition, picked.until_offset - offset)
            offset = picked.until_offset
        end = sink.end(max(offset, copy.until_offset))
        return CopiedPartition(
            copy=copy, record_count=end.record_count, size_bytes=size_bytes, target_end_offset=end.target_offset
        )

    def _prepare(self, topic: TopicCopy) -> None:
        """Creates the topic in the target, with the settings for the time of the copy."""
        name, count = topic.source.name, topic.source.partition_count
        while_filled = self._kind.settings_while_filled(topic.source.configs)
        configs = {**topic.source.configs, **while_filled}
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
        if while_filled:
            self._target.alter_topic_configs(name, while_filled)

    def _set_source_settings(self, topic: TopicCopy) -> None:
        changed = self._kind.settings_while_filled(topic.source.configs)
        if changed:
            sources = {setting: topic.source.configs[setting] for setting in changed}
            self._target.alter_topic_configs(topic.source.name, sources)

    def _begin_markers(self, topic: TopicCopy) -> dict[TopicPartition, CopyMarker]:
        """Existing markers, and new ones, which are committed before the first record.

        A marker of the other kind of target is replaced: a broker needs a producer whose sequences it knows, and
        records at given offsets have none. So the copy of a directory can be continued by its broker, and the
        reverse.
        """
        found = {
            copy.partition: copy.marker
            for copy in topic.partitions
            if copy.marker is not None and copy.marker.is_placed == self._kind.keeps_gaps
        }
        missing = [copy for copy in topic.partitions if copy.partition not in found]
        producer_id = self._kind.new_producer_id() if missing else NO_PRODUCER_ID
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
        return begun | found


def _located(error: CorruptDataError, partition: TopicPartition, offset: int) -> StreamlogError:
    """The error with the partition, which the check of a buffer does not know."""
    if str(partition) in error.message:
        return error
    return type(error)(f"{partition}, offset {offset} or later: {error.message}", **error.fields)


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
