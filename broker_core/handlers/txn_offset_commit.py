"""TxnOffsetCommit (28), versions 0 to 5: a group's offsets in a transaction; they become valid when it commits.

The offsets' partition must be in the transaction, by AddOffsetsToTxn; from version 5 on this request adds it. Then the
group checks the member, from version 3 on (KIP-447), as for any commit.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.group.classic.classic_messages import NO_GENERATION, UNKNOWN_MEMBER_ID
from broker_core.group.offsets.offset_messages import CommitReply, CommitRequest
from broker_core.handlers.call import Call
from broker_core.handlers.committed_partitions import AskedPartition, answer_topics, asked_partitions
from broker_core.handlers.transaction_errors import transaction_error
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition

_FIRST_VERSION_WITH_ABORTABLE: Final = 4
_FIRST_VERSION_THAT_ADDS_PARTITIONS: Final = 5


def handle(call: Call) -> None:
    message = call.message
    may_write = call.is_allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id)
    may_read = may_write and call.is_allowed(Operation.READ, ResourceType.GROUP, message.group_id)
    asked = asked_partitions(
        call,
        message.topics,
        operation=Operation.READ,
        partitions_of=lambda topic: [(each.partition_index, each) for each in topic.partitions],
        must_exist=True,
    )
    if not may_read:
        refusal = ErrorCode.group_authorization_failed if may_write else ErrorCode.transactional_id_authorization_failed
        call.respond(topics=answer_topics(asked, lambda each: {"error_code": refusal}))
        return
    request = _request_of(call, asked)
    if request.offsets:
        _Commit(call, asked, request).begin()
    else:
        _respond(call, asked, CommitReply(errors={}))


class _Commit:
    """Checks the transaction, then the group's coordinator writes the offsets."""

    def __init__(self, call: Call, asked: tuple[AskedPartition, ...], request: CommitRequest) -> None:
        self._call = call
        self._asked = asked
        self._request = request
        message = call.message
        self._producer = TransactionalProducer(
            transactional_id=message.transactional_id,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
        )

    def begin(self) -> None:
        self._call.node.transactions.admit(
            self._producer,
            [self._call.node.groups.partition_of(self._request.group_id)],
            adds=self._call.version >= _FIRST_VERSION_THAT_ADDS_PARTITIONS,
            on_ready=self._admitted,
            on_error=self._refused,
        )

    def _admitted(self, outside: frozenset[TopicPartition]) -> None:
        """Writes at once, so that the markers of the transaction's end are queued after it."""
        if outside:
            knows_abortable = self._call.version >= _FIRST_VERSION_WITH_ABORTABLE
            self._refuse(ErrorCode.transaction_abortable if knows_abortable else ErrorCode.invalid_txn_state)
            return
        self._call.node.groups.of(self._request.group_id).request(
            lambda coordinator, ticket, now_ms: coordinator.on_txn_commit_offsets(ticket, self._request, now_ms),
            lambda reply: _respond(self._call, self._asked, reply),
            self._refused,
            producer=ProducerIdAndEpoch(
                producer_id=self._producer.producer_id, producer_epoch=self._producer.producer_epoch
            ),
        )

    def _refused(self, error: StreamlogError) -> None:
        self._refuse(transaction_error(error, knows_fenced=False))

    def _refuse(self, error_code: ErrorCode) -> None:
        _respond(self._call, self._asked, CommitReply(errors=dict.fromkeys(self._request.offsets, error_code)))


def _request_of(call: Call, asked: tuple[AskedPartition, ...]) -> CommitRequest:
    offsets: dict[TopicPartition, GroupOffset] = {}
    topic_ids = {}
    for each in asked:
        if each.partition is None or each.error_code is not ErrorCode.none:
            continue
        offsets[each.partition] = GroupOffset(
            offset=each.asked.committed_offset,
            metadata=each.asked.committed_metadata or "",
            leader_epoch=getattr(each.asked, "committed_leader_epoch", -1),
        )
        if each.topic_id is not None:
            topic_ids[each.partition.topic] = each.topic_id
    return CommitRequest(
        group_id=call.message.group_id,
        generation_id=call.request_field("generation_id", NO_GENERATION),
        member_id=call.request_field("member_id", UNKNOWN_MEMBER_ID),
        group_instance_id=call.request_field("group_instance_id", None),
        offsets=offsets,
        topic_ids=topic_ids,
    )


def _respond(call: Call, asked: tuple[AskedPartition, ...], reply: CommitReply) -> None:
    def error_of(each: AskedPartition) -> ErrorCode:
        if each.error_code is not ErrorCode.none or each.partition is None:
            return each.error_code
        return reply.errors[each.partition]

    call.respond(topics=answer_topics(asked, lambda each: {"error_code": error_of(each)}))
