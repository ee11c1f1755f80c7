"""Staged writes of an object log: the driver plans, tasks upload, the driver commits all uploads with one request.

Spark plans and commits in different processes, which may have just started. A commit by the plan needs no image: it is
the conditional write of the number after the plan's. A process that commits again and again remembers the plan as it is
after its own commits. Only if another writer was faster, the image is loaded.

A commit without the image must not repeat one, which would make the log unreadable. The uploads' objects are not in any
commit up to the plan's, because they were begun later; and those of the own commits after it are remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.log_directory.fork_guard import watch_for_fork
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.shared_log import Proposal, SharedLog
from broker_core.object_cluster.staged_upload import DataUpload
from broker_core.object_log.append_plan import AlreadyCommitted, plan_append
from broker_core.object_log.data_range import AppendedRange, DataRange
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.staging_outline import after_commit, outline_of, staging_plan_of
from broker_core.staged_writes import AppVersion, CommitOutcome, StagedData, StagingPlan

MAX_OWN_OBJECT_COUNT: Final = 10_000
"""With more of them in the own commits after a plan, the next commit begins with another plan or the image."""
MAX_PLAN_AGE_MS: Final = 30_000.0
"""How old the known state may be that a write is planned with. Each look reads the commits since the last one."""


class _OwnCommits(NamedTuple):
    """`plan` after the commits that this process made after commit `root_number`, with these objects."""

    root_number: int
    plan: StagingPlan
    objects: frozenset[str]


class StagedCommits:
    """`StagedWrites` without `last_version`. Thread-safe."""

    def __init__(self, ports: LogPorts, log: SharedLog) -> None:
        self._ports = ports
        self._log = log
        self._begin()
        watch_for_fork(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._own: _OwnCommits | None = None

    def reset_after_fork(self) -> None:
        self._begin()

    def plan(self, topics: Collection[str] | None, app_id: str | None) -> StagingPlan:
        return self._log.read_recent(
            lambda image: all(image.topic(name) is not None for name in topics or ()),
            lambda image: staging_plan_of(image, topics, app_id),
            max_age_ms=MAX_PLAN_AGE_MS,
        )

    def stage(self, plan: StagingPlan | None) -> DataUpload:
        def find_topic(name: str) -> TopicDescription | None:
            planned = plan.topic(name) if plan is not None else None
            if planned is not None:
                return planned
            return self._log.read_known(lambda image: image.topic(name) is not None, lambda image: image.topic(name))

        return DataUpload(self._ports, find_topic, plan_number=None if plan is None else plan.commit_number)

    def commit(self, staged: Sequence[StagedData], app: AppVersion | None, plan: StagingPlan | None) -> CommitOutcome:
        ranges = [_appended(row) for one in staged for row in one.ranges]
        already: list[tuple[AlreadyCommitted, int]] = []

        def propose(image: LogImage) -> Proposal | None:
            found = plan_append(image, ranges, app)
            if isinstance(found, AlreadyCommitted):
                already.append((found, image.number))
                return None
            return Proposal(changes=found, app=app) if found or app is not None else None

        known = self._known(staged, plan)
        outline = None if known is None else outline_of(known.plan, ranges, app)
        committed = self._log.commit(propose, outline=outline)
        if committed is not None:
            if known is not None and committed.number == known.plan.commit_number + 1:
                self._remember(known, app, committed.writer, {one.data.object for one in ranges})
            return CommitOutcome(is_new=True, commit_number=committed.number, last=app)
        if not already:
            return CommitOutcome(is_new=True, commit_number=0, last=None)
        return CommitOutcome(is_new=False, commit_number=already[-1][1], last=already[-1][0].last)

    def _known(self, staged: Sequence[StagedData], plan: StagingPlan | None) -> _OwnCommits | None:
        """The newest known state for which the data is certainly new: the plan, perhaps with own commits after it."""
        numbers = [one.plan_number for one in staged if one.ranges]
        if plan is None or any(number is None or number < plan.commit_number for number in numbers):
            return None
        with self._lock:
            own = self._own
        objects = {row[2][0] for one in staged for row in one.ranges if isinstance(row[2], tuple)}
        if (
            own is not None
            and own.root_number <= plan.commit_number < own.plan.commit_number
            and (own.plan.log_id, own.plan.app_id) == (plan.log_id, plan.app_id)
            and objects.isdisjoint(own.objects)
        ):
            return own
        return _OwnCommits(root_number=plan.commit_number, plan=plan, objects=frozenset())

    def _remember(self, known: _OwnCommits, app: AppVersion | None, writer: str, objects: set[str]) -> None:
        following = known._replace(plan=after_commit(known.plan, app, writer), objects=known.objects | objects)
        with self._lock:
            self._own = following if len(following.objects) <= MAX_OWN_OBJECT_COUNT else None


def _appended(row: tuple[object, ...]) -> AppendedRange:
    topic_id, partition, data = row
    assert isinstance(topic_id, UUID) and isinstance(partition, int) and isinstance(data, tuple)
    return AppendedRange(topic_id, partition, DataRange(*data))
