"""The reads of a query in a log on object storage: planned on the driver, pickled into the tasks.

    driver   with one_look(cluster):              all calls see one state of the log, with one request if nothing is new
                 ranges = ...                     offsets as in any other log
                 with_fetch_plans(cluster, ...)   where their batches are
    task     UsablePlans(cluster).of(range)       then it requests data only, and does not load the log's state

A batch query may leave the end of a range open (`planned_range`). Its task asks whether anything was committed since
it was planned, with one request; if so, it looks the end up as in any other log.

All functions accept any log, and do nothing where reads are not planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broker_core.cluster import Cluster
from broker_core.model.exceptions import OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from broker_core.staged_writes import FetchPlan, PlannedReads
from spark_streamlog.planning.offset_limits import LATEST
from spark_streamlog.source.planned_range import PlannedRange


def with_fetch_plans(cluster: Cluster, tasks: Sequence[tuple[PlannedRange, ...]]) -> Sequence[tuple[PlannedRange, ...]]:
    """The same ranges with plans. One whose data is lost gets none: its task finds out and reports it."""
    if not isinstance(cluster, PlannedReads):
        return tasks
    return [tuple(replace(one, fetch_plan=_plan_of(cluster, one)) for one in task) for task in tasks]


def _plan_of(cluster: PlannedReads, planned: PlannedRange) -> FetchPlan | None:
    start, end = planned.planned_offsets
    if start > end:
        return None
    try:
        plan = cluster.plan_fetches(planned.topic_partition, start, end)
    except (OffsetOutOfRangeError, UnknownTopicError, UnknownPartitionError):
        return None
    return plan if planned.topic_id in (None, plan.topic_id) else None


class UsablePlans:
    """The plans that one task may read by. Asks once for all ranges whose end is open."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._is_current: bool | None = None

    def of(self, planned: PlannedRange) -> FetchPlan | None:
        plan = planned.fetch_plan
        if plan is None or not isinstance(self._cluster, PlannedReads):
            return None
        if planned.until_offset == LATEST:
            if self._is_current is None:
                self._is_current = self._cluster.is_current(plan)
            return plan if self._is_current else None
        return plan
