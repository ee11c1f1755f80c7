"""Kafka's StringSerializer and StringDeserializer with their default encoding, UTF-8.

Bytes that are not UTF-8 are corrupt here; Kafka's own deserializer silently replaces them with U+FFFD.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_streamlog.serde.decoded_values import DecodedValues, Unreadable, binary_array, decode_by_halves
from spark_streamlog.serde.serde_errors import InvalidSchemaError


class StringDecoder:
    arrow_type = pa.string()

    def decode(self, values: Any) -> DecodedValues:
        return decode_by_halves(binary_array(values), pa.string(), bulk=as_text, one=text_of)


class StringEncoder:
    """Returns text unchanged: it is UTF-8 already."""

    def __init__(self, arrow_type: Any) -> None:
        if not is_text(arrow_type):
            raise InvalidSchemaError(f"{arrow_type} cannot be written as string")

    def encode(self, column: Any) -> Any:
        return column


def is_text(arrow_type: Any) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def as_text(values: Any) -> Any:
    """The same bytes as a string array; None if some are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def text_of(value: bytes) -> str:
    """Raises Unreadable."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8: {error.reason} at byte {error.start}") from None
