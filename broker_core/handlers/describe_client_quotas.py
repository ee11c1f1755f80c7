"""DescribeClientQuotas (48), versions 0 and 1: quotas of users, client ids and addresses (KIP-546).

An entity is found if it has all types of the filter, each with the wanted name, the default, or any; a strict filter
finds no entity with further types. Needs DESCRIBE_CONFIGS on the cluster. A contradictory filter is refused.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"


class _Match(enum.IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


_INVALID: Final = ErrorCode.invalid_request


def handle(call: Call) -> None:
    if not is_whole_request_allowed(call):
        call.respond(error_code=ErrorCode.cluster_authorization_failed, error_message=NOT_AUTHORIZED, entries=None)
        return
    refusal = _refusal(call.message.components)
    if refusal is not None:
        error_code, error_message = refusal
        call.respond(error_code=error_code, error_message=error_message, entries=None)
        return
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": key, "value": value} for key, value in quotas.items()],
        }
        for entity, quotas in call.node.topics.image.client_quotas.by_entity.items()
        if _is_found(dict(entity), call.message)
    ]
    call.respond(error_code=ErrorCode.none, error_message="", entries=entries)


def _is_found(names: Mapping[str, str | None], message: Any) -> bool:
    if message.strict and len(names) != len(message.components):
        return False
    return all(
        component.entity_type in names
        and (component.match_type == _Match.SPECIFIED or names[component.entity_type] == component.match)
        for component in message.components
    )


def _refusal(components: Sequence[Any]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for component in components:
        refusal = _refusal_of_one(component, seen)
        if refusal is not None:
            return refusal
        seen.add(component.entity_type)
    if _IP in seen and seen & {_USER, _CLIENT_ID}:
        return _INVALID, (
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return None


def _refusal_of_one(component: Any, seen: set[str]) -> tuple[ErrorCode, str] | None:
    entity_type, match_type = component.entity_type, component.match_type
    if entity_type in seen:
        return _INVALID, f"Entity type {entity_type} cannot appear more than once in the filter."
    if not entity_type:
        return _INVALID, "Invalid empty entity type."
    if entity_type not in (_USER, _CLIENT_ID, _IP):
        return ErrorCode.unsupported_version, f"Unsupported entity type {entity_type}"
    if match_type not in tuple(_Match):
        return _INVALID, f"Unknown match type {match_type}"
    name = f"MATCH_TYPE_{_Match(match_type).name}"
    if match_type == _Match.EXACT and component.match is None:
        return _INVALID, f"Request specified {name}, but set match string to null."
    if match_type != _Match.EXACT and component.match is not None:
        return _INVALID, f"Request specified {name}, but also specified a match string."
    return None
