"""Changes of a dynamic quorum's voters at the leader: one at a time, each a record in the log (KIP-853).

add       checks ── the new voter names its kraft.versions, and is caught up ── voters record ── committed: answered
remove    checks ── voters record ── committed by those who are left: answered
update    checks ── voters record, if something is new: answered at once

A change may begin when nobody waits for another one, a record of this leader's epoch is committed, and the latest
voters are. So two sets that follow each other differ in one voter, every majority of the one meets every majority of
the other, and the old set is known to everybody who may decide. Whoever asks waits for one request timeout: the record
may be committed later, too, and holds the next change up until then.

    first check that fails                    error
    a change waits for its end                REQUEST_TIMED_OUT
    nothing of this epoch is committed        REQUEST_TIMED_OUT
    kraft.version 0                           UNSUPPORTED_VERSION
    the latest voters are not committed       REQUEST_TIMED_OUT
    add      the id is a voter's              DUPLICATE_VOTER
             no answer about versions         REQUEST_TIMED_OUT
             versions do not fit              INVALID_REQUEST
             not caught up                    REQUEST_TIMED_OUT
    remove   no such voter, or the last one   VOTER_NOT_FOUND
    update   no such voter                    VOTER_NOT_FOUND

Static voters are updated in memory alone: once all of them have told their directories and versions, the quorum can be
made dynamic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from broker_core.raft.leader_progress import LeaderProgress
from broker_core.raft.observer_events import QuorumAnswer
from broker_core.raft.voter_core import VoterCore
from broker_core.raft.voter_events import (
    AddVoterRequest,
    ChangeAnswer,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsAnswer,
    VersionsRequest,
)
from broker_core.raft.voter_set import DYNAMIC_KRAFT_VERSION, VoterNode, VoterSet


@dataclass(frozen=True, slots=True)
class _RefusedChange:
    error: ErrorCode
    message: str


@dataclass(slots=True, kw_only=True)
class _PendingChange:
    """`request_id` waits for an answer, None if it has one. `added` is not in the log yet; `offset` is the record's."""

    request_id: int | None
    deadline_ms: int
    added: AddVoterRequest | None = None
    offset: int | None = None


