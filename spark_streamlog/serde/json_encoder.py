"""Columns to JSON texts, whole batches at once.

    struct          {"a":1}; fields that are null are left out, as by Spark's to_json
    map             {"k":1}; keys are strings; null values are kept
    array           [1,null]
    date            "2024-02-29"            timestamp       "2024-02-29T12:00:00.000000Z", always UTC
    decimal         1.25                    timestamp_ntz   "2024-02-29T12:00:00.000000"
    binary          base64 (the only type that costs a Python object per value)
    float, double   1.5; NaN and the infinities as text, because JSON has no numbers for them

A column of text is treated as JSON and only checked, so values that the source returned without a schema can be written
unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_streamlog.serde.decoded_values import Unreadable
from spark_streamlog.serde.json_decoder import checked_texts
from spark_streamlog.serde.json_value import check_json
from spark_streamlog.serde.serde_errors import CannotSerializeError, InvalidSchemaError
from spark_streamlog.serde.utf8_strings import is_text

Write = Callable[[Any], Any]
"""Takes an array and returns an array of texts; null stays null."""

_CONTROL: Final = "[\\x00-\\x1f]"
_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class JsonEncoder:
    """For columns of structs, maps and arrays. Raises InvalidSchemaError for a type that JSON cannot represent."""

    def __init__(self, arrow_type: Any) -> None:
        if not (pa.types.is_struct(arrow_type) or pa.types.is_map(arrow_type) or _is_list(arrow_type)):
            raise InvalidSchemaError(f"{arrow_type} cannot be written as JSON")
        self._write = _writer(arrow_type)

    def encode(self, column: Any) -> Any:
        return self._write(column)


class JsonTextEncoder:
    def encode(self, column: Any) -> Any:
        """Raises CannotSerializeError for a text that is not JSON."""
        values = column.cast(pa.binary())
        if checked_texts(values) is None:
            for row, value in enumerate(values.to_pylist()):
                try:
                    if value is not None:
                        check_json(value)
                except Unreadable as error:
                    raise CannotSerializeError(str(error), row=row, reason=str(error)) from None
        return column


def _writer(arrow_type: Any) -> Write:
    if pa.types.is_struct(arrow_type):
        return _struct(arrow_type)
    if pa.types.is_map(arrow_type):
        return _map(arrow_type)
    if _is_list(arrow_type):
        return _list(arrow_type)
    if is_text(arrow_type):
        return _quoted_text
    if pa.types.is_floating(arrow_type):
        return _number
    if pa.types.is_timestamp(arrow_type):
        return _timestamp
    if pa.types.is_date32(arrow_type):
        return lambda array: _in_quotes(array.cast(pa.string()))
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return _base64
    if pa.types.is_boolean(arrow_type) or pa.types.is_integer(arrow_type) or pa.types.is_decimal(arrow_type):
        return lambda array: array.cast(pa.string())
    raise InvalidSchemaError(f"the type {arrow_type} cannot be written as JSON")


def _struct(arrow_type: Any) -> Write:
    writers = [(f"{_name(field.name)}:", _writer(field.type)) for field in arrow_type]

    def write(array: Any) -> Any:
        # Each member includes its comma. (Joining with commas and null_handling="skip" loses rows that are all null.)
        members = [
            pc.binary_join_element_wise(name, write_field(column), ",", "").fill_null("")
            for (name, write_field), column in zip(writers, array.flatten(), strict=True)
        ]
        joined = pc.binary_join_element_wise(*members, "") if members else pa.repeat("", len(array))
        inside = pc.ascii_rtrim(joined, characters=",")
        return _null_where(array, pc.binary_join_element_wise("{", inside, "}", ""))

    return write


def _list(arrow_type: Any) -> Write:
    write_item = _writer(arrow_type.value_type)

    def write(array: Any) -> Any:
        return _bracketed(array, write_item(array.flatten()).fill_null("null"), "[", "]")

    return write


def _map(arrow_type: Any) -> Write:
    if not is_text(arrow_type.key_type):
        raise InvalidSchemaError(f"the keys of a JSON map must be strings, not {arrow_type.key_type}")
    write_item = _writer(arrow_type.item_type)

    def write(array: Any) -> Any:
        keys, items = map_entries(array)
        values = write_item(items).fill_null("null")
        return _bracketed(array, pc.binary_join_element_wise(_quoted_text(keys), values, ":"), "{", "}")

    return write


def map_entries(array: Any) -> tuple[Any, Any]:
    """Keys and values of the rows of a map array, which may be a slice; null rows have none."""
    rows = array.drop_null() if array.null_count else array
    if not len(rows):
        return rows.keys.slice(0, 0), rows.items.slice(0, 0)
    first, end = rows.offsets[0].as_py(), rows.offsets[len(rows)].as_py()
    return rows.keys.slice(first, end - first), rows.items.slice(first, end - first)


def entry_counts(array: Any) -> Any:
    """The count of items in each row of a list or map array; 0 for null, whose items `flatten` leaves out too."""
    if pa.types.is_map(array.type):
        lengths = pc.subtract(array.offsets.slice(1), array.offsets.slice(0, len(array)))
        return pc.if_else(array.is_valid(), lengths, 0)
    return pc.list_value_length(array).fill_null(0)


def _bracketed(array: Any, texts: Any, opening: str, closing: str) -> Any:
    ends = pc.cumulative_sum(entry_counts(array)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    inside = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return _null_where(array, pc.binary_join_element_wise(opening, inside, closing, ""))


def _null_where(array: Any, texts: Any) -> Any:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string())) if array.null_count else texts


def _quoted_text(array: Any) -> Any:
    texts = array.cast(pa.string())
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"')):
        texts = pc.replace_substring(texts, plain, escaped)
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        for code in range(0x20):
            texts = pc.replace_substring(texts, chr(code), _ESCAPES.get(chr(code), f"\\u{code:04x}"))
    return _in_quotes(texts)


def _name(name: str) -> str:
    escaped: str = _quoted_text(pa.array([name]))[0].as_py()
    return escaped


def _in_quotes(texts: Any) -> Any:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _number(array: Any) -> Any:
    texts = array.cast(pa.string())
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return texts
    named = pc.if_else(pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(pc.is_finite(array), texts, named)


def _timestamp(array: Any) -> Any:
    zone = "Z" if array.type.tz else ""
    texts = array.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise('"', pc.replace_substring(texts, " ", "T"), f'{zone}"', "")


def _base64(array: Any) -> Any:
    texts = [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    return _in_quotes(pa.array(texts, pa.string()))


def _is_list(arrow_type: Any) -> bool:
    return bool(pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type))
