"""Partition folders: created and deleted after the metadata log has the change, never before.

    created   the metadata log first, then the folder, at the latest at the first write; until then the partition is
              empty. So the next write repairs a crash in between, and a topic of 100,000 partitions costs no more than
              its records in the metadata log.
    deleted   the metadata log first; then, under the partition's lock, renamed to `<topic>-<p>.<hex>-delete`, so that
              a running append ends before and the next one finds the topic gone; then removed. Readers that have its
              files open can continue. Leftovers of a crash are found by their topic id, which the metadata log lists
              as removed, or by their `-delete`.
    foreign   a folder at the path of a new topic, with a topic id that the metadata log never had, is moved aside to
              `<topic>-<p>.<hex>-stray`, as in Kafka, and never removed. In the place of a topic's own folder it is
              refused: its partition.metadata may be damaged, and its records may be the only copy.

All renames run under the metadata log's lock, so the names of topics cannot change meanwhile.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final, Protocol
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.exceptions import DirectoryFormatError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import (
    CLUSTER_METADATA_TOPIC,
    deleted_folder,
    is_deleted_folder,
    parse_partition_folder,
    partition_folder,
    stray_folder,
)
from broker_core.ports import Entropy, FileSystem, Locks
from broker_core.storage.checkpoints import PARTITION_METADATA_FILE_NAME, read_partition_metadata
from broker_core.storage.storage_errors import translated
from broker_core.storage.writable_partition import WritablePartition

_log: Final = logging.getLogger(__name__)
_MADE_AT_ONCE_COUNT: Final = 50
"""The first folders of a topic, whose names are synced together; so many block the metadata log for some 50 ms."""
_ALREADY_GONE: Final = frozenset({errno.ENOENT, errno.ENOTEMPTY})

ClearAway = Callable[[TopicPartition, UUID], str | None]
"""Handles a folder of another topic id in a partition's place; the path that it returns is removed."""


