"""Reads Avro values written with one schema into the columns of another one.

`reader_for(writer, reader, column)` returns a function `read(data, position) -> position after the value`, which adds
one row to the column. Everything that depends only on the two schemas is decided once, when the function is built;
schemas that do not resolve raise InvalidSchemaError there. When values are read, nothing is trusted:

    a number has 10 bytes at most and fits its type                a union's branch and an enum's symbol exist
    a length does not exceed the bytes that are left               a map contains no key twice
    nor does a block's count times the minimum size of an item     a block with a declared size has that size

A broken rule raises Unreadable with the path of the field; IndexError and struct.error mean that the value ends too
early.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from spark_streamlog.serde.avro_columns import ListColumn, MapColumn, StructColumn, column_for
from spark_streamlog.serde.avro_defaults import default_bytes
from spark_streamlog.serde.avro_leaf_reader import leaf_reader
from spark_streamlog.serde.avro_resolution import best_branch, check_resolves, mismatch
from spark_streamlog.serde.avro_schema import NO_DEFAULT, AvroField, AvroNode, is_number_union
from spark_streamlog.serde.avro_varint import read_length, read_varint
from spark_streamlog.serde.decoded_values import Unreadable
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.utf8_strings import text_of

Read = Callable[[bytes, int], int]

ENDS_EARLY: Final = "the data ends in the middle of the value"


def reader_for(writer: AvroNode, reader: AvroNode, column: Any) -> Read:
    """`column` is the result of `column_for(reader)`."""
    if writer.kind == "union":
        return _from_union(writer, reader, column)
    if reader.kind == "union":
        return _into_union(writer, reader, column)
    check_resolves(writer, reader)
    if writer.kind == "record":
        return _record(writer, reader, column)
    if writer.kind == "array":
        return _array(_items(writer), reader_for(_items(writer), _items(reader), column.items), column)
    if writer.kind == "map":
        return _map(_items(writer), reader_for(_items(writer), _items(reader), column.items), column)
    return leaf_reader(writer, reader, column.values)


def _from_union(writer: AvroNode, reader: AvroNode, column: Any) -> Read:
    reads: list[Read] = []
    refusals: list[InvalidSchemaError] = []
    for branch in writer.branches:
        try:
            reads.append(reader_for(branch, reader, column))
        except InvalidSchemaError as error:
            refusals.append(error)
            reads.append(_refusing(error.message))
    if len(refusals) == len(reads):
        raise refusals[-1]
    count = len(reads)

    def read(data: bytes, position: int) -> int:
        place = data[position]
        if place < 0x80 and not place & 1:
            place >>= 1
            position += 1
        else:
            place, position = read_varint(data, position)
        if not 0 <= place < count:
            raise Unreadable(f"branch {place} of a union that has {count}")
        return reads[place](data, position)

    return read


def _refusing(reason: str) -> Read:
    def read(data: bytes, position: int) -> int:
        raise Unreadable(reason)

    return read


def _into_union(writer: AvroNode, reader: AvroNode, column: Any) -> Read:
    if writer.kind == "null":
        if reader.null_branch is None:
            raise mismatch(writer, reader, "the union has no null")

        def read_null(data: bytes, position: int) -> int:
            column.add_null()
            return position

        return read_null
    branches = reader.value_branches
    place = best_branch(writer, branches)
    if place is None:
        raise mismatch(writer, reader, "no branch of the union can read it")
    if is_number_union(branches):
        # One column for both branches, with the wider type.
        kind = "long" if branches[0].kind in ("int", "long") else "double"
        wider = AvroNode(kind=kind, arrow_type=reader.arrow_type, min_bytes=1)
        return leaf_reader(writer, wider, column.values)
    if not reader.is_struct_union:
        return reader_for(writer, branches[place], column)
    inner = reader_for(writer, branches[place], column.children[place])
    others = [child.add_null for at, child in enumerate(column.children) if at != place]
    mark_valid = column.validity.append

    def read(data: bytes, position: int) -> int:
        position = inner(data, position)
        for add_null in others:
            add_null()
        mark_valid(True)
        return position

    return read


def _record(writer: AvroNode, reader: AvroNode, column: StructColumn) -> Read:
    waiting = dict(enumerate(reader.fields))
    names: dict[Read, str] = {}
    for written in writer.fields:
        place = _place_of(written, waiting)
        if place is None:
            read_field = _dropping(written.node)
        else:
            read_field = reader_for(written.node, waiting.pop(place).node, column.children[place])
        names[read_field] = written.name
    defaults = [_default(writer, field, column.children[place]) for place, field in waiting.items()]
    reads = tuple(names)
    mark_valid = column.validity.append

    def read(data: bytes, position: int) -> int:
        try:
            for read_field in reads:
                position = read_field(data, position)
        except Unreadable as error:
            raise error.within(names[read_field]) from None
        except (IndexError, struct.error):
            raise Unreadable(ENDS_EARLY, names[read_field]) from None
        for add_default in defaults:
            add_default()
        mark_valid(True)
        return position

    return read


def _place_of(written: AvroField, waiting: dict[int, AvroField]) -> int | None:
    by_name = [place for place, field in waiting.items() if field.name == written.name]
    by_alias = [place for place, field in waiting.items() if written.name in field.aliases]
    return next(iter(by_name + by_alias), None)


def _dropping(writer: AvroNode) -> Read:
    """Reads a field that the reader does not have: checked like any other field, then discarded."""
    column = column_for(writer)
    read_field = reader_for(writer, writer, column)

    def read(data: bytes, position: int) -> int:
        try:
            return read_field(data, position)
        finally:
            column.truncate(0)

    return read


def _default(writer: AvroNode, field: AvroField, column: Any) -> Callable[[], Any]:
    if field.default is NO_DEFAULT:
        raise InvalidSchemaError(
            f"the field {field.name} does not exist in {writer}, which wrote the value, and has no default"
        )
    content = default_bytes(field.node, field.default)
    read_field = reader_for(field.node, field.node, column)
    return lambda: read_field(content, 0)


def _array(item: AvroNode, read_item: Read, column: ListColumn) -> Read:
    least = item.min_bytes

    def read(data: bytes, position: int) -> int:
        count, block_end, position = _block(data, position, least)
        while count:
            for _ in range(count):
                position = read_item(data, position)
            _check_block_end(position, block_end)
            column.item_count += count
            count, block_end, position = _block(data, position, least)
        column.close_row()
        return position

    return read


def _map(item: AvroNode, read_item: Read, column: MapColumn) -> Read:
    least = 1 + item.min_bytes
    keys = column.keys

    def read(data: bytes, position: int) -> int:
        first = len(keys)
        count, block_end, position = _block(data, position, least)
        while count:
            for _ in range(count):
                length, position = read_length(data, position)
                key = data[position : position + length]
                text_of(key)
                keys.append(key)
                position = read_item(data, position + length)
            _check_block_end(position, block_end)
            column.item_count += count
            count, block_end, position = _block(data, position, least)
        if len(set(keys[first:])) < len(keys) - first:
            raise Unreadable("a key of the map appears twice")
        column.close_row()
        return position

    return read


def _block(data: bytes, position: int, least: int) -> tuple[int, int | None, int]:
    """Returns (count of items, end of the block or None if it is not declared, position of the first item)."""
    count, position = read_varint(data, position)
    block_end = None
    if count < 0:
        count = -count
        size, position = read_varint(data, position)
        block_end = position + size
    if count * least > len(data) - position:
        raise Unreadable(f"the block has {count} items, and {len(data) - position} bytes are left")
    return count, block_end, position


def _check_block_end(position: int, block_end: int | None) -> None:
    if block_end is not None and position != block_end:
        raise Unreadable("the block does not have the size that it declares")


def _items(node: AvroNode) -> AvroNode:
    assert node.items is not None, f"{node} has items"
    return node.items
