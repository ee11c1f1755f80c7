"""The records of a produce request, judged as a Kafka 4.3 broker does: in its order, with its answers.

request     the first batch of each partition, in the order of the request, until one is transactional: a length or a
            magic that none can have refuses all partitions, good ones too, before anything else is looked at
partition   one batch of format 2 that is whole, and no other behind it; what follows and is not whole is passed over
batch       the header; what is unknown in it is refused behind what is wrong with its place, its size, and its CRC

Where Kafka fails with an exception of Java's own it answers UNKNOWN_SERVER_ERROR: for a length that overflows an int32
and, before version 7, for an unknown codec, of all partitions; for an unknown codec from then on, of its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.partition.replica import Replica
from broker_core.model.identifiers import CompressionType
from broker_core.record.batch_header import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CRC_POSITION,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_POSITION,
    LEAST_LEGACY_LENGTH,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_POSITION,
    MAX_CODEC,
    RECORD_COUNT_POSITION,
    TRANSACTIONAL_BIT,
    BatchHeader,
    compute_crc,
    read_header,
)

_FIRST_VERSION_WITH_ZSTD: Final = 7
_FLAGS_POSITION: Final = ATTRIBUTES_POSITION + 1
_SIGN_BIT: Final = 0x80
_MOST_LENGTH: Final = 2**31 - 1 - LENGTH_PREFIX_BYTES
NO_OFFSET: Final = -1


class Refused(Exception):
    """What is answered for a partition; `is_of_all`: for every one of the request."""

    def __init__(
        self,
        error_code: ErrorCode,
        message: str | None = None,
        *,
        log_start_offset: int = NO_OFFSET,
        is_of_all: bool = False,
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
        self.log_start_offset = log_start_offset
        self.is_of_all = is_of_all


def refusal_of_all(topic_data: Sequence[Any], may_write_transaction: Callable[[], bool]) -> Refused | None:
    """What Kafka finds before it looks at topics and partitions; None: each of them is answered for itself."""
    for topic in topic_data:
        for partition in topic.partition_data:
            try:
                batch = None if partition.records is None else _batch_at(partition.records, 0)
            except Refused as refused:
                return refused
            if batch is not None and batch[MAGIC_POSITION] == MAGIC and batch[_FLAGS_POSITION] & TRANSACTIONAL_BIT:
                is_allowed = may_write_transaction()
                return None if is_allowed else Refused(ErrorCode.transactional_id_authorization_failed)
    return None


def only_batch(records: memoryview | None, version: int, replica: Replica) -> BatchHeader:
    """The header of what a request of this version holds for a partition. Raises Refused, CorruptBatchError."""
    if records and _is_one_batch(records) and version >= _FIRST_VERSION_WITH_ZSTD:
        return read_header(records)
    batch = require_one_batch(records, version)
    codec = batch[_FLAGS_POSITION] & COMPRESSION_MASK
    if len(batch) >= HEADER_BYTES and (codec > MAX_CODEC or _has_negative_count(batch)):
        raise _refusal_of_unreadable(batch, codec, replica)
    return read_header(batch)


def require_one_batch(records: memoryview | None, version: int) -> memoryview:
    """The only batch of format 2 in what a request of this version holds for a partition. Raises Refused."""
    asked = f"Produce requests with version {version}"
    if not records:
        raise Refused(ErrorCode.invalid_record, f"{asked} must have at least one record batch per partition")
    batch = _batch_at(records, 0)
    if batch is None:
        raise Refused(ErrorCode.invalid_record, f"{len(records)} bytes hold no whole record batch")
    if batch[MAGIC_POSITION] != MAGIC:
        raise Refused(ErrorCode.invalid_record, f"{asked} are only allowed to contain record batches with magic 2")
    codec = batch[_FLAGS_POSITION] & COMPRESSION_MASK
    if version < _FIRST_VERSION_WITH_ZSTD and codec > MAX_CODEC:
        raise Refused(ErrorCode.unknown_server_error, _unknown_codec(codec), is_of_all=True)
    if version < _FIRST_VERSION_WITH_ZSTD and codec == CompressionType.ZSTD:
        raise Refused(ErrorCode.unsupported_compression_type, f"{asked} are not allowed to use ZStandard compression")
    if _batch_at(records, len(batch)) is not None:
        raise Refused(
            ErrorCode.invalid_record, f"{asked} are only allowed to contain exactly one record batch per partition"
        )
    return batch


def _is_one_batch(records: memoryview) -> bool:
    """What nearly every request holds, and nothing that needs a second look."""
    return (
        len(records) >= HEADER_BYTES
        and records[MAGIC_POSITION] == MAGIC
        and _batch_length(records, 0) + LENGTH_PREFIX_BYTES == len(records)
        and records[_FLAGS_POSITION] & COMPRESSION_MASK <= MAX_CODEC
        and not (records[LAST_OFFSET_DELTA_POSITION] | records[RECORD_COUNT_POSITION]) & _SIGN_BIT
    )


def _batch_at(records: memoryview, position: int) -> memoryview | None:
    """The batch there; None: none that is whole. Raises Refused for what none can begin with."""
    left = len(records) - position
    if left < LENGTH_PREFIX_BYTES:
        return None
    batch_length = _batch_length(records, position)
    if batch_length < LEAST_LEGACY_LENGTH:
        raise Refused(
            ErrorCode.corrupt_message,
            f"Record size {batch_length} is less than the minimum record overhead ({LEAST_LEGACY_LENGTH})",
        )
    if left <= MAGIC_POSITION:
        return None
    magic = records[position + MAGIC_POSITION]
    if magic > MAGIC:
        raise Refused(ErrorCode.corrupt_message, f"Invalid magic found in record: {magic}")
    if batch_length > _MOST_LENGTH:
        raise Refused(
            ErrorCode.unknown_server_error,
            f"batch length {batch_length} is above the maximum {_MOST_LENGTH}",
            is_of_all=True,
        )
    end = position + LENGTH_PREFIX_BYTES + batch_length
    return records[position:end] if end <= len(records) else None


def _refusal_of_unreadable(batch: memoryview, codec: int, replica: Replica) -> Refused:
    log_start_offset, most_bytes = replica.bounds.log_start_offset, replica.config.max_message_bytes
    if any(batch[:8]):
        return Refused(
            ErrorCode.invalid_record, "the base offset of a produced batch must be 0", log_start_offset=log_start_offset
        )
    if len(batch) > most_bytes:
        return Refused(
            ErrorCode.message_too_large, f"a batch of {len(batch)} bytes exceeds max.message.bytes={most_bytes}"
        )
    if compute_crc(batch, 0, len(batch)) != int.from_bytes(batch[CRC_POSITION:ATTRIBUTES_POSITION], "big"):
        return Refused(ErrorCode.corrupt_message, "the checksum of the batch does not match its content")
    if codec > MAX_CODEC:
        return Refused(ErrorCode.unknown_server_error, _unknown_codec(codec), log_start_offset=log_start_offset)
    return Refused(
        ErrorCode.invalid_record,
        "the batch has a negative last offset delta or record count",
        log_start_offset=log_start_offset,
    )


def _unknown_codec(codec: int) -> str:
    return f"compression codec {codec} is unknown; codecs are 0 to {MAX_CODEC}"


def _batch_length(records: memoryview, position: int) -> int:
    start = position + LENGTH_PREFIX_BYTES - 4
    return int.from_bytes(records[start : start + 4], "big", signed=True)


def _has_negative_count(batch: memoryview) -> bool:
    return bool((batch[LAST_OFFSET_DELTA_POSITION] | batch[RECORD_COUNT_POSITION]) & _SIGN_BIT)
