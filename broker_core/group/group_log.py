"""`__consumer_offsets` as a coordinator's log: of all that groups are, or of their offsets alone."""

from __future__ import annotations

from collections.abc import Callable

from broker_core.coordinator.coordinator_kind import CoordinatorKind
from broker_core.group.coordinator_records import (
    AnyGroupRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_records import GroupRecord, decode_group_record, encode_group_record
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.identifiers import TopicPartition


def groups_kind(
    partition: TopicPartition, begin: Callable[[], GroupCoordinator]
) -> CoordinatorKind[GroupCoordinator, AnyGroupRecord]:
    return CoordinatorKind(
        partition=partition,
        begin=begin,
        encode=encode_coordinator_record,
        decode=decode_coordinator_record,
        replay=lambda coordinator, record, offset, producer_id: coordinator.replay(
            record, record_offset=offset, producer_id=producer_id
        ),
        replay_marker=lambda coordinator, producer_id, is_commit: coordinator.replay_marker(
            producer_id, is_commit=is_commit
        ),
    )


def offsets_kind(
    partition: TopicPartition, begin: Callable[[], GroupOffsets]
) -> CoordinatorKind[GroupOffsets, GroupRecord]:
    """Members need a server to meet at; offsets do not."""
    return CoordinatorKind(
        partition=partition,
        begin=begin,
        encode=encode_group_record,
        decode=decode_group_record,
        replay=lambda offsets, record, offset, producer_id: offsets.replay(
            record, record_offset=offset, producer_id=producer_id
        ),
        replay_marker=lambda offsets, producer_id, is_commit: offsets.replay_marker(producer_id, is_commit=is_commit),
    )
