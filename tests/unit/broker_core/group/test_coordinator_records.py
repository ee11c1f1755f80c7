import pytest

from broker_core.group.consumer_group_records import ConsumerGroupRecord, ConsumerRecordType
from broker_core.group.coordinator_records import decode_coordinator_record, encode_coordinator_record
from broker_core.group.group_records import GroupMetadataRecord, OffsetCommitRecord
from broker_core.model.identifiers import TopicPartition


@pytest.mark.parametrize(
    "record",
    [
        OffsetCommitRecord(group_id="g", partition=TopicPartition("t", 1)),
        GroupMetadataRecord(group_id="g", value=b"members"),
        ConsumerGroupRecord(type=ConsumerRecordType.MEMBER, group_id="g", item="m"),
    ],
)
def test_every_record_type_round_trips(record):
    stored = encode_coordinator_record(record, timestamp_ms=5)
    assert stored.timestamp_ms == 5
    assert decode_coordinator_record(stored.key, stored.value) == record


def test_an_unknown_record_type_decodes_as_none():
    assert decode_coordinator_record(b"\x7f\xff", b"") is None
