"""The state of the metadata quorum, asked of a broker or of the controllers themselves (DescribeQuorum)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.broker_errors import broker_error
from broker_core.client.deadline import Deadline
from broker_core.client.quorum_leader import ask_leader
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import MalformedMessageError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.protocol.message_builder import build


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or an observer. Times are ms since 1970, -1 if unknown; a static voter has no directory."""

    node_id: int
    directory_id: UUID | None
    is_voter: bool
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """As the leader sees it. `listeners`: the addresses of the voters' controllers."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    replicas: Sequence[QuorumReplica]
    listeners: dict[int, Sequence[BrokerAddress]]

    def lag_of(self, replica: QuorumReplica) -> int:
        """How many records the replica is behind the leader."""
        ends = [each.log_end_offset for each in self.replicas if each.node_id == self.leader_id]
        return max(max(ends, default=0) - replica.log_end_offset, 0)


def describe_quorum(settings: ClientSettings) -> QuorumDescription:
    """Raises the last RemoteError if none of the bootstrap servers can tell."""
    return ask_leader(settings, _described)


def _described(connection: BrokerConnection, deadline: Deadline) -> QuorumDescription:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest

    topics = [{"topic_name": CLUSTER_METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    (answer,) = connection.ask([build(DescribeQuorumRequest, {"topics": topics})], deadline)
    what = f"{connection.address}: DescribeQuorum"
    if answer.error_code is not ErrorCode.none:
        raise broker_error(answer.error_code, what, answer.error_message)
    if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
        raise MalformedMessageError(f"{what}: the answer is not about one partition")
    partition = answer.topics[0].partitions[0]
    if partition.error_code is not ErrorCode.none:
        raise broker_error(partition.error_code, what, partition.error_message)
    voters = [_replica(each, is_voter=True) for each in partition.current_voters]
    observers = [_replica(each, is_voter=False) for each in partition.observers]
    return QuorumDescription(
        leader_id=int(partition.leader_id),
        leader_epoch=int(partition.leader_epoch),
        high_watermark=int(partition.high_watermark),
        replicas=(*voters, *observers),
        listeners={
            int(node.node_id): tuple(BrokerAddress(host=each.host, port=each.port) for each in node.listeners)
            for node in answer.nodes
        },
    )


def _replica(found: Any, *, is_voter: bool) -> QuorumReplica:
    return QuorumReplica(
        node_id=int(found.replica_id),
        directory_id=found.replica_directory_id,
        is_voter=is_voter,
        log_end_offset=int(found.log_end_offset),
        last_fetch_ms=int(found.last_fetch_timestamp),
        last_caught_up_ms=int(found.last_caught_up_timestamp),
    )
