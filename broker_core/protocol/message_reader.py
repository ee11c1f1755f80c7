"""Reads messages from bytes: one reader for every structure of kio's schemas, built from its dataclass at first use.

    value, next_position = reader_of(MetadataResponse)(view, position)

kio's schemas define the layout; kio's own reader is the twin that tests compare with. That reader is not safe for input
from a network: it allocates by an array's length before it checks how many bytes there are, and fails for a tagged
field or error code that is newer than kio and for a timestamp of -1, which an idle transaction has. Here

- a count is checked against the remaining bytes, by the smallest size of an element, before anything is allocated;
- unknown tagged fields are skipped (KIP-482), unknown error codes are UNKNOWN_SERVER_ERROR;
- `records` are views of the buffer and never copied;
- null where a schema allows none is refused, as Kafka does.

Whatever the bytes are, the outcome is a message or MalformedMessageError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

from kio.static.protocol import Entity

from broker_core.model.exceptions import MalformedMessageError
from broker_core.model.limits import MAX_ARRAY_ELEMENT_COUNT, MAX_TAGGED_FIELD_COUNT
from broker_core.protocol.field_kinds import (
    FIXED_KINDS,
    FixedKind,
    array_of,
    default_of,
    fixed_kind_of,
    is_compact,
    is_nullable,
    without_none,
)

Reader = Callable[[memoryview, int], tuple[Any, int]]
_Setter = Callable[[Any, Any], None]
_Step = Callable[[Any, memoryview, int], int]
"""Reads one or more fields into the structure; returns the position after them."""

Message = TypeVar("Message", bound=Entity)

_MAX_VARINT_SHIFT: Final = 28
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def decode(message_type: type[Message], buffer: memoryview, position: int = 0) -> tuple[Message, int]:
    """(the message, the position after it). Raises a MalformedMessageError that names the type and the position."""
    try:
        return reader_of(message_type)(buffer, position)
    except (struct.error, IndexError):
        why = "the bytes end too early"
    except UnicodeDecodeError as error:
        why = f"a string is not UTF-8: {error.reason}"
    except (OverflowError, ValueError) as error:
        why = str(error)
    except MalformedMessageError as error:
        why = error.message
    raise MalformedMessageError(
        f"{len(buffer) - position} bytes are not a {message_type.__name__} of version {message_type.__version__}: {why}"
    )


@cache
def reader_of(message_type: type[Entity]) -> Reader:
    """Reads one structure. Raises MalformedMessageError and the exceptions that `decode` catches."""
    steps: list[_Step] = []
    run: list[tuple[Field[Any], FixedKind]] = []
    tagged: dict[int, tuple[_Setter, Reader]] = {}
    defaults: list[tuple[_Setter, Any]] = []
    for field in fields(message_type):
        setter = getattr(message_type, field.name).__set__
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = setter, _field_reader(field, message_type, is_tagged=True)
            defaults.append((setter, default_of(field)))
            continue
        fixed = fixed_kind_of(field)
        if fixed is not None:
            run.append((field, fixed))
            continue
        if run:
            steps.append(_run_step(message_type, run))
            run = []
        steps.append(_field_step(setter, _field_reader(field, message_type)))
    if run:
        steps.append(_run_step(message_type, run))
    is_flexible = message_type.__flexible__

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        entity = object.__new__(message_type)
        for step in steps:
            position = step(entity, view, position)
        if is_flexible:
            for set_field, value in defaults:
                set_field(entity, value)
            position = _read_tagged_fields(view, position, entity, tagged)
        return entity, position

    return read


def _field_step(set_field: _Setter, reader: Reader) -> _Step:
    def step(entity: Any, view: memoryview, position: int) -> int:
        value, position = reader(view, position)
        set_field(entity, value)
        return position

    return step


def _run_step(message_type: type[Entity], run: list[tuple[Field[Any], FixedKind]]) -> _Step:
    """Consecutive fields of fixed size, read at once."""
    layout = struct.Struct(">" + "".join(fixed.letter for _, fixed in run))
    unpack_from, size_bytes = layout.unpack_from, layout.size
    setters: list[_Setter] = [getattr(message_type, field.name).__set__ for field, _ in run]
    converters = [(place, fixed.convert) for place, (_, fixed) in enumerate(run) if fixed.convert is not None]

    def step(entity: Any, view: memoryview, position: int) -> int:
        values: Any = unpack_from(view, position)
        if converters:
            values = list(values)
            for place, convert in converters:
                values[place] = convert(values[place])
        for set_field, value in zip(setters, values, strict=True):
            set_field(entity, value)
        return position + size_bytes

    return step


def _field_reader(field: Field[Any], owner: type[Entity], *, is_tagged: bool = False) -> Reader:
    is_flexible = is_compact(owner, field)
    name = f"{owner.__name__}.{field.name}"
    element = array_of(field.type)
    # A null tagged field is absent.
    may_be_null = is_nullable(field.type) and not (is_tagged and element is None)
    if element is not None:
        read_length = _array_length_reader(is_flexible, may_be_null, name)
        if is_dataclass(element):
            structure = cast(type[Entity], element)
            return _array_reader(read_length, reader_of(structure), least_bytes(structure), name)
        return _primitive_array_reader(read_length, field.metadata["kafka_type"], is_flexible, name)
    inner = without_none(field.type)
    if is_dataclass(inner):
        reader = reader_of(cast(type[Entity], inner))
        return _nullable_structure(reader) if may_be_null else reader
    fixed = fixed_kind_of(field)
    if fixed is not None:
        return _fixed_reader(fixed)
    return _sized_reader(field.metadata["kafka_type"], is_flexible, may_be_null, name)


def _fixed_reader(fixed: FixedKind) -> Reader:
    layout, convert = struct.Struct(f">{fixed.letter}"), fixed.convert

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        (value,) = layout.unpack_from(view, position)
        return (convert(value) if convert else value), position + layout.size

    return read


def _nullable_structure(reader: Reader) -> Reader:
    def read(view: memoryview, position: int) -> tuple[Any, int]:
        # KIP-893: a byte below 0 is null.
        return (None, position + 1) if view[position] >= 0x80 else reader(view, position + 1)

    return read


def _read_unsigned_varint(view: memoryview, position: int) -> tuple[int, int]:
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while True:
        position += 1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise MalformedMessageError(f"the variable-length number at position {position} has more than 5 bytes")


def _sized_reader(kafka_type: str, is_flexible: bool, may_be_null: bool, name: str) -> Reader:
    """Strings and bytes with a length prefix; -1 (0 for compact lengths) is null."""
    layout = _INT16 if kafka_type == "string" else _INT32
    is_string, is_copied = kafka_type == "string", kafka_type == "bytes"

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        if is_flexible:
            size, position = _read_unsigned_varint(view, position)
            size -= 1
        else:
            (size,) = layout.unpack_from(view, position)
            position += layout.size
        if size < 0:
            if size == -1 and may_be_null:
                return None, position
            raise MalformedMessageError(f"{name} has a size of {size}")
        end = position + size
        if end > len(view):
            raise MalformedMessageError(f"{name} has {size} bytes, but only {len(view) - position} are left")
        if is_string:
            return str(view[position:end], "utf-8"), end
        return (bytes(view[position:end]) if is_copied else view[position:end]), end

    return read


def _array_length_reader(is_flexible: bool, may_be_null: bool, name: str) -> Reader:
    def read(view: memoryview, position: int) -> tuple[Any, int]:
        if is_flexible:
            count, position = _read_unsigned_varint(view, position)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(view, position)
            position += _INT32.size
        if count >= 0:
            return count, position
        if count == -1 and may_be_null:
            return None, position
        raise MalformedMessageError(f"{name} has {count} elements")

    return read


def _array_reader(read_length: Reader, read_element: Reader, element_bytes: int, name: str) -> Reader:
    def read(view: memoryview, position: int) -> tuple[Any, int]:
        count, position = read_length(view, position)
        if count is None:
            return None, position
        _check_count(view, position, count, element_bytes, name)
        elements = []
        for _ in range(count):
            element, position = read_element(view, position)
            elements.append(element)
        return tuple(elements), position

    return read


def _primitive_array_reader(read_length: Reader, kafka_type: str, is_flexible: bool, name: str) -> Reader:
    fixed = FIXED_KINDS.get(kafka_type)
    if fixed is None:
        element_bytes = _least_sized_bytes(kafka_type, is_flexible)
        return _array_reader(read_length, _sized_reader(kafka_type, is_flexible, False, name), element_bytes, name)
    letter, element_bytes, convert = fixed.letter, fixed.size_bytes, fixed.convert

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        count, position = read_length(view, position)
        if count is None:
            return None, position
        _check_count(view, position, count, element_bytes, name)
        values = struct.unpack_from(f">{letter * count}", view, position)
        return (tuple(map(convert, values)) if convert else values), position + count * element_bytes

    return read


def _check_count(view: memoryview, position: int, count: int, element_bytes: int, name: str) -> None:
    if count * element_bytes > len(view) - position or count > MAX_ARRAY_ELEMENT_COUNT:
        raise MalformedMessageError(f"{name} has {count} elements in {len(view) - position} bytes")


def _read_tagged_fields(
    view: memoryview, position: int, entity: Any, tagged: dict[int, tuple[Callable[[Any, Any], None], Reader]]
) -> int:
    count, position = _read_unsigned_varint(view, position)
    if count > MAX_TAGGED_FIELD_COUNT:
        raise MalformedMessageError(f"{type(entity).__name__} has {count} tagged fields")
    for _ in range(count):
        tag, position = _read_unsigned_varint(view, position)
        size, position = _read_unsigned_varint(view, position)
        end = position + size
        if end > len(view):
            raise MalformedMessageError(f"a tagged field has {size} bytes, but only {len(view) - position} are left")
        if tag in tagged:
            set_field, reader = tagged[tag]
            value, position = reader(view[:end], position)
            if position != end:
                raise MalformedMessageError(f"tagged field {tag} of {type(entity).__name__} does not fill its size")
            set_field(entity, value)
        position = end
    return position


@cache
def least_bytes(message_type: type[Entity]) -> int:
    """The size of the smallest structure of this type."""
    total = 1 if message_type.__flexible__ else 0
    for field in fields(message_type):
        if "tag" in field.metadata:
            continue
        fixed = fixed_kind_of(field)
        if fixed is not None:
            total += fixed.size_bytes
        elif array_of(field.type) is not None:
            total += 1 if message_type.__flexible__ else 4
        elif "kafka_type" in field.metadata:
            is_flexible = is_compact(message_type, field)
            total += _least_sized_bytes(field.metadata["kafka_type"], is_flexible)
        else:
            total += 1 if is_nullable(field.type) else least_bytes(without_none(field.type))
    return max(1, total)


def _least_sized_bytes(kafka_type: str, is_flexible: bool) -> int:
    if is_flexible:
        return 1
    return _INT16.size if kafka_type == "string" else _INT32.size
