"""Checks a client's leader epoch against the partition's (KIP-320)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.model.identifiers import NO_LEADER_EPOCH


def refused_epoch(believed: int, leader_epoch: int) -> ErrorCode | None:
    """None: the client sent none (-1), or the right one."""
    if believed in (NO_LEADER_EPOCH, leader_epoch):
        return None
    return ErrorCode.fenced_leader_epoch if believed < leader_epoch else ErrorCode.unknown_leader_epoch
