"""Who may commit and fetch the offsets of a KIP-848 group.

A member commits in its own epoch. An older epoch is accepted for partitions that the member has had since then: it may
not have received the new epoch yet (KIP-1251). A newer epoch is refused.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_messages import NO_GENERATION, UNKNOWN_MEMBER_ID
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_member import ConsumerMember
from broker_core.group.offsets.offset_messages import CommitRequest, FetchRequest
from broker_core.group.topic_view import TopicView


def commit_refusal(
    group: ConsumerGroup, request: CommitRequest, topics: TopicView, *, is_transactional: bool
) -> ErrorCode:
    """The error for all offsets of the commit; `none` if it is allowed."""
    if request.generation_id < 0 and not group.members:
        return ErrorCode.none
    has_no_member = request.member_id == UNKNOWN_MEMBER_ID and request.group_instance_id is None
    if is_transactional and request.generation_id == NO_GENERATION and has_no_member:
        return ErrorCode.none
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if not is_transactional and not member.is_classic and not request.knows_missing_groups:
        return ErrorCode.unsupported_version
    if request.generation_id == member.epoch or _owned_since_then(member, request, topics):
        return ErrorCode.none
    # Transactional producers only know the error of the classic protocol.
    return ErrorCode.illegal_generation if is_transactional else _wrong_epoch(member)


def fetch_refusal(group: ConsumerGroup, request: FetchRequest) -> ErrorCode:
    """`none` for a request without a member id."""
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.none
    member = group.members.get(request.member_id or UNKNOWN_MEMBER_ID)
    if member is None:
        return ErrorCode.unknown_member_id
    return ErrorCode.none if request.member_epoch == member.epoch else _wrong_epoch(member)


def _owned_since_then(member: ConsumerMember, request: CommitRequest, topics: TopicView) -> bool:
    if request.generation_id > member.epoch:
        return False
    for each in request.offsets:
        topic_id = request.topic_ids.get(each.topic) or topics.id_of(each.topic)
        since = None if topic_id is None else member.owned_since(topic_id, each.partition)
        if since is None or request.generation_id < since:
            return False
    return True


def _wrong_epoch(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.illegal_generation if member.is_classic else ErrorCode.stale_member_epoch
