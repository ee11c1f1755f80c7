"""`records.json`: records of `__consumer_offsets` of a Kafka 4.3.1 whose clients used group.protocol=consumer."""

import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.group.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupRecord,
    ConsumerRecordType,
    CurrentOfMember,
    MemberMetadata,
    StoredTopics,
    TargetEpoch,
)
from broker_core.group.consumer_record_codec import decode_consumer_group_record, encode_consumer_group_record
from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError

RECORDED = [
    (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    for key, value in json.loads(
        (Path(__file__).parents[3] / "golden" / "consumer_groups" / "records.json").read_text()
    )
]
TOPIC = UUID(int=7)


def encoded(record):
    stored = encode_consumer_group_record(record, timestamp_ms=0)
    return stored.key, stored.value


def test_records_that_kafka_wrote_round_trip_except_for_partition_order():
    kinds = set()
    for key, value in RECORDED:
        record = decode_consumer_group_record(key, value)
        kinds.add((record.type, record.value is None))
        again = encoded(record)
        assert again[0] == key
        assert decode_consumer_group_record(*again) == record
        assert sorted(again[1] or b"") == sorted(value or b"")
    assert {kind for kind, _ in kinds} == set(ConsumerRecordType) - {ConsumerRecordType.TOPICS}
    assert (ConsumerRecordType.MEMBER, True) in kinds


def test_keys_of_other_types_are_ignored():
    for kind in (0, 1, 2, 9, 10, 15, 17):
        assert decode_consumer_group_record(kind.to_bytes(2, "big") + b"\x00\x01g", b"\x00\x00") is None


def test_a_value_truncated_anywhere_is_corrupt():
    for key, value in RECORDED:
        for size in range(2, len(value or b"")):
            with pytest.raises(CorruptBatchError):
                decode_consumer_group_record(key, value[:size])


def test_a_value_of_a_newer_version_is_refused_by_name():
    key, value = next((key, value) for key, value in RECORDED if value)
    with pytest.raises(UnsupportedFormatError, match="newer"):
        decode_consumer_group_record(key, b"\x00\x01" + value[2:])


def test_assignments_written_before_kafka_4_3_use_the_member_epoch():
    key = encoded(ConsumerGroupRecord(type=ConsumerRecordType.CURRENT_OF_MEMBER, group_id="g", item="m"))[0]
    # epoch 5, epoch before 4, state 0; one topic with partitions 1 and 2 and no tagged field; nothing pending
    fields = "00000005 00000004 00 02" + TOPIC.hex + "03 00000001 00000002 00 01 00"
    value = b"\x00\x00" + bytes.fromhex(fields)
    assert decode_consumer_group_record(key, value).value.assigned == {TOPIC: {1: 5, 2: 5}}
    for_a_while = value.replace(bytes.fromhex("00000005"), bytes.fromhex("fffffffe"))
    assert decode_consumer_group_record(key, for_a_while).value.assigned == {TOPIC: {1: 0, 2: 0}}


def test_a_target_epoch_written_before_kafka_4_3_has_no_time():
    key = encoded(ConsumerGroupRecord(type=ConsumerRecordType.TARGET, group_id="g"))[0]
    found = decode_consumer_group_record(key, bytes.fromhex("0000 00000003 00"))
    assert found.value == TargetEpoch(epoch=3, computed_ms=0)


def test_topics_that_kafka_4_0_stored_are_read():
    key = encoded(ConsumerGroupRecord(type=ConsumerRecordType.TOPICS, group_id="g"))[0]
    assert decode_consumer_group_record(key, b"\x00\x00\x01\x00").value == StoredTopics(content=b"\x01\x00")
    assert decode_consumer_group_record(key, None).value is None


texts = st.text(max_size=5)
epochs = st.dictionaries(st.uuids(), st.dictionaries(st.integers(0, 9), st.integers(0, 99), max_size=3), max_size=3)


@given(
    st.builds(
        MemberMetadata,
        instance_id=st.none() | texts,
        rack_id=st.none() | texts,
        client_id=texts,
        topic_names=st.frozensets(texts, max_size=3),
        topic_regex=st.none() | texts,
        rebalance_timeout_ms=st.integers(-1, 2**31 - 1),
        server_assignor=st.none() | texts,
        classic=st.none()
        | st.builds(
            ClassicMemberMetadata,
            session_timeout_ms=st.integers(0, 99),
            protocols=st.lists(st.builds(ClassicProtocol, name=texts, metadata=st.binary(max_size=4)), max_size=2).map(
                tuple
            ),
        ),
    )
    | st.builds(
        CurrentOfMember,
        epoch=st.integers(-2, 9),
        previous_epoch=st.integers(-2, 9),
        state=st.integers(0, 127),
        assigned=epochs,
        pending_revocation=epochs,
    )
)
@examples(50)
def test_written_records_round_trip(value):
    kind = ConsumerRecordType.MEMBER if isinstance(value, MemberMetadata) else ConsumerRecordType.CURRENT_OF_MEMBER
    record = ConsumerGroupRecord(type=kind, group_id="g", item="m", value=value)
    assert decode_consumer_group_record(*encoded(record)) == record
