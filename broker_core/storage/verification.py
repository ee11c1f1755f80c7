"""The deep walk for `streamlog log verify` and `log dump`: every batch, every record, every index entry.

It continues after damage where it can: within a segment while the lengths lead from batch to batch, then with the next
segment. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker_core.log.key_filter import (
    KEY_FILTER_HEADER_BYTES,
    ClosedSegment,
    KeyFilterBuilder,
    is_block_whole,
)
from broker_core.log.producer_state import ProducerState
from broker_core.log.sparse_index import OffsetIndex, TimeIndex
from broker_core.log.transaction_index import TransactionIndex
from broker_core.model.exceptions import CorruptDataError
from broker_core.ports import File, FileSystem
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import inspect_records
from broker_core.record.key_places import BLOCK_BYTES
from broker_core.storage.batch_walk import read_batch, walk_headers
from broker_core.storage.checkpoints import read_small_file
from broker_core.storage.key_filter_files import KeyFilterFile, keys_of
from broker_core.storage.producer_replay import SegmentPart, producers_before, replay_segment
from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent, timestamp_of
from broker_core.storage.segment_names import (
    KEY_FILTER,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    segment_path,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem. `is_damage`: data is affected, not only an index, which readers and writers rebuild."""

    file: str
    position: int
    offset: int
    problem: str
    is_damage: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """One batch, for `log dump`. `problem` None: CRC and records are valid."""

    file: str
    position: int
    header: BatchHeader
    problem: str | None


