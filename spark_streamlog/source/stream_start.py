"""Where a new streaming query starts. Resolved at its first start, and again only to repeat its first batch.

Spark logs the end of the first batch, not its start. If that batch must be run again after a crash, the start is
resolved again, and the same option now names other offsets: the log has grown (latest, latest-1000), time has passed
(-10m), the group has committed more (group:<id>). Such partitions are `held`: their first batch is empty, so that its
end records where they started, even if it is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from broker_core.model.identifiers import IsolationLevel, TopicPartition
from spark_streamlog.errors import report_data_loss
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST, moves_with_time
from spark_streamlog.planning.stream_offset import StreamOffset
from spark_streamlog.source.offset_reader import LatestOffsets, OffsetReader


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """`offsets` are the start, in the topics of these ids."""

    offsets: StreamOffset
    topic_ids: Mapping[str, UUID]
    held: frozenset[TopicPartition]


def find_stream_start(offsets: OffsetReader, options: ReadOptions, run_end: LatestOffsets | None) -> StreamStart:
    """`run_end` is where a run with Trigger.AvailableNow ends: a start relative to the end is relative to it.

    Raises what `OffsetReader.first_assignment` and `unresolved` raise, and START_OFFSET_RESET.
    """
    assignment = offsets.first_assignment()
    run_ends = run_end.offsets if run_end is not None else None
    unresolved = offsets.unresolved(options.starting, assignment.partitions, is_start=True, ends=run_ends)
    if run_ends is not None:
        # Partitions created after the run's end was fixed belong to the next run.
        unresolved = {tp: offset for tp, offset in unresolved.items() if tp in run_ends}
    resolved = offsets.resolved(unresolved)
    if run_ends is not None:
        resolved |= {tp: run_ends[tp] for tp, offset in unresolved.items() if offset == LATEST}
    given = {tp: offset for tp, offset in unresolved.items() if offset not in (EARLIEST, LATEST)}
    moving = unresolved if moves_with_time(options.starting) else [tp for tp in unresolved if unresolved[tp] == LATEST]
    return StreamStart(
        offsets=resolved | _within_logs(offsets, options, given),
        topic_ids=assignment.topic_ids,
        held=frozenset(moving),
    )


def _within_logs(offsets: OffsetReader, options: ReadOptions, given: StreamOffset) -> StreamOffset:
    """Offsets from the user or a group; one outside the log moves to its start or end, and is reported as a loss."""
    log_starts = offsets.resolved(dict.fromkeys(given, EARLIEST))
    # An offset after the first open transaction is in the log, although it is not readable yet.
    log_ends = offsets.resolved(dict.fromkeys(given, LATEST), IsolationLevel.READ_UNCOMMITTED)
    moved = {tp: min(max(offset, log_starts[tp]), log_ends[tp]) for tp, offset in given.items()}
    for tp, offset in given.items():
        if moved[tp] != offset:
            report_data_loss(
                "KAFKA_DATA_LOSS.START_OFFSET_RESET",
                fail_on_data_loss=options.fail_on_data_loss,
                topic_partition=str(tp),
                offset=offset,
                log_start_offset=log_starts[tp],
                log_end_offset=log_ends[tp],
                fetched_offset=moved[tp],
            )
    return moved
