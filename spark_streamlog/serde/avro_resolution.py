"""Schema resolution by the Avro specification: which types of a reader can read a writer's type.

    int -> long, float, double      long -> float, double      float -> double      string <-> bytes
    enum, fixed                     of the same name, without its namespace, or by the reader's alias
    record, array, map              of the same kind; the types inside are resolved in turn
    a branch of a reader's union    the same type first, then the same name, then the first that numbers widen to

Logical types must be equal, or missing on one side: 5 milliseconds are not 5 microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_streamlog.serde.avro_schema import AvroNode
from spark_streamlog.serde.serde_errors import InvalidSchemaError

PROMOTIONS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
NAMED_KINDS: Final = ("record", "error", "enum", "fixed")


def check_resolves(writer: AvroNode, reader: AvroNode) -> None:
    """Raises InvalidSchemaError if two types that are not unions do not resolve. Does not check the types inside."""
    if reader.kind != writer.kind and reader.kind not in PROMOTIONS.get(writer.kind, ()):
        raise mismatch(writer, reader, "they are different types")
    if writer.kind in ("enum", "fixed") and not _is_named_alike(writer, reader):
        raise mismatch(writer, reader, "their names differ")
    if writer.kind == "fixed" and writer.size != reader.size:
        raise mismatch(writer, reader, f"their sizes differ: {writer.size} and {reader.size} bytes")
    if writer.logical and reader.logical and writer.logical != reader.logical:
        raise mismatch(writer, reader, "their logical types differ")
    if reader.logical == "decimal" and reader.kind != writer.kind:
        raise mismatch(writer, reader, "a decimal can only be read from the same type")
    if writer.logical == reader.logical == "decimal" and writer.arrow_type.scale != reader.arrow_type.scale:
        raise mismatch(writer, reader, f"their scales differ: {writer.arrow_type.scale} and {reader.arrow_type.scale}")


def best_branch(writer: AvroNode, branches: Sequence[AvroNode]) -> int | None:
    """The index of the branch that can read a writer's type, or None."""
    same_kind = [place for place, branch in enumerate(branches) if branch.kind == writer.kind]
    if writer.kind not in NAMED_KINDS:
        if same_kind:
            return same_kind[0]
        wider = PROMOTIONS.get(writer.kind, ())
        return next((place for place, branch in enumerate(branches) if branch.kind in wider), None)
    for place in same_kind:
        if branches[place].name == writer.name:
            return place
    return next((place for place in same_kind if _is_named_alike(writer, branches[place])), None)


def mismatch(writer: AvroNode, reader: AvroNode, why: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"what was written as {writer} cannot be read as {reader}: {why}")


def _is_named_alike(writer: AvroNode, reader: AvroNode) -> bool:
    name = _unqualified(writer.name)
    return name == _unqualified(reader.name) or name in map(_unqualified, reader.aliases)


def _unqualified(name: str) -> str:
    return name.rpartition(".")[2]
