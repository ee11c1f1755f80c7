"""An Avro schema as a tree with all names resolved, and the Arrow types of its values.

fastavro checks a schema against the specification; this tree keeps what reading and writing need. The types are those
of spark-avro 4.2:

    boolean int long float double bytes string   the same in Spark          null            void
    int date                  date                                          enum            string
    long timestamp-millis, timestamp-micros        timestamp                fixed           binary
    long local-timestamp-millis, local-…-micros    timestamp_ntz            array, map      array, map<string, …>
    long time-micros          time(6)                                       record          struct
    bytes, fixed decimal      decimal(p,s), at most 38 digits
    [null, T]                 T, nullable          [int, long] bigint       [float, double] double
    other unions              struct<member0: …, member1: …> with one member set; null is not a member

Any other logical type is ignored, as the specification requires: time-millis is an int, uuid a string, duration binary.
Unlike in spark-avro every field is nullable. Refused are a record inside itself (there is no recursiveFieldMaxDepth),
an array whose items take no bytes, because its length would be unbounded, and a decimal too long for its fixed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_streamlog.serde.limits import (
    MAX_DECIMAL_PRECISION,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_NODE_COUNT,
)
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.spark_type_text import list_of

NO_DEFAULT: Final = object()

_PRIMITIVES: Final[Mapping[str, Any]] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_LOGICAL: Final[Mapping[tuple[str, str], Any]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "time-micros"): pa.time64("ns"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroField:
    """`default` is a JSON value, or NO_DEFAULT."""

    name: str
    node: AvroNode
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroNode:
    """One type. `kind` is the specification's name, or `union`; the other fields are set for the kinds that use them.

    `logical` is the name of a supported logical type; precision and scale of a decimal are in `arrow_type`.
    `min_bytes` is the minimum size of a value.
    """

    kind: str
    arrow_type: Any
    min_bytes: int
    logical: str | None = None
    name: str = ""
    aliases: tuple[str, ...] = ()
    size: int = 0
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    items: AvroNode | None = None
    branches: tuple[AvroNode, ...] = ()
    fields: tuple[AvroField, ...] = ()

    @property
    def null_branch(self) -> int | None:
        return next((place for place, branch in enumerate(self.branches) if branch.kind == "null"), None)

    @property
    def value_branches(self) -> tuple[AvroNode, ...]:
        """The branches of a union except null."""
        return tuple(branch for branch in self.branches if branch.kind != "null")

    @property
    def is_struct_union(self) -> bool:
        """Whether the column of this union is a struct with a member for each branch."""
        return self.kind == "union" and len(self.value_branches) > 1 and not is_number_union(self.value_branches)

    def __str__(self) -> str:
        if self.kind == "union":
            return f"[{', '.join(map(str, self.branches))}]"
        named = f"{self.kind} {self.name}" if self.name else self.kind
        return f"{named} ({self.logical})" if self.logical else named


def is_number_union(branches: tuple[AvroNode, ...]) -> bool:
    return len(branches) == 2 and {branch.kind for branch in branches} in ({"int", "long"}, {"float", "double"})


def parse_avro_schema(text: str, references: tuple[str, ...] = ()) -> AvroNode:
    """The tree of a schema in JSON. `references` are schemas that define names it uses. Raises InvalidSchemaError."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    named: dict[str, Any] = {}
    try:
        for reference in references:
            parse_schema(_document(reference), named_schemas=named)
        parsed = parse_schema(_document(text), named_schemas=named)
    except UnknownType as error:
        raise InvalidSchemaError(f"the Avro schema uses a type that it does not define: {error.name}") from None
    except SchemaParseException as error:
        raise InvalidSchemaError(f"the Avro schema is invalid: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidSchemaError(f"the Avro schema is invalid: {error!r}") from None
    return _AvroTreeBuilder(named).node(parsed, within=(), path="")


def _document(text: str) -> Any:
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidSchemaError(f"the Avro schema has {len(text)} characters; the limit is {MAX_SCHEMA_BYTES}")
    if text.strip() in _PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"the Avro schema is not JSON: {error}") from None


