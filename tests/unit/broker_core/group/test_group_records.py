from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.group.group_records import (
    GroupMetadataRecord,
    OffsetCommitRecord,
    OffsetCommitValue,
    decode_group_record,
    encode_group_record,
)
from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError
from broker_core.model.identifiers import TopicPartition

# Key, value and what they say: records of a real Kafka 4.3.1's `__consumer_offsets`. A commit in a transaction has no
# topic id; an id and a leader epoch come from a consumer's own commit.
WRITTEN_BY_KAFKA_4_3_1 = [
    (
        "0001000c676f6c64656e2d67726f757000056b6579656400000000",
        "00040000000000000003ffffffff066e6f746500000001a21f58dd8c01001015c28128707d48349a2069493240224e",
        OffsetCommitRecord(
            group_id="golden-group",
            partition=TopicPartition("keyed", 0),
            value=OffsetCommitValue(
                offset=3, metadata="note\0", commit_time_ms=0x1A21F58DD8C,
                topic_id=UUID("15c28128-707d-4834-9a20-69493240224e"),
            ),
        ),
    ),
    (
        "0001000874782d67726f757000066f726465727300000001",
        "0004000000000000000700000003066ec3b67465000001a2204848b100",
        OffsetCommitRecord(
            group_id="tx-group",
            partition=TopicPartition("orders", 1),
            value=OffsetCommitValue(offset=7, leader_epoch=3, metadata="nöte", commit_time_ms=1_795_837_937_841),
        ),
    ),
    (
        "0001000f6d656d626572732d636c617373696300066f726465727300000001",
        "000400000000000000080000000001000001a220485ab2010010b95a7b22542347fe9b73e6bc51976147",
        OffsetCommitRecord(
            group_id="members-classic",
            partition=TopicPartition("orders", 1),
            value=OffsetCommitValue(
                offset=8, leader_epoch=0, commit_time_ms=1_795_837_942_450,
                topic_id=UUID("b95a7b22-5423-47fe-9b73-e6bc51976147"),
            ),
        ),
    ),
    (
        "0001000b706c61696e2d67726f757000066f726465727300000002",
        None,
        OffsetCommitRecord(group_id="plain-group", partition=TopicPartition("orders", 2)),
    ),
    (
        "0002000f6d656d626572732d636c6173736963",
        "0003000000000000ffffffff000001a220485a3000000000",
        GroupMetadataRecord(
            group_id="members-classic",
            value=bytes.fromhex("0003000000000000ffffffff000001a220485a3000000000"),
        ),
    ),
    ("0002000b706c61696e2d67726f7570", None, GroupMetadataRecord(group_id="plain-group")),
]  # fmt: skip

MEMBER_OF_A_CONSUMER_GROUP = (
    "000500106d656d626572732d636f6e73756d65720016677071424e54534a514e534165664778546239397051",
    "000000001c636f6e73756d65722d6d656d626572732d636f6e73756d65722d330b2f3132372e302e302e3102076f726465727301000493e0"
    "0001000100",
)
"""Key and value of the same Kafka, for a member of a group of the newer protocol."""

KEY = bytes.fromhex("0001" "0001" "67" "0001" "74" "00000000")  # fmt: skip
"""Group g, t-0."""


@pytest.mark.parametrize(("key", "value", "record"), WRITTEN_BY_KAFKA_4_3_1)
def test_records_that_kafka_wrote_round_trip(key, value, record):
    value_bytes = None if value is None else bytes.fromhex(value)
    assert decode_group_record(bytes.fromhex(key), value_bytes) == record
    stored = encode_group_record(record, timestamp_ms=17)
    assert (stored.key.hex(), stored.value, stored.timestamp_ms) == (key, value_bytes, 17)


def test_records_of_other_types_are_skipped():
    key, value = (bytes.fromhex(written) for written in MEMBER_OF_A_CONSUMER_GROUP)
    assert decode_group_record(key, value) is None
    assert decode_group_record(bytes.fromhex("7fff" "00"), b"") is None  # fmt: skip


@pytest.mark.parametrize("key_type", ["0000", "0001"])
@pytest.mark.parametrize(
    ("written", "leader_epoch"),
    [
        ("0000" "000000000000002a" "0001" "6d" "00000000000003e8", -1),
        ("0001" "000000000000002a" "0001" "6d" "00000000000003e8" "00000000000007d0", -1),
        ("0002" "000000000000002a" "0001" "6d" "00000000000003e8", -1),
        ("0003" "000000000000002a" "00000009" "0001" "6d" "00000000000003e8", 9),
        ("0004" "000000000000002a" "00000009" "02" "6d" "00000000000003e8" "00", 9),
    ],
)  # fmt: skip
def test_every_version_of_a_committed_offset_is_read(written, leader_epoch, key_type):
    """By the schema: an expire time only in version 1, a leader epoch from 3 on, compact and tagged from 4 on."""
    key = bytes.fromhex(key_type) + KEY[2:]
    assert decode_group_record(key, bytes.fromhex(written)) == OffsetCommitRecord(
        group_id="g",
        partition=TopicPartition("t", 0),
        value=OffsetCommitValue(offset=42, leader_epoch=leader_epoch, metadata="m", commit_time_ms=1000),
    )


int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
offset_commits = st.builds(
    OffsetCommitRecord,
    group_id=texts,
    partition=st.builds(TopicPartition, texts, int32s),
    value=st.none()
    | st.builds(
        OffsetCommitValue, offset=int64s, leader_epoch=int32s, metadata=texts, commit_time_ms=int64s,
        topic_id=st.none() | st.uuids().filter(lambda uuid: uuid.int != 0),
    ),
)  # fmt: skip
records = offset_commits | st.builds(GroupMetadataRecord, group_id=texts, value=st.none() | st.binary(max_size=20))


@given(records)
def test_written_records_round_trip(record):
    stored = encode_group_record(record, timestamp_ms=0)
    assert decode_group_record(stored.key, stored.value) == record


@given(offset_commits, st.data())
def test_a_truncated_record_is_corrupt(record, data):
    stored = encode_group_record(record, timestamp_ms=0)
    key_cut = data.draw(st.integers(0, len(stored.key) - 1))
    with pytest.raises(CorruptBatchError):
        decode_group_record(stored.key[:key_cut], stored.value)
    if stored.value is not None:
        value_cut = data.draw(st.integers(0, len(stored.value) - 1))
        with pytest.raises(CorruptBatchError, match="committed offset of group"):
            decode_group_record(stored.key, stored.value[:value_cut])


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(key, value):
    for prefix in (b"", b"\0\1", b"\0\4"):
        try:
            decode_group_record(prefix + key, prefix + value)
            decode_group_record(KEY, prefix + value)
        except (CorruptBatchError, UnsupportedFormatError) as refusal:
            assert refusal.message


def test_a_value_of_a_newer_version_is_refused():
    with pytest.raises(UnsupportedFormatError, match="version 5, supported are 0 to 4: a newer version wrote it"):
        decode_group_record(KEY, b"\0\5")


def test_the_zero_topic_id_is_none():
    value = "0004" "000000000000002a" "00000009" "01" "00000000000003e8" "010010" + "00" * 16  # fmt: skip
    assert decode_group_record(KEY, bytes.fromhex(value)).value.topic_id is None
