"""Avro values to a column, plain or in Confluent's wire format.

Plain values are all of one schema. In the wire format each says by its id which schema wrote it: the ids of a batch
stand mixed, and each gets its own reading functions into the same column. An id that the registry does not have, or
whose schema does not resolve to the reader's, makes the values that carry it corrupt; a registry that does not answer
raises SchemaRegistryError.
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
    """With a registry the wire format is read, and `writer` is None. Raises InvalidSchemaError."""

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
        column.truncate(0)  # a registry that did not answer has left something behind
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
            raise Unreadable(f"{len(value) - end} bytes are left over behind the value")

    def _prepare(self, schema_id: int) -> Read | str:
        """The reading function of a writer's schema; or why there is none, for as long as that holds."""
        assert self._registry is not None, "only the wire format has ids"
        try:
            found = self._registry.schema_by_id(schema_id)
        except UnknownSchemaError as error:
            # Not kept: it may be registered later, and the registry's cache knows how long not to ask.
            return f"schema id {schema_id}: {error.message}"
        if len(self._reads) >= MAX_CACHED_SCHEMAS:
            self._reads.clear()
        try:
            if found.schema_type != AVRO:
                raise InvalidSchemaError(f"it is of the type {found.schema_type}")
            writer = parse_avro_schema(found.text, found.references)
            self._reads[schema_id] = reader_for(writer, self._reader, self._column)
        except InvalidSchemaError as error:
            self._reads[schema_id] = f"schema id {schema_id}: {error.message}"
        return self._reads[schema_id]
