"""The two ways to write a copy: at the source's offsets, or as a producer.

    PlacedSink   directories and object storage: batches keep their offsets, gaps are kept. How far a copy is, is the
                 target's log end
    DenseSink    brokers: they assign offsets without gaps. Without `renumbers` the first gap ends the copy

A broker may still receive what a killed copy sent, after the next run has asked for the log end. So all runs of a copy
write as one idempotent producer, whose id is in the marker, with sequence numbers that follow from the offset in the
target: a batch that arrives twice is recognised by the broker.
"""

from __future__ import annotations

from typing import Final, Protocol

from broker_core.cluster import Cluster
from broker_core.log_copy.committed_batches import PickedBatches
from broker_core.log_copy.copy_marker import CopyMarker, commit_markers
from broker_core.log_copy.copy_plan import PartitionCopy, gap_refusal
from broker_core.log_copy.dense_batches import DenseBatch, dense_batches
from broker_core.model.exceptions import CopyRefusedError, UnexpectedLogEndError
from broker_core.model.limits import MAX_SEQUENCE
from broker_core.placed_writes import PlacedAppend, PlacedWrites
from broker_core.record.batch_header import read_header, write_plain_producer

GATHERED_BYTES: Final = 32 * 1024 * 1024
"""What is written at once where offsets are given: on object storage one object and one commit."""
_FIRST_PRODUCER_EPOCH: Final = 0


class CopySink(Protocol):
    """Takes the partitions one after the other."""

    def begin(self, copy: PartitionCopy, marker: CopyMarker) -> None: ...

    def add(self, picked: PickedBatches) -> None: ...

    def end(self, until_offset: int) -> int:
        """Everything up to there was added. Returns the end of the target, once `flush` has returned."""
        ...

    def flush(self) -> None:
        """All that was added is durable when it returns."""
        ...


class PlacedSink:
    """See the module."""

    def __init__(self, target: PlacedWrites) -> None:
        self._target = target
        self._appends: list[PlacedAppend] = []
        self._gathered_bytes = 0
        self._copy: PartitionCopy | None = None
        self._end_offset = 0

    def begin(self, copy: PartitionCopy, marker: CopyMarker) -> None:
        self._copy = copy
        self._end_offset = copy.target_offset

    def add(self, picked: PickedBatches) -> None:
        if not picked.batches:
            return
        partition = self._partition_copy().partition
        first_offset = read_header(picked.batches, 0).base_offset
        if first_offset < self._end_offset:
            raise CopyRefusedError(
                f"{partition} ends at offset {self._end_offset} in the target, inside the source's batch at"
                f" {first_offset}: the batches of the source are others than before. Delete the topic in the target and"
                " copy it again.",
                topic=partition.topic,
                partition=partition,
                offset=first_offset,
            )
        self._put(picked.end_offset, picked.batches)

    def end(self, until_offset: int) -> int:
        copy = self._partition_copy()
        # An earlier run may have been killed between the records and the log start.
        if until_offset > self._end_offset or copy.goes_on:
            self._put(max(until_offset, self._end_offset), bytearray())
        return self._end_offset

    def flush(self) -> None:
        if self._appends:
            appends, self._appends, self._gathered_bytes = self._appends, [], 0
            self._target.append_placed(appends)

    def _put(self, until_offset: int, batches: bytearray) -> None:
        copy = self._partition_copy()
        self._appends.append(
            PlacedAppend(
                partition=copy.partition,
                from_offset=self._end_offset,
                until_offset=until_offset,
                batches=batches,
                log_start_offset=copy.log_start_offset,
            )
        )
        self._end_offset = until_offset
        self._gathered_bytes += len(batches)
        if self._gathered_bytes >= GATHERED_BYTES:
            self.flush()

    def _partition_copy(self) -> PartitionCopy:
        assert self._copy is not None, "begin() comes first"
        return self._copy


class DenseSink:
    """See the module."""

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._copy: PartitionCopy | None = None
        self._marker: CopyMarker | None = None
        self._source_offset = 0
        self._end_offset = 0
        self._is_first = True

    def begin(self, copy: PartitionCopy, marker: CopyMarker) -> None:
        self._copy, self._marker = copy, marker
        self._source_offset, self._end_offset = copy.from_offset, copy.target_offset
        self._is_first = True

    def add(self, picked: PickedBatches) -> None:
        copy = self._partition_copy()
        ready = bytearray()
        end_offset = self._end_offset
        gap: CopyRefusedError | None = None
        for dense in dense_batches(picked.batches, self._source_offset):
            if not copy.renumbers and (dense.base_offset != end_offset or dense.has_gaps):
                gap = _gap_before(copy, end_offset, dense)
                break
            self._add_batch(ready, dense, end_offset)
            end_offset += dense.record_count
            if self._is_first:
                # A leader that knows nothing of the producer takes any sequence as its first: so it is sent alone.
                self._append(ready, end_offset)
                ready, self._is_first = bytearray(), False
        if ready:
            self._append(ready, end_offset)
        self._source_offset = end_offset if gap is not None else picked.until_offset
        if picked.batches:
            self._commit_marker()
        if gap is not None:
            raise gap

    def end(self, until_offset: int) -> int:
        self._source_offset = max(until_offset, self._source_offset)
        self._commit_marker()
        return self._end_offset

    def flush(self) -> None:
        """Every append was durable when it returned."""

    def _add_batch(self, ready: bytearray, dense: DenseBatch, end_offset: int) -> None:
        assert self._marker is not None, "begin() comes first"
        position = len(ready)
        ready += dense.batch
        write_plain_producer(
            ready,
            position,
            producer_id=self._marker.producer_id,
            producer_epoch=_FIRST_PRODUCER_EPOCH,
            base_sequence=end_offset % (MAX_SEQUENCE + 1),
        )

    def _append(self, ready: bytearray, end_offset: int) -> None:
        partition = self._partition_copy().partition
        result = self._target.append(partition, ready)
        if result.base_offset != self._end_offset:
            raise UnexpectedLogEndError(
                f"{partition}: records that belong to offset {self._end_offset} of the target got offset"
                f" {result.base_offset}: somebody else writes to the topic while it is copied to. Delete it there, and"
                " copy it again.",
                partition=partition,
                expected_offset=self._end_offset,
                log_end_offset=result.base_offset,
            )
        self._end_offset = end_offset

    def _commit_marker(self) -> None:
        copy, marker = self._partition_copy(), self._marker
        assert marker is not None, "begin() comes first"
        source_offset = self._source_offset if copy.renumbers else self._end_offset
        if (source_offset, self._end_offset) != (marker.source_offset, marker.target_offset):
            self._marker = marker.moved_to(source_offset, self._end_offset)
            commit_markers(self._target, {copy.partition: self._marker})

    def _partition_copy(self) -> PartitionCopy:
        assert self._copy is not None, "begin() comes first"
        return self._copy


def _gap_before(copy: PartitionCopy, end_offset: int, dense: DenseBatch) -> CopyRefusedError:
    until_offset = dense.base_offset if dense.base_offset != end_offset else dense.next_offset
    return gap_refusal(copy.partition, end_offset, until_offset)
