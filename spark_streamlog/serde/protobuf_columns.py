"""Parsed messages to columns: the values of one field for all messages at once, None where it is not set.

Whether a field is set follows spark-protobuf's rule. A field with presence is set if it is in the message. A field with
a default in its .proto file is always set. A proto3 field without presence is set if it is not 0, false or empty, or
always with emit.default.values. An enum's number without a name is read as UNKNOWN_ENUM_VALUE_<enum>_<number>, as in
Java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from spark_streamlog.serde.decoded_values import Unreadable
from spark_streamlog.serde.protobuf_descriptor import is_repeated
from spark_streamlog.serde.protobuf_options import ProtobufOptions
from spark_streamlog.serde.protobuf_types import ProtobufField, ProtobufMessage

Gather = Callable[[list[Any]], Any]
"""Takes messages or None and returns an array of as many rows. Raises Unreadable if a value does not fit the type."""

_SECONDS_HIGHEST: Final = (2**63 - 1) // 1_000_000 - 1


def message_gatherer(tree: ProtobufMessage, options: ProtobufOptions) -> Gather:
    fields = [(field, _field_gatherer(field, options)) for field in tree.fields]
    types = [pa.field(field.name, field.column_type) for field in tree.fields]

    def gather(messages: list[Any]) -> Any:
        children = []
        for field, gather_field in fields:
            try:
                children.append(gather_field(messages))
            except Unreadable as error:
                raise error.within(field.name) from None
        return pa.Array.from_buffers(pa.struct(types), len(messages), [_validity(messages)], children=children)

    return gather


def _field_gatherer(field: ProtobufField, options: ProtobufOptions) -> Gather:
    name = field.name
    if field.key is not None and field.value is not None:
        return _map_gatherer(field, options)
    gather_values = _value_gatherer(field, options)
    if is_repeated(field.descriptor):

        def gather_lists(messages: list[Any]) -> Any:
            lists = [() if message is None else getattr(message, name) for message in messages]
            items = [item for one in lists for item in one]
            return _lists(field.column_type, messages, lists, [gather_values(items)])

        return gather_lists
    present = _presence(field, options)
    return lambda messages: gather_values([None if m is None or not present(m) else getattr(m, name) for m in messages])


def _presence(field: ProtobufField, options: ProtobufOptions) -> Callable[[Any], bool]:
    name, descriptor = field.name, field.descriptor
    if descriptor.has_default_value:
        return lambda message: True
    if descriptor.has_presence:
        return lambda message: bool(message.HasField(name))
    if options.emits_defaults:
        return lambda message: True
    default = descriptor.default_value
    return lambda message: bool(getattr(message, name) != default)


def _map_gatherer(field: ProtobufField, options: ProtobufOptions) -> Gather:
    assert field.key is not None and field.value is not None, f"{field.name} is a map"
    gather_keys, gather_values = _value_gatherer(field.key, options), _value_gatherer(field.value, options)
    name, column_type = field.name, field.column_type
    entries_type = pa.struct([column_type.key_field, column_type.item_field])

    def gather(messages: list[Any]) -> Any:
        maps = [{} if message is None else getattr(message, name) for message in messages]
        keys = gather_keys([key for one in maps for key in one])
        values = gather_values([one[key] for one in maps for key in one])
        entries = pa.Array.from_buffers(entries_type, len(keys), [None], children=[keys, values])
        return _lists(column_type, messages, maps, [entries])

    return gather


def _lists(column_type: Any, messages: list[Any], lists: list[Any], children: list[Any]) -> Any:
    ends, end = [0], 0
    for one in lists:
        end += len(one)
        ends.append(end)
    buffers = [_validity(messages), pa.array(ends, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(column_type, len(messages), buffers, children=children)


def _value_gatherer(field: ProtobufField, options: ProtobufOptions) -> Gather:
    arrow_type, role = field.arrow_type, field.role
    if role.startswith("wrapped "):
        inner = field.descriptor.message_type.fields_by_name["value"]
        plain = ProtobufField(name="value", descriptor=inner, role=role.removeprefix("wrapped "), arrow_type=arrow_type)
        gather_plain = _value_gatherer(plain, options)
        return lambda values: gather_plain([None if one is None else one.value for one in values])
    if field.message is not None:
        return message_gatherer(field.message, options)
    if role == "unsigned":
        half = 1 << (arrow_type.bit_width - 1)
        return lambda values: pa.array(
            [None if one is None else one if one < half else one - 2 * half for one in values], arrow_type
        )
    if role == "enum":
        names = _EnumNames(field.descriptor.enum_type)
        return lambda values: pa.array([None if one is None else names[one] for one in values], pa.string())
    if role in ("timestamp", "duration"):
        return lambda values: pa.array([_microseconds(one) for one in values], pa.int64()).cast(arrow_type)
    return lambda values: pa.array(values, arrow_type)


class _EnumNames(dict[int, str]):
    def __init__(self, enum: Any) -> None:
        # If several names have the same number, the first one counts.
        super().__init__((value.number, value.name) for value in reversed(enum.values))
        self._enum_name = enum.name

    def __missing__(self, number: int) -> str:
        return f"UNKNOWN_ENUM_VALUE_{self._enum_name}_{number}"


def _microseconds(value: Any) -> int | None:
    if value is None:
        return None
    if not -_SECONDS_HIGHEST <= value.seconds <= _SECONDS_HIGHEST:
        raise Unreadable(f"{value.seconds} seconds do not fit into microseconds of 64 bits")
    nanos: int = value.nanos
    # Java's division, towards zero.
    micros = nanos // 1000 if nanos >= 0 else -(-nanos // 1000)
    return int(value.seconds) * 1_000_000 + micros


def _validity(messages: list[Any]) -> Any:
    if not any(message is None for message in messages):
        return None
    return pa.array([message is not None for message in messages], pa.bool_()).buffers()[1]