Progress = Callable[[int, int], None]
"""(bytes done, bytes in total)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSegment:
    """A segment and how much of it to verify."""

    base_offset: int
    extent: SegmentExtent
    is_active: bool


def dump_batches(fs: FileSystem, directory: str, segment: VerifiedSegment) -> Iterator[DumpedBatch]:
    """Every batch of a segment. Raises CorruptBatchError where a length leads to no batch."""
    path = segment_path(directory, segment.base_offset, LOG)
    file = fs.open(path, writable=False)
    try:
        walk = walk_headers(
            file,
            position=0,
            until_position=segment.extent.end_position,
            min_offset=segment.base_offset,
            dense_from=segment.extent.dense_from,
            end_offset=segment.extent.next_offset,
        )
        for position, header in walk:
            yield DumpedBatch(file=path, position=position, header=header, problem=_problem_in(file, position, header))
    finally:
        file.close()


def verify_partition(
    fs: FileSystem,
    directory: str,
    name: str,
    segments: list[VerifiedSegment],
    *,
    snapshots: tuple[int, ...],
    progress: Progress | None,
) -> list[Finding]:
    """All problems of the partition, in order of offsets."""
    findings: list[Finding] = []
    total_bytes = sum(segment.extent.end_position for segment in segments)
    done_bytes = 0
    for segment in segments:
        headers: dict[int, BatchHeader] = {}
        path = segment_path(directory, segment.base_offset, LOG)
        position, offset = 0, segment.base_offset
        try:
            for batch in dump_batches(fs, directory, segment):
                position, offset = batch.position, batch.header.base_offset
                headers[position] = batch.header
                if batch.problem is not None:
                    findings.append(_damage(path, position, offset, batch.problem))
                if batch.header.next_offset > segment.extent.next_offset:
                    findings.append(_damage(path, position, offset, "the batch reaches into the next segment"))
                if progress is not None:
                    progress(done_bytes + position + batch.header.size_bytes, total_bytes)
        except CorruptDataError as damage:
            place = damage.fields.get("position", position), damage.fields.get("offset", offset)
            findings.append(_damage(path, *place, _what(damage)))
        else:
            findings += _verify_indexes(fs, directory, segment, headers)
            findings += _verify_transactions(fs, directory, name, segments, segment, snapshots)
            findings += _verify_key_filter(fs, directory, segment)
        done_bytes += segment.extent.end_position
    return findings


def _problem_in(file: File, position: int, header: BatchHeader) -> str | None:
    try:
        inspect_records(read_batch(file, position, header))
    except CorruptDataError as damage:
        return _what(damage)
    return None


def _what(damage: CorruptDataError) -> str:
    """The problem without the place, for which a finding has its own fields."""
    return str(damage.fields.get("what", damage))


def _damage(path: str, position: int, offset: int, problem: str) -> Finding:
    return Finding(file=path, position=position, offset=offset, problem=problem, is_damage=True)


def _verify_indexes(
    fs: FileSystem, directory: str, segment: VerifiedSegment, headers: dict[int, BatchHeader]
) -> Iterator[Finding]:
    base_offset, extent = segment.base_offset, segment.extent
    path = segment_path(directory, base_offset, OFFSET_INDEX)
    data = read_small_file(fs, path)
    largest_ms = -1
    ends: dict[int, int] = {}
    for header in headers.values():
        largest_ms = max(largest_ms, timestamp_of(header))
        ends[header.last_offset] = header.max_timestamp
    if data is None:
        yield _unfit(path, 0, base_offset, "the offset index is missing")
    else:
        check = OffsetIndex.check(
            data, base_offset=base_offset, next_offset=extent.next_offset, segment_size_bytes=extent.end_position
        )
        index = OffsetIndex(data, base_offset=base_offset, entry_count=check.entry_count)
        for slot in range(check.entry_count):
            entry = index.entry(slot)
            named = headers.get(entry.position)
            if named is None or named.base_offset > entry.offset or named.last_offset > entry.offset:
                yield _unfit(path, slot * 8, entry.offset, f"no batch with this last offset at {entry.position}")
        if check.problem and not segment.is_active:
            yield _unfit(path, check.entry_count * 8, base_offset, check.problem)
    path = segment_path(directory, base_offset, TIME_INDEX)
    data = read_small_file(fs, path)
    if data is None:
        yield _unfit(path, 0, base_offset, "the time index is missing")
        return
    check = TimeIndex.check(data, base_offset=base_offset, next_offset=extent.next_offset)
    times = TimeIndex(data, base_offset=base_offset, entry_count=check.entry_count)
    for slot in range(check.entry_count):
        time_entry = times.entry(slot)
        if ends.get(time_entry.offset) != time_entry.timestamp_ms:
            yield _unfit(
                path, slot * 12, time_entry.offset, f"no batch with timestamp {time_entry.timestamp_ms} ends here"
            )
    if check.problem and not segment.is_active:
        yield _unfit(path, check.entry_count * 12, base_offset, check.problem)
    if not segment.is_active and times.last_entry().timestamp_ms < largest_ms:
        yield _unfit(path, len(data), base_offset, f"it ends below the largest timestamp {largest_ms}")


def _verify_transactions(
    fs: FileSystem,
    directory: str,
    name: str,
    segments: list[VerifiedSegment],
    segment: VerifiedSegment,
    snapshots: tuple[int, ...],
) -> Iterator[Finding]:
    below = [
        SegmentPart(base_offset=s.base_offset, end_position=s.extent.end_position)
        for s in segments
        if s.base_offset < segment.base_offset
    ]
    path = segment_path(directory, segment.base_offset, TRANSACTION_INDEX)
    try:
        producers: ProducerState = producers_before(
            fs, directory, name, segment.base_offset, snapshots=snapshots, parts=below
        )
        file = fs.open(segment_path(directory, segment.base_offset, LOG), writable=False)
        try:
            part = SegmentPart(base_offset=segment.base_offset, end_position=segment.extent.end_position)
            expected = replay_segment(file, part, producers, min_offset=segment.base_offset)
        finally:
            file.close()
    except CorruptDataError:
        return
    found = read_small_file(fs, path) or b""
    if segment.base_offset < segment.extent.dense_from:
        # Compaction drops entries with the records of their transactions; which ones can no longer be determined.
        check = TransactionIndex.check(found, base_offset=segment.base_offset, next_offset=segment.extent.next_offset)
        is_right = check.problem is None
    else:
        is_right = found.startswith(expected) if segment.is_active else found == expected
    if not is_right:
        yield _unfit(path, 0, segment.base_offset, "it does not hold the segment's aborted transactions")


def _verify_key_filter(fs: FileSystem, directory: str, segment: VerifiedSegment) -> Iterator[Finding]:
    base_offset, extent = segment.base_offset, segment.extent
    path = segment_path(directory, base_offset, KEY_FILTER)
    closed = ClosedSegment(base_offset=base_offset, next_offset=extent.next_offset, size_bytes=extent.end_position)
    if not fs.exists(path):
        return
    key_filter = None if segment.is_active else KeyFilterFile.open(fs, directory, closed)
    if key_filter is None:
        yield _unfit(path, 0, base_offset, "the key filter is damaged or was not made for this segment")
        return
    files = SegmentFiles(fs, directory, base_offset, index_interval_bytes=0)
    try:
        stored = key_filter.content()
        positions = range(KEY_FILTER_HEADER_BYTES, len(stored), BLOCK_BYTES)
        damaged = [at for at in positions if not is_block_whole(stored[at : at + BLOCK_BYTES])]
        for position in damaged:
            yield _unfit(path, position, base_offset, "a block of the key filter is damaged")
        if damaged:
            return
        builder = KeyFilterBuilder(closed, block_count=key_filter.header.block_count)
        for keys in keys_of(files, extent):
            builder.add(keys.column("key"))
        if builder.is_denied_by(stored):
            offset = _first_denied(key_filter, files, extent)
            # Queries trust the filter and miss records, and it is not rebuilt automatically.
            yield _damage(path, 0, offset, "the key filter misses an existing key: delete the file")
    except CorruptDataError:
        return  # damage of the segment itself, which is already a finding
    finally:
        files.close()
        key_filter.close()


def _first_denied(key_filter: KeyFilterFile, files: SegmentFiles, extent: SegmentExtent) -> int:
    for records in keys_of(files, extent, frozenset({"key", "offset"})):
        keys, offsets = records.column("key"), records.column("offset")
        for row, key in enumerate(keys.to_pylist()):
            if key_filter.denies(key):
                return int(offsets[row].as_py())
    return files.base_offset


def _unfit(path: str, position: int, offset: int, problem: str) -> Finding:
    return Finding(file=path, position=position, offset=offset, problem=problem, is_damage=False)
