"""The partition of an internal topic for its coordinator; the topic is created at first use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from broker_core.broker.callback_errors import OnError
from broker_core.broker.partition.replica import Replica
from broker_core.broker.partition.replica_manager import ReplicaManager
from broker_core.broker.topic_store import TopicStore
from broker_core.cluster import TopicDescription
from broker_core.log_directory.internal_topics import INTERNAL_TOPIC_CONFIGS
from broker_core.model.exceptions import StreamlogError, TopicExistsError, UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition


class InternalTopic:
    """Only `partition` is used; a new topic has no other partition."""

    def __init__(self, partition: TopicPartition, topics: TopicStore, replicas: ReplicaManager) -> None:
        self.partition = partition
        self._topics = topics
        self._replicas = replicas

    def replica(self) -> Replica | None:
        """None: the topic was not created yet. Raises StorageError for an offline partition."""
        with suppress(UnknownTopicError, UnknownPartitionError):
            return self._replicas.get(self.partition)
        return None

    def is_current(self, replica: Replica) -> bool:
        """False: the topic was deleted, and maybe created again."""
        topic = self._topics.image.topics.get(self.partition.topic)
        return topic is not None and topic.topic_id == replica.topic_id

    def make(self, on_made: Callable[[], None], on_error: OnError) -> None:
        """Creates the topic. It is no error if the topic exists by now."""

        def made(topic: TopicDescription) -> None:
            on_made()

        def refused(error: StreamlogError) -> None:
            if isinstance(error, TopicExistsError):
                on_made()
            else:
                on_error(error)

        self._topics.create_topic(
            self.partition.topic,
            partition_count=1,
            configs=INTERNAL_TOPIC_CONFIGS,
            on_reply=made,
            on_error=refused,
        )
