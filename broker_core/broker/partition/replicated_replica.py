"""A partition that other brokers have, too: led or followed here, as the metadata log says (`replication/`).

    append ─► the leader's epoch ─► queue ─► written, synced ─► counts as this broker's own end
                                                                 │ acks=1: answered
    a follower's fetch ─► its end counts ─► high watermark ◄─────┘ acks=all: answered when it passes
    an answer to this follower's fetch ─► queue ─► written, synced ─► the next fetch

A new leader epoch waits until the appends under way are written. Those in the queue get the new epoch, or are refused
if another broker leads now. What readers see ends at the high watermark, and the last stable offset is the one that the
log had when it ended there: a transaction whose marker is not committed yet is still open for them.

Longer than 400 lines because both roles share one queue, one machine and what waits for them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError
from broker_core.broker.partition.committed_bounds import CommittedBounds
from broker_core.broker.partition.partition_target import Changed, QueuedChange
from broker_core.broker.partition.reopening import Reopening
from broker_core.broker.partition.replica import Replica
from broker_core.broker.partition.replica_services import ReplicaServices
from broker_core.broker.partition.replica_waits import ReplicaWaits
from broker_core.broker.partition.replica_writes import carry_out, found_log
from broker_core.broker.partition.replication_services import ReplicationServices, replica_refusal
from broker_core.cluster import AppendResult, FetchedBatches, PartitionBounds, TopicDescription
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import ReplicaError, StreamlogError
from broker_core.model.identifiers import NO_LEADER_EPOCH, IsolationLevel, TopicPartition
from broker_core.replication.follower_table import FollowerState
from broker_core.replication.partition_leader import ALL_ACKS, PartitionLeader
from broker_core.replication.partition_replica import PartitionReplica
from broker_core.replication.replica_log import ReplicaLog
from broker_core.replication.replica_messages import PartitionId
from broker_core.replication.replication_values import (
    UNKNOWN_OFFSET,
    AdvanceLogStart,
    AnswerAppend,
    AppendFetched,
    AskLeaderBounds,
    FetchPosition,
    FetchVerdict,
    IsrAnswer,
    MemberProposal,
    PartitionAssignment,
    PartitionFetch,
    ProposeIsr,
    ReplicaEffect,
    ReplicaFetchAnswer,
    SaveLeaderEpoch,
    WatermarkAdvanced,
)
from broker_core.storage.writable_partition import WritablePartition

_log: Final = logging.getLogger(__name__)
_LEADER_ACKS: Final = 1


class ReplicatedReplica(Replica):
    """Created by the manager. Until `assign` was called and the folder is open it neither leads nor follows."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic: TopicDescription,
        services: ReplicaServices,
        replication: ReplicationServices,
    ) -> None:
        self.partition_id = PartitionId(topic.topic_id, topic_partition.partition)
        self.wanted_bounds: int | None = None
        """The leader epoch in which its leader is to be asked for its bounds."""
        self._replication = replication
        self._machine: PartitionReplica | None = None
        self._assignments: deque[PartitionAssignment] = deque()
        """What the metadata log said and is not carried out yet."""
        self._is_settling = False
        """Waits until the folder is open, or what is being appended is written."""
        self._is_unwritten = False
        """It has no folder: its log is empty, and the first write creates the folder."""
        self._has_left = False
        self._newest: PartitionAssignment | None = None
        self._reopening = Reopening()
        self._committed = CommittedBounds()
        super().__init__(topic_partition, topic, services)
        self._waits = ReplicaWaits(self._call)

    # -- roles --

    @property
    def is_leader(self) -> bool:
        machine = self._machine
        return machine is not None and machine.leader is not None and not machine.is_failed

    @property
    def is_unwritten(self) -> bool:
        return self._is_unwritten

    @property
    def is_found(self) -> bool:
        """Its folder was opened: what its log holds is known."""
        return self._machine is not None

    @property
    def leader_epoch(self) -> int:
        """Of the role that it has; -1 without one."""
        machine = self._machine
        role = None if machine is None else machine.leader or machine.follower
        return NO_LEADER_EPOCH if role is None else role.leader_epoch

    @property
    def is_end_known(self) -> bool:
        return self._leading is not None and self._leading.is_end_known

    @property
    def followed_leader_id(self) -> int:
        """-1: it does not follow."""
        machine = self._machine
        follower = None if machine is None else machine.follower
        return -1 if follower is None else follower.assignment.leader_id

    @property
    def high_watermark(self) -> int:
        return 0 if self._machine is None else self._machine.log.high_watermark

    def require_leader(self) -> None:
        """Raises ReplicaError."""
        if not self.is_leader:
            raise self._not_leader()

    def require_role(self) -> None:
        """It leads or follows: what is committed may be read here. Raises ReplicaError."""
        machine = self._machine
        if machine is None or machine.is_failed or (machine.leader is None and machine.follower is None):
            raise self._not_leader()

    def assign(self, assignment: PartitionAssignment) -> None:
        """What the metadata log says of the partition now."""
        self._newest = assignment
        self._assignments.append(assignment)
        if self._is_settling:
            return
        if self._machine is None:
            self._open()
        else:
            self._follow_assignments()

    def _open(self) -> None:
        if not self._replication.has_folder(self.topic_partition):
            self._is_unwritten, self._producers = True, {}
            self._on_found(ReplicaLog())
            return
        self._is_settling = True
        watermark = max(self._replication.watermark_of(self.topic_partition), self._reopening.high_watermark)
        self.change(partial(found_log, high_watermark=watermark), self._on_found, self._on_unopened)

    def on_standings(self) -> None:
        """Brokers were registered, fenced or unfenced."""
        if self._machine is not None:
            self._carry_out(self._machine.on_standings(self._now_ms()))
            self._answer_deletions()

    def set_topic(self, topic: TopicDescription) -> None:
        super().set_topic(topic)
        if self._machine is not None:
            self._carry_out(self._machine.set_min_in_sync(self.config.min_insync_replicas, self._now_ms()))

    def on_time(self) -> None:
        if self._machine is not None:
            self._carry_out(self._machine.on_time(self._now_ms()))

    def _on_found(self, log: ReplicaLog) -> None:
        if self._has_left:
            return
        replication = self._replication
        self._machine = PartitionReplica(
            own_id=replication.own_id,
            log=log,
            standing_of=replication.standing_of,
            settings=replication.settings,
            min_in_sync_count=self.config.min_insync_replicas,
        )
        self._is_settling = False
        self._follow_assignments()

    def _on_unopened(self, error: StreamlogError) -> None:
        """Each round of maintenance tries again: see `on_changed`."""
        self._is_settling = False
        while len(self._assignments) > 1:
            self._assignments.popleft()
        self._reopening.maybe_plan(error, self._now_ms())
        self.go_offline(error)

    def maybe_reopen(self) -> None:
        """A follower whose disk was full looks at what its log holds, as at a start, and fetches on from there."""
        if self._is_settling or self._has_left or not self._reopening.maybe_take(self._now_ms()):
            return
        assert self._newest is not None, f"{self.topic_partition} was opened before it was assigned"
        self._reopening.high_watermark = max(self._reopening.high_watermark, self.high_watermark)
        self._machine, self._assignments = None, deque([self._newest])
        self._open()

    def _follow_assignments(self) -> None:
        machine = self._machine
        assert machine is not None
        while self._assignments and not self._is_settling:
            assignment = self._assignments[0]
            is_new_epoch = machine.leader is not None and assignment.leader_epoch != machine.leader.leader_epoch
            if is_new_epoch and not self.is_idle:
                self._is_settling = True
                self.change(_nothing, lambda _: self._on_settled(), lambda _: self._on_settled())
                return
            self._assignments.popleft()
            self._become(assignment)

    def _on_settled(self) -> None:
        """Nothing is being written. The queue is written in the new epoch, or not at all: a coordinator's is not, since
        the coordinator of the new epoch reads the log first."""
        self._is_settling = False
        if self._has_left:
            return
        queued = self._queue.take_all()
        self._become(self._assignments.popleft())
        for each in queued:
            if isinstance(each, QueuedChange):
                self._queue.add(each)
            elif self.is_leader and each.origin is not AppendOrigin.COORDINATOR:
                self._queue.add(each._replace(leader_epoch=self.leader_epoch))
            else:
                self._refuse(each, self._not_leader())
        self._follow_assignments()

    def _become(self, assignment: PartitionAssignment) -> None:
        machine = self._machine
        assert machine is not None
        before = (self.is_leader, self.leader_epoch)
        self._carry_out(machine.on_assignment(assignment, self._now_ms()))
        if (self.is_leader, self.leader_epoch) != before:
            _log.info(
                "partition=%s epoch=%d leader=%d end=%d high_watermark=%d",
                *(self.topic_partition, self.leader_epoch, assignment.leader_id),
                *(machine.log.log_end_offset, machine.log.high_watermark),
            )
            self._answer_deletions()
            self._replication.on_role(self.topic_partition)
        self._notify_fetcher()

    def _notify_fetcher(self) -> None:
        if self.followed_leader_id >= 0:
            self._replication.on_follow(self.followed_leader_id)

    @property
    def is_writing(self) -> bool:
        """What it fetched is not durable yet."""
        machine = self._machine
        return machine is not None and machine.follower is not None and machine.follower.state is FollowerState.WRITING

    def drop(self) -> None:
        self.leave(is_deleted=True)

    def leave(self, *, is_deleted: bool) -> None:
        """Not deleted: it moved to other brokers, and clients may ask those."""
        self._machine, self._has_left = None, True
        self._assignments.clear()
        self._services.readers.drop(self.topic_partition)
        error = self._target.unknown_topic() if is_deleted else self._not_leader()
        for queued in self._queue.take_all():
            self._refuse(queued, error)
        self._waits.refuse_all(error)
        self._notify_listeners()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Nothing is being written: now, or after what is under way."""
        if self.is_idle:
            callback()
        else:
            self.change(_nothing, lambda _: callback(), lambda _: callback())

    # -- as a leader --

    def append(self, request: AppendRequest) -> None:
        """`on_error` also gets ReplicaError: another broker leads, or too few replicas are in sync for acks=all."""
        machine = self._machine
        acks = ALL_ACKS if request.awaits_replication else _LEADER_ACKS
        refusal = ErrorCode.not_leader_or_follower if machine is None else machine.append_refusal(acks)
        if refusal is not None:
            self._call(request.on_error, replica_refusal(self.topic_partition, refusal))
            return
        super().append(request._replace(leader_epoch=self.leader_epoch))

    def on_changed(self, group: Sequence[AppendRequest | QueuedChange], changed: Changed) -> None:
        self._is_unwritten = False
        machine, effects = self._machine, []
        if isinstance(group[0], AppendRequest) and machine is not None and self.is_leader:
            end_offset = changed.bounds.log_end_offset
            if end_offset > machine.log.log_end_offset:
                machine.on_appended(machine.log.log_end_offset, end_offset)
                effects = machine.on_synced(end_offset, self._now_ms())
        super().on_changed(group, changed)
        self._carry_out(effects)
        if self._machine is None and self._assignments and not self._is_settling:
            self._open()  # it could not be opened before

    def _on_appended(self, request: AppendRequest, result: AppendResult) -> None:
        machine = self._machine
        if machine is not None and machine.is_failed:
            self._call(request.on_error, replica_refusal(self.topic_partition, ErrorCode.kafka_storage_error))
        elif not request.awaits_replication:
            self._call(request.on_done, result)
        else:
            self.when_committed(result.last_offset + 1, partial(request.on_done, result), request.on_error)

    def when_committed(self, until_offset: int, on_done: Callable[[], None], on_error: OnError) -> None:
        """`on_error` gets ReplicaError: another broker leads now, or too few replicas are in sync."""
        machine = self._machine
        if machine is None or machine.leader is None:
            self._call(on_error, self._not_leader())
            return
        request_id = self._waits.add_append(on_done, on_error)
        self._carry_out(machine.await_replication(request_id, until_offset))

    def on_fetch(self, fetch: PartitionFetch) -> FetchVerdict:
        """Of a follower, or a consumer."""
        if self._machine is None:
            return FetchVerdict(error=ErrorCode.not_leader_or_follower)
        verdict, effects = self._machine.on_fetch(fetch, self._now_ms())
        self._carry_out(effects)
        if self._waits.has_deletions:
            self._answer_deletions()
        return verdict

    @property
    def _leading(self) -> PartitionLeader | None:
        return None if self._machine is None else self._machine.leader

    def preferred_reader(self, fetch_offset: int, is_near: Callable[[int], bool]) -> int | None:
        leading = self._leading
        return None if leading is None else leading.preferred_reader(fetch_offset, is_near)

    def on_watermark_told(self, replica_id: int, high_watermark: int) -> None:
        if self._leading is not None:
            self._leading.on_watermark_told(replica_id, high_watermark)

    def is_watermark_news(self, replica_id: int) -> bool:
        return self._leading is not None and self._leading.is_watermark_news(replica_id)

    def on_isr_answer(self, proposal: MemberProposal, answer: IsrAnswer) -> None:
        if self._machine is not None:
            self._carry_out(self._machine.on_isr_answer(proposal, answer, self._now_ms()))

    @property
    def low_watermark(self) -> int:
        """-1: it does not lead, or a living follower has not said yet where its log starts."""
        leading = self._leading
        return UNKNOWN_OFFSET if leading is None else leading.low_watermark()

    @property
    def awaits_followers(self) -> bool:
        return self._waits.has_deletions

    def delete_records(
        self,
        before_offset: int,
        on_done: Callable[[int], None],
        on_error: OnError,
        *,
        on_here: Callable[[], None] = lambda: None,
    ) -> None:
        """Up to the high watermark, which is also what -1 means. `on_done` gets the low watermark when it is as high:
        followers delete when they hear of it, and say so with their next fetch. A dead one does when it comes back."""
        machine = self._machine
        if machine is None or machine.leader is None:
            self._call(on_error, self._not_leader())
            return
        wanted = machine.log.high_watermark if before_offset == -1 else before_offset
        if not 0 <= wanted <= machine.log.high_watermark:
            bounds = self.bounds
            super().delete_records(max(wanted, bounds.log_end_offset + 1), on_done, on_error)  # which refuses it
            return

        def deleted(log_start_offset: int) -> None:
            machine.log.advance_start(log_start_offset)
            self._show()
            self._waits.add_deletion(log_start_offset, on_done, on_error)
            self._answer_deletions()
            on_here()

        super().delete_records(wanted, deleted, on_error)

    def _answer_deletions(self) -> None:
        if self.is_leader:
            self._waits.answer_deletions(self.low_watermark)
        else:
            self._waits.refuse_deletions(self._not_leader())

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        if self._machine is None:
            return super().end_offset_for_epoch(leader_epoch)
        end = self._machine.log.end_of(leader_epoch)
        return end.leader_epoch, end.end_offset

    def read_log(self, from_offset: int, *, max_bytes: int, until_offset: int) -> FetchedBatches:
        """Records up to the log's end, committed or not: for followers, and for the partition's coordinator."""
        self.bounds.require(from_offset, self.topic_partition)
        return self._read_until(
            from_offset, until_offset, max_bytes=max_bytes, isolation=IsolationLevel.READ_UNCOMMITTED
        )

    # -- as a follower --

    def fetch_position(self) -> FetchPosition | None:
        return None if self._machine is None else self._machine.fetch_position()

    def on_answer(self, position: FetchPosition, answer: ReplicaFetchAnswer) -> None:
        if self._machine is not None:
            self._carry_out(self._machine.on_answer(position, answer, self._now_ms()))

    def on_no_answer(self) -> None:
        if self._machine is not None:
            self._machine.on_no_answer(self._now_ms())

    def on_bounds(self, leader_epoch: int, log_start_offset: int | None, log_end_offset: int | None) -> None:
        """None: the leader did not tell."""
        machine, self.wanted_bounds = self._machine, None
        if machine is None:
            return
        if log_start_offset is None or log_end_offset is None:
            machine.on_no_answer(self._now_ms())
            return
        effects = machine.on_bounds(
            leader_epoch, log_start_offset=log_start_offset, log_end_offset=log_end_offset, now_ms=self._now_ms()
        )
        self._carry_out(effects)

    # -- effects --

    def _carry_out(self, effects: Iterable[ReplicaEffect]) -> None:
        for effect in () if self._has_left else effects:
            match effect:
                case WatermarkAdvanced():
                    self._show()
                case AnswerAppend(request_id=request_id, error=error):
                    is_done = error is ErrorCode.none
                    refusal = None if is_done else replica_refusal(self.topic_partition, error)
                    self._waits.answer_append(request_id, refusal)
                case ProposeIsr(proposal=proposal):
                    self._replication.propose(self.partition_id, proposal)
                case AskLeaderBounds(leader_epoch=leader_epoch):
                    self.wanted_bounds = leader_epoch
                case _:
                    self._write(effect)

    def _write(self, effect: ReplicaEffect) -> None:
        machine = self._machine
        assert machine is not None
        if isinstance(effect, SaveLeaderEpoch) and self._is_unwritten:
            return  # the first batch notes its own epoch, and an epoch without records does not outlive a start
        is_answered = not isinstance(effect, SaveLeaderEpoch | AdvanceLogStart)

        def written(end_offset: int) -> None:
            self._reopening.on_written()
            if isinstance(effect, AppendFetched):
                self.appended_bytes += len(effect.records)
            if is_answered:
                self._carry_out(machine.on_written(self._now_ms(), log_end_offset=end_offset))
                self._notify_fetcher()
            self._show()

        def failed(error: StreamlogError) -> None:
            comes_back = machine.follower is not None and self._reopening.maybe_plan(error, self._now_ms())
            until = "there is space" if comes_back else "the next start"
            _log.error("partition=%s is out until %s, a write failed: %s", self.topic_partition, until, error)
            self._carry_out(machine.on_write_failed())
            self.go_offline(error)

        self.change(partial(carry_out, effect=effect, now_ms=self._now_ms()), written, failed)

    # -- bounds --

    def learn_bounds(self, bounds: PartitionBounds) -> None:
        """After maintenance, which moves only the log's start."""
        if self._machine is not None and self._machine.log.advance_start(bounds.log_start_offset):
            self._show()

    def _look_at_bounds(self) -> None:
        """Nothing is shown before the folder is open and a role is known."""

    def _advance(self, bounds: PartitionBounds) -> bool:
        """`bounds` are those of the store after a job; jobs of one replica end in order."""
        if self._committed.maybe_shorten(bounds):
            self._services.readers.drop(self.topic_partition)
        self._committed.note(bounds)
        return self._look()

    def _show(self) -> None:
        if self._look():
            self._notify_listeners()

    def _look(self) -> bool:
        """Whether what readers see has changed."""
        if self._machine is None:
            return False
        log = self._machine.log
        seen, self.bounds = self.bounds, self._committed.at(log.log_start_offset, log.high_watermark)
        return self.bounds != seen

    def _now_ms(self) -> int:
        return self._services.clock.now_ms()

    def _not_leader(self) -> ReplicaError:
        return replica_refusal(self.topic_partition, ErrorCode.not_leader_or_follower)


def _nothing(store: WritablePartition) -> None:
    """What was queued before it is written."""
