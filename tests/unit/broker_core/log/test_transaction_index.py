import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.log.transaction_index import (
    AbortedTransactionEntry,
    TransactionIndex,
    encode_transaction_entry,
)
from broker_core.model.exceptions import UnsupportedFormatError

# transactions-0/00000000000000000019.txnindex as a Kafka 4.3.1 broker wrote it: seven aborted transactions.
KAFKA_INDEX = bytes.fromhex(
    "0000000000000000000500000000000000070000000000000013000000000000000300000000000000000004000000000000000e"
    "000000000000001b0000000000000015000000000000000000050000000000000015000000000000001c000000000000001d0000"
    "0000000000000006000000000000001d000000000000002700000000000000210000000000000000000500000000000000290000"
    "000000000032000000000000002c00000000000000000004000000000000002c0000000000000033000000000000003400000000"
    "000000000005000000000000003900000000000000420000000000000043"
)


def an_entry(producer_id: int, first: int, last: int, stable: int) -> AbortedTransactionEntry:
    return AbortedTransactionEntry(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
    )


def an_index(*entries: AbortedTransactionEntry) -> TransactionIndex:
    return TransactionIndex(b"".join(map(encode_transaction_entry, entries)))


def test_an_index_that_kafka_wrote_round_trips():
    index = TransactionIndex(KAFKA_INDEX)
    assert next(iter(index)) == an_entry(5, 7, 19, 3)
    assert b"".join(map(encode_transaction_entry, index)) == KAFKA_INDEX
    assert TransactionIndex.check(KAFKA_INDEX, base_offset=19, next_offset=77).problem is None


def test_a_fetch_gets_the_aborted_transactions_that_overlap_it():
    index = TransactionIndex(KAFKA_INDEX)
    found = index.collect(from_offset=20, until_offset=28)
    assert [(entry.producer_id, entry.first_offset) for entry in found.entries] == [(4, 14), (5, 21)]
    assert found.is_complete


def test_a_transaction_that_ends_in_a_later_segment_is_still_found():
    first, second = an_index(an_entry(1, 2, 10, 5)), an_index(an_entry(2, 5, 30, 31))
    found = first.collect(from_offset=0, until_offset=8)
    assert ([entry.producer_id for entry in found.entries], found.is_complete) == ([1], False)
    found = second.collect(from_offset=0, until_offset=8)
    assert ([entry.producer_id for entry in found.entries], found.is_complete) == ([2], True)


@st.composite
def aborted_logs(draw):
    """Random interleavings: open producers, abort some, entries with the true last stable offset."""
    open_firsts: dict[int, int] = {}
    entries = []
    for offset in range(draw(st.integers(0, 40))):
        producer_id = draw(st.integers(0, 4))
        if producer_id in open_firsts and draw(st.booleans()):
            first = open_firsts.pop(producer_id)
            entries.append(an_entry(producer_id, first, offset, min(open_firsts.values(), default=offset + 1)))
        else:
            open_firsts.setdefault(producer_id, offset)
    return entries


@given(aborted_logs(), st.integers(0, 40), st.integers(0, 40))
def test_collecting_finds_all_that_overlap(entries, from_offset, length):
    until_offset = from_offset + length
    found = an_index(*entries).collect(from_offset=from_offset, until_offset=until_offset).entries
    assert list(found) == [e for e in entries if e.last_offset >= from_offset and e.first_offset < until_offset]


def test_truncation_keeps_what_ended_before():
    assert TransactionIndex(KAFKA_INDEX).slots_until(0x1C) == 2
    assert TransactionIndex(KAFKA_INDEX).slots_until(0x1D) == 3


@pytest.mark.parametrize(
    ("entries", "good_count", "problem"),
    [
        (KAFKA_INDEX[:-1], 6, "not a whole entry"),
        (KAFKA_INDEX + b"\0\1" + KAFKA_INDEX[2:34], 7, "version 1"),
        (KAFKA_INDEX[34:68] + KAFKA_INDEX[:34], 1, "is not in ascending order"),
        (encode_transaction_entry(an_entry(1, 30, 20, 20)), 0, "is not in ascending order"),
        (encode_transaction_entry(an_entry(1, 30, 77, 20)), 0, "points past the end"),
    ],
)
def test_a_wrong_index_is_detected(entries, good_count, problem):
    check = TransactionIndex.check(entries, base_offset=19, next_offset=77)
    assert check.entry_count == good_count
    assert problem in check.problem


def test_reading_refuses_an_unknown_version():
    with pytest.raises(UnsupportedFormatError, match="version 1"):
        TransactionIndex(b"\0\1" + bytes(32)).entry(0)
