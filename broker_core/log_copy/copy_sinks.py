"""The two ways to write a copy: at the source's offsets, or as a producer.

    PlacedSink   directories and object storage: batches keep their offsets, gaps are kept. How far a copy is, is the
                 target's log end
    DenseSink    brokers: they assign offsets without gaps. Without `renumbers` the first gap ends the copy

A broker may still receive what a killed copy sent, after the next run has asked for the log end. So all runs of a copy
write as one idempotent producer, whose id is in the marker, with sequence numbers that follow from the offset in the
target: a batch that arrives twice is recognised by the broker.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from broker_core.cluster import Cluster
from broker_core.log_copy.committed_batches import PickedBatches
from broker_core.log_copy.copy_marker import CopyMarker, commit_markers
from broker_core.log_copy.copy_plan import PartitionCopy, gap_refusal
from broker_core.log_copy.dense_batches import DenseBatch, dense_batches
from broker_core.model.exceptions import (
    CopyRefusedError,
    CorruptDataError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTimestampError,
    RecordTooLargeError,
    StreamlogError,
    UnexpectedLogEndError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_SEQUENCE
from broker_core.placed_writes import PlacedAppend, PlacedWrites
from broker_core.record.batch_header import read_header, write_plain_producer

GATHERED_BYTES: Final = 32 * 1024 * 1024
"""The largest write at given offsets: on object storage one object and one commit. The batches of one fetch are not
split, which are more only if a single batch is larger."""
_FIRST_PRODUCER_EPOCH: Final = 0


class PlacedCluster(PlacedWrites, Cluster, Protocol):
    """A directory, or a log on object storage."""


class CopySink(Protocol):
    """Writes the partitions of one topic, one after the other."""

    def begin(self, copy: PartitionCopy, marker: CopyMarker) -> None: ...

    def add(self, picked: PickedBatches) -> None: ...

    def end(self, until_offset: int) -> CopyEnd:
        """Everything up to this offset was added. The target ends there after `finish`."""
        ...

    def finish(self) -> None:
        """Everything that was added is durable when it returns, and the markers are committed."""
        ...


class CopyEnd(NamedTuple):
    """Of one partition: the end of the target, and the number of written records."""

    target_offset: int
    record_count: int


class PlacedSink:
    """See the module."""

    def __init__(self, target: PlacedCluster) -> None:
        self._target = target
        self._appends: list[PlacedAppend] = []
        self._gathered_bytes = 0
        self._copy: PartitionCopy | None = None
        self._end_offset = 0
        self._record_count = 0
        self._markers: dict[TopicPartition, CopyMarker] = {}
        self._moved: dict[TopicPartition, CopyMarker] = {}

    def begin(self, copy: PartitionCopy, marker: CopyMarker) -> None:
        self._copy = copy
        self._end_offset = copy.target_offset
        self._record_count = 0
        self._markers[copy.partition] = marker

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
        self._record_count += picked.record_count

    def end(self, until_offset: int) -> CopyEnd:
        copy = self._partition_copy()
        # An earlier run may have been killed between the records and the log start.
        if until_offset > self._end_offset or copy.goes_on:
            self._put(max(until_offset, self._end_offset), bytearray())
        marker = self._markers[copy.partition]
        if self._end_offset != marker.target_offset:
            self._moved[copy.partition] = marker.moved_to(self._end_offset, self._end_offset)
        return CopyEnd(self._end_offset, self._record_count)

    def finish(self) -> None:
        self._flush()
        if self._moved:
            commit_markers(self._target, self._moved)

    def _flush(self) -> None:
        if self._appends:
            appends, self._appends, self._gathered_bytes = self._appends, [], 0
            self._target.append_placed(appends)

    def _put(self, until_offset: int, batches: bytearray) -> None:
        copy = self._partition_copy()
        if self._gathered_bytes + len(batches) > GATHERED_BYTES:
            self._flush()
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
        ready = _ReadyBatches()
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
                ready, self._is_first = _ReadyBatches(), False
        if ready.sent:
            self._append(ready, end_offset)
        self._source_offset = end_offset if gap is not None else picked.until_offset
        if picked.batches:
            self._commit_marker()
        if gap is not None:
            raise gap

    def end(self, until_offset: int) -> CopyEnd:
        self._source_offset = max(until_offset, self._source_offset)
        self._commit_marker()
        # Without the records below the log start that are in one batch with the first record.
        return CopyEnd(self._end_offset, self._end_offset - self._partition_copy().target_offset)

    def finish(self) -> None:
        """Every append was durable when it returned."""

    def _add_batch(self, ready: _ReadyBatches, dense: DenseBatch, end_offset: int) -> None:
        marker = self._marker
        assert marker is not None and not marker.is_placed, f"{marker}: a broker is written to by a producer with an id"
        position = len(ready.buffer)
        ready.buffer += dense.batch
        ready.sent[end_offset] = dense
        write_plain_producer(
            ready.buffer,
            position,
            producer_id=marker.producer_id,
            producer_epoch=_FIRST_PRODUCER_EPOCH,
            base_sequence=end_offset % (MAX_SEQUENCE + 1),
        )

    def _append(self, ready: _ReadyBatches, end_offset: int) -> None:
        partition = self._partition_copy().partition
        try:
            result = self._target.append(partition, ready.buffer)
        except (InvalidRequestError, CorruptDataError) as error:
            # Batches before the refused one are written: the target ends where it would be.
            refused = ready.sent.get(self._target.bounds(partition).high_watermark)
            raise error if refused is None else _refusal(error, partition, refused) from error
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


class _ReadyBatches:
    """Batches for one append. `sent`: by the offset in the target."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.sent: dict[int, DenseBatch] = {}


_SETTINGS: Final[tuple[tuple[type[StreamlogError], str], ...]] = (
    (RecordTooLargeError, "max.message.bytes of the topic there, or message.max.bytes of its brokers, is too small."),
    (
        InvalidTimestampError,
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic there say which timestamps it"
        " takes.",
    ),
    (InvalidRecordError, "With cleanup.policy=compact a topic takes no records without a key."),
)
"""The settings of the target that caused an error."""


def _refusal(error: StreamlogError, partition: TopicPartition, refused: DenseBatch) -> StreamlogError:
    advice = next((f" {setting}" for kind, setting in _SETTINGS if isinstance(error, kind)), "")
    first, last = refused.base_offset, refused.next_offset - 1
    which = f"the record at offset {first}" if first == last else f"the records at offsets {first} to {last}"
    return type(error)(
        f"{partition}: the target refuses {which} of the source, a batch of {len(refused.batch):,} bytes:"
        f" {error.message.rstrip('.')}.{advice}",
        **{**error.fields, "topic": partition.topic, "partition": partition, "offset": first},
    )


def _gap_before(copy: PartitionCopy, end_offset: int, dense: DenseBatch) -> CopyRefusedError:
    until_offset = dense.base_offset if dense.base_offset != end_offset else dense.next_offset
    return gap_refusal(copy.partition, end_offset, until_offset)
