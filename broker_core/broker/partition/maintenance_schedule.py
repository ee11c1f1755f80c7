"""Schedules maintenance of a node's partitions: of all every log.retention.check.interval.ms, of one after a roll.

Retention waits for the interval, as in Kafka: a record with an old timestamp is not deleted as soon as its segment is
rolled, and consumers have the interval to read it. Compaction and key filters follow the roll.

One job at a time, even if many are due: maintenance reads and writes a lot, and appends have priority.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from broker_core.broker.timer_queue import TimerQueue
from broker_core.cluster import PartitionBounds
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.partition_maintenance import MaintenanceReport, PartitionMaintenance
from broker_core.model.exceptions import InvalidRequestError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import COMPACTION_MEMORY_BYTES, KEY_FILTER_MAINTENANCE_BYTES
from broker_core.ports import Clock, Entropy, Jobs
from broker_core.storage.readable_partition import ReadablePartition

PinnedOffset = Callable[[TopicPartition], int | None]
"""The offset from which on a partition's records must be kept, at any age; None: none. Called on the loop."""

_TIMER_KEY: Final = "partition maintenance"
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    report: MaintenanceReport | None
    bounds: PartitionBounds


class MaintenanceSchedule:
    """`partitions()` is called at each round and returns the partitions to maintain. `on_bounds` gets the bounds of
    each after its maintenance."""

    def __init__(
        self,
        access: PartitionAccess,
        jobs: Jobs,
        timers: TimerQueue,
        clock: Clock,
        entropy: Entropy,
        *,
        interval_ms: int,
        compaction_memory_bytes: Callable[[], int] = lambda: COMPACTION_MEMORY_BYTES,
        is_cleaner_enabled: bool = True,
        pinned_offset: PinnedOffset,
        stable_until: PinnedOffset = lambda partition: None,
        partitions: Callable[[], Iterable[TopicPartition]],
        on_bounds: Callable[[TopicPartition, PartitionBounds], None],
    ) -> None:
        self._access = access
        self._jobs = jobs
        self._timers = timers
        self._interval_ms = interval_ms
        self._ask_pinned_offset = pinned_offset
        self._ask_stable_until = stable_until
        self._partitions = partitions
        self._on_bounds = on_bounds
        self._pinned: dict[TopicPartition, int | None] = {}
        self._stable: dict[TopicPartition, int | None] = {}
        self._maintenance = PartitionMaintenance(
            access,
            clock,
            entropy,
            pinned_offset=self._pinned.get,
            compaction_memory_bytes=compaction_memory_bytes,
            is_cleaner_enabled=is_cleaner_enabled,
            stable_until=self._stable.get,
        )
        self._due: dict[TopicPartition, bool] = {}
        """Whether retention is due, too."""
        self._is_round_due = False
        self._is_working = False
        self._is_stopped = False
        self._when_stopped: Callable[[], None] | None = None

    def start(self, now_ms: int) -> None:
        """The first round comes after one interval."""
        self._timers.set(_TIMER_KEY, now_ms + self._interval_ms, self._begin_round)

    def add(self, partition: TopicPartition) -> None:
        """The partition started a new segment: compacts it soon, and builds key filters."""
        self._due.setdefault(partition, False)
        self._maintain_next()

    def stop(self, on_done: Callable[[], None]) -> None:
        """Waits for the job under way; no other job is started."""
        self._is_stopped = True
        self._due.clear()
        self._timers.cancel(_TIMER_KEY)
        if self._is_working:
            self._when_stopped = on_done
        else:
            on_done()

    def _begin_round(self, now_ms: int) -> None:
        self._timers.set(_TIMER_KEY, now_ms + self._interval_ms, self._begin_round)
        self._is_round_due = True
        self._maintain_next()

    def _list_due(self) -> None:
        """Partitions that were never written have nothing to maintain, and there may be 100,000 of them."""
        self._is_round_due, self._is_working = False, True
        partitions = list(self._partitions())

        def found(begun: list[TopicPartition]) -> None:
            if not self._is_stopped:
                self._due.update(dict.fromkeys(begun, True))
            self._end()

        def failed(error: Exception) -> None:
            _log.warning("maintenance could not list the folders: %s", error)
            self._end()

        self._jobs.submit(lambda: self._access.with_folders(partitions), found, failed)

    def _maintain_next(self) -> None:
        if self._is_working or self._is_stopped:
            return
        if self._is_round_due:
            self._list_due()
            return
        if not self._due:
            return
        partition = next(iter(self._due))
        retains = self._due.pop(partition)
        self._is_working = True
        # One job at a time: only the job reads it, and it does not change while the job runs.
        self._pinned.clear()
        self._pinned[partition] = self._ask_pinned_offset(partition)
        self._stable.clear()
        self._stable[partition] = self._ask_stable_until(partition)

        def done(looked: _Looked) -> None:
            if looked.report is not None:
                _log_report(looked.report, looked.bounds)
            self._on_bounds(partition, looked.bounds)
            self._end()

        def failed(error: Exception) -> None:
            if not isinstance(error, InvalidRequestError):  # else: deleted meanwhile
                _log.warning("partition=%s maintenance failed: %s", partition, error)
            self._end()

        self._jobs.submit(lambda: self._maintain(partition, retains=retains), done, failed)

    def _maintain(self, partition: TopicPartition, *, retains: bool) -> _Looked:
        """Runs in a job."""
        report = None
        if self._maintenance.is_due(partition, retains=retains):
            report = self._maintenance.maintain(
                partition, retains=retains, max_filter_bytes=KEY_FILTER_MAINTENANCE_BYTES
            )
        return _Looked(report=report, bounds=self._access.read(partition, ReadablePartition.bounds))

    def _end(self) -> None:
        self._is_working = False
        if self._when_stopped is not None:
            self._when_stopped()
        self._maintain_next()


def _log_report(report: MaintenanceReport, bounds: PartitionBounds) -> None:
    if report.deleted_segment_count:
        _log.info(
            "partition=%s retention deleted %d segments with %d offsets: the log starts at %d",
            report.partition,
            report.deleted_segment_count,
            report.deleted_offset_count,
            bounds.log_start_offset,
        )
    if report.error is not None:
        _log.warning("partition=%s maintenance failed: %s", report.partition, report.error)
