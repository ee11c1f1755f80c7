"""Builds answers from plain values: the dataclass of any requested version, from one description.

    build(types.response, {"topics": [{"name": "t", "error_code": ErrorCode.none, "partitions": [...]}]})

Names are those of kio's dataclasses. Fields that the version lacks are dropped; missing fields get the schema's
default, or the zero of their type as in Kafka's generated code. Structures are mappings, arrays any iterables;
durations and instants may be ints in ms. A name that no version has is a programming error and raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any, TypeVar, cast, get_args, get_origin

from kio.static.protocol import Entity

from broker_core.protocol.api_table import versions_with_schemas
from broker_core.protocol.field_kinds import (
    default_of,
    duration_of_ms,
    instant_of_ms,
    instant_or_none,
    without_none,
)

Message = TypeVar("Message", bound=Entity)
Convert = Callable[[Any], Any]


def build(message_type: type[Message], values: Mapping[str, Any]) -> Message:
    """Raises TypeError for a name that no version of the message has."""
    return cast(Message, _builder_of(message_type)(values))


@cache
def _builder_of(message_type: type[Entity]) -> Convert:
    own = [
        (field.name, getattr(message_type, field.name).__set__, _conversion(field), default_of(field))
        for field in fields(message_type)
    ]
    own_names = frozenset(field.name for field in fields(message_type))

    def make(values: Mapping[str, Any]) -> Any:
        if not own_names.issuperset(values):
            for name in values:
                if name not in own_names and not _is_known(message_type, name):
                    raise TypeError(f"{message_type.__name__} has no field {name!r} in any version")
        # As in `message_reader`: the generated __init__ of a frozen dataclass takes twice as long.
        entity = object.__new__(message_type)
        for name, set_field, convert, default in own:
            value = values.get(name, MISSING)
            if value is MISSING:
                set_field(entity, default)
            else:
                set_field(entity, value if convert is None else convert(value))
        return entity

    return make


def _conversion(field: Field[Any]) -> Convert | None:
    """None: the value is used as it is."""
    inner = without_none(field.type)
    if get_origin(inner) is tuple:
        element = get_args(inner)[0]
        convert = _builder_of(cast(type[Entity], element)) if is_dataclass(element) else _conversion_of_kind(field)
        if convert is None:
            return _nullable(tuple)
        return _nullable(lambda values: tuple(map(convert, values)))
    if is_dataclass(inner):
        return _nullable(_builder_of(cast(type[Entity], inner)))
    return _conversion_of_kind(field)


def _conversion_of_kind(field: Field[Any]) -> Convert | None:
    match field.metadata.get("kafka_type"):
        case "timedelta_i32" | "timedelta_i64":
            return _duration
        case "datetime_i64":
            return _instant_or_none if without_none(field.type) is not field.type else _instant
        case _:
            return None


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _duration(value: int | timedelta) -> timedelta:
    return duration_of_ms(value) if isinstance(value, int) else value


def _instant(value: int | datetime) -> datetime:
    return instant_of_ms(value) if isinstance(value, int) else value


def _instant_or_none(value: int | datetime | None) -> datetime | None:
    return instant_or_none(value) if isinstance(value, int) else value


@cache
def _is_known(message_type: type[Entity], name: str) -> bool:
    """Whether any version has a field of that name. kio keeps a structure's name from version to version, in
    `….v<version>.<request or response>`; from the newest on, since what is not in this one is in a later one."""
    package, _, kind = message_type.__module__.rpartition(".")
    package = package.rpartition(".")[0]
    for version in reversed(versions_with_schemas(cast(Any, message_type).__api_key__)):
        module = import_module(f"{package}.v{version}.{kind}")
        other = getattr(module, message_type.__name__, None)
        if other is not None and any(field.name == name for field in fields(other)):
            return True
    return False
