"""The log directory of a node, locked against other processes, with its metadata log and partitions.

    open      takes the root lock, creates a missing directory, marks it as used by a broker (see `clean_shutdown`)
    recover   without a clean-shutdown marker: opens every partition that has a folder for writing, in jobs
    close     writes that marker if everything is flushed, releases the lock

Opening, sweeping and closing block: call them in jobs, or before the process does anything else.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from broker_core.log_directory.clean_shutdown import (
    mark_broker_running,
    remove_clean_shutdown,
    unmark_broker_running,
    write_clean_shutdown,
)
from broker_core.log_directory.directory import DirectoryKind, LogDirectory
from broker_core.log_directory.directory_in_use import DirectoryInUse
from broker_core.log_directory.meta_properties import NODE_ID, MetaProperties
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.partition_folders import FolderCatalog, PartitionFolders
from broker_core.log_directory.system_ports import SYSTEM_LOCKS
from broker_core.log_directory.topic_catalog import MetadataChanges, TopicCatalog
from broker_core.model.exceptions import DirectoryReadOnlyError, StreamlogError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OPEN_PARTITION_COUNT
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TopicDefaults
from broker_core.ports import Clock, Entropy, FileSystem, Jobs, LockMode, Locks
from broker_core.storage.writable_partition import WritablePartition

RecoveryProgress = Callable[[int, int], None]
"""Called on the loop with the number of recovered partitions, and of all partitions."""

_RECOVERY_JOB_COUNT: Final = 2
"""Parallel recovery jobs; Kafka's num.recovery.threads.per.data.dir."""
_BROKER_EPOCH: Final = -1
"""Kafka's value for an unknown epoch: a single node has no registration that could be fenced."""

_KILLED: Final = (
    "directory=%s was not shut down cleanly (the broker was killed, the power failed, or the disk was full):"
    " recovering its %d partitions"
)
_WITHOUT_BROKER: Final = "directory=%s was last used without a broker: checking the ends of its %d partitions"

_log: Final = logging.getLogger(__name__)


class OpenDirectory(Protocol):
    """The part of a node's directory that replicas need."""

    @property
    def fs(self) -> FileSystem: ...

    @property
    def path(self) -> str: ...

    @property
    def access(self) -> PartitionAccess: ...

    @property
    def max_open_count(self) -> int: ...


