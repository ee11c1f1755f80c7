"""Finds the coordinator of a group or a transactional id."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker_core.client.broker_errors import broker_error

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
    from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse


class CoordinatorType(enum.IntEnum):
    """FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1


def coordinator_request(kind: CoordinatorType, keys: Collection[str]) -> FindCoordinatorRequest:
    from kio.schema.find_coordinator.v4 import request as schema
    from kio.static.primitive import i8

    return schema.FindCoordinatorRequest(key_type=i8(kind), coordinator_keys=tuple(keys))


def coordinators_of(kind: CoordinatorType, keys: Collection[str], answer: FindCoordinatorResponse) -> dict[str, int]:
    """The coordinator's node id for each key. Raises the broker's error for the first key without one."""
    found = {}
    for entry in answer.coordinators:
        if entry.error_code != ErrorCode.none:
            what = f"the coordinator of {kind.name.lower()} {entry.key!r}"
            raise broker_error(entry.error_code, what, entry.error_message)
        found[entry.key] = int(entry.node_id)
    for key in keys:
        if key not in found:
            raise broker_error(ErrorCode.coordinator_not_available, f"the coordinator of {kind.name.lower()} {key!r}")
    return found