class FolderCatalog(Protocol):
    """The topics whose folders these are. `locked`: nobody else creates, renames or removes folders."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def locks(self) -> Locks: ...

    def topic(self, name: str) -> TopicDescription | None: ...

    def locked(self) -> AbstractContextManager[None]: ...


class PartitionFolders:
    """The folders of one directory that is OURS."""

    def __init__(self, fs: FileSystem, path: str, metadata_log: FolderCatalog, entropy: Entropy) -> None:
        self._fs = fs
        self._path = path
        self._metadata_log = metadata_log
        self._entropy = entropy

    def path_of(self, partition: TopicPartition) -> str:
        return f"{self._path}/{partition_folder(partition)}"

    def make(self, topic: TopicDescription, partition: TopicPartition) -> None:
        """Creates or finishes the folder of a partition; durable. Raises UnknownTopicError when the topic is gone,
        DirectoryFormatError when a folder of another log is in its place."""
        self._make(topic, [partition], self._move_if_removed)

    def make_all(self, topic: TopicDescription) -> None:
        """Creates the first folders of a new topic. Never fails: the metadata log already has all partitions, and a
        missing folder is created by its first write."""
        self._make_first(topic, self._move_aside)

    def make_missing(self, topic: TopicDescription) -> None:
        """The same after partitions were added."""
        self._make_first(topic, self._move_if_removed)

    def remove(self, topic: TopicDescription) -> None:
        """Removes the folders of a topic that is deleted in the metadata log. Never fails: they are no longer found,
        and the next sweep removes the rest."""
        try:
            names = set(self._fs.list_directory(self._path))
            for partition in topic.partitions():
                if partition_folder(partition) in names:
                    self._remove_partition(topic, partition)
        except Exception as error:
            _log.warning("could not remove the folders of deleted topic %s, will retry: %s", topic.name, error)

    def _remove_partition(self, topic: TopicDescription, partition: TopicPartition) -> None:
        moved_path = None
        with self._metadata_log.locked(), translated(f"deleting {partition}", self._path):
            if self._topic_id_of(self.path_of(partition)) == topic.topic_id:
                moved_path = self._move_aside(partition, topic.topic_id)
        if moved_path is not None:
            self._remove_tree(moved_path)

    def sweep(self) -> int:
        """Removes folders of deleted topics that crashes left. Returns their number."""
        return self._move_all_aside(lambda partition, found_id: self._metadata_log.image.was_removed(found_id))

    def _move_all_aside(self, is_leftover: Callable[[TopicPartition, UUID], bool]) -> int:
        """Moves these folders aside, and removes those of them that may be removed, and what interrupted deletions
        left. Returns the number of the removed ones."""
        leftovers = []
        with self._metadata_log.locked(), translated("looking for leftover folders", self._path):
            for name in self._fs.list_directory(self._path):
                partition = parse_partition_folder(name)
                if is_deleted_folder(name):
                    leftovers.append(f"{self._path}/{name}")
                elif partition is not None and partition.topic != CLUSTER_METADATA_TOPIC:
                    found_id = self._topic_id_of(self.path_of(partition))
                    if found_id is not None and is_leftover(partition, found_id):
                        moved_path = self._move_aside(partition, found_id)
                        leftovers.extend([] if moved_path is None else [moved_path])
        for path in leftovers:
            self._remove_tree(path)
        return len(leftovers)

    def _make_first(self, topic: TopicDescription, clear_away: ClearAway) -> None:
        try:
            names = set(self._fs.list_directory(self._path))
            partitions = list(topic.partitions())
            first, later = partitions[:_MADE_AT_ONCE_COUNT], partitions[_MADE_AT_ONCE_COUNT:]
            # What lies in the place of a later one is moved aside now, as of the first.
            self._make(topic, [*first, *(each for each in later if partition_folder(each) in names)], clear_away)
        except Exception as error:
            _log.warning("could not create the folders of topic %s, its first write will retry: %s", topic.name, error)

    def _make(self, topic: TopicDescription, partitions: Sequence[TopicPartition], clear_away: ClearAway) -> None:
        """Syncs the names of all folders before their content: a partition.metadata shows that its folder is on the
        device."""
        moved_paths: list[str | None] = []
        try:
            self._make_locked(topic, partitions, clear_away, moved_paths)
        finally:
            for path in moved_paths:
                if path is not None:
                    self._remove_tree(path)

    def _make_locked(
        self,
        topic: TopicDescription,
        partitions: Sequence[TopicPartition],
        clear_away: ClearAway,
        moved_paths: list[str | None],
    ) -> None:
        """Adds to `moved_paths` the folders that were moved aside and must be removed after the lock is released."""
        with self._metadata_log.locked(), translated(f"creating the folders of topic {topic.name}", self._path):
            current = self._metadata_log.topic(topic.name)
            if current is None or current.topic_id != topic.topic_id:
                raise UnknownTopicError(f"Topic '{topic.name}' does not exist.", topic=topic.name)
            for partition in partitions:
                found_id = self._topic_id_of(self.path_of(partition))
                if found_id is not None and found_id != topic.topic_id:
                    moved_paths.append(clear_away(partition, found_id))
                with suppress(FileExistsError):
                    self._fs.make_directory(self.path_of(partition))
            self._fs.sync_directory(self._path)
            for partition in partitions:
                self._finish(partition, topic)

    def _move_if_removed(self, partition: TopicPartition, found_id: UUID) -> str | None:
        if not self._metadata_log.image.was_removed(found_id):
            path = f"{self.path_of(partition)}/{PARTITION_METADATA_FILE_NAME}"
            raise DirectoryFormatError(
                f"{path} has the topic id {found_id}, which is unknown to this log: the file is damaged, or the"
                " folder belongs"
                " to another log. Restore the right folder, or move this one away to start with an empty partition.",
                directory=self._path,
            )
        return self._move_aside(partition, found_id)

    def _finish(self, partition: TopicPartition, topic: TopicDescription) -> None:
        """Creates missing files of the folder. Under its lock, since it may be whole and in use by an append."""
        path = self.path_of(partition)
        lock = PartitionLock(f"{path}/{LOCK_FILE_NAME}", locks=self._metadata_log.locks)
        try:
            with lock.exclusive():
                WritablePartition.create(self._fs, path, partition, topic.topic_id, is_folder_durable=True)
        finally:
            lock.close()

    def _topic_id_of(self, path: str) -> UUID | None:
        try:
            return read_partition_metadata(self._fs, path)
        except (NotADirectoryError, DirectoryFormatError):
            return None

    def _move_aside(self, partition: TopicPartition, found_id: UUID) -> str | None:
        """Renames the folder. Returns the new path if the folder can be removed, None if it must be kept."""
        if self._metadata_log.image.was_removed(found_id):
            return self._rename(partition, deleted_folder)
        path = self._rename(partition, stray_folder)
        _log.warning("folder %s has the unknown topic id %s: moved to %s", self.path_of(partition), found_id, path)
        return None

    def _rename(self, partition: TopicPartition, new_name: Callable[[TopicPartition, str], str]) -> str:
        """Renames the folder under its lock. Returns the new path."""
        path = self.path_of(partition)
        new_path = f"{self._path}/{new_name(partition, self._entropy.random_bytes(16).hex())}"
        lock = PartitionLock(f"{path}/{LOCK_FILE_NAME}", locks=self._metadata_log.locks)
        try:
            with lock.exclusive():
                self._fs.rename(path, new_path)
                self._fs.sync_directory(self._path)
        finally:
            lock.close()
        return new_path

    def _remove_tree(self, path: str) -> None:
        """Removes a folder that is no longer found. The next sweep removes what this call could not."""
        try:
            self._fs.remove_tree(path)
        except OSError as error:
            # Two processes may remove the same folder: each finds listed files gone.
            if error.errno not in _ALREADY_GONE:
                _log.warning("could not remove folder %s of a deleted topic, will retry: %s", path, error)
