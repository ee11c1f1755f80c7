"""All replicas of a node: created at first use, dropped when their topic is deleted.

A new replica costs an open file and a small read, so a node with thousands of partitions starts without creating them.
The topics come from the metadata image on the loop (`TopicStore`); the manager checks it after each change.

A partition that cannot be opened is offline: `get` raises StorageError, the others continue. Each round of maintenance
tries to open it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from broker_core.broker.node_directory import OpenDirectory
from broker_core.broker.partition.append_budget import AppendBudget
from broker_core.broker.partition.maintenance_schedule import MaintenanceSchedule, PinnedOffset
from broker_core.broker.partition.open_readers import OpenReaders
from broker_core.broker.partition.replica import Replica
from broker_core.broker.partition.replica_services import ReplicaServices
from broker_core.broker.timer_queue import TimerQueue
from broker_core.broker.topic_store import TopicStore
from broker_core.cluster import PartitionBounds, TopicDescription
from broker_core.model.exceptions import (
    StreamlogError,
    TooManyOpenFilesError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import COMPACTION_MEMORY_BYTES
from broker_core.ports import Clock, Entropy, Jobs, LoopWrites
from broker_core.storage.readable_partition import ReadablePartition

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The space on the device of the log directory."""

    total_bytes: int
    usable_bytes: int


