"""The ranges that one task reads: pickled on the driver, read by `range_reader`."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from broker_core.model.identifiers import TopicPartition
from broker_core.staged_writes import FetchPlan
from spark_streamlog.planning.offset_range import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """Offsets of one partition, the end not included.

    A batch query leaves `from_offset` at EARLIEST (-2) or `until_offset` at LATEST (-1) where the user did: the task
    resolves them, because Spark keeps the plan of a DataFrame and runs it again later. `topic_id` is the topic that the
    offsets belong to: the task detects a topic that was recreated under the same name. It is None where both ends are
    open, and then any topic of this name is valid.

    `follows_log_start`: it is part of a range that begins at the log start; records deleted before the task runs are
    not data loss. `size_bytes`: the size of its batches at planning time, where that is known. `planned_offsets`: the
    range's offsets at planning time, also where an end is open. `fetch_plan`: the places of its batches, in a log that
    plans its reads (`fetch_plans`).
    """

    topic_partition: TopicPartition
    from_offset: int
    until_offset: int
    topic_id: UUID | None
    follows_log_start: bool = False
    size_bytes: int | None = None
    planned_offsets: tuple[int, int] = (0, 0)
    fetch_plan: FetchPlan | None = None

    @classmethod
    def of(cls, offsets: OffsetRange, topic_id: UUID | None) -> PlannedRange:
        return cls(
            topic_partition=offsets.topic_partition,
            from_offset=offsets.from_offset,
            until_offset=offsets.until_offset,
            topic_id=topic_id,
            planned_offsets=(offsets.from_offset, offsets.until_offset),
        )
