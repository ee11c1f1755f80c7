"""What administrators ask of a cluster: where partitions are, other replicas, elections, its brokers.

    with open_admin(settings) as admin: ...

Any broker passes what changes the cluster on to the active controller. An answer tells what the controller decided;
brokers' metadata follow a moment later.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.client.partition_placements import PartitionPlacement, describe_placements
from broker_core.client.wire_values import numbers_by_topic, remaining
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import StreamlogError, UnsupportedVersionError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.message_builder import build

Outcomes = dict[TopicPartition, StreamlogError | None]
"""What became of each partition: an error, or None for success."""


class ElectionKind(enum.IntEnum):
    """Kafka's numbers."""

    PREFERRED = 0
    """The first replica leads again, if it is in sync."""
    UNCLEAN = 1
    """A partition without a leader gets any live replica: records that it does not have are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """One that goes on. `replicas` holds all of them, those to come and those to go."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """`is_fenced` is None if the brokers are too old to tell; those that are fenced are missing then."""

    broker_id: int
    address: BrokerAddress
    rack: str | None
    is_fenced: bool | None


@contextmanager
def open_admin(settings: ClientSettings) -> Iterator[ClusterAdmin]:
    admin = ClusterAdmin(settings)
    try:
        yield admin
    finally:
        admin.close()


class ClusterAdmin:
    """Calls raise as those of `ClusterClient` do."""

    def __init__(self, settings: ClientSettings) -> None:
        self._router = BrokerRouter(settings)

    def close(self) -> None:
        self._router.close()

    def placements(self, names: Collection[str] | None = None) -> list[PartitionPlacement]:
        """Of these topics, or of all, by topic and number. Raises UnknownTopicError."""
        return self._router.run(
            "describe partitions", lambda deadline: describe_placements(self._router, names, deadline)
        )

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Gives partitions these replicas, the preferred leader first; None calls a reassignment off."""
        from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest

        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": number, "replicas": targets[TopicPartition(topic, number)]}
                    for number in numbers
                ],
            }
            for topic, numbers in numbers_by_topic(targets).items()
        ]
        what = "reassign partitions"

        def attempt(deadline: Deadline) -> Outcomes:
            values = {"topics": topics, "timeout": self._timeout(deadline)}
            answer = self._router.ask_any(build(AlterPartitionReassignmentsRequest, values), deadline)
            _require(answer, what)
            return _outcomes(
                (TopicPartition(str(topic.name), int(each.partition_index)), each)
                for topic in answer.responses
                for each in topic.partitions
            )

        return self._router.run(what, attempt)

    def reassignments(self) -> list[Reassignment]:
        """All that go on, by topic and number."""
        from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

        what = "list reassignments"

        def attempt(deadline: Deadline) -> list[Reassignment]:
            values = {"topics": None, "timeout": self._timeout(deadline)}
            answer = self._router.ask_any(build(ListPartitionReassignmentsRequest, values), deadline)
            _require(answer, what)
            found = [
                Reassignment(
                    partition=TopicPartition(str(topic.name), int(each.partition_index)),
                    replicas=tuple(map(int, each.replicas)),
                    adding=tuple(map(int, each.adding_replicas)),
                    removing=tuple(map(int, each.removing_replicas)),
                )
                for topic in answer.topics
                for each in topic.partitions
            ]
            return sorted(found, key=lambda each: each.partition)

        return self._router.run(what, attempt)

    def elect(self, kind: ElectionKind, partitions: Collection[TopicPartition] | None) -> Outcomes:
        """None: every partition that needs it; the others are missing from the answer."""
        from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

        topics = None
        if partitions is not None:
            grouped = numbers_by_topic(partitions).items()
            topics = [{"topic": topic, "partitions": numbers} for topic, numbers in grouped]
        what = f"{kind.name.lower()} leader election"

        def attempt(deadline: Deadline) -> Outcomes:
            values = {"election_type": kind, "topic_partitions": topics, "timeout": self._timeout(deadline)}
            answer = self._router.ask_any(build(ElectLeadersRequest, values), deadline)
            _require(answer, what)
            return _outcomes(
                (TopicPartition(str(topic.topic), int(each.partition_id)), each)
                for topic in answer.replica_election_results
                for each in topic.partition_result
            )

        return self._router.run(what, attempt)

    def brokers(self) -> list[RegisteredBroker]:
        """By id."""
        what = "describe the cluster"

        def attempt(deadline: Deadline) -> list[RegisteredBroker]:
            answer = self._described_cluster(deadline)
            _require(answer, what)
            found = [
                RegisteredBroker(
                    broker_id=int(each.broker_id),
                    address=BrokerAddress(host=each.host, port=int(each.port)),
                    rack=each.rack,
                    is_fenced=getattr(each, "is_fenced", None),
                )
                for each in answer.brokers
            ]
            return sorted(found, key=lambda each: each.broker_id)

        return self._router.run(what, attempt)

    def unregister(self, broker_id: int) -> None:
        from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

        what = f"unregister broker {broker_id}"

        def attempt(deadline: Deadline) -> None:
            request = build(UnregisterBrokerRequest, {"broker_id": broker_id})
            _require(self._router.ask_any(request, deadline), what)

        self._router.run(what, attempt)

    def _described_cluster(self, deadline: Deadline) -> Any:
        """With fenced brokers where they can be asked for (Kafka 4.0 and newer)."""
        from kio.schema.describe_cluster.v0.request import DescribeClusterRequest as OldRequest
        from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

        try:
            return self._router.ask_any(build(DescribeClusterRequest, {"include_fenced_brokers": True}), deadline)
        except UnsupportedVersionError:
            return self._router.ask_any(build(OldRequest, {}), deadline)

    def _timeout(self, deadline: Deadline) -> Any:
        return remaining(deadline, self._router.settings.request_timeout_ms)


def _require(answer: Any, what: str) -> None:
    if answer.error_code != ErrorCode.none:
        raise broker_error(answer.error_code, what, getattr(answer, "error_message", None))


def _outcomes(results: Iterable[tuple[TopicPartition, Any]]) -> Outcomes:
    return {
        partition: None
        if each.error_code == ErrorCode.none
        else broker_error(each.error_code, str(partition), each.error_message)
        for partition, each in results
    }
