"""The machine on `WritablePartition`: several over one in-memory disk, each what a process would hold."""

from __future__ import annotations

import itertools
import random
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
from fuzz.log_machine import HANDLES, SEEDS, TransactionRules, read_everything
from hypothesis.stateful import precondition, rule
from support.files.faulty_file_system import FaultyFileSystem, Neighbour

from broker_core.cluster import (
    AppendResult,
    FetchedBatches,
    OffsetAndTimestamp,
    PartitionBounds,
    SegmentDescription,
)
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.compaction_run import CompactionReport
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

DIRECTORY = "/log/t-0"
PARTITION = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7)
COMPACTION_MEMORY_BYTES = 1 << 20


def an_empty_disk() -> FaultyFileSystem:
    fs = FaultyFileSystem()
    fs.make_directory("/log")
    fs.sync_directory("")
    WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
    return fs


class StoreLog:
    """A writable store, with `refresh` before each write as the door does it under the lock."""

    _producer_ids = itertools.count(1)

    def __init__(self, fs: FaultyFileSystem | Neighbour, configs: dict[str, str], *, writable: bool = True) -> None:
        self.fs = fs
        self.writable = writable
        self.config = TopicConfig.from_strings(configs)
        self.store = self._opened()

    def _opened(self) -> Any:
        kind = WritablePartition if self.writable else ReadablePartition
        return kind.open(self.fs, DIRECTORY, PARTITION, config=self.config, topic_id=TOPIC_ID)

    def append(self, batches: bytearray, now_ms: int) -> AppendResult:
        self.store.refresh()
        return self.store.append(batches, now_ms=now_ms).result

    def append_marker(self, batch: bytearray, now_ms: int) -> AppendResult:
        self.store.refresh()
        return self.store.append_control(batch, now_ms=now_ms).result

    def bounds(self) -> PartitionBounds:
        return self.store.bounds()

    def read(self, from_offset: int, max_bytes: int, isolation: IsolationLevel) -> FetchedBatches:
        return self.store.read(from_offset, max_bytes=max_bytes, isolation=isolation)

    def find_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        return self.store.find_offset_by_timestamp(timestamp_ms)

    def find_max_timestamp(self) -> OffsetAndTimestamp | None:
        return self.store.find_max_timestamp()

    def delete_records(self, before_offset: int) -> int:
        self.store.refresh()
        return self.store.delete_records(before_offset)

    def apply_retention(self, now_ms: int) -> int:
        self.store.refresh()
        return self.store.apply_retention(now_ms)

    def compact(self, now_ms: int) -> CompactionReport:
        self.store.refresh()
        return self.store.compact(now_ms, memory_bytes=COMPACTION_MEMORY_BYTES, digest_key=b"0123456789abcdef")

    def roll(self, now_ms: int) -> bool:
        self.store.refresh()
        return self.store.roll(now_ms)

    def truncate_to(self, offset: int) -> None:
        self.store.refresh()
        self.store.truncate_to(offset)

    def make_key_filters(self, *, place: bool = True) -> int:
        planned = self.store.plan_key_filters()
        for segment in planned:
            assert self.store.write_key_filter(segment)
            if place:
                self.store.refresh()
                assert self.store.place_key_filter(segment)
        return len(planned)

    def headers(self) -> list[BatchHeader]:
        """Of all batches that reach above the log start."""
        bounds = self.bounds()
        offset, found = bounds.log_start_offset, []
        while offset < bounds.log_end_offset:
            fetched = self.read(offset, 10**6, IsolationLevel.READ_UNCOMMITTED)
            found += [header for _, header in iter_headers(fetched.buffer)]
            offset = fetched.next_offset
        return found

    def segments(self) -> tuple[SegmentDescription, ...]:
        return self.store.segments()

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    def reopen(self) -> None:
        self.store.refresh()
        self.store.close()
        self.store = self._opened()

    def reopen_after_a_crash(self) -> None:
        self.store = self._opened()

    def close(self) -> None:
        self.store.close()


