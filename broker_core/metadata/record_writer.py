"""Writers of metadata records' fields, made from `metadata_schemas` at first use: the other way of `record_reader`."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from broker_core.coordinator.record_fields import tagged_fields_bytes, unsigned_varint
from broker_core.metadata.metadata_schemas import SCHEMAS
from broker_core.metadata.record_reader import FIXED_FORMATS
from broker_core.metadata.record_schema import FieldSchema

Writer = Callable[[bytearray, Any], None]
"""Appends a value to the bytes."""


@cache
def struct_writer(kind: type, version: int) -> Writer:
    """Writes a whole structure with its tagged fields; what the version does not have must be at its default."""
    fields = [field for field in SCHEMAS[kind].fields if field.since <= version]
    plain = [(field.name, _field_writer(field, version)) for field in fields if field.tag is None]
    tagged = [(field, _field_writer(field, version)) for field in fields if field.tag is not None]
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    later = [(field.name, defaults[field.name]) for field in SCHEMAS[kind].fields if field.since > version]

    def write(out: bytearray, value: Any) -> None:
        for name, write_field in plain:
            write_field(out, getattr(value, name))
        for name, default in later:
            assert getattr(value, name) == default, f"{name} cannot be written in version {version}: {value}"
        _write_tagged(tagged, out, value)

    return write


def _write_tagged(tagged: list[tuple[FieldSchema, Writer]], out: bytearray, value: Any) -> None:
    contents: dict[int, bytes] = dict(value.unknown_fields)
    for field, write_field in tagged:
        given = getattr(value, field.name)
        if given != field.default:
            content = bytearray()
            write_field(content, given)
            assert field.tag is not None
            contents[field.tag] = bytes(content)
    if contents:
        out += tagged_fields_bytes(contents)
    else:
        out.append(0)


def _field_writer(field: FieldSchema, version: int) -> Writer:
    write_item = _item_writer(field.kind, version)
    return _array_writer(write_item) if field.is_array else write_item


def _item_writer(kind: str | type, version: int) -> Writer:
    if isinstance(kind, type):
        return struct_writer(kind, version)
    if kind == "string":
        return lambda out, value: _write_content(out, None if value is None else value.encode())
    if kind == "bytes":
        return _write_content
    if kind == "uuid":
        return lambda out, value: out.extend(value.bytes)
    pack = struct.Struct(">" + FIXED_FORMATS[kind]).pack
    return lambda out, value: out.extend(pack(value))


def _write_content(out: bytearray, content: bytes | None) -> None:
    out += unsigned_varint(0 if content is None else len(content) + 1)
    out += content or b""


def _array_writer(write_item: Writer) -> Writer:
    def write(out: bytearray, items: tuple[Any, ...] | None) -> None:
        out += unsigned_varint(0 if items is None else len(items) + 1)
        for item in items or ():
            write_item(out, item)

    return write
