"""The disk of a simulated replica: what was written, what of that is on the device, what a crash leaves.

log               operations since the last finished sync may be lost from some point on
leader epochs     those of batches; an epoch without records is known until the next crash
high watermark    as it was some time ago
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.record.batch_reader import iter_headers
from broker_core.replication.replica_log import ReplicaLog


@dataclass(frozen=True)
class ReplicatedBatch:
    base_offset: int
    next_offset: int
    epoch: int
    content: bytes


def batches_in(records):
    return [
        ReplicatedBatch(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            records[position : position + header.size_bytes],
        )
        for position, header in iter_headers(records)
    ]


class ReplicaDisk:
    """`batches` are what a read sees, `synced` what is on the device."""

    def __init__(self):
        self.start = 0
        self.batches: list[ReplicatedBatch] = []
        self.synced: list[ReplicatedBatch] = []
        self.operations: list[tuple[str, object]] = []
        self.synced_count = 0
        self.high_watermark = 0

    @property
    def end(self):
        return self.batches[-1].next_offset if self.batches else self.start

    def found(self):
        """As a start finds it."""
        epochs = LeaderEpochs()
        for batch in self.batches:
            epochs.assign(batch.epoch, batch.base_offset)
        epochs.truncate_from_start(self.start)
        watermark = max(self.start, min(self.high_watermark, self.end))
        return ReplicaLog(
            log_start_offset=self.start, log_end_offset=self.end, synced_end=self.end, high_watermark=watermark,
            epochs=epochs,
        )  # fmt: skip

    def read(self, from_offset, until_offset):
        return [b for b in self.batches if b.next_offset > from_offset and b.next_offset <= until_offset]

    def batch_at(self, base_offset):
        return next((batch for batch in reversed(self.batches) if batch.base_offset == base_offset), None)

    def has_synced(self, batch):
        return batch.next_offset <= self.start or batch in reversed(self.synced)

    # Writes

    def append(self, added):
        self._do(("append", added))

    def truncate(self, end_offset):
        self._do(("truncate", end_offset))

    def restart(self, start_offset):
        self._do(("truncate", 0))
        self.start = start_offset

    def _do(self, operation):
        self.operations.append(operation)
        apply_operation(operation, self.batches)

    def advance_start(self, start):
        self.start = start
        for batches in (self.batches, self.synced):
            batches[:] = [batch for batch in batches if batch.next_offset > start]
        self.operations = [
            (kind, [b for b in what if b.next_offset > start]) if kind == "append" else (kind, what)
            for kind, what in self.operations
        ]

    def begin_sync(self):
        """Returns what to end it with. Several may be under way; one includes those before it."""
        return self.synced_count + len(self.operations)

    def end_sync(self, count):
        due = max(0, count - self.synced_count)
        for operation in self.operations[:due]:
            apply_operation(operation, self.synced)
        del self.operations[:due]
        self.synced_count += due

    # Crashes

    def crash(self, dice):
        """Leaves what was on the device, and any beginning of what came after; the start finds that and syncs it."""
        self.end_sync(self.synced_count + dice.randint(0, len(self.operations)))
        self.batches = list(self.synced)
        self.operations = []

    def wipe(self):
        self.__init__()


def apply_operation(operation, batches):
    kind, what = operation
    if kind == "append":
        batches.extend(what)
    else:
        while batches and batches[-1].next_offset > what:
            batches.pop()
