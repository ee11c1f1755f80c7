"""How far each replica of a leader is, what of the log is committed by that, and whether a majority still fetches.

Replicas are told apart by node and directory. One whose key becomes a voter's takes its progress along, and one that
is a voter no more becomes an observer. A leader that was removed is no voter either, and does not count itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker_core.model.limits import MAX_QUORUM_OBSERVERS
from broker_core.raft.quorum_values import QuorumTimings
from broker_core.raft.voter_set import ReplicaKey, VoterSet

OBSERVER_TIMEOUT_MS: Final = 300_000
"""An observer that does not fetch for so long is forgotten."""
_UNKNOWN_END: Final = -1


@dataclass(slots=True)
class ReplicaProgress:
    """A replica as its fetches tell; times are -1 before the first one."""

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
    """`own` is the leader's key, which is among the voters at first."""

    def __init__(
        self, *, own: ReplicaKey, voters: VoterSet, epoch_start: int, timings: QuorumTimings, now_ms: int
    ) -> None:
        self._own_id = own.node_id
        self._own = own
        self._epoch_start = epoch_start
        self._timings = timings
        self.voter_set = voters
        self.voters = {node_id: ReplicaProgress() for node_id in voters.nodes}
        """By id; the leader itself is among them while it is a voter."""
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self.high_watermark: int | None = None
        """None until a record of the own epoch is committed: what earlier leaders committed is known only then."""
        self._heard: set[int] = set()
        self.check_quorum_ms = now_ms + timings.check_quorum_timeout_ms

    def set_voters(self, voters: VoterSet, now_ms: int) -> None:
        """They count from now on. A leader that was alone has to hear from others only from now on, too."""
        if not self.depends_on_others:
            self.check_quorum_ms = now_ms + self._timings.check_quorum_timeout_ms
        before, old_set = self.voters, self.voter_set
        self.voter_set = voters
        self.voters = {}
        for node in voters.nodes.values():
            is_same = node.node_id in before and old_set.nodes[node.node_id].matches(node.key)
            found = before.pop(node.node_id) if is_same else self.observers.pop(node.key, None)
            self.voters[node.node_id] = ReplicaProgress() if found is None else found
        for node_id, progress in before.items():
            if node_id != self._own_id:
                self.observers[old_set.nodes[node_id].key] = progress
        self._heard &= set(self.voters)

    @property
    def is_own_voter(self) -> bool:
        return self.voter_set.is_voter(self._own)

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether that observer was at the log's end a moment ago."""
        found = self.observers.get(key)
        if found is None or found.last_caught_up_ms < 0:
            return False
        return now_ms - found.last_caught_up_ms <= self._timings.fetch_timeout_ms

    def on_fetch(self, key: ReplicaKey, *, fetch_offset: int, leader_end: int, now_ms: int) -> None:
        """A fetch whose log is a prefix of the leader's."""
        if self.voter_set.is_voter(key):
            self.voters[key.node_id].on_fetch(fetch_offset, leader_end, now_ms)
            self.on_heard(key, now_ms)
            return
        self.observers = {
            key: each for key, each in self.observers.items() if now_ms - each.last_fetch_ms < OBSERVER_TIMEOUT_MS
        }
        if key in self.observers or len(self.observers) < MAX_QUORUM_OBSERVERS:
            observer = self.observers.setdefault(key, ReplicaProgress())
            observer.on_fetch(fetch_offset, leader_end, now_ms)

    def on_heard(self, key: ReplicaKey, now_ms: int) -> None:
        """A sign of life. When the leader, if it is a voter, and those heard are a majority, the next count begins."""
        if not self.voter_set.is_voter(key) or key.node_id == self._own_id:
            return
        self._heard.add(key.node_id)
        if len(self._heard) + self.is_own_voter > len(self.voters) // 2:
            self._heard.clear()
            self.check_quorum_ms = now_ms + self._timings.check_quorum_timeout_ms

    def has_lost_quorum(self, now_ms: int) -> bool:
        return self.depends_on_others and now_ms >= self.check_quorum_ms

    @property
    def depends_on_others(self) -> bool:
        return len(self.voters) > 1 or not self.is_own_voter

    def silent_voters(self, now_ms: int) -> list[int]:
        """Other voters that did not fetch within the last period."""
        since_ms = now_ms - self._timings.begin_epoch_period_ms
        return [
            node_id
            for node_id, each in self.voters.items()
            if node_id != self._own_id and (each.last_fetch_ms < 0 or each.last_fetch_ms <= since_ms)
        ]

    def preferred_successors(self) -> tuple[ReplicaKey, ...]:
        """Other voters, the most complete log first."""
        others = [(-each.log_end_offset, node_id) for node_id, each in self.voters.items() if node_id != self._own_id]
        return tuple(self.voter_set.nodes[node_id].key for _, node_id in sorted(others))

    def maybe_advance(self, own_flushed_end: int) -> bool:
        """Whether the high watermark rose: to what a majority has on its devices, and only once that is past the start
        of the own epoch. Records of earlier epochs are committed with one of the own, never by being counted."""
        ends = sorted(
            (
                own_flushed_end if node_id == self._own_id and self.is_own_voter else each.log_end_offset
                for node_id, each in self.voters.items()
            ),
            reverse=True,
        )
        reached = ends[len(ends) // 2]
        if reached <= self._epoch_start or reached <= (self.high_watermark or 0):
            return False
        self.high_watermark = reached
        return True
