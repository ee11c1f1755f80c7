"""A column to Avro values, plain or with a schema id before each. A null row has no bytes: it stays null."""

from __future__ import annotations

from typing import Any

from spark_streamlog.serde.avro_schema import AvroNode
from spark_streamlog.serde.avro_writer import writer_for
from spark_streamlog.serde.confluent_wire import header
from spark_streamlog.serde.encoded_rows import encode_rows


class AvroEncoder:
    """`schema_id`: the registry's id of the node's schema, None for plain values. Raises InvalidSchemaError."""

    def __init__(self, node: AvroNode, arrow_type: Any, *, schema_id: int | None = None) -> None:
        self._write_plain = writer_for(node, arrow_type)
        self._prefix = b"" if schema_id is None else header(schema_id)

    def encode(self, column: Any) -> Any:
        return encode_rows(column, self._write)

    def _write(self, dense: Any) -> list[bytes]:
        values = self._write_plain(dense)
        return [self._prefix + value for value in values] if self._prefix else values
