"""Replicas with one planted bug each, most of them bugs that Kafka once had: what the simulation must catch."""

from __future__ import annotations

from dataclasses import replace

from broker_core.replication.follower_table import FollowerState
from broker_core.replication.in_sync_replicas import InSyncReplicas
from broker_core.replication.partition_follower import PartitionFollower
from broker_core.replication.partition_leader import PartitionLeader
from broker_core.replication.partition_replica import PartitionReplica
from broker_core.replication.replica_log import ReplicaLog


class _PlantedReplica(PartitionReplica):
    """With other roles, or another log."""

    leader_class = PartitionLeader
    follower_class = PartitionFollower
    log_class = ReplicaLog
    members_class = InSyncReplicas

    def __init__(self, *, log, **others):
        if self.log_class is not ReplicaLog:
            log.__class__ = self.log_class
        super().__init__(log=log, **others)

    def _new_leader(self, assignment, now_ms):
        leader = super()._new_leader(assignment, now_ms)
        leader.__class__ = self.leader_class
        leader.in_sync.__class__ = self.members_class
        return leader

    def _new_follower(self, assignment):
        follower = super()._new_follower(assignment)
        follower.__class__ = self.follower_class
        return follower


# Truncation and epochs


class _TruncatingToWatermark(PartitionFollower):
    def begin(self):
        return self._write_truncation(max(self.log.high_watermark, self.log.log_start_offset))


class TruncationToTheWatermark(_PlantedReplica):
    """KIP-101: a new follower truncates to what it knows to be committed, which may lag."""

    follower_class = _TruncatingToWatermark


class _LogComparingOffsets(ReplicaLog):
    __slots__ = ()

    def common_end(self, diverging):
        return min(diverging.end_offset, self.log_end_offset)


class TruncationByOffsetAlone(_PlantedReplica):
    """KIP-279: the leader answers with another epoch than was asked for, and the follower takes its end as its own."""

    log_class = _LogComparingOffsets


class _LogWithLaterEpochs(ReplicaLog):
    __slots__ = ()

    def truncate(self, end_offset):
        if end_offset < self.log_end_offset:
            super().truncate(end_offset)


class EpochsKeptByAShortTruncation(_PlantedReplica):
    """KAFKA-10706: a truncation that removes no record leaves the epoch that begins there."""

    log_class = _LogWithLaterEpochs


class _ForgettingEpochZero(PartitionLeader):
    def _divergence_from(self, fetch):
        return super()._divergence_from(fetch) if fetch.last_fetched_epoch > 0 else None


class EpochZeroForgotten(_PlantedReplica):
    """KAFKA-10432: `if epoch:`."""

    leader_class = _ForgettingEpochZero


class _ForgettingAtTheEnd(PartitionFollower):
    def _advance(self, answer):
        self.log.is_forgetful = not answer.records
        return super()._advance(answer)

    def _position(self):
        position = super()._position()
        return replace(position, last_fetched_epoch=-1) if self.log.is_forgetful else position


class _ForgetfulLog(ReplicaLog):
    is_forgetful = False


class EmptyAnswerClearsTheEpoch(_PlantedReplica):
    """KAFKA-15510: after an answer without records the follower does not tell its last epoch any more."""

    follower_class = _ForgettingAtTheEnd

    def __init__(self, *, log, **others):
        names = ("log_start_offset", "log_end_offset", "synced_end", "high_watermark", "epochs")
        super().__init__(log=_ForgetfulLog(**{name: getattr(log, name) for name in names}), **others)


# Fetches at the leader


class _CountingFirst(PartitionLeader):
    def _divergence_from(self, fetch):
        if fetch.replica_id in self._followers:
            self._count(fetch, self._followers[fetch.replica_id].last_fetch_ms or 0)
        return super()._divergence_from(fetch)


class DivergingFetchCounted(_PlantedReplica):
    """KAFKA-13141: the offset of a follower whose log differs moves the high watermark."""

    leader_class = _CountingFirst


# The high watermark


class _CountingUnsynced(PartitionLeader):
    def _lowest_end(self, now_ms):
        synced_end, self.log.synced_end = self.log.synced_end, self.log.log_end_offset
        lowest = super()._lowest_end(now_ms)
        self.log.synced_end = synced_end
        return lowest


class OwnLogCountedBeforeTheSync(_PlantedReplica):
    """What Kafka does: records on one device alone can be committed."""

    leader_class = _CountingUnsynced


class _FetchingAtOnce(PartitionFollower):
    def _append(self, answer, now_ms):
        effects = super()._append(answer, now_ms)
        if self._offered is not None:
            self.on_written()
        return effects


class FetchAheadOfTheSync(_PlantedReplica):
    """KIP-966: an in-sync replica whose page cache is lost had acknowledged what was in it."""

    follower_class = _FetchingAtOnce

    def on_written(self, now_ms):
        return super().on_written(now_ms) if self.follower.state is FollowerState.WRITING else []


