"""The partitions that are open in this process: a limited number; the least recently used is evicted first.

An entry belongs to the topic's description at the time of opening. After a change of the topic's settings or of their
defaults, or after the topic was deleted and recreated, the next use closes it and opens the partition again. One thread
at a time uses an entry, since a store is not thread-safe. An entry is dropped after an error that the caller did not
cause.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Generic, TypeVar

from broker_core.cluster import TopicDescription
from broker_core.model.exceptions import InvalidRequestError, ProducerError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TopicDefaults

Opened = TypeVar("Opened")


class _Entry(Generic[Opened]):
    __slots__ = ("defaults", "mutex", "opened", "topic", "waiting_count")

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.waiting_count = 0
        """Threads that wait for the mutex. Changed under the cache's mutex."""
        self.opened: Opened | None = None
        self.topic: TopicDescription | None = None
        self.defaults: TopicDefaults | None = None


class Taken(Generic[Opened]):
    """An entry in exclusive use until it is released."""

    __slots__ = ("_entry", "opened")

    def __init__(self, entry: _Entry[Opened], opened: Opened) -> None:
        self._entry = entry
        self.opened = opened

    def give_back(self) -> None:
        self._entry.mutex.release()


class OpenPartitions(Generic[Opened]):
    """A cache of the results of `open_partition`, which `close_partition` closes. `defaults_now` returns the default
    topic settings, the same object until they change."""

    def __init__(
        self,
        *,
        open_partition: Callable[[TopicPartition, TopicDescription], Opened],
        close_partition: Callable[[Opened], None],
        max_count: int,
        defaults_now: Callable[[], TopicDefaults] = lambda: KAFKAS_DEFAULTS,
    ) -> None:
        self._open_partition = open_partition
        self._close_partition = close_partition
        self._max_count = max_count
        self._defaults_now = defaults_now
        self._mutex = threading.Lock()
        self._entries: OrderedDict[TopicPartition, _Entry[Opened]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    @contextmanager
    def use(self, partition: TopicPartition, topic: TopicDescription) -> Iterator[Opened]:
        """The open partition of this topic, for one thread."""
        entry = self._held_entry(partition)
        try:
            defaults = self._defaults_now()
            if entry.topic != topic or entry.defaults is not defaults:
                self._close(entry)
            if entry.opened is None:
                entry.opened = self._open_partition(partition, topic)
                entry.topic, entry.defaults = topic, defaults
            try:
                yield entry.opened
            except (InvalidRequestError, ProducerError):
                raise
            except BaseException:
                entry.opened = None
                raise
        finally:
            entry.mutex.release()

    def maybe_take(self, partition: TopicPartition, topic: TopicDescription) -> Taken[Opened] | None:
        """The same for a caller that must not wait and releases the entry later, from any thread. None: it is not open,
        it is in use, or another thread waits for it, which would starve if the caller took it again and again."""
        with self._mutex:
            entry = self._entries.get(partition)
            if entry is None or entry.waiting_count or not entry.mutex.acquire(blocking=False):
                return None
            self._entries.move_to_end(partition)
        is_of_topic = entry.topic is topic or entry.topic == topic
        if entry.opened is None or not is_of_topic or entry.defaults is not self._defaults_now():
            entry.mutex.release()
            return None
        return Taken(entry, entry.opened)

    def close(self) -> None:
        """Closes all entries, each when its user releases it."""
        self._close_those(lambda partition: True)

    def drop_topic(self, name: str) -> None:
        """Closes the entries of a topic, each when its user releases it: open files would keep the disk space of
        deleted ones."""
        self._close_those(lambda partition: partition.topic == name)

    def _close_those(self, is_chosen: Callable[[TopicPartition], bool]) -> None:
        with self._mutex:
            entries = [self._entries.pop(partition) for partition in list(self._entries) if is_chosen(partition)]
        for entry in entries:
            with entry.mutex:
                self._close(entry)

    def _held_entry(self, partition: TopicPartition) -> _Entry[Opened]:
        while True:
            with self._mutex:
                entry = self._entries.setdefault(partition, _Entry())
                entry.waiting_count += 1
                self._entries.move_to_end(partition)
                surplus = self._take_surplus()
            for old_entry in surplus:
                self._close(old_entry)
                old_entry.mutex.release()
            entry.mutex.acquire()
            with self._mutex:
                entry.waiting_count -= 1
            # The entry may have been evicted while this thread waited.
            if self._entries.get(partition) is entry:
                return entry
            entry.mutex.release()

    def _take_surplus(self) -> list[_Entry[Opened]]:
        """Removes the oldest unused entries from the cache and returns them held. If all are in use, the cache exceeds
        its limit."""
        if len(self._entries) <= self._max_count:
            return []
        surplus_count = len(self._entries) - self._max_count
        chosen: list[TopicPartition] = []
        for partition, entry in islice(self._entries.items(), len(self._entries) - 1):
            if len(chosen) == surplus_count:
                break
            if entry.mutex.acquire(blocking=False):
                chosen.append(partition)
        return [self._entries.pop(partition) for partition in chosen]

    def _close(self, entry: _Entry[Opened]) -> None:
        opened, entry.opened, entry.topic = entry.opened, None, None
        if opened is not None:
            self._close_partition(opened)
