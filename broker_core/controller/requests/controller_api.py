"""One request that an active controller answers: how it is planned, and how all of it is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import MetadataRecord

Values = Mapping[str, Any]
"""An answer, as `protocol.message_builder` takes it."""
Planned = CoordinatorResult[MetadataRecord, Values]

ZERO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerApi:
    """`plan` may raise StreamlogError, then `refuse` makes the answer; so it does when the controller stops leading."""

    key: int
    versions: range
    plan: Callable[[ClusterController, Any, int], Planned]
    refuse: Callable[[Any, ErrorCode, str], Values]


def refuse_all(message: Any, error_code: ErrorCode, text: str) -> Values:
    """Where an answer has one error for all and no text."""
    return {"error_code": error_code}


def refuse_all_with_text(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {"error_code": error_code, "error_message": text}


def id_of(given: UUID | None) -> UUID:
    """kio reads an id of zeros as None."""
    return ZERO_ID if given is None else given
