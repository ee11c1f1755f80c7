"""The state of the metadata quorum, asked of a broker or of the controllers themselves (DescribeQuorum).

A broker passes the request on to the active controller. Of controllers only the active one answers; another one is
asked who leads (DescribeCluster), and then that one is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.broker_errors import broker_error
from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.client.unreachable_warning import trying_next
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import MalformedMessageError, RemoteError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.protocol.message_builder import build

Answer = TypeVar("Answer")

_CONTROLLERS: Final = 2
"""The endpoint type that a controller answers DescribeCluster for."""
_NOT_LEADING: Final = (ErrorCode.not_leader_or_follower, ErrorCode.not_controller)


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
    """Asks the bootstrap servers in turn, and the leader that a controller names. Raises the last one's RemoteError if
    none can tell."""

    def asked(pool: ConnectionPool, connection: BrokerConnection, deadline: Deadline) -> QuorumDescription:
        try:
            return _described(connection, deadline)
        except RemoteError as error:
            leader = _leader_named_by(connection, deadline) if error.error_code in _NOT_LEADING else None
            if leader is None:
                raise
        return _described(pool.connection(leader, deadline, then=None), deadline)

    return _first_answer(settings, asked)


def cluster_id_of(settings: ClientSettings) -> str:
    """The id of the cluster that the controllers belong to. Raises as `describe_quorum`."""
    return _first_answer(settings, lambda _, connection, deadline: str(_controllers(connection, deadline).cluster_id))


def _controllers(connection: BrokerConnection, deadline: Deadline) -> Any:
    """The answer of a controller to DescribeCluster."""
    from kio.schema.describe_cluster.v1.request import DescribeClusterRequest

    request = build(DescribeClusterRequest, {"endpoint_type": _CONTROLLERS})
    (answer,) = connection.ask([request], deadline)
    if answer.error_code is not ErrorCode.none:
        raise broker_error(answer.error_code, f"{connection.address}: DescribeCluster", answer.error_message)
    return answer


def _leader_named_by(connection: BrokerConnection, deadline: Deadline) -> BrokerAddress | None:
    found = _controllers(connection, deadline)
    for each in found.brokers:
        if each.broker_id == found.controller_id:
            return BrokerAddress(host=each.host, port=each.port)
    return None


def _first_answer(
    settings: ClientSettings, ask: Callable[[ConnectionPool, BrokerConnection, Deadline], Answer]
) -> Answer:
    deadline = Deadline(settings.api_timeout_ms, setting="default.api.timeout.ms")
    pool = ConnectionPool(settings)
    last_error: RemoteError | None = None
    try:
        for address, following in zip_longest(settings.bootstrap_servers, settings.bootstrap_servers[1:]):
            then = None if following is None else trying_next(following)
            try:
                return ask(pool, pool.connection(address, deadline, then=then), deadline)
            except RemoteError as error:
                last_error = error
    finally:
        pool.close()
    assert last_error is not None, "there is a bootstrap server"
    raise last_error


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
