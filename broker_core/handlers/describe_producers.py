"""DescribeProducers (61), version 0: the producers of a partition and their open transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.broker.partition.replica import Replica
from broker_core.handlers.call import Call
from broker_core.log.producer_entry import ProducerEntry
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import validate_topic_name


def handle(call: Call) -> None:
    topics: list[dict[str, Any]] = []
    left = 1

    def looked_at() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            call.respond(topics=topics)

    for topic in call.message.topics:
        is_allowed = call.is_allowed(Operation.READ, ResourceType.TOPIC, topic.name)
        partitions: list[dict[str, Any]] = [{"partition_index": number} for number in topic.partition_indexes]
        topics.append({"name": topic.name, "partitions": partitions})
        for answer in partitions:
            left += 1
            if is_allowed:
                _look_at(call, topic.name, answer, looked_at)
            else:
                answer["error_code"] = ErrorCode.topic_authorization_failed
                looked_at()
    looked_at()


def _look_at(call: Call, name: str, answer: dict[str, Any], looked_at: Callable[[], None]) -> None:
    """Completes the answer, at once or when the producers were read."""

    def known(replica: Replica) -> None:
        answer["active_producers"] = [_shown(entry) for entry in replica.producer_entries().values()]
        looked_at()

    def failed(error: StreamlogError) -> None:
        answer.update(error_code=error.error_code, error_message=error.message)
        looked_at()

    try:
        validate_topic_name(name)
        replica = call.node.replicas.get(TopicPartition(name, answer["partition_index"]))
    except StreamlogError as error:
        failed(error)
        return
    replica.when_producers_known(lambda: known(replica), failed)


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
