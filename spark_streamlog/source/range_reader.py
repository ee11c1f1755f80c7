"""Reads one planned range in a task: fetch, check for loss, decode, yield Arrow batches.

A record offset above the wanted one is a gap left by compaction or transactions, not a loss, as long as the log start
is not above the wanted one; otherwise records were deleted before they were read. In every case, no row outside the
planned range is returned and no offset is read twice: `wanted` only increases.

From brokers the next records are fetched while the last ones are decoded.

From an object store a range is read by its plan, without a look at the log (`fetch_plans`). The plan shows where the
next fetches begin, so several are under way, also those of the task's next ranges: as many as have OBJECT_AHEAD_BYTES.
The log is looked at only where the plan ends or fails, and then everything is as without a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable
from uuid import UUID

import pyarrow as pa

from broker_core.cluster import Cluster, FetchedBatches, PartitionBounds
from broker_core.model.exceptions import (
    CorruptDataError,
    OffsetOutOfRangeError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.fetch_start import FetchStart
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.record.batch_header import read_header
from broker_core.staged_writes import FetchPlan, FetchStep, PlannedReads
from spark_streamlog.errors import report_data_loss
from spark_streamlog.open_cluster import one_look
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST
from spark_streamlog.rows.record_rows import RecordRows
from spark_streamlog.source.fetch_ahead import FetchAhead
from spark_streamlog.source.fetch_plans import UsablePlans
from spark_streamlog.source.fetched_rows import FetchedRows
from spark_streamlog.source.planned_range import PlannedRange

FETCH_ATTEMPT_COUNT = 3
"""How often an offset may be out of range and then in range again before it is reported as lost."""
SEVERAL_COUNT = 100
"""The ranges whose first records one request fetches: each then gets a share of the fetch size."""
FETCH_BYTES = 2 * 1024 * 1024
"""One fetch: its batches, decoded, fit a core's cache; larger ones were slower from end to end."""
OBJECT_FETCH_BYTES = 8 * 1024 * 1024
"""From an object store, where a request takes tens of milliseconds and costs money. A range that is larger, but not
twice as large, is one fetch as well."""
OBJECT_AHEAD_BYTES = 32 * 1024 * 1024
"""What a task has requested from an object store and not begun to decode. With 100 ms for a request it gets 300 MB/s,
more than a core decodes."""
LEAST_AHEAD_BYTES = 2 * 1024 * 1024
"""Counted for a smaller fetch, so that a task sends at most 16 at once."""

PROBE_COUNT = 100_000
"""Behind a damaged batch at a broker the next offsets are tried one by one, as its answer does not say where the batch
ends. More records than batches have; a request takes half a millisecond."""


@runtime_checkable
class FetchesSeveral(Protocol):
    """A `Cluster` for which one request for several partitions is cheaper than one for each: see `ClusterClient`."""

    def fetch_several(
        self, starts: Mapping[TopicPartition, FetchStart], *, max_bytes: int, isolation: IsolationLevel
    ) -> dict[TopicPartition, FetchedBatches]: ...


