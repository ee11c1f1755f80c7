"""Columns that collect Avro values until a batch of them becomes one Arrow array.

Every column gets one entry per row of its parent: a value, or `add_null`. `truncate` rolls back what a corrupt value
added before the error was found, down to the rows before it. `take` returns the array and leaves the column empty.
Values are checked when they are read, so building the array does not fail.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from spark_streamlog.serde.avro_schema import AvroNode, is_number_union


class AvroColumn(Protocol):
    def add_null(self) -> None: ...

    def truncate(self, count: int) -> None:
        """Keeps the first `count` rows."""

    def take(self) -> Any: ...


class ValueColumn:
    """The column of one leaf type. `values` holds the input of `to_arrow`, with None for null."""

    def __init__(self, to_arrow: Callable[[list[Any]], Any]) -> None:
        self.values: list[Any] = []
        self._to_arrow = to_arrow

    def add_null(self) -> None:
        self.values.append(None)

    def truncate(self, count: int) -> None:
        del self.values[count:]

    def take(self) -> Any:
        array = self._to_arrow(self.values)
        self.values.clear()
        return array


class StructColumn:
    """The column of a record, with a child per field, or of a union, with a child per branch."""

    def __init__(self, names: tuple[str, ...], children: tuple[AvroColumn, ...]) -> None:
        self.children = children
        self.validity: list[bool] = []
        self._names = names

    def add_null(self) -> None:
        for child in self.children:
            child.add_null()
        self.validity.append(False)

    def truncate(self, count: int) -> None:
        for child in self.children:
            child.truncate(count)
        del self.validity[count:]

    def take(self) -> Any:
        arrays = [child.take() for child in self.children]
        fields = [pa.field(name, array.type) for name, array in zip(self._names, arrays, strict=True)]
        buffer = _validity_buffer(self.validity)
        array = pa.Array.from_buffers(pa.struct(fields), len(self.validity), [buffer], children=arrays)
        self.validity.clear()
        return array


class ListColumn:
    """The column of an array. `ends` holds, for each row, the count of items up to the end of that row."""

    def __init__(self, arrow_type: Any, items: AvroColumn) -> None:
        self.arrow_type = arrow_type
        self.items = items
        self.item_count = 0
        self.ends: list[int] = []
        self.validity: list[bool] = []

    def add_null(self) -> None:
        self.close_row(is_valid=False)

    def close_row(self, *, is_valid: bool = True) -> None:
        self.ends.append(self.item_count)
        self.validity.append(is_valid)

    def truncate(self, count: int) -> None:
        del self.ends[count:]
        del self.validity[count:]
        self.item_count = self.ends[-1] if self.ends else 0
        self.items.truncate(self.item_count)

    def take(self) -> Any:
        array = self._array([self.items.take()])
        self._clear()
        return array

    def _array(self, children: list[Any]) -> Any:
        offsets = pa.array([0, *self.ends], pa.int32()).buffers()[1]
        buffers = [_validity_buffer(self.validity), offsets]
        return pa.Array.from_buffers(self.arrow_type, len(self.ends), buffers, children=children)

    def _clear(self) -> None:
        self.item_count = 0
        self.ends.clear()
        self.validity.clear()


class MapColumn(ListColumn):
    def __init__(self, arrow_type: Any, items: AvroColumn) -> None:
        super().__init__(arrow_type, items)
        self.keys: list[bytes] = []

    def truncate(self, count: int) -> None:
        super().truncate(count)
        del self.keys[self.item_count :]

    def take(self) -> Any:
        children = [pa.array(self.keys, pa.string()), self.items.take()]
        entries_type = pa.struct([self.arrow_type.key_field, self.arrow_type.item_field])
        array = self._array([pa.Array.from_buffers(entries_type, len(self.keys), [None], children=children)])
        self._clear()
        self.keys.clear()
        return array


def column_for(node: AvroNode) -> Any:
    """An empty column for values of a type. A union with only one type besides null gets the column of that type."""
    if node.kind == "union":
        values = node.value_branches
        if len(values) == 1:
            return column_for(values[0])
        if is_number_union(values):
            return ValueColumn(_plain(node.arrow_type))
        names = tuple(f"member{place}" for place in range(len(values)))
        return StructColumn(names, tuple(column_for(branch) for branch in values))
    if node.kind == "record":
        names = tuple(field.name for field in node.fields)
        return StructColumn(names, tuple(column_for(field.node) for field in node.fields))
    if node.items is not None:
        return (MapColumn if node.kind == "map" else ListColumn)(node.arrow_type, column_for(node.items))
    return ValueColumn(_to_arrow(node))


def _to_arrow(node: AvroNode) -> Callable[[list[Any]], Any]:
    if node.kind == "enum":
        symbols = pa.array(node.symbols, pa.string())
        return lambda values: symbols.take(pa.array(values, pa.int32()))
    if node.logical == "decimal":
        return lambda values: _decimals(node.arrow_type, values)
    if node.logical in ("timestamp-millis", "local-timestamp-millis", "time-micros"):
        return lambda values: pc.multiply(pa.array(values, pa.int64()), 1000).cast(node.arrow_type)
    if node.logical is not None:
        storage = pa.int32() if node.kind == "int" else pa.int64()
        return lambda values: pa.array(values, storage).cast(node.arrow_type)
    return _plain(node.arrow_type)


def _plain(arrow_type: Any) -> Callable[[list[Any]], Any]:
    return lambda values: pa.array(values, arrow_type)


def _decimals(arrow_type: Any, numbers: list[int | None]) -> Any:
    """Decimals from their unscaled numbers. pyarrow would need a Decimal object for each."""
    width = 16
    raw = [None if number is None else number.to_bytes(width, sys.byteorder, signed=True) for number in numbers]
    fixed = pa.array(raw, pa.binary(width))
    return pa.Array.from_buffers(arrow_type, len(fixed), fixed.buffers())


def _validity_buffer(validity: list[bool]) -> Any:
    return None if all(validity) else pa.array(validity, pa.bool_()).buffers()[1]
