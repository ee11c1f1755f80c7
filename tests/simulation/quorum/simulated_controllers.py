"""Three controllers of a metadata quorum as far as an observer sees them: their logs, elections, commits, snapshots.

A model, not an implementation: a leader is elected from those that have every committed record, followers copy any
prefix of its log, the high watermark is what a majority has. What an observer fetched from a leader that lost can thus
be missing in the next one's log. Answers follow the order of Kafka's checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.observer_events import FetchAnswer, SendFetch, SendFetchSnapshot, SnapshotAnswer
from broker_core.raft.quorum_values import SnapshotId
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

ADDRESSES = {node_id: BrokerAddress(host=f"controller-{node_id}", port=9093) for node_id in (1, 2, 3)}
CHUNK_BYTES = 50


@dataclass(frozen=True)
class LoggedBatch:
    base_offset: int
    next_offset: int
    epoch: int
    content: bytes


@dataclass
class ControllerLog:
    """`batches` from `start` on; what is before is in the snapshot."""

    start: int = 0
    batches: list[LoggedBatch] = field(default_factory=list)
    snapshot: SnapshotId | None = None
    known_epoch: int = 0
    is_up: bool = True

    @property
    def end(self):
        return self.batches[-1].next_offset if self.batches else self.start

    @property
    def last_epoch(self):
        return self.batches[-1].epoch if self.batches else (self.snapshot.epoch if self.snapshot else 0)

    def epochs(self):
        found = LeaderEpochs()
        if self.snapshot is not None:
            found.assign(self.snapshot.epoch, self.start)
        for batch in self.batches:
            found.assign(batch.epoch, batch.base_offset)
        return found


class SimulatedControllers:
    """`committed` is the truth: the batches that a majority had, for ever."""

    def __init__(self, dice):
        self.dice = dice
        self.logs = {node_id: ControllerLog() for node_id in ADDRESSES}
        self.epoch, self.leader_id = 0, -1
        self.leaders = {}
        self.committed: list[LoggedBatch] = []
        self.snapshot_contents: dict[SnapshotId, bytes] = {}
        self.elect()

    @property
    def committed_end(self):
        return self.committed[-1].next_offset if self.committed else 0

    @property
    def leader(self):
        return self.logs[self.leader_id]

    def step(self):
        """Something happens in the quorum."""
        chance = self.dice.random()
        if chance < 0.45:
            self.append()
        elif chance < 0.85:
            self.replicate()
        elif chance < 0.90:
            self.elect()
        elif chance < 0.95:
            self.make_snapshot()
        else:
            log = self.logs[self.dice.choice(list(self.logs))]
            log.is_up = not log.is_up or log is self.leader

    def append(self):
        log, size = self.leader, self.dice.randint(1, 3)
        records = [Record(value=self.dice.randbytes(self.dice.randint(1, 6)), timestamp_ms=0) for _ in range(size)]
        content = bytes(build_batch(records, base_offset=log.end, leader_epoch=self.epoch))
        log.batches.append(LoggedBatch(log.end, log.end + size, self.epoch, content))

    def replicate(self):
        """A follower copies some of the leader's log; then the leader may commit."""
        follower = self.logs[self.dice.choice([n for n in self.logs if n != self.leader_id])]
        self.copy_to(follower, self.dice.randint(0, len(self.leader.batches)))
        self.commit()

    def copy_to(self, follower, count):
        agreed = [a for a, b in zip(follower.batches, self.leader.batches, strict=False) if a == b]
        if follower.start != self.leader.start:
            if follower.end < self.leader.start or count < len(self.leader.batches):
                return
            follower.start, follower.snapshot, agreed = self.leader.start, self.leader.snapshot, []
            follower.batches = []
        follower.batches = [*agreed, *self.leader.batches[len(agreed) : max(count, len(agreed))]]
        follower.known_epoch = self.epoch

    def commit(self):
        ends = sorted(log.end if self.follows(log) else 0 for log in self.logs.values())
        majority_end = ends[1]
        if self.leader.last_epoch != self.epoch:
            return
        own = [batch.next_offset for batch in self.leader.batches if batch.epoch == self.epoch]
        if own and majority_end >= own[0]:
            known = self.committed_end
            new = [b for b in self.leader.batches if known < b.next_offset <= majority_end]
            self.committed += new

    def follows(self, log):
        """Whether the log is a prefix of the leader's."""
        return log.start == self.leader.start and self.leader.batches[: len(log.batches)] == log.batches

    def elect(self):
        able = [n for n, log in self.logs.items() if log.end >= self.committed_end and self.has_committed(log)]
        self.epoch += self.dice.choice((1, 1, 2))
        self.leader_id = self.dice.choice(able)
        self.leaders[self.epoch] = self.leader_id
        self.leader.known_epoch, self.leader.is_up = self.epoch, True
        self.append()

    def has_committed(self, log):
        return self.committed[-1:] == [b for b in log.batches if b.next_offset == self.committed_end] or (
            log.start == self.committed_end
        )

    def make_snapshot(self):
        """Of everything committed, at the leader; its log then begins there."""
        end = self.committed_end
        if end <= self.leader.start or self.leader_id < 0:
            return
        snapshot_id = SnapshotId(end_offset=end, epoch=self.committed[-1].epoch)
        self.snapshot_contents[snapshot_id] = b"".join(batch.content for batch in self.committed)
        log = self.leader
        log.batches = [batch for batch in log.batches if batch.base_offset >= end]
        log.start, log.snapshot = end, snapshot_id

    # Answers

    def answer(self, node_id, request):
        """None: the node is down."""
        log = self.logs[node_id]
        if not log.is_up:
            return None
        answer = self.fetch if isinstance(request, SendFetch) else self.fetch_snapshot
        return answer(node_id, log, request)

    def known(self, node_id):
        """The leader and epoch as the node knows them: a node that was not told lags behind."""
        epoch = self.logs[node_id].known_epoch
        leader_id = self.leaders.get(epoch, -1)
        endpoints = {leader_id: ADDRESSES[leader_id]} if leader_id > 0 else {}
        return {"leader_id": leader_id, "leader_epoch": epoch, "endpoints": endpoints}

    def refusal(self, node_id, request):
        epoch = self.logs[node_id].known_epoch
        if request.leader_epoch < epoch:
            return ErrorCode.fenced_leader_epoch
        if request.leader_epoch > epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none if self.leaders.get(epoch) == node_id else ErrorCode.not_leader_or_follower

    def fetch(self, node_id, log, request: SendFetch):
        known = self.known(node_id)
        error = self.refusal(node_id, request)
        if error is not ErrorCode.none:
            return FetchAnswer(error=error, **known)
        offset, epochs = request.fetch_offset, log.epochs()
        # A leader that was replaced does not know, and goes on with what it knew.
        watermark = min(self.committed_end, log.end) if self.follows(log) else log.start
        known |= {"high_watermark": watermark}
        is_behind = offset < log.start or (
            offset == log.start and offset and request.last_fetched_epoch != log.snapshot.epoch
        )
        if log.snapshot is not None and (is_behind or request.last_fetched_epoch < log.snapshot.epoch):
            return FetchAnswer(snapshot_id=log.snapshot, **known)
        if offset > 0:
            end = epochs.end_of(request.last_fetched_epoch, log_end_offset=log.end)
            if end.leader_epoch != request.last_fetched_epoch or end.end_offset < offset:
                return FetchAnswer(diverging=(max(end.leader_epoch, 0), max(end.end_offset, 0)), **known)
        found = [batch.content for batch in log.batches if batch.base_offset >= offset]
        return FetchAnswer(records=b"".join(found[: self.dice.randint(0, 3)]), **known)

    def fetch_snapshot(self, node_id, log, request: SendFetchSnapshot):
        known = self.known(node_id)
        error = self.refusal(node_id, request)
        content = self.snapshot_contents.get(request.snapshot_id)
        if error is ErrorCode.none and (content is None or log.snapshot != request.snapshot_id):
            error = ErrorCode.snapshot_not_found
        if error is not ErrorCode.none:
            return SnapshotAnswer(error=error, **known)
        chunk = content[request.position : request.position + CHUNK_BYTES]
        return SnapshotAnswer(size_bytes=len(content), position=request.position, chunk=chunk, **known)
