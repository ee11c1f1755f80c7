"""The state of one partition of an internal topic, kept up to date with the appends of all processes.

    refresh()            outside of any partition's lock: reads all new records; creates nothing
    look(question)       the answer of the state as it is
    look_held(question)  while another partition's lock is held: reads the new records with one small read, and answers.
                         Takes no lock and creates nothing. If it would have to, it raises, and `retrying` around the
                         whole operation tries again after the lock is released

The state is a fold over the log (`coordinator.contract`). It is discarded and loaded again if the log cannot be
followed: the topic was deleted and recreated, offsets are missing after the last one that was read (a compaction may
have removed a tombstone or a marker), or so many records were appended that loading is faster. Threads may share it.
The mutex is held for reads of the log, but never while waiting for a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar
from uuid import UUID

from broker_core.coordinator.coordinator_kind import CoordinatorKind
from broker_core.coordinator.stored_records import (
    NewestRecords,
    events_of,
    is_dense,
)
from broker_core.log_directory.partition_access import OpenReader, PartitionAccess
from broker_core.log_directory.topic_catalog import TopicCatalog
from broker_core.model.exceptions import (
    StorageError,
    StreamlogError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.storage.readable_partition import ReadablePartition

Machine = TypeVar("Machine")
Planned = TypeVar("Planned")
Answer = TypeVar("Answer")

_READ_BYTES: Final = 4 * 1024 * 1024
_ATTEMPT_COUNT: Final = 10
_FOLLOWED_OFFSETS: Final = 1000
"""Above this, replaying the new records costs more than loading a log of usual size again."""


class _NotHeldError(Exception):
    """The log must be reopened, which is not possible while a partition's lock is held."""


class CoordinatorState(Generic[Machine, Planned]):
    """The state of the partition of `kind`."""

    def __init__(
        self,
        kind: CoordinatorKind[Machine, Planned],
        access: PartitionAccess,
        catalog: TopicCatalog,
    ) -> None:
        self.kind = kind
        self.partition = kind.partition
        self._access = access
        self._catalog = catalog
        self._mutex = threading.Lock()
        self._held: OpenReader[ReadablePartition] | None = None
        self._forget()

    def _forget(self) -> None:
        self._machine = self.kind.begin()
        self._is_loaded = False
        self._topic_id: UUID | None = None
        self._next_offset = 0

    def look(self, question: Callable[[Machine], Answer]) -> Answer:
        with self._mutex:
            return question(self._machine)

    def refresh(self) -> None:
        """If the topic or the partition's folder is missing, the state is empty.

        Raises StorageError, CorruptDataError.
        """
        self._catalog.refresh()
        if self._catalog.topic(self.partition.topic) is not None and self._access.is_begun(self.partition):
            with suppress(UnknownTopicError, UnknownPartitionError):
                self._access.read(self.partition, self.follow)
                return
        with self._mutex:
            self._forget()

    def follow(self, store: ReadablePartition) -> None:
        """Reads the new records from `store`, which is open on this partition."""
        with self._mutex:
            self._follow(store)

    def look_held(self, question: Callable[[Machine], Answer]) -> Answer:
        """See the module. The catalog must have been refreshed under the lock that is held."""
        with self._mutex:
            self._follow_held()
            return question(self._machine)

    def retrying(self, operation: Callable[[], Answer]) -> Answer:
        """Returns the operation's answer. Under a lock, the operation may call `look_held` before it changes
        anything."""
        if self._held is None:
            self._reopen()
        for _ in range(_ATTEMPT_COUNT):
            with suppress(_NotHeldError):
                return operation()
            self._reopen()
        raise StorageError(f"{self.partition} was replaced {_ATTEMPT_COUNT} times during one operation.")

    def _follow_held(self) -> None:
        topic, held = self._catalog.topic(self.partition.topic), self._held
        if topic is None:
            self._forget()
            return
        if held is None or held.store.topic_id != topic.topic_id or not self._access.is_in_place(held, self.partition):
            raise _NotHeldError
        try:
            self._follow(held.store)
        except (StreamlogError, OSError) as error:
            self._drop_held()
            raise _NotHeldError from error

    def _reopen(self) -> None:
        """Must be called without any lock. Raises StorageError; without the topic there is nothing to open."""
        self.refresh()
        try:
            opened = self._access.open_held(self.partition)
        except (UnknownTopicError, UnknownPartitionError):
            return
        with self._mutex:
            self._drop_held()
            self._held = opened

    def close(self) -> None:
        with self._mutex:
            self._drop_held()

    def _drop_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _follow(self, store: ReadablePartition) -> None:
        bounds = store.bounds()
        end_offset = bounds.log_end_offset
        if self._is_loaded and store.topic_id == self._topic_id and self._next_offset == end_offset:
            return
        is_followed = (
            self._is_loaded
            and store.topic_id == self._topic_id
            and bounds.log_start_offset <= self._next_offset
            and 0 < end_offset - self._next_offset <= _FOLLOWED_OFFSETS
        )
        if not (is_followed and self._replay_up_to(store, end_offset)):
            self._load(store)

    def _replay_up_to(self, store: ReadablePartition, end_offset: int) -> bool:
        """Returns False if offsets are missing, so that the state is unknown."""
        try:
            while self._next_offset < end_offset:
                fetched = store.read(self._next_offset, max_bytes=_READ_BYTES, until_offset=end_offset)
                if not fetched.buffer or not is_dense(fetched.buffer, from_offset=self._next_offset):
                    return False
                self.kind.replay_events(self._machine, events_of(fetched.buffer, from_offset=self._next_offset))
                self._next_offset = fetched.next_offset
        except BaseException:
            self._is_loaded = False  # an unknown part of the records was replayed
            raise
        return True

    def _load(self, store: ReadablePartition) -> None:
        self._is_loaded = False
        bounds = store.bounds()
        offset = bounds.log_start_offset
        newest = NewestRecords(from_offset=offset)
        while offset < bounds.log_end_offset:
            fetched = store.read(offset, max_bytes=_READ_BYTES, until_offset=bounds.log_end_offset)
            newest.add(fetched.buffer)
            offset = fetched.next_offset
        machine = self.kind.load(newest)
        self._machine, self._next_offset, self._topic_id = machine, bounds.log_end_offset, store.topic_id
        self._is_loaded = True
