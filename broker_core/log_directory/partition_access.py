"""Opens the store of a topic-partition, under the right lock, for one operation.

A read    opens the partition, reads from it, and then checks the topic again: if the topic was deleted and recreated
          in between, the result belongs to the old one and is discarded.
A write   takes the partition's lock, then checks the topic: while the lock is held the folder cannot be renamed away,
          so a topic that still exists now is the one that is written.
A hold    begins a write for a caller that must not wait and ends the write later: succeeds only if the lock is free.

The second check catches this order of events: A finds topic t with id 1; B deletes t (metadata log, then folder) and
recreates it with id 2; A opens files of the folder `t-0` by their paths and takes records of id 2 for those of id 1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.log_directory.directory_in_use import DirectoryInUse
from broker_core.log_directory.open_partitions import OpenPartitions, Taken
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
from broker_core.log_directory.topic_catalog import TopicCatalog, is_same_topic, topic_of
from broker_core.log_directory.topic_configs import TopicConfigs
from broker_core.model.exceptions import (
    CorruptDataError,
    DirectoryFormatError,
    StorageError,
    StreamlogError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OPEN_PARTITION_COUNT
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TopicDefaults
from broker_core.model.topic_name import partition_folder
from broker_core.ports import FileStat, FileSystem, LockMode
from broker_core.storage.checkpoints import PARTITION_METADATA_FILE_NAME
from broker_core.storage.empty_folder import EmptyFolder
from broker_core.storage.partition_rebuilder import PartitionRebuilder
from broker_core.storage.partition_writer import RememberedProducers
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.segment_names import LOG, FolderListing, segment_path
from broker_core.storage.storage_errors import storage_error
from broker_core.storage.writable_partition import WritablePartition

Answer = TypeVar("Answer")
Store = TypeVar("Store", bound=ReadablePartition)

logger = logging.getLogger(__name__)

_ATTEMPT_COUNT: Final = 10
"""How often a topic may be deleted and recreated, or reconfigured, during one operation on it."""


_RECOVERY_WAIT_SECONDS: Final = 1.0
"""How long a reader that met a bad batch waits for a writer that may be about to cut it."""


class _StaleFolderError(Exception):
    """The path has a different folder than the open one: removed by hand, or restored from elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReader(Generic[Store]):
    """A partition that is open for reading, and the identity of its folder."""

    store: Store
    identity: FileStat | None

    def close(self) -> None:
        self.store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWriter:
    """The same for writing, with the lock that a write must hold."""

    store: WritablePartition
    identity: FileStat | None
    lock: PartitionLock

    def close(self) -> None:
        self.store.close()
        self.lock.close()


class HeldPartition:
    """A partition under its lock. Others can use it as soon as it is released."""

    __slots__ = ("_lock", "_taken", "store")

    def __init__(self, taken: Taken[OpenWriter]) -> None:
        self.store = taken.opened.store
        self._lock = taken.opened.lock
        self._taken = taken

    def release(self) -> None:
        try:
            self._lock.release()
        finally:
            self._taken.give_back()


