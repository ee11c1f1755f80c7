"""Validates batches before they are appended to a partition, as a Kafka 4.3 broker does.

Every batch: magic 2, whole, valid CRC. Unless another log has already checked it: records well-formed and as many as
the header has, offset deltas 0..n-1; size within max.message.bytes; timestamps within message.timestamp.{before,after}.
max.ms; a key if the topic is compacted. From a client also: no control batch, and one producer for all batches.
A marker is never too large: otherwise, with a setting below its 78 bytes, a transaction could never end.
Then the batch is adapted to the topic: correct largest timestamp, log-append time, the topic's codec. A batch that
already fits stays unchanged; its records never become Python objects.

An append may hold several batches, where Kafka's produce request holds one; their base offsets are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from typing_extensions import Buffer

from broker_core.log.batch_filter import assemble_batch
from broker_core.log.producer_state import AppendOrigin
from broker_core.log.record_refusals import (
    NO_LIMITS,
    refusal_of_records,
    refusal_of_timestamp_type,
    timestamp_limits,
)
from broker_core.model.exceptions import (
    CorruptBatchError,
    InvalidRecordError,
    ProducerFencedError,
    RecordTooLargeError,
)
from broker_core.model.identifiers import NO_TIMESTAMP, CompressionType, TimestampType
from broker_core.model.limits import MAX_RECORD_ERROR_COUNT
from broker_core.model.topic_config import TopicConfig
from broker_core.record.active_kernel import KERNEL
from broker_core.record.batch_header import (
    COMPRESSION_MASK,
    BatchHeader,
    WritableBytes,
    read_header,
    write_log_append_time,
    write_timestamps,
)
from broker_core.record.batch_reader import (
    RecordsSummary,
    batch_payload,
    check_crc,
    find_refused_records,
    inspect_records,
    iter_headers,
    records_of,
)
from broker_core.record.compression import compress
from broker_core.record.control_records import EndTransactionMarker, read_end_transaction_marker
from broker_core.record.kernel_protocol import TIMESTAMP_MS_LIMIT


class ValidatedBatches(NamedTuple):
    """Batches that may be appended. `log_append_time_ms` is -1 with create time.

    `buffer` is the caller's own unless a batch was rebuilt in another codec. Each batch has one header and one position
    (bytes in `buffer`); `markers` has the markers of control batches that end a transaction.
    """

    buffer: WritableBytes
    positions: tuple[int, ...]
    headers: tuple[BatchHeader, ...]
    markers: tuple[EndTransactionMarker | None, ...]
    log_append_time_ms: int


def validate_batches(
    batches: WritableBytes,
    *,
    config: TopicConfig,
    now_ms: int,
    name: str,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    header: BatchHeader | None = None,
) -> ValidatedBatches:
    """`name` is the topic-partition, for messages. Timestamps are written into `batches` in place, offsets are not.
    `header`: that of the only batch, if it was already read.

    Raises CorruptBatchError, UnsupportedFormatError, RecordTooLargeError, InvalidRecordError, InvalidTimestampError,
    ProducerFencedError.
    """
    found = [(0, header)] if header is not None else list(iter_headers(batches))
    if len(found) == 1 and origin is AppendOrigin.CLIENT and _is_plain(batches, found[0][1], config, now_ms):
        return ValidatedBatches(batches, (0,), (found[0][1],), (None,), NO_TIMESTAMP)
    end = found[-1][0] + found[-1][1].size_bytes if found else 0
    if end != len(batches):
        raise CorruptBatchError(
            f"{name}: {len(batches) - end} bytes follow the last whole batch of the append", position=end
        )
    if not found:
        raise InvalidRecordError(f"{name}: the append holds no batch")
    for position, header in found:
        # Before its content is read or decompressed: a batch above the limit is refused in any case.
        if origin is not AppendOrigin.REPLICATION and not header.is_control:
            _check_size(name, header, config)
        check_crc(batches, position, header)
    if origin is not AppendOrigin.REPLICATION:
        if origin is AppendOrigin.CLIENT:
            _check_client(name, [header for _, header in found])
        is_changed = False
        record_count = 0
        for position, header in found:
            if not header.is_control:
                is_changed |= _validate_data(batches, position, header, config, now_ms, name, record_count)
            record_count += header.record_count
        in_codec = _in_codec(batches, found, config)
        is_changed |= in_codec is not batches
        batches = in_codec
        if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            is_changed = True
            for position, _ in iter_headers(batches):
                write_log_append_time(batches, position, now_ms)
        if is_changed:
            # Read again: the timestamps or the codec may have changed.
            found = list(iter_headers(batches))
        for _, header in found:
            if not header.is_control:
                _check_size(name, header, config)
    positions, headers = zip(*found, strict=True)
    is_log_append = headers[0].timestamp_type is TimestampType.LOG_APPEND_TIME
    return ValidatedBatches(
        buffer=batches,
        positions=positions,
        headers=headers,
        markers=tuple([read_marker(batches, position, header) for position, header in found]),
        log_append_time_ms=headers[0].max_timestamp if is_log_append else NO_TIMESTAMP,
    )


def _is_plain(batches: WritableBytes, header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Whether the only batch may be appended unchanged, as nearly every one may. Found in one native walk. False is no
    verdict: `validate_batches` then checks step by step."""
    base_timestamp_ms, header_max_ms, producer_id, producer_epoch, base_sequence = header[7:12]
    if (
        not config.takes_plain_as_they_come
        or config.message_timestamp_type is not TimestampType.CREATE_TIME
        or len(batches) > config.max_message_bytes
        or ((base_sequence < 0 or producer_epoch < 0) if producer_id >= 0 else header.is_transactional)
    ):
        return False
    found = KERNEL.inspect_plain(batches)
    if found is None:
        return False
    max_timestamp_ms, null_key_count = found
    return (
        max_timestamp_ms == header_max_ms
        and NO_TIMESTAMP <= max_timestamp_ms <= min(now_ms + config.message_timestamp_after_max_ms, TIMESTAMP_MS_LIMIT)
        and base_timestamp_ms >= -TIMESTAMP_MS_LIMIT
        and not (null_key_count and config.is_compacted)
    )


