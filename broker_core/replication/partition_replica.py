"""A replica of a partition on one broker: leader or follower as the metadata log has it, over one log.

A machine: `on_…` methods are events, and return effects in the order in which they have to be done.

    assignment of the metadata log          before                     now
    older partition epoch                   any                        ignored: the controller's answer was newer
    this broker leads, newer leader epoch   any                        leader: the epoch is noted even without records
    this broker leads, same leader epoch    leader                     leader: members and replicas change
    another leads, newer leader epoch       leader, follower, nothing  follower: fetches from its log end
    another leads, same leader epoch        follower                   follower: fetches on
    this broker is no replica               any                        nothing

A change of the leader epoch waits for the write of a follower that is under way.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.replication.follower_table import FollowerState
from broker_core.replication.partition_follower import PartitionFollower
from broker_core.replication.partition_leader import PartitionLeader
from broker_core.replication.replica_log import ReplicaLog
from broker_core.replication.replication_values import (
    AdvanceLogStart,
    FetchPosition,
    FetchVerdict,
    IsrAnswer,
    MemberProposal,
    PartitionAssignment,
    PartitionFetch,
    ReplicaEffect,
    ReplicaFetchAnswer,
    ReplicationSettings,
    SaveLeaderEpoch,
    StandingOf,
)


class PartitionReplica:
    """`log` is as it was found on the disk. `standing_of` is asked for brokers as the metadata log has them now."""

    def __init__(
        self,
        *,
        own_id: int,
        log: ReplicaLog,
        standing_of: StandingOf,
        settings: ReplicationSettings | None = None,
        min_in_sync_count: int = 1,
    ) -> None:
        self.own_id = own_id
        self.log = log
        self._standing_of = standing_of
        self._settings = settings or ReplicationSettings()
        self._min_in_sync_count = min_in_sync_count
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        self.is_failed = False
        """A write failed, so nobody knows what the log holds: it neither leads nor follows any more (KAFKA-10778)."""
        self._next: PartitionAssignment | None = None
        self._known = (-1, -1)
        """The newest leader epoch and partition epoch."""

    @property
    def next_timer_ms(self) -> int | None:
        role = self.leader or self.follower
        return None if role is None else role.next_timer_ms

    # Metadata

    def on_assignment(self, assignment: PartitionAssignment, now_ms: int) -> list[ReplicaEffect]:
        known_epoch, known_partition_epoch = self._known
        if self.leader is not None:
            known_partition_epoch = max(known_partition_epoch, self.leader.partition_epoch)
        is_newer = assignment.partition_epoch > known_partition_epoch or assignment.leader_epoch > known_epoch
        if self.is_failed or not is_newer or assignment.partition_epoch < known_partition_epoch:
            return []
        if self.follower is not None and self.follower.state is FollowerState.WRITING:
            self._next = assignment
            return []
        self._known = (assignment.leader_epoch, assignment.partition_epoch)
        return self._become(assignment, now_ms)

    def _become(self, assignment: PartitionAssignment, now_ms: int) -> list[ReplicaEffect]:
        role = self.leader or self.follower
        is_same_epoch = role is not None and role.leader_epoch == assignment.leader_epoch
        if self.own_id not in assignment.replicas:
            return self._leave()
        if assignment.leader_id == self.own_id:
            if is_same_epoch and self.leader is not None:
                return self.leader.on_assignment(assignment, now_ms)
            return self._become_leader(assignment, now_ms)
        if is_same_epoch and self.follower is not None:
            self.follower.on_assignment(assignment)
            return []
        return self._become_follower(assignment)

    def _leave(self) -> list[ReplicaEffect]:
        leader, self.leader, self.follower = self.leader, None, None
        return [] if leader is None else leader.resign(ErrorCode.not_leader_or_follower)

    def _become_leader(self, assignment: PartitionAssignment, now_ms: int) -> list[ReplicaEffect]:
        before, self.follower = self.leader, None
        self.leader = self._new_leader(assignment, now_ms)
        if before is not None:
            self.leader.take_waiting(before)
        self.log.epochs.assign(assignment.leader_epoch, self.log.log_end_offset)
        saved = SaveLeaderEpoch(leader_epoch=assignment.leader_epoch, start_offset=self.log.log_end_offset)
        return [saved, *self.leader.on_standings(now_ms)]

    def _new_leader(self, assignment: PartitionAssignment, now_ms: int) -> PartitionLeader:
        return PartitionLeader(
            own_id=self.own_id,
            assignment=assignment,
            log=self.log,
            standing_of=self._standing_of,
            settings=self._settings,
            min_in_sync_count=self._min_in_sync_count,
            now_ms=now_ms,
        )

    def _become_follower(self, assignment: PartitionAssignment) -> list[ReplicaEffect]:
        effects = self._leave()
        self.follower = self._new_follower(assignment)
        return [*effects, *self.follower.begin()]

    def _new_follower(self, assignment: PartitionAssignment) -> PartitionFollower:
        return PartitionFollower(assignment=assignment, log=self.log, settings=self._settings)

    def on_standings(self, now_ms: int) -> list[ReplicaEffect]:
        """Brokers were registered, fenced or unfenced."""
        return [] if self.leader is None else self.leader.on_standings(now_ms)

    def set_min_in_sync(self, count: int, now_ms: int) -> list[ReplicaEffect]:
        """The topic's min.insync.replicas is another one."""
        self._min_in_sync_count = count
        if self.leader is None:
            return []
        self.leader.min_in_sync_count = count
        return self.leader.on_standings(now_ms)

    # As a leader

    def append_refusal(self, acks: int) -> ErrorCode | None:
        """Why nothing may be appended; None: it may."""
        if self.is_failed:
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower if self.leader is None else self.leader.append_refusal(acks)

    def on_appended(self, base_offset: int, next_offset: int) -> None:
        """A batch of this leader is in the log: followers may fetch it, before it is synced."""
        assert self.leader is not None, "only a leader appends"
        self.log.on_appended(self.leader.leader_epoch, base_offset, next_offset)

    def await_replication(self, request_id: int, until_offset: int) -> list[ReplicaEffect]:
        """See PartitionLeader."""
        assert self.leader is not None, "only a leader appends"
        return self.leader.await_replication(request_id, until_offset)

    def on_synced(self, until_offset: int, now_ms: int) -> list[ReplicaEffect]:
        """The log is on the device up to there."""
        if self.leader is not None:
            return self.leader.on_synced(until_offset, now_ms)
        self.log.on_synced(until_offset)
        return []

    def on_fetch(self, fetch: PartitionFetch, now_ms: int) -> tuple[FetchVerdict, list[ReplicaEffect]]:
        """See PartitionLeader; one that does not lead refuses."""
        if self.is_failed:
            return FetchVerdict(error=ErrorCode.kafka_storage_error), []
        if self.leader is None:
            return FetchVerdict(error=ErrorCode.not_leader_or_follower), []
        return self.leader.on_fetch(fetch, now_ms)

    def on_isr_answer(self, proposal: MemberProposal, answer: IsrAnswer, now_ms: int) -> list[ReplicaEffect]:
        """See PartitionLeader; what an earlier one proposed concerns nobody."""
        return [] if self.leader is None else self.leader.on_isr_answer(proposal, answer, now_ms)

    def advance_log_start(self, log_start_offset: int) -> list[ReplicaEffect]:
        """By retention or DeleteRecords, up to the high watermark; followers hear of it in their fetches."""
        is_advanced = self.log.advance_start(log_start_offset)
        return [AdvanceLogStart(log_start_offset=log_start_offset)] if is_advanced else []

    # As a follower

    def fetch_position(self) -> FetchPosition | None:
        """None: not a follower, or not now."""
        return None if self.follower is None else self.follower.fetch_position()

    def on_answer(self, position: FetchPosition, answer: ReplicaFetchAnswer, now_ms: int) -> list[ReplicaEffect]:
        """See PartitionFollower."""
        return [] if self.follower is None else self.follower.on_answer(position, answer, now_ms)

    def on_no_answer(self, now_ms: int) -> None:
        if self.follower is not None:
            self.follower.on_no_answer(now_ms)

    def on_bounds(
        self, leader_epoch: int, *, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> list[ReplicaEffect]:
        """See PartitionFollower."""
        if self.follower is None:
            return []
        return self.follower.on_bounds(
            leader_epoch, log_start_offset=log_start_offset, log_end_offset=log_end_offset, now_ms=now_ms
        )

    # Writes, time

    def on_written(self, now_ms: int, *, log_end_offset: int | None = None) -> list[ReplicaEffect]:
        """The follower's write under way is durable; then what the metadata log said meanwhile. `log_end_offset` is
        given after a truncation, which may have removed a whole batch that reaches beyond where it was to end."""
        assert self.follower is not None, "only a follower's write is answered"
        if log_end_offset is not None and log_end_offset < self.log.log_end_offset:
            self.log.truncate(max(log_end_offset, self.log.log_start_offset))
        effects = self.follower.on_written()
        waiting, self._next = self._next, None
        return effects if waiting is None else [*effects, *self.on_assignment(waiting, now_ms)]

    def on_write_failed(self) -> list[ReplicaEffect]:
        """Of a follower, or of a leader's append or sync."""
        self.is_failed = True
        self._next = None
        if self.follower is not None:
            self.follower.on_write_failed()
        return [] if self.leader is None else self.leader.resign(ErrorCode.kafka_storage_error)

    def on_time(self, now_ms: int) -> list[ReplicaEffect]:
        if self.follower is not None:
            self.follower.on_time(now_ms)
        return [] if self.leader is None else self.leader.on_time(now_ms)
