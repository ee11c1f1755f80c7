"""Where two copies of a metadata log part: what the leader tells a replica that fetches, and what the replica makes of
it."""

from __future__ import annotations

import enum
from typing import NamedTuple

from broker_core.raft.quorum_values import LogReach, SnapshotId


class Verdict(enum.Enum):
    """How a replica's log stands to the leader's."""

    IS_PREFIX = enum.auto()
    DIVERGES = enum.auto()
    NEEDS_SNAPSHOT = enum.auto()


class Comparison(NamedTuple):
    """`diverging`: the epoch, and the offset where it ends at the leader."""

    verdict: Verdict
    diverging: tuple[int, int] | None = None


def compare_replica(
    log: LogReach, snapshot_id: SnapshotId | None, *, fetch_offset: int, last_fetched_epoch: int
) -> Comparison:
    """Kafka's checks in Kafka's order. `snapshot_id` is the newest one."""
    if snapshot_id is not None and snapshot_id.end_offset > 0 and fetch_offset == 0:
        return Comparison(Verdict.NEEDS_SNAPSHOT)
    if log.log_start_offset == 0 and fetch_offset == 0:
        return Comparison(Verdict.IS_PREFIX)
    if log.log_start_offset > 0:
        is_other = fetch_offset == log.log_start_offset and last_fetched_epoch != log.start_epoch
        if fetch_offset < log.log_start_offset or is_other or last_fetched_epoch < log.start_epoch:
            return Comparison(Verdict.NEEDS_SNAPSHOT)
        if fetch_offset == log.log_start_offset:
            return Comparison(Verdict.IS_PREFIX)
    end = log.epochs.end_of(last_fetched_epoch, log_end_offset=log.log_end_offset)
    if end.leader_epoch != last_fetched_epoch or end.end_offset < fetch_offset:
        return Comparison(Verdict.DIVERGES, (max(end.leader_epoch, 0), max(end.end_offset, 0)))
    return Comparison(Verdict.IS_PREFIX)


def common_end(log: LogReach, diverging: tuple[int, int]) -> int:
    """The offset to truncate to: the own end of the leader's epoch, or the leader's if that is lower.

    Own records of an epoch that the leader does not know go, too: the next fetch asks again, from an older epoch
    (KIP-279).
    """
    epoch, end_offset = diverging
    own = log.epochs.end_of(epoch, log_end_offset=log.log_end_offset)
    if own.leader_epoch == epoch:
        return min(end_offset, own.end_offset)
    return own.end_offset if own.leader_epoch >= 0 else end_offset