class VoterChanges:
    """`append` writes a voters record and returns its offset."""

    def __init__(self, core: VoterCore, progress: LeaderProgress, *, append: Callable[[VoterSet], int]) -> None:
        self._core = core
        self._progress = progress
        self._append = append
        self._pending: _PendingChange | None = None
        self.told: VoterSet | None = None
        """Static voters with what they told of themselves; None if the quorum is dynamic."""
        if not core.history.is_dynamic:
            self.told = core.history.latest.with_told(core.own)

    @property
    def deadline_ms(self) -> int | None:
        """When whoever waits is told that it takes too long."""
        return None if self._pending is None else self._pending.deadline_ms

    # Requests

    def on_add(self, request_id: int, request: AddVoterRequest) -> None:
        core, voter = self._core, request.voter
        address = voter.endpoints.get(core.listener)
        refusal = self._refusal_of_any()
        if voter.node_id < 0 or voter.directory_id is None:
            refusal = _RefusedChange(ErrorCode.invalid_request, "a voter has an id and a directory id")
        elif address is None:
            refusal = _RefusedChange(
                ErrorCode.invalid_request, f"the voter has no endpoint for the controllers' listener {core.listener}"
            )
        elif refusal is None and voter.node_id in core.voters:
            refusal = _RefusedChange(ErrorCode.duplicate_voter, f"node {voter.node_id} is a voter already")
        elif refusal is None and not core.links.is_ready(voter.node_id, core.now_ms):
            refusal = _RefusedChange(ErrorCode.request_timed_out, f"node {voter.node_id} cannot be asked at the moment")
        if refusal is not None:
            self._refuse(request_id, refusal)
            return
        self._begin(_PendingChange(request_id=request_id, deadline_ms=self._deadline_ms(), added=request))
        core.send(voter.node_id, VersionsRequest(), address=address)

    def on_remove(self, request_id: int, request: RemoveVoterRequest) -> None:
        voter = request.voter
        refusal, remaining = self._refusal_of_any(), self._core.history.latest.without(voter)
        if voter.node_id < 0 or voter.directory_id is None:
            refusal = _RefusedChange(ErrorCode.invalid_request, "a voter has an id and a directory id")
        elif refusal is None and remaining is None:
            is_last = self._core.history.latest.is_voter(voter)
            reason = "is the last voter" if is_last else f"with directory {voter.directory_id} is no voter"
            refusal = _RefusedChange(ErrorCode.voter_not_found, f"node {voter.node_id} {reason}")
        if refusal is not None:
            self._refuse(request_id, refusal)
            return
        assert remaining is not None
        self._begin(_PendingChange(request_id=request_id, deadline_ms=self._deadline_ms()))
        self._write(remaining)

    def on_update(self, request_id: int, request: UpdateVoterRequest) -> None:
        core = self._core
        error = self._update(request.voter)
        if error is ErrorCode.none:
            self._progress.on_heard(request.voter.key, core.now_ms)
        core.reply(request_id, core.answer(QuorumAnswer, error=error))

    def _update(self, voter: VoterNode) -> ErrorCode:
        core, history = self._core, self._core.history
        lowest, highest = voter.kraft_versions
        is_valid = voter.node_id >= 0 and voter.directory_id is not None and 0 <= lowest <= highest
        if not is_valid or core.listener not in voter.endpoints:
            return ErrorCode.invalid_request
        if self._is_pending() or self._progress.high_watermark is None:
            return ErrorCode.request_timed_out
        if history.is_dynamic and not self._are_voters_committed():
            return ErrorCode.request_timed_out
        if not voter.supports(history.kraft_version):
            return ErrorCode.invalid_request
        updated = history.latest.with_updated(voter) if self.told is None else self.told.with_told(voter)
        if updated is None:
            return ErrorCode.voter_not_found
        if self.told is not None:
            self.told = updated
        elif history.latest.needs_update(voter):
            self._append(updated)
        return ErrorCode.none

    def _refusal_of_any(self) -> _RefusedChange | None:
        history = self._core.history
        if self._is_pending():
            return _RefusedChange(ErrorCode.request_timed_out, "another change of the voters is under way")
        if self._progress.high_watermark is None:
            return _RefusedChange(ErrorCode.request_timed_out, "the leader has committed nothing yet")
        if not history.is_dynamic:
            return _RefusedChange(
                ErrorCode.unsupported_version,
                f"voters are static with kraft.version {history.kraft_version}, {DYNAMIC_KRAFT_VERSION} is needed",
            )
        if not self._are_voters_committed():
            return _RefusedChange(ErrorCode.request_timed_out, "the latest change of the voters is not committed")
        return None

    def _are_voters_committed(self) -> bool:
        offset, watermark = self._core.history.latest_offset, self._progress.high_watermark
        return offset is not None and watermark is not None and offset < watermark

    # Adding

    def on_versions(self, answer: VersionsAnswer | None) -> None:
        """Of the node that is being added; None: it does not answer."""
        pending = self._pending
        if pending is None or pending.added is None:
            return  # it took too long
        voter, version = pending.added.voter, self._core.history.kraft_version
        if answer is None or answer.error is not ErrorCode.none:
            self._end(ErrorCode.request_timed_out, f"node {voter.node_id} does not tell its versions")
            return
        offered = (0, 0) if answer.kraft_versions is None else answer.kraft_versions
        added = replace(voter, kraft_versions=offered)
        if not added.supports(version):
            self._end(
                ErrorCode.invalid_request,
                f"node {voter.node_id} knows kraft.version {offered[0]} to {offered[1]}, the quorum has {version}",
            )
        elif not self._progress.is_caught_up(voter.key, self._core.now_ms):
            self._end(ErrorCode.request_timed_out, f"node {voter.node_id} is not at the end of the log yet")
        else:
            voters = self._core.history.latest.with_added(added)
            assert voters is not None, f"{added} was checked"
            if not pending.added.is_answered_when_committed:
                self._answer(ErrorCode.none, None)
            pending.added = None
            self._write(voters)

    # The pending change

    def _write(self, voters: VoterSet) -> None:
        """What is pending takes effect. A majority may have its record with the next fetch, or this node alone."""
        pending = self._pending
        assert pending is not None
        pending.offset = self._core.log.end
        offset = self._append(voters)
        assert offset == pending.offset, (offset, pending.offset)

    def on_committed(self, high_watermark: int) -> None:
        pending = self._pending
        if pending is not None and pending.offset is not None and high_watermark > pending.offset:
            self._end(ErrorCode.none, None)

    def expire(self) -> None:
        if self._pending is not None and self._core.now_ms >= self._pending.deadline_ms:
            self._end(ErrorCode.request_timed_out, "the change is not committed yet, and may still be")

    def release(self) -> None:
        """This node does not lead any more."""
        self._end(ErrorCode.not_leader_or_follower, None)

    def _is_pending(self) -> bool:
        self.expire()
        return self._pending is not None

    def _begin(self, pending: _PendingChange) -> None:
        assert self._pending is None, "two changes at a time"
        self._pending = pending

    def _end(self, error: ErrorCode, message: str | None) -> None:
        self._answer(error, message)
        self._pending = None

    def _answer(self, error: ErrorCode, message: str | None) -> None:
        pending = self._pending
        if pending is not None and pending.request_id is not None:
            self._core.reply(pending.request_id, ChangeAnswer(error=error, message=message))
            pending.request_id = None

    def _refuse(self, request_id: int, refusal: _RefusedChange) -> None:
        self._core.reply(request_id, ChangeAnswer(error=refusal.error, message=refusal.message))

    def _deadline_ms(self) -> int:
        return self._core.now_ms + self._core.timings.request_timeout_ms
