"""The leader of an epoch: serves fetches, which are its heartbeat and its acknowledgements, and commits.

fetch from X                       everything below X is on the replica's device
own flush                          the same for the leader's own log, and not before
a majority past X                  X is the high watermark, if X is past the epoch's first record
nothing to send                    the fetch is parked until records, a higher watermark, its time, or the end of
                                   the leadership; then its replica asks again
no majority fetches for 1.5 times  the quorum is lost: another node may lead
the fetch timeout
voters are others (`voter_changes`) they count from the append on; a leader that is not among them leads until that is
                                   committed, and then resigns
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.model.limits import MAX_PARKED_QUORUM_FETCHES
from broker_core.raft.leader_progress import LeaderProgress
from broker_core.raft.log_comparison import Verdict, compare_replica
from broker_core.raft.observer_events import FetchAnswer, SnapshotAnswer
from broker_core.raft.quorum_control_records import leader_change_batch, voters_batch
from broker_core.raft.quorum_values import UNKNOWN_HIGH_WATERMARK, ElectionState
from broker_core.raft.voter_changes import VoterChanges
from broker_core.raft.voter_core import VoterCore
from broker_core.raft.voter_events import (
    BeginEpochRequest,
    RecordsAccepted,
    RecordsProposed,
    ReplicaFetchRequest,
    RequestReceived,
    SendRecords,
    SendSnapshotChunk,
    SnapshotFetchRequest,
    VotersAppended,
)
from broker_core.raft.voter_set import ReplicaKey, VoterSet
from broker_core.raft.voter_table import Role
from broker_core.record.batch_header import placed_header, write_placement
from broker_core.record.batch_reader import iter_headers


@dataclass(slots=True)
class _Parked:
    event: RequestReceived
    fetch: ReplicaFetchRequest
    deadline_ms: int


class LeaderRole:
    """`election` is on the device. `granting_voters` elected this node."""

    role: Final = Role.LEADER

    def __init__(self, core: VoterCore, election: ElectionState) -> None:
        self._core = core
        self.election = election
        self.progress = LeaderProgress(
            own=core.own.key,
            voters=core.history.latest,
            epoch_start=core.log.end,
            timings=core.timings,
            now_ms=core.now_ms,
        )
        self._parked: list[_Parked] = []
        self._to_begin: set[int] = set()
        self._next_begin_ms = core.now_ms
        self.changes = VoterChanges(core, self.progress, append=self.append_voters)
        self.must_resign = False
        """This node is no voter any more, and that is committed."""

    def begin(self, granting_voters: Collection[int]) -> None:
        """The epoch's first record; and the voters, if the log has none yet or this node has moved."""
        core, history = self._core, self._core.history
        dynamic = None
        is_new = history.latest_offset is None or history.latest_offset < 0
        if history.is_dynamic and (is_new or history.latest.needs_update(core.own)):
            own_updated = history.latest.with_updated(core.own)
            assert own_updated is not None, "a leader is a voter"
            dynamic = (history.kraft_version, own_updated)
        batch = leader_change_batch(
            leader_id=core.node_id,
            voters=sorted(core.voters),
            granting_voters=sorted(granting_voters),
            timestamp_ms=core.now_ms,
            dynamic=dynamic,
        )
        self._append(batch)

    def append_voters(self, voters: VoterSet, kraft_version: int | None = None) -> int:
        """They count from now on. Returns the offset of their record."""
        core = self._core
        self._append(voters_batch(voters, timestamp_ms=core.now_ms, kraft_version=kraft_version))
        core.effects.append(VotersAppended(until_offset=core.log.end))
        self._maybe_commit()
        return core.log.end - 1

    @property
    def epoch(self) -> int:
        return self.election.leader_epoch

    # Records

    def propose(self, event: RecordsProposed) -> None:
        from_offset = self._core.log.end
        self._append(bytearray(event.records))
        self._core.effects.append(
            RecordsAccepted(
                proposal_id=event.proposal_id,
                leader_epoch=self.epoch,
                from_offset=from_offset,
                until_offset=self._core.log.end,
            )
        )

    def _append(self, records: bytearray) -> None:
        log, headers = self._core.log, []
        next_offset = log.end
        for position, header in list(iter_headers(records)):
            write_placement(records, position, base_offset=next_offset, leader_epoch=self.epoch)
            placed = placed_header(header, base_offset=next_offset, leader_epoch=self.epoch)
            headers.append(placed)
            next_offset = placed.next_offset
        placed_records = bytes(records)
        log.append(placed_records, tuple(headers), self._core.effects)
        if self._core.history.on_batches(placed_records, headers):
            self._core.on_voters()
            self.progress.set_voters(self._core.history.latest, self._core.now_ms)
        self._answer_parked(lambda parked: True)

    def on_flushed(self) -> None:
        self._maybe_commit()

    def _maybe_commit(self) -> None:
        if not self.progress.maybe_advance(self._core.log.flushed_end):
            return
        reached = self.progress.high_watermark
        assert reached is not None
        self._core.advance_high_watermark(reached)
        self._answer_parked(lambda parked: parked.fetch.high_watermark < reached)
        self.changes.on_committed(reached)
        voters_offset = self._core.history.latest_offset
        self.must_resign = not self.progress.is_own_voter and voters_offset is not None and voters_offset < reached

    # Fetches

    def on_fetch(self, event: RequestReceived, fetch: ReplicaFetchRequest) -> None:
        core = self._core
        if min(fetch.max_wait_ms, fetch.fetch_offset, fetch.last_fetched_epoch) < 0 or (
            fetch.last_fetched_epoch > fetch.epoch
        ):
            core.reply_error(event.request_id, fetch, ErrorCode.invalid_request)
            return
        found = compare_replica(
            core.log.reach,
            core.log.snapshot_id,
            fetch_offset=fetch.fetch_offset,
            last_fetched_epoch=fetch.last_fetched_epoch,
        )
        if found.verdict is Verdict.IS_PREFIX:
            self._on_prefix(event, fetch)
            return
        is_behind = found.verdict is Verdict.NEEDS_SNAPSHOT
        snapshot_id = core.log.snapshot_id if is_behind else None
        core.reply(event.request_id, replace(self._fetch_answer(), diverging=found.diverging, snapshot_id=snapshot_id))

    def _on_prefix(self, event: RequestReceived, fetch: ReplicaFetchRequest) -> None:
        core = self._core
        self.progress.on_fetch(
            ReplicaKey(fetch.replica_id, fetch.directory_id),
            fetch_offset=fetch.fetch_offset,
            leader_end=core.log.end,
            now_ms=core.now_ms,
        )
        self._to_begin.discard(fetch.replica_id)
        self._maybe_commit()
        watermark = self.progress.high_watermark
        is_news = fetch.fetch_offset < core.log.end or (watermark is not None and watermark > fetch.high_watermark)
        if is_news or fetch.max_wait_ms == 0 or len(self._parked) >= MAX_PARKED_QUORUM_FETCHES:
            self._answer_fetch(event, fetch)
        else:
            self._parked.append(_Parked(event, fetch, core.now_ms + fetch.max_wait_ms))

    def _answer_fetch(self, event: RequestReceived, fetch: ReplicaFetchRequest) -> None:
        core, answer = self._core, self._fetch_answer()
        if fetch.fetch_offset >= core.log.end:
            core.reply(event.request_id, answer)
            return
        core.effects.append(
            SendRecords(
                request_id=event.request_id,
                answer=answer,
                from_offset=fetch.fetch_offset,
                until_offset=core.log.end,
                max_bytes=fetch.max_bytes,
            )
        )

    def _answer_parked(self, is_due: Callable[[_Parked], bool]) -> None:
        parked, self._parked = self._parked, []
        for each in parked:
            if is_due(each):
                self._answer_fetch(each.event, each.fetch)
            else:
                self._parked.append(each)

    def _fetch_answer(self) -> FetchAnswer:
        watermark = self.progress.high_watermark
        return replace(
            self._core.answer(FetchAnswer), high_watermark=UNKNOWN_HIGH_WATERMARK if watermark is None else watermark
        )

    def on_snapshot_fetch(self, event: RequestReceived, fetch: SnapshotFetchRequest) -> None:
        core = self._core
        if fetch.snapshot_id != core.log.snapshot_id:
            core.reply_error(event.request_id, fetch, ErrorCode.snapshot_not_found)
            return
        self.progress.on_heard(ReplicaKey(fetch.replica_id, fetch.directory_id), core.now_ms)
        core.effects.append(
            SendSnapshotChunk(
                request_id=event.request_id,
                answer=core.answer(SnapshotAnswer),
                snapshot_id=fetch.snapshot_id,
                position=fetch.position,
                max_bytes=fetch.max_bytes,
            )
        )

    def release_parked(self) -> list[RequestReceived]:
        """The waiting fetches, for the next role: the node does not lead any more."""
        self.changes.release()
        parked, self._parked = self._parked, []
        return [each.event for each in parked]

    # Time

    def poll(self) -> None:
        """Ends waits that are over, and writes to voters that do not fetch."""
        core, now_ms = self._core, self._core.now_ms
        self._answer_parked(lambda parked: now_ms >= parked.deadline_ms)
        self.changes.expire()
        if now_ms >= self._next_begin_ms:
            self._to_begin = set(self.progress.silent_voters(now_ms))
            self._next_begin_ms = now_ms + core.timings.begin_epoch_period_ms
        for peer_id in sorted(self._to_begin):
            if core.links.is_ready(peer_id, now_ms):
                core.send(peer_id, self._begin_request(peer_id))

    def _begin_request(self, peer_id: int) -> BeginEpochRequest:
        core = self._core
        return BeginEpochRequest(
            epoch=self.epoch,
            leader_id=core.node_id,
            voter_id=peer_id,
            voter_directory_id=core.history.latest.directory_of(peer_id),
            endpoints=core.own.endpoints,
        )

    def on_begin_answered(self, peer_id: int) -> None:
        self._to_begin.discard(peer_id)

    def next_timer_ms(self) -> int:
        timers = [self._next_begin_ms, *(each.deadline_ms for each in self._parked)]
        timers += [self._core.links.next_ms(peer_id) for peer_id in self._to_begin]
        if self.progress.depends_on_others:
            timers.append(self.progress.check_quorum_ms)
        if self.changes.deadline_ms is not None:
            timers.append(self.changes.deadline_ms)
        return min(timers)
