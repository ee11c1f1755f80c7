"""Derives the Avro schema of a column if none is given, as spark-avro's to_avro does.

    nullable T      [T, null]                       decimal(p,s)    fixed `<record>.<field>.fixed`, as short as p allows
    struct          record, named after its field   timestamp       timestamp-micros; timestamp_ntz the local one
    tinyint …       int                             time            time-micros

The outermost record is named `topLevelRecord` by default. There is one difference to spark-avro: the value as a whole
is never a union with null, because a null value has no bytes at all.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from spark_streamlog.serde.serde_errors import InvalidSchemaError

TOP_LEVEL_RECORD: Final = "topLevelRecord"

_PLAIN: Final[dict[Any, Any]] = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int", pa.int64(): "long",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.large_string(): "string",
    pa.binary(): "bytes", pa.large_binary(): "bytes", pa.null(): "null",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.time64("ns"): {"type": "long", "logicalType": "time-micros"},
}  # fmt: skip


def derive_schema(arrow_type: Any, *, name: str = TOP_LEVEL_RECORD, namespace: str = "") -> Any:
    """The schema as JSON values. Raises InvalidSchemaError for a type that Avro cannot represent."""
    if arrow_type in _PLAIN:
        return _PLAIN[arrow_type]
    if pa.types.is_timestamp(arrow_type):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_decimal(arrow_type):
        return _decimal(arrow_type, f"{namespace}.{name}" if namespace else name)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return {"type": "array", "items": _nullable(arrow_type.value_field, name=name, namespace=namespace)}
    if pa.types.is_map(arrow_type):
        if not pa.types.is_string(arrow_type.key_type):
            raise InvalidSchemaError(f"the keys of an Avro map must be strings, not {arrow_type.key_type}")
        return {"type": "map", "values": _nullable(arrow_type.item_field, name=name, namespace=namespace)}
    if pa.types.is_struct(arrow_type):
        inside = f"{namespace}.{name}" if namespace else name
        fields = [
            {"name": field.name, "type": _nullable(field, name=field.name, namespace=inside)} for field in arrow_type
        ]
        return {"type": "record", "name": name, **({"namespace": namespace} if namespace else {}), "fields": fields}
    raise InvalidSchemaError(f"the type {arrow_type} cannot be written as Avro")


def _nullable(field: Any, *, name: str, namespace: str) -> Any:
    schema = derive_schema(field.type, name=name, namespace=namespace)
    return [schema, "null"] if field.nullable and schema != "null" else schema


def _decimal(arrow_type: Any, namespace: str) -> Any:
    size = next(size for size in range(1, 17) if 10**arrow_type.precision - 1 < 1 << (8 * size - 1))
    return {
        "type": "fixed", "name": "fixed", "namespace": namespace, "size": size, "logicalType": "decimal",
        "precision": arrow_type.precision, "scale": arrow_type.scale,
    }  # fmt: skip
