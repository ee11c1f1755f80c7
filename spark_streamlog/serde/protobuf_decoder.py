"""Protobuf values to a column of structs, plain or in Confluent's wire format.

Google's runtime parses each message, bounded to 100 levels; the descriptor set gives the names of fields. The wire
format's schema id is not looked up: fields are identified by their numbers, and Protobuf's own rules define which
changes are compatible. The message indexes are checked: they must identify the expected message in the file of the
descriptor set.

As in spark-protobuf, a value is corrupt if a field number of the message has another wire type; by the rules of the
runtime that field would be lost silently. An unknown number of a proto2 enum counts as such a field, as in
spark-protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_streamlog.serde.confluent_wire import HEADER_SIZE, read_message_indexes, schema_id_of
from spark_streamlog.serde.decoded_values import DecodedValues, Unreadable, binary_array
from spark_streamlog.serde.protobuf_columns import message_gatherer
from spark_streamlog.serde.protobuf_descriptor import message_at
from spark_streamlog.serde.protobuf_options import ProtobufOptions
from spark_streamlog.serde.protobuf_types import has_required, message_tree


class ProtobufDecoder:
    """Raises InvalidSchemaError for a message that has no Spark type."""

    def __init__(self, descriptor: Any, options: ProtobufOptions, *, is_wire_format: bool = False) -> None:
        from google.protobuf import message_factory, unknown_fields
        from google.protobuf.message import DecodeError

        tree = message_tree(descriptor, options)
        self.arrow_type = tree.arrow_type
        self._descriptor = descriptor
        self._is_wire_format = is_wire_format
        self._message_class: Any = message_factory.GetMessageClass(descriptor)
        self._unknown_fields = unknown_fields.UnknownFieldSet
        self._decode_error = DecodeError
        self._names: Mapping[int, str] = {field.number: field.name for field in descriptor.fields}
        self._has_required = has_required(tree)
        self._known_indexes: dict[tuple[int, ...], str | None] = {}
        self._gather = message_gatherer(tree, options)

    def decode(self, values: Any) -> DecodedValues:
        faults: dict[int, str] = {}
        messages: list[Any] = []
        for row, value in enumerate(binary_array(values).to_pylist()):
            try:
                messages.append(None if value is None else self._parse(value))
            except Unreadable as error:
                faults[row] = str(error)
                messages.append(None)
        try:
            column = self._gather(messages)
        except Unreadable:
            self._drop_values_that_do_not_fit(messages, 0, len(messages), faults)
            column = self._gather(messages)
        return DecodedValues(column=column, faults=dict(sorted(faults.items())))

    def _drop_values_that_do_not_fit(self, messages: list[Any], start: int, end: int, faults: dict[int, str]) -> None:
        """Searches by halves, because a value that does not fit its type is rare."""
        try:
            self._gather(messages[start:end])
        except Unreadable as error:
            if end - start > 1:
                middle = (start + end) // 2
                self._drop_values_that_do_not_fit(messages, start, middle, faults)
                self._drop_values_that_do_not_fit(messages, middle, end, faults)
            else:
                faults[start] = str(error)
                messages[start] = None

    def _parse(self, value: bytes) -> Any:
        if self._is_wire_format:
            schema_id_of(value)
            indexes, position = read_message_indexes(value, HEADER_SIZE)
            self._check_message(indexes)
            value = value[position:]
        try:
            message = self._message_class.FromString(value)
        except self._decode_error:
            raise Unreadable(f"not a {self._descriptor.full_name}, or its text is not UTF-8") from None
        if self._has_required and not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise Unreadable(f"a required field is missing: {missing}")
        for unknown in self._unknown_fields(message):
            if unknown.field_number in self._names:
                name = self._names[unknown.field_number]
                raise Unreadable(f"field {name} ({unknown.field_number}) was written as another type")
        return message

    def _check_message(self, indexes: tuple[int, ...]) -> None:
        if indexes not in self._known_indexes:
            if len(self._known_indexes) > 1000:
                self._known_indexes.clear()
            self._known_indexes[indexes] = message_at(self._descriptor, indexes)
        found = self._known_indexes[indexes]
        if found != self._descriptor.full_name:
            place = list(indexes[:10])
            raise Unreadable(f"the message at {place} is {found or 'unknown'}, not {self._descriptor.full_name}")
