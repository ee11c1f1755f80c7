"""Encodes an image as a checkpoint object: a checksum, then one Arrow IPC stream.

    8 bytes   "SLOGCKP1"
    4 bytes   CRC-32C of the rest, big-endian
    rest      an Arrow IPC stream, zstd-compressed: one row per live range (object, and NUMBER_COLUMNS of
              `range_table`), partition by partition; all else as JSON under `image` in the schema's metadata

100,000 ranges take about a megabyte.
"""

from __future__ import annotations

import json
from array import array
from typing import Any, Final
from uuid import UUID

import crc32c
import pyarrow as pa

from broker_core.model.exceptions import CorruptObjectError, ObjectLogFormatError
from broker_core.object_log.commit import PutTopic
from broker_core.object_log.json_fields import JsonFault, JsonFields, checked_number, checked_uuid
from broker_core.object_log.log_image import LogImage, Pin
from broker_core.object_log.object_names import checkpoint_path
from broker_core.object_log.partition_image import PartitionImage
from broker_core.object_log.range_table import NUMBER_COLUMNS, RangeTable
from broker_core.staged_writes import AppVersion

FORMAT: Final = 1
_MAGIC: Final = b"SLOGCKP1"
_HEAD_BYTES: Final = len(_MAGIC) + 4
# Threads cost more than they save: most checkpoints are small.
_WRITING: Final = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READING: Final = pa.ipc.IpcReadOptions(use_threads=False)


def encode_checkpoint(image: LogImage) -> bytes:
    partitions = list(image.partitions())
    columns = [array("q") for _ in NUMBER_COLUMNS]
    objects: list[str] = []
    for _, _, partition in partitions:
        objects.extend(partition.ranges.objects)
        for column, more in zip(columns, partition.ranges.columns(), strict=True):
            column.extend(more)
    topic_ids = {topic.topic_id: slot for slot, topic in enumerate(image.topics.values())}
    document = {
        "format": FORMAT,
        "log": str(image.log_id),
        "number": image.number,
        "time_ms": image.time_ms,
        "horizon_ms": image.horizon_ms,
        "writer": image.last_writer,
        "topics": [
            [topic.name, str(topic.topic_id), topic.partition_count, dict(topic.configs)]
            for topic in image.topics.values()
        ],
        "partitions": [
            [
                *(topic_ids[topic.topic_id], number, partition.log_start_offset, partition.log_end_offset),
                *(partition.clean_offset, len(partition.ranges)),
            ]
            for topic, number, partition in partitions
        ],
        "apps": [[app.app_id, app.version, app.note] for app in image.apps.values()],
        "pins": [
            [group_id, str(topic_id), partition, *pin]
            for group_id, pins in image.pins.items()
            for (topic_id, partition), pin in pins.items()
        ],
        "dropped": [[name, at_ms] for name, at_ms in image.dropped.items()],
    }
    numbers = [pa.Array.from_buffers(pa.int64(), len(column), [None, pa.py_buffer(column)]) for column in columns]
    table = pa.record_batch(
        [pa.array(objects, pa.string()), *numbers],
        schema=_schema(json.dumps(document, separators=(",", ":"))),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITING) as writer:
        writer.write_batch(table)
    content: bytes = sink.getvalue().to_pybytes()
    return _MAGIC + int(crc32c.crc32c(content)).to_bytes(4, "big") + content


