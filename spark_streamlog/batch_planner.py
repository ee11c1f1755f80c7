"""The tasks of a batch query.

Spark plans a DataFrame once and runs the plan as often as it is used, so an end at `latest` is not put into the plan:
the last piece of each partition keeps LATEST and its task asks for the end when it runs. In the same way the first
piece keeps EARLIEST. The offsets that were found while planning only say where to cut.
"""

from __future__ import annotations

from dataclasses import replace

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.offset_reader import OffsetReader
from spark_streamlog.planned_range import PlannedRange
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST, check_order
from spark_streamlog.planning.offset_range import OffsetRange, split_ranges
from spark_streamlog.read_options import ReadOptions


def plan_batch(offsets: OffsetReader, options: ReadOptions) -> list[PlannedRange]:
    """Raises what `OffsetReader.first_assignment` and `unresolved` raise, and RESOLVED_START_OFFSET_GREATER_THAN_…."""
    return offsets.asked_again_if_topics_vanish(lambda: _plan(offsets, options))


def _plan(offsets: OffsetReader, options: ReadOptions) -> list[PlannedRange]:
    assignment = offsets.first_assignment()
    starts = offsets.unresolved(options.starting, assignment.partitions, is_start=True)
    ends = offsets.unresolved(options.ending, assignment.partitions, is_start=False)
    resolved_starts, resolved_ends = offsets.resolved(starts), offsets.resolved(ends)
    planned: list[PlannedRange] = []
    whole: list[OffsetRange] = []
    for tp in sorted(assignment.partitions):
        check_order("RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", tp, resolved_starts[tp], resolved_ends[tp])
        offset_range = OffsetRange(topic_partition=tp, from_offset=resolved_starts[tp], until_offset=resolved_ends[tp])
        if offset_range.size > 0:
            whole.append(offset_range)
        elif ends[tp] == LATEST:
            # Nothing there now, but the plan may run again when there is.
            planned.append(PlannedRange.of(offset_range, assignment.topic_ids[tp.topic]))
    pieces = split_ranges(
        whole, min_partitions=options.min_partitions, max_records_per_partition=options.max_records_per_partition
    )
    planned.extend(PlannedRange.of(piece, assignment.topic_ids[piece.topic_partition.topic]) for piece in pieces)
    return [_left_open(p, starts, ends, resolved_starts, resolved_ends) for p in planned]


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