class PartitionAccess:
    """All partitions of one directory, opened on demand. `folders` None: a real Kafka's directory."""

    def __init__(
        self,
        fs: FileSystem,
        directory: DirectoryInUse,
        catalog: TopicCatalog,
        folders: PartitionFolders | None,
        *,
        max_open_count: int = MAX_OPEN_PARTITION_COUNT,
        topic_defaults: Callable[[], TopicDefaults] = lambda: KAFKAS_DEFAULTS,
    ) -> None:
        """`topic_defaults` returns the defaults of topic settings, the same object until they change."""
        self._fs = fs
        self._directory = directory
        self._catalog = catalog
        self._folders = folders
        self._defaults_now = topic_defaults
        self._configs = TopicConfigs(catalog.topic, topic_defaults)
        self._readers = OpenPartitions(
            open_partition=self._open_reader,
            close_partition=OpenReader.close,
            max_count=max_open_count,
            defaults_now=topic_defaults,
        )
        self._writers = OpenPartitions(
            open_partition=self._open_writer,
            close_partition=self._close_writer,
            max_count=max_open_count,
            defaults_now=topic_defaults,
        )
        self._remembered: dict[TopicPartition, tuple[FileStat | None, RememberedProducers]] = {}
        """Remembered producers of partitions that were closed to open others, or to be reopened with other settings."""

    def path_of(self, partition: TopicPartition) -> str:
        return f"{self._directory.path}/{partition_folder(partition)}"

    def lock_of(self, partition: TopicPartition, file_name: str) -> PartitionLock:
        """One of the partition's lock files. The caller closes it."""
        return PartitionLock(f"{self.path_of(partition)}/{file_name}", locks=self._directory.locks)

    def config_of(self, partition: TopicPartition) -> TopicConfig:
        """The settings of the partition's topic. Raises UnknownTopicError, UnknownPartitionError."""
        return self._configs.of(topic_of(self._catalog, partition))

    def topic_id_of(self, partition: TopicPartition) -> UUID | None:
        """The id of the partition's topic now; None if the topic or the partition does not exist."""
        self._catalog.refresh()
        topic = self._catalog.topic(partition.topic)
        return None if topic is None or partition.partition >= topic.partition_count else topic.topic_id

    def is_begun(self, partition: TopicPartition) -> bool:
        """Whether the partition's folder may hold records. False: it is missing or half-created. `read` would finish
        it, which a full disk refuses; a question whose answer is then known does not need to. Takes no lock."""
        path = self.path_of(partition)
        if self._folders is None or self._identity_of(path) is not None:
            return True
        try:
            logs = FolderListing.of(self._fs.list_directory(path)).logs
            return any(self._has_bytes(segment_path(path, base_offset, LOG)) for base_offset in logs)
        except FileNotFoundError:
            return False

    def with_folders(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of them that have a folder; the others are empty. Reads the directory once."""
        names = set(self._fs.list_directory(self._directory.path))
        return [each for each in partitions if partition_folder(each) in names]

    def _has_bytes(self, path: str) -> bool:
        with closing(self._fs.open(path, writable=False)) as file:
            return file.size_bytes() > 0

    def read(self, partition: TopicPartition, operation: Callable[[ReadablePartition], Answer]) -> Answer:
        """The operation's result, for the topic that exists when it returns.

        Raises UnknownTopicError, UnknownPartitionError, StorageError, and what the operation raises.
        """
        is_recovered = False
        for _ in range(_ATTEMPT_COUNT):
            topic = self._topic_of(partition)
            try:
                with self._readers.use(partition, topic) as reader:
                    self._require_folder(partition, reader.identity)
                    answer = operation(reader.store)
            except _StaleFolderError:
                continue
            except StreamlogError as error:
                if is_same_topic(self._catalog, topic):
                    if is_recovered or not (isinstance(error, CorruptDataError) and self._may_recover()):
                        raise
                    # After a power failure, published but unsynced data may be lost while its bounds are left: a
                    # tail that the recovery cuts, as the next writer would. Real damage is still found afterwards.
                    is_recovered = True
                    self._recover_for_reading(partition, topic, wait_seconds=_RECOVERY_WAIT_SECONDS)
            except OSError as error:
                if is_same_topic(self._catalog, topic):
                    raise storage_error("reading", self.path_of(partition), error) from error
            else:
                if is_same_topic(self._catalog, topic):
                    return answer
        raise self._restless(partition)

    def write(self, partition: TopicPartition, operation: Callable[[WritablePartition], Answer]) -> Answer:
        """The same under the partition's lock, after the store read the changes of other processes. A process that
        holds the whole directory skips that, but also takes the lock, because its own threads delete and recreate
        topics: see the module's docstring."""
        for attempts_left in reversed(range(_ATTEMPT_COUNT)):
            topic, defaults = self._topic_of(partition), self._defaults_now()
            try:
                with self._writers.use(partition, topic) as writer, writer.lock.exclusive():
                    is_alone = self._directory.is_held_alone
                    if not is_alone:
                        self._catalog.refresh()
                    current = self._catalog.topic(topic.name)
                    # Settings that change all the time must not delay the write forever: the last attempt accepts them.
                    is_altered = current is not None and current.topic_id == topic.topic_id and not attempts_left
                    is_current = current == topic and self._defaults_now() is defaults
                    if is_current or is_altered:
                        if is_alone:
                            writer.store.load()
                        else:
                            self._require_folder(partition, writer.identity)
                            writer.store.refresh()
                        return operation(writer.store)
            except _StaleFolderError:
                continue
            except (UnknownTopicError, UnknownPartitionError):
                # The folder, or the whole directory, was deleted between opening and refreshing. Or the topic was
                # deleted before its folder was created, and another topic may have its name by now.
                if is_same_topic(self._catalog, topic):
                    raise
            except OSError as error:
                if is_same_topic(self._catalog, topic):
                    raise storage_error("writing", self.path_of(partition), error) from error
        raise self._restless(partition)

    def maybe_hold(self, partition: TopicPartition) -> HeldPartition | None:
        """The store as for a write, for a loop that must not wait; any thread may release it. None: it is not open yet
        or in use, so only `write` will do. Needs the whole directory to be held by this process."""
        assert self._directory.is_held_alone, "other processes may write: only `write` sees their records"
        topic = self._catalog.topic(partition.topic)
        taken = None if topic is None else self._writers.maybe_take(partition, topic)
        if topic is None or taken is None:
            return None
        is_locked = False
        try:
            is_locked = taken.opened.lock.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
        except OSError:
            pass  # `write` gets the same error and raises it
        finally:
            if not is_locked:
                taken.give_back()
        if not is_locked:
            return None
        held = HeldPartition(taken)
        now = self._catalog.topic(partition.topic)
        if not held.store.is_loaded or (now is not topic and now != topic):
            held.release()
            return None
        return held

    def open_apart(self, partition: TopicPartition) -> PartitionRebuilder:
        """A rebuilder for the caller alone, which may use it for long and closes it."""
        return self._open_to_read(PartitionRebuilder, partition, topic_of(self._catalog, partition)).store

    def open_held(self, partition: TopicPartition) -> OpenReader[ReadablePartition]:
        """A reader with the identity of its folder, for a caller that reads while it holds another partition's lock.
        Call it before taking that lock: opening may create a folder, which takes the metadata log's lock."""
        return self._open_reader(partition, topic_of(self._catalog, partition))

    def is_in_place(self, held: OpenReader[ReadablePartition], partition: TopicPartition) -> bool:
        """Whether the folder is still the partition's. Takes no lock."""
        return self._identity_of(self.path_of(partition)) == held.identity

    def drop_topic(self, name: str) -> None:
        """Closes the open partitions of a deleted topic."""
        self._readers.drop_topic(name)
        self._writers.drop_topic(name)
        for partition in [partition for partition in list(self._remembered) if partition.topic == name]:
            self._remembered.pop(partition, None)

    def close(self) -> None:
        self._readers.close()
        self._writers.close()

    def _topic_of(self, partition: TopicPartition) -> TopicDescription:
        """Raises UnknownTopicError, and then closes the open partitions of a topic that another process deleted."""
        try:
            return topic_of(self._catalog, partition)
        except UnknownTopicError:
            self.drop_topic(partition.topic)
            raise

    def _open_reader(self, partition: TopicPartition, topic: TopicDescription) -> OpenReader[ReadablePartition]:
        return self._open_to_read(ReadablePartition, partition, topic)

    def _open_to_read(self, kind: type[Store], partition: TopicPartition, topic: TopicDescription) -> OpenReader[Store]:
        store, identity = self._open_store(kind, partition, topic)
        if self._may_recover() and store.has_unpublished():
            self._recover_for_reading(partition, topic, wait_seconds=0)
        return OpenReader(store=store, identity=identity)

    def _open_writer(self, partition: TopicPartition, topic: TopicDescription) -> OpenWriter:
        writer = self._open_forgetful_writer(partition, topic)
        remembered_of, remembered = self._remembered.pop(partition, (None, None))
        if remembered is not None and remembered_of == writer.identity:
            writer.store.remember_producers(remembered)
        return writer

    def _open_forgetful_writer(self, partition: TopicPartition, topic: TopicDescription) -> OpenWriter:
        store, identity = self._open_store(WritablePartition, partition, topic)
        lock = self.lock_of(partition, LOCK_FILE_NAME)
        return OpenWriter(store=store, identity=identity, lock=lock)

    def _require_folder(self, partition: TopicPartition, identity: FileStat | None) -> None:
        if self._identity_of(self.path_of(partition)) != identity:
            raise _StaleFolderError

    def _close_writer(self, writer: OpenWriter) -> None:
        remembered = writer.store.remembered_producers
        if remembered is not None and remembered.producers.entries:
            self._remembered[writer.store.topic_partition] = (writer.identity, remembered)
        writer.close()

    def _may_recover(self) -> bool:
        return self._folders is not None and self._directory.is_writable

    def _recover_for_reading(self, partition: TopicPartition, topic: TopicDescription, *, wait_seconds: float) -> None:
        """Recovers the partition as the next writer would, so that a reader that comes first sees everything that was
        acknowledged: after a power failure the bounds on the device may be older than the batches, or newer than
        unsynced ones. Does nothing while a running writer has the lock."""
        with closing(self._open_forgetful_writer(partition, topic)) as writer:
            try:
                with writer.lock.maybe_exclusive(timeout_seconds=wait_seconds) as is_held:
                    if is_held:
                        self._require_folder(partition, writer.identity)
                        writer.store.refresh()
            except (CorruptDataError, StorageError, _StaleFolderError) as error:
                # The reader can still read what was published, and reports damage when it reaches it.
                logger.warning("partition=%s could not be recovered before reading: %s", partition, error)

    def _open_store(
        self, kind: type[Store], partition: TopicPartition, topic: TopicDescription
    ) -> tuple[Store, FileStat | None]:
        path = self.path_of(partition)
        may_make = self._folders is not None and self._directory.is_writable
        config = self._configs.of(topic)
        # Topics of an old Kafka have no id, and the id in a real Kafka's folder is accepted.
        topic_id = None if self._folders is None else topic.topic_id

        def open_it() -> tuple[Store, FileStat | None]:
            store = kind.open(self._fs, path, partition, config=config, topic_id=topic_id)
            return store, self._identity_of(path)

        try:
            store, identity = open_it()
            # Without partition.metadata, its last file, its creation is running or was interrupted: an append might go
            # to a file whose name is not on the device yet.
            if identity is not None or not may_make:
                return store, identity
        except (UnknownPartitionError, DirectoryFormatError):
            if not may_make:
                raise
        assert self._folders is not None, "nothing is created in a directory of Apache Kafka"
        if kind is not WritablePartition and not self.is_begun(partition):
            # There are no records, and only the first write needs the folder.
            return kind.open(EmptyFolder(), path, partition, config=config, topic_id=topic_id), None
        self._folders.make(topic, partition)
        return open_it()

    def _identity_of(self, path: str) -> FileStat | None:
        """The identity of the folder's partition.metadata, which is written once; None without one, as before Kafka
        2.8."""
        return self._fs.stat(f"{path}/{PARTITION_METADATA_FILE_NAME}")

    def _restless(self, partition: TopicPartition) -> UnknownTopicError:
        return UnknownTopicError(
            f"Topic '{partition.topic}' was deleted, created or altered {_ATTEMPT_COUNT} times during one operation.",
            topic=partition.topic,
        )
