"""Quotas of clients are changed, as plans; checks and texts are those of Kafka's ClientQuotaControlManager.

Quotas belong to users, client ids, both together, or addresses; a name of None is the default of its type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.client_quotas import ClientQuotas
from broker_core.metadata.metadata_records import ClientQuotaRecord, EntityData, MetadataRecord
from broker_core.model.exceptions import InvalidRequestError, StreamlogError
from broker_core.quota.connection_rates import plain_address

USER, CLIENT_ID, IP = "user", "client-id", "ip"
_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1
_OF_CLIENTS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""The largest whole number that a quota may be; None: any number."""
_OF_ADDRESSES: Final[Mapping[str, int | None]] = {"connection_creation_rate": _INT_MAX}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """A value of None removes the quota."""

    key: str
    value: float | None


def plan_alterations(quotas: ClientQuotas, message: Any) -> CoordinatorResult[MetadataRecord, dict[str, Any]]:
    """All of an AlterClientQuotas request; what is refused of an entity is its own answer."""
    records: list[MetadataRecord] = []
    answers = []
    seen = set()
    for entry in message.entries:
        entity = tuple((part.entity_type, part.entity_name) for part in entry.entity)
        answer: dict[str, Any] = {"error_message": None, "entity": _named(entry)}
        try:
            if frozenset(entity) in seen:
                raise InvalidRequestError("An entity is there twice")
            seen.add(frozenset(entity))
            changes = [QuotaChange(key=op.key, value=None if op.remove else op.value) for op in entry.ops]
            records += plan_quota_changes(quotas, entity, changes).records
        except StreamlogError as error:
            answer |= {"error_code": error.error_code, "error_message": error.message}
        answers.append(answer)
    return CoordinatorResult(records=() if message.validate_only else tuple(records), reply={"entries": answers})


def refuse_alterations(message: Any, error_code: ErrorCode, text: str) -> dict[str, Any]:
    return {
        "entries": [
            {"error_code": error_code, "error_message": text, "entity": _named(entry)} for entry in message.entries
        ]
    }


def _named(entry: Any) -> list[dict[str, Any]]:
    return [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]


def plan_quota_changes(
    quotas: ClientQuotas, entity: Sequence[tuple[str, str | None]], changes: Sequence[QuotaChange]
) -> CoordinatorResult[MetadataRecord, None]:
    """Of one entity, (type, name) each. Raises InvalidRequestError."""
    keys = _keys_of(entity)
    by_type = dict(entity)
    current = quotas.by_entity.get(tuple((kind, by_type[kind]) for kind in sorted(by_type)), {})
    parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
    records = []
    for change in changes:
        if change.key not in keys:
            raise InvalidRequestError(f"Invalid configuration key {change.key}")
        if change.value is None:
            if change.key in current:
                records.append(ClientQuotaRecord(entity=parts, key=change.key, value=0.0, remove=True))
            continue
        _check_value(change.key, change.value, keys[change.key])
        if current.get(change.key) != change.value:
            records.append(ClientQuotaRecord(entity=parts, key=change.key, value=change.value, remove=False))
    return CoordinatorResult(records=tuple(records), reply=None)


def _keys_of(entity: Sequence[tuple[str, str | None]]) -> Mapping[str, int | None]:
    types = [kind for kind, _ in entity]
    if not types:
        raise InvalidRequestError("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequestError(f"Empty {kind} not supported")
    if len(set(types)) != len(types):
        raise InvalidRequestError("An entity type is there twice")
    if IP in types and len(types) > 1:
        raise InvalidRequestError(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    if IP in types:
        _check_address(entity[0][1])
        return _OF_ADDRESSES
    return _OF_CLIENTS


def _check_address(name: str | None) -> None:
    """Host names, which Kafka looks up at each broker, are not supported."""
    try:
        if name is not None:
            plain_address(name)
    except ValueError as error:
        raise InvalidRequestError(f"{name} is not a valid IP: addresses are given as numbers") from error


def _check_value(key: str, value: float, largest: int | None) -> None:
    if not math.isfinite(value) or value <= 0:
        raise InvalidRequestError(f"Quota {key} must be greater than 0")
    if largest is None:
        return
    if value != math.floor(value):
        raise InvalidRequestError(f"{key} must be a whole number")
    if value > largest:
        raise InvalidRequestError(f"Proposed value for {key} is too large")
