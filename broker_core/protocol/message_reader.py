"""Messages out of bytes: one reader for every structure of kio's schemas, made from its dataclass at first use.

    value, next_position = reader_of(MetadataResponse)(view, position)

kio's schemas say what stands where; its own reader is the twin that tests compare with. It cannot read from a network:
it allocates what an array's length says before it looks how many bytes there are, and what does not fit in memory ends
the process; a tagged field or an error code that is newer than kio, and a timestamp of -1, which an idle transaction
has, are errors. Here

- a count is held against the bytes that remain, by the least size of an element, before anything is made;
- unknown tagged fields are passed over (KIP-482), unknown error codes are UNKNOWN_SERVER_ERROR;
- `records` are views of the buffer and never copied;
- null where a schema allows none is refused, as Kafka does.

Whatever the bytes are, the outcome is a message or MalformedMessageError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, cast, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker_core.model.exceptions import MalformedMessageError
from broker_core.model.limits import MAX_ARRAY_ELEMENT_COUNT, MAX_TAGGED_FIELD_COUNT

Reader = Callable[[memoryview, int], tuple[Any, int]]
Message = TypeVar("Message", bound=Entity)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ERROR_CODES: Final[dict[int, ErrorCode]] = {code.value: code for code in ErrorCode}
_NO_UUID: Final = bytes(16)
_MAX_VARINT_SHIFT: Final = 28
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def _error_code(number: int) -> ErrorCode:
    return _ERROR_CODES.get(number, ErrorCode.unknown_server_error)


def _duration(ms: int) -> timedelta:
    return timedelta(milliseconds=ms)


def _instant(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _instant_or_none(ms: int) -> datetime | None:
    return None if ms == -1 else _instant(ms)


def _uuid(value: bytes) -> UUID | None:
    return None if value == _NO_UUID else UUID(bytes=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fixed:
    """A type of a fixed size: its letter for `struct` and what turns the number into the field's value."""

    letter: str
    convert: Callable[[Any], Any] | None = None

    @property
    def size_bytes(self) -> int:
        return struct.calcsize(f">{self.letter}")


_FIXED: Final = {
    "bool": _Fixed(letter="?"), "int8": _Fixed(letter="b"), "int16": _Fixed(letter="h"), "int32": _Fixed(letter="i"),
    "int64": _Fixed(letter="q"), "uint8": _Fixed(letter="B"), "uint16": _Fixed(letter="H"),
    "uint32": _Fixed(letter="I"), "uint64": _Fixed(letter="Q"), "float64": _Fixed(letter="d"),
    "uuid": _Fixed(letter="16s", convert=_uuid), "error_code": _Fixed(letter="h", convert=_error_code),
    "timedelta_i32": _Fixed(letter="i", convert=_duration), "timedelta_i64": _Fixed(letter="q", convert=_duration),
    "datetime_i64": _Fixed(letter="q", convert=_instant),
}  # fmt: skip


def decode(message_type: type[Message], buffer: memoryview, position: int = 0) -> tuple[Message, int]:
    """(the message, the position behind it). Raises MalformedMessageError that names the type and the position."""
    try:
        return reader_of(message_type)(buffer, position)
    except (struct.error, IndexError):
        why = "the bytes end too early"
    except UnicodeDecodeError as trouble:
        why = f"a string is not UTF-8: {trouble.reason}"
    except (OverflowError, ValueError) as trouble:
        why = str(trouble)
    except MalformedMessageError as trouble:
        why = trouble.message
    raise MalformedMessageError(
        f"no {message_type.__name__} of version {message_type.__version__} in {len(buffer) - position} bytes: {why}"
    )


@cache
def reader_of(message_type: type[Entity]) -> Reader:
    """Reads one structure. Raises besides MalformedMessageError what `decode` catches."""
    plain: list[tuple[list[Callable[[Any, Any], None]], Reader]] = []
    run: list[tuple[Field[Any], _Fixed]] = []
    tagged: dict[int, tuple[Callable[[Any, Any], None], Reader]] = {}
    defaults: list[tuple[Callable[[Any, Any], None], Any]] = []
    for field in fields(message_type):
        setter = getattr(message_type, field.name).__set__
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = setter, _field_reader(field, message_type, is_tagged=True)
            defaults.append((setter, _default_of(field)))
            continue
        fixed = _fixed_of(field)
        if fixed is not None:
            run.append((field, fixed))
            continue
        if run:
            plain.append(_run_reader(message_type, run))
            run = []
        plain.append(([setter], _one(_field_reader(field, message_type))))
    if run:
        plain.append(_run_reader(message_type, run))
    is_flexible = message_type.__flexible__

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        entity = object.__new__(message_type)
        for setters, reader in plain:
            values, position = reader(view, position)
            for set_field, value in zip(setters, values, strict=True):
                set_field(entity, value)
        if is_flexible:
            for set_field, value in defaults:
                set_field(entity, value)
            position = _read_tagged_fields(view, position, entity, tagged)
        return entity, position

    return read


def _one(reader: Reader) -> Reader:
    def read(view: memoryview, position: int) -> tuple[Any, int]:
        value, position = reader(view, position)
        return (value,), position

    return read


