"""The plans of a streaming query: where it starts, how far each micro-batch goes, which ranges its tasks read.

Lives in the one Python process that Spark keeps for the stream on the driver, and remembers there what the checkpoint
cannot: the checkpoint's JSON names topics and offsets, no topic ids. Spark's calls, in order:

    prepare_available_now()                      with Trigger.AvailableNow, before all else
    initial_offset()                             a new query only; asked twice for its first batch, answered alike
    latest_offset(start, limit)                  `start` again means that there is nothing new
    plan(start, end)                             also for a batch that an earlier run logged and did not finish
    plan(offset, offset)                         after a restart, and plans nothing

Three things are easy to get wrong here.

*A query that starts at latest, or at any place that moves.* Spark logs the end of the first batch, not its start. If
that batch must be run again after a crash, the start is asked for again and is another one by then. So the first batch
of such partitions is empty: its end is the start, and a repeated first batch is planned as empty, whatever the start is
said to be by then. See `stream_start`.

*A topic deleted and made again.* Offsets of the old topic mean nothing in the new one, and may even lie within it. The
ids that belong to a vector of offsets are kept with it; when one has changed, the loss is reported and the new topic is
read from its start. Were the new ends equal to the old offsets, Spark would see no news: one offset is held back then.

*Trigger.AvailableNow.* The end of the run is fixed once. A partition that is lost or shrinks below a batch's end in the
middle of the run is an error whatever failOnDataLoss says, since the run could never reach its end. A batch that an
earlier run left behind is exempt: it ends where that run said.

The progress in a consumer group, if one is wanted, follows the starts: Spark asks for the end after `start` when all
below it is done and in its checkpoint. Its own commit(end) says the same, but only when the next batch has begun, so
never while there is no news.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import report_data_loss
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.byte_limit import limit_bytes
from spark_streamlog.planning.offset_range import OffsetRange, split_ranges
from spark_streamlog.planning.rate_limit import NEVER_MS, limit_offsets, must_wait, new_offset_count
from spark_streamlog.planning.stream_offset import StreamOffset
from spark_streamlog.source.data_loss import check_run_end_is_reachable, report_added, report_deleted, report_recreated
from spark_streamlog.source.group_progress import GroupProgress
from spark_streamlog.source.offset_reader import LatestOffsets, OffsetReader
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.stream_start import find_stream_start


class StreamPlanner:
    """For one run of one stream. Not thread-safe: Spark calls one method at a time."""

    def __init__(
        self,
        offsets: OffsetReader,
        options: ReadOptions,
        *,
        now_ms: Callable[[], float],
        progress: GroupProgress | None = None,
    ) -> None:
        self._offsets = offsets
        self._options = options
        self._now_ms = now_ms
        self._progress = progress
        self._initial: StreamOffset | None = None
        self._held_at_initial: frozenset[TopicPartition] = frozenset()
        self._asked_from: StreamOffset | None = None
        self._overdue: tuple[TopicPartition, ...] = ()
        self._is_first_batch_open = False
        self._run_end: LatestOffsets | None = None
        self._latest_seen: StreamOffset | None = None
        self._last_batch_ms = NEVER_MS
        # the vector that Spark goes on from, the one last offered as an end, and the topics both belong to
        self._start: StreamOffset | None = None
        self._start_ids: Mapping[str, UUID] = {}
        self._end: StreamOffset | None = None
        self._end_ids: Mapping[str, UUID] = {}
        self._recreated_starts: dict[TopicPartition, int] = {}

    def prepare_available_now(self) -> None:
        self._run_end = self._offsets.latest({})

    def initial_offset(self) -> StreamOffset:
        """Raises what `find_stream_start` raises."""
        if self._initial is None:
            self._initial = self._offsets.asked_again_if_topics_vanish(self._find_initial)
            self._is_first_batch_open = True
        return dict(self._initial)

    def latest_offset(self, start: StreamOffset, *, max_offsets: int | None, is_limited: bool) -> StreamOffset:
        """The end of the next batch. Not limited: everything there is, whatever the options say."""
        if start == self._end:
            self._start, self._start_ids = self._end, self._end_ids
        latest = self._latest_for(start)
        self._latest_seen = latest.offsets
        if not latest.offsets:
            # Storing "no partition" would read everything again when the topics are listed once more.
            report_deleted(start.keys(), self._options)
            return start
        anew = self._recreated_topics(start, latest)
        begin = self._begin(start, latest.offsets, anew, is_limited=is_limited)
        self._asked_from = start
        is_kept = {tp for tp in start if tp.topic not in anew}
        self._store_progress({tp: start[tp] if tp in is_kept else begin[tp] for tp in latest.offsets})
        ends = self._blocked(latest.offsets)
        if is_limited:
            now_ms = self._now_ms()
            if self._must_wait(begin, ends, now_ms):
                return start
            self._last_batch_ms = now_ms
            ends = self._limited(begin, ends, max_offsets)
        recreated_starts = {tp: begin[tp] for tp in ends if tp.topic in anew}
        if ends == start:
            ends = _all_but_one(ends, recreated_starts)
        self._offer(ends, latest.topic_ids, recreated_starts)
        return dict(ends)

    def commit(self, end: StreamOffset) -> None:
        """All below is done. As a rule that was known before, and better: what began anew since is not in `end`."""
        if end != self._asked_from:
            self._store_progress(end)

    def reported_latest_offset(self) -> StreamOffset | None:
        """For the query's progress: the readable ends as last seen, not limited."""
        return self._latest_seen or None

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[PlannedRange]:
        """Reports lost data as failOnDataLoss says; with Trigger.AvailableNow also raises what is said above."""
        # Also when an earlier run chose its end: then this one has none to hold back.
        self._is_first_batch_open = False
        if start == end:
            return []
        if self._asked_from is None:
            # A batch that an earlier run left behind is run before an end is asked for. Its start may have moved.
            self._store_progress({tp: min(offset, end[tp]) for tp, offset in start.items() if tp in end})
        assignment = self._offsets.assignment()
        is_repeated = end != self._end
        if is_repeated:
            self._offer(end, assignment.topic_ids, {})
        elif self._run_end is not None:
            latest = self._offsets.latest(end)
            check_run_end_is_reachable(self._run_end, end, latest, self._end_ids)
        from_offsets = self._from_offsets(start, end, is_repeated=is_repeated, present=assignment.partitions)
        ranges = [
            OffsetRange(topic_partition=tp, from_offset=from_offsets[tp], until_offset=end[tp])
            for tp in sorted(from_offsets)
        ]
        for r in ranges:
            if r.size < 0:
                report_data_loss(
                    "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
                    fail_on_data_loss=self._options.fail_on_data_loss,
                    topic_partition=str(r.topic_partition),
                    prev_offset=r.from_offset,
                    new_offset=r.until_offset,
                )
        pieces = split_ranges(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records_per_partition=self._options.max_records_per_partition,
        )
        return [PlannedRange.of(piece, self._end_ids.get(piece.topic_partition.topic)) for piece in pieces]

    def _store_progress(self, offsets: StreamOffset) -> None:
        """Raises STREAMLOG_PIN_LOST when retention can no longer be kept off what is above."""
        if self._progress is not None:
            self._progress.store(offsets)

    def _find_initial(self) -> StreamOffset:
        found = find_stream_start(self._offsets, self._options, self._run_end)
        self._held_at_initial = found.held
        self._start, self._start_ids = found.offsets, found.topic_ids
        return dict(self._start)

    def _latest_for(self, start: StreamOffset) -> LatestOffsets:
        if self._run_end is None:
            return self._offsets.latest(start)
        if any(self._run_end.offsets.get(tp, -1) < offset for tp, offset in start.items()):
            # The run cannot end before it starts: stale metadata, or a loss that `plan` will name.
            self._run_end = self._offsets.latest(start)
        return self._run_end

    def _recreated_topics(self, start: StreamOffset, latest: LatestOffsets) -> set[str]:
        if start != self._start:
            # The first batch of a restarted run: from here on the ids are known.
            self._start, self._start_ids = dict(start), latest.topic_ids
        changed = {
            topic: (self._start_ids[topic], topic_id)
            for topic, topic_id in latest.topic_ids.items()
            if self._start_ids.get(topic, topic_id) != topic_id
        }
        report_recreated(changed, self._options)
        return set(changed)

    def _begin(
        self, start: StreamOffset, latest: StreamOffset, anew: set[str], *, is_limited: bool
    ) -> dict[TopicPartition, int]:
        """Where reading really goes on: at the log start for partitions that are new, and where it has moved up."""
        is_new = {tp for tp in latest if tp not in start or tp.topic in anew}
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

    def _offer(
        self, end: StreamOffset, topic_ids: Mapping[str, UUID], recreated_starts: dict[TopicPartition, int]
    ) -> None:
        self._end, self._end_ids, self._recreated_starts = dict(end), topic_ids, recreated_starts

    def _from_offsets(
        self, start: StreamOffset, end: StreamOffset, *, is_repeated: bool, present: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Where each partition of the batch begins. Partitions without a known beginning are left out."""
        is_repeated_first = is_repeated and start == self._initial
        gone = start.keys() - end.keys()
        # An initial offset asked for again names partitions that appeared after the first batch was logged.
        report_deleted(gone - present if is_repeated_first else gone, self._options)
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
