"""The folders of a broker of a cluster. The metadata log that names their topics is the quorum's, so the topics are
those of the committed image, and nothing is changed from here.

    a replica is assigned      its folder is created when it is opened; one of another topic is moved aside
    it is not assigned more    its folder is renamed to `<topic>-<p>.<hex>-delete`, and removed
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.log_directory.meta_properties import MetaProperties
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.topic_catalog import TopicPlan
from broker_core.metadata.controller import MetadataController
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import InvalidRequestError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import deleted_folder
from broker_core.ports import Locks
from broker_core.storage.storage_errors import translated


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDirectory:
    """A directory that another part of this process has locked, and will release."""

    path: str
    properties: MetaProperties
    locks: Locks
    is_writable: bool = True
    is_held_alone: bool = True

    def close(self) -> None:
        """Its owner releases it."""


class ImageTopics:
    """The topics of the committed image, as it is now. Any thread may ask."""

    def __init__(self, image_now: Callable[[], MetadataImage], directory: HeldDirectory) -> None:
        self._image_now = image_now
        self._directory = directory
        self._mutex = threading.Lock()

    @property
    def image(self) -> MetadataImage:
        return self._image_now()

    @property
    def locks(self) -> Locks:
        return self._directory.locks

    def refresh(self, *, is_thorough: bool = False) -> None:
        """The image is always as new as this node knows."""

    def topic(self, name: str) -> TopicDescription | None:
        return self.image.topics.get(name)

    def topics(self) -> dict[str, TopicDescription]:
        return dict(self.image.topics)

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._mutex:
            yield

    def change(
        self, plan: TopicPlan[Any], *, on_appended: Callable[[tuple[MetadataRecord, ...]], object] | None = None
    ) -> Any:
        raise InvalidRequestError("The metadata of a cluster is changed by its active controller.")

    def controller_for(self, image: MetadataImage) -> MetadataController:
        """Only checks what is asked for."""
        properties = self._directory.properties
        return MetadataController(image, broker_id=properties.node_id, directory_id=properties.directory_id)

    def close(self) -> None:
        """Nothing is open."""


class ReplicaFolders(PartitionFolders):
    """The folders of the replicas on this node."""

    def make(self, topic: TopicDescription, partition: TopicPartition) -> None:
        self._make(topic, [partition], self._move_aside)

    def remove_replica(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Nobody has it open."""
        moved_path = None
        with self._metadata_log.locked(), translated(f"deleting {partition}", self._path):
            if self._topic_id_of(self.path_of(partition)) == topic_id:
                moved_path = self._rename(partition, deleted_folder)
        if moved_path is not None:
            self._remove_tree(moved_path)

    def put_strays_aside(self, held: set[tuple[UUID, int]]) -> None:
        """Folders of replicas that were taken from this node while it was away: kept, with Kafka's name for them.
        Finishes deletions that were interrupted."""
        self._move_all_aside(lambda partition, found_id: (found_id, partition.partition) not in held)
