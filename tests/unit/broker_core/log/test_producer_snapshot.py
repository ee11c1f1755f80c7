import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.log.producer_entry import ProducedBatch, ProducerEntry
from broker_core.log.producer_snapshot import decode_snapshot, encode_snapshot
from broker_core.model.exceptions import CorruptDataError, UnsupportedFormatError

# Snapshots as a Kafka 4.3.1 broker wrote them.
OPEN_TRANSACTION = bytes.fromhex(
    "00013a866d980000000100000000000000040000000000030000000000000003000000030000018bcff4b1ecffffffff0000000000000000"
)
THREE_PRODUCERS = bytes.fromhex(
    "000169102aa2000000030000000000000004000000000013000000000000004600000000000001a21f5895e500000000ffffffffffffffff"
    "0000000000000005000000000014000000000000004a00000002000001a21f5895e100000000ffffffffffffffff"
    "000000000000000600000000000d000000000000002600000001000001a21f58953f00000000ffffffffffffffff"
)


def test_a_snapshot_that_kafka_wrote_is_read():
    (entry,) = decode_snapshot(OPEN_TRANSACTION)
    batch = ProducedBatch(last_sequence=3, last_offset=3, offset_delta=3, timestamp_ms=1_700_000_150_000 - 121_444)
    assert (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch) == (4, 0, -1)
    assert entry.transaction_first_offset == 0
    assert (entry.batches[0].first_sequence, entry.batches[0].first_offset) == (0, 0)
    assert entry.batches[0].last_offset == batch.last_offset
    assert [entry.producer_id for entry in decode_snapshot(THREE_PRODUCERS)] == [4, 5, 6]


@pytest.mark.parametrize("data", [OPEN_TRANSACTION, THREE_PRODUCERS])
def test_a_snapshot_that_kafka_wrote_round_trips(data):
    assert encode_snapshot(decode_snapshot(data)) == data


def test_an_empty_snapshot_has_ten_bytes():
    assert len(encode_snapshot([])) == 10
    assert decode_snapshot(encode_snapshot([])) == ()


def test_every_flipped_bit_and_truncation_is_detected():
    for position in range(len(OPEN_TRANSACTION)):
        damaged = bytearray(OPEN_TRANSACTION)
        damaged[position] ^= 4
        with pytest.raises(CorruptDataError):
            decode_snapshot(damaged)
        with pytest.raises(CorruptDataError):
            decode_snapshot(OPEN_TRANSACTION[:position])


def test_the_error_names_another_version():
    with pytest.raises(UnsupportedFormatError, match="version 2"):
        decode_snapshot(b"\0\2" + OPEN_TRANSACTION[2:])


int64 = st.integers(0, 2**63 - 1)
entries = st.builds(
    lambda producer_id, epoch, coordinator, opened, batch: ProducerEntry(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        last_timestamp_ms=batch.timestamp_ms if batch else 5,
        transaction_first_offset=opened,
        batches=(batch,) if batch else (),
    ),
    int64,
    st.integers(0, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.none() | int64,
    st.none()
    | st.builds(
        ProducedBatch,
        last_sequence=st.integers(-1, 2**31 - 1),
        last_offset=int64,
        offset_delta=st.integers(0, 2**31 - 1),
        timestamp_ms=st.integers(-1, 2**63 - 1),
    ),
)


@given(st.lists(entries, max_size=5))
def test_entries_round_trip(written):
    assert list(decode_snapshot(encode_snapshot(written))) == written
