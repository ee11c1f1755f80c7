"""The plans of a streaming query: where it starts, how far each micro-batch goes, which ranges its tasks read.

Runs in the one Python process that Spark keeps for the stream on the driver, and keeps there what the checkpoint does
not: the checkpoint's JSON has topic names and offsets, but no topic ids. Spark's calls, in order:

    prepare_available_now()                      with Trigger.AvailableNow, before all else
    initial_offset()                             a new query only; called twice for its first batch, same answer
    latest_offset(start, limit)                  returns `start` if there is nothing new
    plan(start, end)                             also for a batch that an earlier run logged and did not finish
    plan(offset, offset)                         after a restart, and plans nothing

Three things are easy to get wrong here.

*A query that starts at latest, or at any moving start.* Spark logs the end of the first batch, not its start. If that
batch must be run again after a crash, Spark requests the start again, and it has moved by then. So the first batch of
such partitions is empty: its end is the start, and a repeated first batch is planned as empty, whatever the start is by
then. See `stream_start`.

*A topic that was deleted and recreated.* Offsets of the old topic are invalid in the new one, but may be within its
bounds. The topic ids of a vector of offsets are kept with it, across restarts by `memories`; if one has changed, the
loss is reported and the new topic is read from its start. If the new ends were equal to the old offsets, Spark would
see no new data: then the end is one offset lower. If the ids of a checkpoint are not known, an end below the start
reveals a recreated topic; one that has grown past the start is not detected, and is read as the same topic.

*Trigger.AvailableNow.* The end of the run is fixed once. A partition that is lost or shrinks below a batch's end during
the run is an error regardless of failOnDataLoss, since the run could never reach its end. A batch that an earlier run
did not finish is exempt: it keeps the end of that run.

The progress in a consumer group, if configured, follows the starts: Spark requests the end after `start` when all below
it is done and in its checkpoint. Its own commit(end) means the same, but Spark calls it only when the next batch has
begun, so never while there is no new data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import report_data_loss
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.byte_limit import limit_bytes
from spark_streamlog.planning.offset_range import OffsetRange, split_ranges
from spark_streamlog.planning.rate_limit import NEVER_MS, limit_offsets, must_wait, new_offset_count
from spark_streamlog.planning.stream_offset import StreamOffset
from spark_streamlog.planning.topic_ids import KnownTopics, VectorTopics
from spark_streamlog.source.data_loss import check_run_end_is_reachable, report_added, report_deleted, report_recreated
from spark_streamlog.source.group_progress import GroupProgress
from spark_streamlog.source.offset_reader import LatestOffsets, OffsetReader
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.stream_start import find_stream_start
from spark_streamlog.source.task_plan import share_tasks
from spark_streamlog.source.topic_memory import TopicMemory


class StreamPlanner:
    """For one run of one stream. Not thread-safe: Spark calls one method at a time."""

    def __init__(
        self,
        offsets: OffsetReader,
        options: ReadOptions,
        *,
        now_ms: Callable[[], float],
        progress: GroupProgress | None = None,
        memories: Sequence[TopicMemory] = (),
    ) -> None:
        """`memories`: of topic ids, in order of precedence."""
        self._offsets = offsets
        self._options = options
        self._now_ms = now_ms
        self._progress = progress
        self._memories = memories
        self._initial: StreamOffset | None = None
        self._held_at_initial: frozenset[TopicPartition] = frozenset()
        self._asked_from: StreamOffset | None = None
        self._overdue: tuple[TopicPartition, ...] = ()
        self._is_first_batch_open = False
        self._run_end: LatestOffsets | None = None
        self._latest_seen: StreamOffset | None = None
        self._last_batch_ms = NEVER_MS
        # the vector that Spark continues from, the last one returned as an end, and the topics of both
        self._start: StreamOffset | None = None
        self._start_topics = KnownTopics()
        self._end: StreamOffset | None = None
        self._end_topics = KnownTopics()
        self._recreated_starts: dict[TopicPartition, int] = {}

    def prepare_available_now(self) -> None:
        self._run_end = self._offsets.latest({})

    def initial_offset(self) -> StreamOffset:
        """Raises what `find_stream_start` raises."""
        if self._initial is None:
            self._initial = self._offsets.retried_if_topics_vanish(self._find_initial)
            self._is_first_batch_open = True
        return dict(self._initial)

    def latest_offset(self, start: StreamOffset, *, max_offsets: int | None, is_limited: bool) -> StreamOffset:
        """The end of the next batch. Not limited: up to the readable ends, regardless of the options."""
        if start == self._end:
            self._start, self._start_topics = self._end, self._end_topics
        latest = self._latest_for(start)
        self._latest_seen = latest.offsets
        if not latest.offsets:
            # If "no partition" were stored, everything would be read again once the topics are listed again.
            report_deleted(start.keys(), self._offsets, self._options)
            return start
        recreated = self._recreated_topics(start, latest)
        begin = self._begin(start, latest.offsets, recreated, is_limited=is_limited)
        self._asked_from = start
        is_kept = {tp for tp in start if tp.topic not in recreated}
        progress = {tp: start[tp] if tp in is_kept else begin[tp] for tp in latest.offsets}
        starting = VectorTopics(offsets=start, topic_ids=self._start_topics.known_ids)
        ends = self._blocked(latest.offsets)
        if is_limited:
            now_ms = self._now_ms()
            if self._must_wait(begin, ends, now_ms):
                self._store(progress, starting)
                return start
            self._last_batch_ms = now_ms
            ends = self._limited(begin, ends, max_offsets)
        recreated_starts = {tp: begin[tp] for tp in ends if tp.topic in recreated}
        if ends == start:
            ends = _all_but_one(ends, recreated_starts)
        self._store(progress, starting, VectorTopics(offsets=ends, topic_ids=latest.topic_ids))
        self._set_end(ends, KnownTopics.all_of(latest.topic_ids), recreated_starts)
        return dict(ends)

    def knows_end_after(self, start: StreamOffset | None) -> bool:
        """Whether the end of the next batch needs no look at the log: with Trigger.AvailableNow that of the first batch
        and that of the run. `start` None: of a new query."""
        return self._run_end is not None and (self._asked_from is None or start == self._run_end.offsets)

    def is_last_end(self, end: StreamOffset) -> bool:
        """Whether this run has returned it as its last end."""
        return end == self._end

    def tasks_of(self, planned: Sequence[PlannedRange]) -> list[tuple[PlannedRange, ...]]:
        """The planned ranges, as Spark's tasks read them."""
        return share_tasks([(one,) for one in planned], self._offsets, self._options)

    def commit(self, end: StreamOffset) -> None:
        """All below `end` is done. Usually known earlier and better: `end` misses partitions restarted since."""
        if end != self._asked_from:
            self._store(end, VectorTopics(offsets=end, topic_ids=self._topics_at(end).known_ids))

    def reported_latest_offset(self) -> StreamOffset | None:
        """For the query's progress: the last known readable ends, not limited."""
        return self._latest_seen or None

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[PlannedRange]:
        """Reports lost data according to failOnDataLoss; with Trigger.AvailableNow also raises as described above."""
        # Also when an earlier run chose its end: then this run has no first batch to keep empty.
        self._is_first_batch_open = False
        if start == end:
            return []
        assignment = self._offsets.assignment()
        is_repeated = end != self._end
        if is_repeated:
            self._start, self._start_topics = dict(start), self._topics_at(start)
            self._set_end(end, self._topics_at(end).or_now(assignment.topic_ids), {})
        if self._asked_from is None:
            self._store_before_first_end(start, end)
        if not is_repeated and self._run_end is not None:
            latest = self._offsets.latest(end)
            check_run_end_is_reachable(self._run_end, end, latest, self._end_topics.ids)
        from_offsets = self._from_offsets(start, end, is_repeated=is_repeated, present=assignment.partitions)
        if is_repeated:
            from_offsets = self._after_recreations(start, end, from_offsets, assignment.topic_ids)
        ranges = [
            OffsetRange(topic_partition=tp, from_offset=from_offsets[tp], until_offset=end[tp])
            for tp in sorted(from_offsets)
        ]
        for r in ranges:
            if r.size < 0:
                self._report_end_below_start(r.topic_partition, r.from_offset, r.until_offset)
        pieces = split_ranges(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records_per_partition=self._options.max_records_per_partition,
        )
        return [PlannedRange.of(piece, self._end_topics.ids.get(piece.topic_partition.topic)) for piece in pieces]

    def _store(self, progress: StreamOffset, *vectors: VectorTopics) -> None:
        """Called before the last of the vectors is returned to Spark. Raises STREAMLOG_PIN_LOST if the offsets above
        `progress` are no longer protected from retention."""
        for memory in self._memories:
            memory.remember(vectors)
        if self._progress is not None:
            self._progress.store(progress)

    def _store_before_first_end(self, start: StreamOffset, end: StreamOffset) -> None:
        """An unfinished batch of an earlier run is run before an end is requested. Its start may have moved."""
        self._store(
            {tp: min(offset, end[tp]) for tp, offset in start.items() if tp in end},
            VectorTopics(offsets=start, topic_ids=self._start_topics.known_ids),
            VectorTopics(offsets=end, topic_ids=self._end_topics.known_ids),
        )

    def _topics_at(self, offsets: StreamOffset) -> KnownTopics:
        """The known topic ids of a vector: from this run, or from the memories."""
        if offsets == self._end:
            return self._end_topics
        if offsets == self._start:
            return self._start_topics
        found: dict[str, UUID] = {}
        for memory in reversed(self._memories):
            found |= memory.ids_at(offsets)
        return KnownTopics.all_of({topic: found[topic] for topic in {tp.topic for tp in offsets} & found.keys()})

    def _find_initial(self) -> StreamOffset:
        found = find_stream_start(self._offsets, self._options, self._run_end)
        self._held_at_initial = found.held
        self._start, self._start_topics = found.offsets, KnownTopics.all_of(found.topic_ids)
        return dict(self._start)

    def _latest_for(self, start: StreamOffset) -> LatestOffsets:
        if self._run_end is None:
            return self._offsets.latest(start)
        if any(self._run_end.offsets.get(tp, -1) < offset for tp, offset in start.items()):
            # The run cannot end before it starts: stale metadata, or a loss that `plan` will report.
            self._run_end = self._offsets.latest(start)
        return self._run_end

    def _recreated_topics(self, start: StreamOffset, latest: LatestOffsets) -> set[str]:
        if start != self._start:
            # The first batch of a restarted run.
            self._start, self._start_topics = dict(start), self._topics_at(start).or_now(latest.topic_ids)
        changed = self._start_topics.changed_to(latest.topic_ids)
        report_recreated(changed, self._options)
        shrunk = [
            tp
            for tp in sorted(start)
            if self._start_topics.is_unknown(tp.topic) and latest.offsets.get(tp, start[tp]) < start[tp]
        ]
        for tp in shrunk:
            self._report_end_below_start(tp, start[tp], latest.offsets[tp])
        return changed.keys() | {tp.topic for tp in shrunk}

    def _after_recreations(
        self,
        start: StreamOffset,
        end: StreamOffset,
        from_offsets: dict[TopicPartition, int],
        ids_now: Mapping[str, UUID],
    ) -> dict[TopicPartition, int]:
        """For an unfinished batch of an earlier run. A topic recreated after the batch was logged has no records of it;
        one recreated within it is read from its log start, as that run would have done."""
        lost = self._end_topics.changed_to(ids_now)
        changed = self._start_topics.changed_to(self._end_topics.ids)
        within = {topic: ids for topic, ids in changed.items() if topic not in lost}
        report_recreated(lost | within, self._options)
        shrunk = [
            tp
            for tp in sorted(from_offsets)
            if self._start_topics.is_unknown(tp.topic) and end[tp] < from_offsets[tp] and tp.topic not in lost
        ]
        for tp in shrunk:
            self._report_end_below_start(tp, from_offsets[tp], end[tp])
        recreated = within.keys() | {tp.topic for tp in shrunk}
        log_starts = self._offsets.earliest([tp for tp in from_offsets if tp.topic in recreated])
        kept = {tp: offset for tp, offset in from_offsets.items() if tp.topic not in lost.keys() | recreated}
        return kept | {tp: min(offset, end[tp]) for tp, offset in log_starts.items()}

    def _report_end_below_start(self, partition: TopicPartition, start: int, end: int) -> None:
        report_data_loss(
            "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
            fail_on_data_loss=self._options.fail_on_data_loss,
            topic_partition=str(partition),
            prev_offset=start,
            new_offset=end,
        )

    def _begin(
        self, start: StreamOffset, latest: StreamOffset, recreated: set[str], *, is_limited: bool
    ) -> dict[TopicPartition, int]:
        """The offsets where reading continues: the log start for new partitions, and where it is above the old
        offset."""
        is_new = {tp for tp in latest if tp not in start or tp.topic in recreated}
        log_starts = self._offsets.earliest(latest.keys() if is_limited else is_new)
        kept = {tp: max(offset, log_starts.get(tp, 0)) for tp, offset in start.items() if tp not in is_new}
        return kept | {tp: log_starts.get(tp, 0) for tp in is_new}

    def _blocked(self, latest: StreamOffset) -> StreamOffset:
        if not self._is_first_batch_open or self._initial is None:
            return latest
        self._is_first_batch_open = False
        held = {tp: self._initial[tp] for tp in self._held_at_initial if tp in latest}
        return {**latest, **held}

    def _must_wait(self, begin: StreamOffset, ends: StreamOffset, now_ms: float) -> bool:
        # With Trigger.AvailableNow waiting would end the run before its end.
        return (
            self._options.min_offsets_per_trigger is not None
            and self._run_end is None
            and must_wait(
                new_count=new_offset_count(begin, ends),
                min_offsets=self._options.min_offsets_per_trigger,
                last_batch_ms=self._last_batch_ms,
                now_ms=now_ms,
                max_delay_ms=self._options.max_trigger_delay_ms,
            )
        )

    def _limited(self, begin: StreamOffset, ends: StreamOffset, max_offsets: int | None) -> StreamOffset:
        if max_offsets is not None:
            ends = limit_offsets(max_offsets, begin, ends)
        if self._options.max_bytes_per_trigger is None:
            return ends
        shares = limit_bytes(self._options.max_bytes_per_trigger, begin, ends, self._offsets, self._overdue)
        self._overdue = shares.overdue
        return shares.ends

    def _set_end(self, end: StreamOffset, topics: KnownTopics, recreated_starts: dict[TopicPartition, int]) -> None:
        self._end, self._end_topics, self._recreated_starts = dict(end), topics, recreated_starts

    def _from_offsets(
        self, start: StreamOffset, end: StreamOffset, *, is_repeated: bool, present: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The start offset of each partition of the batch. Partitions without a known one are left out."""
        is_repeated_first = is_repeated and start == self._initial
        gone = start.keys() - end.keys()
        # A repeated initial offset includes partitions that were created after the first batch was logged.
        report_deleted(gone - present if is_repeated_first else gone, self._offsets, self._options)
        added = end.keys() - start.keys()
        from_offsets = self._offsets.earliest(added)
        report_added(added, from_offsets, self._options)
        from_offsets |= {tp: offset for tp, offset in start.items() if tp in end} | self._recreated_starts
        if is_repeated_first:
            from_offsets |= {tp: end[tp] for tp in self._held_at_initial & end.keys()}
        return from_offsets


def _all_but_one(ends: StreamOffset, recreated_starts: Mapping[TopicPartition, int]) -> StreamOffset:
    for tp, begin in recreated_starts.items():
        if ends[tp] > begin:
            return {**ends, tp: ends[tp] - 1}
    return ends
