"""DescribeTransactions (65), version 0: the coordinator's state of transactional ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.txn.txn_records import TransactionValue


def handle(call: Call) -> None:
    asked = call.message.transactional_ids
    allowed = {
        each: call.is_allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each) for each in dict.fromkeys(asked)
    }

    def described(values: Mapping[str, TransactionValue]) -> None:
        call.respond(transaction_states=[_state(call, each, allowed[each], values.get(each)) for each in asked])

    def refused(error: StreamlogError) -> None:
        call.respond(
            transaction_states=[
                _refusal(each, error.error_code if allowed[each] else ErrorCode.transactional_id_authorization_failed)
                for each in asked
            ]
        )

    call.node.transactions.describe([each for each in allowed if allowed[each]], described, refused)


def _state(call: Call, transactional_id: str, is_allowed: bool, value: TransactionValue | None) -> dict[str, Any]:
    if not is_allowed:
        return _refusal(transactional_id, ErrorCode.transactional_id_authorization_failed)
    if not transactional_id:
        return _refusal(transactional_id, ErrorCode.invalid_request)
    if value is None:
        return _refusal(transactional_id, ErrorCode.transactional_id_not_found)
    topics: dict[str, list[int]] = {}
    for partition in value.partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return {
        "transactional_id": transactional_id,
        "transaction_state": value.state.label,
        "transaction_timeout": value.timeout_ms,
        "transaction_start_time": value.start_ms,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": numbers}
            for topic, numbers in topics.items()
            if call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        ],
    }


def _refusal(transactional_id: str, error_code: ErrorCode) -> dict[str, Any]:
    return {"transactional_id": transactional_id, "error_code": error_code, "producer_id": 0, "producer_epoch": 0}
