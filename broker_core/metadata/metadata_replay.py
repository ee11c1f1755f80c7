"""Batches of `__cluster_metadata` (its log, or a real Kafka's snapshot of it) into an image; records into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from typing_extensions import Buffer

from broker_core.metadata.image_snapshot import snapshot_records
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_record_codec import decode_metadata_record, encode_metadata_record
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.limits import MAX_SNAPSHOT_BATCH_RECORDS
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers, records_of


def replay_batches(image: MetadataImage, buffer: Buffer, *, from_offset: int) -> int:
    """Replays the records at and above `from_offset`; returns the offset behind the last batch.

    Control batches (leader changes, snapshot headers) say nothing about metadata. Raises CorruptBatchError and
    UnsupportedFormatError at the first record that cannot be read; those before it are replayed.
    """
    next_offset = from_offset
    for position, header in iter_headers(buffer):
        if header.next_offset <= from_offset:
            continue
        if not header.is_control:
            for record in records_of(buffer, position):
                if record.offset >= from_offset:
                    image.replay(_decode(record))
        next_offset = header.next_offset
    return next_offset


def build_metadata_batch(records: Iterable[MetadataRecord], *, now_ms: int) -> bytearray:
    """The records as one batch: a crash leaves all of them in the log or none."""
    return build_batch(Record(value=encode_metadata_record(record), timestamp_ms=now_ms) for record in records)


def build_snapshot_batches(
    image: MetadataImage, *, base_offset: int, leader_epoch: int, timestamp_ms: int
) -> Iterator[bytearray]:
    """The image as batches of at most MAX_SNAPSHOT_BATCH_RECORDS records: what stands between the control records of a
    snapshot's file. The image must not change meanwhile."""
    records = (
        Record(value=encode_metadata_record(record), timestamp_ms=timestamp_ms) for record in snapshot_records(image)
    )
    while part := list(islice(records, MAX_SNAPSHOT_BATCH_RECORDS)):
        yield build_batch(part, base_offset=base_offset, leader_epoch=leader_epoch)
        base_offset += len(part)


def _decode(record: Record) -> MetadataRecord:
    if record.value is None:
        raise CorruptBatchError(f"metadata record at offset {record.offset} has no value", offset=record.offset)
    return decode_metadata_record(record.value)
