"""Readers of metadata records' fields, made from `metadata_schemas` at first use, one for each type and version.

Every field is flexible: a length is an unsigned varint of one more than it, and 0 is null. Fields of fixed size that
follow one another are read at once. No length is trusted: strings, bytes and arrays are held against the bytes that
remain before anything is made of them. An error is a `FieldError` with the position in bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final
from uuid import UUID

from broker_core.metadata.metadata_schemas import SCHEMAS
from broker_core.metadata.record_schema import FieldSchema

Reader = Callable[[bytes, int], tuple[Any, int]]
"""(bytes, position) -> (value, position behind it)."""

FIXED_FORMATS: Final = {
    "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "bool": "?", "float64": "d", "uuid": "16s",
}  # fmt: skip
"""By Kafka's name: how `struct` names a field of fixed size."""

_MAX_VARINT_BYTES: Final = 5
_CACHED_ID_COUNT: Final = 4096


class FieldError(ValueError):
    """Bytes that are no fields of the record, at a position in them."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position


def read_unsigned(buffer: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of 32 bits."""
    if position < len(buffer) and buffer[position] < 0x80:
        return buffer[position], position + 1  # nearly all: counts, lengths, tags
    number, shift = 0, 0
    for at in range(position, position + _MAX_VARINT_BYTES):
        if at >= len(buffer):
            raise FieldError(at, "breaks off in a number")
        number |= (buffer[at] & 0x7F) << shift
        if buffer[at] < 0x80:
            if number > 0xFFFFFFFF:
                break
            return number, at + 1
        shift += 7
    raise FieldError(position, "has a number above 32 bits")


@lru_cache(maxsize=_CACHED_ID_COUNT)
def id_of(content: bytes) -> UUID:
    """The id; the ids of topics and directories come again and again."""
    return UUID(bytes=content)


@cache
def struct_reader(kind: type, version: int) -> Reader:
    """Reads a whole structure, its tagged fields included."""
    fields = [field for field in SCHEMAS[kind].fields if field.since <= version]
    steps = _steps([field for field in fields if field.tag is None], version)
    tagged = {field.tag: (field.name, _field_reader(field, version)) for field in fields if field.tag is not None}

    own = {"version": version} if hasattr(kind, "api_key") else {}

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = dict(own)
        for step in steps:
            position = step(values, buffer, position)
        position = _read_tagged(tagged, values, buffer, position)
        return kind(**values), position

    return read


_Step = Callable[[dict[str, Any], bytes, int], int]


def _steps(fields: list[FieldSchema], version: int) -> list[_Step]:
    steps: list[_Step] = []
    run: list[FieldSchema] = []
    for field in fields:
        if field.kind in FIXED_FORMATS and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append(_run_step(run))
            run = []
        steps.append(_field_step(field.name, _field_reader(field, version)))
    return [*steps, _run_step(run)] if run else steps


def _run_step(fields: list[FieldSchema]) -> _Step:
    names = tuple(field.name for field in fields)
    ids = tuple(field.name for field in fields if field.kind == "uuid")
    layout = struct.Struct(">" + "".join(FIXED_FORMATS[str(field.kind)] for field in fields))

    def step(values: dict[str, Any], buffer: bytes, position: int) -> int:
        if len(buffer) - position < layout.size:
            raise FieldError(position, f"breaks off where {layout.size} more are needed")
        values.update(zip(names, layout.unpack_from(buffer, position), strict=True))
        for name in ids:
            values[name] = id_of(values[name])
        return position + layout.size

    return step


def _field_step(name: str, read: Reader) -> _Step:
    def step(values: dict[str, Any], buffer: bytes, position: int) -> int:
        values[name], position = read(buffer, position)
        return position

    return step


def _field_reader(field: FieldSchema, version: int) -> Reader:
    if field.is_array:
        read = _array_reader(field, version)
    elif field.kind in ("string", "bytes"):
        read = _content_reader(is_text=field.kind == "string")
    else:
        read = _one_fixed_reader(str(field.kind))
    return read if field.is_nullable or not (field.is_array or field.kind in ("string", "bytes")) else _required(read)


