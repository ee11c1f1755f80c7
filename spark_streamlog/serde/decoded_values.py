"""What decoders and encoders look like to their users, and the search for the rows that a bulk step cannot take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from spark_streamlog.serde.limits import MAX_REASON_CHARACTERS, SMALL_PIECE_ROWS


class Unreadable(Exception):
    """One value is corrupt; the text is the reason. Made and caught within the serdes."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def within(self, name: str) -> Unreadable:
        """The same, found inside a field of that name."""
        return Unreadable(self.reason, f"{name}.{self.path}" if self.path else name)

    def __str__(self) -> str:
        text = f"field {self.path}: {self.reason}" if self.path else self.reason
        return text if len(text) <= MAX_REASON_CHARACTERS else text[: MAX_REASON_CHARACTERS - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedValues:
    """`column` has a row for each value: null where the value is null or in `faults`, which maps rows to reasons."""

    column: Any
    faults: Mapping[int, str]


class Decoder(Protocol):
    """Of one format with its schema. `arrow_type` is what Spark takes for the column's type."""

    @property
    def arrow_type(self) -> Any: ...

    def decode(self, values: Any) -> DecodedValues:
        """A binary array in; never raises for what the bytes are."""


class Encoder(Protocol):
    """Of one format with its schema, for columns of one type."""

    def encode(self, column: Any) -> Any:
        """Gives a binary or string array with as many rows. Raises CannotSerializeError for a row that cannot be."""


def binary_array(values: Any) -> Any:
    """Narrow binary of any array of bytes or text."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if values.type == pa.binary() else values.cast(pa.binary())


def decode_by_halves(
    values: Any, arrow_type: Any, *, bulk: Callable[[Any], Any], one: Callable[[bytes], Any]
) -> DecodedValues:
    """Decodes all rows at once; where `bulk` gives None, in halves, and small pieces of them row by row with `one`.

    `bulk` takes a binary array and gives the column, `one` takes a value that is not null and gives a Python value or
    raises Unreadable. A healthy batch costs one bulk step; each corrupt row costs a few more and 64 rows one by one.
    """
    columns: list[Any] = []
    faults: dict[int, str] = {}
    waiting = [(0, len(values))]
    while waiting:
        start, length = waiting.pop()
        piece = values.slice(start, length)
        column = bulk(piece)
        if column is not None:
            columns.append(column)
        elif length > SMALL_PIECE_ROWS:
            half = length // 2
            waiting += [(start + half, length - half), (start, half)]
        else:
            decoded = decode_one_by_one(piece, arrow_type, one)
            columns.append(decoded.column)
            faults |= {start + row: reason for row, reason in decoded.faults.items()}
    column = columns[0] if len(columns) == 1 else pa.concat_arrays([*columns, pa.array([], arrow_type)])
    return DecodedValues(column=column, faults=faults)


def decode_one_by_one(values: Any, arrow_type: Any, one: Callable[[bytes], Any]) -> DecodedValues:
    found: list[Any] = []
    faults: dict[int, str] = {}
    for row, value in enumerate(values.to_pylist()):
        try:
            found.append(None if value is None else one(value))
        except Unreadable as error:
            faults[row] = str(error)
            found.append(None)
    return DecodedValues(column=pa.array(found, arrow_type), faults=faults)
