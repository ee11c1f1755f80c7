"""Encodes a column with a function for rows without nulls: nulls stay null, and an error names its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_streamlog.serde.serde_errors import CannotSerializeError


class Unwritable(Exception):
    """A row does not fit the schema; the text is the reason. Raised and caught within serde/."""


def encode_rows(column: Any, write: Callable[[Any], list[bytes]]) -> Any:
    """`write` takes an array without nulls and raises Unwritable; this raises CannotSerializeError with the row."""
    dense = column.drop_null() if column.null_count else column
    try:
        values = write(dense)
    except Unwritable:
        raise _first_failing_row(column, write) from None
    if not column.null_count:
        return pa.array(values, pa.binary())
    following = iter(values)
    rows = [next(following) if is_valid else None for is_valid in column.is_valid().to_pylist()]
    return pa.array(rows, pa.binary())


def _first_failing_row(column: Any, write: Callable[[Any], list[bytes]]) -> CannotSerializeError:
    for row in range(len(column)):
        one = column.slice(row, 1)
        try:
            if not one.null_count:
                write(one)
        except Unwritable as error:
            return CannotSerializeError(str(error), row=row, reason=str(error))
    raise AssertionError("what fails as a whole fails in one of its rows")
