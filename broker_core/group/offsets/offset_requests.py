"""Requests about a group's committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

The group, of either protocol, decides who may commit; `group_offsets` decides what can be stored. As in Kafka each
partition of a commit is accepted by itself.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_messages import UNKNOWN_MEMBER_ID
from broker_core.group.classic.classic_states import ClassicState
from broker_core.group.group_records import GroupRecord, OffsetCommitRecord, encode_group_record
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.group.offsets.offset_messages import (
    CommitReply,
    CommitRequest,
    FetchedOffset,
    FetchReply,
    FetchRequest,
)
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition


def missing_group_refusal(request: CommitRequest, *, is_transactional: bool) -> ErrorCode:
    """A commit of a client that is not a member creates the group; a member of a missing group is refused."""
    if request.generation_id < 0:
        return ErrorCode.none
    if request.knows_missing_groups and not is_transactional:
        return ErrorCode.group_id_not_found
    return ErrorCode.illegal_generation


def classic_refusal(group: ClassicGroup, request: CommitRequest, *, is_transactional: bool) -> ErrorCode:
    """Within a transaction the group's state does not matter, and a request without a member id is accepted: producers
    of old versions send none."""
    if request.generation_id < 0 and group.is_empty:
        return ErrorCode.none
    is_member = (
        request.generation_id >= 0 or request.member_id != UNKNOWN_MEMBER_ID or request.group_instance_id is not None
    )
    if is_member:
        refusal = group.refusal_of(request.member_id, request.group_instance_id)
        if refusal is not ErrorCode.none:
            return refusal
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
    elif not is_transactional:
        return ErrorCode.unknown_member_id
    if not is_transactional and group.state is ClassicState.COMPLETING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def plan_commit(
    offsets: GroupOffsets, request: CommitRequest, *, now_ms: int, max_record_bytes: int, takes_nameless: bool
) -> tuple[tuple[GroupRecord, ...], CommitReply]:
    """Records for the partitions that can be stored, errors for the others."""
    records: list[GroupRecord] = []
    errors: dict[TopicPartition, ErrorCode] = {}
    for partition, asked in request.offsets.items():
        try:
            planned = offsets.plan_commit(
                request.group_id,
                {partition: asked},
                now_ms=now_ms,
                topic_ids=request.topic_ids,
                takes_nameless=takes_nameless,
            )
        except StreamlogError as refusal:
            errors[partition] = refusal.error_code
        else:
            records += planned.records
            errors[partition] = ErrorCode.none
    if sum(_stored_bytes(record) for record in records) > max_record_bytes:
        return (), refused_commit(request, ErrorCode.invalid_commit_offset_size)
    return tuple(records), CommitReply(errors=errors)


def refused_commit(request: CommitRequest, error_code: ErrorCode) -> CommitReply:
    return CommitReply(errors=dict.fromkeys(request.offsets, error_code))


def fetched(offsets: GroupOffsets, request: FetchRequest) -> FetchReply:
    """With `require_stable`, offsets that an open transaction may still change are a retriable error (KIP-447)."""
    held = offsets.fetch(request.group_id, request.partitions)
    unstable = offsets.pending_partitions(request.group_id) if request.require_stable else frozenset()
    wanted = tuple(held) if request.partitions is None else request.partitions
    return FetchReply(
        offsets={
            partition: FetchedOffset(error_code=ErrorCode.unstable_offset_commit)
            if partition in unstable
            else FetchedOffset(committed=held[partition])
            if partition in held
            else FetchedOffset()
            for partition in wanted
        }
    )


def plan_delete(
    offsets: GroupOffsets, group_id: str, partitions: tuple[TopicPartition, ...]
) -> tuple[OffsetCommitRecord, ...]:
    """Tombstones for partitions with an offset, or where an open transaction may commit one."""
    known = offsets.stored(group_id, partitions).keys() | offsets.pending_partitions(group_id)
    return tuple(
        OffsetCommitRecord(group_id=group_id, partition=partition)
        for partition in sorted(set(partitions))
        if partition in known
    )


def _stored_bytes(record: GroupRecord) -> int:
    stored = encode_group_record(record, timestamp_ms=0)
    return len(stored.key or b"") + len(stored.value or b"")