class ReplicaManager:
    """The replicas of one node. Runs on its loop. While `budget.is_full`, the server should read no more requests."""

    def __init__(
        self,
        directory: OpenDirectory,
        topics: TopicStore,
        jobs: Jobs,
        timers: TimerQueue,
        clock: Clock,
        entropy: Entropy,
        *,
        retention_check_interval_ms: int,
        compaction_memory_bytes: Callable[[], int] = lambda: COMPACTION_MEMORY_BYTES,
        is_cleaner_enabled: bool = True,
        pinned_offset: PinnedOffset = lambda partition: None,
        budget: AppendBudget | None = None,
        loop_writes: LoopWrites | None = None,
    ) -> None:
        self.budget = budget or AppendBudget()
        self._directory = directory
        self._topics = topics
        self._jobs = jobs
        self._readers = OpenReaders(directory.fs, directory.access, max_count=directory.max_open_count)
        self._services = ReplicaServices(
            access=directory.access,
            readers=self._readers,
            jobs=jobs,
            loop_writes=loop_writes,
            clock=clock,
            budget=self.budget,
            config_of=topics.config_of,
            on_advanced=self._advanced,
            on_rolled=self._rolled,
        )
        self._maintenance = MaintenanceSchedule(
            directory.access,
            jobs,
            timers,
            clock,
            entropy,
            interval_ms=retention_check_interval_ms,
            compaction_memory_bytes=compaction_memory_bytes,
            is_cleaner_enabled=is_cleaner_enabled,
            pinned_offset=pinned_offset,
            stable_until=self._stable_until,
            partitions=self._due_for_maintenance,
            on_bounds=self._bounds_moved,
        )
        self._replicas: dict[TopicPartition, Replica] = {}
        self._known_topics: dict[str, TopicDescription] = {}
        self._known_defaults = topics.topic_defaults()
        self._listeners: list[Callable[[TopicPartition], None]] = []
        self.is_flushed = False
        """After `stop`: everything is flushed, and the directory may be marked as clean."""
        topics.on_change(self._topics_changed)

    def start(self, now_ms: int, *, errors: Mapping[TopicPartition, StreamlogError] | None = None) -> None:
        """Starts maintenance. `errors`: the errors of recovery; these partitions are offline."""
        self._maintenance.start(now_ms)
        for partition, error in (errors or {}).items():
            if isinstance(error, TooManyOpenFilesError):
                continue
            replica = self._find(partition)
            if replica is not None:
                replica.go_offline(error)

    def get(self, partition: TopicPartition) -> Replica:
        """Raises UnknownTopicError, UnknownPartitionError, StorageError (the partition is offline, or no file can be
        opened)."""
        replica = self._replicas.get(partition)
        if replica is None:
            replica = self._make(partition)
        if replica.error is not None:
            raise replica.error
        return replica

    def get_readable(self, partition: TopicPartition) -> Replica:
        """For a consumer, which may read from a follower, too (KIP-392)."""
        return self.get(partition)

    def all(self) -> Iterator[Replica]:
        """The replicas of all partitions, including offline ones. Raises TooManyOpenFilesError."""
        for partition in self._partitions():
            yield self._replicas.get(partition) or self._make(partition)

    def is_offline(self, partition: TopicPartition) -> bool:
        """Whether the partition is known to be offline; opens nothing."""
        replica = self._replicas.get(partition)
        return replica is not None and replica.error is not None

    def on_advance(self, callback: Callable[[TopicPartition], None]) -> None:
        """Called on the loop whenever the bounds of a partition have changed, or its topic was deleted."""
        self._listeners.append(callback)

    def sizes(self, partitions: Iterable[TopicPartition] | None = None) -> Callable[[], dict[TopicPartition, int]]:
        """Returns a function for a job that opens the partitions (None: all) and returns their sizes in bytes. Missing
        partitions, and those that cannot be opened, are left out."""
        access, wanted = self._directory.access, self._partitions() if partitions is None else list(partitions)

        def look() -> dict[TopicPartition, int]:
            found = {}
            for partition in wanted:
                with suppress(StreamlogError):
                    segments = access.read(partition, ReadablePartition.segments)
                    found[partition] = sum(segment.size_bytes for segment in segments)
            return found

        return look

    def disk_space(self) -> DiskSpace:
        path = self._directory.path
        return DiskSpace(
            total_bytes=self._directory.fs.total_bytes(path), usable_bytes=self._directory.fs.free_bytes(path)
        )

    def stop(self, on_done: Callable[[], None]) -> None:
        """Waits for queued appends, flushes them and closes the readers. Nothing may be appended after this call."""
        self._maintenance.stop(lambda: self._flush_all(on_done))

    def abandon(self) -> None:
        """Releases the partitions as they are: jobs and syncs will not call back any more."""
        for replica in self._replicas.values():
            replica.abandon()

    # -- single replicas --

    def _find(self, partition: TopicPartition) -> Replica | None:
        try:
            return self._replicas.get(partition) or self._make(partition)
        except (UnknownTopicError, UnknownPartitionError):
            return None

    def _topic_of(self, partition: TopicPartition) -> TopicDescription:
        """Raises UnknownTopicError, UnknownPartitionError."""
        topic = self._topics.topic(partition.topic)
        if not 0 <= partition.partition < topic.partition_count:
            raise UnknownPartitionError(
                f"Topic '{topic.name}' has partitions 0 to {topic.partition_count - 1}, not {partition.partition}.",
                topic=topic.name,
                partition=partition.partition,
            )
        return topic

    def _make(self, partition: TopicPartition) -> Replica:
        topic = self._topic_of(partition)
        self._known_topics[topic.name] = topic
        replica = self._replicas[partition] = self._new_replica(partition, topic)
        return replica

    def _new_replica(self, partition: TopicPartition, topic: TopicDescription) -> Replica:
        return Replica(partition, topic, self._services)

    def _partitions(self) -> list[TopicPartition]:
        return [partition for topic in self._topics.image.topics.values() for partition in topic.partitions()]

    def _topics_changed(self) -> None:
        """The image has changed: drops replicas of deleted or recreated topics, and applies changed settings."""
        defaults = self._topics.topic_defaults()
        has_new_defaults, self._known_defaults = defaults is not self._known_defaults, defaults
        changed = {
            name
            for name, known in self._known_topics.items()
            if has_new_defaults or self._topics.image.topics.get(name) is not known
        }
        gone = set()
        for partition in [each for each in self._replicas if each.topic in changed]:
            replica, topic = self._replicas[partition], self._topics.image.topics.get(partition.topic)
            if topic is not None and topic.topic_id == replica.topic_id:
                replica.set_topic(topic)
                self._known_topics[topic.name] = topic
            else:
                gone.add(partition.topic)
                del self._replicas[partition]
                replica.drop()
        for name in gone:
            self._forget_topic(name)

    def _forget_topic(self, name: str) -> None:
        """Closes the topic's files: open files would keep the disk space of deleted ones."""
        if name not in {partition.topic for partition in self._replicas}:
            self._known_topics.pop(name, None)
        access = self._directory.access

        def failed(error: Exception) -> None:
            _log.warning("could not close the files of deleted topic %s: %s", name, error)

        self._jobs.submit(lambda: access.drop_topic(name), _ignore, failed)

    # -- callbacks of replicas and maintenance --

    def _advanced(self, partition: TopicPartition) -> None:
        for listener in self._listeners:
            listener(partition)

    def _rolled(self, partition: TopicPartition) -> None:
        self._maintenance.add(partition)

    def _bounds_moved(self, partition: TopicPartition, bounds: PartitionBounds) -> None:
        replica = self._replicas.get(partition)
        if replica is not None:
            replica.learn_bounds(bounds)

    def _stable_until(self, partition: TopicPartition) -> int | None:
        """Up to where compaction may go; None: the partition's own last stable offset."""
        return None

    def _due_for_maintenance(self) -> Iterable[TopicPartition]:
        """Returns all online partitions; tries to open the offline ones again."""
        due = []
        for partition in self._partitions():
            replica = self._replicas.get(partition)
            if replica is None or replica.error is None:
                due.append(partition)
            else:
                replica.change(_ignore, _ignore, _ignore)
        return due

    def _flush_all(self, on_done: Callable[[], None]) -> None:
        waiting = [replica for replica in self._replicas.values() if replica.is_dirty or not replica.is_idle]
        left = len(waiting)
        self.is_flushed = True

        def ended() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self._readers.close()
                on_done()

        def failed(error: StreamlogError) -> None:
            if not isinstance(error, UnknownTopicError):
                _log.warning("not all data could be synced to the disk: %s", error)
                self.is_flushed = False
            ended()

        if not waiting:
            ended()
        for replica in waiting:
            replica.flush(lambda _: ended(), failed)


def _ignore(_: object) -> None:
    return None
