"""The follower of an epoch's leader: fetches from it, makes its log the leader's, and gives it up in time.

An answer without an error, from the leader, is a sign of life, and its content counts:

    diverging epoch    truncate to where both logs agree, never below the high watermark
    snapshot id        fetch the snapshot, install it when it is whole: the log then begins at its end
    records            append and flush; then fetch on, which tells the leader that they are on the device

The high watermark is the leader's, at most the own flushed end. While the leader does not answer, other voters are
asked: one of them may know its successor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker_core.model.limits import MAX_SNAPSHOT_BYTES
from broker_core.raft.fetched_records import following_batches
from broker_core.raft.log_comparison import common_end
from broker_core.raft.observer_events import (
    FetchAnswer,
    InstallSnapshot,
    QuorumAnswer,
    SnapshotAnswer,
    SnapshotInstalled,
    WriteSnapshotChunk,
)
from broker_core.raft.quorum_messages import FETCH_MAX_BYTES
from broker_core.raft.quorum_values import ElectionState, SnapshotId
from broker_core.raft.voter_core import Awaited, VoterCore
from broker_core.raft.voter_events import (
    AddVoterRequest,
    EndEpochRequest,
    RemoveVoterRequest,
    SnapshotFetchRequest,
    UpdateVoterRequest,
)
from broker_core.raft.voter_set import ReplicaKey
from broker_core.raft.voter_table import Role


@dataclass(slots=True)
class _SnapshotInFlight:
    """A snapshot that is being fetched; `size_bytes` is known with the first answer."""

    snapshot_id: SnapshotId
    position: int = 0
    size_bytes: int | None = None


class FollowerRole:
    """`election` names the leader."""

    role: Final = Role.FOLLOWER

    def __init__(self, core: VoterCore, election: ElectionState) -> None:
        self._core = core
        self.election = election
        self.has_fetched = False
        """The leader answered since this node follows it."""
        self.deadline_ms = core.next_fetch_timeout_ms()
        """When the leader is given up."""
        self._snapshot: _SnapshotInFlight | None = None
        self._offered_high_watermark = -1
        self._asks_others = False
        self._asked_id = election.leader_id
        self._next_report_ms = core.now_ms + core.timings.fetch_timeout_ms
        """When the leader is told of this node again, if it has to be."""
        self.has_reported = False
        """This leader knows this voter's endpoints and versions."""

    @property
    def hears_leader(self) -> bool:
        """Also an observer misses it in time: it may be a voter by a record that it does not have yet, and nobody may
        be elected without its vote."""
        return self.has_fetched and self._core.now_ms < self.deadline_ms

    @property
    def leader_id(self) -> int:
        return self.election.leader_id

    # Requests

    def poll(self) -> None:
        """One fetch at a time, and none before everything it acknowledges is on the device."""
        core = self._core
        if core.links.under_way_count or not core.log.is_flushed:
            return
        to = core.next_in_turn() if self._asks_others else self._ready_leader()
        if to is None:
            return
        self._asked_id = to
        report = self._report_due() if to == self.leader_id else None
        if report is not None:
            self._next_report_ms = core.now_ms + core.timings.fetch_timeout_ms
            core.send(to, report)
            return
        if self._snapshot is None:
            core.send_fetch(to)
            return
        core.send(
            to,
            SnapshotFetchRequest(
                epoch=self.election.leader_epoch,
                replica_id=core.node_id,
                snapshot_id=self._snapshot.snapshot_id,
                position=self._snapshot.position,
                max_bytes=FETCH_MAX_BYTES,
                directory_id=core.identity.directory_id,
            ),
        )

    def _report_due(self) -> AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | None:
        """What the leader does not know of this node, or what this node wants to be; asked for once in a fetch timeout.

        A voter tells its endpoints if they are not those in the log. Static voters are in no log: they tell each leader
        once, which can then make the quorum dynamic. An observer that joins by itself asks for its vote, after that of
        an earlier directory of the same node was taken away.
        """
        core, history = self._core, self._core.history
        if core.now_ms < self._next_report_ms:
            return None
        if core.is_voter:
            needs_update = history.latest.needs_update(core.own) if history.is_dynamic else not self.has_reported
            return UpdateVoterRequest(epoch=self.election.leader_epoch, voter=core.own) if needs_update else None
        if not core.joins_by_itself or not history.is_dynamic:
            return None
        earlier = history.latest.nodes.get(core.node_id)
        if earlier is not None:
            return RemoveVoterRequest(voter=earlier.key)
        return AddVoterRequest(voter=core.own, is_answered_when_committed=False)

    def _ready_leader(self) -> int | None:
        return self.leader_id if self._core.links.is_ready(self.leader_id, self._core.now_ms) else None

    def on_no_answer(self, peer_id: int, *, is_gone: bool) -> None:
        """If there is no leader's process any more, the voters stand for election one after the other, without waiting
        for the fetch timeout. A wrong hint costs pre-votes: a node that still hears the leader refuses them."""
        core = self._core
        self._asks_others = True
        if is_gone and peer_id == self.leader_id and core.is_voter:
            place = sorted(core.voters - {self.leader_id}).index(core.node_id)
            self.deadline_ms = min(self.deadline_ms, core.now_ms + place * core.timings.stagger_ms)

    def on_useless_answer(self, answer: QuorumAnswer) -> None:
        """What the leader itself cannot tell, others may."""
        if isinstance(answer, SnapshotAnswer):
            self._snapshot = None  # gone at the leader, or another one is newer: Fetch tells which
        knows_leader = answer.leader_id == self.leader_id and answer.leader_epoch == self.election.leader_epoch
        self._asks_others = self._asked_id == self.leader_id or not knows_leader

    def on_end_epoch(self, request: EndEpochRequest) -> None:
        """The leader goes: the first of the preferred voters stands for election at once, others after it.

        Kafka 4.3 goes on refusing pre-votes for the sake of this leader (KAFKA-20895), which costs a quorum of five
        another round.
        """
        self.has_fetched = False
        core, preferred = self._core, request.preferred
        longest_ms = core.timings.election_backoff_max_ms
        own_keys = (ReplicaKey(core.node_id), core.own.key)
        own_places = [place for place, key in enumerate(preferred) if key in own_keys]
        place = own_places[0] if own_places else len(preferred)
        pause_ms = 0 if place == 0 else min(longest_ms, longest_ms >> max(len(preferred) - 1, 0) << (place - 1))
        self.deadline_ms = core.now_ms + pause_ms

    # Answers

    def on_answer(self, answer: QuorumAnswer) -> bool:
        """An answer of the leader without an error; whether its content was of use."""
        core = self._core
        self._asks_others = False
        self.has_fetched = True
        self.deadline_ms = core.next_fetch_timeout_ms()
        if isinstance(answer, SnapshotAnswer):
            return self._on_chunk(answer)
        if not isinstance(answer, FetchAnswer):
            self.has_reported = True
            return True
        if answer.diverging is not None:
            return self._truncate(answer.diverging)
        if answer.snapshot_id is not None:
            return self._begin_snapshot(answer.snapshot_id)
        return self._on_records(answer)

    def _truncate(self, diverging: tuple[int, int]) -> bool:
        core = self._core
        end_offset = common_end(core.log.reach, diverging)
        if end_offset < core.high_watermark:
            watermark = core.high_watermark
            core.stop(f"the leader's epoch {diverging[0]} ends at {end_offset}, below the high watermark {watermark}")
            return False
        if end_offset >= core.log.end:
            return False  # nothing to truncate: no leader means that
        core.log.truncate(end_offset, core.effects)
        core.history.truncate(end_offset)
        core.on_voters()
        core.awaited = Awaited.FLUSH
        return True

    def _on_records(self, answer: FetchAnswer) -> bool:
        core = self._core
        batches = following_batches(answer.records, core.log.reach, leader_epoch=self.election.leader_epoch)
        self._offered_high_watermark = answer.high_watermark
        if not batches.headers:
            self.on_flushed()
            return not answer.records
        records = answer.records[: batches.size_bytes]
        core.log.append(records, batches.headers, core.effects)
        if core.history.on_batches(records, batches.headers):
            core.on_voters()
        core.awaited = Awaited.FLUSH
        return True

    def on_flushed(self) -> None:
        """Everything that was fetched is on the device."""
        offered, self._offered_high_watermark = self._offered_high_watermark, -1
        if offered >= 0:
            self._core.advance_high_watermark(min(offered, self._core.log.flushed_end))

    # Snapshots

    def _begin_snapshot(self, snapshot_id: SnapshotId) -> bool:
        core = self._core
        if snapshot_id.end_offset < core.high_watermark:
            end_offset, watermark = snapshot_id.end_offset, core.high_watermark
            core.stop(f"the leader's snapshot ends at {end_offset}, below the high watermark {watermark}")
            return False
        self._snapshot = _SnapshotInFlight(snapshot_id)
        return True

    def _on_chunk(self, answer: SnapshotAnswer) -> bool:
        core, progress = self._core, self._snapshot
        assert progress is not None, "a piece of a snapshot that is not being fetched"
        is_same = progress.size_bytes in (None, answer.size_bytes) and answer.position == progress.position
        left = answer.size_bytes - progress.position
        if not is_same or not 0 < len(answer.chunk) <= left or answer.size_bytes > MAX_SNAPSHOT_BYTES:
            self._snapshot = None
            return False
        progress.size_bytes = answer.size_bytes
        core.effects.append(
            WriteSnapshotChunk(snapshot_id=progress.snapshot_id, position=progress.position, chunk=answer.chunk)
        )
        progress.position += len(answer.chunk)
        if progress.position == progress.size_bytes:
            core.effects.append(InstallSnapshot(snapshot_id=progress.snapshot_id))
            core.awaited = Awaited.INSTALLATION
        return True

    def on_installed(self, event: SnapshotInstalled) -> None:
        assert self._snapshot is not None
        snapshot_id, self._snapshot = self._snapshot.snapshot_id, None
        self._core.log.on_snapshot_installed(snapshot_id)
        self._core.history.on_snapshot(snapshot_id, event.controls)
        self._core.on_voters()
        self._core.advance_high_watermark(snapshot_id.end_offset)

    def on_refused(self) -> None:
        """It was no whole snapshot: fetched again, after a pause."""
        self._snapshot = None
        self._core.links.on_failure(self.leader_id, self._core.now_ms)

    def next_timer_ms(self) -> int | None:
        """When a request may be due."""
        core = self._core
        if core.links.under_way_count or not core.log.is_flushed:
            return None
        peers = core.peers if self._asks_others else (self.leader_id,)
        return min((core.links.next_ms(peer_id) for peer_id in peers), default=None)
