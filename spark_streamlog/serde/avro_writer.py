"""Writes columns as Avro values: the bytes of all rows column by column, joined row by row at the end.

`writer_for(node, arrow_type)` returns a function from an array without nulls to the bytes of its rows. The types are
those of spark-avro's serializer:

    boolean, float, double, string, binary  their own; string also as enum, binary also as a fixed of its length
    tinyint, smallint, int    int, and wider                  bigint                long
    date                      int date                        timestamp             long timestamp-millis, -micros
    time                      long time-micros                timestamp_ntz         long local-timestamp-millis, -micros
    decimal(p,s)              bytes or fixed decimal with the same scale and enough digits
    array, map<string, …>, struct   array, map, record; a field by its exact name, else by its name in any case
    nullable                  a union with null               struct<member0: …>    the union of these

Fields of the record that the struct lacks must be nullable; fields of the struct that the record lacks are refused.
Unlike in spark-avro, int and float may be written as a wider number. Times are floored to milliseconds; a time in a
long without a logical type is in milliseconds, as in spark-avro.

Unwritable is raised for a row that does not fit: a null in a type that is not nullable, a symbol that the enum lacks,
bytes whose length is not that of the fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_streamlog.serde.avro_leaf_writer import leaf_writer
from spark_streamlog.serde.avro_schema import AvroField, AvroNode
from spark_streamlog.serde.avro_varint import varint
from spark_streamlog.serde.encoded_rows import Unwritable
from spark_streamlog.serde.json_encoder import entry_counts, map_entries
from spark_streamlog.serde.serde_errors import InvalidSchemaError

Write = Callable[[Any], list[bytes]]


def writer_for(node: AvroNode, arrow_type: Any, path: str = "") -> Write:
    """Raises InvalidSchemaError if the schema cannot represent the type."""
    if node.kind == "union":
        return _union(node, arrow_type, path)
    if node.kind == "record" and pa.types.is_struct(arrow_type):
        return _without_nulls(_record(node, arrow_type, path), path)
    if node.kind == "array" and (pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)):
        return _without_nulls(_array(node, arrow_type, path), path)
    if node.kind == "map" and pa.types.is_map(arrow_type) and pa.types.is_string(arrow_type.key_type):
        return _without_nulls(_map(node, arrow_type, path), path)
    return _without_nulls(leaf_writer(node, arrow_type, path), path)


def _without_nulls(write: Write, path: str) -> Write:
    def checked(array: Any) -> list[bytes]:
        if array.null_count and not pa.types.is_null(array.type):
            raise Unwritable(f"{path or 'the value'} is null, and its Avro type is not nullable")
        return write(array)

    return checked


def _union(node: AvroNode, arrow_type: Any, path: str) -> Write:
    if node.is_struct_union and not pa.types.is_null(arrow_type):
        return _struct_union(node, arrow_type, path)
    if pa.types.is_null(arrow_type) and node.null_branch is not None:
        only_null = varint(node.null_branch)
        return lambda array: [only_null] * len(array)
    place, branch = _branch_for(node, arrow_type, path)
    write_dense = writer_for(branch, arrow_type, path)
    prefix = varint(place)
    null = None if node.null_branch is None else varint(node.null_branch)

    def write(array: Any) -> list[bytes]:
        if not array.null_count:
            return [prefix + one for one in write_dense(array)]
        if null is None:
            raise Unwritable(f"{path or 'the value'} is null, and its Avro type is not nullable")
        dense = iter(write_dense(array.drop_null()))
        return [prefix + next(dense) if is_valid else null for is_valid in array.is_valid().to_pylist()]

    return write


def _branch_for(node: AvroNode, arrow_type: Any, path: str) -> tuple[int, AvroNode]:
    """In a union of numbers the wider branch is used if both can hold the type; otherwise only one branch can."""
    values = [(place, branch) for place, branch in enumerate(node.branches) if branch.kind != "null"]
    values.sort(key=lambda found: found[1].kind in ("long", "double"), reverse=True)
    error: InvalidSchemaError | None = None
    for place, branch in values:
        try:
            writer_for(branch, arrow_type, path)
            return place, branch
        except InvalidSchemaError as found:
            error = error or found
    assert error is not None, f"{node} has a branch that is not null"
    raise error


def _struct_union(node: AvroNode, arrow_type: Any, path: str) -> Write:
    branches = [(place, branch) for place, branch in enumerate(node.branches) if branch.kind != "null"]
    expected = [f"member{place}" for place in range(len(branches))]
    found = [field.name for field in arrow_type] if pa.types.is_struct(arrow_type) else None
    if found != expected:
        raise refused(node, arrow_type, path, f"a union needs a struct with the fields {', '.join(expected)}")
    writers = [
        (varint(place), writer_for(branch, field.type, f"{path}.{field.name}".lstrip(".")))
        for (place, branch), field in zip(branches, arrow_type, strict=True)
    ]
    null = None if node.null_branch is None else varint(node.null_branch)

    def write(array: Any) -> list[bytes]:
        rows: list[bytes | None] = [None] * len(array)
        for (prefix, write_member), member in zip(writers, array.flatten(), strict=True):
            places = pc.indices_nonzero(member.is_valid()).to_pylist()
            for row, content in zip(places, write_member(member.drop_null()), strict=True):
                if rows[row] is not None:
                    raise Unwritable(f"{path or 'the value'} has two members of a union that are not null")
                rows[row] = prefix + content
        if null is None and None in rows:
            raise Unwritable(f"{path or 'the value'} is null, and its Avro type is not nullable")
        return [null or b"" if one is None else one for one in rows]

    return write


def _record(node: AvroNode, arrow_type: Any, path: str) -> Write:
    names = [field.name for field in arrow_type]
    writers: list[tuple[int | None, Any]] = []
    for field in node.fields:
        place = _place_of(field, names)
        if place is not None:
            writers.append((place, writer_for(field.node, arrow_type[place].type, f"{path}.{field.name}".lstrip("."))))
        elif field.node.null_branch is not None:
            writers.append((None, varint(field.node.null_branch)))
        else:
            raise refused(node, arrow_type, path, f"it has no field {field.name}, which is not nullable")
    extra = [name for place, name in enumerate(names) if place not in {at for at, _ in writers}]
    if extra:
        raise refused(node, arrow_type, path, f"the record has no field {', '.join(extra)}")

    def write(array: Any) -> list[bytes]:
        columns = array.flatten()
        if not writers:
            return [b""] * len(array)
        parts: Sequence[Any] = [
            [content] * len(array) if place is None else content(columns[place]) for place, content in writers
        ]
        return [b"".join(row) for row in zip(*parts, strict=True)]

    return write


def _place_of(field: AvroField, names: list[str]) -> int | None:
    if field.name in names:
        return names.index(field.name)
    alike = [place for place, name in enumerate(names) if name.lower() == field.name.lower()]
    return alike[0] if len(alike) == 1 else None


def _array(node: AvroNode, arrow_type: Any, path: str) -> Write:
    assert node.items is not None, f"{node} has items"
    write_items = writer_for(node.items, arrow_type.value_type, f"{path}.element".lstrip("."))
    return lambda array: _blocks(entry_counts(array).to_pylist(), write_items(array.flatten()))


def _map(node: AvroNode, arrow_type: Any, path: str) -> Write:
    assert node.items is not None, f"{node} has items"
    write_items = writer_for(node.items, arrow_type.item_type, f"{path}.value".lstrip("."))

    def write(array: Any) -> list[bytes]:
        keys, items = map_entries(array)
        names = [varint(len(name)) + name for name in keys.cast(pa.binary()).to_pylist()]
        entries = [name + item for name, item in zip(names, write_items(items), strict=True)]
        return _blocks(entry_counts(array).to_pylist(), entries)

    return write


def _blocks(counts: list[int], items: list[bytes]) -> list[bytes]:
    rows, place = [], 0
    for count in counts:
        rows.append(b"".join([varint(count), *items[place : place + count], b"\0"]) if count else b"\0")
        place += count
    return rows


def refused(node: AvroNode, arrow_type: Any, path: str, why: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"{path or 'the value'} of the type {arrow_type} cannot be written as {node}: {why}")
