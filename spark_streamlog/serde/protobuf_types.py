"""A message as a tree of fields with the Arrow types that spark-protobuf chooses for their values.

    int32 sint32 sfixed32 uint32 fixed32  int       float, double, bool, string, bytes   their own
    int64 sint64 sfixed64 uint64 fixed64  bigint    enum                                 string
    message                               struct    google.protobuf.Timestamp            timestamp
    repeated T                            array     google.protobuf.Duration             interval day to second
    map<K, V>                             map       oneof                                its fields, one of them set

Unsigned numbers keep their bits, so large ones become negative, unless upcast.unsigned.ints is set (only for uint32 and
uint64, as in spark-protobuf). A field whose message has no fields is left out. Unlike in spark-protobuf every field is
nullable, a message inside itself is always refused (there is no recursive.fields.max.depth), and Any is a struct of its
two fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_streamlog.serde.limits import MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODE_COUNT
from spark_streamlog.serde.protobuf_descriptor import is_map, is_repeated, is_required
from spark_streamlog.serde.protobuf_options import ProtobufOptions
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.spark_type_text import list_of

WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double", "String", "Bytes")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufField:
    """`role` says how the values are read: scalar, unsigned, enum, message, timestamp, duration or wrapper.

    `arrow_type` is the type of one value; a repeated field is a list of it. `key` and `value` are the fields of a map's
    entry.
    """

    name: str
    descriptor: Any
    role: str
    arrow_type: Any
    message: ProtobufMessage | None = None
    key: ProtobufField | None = None
    value: ProtobufField | None = None

    @property
    def column_type(self) -> Any:
        if self.key is not None and self.value is not None:
            return pa.map_(self.key.arrow_type, self.value.arrow_type)
        return list_of(self.arrow_type) if is_repeated(self.descriptor) else self.arrow_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufMessage:
    name: str
    descriptor: Any
    fields: tuple[ProtobufField, ...]

    @property
    def arrow_type(self) -> Any:
        return pa.struct([pa.field(field.name, field.column_type) for field in self.fields])


def message_tree(descriptor: Any, options: ProtobufOptions) -> ProtobufMessage:
    """Raises InvalidSchemaError for a message inside itself, one without fields, or too many fields."""
    tree = _ProtobufTreeBuilder(options).message(descriptor, within=(descriptor.full_name,), path="")
    if not tree.fields:
        raise InvalidSchemaError(f"the Protobuf message {descriptor.full_name} has no fields")
    return tree


def has_required(tree: ProtobufMessage) -> bool:
    """Whether a field is required (proto2) at any depth. The runtime also parses messages that lack such fields."""
    inner = [one.message for field in tree.fields for one in (field, field.value) if one is not None and one.message]
    return any(is_required(field.descriptor) for field in tree.fields) or any(map(has_required, inner))


class _ProtobufTreeBuilder:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._count = 0

    def message(self, descriptor: Any, *, within: tuple[str, ...], path: str) -> ProtobufMessage:
        fields = [self._field(field, within=within, path=f"{path}.{field.name}") for field in descriptor.fields]
        return ProtobufMessage(
            name=descriptor.full_name,
            descriptor=descriptor,
            fields=tuple(field for field in fields if field is not None),
        )

    def _field(self, field: Any, *, within: tuple[str, ...], path: str) -> ProtobufField | None:
        self._count += 1
        if self._count > MAX_SCHEMA_NODE_COUNT or len(within) > MAX_SCHEMA_DEPTH:
            raise InvalidSchemaError(
                f"the Protobuf message {within[0]} has more than {MAX_SCHEMA_DEPTH} levels or {MAX_SCHEMA_NODE_COUNT}"
                " fields, counting a message at each use"
            )
        if is_map(field):
            entry = field.message_type.fields_by_name
            key = self._field(entry["key"], within=within, path=f"{path}.key")
            value = self._field(entry["value"], within=within, path=f"{path}.value")
            if key is None or value is None:
                return None
            return ProtobufField(name=field.name, descriptor=field, role="map", arrow_type=None, key=key, value=value)
        role, arrow_type = self._role(field)
        if role != "message":
            return ProtobufField(name=field.name, descriptor=field, role=role, arrow_type=arrow_type)
        name = field.message_type.full_name
        if name in within:
            raise InvalidSchemaError(
                f"the Protobuf message {name} contains itself, at {path.lstrip('.')}: Spark has no recursive types"
            )
        message = self.message(field.message_type, within=(*within, name), path=path)
        if not message.fields:
            return None
        return ProtobufField(
            name=field.name, descriptor=field, role=role, arrow_type=message.arrow_type, message=message
        )

    def _role(self, field: Any) -> tuple[str, Any]:
        if field.message_type is not None:
            return self._message_role(field.message_type)
        if field.type == field.TYPE_ENUM:
            return ("scalar", pa.int32()) if self._options.enums_as_ints else ("enum", pa.string())
        if self._options.upcasts_unsigned and field.type in (field.TYPE_UINT32, field.TYPE_UINT64):
            return "scalar", pa.int64() if field.type == field.TYPE_UINT32 else pa.decimal128(20, 0)
        scalars = {
            field.CPPTYPE_INT32: ("scalar", pa.int32()),
            field.CPPTYPE_UINT32: ("unsigned", pa.int32()),
            field.CPPTYPE_INT64: ("scalar", pa.int64()),
            field.CPPTYPE_UINT64: ("unsigned", pa.int64()),
            field.CPPTYPE_FLOAT: ("scalar", pa.float32()),
            field.CPPTYPE_DOUBLE: ("scalar", pa.float64()),
            field.CPPTYPE_BOOL: ("scalar", pa.bool_()),
        }
        if field.cpp_type in scalars:
            return scalars[field.cpp_type]
        return "scalar", pa.binary() if field.type == field.TYPE_BYTES else pa.string()

    def _message_role(self, message: Any) -> tuple[str, Any]:
        if [field.name for field in message.fields] == ["seconds", "nanos"]:
            # Spark also recognizes these names in any package, because it may be a shaded one.
            if message.name == "Timestamp":
                return "timestamp", pa.timestamp("us", "UTC")
            if message.name == "Duration":
                return "duration", pa.duration("us")
        if self._options.unwraps_wrappers and message.full_name in WRAPPERS:
            role, arrow_type = self._role(message.fields_by_name["value"])
            return f"wrapped {role}", arrow_type
        return "message", None
