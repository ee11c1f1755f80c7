"""Records of `__transaction_state` <-> values. Formats: Kafka 4.3's TransactionLogKey and TransactionLogValue.

    key     int16 type 0, string transactional id
    value   int16 version
            int64 producer id, int16 producer epoch, int32 timeout ms, int8 state
            array of (string topic, array of int32 partitions), null for an id that is Empty
            int64 last update ms, int64 start ms (-1: nothing was ever open)
            version 1 is flexible and has tagged fields:
              0  int64 previous producer id        the one before this record
              1  int64 next producer id            set while a transaction ends with the last epoch
              2  int16 client transaction version  2 since each end bumps the epoch
              3  int16 next producer epoch         KIP-939
            a tagged field is left out at its default: -1, for the version 0

The newest record of a transactional id is its whole state; a null value forgets it. Version 1 is written, as
Kafka writes it with metadata.version 4.0 and newer; both are read. Bytes behind a known version's fields are ignored,
as Kafka ignores them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from kio.serial.readers import read_int32

from broker_core.coordinator.record_fields import (
    FieldReader,
    array_count_bytes,
    compact_string_bytes,
    string_bytes,
    tagged_fields_bytes,
)
from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.record.batch_reader import Record
from broker_core.txn.txn_states import NEVER_STORED

KEY_TYPE: Final = 0
VALUE_VERSION: Final = 1

_VERSION: Final = struct.Struct(">h")
_HEAD: Final = struct.Struct(">qhib")
_TIMES: Final = struct.Struct(">qq")
_PARTITION_BYTES: Final = 4
_TOPIC_BYTES: Final = 3
"""The smallest encoding: the length of a name, the count of partitions, the count of tagged fields."""
_TAGS: Final = (
    (0, struct.Struct(">q"), NO_PRODUCER_ID),
    (1, struct.Struct(">q"), NO_PRODUCER_ID),
    (2, struct.Struct(">h"), 0),
    (3, struct.Struct(">h"), NO_PRODUCER_EPOCH),
)
"""Tag, form, default; in the order in which `_tagged_numbers` gives the fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """The state of a transactional id. `partitions`: of the transaction that is open or being ended."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...] = ()
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    next_producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """`value` None: the id is forgotten, or, if it `is_unreadable`, in a state that only a newer version can read."""

    transactional_id: str
    value: TransactionValue | None = None
    is_unreadable: bool = False


def encode_transaction_record(record: TransactionRecord, *, timestamp_ms: int) -> Record:
    """The record of the log."""
    return Record(
        key=_VERSION.pack(KEY_TYPE) + string_bytes(record.transactional_id),
        value=None if record.value is None else _encode_value(record.value),
        timestamp_ms=timestamp_ms,
    )


def decode_transaction_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """The record with this key and value; None for an unknown key type, which Kafka skips too.

    Raises UnsupportedFormatError for a value in an unknown version, CorruptBatchError when the fields do not fit the
    bytes or name a state that no record can have.
    """
    reader = FieldReader(key, "key of a transaction record")
    if reader.take_version() != KEY_TYPE:
        return None
    transactional_id = reader.take_string(is_flexible=False)
    decoded = None if value is None else _decode_value(FieldReader(value, f"record of transaction {transactional_id}"))
    return TransactionRecord(transactional_id=transactional_id, value=decoded)


def decode_any_transaction_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """The same for a log in which one id must not be in the way of the others: a value in an unknown version is told of
    by the record."""
    try:
        return decode_transaction_record(key, value)
    except UnsupportedFormatError:
        reader = FieldReader(key, "key of a transaction record")
        reader.take_version()
        return TransactionRecord(transactional_id=reader.take_string(is_flexible=False), is_unreadable=True)


def _encode_value(value: TransactionValue) -> bytes:
    parts = [
        _VERSION.pack(VALUE_VERSION),
        _HEAD.pack(value.producer_id, value.producer_epoch, value.timeout_ms, value.state),
    ]
    if value.state is TransactionState.EMPTY:
        parts.append(array_count_bytes(None, is_flexible=True))
    else:
        parts.append(_encode_partitions(value.partitions))
    parts.append(_TIMES.pack(value.last_update_ms, value.start_ms))
    tagged = {
        tag: form.pack(number)
        for (tag, form, default), number in zip(_TAGS, _tagged_numbers(value), strict=True)
        if number != default
    }
    parts.append(tagged_fields_bytes(tagged))
    return b"".join(parts)


def _tagged_numbers(value: TransactionValue) -> tuple[int, int, int, int]:
    return value.previous_producer_id, value.next_producer_id, value.client_version, value.next_producer_epoch


def _encode_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    parts = [array_count_bytes(len(by_topic), is_flexible=True)]
    for topic, numbers in by_topic.items():
        parts += [
            compact_string_bytes(topic),
            array_count_bytes(len(numbers), is_flexible=True),
            struct.pack(f">{len(numbers)}i", *numbers),
            tagged_fields_bytes({}),
        ]
    return b"".join(parts)


def _decode_value(reader: FieldReader) -> TransactionValue:
    version = reader.take_version()
    if version not in (0, VALUE_VERSION):
        raise UnsupportedFormatError(
            f"transaction record has version {version}, supported are 0 and {VALUE_VERSION}: a newer version wrote it"
        )
    is_flexible = version >= 1
    producer_id, producer_epoch, timeout_ms, number = reader.take_fixed(_HEAD)
    state = _stored_state(reader, number)
    partitions = _decode_partitions(reader, is_flexible=is_flexible)
    last_update_ms, start_ms = reader.take_fixed(_TIMES)
    fields = reader.take_tagged_fields() if is_flexible else {}
    previous_id, next_id, client_version, next_epoch = (
        FieldReader(fields[tag], f"tagged field {tag}").take_fixed(form)[0] if tag in fields else default
        for tag, form, default in _TAGS
    )
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        previous_producer_id=previous_id,
        next_producer_id=next_id,
        client_version=client_version,
        next_producer_epoch=next_epoch,
    )


def _stored_state(reader: FieldReader, number: int) -> TransactionState:
    try:
        state = TransactionState(number)
    except ValueError:
        raise reader.corrupt(f"has the unknown state {number}") from None
    if state in NEVER_STORED:
        raise reader.corrupt(f"has the state {state.label}, which is never stored")
    return state


def _decode_partitions(reader: FieldReader, *, is_flexible: bool) -> tuple[TopicPartition, ...]:
    found: list[TopicPartition] = []
    for _ in range(reader.take_count(is_flexible=is_flexible, item_bytes=_TOPIC_BYTES) or 0):
        topic = reader.take_string(is_flexible=is_flexible)
        count = reader.take_count(is_flexible=is_flexible, item_bytes=_PARTITION_BYTES) or 0
        found += [TopicPartition(topic, reader.take(read_int32)) for _ in range(count)]
        if is_flexible:
            reader.take_tagged_fields()
    return tuple(found)
