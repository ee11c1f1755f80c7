"""Stored batches for `log dump`: one line per batch, with the fields of Kafka's DumpLogSegments."""

from __future__ import annotations

import sys
from typing import Any

from broker_core.cli.printable import printable_json
from broker_core.cli.record_text import full_lines, json_lines
from broker_core.cli.screen import format_timestamp, partition_json
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import FileSystem
from broker_core.record.batch_header import BatchHeader
from broker_core.record.columns import ALL_COLUMNS, decode
from broker_core.storage.verification import DumpedBatch


def write_batch(partition: TopicPartition, batch: DumpedBatch, *, as_json: bool) -> None:
    """One line on stdout."""
    line = printable_json(_batch_json(partition, batch)) if as_json else _batch_line(partition, batch)
    sys.stdout.write(line + "\n")


def read_batch_bytes(fs: FileSystem, batch: DumpedBatch) -> bytes:
    """The batch as stored in its segment file."""
    file = fs.open(batch.file, writable=False)
    try:
        return file.read_at(batch.position, batch.header.size_bytes)
    finally:
        file.close()


def write_records(data: bytes | memoryview, partition: TopicPartition, batch: DumpedBatch, *, as_json: bool) -> None:
    """One line for each record of a valid batch. `data` are the bytes of the batch."""
    rows = decode(data, from_offset=batch.header.base_offset, columns=ALL_COLUMNS).record_batch
    if as_json:
        sys.stdout.write(json_lines(partition, rows).decode())
    else:
        sys.stdout.writelines(f"  {line}\n" for line in full_lines(partition, rows).decode().split("\n")[:-1])


def _batch_line(partition: TopicPartition, batch: DumpedBatch) -> str:
    header = batch.header
    words = [
        str(partition),
        f"offsets={header.base_offset}..{header.last_offset}",
        f"records={header.record_count}",
        f"position={batch.position}",
        f"bytes={header.size_bytes}",
        f"codec={header.compression_type.name.lower()}",
        f"time={format_timestamp(header.max_timestamp)}",
    ]
    if header.producer_id >= 0:
        words.append(f"producer={header.producer_id} epoch={header.producer_epoch} sequence={header.base_sequence}")
    if header.is_transactional:
        words.append("transactional")
    if header.is_control:
        words.append("control")
    if batch.problem is not None:
        words.append(f"DAMAGED: {batch.problem}")
    return " ".join(words)


def _batch_json(partition: TopicPartition, batch: DumpedBatch) -> dict[str, Any]:
    header: BatchHeader = batch.header
    return {
        **partition_json(partition),
        "file": batch.file,
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "size_bytes": header.size_bytes,
        "compression": header.compression_type.name.lower(),
        "timestamp_type": header.timestamp_type.name.lower(),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
        "error": batch.problem,
    }
