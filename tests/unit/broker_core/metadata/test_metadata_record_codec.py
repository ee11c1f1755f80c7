from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.coordinator.record_fields import unsigned_varint
from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record
from broker_core.metadata.metadata_records import (
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from broker_core.metadata.metadata_schemas import RECORD_TYPES, SCHEMAS
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
            leader_epoch=0,
            partition_epoch=0,
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
    ("01180000", EndTransactionRecord()),
    ("01140000", NoOpRecord()),
]


@pytest.mark.parametrize(("written", "record"), WRITTEN_BY_KAFKA_4_3)
def test_records_that_kafka_wrote_round_trip(written, record):
    assert decode_metadata_record(bytes.fromhex(written)) == record
    assert encode_metadata_record(record) == bytes.fromhex(written)


def test_a_tagged_field_is_read_and_written_back():
    begin = bytes.fromhex("01170001001212426f6f747374726170207265636f726473")
    assert decode_metadata_record(begin) == BeginTransactionRecord(name="Bootstrap records")
    assert encode_metadata_record(decode_metadata_record(begin)) == begin


def test_a_partition_of_an_older_kafka_has_no_directories():
    written = bytes.fromhex("01030000000000291e49215607404497ce45e464a231ba0200000001020000000101010000000100000000")
    record = decode_metadata_record(written + bytes(4) + b"\0")
    assert record.directories == ()
    assert record.leader == 1


def values_of(field, version):
    kinds = {
        "int8": st.integers(-(2**7), 2**7 - 1), "int16": st.integers(-(2**15), 2**15 - 1),
        "uint16": st.integers(0, 2**16 - 1), "int32": st.integers(-(2**31), 2**31 - 1),
        "int64": st.integers(-(2**63), 2**63 - 1), "bool": st.booleans(), "float64": st.floats(allow_nan=False),
        "uuid": st.uuids(), "bytes": st.binary(max_size=40),
        "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    }  # fmt: skip
    one = structs(field.kind, version) if isinstance(field.kind, type) else kinds[field.kind]
    found = st.lists(one, max_size=4).map(tuple) if field.is_array else one
    return st.none() | found if field.is_nullable else found


def structs(kind, version):
    fields = [field for field in SCHEMAS[kind].fields if field.since <= version]
    unknown = st.dictionaries(st.integers(20, 200), st.binary(max_size=9), max_size=2)
    return st.builds(
        kind,
        **{field.name: values_of(field, version) for field in fields},
        **({"version": st.just(version)} if hasattr(kind, "api_key") else {}),
        unknown_fields=unknown.map(lambda fields: tuple(sorted(fields.items()))),
    )


records = st.sampled_from([(kind, v) for kind in RECORD_TYPES for v in SCHEMAS[kind].versions]).flatmap(
    lambda chosen: structs(*chosen)
)


@examples(40)
@given(records)
def test_written_records_round_trip(record):
    assert decode_metadata_record(encode_metadata_record(record)) == record


@examples(40)
@given(records, st.data())
def test_a_truncated_record_is_corrupt(record, data):
    written = encode_metadata_record(record)
    cut = data.draw(st.integers(0, len(written) - 2))
    with pytest.raises(CorruptBatchError):
        decode_metadata_record(written[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(garbage):
    try:
        decode_metadata_record(b"\x01" + garbage)
    except (CorruptBatchError, UnsupportedFormatError) as refusal:
        assert refusal.message


def test_an_array_count_beyond_the_bytes_allocates_nothing():
    header = bytes.fromhex("010302" + "00000000" + "291e49215607404497ce45e464a231ba")
    with pytest.raises(CorruptBatchError, match="claims 268435454 items of 4 bytes or more"):
        decode_metadata_record(header + bytes.fromhex("ffffff7f"))


def test_a_known_record_in_a_newer_version_is_refused():
    with pytest.raises(UnsupportedFormatError, match="TopicRecord has version 1, supported are 0 to 0"):
        decode_metadata_record(bytes.fromhex("010201"))


def test_another_frame_version_is_refused():
    with pytest.raises(UnsupportedFormatError, match="frame version 2"):
        decode_metadata_record(bytes.fromhex("02020000"))


@pytest.mark.parametrize("api_key", [6, 13, 16, 29, 1000])
def test_a_record_of_an_unknown_type_is_refused_by_its_number(api_key):
    with pytest.raises(UnsupportedFormatError, match=f"type {api_key} is not supported"):
        decode_metadata_record(b"\x01" + unsigned_varint(api_key) + b"\0\0")


def test_bytes_behind_the_last_field_are_not_dropped():
    with pytest.raises(CorruptBatchError, match="1 bytes are left behind the last field"):
        decode_metadata_record(bytes.fromhex("0114000000"))


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ("02" + "0305" + "0304", "tagged field 3 behind 3"),
        ("01" + "03ff7f", "claims a tagged field 3 of 16383 bytes"),
        ("01" + "0002" + "0041", "of which 1 are read"),
    ],
)
def test_tagged_fields_that_do_not_fit_are_corrupt(fields, refusal):
    body = fields if fields.startswith("01") else "02" + "030105" + "030104"
    with pytest.raises(CorruptBatchError, match=refusal):
        decode_metadata_record(bytes.fromhex("011700" + body))


def test_a_null_where_none_may_be_is_corrupt():
    with pytest.raises(CorruptBatchError, match="has a null where none may be"):
        decode_metadata_record(bytes.fromhex("010200" + "00" + "00" * 17))


def test_a_null_list_and_an_empty_one_are_different_values():
    topic_id = UUID(int=9)
    empty = PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=())
    unchanged = PartitionChangeRecord(partition_id=0, topic_id=topic_id)
    assert encode_metadata_record(empty) != encode_metadata_record(unchanged)
    assert decode_metadata_record(encode_metadata_record(empty)).isr == ()
    assert decode_metadata_record(encode_metadata_record(unchanged)).isr is None
