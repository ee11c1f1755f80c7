"""WriteTxnMarkers (27), versions 1 and 2: writes markers, whatever the coordinator's state of the transaction is.

Coordinators of a larger cluster use it among themselves; here an administrator's tool (kafka-transactions.sh abort)
uses it to end a hanging transaction. The markers are durable when it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.record.control_records import EndTransactionMarker

Place = tuple[int, TopicPartition]
"""A marker's number in the request, and a partition of it."""


def handle(call: Call) -> None:
    places = [
        (slot, TopicPartition(topic.name, number))
        for slot, marker in enumerate(call.message.markers)
        for topic in marker.topics
        for number in topic.partition_indexes
    ]
    is_allowed = call.is_allowed(Operation.ALTER, ResourceType.CLUSTER, log_if_denied=False) or call.is_allowed(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER
    )
    if not is_allowed or not places:
        _respond(call, dict.fromkeys(places, ErrorCode.cluster_authorization_failed))
        return
    wanted = dict.fromkeys(places)
    errors: dict[Place, ErrorCode] = {}

    def answer(place: Place, error_code: ErrorCode) -> None:
        errors[place] = error_code
        if len(errors) == len(wanted):
            _respond(call, errors)

    for place in wanted:
        _write(call, place, answer)


def _write(call: Call, place: Place, answer: Callable[[Place, ErrorCode], None]) -> None:
    slot, partition = place
    asked = call.message.markers[slot]
    topic = call.node.topics.image.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < topic.partition_count:
        answer(place, ErrorCode.unknown_topic_or_partition)
        return

    def refused(error: StreamlogError) -> None:
        answer(place, error.error_code)

    call.node.transactions.write_marker(
        partition,
        ProducerIdAndEpoch(producer_id=asked.producer_id, producer_epoch=asked.producer_epoch),
        EndTransactionMarker(is_commit=asked.transaction_result, coordinator_epoch=asked.coordinator_epoch),
        on_done=lambda: answer(place, ErrorCode.none),
        on_error=refused,
    )


def _respond(call: Call, errors: dict[Place, ErrorCode]) -> None:
    call.respond(markers=[_marker_result(slot, marker, errors) for slot, marker in enumerate(call.message.markers)])


def _marker_result(slot: int, marker: Any, errors: dict[Place, ErrorCode]) -> dict[str, Any]:
    return {
        "producer_id": marker.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": number, "error_code": errors[slot, TopicPartition(topic.name, number)]}
                    for number in topic.partition_indexes
                ],
            }
            for topic in marker.topics
        ],
    }
