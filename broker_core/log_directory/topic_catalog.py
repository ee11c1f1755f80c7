"""The topics of a directory. Every operation needs them first; one interface serves both kinds of directory
(`metadata_log` for ours, `foreign_topics` for a real Kafka's)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from broker_core.cluster import TopicDescription
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.controller import MetadataController
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition

Reply = TypeVar("Reply")
TopicPlan = Callable[[MetadataController], CoordinatorResult[MetadataRecord, Reply]]


class TopicCatalog(Protocol):
    """Safe to use from several threads."""

    def refresh(self, *, is_thorough: bool = False) -> None:
        """Reads the changes of other processes. Takes a few microseconds without changes; `is_thorough` skips no
        check."""
        ...

    def topic(self, name: str) -> TopicDescription | None:
        """As of the last refresh."""
        ...

    def topics(self) -> dict[str, TopicDescription]:
        """All topics by name, as of the last refresh."""
        ...

    def close(self) -> None: ...


class MetadataChanges(Protocol):
    """A metadata log that this process may change."""

    def change(
        self, plan: TopicPlan[Any], *, on_appended: Callable[[tuple[MetadataRecord, ...]], object] | None = None
    ) -> Any: ...

    def controller_for(self, image: MetadataImage) -> MetadataController: ...


def topic_of(catalog: TopicCatalog, partition: TopicPartition) -> TopicDescription:
    """The topic of the partition. Refreshes before it refuses an unknown topic or partition.

    Raises UnknownTopicError, UnknownPartitionError.
    """
    for is_thorough in (False, True):
        topic = catalog.topic(partition.topic)
        if topic is not None and 0 <= partition.partition < topic.partition_count:
            return topic
        catalog.refresh(is_thorough=is_thorough)
    topic = catalog.topic(partition.topic)
    if topic is None:
        raise UnknownTopicError(f"Topic '{partition.topic}' does not exist.", topic=partition.topic)
    if 0 <= partition.partition < topic.partition_count:
        return topic
    raise UnknownPartitionError(
        f"Topic '{partition.topic}' has partitions 0 to {topic.partition_count - 1}, not {partition.partition}.",
        topic=partition.topic,
        partition=partition.partition,
    )


def is_same_topic(catalog: TopicCatalog, topic: TopicDescription) -> bool:
    """Whether, after a refresh, the topic still exists and was not deleted and recreated in between."""
    catalog.refresh()
    current = catalog.topic(topic.name)
    return current is not None and current.topic_id == topic.topic_id
