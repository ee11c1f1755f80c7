"""A replica of a partition on broker 1, driven by hand: writes are done when the test says so."""

from broker_core.log.leader_epochs import EpochEntry, LeaderEpochs
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.replication.partition_replica import PartitionReplica
from broker_core.replication.replica_log import ReplicaLog
from broker_core.replication.replication_values import (
    AnswerAppend,
    BrokerStanding,
    IsrAnswer,
    PartitionAssignment,
    PartitionFetch,
    ProposeIsr,
    ReplicationSettings,
)

SELF, OTHER, THIRD = 1, 2, 3
EPOCH = 5
LAG_MS = 1000
BACKOFF_MS = 100


def an_assignment(leader_id=SELF, *, epoch=EPOCH, partition_epoch=10, isr=(1, 2, 3), replicas=(1, 2, 3)):
    return PartitionAssignment(
        leader_id=leader_id, leader_epoch=epoch, partition_epoch=partition_epoch, replicas=replicas, isr=isr
    )


def a_log(*entries, end=0, start=0, watermark=0, synced=None):
    """`entries` are (leader epoch, start offset)."""
    return ReplicaLog(
        log_start_offset=start,
        log_end_offset=end,
        synced_end=end if synced is None else synced,
        high_watermark=watermark,
        epochs=LeaderEpochs(EpochEntry(leader_epoch=epoch, start_offset=offset) for epoch, offset in entries),
    )


def batches(*sizes, base_offset=0, epoch=EPOCH):
    """Batches of so many records, one after the other."""
    built = b""
    for size in sizes:
        records = [Record(value=b"x", timestamp_ms=0)] * size
        built += bytes(build_batch(records, base_offset=base_offset, leader_epoch=epoch))
        base_offset += size
    return built


class DrivenReplica:
    """`effects` has all effects so far. Broker n is registered in epoch 100 + n."""

    def __init__(self, log=None, *, min_in_sync=1):
        self.standings = {n: BrokerStanding(broker_epoch=100 + n) for n in (SELF, OTHER, THIRD)}
        self.log = log or a_log()
        self.replica = PartitionReplica(
            own_id=SELF,
            log=self.log,
            standing_of=self.standings.get,
            settings=ReplicationSettings(max_lag_ms=LAG_MS, fetch_backoff_ms=BACKOFF_MS),
            min_in_sync_count=min_in_sync,
        )
        self.now_ms = 0
        self.effects = []

    def do(self, effects):
        self.effects += effects or []
        return effects

    def found(self, kind):
        """The effects of this kind since the last look."""
        matching = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return matching

    def assign(self, assignment):
        return self.do(self.replica.on_assignment(assignment, self.now_ms))

    def pass_time(self, ms):
        self.now_ms += ms
        return self.do(self.replica.on_time(self.now_ms))

    # As a leader

    def append(self, count, *, is_synced=True):
        """One batch."""
        base = self.log.log_end_offset
        self.replica.on_appended(base, base + count)
        if is_synced:
            self.do(self.replica.on_synced(base + count, self.now_ms))
        return base + count

    def fetch(self, replica_id, offset, *, epoch=EPOCH, last_epoch=-1, broker_epoch=None, log_start=0):
        verdict, effects = self.replica.on_fetch(
            PartitionFetch(
                fetch_offset=offset,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch,
                replica_id=replica_id,
                broker_epoch=100 + replica_id if broker_epoch is None else broker_epoch,
                log_start_offset=log_start,
            ),
            self.now_ms,
        )
        self.do(effects)
        return verdict

    def consume(self, offset, *, epoch=-1):
        verdict, _ = self.replica.on_fetch(PartitionFetch(fetch_offset=offset, current_leader_epoch=epoch), self.now_ms)
        return verdict

    def proposal(self):
        """The newest one."""
        return self.found(ProposeIsr)[-1].proposal

    def answer(self, proposal, *, partition_epoch=None, isr=None, **others):
        given = IsrAnswer(
            leader_epoch=others.pop("leader_epoch", proposal.leader_epoch),
            partition_epoch=proposal.partition_epoch + 1 if partition_epoch is None else partition_epoch,
            isr=tuple(sorted(proposal.ids)) if isr is None else isr,
            **others,
        )
        return self.do(self.replica.on_isr_answer(proposal, given, self.now_ms))

    def answers(self):
        """(request id, error's name) of the appends that were answered since the last look."""
        return [(effect.request_id, effect.error.name) for effect in self.found(AnswerAppend)]

    @property
    def watermark(self):
        return self.log.high_watermark
