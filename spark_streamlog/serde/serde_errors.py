"""The errors of a format, except corrupt values.

    SerdeError
    ├── InvalidSchemaError         a schema, descriptor or type cannot be used, or not with these columns
    ├── CannotSerializeError       a row does not fit its format; fields `row`, `reason`
    ├── CorruptValueError          a value cannot be read, and the first such value fails the query
    └── SchemaRegistryError        the registry does not answer, or refuses a request
        └── UnknownSchemaError       it does not have the id, subject or version

A corrupt value is not an exception: decoders report it per row (`decoded_values`). If a registry does not know an id,
the values with that id are corrupt. If it does not answer, that says nothing about any value, and the task fails.
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
