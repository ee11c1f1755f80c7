"""A follower's side of a fetch session (KIP-227): its leader is told only of the positions that have changed.

    begins        session 0 or the one before, epoch 0: all positions. The answer has the session's id; 0: the leader
                  keeps none, and the next request begins again
    goes on       epoch 1, 2, …: positions that are new or have moved, and the partitions that are not fetched now
    ends          at an error of the session; at a request without an answer, since nobody knows what the leader has
                  seen; when a partition is fetched in another leader epoch

What an answer does not mention has not changed: no records, no error, the same high watermark and log start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_core.replication.replica_messages import PartitionId, SessionChanges
from broker_core.replication.replication_values import FetchPosition

_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1


class ReplicaFetchSession:
    """With one leader, on one connection. Requests come one after the other."""

    def __init__(self) -> None:
        self._id, self._epoch = _NO_SESSION, _INITIAL_EPOCH
        self._known: Mapping[PartitionId, FetchPosition] = {}

    def next_request(self, positions: Mapping[PartitionId, FetchPosition]) -> SessionChanges:
        """`positions`: of all partitions that are fetched now."""
        known = self._known
        changed = {each: position for each, position in positions.items() if known.get(each) != position}
        if any(each in known and known[each].leader_epoch != changed[each].leader_epoch for each in changed):
            self.end()  # what the leader told of the epoch before may have come too late to be heard
        forgotten = frozenset(known.keys() - positions.keys())
        if self._epoch == _INITIAL_EPOCH:
            changed, forgotten = dict(positions), frozenset()
        self._known = positions
        return SessionChanges(session_id=self._id, epoch=self._epoch, positions=changed, forgotten=forgotten)

    def on_answer(self, session_id: int) -> None:
        """The request was answered without an error of the session."""
        self._id = session_id
        if session_id == _NO_SESSION:
            self._epoch = _INITIAL_EPOCH
        else:
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1

    def end(self) -> None:
        """The next request begins a new one in its place."""
        self._epoch = _INITIAL_EPOCH
