"""The topic of `consume`: the partitions that are read, and whether it still is the same topic.

While the command runs, partitions may be added, and the topic may be deleted and created again. The offsets of the new
topic belong to other records, so the command ends with an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker_core.cluster import Cluster
from broker_core.model.exceptions import InvalidRequestError, UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.topic_producer import describe_existing

LOOK_SECONDS: Final = 3.0
"""How often --follow looks for added partitions, which is one request. Kafka's consumers look every five minutes
(metadata.max.age.ms)."""


class ConsumedTopic:
    """The topic as it was when the command began. `only`: the single partition that is read."""

    def __init__(self, cluster: Cluster, name: str, *, only: int | None) -> None:
        found = describe_existing(cluster, name)
        self._cluster = cluster
        self._name = name
        self._only = only
        self._count = found.partition_count
        self._looked_at_s = time.monotonic()
        self.topic_id: Final = found.topic_id

    def partitions(self) -> list[TopicPartition]:
        """Those that are read. Raises UnknownPartitionError if the single one is missing."""
        if self._only is None:
            return [TopicPartition(self._name, number) for number in range(self._count)]
        if self._only >= self._count:
            raise UnknownPartitionError(
                f"topic {self._name!r} has no partition {self._only}: its partitions are 0 to {self._count - 1}",
                topic=self._name,
                partition=self._only,
            )
        return [TopicPartition(self._name, self._only)]

    def maybe_added(self) -> list[TopicPartition]:
        """The partitions that were added since the last look, if that is long enough ago.

        Raises UnknownTopicError if the topic was deleted, also if it was created again.
        """
        if time.monotonic() - self._looked_at_s < LOOK_SECONDS:
            return []
        self._looked_at_s = time.monotonic()
        found = self._cluster.describe_topics([self._name]).get(self._name)
        if found is None or found.topic_id != self.topic_id:
            raise self._deleted(is_recreated=found is not None)
        before = self._count
        # A broker may answer that has not heard of a partition yet.
        self._count = max(before, found.partition_count)
        return [TopicPartition(self._name, number) for number in range(before, self._count) if self._only is None]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, a request that failed because the topic was deleted raises an UnknownTopicError that says so."""
        try:
            yield
        except InvalidRequestError as error:
            found = self._cluster.describe_topics([self._name]).get(self._name)
            if found is not None and found.topic_id == self.topic_id:
                raise
            raise self._deleted(is_recreated=found is not None) from error

    def _deleted(self, *, is_recreated: bool) -> UnknownTopicError:
        if is_recreated:
            problem = "was deleted and created again while it was read: run the command again to read the new topic"
        else:
            problem = "was deleted while it was read"
        return UnknownTopicError(f"topic {self._name!r} {problem}", topic=self._name)