class _AvroTreeBuilder:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._count = 0

    def node(self, found: Any, *, within: tuple[str, ...], path: str, depth: int = 0) -> AvroNode:
        """`within` are the names of the enclosing records, outermost first."""
        self._count += 1
        if depth > MAX_SCHEMA_DEPTH or self._count > MAX_SCHEMA_NODE_COUNT:
            raise InvalidSchemaError(
                f"the Avro schema has more than {MAX_SCHEMA_DEPTH} levels or {MAX_SCHEMA_NODE_COUNT} types, counting "
                f"a named type at each use, at {path or 'its top'}"
            )
        if isinstance(found, list):
            return self._union(found, within=within, path=path, depth=depth)
        if isinstance(found, str):
            if found in _PRIMITIVES:
                return _primitive(found, {})
            return self.node(self._named[found], within=within, path=path, depth=depth)
        kind = found["type"]
        if kind in ("record", "error"):
            return self._record(found, within=within, path=path, depth=depth)
        if kind == "array":
            return self._array(found, within=within, path=path, depth=depth)
        if kind == "map":
            item = self.node(found["values"], within=within, path=f"{path}.value", depth=depth + 1)
            return AvroNode(kind="map", arrow_type=pa.map_(pa.string(), item.arrow_type), min_bytes=1, items=item)
        if kind == "enum":
            if not isinstance(found["symbols"], list):
                raise InvalidSchemaError(f"the Avro enum {found['name']} has no list of symbols")
            return AvroNode(
                kind="enum", arrow_type=pa.string(), min_bytes=1, name=found["name"], aliases=_aliases(found),
                symbols=tuple(found["symbols"]), default_symbol=found.get("default"),
            )  # fmt: skip
        if kind == "fixed":
            return _fixed(found)
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return _primitive(kind, found)
        # {"type": {"type": …}} and {"type": "some.Name"} mean the same as the inner type.
        return self.node(kind, within=within, path=path, depth=depth + 1)

    def _record(self, found: Any, *, within: tuple[str, ...], path: str, depth: int) -> AvroNode:
        name = found["name"]
        if name in within:
            raise InvalidSchemaError(
                f"the Avro record {name} contains itself, at {path.lstrip('.')}: Spark has no recursive types"
            )
        fields = tuple(
            AvroField(
                name=field["name"],
                node=self.node(field["type"], within=(*within, name), path=f"{path}.{field['name']}", depth=depth + 1),
                aliases=tuple(field.get("aliases", ())),
                default=field.get("default", NO_DEFAULT),
            )
            for field in found.get("fields", ())
        )
        _refuse_repeated(f"the Avro record {name} has the fields", [field.name for field in fields])
        return AvroNode(
            kind="record",
            arrow_type=pa.struct([pa.field(field.name, field.node.arrow_type) for field in fields]),
            min_bytes=sum(field.node.min_bytes for field in fields),
            name=name,
            aliases=_aliases(found),
            fields=fields,
        )

    def _array(self, found: Any, *, within: tuple[str, ...], path: str, depth: int) -> AvroNode:
        item = self.node(found["items"], within=within, path=f"{path}.element", depth=depth + 1)
        if item.min_bytes == 0:
            raise InvalidSchemaError(
                f"the Avro array at {path.lstrip('.') or 'the top'} has elements ({item}) that take no bytes: a value"
                " could claim any number of them"
            )
        return AvroNode(kind="array", arrow_type=list_of(item.arrow_type), min_bytes=1, items=item)

    def _union(self, found: list[Any], *, within: tuple[str, ...], path: str, depth: int) -> AvroNode:
        branches = tuple(self.node(one, within=within, path=path, depth=depth + 1) for one in found)
        values = tuple(branch for branch in branches if branch.kind != "null")
        if not values:
            raise InvalidSchemaError(f"the Avro union at {path.lstrip('.') or 'the top'} has no branch except null")
        if any(branch.kind == "union" for branch in branches):
            raise InvalidSchemaError(
                f"the Avro union at {path.lstrip('.') or 'the top'} directly contains another union"
            )
        # A rule of the specification: a reader could not distinguish them.
        _refuse_repeated(
            f"the Avro union at {path.lstrip('.') or 'the top'} has the branches",
            [branch.name or branch.kind for branch in branches],
        )
        return AvroNode(kind="union", arrow_type=_union_type(values), min_bytes=1, branches=branches)


def _refuse_repeated(where: str, names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InvalidSchemaError(f"{where} {', '.join(map(repr, repeated))} twice")


def _union_type(values: tuple[AvroNode, ...]) -> Any:
    if len(values) == 1:
        return values[0].arrow_type
    if is_number_union(values):
        return pa.int64() if values[0].kind in ("int", "long") else pa.float64()
    return pa.struct([pa.field(f"member{place}", branch.arrow_type) for place, branch in enumerate(values)])


def _primitive(kind: str, found: Mapping[str, Any]) -> AvroNode:
    min_bytes = {"null": 0, "float": 4, "double": 8}.get(kind, 1)
    logical = found.get("logicalType")
    if kind == "bytes" and logical == "decimal":
        return AvroNode(kind=kind, arrow_type=_decimal(found), min_bytes=min_bytes, logical="decimal")
    if isinstance(logical, str) and (kind, logical) in _LOGICAL:
        return AvroNode(kind=kind, arrow_type=_LOGICAL[kind, logical], min_bytes=min_bytes, logical=logical)
    return AvroNode(kind=kind, arrow_type=_PRIMITIVES[kind], min_bytes=min_bytes)


def _fixed(found: Mapping[str, Any]) -> AvroNode:
    size = found["size"]
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise InvalidSchemaError(f"the Avro fixed {found['name']} has the size {size!r}")
    is_decimal = found.get("logicalType") == "decimal"
    return AvroNode(
        kind="fixed",
        arrow_type=_decimal(found) if is_decimal else pa.binary(),
        min_bytes=size,
        logical="decimal" if is_decimal else None,
        name=found["name"],
        aliases=_aliases(found),
        size=size,
    )


def _decimal(found: Mapping[str, Any]) -> Any:
    precision, scale = found.get("precision"), found.get("scale", 0)
    if not isinstance(precision, int) or not 1 <= precision <= MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise InvalidSchemaError(
            f"the Avro decimal({precision}, {scale}) does not exist in Spark, which allows at most "
            f"{MAX_DECIMAL_PRECISION} digits"
        )
    return pa.decimal128(precision, scale)


def _aliases(found: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(found.get("aliases", ()))
