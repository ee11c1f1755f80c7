"""What can go wrong with a format, beside a value that is corrupt.

    SerdeError
    ├── InvalidSchemaError         a schema, descriptor or type that cannot be used, or not with these columns
    ├── CannotSerializeError       a row that its format cannot hold; fields `row`, `reason`
    ├── CorruptValueError          a value that cannot be read where the first one ends the query
    └── SchemaRegistryError        the registry does not answer, or refuses
        └── UnknownSchemaError       it does not have the id, subject or version

A corrupt value by itself is no exception: decoders say it row by row (`decoded_values`). What a registry answers to an
id is a fact about the value that carries it; that it does not answer says nothing about any value and fails the task.
"""

from __future__ import annotations

from broker_core.model.exceptions import StreamlogError


class SerdeError(StreamlogError):
    pass


class InvalidSchemaError(SerdeError):
    pass


class CannotSerializeError(SerdeError):
    """Fields: `row` (counted from 0 in the array), `reason`."""


class CorruptValueError(SerdeError):
    pass


class SchemaRegistryError(SerdeError):
    pass


class UnknownSchemaError(SchemaRegistryError):
    pass
