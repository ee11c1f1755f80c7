"""JSON values to columns: whole batches by pyarrow's reader, and uncertain ones one by one by `json_value`.

Each value is wrapped as {"v":VALUE} on a line of its own. A value cannot hide the end of its line: the line ends with
`}` and the next one begins with `{`, which JSON allows only between documents, and a string cannot contain a raw line
break. So there are as many documents as values exactly if each value is part of one document. Otherwise the batch is
halved.

One case remains: a value that adds members to its wrapper, such as {"a":1},"w":{"b":2}. It needs a comma outside of all
brackets. Values that might have one are reduced to their brackets and commas; if a comma remains after all pairs of
brackets are removed, it is outside. The reader also accepts NaN and Infinity as numbers. Values with either are decided
by `json_value`.

A property test shows that the bulk reader and `json_value` agree; only `json_value` declares a value corrupt.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_streamlog.serde.decoded_values import (
    DecodedValues,
    binary_array,
    decode_by_halves,
    decode_one_by_one,
)
from spark_streamlog.serde.json_value import check_json, converter, parse_json
from spark_streamlog.serde.limits import MAX_JSON_BULK_DEPTH
from spark_streamlog.serde.spark_type_text import list_of
from spark_streamlog.serde.utf8_strings import as_text

_MAY_ADD_A_MEMBER: Final = r'[\]}]\s*,\s*"|^\s*[^\[{\s][^,]*,'
"""A comma after a closing bracket and before a name, or after a value at the very beginning that has no brackets."""
_NOT_BRACKET_OR_COMMA: Final = r'"(?:[^"\\]|\\.)*"|[^{}\[\],"]+'
_EMPTY_BRACKETS: Final = r"\{,*\}|\[,*\]"
_NOT_A_NUMBER: Final = "NaN|Inf"


class JsonDecoder:
    """Decodes JSON to the type of a schema. Raises InvalidSchemaError for a type that JSON cannot represent."""

    def __init__(self, arrow_type: Any) -> None:
        self.arrow_type = arrow_type
        self._convert = converter(arrow_type)
        self._bulk_type = _bulk_type(arrow_type)
        self._has_decimals = "decimal" in str(arrow_type)

    def decode(self, values: Any) -> DecodedValues:
        values = binary_array(values)
        if self._bulk_type is None:
            return decode_one_by_one(values, self.arrow_type, self._one)
        return decode_by_halves(values, self.arrow_type, bulk=self._bulk, one=self._one)

    def _one(self, value: bytes) -> Any:
        return self._convert(parse_json(value))

    def _bulk(self, values: Any) -> Any:
        table = _read_wrapped(values, self._bulk_type)
        if table is None:
            return None
        try:
            column = table.column("v").combine_chunks().cast(self.arrow_type)
            if self._has_decimals:
                # The reader counts a number's digits before it adds zeros up to the scale.
                column.validate(full=True)
            return column
        except pa.ArrowInvalid:
            return None


class JsonTextDecoder:
    """Decodes JSON without a schema: returns the texts unchanged if they are JSON."""

    arrow_type = pa.string()

    def decode(self, values: Any) -> DecodedValues:
        return decode_by_halves(binary_array(values), pa.string(), bulk=checked_texts, one=check_json)


def checked_texts(values: Any) -> Any:
    """The values as text if the bulk reader accepts all of them as JSON or null; else None."""
    # No value has this column: everything is parsed and nothing is kept.
    return as_text(values) if _read_wrapped(values, None) is not None else None


def _read_wrapped(values: Any, arrow_type: Any) -> Any:
    """A table with a row for each value, or None. Its column v has the type, or is missing if `arrow_type` is None."""
    texts = as_text(values)
    if texts is None:
        return None
    texts = texts.fill_null("null")
    if pc.any(pc.match_substring_regex(texts, _NOT_A_NUMBER)).as_py() or _adds_members(texts):
        return None
    name = "v" if arrow_type is not None else "w"
    lines = pc.binary_join_element_wise(f'{{"{name}":', texts, "}\n", "")
    column = pa.field("v", pa.null() if arrow_type is None else arrow_type)
    table = _parse(lines, pa.schema([column]))
    return table if table is not None and table.num_rows == len(values) else None


def _parse(lines: Any, schema: Any) -> Any:
    if not len(lines):
        return pa.table({"v": pa.array([], schema.field("v").type)})
    from pyarrow import json as arrow_json

    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    first, end = ends[lines.offset], ends[lines.offset + len(lines)]
    try:
        return arrow_json.read_json(
            pa.BufferReader(data.slice(first, end - first)),
            # One block: the reader cuts blocks at line breaks, and a value may contain line breaks.
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=end - first + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None


def _adds_members(texts: Any) -> bool:
    """Whether a value has a comma outside of all brackets, or is nested too deeply to find out."""
    candidates = texts.filter(pc.match_substring_regex(texts, _MAY_ADD_A_MEMBER))
    if not len(candidates):
        return False
    left = pc.replace_substring_regex(candidates, _NOT_BRACKET_OR_COMMA, "")
    for _ in range(MAX_JSON_BULK_DEPTH):
        left = left.filter(pc.not_equal(left, ""))
        if not len(left):
            return False
        left = pc.replace_substring_regex(left, _EMPTY_BRACKETS, "")
    return bool(pc.any(pc.not_equal(left, "")).as_py())


def _bulk_type(arrow_type: Any) -> Any:
    """The type that the bulk reader reads, to be cast afterwards; None if only `json_value` can read the type."""
    if pa.types.is_date32(arrow_type):
        return pa.string()
    if pa.types.is_struct(arrow_type):
        inner = [_bulk_type(field.type) for field in arrow_type]
        named = zip(arrow_type, inner, strict=True)
        return None if None in inner else pa.struct([field.with_type(kind) for field, kind in named])
    if pa.types.is_list(arrow_type):
        item = _bulk_type(arrow_type.value_type)
        return None if item is None else list_of(item)
    has_other_form = (
        pa.types.is_map(arrow_type)
        or pa.types.is_binary(arrow_type)
        or (pa.types.is_timestamp(arrow_type) and arrow_type.tz is None)
    )
    return None if has_other_form else arrow_type
