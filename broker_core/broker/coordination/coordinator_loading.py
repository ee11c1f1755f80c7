"""Loads a coordinator from its log, in pieces: the loop reads a piece from the page cache, a job decodes it.

    job    recovers the partition and reads its producers                                   (Replica.change)
    loop   reads the next piece ─► job: newest record of each key so far ─► loop: the next one … until the log's end
    job    replays the newest record of each key into a new coordinator ─► loop: on_loaded

Nothing is appended during loading: the coordinator's runtime is the log's only writer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker_core.broker.partition.replica import Replica
from broker_core.coordinator.coordinator_kind import CoordinatorKind
from broker_core.coordinator.stored_records import NewestRecords
from broker_core.model.exceptions import StreamlogError
from broker_core.ports import Jobs
from broker_core.storage.writable_partition import WritablePartition

State = TypeVar("State")
Record = TypeVar("Record")

_PIECE_BYTES: Final = 1024 * 1024


class CoordinatorLoading(Generic[State, Record]):
    """One pass over the log. Calls `on_loaded(state, next_offset)` or `on_error` once, on the loop."""

    def __init__(
        self,
        kind: CoordinatorKind[State, Record],
        replica: Replica,
        jobs: Jobs,
        *,
        on_loaded: Callable[[State, int], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._kind = kind
        self._replica = replica
        self._jobs = jobs
        self._on_loaded = on_loaded
        self._on_error = on_error
        self._newest = NewestRecords()
        self._next_offset = 0
        self._end_offset = 0

    def start(self) -> None:
        if self._replica.is_unwritten:
            self._done(self._kind.begin())
        else:
            self._replica.change(_put_in_order, self._begin, self._on_error)

    def _begin(self, _: None) -> None:
        bounds = self._replica.bounds
        self._next_offset, self._end_offset = bounds.log_start_offset, bounds.log_end_offset
        self._newest = NewestRecords(from_offset=self._next_offset)
        self._continue(None)

    def _continue(self, _: None) -> None:
        if self._next_offset >= self._end_offset:
            begun = self._kind.begin()
            self._jobs.submit(lambda: self._kind.load(self._newest, begun), self._done, self._on_error)
            return
        try:
            fetched = self._replica.read_log(self._next_offset, max_bytes=_PIECE_BYTES, until_offset=self._end_offset)
        except StreamlogError as error:
            self._on_error(error)
            return
        self._next_offset = fetched.next_offset
        self._jobs.submit(lambda: self._newest.add(fetched.buffer), self._continue, self._on_error)

    def _done(self, state: State) -> None:
        self._on_loaded(state, self._end_offset)


def _put_in_order(store: WritablePartition) -> None:
    """Nothing to do: opening the partition for a change recovers it."""
