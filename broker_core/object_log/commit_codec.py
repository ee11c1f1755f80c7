"""Encodes a commit as an object: JSON, with a checksum of the JSON before it.

    {"crc32c":"9f3e0a1b","commit":{"format":1,"log":"…","number":42,"writer":"…","previous":"…","time_ms":…,
      "app":{"id":"…","version":7,"note":"…"},
      "changes":[{"kind":"append","topics":["<uuid>"],"objects":["data/…"],
                  "ranges":[[topic, partition, object, position, bytes, offsets, records, first ms, max ms], …]}, …]}}

Topics and objects of ranges are indices into the two lists before them. If ranges have key filters, `filters` beside
`ranges` tells their bytes, one number for each range; without it there are none. Reading is strict: every field is
checked, and unknown fields are refused, because a fold that skips something has a different result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from broker_core.log.key_filter import key_filter_blocks
from broker_core.model.exceptions import CorruptObjectError, ObjectLogFormatError, StreamlogError
from broker_core.object_log.commit import (
    AdvanceHorizon,
    AppendRanges,
    Change,
    Commit,
    DeleteTopic,
    MoveLogStart,
    PinOffsets,
    PutTopic,
    ReplaceRanges,
    SkipOffsets,
)
from broker_core.object_log.data_range import AppendedRange, DataRange, PlacedRange
from broker_core.object_log.json_fields import (
    JsonFault,
    JsonFields,
    checked_number,
    checked_uuid,
    decode_checked,
    encode_checked,
)
from broker_core.object_log.object_names import begun_ms_of, commit_path
from broker_core.staged_writes import AppVersion

FORMAT: Final = 1
_WRITER_CHARACTERS: Final = 32


def encode_commit(commit: Commit) -> bytes:
    document: dict[str, Any] = {
        "format": FORMAT,
        "log": str(commit.log_id),
        "number": commit.number,
        "writer": commit.writer,
        **({"previous": commit.previous_writer} if commit.previous_writer else {}),
        "time_ms": commit.time_ms,
    }
    if commit.app is not None:
        document["app"] = {"id": commit.app.app_id, "version": commit.app.version, "note": commit.app.note}
    document["changes"] = [_encode_change(change) for change in commit.changes]
    return encode_checked("commit", document)


def decode_commit(data: bytes | memoryview, *, log_id: UUID, number: int, url: str = "") -> Commit:
    """Decodes the commit with that number. `url`: of the log, for errors.

    Raises CorruptObjectError, and ObjectLogFormatError for a commit of a newer version.
    """
    path = commit_path(number)
    try:
        commit = _decode(decode_checked("commit", data))
    except JsonFault as fault:
        kind = ObjectLogFormatError if fault.is_newer else CorruptObjectError
        raise _error(kind, url, path, fault.what) from None
    if commit.number != number or commit.log_id != log_id:
        what = f"it is commit {commit.number} of the log {commit.log_id}, not commit {number} of {log_id}"
        raise _error(CorruptObjectError, url, path, what)
    return commit


def _error(kind: type[StreamlogError], url: str, path: str, what: str) -> StreamlogError:
    advice = " It was written by a newer version of streamlog." if kind is ObjectLogFormatError else ""
    return kind(f"{url}/{path} cannot be read as a commit: {what}.{advice}", object=path, url=url)


def _decode(fields: JsonFields) -> Commit:
    if fields.number("format") != FORMAT:
        raise JsonFault("the format is not 1", is_newer=True)
    app = None
    if fields.maybe("app"):
        app_fields = JsonFields(fields.take("app"), "app")
        app = AppVersion(
            app_id=app_fields.text("id"), version=app_fields.number("version"), note=app_fields.text("note")
        )
        app_fields.end()
    commit = Commit(
        log_id=fields.uuid("log"),
        number=fields.number("number", least=1),
        writer=fields.text("writer"),
        time_ms=fields.number("time_ms"),
        changes=tuple(_decode_change(change) for change in fields.items("changes")),
        app=app,
        previous_writer=fields.text("previous") if fields.maybe("previous") else "",
    )
    fields.end()
    if len(commit.writer) != _WRITER_CHARACTERS:
        raise JsonFault("commit.writer is not 32 hexadecimal digits")
    return commit


def _encode_change(change: Change) -> dict[str, Any]:
    match change:
        case AppendRanges():
            return {"kind": "append"} | _encode_appended(change.ranges)
        case SkipOffsets():
            return {
                "kind": "skip",
                "topic": str(change.topic_id),
                "partition": change.partition,
                "from": change.from_offset,
                "until": change.until_offset,
            }
        case PutTopic():
            return {
                "kind": "put_topic",
                "name": change.name,
                "id": str(change.topic_id),
                "partitions": change.partition_count,
                "configs": dict(change.configs),
            }
        case DeleteTopic():
            return {"kind": "delete_topic", "id": str(change.topic_id)}
        case ReplaceRanges():
            document = {
                "kind": "replace",
                "topic": str(change.topic_id),
                "partition": change.partition,
                "from": change.from_offset,
                "until": change.until_offset,
                "inputs": change.input_digest,
                "ranges": [[placed.base_offset, *placed.data[:-1]] for placed in change.outputs],
                **_encode_filters([placed.data for placed in change.outputs]),
            }
            return document if change.clean_until is None else document | {"clean_until": change.clean_until}
        case MoveLogStart():
            return {
                "kind": "log_start",
                "topic": str(change.topic_id),
                "partition": change.partition,
                "offset": change.offset,
            }
        case PinOffsets():
            return {
                "kind": "pin",
                "group": change.group_id,
                "pins": [[str(topic_id), *numbers] for topic_id, *numbers in change.pins],
            }
        case AdvanceHorizon():
            return {"kind": "horizon", "ms": change.horizon_ms}


def _decode_change(document: object) -> Change:
    fields = JsonFields(document, "change")
    kind = fields.text("kind")
    decode = _DECODERS.get(kind)
    if decode is None:
        raise JsonFault(f"it has a change of the unknown kind {kind!r}", is_newer=True)
    change = decode(fields)
    fields.end()
    return change


def _encode_appended(ranges: Sequence[AppendedRange]) -> dict[str, Any]:
    topics = {topic_id: slot for slot, topic_id in enumerate(dict.fromkeys(one.topic_id for one in ranges))}
    objects = {name: slot for slot, name in enumerate(dict.fromkeys(one.data.object for one in ranges))}
    return {
        "topics": [str(topic_id) for topic_id in topics],
        "objects": list(objects),
        "ranges": [[topics[one.topic_id], one.partition, objects[one.data.object], *one.data[1:-1]] for one in ranges],
        **_encode_filters([one.data for one in ranges]),
    }


def _encode_filters(ranges: Sequence[DataRange]) -> dict[str, list[int]]:
    """Nothing where no range has one, so that earlier versions can read the commit."""
    sizes = [data.filter_bytes for data in ranges]
    return {"filters": sizes} if any(sizes) else {}


def _decode_filters(fields: JsonFields, range_count: int) -> Sequence[int]:
    if not fields.maybe("filters"):
        return [0] * range_count
    sizes = [checked_number(size, "the size of a filter") for size in fields.items("filters")]
    if len(sizes) != range_count or any(size and key_filter_blocks(size) is None for size in sizes):
        raise JsonFault(f"{sizes} are not the sizes of the filters of {range_count} ranges")
    return sizes


def _decode_appended(fields: JsonFields) -> AppendRanges:
    topics = [checked_uuid(text, "append.topics") for text in fields.items("topics")]
    objects = [_checked_object(name) for name in fields.texts("objects")]
    ranges = []
    rows = fields.items("ranges")
    for row, filter_bytes in zip(rows, _decode_filters(fields, len(rows)), strict=True):
        if not isinstance(row, list) or len(row) != 9:
            raise JsonFault("a range of an append is not nine numbers")
        topic, partition, name = (checked_number(cell, "a range of an append") for cell in row[:3])
        if topic >= len(topics) or name >= len(objects):
            raise JsonFault("a range of an append refers to a topic or an object that is not listed")
        ranges.append(AppendedRange(topics[topic], partition, _checked_range(objects[name], row[3:], filter_bytes)))
    if not ranges:
        raise JsonFault("an append has no ranges")
    return AppendRanges(ranges=tuple(ranges))


def _decode_replaced(fields: JsonFields) -> ReplaceRanges:
    outputs = []
    rows = fields.items("ranges")
    for row, filter_bytes in zip(rows, _decode_filters(fields, len(rows)), strict=True):
        if not isinstance(row, list) or len(row) != 8 or not isinstance(row[1], str):
            raise JsonFault("a range that replaces others is not an offset, an object and six numbers")
        base_offset = checked_number(row[0], "a range that replaces others")
        outputs.append(PlacedRange(base_offset, _checked_range(_checked_object(row[1]), row[2:], filter_bytes)))
    return ReplaceRanges(
        topic_id=fields.uuid("topic"),
        partition=fields.number("partition"),
        from_offset=fields.number("from"),
        until_offset=fields.number("until"),
        input_digest=fields.text("inputs"),
        outputs=tuple(outputs),
        clean_until=fields.number("clean_until") if fields.maybe("clean_until") else None,
    )


def _decode_pins(fields: JsonFields) -> PinOffsets:
    pins = []
    for row in fields.items("pins"):
        if not isinstance(row, list) or len(row) != 4:
            raise JsonFault("a pin is not a topic, a partition, an offset and a time")
        partition, offset, until_ms = (checked_number(cell, "a pin") for cell in row[1:])
        pins.append((checked_uuid(row[0], "the topic of a pin"), partition, offset, until_ms))
    return PinOffsets(group_id=fields.text("group"), pins=tuple(pins))


def _checked_object(name: str) -> str:
    if begun_ms_of(name) is None:
        raise JsonFault(f"{name!r} is not the name of a data object")
    return name


def _checked_range(name: str, cells: Sequence[object], filter_bytes: int) -> DataRange:
    position, size_bytes, offset_count, record_count = (checked_number(cell, "a range") for cell in cells[:4])
    first_ms, max_ms = (checked_number(cell, "a time of a range", least=-1) for cell in cells[4:])
    if not size_bytes or not offset_count or record_count > offset_count:
        raise JsonFault(f"a range of {size_bytes} bytes, {offset_count} offsets and {record_count} records")
    return DataRange(name, position, size_bytes, offset_count, record_count, first_ms, max_ms, filter_bytes)


_DECODERS: Final[dict[str, Callable[[JsonFields], Change]]] = {
    "append": _decode_appended,
    "skip": lambda fields: SkipOffsets(
        topic_id=fields.uuid("topic"),
        partition=fields.number("partition"),
        from_offset=fields.number("from"),
        until_offset=fields.number("until"),
    ),
    "put_topic": lambda fields: PutTopic(
        name=fields.text("name"),
        topic_id=fields.uuid("id"),
        partition_count=fields.number("partitions", least=1),
        configs=fields.text_map("configs"),
    ),
    "delete_topic": lambda fields: DeleteTopic(topic_id=fields.uuid("id")),
    "replace": _decode_replaced,
    "log_start": lambda fields: MoveLogStart(
        topic_id=fields.uuid("topic"), partition=fields.number("partition"), offset=fields.number("offset")
    ),
    "pin": _decode_pins,
    "horizon": lambda fields: AdvanceHorizon(horizon_ms=fields.number("ms")),
}
