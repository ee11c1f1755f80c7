"""FindCoordinator (10), versions 0 to 6: the coordinator of a group (0) or a transactional id (1).

Creates the coordinator's internal topic if it is missing. Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile; here the
answer waits for it.

From version 4 on with several keys. Share groups (2) are left out on purpose: INVALID_REQUEST, as in a Kafka without
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.cluster_view import NO_LEADER
from broker_core.handlers.call import Call
from broker_core.handlers.topic_answers import place_of
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIRST_VERSION_WITH_SEVERAL_KEYS: Final = 4
_TOPICS: Final = {_GROUP: CONSUMER_OFFSETS_TOPIC, _TRANSACTION: TRANSACTION_STATE_TOPIC}
_NO_NODE: Final = {"node_id": -1, "host": "", "port": -1}

_MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
}
"""Kafka's words."""


def handle(call: Call) -> None:
    key_type = call.request_field("key_type", _GROUP)
    is_batch = call.version >= _FIRST_VERSION_WITH_SEVERAL_KEYS
    keys = call.message.coordinator_keys if is_batch else (call.message.key,)
    is_known = any(_refusal(call, key_type, key) is ErrorCode.none for key in keys)
    if is_known and _is_topic_missing(call, key_type):
        call.node.make_topic_automatically(_TOPICS[key_type], lambda: _answer(call, key_type, keys))
    else:
        _answer(call, key_type, keys)


def _answer(call: Call, key_type: int, keys: Sequence[str]) -> None:
    found = [_coordinator_of(call, key_type, key) for key in keys]
    if call.version >= _FIRST_VERSION_WITH_SEVERAL_KEYS:
        call.respond(
            coordinators=[
                {"key": key, "error_message": _text(each), **each} for key, each in zip(keys, found, strict=True)
            ]
        )
    else:
        call.respond(error_message=_MESSAGES.get(found[0]["error_code"]), **found[0])


def _text(answer: dict[str, Any]) -> str:
    error_code = answer["error_code"]
    return _MESSAGES[error_code] if error_code is ErrorCode.invalid_request else ""


def _coordinator_of(call: Call, key_type: int, key: str) -> dict[str, Any]:
    refusal = _refusal(call, key_type, key)
    if refusal is ErrorCode.none and _is_topic_missing(call, key_type):
        refusal = ErrorCode.coordinator_not_available
    if refusal is not ErrorCode.none:
        return {"error_code": refusal, **_NO_NODE}
    coordinator = call.node.cluster.coordinator_of(_TOPICS[key_type], key)
    if coordinator == NO_LEADER:
        return {"error_code": ErrorCode.coordinator_not_available, **_NO_NODE}
    return {"error_code": ErrorCode.none, "node_id": coordinator} | place_of(call, coordinator)


def _refusal(call: Call, key_type: int, key: str) -> ErrorCode:
    if key_type == _GROUP:
        resource_type, refusal = ResourceType.GROUP, ErrorCode.group_authorization_failed
    elif key_type == _TRANSACTION:
        resource_type, refusal = ResourceType.TRANSACTIONAL_ID, ErrorCode.transactional_id_authorization_failed
    else:
        return ErrorCode.invalid_request
    return ErrorCode.none if call.is_allowed(Operation.DESCRIBE, resource_type, key) else refusal


def _is_topic_missing(call: Call, key_type: int) -> bool:
    return _TOPICS[key_type] not in call.node.topics.image.topics
