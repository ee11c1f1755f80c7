"""The 61 bytes of a batch header, read and changed in place."""

import struct

import pytest
from support.builders.builders import a_batch, with_header_field

from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.model.limits import MAX_SEQUENCE
from broker_core.record.batch_header import (
    HEADER_BYTES,
    BatchHeader,
    compute_crc,
    read_header,
    write_log_append_time,
    write_placement,
)
from broker_core.record.batch_reader import check_crc, records_of


def a_header(**fields):
    return BatchHeader(**({"base_offset": 0, "batch_length": 49, "partition_leader_epoch": 0} | fields))


def test_a_header_round_trips():
    header = a_header(
        base_offset=2**40, batch_length=77, partition_leader_epoch=9, crc=0xDEADBEEF, attributes=0x7C,
        last_offset_delta=4, base_timestamp=-5, max_timestamp=2**60, producer_id=2**50, producer_epoch=32767,
        base_sequence=2**31 - 1, record_count=5,
    )  # fmt: skip
    assert len(header.to_bytes()) == HEADER_BYTES
    assert read_header(b"xx" + header.to_bytes(), 2) == header


def test_attribute_bits_are_decoded():
    header = a_header(attributes=0x7C, base_timestamp=99)
    assert header.compression_type is CompressionType.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_transactional and header.is_control and header.has_delete_horizon
    assert header.delete_horizon_ms == 99
    plain = a_header()
    assert not (plain.is_transactional or plain.is_control or plain.has_delete_horizon)
    assert plain.timestamp_type is TimestampType.CREATE_TIME
    assert plain.delete_horizon_ms is None


def test_offsets_and_sizes_are_derived_from_the_fields():
    header = a_header(base_offset=10, batch_length=100, last_offset_delta=4)
    assert (header.size_bytes, header.last_offset, header.next_offset) == (112, 14, 15)


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(0, 4, 4), (MAX_SEQUENCE, 0, MAX_SEQUENCE), (MAX_SEQUENCE, 1, 0), (-1, 4, -1)]
)
def test_the_last_sequence_wraps_to_zero(base, delta, last):
    assert a_header(base_sequence=base, last_offset_delta=delta).last_sequence == last


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_unsupported_not_corrupt(magic):
    with pytest.raises(UnsupportedFormatError, match=f"message format v{magic}"):
        read_header(with_header_field(a_batch(), 16, ">b", magic))


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_an_unknown_magic_is_corrupt(magic):
    with pytest.raises(CorruptBatchError, match="not a known message format"):
        read_header(with_header_field(a_batch(), 16, ">b", magic))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_unsupported(codec):
    with pytest.raises(UnsupportedFormatError, match=f"codec {codec}"):
        read_header(with_header_field(a_batch(), 21, ">h", codec))


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_a_batch_length_below_a_headers_is_corrupt(length):
    with pytest.raises(CorruptBatchError, match="below"):
        read_header(with_header_field(a_batch(), 8, ">i", length, repair_crc=False))


def test_a_batch_that_is_only_a_header_is_read():
    assert read_header(with_header_field(a_batch(), 8, ">i", 49, repair_crc=False)).size_bytes == HEADER_BYTES


@pytest.mark.parametrize(("position", "value"), [(23, -1), (57, -1)])
def test_a_negative_last_delta_or_record_count_is_corrupt(position, value):
    with pytest.raises(CorruptBatchError, match="negative"):
        read_header(with_header_field(a_batch(), position, ">i", value))


def test_fewer_bytes_than_a_header_are_corrupt():
    for size in range(HEADER_BYTES):
        with pytest.raises(CorruptBatchError):
            read_header(bytes(a_batch()[:size]))


def test_errors_name_position_and_base_offset():
    batch = with_header_field(a_batch(base_offset=42), 57, ">i", -1)
    with pytest.raises(CorruptBatchError) as caught:
        read_header(b"12345" + batch, 5)
    assert (caught.value.position, caught.value.offset) == (5, 42)


def test_writing_offset_and_epoch_keeps_the_crc_valid():
    batch = bytearray(b"??") + a_batch()
    write_placement(batch, 2, base_offset=2**62, leader_epoch=7)
    header = read_header(batch, 2)
    assert (header.base_offset, header.partition_leader_epoch) == (2**62, 7)
    check_crc(batch, 2, header)


def test_log_append_time_applies_to_every_record_and_the_crc_is_updated():
    batch = a_batch(compression=CompressionType.ZSTD)
    write_log_append_time(batch, 0, 123)
    header = read_header(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 123
    assert header.compression_type is CompressionType.ZSTD
    assert {record.timestamp_ms for record in records_of(batch)} == {123}


def test_the_crc_is_crc32c_from_the_attributes_on():
    data = bytes(21) + b"123456789"
    assert compute_crc(data, 0, len(data)) == 0xE3069283


def test_the_layout_matches_kafka():
    batch = a_batch(1, base_offset=3, producer=(4, 5, 6))
    assert struct.unpack_from(">qi", batch) == (3, len(batch) - 12)
    assert batch[16] == 2
    assert struct.unpack_from(">qhi", batch, 43) == (4, 5, 6)
