"""A hypothesis machine that uses every operation of a log and compares it with the plain model.

Subclasses say what the log is: `open_logs` gives several handles on one partition, each as another process would hold
it. Every action picks a handle, so what one did is always learned by another one from the files.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

import hypothesis.strategies as st
from fuzz.batches import a_batch_of, a_marker, rows_of, some_contents
from fuzz.plain_log import Content, PlainLog, Row
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_core.cluster import AppendResult, FetchedBatches, OffsetAndTimestamp, PartitionBounds
from broker_core.model.exceptions import OffsetOutOfRangeError, OutOfOrderSequenceError, RecordTooLargeError
from broker_core.model.identifiers import CompressionType, IsolationLevel
from broker_core.record import columns

START_MS = 1_700_000_000_000
HANDLES = st.integers(0, 2)
SEEDS = st.integers(0, 2**16)
CODECS = st.sampled_from(CompressionType)
ISOLATIONS = st.sampled_from(IsolationLevel)
MAX_MESSAGE_BYTES = 4000


class LogHandle(Protocol):
    def append(self, batches: bytearray, now_ms: int) -> AppendResult: ...
    def bounds(self) -> PartitionBounds: ...
    def read(self, from_offset: int, max_bytes: int, isolation: IsolationLevel) -> FetchedBatches: ...
    def find_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None: ...
    def find_max_timestamp(self) -> OffsetAndTimestamp | None: ...
    def delete_records(self, before_offset: int) -> int: ...
    def new_producer_id(self) -> int: ...
    def reopen(self) -> None: ...
    def close(self) -> None: ...


class LogMachine(RuleBasedStateMachine):
    """Actions that every log knows."""

    logs: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.model = PlainLog()
        self.now_ms = START_MS
        self.configs: dict[str, str] = {}
        self.logs = []
        self.sent: dict[int, list[tuple[int, list[Content], CompressionType]]] = {}
        """Producer id -> its newest batches as (first sequence, content, codec)."""

    def open_logs(self, configs: dict[str, str]) -> list[Any]:
        raise NotImplementedError

    @initialize(
        segment_bytes=st.sampled_from([700, 1500, 5000, 100_000]),
        index_interval_bytes=st.sampled_from([0, 200, 4096]),
        policy=st.sampled_from(["delete", "delete", "compact", "compact,delete"]),
        retention_bytes=st.sampled_from([-1, 0, 1500]),
        timestamp_type=st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
        codec=st.sampled_from(["producer", "producer", "producer", "zstd"]),
    )
    def create(
        self,
        segment_bytes: int,
        index_interval_bytes: int,
        policy: str,
        retention_bytes: int,
        timestamp_type: str,
        codec: str,
    ) -> None:
        self.configs = {
            "internal.segment.bytes": str(segment_bytes),
            "segment.ms": "600000",
            "index.interval.bytes": str(index_interval_bytes),
            "cleanup.policy": policy,
            "retention.bytes": str(retention_bytes),
            "retention.ms": "3600000",
            "message.timestamp.type": timestamp_type,
            "message.timestamp.after.max.ms": str(10**12),
            "compression.type": codec,
            "max.message.bytes": str(MAX_MESSAGE_BYTES),
            "min.cleanable.dirty.ratio": "0",
        }
        self.logs = self.open_logs(self.configs)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.configs["cleanup.policy"]

    @property
    def log_append_time_ms(self) -> int | None:
        return self.now_ms if self.configs["message.timestamp.type"] == "LogAppendTime" else None

    def some(self, seed: int, count: int) -> list[Content]:
        return some_contents(seed, count, now_ms=self.now_ms, with_null_keys=not self.is_compacted)

    # -- appends --
    @rule(handle=HANDLES, seed=SEEDS, counts=st.lists(st.integers(1, 5), min_size=1, max_size=4), codec=CODECS)
    def append(self, handle: int, seed: int, counts: list[int], codec: CompressionType) -> None:
        batches = [self.some(seed + n, count) for n, count in enumerate(counts)]
        self._append(handle, batches, codec)

    @rule(handle=HANDLES, seed=SEEDS, count=st.integers(8, 25), codec=CODECS)
    def append_a_lot(self, handle: int, seed: int, count: int, codec: CompressionType) -> None:
        for n in range(count):
            self._append((handle + n) % 3, [self.some(seed + n, 1 + (seed + n) % 5)], codec)

    def _append(self, handle: int, batches: list[list[Content]], codec: CompressionType, **stamped: Any) -> None:
        buffer = bytearray().join(a_batch_of(contents, codec, **stamped) for contents in batches)
        result = self.logs[handle].append(buffer, self.now_ms)
        landed = [
            self.model.append(contents, log_append_time_ms=self.log_append_time_ms, **stamped) for contents in batches
        ]
        assert (result.base_offset, result.last_offset) == (landed[0][0], landed[-1][1])
        assert not result.is_duplicate
        assert result.log_append_time_ms == (-1 if self.log_append_time_ms is None else self.log_append_time_ms)
        self.after_append(handle)

    def after_append(self, handle: int) -> None:
        """For logs that clean up by themselves."""

    @rule(handle=HANDLES, seed=SEEDS, codec=CODECS)
    def append_what_is_too_large(self, handle: int, seed: int, codec: CompressionType) -> None:
        noise = random.Random(seed).randbytes(MAX_MESSAGE_BYTES)
        batch = a_batch_of([Content(self.now_ms, b"k", noise)], codec)
        self._is_refused(handle, batch, RecordTooLargeError)

    def _is_refused(self, handle: int, batch: bytearray, error: type[Exception]) -> None:
        try:
            self.logs[handle].append(batch, self.now_ms)
        except error:
            return
        raise AssertionError(f"not refused with {error.__name__}")

    # -- idempotent producers --
    @rule(handle=HANDLES, seed=SEEDS, count=st.integers(1, 6), codec=CODECS, pick=SEEDS)
    def append_in_sequence(self, handle: int, seed: int, count: int, codec: CompressionType, pick: int) -> None:
        known = sorted(self.sent)
        if len(known) < 3:
            producer_id = self.logs[handle].new_producer_id()
            self.sent[producer_id] = []
        else:
            producer_id = known[pick % 3]
        state = self.model.producers.get(producer_id)
        sequence = state.next_sequence if state else 0
        contents = self.some(seed, count)
        self._append(handle, [contents], codec, producer=(producer_id, 0, sequence))
        self.sent[producer_id] = [*self.sent[producer_id], (sequence, contents, codec)][-5:]

    @precondition(lambda self: any(self.sent.values()))
    @rule(handle=HANDLES, pick=SEEDS)
    def retry_a_recent_batch(self, handle: int, pick: int) -> None:
        choices = [(producer_id, batch) for producer_id, sent in sorted(self.sent.items()) for batch in sent]
        producer_id, (sequence, contents, codec) = choices[pick % len(choices)]
        batch = a_batch_of(contents, codec, producer=(producer_id, 0, sequence))
        recent = self.model.producers[producer_id].recent
        known = {first: (base, last) for first, _, base, last in recent}
        try:
            result = self.logs[handle].append(batch, self.now_ms)
        except OutOfOrderSequenceError:
            # Kafka's snapshots hold each producer's last batch only, and its compaction keeps no more: who learns of
            # the log from them refuses the older ones. What matters is that nothing is ever taken twice.
            assert sequence != recent[-1][0]
            return
        assert result.is_duplicate, f"sequence {sequence} of producer {producer_id} was taken twice"
        assert (result.base_offset, result.last_offset) == known[sequence]

    @precondition(lambda self: any(self.sent.values()))
    @rule(handle=HANDLES, pick=SEEDS, gap=st.integers(1, 40))
    def leave_a_gap_in_a_sequence(self, handle: int, pick: int, gap: int) -> None:
        known = [producer_id for producer_id in sorted(self.sent) if self.sent[producer_id]]
        producer_id = known[pick % len(known)]
        sequence = self.model.producers[producer_id].next_sequence + gap
        batch = a_batch_of(self.some(pick, 1), CompressionType.NONE, producer=(producer_id, 0, sequence))
        self._is_refused(handle, batch, OutOfOrderSequenceError)

    # -- time, delete-records, handles --
    @rule(step_ms=st.sampled_from([1, 1000, 200_000, 700_000, 3_700_000]))
    def let_time_pass(self, step_ms: int) -> None:
        self.now_ms += step_ms

    @precondition(lambda self: self.configs["cleanup.policy"] != "compact")
    @rule(handle=HANDLES, share=st.floats(0, 1), to_the_end=st.booleans())
    def delete_records(self, handle: int, share: float, to_the_end: bool) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        before_offset = -1 if to_the_end and share > 0.8 else start + round(share**2 * (end - start))
        answer = self.logs[handle].delete_records(before_offset)
        expected = end if before_offset < 0 else before_offset
        assert answer == expected
        self.model.start_at(expected)

    @precondition(lambda self: self.configs["cleanup.policy"] != "compact")
    @rule(handle=HANDLES, beyond=st.integers(1, 5))
    def delete_records_beyond_the_end(self, handle: int, beyond: int) -> None:
        try:
            self.logs[handle].delete_records(self.model.log_end_offset + beyond)
        except OffsetOutOfRangeError:
            return
        raise AssertionError("records that are not there were deleted")

    @rule(handle=HANDLES)
    def reopen(self, handle: int) -> None:
        self.logs[handle].reopen()

    # -- reads --
    @rule(handle=HANDLES, pick=SEEDS, max_bytes=st.sampled_from([1, 100, 500, 3000, 10**6]), isolation=ISOLATIONS)
    def read_once(self, handle: int, pick: int, max_bytes: int, isolation: IsolationLevel) -> None:
        start, end = self.model.log_start_offset, self.model.log_end_offset
        from_offset = max(0, start - 2 + pick % (end - start + 5))
        try:
            fetched = self.logs[handle].read(from_offset, max_bytes, isolation)
        except OffsetOutOfRangeError:
            assert not start <= from_offset <= end, f"offset {from_offset} is in {start}..{end}"
            return
        assert start <= from_offset <= end, f"offset {from_offset} is not in {start}..{end}"
        readable_end = self.model.last_stable_offset if isolation else end
        if from_offset < readable_end:
            assert from_offset < fetched.next_offset <= readable_end
        else:
            assert (bytes(fetched.buffer), fetched.next_offset) == (b"", from_offset)
        found = rows_of(fetched, from_offset, aborted=columns.AbortedFilter() if isolation else None)
        assert found == self._rows(isolation, from_offset, fetched.next_offset)

    def _rows(self, isolation: IsolationLevel, from_offset: int, until_offset: int) -> list[Row]:
        rows = self.model.rows(committed_only=bool(isolation), from_offset=from_offset)
        return [row for row in rows if row.offset < until_offset]

    @rule(handle=HANDLES, max_bytes=st.sampled_from([1, 300, 10**6]), isolation=ISOLATIONS)
    def read_all(self, handle: int, max_bytes: int, isolation: IsolationLevel) -> None:
        found = read_everything(self.logs[handle], self.model.log_start_offset, max_bytes, isolation)
        assert found == self._rows(isolation, 0, 2**62)

    @rule(handle=HANDLES, pick=SEEDS, step_ms=st.integers(-1, 1))
    def look_up_a_timestamp(self, handle: int, pick: int, step_ms: int) -> None:
        times = [row.timestamp_ms for row in self.model.rows()] or [self.now_ms]
        asked_ms = times[pick % len(times)] + step_ms
        found = self.logs[handle].find_timestamp(asked_ms)
        answer = None if found is None else (found.offset, found.timestamp_ms)
        assert answer in self.model.answers_for_timestamp(asked_ms), f"first at or after {asked_ms}: {answer}"

    @rule(handle=HANDLES)
    def look_up_the_greatest_timestamp(self, handle: int) -> None:
        found = self.logs[handle].find_max_timestamp()
        answer = None if found is None else (found.offset, found.timestamp_ms)
        assert answer in self.model.answers_for_max_timestamp(), f"greatest timestamp: {answer}"

    @invariant()
    def all_see_the_same_bounds(self) -> None:
        for log in self.logs:
            bounds = log.bounds()
            assert (bounds.log_start_offset, bounds.log_end_offset, bounds.high_watermark) == (
                self.model.log_start_offset,
                self.model.log_end_offset,
                self.model.log_end_offset,
            )
            assert bounds.last_stable_offset == self.model.last_stable_offset

    def teardown(self) -> None:
        try:
            for log in self.logs:
                for isolation in IsolationLevel:
                    found = read_everything(log, self.model.log_start_offset, 2000, isolation)
                    assert found == self._rows(isolation, 0, 2**62)
        finally:
            for log in self.logs:
                log.close()


class TransactionRules(LogMachine):
    """For logs that take the markers of a coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self.transactional_ids = [900_000, 900_001, 900_002]

    @rule(handle=HANDLES, seed=SEEDS, count=st.integers(1, 5), codec=CODECS, pick=st.integers(0, 2))
    def append_in_a_transaction(self, handle: int, seed: int, count: int, codec: CompressionType, pick: int) -> None:
        producer_id = self.transactional_ids[pick]
        known = self.model.producers.get(producer_id)
        sequence = known.next_sequence if known else 0
        stamped: dict[str, Any] = {"producer": (producer_id, 0, sequence), "is_transactional": True}
        self._append(handle, [self.some(seed, count)], codec, **stamped)

    @precondition(lambda self: bool(self.model.open))
    @rule(handle=HANDLES, pick=SEEDS, commit=st.booleans())
    def end_a_transaction(self, handle: int, pick: int, commit: bool) -> None:
        producer_id = sorted(self.model.open)[pick % len(self.model.open)]
        result = self.logs[handle].append_marker(
            a_marker(producer_id, commit=commit, timestamp_ms=self.now_ms), self.now_ms
        )
        assert result.base_offset == self.model.end_transaction(producer_id, commit=commit, timestamp_ms=self.now_ms)


def read_everything(log: LogHandle, from_offset: int, max_bytes: int, isolation: IsolationLevel) -> list[Row]:
    found: list[Row] = []
    aborted = columns.AbortedFilter() if isolation else None
    while from_offset < log.bounds().readable_end(isolation):
        fetched = log.read(from_offset, max_bytes, isolation)
        found += rows_of(fetched, from_offset, aborted=aborted)
        assert fetched.next_offset > from_offset, f"a fetch at {from_offset} that does not move on"
        from_offset = fetched.next_offset
    return found
