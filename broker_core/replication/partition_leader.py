"""The leader of a partition in one epoch: fetches of followers, in-sync replicas, high watermark, acks=all.

    a follower's fetch ──► epochs equal? ──► logs agree? ──► its end counts ──► maybe in sync ──► maybe committed
                            74, 75, 6         diverging                          ProposeIsr        WatermarkAdvanced
                                                                                                   AnswerAppend

The high watermark is the lowest end over

    itself        as far as its log is synced
    members       of the maximal in-sync set
    joining       replicas that are caught up and may join: they would otherwise never reach a moving watermark

and it rests while the committed set is smaller than min.insync.replicas. So what is below it is on the device of every
replica that may be elected. A fetch counts only after the logs were found to agree (KAFKA-13141).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.log.leader_epochs import EpochEnd
from broker_core.model.identifiers import NO_LEADER_EPOCH
from broker_core.replication.follower_progress import FollowerProgress
from broker_core.replication.in_sync_replicas import InSyncReplicas
from broker_core.replication.isr_answer_table import IsrReaction, isr_reaction
from broker_core.replication.replica_log import ReplicaLog
from broker_core.replication.replication_values import (
    NO_REPLICA,
    UNKNOWN_BROKER_EPOCH,
    AnswerAppend,
    FetchVerdict,
    IsrAnswer,
    MemberProposal,
    PartitionAssignment,
    PartitionFetch,
    ProposeIsr,
    ReplicaEffect,
    ReplicationSettings,
    StandingOf,
    WatermarkAdvanced,
)

ALL_ACKS: Final = -1


class PartitionLeader:
    """`min_in_sync_count` is the topic's min.insync.replicas. Appends are the driver's: it asks `append_refusal`,
    appends, and says so."""

    def __init__(
        self,
        *,
        own_id: int,
        assignment: PartitionAssignment,
        log: ReplicaLog,
        standing_of: StandingOf,
        settings: ReplicationSettings,
        min_in_sync_count: int,
        now_ms: int,
    ) -> None:
        self.own_id = own_id
        self.assignment = assignment
        self.partition_epoch = assignment.partition_epoch
        """The controller's answers may be ahead of the metadata log."""
        self.in_sync = InSyncReplicas(assignment.isr)
        self.min_in_sync_count = min_in_sync_count
        self.epoch_start_offset = log.log_end_offset
        self.log = log
        self._standing_of = standing_of
        self._settings = settings
        self._followers: dict[int, FollowerProgress] = {}
        self._learn_replicas(assignment, now_ms)
        self._waiting: list[tuple[int, int]] = []
        """(end offset, request id) of appends with acks=all, ascending."""
        self.next_timer_ms = now_ms + settings.lag_check_interval_ms

    @property
    def leader_epoch(self) -> int:
        return self.assignment.leader_epoch

    @property
    def is_end_known(self) -> bool:
        """False: an earlier leader may have told of more committed records than this one knows of yet, so the end of
        the committed log is not told (OFFSET_NOT_AVAILABLE)."""
        return self.log.high_watermark >= self.epoch_start_offset

    def follower(self, replica_id: int) -> FollowerProgress | None:
        return self._followers.get(replica_id)

    def _learn_replicas(self, assignment: PartitionAssignment, now_ms: int) -> None:
        """Members of the in-sync set count as caught up now: they get the time to show it."""
        never_ms = now_ms - self._settings.max_lag_ms - 1
        self._followers = {
            replica_id: self._followers.get(replica_id)
            or FollowerProgress(now_ms if replica_id in assignment.isr else never_ms)
            for replica_id in assignment.replicas
            if replica_id != self.own_id
        }

    # Metadata

    def on_assignment(self, assignment: PartitionAssignment, now_ms: int) -> list[ReplicaEffect]:
        """A newer partition epoch of the same leader epoch."""
        assert assignment.leader_epoch == self.leader_epoch, f"{assignment} for the leader of {self.assignment}"
        self.assignment, self.partition_epoch = assignment, assignment.partition_epoch
        self.in_sync.commit(assignment.isr)
        self._learn_replicas(assignment, now_ms)
        return self._maybe_advance(now_ms)

    def on_standings(self, now_ms: int) -> list[ReplicaEffect]:
        """Brokers were fenced, unfenced or registered: joining replicas may not be waited for any more."""
        return self._maybe_advance(now_ms)

    # Appends

    def append_refusal(self, acks: int) -> ErrorCode | None:
        """Why nothing may be appended; None: it may. A batch gets this leader's epoch."""
        if acks == ALL_ACKS and self._has_too_few_in_sync():
            return ErrorCode.not_enough_replicas
        return None

    def _has_too_few_in_sync(self) -> bool:
        return len(self.in_sync.committed) < self._effective_min_count()

    def _effective_min_count(self) -> int:
        return min(self.min_in_sync_count, len(self.assignment.replicas))

    def await_replication(self, request_id: int, until_offset: int) -> list[ReplicaEffect]:
        """An append with acks=all whose last record is before `until_offset`: answered when that is committed."""
        self._waiting.append((until_offset, request_id))
        self._waiting.sort()
        return self._answer_waiting()

    def on_synced(self, until_offset: int, now_ms: int) -> list[ReplicaEffect]:
        """Own records below it are on the device: only now they count."""
        self.log.on_synced(until_offset)
        return self._maybe_advance(now_ms)

    def resign(self, error: ErrorCode) -> list[ReplicaEffect]:
        """It leads no more: what waits is not known to be committed."""
        waiting, self._waiting = self._waiting, []
        return [AnswerAppend(request_id=request_id, error=error) for _, request_id in waiting]

    def take_waiting(self, other: PartitionLeader) -> None:
        """The same broker leads on in a new epoch: its log stays, and what waits for it."""
        self._waiting, other._waiting = other._waiting, []

    def _answer_waiting(self) -> list[ReplicaEffect]:
        reached = list(takewhile(lambda each: each[0] <= self.log.high_watermark, self._waiting))
        del self._waiting[: len(reached)]
        is_enough = len(self.in_sync.maximal) >= self._effective_min_count()
        error = ErrorCode.none if is_enough else ErrorCode.not_enough_replicas_after_append
        return [AnswerAppend(request_id=request_id, error=error) for _, request_id in reached]

    # Fetches

    def on_fetch(self, fetch: PartitionFetch, now_ms: int) -> tuple[FetchVerdict, list[ReplicaEffect]]:
        """What to answer, and what the fetch of a follower brings about."""
        refused = self._refusal_of(fetch)
        if refused is not ErrorCode.none:
            return self._verdict(error=refused), []
        diverging = self._divergence_from(fetch)
        if isinstance(diverging, ErrorCode):
            return self._verdict(error=diverging), []
        if diverging is not None:
            return self._verdict(diverging=diverging), []
        log = self.log
        until = log.log_end_offset if fetch.replica_id != NO_REPLICA else log.high_watermark
        if not log.log_start_offset <= fetch.fetch_offset <= log.log_end_offset:
            return self._verdict(error=ErrorCode.offset_out_of_range), []
        effects: list[ReplicaEffect] = []
        if fetch.replica_id != NO_REPLICA:
            self._count(fetch, now_ms)
            effects = [*self._maybe_expand(fetch.replica_id), *self._maybe_advance(now_ms)]
        return replace(self._verdict(), until_offset=max(until, fetch.fetch_offset)), effects

    def preferred_reader(self, fetch_offset: int, is_near: Callable[[int], bool]) -> int | None:
        """A follower that a consumer may rather fetch from (KIP-392): in sync, alive, near, and its log has the offset;
        the one that is furthest. None: the consumer fetches here. One that lags could keep a consumer behind for
        ever."""
        candidates = [
            (follower.log_end_offset, follower.last_caught_up_ms, replica_id)
            for replica_id, follower in self._followers.items()
            if replica_id in self.in_sync.committed
            and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
            and self._is_alive(replica_id)
            and is_near(replica_id)
        ]
        return max(candidates)[2] if candidates else None

    def on_watermark_told(self, replica_id: int, high_watermark: int) -> None:
        """In the answer to a follower's fetch."""
        follower = self._followers.get(replica_id)
        if follower is not None:
            follower.told_high_watermark = high_watermark

    def is_watermark_news(self, replica_id: int) -> bool:
        """The follower knows of fewer committed records than the leader."""
        follower = self._followers.get(replica_id)
        return follower is not None and follower.told_high_watermark < self.log.high_watermark

    def _is_alive(self, replica_id: int) -> bool:
        standing = self._standing_of(replica_id)
        return standing is not None and standing.is_alive

    def _verdict(self, *, error: ErrorCode = ErrorCode.none, diverging: EpochEnd | None = None) -> FetchVerdict:
        log = self.log
        return FetchVerdict(
            error=error,
            diverging=diverging,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
        )

    def _refusal_of(self, fetch: PartitionFetch) -> ErrorCode:
        refused = refused_leader_epoch(fetch.current_leader_epoch, self.leader_epoch)
        if refused is not ErrorCode.none or fetch.replica_id == NO_REPLICA:
            return refused
        if fetch.replica_id not in self._followers:
            # It knows of an assignment that is not here yet, or of one that is over: it tries again either way.
            is_without_epoch = fetch.current_leader_epoch == NO_LEADER_EPOCH
            return ErrorCode.not_leader_or_follower if is_without_epoch else ErrorCode.unknown_leader_epoch
        standing = self._standing_of(fetch.replica_id)
        is_earlier_incarnation = (
            standing is not None and UNKNOWN_BROKER_EPOCH < fetch.broker_epoch < standing.broker_epoch
        )
        return ErrorCode.not_leader_or_follower if is_earlier_incarnation else ErrorCode.none

    def _divergence_from(self, fetch: PartitionFetch) -> EpochEnd | ErrorCode | None:
        """Where the follower's log leaves this one; None: it does not."""
        if fetch.last_fetched_epoch == NO_LEADER_EPOCH:
            return None
        end = self.log.end_of(fetch.last_fetched_epoch)
        if end.leader_epoch == NO_LEADER_EPOCH:
            return ErrorCode.offset_out_of_range
        if end.leader_epoch != fetch.last_fetched_epoch or end.end_offset < fetch.fetch_offset:
            return end
        return None

    def _count(self, fetch: PartitionFetch, now_ms: int) -> None:
        self._followers[fetch.replica_id].on_fetch(fetch, leader_end=self.log.log_end_offset, now_ms=now_ms)

    # In-sync replicas

    def _is_eligible(self, replica_id: int) -> bool:
        """Whether the controller would take it: alive, and the incarnation that fetched is the registered one
        (KIP-903)."""
        standing = self._standing_of(replica_id)
        if standing is None or not standing.is_alive:
            return False
        return self._followers[replica_id].broker_epoch in (UNKNOWN_BROKER_EPOCH, standing.broker_epoch)

    def _maybe_expand(self, replica_id: int) -> list[ReplicaEffect]:
        if self.in_sync.proposal is not None or replica_id in self.in_sync.committed:
            return []
        end_offset = self._followers[replica_id].log_end_offset
        has_reached = end_offset >= self.log.high_watermark and end_offset >= self.epoch_start_offset
        if not has_reached or not self._is_eligible(replica_id):
            return []
        return self._propose(self.in_sync.committed | {replica_id})

    def _maybe_shrink(self, now_ms: int) -> list[ReplicaEffect]:
        if self.in_sync.proposal is not None:
            return []
        lagging = {
            replica_id
            for replica_id, follower in self._followers.items()
            if replica_id in self.in_sync.committed and not self._is_caught_up(follower, now_ms)
        }
        return self._propose(self.in_sync.committed - lagging) if lagging else []

    def _is_caught_up(self, follower: FollowerProgress, now_ms: int) -> bool:
        return follower.is_caught_up(
            leader_end=self.log.log_end_offset, now_ms=now_ms, max_lag_ms=self._settings.max_lag_ms
        )

    def _propose(self, ids: frozenset[int]) -> list[ReplicaEffect]:
        members = tuple((broker_id, self._broker_epoch_of(broker_id)) for broker_id in sorted(ids))
        proposal = MemberProposal(members=members, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch)
        self.in_sync.propose(proposal)
        return [ProposeIsr(proposal=proposal)]

    def _broker_epoch_of(self, broker_id: int) -> int:
        """Of the incarnation that is known to have the records: the controller refuses an earlier one."""
        if broker_id == self.own_id:
            standing = self._standing_of(broker_id)
            return UNKNOWN_BROKER_EPOCH if standing is None else standing.broker_epoch
        follower = self._followers.get(broker_id)
        return UNKNOWN_BROKER_EPOCH if follower is None else follower.broker_epoch

    def on_isr_answer(self, proposal: MemberProposal, answer: IsrAnswer, now_ms: int) -> list[ReplicaEffect]:
        """An answer to a proposal that is not open any more changes nothing: the metadata log was faster."""
        if proposal is not self.in_sync.proposal:
            return []
        match isr_reaction(answer.error):
            case IsrReaction.APPLY:
                # An older state is that of a controller that is behind: the metadata log will tell.
                if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
                    return []
                self.in_sync.commit(answer.isr)
                self.partition_epoch = answer.partition_epoch
                return self._maybe_advance(now_ms)
            case IsrReaction.REVERT:
                self.in_sync.revert()
                return self._maybe_advance(now_ms)
            case IsrReaction.AWAIT_METADATA:
                return []
            case IsrReaction.RETRY:
                return [ProposeIsr(proposal=proposal)]

    # The high watermark

    def _maybe_advance(self, now_ms: int) -> list[ReplicaEffect]:
        if not self._has_too_few_in_sync() and self.log.advance_watermark(self._lowest_end(now_ms)):
            return [WatermarkAdvanced(high_watermark=self.log.high_watermark), *self._answer_waiting()]
        return []

    def _lowest_end(self, now_ms: int) -> int:
        members = self.in_sync.maximal
        ends = [
            follower.log_end_offset
            for replica_id, follower in self._followers.items()
            if replica_id in members or self._is_joining(replica_id, follower, now_ms)
        ]
        return min([self.log.synced_end, *ends])

    def _is_joining(self, replica_id: int, follower: FollowerProgress, now_ms: int) -> bool:
        return self._is_caught_up(follower, now_ms) and self._is_eligible(replica_id)

    def low_watermark(self) -> int:
        """The lowest log start over living replicas: records before it are deleted everywhere (DeleteRecords)."""
        starts = [
            follower.log_start_offset
            for replica_id, follower in self._followers.items()
            if (standing := self._standing_of(replica_id)) is not None and not standing.is_fenced
        ]
        return min([self.log.log_start_offset, *starts])

    # Time

    def on_time(self, now_ms: int) -> list[ReplicaEffect]:
        """Members that lag for too long leave, looked at twice in that time."""
        if now_ms < self.next_timer_ms:
            return []
        self.next_timer_ms = now_ms + self._settings.lag_check_interval_ms
        return [*self._maybe_shrink(now_ms), *self._maybe_advance(now_ms)]


def refused_leader_epoch(believed: int, leader_epoch: int) -> ErrorCode:
    """An epoch that the sender believes to be the current one; -1: it knows none."""
    if believed in (NO_LEADER_EPOCH, leader_epoch):
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if believed < leader_epoch else ErrorCode.unknown_leader_epoch