def _required(read: Reader) -> Reader:
    def read_required(buffer: bytes, position: int) -> tuple[Any, int]:
        value, end = read(buffer, position)
        if value is None:
            raise FieldError(position, "has a null where none may be")
        return value, end

    return read_required


def _one_fixed_reader(kind: str) -> Reader:
    layout = struct.Struct(">" + FIXED_FORMATS[kind])

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        if len(buffer) - position < layout.size:
            raise FieldError(position, f"breaks off where {layout.size} more are needed")
        (value,) = layout.unpack_from(buffer, position)
        return (id_of(value) if kind == "uuid" else value), position + layout.size

    return read


def _content_reader(*, is_text: bool) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        size, start = read_unsigned(buffer, position)
        if size == 0:
            return None, start
        end = start + size - 1
        if end > len(buffer):
            raise FieldError(position, f"claims {size - 1} bytes where {len(buffer) - start} are left")
        content = buffer[start:end]
        if not is_text:
            return content, end
        try:
            return content.decode(), end
        except UnicodeDecodeError:
            raise FieldError(position, "has a text that is not UTF-8") from None

    return read


def _array_reader(field: FieldSchema, version: int) -> Reader:
    if isinstance(field.kind, type):
        return _counted(struct_reader(field.kind, version), least_bytes(field.kind, version))
    if field.kind == "string":
        return _counted(_required(_content_reader(is_text=True)), 1)
    return _fixed_array_reader(field.kind)


def least_bytes(kind: type, version: int) -> int:
    """What a structure takes at least: an array's count is held against it."""
    fields = [field for field in SCHEMAS[kind].fields if field.since <= version and field.tag is None]
    return 1 + sum(
        1 if field.is_array or field.kind not in FIXED_FORMATS else struct.calcsize(FIXED_FORMATS[str(field.kind)])
        for field in fields
    )


def _take_count(buffer: bytes, position: int, item_bytes: int) -> tuple[int, int]:
    """The count plus one (0 is null), and where the items begin."""
    claimed, start = read_unsigned(buffer, position)
    if (claimed - 1) * item_bytes > len(buffer) - start:
        raise FieldError(position, f"claims {claimed - 1} items of {item_bytes} bytes or more")
    return claimed, start


def _counted(read_item: Reader, item_bytes: int) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        claimed, position = _take_count(buffer, position, item_bytes)
        if claimed == 0:
            return None, position
        items = []
        for _ in range(claimed - 1):
            item, position = read_item(buffer, position)
            items.append(item)
        return tuple(items), position

    return read


def _fixed_array_reader(kind: str) -> Reader:
    letter = FIXED_FORMATS[kind]
    item_bytes = struct.calcsize(letter)

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        claimed, start = _take_count(buffer, position, item_bytes)
        if claimed == 0:
            return None, start
        count = claimed - 1
        end = start + count * item_bytes
        if kind == "uuid":
            return tuple(id_of(buffer[at : at + item_bytes]) for at in range(start, end, item_bytes)), end
        return struct.unpack_from(f">{count}{letter}", buffer, start), end

    return read


def _read_tagged(known: dict[int, tuple[str, Reader]], values: dict[str, Any], buffer: bytes, position: int) -> int:
    count, position = read_unsigned(buffer, position)
    unknown: list[tuple[int, bytes]] = []
    last = -1
    for _ in range(count):
        at = position
        tag, position = read_unsigned(buffer, position)
        size, position = read_unsigned(buffer, position)
        if tag <= last:
            raise FieldError(at, f"has the tagged field {tag} behind {last}")
        if size > len(buffer) - position:
            raise FieldError(at, f"claims a tagged field {tag} of {size} bytes")
        last, end = tag, position + size
        if tag in known:
            name, read = known[tag]
            values[name], stopped = read(buffer[:end], position)
            if stopped != end:
                raise FieldError(
                    at, f"has a tagged field {tag} of {size} bytes, of which {stopped - position} are read"
                )
        else:
            unknown.append((tag, buffer[position:end]))
        position = end
    if unknown:
        values["unknown_fields"] = tuple(unknown)
    return position
