"""OffsetForLeaderEpoch (23), versions 2 to 4: the end offset of a leader epoch, by which a client detects truncation
(KIP-101, KIP-320)."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.handlers.leader_epochs import refused_epoch
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition

_UNKNOWN: Final[dict[str, Any]] = {"leader_epoch": -1, "end_offset": -1}


def handle(call: Call) -> None:
    is_peer = call.is_allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    answers = []
    for topic in call.message.topics:
        is_allowed = is_peer or call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        partitions = [
            {"partition": partition.partition, **_end_of(call, topic.topic, partition, is_allowed=is_allowed)}
            for partition in topic.partitions
        ]
        answers.append({"topic": topic.topic, "partitions": partitions})
    call.respond(topics=answers)


def _end_of(call: Call, name: str, partition: Any, *, is_allowed: bool) -> dict[str, Any]:
    if not is_allowed:
        return _UNKNOWN | {"error_code": ErrorCode.topic_authorization_failed}
    try:
        replica = call.node.replicas.get(TopicPartition(name, partition.partition))
        refused = refused_epoch(partition.current_leader_epoch, replica.leader_epoch)
        if refused is not None:
            return _UNKNOWN | {"error_code": refused}
        epoch, end_offset = replica.end_offset_for_epoch(partition.leader_epoch)
    except StreamlogError as error:
        return _UNKNOWN | {"error_code": error.error_code}
    return {"error_code": ErrorCode.none, "leader_epoch": epoch, "end_offset": end_offset}