def _run_reader(
    message_type: type[Entity], run: list[tuple[Field[Any], _Fixed]]
) -> tuple[list[Callable[[Any, Any], None]], Reader]:
    """Neighbours of fixed sizes, read at once."""
    layout = struct.Struct(">" + "".join(fixed.letter for _, fixed in run))
    converters = [(place, fixed.convert) for place, (_, fixed) in enumerate(run) if fixed.convert is not None]

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        values: Any = layout.unpack_from(view, position)
        if converters:
            values = list(values)
            for place, convert in converters:
                values[place] = convert(values[place])
        return values, position + layout.size

    return [getattr(message_type, field.name).__set__ for field, _ in run], read


def _fixed_of(field: Field[Any]) -> _Fixed | None:
    """None for strings, bytes, arrays and structures."""
    if get_origin(field.type) is tuple or _array_of(field.type) is not None:
        return None
    fixed = _FIXED.get(field.metadata.get("kafka_type", ""))
    if fixed is not None and field.metadata["kafka_type"] == "datetime_i64" and _is_nullable(field.type):
        return _Fixed(letter="q", convert=_instant_or_none)
    return fixed


def _field_reader(field: Field[Any], owner: type[Entity], *, is_tagged: bool = False) -> Reader:
    is_flexible = owner.__flexible__ and not _is_client_id(owner, field)
    name = f"{owner.__name__}.{field.name}"
    element = _array_of(field.type)
    # A tagged field that is null is not there at all.
    is_nullable = _is_nullable(field.type) and not (is_tagged and element is None)
    if element is not None:
        read_length = _array_length_reader(is_flexible, is_nullable, name)
        if is_dataclass(element):
            structure = cast(type[Entity], element)
            return _array_reader(read_length, reader_of(structure), least_bytes(structure), name)
        return _primitive_array_reader(read_length, field.metadata["kafka_type"], is_flexible, name)
    inner = _without_none(field.type)
    if is_dataclass(inner):
        reader = reader_of(cast(type[Entity], inner))
        return _nullable_structure(reader) if is_nullable else reader
    fixed = _fixed_of(field)
    if fixed is not None:
        return _fixed_reader(fixed)
    return _sized_reader(field.metadata["kafka_type"], is_flexible, is_nullable, name)


def _fixed_reader(fixed: _Fixed) -> Reader:
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
            raise MalformedMessageError(f"a variable-length number of more than 5 bytes at position {position}")


def _sized_reader(kafka_type: str, is_flexible: bool, is_nullable: bool, name: str) -> Reader:
    """Strings and bytes, which have their size before them; -1 (0 where sizes are compact) is null."""
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
            if size == -1 and is_nullable:
                return None, position
            raise MalformedMessageError(f"{name} has a size of {size}")
        end = position + size
        if end > len(view):
            raise MalformedMessageError(f"{name} has {size} bytes, and {len(view) - position} are left")
        if is_string:
            return str(view[position:end], "utf-8"), end
        return (bytes(view[position:end]) if is_copied else view[position:end]), end

    return read


def _array_length_reader(is_flexible: bool, is_nullable: bool, name: str) -> Reader:
    def read(view: memoryview, position: int) -> tuple[Any, int]:
        if is_flexible:
            count, position = _read_unsigned_varint(view, position)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(view, position)
            position += _INT32.size
        if count >= 0:
            return count, position
        if count == -1 and is_nullable:
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
    fixed = _FIXED.get(kafka_type)
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
            raise MalformedMessageError(f"a tagged field has {size} bytes, and {len(view) - position} are left")
        if tag in tagged:
            set_field, reader = tagged[tag]
            value, position = reader(view[:end], position)
            if position != end:
                raise MalformedMessageError(f"tagged field {tag} of {type(entity).__name__} does not fill its size")
            set_field(entity, value)
        position = end
    return position


def _default_of(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    assert is_dataclass(field.type), f"kio gives the tagged field {field.name} no default"
    structure = cast(type[Entity], field.type)
    return reader_of(structure)(memoryview(bytes(least_bytes(structure))), 0)[0]


@cache
def least_bytes(message_type: type[Entity]) -> int:
    """What the smallest structure of this type takes."""
    total = 1 if message_type.__flexible__ else 0
    for field in fields(message_type):
        if "tag" in field.metadata:
            continue
        fixed = _fixed_of(field)
        if fixed is not None:
            total += fixed.size_bytes
        elif _array_of(field.type) is not None:
            total += 1 if message_type.__flexible__ else 4
        elif "kafka_type" in field.metadata:
            is_flexible = message_type.__flexible__ and not _is_client_id(message_type, field)
            total += _least_sized_bytes(field.metadata["kafka_type"], is_flexible)
        else:
            total += 1 if _is_nullable(field.type) else least_bytes(_without_none(field.type))
    return max(1, total)


def _is_client_id(owner: type[Entity], field: Field[Any]) -> bool:
    """The one string that keeps its old form in a flexible structure: a broker must read it before it knows more."""
    return owner.__name__ == "RequestHeader" and field.name == "client_id"


def _least_sized_bytes(kafka_type: str, is_flexible: bool) -> int:
    if is_flexible:
        return 1
    return _INT16.size if kafka_type == "string" else _INT32.size


def _is_nullable(type_: Any) -> bool:
    return get_origin(type_) is UnionType and NoneType in get_args(type_)


def _without_none(type_: Any) -> Any:
    return next(arg for arg in get_args(type_) if arg is not NoneType) if _is_nullable(type_) else type_


def _array_of(type_: Any) -> Any:
    """The type of the elements; None for what is no array."""
    inner = _without_none(type_)
    return get_args(inner)[0] if get_origin(inner) is tuple else None