def read_ranges(cluster: Cluster, ranges: Sequence[PlannedRange], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Reads ranges in order; one request fetches the first records of many, from a broker or from an object that holds
    them side by side. Raises as `read_range` does."""
    plans = UsablePlans(cluster, ranges)
    for number in range(0, len(ranges), SEVERAL_COUNT):
        chunk = ranges[number : number + SEVERAL_COUNT]
        firsts = _first_fetches(cluster, chunk, plans, options)
        readers = [_RangeReader(cluster, one, options, plans, firsts.get(place)) for place, one in enumerate(chunk)]
        firsts.clear()
        for reader, following in pairwise(readers):
            reader.following = following
        while readers:
            # Popped, so that its memory is freed once it is read.
            yield from readers.pop(0).batches()


def read_range(cluster: Cluster, planned: PlannedRange, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Raises KAFKA_DATA_LOSS.* as failOnDataLoss says, STREAMLOG_UNREADABLE_RECORD with file and position."""
    return read_ranges(cluster, [planned], options)


def _first_fetches(
    cluster: Cluster, ranges: Sequence[PlannedRange], plans: UsablePlans, options: ReadOptions
) -> dict[int, FetchedBatches]:
    """By the place of the range."""
    if isinstance(cluster, FetchesSeveral):
        return _first_from_brokers(cluster, ranges, options)
    found = ((place, plans.of(planned)) for place, planned in enumerate(ranges))
    # A larger one would leave no room for others.
    small = [(place, plan) for place, plan in found if plan is not None and plan.size_bytes <= OBJECT_FETCH_BYTES // 2]
    if not isinstance(cluster, PlannedReads) or len(small) < 2:
        return {}
    answers = cluster.fetch_several_planned([plan for _, plan in small], max_bytes=OBJECT_FETCH_BYTES)
    return {place: answer for (place, _), answer in zip(small, answers, strict=True) if answer is not None}


def _first_from_brokers(
    cluster: FetchesSeveral, ranges: Sequence[PlannedRange], options: ReadOptions
) -> dict[int, FetchedBatches]:
    starts: dict[TopicPartition, FetchStart] = {}
    places: dict[TopicPartition, int] = {}
    for place, planned in enumerate(ranges):
        is_begun = planned.topic_partition in starts
        if planned.topic_id is None or planned.from_offset == EARLIEST or planned.follows_log_start or is_begun:
            continue
        starts[planned.topic_partition] = FetchStart(from_offset=planned.from_offset, topic_id=planned.topic_id)
        places[planned.topic_partition] = place
    if len(starts) < 2:
        return {}
    answers = cluster.fetch_several(starts, max_bytes=FETCH_BYTES, isolation=options.isolation)
    return {places[partition]: answer for partition, answer in answers.items()}


class _RangeReader:
    def __init__(
        self,
        cluster: Cluster,
        planned: PlannedRange,
        options: ReadOptions,
        plans: UsablePlans,
        first: FetchedBatches | None,
    ) -> None:
        """`first`: an answer that was already fetched, from the start of the range."""
        self.following: _RangeReader | None = None
        self._cluster = cluster
        self._planned = planned
        self._plans = plans
        self._plan = plans.of(planned)
        self._first_steps: Sequence[FetchStep] | None = None
        self._partition = planned.topic_partition
        self._options = options
        self._rows = RecordRows(self._partition, include_headers=options.include_headers, formats=options.formats)
        self._fetched_rows = FetchedRows(self._partition, options)
        self._attempts_left = FETCH_ATTEMPT_COUNT
        self._fetches = FetchAhead(self._fetch)
        self._first = first
        # A directory is read from memory, faster than a thread starts.
        self._reads_ahead = not options.target.is_directory
        fetch_bytes = FETCH_BYTES if options.target.objects is None else OBJECT_FETCH_BYTES
        # A small range is not worth a large fetch, unless its end is open.
        is_small = planned.until_offset != LATEST and planned.size_bytes is not None
        self._fetch_bytes = min(fetch_bytes, planned.size_bytes or fetch_bytes) if is_small else fetch_bytes
        self._start = planned.from_offset

    def begin(self, ahead_bytes: int) -> None:
        """Sends the first fetches, if the plan shows them."""
        if self._plan is None:
            return
        start, until = self._planned_offsets(self._plan)
        if self._first_steps is None:
            start = start if self._first is None else self._first.next_offset
            self._first_steps = self._steps(start, until, OBJECT_AHEAD_BYTES)
        self._send(self._first_steps, until, ahead_bytes)

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.begin(OBJECT_AHEAD_BYTES)
        resolved = self._resolved()
        if resolved is None:
            return
        wanted, until = resolved
        self._start = wanted
        while wanted < until:
            try:
                fetched = self._take_first(wanted) or self._fetches.take(wanted)
            except CorruptDataError as damage:
                wanted = min(until, self._fetched_rows.skip_damage(damage, wanted, self._end_of(damage, wanted, until)))
                continue
            if fetched is not None and self._reads_ahead and wanted < fetched.next_offset:
                self._begin_at(fetched.next_offset, until)
            if fetched is None:
                wanted = self._next_readable(wanted, until)
            elif not len(fetched.buffer):
                wanted = self._skip_gap(fetched, wanted, until)
            else:
                self._check_for_loss(fetched, wanted, until)
                for decoded in self._fetched_rows.decoded(fetched, wanted, until):
                    assert decoded.next_offset > wanted, f"{self._partition}: a fetch at {wanted} that goes nowhere"
                    wanted = decoded.next_offset
                    if decoded.record_batch.num_rows:
                        yield self._rows.to_rows(decoded.record_batch)
        self._fetched_rows.report_skipped()

    def _begin_at(self, offset: int, until: int) -> None:
        """Sends the next fetches from this offset on."""
        if offset < until and self._plan_of(offset) is None:
            self._fetches.begin([offset])
        else:
            self._send(self._steps(offset, until, OBJECT_AHEAD_BYTES), until, OBJECT_AHEAD_BYTES)

    def _send(self, steps: Sequence[FetchStep], until: int, ahead_bytes: int) -> None:
        """The first of these fetches as far as there is room, then those of the following range."""
        sent: list[int] = []
        for step in steps:
            ahead_bytes -= max(step.size_bytes, LEAST_AHEAD_BYTES)
            if ahead_bytes < 0:
                break
            sent.append(step.from_offset)
        self._fetches.begin(sent)
        are_all_sent = len(sent) == len(steps) and (not steps or steps[-1].next_offset >= until)
        if self.following is not None and are_all_sent and ahead_bytes > 0:
            self.following.begin(ahead_bytes)

    def _steps(self, offset: int, until: int, ahead_bytes: int) -> Sequence[FetchStep]:
        """None at the end of the range, or where the plan ends."""
        plan = self._plan_of(offset)
        if plan is None or offset >= until:
            return ()
        assert isinstance(self._cluster, PlannedReads)
        return self._cluster.fetch_steps(plan, offset, until, max_bytes=self._fetch_bytes, ahead_bytes=ahead_bytes)

    def _plan_of(self, offset: int) -> FetchPlan | None:
        """The plan, if it has the offset. Also called by another thread, while this one may drop the plan."""
        plan = self._plan
        return plan if plan is not None and offset < plan.until_offset else None

    def _resolved(self) -> tuple[int, int] | None:
        """The offsets to read; None if the topic or partition is lost."""
        start, until = self._planned.from_offset, self._planned.until_offset
        if not self._follows_log_start and until != LATEST:
            return start, until
        if self._plan is not None and (until != LATEST or self._plans.are_current()):
            return self._planned_offsets(self._plan)
        with one_look(self._cluster):
            bounds = self._bounds_now()
            if bounds is None:
                return None
            if self._plan is not None and self._topic_id_now() != self._plan.topic_id:
                self._plan = self._first = None
                self._fetches.begin([])
        start = max(start, bounds.log_start_offset) if self._follows_log_start else start
        return start, bounds.readable_end(self._options.isolation) if until == LATEST else until

    def _planned_offsets(self, plan: FetchPlan) -> tuple[int, int]:
        """The offsets to read if the plan is current."""
        start, until = self._planned.from_offset, self._planned.until_offset
        start = plan.from_offset if self._follows_log_start else start
        return start, plan.bounds.readable_end(self._options.isolation) if until == LATEST else until

    @property
    def _follows_log_start(self) -> bool:
        return self._planned.from_offset == EARLIEST or self._planned.follows_log_start

    def _take_first(self, wanted: int) -> FetchedBatches | None:
        first, self._first = self._first, None
        return first if first is not None and wanted == self._start and first.next_offset > wanted else None

    def _fetch(self, wanted: int) -> FetchedBatches | None:
        """None if the offset, the partition or the topic does not exist any more. Also called by another thread."""
        plan = self._plan_of(wanted)
        try:
            if plan is not None and isinstance(self._cluster, PlannedReads):
                return self._cluster.fetch_planned(plan, wanted, max_bytes=self._fetch_bytes)
            return self._cluster.fetch(
                self._partition,
                wanted,
                max_bytes=self._fetch_bytes,
                isolation=self._options.isolation,
                topic_id=self._planned.topic_id,
            )
        except (OffsetOutOfRangeError, UnknownTopicError, UnknownPartitionError):
            return None

    def _end_of(self, damage: CorruptDataError, wanted: int, until: int) -> int | None:
        """Where the damaged batch that holds `wanted` ends; None if that is not known."""
        if "next_offset" in damage.fields or not self._options.skips_unreadable_records:
            return damage.fields.get("next_offset")
        # Only the batch that holds an offset is read for it, so every offset of the damaged one is refused.
        is_broker = self._options.target.objects is None and not self._options.target.is_directory
        for offset in range(wanted + 1, min(until, wanted + 1 + PROBE_COUNT)) if is_broker else ():
            try:
                self._cluster.fetch(self._partition, offset, max_bytes=1, isolation=self._options.isolation)
            except CorruptDataError:
                continue
            return offset
        return until if is_broker and until <= wanted + 1 + PROBE_COUNT else None

    def _next_readable(self, wanted: int, until: int) -> int:
        """Where to continue if `wanted` cannot be fetched; reports the loss. `until` ends the range."""
        is_planned, self._plan = self._plan is not None, None
        bounds = self._bounds_now()
        if bounds is None:
            return until
        if is_planned and self._follows_log_start and wanted == self._start < bounds.log_start_offset:
            return min(bounds.log_start_offset, until)  # deleted before the task began
        if wanted < bounds.log_start_offset:
            next_offset = min(bounds.log_start_offset, until)
        elif wanted > bounds.log_end_offset:
            next_offset = until
        elif self._attempts_left > 0:
            # It was out of range for a moment and no longer is: fetch the same offset again.
            self._attempts_left -= 1
            return wanted
        else:
            next_offset = until
        self._report_unreadable(wanted, next_offset, bounds)
        return next_offset

    def _skip_gap(self, fetched: FetchedBatches, wanted: int, until: int) -> int:
        if fetched.next_offset > wanted:
            return fetched.next_offset
        # The range was planned up to an offset that was readable then and is missing now.
        self._report_unreadable(wanted, until, fetched.bounds)
        return until

    def _check_for_loss(self, fetched: FetchedBatches, wanted: int, until: int) -> None:
        log_start = fetched.bounds.log_start_offset
        if log_start > wanted and read_header(fetched.buffer, 0).base_offset > wanted:
            self._report_unreadable(wanted, min(log_start, until), fetched.bounds)

    def _bounds_now(self) -> PartitionBounds | None:
        """None, and reported, if the topic or partition was deleted or the topic was recreated."""
        try:
            if not self._is_same_topic():
                return None
            return self._cluster.bounds(self._partition)
        except (UnknownTopicError, UnknownPartitionError):
            report_data_loss(
                "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
                fail_on_data_loss=self._options.fail_on_data_loss,
                partitions=str(self._partition),
            )
            return None

    def _is_same_topic(self) -> bool:
        """Reports it if not. Raises UnknownTopicError."""
        expected = self._planned.topic_id
        if expected is None:
            return True
        found = self._topic_id_now()
        if found != expected:
            report_data_loss(
                "KAFKA_DATA_LOSS.TOPIC_RECREATED",
                fail_on_data_loss=self._options.fail_on_data_loss,
                topic=self._partition.topic,
                old_id=expected,
                new_id=found,
            )
        return found == expected

    def _topic_id_now(self) -> UUID:
        """Raises UnknownTopicError."""
        topic = self._cluster.describe_topics([self._partition.topic]).get(self._partition.topic)
        if topic is None:
            raise UnknownTopicError(f"the topic {self._partition.topic} does not exist")
        return topic.topic_id

    def _report_unreadable(self, from_offset: int, until_offset: int, bounds: PartitionBounds) -> None:
        report_data_loss(
            "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
            fail_on_data_loss=self._options.fail_on_data_loss,
            topic_partition=str(self._partition),
            start_offset=from_offset,
            end_offset=until_offset,
            log_start_offset=bounds.log_start_offset,
            log_end_offset=bounds.readable_end(self._options.isolation),
        )
