"""A replica of the metadata log that follows the quorum without a vote, as brokers do and controllers before they join.

A machine: `step(event, now_ms)` returns effects, in the order in which they have to be done. It knows a leader or not:

    UNATTACHED   an epoch without a known leader: asks the bootstrap servers in turn; any of them names the leader
    FOLLOWER     an epoch with its leader: fetches from it; while it does not answer, from a bootstrap server

    answer's epoch   its leader       UNATTACHED in epoch E            FOLLOWER of L in epoch E
    below E          any              try the next server              try the next server
    E                none             try the next server              the same: a follower that knows less
    E                L                FOLLOWER of L, saved             without error: its content counts
    E                another          FOLLOWER of it, saved            stop: an epoch has one leader
    above E          none             UNATTACHED, saved                UNATTACHED, saved
    above E          any              FOLLOWER of it, saved            FOLLOWER of it, saved

An answer whose epoch or leader changes the state is used for nothing else. Content that counts:

    diverging epoch    truncate to where both logs agree, never below the high watermark
    snapshot id        fetch the snapshot, install it when it is whole: the log then begins at its end
    records            append; then the high watermark is the leader's, at most the own log end, and never falls

One request or one effect on the disk is under way at a time. An answer to an older request is ignored, so answers may
be lost, come twice or late.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.limits import MAX_SNAPSHOT_BYTES
from broker_core.raft.fetched_records import following_batches
from broker_core.raft.log_comparison import common_end
from broker_core.raft.observer_events import (
    AppendBatches,
    BatchesAppended,
    ElectionSaved,
    FetchAnswer,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LogTruncated,
    ObserverEffect,
    ObserverEvent,
    QuorumAnswer,
    QuorumAnswered,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SendFetch,
    SendFetchSnapshot,
    SnapshotAnswer,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    StopObserver,
    TimePassed,
    TruncateLog,
    WriteSnapshotChunk,
)
from broker_core.raft.observer_progress import Appending, SnapshotProgress
from broker_core.raft.quorum_servers import QuorumServers
from broker_core.raft.quorum_values import NO_NODE, ElectionState, LogReach, QuorumTimings, SnapshotId

FATAL_ERRORS: Final = {
    ErrorCode.inconsistent_cluster_id: "the quorum belongs to another cluster",
    ErrorCode.cluster_authorization_failed: "the quorum does not allow this node to follow it (CLUSTER_ACTION)",
    ErrorCode.invalid_request: "the quorum calls the request invalid",
    ErrorCode.unsupported_version: "the quorum does not know the version of the request",
}


class Waiting(enum.Enum):
    """What is under way."""

    NOTHING = enum.auto()
    REQUEST = enum.auto()
    ELECTION = enum.auto()
    APPEND = enum.auto()
    TRUNCATION = enum.auto()
    CHUNK = enum.auto()
    INSTALLATION = enum.auto()
    STOPPED = enum.auto()


_COMPLETIONS: Final = {
    ElectionSaved: Waiting.ELECTION,
    BatchesAppended: Waiting.APPEND,
    LogTruncated: Waiting.TRUNCATION,
    SnapshotChunkWritten: Waiting.CHUNK,
    SnapshotInstalled: Waiting.INSTALLATION,
    SnapshotRefused: Waiting.INSTALLATION,
}


class QuorumObserver:
    """`bootstrap` are controllers' addresses, `voters` those that are known by id. `log` and `election` are as they
    were found on the disk."""

    def __init__(
        self,
        *,
        bootstrap: Sequence[BrokerAddress],
        election: ElectionState,
        log: LogReach,
        timings: QuorumTimings | None = None,
        voters: Mapping[int, BrokerAddress] = MappingProxyType({}),
    ) -> None:
        self._timings = timings or QuorumTimings()
        self._servers = QuorumServers(bootstrap, self._timings)
        self._servers.learn(voters)
        self._log = log
        # A quorum-state that is older than the log was lost or restored: its epoch says nothing any more.
        is_lost = election.leader_epoch < log.last_epoch
        self._election = ElectionState(leader_epoch=log.last_epoch) if is_lost else election
        self._high_watermark = log.log_start_offset
        self._is_high_watermark_known = False
        self._waiting = Waiting.NOTHING
        self._request_id = 0
        self._deadline_ms = 0
        self._snapshot: SnapshotProgress | None = None
        self._appending: Appending | None = None
        self._truncating_to = 0

    @property
    def election(self) -> ElectionState:
        """The epoch, and its leader if that is known."""
        return self._election

    @property
    def leader_address(self) -> BrokerAddress | None:
        """None while no leader is known, or not where it is."""
        return self._servers.address_of(self._election.leader_id)

    @property
    def high_watermark(self) -> int:
        """All records below it are committed."""
        return self._high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def waiting(self) -> Waiting:
        return self._waiting

    @property
    def next_timer_ms(self) -> int | None:
        """When a TimePassed is due; None while an effect on the disk is under way."""
        if self._waiting is Waiting.REQUEST:
            return self._deadline_ms
        return self._servers.next_try_ms if self._waiting is Waiting.NOTHING else None

    def step(self, event: ObserverEvent, now_ms: int) -> list[ObserverEffect]:
        """The effects of one event, and the next request if none is under way and its time has come."""
        effects: list[ObserverEffect] = []
        match event:
            case QuorumAnswered():
                self._on_answered(event, now_ms, effects)
            case QuorumRequestFailed(request_id=request_id):
                self._maybe_give_up(now_ms, is_lost=request_id == self._request_id)
            case TimePassed():
                self._maybe_give_up(now_ms, is_lost=now_ms >= self._deadline_ms)
            case SnapshotTaken():
                self._on_snapshot_taken(event)
            case _:
                assert self._waiting is _COMPLETIONS[type(event)], f"{event} while waiting for {self._waiting}"
                self._waiting = Waiting.NOTHING
                self._on_done(event, now_ms, effects)
        if self._waiting is Waiting.NOTHING and now_ms >= self._servers.next_try_ms:
            effects.append(self._next_request(now_ms))
        return effects

    # Requests

    def _next_request(self, now_ms: int) -> SendFetch | SendFetchSnapshot:
        self._request_id += 1
        self._waiting = Waiting.REQUEST
        self._deadline_ms = now_ms + self._timings.request_timeout_ms
        to = self._servers.next_to_ask(self._election.leader_id)
        if self._snapshot is not None:
            return SendFetchSnapshot(
                request_id=self._request_id,
                to=to,
                leader_epoch=self._election.leader_epoch,
                snapshot_id=self._snapshot.snapshot_id,
                position=self._snapshot.position,
            )
        return SendFetch(
            request_id=self._request_id,
            to=to,
            leader_epoch=self._election.leader_epoch,
            fetch_offset=self._log.log_end_offset,
            last_fetched_epoch=self._log.last_epoch,
            high_watermark=self._high_watermark if self._is_high_watermark_known else -1,
            max_wait_ms=self._timings.fetch_max_wait_ms,
        )

    def _maybe_give_up(self, now_ms: int, *, is_lost: bool) -> None:
        if is_lost and self._waiting is Waiting.REQUEST:
            self._waiting = Waiting.NOTHING
            self._servers.on_no_answer(now_ms)

    # Answers

    def _on_answered(self, event: QuorumAnswered, now_ms: int, effects: list[ObserverEffect]) -> None:
        if self._waiting is not Waiting.REQUEST or event.request_id != self._request_id:
            return
        self._waiting = Waiting.NOTHING
        answer = event.answer
        if answer.error in FATAL_ERRORS:
            self._stop(f"{FATAL_ERRORS[answer.error]}: error {answer.error.name}", effects)
            return
        self._servers.learn(answer.endpoints)
        if self._maybe_transition(answer, effects):
            return
        is_content = (
            answer.error is ErrorCode.none
            and answer.leader_epoch == self._election.leader_epoch
            and answer.leader_id == self._election.leader_id != NO_NODE
        )
        if is_content:
            self._servers.on_useful_answer(now_ms)
            self._on_content(answer, now_ms, effects)
            return
        if isinstance(answer, SnapshotAnswer):
            self._snapshot = None  # gone at the leader, or another one is newer: Fetch tells which
        self._servers.on_useless_answer(now_ms, names_leader=self._knows_leader(answer))

    def _knows_leader(self, answer: QuorumAnswer) -> bool:
        """Whether the answering node agrees that the leader we know leads the epoch we know."""
        theirs = (answer.leader_epoch, answer.leader_id)
        return theirs == (self._election.leader_epoch, self._election.leader_id) and answer.leader_id != NO_NODE

    def _maybe_transition(self, answer: QuorumAnswer, effects: list[ObserverEffect]) -> bool:
        """Follows a newer epoch or a leader that becomes known; whether the answer is used up by that."""
        epoch, leader_id = self._election.leader_epoch, self._election.leader_id
        if answer.leader_epoch < epoch:
            return False
        if answer.leader_epoch == epoch:
            if answer.leader_id in (NO_NODE, leader_id):
                return False
            if leader_id != NO_NODE:
                self._stop(f"epoch {epoch} has two leaders, {leader_id} and {answer.leader_id}", effects)
                return True
        self._election = ElectionState(leader_epoch=answer.leader_epoch, leader_id=answer.leader_id)
        self._snapshot = None
        self._waiting = Waiting.ELECTION
        effects.append(SaveElection(election=self._election))
        return True

    def _on_content(self, answer: FetchAnswer | SnapshotAnswer, now_ms: int, effects: list[ObserverEffect]) -> None:
        if isinstance(answer, SnapshotAnswer):
            self._on_chunk(answer, now_ms, effects)
        elif answer.diverging is not None:
            self._truncate(answer.diverging, now_ms, effects)
        elif answer.snapshot_id is not None:
            self._begin_snapshot(answer.snapshot_id, effects)
        else:
            self._on_records(answer, now_ms, effects)

    def _truncate(self, diverging: tuple[int, int], now_ms: int, effects: list[ObserverEffect]) -> None:
        epoch = diverging[0]
        end_offset = common_end(self._log, diverging)
        if end_offset < self._high_watermark:
            watermark = self._high_watermark
            self._stop(
                f"the leader's epoch {epoch} ends at {end_offset}, below the high watermark {watermark}", effects
            )
            return
        if end_offset >= self._log.log_end_offset:
            self._servers.on_bad_content(now_ms)  # nothing to truncate: no leader means that
            return
        self._truncating_to = end_offset
        self._waiting = Waiting.TRUNCATION
        effects.append(TruncateLog(end_offset=end_offset))

    def _on_records(self, answer: FetchAnswer, now_ms: int, effects: list[ObserverEffect]) -> None:
        batches = following_batches(answer.records, self._log, leader_epoch=self._election.leader_epoch)
        if not batches.headers:
            self._advance_high_watermark(answer.high_watermark, effects)
            if answer.records:
                self._servers.on_bad_content(now_ms)
            return
        self._appending = Appending(batches, answer.high_watermark)
        self._waiting = Waiting.APPEND
        effects.append(
            AppendBatches(
                records=answer.records[: batches.size_bytes],
                from_offset=self._log.log_end_offset,
                until_offset=batches.headers[-1].next_offset,
            )
        )

    # Snapshots

    def _begin_snapshot(self, snapshot_id: SnapshotId, effects: list[ObserverEffect]) -> None:
        if snapshot_id.end_offset < self._high_watermark:
            end_offset, watermark = snapshot_id.end_offset, self._high_watermark
            self._stop(f"the leader's snapshot ends at {end_offset}, below the high watermark {watermark}", effects)
            return
        self._snapshot = SnapshotProgress(snapshot_id)

    def _on_chunk(self, answer: SnapshotAnswer, now_ms: int, effects: list[ObserverEffect]) -> None:
        progress = self._snapshot
        if progress is None:
            return
        is_same = progress.size_bytes in (None, answer.size_bytes) and answer.position == progress.position
        left = answer.size_bytes - progress.position
        if not is_same or not 0 < len(answer.chunk) <= left or answer.size_bytes > MAX_SNAPSHOT_BYTES:
            self._snapshot = None
            self._servers.on_bad_content(now_ms)
            return
        progress.size_bytes = answer.size_bytes
        self._waiting = Waiting.CHUNK
        effects.append(
            WriteSnapshotChunk(snapshot_id=progress.snapshot_id, position=progress.position, chunk=answer.chunk)
        )
        progress.position += len(answer.chunk)

    def _on_chunk_written(self, now_ms: int, effects: list[ObserverEffect]) -> None:
        progress = self._snapshot
        assert progress is not None
        if progress.position == progress.size_bytes:
            self._waiting = Waiting.INSTALLATION
            effects.append(InstallSnapshot(snapshot_id=progress.snapshot_id))
        else:
            self._servers.on_useful_answer(now_ms)

    def _on_snapshot_installed(self, now_ms: int, effects: list[ObserverEffect]) -> None:
        assert self._snapshot is not None
        snapshot_id, self._snapshot = self._snapshot.snapshot_id, None
        end_offset = snapshot_id.end_offset
        self._log.log_start_offset = self._log.log_end_offset = end_offset
        self._log.epochs, self._log.start_epoch = LeaderEpochs(), snapshot_id.epoch
        self._advance_high_watermark(end_offset, effects)
        self._servers.on_useful_answer(now_ms)

    def _on_snapshot_taken(self, event: SnapshotTaken) -> None:
        """Of own records: the log may begin later now, at the end of a snapshot."""
        log, start = self._log, event.log_start_offset
        if start > log.log_start_offset:
            log.log_start_offset, log.start_epoch = start, event.snapshot_id.epoch
            log.epochs.truncate_from_start(start)

    # Completions

    def _on_done(self, event: ObserverEvent, now_ms: int, effects: list[ObserverEffect]) -> None:
        match event:
            case ElectionSaved():
                election = self._election
                effects.append(QuorumLeaderChanged(leader_id=election.leader_id, leader_epoch=election.leader_epoch))
                self._servers.on_useful_answer(now_ms)
            case BatchesAppended():
                self._on_appended(now_ms, effects)
            case LogTruncated():
                self._log.log_end_offset = self._truncating_to
                self._log.epochs.truncate_from_end(self._truncating_to)
                self._servers.on_useful_answer(now_ms)
            case SnapshotChunkWritten():
                self._on_chunk_written(now_ms, effects)
            case SnapshotInstalled():
                self._on_snapshot_installed(now_ms, effects)
            case SnapshotRefused():
                self._snapshot = None
                self._servers.on_bad_content(now_ms)

    def _on_appended(self, now_ms: int, effects: list[ObserverEffect]) -> None:
        appending, self._appending = self._appending, None
        assert appending is not None
        for header in appending.batches.headers:
            self._log.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self._log.log_end_offset = header.next_offset
        self._advance_high_watermark(appending.high_watermark, effects)
        self._servers.on_useful_answer(now_ms)

    def _advance_high_watermark(self, offered: int, effects: list[ObserverEffect]) -> None:
        if offered < 0:
            return
        self._is_high_watermark_known = True
        reached = min(offered, self._log.log_end_offset)
        if reached > self._high_watermark:
            self._high_watermark = reached
            effects.append(HighWatermarkAdvanced(high_watermark=reached))

    def _stop(self, reason: str, effects: list[ObserverEffect]) -> None:
        self._waiting = Waiting.STOPPED
        effects.append(StopObserver(reason=reason))
