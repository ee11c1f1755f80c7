"""What the replicated partitions of a broker share, and the errors with which they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.model.exceptions import ReplicaError
from broker_core.model.identifiers import TopicPartition
from broker_core.replication.replica_messages import PartitionId
from broker_core.replication.replication_values import MemberProposal, ReplicationSettings, StandingOf


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationServices:
    """What the replicated partitions of a broker share. `watermark_of`: the stored high watermark of a partition;
    `has_folder`: whether it may have been written; `propose`: to the controller; `on_role`: called on the loop when a
    partition is led or followed in a new epoch; `on_follow`: with the leader's id, when a replica may fetch from it,
    for the first time or once more."""

    own_id: int
    settings: ReplicationSettings
    standing_of: StandingOf
    watermark_of: Callable[[TopicPartition], int]
    has_folder: Callable[[TopicPartition], bool]
    propose: Callable[[PartitionId, MemberProposal], None]
    on_role: Callable[[TopicPartition], None]
    on_follow: Callable[[int], None]


_REFUSALS: Final = {
    ErrorCode.not_leader_or_follower: "this broker does not lead the partition",
    ErrorCode.not_enough_replicas: "fewer replicas are in sync than min.insync.replicas",
    ErrorCode.not_enough_replicas_after_append: "it was appended, and fewer replicas are in sync than"
    " min.insync.replicas",
}


def replica_refusal(partition: TopicPartition, error: ErrorCode) -> ReplicaError:
    return ReplicaError(f"{partition}: {_REFUSALS.get(error, error.name)}", error_code=error)
