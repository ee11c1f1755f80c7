"""A column of structs to Protobuf values, plain or in Confluent's wire format. A null row stays null.

Fields are matched by exact name, else by name in any case. A null field is not set. Integers may be written as wider
ones, and float as double. Unsigned numbers are written from the bits of a signed number of their size, uint32 also from
a bigint, uint64 also from a decimal. An enum is written from a symbol's name or its number, Timestamp from a timestamp,
Duration from an interval day to second, a wrapper from a struct<value: T> or from T.

Refused before any row is written: a field that the message lacks, a type that does not fit. Refused per row: a null
element of an array or map (Protobuf has none; spark-protobuf writes 0 for a map's), a required field that is null, two
members of a oneof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_streamlog.serde.confluent_wire import header, message_indexes
from spark_streamlog.serde.encoded_rows import Unwritable, encode_rows
from spark_streamlog.serde.json_encoder import entry_counts, map_entries
from spark_streamlog.serde.protobuf_descriptor import indexes_of, is_map, is_repeated, is_required
from spark_streamlog.serde.protobuf_scalars import is_wrapper, scalar_writer, time_writer
from spark_streamlog.serde.serde_errors import InvalidSchemaError

Write = Callable[[Any], list[Any]]
"""Takes an array and returns, for each row, an argument for a message's constructor; None for null."""


class ProtobufEncoder:
    """Raises InvalidSchemaError if the message cannot represent the type."""

    def __init__(self, descriptor: Any, arrow_type: Any, *, schema_id: int | None = None) -> None:
        self._write_messages = _message_writer(descriptor, arrow_type, "")
        self._prefix = b"" if schema_id is None else header(schema_id) + message_indexes(indexes_of(descriptor))

    def encode(self, column: Any) -> Any:
        return encode_rows(column, self._write)

    def _write(self, dense: Any) -> list[bytes]:
        messages = self._write_messages(dense)
        return [self._prefix + message.SerializeToString(deterministic=True) for message in messages]


def _message_writer(descriptor: Any, arrow_type: Any, path: str) -> Write:
    from google.protobuf import message_factory

    if not pa.types.is_struct(arrow_type):
        raise refused(descriptor.full_name, arrow_type, path, "a message can only be written from a struct")
    message_class: Any = message_factory.GetMessageClass(descriptor)
    writers = [
        (field.name, write) for field, write in _field_writers(descriptor, arrow_type, path) if field is not None
    ]
    names = [name for name, _ in writers]
    required = [field.name for field in descriptor.fields if is_required(field)]
    oneofs = [[member.name for member in oneof.fields] for oneof in descriptor.oneofs if len(oneof.fields) > 1]

    def build(row: tuple[Any, ...]) -> Any:
        given = {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for name in required:
            if name not in given:
                raise Unwritable(f"{(path + '.' if path else '')}{name} is null, but it is required")
        for members in oneofs:
            if sum(name in given for name in members) > 1:
                raise Unwritable(f"only one of {', '.join(members)} can be set")
        try:
            return message_class(**given)
        except (TypeError, ValueError, OverflowError) as error:
            raise Unwritable(f"{descriptor.full_name}: {error}") from None

    def write(array: Any) -> list[Any]:
        columns = array.flatten()
        values = [write_field(column) for (_, write_field), column in zip(writers, columns, strict=True)]
        rows = zip(*values, strict=True) if values else iter([()] * len(array))
        valid = array.is_valid().to_pylist()
        return [build(row) if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]

    return write


def _field_writers(descriptor: Any, arrow_type: Any, path: str) -> list[tuple[Any, Write]]:
    """The writers of the fields, in the order of the struct."""
    found: list[tuple[Any, Write]] = []
    used: set[str] = set()
    for column in arrow_type:
        field = descriptor.fields_by_name.get(column.name)
        if field is None:
            alike = [one for one in descriptor.fields if one.name.lower() == column.name.lower()]
            field = alike[0] if len(alike) == 1 else None
        if field is None or field.name in used:
            raise refused(descriptor.full_name, arrow_type, path, f"the message has no field {column.name}")
        used.add(field.name)
        found.append((field, _field_writer(field, column.type, f"{path}.{column.name}".lstrip("."))))
    missing = [field.name for field in descriptor.fields if is_required(field) and field.name not in used]
    if missing:
        raise refused(
            descriptor.full_name, arrow_type, path, f"the column has no field {', '.join(missing)}, which is required"
        )
    return found


def _field_writer(field: Any, arrow_type: Any, path: str) -> Write:
    if is_map(field):
        return _map_writer(field, arrow_type, path)
    if not is_repeated(field):
        return _value_writer(field, arrow_type, path)
    if not (pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)):
        raise refused(field.full_name, arrow_type, path, "a repeated field can only be written from an array")
    write_items = _value_writer(field, arrow_type.value_type, path)

    def write(array: Any) -> list[Any]:
        items = write_items(array.flatten())
        return _cut(array, items, path)

    return write


def _map_writer(field: Any, arrow_type: Any, path: str) -> Write:
    entry = field.message_type.fields_by_name
    if not pa.types.is_map(arrow_type):
        raise refused(field.full_name, arrow_type, path, "a map field can only be written from a map")
    write_keys = _value_writer(entry["key"], arrow_type.key_type, f"{path}.key")
    write_items = _value_writer(entry["value"], arrow_type.item_type, f"{path}.value")

    def write(array: Any) -> list[Any]:
        keys, items = map_entries(array)
        pairs = _cut(array, list(zip(write_keys(keys), write_items(items), strict=True)), path)
        return [None if row is None else dict(row) for row in pairs]

    return write


def _cut(array: Any, items: list[Any], path: str) -> list[Any]:
    """The items of each row; None for a null row."""
    if any(item is None or (isinstance(item, tuple) and item[1] is None) for item in items):
        raise Unwritable(f"{path} has an element that is null, which Protobuf does not support")
    rows: list[Any] = []
    place = 0
    counts, valid = entry_counts(array).to_pylist(), array.is_valid().to_pylist()
    for count, is_valid in zip(counts, valid, strict=True):
        rows.append(items[place : place + count] if is_valid else None)
        place += count
    return rows


def _value_writer(field: Any, arrow_type: Any, path: str) -> Write:
    if field.message_type is None:
        write = scalar_writer(field, arrow_type, path)
    elif is_wrapper(field.message_type) and not pa.types.is_struct(arrow_type):
        write = _wrapping(field.message_type, arrow_type, path)
    else:
        write = time_writer(field.message_type, arrow_type) or _message_writer(field.message_type, arrow_type, path)
    if write is None:
        raise refused(field.full_name, arrow_type, path, "the types do not fit")
    return write


def _wrapping(message: Any, arrow_type: Any, path: str) -> Write:
    from google.protobuf import message_factory

    wrapper: Any = message_factory.GetMessageClass(message)
    write_plain = _value_writer(message.fields_by_name["value"], arrow_type, path)
    return lambda array: [None if one is None else wrapper(value=one) for one in write_plain(array)]


def refused(name: str, arrow_type: Any, path: str, why: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"{path or 'the value'} of the type {arrow_type} cannot be written as {name}: {why}")
