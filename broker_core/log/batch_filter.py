"""Rebuilds a batch from the records that survive compaction.

Base offset, last offset, producer fields and leader epoch stay, so offsets and the producer's last sequence survive.
Surviving records keep their bytes. Only if a delete horizon is set, the base timestamp becomes the horizon and each
record's timestamp delta is rewritten relative to it (KIP-534). The compression codec stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import TimestampType
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_header import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    write_crc,
)
from broker_core.record.batch_reader import batch_payload
from broker_core.record.compression import compress
from broker_core.record.faults import KernelFault, error_of_fault
from broker_core.record.varint import append_varint, read_varint, read_varlong

_ATTRIBUTES_BYTES = 1


def filter_batch(
    header: BatchHeader,
    batch: memoryview,
    survives: Sequence[bool],
    *,
    config: TopicConfig,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """The batch with the records for which `survives` is true. It has one bool per record; at least one is true.

    `batch` is the whole batch, its CRC checked. `delete_horizon_ms`: the new horizon; None: keep the batch's own, if
    any. Raises CorruptBatchError when the content does not have `header.record_count` records.
    """
    assert len(survives) == header.record_count, f"{len(survives)} verdicts for {header.record_count} records"
    codec = header.compression_type
    content = memoryview(batch_payload(batch, 0, header))
    base_timestamp = header.base_timestamp if delete_horizon_ms is None else delete_horizon_ms
    try:
        kept, max_delta = _kept_records(content, survives, header.base_timestamp - base_timestamp)
    except (KernelFault, IndexError) as fault:
        raise _corrupt(header, fault) from fault
    is_log_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    kept_header = header._replace(
        attributes=header.attributes if delete_horizon_ms is None else header.attributes | DELETE_HORIZON_BIT,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if is_log_append else base_timestamp + max_delta,
        record_count=sum(survives),
    )
    return assemble_batch(kept_header, compress(codec, kept, config.compression_level(codec)))


def assemble_batch(header: BatchHeader, content: bytes) -> bytearray:
    """Header and (compressed) content as a batch, length and CRC computed."""
    batch_length = HEADER_BYTES + len(content) - LENGTH_PREFIX_BYTES
    batch = bytearray(header._replace(batch_length=batch_length).to_bytes())
    batch += content
    write_crc(batch, 0)
    return batch


def _kept_records(content: memoryview, survives: Sequence[bool], shift_ms: int) -> tuple[bytearray, int]:
    """The surviving records, their timestamp deltas raised by `shift_ms`, and the largest delta among them."""
    kept = bytearray()
    max_delta: int | None = None
    position = 0
    for is_kept in survives:
        start = position
        length, body = read_varint(content, position, len(content))
        position = body + length
        if length < 0 or position > len(content):
            raise IndexError(f"a record claims {length} bytes, but only {len(content) - body} are left")
        if not is_kept:
            continue
        delta, rest = read_varlong(content, body + _ATTRIBUTES_BYTES, position)
        delta += shift_ms
        max_delta = delta if max_delta is None else max(max_delta, delta)
        if shift_ms == 0:
            kept += content[start:position]
            continue
        record = bytearray(content[body : body + _ATTRIBUTES_BYTES])
        append_varint(record, delta)
        record += content[rest:position]
        append_varint(kept, len(record))
        kept += record
    assert max_delta is not None, "a batch without survivors is an empty batch or nothing"
    return kept, max_delta


def _corrupt(header: BatchHeader, fault: Exception) -> Exception:
    if isinstance(fault, KernelFault):
        return error_of_fault(fault, position=0, offset=header.base_offset)
    return CorruptBatchError(f"{fault} (batch at offset {header.base_offset})", offset=header.base_offset)
