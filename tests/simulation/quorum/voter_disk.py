"""The disk of a simulated node of the quorum: what was written, what of that is on the device, what a crash leaves.

log        operations since the last finished flush may be lost from some point on, the last of them by a part
election   the old one or the new one, while it is being saved
snapshot   installed or not, while that is under way
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.raft.quorum_values import ElectionState, LogReach, SnapshotId
from broker_core.record.batch_reader import iter_headers


@dataclass(frozen=True)
class StoredBatch:
    base_offset: int
    next_offset: int
    epoch: int
    content: bytes


class VoterDisk:
    """`batches` are what a read sees; `synced` is what is on the device for sure."""

    def __init__(self):
        self.election = ElectionState()
        self.saving: list[ElectionState] = []
        self.start = self.start_epoch = 0
        self.snapshot_id: SnapshotId | None = None
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.part = bytearray()
        self.installing: SnapshotId | None = None
        self.batches: list[StoredBatch] = []
        self.synced: list[StoredBatch] = []
        self.operations: list[tuple[str, object]] = []
        self.flushing: int | None = None

    @property
    def end(self):
        return self.batches[-1].next_offset if self.batches else self.start

    @property
    def synced_end(self):
        return self.synced[-1].next_offset if self.synced else self.start

    def reach(self):
        epochs = LeaderEpochs()
        for batch in self.batches:
            epochs.assign(batch.epoch, batch.base_offset)
        return LogReach(
            log_start_offset=self.start, log_end_offset=self.end, epochs=epochs, start_epoch=self.start_epoch
        )

    def epoch_at(self, offset):
        """Of the batch that begins or ended there; None if the log has none."""
        for batch in reversed(self.batches):
            if batch.base_offset <= offset < batch.next_offset:
                return batch.epoch
        return None

    def read(self, from_offset, until_offset):
        return [b for b in self.batches if b.base_offset >= from_offset and b.next_offset <= until_offset]

    # Writes

    def append(self, records):
        added = [
            StoredBatch(
                header.base_offset,
                header.next_offset,
                header.partition_leader_epoch,
                records[position : position + header.size_bytes],
            )
            for position, header in iter_headers(records)
        ]
        self._do(("append", added))
        return added

    def truncate(self, end_offset):
        self._do(("truncate", end_offset))

    def _do(self, operation):
        self.operations.append(operation)
        _apply(operation, self.batches)

    def begin_flush(self):
        assert self.flushing is None, "two flushes at a time"
        self.flushing = len(self.operations)

    def end_flush(self):
        for operation in self.operations[: self.flushing]:
            _apply(operation, self.synced)
        del self.operations[: self.flushing]
        self.flushing = None

    def end_saving(self):
        self.election = self.saving.pop(0)

    def install(self):
        snapshot_id, self.installing = self.installing, None
        self.snapshots[snapshot_id] = bytes(self.part)
        self.snapshot_id, self.start, self.start_epoch = snapshot_id, snapshot_id.end_offset, snapshot_id.epoch
        self.batches, self.synced, self.operations = [], [], []
        if self.flushing is not None:
            self.flushing = 0

    def take_snapshot(self, snapshot_id, content):
        """The log begins behind it then. Durable at once: nobody is told before."""
        self.snapshots[snapshot_id] = content
        self.snapshot_id, self.start, self.start_epoch = snapshot_id, snapshot_id.end_offset, snapshot_id.epoch
        for batches in (self.batches, self.synced):
            batches[:] = [batch for batch in batches if batch.base_offset >= self.start]
        kept = [
            (kind, [b for b in what if b.base_offset >= self.start]) if kind == "append" else (kind, what)
            for kind, what in self.operations
        ]
        self.operations = kept

    # Crashes

    def crash(self, dice):
        """Leaves what was on the device, and any beginning of what came after."""
        if self.saving and dice.random() < 0.5:
            self.end_saving()
        self.saving.clear()
        if self.installing is not None and dice.random() < 0.5:
            self.install()
        self.installing = None
        self.part.clear()
        survivors = self.operations[: dice.randint(0, len(self.operations))]
        for kind, what in survivors:
            is_torn = kind == "append" and (kind, what) == survivors[-1]
            _apply((kind, what[: dice.randint(0, len(what))]) if is_torn else (kind, what), self.synced)
        self.batches = list(self.synced)
        self.operations, self.flushing = [], None


def _apply(operation, batches):
    kind, what = operation
    if kind == "append":
        batches.extend(what)
    else:
        while batches and batches[-1].next_offset > what:
            batches.pop()
