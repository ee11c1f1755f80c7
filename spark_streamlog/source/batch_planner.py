"""The tasks of a batch query.

Spark plans a DataFrame once and runs the plan each time it is used, so an end at `latest` is not resolved in the plan:
the last piece of each partition keeps LATEST and its task requests the end when it runs. In the same way the first
piece keeps EARLIEST. The offsets found while planning only decide where to cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST, check_order
from spark_streamlog.planning.offset_range import OffsetRange, split_ranges
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.planned_range import PlannedRange


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRanges:
    """The ranges of a partition that a query reads, in order. `is_end_open`: also what is appended after its end."""

    ranges: tuple[OffsetRange, ...]
    is_end_open: bool


Keep = Callable[[OffsetRange], KeptRanges]
"""Called for each partition with the whole range that the options name."""


def plan_batch(offsets: OffsetReader, options: ReadOptions, keep: Keep | None = None) -> list[PlannedRange]:
    """Without `keep` everything is kept.

    Raises what `OffsetReader.first_assignment` and `unresolved` raise, and RESOLVED_START_OFFSET_GREATER_THAN_….
    """
    return offsets.retried_if_topics_vanish(lambda: _plan(offsets, options, keep))


def _plan(offsets: OffsetReader, options: ReadOptions, keep: Keep | None) -> list[PlannedRange]:
    assignment = offsets.first_assignment()
    starts = offsets.unresolved(options.starting, assignment.partitions, is_start=True)
    ends = offsets.unresolved(options.ending, assignment.partitions, is_start=False)
    resolved_starts, resolved_ends = offsets.resolved(starts), offsets.resolved(ends)
    resolved_ends |= offsets.above_open_transactions(
        resolved_starts, {tp: resolved_ends[tp] for tp in ends if ends[tp] == LATEST}
    )
    planned: list[PlannedRange] = []
    whole: list[OffsetRange] = []
    for tp in sorted(assignment.partitions):
        check_order("RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", tp, resolved_starts[tp], resolved_ends[tp])
        offset_range = OffsetRange(topic_partition=tp, from_offset=resolved_starts[tp], until_offset=resolved_ends[tp])
        kept = KeptRanges(ranges=(offset_range,), is_end_open=True) if keep is None else keep(offset_range)
        found = [each for each in kept.ranges if each.size > 0]
        whole.extend(found)
        reaches_the_end = bool(found) and found[-1].until_offset == offset_range.until_offset
        if ends[tp] == LATEST and kept.is_end_open and not reaches_the_end:
            # The range is empty now, but the plan may run again when it has records.
            end = replace(offset_range, from_offset=max(offset_range.from_offset, offset_range.until_offset))
            planned.append(PlannedRange.of(end, assignment.topic_ids[tp.topic]))
    pieces = split_ranges(
        whole, min_partitions=options.min_partitions, max_records_per_partition=options.max_records_per_partition
    )
    planned.extend(PlannedRange.of(piece, assignment.topic_ids[piece.topic_partition.topic]) for piece in pieces)
    opened = [_left_open(p, starts, ends, resolved_starts, resolved_ends) for p in planned]
    if keep is None:
        return opened
    follows = {tp for tp, start in starts.items() if start == EARLIEST}
    return sorted(
        (replace(p, follows_log_start=p.topic_partition in follows) for p in opened),
        key=lambda p: (p.topic_partition, p.until_offset == LATEST, p.from_offset),
    )


def _left_open(
    planned: PlannedRange,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    resolved_starts: dict[TopicPartition, int],
    resolved_ends: dict[TopicPartition, int],
) -> PlannedRange:
    tp = planned.topic_partition
    if planned.from_offset == resolved_starts[tp] and starts[tp] == EARLIEST:
        planned = replace(planned, from_offset=EARLIEST)
    if planned.until_offset == resolved_ends[tp] and ends[tp] == LATEST:
        planned = replace(planned, until_offset=LATEST)
    if planned.from_offset == EARLIEST and planned.until_offset == LATEST:
        planned = replace(planned, topic_id=None)
    return planned
