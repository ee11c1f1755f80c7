import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import a_batch, a_commit_marker, a_log, an_abort_marker
from support.runs.examples import examples

from broker_core.coordinator.stored_records import (
    EndedTransaction,
    NewestRecords,
    StoredRecord,
    events_of,
    is_dense,
)
from broker_core.log.batch_filter import filter_batch
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import CompressionType
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_builder import build_empty_batch
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import Record

PRODUCERS = (1, 2, 3)
KEYS = (b"a", b"b", b"c", b"d")


class Fold:
    """A coordinator in small: of each key the committed record that lies behind all others, and what is undecided."""

    def __init__(self):
        self.committed = {}
        self.pending = {}

    def replay(self, event):
        if isinstance(event, StoredRecord):
            if event.producer_id >= 0:
                self.pending.setdefault(event.producer_id, []).append(event)
            else:
                self._commit(event)
            return
        for record in self.pending.pop(event.producer_id, []):
            if event.is_commit:
                self._commit(record)

    def _commit(self, record):
        known = self.committed.get(record.key)
        if known is None or record.offset > known.offset:
            self.committed[record.key] = record

    def state(self):
        kept = {
            key: (record.offset, record.value) for key, record in self.committed.items() if record.value is not None
        }
        return kept, {producer: records for producer, records in self.pending.items() if records}


def folded(events):
    fold = Fold()
    for event in events:
        fold.replay(event)
    return fold.state()


def newest_of(*buffers, from_offset=0):
    newest = NewestRecords(from_offset=from_offset)
    for buffer in buffers:
        newest.add(buffer)
    return list(newest.events())


def records(*pairs):
    return [Record(key=key, value=value, timestamp_ms=7) for key, value in pairs]


def in_transaction(producer_id, *pairs, base_offset=0):
    producer = (producer_id, 0, -1)
    return a_batch(records(*pairs), base_offset=base_offset, producer=producer, is_transactional=True)


def random_log(seed, batch_count):
    """Batches of several producers, in every codec; some as a compaction leaves them."""
    rng = random.Random(seed)
    batches, offset = [], 0
    for _ in range(batch_count):
        producer_id = rng.choice(PRODUCERS)
        kind = rng.choice(["plain", "plain", "transactional", "transactional", "commit", "abort"])
        pairs = [(rng.choice(KEYS), rng.choice([None, b"", b"v%d" % offset])) for _ in range(rng.randrange(1, 4))]
        if kind == "commit":
            batch = a_commit_marker(producer_id=producer_id, base_offset=offset)
        elif kind == "abort":
            batch = an_abort_marker(producer_id=producer_id, base_offset=offset)
        else:
            batch = a_batch(
                records(*pairs),
                base_offset=offset,
                compression=rng.choice(list(CompressionType)),
                producer=(producer_id, 0, -1) if kind == "transactional" else None,
                is_transactional=kind == "transactional",
            )
        header = read_header(batch)
        offset = header.next_offset
        if header.is_control and rng.random() < 0.3:
            batch = filter_batch(header, batch, [True], config=TopicConfig(), delete_horizon_ms=10**12 + offset)
        batches.append(batch)
    return batches


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 3))
@examples(150)
def test_the_newest_records_give_the_same_state_as_all_records(seed, batch_count, buffer_count):
    batches = random_log(seed, batch_count)
    size = -(-len(batches) // buffer_count) or 1
    buffers = [a_log(*batches[at : at + size]) for at in range(0, len(batches), size)]
    plain = [event for buffer in buffers for event in events_of(buffer, from_offset=0)]
    assert folded(newest_of(*buffers)) == folded(plain)


def test_only_the_newest_record_of_a_key_is_returned():
    log = a_log(
        a_batch(records((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))),
        a_batch(records((b"b", b"2"), (b"c", None)), base_offset=3),
    )
    assert newest_of(log) == [
        StoredRecord(b"a", b"2", 2),
        StoredRecord(b"b", b"2", 3),
        StoredRecord(b"c", None, 4),
    ]


def test_records_of_open_transactions_are_returned_last():
    log = a_log(
        in_transaction(1, (b"a", b"open")),
        a_batch(records((b"a", b"plain")), base_offset=1),
        in_transaction(2, (b"a", b"aborted"), base_offset=2),
        an_abort_marker(producer_id=2, base_offset=3),
    )
    assert newest_of(log) == [StoredRecord(b"a", b"plain", 1), StoredRecord(b"a", b"open", 0, 1)]


def test_a_marker_with_a_delete_horizon_is_decoded():
    marker = an_abort_marker(producer_id=1, base_offset=1)
    dated = filter_batch(read_header(marker), marker, [True], config=TopicConfig(), delete_horizon_ms=1)
    assert newest_of(a_log(in_transaction(1, (b"a", b"1")), dated)) == []


def test_an_emptied_marker_ends_nothing():
    emptied = build_empty_batch(read_header(a_commit_marker(producer_id=1, base_offset=1)))
    following = a_batch(records((b"\x08", b"2")), base_offset=2)
    assert newest_of(a_log(in_transaction(1, (b"a", b"1")), emptied, following)) == [
        StoredRecord(b"\x08", b"2", 2),
        StoredRecord(b"a", b"1", 0, 1),
    ]


def test_events_are_ordered_from_the_requested_offset_and_name_their_producer():
    log = a_log(
        a_batch(records((b"a", b"1"), (b"b", None))),
        in_transaction(1, (b"c", b"3"), base_offset=2),
        a_commit_marker(producer_id=1, base_offset=3),
        a_batch([Record(value=b"no key")], base_offset=4),
    )
    assert list(events_of(log, from_offset=1)) == [
        StoredRecord(b"b", None, 1),
        StoredRecord(b"c", b"3", 2, 1),
        EndedTransaction(1, True),
    ]


def test_records_below_the_log_start_are_skipped():
    assert newest_of(a_batch(records((b"a", b"1"), (b"b", b"2"))), from_offset=1) == [StoredRecord(b"b", b"2", 1)]


def test_a_gap_between_or_inside_batches_is_detected():
    first, second = a_batch(records((b"a", b"1"), (b"b", b"2"))), a_batch(records((b"c", b"3")), base_offset=2)
    assert is_dense(a_log(first, second), from_offset=0)
    assert is_dense(a_log(first, second), from_offset=1)
    assert not is_dense(second, from_offset=1)
    cleaned = filter_batch(read_header(first), first, [False, True], config=TopicConfig(), delete_horizon_ms=None)
    assert not is_dense(cleaned, from_offset=0)
    assert not is_dense(build_empty_batch(read_header(second)), from_offset=2)


def test_damaged_content_is_refused():
    batch = a_batch(records((b"a", b"1")))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        newest_of(batch)
