"""Avro values to a column, plain or in Confluent's wire format.

Plain values all have one schema. In the wire format each value contains the id of its writer's schema: a batch may mix
ids, and each id has its own reading function into the same column. If the registry does not have an id, or its schema
does not resolve to the reader's, the values with that id are corrupt. If the registry does not answer,
SchemaRegistryError is raised.
"""

from __future__ import annotations

import struct
from typing import Any

from spark_streamlog.serde.avro_columns import column_for
from spark_streamlog.serde.avro_reader import ENDS_EARLY, Read, reader_for
from spark_streamlog.serde.avro_schema import AvroNode, parse_avro_schema
from spark_streamlog.serde.confluent_wire import HEADER_SIZE, schema_id_of
from spark_streamlog.serde.decoded_values import DecodedValues, Unreadable, binary_array
from spark_streamlog.serde.limits import MAX_CACHED_SCHEMAS
from spark_streamlog.serde.schema_registry import AVRO, SchemaRegistry
from spark_streamlog.serde.serde_errors import InvalidSchemaError, UnknownSchemaError


class AvroDecoder:
    """Reads the wire format if `registry` is given, else plain values of `writer`. Raises InvalidSchemaError."""

    def __init__(
        self, *, reader: AvroNode, writer: AvroNode | None = None, registry: SchemaRegistry | None = None
    ) -> None:
        assert (writer is None) != (registry is None), "either one schema wrote all values or the registry knows which"
        self.arrow_type = reader.arrow_type
        self._reader = reader
        self._registry = registry
        self._column = column_for(reader)
        self._reads: dict[int, Read | str] = {}
        self._read = None if writer is None else reader_for(writer, reader, self._column)

    def decode(self, values: Any) -> DecodedValues:
        column, faults = self._column, {}
        column.truncate(0)  # rows of a batch that failed because the registry did not answer
        for row, value in enumerate(binary_array(values).to_pylist()):
            if value is None:
                column.add_null()
                continue
            try:
                self._add(value)
            except Unreadable as error:
                faults[row] = str(error)
            except (IndexError, struct.error):
                faults[row] = ENDS_EARLY
            if row in faults:
                column.truncate(row)
                column.add_null()
        return DecodedValues(column=column.take(), faults=faults)

    def _add(self, value: bytes) -> None:
        if self._read is not None:
            end = self._read(value, 0)
        else:
            schema_id = schema_id_of(value)
            read = self._reads.get(schema_id) or self._prepare(schema_id)
            if isinstance(read, str):
                raise Unreadable(read)
            end = read(value, HEADER_SIZE)
        if end != len(value):
            raise Unreadable(f"there are {len(value) - end} bytes after the end of the value")

    def _prepare(self, schema_id: int) -> Read | str:
        """The reading function for a writer's schema, or the reason why there is none."""
        assert self._registry is not None, "only the wire format has ids"
        try:
            found = self._registry.schema_by_id(schema_id)
        except UnknownSchemaError as error:
            # Not cached here: it may be registered later, and the registry's cache bounds the requests.
            return f"schema id {schema_id}: {error.message}"
        if len(self._reads) >= MAX_CACHED_SCHEMAS:
            self._reads.clear()
        try:
            if found.schema_type != AVRO:
                raise InvalidSchemaError(f"its schema is of type {found.schema_type}")
            writer = parse_avro_schema(found.text, found.references)
            self._reads[schema_id] = reader_for(writer, self._reader, self._column)
        except InvalidSchemaError as error:
            self._reads[schema_id] = f"schema id {schema_id}: {error.message}"
        return self._reads[schema_id]
