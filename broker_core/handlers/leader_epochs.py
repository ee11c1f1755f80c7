"""The leader epoch that a client believes in, held against the partition's (KIP-320)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.model.identifiers import NO_LEADER_EPOCH


def refused_epoch(believed: int, leader_epoch: int) -> ErrorCode | None:
    """None: the client says nothing of it (-1), or is right."""
    if believed in (NO_LEADER_EPOCH, leader_epoch):
        return None
    return ErrorCode.fenced_leader_epoch if believed < leader_epoch else ErrorCode.unknown_leader_epoch
