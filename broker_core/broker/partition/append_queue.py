"""The append queue of one partition: appends wait in it and are written in groups, one group at a time.

    append ─┐                      ┌─ lock, check and write each, ONE sync, publish ─┐
    append ─┼─ queue ── takes all ─┤                                                 ├─ call the owner, next group
    append ─┘                      └─────────── meanwhile others queue ──────────────┘

So the longer the disk takes, the more appends share a sync. Other changes (deleting records, flushing) wait in the same
queue and run in a job of their own.

A job writes a group. On a server, the loop itself writes a small group at the end of the turn in which it arrived, and
a thread only syncs it: see `_maybe_write_here`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from broker_core.broker.partition.append_states import UNDER_WAY, AppendState, assert_may_follow
from broker_core.broker.partition.partition_target import (
    Changed,
    PartitionTarget,
    QueuedChange,
)
from broker_core.broker.partition.replica_services import ReplicaServices
from broker_core.log.append_request import AppendRequest
from broker_core.log_directory.partition_access import HeldPartition
from broker_core.model.exceptions import StorageError
from broker_core.model.limits import MAX_APPEND_GROUP_BYTES, MAX_LOOP_APPEND_BYTES
from broker_core.model.topic_config import TopicConfig
from broker_core.storage.append_group import PendingAppends


class QueueOwner(Protocol):
    """The owner of a queue. Its methods are called on the loop."""

    config: TopicConfig

    @property
    def knows_producers(self) -> bool: ...

    def on_changed(self, group: Sequence[AppendRequest | QueuedChange], changed: Changed) -> None: ...

    def on_failed(self, group: Sequence[AppendRequest | QueuedChange], error: Exception) -> None:
        """The job wrote nothing: the topic was deleted, or the partition could not be opened."""
        ...

    def on_disk_refusal(self, group: Sequence[AppendRequest], error: Exception) -> None:
        """Everything was rolled back; the next append may succeed."""
        ...


class AppendQueue:
    """The appends of one replica. Runs on the node's loop; its states and their order are in `append_states`."""

    def __init__(self, owner: QueueOwner, target: PartitionTarget, services: ReplicaServices) -> None:
        self._owner = owner
        self._target = target
        self._services = services
        self._queue: deque[AppendRequest | QueuedChange] = deque()
        self._state = AppendState.IDLE
        self._held: HeldPartition | None = None

    @property
    def is_idle(self) -> bool:
        return self._state not in UNDER_WAY and not self._queue

    def add(self, queued: AppendRequest | QueuedChange) -> None:
        self._queue.append(queued)
        self._start_soon()

    def take_all(self) -> list[AppendRequest | QueuedChange]:
        """Removes and returns the queued appends and changes. They will not be written."""
        taken = list(self._queue)
        self._queue.clear()
        return taken

    def abandon(self) -> None:
        """No job will call back any more: releases the partition as it is."""
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _start_soon(self) -> None:
        """If the loop writes, waits for the end of its turn: appends that arrive until then join the group."""
        if self._state is not AppendState.IDLE or not self._queue:
            return
        loop_writes = self._services.loop_writes
        if loop_writes is None:
            self._start()
        else:
            self._transition_to(AppendState.TURN_AWAITED)
            loop_writes.at_end_of_turn(self._on_awaited)

    def _on_awaited(self) -> None:
        """The turn ended, or the node's append budget has room."""
        self._transition_to(AppendState.IDLE)
        if self._queue:
            self._start()

    def _start(self) -> None:
        """Starts the first group or change of the queue, if the append budget allows it."""
        first = self._queue[0]
        if isinstance(first, QueuedChange):
            self._begin([first], AppendState.IN_JOB)
            self._submit(lambda: self._target.change(first), [first])
            return
        group, size_bytes = self._next_group()
        if not self._services.budget.may_write(size_bytes, self._on_awaited):
            self._transition_to(AppendState.MEMORY_AWAITED)
        elif not self._maybe_write_here(group, size_bytes):
            self._begin(group, AppendState.IN_JOB)
            self._start_group(group, size_bytes)

    def _next_group(self) -> tuple[list[AppendRequest], int]:
        """Returns the next group of appends and its bytes: all up to the next other change, within the size limit."""
        group: list[AppendRequest] = []
        size_bytes = 0
        for queued in self._queue:
            if isinstance(queued, QueuedChange) or (group and size_bytes + queued.size_bytes > MAX_APPEND_GROUP_BYTES):
                break
            group.append(queued)
            size_bytes += queued.size_bytes
        return group, size_bytes

    def _begin(self, group: Sequence[AppendRequest | QueuedChange], state: AppendState) -> None:
        for _ in group:
            self._queue.popleft()
        self._transition_to(state)

    def _maybe_write_here(self, group: list[AppendRequest], size_bytes: int) -> bool:
        """Writes the group, or its first appends, on the loop: small batches that need no decompression, for an open
        partition whose lock is free. The lock is released when they are synced and published; maintenance waits for
        it in its own thread."""
        loop_writes = self._services.loop_writes
        if (
            loop_writes is None
            or not self._owner.knows_producers
            or size_bytes > MAX_LOOP_APPEND_BYTES
            or not self._owner.config.takes_plain_as_they_come
            or not all(each.is_plain for each in group)
        ):
            return False
        try:
            begun = self._target.maybe_begin(group, now_ms=self._services.clock.now_ms())
        except Exception as error:
            self._begin(group, AppendState.WRITTEN)
            self._fail(group, error)
            self._finish(size_bytes)
            return True
        if begun is None:
            return False
        self._held, pending = begun
        del group[len(pending.outcomes) :]
        self._begin(group, AppendState.WRITTEN)
        if pending.needs_sync:
            loop_writes.sync(
                pending.sync,
                lambda: self._publish(pending, group, size_bytes),
                lambda error: self._rollback(pending, group, size_bytes, pending.refusal_of(error)),
                descriptor=pending.descriptor,
            )
        else:
            self._publish(pending, group, size_bytes)
        return True

    def _publish(self, pending: PendingAppends, group: list[AppendRequest], size_bytes: int) -> None:
        held, self._held = self._held, None
        assert held is not None, "only writes made on the loop are published here"
        try:
            changed = self._target.publish(held, pending)
        except Exception as error:
            self._fail(group, error)
        else:
            self._owner.on_changed(group, changed)
        self._finish(size_bytes)

    def _rollback(self, pending: PendingAppends, group: list[AppendRequest], size_bytes: int, error: Exception) -> None:
        """The sync failed: rolls the group back off the loop, because the disk is slow then, and not after jobs that
        wait for the partition."""

        def roll_back() -> None:
            try:
                pending.rollback()
            finally:
                self._release()

        def over() -> None:
            self._owner.on_disk_refusal(group, error)
            self._finish(size_bytes)

        assert self._services.loop_writes is not None, "only writes made on the loop are rolled back here"
        self._transition_to(AppendState.ROLLING_BACK)
        self._services.loop_writes.sync(roll_back, over, lambda _: over())

    def _fail(self, group: list[AppendRequest], error: Exception) -> None:
        if isinstance(error, StorageError):
            self._owner.on_disk_refusal(group, error)
        else:
            self._owner.on_failed(group, error)

    def _start_group(self, group: list[AppendRequest], size_bytes: int) -> None:
        target, clock = self._target, self._services.clock
        wants_all = not self._owner.knows_producers
        self._submit(
            lambda: target.append(group, now_ms=clock.now_ms(), wants_all_producers=wants_all), group, size_bytes
        )

    def _submit(
        self, work: Callable[[], Changed], group: Sequence[AppendRequest | QueuedChange], size_bytes: int = 0
    ) -> None:
        def done(changed: Changed) -> None:
            self._owner.on_changed(group, changed)
            self._finish(size_bytes)

        def failed(error: Exception) -> None:
            self._owner.on_failed(group, error)
            self._finish(size_bytes)

        self._services.jobs.submit(work, done, failed)

    def _finish(self, size_bytes: int) -> None:
        self._transition_to(AppendState.IDLE)
        if size_bytes:
            self._services.budget.written(size_bytes)
        self._start_soon()

    def _transition_to(self, state: AppendState) -> None:
        assert_may_follow(state, self._state)
        self._state = state
