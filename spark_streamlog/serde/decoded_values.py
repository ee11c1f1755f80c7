"""The interfaces of decoders and encoders, and the search for the rows that a bulk step cannot decode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from spark_streamlog.serde.limits import MAX_REASON_CHARACTERS, SMALL_PIECE_ROWS


class Unreadable(Exception):
    """One value is corrupt; the text is the reason. Raised and caught within serde/."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def within(self, name: str) -> Unreadable:
        """The same error, found inside the field with that name."""
        return Unreadable(self.reason, f"{name}.{self.path}" if self.path else name)

    def __str__(self) -> str:
        text = f"field {self.path}: {self.reason}" if self.path else self.reason
        return text if len(text) <= MAX_REASON_CHARACTERS else text[: MAX_REASON_CHARACTERS - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedValues:
    """`column` has one row per value: null if the value is null or in `faults`, which maps row numbers to reasons."""

    column: Any
    faults: Mapping[int, str]


class Decoder(Protocol):
    """Decodes one format with its schema. `arrow_type` is the type that Spark expects for the column."""

    @property
    def arrow_type(self) -> Any: ...

    def decode(self, values: Any) -> DecodedValues:
        """`values` is a binary array. No content of a value raises an error."""


class Encoder(Protocol):
    """Encodes columns of one type into one format with its schema."""

    def encode(self, column: Any) -> Any:
        """Returns a binary or string array with as many rows. Raises CannotSerializeError if a row does not fit."""


def binary_array(values: Any) -> Any:
    """Any array of bytes or text as a binary array with 32-bit offsets."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if values.type == pa.binary() else values.cast(pa.binary())


def decode_by_halves(
    values: Any, arrow_type: Any, *, bulk: Callable[[Any], Any], one: Callable[[bytes], Any]
) -> DecodedValues:
    """Decodes all rows at once. If `bulk` returns None, decodes each half, and small pieces row by row with `one`.

    `bulk` takes a binary array and returns the column. `one` takes a value that is not null, and returns a Python value
    or raises Unreadable. A valid batch costs one bulk step; each corrupt row costs a few more, and up to 64 single
    rows.
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
