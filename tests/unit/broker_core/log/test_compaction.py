"""The log under test is a list of batches; `compact` runs a pass over it as one segment group."""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.log.append_plan import aborted_entry
from broker_core.log.batch_validation import read_marker
from broker_core.log.compaction import Compaction
from broker_core.log.compaction_plan import CompactionPlan
from broker_core.log.producer_state import ProducerState
from broker_core.log.transaction_index import AbortedTransactionEntry
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import CompressionType
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers, records_of
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONFIG = TopicConfig(cleanup_policy=frozenset({"compact"}))


@dataclass
class Log:
    """Batches with their producers; `until` is where the active segment would begin."""

    buffer: bytearray = field(default_factory=bytearray)
    until: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    def add(self, *records, producer_id=-1, transactional=False, codec=CompressionType.NONE) -> None:
        """Records as (key, value) pairs."""
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        self.sequences[producer_id] = sequence + len(records)
        rows = [Record(key=key, value=value, timestamp_ms=NOW_MS - DAY_MS) for key, value in records]
        self.buffer += build_batch(
            rows,
            base_offset=self.until,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        self.until += len(records)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        self.buffer += build_end_transaction_marker(
            EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=NOW_MS - DAY_MS,
            base_offset=self.until,
        )
        self.until += 1

    def producers(self) -> tuple[ProducerState, list[AbortedTransactionEntry]]:
        state, aborted = ProducerState("t-0"), []
        for position, header in iter_headers(self.buffer):
            completed = state.replay(header, marker=read_marker(self.buffer, position, header))
            if completed is not None and completed.is_aborted:
                aborted.append(aborted_entry(completed))
        return state, aborted


def compact(log: Log, *, from_offset=0, now_ms=NOW_MS, keys=1_000, forget=False, aborted=None) -> Compaction:
    """Replaces the log's bytes by what survives. `forget`: no producer is active any more."""
    state, found = log.producers()
    plan = CompactionPlan(
        first_dirty_offset=from_offset,
        until_offset=log.until,
        clean_bytes=0,
        dirty_bytes=len(log.buffer),
        is_due=True,
        must_reset_checkpoint=False,
    )
    compaction = Compaction(
        plan,
        config=CONFIG,
        now_ms=now_ms,
        memory_bytes=math.ceil(keys / 0.9) * 24,
        digest_key=bytes(16),
        aborted=found if aborted is None else aborted,
        producers={} if forget else state.entries,
    )
    # As the store does, from about where the dirty section begins.
    start = max((position for position, h in iter_headers(log.buffer) if h.base_offset <= from_offset), default=0)
    compaction.index(memoryview(log.buffer)[start:])
    compaction.end_index()
    log.buffer = compaction.clean(log.buffer)
    return compaction


def content(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of the data records."""
    return [
        (record.offset, record.key, record.value)
        for position, header in iter_headers(log.buffer)
        if not header.is_control
        for record in records_of(log.buffer, position)
    ]


def headers(log: Log):
    return [header for _, header in iter_headers(log.buffer)]


def test_the_newest_record_of_each_key_survives_at_its_offset():
    log = Log()
    log.add((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    log.add((b"b", b"2"), (b"c", b"1"))
    compaction = compact(log)
    assert content(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]
    assert [(h.base_offset, h.last_offset) for h in headers(log)] == [(0, 2), (3, 4)]
    assert compaction.end_offset == 5
    assert (compaction.counts.records_read, compaction.counts.records_written) == (5, 3)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_batches_keep_their_codec_and_whole_ones_their_bytes(codec):
    log = Log()
    log.add((b"a", b"1"), (b"b", b"1"), codec=codec)
    log.add((b"a", b"2"), codec=codec)
    untouched = bytes(log.buffer[headers(log)[0].size_bytes :])
    compact(log)
    assert content(log) == [(1, b"b", b"1"), (2, b"a", b"2")]
    assert {header.compression_type for header in headers(log)} == {codec}
    assert bytes(log.buffer).endswith(untouched)


def test_batches_without_survivors_are_removed_except_the_last_which_stays_empty():
    log = Log()
    log.add((b"a", b"1"))
    log.add((b"a", b"2"))
    log.add((b"k", b"1"))
    log.add((None, b"dropped"))
    compact(log)
    assert content(log) == [(1, b"a", b"2"), (2, b"k", b"1")]
    assert headers(log)[-1].last_offset == log.until - 1
    assert headers(log)[-1].record_count == 0


def test_records_without_a_key_are_removed_and_counted():
    log = Log()
    log.add((None, b"1"), (b"a", b"1"))
    assert compact(log).counts.keyless_records == 1
    assert content(log) == [(1, b"a", b"1")]


def test_an_empty_value_is_not_a_tombstone():
    log = Log()
    log.add((b"a", b"1"), (b"a", b""))
    compact(log)
    compact(log, now_ms=NOW_MS + 10 * DAY_MS)
    assert content(log) == [(1, b"a", b"")]
    assert headers(log)[0].delete_horizon_ms is None


def test_a_tombstone_removes_older_records_at_once_and_itself_after_the_delete_horizon():
    log = Log()
    log.add((b"a", b"1"), (b"b", b"1"), (b"a", None))
    compact(log)
    assert content(log) == [(1, b"b", b"1"), (2, b"a", None)]
    assert headers(log)[0].delete_horizon_ms == NOW_MS + CONFIG.delete_retention_ms
    assert [r.timestamp_ms for r in records_of(log.buffer)] == [NOW_MS - DAY_MS] * 2
    compact(log, from_offset=log.until, now_ms=NOW_MS + DAY_MS - 1)
    assert len(content(log)) == 2
    compact(log, from_offset=log.until, now_ms=NOW_MS + DAY_MS)
    assert content(log) == [(1, b"b", b"1")]


def test_a_delete_horizon_is_set_once():
    log = Log()
    log.add((b"a", None))
    compact(log)
    before = bytes(log.buffer)
    compact(log, now_ms=NOW_MS + 5)
    assert bytes(log.buffer) == before


def test_a_newer_value_in_the_dirty_section_removes_clean_ones():
    log = Log()
    log.add((b"a", b"1"), (b"b", b"1"))
    log.add((b"b", b"2"))
    compact(log, from_offset=2)
    assert content(log) == [(0, b"a", b"1"), (2, b"b", b"2")]


def test_keys_only_in_the_clean_section_are_kept():
    log = Log()
    log.add((b"a", b"1"), (b"a", b"2"))
    log.add((b"c", b"1"))
    compact(log, from_offset=2)
    assert content(log) == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"c", b"1")]


# -- bounded memory --


def test_a_full_key_table_ends_the_pass_and_the_next_pass_continues():
    log = Log()
    for number in range(10):
        log.add((b"%d" % (number % 5), b"%d" % number))
    first = compact(log, keys=3)
    assert first.is_full
    assert first.end_offset == 3
    assert len(content(log)) == 10
    from_offset, passes = first.end_offset, 1
    while from_offset < log.until:
        from_offset = compact(log, from_offset=from_offset, keys=3).end_offset
        passes += 1
    assert [(k, v) for _, k, v in content(log)] == [(b"%d" % (n % 5), b"%d" % n) for n in range(5, 10)]
    assert passes == 4


def test_even_one_slot_makes_progress_inside_a_batch():
    log = Log()
    log.add(*((b"%d" % (number % 4), b"%d" % number) for number in range(12)))
    from_offset = 0
    while from_offset < log.until:
        end_offset = compact(log, from_offset=from_offset, keys=1).end_offset
        assert end_offset > from_offset
        from_offset = end_offset
    assert [v for _, _, v in content(log)] == [b"8", b"9", b"10", b"11"]


# -- producers and transactions --


def test_each_producers_last_sequence_survives_as_an_empty_batch():
    log = Log()
    log.add((b"a", b"1"), (b"a", b"2"), producer_id=7)
    log.add((b"a", b"3"), producer_id=8)
    log.add((b"a", b"4"))
    compact(log)
    assert [(h.producer_id, h.last_sequence, h.record_count) for h in headers(log)] == [
        (7, 1, 0),
        (8, 0, 0),
        (-1, -1, 1),
    ]
    state, _ = log.producers()
    assert state.entries[7].last_sequence == 1
    compact(log, forget=True)
    assert [h.producer_id for h in headers(log)] == [-1]


def test_records_of_aborted_transactions_are_removed_and_do_not_replace_older_ones():
    log = Log()
    log.add((b"a", b"good"))
    log.add((b"a", b"bad"), (b"b", b"bad"), producer_id=7, transactional=True)
    log.end(7, is_commit=False)
    log.add((b"z", b"1"))
    compact(log)
    assert content(log) == [(0, b"a", b"good"), (4, b"z", b"1")]


def test_a_producer_that_aborted_before_the_dirty_section_may_commit_in_it():
    log = Log()
    log.add((b"a", b"bad"), producer_id=7, transactional=True)
    log.end(7, is_commit=False)
    log.add((b"a", b"1"))
    from_offset = log.until
    log.add((b"a", b"2"), producer_id=7, transactional=True)
    log.end(7, is_commit=True)
    compact(log, from_offset=from_offset)
    assert content(log) == [(3, b"a", b"2")]


def test_an_abort_marker_stays_until_its_batches_are_gone_and_its_horizon_passed():
    log = Log()
    log.add((b"a", b"bad"), producer_id=7, transactional=True)
    log.end(7, is_commit=False)
    log.add((b"z", b"1"))
    _, aborted = log.producers()

    def markers(now_ms: int) -> list[int | None]:
        nonlocal aborted
        compaction = compact(log, now_ms=now_ms, forget=True, aborted=aborted)
        aborted = list(compaction.take_aborted_transactions())
        return [header.delete_horizon_ms for header in headers(log) if header.is_control]

    assert markers(NOW_MS) == [None]
    assert len(aborted) == 1, "the marker was kept with its index entry: the transaction's batch was met"
    assert markers(NOW_MS + 1) == [NOW_MS + 1 + DAY_MS]
    assert aborted == []
    assert markers(NOW_MS + DAY_MS) == [NOW_MS + 1 + DAY_MS]
    assert markers(NOW_MS + 1 + DAY_MS) == []
    assert content(log) == [(2, b"z", b"1")]


def test_a_commit_marker_stays_with_its_records():
    log = Log()
    log.add((b"a", b"1"), producer_id=7, transactional=True)
    log.end(7, is_commit=True)
    log.add((b"z", b"1"))
    compact(log)
    compact(log, now_ms=NOW_MS + 10 * DAY_MS)
    assert [(h.is_control, h.delete_horizon_ms) for h in headers(log)] == [(False, None), (True, None), (False, None)]
    assert len(content(log)) == 2


def test_the_last_marker_of_a_producer_without_data_keeps_its_epoch():
    log = Log()
    log.end(7, is_commit=True)
    log.add((b"z", b"1"))
    compact(log)
    compact(log, now_ms=NOW_MS + 2 * DAY_MS)
    kept = headers(log)[0]
    assert (kept.producer_id, kept.is_control, kept.record_count) == (7, True, 0)


def test_a_flipped_bit_aborts_the_pass():
    for reading in (Compaction.index, Compaction.clean):
        log = Log()
        log.add((b"a", b"1"))
        compaction = compact(log)
        log.buffer[-1] ^= 1
        compaction.is_full = False
        with pytest.raises(CorruptBatchError):
            reading(compaction, log.buffer)


def test_batches_may_be_fed_in_portions_of_any_size():
    log = Log()
    for number in range(6):
        log.add((b"%d" % (number % 3), b"%d" % number), producer_id=7)
    sizes = [header.size_bytes for header in headers(log)]
    whole = bytes(log.buffer)
    compaction = compact(log)
    again, position = bytearray(), 0
    for size in sizes:
        again += compaction.clean(whole[position : position + size])
        position += size
    assert again == log.buffer


# -- against a slow oracle --

keys = st.sampled_from([b"a", b"b", b"c", b"d"])
values = st.none() | st.sampled_from([b"", b"x", b"yy"])
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(st.tuples(keys, values), min_size=1, max_size=4)),
    st.tuples(st.just("txn"), st.integers(1, 2), st.lists(st.tuples(keys, values), min_size=1, max_size=3)),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
)


def build(script) -> tuple[Log, list[tuple[int, bytes, bytes | None]]]:
    """The log of a script, and the records of it that were committed."""
    log, visible, pending = Log(), [], {}
    for step in script:
        if step[0] == "add":
            visible += [(log.until + i, *record) for i, record in enumerate(step[1])]
            log.add(*step[1])
        elif step[0] == "txn":
            pending.setdefault(step[1], []).extend((log.until + i, *record) for i, record in enumerate(step[2]))
            log.add(*step[2], producer_id=step[1], transactional=True)
        elif pending.get(step[1]):
            visible += pending.pop(step[1]) if step[2] else []
            pending.pop(step[1], None)
            log.end(step[1], is_commit=step[2])
    for producer_id in list(pending):
        if pending[producer_id]:
            visible += pending[producer_id]
            log.end(producer_id, is_commit=True)
    return log, sorted(visible, key=lambda row: row[0])


def newest(rows):
    last = {key: offset for offset, key, _ in rows}
    return [row for row in rows if last[row[1]] == row[0]]


@examples(150)
@given(st.lists(steps, min_size=1, max_size=12), st.integers(1, 6), st.sampled_from(list(CompressionType)))
def test_passes_leave_the_newest_committed_record_of_each_key(script, table_keys, codec):
    log, visible = build(script)
    if not log.until:
        return
    from_offset = 0
    before, _ = log.producers()
    _, aborted = log.producers()
    while from_offset < log.until:
        compaction = compact(log, from_offset=from_offset, keys=table_keys, aborted=aborted)
        aborted = list(compaction.take_aborted_transactions())
        assert compaction.end_offset > from_offset
        from_offset = compaction.end_offset
    assert content(log) == newest(visible)
    assert headers(log)[-1].last_offset == log.until - 1
    after, _ = log.producers()
    assert {p: (e.producer_epoch, e.last_sequence) for p, e in after.entries.items()} == {
        p: (e.producer_epoch, e.last_sequence) for p, e in before.entries.items()
    }
    for now_ms in (NOW_MS + 2 * DAY_MS, NOW_MS + 4 * DAY_MS):
        aborted = list(compact(log, now_ms=now_ms, aborted=aborted).take_aborted_transactions())
    assert content(log) == [row for row in newest(visible) if row[2] is not None]
    assert headers(log)[-1].last_offset == log.until - 1
