"""Partition folders: made when the metadata log says so, taken apart when it says so, never the other way round.

    made      the metadata log first, then the folder; whoever finds it missing makes it. A crash in between is repaired
              by the next one who wants the partition.
    deleted   the metadata log first; then, under the partition's lock, renamed to `<topic>-<p>.<hex>-delete`, so that
              an append that is under way ends before and the next one finds the topic gone; then removed. Readers that
              have its files open read on undisturbed. What a crash leaves is found by its topic id, which the metadata
              log lists as removed, or by its `-delete`.
    foreign   a folder in the way of a new topic, with a topic id that the metadata log never had, is moved aside to
              `<topic>-<p>.<hex>-stray`, as Kafka does, and never removed. In the place of a topic's own folder it is
              refused: its partition.metadata may be damaged, and the records in it all that there is.

All renames happen under the metadata log's lock, where the names of topics cannot change.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
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
from broker_core.ports import Entropy, FileSystem
from broker_core.storage.checkpoints import PARTITION_METADATA_FILE_NAME, read_partition_metadata
from broker_core.storage.storage_errors import translated
from broker_core.storage.writable_partition import WritablePartition

_log: Final = logging.getLogger(__name__)
_MADE_TOGETHER_COUNT: Final = 50
"""Folders whose names reach the device together; whoever wants the metadata log waits some 50 ms for so many."""
_ALREADY_GONE: Final = frozenset({errno.ENOENT, errno.ENOTEMPTY})

ClearAway = Callable[[TopicPartition, UUID], str | None]
"""Deals with a folder of another topic id in a partition's place; the path that it gives is removed."""


class PartitionFolders:
    """The folders of one directory that is OURS."""

    def __init__(self, fs: FileSystem, path: str, metadata_log: MetadataLog, entropy: Entropy) -> None:
        self._fs = fs
        self._path = path
        self._metadata_log = metadata_log
        self._entropy = entropy

    def path_of(self, partition: TopicPartition) -> str:
        return f"{self._path}/{partition_folder(partition)}"

    def make(self, topic: TopicDescription, partition: TopicPartition) -> None:
        """Makes or finishes the folder of a partition; durable. Raises UnknownTopicError when the topic is gone,
        DirectoryFormatError when a folder of another log is in its place."""
        self._make(topic, [partition], self._move_if_removed)

    def make_all(self, topic: TopicDescription) -> None:
        """Makes the folders of a topic that was created just now. Never fails: the metadata log has them already, and
        what is missing now is made at its first use."""
        self._make_each(topic, self._move_aside)

    def make_missing(self, topic: TopicDescription) -> None:
        """Makes the folders of partitions that were added. Never fails, as `make_all`."""
        self._make_each(topic, self._move_if_removed)

    def remove(self, topic: TopicDescription) -> None:
        """Takes apart the folders of a topic that the metadata log says is removed. Never fails: nobody finds them any
        more, and what is left goes at the next sweep."""
        try:
            for number in range(topic.partition_count):
                self._remove_partition(topic, TopicPartition(topic.name, number))
        except Exception as error:
            _log.warning("folders of deleted topic %s are removed later: %s", topic.name, error)

    def _remove_partition(self, topic: TopicDescription, partition: TopicPartition) -> None:
        moved_path = None
        with self._metadata_log.locked(), translated(f"deleting {partition}", self._path):
            if self._topic_id_of(self.path_of(partition)) == topic.topic_id:
                moved_path = self._move_aside(partition, topic.topic_id)
        if moved_path is not None:
            self._remove_tree(moved_path)

    def sweep(self) -> int:
        """Removes what crashes left of deleted topics; returns how many folders that were."""
        rubbish = []
        with self._metadata_log.locked(), translated("looking for deleted topics' folders", self._path):
            for name in self._fs.list_directory(self._path):
                partition = parse_partition_folder(name)
                if is_deleted_folder(name):
                    rubbish.append(f"{self._path}/{name}")
                elif partition is not None and partition.topic != CLUSTER_METADATA_TOPIC:
                    found_id = self._topic_id_of(self.path_of(partition))
                    if found_id is not None and self._metadata_log.image.was_removed(found_id):
                        moved_path = self._move_aside(partition, found_id)
                        rubbish.extend([] if moved_path is None else [moved_path])
        for path in rubbish:
            self._remove_tree(path)
        return len(rubbish)

    def _make_each(self, topic: TopicDescription, clear_away: ClearAway) -> None:
        partitions = [TopicPartition(topic.name, number) for number in range(topic.partition_count)]
        try:
            for first in range(0, len(partitions), _MADE_TOGETHER_COUNT):
                self._make(topic, partitions[first : first + _MADE_TOGETHER_COUNT], clear_away)
        except Exception as error:
            _log.warning("folders of topic %s are made at first use: %s", topic.name, error)

    def _make(self, topic: TopicDescription, partitions: Sequence[TopicPartition], clear_away: ClearAway) -> None:
        """The names of all folders before their content: a partition.metadata says that its folder is on the device."""
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
        """`moved_paths` gets what was moved aside and is to be removed once the lock is given back."""
        with self._metadata_log.locked(), translated(f"making folders of topic {topic.name}", self._path):
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
                f"{path} names topic id {found_id}, which this log never had: the file is damaged, or the folder is of"
                " another log. Put the right one in its place, or move it away and the partition begins empty.",
                directory=self._path,
            )
        return self._move_aside(partition, found_id)

    def _finish(self, partition: TopicPartition, topic: TopicDescription) -> None:
        """Makes what is missing in the folder. Under its lock: it may be whole and somebody appending to it."""
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
        """Renames the folder under its lock. The new path if its content is rubbish, None if it is only in the way."""
        path = self.path_of(partition)
        unique_hex = self._entropy.random_bytes(16).hex()
        is_rubbish = self._metadata_log.image.was_removed(found_id)
        name = (deleted_folder if is_rubbish else stray_folder)(partition, unique_hex)
        lock = PartitionLock(f"{path}/{LOCK_FILE_NAME}", locks=self._metadata_log.locks)
        try:
            with lock.exclusive():
                self._fs.rename(path, f"{self._path}/{name}")
                self._fs.sync_directory(self._path)
        finally:
            lock.close()
        if not is_rubbish:
            _log.warning("folder %s holds topic id %s, unknown here: moved to %s", path, found_id, name)
            return None
        return f"{self._path}/{name}"

    def _remove_tree(self, path: str) -> None:
        """Removes a folder that nobody can find any more. What does not go now goes at the next sweep."""
        try:
            self._fs.remove_tree(path)
        except OSError as error:
            # Two processes may remove the same one: each finds files gone that it had listed.
            if error.errno not in _ALREADY_GONE:
                _log.warning("folder %s of a deleted topic is not removed yet: %s", path, error)
