"""The reads of a query in a log on object storage: planned on the driver, pickled into the tasks.

    driver   with one_look(cluster):              all calls see one state of the log, with one request if nothing is new
                 ranges = ...                     offsets as in any other log
                 with_fetch_plans(cluster, ...)   where their batches are
    task     UsablePlans(cluster, ranges)         then it requests data only, and does not load the log's state

A batch query may leave the end of a range open (`planned_range`). Its task asks whether anything was committed since
it was planned, with one request beside those for data; if so, it looks the end up as in any other log.

All functions accept any log, and do nothing where reads are not planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from broker_core.cluster import Cluster
from broker_core.model.exceptions import OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from broker_core.staged_writes import FetchPlan, PlannedReads
from spark_streamlog.planning.offset_limits import LATEST
from spark_streamlog.source import fetch_ahead
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
    """The plans of one task. Asks once, beside what else the task requests, for all ranges whose end is open."""

    def __init__(self, cluster: Cluster, ranges: Sequence[PlannedRange]) -> None:
        self._cluster = cluster
        open_plans = (plan for one in ranges if one.until_offset == LATEST and (plan := self.of(one)) is not None)
        self._look = next(
            (fetch_ahead.BackgroundCall(partial(self._is_current_now, plan)) for plan in open_plans), None
        )
        self._is_current = True

    def of(self, planned: PlannedRange) -> FetchPlan | None:
        return planned.fetch_plan if isinstance(self._cluster, PlannedReads) else None

    def are_current(self) -> bool:
        """Whether open ends are where they were when they were planned."""
        look, self._look = self._look, None
        if look is not None:
            self._is_current = look.answer()
        return self._is_current

    def _is_current_now(self, plan: FetchPlan) -> bool:
        assert isinstance(self._cluster, PlannedReads)
        return self._cluster.is_current(plan)
