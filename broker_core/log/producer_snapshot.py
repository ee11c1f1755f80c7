"""Kafka's `.snapshot` file of a partition's producers, version 1.

    int16 version | uint32 CRC-32C of all after it | int32 count | count x 46 bytes:
        int64 producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta,
        int64 timestamp (ms), int32 coordinator epoch, int64 first offset of the open transaction (-1: none)

The file `<offset>.snapshot` has the state before the batch at that offset. A broken one is removed; then replay starts
from an older one or from the log's start: nothing is lost.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import crc32c
from typing_extensions import Buffer

from broker_core.log.producer_entry import ProducedBatch, ProducerEntry
from broker_core.model.exceptions import CorruptDataError, UnsupportedFormatError

SNAPSHOT_VERSION = 1

_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_HEADER_BYTES = _PREFIX.size + _COUNT.size


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The whole file, with the last batch of each producer."""
    packed = [_pack(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(SNAPSHOT_VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(data: Buffer) -> tuple[ProducerEntry, ...]:
    """Raises CorruptDataError (CRC, length) or UnsupportedFormatError (another version)."""
    view = memoryview(data)
    if len(view) < _HEADER_BYTES:
        raise CorruptDataError(
            f"producer snapshot has {len(view)} bytes, fewer than its header needs ({_HEADER_BYTES})"
        )
    version, crc = _PREFIX.unpack_from(view)
    if version != SNAPSHOT_VERSION:
        raise UnsupportedFormatError(f"producer snapshot has version {version}, supported is {SNAPSHOT_VERSION}")
    computed = crc32c.crc32c(view[_PREFIX.size :])
    if crc != computed:
        raise CorruptDataError(f"producer snapshot: the checksum of its content is {computed:#010x}, not {crc:#010x}")
    (count,) = _COUNT.unpack_from(view, _PREFIX.size)
    if count < 0 or len(view) != _HEADER_BYTES + count * _ENTRY.size:
        raise CorruptDataError(f"producer snapshot claims {count} producers in {len(view)} bytes")
    return tuple(_unpack(*fields) for fields in _ENTRY.iter_unpack(view[_HEADER_BYTES:]))


def _pack(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_data_offset,
        last.offset_delta if last else 0,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        -1 if entry.transaction_first_offset is None else entry.transaction_first_offset,
    )


def _unpack(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    batch = ProducedBatch(
        last_sequence=last_sequence, last_offset=last_offset, offset_delta=offset_delta, timestamp_ms=timestamp_ms
    )
    return ProducerEntry(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp_ms=timestamp_ms,
        transaction_first_offset=transaction_first_offset if transaction_first_offset >= 0 else None,
        batches=(batch,) if last_offset >= 0 else (),
    )
