"""How far each replica of a leader is, what of the log is committed by that, and whether a majority still fetches."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.model.limits import MAX_QUORUM_OBSERVERS
from broker_core.raft.quorum_values import QuorumTimings

OBSERVER_TIMEOUT_MS: Final = 300_000
"""An observer that does not fetch for so long is forgotten."""
_UNKNOWN_END: Final = -1


@dataclass(slots=True)
class ReplicaProgress:
    """A replica as its fetches tell; times are -1 before the first one."""

    directory_id: UUID | None = None
    log_end_offset: int = _UNKNOWN_END
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    _leader_end_at_fetch: int = -1

    def on_fetch(self, fetch_offset: int, leader_end: int, now_ms: int) -> None:
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif fetch_offset >= self._leader_end_at_fetch >= 0:
            self.last_caught_up_ms = self.last_fetch_ms
        self.log_end_offset, self.last_fetch_ms = fetch_offset, now_ms
        self._leader_end_at_fetch = leader_end


class LeaderProgress:
    """`voters` include the leader itself, `others` do not."""

    def __init__(
        self, *, own_id: int, voters: Collection[int], epoch_start: int, timings: QuorumTimings, now_ms: int
    ) -> None:
        self._own_id = own_id
        self._epoch_start = epoch_start
        self._timings = timings
        self.voters = {node_id: ReplicaProgress() for node_id in voters}
        self.observers: dict[tuple[int, UUID | None], ReplicaProgress] = {}
        self.high_watermark: int | None = None
        """None until a record of the own epoch is committed: what earlier leaders committed is known only then."""
        self._heard: set[int] = set()
        self.check_quorum_ms = now_ms + timings.check_quorum_timeout_ms

    def on_fetch(
        self, replica_id: int, directory_id: UUID | None, *, fetch_offset: int, leader_end: int, now_ms: int
    ) -> None:
        """A fetch whose log is a prefix of the leader's."""
        voter = self.voters.get(replica_id)
        if voter is not None:
            voter.directory_id = directory_id
            voter.on_fetch(fetch_offset, leader_end, now_ms)
            self.on_heard(replica_id, now_ms)
            return
        self.observers = {
            key: each for key, each in self.observers.items() if now_ms - each.last_fetch_ms < OBSERVER_TIMEOUT_MS
        }
        key = (replica_id, directory_id)
        if key in self.observers or len(self.observers) < MAX_QUORUM_OBSERVERS:
            observer = self.observers.setdefault(key, ReplicaProgress(directory_id=directory_id))
            observer.on_fetch(fetch_offset, leader_end, now_ms)

    def on_heard(self, replica_id: int, now_ms: int) -> None:
        """A sign of life. When the leader and those heard are a majority, the next count begins."""
        if replica_id not in self.voters or replica_id == self._own_id:
            return
        self._heard.add(replica_id)
        if len(self._heard) >= len(self.voters) // 2:
            self._heard.clear()
            self.check_quorum_ms = now_ms + self._timings.check_quorum_timeout_ms

    def has_lost_quorum(self, now_ms: int) -> bool:
        return len(self.voters) > 1 and now_ms >= self.check_quorum_ms

    def silent_voters(self, now_ms: int) -> list[int]:
        """Other voters that did not fetch within the last period."""
        since_ms = now_ms - self._timings.begin_epoch_period_ms
        return [
            node_id
            for node_id, each in self.voters.items()
            if node_id != self._own_id and (each.last_fetch_ms < 0 or each.last_fetch_ms <= since_ms)
        ]

    def preferred_successors(self) -> tuple[int, ...]:
        """Other voters, the most complete log first."""
        others = [(-each.log_end_offset, node_id) for node_id, each in self.voters.items() if node_id != self._own_id]
        return tuple(node_id for _, node_id in sorted(others))

    def maybe_advance(self, own_flushed_end: int) -> bool:
        """Whether the high watermark rose: to what a majority has on its devices, and only once that is past the start
        of the own epoch. Records of earlier epochs are committed with one of the own, never by being counted."""
        ends = sorted(
            (
                own_flushed_end if node_id == self._own_id else each.log_end_offset
                for node_id, each in self.voters.items()
            ),
            reverse=True,
        )
        reached = ends[len(ends) // 2]
        if reached <= self._epoch_start or reached <= (self.high_watermark or 0):
            return False
        self.high_watermark = reached
        return True
