"""Readers of one partition's folder: no lock, nothing written, any number of processes at once.

Every call reads the published bounds first and reads nothing after them, so it never sees a torn or unsynced byte.
Segments stay open while the bounds' generation is the same. When a file is gone or different during a call (deleted,
compacted, truncated meanwhile), the call restarts with fresh bounds and a fresh listing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from errno import ENOENT
from typing import TypeVar

from broker_core.cluster import AbortedTransaction, FetchedBatches, KeyRanges, OffsetAndTimestamp, PartitionBounds
from broker_core.log.key_filter import ClosedSegment
from broker_core.model.exceptions import CorruptDataError, UnknownPartitionError
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import FileSystem
from broker_core.storage.aborted_transactions import AbortedTransactionLookup, WalkStart
from broker_core.storage.byte_lookup import bytes_between, offset_within_bytes
from broker_core.storage.key_lookup import ranges_with_key
from broker_core.storage.partition_bounds import PublishedBounds
from broker_core.storage.published_view import PublishedView
from broker_core.storage.segment_files import BatchRun, SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent
from broker_core.storage.segment_names import LOG, segment_path
from broker_core.storage.storage_errors import storage_error
from broker_core.storage.timestamp_lookup import first_at_or_after, first_with_largest

_ATTEMPTS = 8
"""Attempts of one call. Each failed one saw the folder change; no writer is so fast that all of them do."""
_OPEN_SEGMENTS = 2
"""Kept open per partition: a streaming reader needs one or two, and `limits.MAX_OPEN_PARTITION_COUNT` counts on it."""
_KNOWN_POSITIONS = 64
"""Number of cached positions: ends of recent reads, and starts that needed a look-up. So many readers of one store
continue without one."""

_Answer = TypeVar("_Answer")


class PartitionReader:
    """Reads for `ReadablePartition`, which documents the methods."""

    def __init__(self, fs: FileSystem, directory: str, topic_partition: TopicPartition, config: TopicConfig) -> None:
        self._fs = fs
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._view = PublishedView(fs, directory, topic_partition, config)
        self._open: OrderedDict[int, SegmentFiles] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._largest: dict[tuple[int, SegmentExtent], int] = {}
        self._positions: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._generation = -1
        self._newest: tuple[PublishedBounds, PartitionBounds] | None = None
        self._aborted = AbortedTransactionLookup()

    def bounds(self) -> PartitionBounds:
        return self._retrying(partition_bounds)

    def has_unpublished(self) -> bool:
        return self._retrying(self._view.has_unpublished)

    def read(
        self, from_offset: int, *, max_bytes: int, until_offset: int | None, isolation: IsolationLevel
    ) -> FetchedBatches:
        try:
            return self._retrying(
                lambda published: self._read(published, from_offset, max_bytes, until_offset, isolation)
            )
        except CorruptDataError as damage:
            raise self._with_next_offset(damage, from_offset) from None

    def find_offset_by_timestamp(self, timestamp_ms: int, until_offset: int | None) -> OffsetAndTimestamp | None:
        def find(published: PublishedBounds) -> OffsetAndTimestamp | None:
            end = published.log_end_offset if until_offset is None else min(until_offset, published.log_end_offset)
            for base, extent in self.extents(published):
                if extent.next_offset <= published.log_start_offset or base >= end:
                    continue
                if self.largest_timestamp_ms(base, extent) < timestamp_ms:
                    continue
                found = first_at_or_after(
                    self.segment(base),
                    extent,
                    timestamp_ms,
                    from_offset=published.log_start_offset,
                    until_offset=end,
                )
                if found is not None:
                    return found
            return None

        return self._retrying(find)

    def find_max_timestamp(self) -> OffsetAndTimestamp | None:
        def find(published: PublishedBounds) -> OffsetAndTimestamp | None:
            extents = [
                (base, extent)
                for base, extent in self.extents(published)
                if extent.next_offset > published.log_start_offset
            ]
            best: OffsetAndTimestamp | None = None
            for base, extent in sorted(extents, key=lambda pair: (-self.largest_timestamp_ms(*pair), pair[0])):
                # In the first segment the largest may belong to a deleted record: search on while there may be a larger
                # one.
                if best is not None and self.largest_timestamp_ms(base, extent) < best.timestamp_ms:
                    break
                found = first_with_largest(self.segment(base), extent, from_offset=published.log_start_offset)
                best = found if best is None or (found is not None and _precedes(found, best)) else best
            return best

        return self._retrying(find)

    def find_offset_within_bytes(self, from_offset: int, until_offset: int, max_bytes: int) -> int:
        return self._retrying(
            lambda published: offset_within_bytes(
                self.extents(published), self.segment, from_offset, until_offset, max_bytes
            )
        )

    def bytes_between(self, from_offset: int, until_offset: int) -> int:
        return self._retrying(
            lambda published: bytes_between(self.extents(published), self.segment, from_offset, until_offset)
        )

    def ranges_with_key(self, key: bytes | None, from_offset: int, until_offset: int) -> KeyRanges:
        def find(published: PublishedBounds) -> KeyRanges:
            return ranges_with_key(
                self._fs,
                self._directory,
                self._closed_extents(published),
                self.segment,
                key,
                from_offset=from_offset,
                until_offset=until_offset,
            )

        return self._retrying(find)

    def closed_segments(self) -> list[ClosedSegment]:
        """Those below the active one that hold records above the log start, in order."""

        def list_them(published: PublishedBounds) -> list[ClosedSegment]:
            return [
                ClosedSegment(base_offset=base, next_offset=extent.next_offset, size_bytes=extent.end_position)
                for base, extent in self._closed_extents(published)
                if extent.next_offset > published.log_start_offset
            ]

        return self._retrying(list_them)

    def largest_timestamp_ms(self, base_offset: int, extent: SegmentExtent) -> int:
        """The largest timestamp of one segment; -1 without any."""
        key = (base_offset, extent)
        if key not in self._largest:
            # Only the active segment's extent changes; a new generation forgets them all.
            self._largest[key] = self.segment(base_offset).largest_timestamp(extent).timestamp_ms
        return self._largest[key]

    def extents(self, published: PublishedBounds) -> list[tuple[int, SegmentExtent]]:
        """(base offset, extent) of every segment, in order."""
        bases = self._view.segments(published).bases
        return [(base, self._extent(published, bases, slot)) for slot, base in enumerate(bases)]

    def _closed_extents(self, published: PublishedBounds) -> list[tuple[int, SegmentExtent]]:
        return [(base, extent) for base, extent in self.extents(published) if base != published.active_base_offset]

    def segment(self, base_offset: int) -> SegmentFiles:
        """The open segment; it stays valid until the next call on this reader."""
        segment = self._open.get(base_offset)
        if segment is None:
            segment = SegmentFiles(
                self._fs,
                self._directory,
                base_offset,
                index_interval_bytes=self._config.index_interval_bytes,
            )
            self._open[base_offset] = segment
            if len(self._open) > _OPEN_SEGMENTS:
                self._evict(*self._open.popitem(last=False))
        self._open.move_to_end(base_offset)
        return segment

    def with_bounds(self, look: Callable[[PublishedBounds], _Answer]) -> _Answer:
        """Runs `look` under fresh bounds, and again when the folder changed under it."""
        return self._retrying(look)

    def close(self) -> None:
        self._forget()
        self._view.forget()
        self._view.close()

    def _read(
        self,
        published: PublishedBounds,
        from_offset: int,
        max_bytes: int,
        until_offset: int | None,
        isolation: IsolationLevel,
    ) -> FetchedBatches:
        bounds = self._bounds_of(published)
        bounds.require(from_offset, self._topic_partition)
        end = bounds.readable_end(isolation)
        stop = end if until_offset is None else min(end, until_offset)
        if from_offset >= stop:
            return FetchedBatches(buffer=memoryview(b""), next_offset=from_offset, bounds=bounds)
        found = self._first_run(published, from_offset, max_bytes, stop)
        if found is None:
            return FetchedBatches(buffer=memoryview(b""), next_offset=stop, bounds=bounds)
        slot, run = found
        aborted: tuple[AbortedTransaction, ...] = ()
        if isolation is IsolationLevel.READ_COMMITTED:
            aborted = self._aborted.find(run, self._behind(published, slot, run))
        return FetchedBatches(
            buffer=run.buffer, next_offset=run.next_offset, bounds=bounds, aborted_transactions=aborted
        )

    def _bounds_of(self, published: PublishedBounds) -> PartitionBounds:
        if self._newest is None or self._newest[0] is not published:
            self._newest = published, partition_bounds(published)
        return self._newest[1]

    def _first_run(
        self, published: PublishedBounds, from_offset: int, max_bytes: int, stop: int
    ) -> tuple[int, BatchRun] | None:
        """(slot of its segment, batches from the first that reaches `from_offset`); None when none begins below
        `stop`."""
        bases = self._view.segments(published).bases
        slot = bisect_right(bases, from_offset) - 1
        if slot < 0:
            raise FileNotFoundError(ENOENT, "the segment is gone", segment_path(self._directory, from_offset, LOG))
        known = self._positions.get(from_offset)
        while slot < len(bases) and bases[slot] < stop:
            extent = self._extent(published, bases, slot)
            segment = self.segment(bases[slot])
            if known is not None and known[0] == bases[slot] and known[1] < extent.end_position:
                position, base_offset = known[1], from_offset
            else:
                batch = segment.find_batch(from_offset, extent)
                if batch is None:
                    slot += 1
                    continue
                position, base_offset = batch[0], batch[1].base_offset
                if base_offset == from_offset:
                    self._remember(from_offset, bases[slot], position)
            run = segment.read(position, extent, base_offset=base_offset, max_bytes=max_bytes, until_offset=stop)
            if not run.count:
                return None
            self._remember(run.next_offset, bases[slot], run.next_position)
            return slot, run
        return None

    def _with_next_offset(self, damage: CorruptDataError, from_offset: int) -> CorruptDataError:
        next_offset = self._retrying(lambda published: self._offset_behind(published, damage, from_offset))
        message = f"{self._topic_partition}: {damage.message}"
        return type(damage)(message, **damage.fields, next_offset=next_offset)

    def _offset_behind(self, published: PublishedBounds, damage: CorruptDataError, from_offset: int) -> int | None:
        """Where the log continues behind the damaged batch; None if that is not certain."""
        bases = self._view.segments(published).bases
        for slot, base in enumerate(bases):
            if segment_path(self._directory, base, LOG) == damage.fields.get("file"):
                extent = self._extent(published, bases, slot)
                found = self.segment(base).offset_behind(damage.fields["position"], extent)
                return found if found is not None and found > from_offset else None
        return None

    def _behind(self, published: PublishedBounds, slot: int, run: BatchRun) -> WalkStart:
        bases = self._view.segments(published).bases

        def segments() -> Iterator[tuple[SegmentFiles, SegmentExtent]]:
            for later in range(slot, len(bases)):
                yield self.segment(bases[later]), self._extent(published, bases, later)

        return WalkStart(position=run.next_position, offset=run.next_offset, segments=segments)

    def _remember(self, offset: int, base_offset: int, position: int) -> None:
        self._positions[offset] = (base_offset, position)
        self._positions.move_to_end(offset)
        if len(self._positions) > _KNOWN_POSITIONS:
            self._positions.popitem(last=False)

    def _extent(self, published: PublishedBounds, bases: tuple[int, ...], slot: int) -> SegmentExtent:
        base = bases[slot]
        if base == published.active_base_offset:
            return SegmentExtent(
                end_position=published.active_size_bytes,
                next_offset=published.log_end_offset,
                dense_from=published.dense_from_offset,
            )
        next_offset = bases[slot + 1] if slot + 1 < len(bases) else published.log_end_offset
        size_bytes = self._sizes.get(base)
        if size_bytes is None:
            size_bytes = self._sizes[base] = self.segment(base).size_bytes()
        return SegmentExtent(end_position=size_bytes, next_offset=next_offset, dense_from=published.dense_from_offset)

    def _evict(self, base_offset: int, segment: SegmentFiles) -> None:
        """The file may be a different one when it is opened again: a compaction puts its files in place before its
        bounds. A position in the old file, if a batch of the new one begins there by chance, would skip the batches
        before it."""
        segment.close()
        for offset, (base, _) in list(self._positions.items()):
            if base == base_offset:
                del self._positions[offset]

    def _retrying(self, look: Callable[[PublishedBounds], _Answer]) -> _Answer:
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            published: PublishedBounds | None = None
            try:
                published = self._view.bounds()
                if published.generation != self._generation:
                    self._forget()
                    self._generation = published.generation
                return look(published)
            except FileNotFoundError as gone:
                self.close()
                if is_last or not self._fs.exists(self._directory):
                    raise UnknownPartitionError(f"{self._topic_partition}: {gone.filename} is gone") from gone
            except CorruptDataError:
                # The cache may be of a file that was replaced. Real damage shows again at the next attempt.
                self._forget()
                self._view.forget()
                is_unchanged = published is not None and self._view.bounds().generation == published.generation
                if is_last or (attempt > 0 and is_unchanged):
                    raise
            except OSError as error:
                raise storage_error("reading", self._directory, error) from error
        raise AssertionError("the last attempt returns or raises")

    def _forget(self) -> None:
        for segment in self._open.values():
            segment.close()
        self._open.clear()
        self._sizes.clear()
        self._largest.clear()
        self._positions.clear()
        self._aborted.forget()


def partition_bounds(published: PublishedBounds) -> PartitionBounds:
    return PartitionBounds(
        log_start_offset=published.log_start_offset,
        last_stable_offset=published.last_stable_offset,
        high_watermark=published.log_end_offset,
        log_end_offset=published.log_end_offset,
    )


def _precedes(found: OffsetAndTimestamp, best: OffsetAndTimestamp) -> bool:
    """A larger timestamp, or the same at a lower offset."""
    return (-found.timestamp_ms, found.offset) < (-best.timestamp_ms, best.offset)