class NodeMetadata(TopicCatalog, FolderCatalog, MetadataChanges, Protocol):
    """The topics of a node: its metadata log, or what a cluster's metadata log says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDirectory:
    """Created by `open`. `was_clean`: no recovery is needed. `was_killed`: a broker stopped without a clean
    shutdown."""

    fs: FileSystem
    directory: DirectoryInUse
    metadata_log: NodeMetadata
    folders: PartitionFolders
    access: PartitionAccess
    max_open_count: int
    was_clean: bool
    was_killed: bool

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        path: str,
        clock: Clock,
        entropy: Entropy,
        *,
        node_id: int = NODE_ID,
        topic_defaults: Callable[[], TopicDefaults] = lambda: KAFKAS_DEFAULTS,
        max_open_count: int = MAX_OPEN_PARTITION_COUNT,
        locks: Locks = SYSTEM_LOCKS,
    ) -> NodeDirectory:
        """Raises DirectoryLockedError if another process has it open, DirectoryReadOnlyError for a directory of Kafka
        or without write access, DirectoryFormatError if it is not a log directory."""
        directory = LogDirectory(
            fs, path, create=True, entropy=entropy, lock_mode=LockMode.EXCLUSIVE, node_id=node_id, locks=locks
        )
        try:
            if directory.kind is DirectoryKind.FOREIGN:
                raise DirectoryReadOnlyError(
                    f"{path} was written by Apache Kafka. This broker does not serve it: Kafka could not use it"
                    " any more."
                    " Set log.dirs to another directory; format('streamlog') reads this one without changing it.",
                    directory=path,
                )
            is_new = directory.kind is DirectoryKind.ABSENT
            directory.make()
            was_killed = mark_broker_running(fs, path)
            was_clean = remove_clean_shutdown(fs, path) or is_new
            metadata_log = MetadataLog(fs, directory, clock)
            folders = PartitionFolders(fs, path, metadata_log, entropy)
            metadata_log.make()
            metadata_log.refresh()
            folders.sweep()
        except BaseException:
            directory.close()
            raise
        return cls(
            fs=fs,
            directory=directory,
            metadata_log=metadata_log,
            folders=folders,
            access=PartitionAccess(
                fs,
                directory,
                metadata_log,
                folders,
                max_open_count=max_open_count,
                topic_defaults=topic_defaults,
            ),
            max_open_count=max_open_count,
            was_clean=was_clean,
            was_killed=was_killed,
        )

    @property
    def path(self) -> str:
        return self.directory.path

    @property
    def properties(self) -> MetaProperties:
        return self.directory.properties

    def partitions(self) -> list[TopicPartition]:
        """All partitions in the metadata log, as of its last refresh, that have a folder: the others are empty."""
        topics = self.metadata_log.topics().values()
        return self.access.with_folders(partition for topic in topics for partition in topic.partitions())

    def recover(
        self,
        jobs: Jobs,
        on_done: Callable[[Mapping[TopicPartition, StreamlogError]], None],
        *,
        on_progress: RecoveryProgress = lambda done_count, count: None,
    ) -> None:
        """Recovers each partition, unless the last shutdown was clean. `on_done` gets the errors of partitions that
        could not be opened; it may be called before this returns."""
        if self.was_clean:
            on_done({})
            return
        _Recovery(self, jobs, on_done, on_progress).begin()

    def close(self, *, is_clean: bool) -> None:
        """`is_clean`: everything is flushed."""
        self.access.close()
        self.metadata_log.close()
        try:
            if is_clean:
                write_clean_shutdown(self.fs, self.path, broker_epoch=_BROKER_EPOCH)
                unmark_broker_running(self.fs, self.path)
        finally:
            self.directory.close()


class _Recovery:
    def __init__(
        self,
        node_directory: NodeDirectory,
        jobs: Jobs,
        on_done: Callable[[Mapping[TopicPartition, StreamlogError]], None],
        on_progress: RecoveryProgress,
    ) -> None:
        self._access = node_directory.access
        self._path = node_directory.path
        self._was_killed = node_directory.was_killed
        self._jobs = jobs
        self._on_done = on_done
        self._on_progress = on_progress
        self._left = deque(node_directory.partitions())
        self._count = len(self._left)
        self._done_count = 0
        self._errors: dict[TopicPartition, StreamlogError] = {}

    def begin(self) -> None:
        left_by = _KILLED if self._was_killed else _WITHOUT_BROKER
        level = logging.WARNING if self._was_killed else logging.INFO
        _log.log(level, left_by, self._path, self._count)
        if not self._left:
            self._on_done({})
        for _ in range(_RECOVERY_JOB_COUNT):
            self._next()

    def _next(self) -> None:
        if not self._left:
            return
        partition = self._left.popleft()

        def failed(error: Exception) -> None:
            if not isinstance(error, UnknownTopicError):
                _log.error("partition=%s could not be recovered: %s", partition, error)
                known = error if isinstance(error, StreamlogError) else StreamlogError(repr(error))
                self._errors[partition] = known
            self._end()

        self._jobs.submit(lambda: self._access.write(partition, _is_there), lambda _: self._end(), failed)

    def _end(self) -> None:
        self._done_count += 1
        self._on_progress(self._done_count, self._count)
        if self._done_count == self._count:
            self._on_done(self._errors)
        else:
            self._next()


def _is_there(store: WritablePartition) -> None:
    """Nothing to do: opening the store for a write recovers it."""
