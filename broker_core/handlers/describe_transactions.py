"""DescribeTransactions (65), version 0: the coordinator's state of transactional ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.txn.txn_records import TransactionValue


def handle(call: Call) -> None:
    asked = call.message.transactional_ids
    gathered = GatheredAnswers(
        asked, lambda answers: call.respond(transaction_states=[answers[each] for each in asked])
    )
    for each in dict.fromkeys(asked):
        _describe(call, each, partial(gathered.add, each))


def _describe(call: Call, transactional_id: str, answer: Callable[[dict[str, Any]], None]) -> None:
    def described(value: TransactionValue | None) -> None:
        answer(_state(call, transactional_id, value))

    def refused(error: StreamlogError) -> None:
        answer(_refusal(transactional_id, error.error_code))

    if not call.is_allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        answer(_refusal(transactional_id, ErrorCode.transactional_id_authorization_failed))
    elif not transactional_id:
        answer(_refusal(transactional_id, ErrorCode.invalid_request))
    else:
        call.node.transactions.of(transactional_id).value_of(transactional_id, described, refused)


def _state(call: Call, transactional_id: str, value: TransactionValue | None) -> dict[str, Any]:
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