class StoreMachine(TransactionRules):
    def open_logs(self, configs: dict[str, str]) -> list[StoreLog]:
        self.fs = an_empty_disk()
        return [StoreLog(self.fs, configs) for _ in range(3)]

    @rule(handle=HANDLES)
    def apply_retention(self, handle: int) -> None:
        log = self.logs[handle]
        expected = self._start_after_retention(log.segments())
        log.apply_retention(self.now_ms)
        self.model.start_at(expected)
        assert log.bounds().log_start_offset == expected

    def _start_after_retention(self, segments: tuple[SegmentDescription, ...]) -> int:
        """Kafka's rules, segment by segment from the oldest: below the log start, then by size, then by time.

        Only the active segment stays when it is empty: compaction empties others, and those go.
        """
        left = list(segments)

        def may_go() -> bool:
            return bool(left) and not (left[0].is_active and not left[0].size_bytes)

        while len(left) > 1 and left[1].base_offset <= self.model.log_start_offset:
            left.pop(0)
        if "delete" in self.configs["cleanup.policy"]:
            size_bytes = sum(s.size_bytes for s in left)
            bound_bytes = int(self.configs["retention.bytes"])
            while may_go() and bound_bytes >= 0 and size_bytes - left[0].size_bytes >= bound_bytes:
                size_bytes -= left.pop(0).size_bytes
            oldest_ms = self.now_ms - int(self.configs["retention.ms"])
            # Without a timestamp a segment is as old as its file, and on this disk all files are of 1970.
            while may_go() and max(left[0].max_timestamp_ms, 0) < oldest_ms:
                left.pop(0)
        first_offset = left[0].base_offset if left else self.model.log_end_offset
        return max(self.model.log_start_offset, first_offset)

    @precondition(lambda self: self.is_compacted)
    @rule(handle=HANDLES, roll_first=st.booleans())
    def compact(self, handle: int, roll_first: bool) -> None:
        log = self.logs[handle]
        if roll_first:
            log.roll(self.now_ms)
        bases = [s.base_offset for s in log.segments()]
        stable = self.model.last_stable_offset
        # Whole segments only, never the active one, and nothing at or above the oldest open transaction.
        until_offset = max(base for base in bases if base <= max(stable, bases[0]))
        report = log.compact(self.now_ms)
        rows = read_everything(log, self.model.log_start_offset, 10**6, IsolationLevel.READ_UNCOMMITTED)
        survivors = {row.offset for row in rows}
        self.model.compacted(survivors, until_offset=until_offset)
        if report.segments_cleaned:
            self.model.must_be_compacted(survivors, until_offset=until_offset)

    @rule(handle=HANDLES, back=st.integers(0, 12))
    def truncate_the_tail(self, handle: int, back: int) -> None:
        offset = max(self.model.log_start_offset, self.model.log_end_offset - back)
        # Batches go whole: an offset inside a batch takes all of the batch.
        offset = self.model.batch_start(offset)
        if offset < self.model.log_start_offset or not self.model.can_truncate_to(offset):
            return
        if self.is_compacted and offset < self.logs[handle].segments()[-1].base_offset:
            return  # after compaction the list does not know where batches begin
        self.logs[handle].truncate_to(offset)
        self.model.truncate_to(offset)
        self.sent.clear()
        # The log may still know an older state of a producer without batches than the model does.
        self.transactional_ids = [i if i in self.model.producers else i + 3 for i in self.transactional_ids]

    @rule(handle=HANDLES)
    def look_at_the_segments(self, handle: int) -> None:
        segments = self.logs[handle].segments()
        bases = [s.base_offset for s in segments]
        assert bases == sorted(set(bases))
        assert bases[0] <= self.model.log_start_offset
        assert [s.is_active for s in segments] == [False] * (len(segments) - 1) + [True]
        assert segments[-1].next_offset == self.model.log_end_offset
        for segment, following in itertools.pairwise(segments):
            assert segment.next_offset <= following.base_offset
        if self.is_compacted:
            return
        for segment in segments:
            held = [e for e in self.model.entries if segment.base_offset <= e.offset < segment.next_offset]
            greatest_ms = max((e.timestamp_ms for e in held), default=-1)
            whole = segment.base_offset >= self.model.log_start_offset
            assert segment.max_timestamp_ms == greatest_ms if whole else segment.max_timestamp_ms >= greatest_ms

    @rule(handle=HANDLES, place=st.booleans())
    def make_key_filters(self, handle: int, place: bool) -> None:
        self.logs[handle].make_key_filters(place=place)

    @rule(handle=HANDLES, pick=SEEDS, absent=st.booleans())
    def look_up_a_key(self, handle: int, pick: int, absent: bool) -> None:
        log, start, end = self.logs[handle], self.model.log_start_offset, self.model.log_end_offset
        rows = read_everything(log, start, 10**6, IsolationLevel.READ_UNCOMMITTED)
        key = b"no record has it" if absent or not rows else rows[pick % len(rows)].key
        found = log.store.ranges_with_key(key, start, end)
        assert list(found.ranges) == sorted(found.ranges)
        with_key = [row.offset for row in rows if row.key == key]
        assert all(any(first <= offset < until for first, until in found.ranges) for offset in with_key)
        read_bytes = sum(log.store.bytes_between(first, until) for first, until in found.ranges)
        assert found.skipped_bytes + read_bytes >= log.store.bytes_between(start, end)

    @rule(handle=HANDLES, picks=st.tuples(SEEDS, SEEDS), max_bytes=st.integers(1, 4000))
    def go_as_far_as_bytes_lead(self, handle: int, picks: tuple[int, int], max_bytes: int) -> None:
        log, start, end = self.logs[handle], self.model.log_start_offset, self.model.log_end_offset
        from_offset, until_offset = sorted(start + pick % (end - start + 1) for pick in picks)
        if from_offset == until_offset:
            return
        headers = [h for h in log.headers() if h.last_offset >= from_offset and h.base_offset < until_offset]
        assert log.store.bytes_between(from_offset, until_offset) == sum(h.size_bytes for h in headers)
        expected, left_bytes = from_offset, max_bytes
        for header in headers:
            left_bytes -= header.size_bytes
            if left_bytes < 0 and expected > from_offset:
                break
            expected = min(header.next_offset, until_offset)
        else:
            expected = until_offset
        assert log.store.find_offset_within_bytes(from_offset, until_offset, max_bytes) == expected

    @rule(handle=HANDLES)
    def verify(self, handle: int) -> None:
        assert self.logs[handle].store.verify() == []

    @rule(handle=HANDLES, seed=SEEDS, power=st.booleans())
    def crash(self, handle: int, seed: int, power: bool) -> None:
        """All processes die at once, and perhaps the machine with them: what was acknowledged is there."""
        if power:
            self.fs.power_loss(random.Random(seed))
        else:
            self.fs.restart()
        for log in self.logs:
            log.reopen_after_a_crash()
        self.logs[handle].store.refresh()
