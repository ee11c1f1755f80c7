"""What a leader makes of the controller's answer to its proposal of in-sync replicas: Kafka 4.3.1's rules as a table.

Only INELIGIBLE_REPLICA and OPERATION_NOT_ATTEMPTED prove that the proposal was not and will not be applied. After
every other refusal it may have been, so its members count until the metadata log tells.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode


class IsrReaction(enum.Enum):
    """What is done with an answer."""

    APPLY = enum.auto()
    """The answer's members are in sync, in its partition epoch."""
    REVERT = enum.auto()
    """Back to the members before the proposal."""
    AWAIT_METADATA = enum.auto()
    """The proposal stays open until the metadata log has a newer partition epoch."""
    RETRY = enum.auto()
    """The same proposal is sent again."""


REACTIONS: Final[Mapping[ErrorCode, IsrReaction]] = {
    ErrorCode.none: IsrReaction.APPLY,
    ErrorCode.ineligible_replica: IsrReaction.REVERT,
    ErrorCode.operation_not_attempted: IsrReaction.REVERT,
    ErrorCode.unknown_topic_or_partition: IsrReaction.AWAIT_METADATA,
    ErrorCode.unknown_topic_id: IsrReaction.AWAIT_METADATA,
    ErrorCode.fenced_leader_epoch: IsrReaction.AWAIT_METADATA,
    ErrorCode.invalid_update_version: IsrReaction.AWAIT_METADATA,
    ErrorCode.invalid_request: IsrReaction.AWAIT_METADATA,
    ErrorCode.new_leader_elected: IsrReaction.AWAIT_METADATA,
}


def isr_reaction(error: ErrorCode) -> IsrReaction:
    """Every other error is of the moment, such as a controller that does not lead any more."""
    return REACTIONS.get(error, IsrReaction.RETRY)
