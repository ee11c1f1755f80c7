"""The group coordinators of a node, one for each partition of `__consumer_offsets`.

of(group)       the coordinator of a group; it refuses if another broker has it
look_all        a question to all that are here
append_marker   the end of a transaction with committed offsets, in one partition
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.coordinator_partitions import CoordinatorPart, CoordinatorPartitions
from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.coordination.group_service import GroupService
from broker_core.group.coordinator_records import AnyGroupRecord
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.record.control_records import EndTransactionMarker

Answer = TypeVar("Answer")
_Runtime = CoordinatorRuntime[GroupCoordinator, AnyGroupRecord]
GroupPart = CoordinatorPart[_Runtime, GroupService]
GroupPartitions = CoordinatorPartitions[_Runtime, GroupService]


class GroupCoordinators:
    """Runs on the node's loop."""

    def __init__(self, partitions: GroupPartitions) -> None:
        self.partitions = partitions

    def of(self, group_id: str) -> GroupService:
        return self.partitions.of(group_id).service

    def partition_of(self, group_id: str) -> TopicPartition:
        """Where the group's offsets are."""
        return self.partitions.partition_of(group_id)

    @property
    def waiting_count(self) -> int:
        """Requests that are parked or waiting for the disk."""
        return sum(part.service.waiting_count for part in self.partitions)

    def look_all(
        self,
        question: Callable[[GroupCoordinator], Sequence[Answer]],
        on_reply: Callable[[list[Answer]], None],
        on_error: OnError,
    ) -> None:
        """The answers of all coordinators here, one behind the other; `on_error` gets CoordinatorLoadingError."""

        def answered(parts: Sequence[Sequence[Answer]]) -> None:
            on_reply([answer for part in parts for answer in part])

        self.partitions.ask_all(
            lambda service, on_reply, on_error: service.look(question, on_reply, on_error), answered, on_error
        )

    def append_marker(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """See `CoordinatorRuntime.append_marker`; `on_error` gets UnknownPartitionError, too."""
        try:
            runtime = self.partitions.at(partition).runtime
        except StreamlogError as error:
            on_error(error)
            return
        runtime.append_marker(producer, marker, on_done, on_error)

    def forget_topic(self, topic: str, *, topic_id: UUID | None = None) -> None:
        """The topic was deleted: removes the committed offsets of all groups in it."""
        for part in self._here():
            part.service.forget_topic(topic, topic_id=topic_id)

    def topics_changed(self) -> None:
        """Topics were created, deleted or extended: KIP-848 groups may need a new target assignment."""
        for part in self._here():
            part.service.topics_changed()

    def pinned_offset(self, partition: TopicPartition, now_ms: int) -> int | None:
        """The lowest offset that a group has asked to keep; 0, so all records, until all coordinators are loaded.
        Groups whose coordinator is another broker cannot be asked."""
        unknown: int | None = 0
        offsets = [
            part.runtime.peek(lambda coordinator: coordinator.offsets.pinned_offset(partition, now_ms), unknown)
            for part in self._here()
        ]
        return min((offset for offset in offsets if offset is not None), default=None)

    def _here(self) -> list[GroupPart]:
        return [part for part in self.partitions if not part.runtime.is_elsewhere]
