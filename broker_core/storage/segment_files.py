"""One segment for readers: its open .log and its indexes.

    00000000000000000042.log        batches, back to back, from byte 0
    00000000000000000042.index      see `segment_indexes`
    00000000000000000042.timeindex

A look-up walks headers from a verified index entry. A read is one positional read of about the requested size, and a
second one only if a single batch is larger. A file that was renamed or replaced under an open segment stays readable,
with its whole old content.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker_core.log.sparse_index import TimestampOffset
from broker_core.log.transaction_index import AbortedTransactionEntry, TransactionIndex
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.limits import MAX_OFFSET
from broker_core.ports import FileSystem
from broker_core.record.batch_header import HEADER_BYTES, BatchHeader, read_header
from broker_core.record.batch_reader import BatchTable, scan_batches
from broker_core.record.faults import corrupt_batch, relocated
from broker_core.record.kernel_protocol import Cell
from broker_core.storage.batch_walk import check_placement, offset_behind, read_batch, walk_headers
from broker_core.storage.checkpoints import read_small_file
from broker_core.storage.segment_indexes import SegmentExtent, SegmentIndexes, timestamp_of
from broker_core.storage.segment_names import LOG, TRANSACTION_INDEX, segment_path


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """Whole, CRC-true batches from one segment: the first `count` rows of `table`."""

    buffer: memoryview
    table: BatchTable
    count: int
    next_offset: int
    next_position: int


class SegmentFiles:
    """The segment at `base_offset`, open for reading. Raises FileNotFoundError when it is gone."""

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, *, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self._fs = fs
        self._directory = directory
        self._log = fs.open(segment_path(directory, base_offset, LOG), writable=False)
        self._indexes = SegmentIndexes(fs, directory, base_offset, self._log, index_interval_bytes=index_interval_bytes)
        self._largest: dict[SegmentExtent, TimestampOffset] = {}

    @property
    def path(self) -> str:
        return self._log.path

    @property
    def indexes(self) -> SegmentIndexes:
        return self._indexes

    def size_bytes(self) -> int:
        return self._log.size_bytes()

    def modified_ms(self) -> int:
        return self._log.modified_ms()

    def close(self) -> None:
        self._log.close()

    def find_batch(self, offset: int, extent: SegmentExtent) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch whose last offset is at or above `offset`; None when there is none."""
        # Check the first batch before reading an index.
        position = self._indexes.floor_position(offset, extent) if offset > self.base_offset else 0
        for at, header in self.walk(extent, position=position):
            if header.last_offset >= offset:
                return at, header
        return None

    def walk(self, extent: SegmentExtent, *, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from the one at `position` to the end of the extent."""
        if position == 0:
            return self._walk_from(0, self.base_offset, extent)
        return self._walk_from_landing(position, extent)

    def _walk_from_landing(self, position: int, extent: SegmentExtent) -> Iterator[tuple[int, BatchHeader]]:
        """For a position from an index: the first batch is accepted as it is, the others must follow it."""
        first = walk_headers(
            self._log, position=position, until_position=extent.end_position, min_offset=self.base_offset
        )
        for at, header in first:
            yield at, header
            yield from self._walk_from(at + header.size_bytes, header.next_offset, extent)
            return

    def _walk_from(self, position: int, offset: int, extent: SegmentExtent) -> Iterator[tuple[int, BatchHeader]]:
        return walk_headers(
            self._log,
            position=position,
            until_position=extent.end_position,
            min_offset=offset,
            dense_from=extent.dense_from,
            end_offset=extent.next_offset,
        )

    def read(
        self, position: int, extent: SegmentExtent, *, base_offset: int, max_bytes: int, until_offset: int
    ) -> BatchRun:
        """Whole batches from the one at `position` on, as many as fit `max_bytes` and begin below `until_offset`; one
        at least, if it begins below. `base_offset`: where that batch begins or, where there are gaps, a bound below.
        Raises CorruptBatchError with file, position and offset."""
        left_bytes = extent.end_position - position
        buffer = self._log.view_at(position, min(max(max_bytes, HEADER_BYTES), left_bytes))
        try:
            first = read_header(buffer)
            check_placement(
                self.path,
                position,
                first,
                until_position=extent.end_position,
                min_offset=base_offset,
                dense_from=extent.dense_from,
            )
            if first.size_bytes > len(buffer) and first.base_offset < until_offset:
                buffer = self._log.view_at(position, first.size_bytes)
            return self._whole_batches(buffer, position, extent, until_offset)
        except CorruptDataError as error:
            raise (
                error if error.fields.get("file") else relocated(error, file=self.path, shift_bytes=position)
            ) from None

    def runs(self, extent: SegmentExtent, *, max_bytes: int) -> Iterator[BatchRun]:
        """The whole extent in results of `read`, about `max_bytes` each; offsets ascend up to the extent's end."""
        position, offset = 0, self.base_offset
        while position < extent.end_position:
            run = self.read(position, extent, base_offset=offset, max_bytes=max_bytes, until_offset=extent.next_offset)
            bases = run.table.column(Cell.BASE_OFFSET).tolist()[: run.count]
            # The CRC does not cover the base offset.
            if not bases or bases != sorted(bases) or run.next_offset > extent.next_offset:
                raise corrupt_batch(
                    f"base offsets do not ascend up to {extent.next_offset}, where the log continues",
                    position=position,
                    offset=offset,
                    file=self.path,
                )
            yield run
            position, offset = run.next_position, run.next_offset

    def end_within(self, position: int, extent: SegmentExtent, limit_position: int) -> tuple[int, BatchHeader | None]:
        """(next offset of the last batch that ends at or before `limit_position`, the batch after it).

        `position` is the start of a batch; -1 when that batch already ends later. None: the segment ends first.
        """
        reached, start = -1, limit_position + 1
        while True:
            # The batch of the index entry may itself reach beyond the limit: then start from an earlier entry.
            start = max(position, self._indexes.floor_of_position(start - 1, extent))
            for at, header in self.walk(extent, position=start):
                if at + header.size_bytes > limit_position:
                    if reached >= 0 or start == position:
                        return reached, header
                    break
                reached = header.next_offset
            else:
                return reached, None

    def check_end(self, offset: int, extent: SegmentExtent) -> None:
        """Call this at the end of the extent, with the offset reached. Raises CorruptBatchError if batches are
        missing."""
        if offset >= extent.dense_from and offset != extent.next_offset:
            raise corrupt_batch(
                f"the segment ends at offset {offset}, but the log continues at {extent.next_offset}",
                position=extent.end_position,
                offset=offset,
                file=self.path,
            )

    def aborted_transactions(self, extent: SegmentExtent) -> Sequence[AbortedTransactionEntry] | None:
        """The entries of the transaction index below the extent's end, without a look at the batches; None if the file
        is damaged."""
        content = read_small_file(self._fs, segment_path(self._directory, self.base_offset, TRANSACTION_INDEX)) or b""
        # What a writer is appending is not published yet.
        check = TransactionIndex.check(content, base_offset=self.base_offset, next_offset=MAX_OFFSET)
        index = TransactionIndex(content, entry_count=check.entry_count)
        return None if check.problem else [entry for entry in index if entry.last_offset < extent.next_offset]

    def offset_behind(self, position: int, extent: SegmentExtent) -> int | None:
        """See `batch_walk.offset_behind`."""
        return offset_behind(self._log, position, until_position=extent.end_position, end_offset=extent.next_offset)

    def skim(self, position: int, extent: SegmentExtent, *, base_offset: int, max_bytes: int) -> BatchRun:
        """As `read`, but skips a batch that is larger than `max_bytes`: then `count` is 0 and its content, which is not
        wanted, was not read."""
        left_bytes = extent.end_position - position
        try:
            header = read_header(self._log.read_at(position, min(HEADER_BYTES, left_bytes)))
        except CorruptDataError as error:
            raise relocated(error, file=self.path, shift_bytes=position) from None
        if header.size_bytes <= max_bytes:
            return self.read(
                position, extent, base_offset=base_offset, max_bytes=max_bytes, until_offset=extent.next_offset
            )
        check_placement(
            self.path,
            position,
            header,
            until_position=extent.end_position,
            min_offset=base_offset,
            dense_from=extent.dense_from,
        )
        return BatchRun(
            buffer=memoryview(b""),
            table=BatchTable(bytearray()),
            count=0,
            next_offset=header.next_offset,
            next_position=position + header.size_bytes,
        )

    def _whole_batches(self, buffer: memoryview, position: int, extent: SegmentExtent, until_offset: int) -> BatchRun:
        scanned = scan_batches(buffer)
        bases = scanned.table.column(Cell.BASE_OFFSET).tolist()
        if not bases:
            raise scanned.fault or corrupt_batch("the file ends before the batch ends", position=0, offset=-1)
        count = bisect_left(bases, until_offset)
        if count == 0:
            return BatchRun(
                buffer=memoryview(b""), table=scanned.table, count=0, next_offset=-1, next_position=position
            )
        deltas = scanned.table.column(Cell.LAST_OFFSET_DELTA).tolist()
        self._check_dense(bases, deltas, scanned.table, count, extent)
        last_base, next_offset = bases[count - 1], bases[count - 1] + deltas[count - 1] + 1
        last_position = scanned.table.position(count - 1)
        end = last_position + scanned.table.column(Cell.SIZE_BYTES)[count - 1]
        is_at_end = position + end == extent.end_position
        if last_base >= extent.dense_from and (
            next_offset > extent.next_offset or (is_at_end and next_offset != extent.next_offset)
        ):
            raise corrupt_batch(
                f"last offset {next_offset - 1} does not fit {extent.next_offset}, where the segment ends",
                position=last_position,
                offset=last_base,
            )
        return BatchRun(
            buffer=buffer[:end],
            table=scanned.table,
            count=count,
            next_offset=next_offset,
            next_position=position + end,
        )

    def _check_dense(
        self, bases: list[int], deltas: list[int], table: BatchTable, count: int, extent: SegmentExtent
    ) -> None:
        if bases[count - 1] < extent.dense_from:
            return
        for row in range(1, count):
            expected = bases[row - 1] + deltas[row - 1] + 1
            if bases[row] != expected and expected >= extent.dense_from:
                raise corrupt_batch(
                    f"base offset {bases[row]} is not {expected}, the next offset of the log",
                    position=table.position(row),
                    offset=bases[row],
                )

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """One whole batch, CRC-checked; `header` came from a walk."""
        return read_batch(self._log, position, header)

    def largest_timestamp(self, extent: SegmentExtent) -> TimestampOffset:
        """The segment's largest timestamp and the last offset of the first batch that has it; -1 ms when none has one.

        The last time entry is checked against its batch, and the batches after it are walked, so a short index does no
        harm.
        """
        known = self._largest.get(extent)
        if known is None:
            known = self._proved_largest(extent)
            self._largest = {extent: known}
        return known

    def _proved_largest(self, extent: SegmentExtent) -> TimestampOffset:
        entry = self._indexes.last_time_entry(extent)
        position = self._position_of_entry(entry, extent)
        if position is None and not self._indexes.is_rebuilt:
            self._indexes.rebuild(extent)
            entry = self._indexes.last_time_entry(extent)
            position = self._position_of_entry(entry, extent)
        largest = TimestampOffset(timestamp_ms=-1, offset=self.base_offset)
        for at, header in self.walk(extent, position=position or 0):
            # A missing or too small timestamp would hide the segment from look-ups by timestamp.
            read_batch(self._log, at, header)
            if timestamp_of(header) > largest.timestamp_ms:
                largest = TimestampOffset(timestamp_ms=timestamp_of(header), offset=header.last_offset)
        return largest

    def batches_from_timestamp(self, timestamp_ms: int, extent: SegmentExtent) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches that hold a timestamp at or after this one, in offset order."""
        entry = self._indexes.time_floor(timestamp_ms, extent)
        position = self._position_of_entry(entry, extent)
        if position is None and not self._indexes.is_rebuilt:
            self._indexes.rebuild(extent)
            position = self._position_of_entry(self._indexes.time_floor(timestamp_ms, extent), extent)
        for at, header in self.walk(extent, position=position or 0):
            if timestamp_of(header) >= timestamp_ms:
                yield at, header
            else:
                read_batch(self._log, at, header)

    def _position_of_entry(self, entry: TimestampOffset, extent: SegmentExtent) -> int | None:
        """The position of a time entry's batch; None when the batch contradicts the entry."""
        if entry.timestamp_ms < 0:
            return 0
        found = self.find_batch(entry.offset, extent)
        if found is None or timestamp_of(found[1]) != entry.timestamp_ms or found[1].base_offset > entry.offset:
            return None
        return found[0]