def decode_checkpoint(data: bytes | memoryview, *, log_id: UUID, number: int, url: str = "") -> LogImage:
    """Raises CorruptObjectError, and ObjectLogFormatError for a checkpoint of a newer version."""
    path = checkpoint_path(number)
    view = memoryview(data)
    content = view[_HEAD_BYTES:]
    try:
        if bytes(view[: len(_MAGIC)]) != _MAGIC:
            raise JsonFault("it does not begin with the magic bytes")
        if crc32c.crc32c(content) != int.from_bytes(view[len(_MAGIC) : _HEAD_BYTES], "big"):
            raise JsonFault("its checksum does not match its content")
        with pa.ipc.open_stream(pa.py_buffer(content), options=_READING) as reader:
            table = reader.read_all().combine_chunks()
        image = _decode(json.loads(table.schema.metadata[b"image"]), table)
        if (image.log_id, image.number) != (log_id, number):
            raise JsonFault(f"it is the image at commit {image.number} of the log {image.log_id}")
    except (JsonFault, pa.ArrowException, ValueError, KeyError, TypeError) as fault:
        is_newer = isinstance(fault, JsonFault) and fault.is_newer
        kind = ObjectLogFormatError if is_newer else CorruptObjectError
        advice = " It was written by a newer version of streamlog." if is_newer else ""
        raise kind(f"{url}/{path} cannot be read as a checkpoint: {fault}.{advice}", object=path, url=url) from None
    return image


def _schema(document: str) -> pa.Schema:
    fields = [pa.field("object", pa.string()), *(pa.field(name, pa.int64()) for name in NUMBER_COLUMNS)]
    return pa.schema(fields, metadata={"image": document})


def _decode(document: object, table: Any) -> LogImage:
    fields = JsonFields(document, "checkpoint")
    if fields.number("format") != FORMAT:
        raise JsonFault("the format is not 1", is_newer=True)
    image = LogImage(fields.uuid("log"))
    image.number = fields.number("number")
    image.time_ms = fields.number("time_ms")
    image.horizon_ms = fields.number("horizon_ms")
    image.last_writer = fields.text("writer")
    topic_ids = []
    for name, topic_id, partition_count, configs in fields.items("topics"):
        topic_ids.append(checked_uuid(topic_id, "checkpoint.topics"))
        image.restore_topic(
            PutTopic(
                name=name,
                topic_id=topic_ids[-1],
                partition_count=checked_number(partition_count, "checkpoint.topics", least=1),
                configs=configs,
            )
        )
    _restore_partitions(image, topic_ids, fields.items("partitions"), table)
    for app_id, version, note in fields.items("apps"):
        image.restore_app(AppVersion(app_id=app_id, version=checked_number(version, "checkpoint.apps"), note=note))
    for group_id, topic_id, partition, *pin in fields.items("pins"):
        image.restore_pin(group_id, (checked_uuid(topic_id, "checkpoint.pins"), partition), Pin(*pin))
    for name, at_ms in fields.items("dropped"):
        image.restore_dropped(name, checked_number(at_ms, "checkpoint.dropped"))
    fields.end()
    return image


def _restore_partitions(image: LogImage, topic_ids: list[UUID], rows: Any, table: Any) -> None:
    names: list[str] = table.column("object").to_pylist()
    # All ranges of an object share one string.
    shared: dict[str, str] = {}
    names = [shared.setdefault(name, name) for name in names]
    # Checkpoints of earlier versions have no filters.
    columns = [
        _numbers(table.column(name)) if name in table.column_names else array("q", bytes(8 * len(names)))
        for name in NUMBER_COLUMNS
    ]
    start = 0
    for topic, number, log_start_offset, log_end_offset, clean_offset, range_count in rows:
        partition = PartitionImage()
        partition.log_start_offset, partition.log_end_offset = log_start_offset, log_end_offset
        partition.clean_offset = clean_offset
        stop = start + checked_number(range_count, "checkpoint.partitions")
        partition.ranges = RangeTable.from_columns([column[start:stop] for column in columns], names[start:stop])
        image.restore_partition(topic_ids[topic], number, partition)
        start = stop
    if start != len(names):
        raise JsonFault(f"it holds {len(names)} ranges, its partitions have {start}")


def _numbers(column: Any) -> array[int]:
    found = array("q")
    for chunk in column.chunks:
        buffer = chunk.buffers()[1]
        if buffer is not None and len(chunk):
            start = chunk.offset * found.itemsize
            found.frombytes(memoryview(buffer)[start : start + len(chunk) * found.itemsize])
    return found
