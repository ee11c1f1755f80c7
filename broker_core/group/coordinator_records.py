"""All record types of `__consumer_offsets`: offsets, classic groups, groups of KIP-848, and those of foreign groups."""

from __future__ import annotations

from broker_core.group.consumer_group_records import ConsumerGroupRecord
from broker_core.group.consumer_record_codec import decode_consumer_group_record, encode_consumer_group_record
from broker_core.group.foreign_groups import ForeignRecord, decode_foreign_record, newer_record
from broker_core.group.group_records import GroupRecord, decode_group_record, encode_group_record
from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.record.batch_reader import Record

AnyGroupRecord = GroupRecord | ConsumerGroupRecord | ForeignRecord


def encode_coordinator_record(record: AnyGroupRecord, *, timestamp_ms: int) -> Record:
    """The record of the log. Nothing is written for foreign groups."""
    assert not isinstance(record, ForeignRecord), record
    if isinstance(record, ConsumerGroupRecord):
        return encode_consumer_group_record(record, timestamp_ms=timestamp_ms)
    return encode_group_record(record, timestamp_ms=timestamp_ms)


def decode_coordinator_record(key: bytes, value: bytes | None) -> AnyGroupRecord | None:
    """None for an unknown type. Raises CorruptBatchError."""
    try:
        known = decode_group_record(key, value) or decode_consumer_group_record(key, value)
    except UnsupportedFormatError:
        return newer_record(key)
    return known or decode_foreign_record(key, value)
