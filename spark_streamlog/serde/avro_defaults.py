"""A field's default, which a schema gives as JSON, as the bytes that a writer would have written."""

from __future__ import annotations

import struct
from typing import Any

from spark_streamlog.serde.avro_schema import AvroNode
from spark_streamlog.serde.avro_varint import varint
from spark_streamlog.serde.serde_errors import InvalidSchemaError


def default_bytes(node: AvroNode, default: Any) -> bytes:
    """Raises InvalidSchemaError if the default does not fit the type. Bytes are text, one character per byte."""
    try:
        if node.kind == "union":
            return _of_union(node, default)
        return _of(node, default)
    except (TypeError, ValueError, KeyError, AttributeError, struct.error, OverflowError):
        raise InvalidSchemaError(f"the default {default!r} in the Avro schema does not fit the type {node}") from None


def _of(node: AvroNode, default: Any) -> bytes:
    kind = node.kind
    if kind == "null" and default is None:
        return b""
    if kind == "boolean" and isinstance(default, bool):
        return b"\1" if default else b"\0"
    if kind in ("int", "long") and isinstance(default, int) and not isinstance(default, bool):
        default.to_bytes(4 if kind == "int" else 8, "big", signed=True)
        return varint(default)
    if kind in ("float", "double") and not isinstance(default, bool):
        return struct.pack("<f" if kind == "float" else "<d", float(default))
    if kind == "string" and isinstance(default, str):
        return varint(len(default.encode())) + default.encode()
    if kind == "bytes":
        return varint(len(default)) + bytes(default.encode("latin-1"))
    if kind == "fixed" and len(default) == node.size:
        return bytes(default.encode("latin-1"))
    if kind == "enum":
        return varint(node.symbols.index(default))
    if kind == "record":
        return b"".join(default_bytes(field.node, default.get(field.name, field.default)) for field in node.fields)
    if kind == "array" and isinstance(default, list):
        return _block([default_bytes(_items(node), one) for one in default])
    if kind == "map":
        named = ((name.encode(), default_bytes(_items(node), one)) for name, one in default.items())
        return _block([varint(len(name)) + name + one for name, one in named])
    raise TypeError


def _of_union(node: AvroNode, default: Any) -> bytes:
    """Uses the first branch that the default fits; by the specification that is the very first branch."""
    for place, branch in enumerate(node.branches):
        try:
            return varint(place) + default_bytes(branch, default)
        except InvalidSchemaError:
            continue
    raise ValueError


def _items(node: AvroNode) -> AvroNode:
    assert node.items is not None, f"{node} has items"
    return node.items


def _block(items: list[bytes]) -> bytes:
    return varint(len(items)) + b"".join(items) + b"\0" if items else b"\0"
