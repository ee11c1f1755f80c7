"""The topics of a directory that a real Kafka wrote: from its partition folders, and from its metadata log if it has
one. Read-only.

A broker's directory has folders only for the partitions of that broker, so a topic is listed if one of its folders is
here. Names, ids and partition counts come from the folders; the metadata log adds the settings and, for a topic on
several brokers, the full partition count. The metadata is the newest snapshot,
`__cluster_metadata-0/<offset>-<epoch>.checkpoint`, and the log after it. If it cannot be read (a newer Kafka), only the
folders are used.

A running Kafka creates and renames entries of the root when topics change, so the root's modification time shows
whether to read it again.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from dataclasses import replace
from typing import Final
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.log_directory.metadata_log import METADATA_CONFIG, METADATA_PARTITION
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_replay import replay_batches
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import (
    CLUSTER_METADATA_TOPIC,
    is_internal_topic,
    parse_partition_folder,
    partition_folder,
)
from broker_core.ports import FileSystem
from broker_core.storage.checkpoints import read_partition_metadata, read_small_file
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.storage_errors import translated

_log: Final = logging.getLogger(__name__)
_NO_TOPIC_ID: Final = UUID(int=0)
_READ_BYTES: Final = 1024 * 1024
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-\d{10}\.checkpoint")


class ForeignTopics:
    """A `TopicCatalog` of a directory that is FOREIGN. Topics of a Kafka before 2.8 get the zero id."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._mutex = threading.Lock()
        self._topics: dict[str, TopicDescription] = {}
        self._looked_at: int | None = None

    def refresh(self, *, is_thorough: bool = False) -> None:
        with self._mutex, translated("looking for topics", self._path):
            changed_at = os.stat(self._path).st_mtime_ns
            if is_thorough or changed_at != self._looked_at:
                self._topics = self._find_topics()
                self._looked_at = changed_at

    def topic(self, name: str) -> TopicDescription | None:
        return self._topics.get(name)

    def topics(self) -> dict[str, TopicDescription]:
        return dict(self._topics)

    def close(self) -> None:
        pass

    def _find_topics(self) -> dict[str, TopicDescription]:
        topics: dict[str, TopicDescription] = {}
        for name in self._fs.list_directory(self._path):
            partition = parse_partition_folder(name)
            if partition is None or partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            topic = topics.get(partition.topic) or self._topic_of_folder(name, partition)
            if topic is not None:
                count = max(topic.partition_count, partition.partition + 1)
                topics[topic.name] = replace(topic, partition_count=count)
        image = self._metadata()
        return {name: _with_metadata(topic, image) for name, topic in topics.items()}

    def _topic_of_folder(self, name: str, partition: TopicPartition) -> TopicDescription | None:
        try:
            topic_id = read_partition_metadata(self._fs, f"{self._path}/{name}")
        except NotADirectoryError:
            return None
        except StreamlogError as error:
            # A damaged file must not hide records: reading the partition raises the error.
            _log.warning("%s", error)
            topic_id = None
        return TopicDescription(
            name=partition.topic,
            topic_id=topic_id or _NO_TOPIC_ID,
            partition_count=0,
            is_internal=is_internal_topic(partition.topic),
        )

    def _metadata(self) -> MetadataImage:
        image = MetadataImage()
        folder = f"{self._path}/{partition_folder(METADATA_PARTITION)}"
        if not self._fs.exists(folder):
            return image
        try:
            next_offset = self._replay_snapshot(image, folder)
            self._replay_log(image, folder, next_offset)
        except (StreamlogError, OSError) as error:
            _log.warning(
                "the metadata log of %s cannot be read, listing topics by their folders: %s", self._path, error
            )
            return MetadataImage()
        return image

    def _replay_snapshot(self, image: MetadataImage, folder: str) -> int:
        """Returns the first offset that the newest snapshot does not cover; 0 without a snapshot."""
        names = [name for name in self._fs.list_directory(folder) if _SNAPSHOT_NAME.fullmatch(name)]
        if not names:
            return 0
        newest = max(names)
        replay_batches(image, read_small_file(self._fs, f"{folder}/{newest}") or b"", from_offset=0)
        return int(newest[:20])

    def _replay_log(self, image: MetadataImage, folder: str, next_offset: int) -> None:
        store = ReadablePartition.open(self._fs, folder, METADATA_PARTITION, config=METADATA_CONFIG, topic_id=None)
        try:
            bounds = store.bounds()
            next_offset = max(next_offset, bounds.log_start_offset)
            while next_offset < bounds.log_end_offset:
                fetched = store.read(next_offset, max_bytes=_READ_BYTES, until_offset=bounds.log_end_offset)
                next_offset = max(replay_batches(image, fetched.buffer, from_offset=next_offset), fetched.next_offset)
        finally:
            store.close()


def _with_metadata(topic: TopicDescription, image: MetadataImage) -> TopicDescription:
    known = image.topics.get(topic.name)
    if known is None or known.topic_id != topic.topic_id:
        return topic
    count = max(topic.partition_count, known.partition_count)
    return replace(topic, partition_count=count, configs=known.configs)
