from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.log import batch_validation
from broker_core.log.batch_validation import validate_batches
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    ProducerFencedError,
    RecordTooLargeError,
    StreamlogError,
    UnsupportedFormatError,
)
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_header import read_header, write_crc, write_timestamps
from broker_core.record.batch_reader import Record, check_crc, iter_headers, records_of
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker

NOW_MS = 1_700_000_000_000
LOG_APPEND = {"message_timestamp_type": TimestampType.LOG_APPEND_TIME}


def records(count: int = 3, *, timestamp_ms: int = NOW_MS, key: bytes | None = b"k", value: bytes = b"value"):
    return [Record(key=key, value=value, timestamp_ms=timestamp_ms + i) for i in range(count)]


def validate(batches: bytearray, *, origin=AppendOrigin.CLIENT, **settings):
    return validate_batches(batches, config=TopicConfig(**settings), now_ms=NOW_MS, name="t-0", origin=origin)


def outcome(batch, *, config, header=None):
    """What comes of an append of one batch: the bytes and what is said of them, or the refusal."""
    batches = bytearray(batch)
    try:
        found = validate_batches(batches, config=config, now_ms=NOW_MS, name="t-0", header=header)
    except StreamlogError as refusal:
        return type(refusal), refusal.message
    return bytes(found.buffer), found.positions, found.headers, found.markers, found.log_append_time_ms


def a_marker_batch() -> bytearray:
    return build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=3), producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS
    )


@pytest.mark.parametrize("codec", list(CompressionType))
def test_valid_batches_are_not_changed(codec):
    batches = build_batch(records(), compression=codec) + build_batch(records(1), compression=codec)
    before = bytes(batches)
    validated = validate(batches)
    assert validated.buffer is batches and bytes(batches) == before
    assert [header.record_count for header in validated.headers] == [3, 1]
    assert validated.positions[0] == 0 and validated.positions[1] == validated.headers[0].size_bytes
    assert validated.markers == (None, None)
    assert validated.log_append_time_ms == -1


def test_an_append_without_batches_is_refused():
    with pytest.raises(InvalidRecordError, match="holds no batch"):
        validate(bytearray())


def test_truncated_batches_and_trailing_bytes_are_refused():
    batch = build_batch(records())
    for batches in (batch[:-1], batch + b"\0", batch + batch[:70]):
        with pytest.raises(CorruptBatchError, match="follow the last whole batch"):
            validate(bytearray(batches))


def test_a_flipped_bit_is_refused():
    batch = build_batch(records())
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        validate(batch)


def test_an_old_message_format_is_refused():
    batch = build_batch(records())
    batch[16] = 1
    with pytest.raises(UnsupportedFormatError):
        validate(batch)


def test_a_record_count_that_does_not_match_is_refused():
    for position, value in ((57, 2), (57, 0), (23, 3)):
        batch = build_batch(records())
        batch[position : position + 4] = value.to_bytes(4, "big")
        write_crc(batch, 0)
        with pytest.raises((InvalidRecordError, CorruptBatchError)):
            validate(batch)


def test_gaps_between_offsets_are_refused():
    sparse = [Record(key=b"k", timestamp_ms=NOW_MS, offset=offset) for offset in (0, 2)]
    with pytest.raises(InvalidRecordError):
        validate(build_batch(sparse))


def test_invalid_content_with_a_valid_checksum_is_refused():
    batch = build_batch(records())
    batch[61] ^= 0x20
    write_crc(batch, 0)
    with pytest.raises(InvalidRecordError):
        validate(batch)


def test_a_batch_above_max_message_bytes_is_refused_before_its_checksum_like_in_kafka():
    batch = build_batch(records())
    batch[17] ^= 1
    with pytest.raises(RecordTooLargeError):
        validate(batch, max_message_bytes=len(batch) - 1)


def test_the_error_names_max_message_bytes():
    batch = build_batch(records())
    assert validate(bytearray(batch), max_message_bytes=len(batch))
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
        validate(batch, max_message_bytes=len(batch) - 1)


def test_max_message_bytes_bounds_each_batch_not_the_append():
    batch = build_batch(records())
    assert len(validate(batch + batch, max_message_bytes=len(batch)).headers) == 2


# -- timestamps --