class _CommittedMembersAlone(PartitionLeader):
    def _lowest_end(self, now_ms):
        ends = [
            each.log_end_offset for replica_id, each in self._followers.items() if replica_id in self.in_sync.committed
        ]
        return min([self.log.synced_end, *ends])


class ProposedMembersNotWaitedFor(_PlantedReplica):
    """The controller may have taken a member that the leader only proposed."""

    leader_class = _CommittedMembersAlone


class _ShrinkingAtOnce(InSyncReplicas):
    @property
    def maximal(self):
        return self.committed if self.proposal is None else self.proposal.ids


class ProposedShrinkingCounted(_PlantedReplica):
    """A member that was only proposed to leave may still be elected."""

    members_class = _ShrinkingAtOnce


class _WithoutMinimum(PartitionLeader):
    def _has_too_few_in_sync(self):
        return False


class WatermarkBelowMinInSync(_PlantedReplica):
    """Replicas that left last may be elected (KIP-966), so nothing may be committed without them."""

    leader_class = _WithoutMinimum


class _LogBeyondItself(ReplicaLog):
    __slots__ = ()

    def advance_watermark(self, high_watermark):
        if high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        return True


class FollowerWatermarkBeyondItsEnd(_PlantedReplica):
    log_class = _LogBeyondItself


# The in-sync set


class _JoiningByWatermarkAlone(PartitionLeader):
    def _maybe_expand(self, replica_id):
        start, self.epoch_start_offset = self.epoch_start_offset, 0
        effects = super()._maybe_expand(replica_id)
        self.epoch_start_offset = start
        return effects


class JoiningBelowTheEpochStart(_PlantedReplica):
    """A new leader's high watermark lags, so a replica that reached it need not have all that is committed."""

    leader_class = _JoiningByWatermarkAlone


class StaleMembersKept(_PlantedReplica):
    """KAFKA-15353: who was in sync in an earlier leadership is taken for who is in this one."""

    _members = None

    def _new_leader(self, assignment, now_ms):
        leader = super()._new_leader(assignment, now_ms)
        if self._members is not None:
            leader.in_sync = self._members
        self._members = leader.in_sync
        return leader


class OlderPartitionEpochAccepted(_PlantedReplica):
    """KAFKA-13790: the metadata log, which is behind, undoes what the controller answered."""

    def on_assignment(self, assignment, now_ms):
        if self.leader is not None and assignment.leader_epoch == self.leader.leader_epoch:
            return self.leader.on_assignment(assignment, now_ms)
        return super().on_assignment(assignment, now_ms)


# Errors


class _DyingOfDamage(PartitionFollower):
    def _append(self, answer, now_ms):
        effects = super()._append(answer, now_ms)
        self.is_dead = not effects
        return effects


class DamagedBatchStopsTheFollower(_PlantedReplica):
    """KAFKA-18723's kind: damage on the way ends the fetching for good."""

    follower_class = _DyingOfDamage
    _is_dead = False

    def fetch_position(self):
        self._is_dead = self._is_dead or getattr(self.follower, "is_dead", False)
        return None if self._is_dead else super().fetch_position()


class WriteErrorIgnored(_PlantedReplica):
    """KAFKA-10778: nobody knows what the log holds, and the leader goes on."""

    def on_write_failed(self):
        if self.follower is not None:
            return self.on_written(0) if self.follower.state is FollowerState.WRITING else []
        return [] if self.leader is None else self.leader.on_synced(self.log.log_end_offset, 0)


class _TakingAnyAnswer(PartitionFollower):
    def on_answer(self, position, answer, now_ms):
        return super().on_answer(self._position(), answer, now_ms)


class LateFetchAnswersTaken(_PlantedReplica):
    follower_class = _TakingAnyAnswer


PLANTED = {
    TruncationToTheWatermark: 0,
    TruncationByOffsetAlone: 4,
    EpochsKeptByAShortTruncation: 5,
    EpochZeroForgotten: 0,
    EmptyAnswerClearsTheEpoch: 0,
    DivergingFetchCounted: 1,
    OwnLogCountedBeforeTheSync: 1,
    FetchAheadOfTheSync: 0,
    ProposedMembersNotWaitedFor: 2,
    ProposedShrinkingCounted: 0,
    WatermarkBelowMinInSync: 0,
    FollowerWatermarkBeyondItsEnd: 0,
    JoiningBelowTheEpochStart: 1,
    StaleMembersKept: 5,
    OlderPartitionEpochAccepted: 22,
    DamagedBatchStopsTheFollower: 6,
    WriteErrorIgnored: 2,
    LateFetchAnswersTaken: 5,
}
"""Each bug, and the first seed that shows it."""
