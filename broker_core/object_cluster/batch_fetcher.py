"""Reads the batches of planned ranges and writes the log's offsets into them.

A reader that continues after its last read starts at that byte. The first read from the middle of a range reads the
range from its start, because only the batch headers have the offsets.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_log.read_plan import PlannedRead, fitting_reads, row_at, whole_reads
from broker_core.object_log.stored_batches import place
from broker_core.record.batch_header import HEADER_BYTES, LENGTH_PREFIX_BYTES
from broker_core.record.batch_reader import scan_batches
from broker_core.record.faults import corrupt_batch
from broker_core.record.kernel_protocol import Cell

_KEPT_PLACE_COUNT: Final = 1024
_LEAST_READ_BYTES: Final = 64 * 1024


class FetchedRanges(NamedTuple):
    """Whole batches and the next offset to read. The buffer is empty if no offset of the ranges is left."""

    buffer: memoryview
    next_offset: int


class BatchFetcher:
    """Thread-safe."""

    def __init__(self, ports: LogPorts) -> None:
        self._ports = ports
        self._lock = threading.Lock()
        self._places: OrderedDict[tuple[str, int, int], int] = OrderedDict()
        """(object, position of the range, offset) -> byte in the range where the batch with that offset begins."""

    def fetch(self, reads: Sequence[PlannedRead], from_offset: int, *, max_bytes: int) -> FetchedRanges:
        """Batches from the one with `from_offset`, or the first one after it: ranges that fit `max_bytes` together; one
        range of up to twice that, or one that had to be read from its start; or at least one batch of a larger one.
        `reads` are whole ranges in offset order (`plan_fetch_steps` tells which of them a fetch reads).

        Raises ObjectNotFoundError, CorruptBatchError with object and position.
        """
        for row in range(row_at(reads, from_offset), len(reads)):
            first = reads[row]
            whole = whole_reads(reads, row, max_bytes) if from_offset <= first.base_offset else []
            found = self._joined(whole) if whole else self._from_first(first, from_offset, max_bytes)
            if found.buffer or found.next_offset < first.end_offset:
                return found
            # compaction removed the remaining records of the range
        return FetchedRanges(memoryview(b""), reads[-1].end_offset if reads else from_offset)

    def fetch_several(
        self, wanted: Sequence[tuple[Sequence[PlannedRead], int]], *, max_bytes: int
    ) -> list[FetchedRanges | None]:
        """For each of (reads, from_offset) the batches of whole ranges, as many as fit `max_bytes` together, and one
        request for ranges that adjoin, also of different partitions. None where not even the first range fits.

        Raises like `fetch`.
        """
        taken: list[list[PlannedRead]] = []
        for reads, from_offset in wanted:
            taken.append(fitting_reads(reads, row_at(reads, from_offset), max_bytes))
            max_bytes -= sum(read.size_bytes for read in taken[-1])
        datas = iter(self._read_whole([read for reads in taken for read in reads]))
        answers: list[FetchedRanges | None] = []
        for reads, (all_reads, from_offset) in zip(taken, wanted, strict=True):
            if not reads:
                is_over = row_at(all_reads, from_offset) == len(all_reads)
                answers.append(FetchedRanges(memoryview(b""), from_offset) if is_over else None)
                continue
            data = bytearray().join([next(datas) for _ in reads])
            skipped, _ = _window(data, len(data), from_offset, len(data))
            answers.append(FetchedRanges(memoryview(data)[skipped:], reads[-1].end_offset))
        return answers

    def read_range(self, read: PlannedRead) -> bytearray:
        """All batches of one range, with the log's offsets. Raises like `fetch`, and for a truncated range."""
        (data,) = self._read_whole([read])
        return data

    def read_bytes(self, name: str, position: int, size_bytes: int) -> bytes:
        """As they are in the object; fewer where it ends before."""
        return bytes(self._ports.store.get_ranges(name, [(position, size_bytes)])[0])

    def batch_ends(self, read: PlannedRead, from_offset: int) -> list[tuple[int, int]]:
        """(bytes up to there from the batch that holds `from_offset` on, next offset) of each batch of one range."""
        table = scan_batches(self.read_range(read), check_crc=False).table
        total, ends = 0, []
        for base, last_delta, size in zip(
            table.column(Cell.BASE_OFFSET).tolist(),
            table.column(Cell.LAST_OFFSET_DELTA).tolist(),
            table.column(Cell.SIZE_BYTES).tolist(),
            strict=True,
        ):
            if base + last_delta >= from_offset:
                total += size
                ends.append((total, base + last_delta + 1))
        return ends

    # -- one range --

    def _from_first(self, read: PlannedRead, from_offset: int, max_bytes: int) -> FetchedRanges:
        known = self._known_place(read, from_offset)
        start = known or 0
        length = read.size_bytes - start
        if known is None:
            # The batch may be anywhere in the range. What is read once is not read again.
            max_bytes = max(max_bytes, length)
        else:
            length = min(length, max(max_bytes, _LEAST_READ_BYTES))
        while True:
            data = bytearray(self._get(read, start, length))
            placed = place(
                data,
                base_offset=read.base_offset,
                offset_count=read.offset_count,
                file=self._file(read),
                file_position=read.position + start,
            )
            needed = _needed_bytes(data, placed.size_bytes)
            if placed.batch_count == 0 and start + length < read.size_bytes:
                length = min(needed, read.size_bytes - start)
                continue
            if start + length >= read.size_bytes and placed.size_bytes < read.size_bytes - start:
                raise self._cut_off(read, start + placed.size_bytes)
            break
        is_whole = start + placed.size_bytes >= read.size_bytes
        next_offset = read.end_offset if is_whole else placed.next_offset
        skipped, kept = _window(data, placed.size_bytes, from_offset, max_bytes)
        if kept < placed.size_bytes:
            is_whole = False
            next_offset = int.from_bytes(data[kept : kept + 8], "big")
        if not is_whole:
            self._remember(read, next_offset, start + kept)
        return FetchedRanges(memoryview(data)[skipped:kept], next_offset)

    def _known_place(self, read: PlannedRead, offset: int) -> int | None:
        if offset <= read.base_offset:
            return 0
        with self._lock:
            return self._places.get((read.object, read.position, offset))

    def _remember(self, read: PlannedRead, offset: int, start: int) -> None:
        with self._lock:
            self._places[(read.object, read.position, offset)] = start
            while len(self._places) > _KEPT_PLACE_COUNT:
                self._places.popitem(last=False)

    def _get(self, read: PlannedRead, start: int, length: int) -> memoryview:
        return self._ports.store.get_ranges(read.object, [(read.position + start, length)])[0]

    # -- whole ranges --

    def _joined(self, reads: Sequence[PlannedRead]) -> FetchedRanges:
        datas = self._read_whole(reads)
        data = datas[0] if len(datas) == 1 else bytearray().join(datas)
        return FetchedRanges(memoryview(data), reads[-1].end_offset)

    def _read_whole(self, reads: Sequence[PlannedRead]) -> list[bytearray]:
        """One call reads the ranges of one object, adjacent ranges together. Objects are read in parallel."""
        by_object: dict[str, list[int]] = {}
        for slot, read in enumerate(reads):
            by_object.setdefault(read.object, []).append(slot)

        def get(name: str) -> list[memoryview]:
            spans = [(reads[slot].position, reads[slot].size_bytes) for slot in by_object[name]]
            return self._ports.store.get_ranges(name, spans)

        answers = self._ports.requests.gather([partial(get, name) for name in by_object])
        found: list[bytearray] = [bytearray()] * len(reads)
        for slots, datas in zip(by_object.values(), answers, strict=True):
            for slot, data in zip(slots, datas, strict=True):
                found[slot] = self._placed(reads[slot], bytearray(data))
        return found

    def _placed(self, read: PlannedRead, data: bytearray) -> bytearray:
        placed = place(
            data,
            base_offset=read.base_offset,
            offset_count=read.offset_count,
            file=self._file(read),
            file_position=read.position,
        )
        if placed.size_bytes != read.size_bytes:
            raise self._cut_off(read, placed.size_bytes)
        return data

    def _file(self, read: PlannedRead) -> str:
        return f"{self._ports.store.url}/{read.object}"

    def _cut_off(self, read: PlannedRead, position: int) -> Exception:
        return corrupt_batch(
            f"the batches of a range of {read.size_bytes} bytes end after {position}",
            position=read.position + position,
            offset=read.base_offset,
            file=self._file(read),
        )


def _window(data: bytearray, size_bytes: int, from_offset: int, max_bytes: int) -> tuple[int, int]:
    """(first byte, end) of the batches from `from_offset` on that fit `max_bytes`; at least one batch."""
    table = scan_batches(memoryview(data)[:size_bytes], check_crc=False).table
    start = end = size_bytes
    for position, base, last_delta, size in zip(
        table.column(Cell.POSITION).tolist(),
        table.column(Cell.BASE_OFFSET).tolist(),
        table.column(Cell.LAST_OFFSET_DELTA).tolist(),
        table.column(Cell.SIZE_BYTES).tolist(),
        strict=True,
    ):
        if base + last_delta < from_offset:
            continue
        if start == size_bytes:
            start = position
        elif position + size - start > max_bytes:
            end = position
            break
    return start, end


def _needed_bytes(data: bytearray, position: int) -> int:
    """Up to the end of the batch at `position`, according to its header."""
    left = len(data) - position
    if left < LENGTH_PREFIX_BYTES:
        return position + HEADER_BYTES
    return position + LENGTH_PREFIX_BYTES + int.from_bytes(data[position + 8 : position + 12], "big")
