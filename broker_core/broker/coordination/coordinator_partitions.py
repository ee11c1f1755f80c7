"""The coordinators of one internal topic, one for each of its partitions: a key's coordinator by its hash.

    of(key)       the partition that the key's hash names, whether it is led here or not: one that is not refuses
    on_role(p)    it is led here, or by another broker, in a new epoch: its coordinator begins or ends, and no other
    ask_all       questions to all that are here; one that is loading refuses the whole

A coordinator is made when it is first asked, or led. It costs little while another broker leads its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.topic_store import TopicStore
from broker_core.coordinator.key_partition import key_partition
from broker_core.model.exceptions import NotCoordinatorError, StreamlogError, UnknownPartitionError
from broker_core.model.identifiers import TopicPartition


class CoordinatorService(Protocol):
    """What serves requests with a coordinator."""

    def on_role(self) -> None:
        """The coordinator is about to be loaded, or to be given up."""
        ...


Runtime = TypeVar("Runtime", bound=CoordinatorRuntime[Any, Any])
Service = TypeVar("Service", bound=CoordinatorService)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPart(Generic[Runtime, Service]):
    """The coordinator of one partition, and what serves requests with it."""

    partition: TopicPartition
    runtime: Runtime
    service: Service


class CoordinatorPartitions(Generic[Runtime, Service]):
    """Runs on the node's loop. `new_part` makes the part of a partition; its runtime is loaded here."""

    def __init__(
        self,
        topic: str,
        topics: TopicStore,
        new_part: Callable[[TopicPartition], CoordinatorPart[Runtime, Service]],
    ) -> None:
        self._topic = topic
        self._topics = topics
        self._new_part = new_part
        self._parts: dict[int, CoordinatorPart[Runtime, Service]] = {}

    def __iter__(self) -> Iterator[CoordinatorPart[Runtime, Service]]:
        """Those that were asked or led so far."""
        return iter(tuple(self._parts.values()))

    def partition_of(self, key: str) -> TopicPartition:
        """Of a topic that is still to be created: as it would be created."""
        count = self._topics.internal_partition_count(self._topic)
        return TopicPartition(self._topic, key_partition(key, count))

    def of(self, key: str) -> CoordinatorPart[Runtime, Service]:
        return self._at(self.partition_of(key))

    def at(self, partition: TopicPartition) -> CoordinatorPart[Runtime, Service]:
        """Raises UnknownPartitionError."""
        count = self._topics.internal_partition_count(self._topic)
        if not 0 <= partition.partition < count:
            raise UnknownPartitionError(
                f"Topic '{self._topic}' has partitions 0 to {count - 1}, not {partition.partition}.",
                topic=self._topic,
                partition=partition.partition,
            )
        return self._at(partition)

    def load_all(self) -> None:
        """Those that are not there yet, of a node that leads all partitions."""
        for number in range(self._topics.internal_partition_count(self._topic)):
            self._at(TopicPartition(self._topic, number))

    def ask_all(
        self,
        ask: Callable[[Service, Callable[[Answer], None], OnError], None],
        on_reply: Callable[[list[Answer]], None],
        on_error: OnError,
    ) -> None:
        """The answers of the coordinators that are here, in any order. `on_error` gets the first error of one."""
        parts = [part for part in self if not part.runtime.is_elsewhere]
        answers: list[Answer] = []
        left, is_refused = len(parts), False

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left and not is_refused:
                on_reply(answers)

        def answered(answer: Answer) -> None:
            answers.append(answer)
            ended()

        def refused(error: StreamlogError) -> None:
            nonlocal is_refused
            if not isinstance(error, NotCoordinatorError) and not is_refused:
                is_refused = True
                on_error(error)
            ended()

        if not parts:
            on_reply([])
        for part in parts:
            ask(part.service, answered, refused)

    def _at(self, partition: TopicPartition) -> CoordinatorPart[Runtime, Service]:
        part = self._parts.get(partition.partition)
        if part is None:
            part = self._parts[partition.partition] = self._new_part(partition)
            part.service.on_role()
            part.runtime.load()
        return part

    def on_role(self, partition: TopicPartition) -> None:
        part = self._parts.get(partition.partition)
        if part is None:
            self._at(partition)
        else:
            part.service.on_role()
            part.runtime.change_role()

    def topic_changed(self) -> None:
        """The image has changed: the topic may have been deleted."""
        for part in self:
            part.runtime.topic_changed()