def read_marker(buffer: Buffer, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """The end-transaction marker in the batch at `position`; None for data, emptied and other control batches."""
    return read_end_transaction_marker(buffer, position) if header.is_control else None


def _check_client(name: str, headers: Sequence[BatchHeader]) -> None:
    """Checks of a header that only a client can fail."""
    for header in headers:
        if header.is_control:
            raise InvalidRecordError(f"{name}: clients may not write control records")
        if header.producer_id >= 0 and header.base_sequence < 0:
            raise InvalidRecordError(
                f"{name}: a batch of producer {header.producer_id} has the invalid sequence {header.base_sequence}"
            )
        if header.producer_id >= 0 and header.producer_epoch < 0:
            raise ProducerFencedError(
                f"{name}: a batch of producer {header.producer_id} has the invalid epoch {header.producer_epoch}"
            )
        if header.is_transactional and header.producer_id < 0:
            raise InvalidRecordError(f"{name}: a transactional batch has no producer id")
    if len(headers) > 1 and len({(one.producer_id, one.producer_epoch, one.is_transactional) for one in headers}) > 1:
        raise InvalidRecordError(f"{name}: one append holds batches of several producers; append them separately")


def _validate_data(
    batches: WritableBytes,
    position: int,
    header: BatchHeader,
    config: TopicConfig,
    now_ms: int,
    name: str,
    first_index: int,
) -> bool:
    """Checks the records of a data batch and sets the correct largest timestamp in the header. Returns whether that
    changed it. `first_index`: the number of records before it in the append."""
    if header.record_count == 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecordError(
            f"{name}: a batch of {header.record_count} records claims offset deltas 0 to {header.last_offset_delta}"
        )
    is_log_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    try:
        summary = inspect_records(batches, position, header=header)
    except CorruptBatchError as error:
        # Its CRC is valid, so the client sent it like this.
        raise InvalidRecordError(f"{name}: {error.message}") from error
    _refuse_records(name, batches, position, header, summary, config, now_ms, first_index)
    if not summary.is_contiguous:
        raise InvalidRecordError(f"{name}: the offset deltas of a batch of {header.record_count} records have gaps")
    if config.message_timestamp_type is TimestampType.CREATE_TIME:
        # If the topic has create time, Kafka clears the bit and accepts the batch.
        max_timestamp_ms = max(NO_TIMESTAMP, summary.max_timestamp_ms)
        if is_log_append or max_timestamp_ms != header.max_timestamp:
            write_timestamps(
                batches, position, timestamp_type=TimestampType.CREATE_TIME, max_timestamp_ms=max_timestamp_ms
            )
            return True
    return False


def _refuse_records(
    name: str,
    batches: WritableBytes,
    position: int,
    header: BatchHeader,
    summary: RecordsSummary,
    config: TopicConfig,
    now_ms: int,
    first_index: int,
) -> None:
    """Raises InvalidRecordError or, if one of the errors is a timestamp, InvalidTimestampError."""
    has_create_time = config.message_timestamp_type is TimestampType.CREATE_TIME
    needs_key = config.is_compacted and summary.null_key_count > 0
    if not has_create_time and header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise refusal_of_timestamp_type(
            name,
            records_of(batches, position),
            summary.record_count,
            needs_key=needs_key,
            is_compressed=header.compression_type is not CompressionType.NONE,
            first_index=first_index,
        )
    limits = timestamp_limits(config, now_ms) if has_create_time else NO_LIMITS
    may_be_late = summary.max_timestamp_ms > limits.latest_ms or header.base_timestamp < -TIMESTAMP_MS_LIMIT
    if not (needs_key or (has_create_time and (may_be_late or config.has_age_limit))):
        return
    refused = find_refused_records(
        batches,
        position,
        header,
        needs_key=needs_key,
        earliest_ms=limits.earliest_ms,
        latest_ms=limits.latest_ms,
        max_count=MAX_RECORD_ERROR_COUNT,
    )
    if refused:
        raise refusal_of_records(name, refused, header.record_count, limits, first_index=first_index)


def _in_codec(batches: WritableBytes, found: Sequence[tuple[int, BatchHeader]], config: TopicConfig) -> WritableBytes:
    """The batches in the topic's codec; the same buffer if they already are."""
    codec = config.codec
    if codec is None or all(header.is_control or header.compression_type is codec for _, header in found):
        return batches
    rebuilt = bytearray()
    for position, header in found:
        if header.is_control or header.compression_type is codec:
            rebuilt += memoryview(batches)[position : position + header.size_bytes]
        else:
            rebuilt += _recompressed(batches, position, codec, config)
    return rebuilt


def _recompressed(batches: WritableBytes, position: int, codec: CompressionType, config: TopicConfig) -> bytearray:
    header = read_header(batches, position)
    content = compress(codec, batch_payload(batches, position, header), config.compression_level(codec))
    return assemble_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK | codec), content)


def _check_size(name: str, header: BatchHeader, config: TopicConfig) -> None:
    if header.size_bytes > config.max_message_bytes:
        raise RecordTooLargeError(
            f"{name}: a batch of {header.size_bytes} bytes exceeds max.message.bytes={config.max_message_bytes}"
        )