def test_timestamps_may_be_at_most_an_hour_ahead():
    hour_ms = 3_600_000
    validate(build_batch(records(1, timestamp_ms=NOW_MS + hour_ms)))
    with pytest.raises(InvalidTimestampError, match=r"after\.max\.ms"):
        validate(build_batch(records(1, timestamp_ms=NOW_MS + hour_ms + 1)))


def test_old_timestamps_are_accepted_unless_the_topic_bounds_them():
    old = build_batch([*records(1), *records(1, timestamp_ms=NOW_MS - 1_001)])
    validate(bytearray(old))
    validate(bytearray(old), message_timestamp_before_max_ms=1_001)
    with pytest.raises(InvalidTimestampError, match=r"before\.max\.ms"):
        validate(old, message_timestamp_before_max_ms=1_000)


@pytest.mark.parametrize("timestamp_ms", [2**62, -(2**62)])
def test_a_timestamp_that_readers_cannot_represent_is_refused(timestamp_ms):
    forever = 2**63 - 1
    for before_ms in (forever, forever - 1):
        with pytest.raises(InvalidTimestampError, match="microseconds"):
            validate(
                build_batch(records(1, timestamp_ms=timestamp_ms)),
                message_timestamp_after_max_ms=forever,
                message_timestamp_before_max_ms=before_ms,
            )


def test_a_record_without_timestamp_is_not_old():
    batch = build_batch([*records(1), *records(1, timestamp_ms=-1)])
    validate(batch, message_timestamp_before_max_ms=1_000)


def test_a_wrong_max_timestamp_of_the_producer_is_corrected():
    batch = build_batch(records(3))
    write_timestamps(batch, 0, timestamp_type=TimestampType.CREATE_TIME, max_timestamp_ms=-1)
    (header,) = validate(batch).headers
    assert header.max_timestamp == NOW_MS + 2
    check_crc(batch, 0, read_header(batch))


def test_a_producer_may_not_claim_log_append_time_on_a_topic_with_log_append_time():
    batch = build_batch(records(), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW_MS)
    with pytest.raises(InvalidTimestampError):
        validate(bytearray(batch), **LOG_APPEND)


def test_with_create_time_a_claimed_log_append_time_is_cleared():
    """As Kafka 4.3 does it."""
    batch = build_batch(records(), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW_MS)
    assert validate(bytearray(batch)).headers[0].timestamp_type is TimestampType.CREATE_TIME


def test_a_negative_epoch_of_a_producer_is_refused():
    with pytest.raises(ProducerFencedError):
        validate(build_batch(records(), producer_id=5, producer_epoch=-2, base_sequence=0))


def test_log_append_time_is_written_in_place():
    batch = build_batch(records(timestamp_ms=5))
    validated = validate(batch, **LOG_APPEND)
    assert validated.log_append_time_ms == NOW_MS
    assert validated.headers[0].timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in records_of(batch)] == [NOW_MS] * 3


def test_with_log_append_time_create_times_are_not_checked():
    validate(build_batch(records(timestamp_ms=NOW_MS + 10**10)), message_timestamp_before_max_ms=0, **LOG_APPEND)


# -- what a topic wants --


def test_a_compacted_topic_refuses_null_keys_and_accepts_empty_keys():
    compacted = {"cleanup_policy": frozenset({"compact"})}
    validate(build_batch(records(key=b"")), **compacted)
    with pytest.raises(InvalidRecordError, match="cannot accept message without key"):
        validate(build_batch([*records(), *records(1, key=None)]), **compacted)


