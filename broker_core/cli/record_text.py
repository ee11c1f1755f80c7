"""Records as lines of bytes, in the three formats of `consume`.

text   the value's bytes as they are and a line end; a null value is the word null. On a terminal control characters
       and bytes that are not UTF-8 are escaped, so that no record can control it.
json   one object per line; exact: bytes that are not UTF-8 are in base64 in key_base64, value_base64. Control
       characters are escaped, as JSON escapes them.
full   for people: partition, offset, time, key, headers and value, with the same escapes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from broker_core.cli.printable import printable, printable_json
from broker_core.cli.screen import format_timestamp, partition_json
from broker_core.model.identifiers import TopicPartition

Renderer = Callable[[TopicPartition, Any], "bytes | memoryview"]


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    FULL = "full"


def renderer(form: Format, *, to_terminal: bool) -> Renderer:
    """Returns the function from (partition, RecordBatch of decoded columns) to bytes."""
    if form is Format.JSON:
        return json_lines
    if form is Format.FULL:
        return full_lines
    return escaped_values if to_terminal else raw_values


def columns_of(form: Format) -> frozenset[str]:
    """The columns that the format needs."""
    if form is Format.TEXT:
        return frozenset({"value"})
    return frozenset({"key", "value", "offset", "timestamp", "headers"})


def raw_values(partition: TopicPartition, batch: Any) -> bytes | memoryview:
    values = batch.column("value").cast(pa.large_binary())
    lines = pc.binary_join_element_wise(
        values, pa.scalar(b"", pa.large_binary()), pa.scalar(b"\n", pa.large_binary()),
        null_handling="replace", null_replacement="null",
    )  # fmt: skip
    if len(lines) == 0:
        return b""
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("q")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def escaped_values(partition: TopicPartition, batch: Any) -> bytes:
    return _joined([_shown(value) for value in batch.column("value").to_pylist()])


def json_lines(partition: TopicPartition, batch: Any) -> bytes:
    lines = []
    for key, value, offset, timestamp_ms, headers in _rows(batch):
        record: dict[str, Any] = {
            **partition_json(partition), "offset": offset, "timestamp": timestamp_ms,
            **_json_bytes("key", key), **_json_bytes("value", value),
        }  # fmt: skip
        if headers is not None:
            record["headers"] = [{"key": header["key"], **_json_bytes("value", header["value"])} for header in headers]
        lines.append(printable_json(record))
    return _joined(lines)


def full_lines(partition: TopicPartition, batch: Any) -> bytes:
    lines = []
    for key, value, offset, timestamp_ms, headers in _rows(batch):
        pairs = " ".join(f"{_shown(header['key'].encode())}={_shown(header['value'])}" for header in headers or ())
        lines.append(
            f"{partition} offset={offset} time={format_timestamp(timestamp_ms)} key={_shown(key)}"
            f"{f' headers[{pairs}]' if pairs else ''} value={_shown(value)}"
        )
    return _joined(lines)


def _rows(batch: Any) -> Iterator[tuple[Any, ...]]:
    """(key, value, offset, timestamp in ms, headers)."""
    key, value, offset, headers = (batch.column(name).to_pylist() for name in ("key", "value", "offset", "headers"))
    # Whole milliseconds, shown in microseconds: nothing is rounded here.
    timestamps_ms = (moment // 1000 for moment in batch.column("timestamp").cast(pa.int64()).to_pylist())
    return zip(key, value, offset, timestamps_ms, headers, strict=True)


def _json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def _shown(data: bytes | None) -> str:
    """Text that is safe for a terminal."""
    if data is None:
        return "null"
    return printable(data.decode("utf-8", "backslashreplace"))


def _joined(lines: list[str]) -> bytes:
    return b"".join(f"{line}\n".encode() for line in lines)
