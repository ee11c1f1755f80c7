"""The resources that have settings, by their numbers in the protocol, and the access that each needs."""

from __future__ import annotations

import enum
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.model.exceptions import InvalidRequestError


class ResourceKind(enum.IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_KNOWN: Final = frozenset(map(int, ResourceKind))


def is_known(kind: int) -> bool:
    return kind in _KNOWN


_GUARDED_BY: Final = {
    ResourceKind.TOPIC: (ResourceType.TOPIC, ErrorCode.topic_authorization_failed),
    ResourceKind.GROUP: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
}


def is_allowed_to_describe(call: Call, kind: int, name: str) -> ErrorCode | None:
    """The refusal; None: allowed."""
    return _refusal(call, Operation.DESCRIBE_CONFIGS, kind, name)


def is_allowed_to_alter(call: Call, kind: int, name: str) -> ErrorCode | None:
    """The refusal; None: allowed."""
    return _refusal(call, Operation.ALTER_CONFIGS, kind, name)


def refusal_of_kind(kind: int) -> InvalidRequestError:
    """The error for resources that have no settings here."""
    return InvalidRequestError(
        f"Unexpected resource type {_name_of(kind)}: only topics, brokers and groups have settings"
    )


def _refusal(call: Call, operation: Operation, kind: int, name: str) -> ErrorCode | None:
    resource_type, refusal = _GUARDED_BY.get(
        ResourceKind(kind) if is_known(kind) else ResourceKind.BROKER,
        (ResourceType.CLUSTER, ErrorCode.cluster_authorization_failed),
    )
    named = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else name
    return None if call.is_allowed(operation, resource_type, named) else refusal


def _name_of(kind: int) -> str:
    return ResourceKind(kind).name if is_known(kind) else str(kind)
