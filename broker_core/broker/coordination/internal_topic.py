"""A partition of an internal topic for its coordinator; a node alone creates the topic at first use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError
from broker_core.broker.partition.replica import Replica
from broker_core.broker.partition.replica_manager import ReplicaManager
from broker_core.broker.topic_store import TopicStore
from broker_core.cluster import TopicDescription
from broker_core.model.exceptions import (
    CoordinatorNotAvailableError,
    ReplicaError,
    StreamlogError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import TopicPartition


class InternalTopic:
    """Only `partition` is used; the topic's other partitions have coordinators of their own."""

    def __init__(self, partition: TopicPartition, topics: TopicStore, replicas: ReplicaManager) -> None:
        self.partition = partition
        self._topics = topics
        self._replicas = replicas

    def replica(self) -> Replica | None:
        """None: the topic was not created yet. Raises StorageError for an offline partition, and ReplicaError if
        another broker leads it, or may: what this broker does not know of may have been created, and have records."""
        with suppress(UnknownTopicError, UnknownPartitionError):
            return self._replicas.get(self.partition)
        if self._topics.is_shared:
            raise ReplicaError(
                f"{self.partition} is not known to this broker", error_code=ErrorCode.not_leader_or_follower
            )
        return None

    def is_current(self, replica: Replica) -> bool:
        """False: the topic was deleted, and maybe created again."""
        topic = self._topics.image.topics.get(self.partition.topic)
        return topic is not None and topic.topic_id == replica.topic_id

    def make(self, on_made: Callable[[Replica], None], on_error: OnError) -> None:
        """Creates the topic. It is no error if it exists by now, without records, and with as many partitions:
        otherwise the coordinator of a key is another one. The replica's producers are known."""
        name = self.partition.topic
        wanted_count = self._topics.internal_partition_count(name)

        def made(topic: TopicDescription | None) -> None:
            if topic is not None and topic.partition_count != wanted_count:
                on_error(CoordinatorNotAvailableError(f"{name} was created with {topic.partition_count} partitions"))
                return
            try:
                replica = self.replica()
            except StreamlogError as error:
                on_error(error)
                return
            if replica is None or replica.bounds.log_end_offset:
                on_error(CoordinatorNotAvailableError("the existing topic is not empty"))
            else:
                found = replica
                found.when_producers_known(lambda: on_made(found), on_error)

        def refused(error: StreamlogError) -> None:
            if isinstance(error, TopicExistsError):
                made(self._topics.image.topics.get(name))
            else:
                on_error(error)

        self._topics.make_internal_topic(name, on_reply=made, on_error=refused)
