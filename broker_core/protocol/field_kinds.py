"""A field of kio's schemas as reader, writer and builder need it: its kind on the wire, its default.

A dataclass of kio is a structure; `__flexible__` selects one of Kafka's two formats. A field's `kafka_type` and `tag`
are in its metadata; its type tells whether it is nullable and whether it is an array.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, cast, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker_core.model.durations import milliseconds_of

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ERROR_CODES: Final[dict[int, ErrorCode]] = {code.value: code for code in ErrorCode}
_NO_UUID: Final = bytes(16)


def _error_code(number: int) -> ErrorCode:
    return _ERROR_CODES.get(number, ErrorCode.unknown_server_error)


def duration_of_ms(ms: int) -> timedelta:
    return timedelta(milliseconds=ms)


def instant_of_ms(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def _ms_of_instant(instant: datetime) -> int:
    return milliseconds_of(instant - EPOCH)


def instant_or_none(ms: int) -> datetime | None:
    return None if ms == -1 else instant_of_ms(ms)


def _ms_or_minus_one(instant: datetime | None) -> int:
    return -1 if instant is None else _ms_of_instant(instant)


def _uuid(value: bytes) -> UUID | None:
    return None if value == _NO_UUID else UUID(bytes=value)


def _bytes_of_uuid(value: UUID | None) -> bytes:
    return _NO_UUID if value is None else value.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedKind:
    """A type of a fixed size: its `struct` code, and the conversions between number and field value."""

    letter: str
    convert: Callable[[Any], Any] | None = None
    give: Callable[[Any], Any] | None = None
    zero: Any = 0

    @property
    def size_bytes(self) -> int:
        return struct.calcsize(f">{self.letter}")


def _duration_kind(letter: str) -> FixedKind:
    return FixedKind(letter=letter, convert=duration_of_ms, give=milliseconds_of, zero=timedelta())


FIXED_KINDS: Final[Mapping[str, FixedKind]] = {
    "bool": FixedKind(letter="?", zero=False), "int8": FixedKind(letter="b"), "int16": FixedKind(letter="h"),
    "int32": FixedKind(letter="i"), "int64": FixedKind(letter="q"), "uint8": FixedKind(letter="B"),
    "uint16": FixedKind(letter="H"), "uint32": FixedKind(letter="I"), "uint64": FixedKind(letter="Q"),
    "float64": FixedKind(letter="d", zero=0.0),
    "uuid": FixedKind(letter="16s", convert=_uuid, give=_bytes_of_uuid, zero=None),
    # An ErrorCode is a number.
    "error_code": FixedKind(letter="h", convert=_error_code, zero=ErrorCode.none),
    "timedelta_i32": _duration_kind("i"), "timedelta_i64": _duration_kind("q"),
    "datetime_i64": FixedKind(letter="q", convert=instant_of_ms, give=_ms_of_instant, zero=EPOCH),
}  # fmt: skip
_NULLABLE_INSTANT: Final = FixedKind(letter="q", convert=instant_or_none, give=_ms_or_minus_one, zero=None)
_ZEROS_OF_SIZED: Final[Mapping[str, Any]] = {"string": "", "bytes": b"", "records": b""}


def fixed_kind_of(field: Field[Any]) -> FixedKind | None:
    """None for strings, bytes, arrays and structures."""
    if array_of(field.type) is not None:
        return None
    fixed = FIXED_KINDS.get(field.metadata.get("kafka_type", ""))
    is_instant = fixed is not None and field.metadata["kafka_type"] == "datetime_i64"
    return _NULLABLE_INSTANT if is_instant and is_nullable(field.type) else fixed


def is_nullable(type_: Any) -> bool:
    return get_origin(type_) is UnionType and NoneType in get_args(type_)


def without_none(type_: Any) -> Any:
    return next(arg for arg in get_args(type_) if arg is not NoneType) if is_nullable(type_) else type_


def array_of(type_: Any) -> Any:
    """The element type; None if the field is no array."""
    inner = without_none(type_)
    return get_args(inner)[0] if get_origin(inner) is tuple else None


def is_compact(owner: type[Entity], field: Field[Any]) -> bool:
    """Whether lengths are varints. A client id keeps its old form in a flexible structure: a broker must read it before
    it knows the version."""
    is_client_id = owner.__name__ == "RequestHeader" and field.name == "client_id"
    return owner.__flexible__ and not is_client_id


def default_of(field: Field[Any]) -> Any:
    """The value that Kafka's generated code gives an unset field."""
    if field.default is not MISSING:
        return field.default
    inner = without_none(field.type)
    if inner is not field.type:
        return None
    if array_of(inner) is not None:
        return ()
    if is_dataclass(inner):
        return _structure_of_defaults(cast(type[Entity], inner))
    kind = field.metadata["kafka_type"]
    return FIXED_KINDS[kind].zero if kind in FIXED_KINDS else _ZEROS_OF_SIZED[kind]


@cache
def _structure_of_defaults(message_type: type[Entity]) -> Entity:
    return message_type(**{field.name: default_of(field) for field in fields(message_type)})
