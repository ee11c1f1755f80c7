from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record
from broker_core.metadata.metadata_records import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataTransactionRecord,
    OtherRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError

CODECS_ID = UUID("291e4921-5607-4044-97ce-45e464a231ba")

WRITTEN_BY_KAFKA_4_3 = [
    (
        "010c00116d657461646174612e76657273696f6e001e00",
        FeatureLevelRecord(name="metadata.version", feature_level=30),
    ),
    (
        "0104000401146d696e2e696e73796e632e7265706c69636173023100",
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
    ),
    ("01020007636f64656373291e49215607404497ce45e464a231ba00", TopicRecord(name="codecs", topic_id=CODECS_ID)),
    (
        "01030200000000291e49215607404497ce45e464a231ba0200000001020000000101010000000100000000000000000210789896e20a"
        "68c3a956c18fccde4d9600",
        PartitionRecord(
            partition_id=0,
            topic_id=CODECS_ID,
            replicas=(1,),
            isr=(1,),
            leader=1,
            directories=(UUID("10789896-e20a-68c3-a956-c18fccde4d96"),),
        ),
    ),
    (
        "010f0000000001000000000000000b00000000000003e800",
        ProducerIdsRecord(broker_id=1, broker_epoch=11, next_producer_id=1000),
    ),
    (
        "010b0004626f62010d73616c7473616c7473616c7421f4695af4c64263f1e68abd850edb59b206bded8ce10d6fdd8b8af9a1db8007fd"
        "21ef1ec68ad1add5f3f8fd010997d9bf074025de4bbfb9a818d835d310a0f864690000400000",
        UserScramCredentialRecord(
            name="bob",
            mechanism=1,
            salt=b"saltsaltsalt",
            stored_key=bytes.fromhex("f4695af4c64263f1e68abd850edb59b206bded8ce10d6fdd8b8af9a1db8007fd"),
            server_key=bytes.fromhex("ef1ec68ad1add5f3f8fd010997d9bf074025de4bbfb9a818d835d310a0f86469"),
            iterations=16384,
        ),
    ),
    ("01160004626f620100", RemoveUserScramCredentialRecord(name="bob", mechanism=1)),
    (
        "011200d0cb2b1624da477aa2063e1d9f427dca0202740309557365723a626f62022a0f0300",
        AccessControlEntryRecord(
            id=UUID("d0cb2b16-24da-477a-a206-3e1d9f427dca"),
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:bob",
            host="*",
            operation=15,
            permission_type=3,
        ),
    ),
    (
        "011300a4e61ff5b0ed4800be01fab4a1803a9900",
        RemoveAccessControlEntryRecord(id=UUID("a4e61ff5-b0ed-4800-be01-fab4a1803a99")),
    ),
    ("01180000", MetadataTransactionRecord(api_key=MetadataTransactionRecord.END)),
    ("01140000", OtherRecord(api_key=20, version=0, body=b"\0")),
]


@pytest.mark.parametrize(("written", "record"), WRITTEN_BY_KAFKA_4_3)
def test_kafkas_bytes_and_the_record_are_one_another(written, record):
    assert decode_metadata_record(bytes.fromhex(written)) == record
    assert encode_metadata_record(record) == bytes.fromhex(written)


def test_tagged_fields_of_a_known_record_are_skipped():
    begin = bytes.fromhex("01170001001212426f6f747374726170207265636f726473")
    assert decode_metadata_record(begin) == MetadataTransactionRecord(api_key=MetadataTransactionRecord.BEGIN)


def test_a_partition_of_an_older_kafka_has_no_directories():
    written = bytes.fromhex("01030000000000291e49215607404497ce45e464a231ba0200000001020000000101010000000100000000")
    record = decode_metadata_record(written + bytes(4) + b"\0")
    assert record.directories == ()
    assert record.leader == 1


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int8s = st.integers(-128, 127)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
ids = st.uuids().filter(lambda uuid: uuid.int != 0)
int_lists = st.lists(int32s, max_size=4).map(tuple)
records = st.one_of(
    st.builds(TopicRecord, name=texts, topic_id=ids),
    st.builds(
        PartitionRecord, partition_id=int32s, topic_id=ids, replicas=int_lists, isr=int_lists, leader=int32s,
        leader_epoch=int32s, partition_epoch=int32s, directories=st.lists(ids, max_size=3).map(tuple),
    ),
    st.builds(
        ConfigRecord, resource_type=st.integers(-128, 127), resource_name=texts, name=texts,
        value=st.none() | texts,
    ),
    st.builds(RemoveTopicRecord, topic_id=ids),
    st.builds(FeatureLevelRecord, name=texts, feature_level=st.integers(-(2**15), 2**15 - 1)),
    st.builds(
        UserScramCredentialRecord, name=texts, mechanism=int8s, salt=st.binary(max_size=20),
        stored_key=st.binary(max_size=64), server_key=st.binary(max_size=64), iterations=int32s,
    ),
    st.builds(RemoveUserScramCredentialRecord, name=texts, mechanism=int8s),
    st.builds(
        AccessControlEntryRecord, id=ids, resource_type=int8s, resource_name=texts, pattern_type=int8s,
        principal=texts, host=texts, operation=int8s, permission_type=int8s,
    ),
    st.builds(RemoveAccessControlEntryRecord, id=ids),
    st.builds(ProducerIdsRecord, broker_id=int32s, broker_epoch=int64s, next_producer_id=int64s),
)  # fmt: skip


@given(records)
def test_what_is_written_reads_back(record):
    assert decode_metadata_record(encode_metadata_record(record)) == record


@given(records, st.data())
def test_a_record_that_is_cut_off_is_corrupt(record, data):
    written = encode_metadata_record(record)
    cut = data.draw(st.integers(0, len(written) - 2))
    with pytest.raises(CorruptBatchError):
        decode_metadata_record(written[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_refused(garbage):
    try:
        decode_metadata_record(b"\x01" + garbage)
    except (CorruptBatchError, UnsupportedFormatError) as refusal:
        assert refusal.message


def test_an_array_that_claims_more_than_there_is_allocates_nothing():
    header = bytes.fromhex("010302" + "00000000" + "291e49215607404497ce45e464a231ba")
    with pytest.raises(CorruptBatchError, match="claims 268435454 items of 4 bytes"):
        decode_metadata_record(header + bytes.fromhex("ffffff7f"))


def test_a_known_record_in_a_newer_version_is_refused():
    with pytest.raises(UnsupportedFormatError, match="type 2 in version 1, known are 0 to 0"):
        decode_metadata_record(bytes.fromhex("010201"))


def test_another_frame_version_is_refused():
    with pytest.raises(UnsupportedFormatError, match="frame version 2"):
        decode_metadata_record(bytes.fromhex("02020000"))