@pytest.mark.parametrize("asked", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", list(CompressionType))
def test_batches_are_recompressed_with_the_topics_codec(asked, sent):
    batches = build_batch(records(), compression=sent, producer_id=7, producer_epoch=0, base_sequence=5)
    validated = validate(batches + batches, compression_type=asked)
    codec = CompressionType.NONE if asked == "uncompressed" else CompressionType[asked.upper()]
    for position, header in iter_headers(validated.buffer):
        assert header.compression_type is codec
        assert (header.producer_id, header.base_sequence, header.record_count) == (7, 5, 3)
        assert [r.value for r in records_of(validated.buffer, position)] == [b"value"] * 3
    assert len(validated.headers) == 2
    assert validated.positions[1] == validated.headers[0].size_bytes


def test_recompression_may_make_a_batch_too_large():
    batch = build_batch(records(value=bytes(10_000)), compression=CompressionType.ZSTD)
    with pytest.raises(RecordTooLargeError):
        validate(batch, compression_type="uncompressed", max_message_bytes=1_000)


# -- who asks --


def test_clients_may_not_write_control_batches():
    with pytest.raises(InvalidRecordError, match="control"):
        validate(a_marker_batch())


def test_a_coordinators_marker_is_accepted():
    validated = validate(a_marker_batch(), origin=AppendOrigin.COORDINATOR, compression_type="zstd")
    assert validated.markers == (EndTransactionMarker(is_commit=False, coordinator_epoch=3),)
    assert validated.headers[0].compression_type is CompressionType.NONE


def test_a_producer_without_sequence_or_a_transaction_without_producer_is_refused():
    with pytest.raises(InvalidRecordError, match="sequence"):
        validate(build_batch(records(), producer_id=7, producer_epoch=0))
    with pytest.raises(InvalidRecordError, match="has no producer id"):
        validate(build_batch(records(), is_transactional=True))


def test_batches_of_several_producers_are_refused():
    one = build_batch(records(), producer_id=7, producer_epoch=0, base_sequence=0)
    other = build_batch(records(), producer_id=8, producer_epoch=0, base_sequence=0)
    with pytest.raises(InvalidRecordError, match="several producers"):
        validate(one + other)


def test_replicated_batches_are_checked_for_corruption_only():
    sparse = build_batch([Record(value=b"v", timestamp_ms=5, offset=offset) for offset in (10, 12)], base_offset=10)
    before = bytes(sparse)
    validated = validate(
        sparse, origin=AppendOrigin.REPLICATION, compression_type="zstd", max_message_bytes=10, **LOG_APPEND
    )
    assert bytes(validated.buffer) == before
    sparse[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        validate(sparse, origin=AppendOrigin.REPLICATION)


def test_a_marker_is_exempt_from_max_message_bytes():
    validate(a_marker_batch(), origin=AppendOrigin.COORDINATOR, max_message_bytes=10)
    with pytest.raises(RecordTooLargeError):
        validate(build_batch(records()), origin=AppendOrigin.COORDINATOR, max_message_bytes=10)


odd_timestamps = st.sampled_from([-1, 0, NOW_MS, NOW_MS + 3_600_000, NOW_MS + 3_600_001, 2**62, -2, -(2**62)])


@examples(400)
@given(
    batch=st.builds(
        build_batch,
        st.lists(
            st.builds(Record, key=st.none() | st.binary(max_size=3), value=st.just(b"v"), timestamp_ms=odd_timestamps),
            min_size=1,
            max_size=3,
        ),
        compression=st.sampled_from([CompressionType.NONE, CompressionType.GZIP]),
        timestamp_type=st.sampled_from(TimestampType),
        producer_id=st.sampled_from([-1, 7]),
        producer_epoch=st.sampled_from([-1, 0]),
        base_sequence=st.sampled_from([-1, 5]),
        is_transactional=st.booleans(),
    ),
    changed=st.sampled_from([None, ("max_timestamp", 35), ("last_delta", 26), ("count", 60), ("crc", 17), ("key", 66)]),
    config=st.builds(
        TopicConfig,
        cleanup_policy=st.sampled_from([frozenset({"delete"}), frozenset({"compact"})]),
        compression_type=st.sampled_from(["producer", "uncompressed", "gzip"]),
        max_message_bytes=st.sampled_from([50, 1_048_588]),
        message_timestamp_type=st.sampled_from(TimestampType),
        message_timestamp_before_max_ms=st.sampled_from([1_000, 2**63 - 1]),
    ),
)
def test_the_fast_path_for_plain_batches_matches_the_full_validation(batch, changed, config):
    if changed is not None:
        what, place = changed
        batch[place] ^= 1
        if what != "crc":
            write_crc(batch, 0)
    try:
        header = read_header(batch)
    except StreamlogError:
        return
    with patch.object(batch_validation, "_is_plain", lambda *_: False):
        expected = outcome(batch, config=config)
    assert outcome(batch, config=config) == expected
    assert outcome(batch, config=config, header=header) == expected


def test_a_plain_batch_takes_the_fast_path(monkeypatch):
    def too_far(*_, **__):
        raise AssertionError("it was looked at step by step")

    monkeypatch.setattr(batch_validation, "inspect_records", too_far)
    batch = build_batch(records())
    assert validate(batch).headers == (read_header(batch),)
    with pytest.raises(AssertionError, match="step by step"):
        validate(batch + build_batch(records()))
