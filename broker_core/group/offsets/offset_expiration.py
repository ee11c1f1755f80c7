"""Which committed offsets expire, and which groups with them: Kafka's rule after KIP-211.

    group                                        an offset expires offsets.retention.minutes after
    classic, with a protocol, Empty              the group became empty (old records do not contain that time: after
                                                 the commit)
    classic, of consumers, Stable                the commit, if no member subscribes to the topic
    classic, without a protocol type             the commit: only simple consumers use it
    of KIP-848                                   the commit, if no member subscribes to the topic
    any other                                    never

Offsets that an open transaction may change stay, and so do live retention pins and decisions of a sink. A group ends
with its last offset if it has no members and no member id is assigned but unused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker_core.cluster import GroupOffset
from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_group_records import NO_STATE_TIMESTAMP
from broker_core.group.classic.classic_states import ClassicState
from broker_core.group.group_records import OffsetCommitRecord
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.identifiers import OWN_GROUP_PREFIXES, TopicPartition
from broker_core.model.retention_pin import pinned_until_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredOffsets:
    """`leaves_nothing`: the group has no offset left, and no transaction may add one."""

    tombstones: tuple[OffsetCommitRecord, ...] = ()
    leaves_nothing: bool


def expires_since_ms(group: ClassicGroup) -> Callable[[GroupOffset], int] | None:
    """Offsets of the group that were committed before this time expire; None: they do not expire now."""
    if group.protocol_type is None:
        return since_commit
    if group.is_empty:
        empty_since_ms = group.state_timestamp_ms
        return since_commit if empty_since_ms == NO_STATE_TIMESTAMP else lambda committed: empty_since_ms
    if group.is_consumer_group and group.knows_its_topics and group.state is ClassicState.STABLE:
        return since_commit
    return None


def since_commit(committed: GroupOffset) -> int:
    """Always set for groups of KIP-848."""
    return committed.commit_time_ms


def expired_offsets(
    offsets: GroupOffsets,
    group_id: str,
    *,
    since_ms: Callable[[GroupOffset], int] | None,
    is_subscribed_to: Callable[[str], bool],
    retention_ms: int,
    now_ms: int,
) -> ExpiredOffsets:
    held, pending = offsets.stored(group_id), offsets.pending_partitions(group_id)

    def is_old(partition: TopicPartition, committed: GroupOffset) -> bool:
        if since_ms is None or group_id.startswith(OWN_GROUP_PREFIXES):
            return False
        if partition in pending or is_subscribed_to(partition.topic):
            return False
        if (pinned_until_ms(committed.metadata) or 0) > now_ms:
            return False
        return now_ms - since_ms(committed) >= retention_ms

    gone = [partition for partition, committed in held.items() if is_old(partition, committed)]
    return ExpiredOffsets(
        tombstones=tuple(OffsetCommitRecord(group_id=group_id, partition=partition) for partition in gone),
        leaves_nothing=len(gone) == len(held) and not pending,
    )
