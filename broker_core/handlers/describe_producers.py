"""DescribeProducers (61), version 0: who has written to a partition, and who has a transaction open in it (KIP-664)."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.log.producer_state import ProducerEntry
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition


def handle(call: Call) -> None:
    answers = []
    for topic in call.message.topics:
        is_allowed = call.is_allowed(Operation.READ, ResourceType.TOPIC, topic.name)
        partitions = [
            {"partition_index": number, **_producers_of(call, topic.name, number, is_allowed=is_allowed)}
            for number in topic.partition_indexes
        ]
        answers.append({"name": topic.name, "partitions": partitions})
    call.respond(topics=answers)


def _producers_of(call: Call, name: str, number: int, *, is_allowed: bool) -> dict[str, Any]:
    if not is_allowed:
        return {"error_code": ErrorCode.topic_authorization_failed}
    try:
        entries = call.node.replicas.get(TopicPartition(name, number)).producer_entries()
    except StreamlogError as trouble:
        return {"error_code": trouble.error_code, "error_message": trouble.message}
    return {"active_producers": [_shown(entry) for entry in entries.values()]}


def _shown(entry: ProducerEntry) -> dict[str, Any]:
    first_offset = entry.transaction_first_offset
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "last_sequence": entry.last_sequence,
        "last_timestamp": entry.last_timestamp_ms,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_start_offset": -1 if first_offset is None else first_offset,
    }
